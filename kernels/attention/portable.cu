// Attention as it is defined, on any device: all kinds, all dimensions up to 576 for queries and 512
// for values, sequences of any length, in pages or in one piece.
//
// A block of threads takes 16 rows that share a head of K and V (row: query x group + head) through
// their keys, 32 at a time: each thread makes 4 scores, 16 of them one row's softmax each, and each
// sums 4 columns of the output for all rows.
#include "attention.h"

namespace {

CONSTANT u32 THREADS = 128;
CONSTANT u32 ROWS = 16;
CONSTANT u32 KEYS = 32;
CONSTANT u32 DIM_QK_MAX = 576;
CONSTANT u32 COLUMNS = 4;

struct Room {
  f32 queries[ROWS][DIM_QK_MAX];
  f32 weights[ROWS][KEYS + 1];
  f32 corrections[ROWS];
  f32 sums[ROWS];
};

// The rows that a block is at.
struct Rows {
  AttentionSequence sequence;
  u32 kv_head, group, first, count;

  // Which row of Q and O, of all heads.
  DEVICE_MEMBER u64 place(const AttentionParams& p, u32 row) const {
    const u32 at = first + row;
    return u64(sequence.query_first + at / group) * p.heads + kv_head * group + at % group;
  }
  DEVICE_MEMBER u32 seen(const AttentionParams& p, u32 row) const {
    return row < count ? keys_seen(p, sequence, (first + row) / group) : 0;
  }
  DEVICE_MEMBER u32 first_seen(const AttentionParams& p, u32 row) const {
    return first_key_seen(p, sequence, (first + row) / group);
  }
};

template <class C>
DEVICE void score(const AttentionParams& p, const Rows& rows, u32 from, Room& room) {
  const u32 row = thread_index() % ROWS, seen = rows.seen(p, row);
  const u32 first = rows.first_seen(p, row);
  for (u32 i = thread_index() / ROWS; i < KEYS; i += THREADS / ROWS) {
    f32 sum = 0.0f;
    const bool is_seen = from + i >= first && from + i < seen;
    if (is_seen) {
      const u64 token = key_token(p, rows.sequence, from + i);
      const C* key = static_cast<const C*>(p.k) + (token * p.kv_heads + rows.kv_head) * p.dim_qk;
      for (u32 d = 0; d < p.dim_qk; d++) sum = fused(room.queries[row][d], widen(key[d]), sum);
    }
    room.weights[row][i] = is_seen ? sum * (p.scale * LOG2_E) : no_score();
  }
}

// Scores of one row become weights relative to the largest score so far.
DEVICE void weigh(Room& room, f32& max, u32 row) {
  f32 largest = max;
  for (u32 i = 0; i < KEYS; i++) largest = larger(largest, room.weights[row][i]);
  // Where nothing was seen there is nothing to correct either.
  const f32 base = largest == no_score() ? 0.0f : largest;
  const f32 correction = power_of_two(max - base);
  f32 sum = room.sums[row] * correction;
  for (u32 i = 0; i < KEYS; i++) {
    const f32 weight = power_of_two(room.weights[row][i] - base);
    room.weights[row][i] = weight;
    sum += weight;
  }
  room.corrections[row] = correction;
  room.sums[row] = sum;
  max = largest;
}

template <class C>
DEVICE void accumulate(const AttentionParams& p, const Rows& rows, u32 from, u32 count,
                       const Room& room, f32 (&sums)[COLUMNS][ROWS]) {
  const C* values = static_cast<const C*>(p.v == nullptr ? p.k : p.v);
  const u32 stride = p.v == nullptr ? p.dim_qk : p.dim_v;
  UNROLL for (u32 c = 0; c < COLUMNS; c++) {
    const u32 column = c * THREADS + thread_index();
    if (column >= p.dim_v) continue;
    UNROLL for (u32 r = 0; r < ROWS; r++) sums[c][r] *= room.corrections[r];
    for (u32 i = 0; i < count; i++) {
      const u64 token = key_token(p, rows.sequence, from + i);
      const f32 value = widen(values[(token * p.kv_heads + rows.kv_head) * stride + column]);
      UNROLL for (u32 r = 0; r < ROWS; r++) {
        sums[c][r] = fused(room.weights[r][i], value, sums[c][r]);
      }
    }
  }
}

template <class Q, class C, class O> DEVICE void attend(const AttentionParams& p) {
  SHARED Room room;
  const u32 group = p.heads / p.kv_heads, units = p.batch * p.kv_heads;
  const u32 blocks = (p.queries * group + ROWS - 1) / ROWS;
  for (u32 task = block_index(); task < units * blocks; task += block_count()) {
    // The last rows first: causal, they see the most.
    const u32 unit = task % units, first = (blocks - 1 - task / units) * ROWS;
    const AttentionSequence sequence = p.sequences[unit / p.kv_heads];
    const u32 all = sequence.queries * group;
    if (first >= all) continue;
    const Rows rows = {sequence, unit % p.kv_heads, group, first, smaller(ROWS, all - first)};
    for (u32 i = thread_index(); i < ROWS * p.dim_qk; i += THREADS) {
      const u32 row = i / p.dim_qk, column = i % p.dim_qk;
      const Q* from = static_cast<const Q*>(p.q) + rows.place(p, smaller(row, rows.count - 1)) * p.dim_qk;
      room.queries[row][column] = widen(from[column]);
    }
    if (thread_index() < ROWS) room.sums[thread_index()] = 0.0f;
    f32 sums[COLUMNS][ROWS] = {}, max = no_score();
    const u32 end = rows.seen(p, rows.count - 1);
    block_barrier();
    for (u32 from = rows.first_seen(p, 0); from < end; from += KEYS) {
      score<C>(p, rows, from, room);
      block_barrier();
      if (thread_index() < ROWS) weigh(room, max, thread_index());
      block_barrier();
      accumulate<C>(p, rows, from, smaller(KEYS, end - from), room, sums);
      block_barrier();
    }
    UNROLL for (u32 c = 0; c < COLUMNS; c++) {
      const u32 column = c * THREADS + thread_index();
      UNROLL for (u32 r = 0; r < ROWS; r++) {
        if (column >= p.dim_v || r >= rows.count) continue;
        const f32 share = room.sums[r] > 0.0f ? 1.0f / room.sums[r] : 0.0f;
        static_cast<O*>(p.o)[rows.place(p, r) * p.dim_v + column] = narrow(sums[c][r] * share, O());
      }
    }
    block_barrier();
  }
}

}  // namespace

KERNEL(128, 2) attention_f32(const AttentionParams p) { attend<f32, f32, f32>(p); }
KERNEL(128, 2) attention_f16(const AttentionParams p) { attend<f16, f16, f16>(p); }
KERNEL(128, 2) attention_bf16(const AttentionParams p) { attend<bf16, bf16, bf16>(p); }
KERNEL(128, 2) attention_fp8(const AttentionParams p) { attend<u8, u8, bf16>(p); }
// Keys and values alone are of 8 bits.
KERNEL(128, 2) attention_fp8_cache(const AttentionParams p) { attend<bf16, u8, bf16>(p); }
