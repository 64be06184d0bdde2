// Matrix products into tensor memory of elements that share scales along k, as compute capability 10
// multiplies them: mxfp8, mxfp4, nvfp4. B is kept column by column. Rows of A and columns of B must
// be multiples of 16 bytes.
//
// As sm100_unscaled.h, but a tile of one block is 128 x 128, that of a pair 256 x 256, and scales need
// tensor memory too. A stage is 128 bytes along k of 128 rows of A and 128 columns of B, and the tiles
// of scales that go with them; before its multiplications scales are copied to one of two places in
// tensor memory. Each block of a pair needs the scales of all columns of the pair's tile: each has one
// of two tiles of scales copied to both. Scales are not copied by tensor maps, and such a copy arrives
// at the barrier of the block that it comes to. So a thread of the second block waits for its scales and
// arrives at the first block's barrier.
//
// The sums of two tiles of 256 columns would leave scales no room in tensor memory. Each tile has 128
// columns for itself, and both use the 128 columns between. These are written to C first, and then the
// next tile is multiplied.
//
// Compute capability 10.3 and 10.7 multiply elements of 4 bits by 96 along k in the time of 64. Eight such
// multiplications have the 384 bytes along k of three stages: two of the eight begin in one stage and
// end in the next. Scales are copied for 12 blocks along k at once, which two multiplications (nvfp4)
// or four (mxfp4) have, to one of three places in tensor memory.
#pragma once
#include "params.h"
#include "sm100_product.h"

