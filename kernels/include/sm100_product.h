// What matrix products into tensor memory have in common: who waits for whom, and how sums leave.
// One thread has stages copied, one has them multiplied, four warps write sums.
#pragma once
#include "phase_ring.h"
#include "sm100.h"
#include "tiles.h"

// Two tiles of sums.
using Sums = PhaseRing<2>;

struct Work {
  u32 rows, columns, steps;

  DEVICE_MEMBER u32 tiles() const { return rows * columns; }
};

CONSTANT u32 PRODUCT_GROUP = 8;
CONSTANT u32 WRITERS = 128;
// 128 rows of 64 sums of 16 bits.
CONSTANT u32 BUFFER_BYTES = WRITERS * 128;
CONSTANT u32 BUFFERS = 2;

// Writes tile after tile, 64 columns at a time: each thread has one row of them.
template <class Out, u32 COLUMNS>
DEVICE void write_all(Sums sums, u32 memory, u8* buffers, Work work, const TensorMap* c) {
  const u32 row = thread_index() % WRITERS;
  u32 next = 0;
  for (u32 index = block_index(); index < work.tiles(); index += block_count()) {
    const Tile tile = tile_at<PRODUCT_GROUP>(index, work.rows, work.columns);
    await_phase(&sums.full[sums.at], sums.parity);
    see_tensor_memory();
    for (u32 part = 0; part < COLUMNS / 64; part++) {
      u8* buffer = buffers + next * BUFFER_BYTES;
      next = (next + 1) % BUFFERS;
      // The store before the last one, which read this buffer, has done so.
      if (row == 0) await_stores_read<BUFFERS - 1>();
      barrier_of<WRITERS>(1);
      UNROLL for (u32 half = 0; half < 2; half++) {
        f32 values[32];
        const u32 lanes = row / 32 * 32 << 16;
        load_sums(values, memory + lanes + sums.at * COLUMNS + part * 64 + half * 32);
        UNROLL for (u32 i = 0; i < 4; i++) {
          Vector<u32> chunk;
          UNROLL for (u32 e = 0; e < 4; e++) {
            chunk.at[e] = narrow_pair(values[8 * i + 2 * e], values[8 * i + 2 * e + 1], Out());
          }
          const u32 place = (half * 4 + i) ^ (row % 8);
          store_chunk(buffer + row * 128 + place * 16, chunk);
        }
      }
      if (part == COLUMNS / 64 - 1) {
        // The last sums of this tile are read: its place is free.
        show_tensor_memory();
        arrive(&sums.empty[sums.at]);
      }
      show_to_copies();
      barrier_of<WRITERS>(1);
      if (row == 0) {
        tile_store(c, buffer, tile.column * COLUMNS + part * 64, tile.row * WRITERS);
        close_stores();
      }
    }
    sums.advance();
  }
  if (row == 0) await_stores<0>();
}

// Makes barriers and takes tensor memory; `produce` is what the copying thread does, `multiply` the
// multiplying one, `write` the four warps that are left.
template <class Stages, class Produce, class Multiply, class Write>
DEVICE void with_tensor_memory(Stages stages, Sums sums, u32 count, u32* memory_at,
                               Produce produce, Multiply multiply, Write write) {
  const u32 warp = warp_number();
  if (thread_index() == 0) {
    for (u32 i = 0; i < count; i++) {
      make_barrier(&stages.full[i], 1);
      make_barrier(&stages.empty[i], 1);
    }
    for (u32 i = 0; i < 2; i++) {
      make_barrier(&sums.full[i], 1);
      make_barrier(&sums.empty[i], WRITERS);
    }
    barriers_made();
  }
  warp_barrier();
  if (warp == 1) take_tensor_memory(memory_at);
  show_tensor_memory();
  block_barrier();
  see_tensor_memory();
  const u32 memory = memory_at[0];
  if (warp == 0 && elected()) produce();
  if (warp == 1 && elected()) multiply(memory);
  if (warp >= 4) write(memory);
  // Warps whose one thread worked come together before the block does.
  warp_barrier();
  show_tensor_memory();
  block_barrier();
  see_tensor_memory();
  if (warp == 1) give_tensor_memory(memory);
}
