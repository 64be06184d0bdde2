// Keys and values as a cache has them, and as the matrix units of CDNA take them: elements of 16 bits
// are as they are, those of 8 bits become bf16 in registers.
#pragma once
#include "lanes.h"

namespace {

DEVICE constexpr f32 factor_of(e4m3) { return 1.0f; }
DEVICE constexpr f32 factor_of(e4m3_fnuz) { return 2.0f; }

// Of a cache of 8 bits. `WORDS`: of 8 elements in memory. `CHUNKS`: of 8 elements in 16 bytes.
// `FACTOR`: what is made of these elements times so much is right.
template <class In, class Cache> struct Cached {
  static constexpr u32 BYTES = 1, WORDS = 2, CHUNKS = 2;
  static constexpr f32 FACTOR = factor_of(Cache{0});

  static DEVICE_MEMBER void widen(u32 (&to)[4], const u32 (&from)[WORDS]) {
    UNROLL for (u32 w = 0; w < WORDS; w++) {
      u32 two[2];
      widen_four(two, from[w], Cache());
      to[2 * w] = two[0];
      to[2 * w + 1] = two[1];
    }
  }
};

template <class In> struct Cached<In, In> {
  static constexpr u32 BYTES = 2, WORDS = 4, CHUNKS = 1;
  static constexpr f32 FACTOR = 1.0f;

  static DEVICE_MEMBER void widen(u32 (&to)[4], const u32 (&from)[WORDS]) {
    UNROLL for (u32 w = 0; w < WORDS; w++) to[w] = from[w];
  }
};

}  // namespace
