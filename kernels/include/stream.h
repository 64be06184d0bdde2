// Streams of 16-byte vectors through registers: what every stream kernel that loads by threads is
// made of.
//
// A block walks tiles of (threads x 4) vectors: each thread has 4 loads of each array under way
// before it needs the first, so that a unit keeps 64 KiB in flight, which latency times bandwidth
// asks for (Little's law) on every part of this decade. One block for each unit walks many tiles;
// launched with a block for each tile, it is the one-shot variant.
#pragma once
#include "params.h"

namespace {

enum Operation { READ, WRITE, COPY, SCALE, ADD, TRIAD, DOT };

CONSTANT u32 IN_FLIGHT = 4;
using Pair = Vector<f64>;

template <bool EVICT_FIRST> DEVICE Pair get(const f64* from, u64 vector) {
  const Pair* at = reinterpret_cast<const Pair*>(from) + vector;
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

// The sum over the block, left in the block's place.
template <u32 THREADS> DEVICE void leave_sum(f64* partial, f64 sum) {
  SHARED f64 sums[THREADS / 32];
  for (u32 mask = 16; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
  if (thread_index() % 32 == 0) sums[thread_index() / 32] = sum;
  block_barrier();
  if (thread_index() != 0) return;
  sum = 0.0;
  for (u32 warp = 0; warp < THREADS / 32; warp++) sum += sums[warp];
  partial[8 * u64(block_index())] = sum;
}

template <Operation OPERATION, bool EVICT_FIRST, u32 THREADS>
DEVICE void reduce(const StreamParams& p) {
  const u64 vectors = p.length / 2;
  f64 sums[IN_FLIGHT][2] = {};
  for (u64 tile = block_index(); tile * (THREADS * IN_FLIGHT) < vectors; tile += block_count()) {
    const u64 first = tile * (THREADS * IN_FLIGHT) + thread_index();
    Pair a[IN_FLIGHT] = {}, b[IN_FLIGHT] = {};
    UNROLL for (u32 i = 0; i < IN_FLIGHT; i++) {
      const u64 at = first + i * THREADS;
      if (at >= vectors) continue;
      a[i] = get<EVICT_FIRST>(p.a, at);
      if (OPERATION == DOT) b[i] = get<EVICT_FIRST>(p.b, at);
    }
    UNROLL for (u32 i = 0; i < IN_FLIGHT; i++) {
      UNROLL for (u32 e = 0; e < 2; e++) {
        const f64 a_e = a[i].at[e];
        sums[i][e] = OPERATION == DOT ? fused(a_e, b[i].at[e], sums[i][e]) : sums[i][e] + a_e;
      }
    }
  }
  f64 sum = 0.0;
  UNROLL for (u32 i = 0; i < IN_FLIGHT; i++) sum += sums[i][0] + sums[i][1];
  if (p.length % 2 == 1 && block_index() == 0 && thread_index() == 0) {
    const u64 last = p.length - 1;
    sum += OPERATION == DOT ? p.a[last] * p.b[last] : p.a[last];
  }
  leave_sum<THREADS>(p.partial, sum);
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
