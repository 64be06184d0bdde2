// Which tile of C comes when: all matrix products walk it the same way.
#pragma once
#include "gpu.h"

struct Tile { u32 row, column; };

DEVICE u32 tiles_along(u32 length, u32 tile) { return (length + tile - 1) / tile; }

// Tiles go down `height` rows before the next column, so that the tiles in work at one time share
// rows of A and columns of B in the last cache. The last group may have fewer rows.
DEVICE Tile tile_at(u32 index, u32 rows, u32 columns, u32 height) {
  const u32 group = index / (height * columns);
  const u32 first = group * height;
  const u32 there = rows - first < height ? rows - first : height;
  const u32 within = index - group * (height * columns);
  return {first + within % there, within / there};
}
template <u32 GROUP> DEVICE Tile tile_at(u32 index, u32 rows, u32 columns) {
  return tile_at(index, rows, columns, GROUP);
}

// The height, of 4, 8 and 16, by which `at_once` tiles of so many rows and columns of C together
// need the fewest rows of A and columns of B.
DEVICE u32 group_height(u32 tile_rows, u32 tile_columns, u32 at_once) {
  u32 best = 4, least = ~0u;
  for (u32 height = 4; height <= 16; height *= 2) {
    const u32 needed = height * tile_rows + tiles_along(at_once, height) * tile_columns;
    if (needed < least) best = height;
    if (needed < least) least = needed;
  }
  return best;
}

// Tiles in pairs, one for each block of a cluster of two. Two tiles below each other (`down`) need
// the same columns of B, two beside each other the same rows of A. Where rows or columns of tiles are
// odd, one tile of a pair may be outside of C: the way with fewer pairs is taken.
struct Pairs { u32 rows, columns, down; };

DEVICE Pairs pairs_of(u32 rows, u32 columns) {
  const u32 high = tiles_along(rows, 2), wide = tiles_along(columns, 2);
  if (high * columns <= rows * wide) return {high, columns, 1};
  return {rows, wide, 0};
}
