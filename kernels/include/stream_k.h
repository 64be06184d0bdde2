// Tiles shared out so that all blocks end together (Osama, Merrill, Cecka, Garland and Owens,
// "Stream-K", 2023). Where tiles are no multiple of the blocks, those of the last whole round and of
// the rest stand on a line, stage after stage along k, and each block has an equal stretch of it:
// a tile may then be of several blocks. Each leaves its sums in scratch memory; whichever is the
// last to do so for a tile adds all of them up, in the order of blocks. None ever waits for another.
#pragma once
#include "tiles.h"

struct Line {
  u32 tiles, steps;  // all there are; stages of each
  u32 workers, own;  // blocks, or clusters of blocks that have a tile together; this one's number
  u32 whole;         // tiles that a block makes alone
  u64 stages;        // of the tiles on the line

  DEVICE_MEMBER u64 start(u32 block) const { return stages * block / workers; }
  // Which block has a stage of the line: the last to start no later.
  DEVICE_MEMBER u32 owner(u64 stage) const {
    return u32(((stage + 1) * workers - 1) / stages);
  }
};

// CLUSTER neighbouring blocks are one worker.
template <u32 CLUSTER = 1> DEVICE Line line_of(u32 tiles, u32 steps) {
  const u32 workers = block_count() / CLUSTER, rounds = tiles / workers;
  const bool even = tiles % workers == 0;
  const u32 whole = even ? tiles : rounds > 0 ? (rounds - 1) * workers : 0;
  return {tiles, steps, workers, block_index() / CLUSTER, whole, u64(tiles - whole) * steps};
}

// What a block does with one tile: the stages from `step` to `end`.
struct Stretch {
  u32 index, step, end;
  u64 next;  // where the block is on the line

  DEVICE_MEMBER bool there(const Line& line) const { return index < line.tiles; }
  DEVICE_MEMBER void take(const Line& line, u32 wanted) {
    index = wanted;
    step = 0;
    end = line.steps;
    if (wanted < line.whole) return;
    index = line.tiles;
    const u64 stop = line.start(line.own + 1);
    if (next >= stop) return;
    index = line.whole + u32(next / line.steps);
    step = u32(next % line.steps);
    const u64 left = stop - next;
    if (left < line.steps - step) end = step + u32(left);
    next += end - step;
  }
  // To the block's next tile.
  DEVICE_MEMBER void pass(const Line& line) {
    take(line, index < line.whole ? index + line.workers : line.whole);
  }
  // To its next stage.
  DEVICE_MEMBER void advance(const Line& line) {
    if (++step == end) pass(line);
  }
};

DEVICE Stretch first_stretch(const Line& line) {
  Stretch stretch = {0, 0, 0, line.start(line.own)};
  stretch.take(line, line.own);
  return stretch;
}

// Threads that share a part of a tile, and where they meet: THREADS of them, of SUMS sums each, one
// of PARTS such parts. Slots have room for ROOM sums of a thread: as many for all that share scratch
// memory from launch to launch.
template <u32 SUMS, u32 THREADS, u32 PARTS, u32 ROOM = SUMS> struct Sharers {
  // Words of a block's two slots: for the tile that it has the end of, and for that whose start.
  static constexpr u32 PART = ROOM * THREADS, SLOT = PART * PARTS;
  f32* scratch;
  u32* told;
  u32 part, thread;

  DEVICE_MEMBER f32* slot(const Line& line, u32 block, u64 from) const {
    const u32 which = from == line.start(block) ? 0 : 1;
    return scratch + (u64(block) * 2 + which) * SLOT + part * PART + thread;
  }
  // Stages whose sums are there; zero between launches.
  DEVICE_MEMBER u32* count(const Line& line, u32 index) const {
    u32* counts = reinterpret_cast<u32*>(scratch + u64(line.workers) * 2 * SLOT);
    return counts + (index - line.whole) * PARTS + part;
  }

  // Leaves a stretch's sums, `sum(i)` the i-th of this thread; whether it was the tile's last, whose
  // sums are then those of all.
  template <class Sum, class Meet>
  DEVICE_MEMBER bool complete(const Line& line, u32 index, u32 from, u32 end, Sum sum,
                              Meet meet) const {
    const u64 tile = u64(index - line.whole) * line.steps;
    f32* to = slot(line, line.own, tile + from);
    UNROLL for (u32 i = 0; i < SUMS; i++) to[i * THREADS] = sum(i);
    device_fence();
    meet();
    if (thread == 0) told[part] = atomic_add(count(line, index), end - from);
    meet();
    if (told[part] + (end - from) != line.steps) return false;
    device_fence();
    UNROLL for (u32 i = 0; i < SUMS; i++) sum(i) = 0.0f;
    const u32 last = line.owner(tile + line.steps - 1);
    for (u32 block = line.owner(tile); block <= last; block++) {
      const u64 start = line.start(block) < tile ? tile : line.start(block);
      if (line.start(block + 1) <= start) continue;
      const f32* slots = slot(line, block, start);
      UNROLL for (u32 i = 0; i < SUMS; i++) sum(i) += load_fresh(slots + i * THREADS);
    }
    if (thread == 0) *count(line, index) = 0;
    return true;
  }
};
