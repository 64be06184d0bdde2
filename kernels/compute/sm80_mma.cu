// Multiplication of fragments that never leave the registers: the peak of the matrix units as
// compute capability 8.0 drives them. Of ones each sum counts its multiply-adds.
#include "count.h"
#include "sm80.h"

namespace {

CONSTANT u32 THREADS = 256;
// Independent sums of a warp: with two warps for each scheduler, enough to hide the latency.
CONSTANT u32 CHAINS = 8;

// Fragments of ones, and the steps along k of one multiplication.
template <class In> struct Ones {
  using Sum = f32;
  using A = u32[4];
  using B = u32[2];
  using Word = u32;
};
template <class In> struct Type;
template <> struct Type<bf16> : Ones<bf16> {
  static constexpr u32 ONES = 0x3f803f80, DEPTH = 16;
};
template <> struct Type<f16> : Ones<f16> {
  static constexpr u32 ONES = 0x3c003c00, DEPTH = 16;
};
template <> struct Type<tf32> : Ones<tf32> {
  static constexpr u32 ONES = 0x3f800000, DEPTH = 8;
};
template <> struct Type<i8> : Ones<i8> {
  using Sum = i32;
  static constexpr u32 ONES = 0x01010101, DEPTH = 32;
};
template <> struct Type<f64> {
  using Sum = f64;
  using A = f64[2];
  using B = f64;
  using Word = f64;
  static constexpr u32 ONES = 1, DEPTH = 4;
};

DEVICE void fill(f64& b, f64 ones) { b = ones; }
template <class Word, u32 COUNT> DEVICE void fill(Word (&words)[COUNT], Word ones) {
  UNROLL for (u32 i = 0; i < COUNT; i++) words[i] = ones;
}

template <class In> DEVICE void count_products(const ComputeParams& p, u32 repeat) {
  using T = Type<In>;
  using Word = typename T::Word;
  typename T::A a;
  typename T::B b;
  fill(a, Word(T::ONES + zero()));
  fill(b, Word(T::ONES + zero()));
  const u64 steps = p.flops / 2 / (16 * 8 * T::DEPTH) / (THREADS / 32 * CHAINS);
  f64 counted = 0.0;
  for (u32 round = 0; round < repeat; round++) {
    typename T::Sum sums[CHAINS][4] = {};
    for (u64 step = 0; step < steps; step++) {
      UNROLL for (u32 c = 0; c < CHAINS; c++) multiply(sums[c], a, b, In());
    }
    UNROLL for (u32 c = 0; c < CHAINS; c++) {
      UNROLL for (u32 i = 0; i < 4; i++) counted += f64(sums[c][i]);
    }
  }
  // A sum counts the steps along k of its own element.
  leave_count<THREADS>(p, counted, repeat);
}

}  // namespace

KERNEL(256, 1) compute_bf16_mma(const ComputeParams p, const u32 r) { count_products<bf16>(p, r); }
KERNEL(256, 1) compute_f16_mma(const ComputeParams p, const u32 r) { count_products<f16>(p, r); }
KERNEL(256, 1) compute_tf32_mma(const ComputeParams p, const u32 r) { count_products<tf32>(p, r); }
KERNEL(256, 1) compute_int8_mma(const ComputeParams p, const u32 r) { count_products<i8>(p, r); }
KERNEL(256, 1) compute_f64_mma(const ComputeParams p, const u32 r) { count_products<f64>(p, r); }
