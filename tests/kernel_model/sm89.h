// Stands in for kernels/include/sm89.h.
#pragma once
#define FIZEAU_SM89_H
#include "sm80.h"

DEVICE void multiply(f32 (&sums)[4], const u32 (&a)[4], const u32 (&b)[2], e4m3) {
  model::multiply_fragments<e4m3>(sums, a, b);
}

// To nearest, ties to even.
DEVICE e4m3 narrow(f32 value, e4m3) {
  const u8 sign = std::signbit(value) ? 0x80 : 0;
  const f32 size = std::fabs(value);
  if (value != value) return {0x7f};
  if (size >= 448.0f) return {u8(sign | 0x7e)};
  int exponent = size == 0.0f ? -6 : std::ilogb(size);
  if (exponent < -6) exponent = -6;
  const u32 units = u32(std::nearbyint(std::ldexp(size, 3 - exponent)));
  return {u8(sign | (units + (u32(exponent + 6) << 3)))};
}
DEVICE u32 narrow_four(f32 s0, f32 s1, f32 s2, f32 s3, e4m3 type) {
  const u32 low = narrow(s0, type).bits | u32(narrow(s1, type).bits) << 8;
  return low | u32(narrow(s2, type).bits) << 16 | u32(narrow(s3, type).bits) << 24;
}

DEVICE u32 widen_pair(u32 pair, f16 type) {
  const e4m3 low = {u8(pair)}, high = {u8(pair >> 8)};
  return narrow_pair(widen(low), widen(high), type);
}
