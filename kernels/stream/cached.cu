// Streams of a working set that a cache shared by all units holds, walked many times in one launch:
// a launch of its own for each walk would take longer than the walk.
//
// Loads ask the shared cache and not the unit's own. In each walk a block takes other tiles than in
// the one before, so that its data come from all parts of the cache; of its own die's, where each
// die has one.
#include "block_sum.h"
#include "params.h"

namespace {

enum Operation { READ, COPY };

CONSTANT u32 THREADS = 1024;
CONSTANT u32 IN_FLIGHT = 4;
// Elements as words: no arithmetic but the sum of a read, which is one of integers.
using Words = Vector<u64>;

template <Operation OPERATION> DEVICE u64 walk(const StreamParams& p, u32 place) {
  const Words* from = reinterpret_cast<const Words*>(OPERATION == READ ? p.a : p.b);
  Words* to = reinterpret_cast<Words*>(p.a);
  const u64 vectors = p.length / 2;
  u64 sums[IN_FLIGHT] = {};
  for (u64 tile = place; tile * (THREADS * IN_FLIGHT) < vectors; tile += block_count()) {
    const u64 first = tile * (THREADS * IN_FLIGHT);
    Words got[IN_FLIGHT];
    load_shared_cache<IN_FLIGHT, THREADS>(got, from + first, vectors - first);
    UNROLL for (u32 i = 0; i < IN_FLIGHT; i++) {
      const u64 at = first + i * THREADS + thread_index();
      if (OPERATION == COPY && at < vectors) store(to + at, got[i]);
      sums[i] += got[i].at[0] + got[i].at[1];
    }
  }
  u64 sum = 0;
  UNROLL for (u32 i = 0; i < IN_FLIGHT; i++) sum += sums[i];
  return sum;
}

template <Operation OPERATION> DEVICE void stream(const StreamParams& p, u32 repeat) {
  u64 sum = 0;
  // The last walk's places are the blocks' own: what it leaves is checked.
  for (u32 left = repeat; left > 0; left--) {
    sum = walk<OPERATION>(p, u32((block_index() + NEXT_PLACE * u64(left - 1)) % block_count()));
  }
  const u64 last = p.length - 1;
  const bool odd = p.length % 2 == 1 && block_index() == 0 && thread_index() == 0;
  if (OPERATION == READ) {
    if (odd) sum += reinterpret_cast<const u64*>(p.a)[last];
    sum = block_sum<THREADS>(sum);
    if (thread_index() == 0) leave_in_place(p.partial, sum);
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
