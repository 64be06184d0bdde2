// What a kernel of matrix products makes: one product, or one for each group of rows. Both deal out
// tiles by one number, which a block counts up: `seek` says whether there is such a tile, and which
// product it is of. What it has found stays found for numbers that are no smaller.
#pragma once
#include "params.h"
#include "tiles.h"

// C in `rows` x `columns` tiles, or in pairs of tiles for clusters of two blocks.
template <u32 SHARERS> DEVICE u32 tiles_dealt(u32 rows, u32 columns) {
  if (SHARERS == 1) return rows * columns;
  const Pairs pairs = pairs_of(rows, columns);
  return pairs.rows * pairs.columns;
}

// One product, in tiles of ROWS x COLUMNS. SHARERS blocks, 1 or 2, are a cluster, whose tiles are a
// pair: what is counted is then pairs.
template <u32 ROWS, u32 COLUMNS, u32 BLOCKS = 1> struct Single {
  static constexpr bool GROUPS = false;
  static constexpr u32 SHARERS = BLOCKS, HEIGHT = ROWS, WIDTH = COLUMNS;
  static constexpr u32 group = 0, first = 0;
  GemmParams p;
  u32 rows, columns;

  DEVICE_MEMBER bool seek(u32 index) {
    return index / BLOCKS < tiles_dealt<BLOCKS>(rows, columns);
  }
  DEVICE_MEMBER u32 within(u32 index) const { return index / BLOCKS; }
  template <u32 BYTES, u32 BYTES_OUT> DEVICE_MEMBER const GemmParams& product() const { return p; }
};

template <u32 ROWS, u32 COLUMNS, u32 BLOCKS = 1>
DEVICE Single<ROWS, COLUMNS, BLOCKS> single(const GemmParams& p) {
  return {p, tiles_along(p.m, ROWS), tiles_along(p.n, COLUMNS)};
}

// One for each group, group after group: all tiles of one share its B. A group without rows has no
// tiles. How many rows each has is known on the device alone where tokens choose their experts, so
// that no list of tiles is made before.
template <u32 ROWS, u32 COLUMNS, u32 BLOCKS = 1> struct Grouped {
  static constexpr bool GROUPS = true;
  static constexpr u32 SHARERS = BLOCKS, HEIGHT = ROWS, WIDTH = COLUMNS;
  GroupedParams p;
  u32 rows, columns;       // of tiles, of the present group
  u32 group, first, end;   // the group and its rows of A and C
  u32 before;              // tiles, or pairs, of all groups before it

  DEVICE_MEMBER bool seek(u32 index) {
    for (;;) {
      const u32 dealt = tiles_dealt<BLOCKS>(rows, columns);
      if (index / BLOCKS - before < dealt) return true;
      if (group + 1 >= p.groups) return false;
      before += dealt;
      group++;
      first = end;
      end = p.firsts[group + 1];
      rows = tiles_along(end - first, ROWS);
    }
  }
  DEVICE_MEMBER u32 within(u32 index) const { return index / BLOCKS - before; }
  // The group's, of elements of so many bytes.
  template <u32 BYTES, u32 BYTES_OUT> DEVICE_MEMBER GemmParams product() const {
    const u8* a = static_cast<const u8*>(p.a) + u64(first) * p.k * BYTES;
    const u8* b = static_cast<const u8*>(p.b) + u64(group) * p.k * p.n * BYTES;
    u8* c = static_cast<u8*>(p.c) + u64(first) * p.n * BYTES_OUT;
    return {a, b, c, end - first, p.n, p.k, p.dtype, nullptr, nullptr};
  }
};

template <u32 ROWS, u32 COLUMNS, u32 BLOCKS = 1>
DEVICE Grouped<ROWS, COLUMNS, BLOCKS> grouped(const GroupedParams& p) {
  const u32 end = p.firsts[1];
  return {p, tiles_along(end, ROWS), tiles_along(p.n, COLUMNS), 0, 0, end, 0};
}
