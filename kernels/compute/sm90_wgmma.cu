// Multiplication of tiles that stay in shared memory: the peak of the matrix units of compute
// capability 9.0. Of ones each accumulator counts its multiply-adds.
//
// Ones toggle few bits, so they draw less power than real operands and the clock stays higher: no real
// product reaches that rate. The `random` kernels multiply random numbers, which sets a ceiling that
// products can be compared with.
#include "count.h"
#include "sm90.h"

namespace {

CONSTANT u32 THREADS = 256;
CONSTANT u32 WARPGROUPS = THREADS / 128;
// 256 rows of 128 bytes, which both operands are.
CONSTANT u32 TILE_BYTES = 256 * 128;
// Multiplications under way when the next four are asked for.
CONSTANT u32 IN_FLIGHT = 4;

// Four bytes of ones, the steps along k of one multiplication, and the rounds after which sums are
// emptied: a round adds 4096 ones to each. The sums of 8-bit floats have 14 bits, and each product is added
// by itself: from 2^14 on ones are lost (an H100 counted 16,384 of 32,768).
template <class In> struct Type;
template <> struct Type<bf16> { using Sum = f32; static constexpr u32 ONES = 0x3f803f80, DEPTH = 16, ROUNDS = 8; };
template <> struct Type<f16> { using Sum = f32; static constexpr u32 ONES = 0x3c003c00, DEPTH = 16, ROUNDS = 8; };
template <> struct Type<tf32> { using Sum = f32; static constexpr u32 ONES = 0x3f800000, DEPTH = 8, ROUNDS = 8; };
template <> struct Type<e4m3> { using Sum = f32; static constexpr u32 ONES = 0x38383838, DEPTH = 32, ROUNDS = 4; };
template <> struct Type<i8> { using Sum = i32; static constexpr u32 ONES = 0x01010101, DEPTH = 32, ROUNDS = 8; };

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
  for (u32 round = 0; round < repeat; round += T::ROUNDS) {
    const u32 rounds = repeat - round < T::ROUNDS ? repeat - round : T::ROUNDS;
    for (u32 step = 0; step < rounds * steps; step++) {
      begin_multiplications();
      UNROLL for (u32 i = 0; i < IN_FLIGHT; i++) multiply_tiles(sums, tile, tile, i > 0 ? 1 : step, In());
      close_multiplications();
      await_multiplications<1>();
    }
    await_multiplications<0>();
    settle(sums);
    // Exact: 128 sums of at most 2^15 ones.
    typename T::Sum sum = 0;
    UNROLL for (u32 i = 0; i < 128; i++) sum += sums[i];
    counted += f64(sum);
  }
  leave_count<THREADS>(p, counted, repeat);
}

// Random elements: fractions of all bits, three exponents, a quarter of them negative, so that sums
// neither overflow nor cancel. The value is exact; the bits are those of the type.
struct Drawn { f64 value; u32 bits; };
template <u32 EXPONENT_BITS, u32 FRACTION_BITS> DEVICE Drawn draw_float(u32 random) {
  constexpr u32 BIAS = (1u << (EXPONENT_BITS - 1)) - 1;
  const u32 fraction = random & ((1u << FRACTION_BITS) - 1);
  const u32 exponent = BIAS - 1 + (random >> 11 & 0xff) % 3;
  const u32 negative = (random >> 20 & 3) == 0;
  const f64 scale = exponent < BIAS ? 0.5 : exponent == BIAS ? 1.0 : 2.0;
  const f64 size = (1.0 + f64(fraction) / f64(1u << FRACTION_BITS)) * scale;
  return {negative != 0 ? -size : size,
          (negative << EXPONENT_BITS | exponent) << FRACTION_BITS | fraction};
}
DEVICE Drawn draw(u32 random, bf16) { return draw_float<8, 7>(random); }
DEVICE Drawn draw(u32 random, f16) { return draw_float<5, 10>(random); }
DEVICE Drawn draw(u32 random, e4m3) { return draw_float<4, 3>(random); }
// Ten bits of fraction; the unit ignores the thirteen below.
DEVICE Drawn draw(u32 random, tf32) {
  const Drawn drawn = draw_float<8, 10>(random);
  return {drawn.value, drawn.bits << 13};
}
DEVICE Drawn draw(u32 random, i8) {
  const i32 size = i32(random & 0x7f), value = (random >> 20 & 3) == 0 ? -size : size;
  return {f64(value), u32(value) & 0xff};
}
// Element `at` of A, or of B where `of_b` is 1 (murmur3's finaliser, Appleby, public domain).
template <class In> DEVICE Drawn element(u32 at, u32 of_b) {
  u32 random = 2 * at + of_b + 0x9e3779b9;
  random = (random ^ random >> 16) * 0x85ebca6b;
  random = (random ^ random >> 13) * 0xc2b2ae35;
  return draw(random ^ random >> 16, In());
}

