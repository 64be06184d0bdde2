// What matrix products into tensor memory have in common: who waits for whom, and how sums leave.
// One thread has stages copied, one has them multiplied, four warps write sums.
#pragma once
#include "phase_ring.h"
#include "sm100.h"
#include "tiles.h"

// Two tiles of sums.
using Sums = PhaseRing<2>;

// Tiles, the steps of each along k, how many rows of tiles are walked at once, and of how many tiles
// none is halved: those behind them are made as two halves of their columns.
struct Work { u32 rows, columns, steps, height, whole = ~0u; };

// A tile of C, or the first (0) or second (1) half of its columns; 2: all of them.
struct Made : Tile { u32 half; };

// Tiles that are not halved: all of them, but for those of a last round in which halves suffice for
// `workers` blocks or pairs.
DEVICE u32 whole_tiles(u32 tiles, u32 workers) {
  const u32 rest = tiles % workers;
  return 2 * rest <= workers ? tiles - rest : tiles;
}

// Which tile or half comes as number `index`, of those that all blocks make together. The halves of a
// tile follow each other.
DEVICE u32 made_in_all(Work work) {
  const u32 tiles = work.rows * work.columns;
  return tiles <= work.whole ? tiles : 2 * tiles - work.whole;
}
DEVICE Made made_at(Work work, u32 index) {
  const bool halved = index >= work.whole;
  const u32 behind = halved ? index - work.whole : 0;
  const Tile tile = tile_at(halved ? work.whole + behind / 2 : index, work.rows, work.columns,
                            work.height);
  return {tile, halved ? behind % 2 : 2};
}

// Calls `make(tile)` for each tile or half that this block makes, or the pair that it belongs to.
template <u32 BLOCKS, class Make> DEVICE void for_each_tile(Work work, Make make) {
  const u32 all = made_in_all(work);
  for (u32 index = block_index() / BLOCKS; index < all; index += block_count() / BLOCKS) {
    make(made_at(work, index));
  }
}

CONSTANT u32 WRITERS = 128;
// 128 rows of 64 sums of 16 bits or 32 of 32.
CONSTANT u32 BUFFER_BYTES = WRITERS * 128;
CONSTANT u32 BUFFERS = 2;

// Which of its pair this block is; of no pair it is the first.
template <u32 BLOCKS> DEVICE u32 place_in_pair() { return BLOCKS == 2 ? cluster_place() : 0; }

// As tile_load; of a pair the first block's barrier gets the bytes.
template <u32 BLOCKS>
DEVICE void load_box(u8* to, const TensorMap* map, u32 column, u32 row, u64* full) {
  if constexpr (BLOCKS == 2) tile_load_of_pair(to, map, column, row, full);
  else tile_load(to, map, column, row, full);
}

// The i-th 16 bytes of a row of C: 8 sums, narrowed, or 4 as they are (u32).
template <class Out> DEVICE Vector<u32> chunk_of(const f32 (&sums)[32], u32 i, Out type) {
  Vector<u32> chunk;
  UNROLL for (u32 e = 0; e < 4; e++) {
    chunk.at[e] = narrow_pair(sums[8 * i + 2 * e], sums[8 * i + 2 * e + 1], type);
  }
  return chunk;
}
DEVICE Vector<u32> chunk_of(const f32 (&sums)[32], u32 i, u32) {
  Vector<u32> chunk;
  UNROLL for (u32 e = 0; e < 4; e++) chunk.at[e] = bits_of(sums[4 * i + e]);
  return chunk;
}

// Leaves sums as they are.
struct Unchanged {
  DEVICE_MEMBER f32 operator()(f32 sum) const { return sum; }
};

// 128 bytes of this thread's row of C, of sums that stand from column `from` of tensor memory on;
// `finish(sum)` is what C gets of a sum.
template <class Out, class Finish = Unchanged>
DEVICE void load_part(Vector<u32> (&chunks)[8], u32 from, Out type, Finish finish = {}) {
  constexpr u32 CHUNKS = sizeof(Out) * 2;
  const u32 lanes = thread_index() % WRITERS / 32 * 32 << 16;
  UNROLL for (u32 load = 0; load < 8 / CHUNKS; load++) {
    f32 values[32];
    load_sums(values, from + lanes + load * 32);
    UNROLL for (u32 i = 0; i < 32; i++) values[i] = finish(values[i]);
    UNROLL for (u32 i = 0; i < CHUNKS; i++) {
      chunks[load * CHUNKS + i] = chunk_of(values, i, type);
    }
  }
}
// Writes such a part of each row to C; `next` says which buffer is free next.
DEVICE void write_part(const Vector<u32> (&chunks)[8], u8* buffers, u32& next, u32 column, u32 first,
                       const TensorMap* c) {
  const u32 row = thread_index() % WRITERS;
  u8* buffer = buffers + next * BUFFER_BYTES;
  next = (next + 1) % BUFFERS;
  // The store before the last one, which read this buffer, has done so.
  if (row == 0) await_stores_read<BUFFERS - 1>();
  barrier_of<WRITERS>(1);
  UNROLL for (u32 i = 0; i < 8; i++) store_chunk(buffer + row * 128 + (i ^ row % 8) * 16, chunks[i]);
  show_to_copies();
  barrier_of<WRITERS>(1);
  if (row == 0) {
    tile_store(c, buffer, column, first);
    close_stores();
  }
}

