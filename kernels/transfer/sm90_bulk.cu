// Copies between two memories of devices by bulk copies (TMA): one thread of a block brings chunks into
// shared memory and another one takes them out, so that the bytes in flight do not depend on registers.
// A link to a peer has a latency of microseconds, which loads of 16 bytes need many warps to hide.
#include "stream_bulk.h"

namespace {
CONSTANT u32 RING = 6 * CHUNK_BYTES;
}

KERNEL(64, 1) transfer_copy_bulk(const TransferParams p) {
  StreamParams stream_of = {};
  stream_of.a = reinterpret_cast<f64*>(p.to);
  stream_of.b = reinterpret_cast<const f64*>(p.from);
  stream_of.length = p.length / 8;
  stream<COPY, RING>(stream_of);
}
