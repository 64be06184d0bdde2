// Attention as it is defined, in f64, and what a kernel left beside it. Who includes it has declared
// how an f32 is narrowed to the elements it fills operands with.
#pragma once
#include "attention_parts.h"
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

}  // namespace
