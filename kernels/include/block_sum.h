// Sums over the threads of a block, of f64 or of words.
#pragma once
#include "gpu.h"

// The sum over THREADS threads of a block, of which this one is number `me`; only number 0 has all
// of it. `wait` is a barrier of these threads.
template <u32 THREADS, class Sum, class Wait> DEVICE Sum block_sum(Sum sum, u32 me, Wait wait) {
  SHARED Sum sums[THREADS / 32];
  for (u32 mask = 16; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
  if (me % 32 == 0) sums[me / 32] = sum;
  wait();
  if (me != 0) return sum;
  for (u32 warp = 1; warp < THREADS / 32; warp++) sum += sums[warp];
  return sum;
}
template <u32 THREADS, class Sum> DEVICE Sum block_sum(Sum sum) {
  return block_sum<THREADS>(sum, thread_index(), [] { block_barrier(); });
}

// Leaves a block's sum in its place: those of blocks are 64 bytes apart.
template <class Sum> DEVICE void leave_in_place(void* partial, Sum sum) {
  static_cast<Sum*>(partial)[8 * u64(block_index())] = sum;
}

// One more term of a sum: a product of floats, or a word.
DEVICE f64 with_term(f64 sum, f64 a, f64 b) { return fused(a, b, sum); }
DEVICE u64 with_term(u64 sum, u64 a, u64) { return sum + a; }
