// Streams by bulk copies with a ring of 96 KiB, which every device of compute capability 9.0 and later
// has, 12.0 too. sm90_bulk_deep.cu has a ring of twice the size.
#include "stream_bulk.h"

namespace {

CONSTANT u32 RING = 6 * CHUNK_BYTES;

// One chunk of the value, stored again and again.
DEVICE void write(const StreamParams& p) {
  Pair* chunk_at = reinterpret_cast<Pair*>(dynamic_shared());
  const Chunks chunks = {p.length / 2 * 2};
  for (u32 i = thread_index(); i < CHUNK / 2; i += WORKERS + 32) chunk_at[i] = {p.scale, p.scale};
  show_to_copies();
  block_barrier();
  if (thread_index() != 0) return;
  const u64 policy = policy_evict_first();
  for (u64 chunk = block_index(); chunk < chunks.count(); chunk += block_count()) {
    bulk_store(p.a + chunk * CHUNK, chunk_at, chunks.bytes(chunk), policy);
    close_stores();
  }
  await_stores<0>();
  if (p.length % 2 == 1 && block_index() == 0) p.a[p.length - 1] = p.scale;
}

}  // namespace

KERNEL(288, 1) stream_read_bulk(const StreamParams p) { stream<READ, RING>(p); }
KERNEL(288, 1) stream_dot_bulk(const StreamParams p) { stream<DOT, RING>(p); }
KERNEL(288, 1) stream_write_bulk(const StreamParams p) { write(p); }
KERNEL(288, 1) stream_copy_bulk(const StreamParams p) { stream<COPY, RING>(p); }
KERNEL(288, 1) stream_scale_bulk(const StreamParams p) { stream<SCALE, RING>(p); }
KERNEL(288, 1) stream_add_bulk(const StreamParams p) { stream<ADD, RING>(p); }
KERNEL(288, 1) stream_triad_bulk(const StreamParams p) { stream<TRIAD, RING>(p); }
