// Split decode: what the kernels that follow a schedule do with the sums of a part.
//
// A part that is alone leaves its output. One of several leaves its sums in its slot of scratch
// memory; whichever block is the last to do so for the same rows, combines all of them. It finds out
// by a count, which it sets back for the next launch.
#pragma once
#include "attention.h"

namespace {

CONSTANT u32 PART_ROWS = 64;

// Words of a slot: for each row its sums, its largest score and the sum of its weights; then a cache
// line for the count.
DEVICE u64 slot_words(u32 dim_v) { return u64(PART_ROWS) * (dim_v + 2) + 16; }

// Which row of Q and O, of all heads.
DEVICE u64 output_row(const AttentionParams& p, const AttentionPart& part,
                      const AttentionSequence& sequence, u32 row) {
  const u32 group = p.heads / p.kv_heads, at = part.row_first + row;
  return u64(sequence.query_first + at / group) * p.heads + part.kv_head * group + at % group;
}

// Rows of a part.
DEVICE u32 part_rows(const AttentionParams& p, const AttentionPart& part,
                     const AttentionSequence& sequence) {
  return smaller(PART_ROWS, sequence.queries * (p.heads / p.kv_heads) - part.row_first);
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
  f32* to = p.scratch + part.slot * slot_words(p.dim_v) + u64(row) * (p.dim_v + 2);
  to[column] = sum;
  if (column == 0) {
    to[p.dim_v] = max;
    to[p.dim_v + 1] = total;
  }
}

struct WholeBlock {
  DEVICE_MEMBER void operator()() const { block_barrier(); }
};

// By the first THREADS threads of the block, who come together at `barrier`, after all sums of a
// part were left.
template <class O, u32 THREADS, class Barrier = WholeBlock>
DEVICE void combine_if_last(const AttentionParams& p, const AttentionPart& part,
                            const AttentionSequence& sequence, u32* told,
                            Barrier barrier = Barrier()) {
  if (part.slots == 1) return;
  const u64 words = slot_words(p.dim_v);
  f32* first = p.scratch + part.slot_first * words;
  u32* count = reinterpret_cast<u32*>(first + words - 16);
  device_fence();
  barrier();
  if (thread_index() == 0) *told = atomic_add(count, 1u);
  barrier();
  if (*told != part.slots - 1) return;
  device_fence();
  const u32 rows = part_rows(p, part, sequence);
  for (u32 i = thread_index(); i < rows * p.dim_v; i += THREADS) {
    const u32 row = i / p.dim_v, column = i % p.dim_v;
    const f32* from = first + u64(row) * (p.dim_v + 2);
    f32 max = no_score();
    for (u32 s = 0; s < part.slots; s++) max = larger(max, load_fresh(from + s * words + p.dim_v));
    const f32 base = max == no_score() ? 0.0f : max;
    f32 sum = 0.0f, total = 0.0f;
#pragma unroll 2
    for (u32 s = 0; s < part.slots; s++) {
      const f32* slot = from + s * words;
      const f32 weight = power_of_two(load_fresh(slot + p.dim_v) - base);
      sum = fused(weight, load_fresh(slot + column), sum);
      total = fused(weight, load_fresh(slot + p.dim_v + 1), total);
    }
    const f32 share = total > 0.0f ? 1.0f / total : 0.0f;
    static_cast<O*>(p.o)[output_row(p, part, sequence, row) * p.dim_v + column] =
        narrow(sum * share, O());
  }
  if (thread_index() == 0) *count = 0;
}

// A part's queries as the left operand of the first product, 16 bytes at a time to where `place` of
// a row and a chunk says: zeros in rows that are none. CONVERTED ones become M.
template <class M, class Q, bool CONVERTED, u32 ROWS, u32 DIM, u32 THREADS, class Place>
DEVICE void load_part_queries(const AttentionParams& p, const AttentionPart& part,
                              const AttentionSequence& sequence, u32 rows, Place place) {
  for (u32 i = thread_index(); i < ROWS * DIM / 8; i += THREADS) {
    const u32 row = i / (DIM / 8), chunk = i % (DIM / 8);
    Vector<u32> made = {};
    if (row < rows) {
      const Q* from = static_cast<const Q*>(p.q) + output_row(p, part, sequence, row) * DIM;
      made = *reinterpret_cast<const Vector<u32>*>(from + chunk * 8);
      if constexpr (CONVERTED) {
        UNROLL for (u32 w = 0; w < 4; w++) {
          const Q low = {u16(made.at[w])}, high = {u16(made.at[w] >> 16)};
          made.at[w] = narrow_pair(widen(low), widen(high), M());
        }
      }
    }
    *reinterpret_cast<Vector<u32>*>(place(row, chunk)) = made;
  }
}

}  // namespace
