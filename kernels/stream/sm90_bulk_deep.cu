// Streams of two inputs by bulk copies with a ring of 192 KiB. Of the ring of 96 KiB (sm90_bulk.cu) such a
// stream has three stages of 32 KiB, of which one is being computed on and one stored: 32 to 64 KiB of
// loads are in flight. Here six stages leave 128 KiB of loads in flight.
#include "stream_bulk.h"

namespace {

CONSTANT u32 DEEP_RING = 12 * CHUNK_BYTES;

}  // namespace

KERNEL(288, 1) stream_add_bulk_deep(const StreamParams p) { stream<ADD, DEEP_RING>(p); }
KERNEL(288, 1) stream_triad_bulk_deep(const StreamParams p) { stream<TRIAD, DEEP_RING>(p); }
