// Matrix products into tensor memory of elements without scales: B row by row, of fp8 (e4m3) column by
// column. Rows must be multiples of 16 bytes.
//
// A tile of 128 x 256 is made by one block, one of 256 x 256 by a pair of blocks. Each block of a pair
// has half of A's rows and half of B's columns copied, a third less than one block for its own tile.
// One block for each unit, or the pair, walks its tiles. One thread has stages of 128 bytes along k
// copied by tensor maps, four or six in a ring; one thread of another warp, of a pair the first
// block's, has them multiplied; four warps write the sums. Tensor memory holds two tiles of sums: one
// is written while the next is made.
#pragma once
#include "params.h"
#include "sm100_product.h"

// Of a block.
CONSTANT u32 ROWS = 128;
CONSTANT u32 COLUMNS = 256;
CONSTANT u32 ROW_BYTES = 128;
CONSTANT u32 BYTES_A = ROWS * ROW_BYTES;

// A stage of a block, alone or of a pair.
template <u32 BLOCKS> struct Stage {
  static constexpr u32 COLUMNS_B = COLUMNS / BLOCKS;
  static constexpr u32 BYTES = BYTES_A + COLUMNS_B * ROW_BYTES;
  static constexpr u32 COUNT = 2 + 2 * BLOCKS;
  using Ring = PhaseRing<COUNT>;
};

template <u32 BLOCKS>
DEVICE void load_box(u8* to, const TensorMap* map, u32 column, u32 row, u64* full) {
  if constexpr (BLOCKS == 2) tile_load_of_pair(to, map, column, row, full);
  else tile_load(to, map, column, row, full);
}

// Rows of B are along n, 128 bytes of each in a box. `TYPE` and `SUMS` as instruct takes them.
template <class In, class Sum, u32 TYPE, u32 SUMS> struct RowByRow {
  using Out = Sum;
  static constexpr u32 DEPTH = ROW_BYTES / sizeof(In);
  static DEVICE_MEMBER constexpr u32 instruction(u32 rows) {
    return instruct(TYPE, 1, rows, COLUMNS, SUMS);
  }
  static constexpr u32 BOX_BYTES = DEPTH * ROW_BYTES;
  template <u32 BLOCKS>
  static DEVICE_MEMBER void load_b(u8* to, const TensorMap* b, u32 column, u32 step, u64* full) {
    UNROLL for (u32 box = 0; box < COLUMNS / BLOCKS / DEPTH; box++) {
      load_box<BLOCKS>(to + box * BOX_BYTES, b, column + box * DEPTH, step * DEPTH, full);
    }
  }
  static constexpr u32 PART_B = DEPTH / 4 * ROW_BYTES;
  static DEVICE_MEMBER u64 describe_b(u32 stage) {
    return describe_for_tensor_memory(describe_mn_major(stage, BOX_BYTES));
  }
};
template <class In> struct Type;
template <> struct Type<f16> : RowByRow<f16, f16, 0, 1> {};
template <> struct Type<bf16> : RowByRow<bf16, bf16, 1, 1> {};
template <> struct Type<tf32> : RowByRow<tf32, u32, 2, 1> {
  static DEVICE_MEMBER u64 describe_b(u32 stage) {
    return describe_words_mn_major(stage, BOX_BYTES);
  }
};
template <> struct Type<i8> : RowByRow<i8, u32, 1, 2> {};
template <> struct Type<e4m3> {
  using Out = bf16;
  static constexpr u32 DEPTH = ROW_BYTES;
  static DEVICE_MEMBER constexpr u32 instruction(u32 rows) {
    return instruct(0, 0, rows, COLUMNS);
  }
  template <u32 BLOCKS>
  static DEVICE_MEMBER void load_b(u8* to, const TensorMap* b, u32 column, u32 step, u64* full) {
    load_box<BLOCKS>(to, b, step * DEPTH, column, full);
  }
  static constexpr u32 PART_B = 32;
  static DEVICE_MEMBER u64 describe_b(u32 stage) {
    return describe_for_tensor_memory(describe_k_major(stage));
  }
};

