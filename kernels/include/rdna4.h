// Matrix instructions of RDNA 4 (gfx12), of 16 x 16 sums over 32 lanes (RDNA4 Instruction Set
// Architecture, section 7.12). Lane l holds, of the left operand, row l % 16 and the (l / 16)-th
// half of the 16 elements along k; of the right one, column l % 16 and the same; sums of column
// l % 16 and rows 8 (l / 16) .. 8 (l / 16) + 7. 8-bit floats are OCP's.
//
// tests/kernel_model/lanes.h does the same in C++.
#ifndef FIZEAU_RDNA4_H
#define FIZEAU_RDNA4_H
#include "lanes.h"

MULTIPLY(bf16, f32, 8, 4, Short8, __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(a, b, c))
MULTIPLY(f16, f32, 8, 4, Half8, __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a, b, c))
MULTIPLY(e4m3, f32, 8, 2, Int2, __builtin_amdgcn_wmma_f32_16x16x16_fp8_fp8_w32_gfx12(a, b, c))
MULTIPLY(i8, i32, 8, 2, Int2,
         __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, a, true, b, c, false))

// Four 8-bit floats, rounded to nearest even.
DEVICE u32 narrow_four(const f32 (&from)[4], e4m3) {
  const i32 low = __builtin_amdgcn_cvt_pk_fp8_f32(from[0], from[1], 0, false);
  return u32(__builtin_amdgcn_cvt_pk_fp8_f32(from[2], from[3], low, true));
}

// Four 8-bit floats as bf16, which is exact: the upper halves of floats.
DEVICE void widen_four(u32 (&to)[2], u32 four, e4m3) {
  const auto low = __builtin_amdgcn_cvt_pk_f32_fp8(i32(four), false);
  const auto high = __builtin_amdgcn_cvt_pk_f32_fp8(i32(four), true);
  to[0] = bytes_of(bits_of(low[1]), bits_of(low[0]), 0x07060302);
  to[1] = bytes_of(bits_of(high[1]), bits_of(high[0]), 0x07060302);
}

#endif  // FIZEAU_RDNA4_H
