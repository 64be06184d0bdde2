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
  // Of the block, where the first lane of this wave is.
  u32 first_lane;
  Fetched<T, S> fetched;

  // Chunks of a stage, of rows of `bytes` each of which there are `all`.
  DEVICE_MEMBER void copy(Place* to, const void* matrix, u32 first, u32 rows, u32 all, u32 step,
                          u32 bytes) const {
    const u32 byte = byte_of<S>(exchanged(thread_index()), step, bytes);
    UNROLL for (u32 i = 0; i < rows * S::CHUNKS / S::THREADS; i++) {
      const Source from = rows_of<S>(matrix, first, i, all, bytes);
      copy_direct(to + (i * S::THREADS + first_lane), from, byte);
    }
  }

  // Sends a stage on its way: to shared memory, or to registers.
  DEVICE_MEMBER void send(const GemmParams& p, Tile tile, u32 step, Place* stages) {
    Place* stage = stages + step % 3 * S::STAGE;
    const u32 bytes = p.k * S::BYTES;
    copy(stage, p.a, tile.row * S::ROWS, S::ROWS, p.m, step, bytes);
    if constexpr (T::BY_COLUMNS) {
      Place* columns = stage + S::ROWS * S::CHUNKS;
      copy(columns, p.b, tile.column * S::COLUMNS, S::COLUMNS, p.n, step, bytes);
    } else {
      fetched.fetch_b(p, tile, step);
    }
  }

  // What of a stage went to registers.
  DEVICE_MEMBER void keep(u32 step, Place* stages) const {
    if constexpr (!T::BY_COLUMNS) fetched.keep_b(stages + step % 3 * S::STAGE);
  }

  // Loads and copies of a stage by one wave.
  static constexpr u32 SENT = S::FETCHED_A + S::FETCHED_B;
};

template <class T, class S> DEVICE void product_direct(const GemmParams& p) {
  static_assert(S::STEPS == 1 && S::ALTERNATES, "all fragments of a stage are loaded at once");
  SHARED Place stages[3 * S::STAGE];
  const u32 rows = tiles_along(p.m, S::ROWS), columns = tiles_along(p.n, S::COLUMNS);
  const u32 steps = tiles_along(p.k, S::DEPTH);
  const bool late = of_wave(wave_index()) >= 4;
  for (u32 index = block_index(); index < rows * columns; index += block_count()) {
    const Tile tile = tile_at<GROUP>(index_on_die(index, rows * columns, S::DIES), rows, columns);
    Direct<T, S> direct = {of_wave(wave_index()) * LANES};
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
      in_order();
      if (step + 1 < steps) {
        direct.keep(step + 1, stages);
        if (step + 2 < steps) {
          direct.send(p, tile, step + 2, stages);
          in_order();
          await_direct<Direct<T, S>::SENT>();
        } else {
          await_direct<0>();
        }
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
