// What compute capability 12 added to fragments: 4-bit floats with a scale for each block of them.
//
// tests/kernel_model/sm120.h does the same in C++.
#ifndef FIZEAU_SM120_H
#define FIZEAU_SM120_H
#include "sm80.h"

// As the others of sm80.h, 64 along k, 8 in each unit of 4 bytes. The four scales of a row of A or a
// column of B, one for each 16 along k, are 8-bit floats without a sign; here each is one.
DEVICE void multiply(f32 (&sums)[4], const u32 (&a)[4], const u32 (&b)[2], e2m1) {
  const u32 scales = 0x38383838;
  asm volatile("mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X"
               ".f32.e2m1.e2m1.f32.ue4m3 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3}, {%10}, {0, 0}, {%10}, {0, 0};"
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(scales));
}

#endif  // FIZEAU_SM120_H
