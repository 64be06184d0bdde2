// The products of lane_product.h for groups of rows (grouped.h), in tiles of half of its rows: groups are seldom
// multiples of a tile, and of one with fewer rows the tile's others are multiplied for nothing. Rows of A, B and C
// must be multiples of 16 bytes.
//
// Which tiles there are only the device knows, and no block counts all of them before it begins. Blocks of a
// die are neighbours in the count, so that tiles that share rows of A or columns of B share a cache.
#pragma once
#include "grouped.h"
#include "lane_product.h"

namespace {

// Which group a tile is of. A wave's lanes have a group each, and count their tiles together: walking the groups
// one by one would wait for memory once for each.
template <u32 ROWS, u32 COLUMNS> struct WaveGroups {
  // What was found, as grouped.h has it.
  Grouped<ROWS, COLUMNS> at;
  // The first lane's group; tiles of all groups before it, and of those that lanes have.
  u32 base, before, all;
  // Of this lane: its group's rows of A and C, and tiles of it and those of lanes before.
  u32 first, end, tiles;

  DEVICE_MEMBER void start(const GroupedParams& p) {
    at = {p, 0, tiles_along(p.n, COLUMNS), 0, 0, 0, 0};
    base = before = 0;
    take();
  }
  // Lanes behind the last group have none of its rows.
  DEVICE_MEMBER void take() {
    const u32 lane = lane_index(), group = base + lane, groups = at.p.groups;
    const auto start_of = [&](u32 group) {
      u32 got[1];
      get_words(got, reinterpret_cast<const u8*>(at.p.firsts + (group < groups ? group : groups)));
      return got[0];
    };
    first = start_of(group);
    end = start_of(group + 1);
    tiles = tiles_along(end - first, ROWS) * at.columns;
    UNROLL for (u32 step = 1; step < LANES; step *= 2) {
      const u32 others = of_lane(tiles, (lane + LANES - step) % LANES);
      if (lane >= step) tiles += others;
    }
    all = of_wave(of_lane(tiles, LANES - 1));
  }
  // The same as Grouped's.
  DEVICE_MEMBER bool seek(u32 index) {
    while (index - before >= all) {
      if (at.p.groups - base <= LANES) return false;
      before += all;
      base += LANES;
      take();
    }
    const u32 lane = lanes_that(tiles <= index - before);
    const auto of = [&](u32 value) { return of_wave(of_lane(value, lane)); };
    at.group = base + lane;
    at.first = of(first);
    at.end = of(end);
    at.rows = tiles_along(at.end - at.first, ROWS);
    at.before = before + of(tiles) - at.rows * at.columns;
    return true;
  }
};

template <class T, class S> DEVICE void product_grouped(const GroupedParams& p) {
  SHARED Place stages[2 * S::STAGE];
  const u32 blocks = block_count();
  WaveGroups<S::ROWS, S::COLUMNS> groups;
  groups.start(p);
  for (u32 index = index_on_die(block_index(), blocks, S::DIES); groups.seek(index); index += blocks) {
    const auto& at = groups.at;
    const GemmParams of = at.template product<S::BYTES, sizeof(typename T::Out)>();
    make_tile<T, S>(of, tile_at<GROUP>(at.within(index), at.rows, at.columns), stages);
  }
}

}  // namespace
