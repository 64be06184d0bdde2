// OCP's 8-bit floats on waves of 32 lanes (RDNA 4, CDNA 5): what attention makes of weights, and of what a cache
// holds.
#ifndef FIZEAU_LANE_E4M3_H
#define FIZEAU_LANE_E4M3_H
#include "lanes.h"

// Four 8-bit floats, rounded to nearest even.
DEVICE u32 narrow_four(const f32 (&from)[4], e4m3) {
  const i32 low = __builtin_amdgcn_cvt_pk_fp8_f32(from[0], from[1], 0, false);
  return u32(__builtin_amdgcn_cvt_pk_fp8_f32(from[2], from[3], low, true));
}

// Four 8-bit floats as bf16, which is exact: the upper halves of floats.
DEVICE void widen_four(u32 (&to)[2], u32 four, e4m3) {
  const auto low = __builtin_amdgcn_cvt_pk_f32_fp8(i32(four), false);
  const auto high = __builtin_amdgcn_cvt_pk_f32_fp8(i32(four), true);
  to[0] = bytes_of(bits_of(low[1]), bits_of(low[0]), 0x07060302);
  to[1] = bytes_of(bits_of(high[1]), bits_of(high[0]), 0x07060302);
}

#endif  // FIZEAU_LANE_E4M3_H
