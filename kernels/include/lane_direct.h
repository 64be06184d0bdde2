// The products of lane_product.h where 16 bytes go from memory to shared memory without a register
// between, as CDNA 4 can: all of A, and B where it lies along k. Copies write where their wave's lanes
// are, one after the other, so that not the place but the chunk that is fetched is exchanged.
//
// Three stages are in shared memory: one is multiplied, the next is there, the one after it on its
// way. Whoever copies waits for the stage before the last, behind which the barrier is.
#pragma once
#include "lane_product.h"

namespace {

template <class T, class S> struct Direct {
  Source a, b;
  Fetched<T, S> fetched;

  // Chunks of rows from the first of a tile on; `end`: bytes of a row.
  static DEVICE_MEMBER void copy(Place* to, Source from, u32 rows, u32 step, u32 end) {
    UNROLL for (u32 i = 0; i < rows * S::CHUNKS / S::THREADS; i++) {
      const u32 chunk = i * S::THREADS + thread_index();
      const u32 row = chunk / S::CHUNKS;
      const u32 byte = step * S::STAGE_BYTES + place<S>(row, chunk % S::CHUNKS) % S::CHUNKS * 16;
      Place* first = to + (i * S::THREADS + wave_index() * LANES);
      copy_direct(first, from, byte < end ? row * end + byte : NOWHERE);
    }
  }

  // What follows a tile's first row, or column.
  static DEVICE_MEMBER Source rest(const void* matrix, u64 first, u32 count, u64 bytes) {
    const u64 left = first < count ? (count - first) * bytes : 0;
    return source_of(static_cast<const u8*>(matrix) + first * bytes, left);
  }

  DEVICE_MEMBER void start(const GemmParams& p, Tile tile) {
    const u64 bytes = u64(p.k) * S::BYTES;
    a = rest(p.a, u64(tile.row) * S::ROWS, p.m, bytes);
    if constexpr (T::BY_COLUMNS) b = rest(p.b, u64(tile.column) * S::COLUMNS, p.n, bytes);
  }

  // Sends a stage on its way: to shared memory, or to registers.
  DEVICE_MEMBER void send(const GemmParams& p, Tile tile, u32 step, Place* stages) {
    Place* stage = stages + step % 3 * S::STAGE;
    copy(stage, a, S::ROWS, step, p.k * S::BYTES);
    if constexpr (T::BY_COLUMNS) {
      copy(stage + S::ROWS * S::CHUNKS, b, S::COLUMNS, step, p.k * S::BYTES);
    } else {
      fetched.template fetch_b<true>(p, tile, step);
    }
  }

  // What of a stage went to registers.
  DEVICE_MEMBER void keep(u32 step, Place* stages) const {
    if constexpr (!T::BY_COLUMNS) fetched.keep_b(stages + step % 3 * S::STAGE);
  }

  // Loads and copies of a stage by one wave.
  static constexpr u32 SENT =
      S::FETCHED_A + (T::BY_COLUMNS ? S::FETCHED_B / 4 : S::PIECES * S::PIECE_ROWS);
};

template <class T, class S> DEVICE void product_direct(const GemmParams& p) {
  static_assert(S::STEPS == 1 && S::ALTERNATES, "all fragments of a stage are loaded at once");
  SHARED Place stages[3 * S::STAGE];
  const u32 rows = tiles_along(p.m, S::ROWS), columns = tiles_along(p.n, S::COLUMNS);
  const u32 steps = tiles_along(p.k, S::DEPTH);
  const bool late = wave_index() >= 4;
  for (u32 index = block_index(); index < rows * columns; index += block_count()) {
    const Tile tile = tile_at<GROUP>(index_on_die(index, rows * columns, S::DIES), rows, columns);
    Direct<T, S> direct;
    direct.start(p, tile);
    direct.send(p, tile, 0, stages);
    direct.keep(0, stages);
    await_direct<0>();
    if (steps > 1) direct.send(p, tile, 1, stages);
    typename T::Sum sums[S::DOWN][S::ACROSS][T::SUMS] = {};
    block_barrier();
    if (late) block_barrier();
    for (u32 step = 0; step < steps; step++) {
      Fragments<T, S> fragments;
      fragments.take(stages + step % 3 * S::STAGE, 0);
      if (step + 1 < steps) direct.keep(step + 1, stages);
      if (step + 2 < steps) {
        direct.send(p, tile, step + 2, stages);
        in_order();
        await_direct<Direct<T, S>::SENT>();
      } else {
        await_direct<0>();
      }
      block_barrier();
      go_first();
      fragments.multiply(sums);
      go_as_others();
      block_barrier();
    }
    if (!late) block_barrier();
    leave<T, S>(p, tile, sums);
  }
}

}  // namespace
