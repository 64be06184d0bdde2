// Matrix instructions of RDNA 3 (gfx11), of 16 x 16 sums over 32 lanes (RDNA3 Instruction Set
// Architecture, section 7.9). Lane l holds, of the left operand, all 16 elements along k of row
// l % 16, so that lanes l and l + 16 hold the same; of the right one the same of a column; sums of
// column l % 16 and rows l / 16, l / 16 + 2, .. l / 16 + 14.
//
// tests/kernel_model/lanes.h does the same in C++.
#ifndef FIZEAU_RDNA3_H
#define FIZEAU_RDNA3_H
#include "lanes.h"

MULTIPLY(bf16, f32, 8, 8, Short16, __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, c))
MULTIPLY(f16, f32, 8, 8, Half16, __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, c))
MULTIPLY(i8, i32, 8, 4, Int4,
         __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, a, true, b, c, false))

#endif  // FIZEAU_RDNA3_H
