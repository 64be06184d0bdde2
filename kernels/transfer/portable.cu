// Copies by the units themselves, between any two memories that they reach: the device's own, the
// host's pinned, a peer's.
#include "params.h"

namespace {
CONSTANT u32 THREADS = 512;
CONSTANT u32 IN_FLIGHT = 4;
using Words = Vector<f64>;
}

KERNEL(512, 2) transfer_copy(const TransferParams p) {
  const u64 vectors = p.length / 16;
  const u64 stride = u64(block_count()) * THREADS;
  const Words* from = reinterpret_cast<const Words*>(p.from);
  Words* to = reinterpret_cast<Words*>(p.to);
  for (u64 first = u64(block_index()) * THREADS + thread_index(); first < vectors;
       first += stride * IN_FLIGHT) {
    Words got[IN_FLIGHT] = {};
    UNROLL for (u32 i = 0; i < IN_FLIGHT; i++) {
      const u64 at = first + i * stride;
      if (at < vectors) got[i] = load_evict_first(from + at);
    }
    UNROLL for (u32 i = 0; i < IN_FLIGHT; i++) {
      const u64 at = first + i * stride;
      if (at < vectors) store_evict_first(to + at, got[i]);
    }
  }
  // What is left of a length that is no multiple of 16, in words of 8.
  if (p.length % 16 >= 8 && block_index() == 0 && thread_index() == 0) {
    p.to[p.length / 8 - 1] = p.from[p.length / 8 - 1];
  }
}
