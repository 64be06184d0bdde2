// Matrix instructions of CDNA 2 (gfx90a), of 16 x 16 sums over 64 lanes (AMD Instinct MI200
// Instruction Set Architecture, chapter 7). Lane l holds, of the left operand, row l % 16 and the
// (l / 16)-th quarter of the elements along k; of the right one, column l % 16 and the same; sums of
// column l % 16 and rows 4 (l / 16) .. 4 (l / 16) + 3, of f64 rows l / 16, l / 16 + 4, ..
//
// tests/kernel_model/lanes.h does the same in C++.
#ifndef FIZEAU_CDNA2_H
#define FIZEAU_CDNA2_H
#include "lanes.h"

MULTIPLY(bf16, f32, 4, 2, Short4, __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, 0, 0, 0))
MULTIPLY(f16, f32, 4, 2, Half4, __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0))
MULTIPLY(i8, i32, 4, 1, i32, __builtin_amdgcn_mfma_i32_16x16x16i8(a, b, c, 0, 0, 0))
MULTIPLY(f32, f32, 4, 1, f32, __builtin_amdgcn_mfma_f32_16x16x4f32(a, b, c, 0, 0, 0))
MULTIPLY(f64, f64, 4, 2, f64, __builtin_amdgcn_mfma_f64_16x16x4f64(a, b, c, 0, 0, 0))

#endif  // FIZEAU_CDNA2_H
