// How the peaks of arithmetic are told: every multiply-add counts one, exactly.
#pragma once
#include "params.h"

// Adds the counts of a block's threads and leaves them in the block's place, as those of one of
// `repeat` rounds.
template <u32 THREADS> DEVICE void leave_count(const ComputeParams& p, f64 counted, u32 repeat) {
  SHARED f64 counts[THREADS];
  counts[thread_index()] = counted;
  block_barrier();
  if (thread_index() != 0) return;
  for (u32 t = 1; t < THREADS; t++) counted += counts[t];
  p.partial[8 * u64(block_index())] = counted / repeat;
}
