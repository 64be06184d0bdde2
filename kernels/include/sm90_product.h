// What GEMM kernels for Hopper (wgmma) have in common: the ring of stages, which tile a block makes,
// how operands are fetched by one block or by the two of a cluster, and the roles of the warpgroups.
#pragma once
#include "grouped.h"
#include "phase_ring.h"
#include "sm90.h"

// The warpgroups that multiply; one more has stages copied.
CONSTANT u32 MULTIPLIERS = 2;

// A block's tile. `down` is 1 where the tiles of the cluster's two blocks are below each other, 0
// where they are beside each other.
struct Place { u32 row, column, down; };

template <class Groups> DEVICE Place place_of(const Groups& groups, u32 index) {
  if (Groups::SHARERS == 1) {
    const u32 height = group_height(Groups::HEIGHT, Groups::WIDTH, block_count());
    const Tile tile = tile_at(groups.within(index), groups.rows, groups.columns, height);
    return {tile.row, tile.column, 0};
  }
  const Pairs pairs = pairs_of(groups.rows, groups.columns);
  const u32 high = 1 + pairs.down, wide = 2 - pairs.down, second = index % 2;
  const u32 height = group_height(high * Groups::HEIGHT, wide * Groups::WIDTH, block_count() / 2);
  const Tile pair = tile_at(groups.within(index), pairs.rows, pairs.columns, height);
  const u32 row = pair.row * high + second * pairs.down;
  return {row, pair.column * wide + second * (1 - pairs.down), pairs.down};
}

// A box of a tensor map, and where it goes.
struct Box { u8* to; u32 column, row; };

// Has the boxes of one operand's part of a stage copied, `box(i)` the i-th of BOXES. Where two blocks
// need the same part, each has half of it copied to both.
template <bool BOTH, u32 BOXES, class At>
DEVICE void load_boxes(const TensorMap* map, u64* full, At box) {
  UNROLL for (u32 i = 0; i < (BOTH ? BOXES / 2 : BOXES); i++) {
    const Box at = box(BOTH ? cluster_place() * (BOXES / 2) + i : i);
    if (BOTH) tile_load_to_both(at.to, map, at.column, at.row, full);
    else tile_load(at.to, map, at.column, at.row, full);
  }
}

// Has a stage of BYTES copied, when it has been read by all who had its last contents: of a stage
// that was never used, the phase before the first is over.
template <u32 SHARERS, u32 BYTES, u32 BOXES_A, u32 BOXES_B, class Ring, class AtA, class AtB>
DEVICE void fetch_stage(Ring& ring, u32 down, const TensorMap* a, const TensorMap* b, AtA of_a,
                        AtB of_b) {
  await_phase(&ring.empty[ring.at], ring.parity ^ 1);
  u64* full = &ring.full[ring.at];
  arrive_expecting(full, BYTES);
  if constexpr (SHARERS == 1) {
    load_boxes<false, BOXES_A>(a, full, of_a);
    load_boxes<false, BOXES_B>(b, full, of_b);
  } else if (down) {
    load_boxes<false, BOXES_A>(a, full, of_a);
    load_boxes<true, BOXES_B>(b, full, of_b);
  } else {
    load_boxes<true, BOXES_A>(a, full, of_a);
    load_boxes<false, BOXES_B>(b, full, of_b);
  }
  ring.advance();
}

// Gives a stage back to the blocks that fill it: both of a cluster where each fills both. Copies of the
// other block may then overwrite the stage through the asynchronous proxy. That is safe: wgmma's reads
// of the stage are complete when wgmma.wait_group returns, and values that threads loaded from it were
// operands of a wgmma that is complete. The other block reads nothing that this thread wrote, so the
// arrival needs no fence of global memory.
template <u32 SHARERS> DEVICE void release_stage(u64* empty) {
  arrive(empty);
  if (SHARERS == 2) arrive_in_cluster(empty, cluster_place() ^ 1);
}

// Turns of the two warpgroups that multiply, where each waits for its own products: the next one asks for its
// products when half of this one's have been made. What a warpgroup does between its products then stands under
// the other's. Without turns both wait for the same stage, ask for their products together and end together,
// and the unit has nothing to multiply meanwhile. Both have as many turns.
struct InTurns {
  static constexpr bool HALVES = true;
  // Numbers of the barriers of both.
  static constexpr u32 FIRST = 4, BOTH = 128 * MULTIPLIERS;
  u32 consumer;

  DEVICE_MEMBER void start() const {
    if (consumer == 1) come_to_barrier<BOTH>(FIRST);
  }
  DEVICE_MEMBER void await() const { barrier_of<BOTH>(FIRST + consumer); }
  // Hands over when the first half of the products are made; the second half are on their way.
  DEVICE_MEMBER void pass() const {
    await_multiplications<1>();
    come_to_barrier<BOTH>(FIRST + (consumer ^ 1));
  }
  // Takes the turn that the second one leaves over at the end.
  DEVICE_MEMBER void end() const {
    if (consumer == 0) barrier_of<BOTH>(FIRST);
  }
};
// Warpgroups that always have products under way need none.
struct NoTurns {
  static constexpr bool HALVES = false;
  DEVICE_MEMBER void await() const {}
};

// Runs a block: `produce` by the first warpgroup, `consume` by the two that multiply. Barriers stand
// in dynamic shared memory, where the other block of a cluster finds them at the same place. `c` is
// nothing where C is stored without a map.
// COPIERS threads arrive at a full stage, besides the thread that expects its bytes. SHARERS blocks of a
// CLUSTER, which may have more, fill each other's stages.
template <u32 STAGES, u32 SHARERS, u32 COPIERS = 0, u32 CLUSTER = SHARERS, class Produce, class Consume>
DEVICE void run_warpgroups(u8* barriers, const TensorMap* a, const TensorMap* b,
                           const TensorMap* c, Produce produce, Consume consume) {
  u64* full = reinterpret_cast<u64*>(barriers);
  const PhaseRing<STAGES> ring = {full, full + STAGES, 0, 0};
  if (thread_index() == 0) {
    for (u32 stage = 0; stage < STAGES; stage++) {
      make_barrier(&ring.full[stage], 1 + COPIERS);
      // One thread of each warp that multiplies.
      make_barrier(&ring.empty[stage], MULTIPLIERS * 4 * SHARERS);
    }
    barriers_made();
    prefetch_map(a);
    prefetch_map(b);
    if (c != nullptr) prefetch_map(c);
  }
  if (CLUSTER == 1) block_barrier();
  else cluster_barrier_relaxed();
  if (thread_index() < 128) {
    keep_registers<40>();
    produce(ring);
  } else {
    take_registers<232>();
    consume(ring);
  }
  // The other block may still copy into this block's shared memory and arrive at its barriers.
  if (CLUSTER > 1) {
    warp_barrier();
    cluster_barrier_relaxed();
  }
}
