// Which tile of C comes when: all matrix products walk it the same way.
#pragma once
#include "gpu.h"

struct Tile { u32 row, column; };

DEVICE u32 tiles_along(u32 length, u32 tile) { return (length + tile - 1) / tile; }

// Tiles go down GROUP rows before the next column, so that the tiles in work at one time share rows
// of A and columns of B in the last cache: with n of them in work, sqrt(n) of each would be the
// least to fetch. The last group may have fewer rows.
template <u32 GROUP> DEVICE Tile tile_at(u32 index, u32 rows, u32 columns) {
  const u32 group = index / (GROUP * columns);
  const u32 first = group * GROUP;
  const u32 height = rows - first < GROUP ? rows - first : GROUP;
  const u32 within = index - group * (GROUP * columns);
  return {first + within % height, within / height};
}
