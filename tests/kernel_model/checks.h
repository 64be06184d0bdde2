// Arrays with guards, for tests of NVIDIA's kernels on the CPU.
#pragma once
#include "sm80.h"
#include "faults.h"

namespace {

// An array with guards on both sides, which nothing may touch.
template <class T> struct Array {
  static constexpr u32 GUARD = 256;
  std::vector<Vector<u8>> bytes;
  u64 count;

  explicit Array(u64 length) : bytes((length * sizeof(T) + 15) / 16 + 2 * GUARD), count(length) {
    memset(static_cast<void*>(bytes.data()), 0xa5, bytes.size() * 16);
  }
  T* data() { return reinterpret_cast<T*>(bytes.data() + GUARD); }
  bool intact() const {
    const u8* all = reinterpret_cast<const u8*>(bytes.data());
    for (u64 i = 0; i < bytes.size() * 16; i++) {
      const bool within = i >= GUARD * 16 && i < GUARD * 16 + count * sizeof(T);
      if (!within && all[i] != 0xa5) return false;
    }
    return true;
  }
};

// -3 .. 4
[[maybe_unused]] e4m3 made_e4m3(i32 value) {
  const u8 sizes[5] = {0x00, 0x38, 0x40, 0x44, 0x48};
  return {u8(value < 0 ? 0x80 | sizes[-value] : sizes[value])};
}

}  // namespace
