// Split decode: what the kernels that follow a schedule do with the sums of a part.
//
// A part that is alone leaves its output. One of several leaves its sums in its slot of scratch
// memory and counts itself. Once all parts of the same rows are counted, their slots are combined: by
// the block that came last, and by those that came before it and still wait. A block waits only where
// it has nothing else to do, and not for longer than PATIENCE; the last one waits for nobody. So
// blocks need not run at the same time. Each block that combines takes slices of the rows until none
// is left. The last block to leave sets the counts back for the next launch.
#pragma once
#include "attention.h"

namespace {

CONSTANT u32 PART_ROWS = 64;
// How long a block waits for the other parts of its rows, in cycles: about 20 us.
CONSTANT u64 PATIENCE = 1 << 15;
// Columns of a row that a warp combines with one vector of each lane, by lanes of 32.
CONSTANT u32 STRIP = 128;

// Words of a slot: the sums of all rows, for each row its largest score and the sum of its weights,
// then a cache line for the counts.
DEVICE u64 slot_words(u32 dim_v) { return u64(PART_ROWS) * (dim_v + 2) + 16; }

// In the first slot of a set of rows: parts whose sums are there, slices that a block has taken, parts
// whose block is done with the slots.
struct SlotCounts { u32 parts, slices, left; };

// Which row of Q and O, of all heads.
DEVICE u64 output_row(const AttentionParams& p, const AttentionPart& part,
                      const AttentionSequence& sequence, u32 row) {
  const u32 group = p.heads / p.kv_heads, at = part.row_first + row;
  // With a single query no division is needed.
  const u32 query = sequence.queries == 1 ? 0 : at / group;
  return u64(sequence.query_first + query) * p.heads + part.kv_head * group + (at - query * group);
}

// Rows of a part.
DEVICE u32 part_rows(const AttentionParams& p, const AttentionPart& part,
                     const AttentionSequence& sequence) {
  return smaller(PART_ROWS, sequence.queries * (p.heads / p.kv_heads) - part.row_first);
}

// What a row's sums are relative to, as an exponent of two, and its whole sum of weights: to the
// part's slot.
DEVICE void leave_share(const AttentionParams& p, const AttentionPart& part, u32 dim_v, u32 row,
                        f32 max, f32 total) {
  f32* to = p.scratch + part.slot * slot_words(dim_v) + PART_ROWS * dim_v + 2 * row;
  to[0] = max;
  to[1] = total;
}

// One sum of a row, relative to 2^max, with the row's whole sum of weights: to the output or to the
// part's slot.
template <class O>
DEVICE void leave_sum(const AttentionParams& p, const AttentionPart& part, u64 output_row, u32 row,
                      u32 column, f32 sum, f32 max, f32 total) {
  if (part.slots == 1) {
    const f32 share = total > 0.0f ? 1.0f / total : 0.0f;
    static_cast<O*>(p.o)[output_row * p.dim_v + column] = narrow(sum * share, O());
    return;
  }
  p.scratch[part.slot * slot_words(p.dim_v) + u64(row) * p.dim_v + column] = sum;
  if (column == 0) leave_share(p, part, p.dim_v, row, max, total);
}

// Two neighbouring sums of a row, in one store.
struct alignas(8) Pair { f32 low, high; };

struct WholeBlock {
  DEVICE_MEMBER void operator()() const { block_barrier(); }
};

// One lane's part of AT_ONCE slots of a row: 4 columns of each of STRIPS strips.
template <u32 DIM, u32 STRIPS, u32 AT_ONCE> struct Slots {
  Vector<f32> sums[AT_ONCE][STRIPS];
  f32 max[AT_ONCE], total[AT_ONCE];

  // Loads the slots of `part` from `slot` on; `from` and `shares` are this row's in the first slot.
  DEVICE_MEMBER void load(const f32* from, const f32* shares, const AttentionPart& part, u32 slot) {
    from += slot * slot_words(DIM);
    shares += slot * slot_words(DIM);
    UNROLL for (u32 i = 0; i < AT_ONCE; i++) {
      const bool there = slot + i < part.slots;
      const f32* at = shares + i * slot_words(DIM);
      const u64 share = there ? load_fresh(reinterpret_cast<const u64*>(at)) : 0;
      max[i] = there ? float_of(u32(share)) : no_score();
      total[i] = float_of(u32(share >> 32));
      UNROLL for (u32 strip = 0; strip < STRIPS; strip++) {
        sums[i][strip] = {};
        if (!there) continue;
        at = from + i * slot_words(DIM) + strip * STRIP;
        sums[i][strip] = load_fresh(reinterpret_cast<const Vector<f32>*>(at));
      }
    }
  }
};

// STRIPS strips of a row from `column` on, of all slots, by 32 threads. The next AT_ONCE slots are on
// their way while those before are added.
template <class O, u32 DIM, u32 STRIPS, u32 AT_ONCE>
DEVICE void combine_strips(const AttentionParams& p, const AttentionPart& part, u64 output_row,
                           const f32* first, u32 row, u32 column) {
  column += thread_index() % 32 * 4;
  if (column >= DIM) return;
  const f32* from = first + u64(row) * DIM + column;
  const f32* shares = first + PART_ROWS * DIM + 2 * row;
  Slots<DIM, STRIPS, AT_ONCE> now, next;
  next.load(from, shares, part, 0);
  f32 max = no_score(), total = 0.0f, sums[STRIPS][4] = {};
#pragma unroll 1
  for (u32 slot = 0; slot < part.slots; slot += AT_ONCE) {
    now = next;
    if (slot + AT_ONCE < part.slots) next.load(from, shares, part, slot + AT_ONCE);
    f32 largest = max;
    UNROLL for (u32 i = 0; i < AT_ONCE; i++) largest = larger(largest, now.max[i]);
    const f32 base = largest == no_score() ? 0.0f : largest;
    const f32 correction = power_of_two(max - base);
    max = largest;
    total *= correction;
    UNROLL for (u32 i = 0; i < STRIPS * 4; i++) sums[i / 4][i % 4] *= correction;
    UNROLL for (u32 i = 0; i < AT_ONCE; i++) {
      const f32 weight = power_of_two(now.max[i] - base);
      total = fused(weight, now.total[i], total);
      UNROLL for (u32 c = 0; c < STRIPS * 4; c++) {
        sums[c / 4][c % 4] = fused(weight, now.sums[i][c / 4].at[c % 4], sums[c / 4][c % 4]);
      }
    }
  }
  const f32 share = total > 0.0f ? 1.0f / total : 0.0f;
  struct alignas(8) Pairs { u32 at[2]; };
  O* to = static_cast<O*>(p.o) + output_row * DIM + column;
  UNROLL for (u32 strip = 0; strip < STRIPS; strip++) {
    f32 (&of)[4] = sums[strip];
    *reinterpret_cast<Pairs*>(to + strip * STRIP) = {
        {narrow_pair(of[0] * share, of[1] * share, O()),
         narrow_pair(of[2] * share, of[3] * share, O())}};
  }
}

// A warp combines a whole row of few slots at once, and a strip of it where there are many: then the
// loads of one strip are enough, and more warps take part.
CONSTANT u32 SLOTS_FEW = 8;

// How many slices the rows of `slots` parts are combined in, by WARPS warps each.
template <u32 DIM, u32 WARPS> DEVICE u32 slices_of(u32 slots, u32 rows) {
  const u32 pieces = slots > SLOTS_FEW ? rows * ((DIM + STRIP - 1) / STRIP) : rows;
  return smaller((pieces + WARPS - 1) / WARPS, slots);
}

// Every `slices`th set of WARPS pieces from `slice` on. A block that combines ALONE takes whole rows,
// and of more slots a few at a time.
template <class O, u32 DIM, u32 WARPS, bool ALONE>
DEVICE void combine_slice(const AttentionParams& p, const AttentionPart& part,
                          const AttentionSequence& sequence, const f32* first, u32 rows, u32 slice,
                          u32 slices) {
  constexpr u32 STRIPS = (DIM + STRIP - 1) / STRIP;
  static_assert(sizeof(O) == 2 && DIM % 4 == 0, "how they are stored");
  const u32 start = slice * WARPS + thread_index() / 32, step = slices * WARPS;
  if (ALONE || STRIPS == 1 || part.slots <= SLOTS_FEW) {
    for (u32 row = start; row < rows; row += step) {
      combine_strips<O, DIM, STRIPS, ALONE ? 2 : 8 / STRIPS>(p, part, output_row(p, part, sequence, row),
                                                 first, row, 0);
    }
  } else {
    for (u32 piece = start; piece < rows * STRIPS; piece += step) {
      const u32 row = piece / STRIPS;
      combine_strips<O, DIM, 1, 8>(p, part, output_row(p, part, sequence, row), first, row,
                                   piece % STRIPS * STRIP);
    }
  }
}

// Whether all parts have been counted, now or within PATIENCE cycles.
DEVICE bool await_parts(const u32* count, u32 parts) {
  const u64 start = cycles();
  do {
    if (load_fresh(count) == parts) return true;
  } while (cycles_since(start) < PATIENCE);
  return false;
}

// By the first THREADS threads of the block, who come together at `barrier`, after all sums of a
// part were left. WAITS: blocks that have no other part left (`idle`) help the last one. `told` has two
// words of shared memory.
template <class O, u32 DIM, u32 THREADS, bool WAITS = false, class Barrier = WholeBlock>
DEVICE void combine_if_complete(const AttentionParams& p, const AttentionPart& part,
                                const AttentionSequence& sequence, u32* told, bool idle = false,
                                Barrier barrier = Barrier()) {
  if (part.slots == 1) return;
  const u64 words = slot_words(DIM);
  f32* first = p.scratch + part.slot_first * words;
  SlotCounts* counts = reinterpret_cast<SlotCounts*>(first + words - 16);
  const u32 rows = part_rows(p, part, sequence);
  const u32 slices = WAITS ? slices_of<DIM, THREADS / 32>(part.slots, rows) : 1;
  device_fence();
  barrier();
  if (thread_index() == 0) {
    bool complete = atomic_add(&counts->parts, 1u) == part.slots - 1;
    if (WAITS && idle && !complete) complete = await_parts(&counts->parts, part.slots);
    told[0] = complete ? atomic_add(&counts->slices, 1u) : slices;
  }
  barrier();
  u32 turn = 0, slice = told[0];
  if (slice < slices) device_fence();
  while (slice < slices) {
    combine_slice<O, DIM, THREADS / 32, !WAITS>(p, part, sequence, first, rows, slice, slices);
    turn ^= 1;
    if (thread_index() == 0) told[turn] = atomic_add(&counts->slices, 1u);
    barrier();
    slice = told[turn];
  }
  if (thread_index() == 0 && atomic_add(&counts->left, 1u) == part.slots - 1) {
    *counts = {0, 0, 0};
  }
}

// A part's queries as the left operand of the first product, 16 bytes at a time to where `place` of
// a row and a chunk says: zeros in rows that are none. CONVERTED ones become M.
template <class M, class Q, bool CONVERTED, u32 ROWS, u32 DIM, u32 THREADS, class Place>
DEVICE void load_part_queries(const AttentionParams& p, const AttentionPart& part,
                              const AttentionSequence& sequence, u32 rows, Place place) {
  constexpr u32 EACH = ROWS * DIM / 8 / THREADS, AT_ONCE = EACH % 9 == 0 ? 9 : EACH;
  static_assert(EACH * THREADS * 8 == ROWS * DIM, "all threads copy alike");
#pragma unroll 1
  for (u32 done = 0; done < EACH; done += AT_ONCE) {
    Vector<u32> made[AT_ONCE];
    UNROLL for (u32 i = 0; i < AT_ONCE; i++) {
      const u32 chunk = (done + i) * THREADS + thread_index(), row = chunk / (DIM / 8);
      made[i] = {};
      if (row >= rows) continue;
      const Q* from = static_cast<const Q*>(p.q) + output_row(p, part, sequence, row) * DIM;
      made[i] = *reinterpret_cast<const Vector<u32>*>(from + chunk % (DIM / 8) * 8);
    }
    UNROLL for (u32 i = 0; i < AT_ONCE; i++) {
      const u32 chunk = (done + i) * THREADS + thread_index();
      if constexpr (CONVERTED) {
        UNROLL for (u32 w = 0; w < 4; w++) {
          u32& pair = made[i].at[w];
          const Q low = {u16(pair)}, high = {u16(pair >> 16)};
          pair = narrow_pair(widen(low), widen(high), M());
        }
      }
      *reinterpret_cast<Vector<u32>*>(place(chunk / (DIM / 8), chunk % (DIM / 8))) = made[i];
    }
  }
}

}  // namespace
