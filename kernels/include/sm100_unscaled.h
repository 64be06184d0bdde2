// Matrix products into tensor memory of elements without scales: B row by row (nn) or column by column
// (nt), of fp8 (e4m3) always column by column. Rows must be multiples of 16 bytes.
//
// A tile of 128 x 256 is made by one block, one of 256 x 256 by a pair of blocks. Each block of a pair
// has half of A's rows and half of B's columns copied, a third less than one block for its own tile.
// One block for each unit, or the pair, walks its tiles. One thread has stages of 128 bytes along k
// copied by tensor maps, four or six in a ring; one thread of another warp, of a pair the first
// block's, has them multiplied; four warps write the sums. Tensor memory holds two tiles of sums: one
// is written while the next is made.
//
// Where the last round would leave half of the blocks or pairs without a tile, each of its tiles is cut
// into two halves of 128 columns, which two of them make.
#pragma once
#include "params.h"
#include "sm100_product.h"

// Of a block.
CONSTANT u32 ROWS = 128;
CONSTANT u32 COLUMNS = 256;
CONSTANT u32 HALF = COLUMNS / 2;
CONSTANT u32 ROW_BYTES = 128;
CONSTANT u32 BYTES_A = ROWS * ROW_BYTES;

// A stage of a block, alone or of a pair; of a half of a tile it is less full.
template <u32 BLOCKS> struct Stage {
  static constexpr u32 BYTES = BYTES_A + COLUMNS / BLOCKS * ROW_BYTES;
  static constexpr u32 COUNT = 2 + 2 * BLOCKS;
  using Ring = PhaseRing<COUNT>;
};

