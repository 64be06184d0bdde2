// What compute capability 12 added to fragments: scales for blocks of their elements.
//
// tests/kernel_model/sm120.h does the same in C++.
#ifndef FIZEAU_SM120_H
#define FIZEAU_SM120_H
#include "scaled.h"
#include "sm80.h"

// sums += a b, as the others of sm80.h, 32 bytes along k. A lane gives the scales of row
// l / 4 + l % 2 * 8 of A and of column l / 4 of B, taken from byte BYTE on.
#define MULTIPLY_SCALED(SHAPE, TYPES)                                                             \
  asm volatile("mma.sync.aligned." SHAPE ".row.col." TYPES                                        \
               " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, "                \
               "{%10}, {%12, 0}, {%11}, {%12, 0};"                                                \
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])                       \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]),                \
                 "r"(scales_a), "r"(scales_b), "n"(BYTE))
template <u32 BYTE>
DEVICE void multiply_scaled(f32 (&sums)[4], const u32 (&a)[4], const u32 (&b)[2], u32 scales_a,
                            u32 scales_b, mxfp8) {
  MULTIPLY_SCALED("m16n8k32",
                  "kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0");
}
template <u32 BYTE>
DEVICE void multiply_scaled(f32 (&sums)[4], const u32 (&a)[4], const u32 (&b)[2], u32 scales_a,
                            u32 scales_b, mxfp4) {
  MULTIPLY_SCALED("m16n8k64",
                  "kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0");
}
template <u32 BYTE>
DEVICE void multiply_scaled(f32 (&sums)[4], const u32 (&a)[4], const u32 (&b)[2], u32 scales_a,
                            u32 scales_b, nvfp4) {
  MULTIPLY_SCALED("m16n8k64",
                  "kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3");
}
#undef MULTIPLY_SCALED

#endif  // FIZEAU_SM120_H
