// How the peaks of arithmetic are told: every multiply-add counts one, exactly.
#pragma once
#include "block_sum.h"
#include "params.h"

// Adds the counts of a block's threads and leaves them in the block's place, as those of one of
// `repeat` rounds.
template <u32 THREADS> DEVICE void leave_count(const ComputeParams& p, f64 counted, u32 repeat) {
  counted = block_sum<THREADS>(counted);
  if (thread_index() == 0) leave_in_place(p.partial, counted / repeat);
}