// Rows of B are along n, 128 bytes of each in a box. `TYPE` and `SUMS` as instruct takes them.
template <class In, class Sum, u32 TYPE, u32 SUMS> struct RowByRow {
  using Out = Sum;
  using Element = In;
  static constexpr u32 DEPTH = ROW_BYTES / sizeof(In);
  static DEVICE_MEMBER constexpr u32 instruction(u32 rows, u32 width) {
    return instruct(TYPE, 1, rows, width, SUMS);
  }
  static constexpr u32 BOX_BYTES = DEPTH * ROW_BYTES;
  // Columns of a block's smallest part of B.
  static constexpr u32 BOX = DEPTH;
  template <u32 BLOCKS, u32 WIDTH>
  static DEVICE_MEMBER void load_b(u8* to, const TensorMap* b, u32 column, u32 step, u64* full) {
    UNROLL for (u32 box = 0; box < WIDTH / BLOCKS / DEPTH; box++) {
      load_box<BLOCKS>(to + box * BOX_BYTES, b, column + box * DEPTH, step * DEPTH, full);
    }
  }
  // Where group `group` of B begins: its first column, and its first stage.
  static DEVICE_MEMBER u32 column_of(u32, u32) { return 0; }
  static DEVICE_MEMBER u32 stage_of(u32 group, u32 steps) { return group * steps; }
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
// Columns of B are along k.
template <class In, class Sum, u32 TYPE, u32 SUMS> struct ColumnByColumn {
  using Out = Sum;
  using Element = In;
  static constexpr u32 DEPTH = ROW_BYTES / sizeof(In);
  static DEVICE_MEMBER constexpr u32 instruction(u32 rows, u32 width) {
    return instruct(TYPE, 0, rows, width, SUMS);
  }
  static constexpr u32 BOX = 64;
  template <u32 BLOCKS, u32 WIDTH>
  static DEVICE_MEMBER void load_b(u8* to, const TensorMap* b, u32 column, u32 step, u64* full) {
    UNROLL for (u32 box = 0; box < WIDTH / BLOCKS / BOX; box++) {
      load_box<BLOCKS>(to + box * BOX * ROW_BYTES, b, step * DEPTH, column + box * BOX, full);
    }
  }
  static DEVICE_MEMBER u32 column_of(u32 group, u32 columns) { return group * columns; }
  static DEVICE_MEMBER u32 stage_of(u32, u32) { return 0; }
  static constexpr u32 PART_B = 32;
  static DEVICE_MEMBER u64 describe_b(u32 stage) {
    return describe_for_tensor_memory(describe_k_major(stage));
  }
};
template <> struct Type<e4m3> : ColumnByColumn<e4m3, bf16, 0, 1> {};
template <> struct Type<AlongK<f16>> : ColumnByColumn<f16, f16, 0, 1> {};
template <> struct Type<AlongK<bf16>> : ColumnByColumn<bf16, bf16, 1, 1> {};
template <> struct Type<AlongK<tf32>> : ColumnByColumn<tf32, u32, 2, 1> {};
template <> struct Type<AlongK<i8>> : ColumnByColumn<i8, u32, 1, 2> {};

// Whether tiles can be halved: of int8 a box of B has as many columns as a block of a pair.
template <class In, u32 BLOCKS> struct Halves {
  static constexpr bool EXIST = Type<In>::BOX <= HALF / BLOCKS;
};

// Has the stages of a tile, or of a half of one, copied from row `row` of A and column `column` of B on; the first
// stage of B is `first`.
template <class In, u32 BLOCKS, u32 WIDTH, class Ring>
DEVICE void copy_stages(Ring& ring, u8* shared, u32 steps, u32 row, u32 column, u32 first,
                        const TensorMap* a, const TensorMap* b) {
  const u32 place = place_in_pair<BLOCKS>();
  for (u32 step = 0; step < steps; step++) {
    await_phase(&ring.empty[ring.at], ring.parity ^ 1);
    u64* full = &ring.full[ring.at];
    u8* to = shared + ring.at * Stage<BLOCKS>::BYTES;
    if (place == 0) arrive_expecting(full, BLOCKS * BYTES_A + WIDTH * ROW_BYTES);
    load_box<BLOCKS>(to, a, step * Type<In>::DEPTH, row + place * ROWS, full);
    Type<In>::template load_b<BLOCKS, WIDTH>(to + BYTES_A, b, column + place * (WIDTH / BLOCKS),
                                             first + step, full);
    ring.advance();
  }
}

// Has stage after stage copied, through all tiles. The first block of a pair waits for what comes to
// both.
template <class In, u32 BLOCKS, class Ring>
DEVICE void produce(Ring ring, u8* shared, Work work, const TensorMap* a, const TensorMap* b) {
  using S = Stage<BLOCKS>;
  for_each_tile<BLOCKS>(work, [&](Made tile) {
    const u32 row = tile.row * BLOCKS * ROWS;
    if constexpr (Halves<In, BLOCKS>::EXIST) {
      if (tile.half < 2) {
        const u32 column = tile.column * COLUMNS + tile.half * HALF;
        copy_stages<In, BLOCKS, HALF>(ring, shared, work.steps, row, column, 0, a, b);
        return;
      }
    }
    copy_stages<In, BLOCKS, COLUMNS>(ring, shared, work.steps, row, tile.column * COLUMNS, 0, a, b);
  });
  // A block of a pair does not end before the last commits have arrived at its barriers.
  for (u32 i = 0; BLOCKS == 2 && i < S::COUNT; i++) {
    await_phase(&ring.empty[ring.at], ring.parity ^ 1);
    ring.advance();
  }
}

// Has the stages of a tile, or of a half of one, multiplied; each is given back when what was asked for
// so far is done.
template <class In, u32 BLOCKS, u32 WIDTH, class Ring>
DEVICE void multiply_stages(Ring& ring, u32 sums, u8* shared, u32 steps) {
  for (u32 step = 0; step < steps; step++) {
    await_phase(&ring.full[ring.at], ring.parity);
    see_tensor_memory();
    const u32 at = shared_address(shared) + ring.at * Stage<BLOCKS>::BYTES;
    const u64 a = describe_for_tensor_memory(describe_k_major(at));
    const u64 b = Type<In>::describe_b(at + BYTES_A);
    UNROLL for (u32 part = 0; part < 4; part++) {
      multiply_into<BLOCKS>(sums, further(a, part * 32), further(b, part * Type<In>::PART_B),
                            Type<In>::instruction(BLOCKS * ROWS, WIDTH), part > 0 ? 1 : step,
                            typename Type<In>::Element());
    }
    arrive_when_multiplied<BLOCKS>(&ring.empty[ring.at]);
    ring.advance();
  }
}

// Has tile after tile multiplied; each one's sums are handed over when they are made.
template <class In, u32 BLOCKS, class Ring>
DEVICE void multiply_all(Ring ring, Sums sums, u32 memory, u8* shared, Work work) {
  for_each_tile<BLOCKS>(work, [&](Made tile) {
    await_phase(&sums.empty[sums.at], sums.parity ^ 1);
    see_tensor_memory();
    const u32 to = memory + sums.at * COLUMNS;
    bool whole = true;
    if constexpr (Halves<In, BLOCKS>::EXIST) {
      whole = tile.half == 2;
      if (!whole) multiply_stages<In, BLOCKS, HALF>(ring, to, shared, work.steps);
    }
    if (whole) multiply_stages<In, BLOCKS, COLUMNS>(ring, to, shared, work.steps);
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
  Work work = {tiles_along(p.m, BLOCKS * ROWS), tiles_along(p.n, COLUMNS),
               tiles_along(p.k, Type<In>::DEPTH),
               group_height(BLOCKS * ROWS, COLUMNS, block_count() / BLOCKS)};
  if constexpr (Halves<In, BLOCKS>::EXIST) {
    work.whole = whole_tiles(work.rows * work.columns, block_count() / BLOCKS);
  }
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