// A is 64 rows and B 256 columns, both as deep as a row of 128 bytes.
template <class In> struct Random {
  static constexpr u32 SIZE = sizeof(In), DEPTH = 128 / SIZE, A_BYTES = 64 * 128;
  // B of 16-bit types has rows along n, as products have it: panels of 64 columns.
  static constexpr bool ROWS_OF_N = SIZE == 2;

  static DEVICE_MEMBER u32 swizzled(u32 row, u32 byte) {
    return row * 128 + (byte / 16 ^ row % 8) * 16 + byte % 16;
  }
  static DEVICE_MEMBER u32 place_of_b(u32 k, u32 n) {
    if (ROWS_OF_N) return n / 64 * DEPTH * 128 + swizzled(k, n % 64 * SIZE);
    return swizzled(n, k * SIZE);
  }
  static DEVICE_MEMBER void put(u8* at, u32 bits) {
    UNROLL for (u32 byte = 0; byte < SIZE; byte++) at[byte] = u8(bits >> 8 * byte);
  }
  static DEVICE_MEMBER void make(u8* shared) {
    for (u32 i = thread_index(); i < 64 * DEPTH; i += THREADS) {
      put(shared + swizzled(i / DEPTH, i % DEPTH * SIZE), element<In>(i, 0).bits);
    }
    for (u32 i = thread_index(); i < 256 * DEPTH; i += THREADS) {
      put(shared + A_BYTES + place_of_b(i % DEPTH, i / DEPTH), element<In>(i, 1).bits);
    }
  }
  // The sum of all elements of A B, and of their terms' sizes: this thread's part of it.
  static DEVICE_MEMBER f64 expected(f64& sizes) {
    f64 sum = 0.0;
    for (u32 k = thread_index(); k < DEPTH; k += THREADS) {
      f64 of_a = 0.0, of_b = 0.0, size_a = 0.0, size_b = 0.0;
      for (u32 row = 0; row < 64; row++) {
        const f64 value = element<In>(row * DEPTH + k, 0).value;
        of_a += value;
        size_a += value < 0.0 ? -value : value;
      }
      for (u32 column = 0; column < 256; column++) {
        const f64 value = element<In>(column * DEPTH + k, 1).value;
        of_b += value;
        size_b += value < 0.0 ? -value : value;
      }
      sum += of_a * of_b;
      sizes += size_a * size_b;
    }
    return sum;
  }
};

// Each turn of the loop makes the same product of A and B anew, by four multiplications. The last one is
// compared with the expected sum; where it differs the count is off by as much.
//
// That the first of the four overwrites the sums must not be known when this is compiled: ptxas leaves out
// multiplications whose sums are overwritten (of four turns it kept one).
template <class In> DEVICE void count_random(const ComputeParams& p, u32 repeat) {
  using R = Random<In>;
  u8* shared = dynamic_shared();
  R::make(shared);
  show_to_copies();
  block_barrier();
  const u64 a = describe_k_major(shared_address(shared));
  const u32 at_b = shared_address(shared) + R::A_BYTES;
  const u64 b = R::ROWS_OF_N ? describe_mn_major(at_b, R::DEPTH * 128) : describe_k_major(at_b);
  // From one multiplication to the next along k, in units of 16 bytes.
  constexpr u32 B_STEP = R::ROWS_OF_N ? 16 * 128 / 16 : 2;
  static_assert(IN_FLIGHT * 32 == 128, "a turn goes through a row of A");
  const u32 turns = u32(p.flops / 2 / (64 * 256 * R::DEPTH) / WARPGROUPS) * repeat;
  // 0: no launch repeats so often.
  const u32 keeps_sums = repeat >> 31;
  typename Type<In>::Sum sums[128];
  for (u32 turn = 0; turn < turns; turn++) {
    begin_multiplications();
    UNROLL for (u32 i = 0; i < IN_FLIGHT; i++) {
      multiply_tiles(sums, a + 2 * i, b + B_STEP * i, i == 0 ? keeps_sums : 1, In());
    }
    close_multiplications();
    await_multiplications<1>();
  }
  await_multiplications<0>();
  settle(sums);
  f64 sizes = 0.0;
  // Every warpgroup makes the whole product.
  f64 difference = -f64(WARPGROUPS) * R::expected(sizes);
  UNROLL for (u32 i = 0; i < 128; i++) difference += f64(sums[i]);
  difference = block_sum<THREADS>(difference);
  block_barrier();
  sizes = block_sum<THREADS>(sizes) * WARPGROUPS;
  if (thread_index() != 0) return;
  // A multiplication left out is a quarter of all terms; rounding to 14 bits is 2^-13 of each.
  const f64 off = difference < 0.0 ? -difference / sizes : difference / sizes;
  leave_in_place(p.partial, f64(p.flops / 2) * (off < 0x1p-10 ? 1.0 : 1.0 - off));
}

}  // namespace

KERNEL(256, 1) compute_bf16_wgmma(const ComputeParams p, const u32 r) { count_products<bf16>(p, r); }
KERNEL(256, 1) compute_f16_wgmma(const ComputeParams p, const u32 r) { count_products<f16>(p, r); }
KERNEL(256, 1) compute_tf32_wgmma(const ComputeParams p, const u32 r) { count_products<tf32>(p, r); }
KERNEL(256, 1) compute_fp8_wgmma(const ComputeParams p, const u32 r) { count_products<e4m3>(p, r); }
KERNEL(256, 1) compute_int8_wgmma(const ComputeParams p, const u32 r) { count_products<i8>(p, r); }
KERNEL(256, 1) compute_bf16_wgmma_random(const ComputeParams p, const u32 r) { count_random<bf16>(p, r); }
KERNEL(256, 1) compute_f16_wgmma_random(const ComputeParams p, const u32 r) { count_random<f16>(p, r); }
KERNEL(256, 1) compute_tf32_wgmma_random(const ComputeParams p, const u32 r) { count_random<tf32>(p, r); }
KERNEL(256, 1) compute_fp8_wgmma_random(const ComputeParams p, const u32 r) { count_random<e4m3>(p, r); }
KERNEL(256, 1) compute_int8_wgmma_random(const ComputeParams p, const u32 r) { count_random<i8>(p, r); }
