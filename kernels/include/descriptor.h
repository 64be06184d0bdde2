// How the multiplications of compute capability 9.0 and 10 are told where a tile stands, and those
// of 10 what to do.
#pragma once
#include "gpu.h"

// Tiles in shared memory, of rows of 128 bytes that are swizzled as tensor maps of 128 bytes
// swizzle: the 16-byte chunk c of row r stands where chunk c ^ (r % 8) would. They start at
// multiples of 1024 bytes.

// What the multiplication is told of a tile (PTX manual, "Matrix Descriptor"): bits 0..13 address,
// 16..29 and 32..45 the two strides, each in units of 16 bytes, 62..63 swizzle (1: 128 bytes).
DEVICE u64 describe(u32 address, u32 leading, u32 stride) {
  return u64(address >> 4 & 0x3fff) | u64(leading >> 4 & 0x3fff) << 16 |
         u64(stride >> 4 & 0x3fff) << 32 | u64(1) << 62;
}
// Rows run along k: from 8 rows to the next 8 are 1024 bytes. The leading stride is not used.
DEVICE u64 describe_k_major(u32 address) { return describe(address, 16, 1024); }
// Rows run along m or n, 64 elements of 16 bits; from 8 rows to the next 8 along k are 1024 bytes,
// from 64 columns to the next 64 `columns_64`.
DEVICE u64 describe_mn_major(u32 address, u32 columns_64) {
  return describe(address, columns_64, 1024);
}

// The descriptor of what stands `bytes` further on in shared memory, whose addresses fit bits 0..13.
DEVICE u64 further(u64 described, u32 bytes) { return described + bytes / 16; }

// The same for compute capability 10 (PTX manual, "Shared memory descriptor" of tcgen05): bits 46..48
// are 1, and the swizzle, in bits 61..63, is 2 for 128 bytes.
DEVICE u64 describe_for_tensor_memory(u64 described) {
  return (described & ~(u64(3) << 62)) | u64(1) << 46 | u64(2) << 61;
}

// The same of a tile whose rows go on in another one: bytes beyond the 128 of a row are read from the
// start of the same row of the tile at `next`. Bit 52 says that they are, and bits 16..29 say where that
// tile stands (PTX manual, "Leading dimension stride mode"). Only multiplications of 96 along k, which
// 10.3 and 10.7 have, take it.
DEVICE u64 going_on_at(u64 described, u32 next) {
  return (described & ~(u64(0x3fff) << 16)) | u64(next >> 4 & 0x3fff) << 16 | u64(1) << 52;
}

// The same of words of 32 bits whose rows run along n, 32 words, of which 8 stay together (maps with
// `atom = 32`): the 32-byte chunk c of row r stands where chunk c ^ (r % 4) would. From 4 rows to the
// next 4 along k are 512 bytes, from 32 columns to the next 32 `columns_32`; the swizzle is 1.
DEVICE u64 describe_words_mn_major(u32 address, u32 columns_32) {
  const u64 described = describe(address, columns_32, 512) & ~(u64(3) << 62);
  return described | u64(1) << 46 | u64(1) << 61;
}

// The order to multiply (PTX manual, "Instruction descriptor" of tcgen05): bits 4..5 type of the
// sums (1: f32, 2: i32), 7..9 and 10..12 types of A and B, 16 whether B is mn-major, 17.. columns / 8,
// 24.. rows / 16.
DEVICE constexpr u32 instruct(u32 type, u32 b_mn_major, u32 rows, u32 columns, u32 sums = 1) {
  return sums << 4 | type << 7 | type << 10 | b_mn_major << 16 | columns / 8 << 17 | rows / 16 << 24;
}
// The same where A is mn-major: bit 15.
DEVICE constexpr u32 with_a_mn_major(u32 instruction) { return instruction | 1u << 15; }

// The same where blocks of A and B have scales (PTX manual, "Instruction descriptor format for
// .kind::mxf8f6f4" and "for .kind::mxf4 and .kind::mxf4nvf4"): bits 4..5 and 29..30 from which byte
// of a column of tensor memory scales of B and A are taken, 7..9 and 10..12 types of A and B (of
// 4 bits 1: e2m1, else 0: e4m3), 17..22 columns / 8, 23 type of the scales (0: ue4m3, 1: ue8m0),
// 27..28 rows / 128, 31 whether 96 along k.
DEVICE constexpr u32 instruct_scaled(u32 type, u32 scale_type, u32 rows, u32 columns) {
  return type << 7 | type << 10 | columns / 8 << 17 | scale_type << 23 | rows / 128 << 27;
}
// 96 along k instead of 64, of elements of 4 bits; compute capability 10.3 and 10.7 (where bit 3 besides would
// say 128: CUTLASS, cute/arch/mma_sm107_desc.hpp).
DEVICE constexpr u32 longer_k(u32 instruction) { return instruction | 1u << 31; }
DEVICE constexpr u32 from_byte(u32 instruction, u32 byte) {
  return instruction | byte << 4 | byte << 29;
}

// Tiles of rows of 16 bytes that stand one after the other, unchanged: from 8 rows to the next 8 are
// 128 bytes. As what is copied to tensor memory is described: bits 46..48 are 1, without swizzle.
DEVICE u64 describe_plain(u32 address) {
  return u64(address >> 4 & 0x3fff) | u64(128 >> 4) << 32 | u64(1) << 46;
}
