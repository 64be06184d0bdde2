// Elements that share scales along k: their formats, and where scales stand.
#pragma once
#include "gpu.h"
#include "tiles.h"

// 8-bit floats (e4m3), a power of two (ue8m0) for each 32; OCP Microscaling Formats, MXFP8.
struct mxfp8 {
  static constexpr bool A_IS_BF16 = false;
  static constexpr u32 BITS = 8, BLOCK = 32;
  // Four of the element one; four of the scale one.
  static constexpr u32 ONES = 0x38383838, SCALE_ONES = 0x7f7f7f7f;
};
// 4-bit floats (e2m1), the same scales; MXFP4. Of two in a byte the first is the lower.
struct mxfp4 {
  static constexpr bool A_IS_BF16 = false;
  static constexpr u32 BITS = 4, BLOCK = 32;
  static constexpr u32 ONES = 0x22222222, SCALE_ONES = 0x7f7f7f7f;
};
// 4-bit floats, an 8-bit one (e4m3, never negative) for each 16, an f32 for each tensor; NVFP4.
struct nvfp4 {
  static constexpr bool A_IS_BF16 = false;
  static constexpr u32 BITS = 4, BLOCK = 16;
  static constexpr u32 ONES = 0x22222222, SCALE_ONES = 0x38383838;
};

// 8-bit floats (e4m3), an f32 for each 128 of a row of A and for each 128 x 128 of B, as DeepSeek-V3
// is trained and run. Scales of A stand block after block along k, rows beside each other; those of B
// columns after columns, blocks along k beside each other.
struct fp8block {
  static constexpr bool A_IS_BF16 = false;
  static constexpr u32 BITS = 8, BLOCK = 128;
};

// Scales of the others stand in tiles of 128 rows (of A; columns of B) and 4 along k, as the units
// of compute capability 10 want them and as cuBLASLt takes them: 16 bytes have 4 scales of row r,
// then those of rows r + 32, r + 64 and r + 96. Tile comes after tile along k, then down; what is
// outside is 0.
CONSTANT u32 SCALE_ROWS = 128;
CONSTANT u32 SCALE_STEPS = 4;
CONSTANT u32 SCALE_BYTES = SCALE_ROWS * SCALE_STEPS;

// Tiles along k elements.
template <class In> DEVICE u32 scale_tiles(u32 k) {
  return tiles_along(tiles_along(k, In::BLOCK), SCALE_STEPS);
}
// Where the scale of a row and a block stands, of rows of so many tiles.
DEVICE u64 scale_place(u32 row, u32 block, u32 tiles) {
  const u64 tile = u64(row / SCALE_ROWS) * tiles + block / SCALE_STEPS;
  return tile * SCALE_BYTES + row % 32 * 16 + row % SCALE_ROWS / 32 * 4 + block % SCALE_STEPS;
}

// Values, by shifting exponent and fraction to their places in an f32: what is left is a power of two,
// 2^(127 - bias).
DEVICE f32 value_of_e4m3(u32 bits) {
  const f32 size = float_of((bits & 0x7f) << 20) * float_of(247u << 23);
  return bits & 0x80 ? -size : size;
}
DEVICE f32 value_of_e2m1(u32 bits) {
  const f32 size = float_of((bits & 7) << 22) * float_of(253u << 23);
  return bits & 8 ? -size : size;
}
DEVICE f32 value_of_ue8m0(u32 bits) { return float_of(bits == 0 ? 1u << 22 : bits << 23); }

template <class In> DEVICE f32 value_of_scale(u32 bits, In) { return value_of_ue8m0(bits); }
DEVICE f32 value_of_scale(u32 bits, nvfp4) { return value_of_e4m3(bits); }

// A sum of products as C has it, before it is rounded to C's type. `factor` is that of GemmParams.
template <class In> DEVICE f32 with_tensor_scales(f32 sum, f32, In) { return sum; }
DEVICE f32 with_tensor_scales(f32 sum, f32 factor, nvfp4) { return sum * factor; }