// Has stage after stage copied, through all tiles. The first block of a pair waits for what comes to
// both.
template <class In, u32 BLOCKS, class Ring>
DEVICE void produce(Ring ring, u8* shared, Work work, const TensorMap* a, const TensorMap* b) {
  using S = Stage<BLOCKS>;
  const u32 place = place_in_pair<BLOCKS>();
  for_each_tile<BLOCKS>(work, [&](Tile tile) {
    const u32 row = (tile.row * BLOCKS + place) * ROWS;
    const u32 column = tile.column * COLUMNS + place * S::COLUMNS_B;
    for (u32 step = 0; step < work.steps; step++) {
      await_phase(&ring.empty[ring.at], ring.parity ^ 1);
      u64* full = &ring.full[ring.at];
      u8* to = shared + ring.at * S::BYTES;
      if (place == 0) arrive_expecting(full, BLOCKS * S::BYTES);
      load_box<BLOCKS>(to, a, step * Type<In>::DEPTH, row, full);
      Type<In>::template load_b<BLOCKS>(to + BYTES_A, b, column, step, full);
      ring.advance();
    }
  });
  // A block of a pair does not end before the last commits have arrived at its barriers.
  for (u32 i = 0; BLOCKS == 2 && i < S::COUNT; i++) {
    await_phase(&ring.empty[ring.at], ring.parity ^ 1);
    ring.advance();
  }
}

// Has stage after stage multiplied; each is given back, and each tile of sums handed over, when what
// was asked for so far is done.
template <class In, u32 BLOCKS, class Ring>
DEVICE void multiply_all(Ring ring, Sums sums, u32 memory, u8* shared, Work work) {
  for_each_tile<BLOCKS>(work, [&](Tile) {
    await_phase(&sums.empty[sums.at], sums.parity ^ 1);
    see_tensor_memory();
    for (u32 step = 0; step < work.steps; step++) {
      await_phase(&ring.full[ring.at], ring.parity);
      see_tensor_memory();
      const u32 at = shared_address(shared) + ring.at * Stage<BLOCKS>::BYTES;
      const u64 a = describe_for_tensor_memory(describe_k_major(at));
      const u64 b = Type<In>::describe_b(at + BYTES_A);
      UNROLL for (u32 part = 0; part < 4; part++) {
        multiply_into<BLOCKS>(memory + sums.at * COLUMNS, further(a, part * 32),
                              further(b, part * Type<In>::PART_B),
                              Type<In>::instruction(BLOCKS * ROWS), part > 0 ? 1 : step, In());
      }
      arrive_when_multiplied<BLOCKS>(&ring.empty[ring.at]);
      ring.advance();
    }
    arrive_when_multiplied<BLOCKS>(&sums.full[sums.at]);
    sums.advance();
  });
}

template <class In, u32 BLOCKS>
DEVICE void product(const GemmParams& p, const TensorMap* a, const TensorMap* b,
                    const TensorMap* c) {
  using S = Stage<BLOCKS>;
  u8* shared = dynamic_shared();
  u8* buffers = shared + S::COUNT * S::BYTES;
  u64* barriers = reinterpret_cast<u64*>(buffers + BUFFERS * BUFFER_BYTES);
  const typename S::Ring ring = {barriers, barriers + S::COUNT, 0, 0};
  const Sums sums = {barriers + 2 * S::COUNT, barriers + 2 * S::COUNT + 2, 0, 0};
  u32* memory_at = reinterpret_cast<u32*>(barriers + 2 * S::COUNT + 4);
  const Work work = {tiles_along(p.m, BLOCKS * ROWS), tiles_along(p.n, COLUMNS),
                     tiles_along(p.k, Type<In>::DEPTH),
                     group_height(BLOCKS * ROWS, COLUMNS, block_count() / BLOCKS)};
  if (thread_index() == 0) {
    prefetch_map(a);
    prefetch_map(b);
    prefetch_map(c);
  }
  with_tensor_memory<BLOCKS>(
      ring, sums, S::COUNT, memory_at, [&] { produce<In, BLOCKS>(ring, shared, work, a, b); },
      [&](u32 memory) { multiply_all<In, BLOCKS>(ring, sums, memory, shared, work); },
      [&](u32 memory) {
        write_all<typename Type<In>::Out, COLUMNS, BLOCKS>(sums, memory, buffers, work, c);
      });
}