// Writes `parts` times 128 bytes of each row of a tile whose sums stand from column `from` of tensor
// memory on; each thread has one row of them. `freed()` is called when the last sums are read.
template <class Out, class Freed>
DEVICE void write_tile(u32 from, u8* buffers, u32& next, u32 parts, u32 column, u32 first,
                       const TensorMap* c, Freed freed) {
  constexpr u32 WIDTH = 128 / sizeof(Out);
  for (u32 part = 0; part < parts; part++) {
    Vector<u32> chunks[8];
    load_part(chunks, from + part * WIDTH, Out());
    if (part == parts - 1) freed();
    write_part(chunks, buffers, next, column + part * WIDTH, first, c);
  }
}

// Tells the block that multiplies that this thread has read its sums.
template <u32 BLOCKS> DEVICE void give_place(Sums sums) {
  show_tensor_memory();
  if constexpr (BLOCKS == 2) arrive_in_cluster(&sums.empty[sums.at], 0);
  else arrive(&sums.empty[sums.at]);
}

// Writes tile after tile.
template <class Out, u32 COLUMNS, u32 BLOCKS>
DEVICE void write_all(Sums sums, u32 memory, u8* buffers, Work work, const TensorMap* c) {
  constexpr u32 PARTS = COLUMNS * sizeof(Out) / 128;
  u32 next = 0;
  for_each_tile<BLOCKS>(work, [&](Made tile) {
    await_phase(&sums.full[sums.at], sums.parity);
    see_tensor_memory();
    const u32 column = tile.column * COLUMNS + (tile.half == 1 ? COLUMNS / 2 : 0);
    const u32 first = (tile.row * BLOCKS + place_in_pair<BLOCKS>()) * WRITERS;
    write_tile<Out>(memory + sums.at * COLUMNS, buffers, next, tile.half == 2 ? PARTS : PARTS / 2,
                    column, first, c, [&] { give_place<BLOCKS>(sums); });
    sums.advance();
  });
  if (thread_index() % WRITERS == 0) await_stores<0>();
}

// Makes `count` stages' barriers and takes tensor memory; `produce` is what the copying thread does,
// `multiply` the multiplying one, of a pair that of the first block, `write` the four warps that are
// left. `rest` is what the warps of the first two do when those have done their work. Blocks of a
// cluster of CLUSTER begin and end together. TOLD: in the second block of a pair the thread that would
// multiply calls `tell`, which arrives at the first block's barrier of each stage; that barrier expects
// two arrivals then.
struct Nothing {
  DEVICE_MEMBER void operator()() const {}
};
template <u32 BLOCKS, u32 CLUSTER = BLOCKS, bool TOLD = false, class Stages, class Produce,
          class Multiply, class Write, class Rest = Nothing, class Tell = Nothing>
DEVICE void with_tensor_memory(Stages stages, Sums sums, u32 count, u32* memory_at,
                               Produce produce, Multiply multiply, Write write, Rest rest = {},
                               Tell tell = {}) {
  const u32 warp = warp_number();
  // Of a cluster no block uses the other's barriers before they are made, or after it has ended.
  const auto meet = [] {
    show_tensor_memory();
    if constexpr (CLUSTER > 1) cluster_barrier();
    else block_barrier();
    see_tensor_memory();
  };
  if (thread_index() == 0) {
    for (u32 i = 0; i < count; i++) {
      make_barrier(&stages.full[i], TOLD && place_in_pair<BLOCKS>() == 0 ? 2 : 1);
      make_barrier(&stages.empty[i], 1);
    }
    for (u32 i = 0; i < 2; i++) {
      make_barrier(&sums.full[i], 1);
      make_barrier(&sums.empty[i], BLOCKS * WRITERS);
    }
    barriers_made();
  }
  warp_barrier();
  if (warp == 1) take_tensor_memory<BLOCKS>(memory_at);
  meet();
  const u32 memory = memory_at[0];
  if (warp == 0 && elected()) produce();
  if (warp == 1 && place_in_pair<BLOCKS>() == 0 && elected()) multiply(memory);
  if constexpr (TOLD) {
    if (warp == 1 && place_in_pair<BLOCKS>() == 1 && elected()) tell();
  }
  if (warp >= 4) write(memory);
  if constexpr (CLUSTER > BLOCKS) {
    warp_barrier();
    if (warp < 4) rest();
  }
  // Warps whose one thread worked come together before the block does.
  warp_barrier();
  meet();
  if (warp == 1) give_tensor_memory<BLOCKS>(memory);
}
