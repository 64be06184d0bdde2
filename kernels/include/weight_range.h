#pragma once
#include "sm89.h"

// What weights may become by the type that they are multiplied in, as exponents of two: each is
// 2^OFFSET times what it is relative to the largest score that sums were last corrected for, and
// that is exceeded by RISE_MAX at most.
template <class Matrix> struct WeightRange {
  static constexpr f32 RISE_MAX = 8.0f, OFFSET = 0.0f;
};
// The largest number is 448, more than 2^8.8; those below 2^-10 become zero, which are then 2^-18 of
// the largest weight, or less.
template <> struct WeightRange<e4m3> {
  static constexpr f32 RISE_MAX = 0.75f, OFFSET = 8.0f;
};
