// Multiplication of fragments that never leave the registers: the peaks of AMD's matrix units. Of
// ones each sum counts its multiply-adds.
#pragma once
#include "count.h"
#include "lane_fragments.h"

namespace {

CONSTANT u32 THREADS = 256;
// Independent sums of a wave: with a wave for each SIMD of CDNA, two of RDNA, enough to hide the
// latency of 4 to 16 passes.
CONSTANT u32 CHAINS = 8;

// The word of an operand that is all ones, by its place.
template <class T> DEVICE u32 one(u32, bf16) { return 0x3f803f80; }
template <class T> DEVICE u32 one(u32, f16) { return 0x3c003c00; }
template <class T> DEVICE u32 one(u32, tf32) { return 0x3f800000; }
template <class T> DEVICE u32 one(u32, f32) { return 0x3f800000; }
template <class T> DEVICE u32 one(u32, i8) { return 0x01010101; }
template <class T> DEVICE u32 one(u32 word, f64) { return word % 2 == 1 ? 0x3ff00000 : 0; }
template <class T> DEVICE u32 one(u32, e4m3) { return 0x38383838; }
template <class T> DEVICE u32 one(u32, e4m3_fnuz) { return 0x40404040; }
// Of 6 bits a 1 is 001000, and 32 of them are 6 words; of 4 bits it is 0010, and 32 are 4 words. Instructions
// have registers for 8 bits.
template <class T> DEVICE u32 one(u32 word, e2m3) {
  return word >= T::WORDS * 3 / 4 ? 0 : word % 3 == 0 ? 0x08208208 : word % 3 == 1 ? 0x82082082 : 0x20820820;
}
template <class T> DEVICE u32 one(u32 word, e2m1) { return word >= T::WORDS / 2 ? 0 : 0x22222222; }

// Elements along k of one call of `multiply_chunks`.
template <class T> DEVICE constexpr u32 depth() {
  return bytes_together<T>() / sizeof(typename T::In);
}

template <class T, u32 DEPTH = depth<T>()>
DEVICE void count_products(const ComputeParams& p, u32 repeat) {
  constexpr u32 WORDS = 4 * chunks_together<T>();
  u32 a[WORDS], b[WORDS];
  UNROLL for (u32 i = 0; i < WORDS; i++) {
    a[i] = b[i] = one<T>(i, typename T::In());
    // A register each: words that are known to be alike are copied before each product.
    forget(a[i]);
    forget(b[i]);
  }
  const u64 steps = p.flops / 2 / (16 * 16 * DEPTH) / (THREADS / LANES * CHAINS);
  f64 counted = 0.0;
  for (u32 round = 0; round < repeat; round++) {
    typename T::Sum sums[CHAINS][T::SUMS] = {};
    for (u64 step = 0; step < steps; step++) {
      UNROLL for (u32 c = 0; c < CHAINS; c++) multiply_chunks<T>(sums[c], a, b);
    }
    UNROLL for (u32 c = 0; c < CHAINS; c++) {
      UNROLL for (u32 i = 0; i < T::SUMS; i++) counted += f64(sums[c][i]);
    }
  }
  leave_count<THREADS>(p, counted, repeat);
}

}  // namespace

#define COUNT_PRODUCTS(NAME, ...)                                                                 \
  KERNEL(256, 1) compute_##NAME(const ComputeParams p, const u32 repeat) {                        \
    count_products<__VA_ARGS__>(p, repeat);                                                       \
  }
