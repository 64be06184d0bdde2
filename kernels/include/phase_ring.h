// A ring of COUNT places in shared memory with two barriers for each: a phase of `full` ends when a
// place has been filled, a phase of `empty` when it has been read.
#pragma once
#include "gpu.h"

template <u32 COUNT> struct PhaseRing {
  u64* full;
  u64* empty;
  u32 at, parity;

  DEVICE_MEMBER void advance() {
    if (++at < COUNT) return;
    at = 0;
    parity ^= 1;
  }
};
