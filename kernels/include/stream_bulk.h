// Streams by bulk copies: shared memory in place of registers, so that the bytes in flight do not
// depend on the number of threads.
//
// One thread copies chunks of 16 KiB into a ring of stages. Eight warps compute on a stage in place,
// where there is something to compute, and one of their threads copies it out. A unit has the whole
// ring in flight or in use. Copies are marked evict-first for the last-level cache.
// `read` adds up the bits of its elements as integers: see stream.h.
#pragma once
#include "block_sum.h"
#include "params.h"
#include "phase_ring.h"
#include "sm90.h"

namespace {

enum Operation { READ, WRITE, COPY, SCALE, ADD, TRIAD, DOT };

CONSTANT u32 WORKERS = 256;
CONSTANT u32 CHUNK = 2048;
CONSTANT u32 CHUNK_BYTES = CHUNK * sizeof(f64);
using Pair = Vector<f64>;

template <Operation OPERATION, u32 RING_BYTES> struct Shape {
  static constexpr bool SUMS = OPERATION == READ || OPERATION == DOT;
  static constexpr u32 INPUTS = OPERATION == ADD || OPERATION == TRIAD || OPERATION == DOT ? 2 : 1;
  static constexpr u32 STAGE_BYTES = INPUTS * CHUNK_BYTES;
  static constexpr u32 STAGES = RING_BYTES / STAGE_BYTES;
};

template <Operation OPERATION> DEVICE f64 assigned(f64 b, f64 c, f64 scale) {
  switch (OPERATION) {
    case COPY: return b;
    case SCALE: return scale * b;
    case ADD: return b + c;
    case TRIAD: return fused(scale, c, b);
    default: return scale;
  }
}

// The chunks of an array: all of them full but the last; an odd last element is not in any.
struct Chunks {
  u64 elements;

