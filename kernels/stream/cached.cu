// Streams of a working set that a cache shared by all units holds, walked many times in one launch:
// a launch of its own for each walk would take longer than the walk.
//
// Loads ask the shared cache and not the unit's own. In each walk a block takes other tiles than in
// the one before, so that its data come from all parts of the cache; of its own die's, where each die
// has one.
#include "params.h"

namespace {

enum Operation { READ, COPY };

CONSTANT u32 THREADS = 1024;
CONSTANT u32 IN_FLIGHT = 4;
using Pair = Vector<f64>;

// The sum over the block, left in the block's place.
DEVICE void leave_sum(f64* partial, f64 sum) {
  SHARED f64 sums[THREADS / 32];
  for (u32 mask = 16; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
  if (thread_index() % 32 == 0) sums[thread_index() / 32] = sum;
  block_barrier();
  if (thread_index() != 0) return;
  sum = 0.0;
  for (u32 warp = 0; warp < THREADS / 32; warp++) sum += sums[warp];
  partial[8 * u64(block_index())] = sum;
}

template <Operation OPERATION> DEVICE f64 walk(const StreamParams& p, u32 place) {
  const Pair* from = reinterpret_cast<const Pair*>(OPERATION == READ ? p.a : p.b);
  Pair* to = reinterpret_cast<Pair*>(p.a);
  const u64 vectors = p.length / 2;
  f64 sums[IN_FLIGHT] = {};
  for (u64 tile = place; tile * (THREADS * IN_FLIGHT) < vectors; tile += block_count()) {
    const u64 first = tile * (THREADS * IN_FLIGHT) + thread_index();
    Pair got[IN_FLIGHT] = {};
    UNROLL for (u32 i = 0; i < IN_FLIGHT; i++) {
      const u64 at = first + i * THREADS;
      if (at < vectors) got[i] = load_shared_cache(from + at);
    }
    UNROLL for (u32 i = 0; i < IN_FLIGHT; i++) {
      const u64 at = first + i * THREADS;
      if (OPERATION == COPY && at < vectors) store(to + at, got[i]);
      sums[i] += got[i].at[0] + got[i].at[1];
    }
  }
  f64 sum = 0.0;
  UNROLL for (u32 i = 0; i < IN_FLIGHT; i++) sum += sums[i];
  return sum;
}

template <Operation OPERATION> DEVICE void stream(const StreamParams& p, u32 repeat) {
  f64 sum = 0.0;
  // The last walk's places are the blocks' own: what it leaves is checked.
  for (u32 left = repeat; left > 0; left--) {
    sum = walk<OPERATION>(p, u32((block_index() + NEXT_PLACE * u64(left - 1)) % block_count()));
  }
  const u64 last = p.length - 1;
  const bool odd = p.length % 2 == 1 && block_index() == 0 && thread_index() == 0;
  if (OPERATION == READ) {
    leave_sum(p.partial, odd ? sum + p.a[last] : sum);
  } else if (odd) {
    p.a[last] = p.b[last];
  }
}

}  // namespace

KERNEL(1024, 1) stream_read_cached(const StreamParams p, const u32 repeat) {
  stream<READ>(p, repeat);
}
KERNEL(1024, 1) stream_copy_cached(const StreamParams p, const u32 repeat) {
  stream<COPY>(p, repeat);
}
