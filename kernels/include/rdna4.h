// Matrix instructions of RDNA 4 (gfx12), of 16 x 16 sums over 32 lanes (RDNA4 Instruction Set
// Architecture, section 7.12). Lane l holds, of the left operand, row l % 16 and the (l / 16)-th
// half of the 16 elements along k; of the right one, column l % 16 and the same; sums of column
// l % 16 and rows 8 (l / 16) .. 8 (l / 16) + 7. 8-bit floats are OCP's.
//
// tests/kernel_model/lanes.h does the same in C++.
#ifndef FIZEAU_RDNA4_H
#define FIZEAU_RDNA4_H
#include "lane_e4m3.h"
#include "lanes.h"

MULTIPLY(bf16, f32, 8, 4, Short8, __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(a, b, c))
MULTIPLY(f16, f32, 8, 4, Half8, __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a, b, c))
MULTIPLY(e4m3, f32, 8, 2, Int2, __builtin_amdgcn_wmma_f32_16x16x16_fp8_fp8_w32_gfx12(a, b, c))
MULTIPLY(i8, i32, 8, 2, Int2,
         __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, a, true, b, c, false))

#endif  // FIZEAU_RDNA4_H
