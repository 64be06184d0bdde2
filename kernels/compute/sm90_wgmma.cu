// Multiplication of tiles that stay in shared memory: the peak of the matrix units of compute
// capability 9.0. Of ones each sum counts its multiply-adds.
#include "count.h"
#include "sm90.h"

namespace {

CONSTANT u32 THREADS = 256;
CONSTANT u32 WARPGROUPS = THREADS / 128;
// 256 rows of 128 bytes, which both operands are.
CONSTANT u32 TILE_BYTES = 256 * 128;
// Multiplications under way when the next four are asked for.
CONSTANT u32 IN_FLIGHT = 4;
// Rounds after which sums are emptied: those of 8-bit floats are kept to 14 bits (of steps of 32).
CONSTANT u32 ROUNDS = 8;

// Four bytes of ones, and the steps along k of one multiplication.
template <class In> struct Type;
template <> struct Type<bf16> { using Sum = f32; static constexpr u32 ONES = 0x3f803f80, DEPTH = 16; };
template <> struct Type<f16> { using Sum = f32; static constexpr u32 ONES = 0x3c003c00, DEPTH = 16; };
template <> struct Type<tf32> { using Sum = f32; static constexpr u32 ONES = 0x3f800000, DEPTH = 8; };
template <> struct Type<e4m3> { using Sum = f32; static constexpr u32 ONES = 0x38383838, DEPTH = 32; };
template <> struct Type<i8> { using Sum = i32; static constexpr u32 ONES = 0x01010101, DEPTH = 32; };

template <class In> DEVICE void count_products(const ComputeParams& p, u32 repeat) {
  using T = Type<In>;
  u32* words = reinterpret_cast<u32*>(dynamic_shared());
  for (u32 i = thread_index(); i < TILE_BYTES / 4; i += THREADS) words[i] = T::ONES;
  show_to_copies();
  block_barrier();
  const u64 tile = describe_k_major(shared_address(words));
  const u32 steps = u32(p.flops / 2 / (64 * 256 * T::DEPTH) / (WARPGROUPS * IN_FLIGHT));
  f64 counted = 0.0;
  typename T::Sum sums[128];
  for (u32 round = 0; round < repeat; round += ROUNDS) {
    const u32 rounds = repeat - round < ROUNDS ? repeat - round : ROUNDS;
    for (u32 step = 0; step < rounds * steps; step++) {
      begin_multiplications();
      UNROLL for (u32 i = 0; i < IN_FLIGHT; i++) multiply_tiles(sums, tile, tile, step + i, In());
      close_multiplications();
      await_multiplications<1>();
    }
    await_multiplications<0>();
    settle(sums);
    UNROLL for (u32 i = 0; i < 128; i++) counted += f64(sums[i]);
  }
  leave_count<THREADS>(p, counted, repeat);
}

}  // namespace

KERNEL(256, 1) compute_bf16_wgmma(const ComputeParams p, const u32 r) { count_products<bf16>(p, r); }
KERNEL(256, 1) compute_f16_wgmma(const ComputeParams p, const u32 r) { count_products<f16>(p, r); }
KERNEL(256, 1) compute_tf32_wgmma(const ComputeParams p, const u32 r) { count_products<tf32>(p, r); }
KERNEL(256, 1) compute_fp8_wgmma(const ComputeParams p, const u32 r) { count_products<e4m3>(p, r); }
KERNEL(256, 1) compute_int8_wgmma(const ComputeParams p, const u32 r) { count_products<i8>(p, r); }
