// Shared memory of another block of the cluster, read over the network between units.
#include "block_sum.h"
#include "params.h"
#include "sm90.h"

namespace {
using Words = Vector<u64>;
}

// As access_shared, from the next block of the cluster of two.
KERNEL(1024, 1) access_distributed(const AccessParams p, const u32 repeat) {
  SHARED u64 words[2 * 2048];
  const u32 me = thread_index();
  for (u32 at = me; at < 2 * 2048; at += 1024) words[at] = p.a[at];
  cluster_barrier();
  const u32 there = address_in_cluster(shared_address(words), cluster_place() ^ 1);
  u64 sums[2] = {};
  for (u32 round = 0; round < repeat; round++) {
    sums[0] = sums[1] = 0;
    for (u64 turn = 0; turn < p.rows; turn += 2) {
      UNROLL for (u32 half = 0; half < 2; half++) {
        const Words got = load_from_cluster(there + (half * 1024 + me) * 16);
        sums[half] += got.at[0] + got.at[1];
      }
    }
  }
  const u64 sum = block_sum<1024>(sums[0] + sums[1]);
  if (me == 0) leave_in_place(p.partial, sum);
  // A block that ended would take its shared memory away from the other.
  cluster_barrier();
}
