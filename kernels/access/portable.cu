// Access other than in streams: rows in random order, mixes of reads and writes, and what belongs to
// each unit, its shared memory and its first-level cache.
//
// What is read goes into a sum of its words that each row's place in the order weighs: a row read
// twice, left out or taken for another changes it.
#include "block_sum.h"
#include "params.h"

namespace {

CONSTANT u32 THREADS = 512;
CONSTANT u32 IN_FLIGHT = 4;
using Words = Vector<u64>;

}  // namespace

// A row's 16-byte vectors are read by as many threads side by side; rows longer than a block's
// threads by all of them, again and again. Four loads of a thread are under way together.
KERNEL(512, 2) access_gather(const AccessParams p) {
  const u64 row_vectors = p.row / 16;
  const u64 vectors = p.rows * row_vectors;
  const u64 stride = u64(block_count()) * THREADS;
  const Words* table = reinterpret_cast<const Words*>(p.a);
  u64 sum = 0;
  for (u64 first = u64(block_index()) * THREADS + thread_index(); first < vectors;
       first += stride * IN_FLIGHT) {
    Words got[IN_FLIGHT] = {};
    u64 weights[IN_FLIGHT] = {};
    UNROLL for (u32 i = 0; i < IN_FLIGHT; i++) {
      const u64 at = first + i * stride;
      if (at >= vectors) continue;
      // Rows and their vectors are powers of two: no division.
      const u64 place = at >> p.row_shift;
      const u64 row = p.order[place];
      weights[i] = 2 * place + 1;
      got[i] = load_evict_first(table + (row << p.row_shift) + (at & (row_vectors - 1)));
    }
    UNROLL for (u32 i = 0; i < IN_FLIGHT; i++) sum += weights[i] * (got[i].at[0] + got[i].at[1]);
  }
  sum = block_sum<THREADS>(sum);
  if (thread_index() == 0) leave_in_place(p.partial, sum);
}

namespace {

// READS arrays are read, their words combined, and WRITES arrays written with what comes out. The
// arrays stand one after the other, `row` bytes apart.
template <u32 READS, u32 WRITES> DEVICE void mix(const AccessParams& p) {
  const u64 vectors = p.rows / 2, apart = p.row / 16;
  const Words* from = reinterpret_cast<const Words*>(p.a);
  Words* to = reinterpret_cast<Words*>(p.a) + READS * apart;
  const u64 stride = u64(block_count()) * THREADS;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 1070
  // Four rounds at once take more than the 64 registers of a thread there.
#pragma unroll 2
#endif
  for (u64 at = u64(block_index()) * THREADS + thread_index(); at < vectors; at += 2 * stride) {
    Words got[2][READS];
    UNROLL for (u32 half = 0; half < 2; half++) {
      const u64 here = at + half * stride;
      if (here >= vectors) continue;
      UNROLL for (u32 i = 0; i < READS; i++) {
        got[half][i] = load_evict_first(from + i * apart + here);
      }
    }
    UNROLL for (u32 half = 0; half < 2; half++) {
      const u64 here = at + half * stride;
      if (here >= vectors) continue;
      Words made = got[half][0];
      UNROLL for (u32 i = 1; i < READS; i++) {
        made.at[0] ^= got[half][i].at[0];
        made.at[1] ^= got[half][i].at[1];
      }
      UNROLL for (u32 i = 0; i < WRITES; i++) store_evict_first(to + i * apart + here, made);
    }
  }
}

}  // namespace

KERNEL(512, 2) access_mix_3r1w(const AccessParams p) { mix<3, 1>(p); }
KERNEL(512, 2) access_mix_1r3w(const AccessParams p) { mix<1, 3>(p); }

// Shared memory: all of a block's threads read 16 bytes each, without a bank conflict, `rows` times
// for each of the `repeat` iterations. Each of the words stands for its place.
KERNEL(1024, 1) access_shared(const AccessParams p, const u32 repeat) {
  SHARED u64 words[2 * 2048];
  const u32 me = thread_index();
  for (u32 at = me; at < 2 * 2048; at += 1024) words[at] = p.a[at];
  block_barrier();
  u64 sums[2] = {};
  for (u32 round = 0; round < repeat; round++) {
    sums[0] = sums[1] = 0;
    for (u64 turn = 0; turn < p.rows; turn += 2) {
      // 2 x 1024 vectors: all of the array in two turns.
      UNROLL for (u32 half = 0; half < 2; half++) {
        const Words got = load_from_shared(words, (half * 1024 + me) * 16);
        sums[half] += got.at[0] + got.at[1];
      }
    }
  }
  const u64 sum = block_sum<1024>(sums[0] + sums[1]);
  if (me == 0) leave_in_place(p.partial, sum);
}

// The first-level cache: all units read the same `row` bytes, a power of two that their own caches
// hold, in turns of 16 bytes for each of a block's threads: `rows` turns, a multiple of four, for each
// of the `repeat` iterations.
KERNEL(1024, 1) access_first_cache(const AccessParams p, const u32 repeat) {
  const Words* row = reinterpret_cast<const Words*>(p.a);
  const u32 last = u32(p.row / 16) - 1, turns = u32(p.rows);
  u64 sums[IN_FLIGHT] = {};
  for (u32 round = 0; round < repeat; round++) {
    UNROLL for (u32 i = 0; i < IN_FLIGHT; i++) sums[i] = 0;
    for (u32 turn = 0; turn < turns; turn += IN_FLIGHT) {
      Words got[IN_FLIGHT];
      UNROLL for (u32 i = 0; i < IN_FLIGHT; i++) {
        got[i] = load_first_cache(row, ((turn + i) * 1024 + thread_index()) & last);
      }
      UNROLL for (u32 i = 0; i < IN_FLIGHT; i++) sums[i] += got[i].at[0] + got[i].at[1];
    }
  }
  u64 sum = 0;
  UNROLL for (u32 i = 0; i < IN_FLIGHT; i++) sum += sums[i];
  sum = block_sum<1024>(sum);
  if (thread_index() == 0) leave_in_place(p.partial, sum);
}
