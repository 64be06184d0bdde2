// Streams of 16-byte vectors through registers: what every stream kernel that loads by threads is
// made of.
//
// A block walks tiles of (threads x 4) vectors: each thread has 4 loads of each array under way
// before it needs the first, so that a unit keeps 64 KiB in flight, which latency times bandwidth
// asks for (Little's law) on every part of this decade. One block for each unit walks many tiles;
// launched with a block for each tile, it is the one-shot variant.
//
// `read` adds up the bits of its elements as integers: additions of f64 would be what some GPUs
// wait for, and a sum of integers is exact in any order.
#pragma once
#include "block_sum.h"
#include "params.h"

namespace {

enum Operation { READ, WRITE, COPY, SCALE, ADD, TRIAD, DOT };

CONSTANT u32 IN_FLIGHT = 4;
using Pair = Vector<f64>;

template <bool EVICT_FIRST, class T> DEVICE Vector<T> get(const T* from, u64 vector) {
  const Vector<T>* at = reinterpret_cast<const Vector<T>*>(from) + vector;
  return EVICT_FIRST ? load_evict_first(at) : load(at);
}

template <bool EVICT_FIRST> DEVICE void put(f64* to, u64 vector, Pair value) {
  Pair* at = reinterpret_cast<Pair*>(to) + vector;
  if (EVICT_FIRST) store_evict_first(at, value);
  else store(at, value);
}

// What one element of `a` becomes.
template <Operation OPERATION> DEVICE f64 assigned(f64 b, f64 c, f64 scale) {
  switch (OPERATION) {
    case COPY: return b;
    case SCALE: return scale * b;
    case ADD: return b + c;
    case TRIAD: return fused(scale, c, b);
    default: return scale;
  }
}

template <Operation OPERATION, bool EVICT_FIRST, u32 THREADS>
DEVICE void assign(const StreamParams& p) {
  constexpr bool READS_B = OPERATION != WRITE;
  constexpr bool READS_C = OPERATION == ADD || OPERATION == TRIAD;
  const u64 vectors = p.length / 2;
  for (u64 tile = block_index(); tile * (THREADS * IN_FLIGHT) < vectors; tile += block_count()) {
    const u64 first = tile * (THREADS * IN_FLIGHT) + thread_index();
    Pair b[IN_FLIGHT] = {}, c[IN_FLIGHT] = {};
    UNROLL for (u32 i = 0; i < IN_FLIGHT; i++) {
      const u64 at = first + i * THREADS;
      if (at >= vectors) continue;
      if (READS_B) b[i] = get<EVICT_FIRST>(p.b, at);
      if (READS_C) c[i] = get<EVICT_FIRST>(p.c, at);
    }
    UNROLL for (u32 i = 0; i < IN_FLIGHT; i++) {
      const u64 at = first + i * THREADS;
      if (at >= vectors) continue;
      Pair a;
      UNROLL for (u32 e = 0; e < 2; e++) {
        a.at[e] = assigned<OPERATION>(b[i].at[e], c[i].at[e], p.scale);
      }
      put<EVICT_FIRST>(p.a, at, a);
    }
  }
  if (p.length % 2 == 1 && block_index() == 0 && thread_index() == 0) {
    const u64 last = p.length - 1;
    const f64 b = READS_B ? p.b[last] : 0.0, c = READS_C ? p.c[last] : 0.0;
    p.a[last] = assigned<OPERATION>(b, c, p.scale);
  }
}

// Sums of a vector's elements: of integers, which need no rounding, one is enough.
template <Operation OPERATION> struct SumOf { using Type = f64; static constexpr u32 COUNT = 2; };
template <> struct SumOf<READ> { using Type = u64; static constexpr u32 COUNT = 1; };

template <Operation OPERATION, bool EVICT_FIRST, u32 THREADS>
DEVICE void reduce(const StreamParams& p) {
  using Sum = typename SumOf<OPERATION>::Type;
  constexpr u32 SUMS = SumOf<OPERATION>::COUNT;
  const Sum* from_a = reinterpret_cast<const Sum*>(p.a);
  const Sum* from_b = reinterpret_cast<const Sum*>(p.b);
  const u64 vectors = p.length / 2;
  Sum sums[IN_FLIGHT][SUMS] = {};
  for (u64 tile = block_index(); tile * (THREADS * IN_FLIGHT) < vectors; tile += block_count()) {
    const u64 first = tile * (THREADS * IN_FLIGHT) + thread_index();
    Vector<Sum> a[IN_FLIGHT] = {}, b[IN_FLIGHT] = {};
    UNROLL for (u32 i = 0; i < IN_FLIGHT; i++) {
      const u64 at = first + i * THREADS;
      if (at >= vectors) continue;
      a[i] = get<EVICT_FIRST>(from_a, at);
      if (OPERATION == DOT) b[i] = get<EVICT_FIRST>(from_b, at);
    }
    UNROLL for (u32 i = 0; i < IN_FLIGHT; i++) {
      UNROLL for (u32 e = 0; e < 2; e++) {
        Sum& into = sums[i][e % SUMS];
        into = with_term(into, a[i].at[e], b[i].at[e]);
      }
    }
  }
  Sum sum = 0;
  UNROLL for (u32 i = 0; i < IN_FLIGHT; i++) {
    UNROLL for (u32 e = 0; e < SUMS; e++) sum += sums[i][e];
  }
  if (p.length % 2 == 1 && block_index() == 0 && thread_index() == 0) {
    const u64 last = p.length - 1;
    sum = with_term(sum, from_a[last], OPERATION == DOT ? from_b[last] : Sum(0));
  }
  sum = block_sum<THREADS>(sum);
  if (thread_index() == 0) leave_in_place(p.partial, sum);
}

}  // namespace

#define STREAM_REDUCTION(NAME, OPERATION, EVICT_FIRST, THREADS, PER_UNIT)                         \
  KERNEL(THREADS, PER_UNIT) stream_##NAME(const StreamParams p) {                                 \
    reduce<OPERATION, EVICT_FIRST, THREADS>(p);                                                   \
  }
#define STREAM_ASSIGNMENT(NAME, OPERATION, EVICT_FIRST, THREADS, PER_UNIT)                        \
  KERNEL(THREADS, PER_UNIT) stream_##NAME(const StreamParams p) {                                 \
    assign<OPERATION, EVICT_FIRST, THREADS>(p);                                                   \
  }
#define STREAM_REDUCTIONS(SUFFIX, EVICT_FIRST, THREADS, PER_UNIT)                                 \
  STREAM_REDUCTION(read##SUFFIX, READ, EVICT_FIRST, THREADS, PER_UNIT)                            \
  STREAM_REDUCTION(dot##SUFFIX, DOT, EVICT_FIRST, THREADS, PER_UNIT)
#define STREAM_ASSIGNMENTS(SUFFIX, EVICT_FIRST, THREADS, PER_UNIT)                                \
  STREAM_ASSIGNMENT(write##SUFFIX, WRITE, EVICT_FIRST, THREADS, PER_UNIT)                         \
  STREAM_ASSIGNMENT(copy##SUFFIX, COPY, EVICT_FIRST, THREADS, PER_UNIT)                           \
  STREAM_ASSIGNMENT(scale##SUFFIX, SCALE, EVICT_FIRST, THREADS, PER_UNIT)                         \
  STREAM_ASSIGNMENT(add##SUFFIX, ADD, EVICT_FIRST, THREADS, PER_UNIT)                             \
  STREAM_ASSIGNMENT(triad##SUFFIX, TRIAD, EVICT_FIRST, THREADS, PER_UNIT)
