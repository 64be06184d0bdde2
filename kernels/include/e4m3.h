// 8-bit floats (e4m3, OCP 8-bit floating point specification) made of f32: to nearest, ties to
// even, 448 at most. Where the unit has an instruction for it, gpu_nvidia.h has it.
#pragma once
#include "gpu.h"

CONSTANT f32 E4M3_MOST = 448.0f;

// By integers, for targets without the instruction. Zero has no sign: in AMD's FNUZ formats its
// bits with one are no number.
DEVICE u32 narrow_e4m3(f32 value) {
  const u32 bits = bits_of(value), size_bits = bits & 0x7fffffff;
  const f32 size = float_of(size_bits);
  // From 2^-6 on the three upper bits of the fraction stay; below, the number of 2^-9s, which an
  // addition of 2^14 leaves in the lowest bits, rounded.
  const u32 normal = (size_bits + 0x7ffff + (size_bits >> 20 & 1)) / (1u << 20) - (120 << 3);
  const u32 small = bits_of(size + 16384.0f) - bits_of(16384.0f);
  const u32 code = size < 0.015625f ? small : normal < 0x7e ? normal : 0x7e;
  return code == 0 ? 0 : code | (bits >> 24 & 0x80);
}

// Four, the first in the lowest byte.
DEVICE u32 narrow_four_e4m3(f32 s0, f32 s1, f32 s2, f32 s3) {
#if defined(HAS_E4M3)
  return pair_e4m3(s0, s1) | pair_e4m3(s2, s3) << 16;
#else
  return narrow_e4m3(s0) | narrow_e4m3(s1) << 8 | narrow_e4m3(s2) << 16 | narrow_e4m3(s3) << 24;
#endif
}
