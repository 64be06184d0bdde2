// Matrix instructions of CDNA 3 (gfx942), of 16 x 16 sums over 64 lanes (AMD Instinct MI300
// Instruction Set Architecture, chapter 7). Lanes hold operands and sums as in cdna2.h.
//
// 8-bit floats are FNUZ: of the same bits half the value of OCP's, and no negative zero.
//
// tests/kernel_model/lanes.h does the same in C++.
#ifndef FIZEAU_CDNA3_H
#define FIZEAU_CDNA3_H
#include "lanes.h"

MULTIPLY(bf16, f32, 4, 2, Short4, __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, 0, 0, 0))
MULTIPLY(f16, f32, 4, 2, Half4, __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0))
MULTIPLY(tf32, f32, 4, 2, Float2, __builtin_amdgcn_mfma_f32_16x16x8_xf32(a, b, c, 0, 0, 0))
MULTIPLY(e4m3_fnuz, f32, 4, 2, long, __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(a, b, c, 0, 0, 0))
MULTIPLY(i8, i32, 4, 2, long, __builtin_amdgcn_mfma_i32_16x16x32_i8(a, b, c, 0, 0, 0))
MULTIPLY(f32, f32, 4, 1, f32, __builtin_amdgcn_mfma_f32_16x16x4f32(a, b, c, 0, 0, 0))
MULTIPLY(f64, f64, 4, 2, f64, __builtin_amdgcn_mfma_f64_16x16x4f64(a, b, c, 0, 0, 0))

// Four of them, rounded to nearest even.
DEVICE u32 narrow_four(const f32 (&from)[4], e4m3_fnuz) {
  const i32 low = __builtin_amdgcn_cvt_pk_fp8_f32(from[0], from[1], 0, false);
  return u32(__builtin_amdgcn_cvt_pk_fp8_f32(from[2], from[3], low, true));
}

// Four of them as bf16, which is exact: the upper halves of floats.
DEVICE void widen_four(u32 (&to)[2], u32 four, e4m3_fnuz) {
  const auto low = __builtin_amdgcn_cvt_pk_f32_fp8(i32(four), false);
  const auto high = __builtin_amdgcn_cvt_pk_f32_fp8(i32(four), true);
  to[0] = __builtin_amdgcn_perm(bits_of(low[1]), bits_of(low[0]), 0x07060302);
  to[1] = __builtin_amdgcn_perm(bits_of(high[1]), bits_of(high[0]), 0x07060302);
}

#endif  // FIZEAU_CDNA3_H
