// Attention as it is defined, in f64, and what a kernel left beside it. Who includes it has declared
// how an f32 is narrowed to the elements it fills operands with.
#pragma once
#include "attention_parts.h"
#include "banks.h"
#include "gpu.h"
#include "params.h"

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

struct Shape {
  u32 heads, kv_heads, dim_qk, dim_v, causal, page;
  // Queries and keys of each sequence.
  std::vector<std::pair<u32, u32>> sequences;
  // Scores are so many times as large as usual.
  f32 spread = 1.0f;
  // V is a part of K.
  bool latent = false;
  // Contents of which every key shows that is lost or taken twice, as the program plants them
  // (crates/bench/src/attention/planted.rs): whole numbers over a count.
  bool planted = false;
  // Causal: keys that a query sees at most; tokens of a chunk (AttentionParams).
  u32 window = 0, chunk = 0;
};

// A shape that nobody chose, small enough to be done in no time: sequences of any length, with fewer
// queries than keys or more, one that has none now and then; `together` says how many heads may share
// keys, and whether keys may stand in pages.
enum class Keys { IN_ONE_PIECE, ANYWHERE };
Shape random_shape(u32 dim_qk, u32 dim_v, u32 queries_most, u32 keys_most, Keys where) {
  Shape shape = {};
  shape.kv_heads = 1 + random_below(2);
  shape.heads = shape.kv_heads * (1 + random_below(3));
  shape.dim_qk = dim_qk;
  shape.dim_v = dim_v;
  shape.causal = random_below(2);
  const u32 pages[] = {0, 1, 7, 16, 64};
  shape.page = where == Keys::ANYWHERE ? pages[random_below(5)] : 0;
  for (u32 left = 1 + random_below(2); left > 0; left--) {
    const u32 queries = 1 + random_below(queries_most);
    shape.sequences.push_back({queries, random_below(8) == 0 ? 0 : 1 + random_below(keys_most)});
  }
  shape.planted = random_below(2) == 1;
  if (!shape.planted) shape.spread = f32(1 + random_below(20));
  return shape;
}
// The same with a window or chunks of any length, some of them longer than all keys.
Shape windowed(Shape shape) {
  u32 keys = 0;
  for (const auto& sequence : shape.sequences) keys = larger(keys, sequence.second);
  shape.causal = 1;
  (random_below(2) == 0 ? shape.window : shape.chunk) = 1 + random_below(keys + keys / 8 + 1);
  return shape;
}
// A shape with windows, and one with chunks, of so many keys.
Shape with_window(Shape shape, u32 keys) {
  shape.causal = 1;
  shape.window = keys;
  return shape;
}
Shape with_chunks(Shape shape, u32 keys) {
  shape.causal = 1;
  shape.chunk = keys;
  return shape;
}
Shape random_latent_shape() {
  Shape shape = random_shape(576, 512, 2, 80, Keys::ANYWHERE);
  shape.heads = 1 + random_below(35);
  shape.kv_heads = 1;
  shape.latent = true;
  return shape;
}

// How far rounding may take a weight before it is multiplied, and the output.
// `least`: of a weight however small, relative to the largest.
struct Roundoff { f64 weights, output, least = 0.0; };

