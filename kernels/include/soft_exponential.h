// 2^x by multiplications and additions alone, for devices whose matrix units are faster than what
// their units for exponentials keep up with (Cody and Waite, 1980; FlashAttention-4, 2026).
#pragma once
#include "gpu.h"

// Off by 9e-5 of itself, which is little beside rounding to 16 bits; 0 below 2^-126. `x` is below
// 127. A header of instructions has add_down.
DEVICE f32 soft_power_of_two(f32 x) {
  // Added to it, a number's fraction is beyond the last place.
  constexpr f32 WHOLE = 12582912.0f;
  const f32 clamped = x > -127.0f ? x : -127.0f;
  const f32 shifted = add_down(clamped, WHOLE);
  const f32 fraction = clamped - (shifted - WHOLE);
  // 2^fraction for 0 <= fraction < 1, by the polynomial whose largest relative error is the least.
  f32 power = fused(0.077119089663028717041015625f, fraction, 0.227564394474029541015625f);
  power = fused(power, fraction, 0.695146143436431884765625f);
  power = fused(power, fraction, 1.0f);
  // Whole powers go to the exponent.
  return float_of(bits_of(power) + (bits_of(shifted) << 23));
}
