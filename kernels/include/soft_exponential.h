// 2^x by multiplications and additions alone, for devices whose matrix units are faster than what
// their units for exponentials keep up with (Cody and Waite, 1980; FlashAttention-4, 2026).
#pragma once
#include "gpu.h"

// Off by 9e-5 of itself, which is little beside rounding to 16 bits; 0 below 2^-126. `x` is below
// 127. A header of instructions has TwoFloats and what adds and multiplies it.
template <class Two> DEVICE Two soft_powers_of_two(Two x) {
  const auto both = [](f32 number) -> Two { return {number, number}; };
  // Added to it, a number's fraction is beyond the last place.
  constexpr f32 WHOLE = 12582912.0f;
  const Two clamped = {x.first > -127.0f ? x.first : -127.0f,
                       x.second > -127.0f ? x.second : -127.0f};
  const Two shifted = add_down(clamped, both(WHOLE));
  const Two fraction = fused(shifted + both(-WHOLE), both(-1.0f), clamped);
  // 2^fraction for 0 <= fraction < 1, by the polynomial whose largest relative error is the least.
  Two power = fused(both(0.077119089663028717041015625f), fraction,
                    both(0.227564394474029541015625f));
  power = fused(power, fraction, both(0.695146143436431884765625f));
  power = fused(power, fraction, both(1.0f));
  // Whole powers go to the exponent.
  return {float_of(bits_of(power.first) + (bits_of(shifted.first) << 23)),
          float_of(bits_of(power.second) + (bits_of(shifted.second) << 23))};
}
