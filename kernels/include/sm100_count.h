// Multiplication of tiles that stay in shared memory into tensor memory. Of ones each sum counts its
// multiply-adds. Block-scaled types have their scales, all one, in tensor memory.
#pragma once
#include "count.h"
#include "sm100_attention.h"

CONSTANT u32 THREADS = 128;
CONSTANT u32 ROWS = 128;
CONSTANT u32 COLUMNS = 256;
// Rows of 128 bytes, which both operands are.
CONSTANT u32 TILE_BYTES = COLUMNS * 128;
CONSTANT u32 UNROLLED = 4;
// What a sum may count before it is emptied, which takes time that multiplies nothing. An f32 counts
// exactly up to 2^24; a unit that aligned products to two bits fewer would still be right up to this.
CONSTANT u32 COUNT_MAX = 1 << 22;

// Four bytes of ones, the steps along k of one multiplication, and its order.
template <u32 WORD, u32 STEPS, u32 TYPE, u32 SUMS = 1> struct Ones {
  static constexpr u32 ONES = WORD, DEPTH = STEPS;
  static constexpr u32 INSTRUCTION = instruct(TYPE, 0, ROWS, COLUMNS, SUMS);
  static constexpr bool SCALED = false;
};
template <class In, u32 TYPE, u32 SCALE_TYPE> struct Scaled {
  static constexpr u32 ONES = In::ONES, DEPTH = 256 / In::BITS;
  static constexpr u32 INSTRUCTION = instruct_scaled(TYPE, SCALE_TYPE, ROWS, COLUMNS);
  static constexpr bool SCALED = true;
};
template <class In> struct Type;
template <> struct Type<f16> : Ones<0x3c003c00, 16, 0> {};
template <> struct Type<bf16> : Ones<0x3f803f80, 16, 1> {};
template <> struct Type<tf32> : Ones<0x3f800000, 8, 2> {};
template <> struct Type<e4m3> : Ones<0x38383838, 32, 0> {};
template <> struct Type<i8> : Ones<0x01010101, 32, 1, 2> {};
template <> struct Type<mxfp8> : Scaled<mxfp8, 0, 1> {};
template <> struct Type<mxfp4> : Scaled<mxfp4, 1, 1> {};
template <> struct Type<nvfp4> : Scaled<nvfp4, 1, 0> {};
// Scales stand beside the sums, those of A in up to 8 columns and those of B in up to 16.
CONSTANT u32 SCALES_A = COLUMNS;
CONSTANT u32 SCALES_B = COLUMNS + 16;

template <class In> DEVICE void multiply_many(u32 memory, u64 tile, u32 steps) {
  for (u32 step = 0; step < steps; step++) {
    UNROLL for (u32 i = 0; i < UNROLLED; i++) {
      if constexpr (Type<In>::SCALED) {
        multiply_scaled_into(memory, tile, tile, Type<In>::INSTRUCTION, step + i, memory + SCALES_A,
                             memory + SCALES_B, In());
      } else {
        multiply_into(memory, tile, tile, Type<In>::INSTRUCTION, step + i, In());
      }
    }
  }
}

// `depth` along k, a multiple of 256, by multiplications of 96, which 10.3 and 10.7 have of 4 bits in the time of
// 64. Of 64 there are as many as the rest needs, of a rest of 32 two.
template <class In> DEVICE void multiply_longer(u32 memory, u64 tile, u32 depth) {
  const auto multiply = [&](u32 instruction, u32 accumulate) {
    multiply_scaled_into(memory, tile, tile, instruction, accumulate, memory + SCALES_A,
                         memory + SCALES_B, In());
  };
  const u32 shorter = depth % 96 == 32 ? 2 : depth % 96 / 64;
  const u32 longer = (depth - shorter * 64) / 96;
  for (u32 i = 0; i < shorter; i++) multiply(Type<In>::INSTRUCTION, i);
  for (u32 i = 0; i < longer % UNROLLED; i++) multiply(longer_k(Type<In>::INSTRUCTION), shorter + i);
  for (u32 i = 0; i < longer / UNROLLED; i++) {
    UNROLL for (u32 part = 0; part < UNROLLED; part++) {
      multiply(longer_k(Type<In>::INSTRUCTION), shorter + longer % UNROLLED + i + part);
    }
  }
}

// Every lane of every column where scales may be.
template <class In> DEVICE void fill_scales(u32 memory) {
  u32 words[32];
  UNROLL for (u32 i = 0; i < 32; i++) words[i] = In::SCALE_ONES;
  store_words(words, (memory + SCALES_A) + (thread_index() / 32 * 32 << 16));
  await_words();
}

template <class In> DEVICE u32 count_of(f32 sum, In) { return u32(sum); }
DEVICE u32 count_of(f32 sum, i8) { return bits_of(sum); }

// What this thread's row of sums counted: whole numbers, which integers add faster than f64.
template <class In> DEVICE u32 count_row(u32 memory) {
  static_assert(u64(COUNT_MAX) * COLUMNS < u64(1) << 32, "a row's count fits");
  u32 counted = 0;
  const u32 lanes = thread_index() / 32 * 32 << 16;
  for (u32 column = 0; column < COLUMNS; column += 32) {
    f32 sums[32];
    load_sums(sums, memory + lanes + column);
    UNROLL for (u32 i = 0; i < 32; i++) counted += count_of(sums[i], In());
  }
  return counted;
}

template <class In, bool LONGER = false> DEVICE void count_products(const ComputeParams& p, u32 repeat) {
  SHARED u64 done[1];
  SHARED u32 memory_at[1];
  const u32 warp = warp_number();
  u32* words = reinterpret_cast<u32*>(dynamic_shared());
  for (u32 i = thread_index(); i < TILE_BYTES / 4; i += THREADS) words[i] = Type<In>::ONES;
  if (thread_index() == 0) {
    make_barrier(done, 1);
    barriers_made();
  }
  warp_barrier();
  if (warp == 0) take_tensor_memory(memory_at);
  show_to_copies();
  show_tensor_memory();
  block_barrier();
  see_tensor_memory();
  const u32 memory = memory_at[0];
  if constexpr (Type<In>::SCALED) {
    fill_scales<In>(memory);
    show_tensor_memory();
    block_barrier();
    see_tensor_memory();
  }
  const u64 tile = describe_for_tensor_memory(describe_k_major(shared_address(words)));
  const u32 steps = u32(p.flops / 2 / (ROWS * COLUMNS * Type<In>::DEPTH) / UNROLLED);
  const u32 at_most = COUNT_MAX / (steps * UNROLLED * Type<In>::DEPTH);
  const u32 together = at_most > 1 ? at_most : 1;
  u64 counted = 0;
  u32 parity = 0;
  for (u32 round = 0; round < repeat; round += together) {
    const u32 rounds = repeat - round < together ? repeat - round : together;
    if (warp == 0 && elected()) {
      if constexpr (LONGER) {
        multiply_longer<In>(memory, tile, rounds * steps * UNROLLED * Type<In>::DEPTH);
      } else {
        multiply_many<In>(memory, tile, rounds * steps);
      }
      arrive_when_multiplied(done);
    }
    warp_barrier();
    await_phase(done, parity);
    parity ^= 1;
    see_tensor_memory();
    counted += count_row<In>(memory);
    // All rows are read before the next round makes them new.
    show_tensor_memory();
    block_barrier();
    see_tensor_memory();
  }
  leave_count<THREADS>(p, f64(counted), repeat);
  warp_barrier();
  if (warp == 0) give_tensor_memory(memory);
}
