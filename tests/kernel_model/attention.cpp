// Runs the kernels of attention on the CPU and compares what they leave with the definition in f64:
// odd lengths, ragged batches, pages in any order, scores of hundreds, rows that see no key. The
// bounds are those of rounding alone: of the weights, the sums and the output.
#include "gpu.h"
#include "sm80.h"
#include "sm89.h"
#include "sm90.h"
#include "sm90_attention.h"
#include "sm100_attention.h"

#include "attention.h"
#include "attention_mma.h"
#include "attention_split.h"
#include "attention_wgmma.h"
#include "params.h"
#include "soft_exponential.h"

namespace portable {
#include "../../kernels/attention/portable.cu"
}
namespace sm80 {
#include "../../kernels/attention/sm80_mma.cu"
}
namespace sm89 {
#include "../../kernels/attention/sm89_mma.cu"
}

namespace split {
#include "../../kernels/attention/sm80_mma_split.cu"
}
namespace latent {
#include "../../kernels/attention/sm80_mma_latent.cu"
}
namespace sm90 {
#include "../../kernels/attention/sm90_wgmma.cu"
}
namespace sm100 {
#include "../../kernels/attention/sm100_tcgen05.cu"
}
namespace split_sm90 {
#include "../../kernels/attention/sm90_wgmma_split.cu"
}
namespace split_sm89 {
#include "../../kernels/attention/sm89_mma_split.cu"
}

