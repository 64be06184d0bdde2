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
  u32 slots;         // workers that scratch memory has room for
  u32 whole;         // tiles that a block makes alone
  u32 each, more;    // stages of a stretch; stretches that have one stage more, which come first

  DEVICE_MEMBER u32 start(u32 block) const { return block * each + (block < more ? block : more); }
  // Which block has a stage of the line.
  DEVICE_MEMBER u32 owner(u32 stage) const {
    const u32 longer = more * (each + 1);
    return stage < longer ? stage / (each + 1) : more + (stage - longer) / each;
  }
};

// CLUSTER neighbouring blocks are one worker. Where LEAST is said and tiles are fewer than workers, only
// so many work that each has LEAST stages.
template <u32 CLUSTER = 1, u32 LEAST = 0> DEVICE Line line_of(u32 tiles, u32 steps) {
  const u32 slots = block_count() / CLUSTER;
  u32 workers = slots;
  if constexpr (LEAST > 0) {
    const u32 filled = tiles * steps / LEAST, wanted = filled < tiles ? tiles : filled;
    workers = wanted < slots ? wanted : slots;
  }
  const u32 rounds = tiles / workers;
  const bool even = tiles % workers == 0;
  const u32 whole = even ? tiles : rounds > 0 ? (rounds - 1) * workers : 0;
  const u32 stages = (tiles - whole) * steps;
  return {tiles, steps, workers, block_index() / CLUSTER, slots, whole, stages / workers,
          stages % workers};
}

// What a block does with one tile: the stages from `step` to `end`.
struct Stretch {
  u32 index, step, end;
  u32 next;  // where the block is on the line

  DEVICE_MEMBER bool there(const Line& line) const { return index < line.tiles; }
  DEVICE_MEMBER void take(const Line& line, u32 wanted) {
    index = wanted;
    step = 0;
    end = line.steps;
    if (wanted < line.whole) return;
    index = line.tiles;
    const u32 stop = line.start(line.own + 1);
    if (next >= stop) return;
    index = line.whole + next / line.steps;
    step = next % line.steps;
    if (stop - next < line.steps - step) end = step + (stop - next);
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
  Stretch stretch = {line.tiles, 0, 0, line.start(line.own)};
  if (line.own < line.workers) stretch.take(line, line.own);
  return stretch;
}

// Threads that share a part of a tile, and where they meet: THREADS of them, of SUMS sums each, one
// of PARTS such parts. Slots have room for ROOM sums of a thread: as many for all that share scratch
// memory from launch to launch. Of so many blocks AT_ONCE sums are read before any is added. Integers are
// added as u32, whose bits are the same.
template <u32 SUMS, u32 THREADS, u32 PARTS, u32 ROOM = SUMS, u32 AT_ONCE = 1, class Value = f32>
struct Sharers {
  // Words of a block's two slots: for the tile that it has the end of, and for that whose start.
  static constexpr u32 PART = ROOM * THREADS, SLOT = PART * PARTS;
  // From one sum of a thread to its next.
  static constexpr u32 APART = THREADS;
  using Word = Value;
  Value* scratch;
  u32* told;
  u32 part, thread;

  DEVICE_MEMBER Value* slot(const Line& line, u32 block, u32 from) const {
    const u32 which = from == line.start(block) ? 0 : 1;
    return scratch + (u64(block) * 2 + which) * SLOT + part * PART + thread;
  }
  // Stages whose sums are there; zero between launches.
  DEVICE_MEMBER u32* count(const Line& line, u32 index) const {
    u32* counts = reinterpret_cast<u32*>(scratch + u64(line.slots) * 2 * SLOT);
    return counts + (index - line.whole) * PARTS + part;
  }

  // Leaves a stretch's sums, `sum(i)` the i-th of this thread; whether it was the tile's last.
  template <class Sum, class Meet>
  DEVICE_MEMBER bool leave(const Line& line, u32 index, u32 from, u32 end, Sum sum,
                           Meet meet) const {
    const u32 tile = (index - line.whole) * line.steps;
    Value* to = slot(line, line.own, tile + from);
    UNROLL for (u32 i = 0; i < SUMS; i++) to[i * THREADS] = sum(i);
    device_fence();
    meet();
    if (thread == 0) told[part] = atomic_add(count(line, index), end - from);
    meet();
    if (told[part] + (end - from) != line.steps) return false;
    device_fence();
    return true;
  }
  // Where a block left its sums of a tile, whose first stage on the line is `tile`.
  DEVICE_MEMBER const Value* left(const Line& line, u32 tile, u32 block) const {
    const u32 start = line.start(block);
    return slot(line, block, start < tile ? tile : start);
  }
  // For the next launch, when all sums are read.
  DEVICE_MEMBER void forget_count(const Line& line, u32 index) const {
    if (thread == 0) *count(line, index) = 0;
  }

  // The same as `leave`; after the tile's last stretch, sums are those of all.
  template <class Sum, class Meet>
  DEVICE_MEMBER bool complete(const Line& line, u32 index, u32 from, u32 end, Sum sum,
                              Meet meet) const {
    if (!leave(line, index, from, end, sum, meet)) return false;
    const u32 tile = (index - line.whole) * line.steps;
    UNROLL for (u32 i = 0; i < SUMS; i++) sum(i) = Value();
    const u32 last = line.owner(tile + line.steps - 1);
    for (u32 first = line.owner(tile); first <= last; first += AT_ONCE) {
      const Value* slots[AT_ONCE];
      UNROLL for (u32 j = 0; j < AT_ONCE; j++) {
        slots[j] = left(line, tile, first + j < last ? first + j : last);
      }
      UNROLL for (u32 i = 0; i < SUMS; i++) {
        Value got[AT_ONCE];
        UNROLL for (u32 j = 0; j < AT_ONCE; j++) got[j] = load_fresh(slots[j] + i * THREADS);
        UNROLL for (u32 j = 0; j < AT_ONCE; j++) {
          if (first + j <= last) sum(i) += got[j];
        }
      }
    }
    forget_count(line, index);
    return true;
  }
};

// How sums are kept in scratch memory: integers as u32.
template <class Sum> struct Scratch { using Value = Sum; };
template <> struct Scratch<i32> { using Value = u32; };
