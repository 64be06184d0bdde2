// Matrix instructions of CDNA 5 (gfx1250 and gfx1251), of 16 x 16 sums over 32 lanes. Where elements stand is
// from AMD's simulator of the instruction set (ROCm/rocm-systems, rocjitsu, shared/mma/layout.h: wmma_input_loc,
// wmma_block_scaled_input_loc, wmma_output_loc_32) and agrees with Triton's layouts (LinearLayoutConversions.cpp,
// WMMA version 3); no GPU of the family has run it here.
//
// Lane l holds, of the left operand, elements of row l % 16: of every two pieces of 16 bytes along k the
// (l / 16)-th, in their order (of f32, of which there are only 4 along k, every second piece of 8 bytes). Of the
// right one it holds the same of column l % 16, and of sums those of column l % 16 and rows 8 (l / 16) ..
// 8 (l / 16) + 7. 8-bit floats are OCP's.
//
// tests/kernel_model/lanes.h does the same in C++.
#ifndef FIZEAU_CDNA5_H
#define FIZEAU_CDNA5_H
#include "lane_e4m3.h"
#include "lanes.h"
#include "scaled.h"

typedef __bf16 Brain16 __attribute__((ext_vector_type(16)));
typedef i32 Int16 __attribute__((ext_vector_type(16)));

// The zeros behind operands: nothing is negated, of sums no size is taken, and no operand is kept for the
// next instruction.
MULTIPLY(bf16, f32, 8, 8, Brain16, __builtin_amdgcn_wmma_f32_16x16x32_bf16(false, a, false, b, 0, c, false, false))
MULTIPLY(f16, f32, 8, 8, Half16, __builtin_amdgcn_wmma_f32_16x16x32_f16(false, a, false, b, 0, c, false, false))
MULTIPLY(e4m3, f32, 8, 8, Int8, __builtin_amdgcn_wmma_f32_16x16x64_fp8_fp8(a, b, 0, c, false, false))
MULTIPLY(e4m3, f32, 8, 16, Int16, __builtin_amdgcn_wmma_f32_16x16x128_fp8_fp8(a, b, 0, c, false, false))
MULTIPLY(i8, i32, 8, 8, Int8, __builtin_amdgcn_wmma_i32_16x16x64_iu8(true, a, true, b, c, false, false))
MULTIPLY(f32, f32, 8, 2, Float2, __builtin_amdgcn_wmma_f32_16x16x4_f32(false, a, false, b, 0, c, false, false))

// Of 6 and 4 bits, 128 along k, in the first 12 and 8 words. Formats: 2 is e2m3 (6 bits), 4 is e2m1 (4 bits).
#define NARROW(FORMAT) __builtin_amdgcn_wmma_f32_16x16x128_f8f6f4(FORMAT, a, FORMAT, b, 0, c)
MULTIPLY(e2m3, f32, 8, 16, Int16, NARROW(2))
MULTIPLY(e2m1, f32, 8, 16, Int16, NARROW(4))
#undef NARROW

// With a power of two for each 32 elements along k: a lane of the first sixteen has the four of its row, the
// first in the lowest byte, and the others' are not read. Of 4 bits a piece is 32 elements.
#define SCALED(FORMAT, A, B)                                                                      \
  __builtin_amdgcn_wmma_scale_f32_16x16x128_f8f6f4(FORMAT, A, FORMAT, B, 0, bytes_as<Sums>(sums), 0, 0, \
                                                   i32(scale_left), 0, 0, i32(scale_right), false, false)
DEVICE void multiply_scaled(f32 (&sums)[8], const u32 (&left)[16], const u32 (&right)[16],
                            u32 scale_left, u32 scale_right, mxfp8) {
  typedef f32 Sums __attribute__((ext_vector_type(8)));
  const Sums c = SCALED(0, bytes_as<Int16>(left), bytes_as<Int16>(right));
  UNROLL for (u32 i = 0; i < 8; i++) sums[i] = c[i];
}
DEVICE void multiply_scaled(f32 (&sums)[8], const u32 (&left)[8], const u32 (&right)[8],
                            u32 scale_left, u32 scale_right, mxfp4) {
  typedef f32 Sums __attribute__((ext_vector_type(8)));
  Int16 a = {}, b = {};
  UNROLL for (u32 i = 0; i < 8; i++) {
    a[i] = i32(left[i]);
    b[i] = i32(right[i]);
  }
  const Sums c = SCALED(4, a, b);
  UNROLL for (u32 i = 0; i < 8; i++) sums[i] = c[i];
}
#undef SCALED

#endif  // FIZEAU_CDNA5_H