namespace {

u32 checked = 0;

u64 random_state = 1;
u32 random_below(u32 end) {
  random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
  return u32((random_state >> 33) % end);
}
// Near normal, with a variance of one.
f32 random_value() {
  f32 sum = 0.0f;
  for (u32 i = 0; i < 4; i++) sum += f32(random_below(1 << 20)) / f32(1 << 20);
  return (sum - 2.0f) * 1.7320508f;
}

u8 narrow(f32 value, u8) { return narrow(value, e4m3()).bits; }

struct Shape {
  u32 heads, kv_heads, dim_qk, dim_v, causal, page;
  // Queries and keys of each sequence.
  std::vector<std::pair<u32, u32>> sequences;
  // Scores are so many times as large as usual.
  f32 spread = 1.0f;
  // V is a part of K.
  bool latent = false;
};

// How far rounding may take a weight before it is multiplied, and the output.
// `least`: of a weight however small, relative to the largest.
struct Roundoff { f64 weights, output, least = 0.0; };

// A schedule that the program made.
struct Dealt {
  std::vector<AttentionPart> parts;
  std::vector<u32> firsts;
  u32 slots;
};

template <class Q, class C, class O> struct Attention {
  const char* name;
  Shape shape;
  std::vector<AttentionSequence> sequences;
  std::vector<u32> pages;
  std::vector<Vector<u8>> q, k, v, o;
  std::vector<AttentionPart> parts;
  std::vector<u32> firsts;
  std::vector<f32> scratch;
  u32 query_tokens = 0, key_tokens = 0;
  AttentionParams params = {};

  template <class T> static T* of(std::vector<Vector<u8>>& bytes) {
    return reinterpret_cast<T*>(bytes.data());
  }
  template <class T> static void fill(std::vector<Vector<u8>>& bytes, u64 count, f32 spread) {
    bytes.resize((count * sizeof(T) + 15) / 16 + 1);
    for (u64 i = 0; i < count; i++) of<T>(bytes)[i] = narrow(random_value() * spread, T());
  }

  Attention(const char* name, const Shape& shape) : name(name), shape(shape) {
    const u32 page = shape.page == 0 ? 1 : shape.page;
    u32 queries_most = 0, keys_most = 0;
    for (auto [queries, keys] : shape.sequences) {
      sequences.push_back({query_tokens, queries, key_tokens, keys});
      query_tokens += queries;
      key_tokens += (keys + page - 1) / page * page;
      queries_most = larger(queries_most, queries);
      keys_most = larger(keys_most, keys);
    }
    for (u32 i = 0; i < key_tokens / page; i++) pages.push_back(i);
    for (u32 i = u32(pages.size()); i > 1; i--) std::swap(pages[i - 1], pages[random_below(i)]);
    fill<Q>(q, u64(query_tokens) * shape.heads * shape.dim_qk, shape.spread);
    fill<C>(k, u64(key_tokens) * shape.kv_heads * shape.dim_qk, 1.0f);
    if (!shape.latent) fill<C>(v, u64(key_tokens) * shape.kv_heads * shape.dim_v, 1.0f);
    // Never written: not a number.
    o.resize(u64(query_tokens) * shape.heads * shape.dim_v * sizeof(O) / 16 + 1);
    memset(static_cast<void*>(o.data()), 0xff, o.size() * 16);
    params.q = q.data();
    params.k = k.data();
    params.v = shape.latent ? nullptr : v.data();
    params.o = o.data();
    params.sequences = sequences.data();
    params.pages = shape.page == 0 ? nullptr : pages.data();
    params.batch = u32(sequences.size());
    params.heads = shape.heads;
    params.kv_heads = shape.kv_heads;
    params.queries = queries_most;
    params.keys = keys_most;
    params.dim_qk = shape.dim_qk;
    params.dim_v = shape.dim_v;
    params.causal = shape.causal;
    params.page = shape.page;
    params.scale = 1.0f / std::sqrt(f32(shape.dim_qk));
    params.query_tokens = query_tokens;
    params.key_tokens = key_tokens;
  }

  // Deals the keys of every sequence and head to workers, in pieces of so many at most. (That the
  // program's own schedule deals each key once is tested with it.)
  void deal(u32 workers, u32 piece) {
    const u32 group = shape.heads / shape.kv_heads;
    u32 slots = 0;
    std::vector<std::vector<AttentionPart>> of(workers);
    u32 turn = 0;
    for (u32 number = 0; number < sequences.size(); number++) {
      const AttentionSequence& sequence = sequences[number];
      for (u32 head = 0; head < shape.kv_heads; head++) {
        for (u32 row = 0; row < sequence.queries * group; row += 64) {
          const u32 count = larger(1u, (sequence.keys + piece - 1) / piece);
          for (u32 i = 0; i < count; i++) {
            of[turn++ % workers].push_back({number, head, row, i * piece,
                                            smaller((i + 1) * piece, sequence.keys),
                                            slots + i, slots, count});
          }
          slots += count;
        }
      }
    }
    firsts = {0};
    for (auto& worker : of) {
      parts.insert(parts.end(), worker.begin(), worker.end());
      firsts.push_back(u32(parts.size()));
    }
    scratch.assign(slots * slot_words(shape.dim_v), NAN);
    for (u32 i = 0; i < slots; i++) {
      memset(&scratch[(i + 1) * slot_words(shape.dim_v) - 16], 0, 64);
    }
    params.parts = parts.data();
    params.part_firsts = firsts.data();
    params.scratch = scratch.data();
    params.workers = workers;
  }

  // Takes what the program's own schedule dealt.
  void take(const Dealt& dealt) {
    parts = dealt.parts;
    firsts = dealt.firsts;
    scratch.assign((dealt.slots + 1) * slot_words(shape.dim_v), NAN);
    for (u32 i = 0; i < dealt.slots; i++) {
      memset(&scratch[(i + 1) * slot_words(shape.dim_v) - 16], 0, 64);
    }
    params.parts = parts.data();
    params.part_firsts = firsts.data();
    params.scratch = scratch.data();
    params.workers = u32(firsts.size()) - 1;
  }

  // Every 16 bytes of every sequence's keys were copied once for each `at_once` of the rows that
  // share them, at most 64 in a part; nothing else was.
  void check_visits(u32 at_once) {
    const u32 chunks = shape.dim_qk * sizeof(C) / 16, group = shape.heads / shape.kv_heads;
    std::vector<u32> wanted(model::visited.times.size(), 0);
    for (const AttentionSequence& sequence : sequences) {
      u32 times = 0;
      for (u32 row = 0; row < sequence.queries * group; row += 64) {
        times += (smaller(64, sequence.queries * group - row) + at_once - 1) / at_once;
      }
      for (u32 key = 0; key < sequence.keys; key++) {
        for (u32 head = 0; head < shape.kv_heads; head++) {
          const u64 row = key_token(params, sequence, key) * shape.kv_heads + head;
          for (u32 chunk = 0; chunk < chunks; chunk++) wanted[row * chunks + chunk] = times;
        }
      }
    }
    if (model::visited.times == wanted) return;
    printf("fault: %s: keys are not visited once\n", name);
    exit(1);
  }

  // One row of the output by the definition, against what was left.
  void check_row(const AttentionSequence& sequence, u32 query, u32 head, Roundoff roundoff) {
    const u32 kv_head = head / (shape.heads / shape.kv_heads), seen = keys_seen(params, sequence, query);
    const u64 row = u64(sequence.query_first + query) * shape.heads + head;
    std::vector<f64> weights(seen);
    std::vector<u64> tokens(seen);
    f64 largest = -INFINITY, terms_most = 0.0, total = 0.0;
    for (u32 key = 0; key < seen; key++) {
      tokens[key] = key_token(params, sequence, key) * shape.kv_heads + kv_head;
      f64 score = 0.0, terms = 0.0;
      for (u32 d = 0; d < shape.dim_qk; d++) {
        const f64 term = f64(widen(of<Q>(q)[row * shape.dim_qk + d])) *
                         f64(widen(of<C>(k)[tokens[key] * shape.dim_qk + d]));
        score += term;
        terms += std::fabs(term);
      }
      weights[key] = score * params.scale;
      largest = std::fmax(largest, weights[key]);
      terms_most = std::fmax(terms_most, terms * params.scale);
    }
    for (f64& weight : weights) total += weight = std::exp(weight - largest);
    for (u32 column = 0; column < shape.dim_v; column++) {
      f64 value = 0.0, size = 0.0, values = 0.0;
      for (u32 key = 0; key < seen; key++) {
        const f64 factor = widen(shape.latent ? of<C>(k)[tokens[key] * shape.dim_qk + column]
                                              : of<C>(v)[tokens[key] * shape.dim_v + column]);
        const f64 term = weights[key] / total * factor;
        values += std::fabs(factor);
        value += term;
        size += std::fabs(term);
      }
      const f64 sums = 2.0 * (shape.dim_qk * terms_most + seen + 16.0) * 6e-8 + 1e-6;
      const f64 allowed = (sums + roundoff.weights) * size + roundoff.output * std::fabs(value) +
                          roundoff.least * values;
      const f64 found = widen(of<O>(o)[row * shape.dim_v + column]);
      if (std::fabs(found - value) <= allowed) continue;
      printf("fault: %s: query %u of %u, head %u, column %u of %u keys: %g, not %g +- %g\n", name,
             query, sequence.queries, head, column, sequence.keys, found, value, allowed);
      exit(1);
    }
  }

  void check(Roundoff roundoff) {
    for (const AttentionSequence& sequence : sequences) {
      for (u32 query = 0; query < sequence.queries; query++) {
        for (u32 head = 0; head < shape.heads; head++) check_row(sequence, query, head, roundoff);
      }
    }
    if (model::bank_conflicts != 0) {
      printf("fault: %s: %llu bank conflicts\n", name, model::bank_conflicts);
      exit(1);
    }
    checked++;
    printf("%s: %u sequences, %u of %u heads, %u x %u%s%s\n", name, params.batch, shape.kv_heads,
           shape.heads, shape.dim_qk, shape.dim_v, shape.causal ? ", causal" : "",
           shape.page ? ", in pages" : "");
  }
};

using Kernel = void (*)(AttentionParams);

template <class Q, class C, class O>
void run(const char* name, Kernel kernel, u32 blocks, u32 shared, Roundoff roundoff,
         const Shape& shape) {
  Attention<Q, C, O> attention(name, shape);
  model::launch(blocks, 128, shared, [&] { kernel(attention.params); });
  attention.check(roundoff);
}

// By a kernel that follows a schedule, twice: what a launch leaves in scratch memory serves the next.
template <class Q, class C>
void run_split(const char* name, Kernel kernel, u32 threads, u32 shared, Roundoff roundoff,
               u32 piece, const Shape& shape) {
  Attention<Q, C, Q> attention(name, shape);
  attention.deal(5, piece);
  for (u32 i = 0; i < 2; i++) {
    memset(static_cast<void*>(attention.o.data()), 0xff, attention.o.size() * 16);
    model::launch(3, threads, shared, [&] { kernel(attention.params); });
    attention.check(roundoff);
  }
}

// By a kernel that follows the program's own schedule and makes so many rows of a part at once.
template <class Q, class C>
void run_dealt(const char* name, Kernel kernel, u32 threads, u32 shared, Roundoff roundoff,
               u32 at_once, const Shape& shape, const Dealt& dealt) {
  Attention<Q, C, Q> attention(name, shape);
  attention.take(dealt);
  const u64 bytes = u64(attention.key_tokens) * shape.kv_heads * shape.dim_qk * sizeof(C);
  model::visited = {reinterpret_cast<const u8*>(attention.k.data()),
                    std::vector<u32>(bytes / 16, 0)};
  model::launch(3, threads, shared, [&] { kernel(attention.params); });
  attention.check_visits(at_once);
  model::visited = {};
  attention.check(roundoff);
}

using ByMaps = void (*)(AttentionParams, TensorMap, TensorMap, TensorMap);

// By a kernel of so many threads that takes so many queries and loads by tensor maps of so many keys.
template <class T, class O = T>
void run_by_maps(const char* name, ByMaps kernel, u32 shared, u32 keys, Roundoff roundoff,
                 const Shape& shape, u32 threads = 384, u32 queries = 128) {
  Attention<T, T, O> attention(name, shape);
  const AttentionParams& p = attention.params;
  const auto map = [](auto& bytes, u32 columns, u32 rows, u32 box) {
    return TensorMap{reinterpret_cast<u8*>(bytes.data()), sizeof(T), columns, rows,
                     {128 / sizeof(T), box}};
  };
  const TensorMap q = map(attention.q, p.heads * p.dim_qk, p.query_tokens, 128);
  const TensorMap k = map(attention.k, p.kv_heads * p.dim_qk, p.key_tokens, keys);
  const TensorMap v = map(attention.v, p.kv_heads * p.dim_v, p.key_tokens, keys);
  const u32 tiles = (p.queries + queries - 1) / queries * p.heads * p.batch;
  model::launch(tiles, threads, shared, [&] { kernel(p, q, k, v); });
  attention.check(roundoff);
}

constexpr Roundoff EXACT = {0.0, 1e-7, 1e-37}, F16 = {1.0 / 2048, 1.0 / 2048, 1.0 / (1 << 24)}, BF16 = {1.0 / 256, 1.0 / 256},
                   E4M3 = {1.0 / 16, 1.0 / 256, 1.0 / (1 << 18)},
                   CACHE = {1.0 / 2048, 1.0 / 256, 1.0 / (1 << 24)};

// Odd lengths; a sequence of one key; queries before all keys, which see none.
const std::vector<std::pair<u32, u32>> ODD = {{5, 70}, {1, 1}, {37, 33}, {3, 0}};

void portables() {
  run<f32, f32, f32>("attention/f32/portable", portable::attention_f32, 3, 0, EXACT,
                     {4, 2, 24, 17, 1, 0, ODD});
  run<f32, f32, f32>("attention/f32/portable", portable::attention_f32, 2, 0, EXACT,
                     {3, 1, 40, 130, 0, 16, ODD, 40.0f});
  run<f16, f16, f16>("attention/f16/portable", portable::attention_f16, 2, 0, {0.0, 1.0 / 2048},
                     {4, 4, 64, 64, 1, 7, ODD});
  run<bf16, bf16, bf16>("attention/bf16/portable", portable::attention_bf16, 3, 0, {0.0, 1.0 / 256},
                        {16, 1, 576, 512, 0, 0, {{1, 50}, {2, 3}}, 1.0f, true});
  run<u8, u8, bf16>("attention/fp8/portable", portable::attention_fp8, 1, 0, {0.0, 1.0 / 256},
                    {2, 1, 64, 64, 1, 0, ODD});
  run<bf16, u8, bf16>("attention/fp8/portable (cache)", portable::attention_fp8_cache, 1, 0,
                      {0.0, 1.0 / 256}, {8, 2, 128, 128, 0, 16, {{1, 77}, {1, 200}}});
}

#define PREFILL(IN, Q, O, ROUNDOFF, FAMILY, DIM_QK, DIM_V, DOWN, KEYS)                             \
  run<Q, Q, O>("attention/prefill/" #IN "/" #FAMILY, FAMILY::attention_prefill_##IN##_##DIM_QK##_mma, \
               5, Prefill<P_##IN, DIM_QK, DIM_V, DOWN, KEYS>::SHARED_BYTES, ROUNDOFF,               \
               {2, 1, DIM_QK, DIM_V, 1, 0, {{130, 130}, {1, 1}, {70, 33}, {3, 0}}});                \
  run<Q, Q, O>("attention/prefill/" #IN "/" #FAMILY, FAMILY::attention_prefill_##IN##_##DIM_QK##_mma, \
               2, Prefill<P_##IN, DIM_QK, DIM_V, DOWN, KEYS>::SHARED_BYTES, ROUNDOFF,               \
               {2, 2, DIM_QK, DIM_V, 0, 16, {{5, 97}, {66, 64}}, 30.0f})

using P_bf16 = bf16;
using P_f16 = f16;
using P_fp8 = e4m3;

void prefills() {
  PREFILL(bf16, bf16, bf16, BF16, sm80, 64, 64, 2, 64);
  PREFILL(bf16, bf16, bf16, BF16, sm80, 128, 128, 2, 32);
  PREFILL(bf16, bf16, bf16, BF16, sm80, 192, 128, 1, 32);
  PREFILL(bf16, bf16, bf16, BF16, sm80, 256, 256, 1, 32);
  PREFILL(f16, f16, f16, F16, sm80, 64, 64, 2, 64);
  PREFILL(f16, f16, f16, F16, sm80, 128, 128, 2, 32);
  PREFILL(f16, f16, f16, F16, sm80, 192, 128, 1, 32);
  PREFILL(f16, f16, f16, F16, sm80, 256, 256, 1, 32);
  PREFILL(fp8, u8, bf16, E4M3, sm89, 64, 64, 2, 64);
  PREFILL(fp8, u8, bf16, E4M3, sm89, 128, 128, 2, 32);
  PREFILL(fp8, u8, bf16, E4M3, sm89, 256, 256, 1, 32);
}

#define SPLIT(NAME, FAMILY, IN, CACHE, MATRIX, C, ROUNDOFF, DIM)                                   \
  run_split<IN, C>("attention/decode/" NAME, FAMILY::attention_decode_##CACHE##_##DIM##_mma, 128,  \
                   Split<IN, MATRIX, P_##CACHE, DIM>::SHARED_BYTES, ROUNDOFF, 128,                 \
                   {8, 1, DIM, DIM, 0, 16, {{1, 77}, {1, 200}, {1, 1}, {1, 0}, {1, 419}}});        \
  run_split<IN, C>("attention/decode/" NAME, FAMILY::attention_decode_##CACHE##_##DIM##_mma, 128,  \
                   Split<IN, MATRIX, P_##CACHE, DIM>::SHARED_BYTES, ROUNDOFF, 192,                 \
                   {6, 2, DIM, DIM, 1, 0, {{7, 131}, {24, 11}, {3, 500}}, 20.0f})

void splits() {
  SPLIT("bf16/sm80_mma", split, bf16, bf16, bf16, bf16, BF16, 64);
  SPLIT("bf16/sm80_mma", split, bf16, bf16, bf16, bf16, BF16, 128);
  SPLIT("f16/sm80_mma", split, f16, f16, f16, f16, F16, 64);
  SPLIT("f16/sm80_mma", split, f16, f16, f16, f16, F16, 128);
  SPLIT("fp8/sm89_mma", split_sm89, bf16, fp8, f16, u8, CACHE, 64);
  SPLIT("fp8/sm89_mma", split_sm89, bf16, fp8, f16, u8, CACHE, 128);
}

#define SPLIT_90(NAME, IN, CACHE, C, M, E, ROUNDOFF)                                               \
  run_split<IN, C>("attention/decode/" NAME "/sm90_wgmma",                                         \
                   split_sm90::attention_decode_##CACHE##_128_wgmma, 384,                          \
                   split_sm90::Split90<IN, M, E>::SHARED_BYTES, ROUNDOFF, 128,                     \
                   {8, 1, 128, 128, 0, 16, {{1, 77}, {1, 200}, {1, 1}, {1, 0}, {1, 419}}});        \
  run_split<IN, C>("attention/decode/" NAME "/sm90_wgmma",                                         \
                   split_sm90::attention_decode_##CACHE##_128_wgmma, 384,                          \
                   split_sm90::Split90<IN, M, E>::SHARED_BYTES, ROUNDOFF, 320,                     \
                   {6, 2, 128, 128, 1, 0, {{7, 131}, {24, 11}, {3, 700}}, 20.0f})

void splits_by_warpgroups() {
  SPLIT_90("bf16", bf16, bf16, bf16, bf16, bf16, BF16);
  SPLIT_90("f16", f16, f16, f16, f16, f16, F16);
  SPLIT_90("fp8", bf16, fp8, u8, f16, e4m3, CACHE);
}

#define LATENT(IN, ROUNDOFF)                                                                       \
  run_split<IN, IN>("attention/mla/" #IN "/sm80_mma", latent::attention_mla_##IN##_mma, 256,       \
                    162560, ROUNDOFF, 64,                                                          \
                    {16, 1, 576, 512, 0, 16, {{1, 77}, {1, 1}, {1, 0}, {1, 150}}, 1.0f, true});    \
  run_split<IN, IN>("attention/mla/" #IN "/sm80_mma", latent::attention_mla_##IN##_mma, 256,       \
                    162560, ROUNDOFF, 128,                                                         \
                    {40, 1, 576, 512, 1, 0, {{2, 131}, {3, 2}}, 10.0f, true})

void latents() {
  LATENT(bf16, BF16);
  LATENT(f16, F16);
}

// All kernels that follow a schedule, by one that the program made.
void follow(Shape shape, const Dealt& dealt) {
  shape.dim_qk = shape.dim_v = 128;
  run_dealt<bf16, bf16>("schedule/bf16/sm80_mma", split::attention_decode_bf16_128_mma, 128, 98304,
                        BF16, 16, shape, dealt);
  run_dealt<bf16, u8>("schedule/fp8/sm89_mma", split_sm89::attention_decode_fp8_128_mma, 128, 98304,
                      CACHE, 16, shape, dealt);
  run_dealt<bf16, bf16>("schedule/bf16/sm90_wgmma", split_sm90::attention_decode_bf16_128_wgmma,
                        384, split_sm90::Split90<bf16, bf16, bf16>::SHARED_BYTES, BF16, 64, shape,
                        dealt);
  run_dealt<bf16, u8>("schedule/fp8/sm90_wgmma", split_sm90::attention_decode_fp8_128_wgmma, 384,
                      split_sm90::Split90<bf16, f16, e4m3>::SHARED_BYTES, CACHE, 64, shape, dealt);
  shape.dim_qk = 576;
  shape.dim_v = 512;
  shape.latent = true;
  run_dealt<bf16, bf16>("schedule/mla/bf16/sm80_mma", latent::attention_mla_bf16_mma, 256, 162560,
                        BF16, 64, shape, dealt);
}

#define BY_MAPS(IN, T, O, ROUNDOFF, DIM_QK, DIM_V, KEYS)                                          \
  run_by_maps<T, O>("attention/prefill/" #IN "/sm90_wgmma",                                          \
                  sm90::attention_prefill_##IN##_##DIM_QK##_wgmma,                                 \
                  sm90::Prefill90<P_##IN, DIM_QK, DIM_V, KEYS>::SHARED_BYTES, KEYS, ROUNDOFF,          \
                  {2, 1, DIM_QK, DIM_V, 1, 0, {{131, 131}, {1, 1}, {70, 433}, {3, 0}, {37, 5}}});  \
  run_by_maps<T, O>("attention/prefill/" #IN "/sm90_wgmma",                                          \
                  sm90::attention_prefill_##IN##_##DIM_QK##_wgmma,                                 \
                  sm90::Prefill90<P_##IN, DIM_QK, DIM_V, KEYS>::SHARED_BYTES, KEYS, ROUNDOFF,          \
                  {2, 2, DIM_QK, DIM_V, 0, 0, {{5, 97}, {66, 300}}, 30.0f})

void by_maps() {
  BY_MAPS(bf16, bf16, bf16, BF16, 64, 64, 128);
  BY_MAPS(bf16, bf16, bf16, BF16, 128, 128, 128);
  BY_MAPS(bf16, bf16, bf16, BF16, 192, 128, 128);
  BY_MAPS(bf16, bf16, bf16, BF16, 256, 256, 64);
  BY_MAPS(f16, f16, f16, F16, 128, 128, 128);
  BY_MAPS(fp8, u8, bf16, CACHE, 128, 128, 128);
  BY_MAPS(fp8, u8, bf16, CACHE, 256, 256, 64);
}

u32 number(FILE* file) {
  u32 read = 0;
  if (fscanf(file, "%u", &read) != 1) model::fail("a schedule that ends early");
  return read;
}

// Schedules as tests/kernel_arithmetic.rs writes what the program made: numbers in this order.
void schedules(const char* path) {
  FILE* file = fopen(path, "r");
  if (file == nullptr) model::fail("no file of schedules");
  for (u32 left = number(file); left > 0; left--) {
    Shape shape = {};
    shape.heads = number(file);
    shape.kv_heads = number(file);
    shape.page = number(file);
    shape.causal = 1;
    for (u32 count = number(file); count > 0; count--) {
      const u32 queries = number(file);
      shape.sequences.push_back({queries, number(file)});
    }
    Dealt dealt = {};
    for (u32 count = number(file); count > 0; count--) {
      u32 of[8];
      for (u32& field : of) field = number(file);
      dealt.parts.push_back({of[0], of[1], of[2], of[3], of[4], of[5], of[6], of[7]});
    }
    for (u32 count = number(file); count > 0; count--) dealt.firsts.push_back(number(file));
    dealt.slots = number(file);
    follow(shape, dealt);
  }
  fclose(file);
}

// Tiles of queries that are not there, that see no key, that see fewer than the other.
void by_tensor_memory() {
#define BY_TENSOR_MEMORY(IN, ROUNDOFF)                                                             \
  run_by_maps<IN>("attention/prefill/" #IN "/sm100_tcgen05",                                       \
                  sm100::attention_prefill_##IN##_128_tcgen05, 196608, 128, ROUNDOFF,              \
                  {2, 1, 128, 128, 1, 0, {{300, 300}, {1, 1}, {140, 433}, {3, 0}, {200, 60}}},     \
                  512, 256);                                                                       \
  run_by_maps<IN>("attention/prefill/" #IN "/sm100_tcgen05",                                       \
                  sm100::attention_prefill_##IN##_128_tcgen05, 196608, 128, ROUNDOFF,              \
                  {2, 2, 128, 128, 0, 0, {{5, 97}, {130, 400}}, 30.0f}, 512, 256)
  BY_TENSOR_MEMORY(bf16, BF16);
  BY_TENSOR_MEMORY(f16, F16);
}

// The exponential without its unit, against the definition: all fractions, all exponents that
// weights have, and what becomes zero.
void soft_exponentials() {
  f64 worst = 0.0;
  for (i32 i = -125 * 4096; i <= 8 * 4096; i++) {
    const f64 x = i / 4096.0, wanted = std::exp2(x);
    worst = std::fmax(worst, std::fabs(soft_power_of_two(f32(x)) - wanted) / wanted);
  }
  const f32 none = soft_power_of_two(-INFINITY), little = soft_power_of_two(-130.0f);
  if (worst > 9e-5 || worst < 1e-6 || none != 0.0f || little != 0.0f) {
    printf("fault: 2^x is off by %g of itself, 2^-infinity is %g, 2^-130 %g\n", worst, none, little);
    exit(1);
  }
  checked++;
  printf("2^x without its unit is off by %g of itself at most\n", worst);
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 2 && strcmp(arguments[1], "--schedules") == 0) {
    schedules(arguments[2]);
    printf("%u checks passed\n", checked);
    return 0;
  }
  model::planted = count > 1 && strcmp(arguments[1], "--planted") == 0;
  prefills();
  by_maps();
  by_tensor_memory();
  soft_exponentials();
  splits();
  splits_by_warpgroups();
  latents();
  portables();
  printf("%u checks passed\n", checked);
}
