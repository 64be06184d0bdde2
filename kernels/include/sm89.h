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

#endif  // FIZEAU_SM89_H
