// Weights of 8 or 4 bits that bf16 activations are multiplied with: their formats in memory. B stands
// column by column, k elements each. Eight 4-bit weights along k share a word: those of even k in its
// lower half, those of odd k in the upper, the first in the lowest bits, so that one mask gives two
// neighbours in the halves of a word.
#pragma once
#include "scaled.h"

// Weights along k that share what is fetched of the scales of 4-bit ones at once: SCALE_BITS.
CONSTANT u32 WEIGHT_GROUP = 128;

// Integers from -8 to 7, kept 8 higher; a bf16 scale for each 128 along k. Scales of all columns
// stand beside each other, group after group along k.
struct bf16int4 {
  static constexpr bool A_IS_BF16 = true;
  static constexpr u32 BITS = 4, SCALE_BITS = 16;
};
// e2m1 with a power of two (ue8m0) for each 32 along k. The four scales of 128 along k are a word;
// words of all columns stand beside each other, then those of the next 128; what is beyond k is 0.
struct bf16mxfp4 {
  static constexpr bool A_IS_BF16 = true;
  static constexpr u32 BITS = 4, SCALE_BITS = 32;
};
// e4m3 with one f32 scale for each column.
struct bf16fp8 {
  static constexpr bool A_IS_BF16 = true;
  static constexpr u32 BITS = 8, SCALE_BITS = 0;
};

// One 4-bit weight, by its index in the matrix.
DEVICE u32 weight_bits(const void* weights, u64 at) {
  const u32 word = static_cast<const u32*>(weights)[at / 8];
  return word >> (at % 2 * 16 + at % 8 / 2 * 4) & 15;
}
// The value, by placing the nibble into the mantissa of 2^23: no conversion instruction.
DEVICE f32 value_of_int4(u32 bits) { return float_of(0x4b000000 | bits) - 8388616.0f; }
