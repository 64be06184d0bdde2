// What a scale is worth, by the definition of its format.
#pragma once
#include "sm80.h"

#include "scaled.h"

namespace model {

// A power of two whose exponent is kept 127 higher.
template <class In> f32 scale_value(u8 bits, In) {
  return bits == 0xff ? NAN : float_of(bits == 0 ? 0x400000 : u32(bits) << 23);
}
inline f32 scale_value(u8 bits, nvfp4) {
  // It has no sign: what was never written has.
  return bits >> 7 ? NAN : widen(e4m3{bits});
}

}  // namespace model
