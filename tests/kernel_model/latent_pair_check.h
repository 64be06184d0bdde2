// Latent decode by tensor memory, whose workers are pairs of blocks: attention.cpp runs it, and
// latent_pair.cpp with faults. Whoever includes this has the kernel in `latent_sm100`.
#pragma once
#include "attention_check.h"

namespace {

using Kernel = void (*)(AttentionParams);

constexpr Roundoff EXACT = {0.0, 1e-7, 1e-37}, F16 = {1.0 / 2048, 1.0 / 2048, 1.0 / (1 << 24)}, BF16 = {1.0 / 256, 1.0 / 256},
                   E4M3 = {1.0 / 16, 1.0 / 256, 1.0 / (1 << 18)},
                   CACHE = {1.0 / 2048, 1.0 / 256, 1.0 / (1 << 24)};

// A kernel that loads keys of 16 bits by a map as well, in boxes of so many.
template <void (*ENTRY)(AttentionParams, TensorMap), u32 KEYS = 64>
void by_map(const AttentionParams p) {
  ENTRY(p, TensorMap{static_cast<u8*>(const_cast<void*>(p.k)), 2, p.kv_heads * p.dim_qk,
                     p.key_tokens, {64, KEYS}});
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
template <class T>
void latent_100(const char* name, Kernel kernel, Roundoff roundoff) {
  using Made = latent_sm100::Latent100<T>;
  const auto by = [&](u32 piece, const Shape& shape) {
    run_pairs<T, T>(name, kernel, 288, Made::SHARED_BYTES, roundoff, piece, shape);
  };
  by(192, {16, 1, 576, 512, 0, 16, {{1, 77}, {1, 1}, {1, 0}, {1, 250}}, 1.0f, true});
  by(128, {128, 1, 576, 512, 0, 64, {{1, 64}, {1, 321}}, 1.0f, true});
  by(64, {67, 1, 576, 512, 1, 0, {{2, 131}, {3, 2}}, 10.0f, true});
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