namespace {

// Rows of A and columns of B of a block.
CONSTANT u32 ROWS = 128;
CONSTANT u32 COLUMNS = 128;
CONSTANT u32 ROW_BYTES = 128;
CONSTANT u32 STAGES = 5;
// Multiplications of a stage, of 32 bytes along k each.
CONSTANT u32 PARTS = 4;
CONSTANT u32 BYTES_A = ROWS * ROW_BYTES;
// Columns of B that are copied at once.
CONSTANT u32 BOX = 64;
// Tiles of scales of A along k, and those of B in two rows of tiles.
CONSTANT u32 SCALES_BYTES = PARTS * SCALE_BYTES;
CONSTANT u32 BYTES = BYTES_A + COLUMNS * ROW_BYTES + 3 * SCALES_BYTES;
using Stages = PhaseRing<STAGES>;

// In tensor memory: sums of two tiles, the second of which begins in the middle of a pair's first;
// then twice scales, those of A first; of multiplications of 96 along k three times, as below.
CONSTANT u32 SCALES_AT = 3 * COLUMNS;
CONSTANT u32 SCALES_STEP = 64;
CONSTANT u32 SCALES_B = PARTS * 4;

// A multiplication of 96 along k: its elements and bytes. Eight of them fill three stages: their number
// and elements.
CONSTANT u32 LONG = 96;
CONSTANT u32 LONG_BYTES = LONG / 2;
CONSTANT u32 LONG_STAGES = 3;
CONSTANT u32 LONG_PARTS = LONG_STAGES * ROW_BYTES / LONG_BYTES;
CONSTANT u32 LONG_DEPTH = LONG_PARTS * LONG;
// Each of three places for scales holds three tiles along k: those of A first, those of B from column
// PLACE_B on.
CONSTANT u32 PLACES = 3;
CONSTANT u32 PLACE_TILES = 3;
CONSTANT u32 PLACE_STEP = 40;
CONSTANT u32 PLACE_B = 16;
static_assert(LONG_PARTS * LONG_BYTES == LONG_STAGES * ROW_BYTES, "no byte of three stages is left");
static_assert(PLACES * PLACE_STEP <= 512 - SCALES_AT, "places for scales fit behind the sums");

// `TYPE` and `SCALE_TYPE` as instruct_scaled takes them.
template <class In, u32 TYPE, u32 SCALE_TYPE> struct Format {
  static DEVICE_MEMBER constexpr u32 instruction(u32 rows, u32 width) {
    return instruct_scaled(TYPE, SCALE_TYPE, rows, width);
  }
  static constexpr u32 DEPTH = ROW_BYTES * 8 / In::BITS;
  // Along k, of a multiplication: elements and scales.
  static constexpr u32 PART = DEPTH / PARTS;
  static constexpr u32 SCALES = PART / In::BLOCK;
  // Of a stage.
  static constexpr u32 SCALE_TILES = DEPTH / In::BLOCK / SCALE_STEPS;
};
template <class In> struct Type;
template <> struct Type<mxfp8> : Format<mxfp8, 0, 1> {};
template <> struct Type<mxfp4> : Format<mxfp4, 1, 1> {};
template <> struct Type<nvfp4> : Format<nvfp4, 1, 0> {};

// Scales of A or B: tiles along k, and rows of such tiles.
struct Scales {
  const u8* at;
  u32 tiles, rows;
  // From tile `first` of a row of tiles on. Where there is no such row, its results are not stored, and
  // its scales are those of the last.
  DEVICE_MEMBER const u8* from(u32 row, u32 first) const {
    return at + (u64(row < rows ? row : rows - 1) * tiles + first) * SCALE_BYTES;
  }
};
struct Operands {
  const TensorMap* a;
  const TensorMap* b;
  Scales scales_a, scales_b;
};

// The first column of a tile, or of a half of one, in units of a block's 128.
template <u32 BLOCKS> DEVICE u32 column_of(Made tile) {
  return tile.column * BLOCKS + (tile.half == 1 ? 1 : 0);
}

// How many stages a tile has along k. A whole tile that is multiplied by 96 at once (`LONGER`) has as
// many as its multiplications read: the last one may end in a stage that begins behind k, where all
// elements are 0.
template <class In, bool LONGER> DEVICE u32 stages_along(u32 k, Made tile) {
  if (!LONGER || tile.half < 2) return tiles_along(k, Type<In>::DEPTH);
  const u32 rest = tiles_along(k % LONG_DEPTH, LONG) * LONG_BYTES;
  return k / LONG_DEPTH * LONG_STAGES + tiles_along(rest, ROW_BYTES);
}

// Has the stages of a tile copied, or of a half of one, which a pair then makes.
template <class In, u32 BLOCKS, u32 WIDTH, bool LONGER>
DEVICE void copy_stages(Stages& ring, u8* shared, u32 steps, const Operands& from, Made tile) {
  using T = Type<In>;
  constexpr u32 ROWS_B = WIDTH / COLUMNS, WIDTH_OF_BLOCK = WIDTH / BLOCKS;
  const u32 place = place_in_pair<BLOCKS>();
  const u32 row = tile.row * BLOCKS + place, column = column_of<BLOCKS>(tile);
  for (u32 step = 0; step < steps; step++) {
    await_phase(&ring.empty[ring.at], ring.parity ^ 1);
    u64* full = &ring.full[ring.at];
    u8* to = shared + ring.at * BYTES;
    u8* to_b = to + BYTES_A;
    u8* scales_to = to_b + COLUMNS * ROW_BYTES;
    const u32 first = step * T::SCALE_TILES, left = from.scales_a.tiles - first;
    const u32 bytes = (left < T::SCALE_TILES ? left : T::SCALE_TILES) * SCALE_BYTES;
    const u32 elements = place == 0 ? BLOCKS * BYTES_A + WIDTH * ROW_BYTES : 0;
    arrive_expecting(full, elements + (1 + ROWS_B) * bytes);
    load_box<BLOCKS>(to, from.a, step * ROW_BYTES, row * ROWS, full);
    UNROLL for (u32 box = 0; box < WIDTH_OF_BLOCK; box += BOX) {
      load_box<BLOCKS>(to_b + box * ROW_BYTES, from.b, step * ROW_BYTES,
                       column * COLUMNS + place * WIDTH_OF_BLOCK + box, full);
    }
    if (LONGER && bytes == 0) {
      ring.advance();
      continue;
    }
    bulk_load(scales_to, from.scales_a.from(row, first), bytes, full);
    if constexpr (ROWS_B == 2) {
      bulk_load_to_both(scales_to + (1 + place) * SCALES_BYTES,
                        from.scales_b.from(column + place, first), bytes, full);
    } else {
      bulk_load(scales_to + SCALES_BYTES, from.scales_b.from(column, first), bytes, full);
    }
    ring.advance();
  }
}

// Has stage after stage copied, through all tiles.
template <class In, u32 BLOCKS, bool LONGER>
DEVICE void produce(Stages ring, u8* shared, Work work, u32 k, const Operands& from) {
  for_each_tile<BLOCKS>(work, [&](Made tile) {
    const u32 steps = stages_along<In, LONGER>(k, tile);
    if constexpr (BLOCKS == 2) {
      if (tile.half < 2) {
        copy_stages<In, BLOCKS, COLUMNS, false>(ring, shared, steps, from, tile);
        return;
      }
    }
    copy_stages<In, BLOCKS, BLOCKS * COLUMNS, LONGER>(ring, shared, steps, from, tile);
  });
  // A block of a pair does not end before the last commits have arrived at its barriers.
  for (u32 i = 0; BLOCKS == 2 && i < STAGES; i++) {
    await_phase(&ring.empty[ring.at], ring.parity ^ 1);
    ring.advance();
  }
}

// By the second block of a pair: tells the first of each stage whose scales have come.
template <class In, bool LONGER> DEVICE void tell_of_scales(Stages ring, Work work, u32 k) {
  for_each_tile<2>(work, [&](Made tile) {
    const u32 steps = stages_along<In, LONGER>(k, tile);
    for (u32 step = 0; step < steps; step++) {
      await_phase(&ring.full[ring.at], ring.parity);
      arrive_in_cluster(&ring.full[ring.at], 0);
      ring.advance();
    }
  });
}

// Has a stage's scales copied to tensor memory, then its elements multiplied. Of both only what the
// `left` elements that k still has need: scales behind them are not there. All lanes of the warp
// know `left`, and where it is a constant nothing is asked of it.
template <class In, u32 BLOCKS, u32 WIDTH>
DEVICE void multiply_stage(u32 sums, u32 at, u32 scales, u32 left, u32 accumulate) {
  using T = Type<In>;
  constexpr u32 INSTRUCTION = T::instruction(BLOCKS * ROWS, WIDTH);
  const u32 scales_b = scales + SCALES_B;
  const u64 from = describe_plain(at + BYTES_A + COLUMNS * ROW_BYTES);
  UNROLL for (u32 tile = 0; tile < T::SCALE_TILES; tile++) {
    if (tile * SCALE_STEPS * In::BLOCK >= left) continue;
    copy_scales<BLOCKS>(scales + tile * 4, further(from, tile * SCALE_BYTES));
    UNROLL for (u32 row = 0; row < WIDTH / COLUMNS; row++) {
      copy_scales<BLOCKS>(scales_b + tile * 8 + row * 4,
                          further(from, (1 + row) * SCALES_BYTES + tile * SCALE_BYTES));
    }
  }
  const u64 a = describe_for_tensor_memory(describe_k_major(at));
  const u64 b = describe_for_tensor_memory(describe_k_major(at + BYTES_A));
  UNROLL for (u32 part = 0; part < PARTS; part++) {
    if (part * T::PART >= left) continue;
    const u32 scale = part * T::SCALES, tile = scale / SCALE_STEPS;
    multiply_scaled_into<BLOCKS>(sums, further(a, part * 32), further(b, part * 32),
                                 from_byte(INSTRUCTION, scale % SCALE_STEPS),
                                 part > 0 ? 1 : accumulate, scales + tile * 4, scales_b + tile * 8,
                                 In());
  }
}

// Has the stages of a tile, or of a half of one, multiplied; each is given back when what was asked
// for so far is done. `count` counts stages of all tiles.
template <class In, u32 BLOCKS, u32 WIDTH>
DEVICE void multiply_stages(Stages& ring, u32& count, u32 sums, u32 memory, u8* shared, u32 steps,
                            u32 k) {
  using T = Type<In>;
  for (u32 step = 0; step < steps; step++, count++) {
    await_phase(&ring.full[ring.at], ring.parity);
    // The stage before the last one, which read scales in this place, has been multiplied.
    if (count >= 2) await_phase(&ring.empty[(count - 2) % STAGES], (count - 2) / STAGES % 2);
    see_tensor_memory();
    const u32 at = shared_address(shared) + ring.at * BYTES, left = k - step * T::DEPTH;
    const u32 scales = memory + SCALES_AT + count % 2 * SCALES_STEP;
    if (left >= T::DEPTH) multiply_stage<In, BLOCKS, WIDTH>(sums, at, scales, T::DEPTH, step);
    else multiply_stage<In, BLOCKS, WIDTH>(sums, at, scales, left, step);
    arrive_when_multiplied<BLOCKS>(&ring.empty[ring.at]);
    ring.advance();
  }
}

// Scales of a tile's multiplications of 96 along k go to three places in turn. `ends` says for each of
// the last three, oldest first, which stage must have been given back before its place is rewritten: the
// stage's number plus 1, or 0 where the place is unused.
struct Places {
  u32 at = 0;
  u32 ends[PLACES] = {};
};

// The next place, once what was multiplied with the scales in it is done.
DEVICE void take_place(Places& places, const Stages& ring) {
  if (places.ends[0] > 0) {
    const u32 stage = places.ends[0] - 1;
    await_phase(&ring.empty[stage % STAGES], stage / STAGES % 2);
    see_tensor_memory();
  }
  places.at = places.at + 1 < PLACES ? places.at + 1 : 0;
  UNROLL for (u32 i = 0; i + 1 < PLACES; i++) places.ends[i] = places.ends[i + 1];
}

// Has up to eight multiplications of 96 along k made, as many as `left` elements need, with their
// scales copied before them. The stages are given back when what was asked for so far is done.
template <class In>
DEVICE void multiply_longer(Stages& ring, u32& count, Places& places, u32 sums, u32 memory, u8* shared,
                            u32 left, u32 accumulate) {
  using T = Type<In>;
  constexpr u32 INSTRUCTION = longer_k(T::instruction(2 * ROWS, 2 * COLUMNS));
  constexpr u32 SCALES = LONG / In::BLOCK, IN_PLACE = PLACE_TILES * SCALE_STEPS / SCALES;
  // Of each of the three stages: its place in the ring, its number, and where it stands.
  u32 slots[LONG_STAGES] = {}, numbers[LONG_STAGES] = {}, at[LONG_STAGES] = {};
  UNROLL for (u32 part = 0; part < LONG_PARTS; part++) {
    if (part * LONG >= left) continue;
    const u32 byte = part * LONG_BYTES, stage = byte / ROW_BYTES;
    const u32 stage_last = (byte + LONG_BYTES - 1) / ROW_BYTES;
    if (tiles_along(byte, ROW_BYTES) == stage_last) {
      await_phase(&ring.full[ring.at], ring.parity);
      slots[stage_last] = ring.at;
      numbers[stage_last] = count++;
      at[stage_last] = shared_address(shared) + ring.at * BYTES;
      ring.advance();
      see_tensor_memory();
    }
    if (part % IN_PLACE == 0) take_place(places, ring);
    // The tiles of scales that this multiplication is the first one to need. One behind k is not there,
    // and all that is multiplied by it is 0: another, which is a number, does as well.
    const u32 scale = part * SCALES, tile = scale / SCALE_STEPS;
    const u32 tile_new = tiles_along(scale, SCALE_STEPS);
    const u32 tile_end = tiles_along(scale + SCALES, SCALE_STEPS);
    const u32 in_place = part / IN_PLACE * PLACE_TILES;
    const u32 to = memory + SCALES_AT + places.at * PLACE_STEP;
    UNROLL for (u32 which = tile_new; which < tile_end; which++) {
      const bool there = which * SCALE_STEPS * In::BLOCK < left;
      const u32 source = there ? which : tile;
      const u64 from = describe_plain((there ? at[which / T::SCALE_TILES] : at[stage]) + BYTES_A +
                                      COLUMNS * ROW_BYTES + source % T::SCALE_TILES * SCALE_BYTES);
      copy_scales<2>(to + (which - in_place) * 4, from);
      UNROLL for (u32 row = 0; row < 2; row++) {
        copy_scales<2>(to + PLACE_B + (which - in_place) * 8 + row * 4,
                       further(from, (1 + row) * SCALES_BYTES));
      }
    }
    const auto operand = [&](u32 offset) {
      const u64 described = describe_for_tensor_memory(describe_k_major(at[stage] + offset));
      const u64 begun = further(described, byte % ROW_BYTES);
      return stage == stage_last ? begun : going_on_at(begun, at[stage_last] + offset);
    };
    multiply_scaled_into<2>(sums, operand(0), operand(BYTES_A), from_byte(INSTRUCTION, scale % SCALE_STEPS),
                            part > 0 ? 1 : accumulate, to + (tile - in_place) * 4,
                            to + PLACE_B + (tile - in_place) * 8, In());
    const bool last = (part + 1) * LONG >= left;
    places.ends[PLACES - 1] = numbers[stage] + 1;
    UNROLL for (u32 i = stage; i <= stage_last; i++) {
      if (last || (i + 1) * ROW_BYTES <= byte + LONG_BYTES) arrive_when_multiplied<2>(&ring.empty[slots[i]]);
    }
  }
}

// Has tile after tile multiplied; each one's sums are handed over when they are made.
template <class In, u32 BLOCKS, bool LONGER>
DEVICE void multiply_all(Stages ring, Sums sums, u32 memory, u8* shared, Work work, u32 k) {
  u32 count = 0;
  for_each_tile<BLOCKS>(work, [&](Made tile) {
    // Of one block, the tile before the last one has been read; of a pair, the middle columns of the
    // last one. So all of the last one has been multiplied, and all of the one before has been read.
    const u32 other = sums.at ^ 1;
    if constexpr (BLOCKS == 2) await_phase(&sums.empty[other], sums.parity ^ other);
    else await_phase(&sums.empty[sums.at], sums.parity ^ 1);
    see_tensor_memory();
    const u32 to = memory + sums.at * COLUMNS;
    bool whole = true;
    if constexpr (BLOCKS == 2) {
      whole = tile.half == 2;
      if (!whole) {
        multiply_stages<In, BLOCKS, COLUMNS>(ring, count, to, memory, shared, work.steps, k);
      }
    }
    if constexpr (LONGER) {
      Places places;
      u32 left = whole ? k : 0;
      for (; left >= LONG_DEPTH; left -= LONG_DEPTH) {
        multiply_longer<In>(ring, count, places, to, memory, shared, LONG_DEPTH, k - left);
      }
      if (left > 0) multiply_longer<In>(ring, count, places, to, memory, shared, left, k - left);
    } else if (whole) {
      multiply_stages<In, BLOCKS, BLOCKS * COLUMNS>(ring, count, to, memory, shared, work.steps, k);
    }
    arrive_when_multiplied<BLOCKS>(&sums.full[sums.at]);
    sums.advance();
  });
}

// Writes 128 columns of C, from `column` on, whose sums stand from column `from` of tensor memory on.
// `finish(sum)` is what C gets of a sum; `freed()` is called when all are read, before they are written.
template <class Finish, class Freed>
DEVICE void write_columns(u32 from, u8* buffers, u32& next, u32 column, u32 first,
                          const TensorMap* c, Finish finish, Freed freed) {
  Vector<u32> parts[2][8];
  UNROLL for (u32 part = 0; part < 2; part++) load_part(parts[part], from + part * 64, bf16(), finish);
  freed();
  UNROLL for (u32 part = 0; part < 2; part++) {
    write_part(parts[part], buffers, next, column + part * 64, first, c);
  }
}

// Writes tile after tile. Of a pair's whole tile the columns in the middle of tensor memory come first:
// those are the second half of a tile in the first place, and the first half of one in the second.
template <u32 BLOCKS, class Finish>
DEVICE void write_tiles(Sums sums, u32 memory, u8* buffers, Work work, const TensorMap* c,
                        Finish finish) {
  u32 next = 0;
  for_each_tile<BLOCKS>(work, [&](Made tile) {
    await_phase(&sums.full[sums.at], sums.parity);
    see_tensor_memory();
    const u32 from = memory + sums.at * COLUMNS, column = column_of<BLOCKS>(tile) * COLUMNS;
    const u32 first = (tile.row * BLOCKS + place_in_pair<BLOCKS>()) * WRITERS;
    const u32 middle = BLOCKS == 2 && tile.half == 2 ? (sums.at ^ 1) * COLUMNS : 0;
    write_columns(from + middle, buffers, next, column + middle, first, c, finish,
                  [&] { give_place<BLOCKS>(sums); });
    if (BLOCKS == 2 && tile.half == 2) {
      const u32 rest = COLUMNS - middle;
      write_columns(from + rest, buffers, next, column + rest, first, c, finish, [] {});
    }
    sums.advance();
  });
  if (thread_index() % WRITERS == 0) await_stores<0>();
}

template <class In, u32 BLOCKS, bool LONGER = false>
DEVICE void product(const GemmParams& p, const TensorMap* a, const TensorMap* b,
                    const TensorMap* c) {
  u8* shared = dynamic_shared();
  u8* buffers = shared + STAGES * BYTES;
  u64* barriers = reinterpret_cast<u64*>(buffers + BUFFERS * BUFFER_BYTES);
  const Stages stages = {barriers, barriers + STAGES, 0, 0};
  const Sums sums = {barriers + 2 * STAGES, barriers + 2 * STAGES + 2, 0, 0};
  u32* memory_at = reinterpret_cast<u32*>(barriers + 2 * STAGES + 4);
  Work work = {tiles_along(p.m, BLOCKS * ROWS), tiles_along(p.n, BLOCKS * COLUMNS),
               tiles_along(p.k, Type<In>::DEPTH),
               group_height(BLOCKS * ROWS, BLOCKS * COLUMNS, block_count() / BLOCKS)};
  if constexpr (BLOCKS == 2) {
    work.whole = whole_tiles(work.rows * work.columns, block_count() / BLOCKS);
  }
  const u32 tiles = scale_tiles<In>(p.k);
  const Operands from = {
      a, b, {static_cast<const u8*>(p.scales_a), tiles, tiles_along(p.m, SCALE_ROWS)},
      {static_cast<const u8*>(p.scales_b), tiles, tiles_along(p.n, SCALE_ROWS)}};
  if (thread_index() == 0) {
    prefetch_map(a);
    prefetch_map(b);
    prefetch_map(c);
  }
  with_tensor_memory<BLOCKS, BLOCKS, BLOCKS == 2>(
      stages, sums, STAGES, memory_at, [&] { produce<In, BLOCKS, LONGER>(stages, shared, work, p.k, from); },
      [&](u32 memory) { multiply_all<In, BLOCKS, LONGER>(stages, sums, memory, shared, work, p.k); },
      [&](u32 memory) {
        write_tiles<BLOCKS>(sums, memory, buffers, work, c,
                            [&](f32 sum) { return with_tensor_scales(sum, p.factor, In()); });
      },
      Nothing(),
      [&] { tell_of_scales<In, LONGER>(stages, work, p.k); });
}

}  // namespace
