// Filling and comparing memory, in words of 8 bytes.
#include "params.h"

namespace {

DEVICE u64 first_word() { return u64(block_index()) * 256 + thread_index(); }
DEVICE u64 stride() { return u64(block_count()) * 256; }

// Adds up over the block, then once to memory for each block.
DEVICE void leave_sum(u64* at, u64 sum) {
  SHARED u64 sums[256];
  sums[thread_index()] = sum;
  block_barrier();
  if (thread_index() != 0) return;
  for (u32 t = 1; t < 256; t++) sum += sums[t];
  atomic_add(at, sum);
}

}  // namespace

KERNEL(256, 4) util_fill(const FillParams p) {
  for (u64 at = first_word(); at < p.length; at += stride()) {
    p.target[at] = p.pattern[at % p.period];
  }
}

KERNEL(256, 4) util_compare(const CompareParams p) {
  u64 differing = 0;
  for (u64 at = first_word(); at < p.length; at += stride()) {
    differing += p.values[at] != p.pattern[at % p.period];
  }
  leave_sum(p.differing, differing);
}
