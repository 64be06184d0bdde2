// What compute capability 8.9 added to fragments, and 12.0 still has: 8-bit floats.
//
// tests/kernel_model/sm89.h does the same in C++.
#ifndef FIZEAU_SM89_H
#define FIZEAU_SM89_H
#include "sm80.h"

// As the others of sm80.h, 32 along k.
DEVICE void multiply(f32 (&sums)[4], const u32 (&a)[4], const u32 (&b)[2], e4m3) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Two of 8 bits, in the lower half, as two of 16; exact.
DEVICE u32 widen_pair(u32 pair, f16) {
  u32 got;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(got) : "h"(u16(pair)));
  return got;
}

// Four rounded to nearest even, the first in the lowest byte; what is too large becomes the largest.
DEVICE u32 narrow_four(f32 s0, f32 s1, f32 s2, f32 s3, e4m3) {
  u16 low, high;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(s1), "f"(s0));
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(s3), "f"(s2));
  return low | u32(high) << 16;
}

#endif  // FIZEAU_SM89_H
