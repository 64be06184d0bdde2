// How the peak of multiplications of fragments is counted: they never leave the registers. Of ones
// each sum counts its multiply-adds.
#pragma once
#include "count.h"
#include "sm80.h"

CONSTANT u32 COUNTING_THREADS = 256;
// Independent sums of a warp: with two warps for each scheduler, enough to hide the latency.
CONSTANT u32 COUNTING_CHAINS = 8;

// Fragments of ones of an element type; a type of them adds DEPTH, the steps along k of one
// multiplication, and ONES.
template <class Element> struct Ones {
  using In = Element;
  using Sum = f32;
  using A = u32[4];
  using B = u32[2];
  using Word = u32;
};

DEVICE void fill(f64& b, f64 ones) { b = ones; }
template <class Word, u32 COUNT> DEVICE void fill(Word (&words)[COUNT], Word ones) {
  UNROLL for (u32 i = 0; i < COUNT; i++) words[i] = ones;
}

template <class T> DEVICE void count_fragments(const ComputeParams& p, u32 repeat) {
  using Word = typename T::Word;
  typename T::A a;
  typename T::B b;
  fill(a, Word(T::ONES + zero()));
  fill(b, Word(T::ONES + zero()));
  constexpr u32 AT_ONCE = COUNTING_THREADS / 32 * COUNTING_CHAINS;
  const u64 steps = p.flops / 2 / (16 * 8 * T::DEPTH) / AT_ONCE;
  f64 counted = 0.0;
  for (u32 round = 0; round < repeat; round++) {
    typename T::Sum sums[COUNTING_CHAINS][4] = {};
    for (u64 step = 0; step < steps; step++) {
      UNROLL for (u32 c = 0; c < COUNTING_CHAINS; c++) multiply(sums[c], a, b, typename T::In());
    }
    UNROLL for (u32 c = 0; c < COUNTING_CHAINS; c++) {
      UNROLL for (u32 i = 0; i < 4; i++) counted += f64(sums[c][i]);
    }
  }
  // A sum counts the steps along k of its own element.
  leave_count<COUNTING_THREADS>(p, counted, repeat);
}
