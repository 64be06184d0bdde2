// What a kernel of matrix products makes: one product, or one for each group of rows. Both deal out
// tiles by one number, which a block counts up: `seek` says whether there is such a tile, and which
// product it is of. What it has found stays found for numbers that are no smaller.
#pragma once
#include "params.h"
#include "tiles.h"

// One product, in tiles of ROWS x COLUMNS.
template <u32 ROWS, u32 COLUMNS> struct Single {
  static constexpr bool GROUPS = false;
  // Blocks that share what they fetch.
  static constexpr u32 SHARERS = 1;
  static constexpr u32 group = 0, first = 0;
  GemmParams p;
  u32 rows, columns;

  DEVICE_MEMBER bool seek(u32 index) { return index < rows * columns; }
  DEVICE_MEMBER u32 within(u32 index) const { return index; }
  template <u32 BYTES, u32 BYTES_OUT> DEVICE_MEMBER const GemmParams& product() const { return p; }
};

template <u32 ROWS, u32 COLUMNS> DEVICE Single<ROWS, COLUMNS> single(const GemmParams& p) {
  return {p, tiles_along(p.m, ROWS), tiles_along(p.n, COLUMNS)};
}

// One for each group, group after group: all tiles of one share its B. A group without rows has no
// tiles. How many rows each has is known on the device alone where tokens choose their experts, so
// that no list of tiles is made before.
template <u32 ROWS, u32 COLUMNS> struct Grouped {
  static constexpr bool GROUPS = true;
  static constexpr u32 SHARERS = 1;
  GroupedParams p;
  u32 rows, columns;       // of tiles, of the present group
  u32 group, first, end;   // the group and its rows of A and C
  u32 before;              // tiles of all groups before it

  DEVICE_MEMBER bool seek(u32 index) {
    while (index - before >= rows * columns) {
      if (group + 1 >= p.groups) return false;
      before += rows * columns;
      group++;
      first = end;
      end = p.firsts[group + 1];
      rows = tiles_along(end - first, ROWS);
    }
    return true;
  }
  DEVICE_MEMBER u32 within(u32 index) const { return index - before; }
  // The group's, of elements of so many bytes.
  template <u32 BYTES, u32 BYTES_OUT> DEVICE_MEMBER GemmParams product() const {
    const u8* a = static_cast<const u8*>(p.a) + u64(first) * p.k * BYTES;
    const u8* b = static_cast<const u8*>(p.b) + u64(group) * p.k * p.n * BYTES;
    u8* c = static_cast<u8*>(p.c) + u64(first) * p.n * BYTES_OUT;
    return {a, b, c, end - first, p.n, p.k, p.dtype, nullptr, nullptr};
  }
};

template <u32 ROWS, u32 COLUMNS> DEVICE Grouped<ROWS, COLUMNS> grouped(const GroupedParams& p) {
  const u32 end = p.firsts[1];
  return {p, tiles_along(end, ROWS), tiles_along(p.n, COLUMNS), 0, 0, end, 0};
}
