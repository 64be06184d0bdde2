// The products of lane_product.h where tiles do not fill the rounds of all units: blocks share the tiles of the
// last whole round and of the rest, or all of them where there are fewer than blocks (stream_k.h). A tile has
// half of the rows of lane_product.h's, since whoever adds a tile's sums reads all of them: the smaller the tile, the
// less there is to read.
//
// Behind a block's stretch of a tile, stages are zeros in A and in B: a zero of one multiplied with an infinity of the
// other would be no number. Neighbours on the line are blocks of one die, so that those who share a tile also
// share a cache.
#pragma once
#include "lane_product.h"
#include "stream_k.h"

namespace {

// A stretch of a tile that blocks share has at least this many stages: by the rates of kernels/rates.toml a shorter
// one costs more to add up than it saves.
CONSTANT u32 STRETCH_LEAST = 24;

// What blocks share. Tiles of less than a stretch are made alone; of less than two where there are fewer than blocks.
DEVICE Line shared_line(u32 tiles, u32 steps) {
  const u32 blocks = block_count();
  if (steps >= (tiles < blocks ? 2 : 1) * STRETCH_LEAST) return line_of<1, STRETCH_LEAST>(tiles, steps);
  return {tiles, steps, tiles < blocks ? tiles : blocks, block_index(), blocks, tiles, 0, 0};
}

// The stages of a tile that a block has: from `first` on. Behind them are those behind the tile's last.
struct SomeStages {
  u32 first, count, all;
  DEVICE_MEMBER u32 at(u32 step) const { return step < count ? first + step : all; }
};

// Adds what other blocks left of a tile to what this one has, in the order of blocks. All loads of a part are under
// way at once.
template <u32 SUMS, class Sharers, class Sum>
DEVICE void add_parts(const Sharers& sharers, const Line& line, u32 index, Sum sum) {
  using Word = typename Sharers::Word;
  const u32 tile = (index - line.whole) * line.steps, last = line.owner(tile + line.steps - 1);
  Word added[SUMS] = {};
  for (u32 block = line.owner(tile); block <= last; block++) {
    Word got[SUMS];
    if (block == line.own) {
      UNROLL for (u32 i = 0; i < SUMS; i++) got[i] = sum(i);
    } else {
      const Word* from = sharers.left(line, tile, block);
      UNROLL for (u32 i = 0; i < SUMS; i++) got[i] = load_fresh(from + i * Sharers::APART);
      in_order();
    }
    UNROLL for (u32 i = 0; i < SUMS; i++) added[i] += got[i];
    in_order();
  }
  UNROLL for (u32 i = 0; i < SUMS; i++) sum(i) = added[i];
  sharers.forget_count(line, index);
}

template <class T, class S>
DEVICE void product_stream_k(const GemmParams& p, f32* scratch) {
  using Value = typename Scratch<typename T::Sum>::Value;
  constexpr u32 SUMS = S::DOWN * S::ACROSS * T::SUMS;
  SHARED Place stages[2 * S::STAGE];
  SHARED u32 told[1];
  const u32 rows = tiles_along(p.m, S::ROWS), columns = tiles_along(p.n, S::COLUMNS);
  Line line = shared_line(rows * columns, tiles_along(p.k, S::DEPTH));
  if (line.own < line.workers) line.own = index_on_die(line.own, line.workers, S::DIES);
  for (Stretch now = first_stretch(line); now.there(line); now.pass(line)) {
    const Tile tile = tile_at<GROUP>(now.index, rows, columns);
    const SomeStages which = {now.step, now.end - now.step, line.steps};
    Fetched<T, S> fetched[S::AHEAD];
    send_first(p, tile, which, stages, fetched);
    typename T::Sum sums[S::DOWN][S::ACROSS][T::SUMS] = {};
    block_barrier();
    Alone<T, S> beside[S::AHEAD];
    multiply_alternating<T, S>(p, tile, which, stages, fetched, beside, sums);
    if (which.count < line.steps) {
      // Places that follow from the thread take no registers while stages are multiplied.
      u32 thread = thread_index();
      forget(thread);
      const Sharers<SUMS, S::THREADS, 1, SUMS, 1, Value> sharers = {
          reinterpret_cast<Value*>(scratch), told, 0, thread};
      const auto sum = [&](u32 i) -> Value& {
        return reinterpret_cast<Value&>(
            sums[i / (S::ACROSS * T::SUMS)][i / T::SUMS % S::ACROSS][i % T::SUMS]);
      };
      const auto meet = [] { block_barrier(); };
      if (!sharers.leave(line, now.index, now.step, now.end, sum, meet)) continue;
      add_parts<SUMS>(sharers, line, now.index, sum);
    }
    leave<T, S>(p, tile, sums);
  }
}

}  // namespace