  DEVICE_MEMBER u64 count() const { return (elements + CHUNK - 1) / CHUNK; }
  DEVICE_MEMBER u32 bytes(u64 chunk) const {
    const u64 left = elements - chunk * CHUNK;
    return u32(left < CHUNK ? left : CHUNK) * u32(sizeof(f64));
  }
};

template <class S, class Ring>
DEVICE void produce(const StreamParams& p, Chunks chunks, Ring ring, u8* shared) {
  const u64 policy = policy_evict_first();
  const f64* first = S::SUMS ? p.a : p.b;
  const f64* second = S::SUMS ? p.b : p.c;
  for (u64 chunk = block_index(); chunk < chunks.count(); chunk += block_count()) {
    await_phase(&ring.empty[ring.at], ring.parity ^ 1);
    const u32 bytes = chunks.bytes(chunk);
    u64* full = &ring.full[ring.at];
    u8* to = shared + ring.at * S::STAGE_BYTES;
    arrive_expecting(full, S::INPUTS * bytes);
    bulk_load(to, first + chunk * CHUNK, bytes, full, policy);
    if (S::INPUTS == 2) bulk_load(to + CHUNK_BYTES, second + chunk * CHUNK, bytes, full, policy);
    ring.advance();
  }
}

// Work on a stage in place, then store it. A stage is given back when the store of the one after it
// has been asked for and its own has read it.
template <Operation OPERATION, class S, class Ring>
DEVICE void assign(const StreamParams& p, Chunks chunks, Ring ring, u8* shared) {
  const u64 policy = policy_evict_first();
  const u32 worker = thread_index() - 32;
  const bool stores = warp_number() == 1 && elected();
  // A copy needs one thread. Others that only waited could fall two phases behind, unseen.
  if (OPERATION == COPY && !stores) return;
  u64* previous = nullptr;
  for (u64 chunk = block_index(); chunk < chunks.count(); chunk += block_count()) {
    await_phase(&ring.full[ring.at], ring.parity);
    u8* stage = shared + ring.at * S::STAGE_BYTES;
    if (OPERATION != COPY) {
      Pair* b = reinterpret_cast<Pair*>(stage);
      const Pair* c = reinterpret_cast<const Pair*>(stage + (S::INPUTS - 1) * CHUNK_BYTES);
      UNROLL for (u32 i = 0; i < CHUNK / 2 / WORKERS; i++) {
        const u32 at = i * WORKERS + worker;
        const Pair b_at = b[at], c_at = c[at];
        b[at] = {assigned<OPERATION>(b_at.at[0], c_at.at[0], p.scale),
                 assigned<OPERATION>(b_at.at[1], c_at.at[1], p.scale)};
      }
      show_to_copies();
      barrier_of<WORKERS>(1);
    }
    if (stores) {
      bulk_store(p.a + chunk * CHUNK, stage, chunks.bytes(chunk), policy);
      close_stores();
      await_stores_read<1>();
      if (previous != nullptr) arrive(previous);
      previous = &ring.empty[ring.at];
    }
    ring.advance();
  }
  if (stores) await_stores<0>();
}

template <Operation OPERATION> struct SumOf { using Type = f64; };
template <> struct SumOf<READ> { using Type = u64; };

template <Operation OPERATION, class S, class Sum, class Ring>
DEVICE Sum reduce(Chunks chunks, Ring ring, u8* shared) {
  using Terms = Vector<Sum>;
  const u32 worker = thread_index() - 32;
  Sum sums[8] = {};
  for (u64 chunk = block_index(); chunk < chunks.count(); chunk += block_count()) {
    await_phase(&ring.full[ring.at], ring.parity);
    const u8* stage = shared + ring.at * S::STAGE_BYTES;
    const Terms* a = reinterpret_cast<const Terms*>(stage);
    const Terms* b = reinterpret_cast<const Terms*>(stage + (S::INPUTS - 1) * CHUNK_BYTES);
    const u32 pairs = chunks.bytes(chunk) / u32(sizeof(Terms));
    UNROLL for (u32 i = 0; i < CHUNK / 2 / WORKERS; i++) {
      const u32 at = i * WORKERS + worker;
      if (at >= pairs) continue;
      UNROLL for (u32 e = 0; e < 2; e++) {
        Sum& sum = sums[i % 4 * 2 + e];
        sum = with_term(sum, a[at].at[e], b[at].at[e]);
      }
    }
    // All lanes have read the stage before one of them gives it back.
    warp_barrier();
    if (thread_index() % 32 == 0) arrive(&ring.empty[ring.at]);
    ring.advance();
  }
  Sum sum = 0;
  UNROLL for (u32 i = 0; i < 8; i++) sum += sums[i];
  return sum;
}

// RING_BYTES: dynamic shared memory of a block, all of it stages.
template <Operation OPERATION, u32 RING_BYTES> DEVICE void stream(const StreamParams& p) {
  using S = Shape<OPERATION, RING_BYTES>;
  SHARED u64 barriers[2 * S::STAGES];
  u8* shared = dynamic_shared();
  const Chunks chunks = {p.length / 2 * 2};
  const PhaseRing<S::STAGES> ring = {barriers, barriers + S::STAGES, 0, 0};
  if (thread_index() == 0) {
    for (u32 stage = 0; stage < S::STAGES; stage++) {
      make_barrier(&ring.full[stage], 1);
      // One thread of each warp of the workers, or the one that has chunks copied out.
      make_barrier(&ring.empty[stage], S::SUMS ? WORKERS / 32 : 1);
    }
    barriers_made();
  }
  block_barrier();
  if (warp_number() == 0) {
    if (elected()) produce<S>(p, chunks, ring, shared);
    return;
  }
  const bool odd = p.length % 2 == 1 && block_index() == 0 && thread_index() == 32;
  const u64 last = p.length - 1;
  if constexpr (S::SUMS) {
    using Sum = typename SumOf<OPERATION>::Type;
    const Sum* a = reinterpret_cast<const Sum*>(p.a);
    const Sum* b = reinterpret_cast<const Sum*>(p.b);
    Sum sum = reduce<OPERATION, S, Sum>(chunks, ring, shared);
    if (odd) sum = with_term(sum, a[last], OPERATION == DOT ? b[last] : Sum(0));
    sum = block_sum<WORKERS>(sum, thread_index() - 32, [] { barrier_of<WORKERS>(1); });
    if (thread_index() == 32) leave_in_place(p.partial, sum);
  } else {
    assign<OPERATION, S>(p, chunks, ring, shared);
    const f64 c = odd && S::INPUTS == 2 ? p.c[last] : 0.0;
    if (odd) p.a[last] = assigned<OPERATION>(p.b[last], c, p.scale);
  }
}

}  // namespace