// A schedule that the program made, for workers of so many blocks.
struct Dealt {
  std::vector<AttentionPart> parts;
  std::vector<u32> firsts;
  u32 slots, blocks;
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
    model::has_64_banks = strstr(name, "cdna4") != nullptr;
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
    if (shape.planted) plant();
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
    params.window = shape.window;
    params.chunk = shape.chunk;
    params.scale = 1.0f / std::sqrt(f32(shape.dim_qk));
    params.query_tokens = query_tokens;
    params.key_tokens = key_tokens;
  }

  void plant() {
    const u32 last = shape.dim_qk - 1;
    for (u64 i = 0; i < u64(query_tokens) * shape.heads * shape.dim_qk; i++) {
      of<Q>(q)[i] = narrow(i % shape.dim_qk == last ? 256.0f : 0.0f, Q());
    }
    const f32 small[] = {-2.0f, -1.0f, 1.0f, 2.0f};
    for (u64 i = 0; i < u64(key_tokens) * shape.kv_heads * shape.dim_qk; i++) {
      const f32 scored = random_below(2) == 0 ? 0.0f : -256.0f;
      of<C>(k)[i] = narrow(i % shape.dim_qk == last ? scored : small[random_below(4)], C());
    }
    if (shape.latent) return;
    for (u64 i = 0; i < u64(key_tokens) * shape.kv_heads * shape.dim_v; i++) {
      of<C>(v)[i] = narrow(small[random_below(4)], C());
    }
  }

  // By the definition of the mask: whether a query of a sequence sees one of its keys.
  bool sees(const AttentionSequence& sequence, u32 query, u32 key) const {
    if (shape.causal == 0) return true;
    if (key + sequence.queries > sequence.keys + query) return false;
    const u32 at = sequence.keys + query - sequence.queries;
    if (shape.window != 0) return at - key < shape.window;
    return shape.chunk == 0 || key / shape.chunk == at / shape.chunk;
  }
  // The first key that it sees; 0 where it sees none.
  u32 first_key(const AttentionSequence& sequence, u32 query) const {
    for (u32 key = 0; key < sequence.keys; key++) {
      if (sees(sequence, query, key)) return key;
    }
    return 0;
  }

  // Deals the keys of every sequence and head to workers, in pieces of so many at most. (That the
  // program's own schedule deals each key once is tested with it.) Of a worker of several blocks each
  // has 64 rows of a part, whose slots follow those of the rows before.
  void deal(u32 workers, u32 piece, u32 blocks = 1) {
    const u32 group = shape.heads / shape.kv_heads;
    u32 slots = 0;
    std::vector<std::vector<AttentionPart>> of(workers);
    u32 turn = 0;
    for (u32 number = 0; number < sequences.size(); number++) {
      const AttentionSequence& sequence = sequences[number];
      for (u32 head = 0; head < shape.kv_heads; head++) {
        for (u32 row = 0; row < sequence.queries * group; row += 64 * blocks) {
          const u32 start = first_key(sequence, row / group), keys = sequence.keys - start;
          const u32 count = larger(1u, (keys + piece - 1) / piece);
          for (u32 i = 0; i < count; i++) {
            of[turn++ % workers].push_back({number, head, row, start + i * piece,
                                            start + smaller((i + 1) * piece, keys), slots + i,
                                            slots, count});
          }
          const u32 sets = (sequence.queries * group - row + 63) / 64;
          slots += count * smaller(sets, blocks);
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

  // Every 16 bytes of every sequence's keys, from the first that the rows of a part see, were copied
  // once for each `at_once` of the rows that share them, at most 64 in a part, or 128 where two blocks
  // share it; nothing else was. Latent values may be copied apart from keys.
  void check_visits(u32 at_once, bool values_apart = false) {
    const u32 rows_most = larger(64, at_once), apart = values_apart ? shape.dim_v * sizeof(C) / 16 : 0;
    const u32 chunks = shape.dim_qk * sizeof(C) / 16, group = shape.heads / shape.kv_heads;
    std::vector<u32> wanted(model::visited.times.size(), 0);
    for (const AttentionSequence& sequence : sequences) {
      for (u32 row = 0; row < sequence.queries * group; row += rows_most) {
        const u32 times = (smaller(rows_most, sequence.queries * group - row) + at_once - 1) / at_once;
        for (u32 key = first_key(sequence, row / group); key < sequence.keys; key++) {
          for (u32 head = 0; head < shape.kv_heads; head++) {
            const u64 at = key_token(params, sequence, key) * shape.kv_heads + head;
            for (u32 chunk = 0; chunk < chunks; chunk++) {
              wanted[at * chunks + chunk] += chunk < apart ? 2 * times : times;
            }
          }
        }
      }
    }
    if (model::visited.times == wanted) return;
    printf("fault: %s: keys are not visited once\n", name);
    exit(1);
  }

  // One row of the output by the definition, against what was left.
  void check_row(const AttentionSequence& sequence, u32 query, u32 head, Roundoff roundoff) {
    const u32 kv_head = head / (shape.heads / shape.kv_heads);
    const u64 row = u64(sequence.query_first + query) * shape.heads + head;
    std::vector<u64> tokens;
    for (u32 key = 0; key < sequence.keys; key++) {
      if (!sees(sequence, query, key)) continue;
      tokens.push_back(key_token(params, sequence, key) * shape.kv_heads + kv_head);
    }
    const u32 seen = u32(tokens.size());
    std::vector<f64> weights(seen);
    f64 largest = -INFINITY, terms_most = 0.0, total = 0.0;
    for (u32 key = 0; key < seen; key++) {
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
      // Of planted contents, `total` is the number of keys that weigh.
      const f64 allowed =
          shape.planted && seen > 0
              ? (roundoff.output + 0x1p-18) * std::fabs(value) + 0.25 / total + 0x1p-25
              : (sums + roundoff.weights) * size + roundoff.output * std::fabs(value) +
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
    // Of the same name there are kernels for several heads.
    char dims[32];
    snprintf(dims, sizeof dims, "/%ux%u", shape.dim_qk, shape.dim_v);
    model::count_for((std::string(name) + dims).c_str());
    checked++;
    printf("%s: %u x %u, %u sequences, %u of %u heads%s%s%s%s%s\n", name, shape.dim_qk,
           shape.dim_v, params.batch, shape.kv_heads, shape.heads, shape.causal ? ", causal" : "",
           shape.window ? ", a window" : "", shape.chunk ? ", chunks" : "",
           shape.page ? ", in pages" : "", shape.planted ? ", planted" : "");
  }
};

u32 number(FILE* file) {
  u32 read = 0;
  if (fscanf(file, "%u", &read) != 1) model::fail("a schedule that ends early");
  return read;
}

// Schedules as tests/kernel_arithmetic.rs writes what the program made: numbers in this order.
// `follow` has kernels follow each.
template <class Follow> void schedules(const char* path, Follow follow) {
  FILE* file = fopen(path, "r");
  if (file == nullptr) model::fail("no file of schedules");
  for (u32 left = number(file); left > 0; left--) {
    Shape shape = {};
    shape.heads = number(file);
    shape.kv_heads = number(file);
    shape.page = number(file);
    shape.window = number(file);
    shape.chunk = number(file);
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
    dealt.blocks = number(file);
    follow(shape, dealt);
  }
  fclose(file);
}

// What a kernel's rounding may make of a result.
constexpr Roundoff EXACT = {0.0, 1e-7, 1e-37}, BF16 = {1.0 / 256, 1.0 / 256},
                   F16 = {1.0 / 2048, 1.0 / 2048, 1.0 / (1 << 24)},
                   E4M3 = {1.0 / 16, 1.0 / 256, 1.0 / (1 << 18)},
                   CACHE = {1.0 / 2048, 1.0 / 256, 1.0 / (1 << 24)},
                   TWO_E4M3 = {1.0 / 512, 1.0 / 256, 1.0 / (1 << 18)};

using Kernel = void (*)(AttentionParams);

}  // namespace
