// Attention by tensor memory: attention.cpp runs it, and tensor_memory.cpp with faults. Whoever includes this
// has the kernel of latent decode in `latent_sm100`.
#pragma once
#include "attention_check.h"

namespace {

// By a kernel of so many threads that takes so many queries and loads by tensor maps of so many keys.
// `launch(p, q, k, v)` runs it.
template <class T, class O, class Launch>
void run_with_maps(const char* name, u32 keys, u32 queries, Roundoff roundoff, const Shape& shape,
                   Launch launch) {
  Attention<T, T, O> attention(name, shape);
  const AttentionParams& p = attention.params;
  const auto map = [](auto& bytes, u32 columns, u32 rows, u32 box) {
    return TensorMap{reinterpret_cast<u8*>(bytes.data()), sizeof(T), columns, rows,
                     {128 / sizeof(T), box}};
  };
  launch(p, map(attention.q, p.heads * p.dim_qk, p.query_tokens, queries),
         map(attention.k, p.kv_heads * p.dim_qk, p.key_tokens, keys),
         map(attention.v, p.kv_heads * p.dim_v, p.key_tokens, keys));
  attention.check(roundoff);
}

using ByMaps = void (*)(AttentionParams, TensorMap, TensorMap, TensorMap);

// With a block for each tile of `queries` queries, each by its own tensor map of half as many.
template <class T, class O>
void run_by_maps(const char* name, ByMaps kernel, u32 shared, Roundoff roundoff, const Shape& shape,
                 u32 threads, u32 queries) {
  run_with_maps<T, O>(name, 128, 128, roundoff, shape, [&](const AttentionParams& p, auto... maps) {
    const u32 tiles = (p.queries + queries - 1) / queries * p.heads * p.batch;
    model::launch(tiles, threads, shared, [&] { kernel(p, maps...); });
  });
}

// Prefill: lengths that no tile divides, rows that see no key, windows, scores that rise far.
template <class T, class O>
void prefill_100(const char* name, ByMaps kernel, u32 shared, Roundoff roundoff, u32 dim_qk, u32 dim_v) {
  const auto by = [&](const Shape& shape) {
    run_by_maps<T, O>(name, kernel, shared, roundoff, shape, 512, 256);
  };
  by({2, 1, dim_qk, dim_v, 1, 0, {{300, 300}, {1, 1}, {140, 433}, {3, 0}, {200, 60}, {9, 1300}}});
  by({2, 2, dim_qk, dim_v, 0, 0, {{5, 97}, {130, 400}}, 30.0f});
  by(random_shape(dim_qk, dim_v, 140, 200, Keys::IN_ONE_PIECE));
  by(with_window({2, 1, dim_qk, dim_v, 1, 0, {{300, 600}, {1, 1}, {200, 60}}}, 128));
  by(windowed(random_shape(dim_qk, dim_v, 300, 500, Keys::IN_ONE_PIECE)));
}

// A kernel that loads keys by a map as well, in boxes of KEYS keys, whose elements have BYTES bytes.
template <void (*ENTRY)(AttentionParams, TensorMap), u32 KEYS = 64, u32 BYTES = 2>
void by_map(const AttentionParams p) {
  ENTRY(p, TensorMap{static_cast<u8*>(const_cast<void*>(p.k)), BYTES, p.kv_heads * p.dim_qk,
                     p.key_tokens, {128 / BYTES, KEYS}});
}

// By a kernel that follows a schedule, twice, in pairs of blocks that run at once, each pair a worker.
template <class Q, class C>
void run_pairs(const char* name, Kernel kernel, u32 threads, u32 shared, Roundoff roundoff, u32 piece,
               const Shape& shape) {
  Attention<Q, C, Q> attention(name, shape);
  attention.deal(5, piece, 2);
  for (u32 i = 0; i < 2; i++) {
    memset(static_cast<void*>(attention.o.data()), 0xff, attention.o.size() * 16);
    model::launch(4, threads, shared, [&] { kernel(attention.params); }, 2);
    attention.check(roundoff);
  }
}

// By tensor memory: more rows than one block of a pair has, and than both have; none in the second.
template <class Q, class C>
void latent_100(const char* name, Kernel kernel, Roundoff roundoff) {
  using Made = latent_sm100::Latent100<C>;
  const auto by = [&](u32 piece, const Shape& shape) {
    run_pairs<Q, C>(name, kernel, 288, Made::SHARED_BYTES, roundoff, piece, shape);
  };
  by(192, {16, 1, 576, 512, 0, 16, {{1, 77}, {1, 1}, {1, 0}, {1, 250}}, 1.0f, true});
  by(128, {128, 1, 576, 512, 0, 64, {{1, 64}, {1, 321}}, 1.0f, true});
  by(64, {67, 1, 576, 512, 1, 0, {{2, 131}, {3, 2}}, 10.0f, true});
  // Keys beside those of another head.
  by(64, {6, 2, 576, 512, 0, 64, {{1, 150}}, 1.0f, true});
  // Many tiles of a part, whose scores rise far, by rows and by boxes.
  by(640, {9, 1, 576, 512, 0, 16, {{1, 700}, {3, 399}}, 40.0f, true});
  by(640, {70, 1, 576, 512, 0, 64, {{1, 661}}, 40.0f, true});
  by(64, {5, 1, 576, 512, 1, 128, {{1, 590}, {2, 130}}, 3.0f, true});
  by(64, {3, 1, 576, 512, 1, 1, {{1, 580}}, 3.0f, true});
  by(128 * (1 + random_below(2)), random_latent_shape());
  for (u32 page : {0u, 16u, 64u}) {
    by(64, with_window({30, 1, 576, 512, 1, page, {{3, 190}, {2, 40}}, 1.0f, true}, 70));
  }
  by(64, with_chunks({4, 1, 576, 512, 1, 128, {{2, 190}, {3, 40}}, 1.0f, true}, 50));
  by(64, windowed(random_latent_shape()));
}

}  // namespace
