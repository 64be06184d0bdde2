// Prefill by fragments in registers (FlashAttention-2, Dao, 2023), for elements of 16 and 8 bits.
//
// 4 warps take 64 x DOWN queries of one head through their keys, KEYS at a time; each warp has 16 x
// DOWN rows of the scores and of the output to itself, so that no row needs another warp. Queries
// stay in shared memory, keys and values come in two stages: the next is on its way while one is in
// use. Scores become weights in the registers they are made in, which are laid as the left operand
// of the second product wants them.
//
// Rows of shared memory have their 16-byte chunks exchanged by the row's number, so that the loads
// of fragments, which go down rows, meet no bank twice.
#pragma once
#include "attention.h"
#include "sm80.h"

namespace {

template <class T> struct Weights {
  using Out = T;
  // Weights are 1 at most.
  static constexpr f32 EXPONENT = 0.0f;
};
template <> struct Weights<e4m3> {
  using Out = bf16;
  // Weights of 8 bits are 2^8 times as large: what is left of small ones is not lost.
  static constexpr f32 EXPONENT = 8.0f;
};

template <class T, u32 DIM_QK, u32 DIM_V, u32 DOWN, u32 KEYS> struct Prefill {
  static constexpr u32 THREADS = 128;
  static constexpr u32 ROWS = 64 * DOWN;
  static constexpr u32 BYTES_QK = DIM_QK * sizeof(T);
  static constexpr u32 BYTES_V = DIM_V * sizeof(T);
  static constexpr u32 QUERIES = ROWS * BYTES_QK;
  static constexpr u32 STAGE = KEYS * (BYTES_QK + BYTES_V);
  static constexpr u32 SHARED_BYTES = QUERIES + 2 * STAGE;
  // Scores that one fragment of weights covers.
  static constexpr u32 DEPTH = 32 / sizeof(T);

  f32 scores[DOWN][KEYS / 8][4];
  f32 sums[DOWN][DIM_V / 8][4];
  // Of rows g and g + 8 of each 16.
  f32 max[DOWN][2], total[DOWN][2];

  // Where byte `byte` of a row stands.
  template <u32 ROW_BYTES> static DEVICE_MEMBER u32 place(u32 start, u32 row, u32 byte) {
    // Rows of 192 bytes start at half of all banks, as those of 64 do.
    const u32 exchange = ROW_BYTES % 128 == 0 ? row % 8 : row / 2 % 4;
    return start + row * ROW_BYTES + (byte / 16 ^ exchange) * 16 + byte % 16;
  }

  // Rows of so many bytes; `from` gives where one starts, or nothing where there is none.
  template <u32 COUNT, u32 ROW_BYTES, class From>
  static DEVICE_MEMBER void fetch(u32 start, const void* any, From from) {
    constexpr u32 CHUNKS = ROW_BYTES / 16;
    UNROLL for (u32 i = 0; i < COUNT * CHUNKS / THREADS; i++) {
      const u32 chunk = i * THREADS + thread_index();
      const u32 row = chunk / CHUNKS, byte = chunk % CHUNKS * 16;
      const u8* at = from(row);
      const bool there = at != nullptr;
      const void* source = there ? at + byte : any;
      copy_async(place<ROW_BYTES>(start, row, byte), source, there ? 16 : 0);
    }
  }
  static DEVICE_MEMBER void fetch_keys(const AttentionParams& p, const AttentionSequence& sequence,
                                       u32 kv_head, u32 from, u32 stage) {
    const auto row_of = [&](const void* start, u32 bytes, u32 row) -> const u8* {
      if (from + row >= sequence.keys) return nullptr;
      const u64 token = key_token(p, sequence, from + row);
      return static_cast<const u8*>(start) + (token * p.kv_heads + kv_head) * bytes;
    };
    fetch<KEYS, BYTES_QK>(stage, p.k, [&](u32 row) { return row_of(p.k, BYTES_QK, row); });
    fetch<KEYS, BYTES_V>(stage + KEYS * BYTES_QK, p.v,
                         [&](u32 row) { return row_of(p.v, BYTES_V, row); });
  }

  DEVICE_MEMBER void score(u32 queries, u32 keys) {
    const u32 warp = thread_index() / 32, lane = thread_index() % 32;
    UNROLL for (u32 d = 0; d < DOWN; d++) {
      UNROLL for (u32 i = 0; i < KEYS / 8; i++) {
        UNROLL for (u32 r = 0; r < 4; r++) scores[d][i][r] = 0.0f;
      }
    }
    UNROLL for (u32 step = 0; step < BYTES_QK / 32; step++) {
      u32 a[DOWN][4];
      UNROLL for (u32 d = 0; d < DOWN; d++) {
        const u32 row = (warp * DOWN + d) * 16 + lane % 16;
        load_matrices(a[d], place<BYTES_QK>(queries, row, step * 32 + lane / 16 * 16));
      }
      UNROLL for (u32 i = 0; i < KEYS / 8; i += 2) {
        const u32 row = i * 8 + lane / 16 * 8 + lane % 8;
        u32 got[4];
        load_matrices(got, place<BYTES_QK>(keys, row, step * 32 + lane / 8 % 2 * 16));
        const u32 b[2][2] = {{got[0], got[1]}, {got[2], got[3]}};
        UNROLL for (u32 d = 0; d < DOWN; d++) {
          multiply(scores[d][i], a[d], b[0], T());
          multiply(scores[d][i + 1], a[d], b[1], T());
        }
      }
    }
  }

  // Scores of keys that a row does not see are none.
  DEVICE_MEMBER void mask(const AttentionParams& p, u32 from, const AttentionSequence& sequence,
                          u32 first) {
    const u32 warp = thread_index() / 32, g = thread_index() % 32 / 4, t = thread_index() % 4;
    UNROLL for (u32 d = 0; d < DOWN; d++) {
      UNROLL for (u32 half = 0; half < 2; half++) {
        const u32 row = first + (warp * DOWN + d) * 16 + half * 8 + g;
        const u32 seen = keys_seen(p, sequence, row), start = first_key_seen(p, sequence, row);
        UNROLL for (u32 i = 0; i < KEYS / 8; i++) {
          UNROLL for (u32 c = 0; c < 2; c++) {
            const u32 key = from + i * 8 + 2 * t + c;
            if (key >= seen || key < start) scores[d][i][2 * half + c] = no_score();
          }
        }
      }
    }
  }

  // Scores become weights relative to the largest so far, sums are corrected.
  DEVICE_MEMBER void weigh(f32 factor) {
    UNROLL for (u32 d = 0; d < DOWN; d++) {
      UNROLL for (u32 half = 0; half < 2; half++) {
        f32 largest = max[d][half];
        UNROLL for (u32 i = 0; i < KEYS / 8; i++) {
          largest = larger(largest, larger(scores[d][i][2 * half], scores[d][i][2 * half + 1]));
        }
        largest = larger(largest, shuffle_xor(largest, 1));
        largest = larger(largest, shuffle_xor(largest, 2));
        const f32 base =
            (largest == no_score() ? 0.0f : largest * factor) - Weights<T>::EXPONENT;
        const f32 correction =
            power_of_two(fused(max[d][half], factor, -Weights<T>::EXPONENT - base));
        max[d][half] = largest;
        f32 sum = total[d][half] * correction;
        UNROLL for (u32 i = 0; i < KEYS / 8; i++) {
          UNROLL for (u32 c = 0; c < 2; c++) {
            f32& score = scores[d][i][2 * half + c];
            score = power_of_two(fused(score, factor, -base));
            sum += score;
          }
        }
        total[d][half] = sum;
        UNROLL for (u32 i = 0; i < DIM_V / 8; i++) {
          sums[d][i][2 * half] *= correction;
          sums[d][i][2 * half + 1] *= correction;
        }
      }
    }
  }

  // Weights as the left operand: what a lane holds of two (of 8 bits: four) fragments of scores.
  DEVICE_MEMBER void weights(u32 (&a)[4], u32 d, u32 step) const {
    UNROLL for (u32 r = 0; r < 4; r++) {
      const u32 h = r % 2 * 2;
      if constexpr (sizeof(T) == 2) {
        const f32(&s)[4] = scores[d][2 * step + r / 2];
        a[r] = narrow_pair(s[h], s[h + 1], T());
      } else {
        const f32(&low)[4] = scores[d][4 * step + r / 2 * 2];
        const f32(&high)[4] = scores[d][4 * step + r / 2 * 2 + 1];
        a[r] = narrow_four(low[h], low[h + 1], high[h], high[h + 1], T());
      }
    }
  }

  // Two fragments of values, for 16 columns, transposed on the way.
  template <class E> static DEVICE_MEMBER void values(u32 (&b)[2][2], u32 start, u32 step, u32 i, E) {
    const u32 lane = thread_index() % 32;
    u32 got[4];
    load_matrices_transposed(
        got, place<BYTES_V>(start, step * 16 + lane % 16, i * 16 + lane / 16 * 16));
    UNROLL for (u32 r = 0; r < 4; r++) b[r / 2][r % 2] = got[r];
  }
  // Bytes are transposed in pairs: a lane gets two columns of two keys. Exchanging bytes makes
  // fragments of the even and of the odd columns, whose keys come in the order that `weights` has
  // them in: 2t, 2t + 1, 8 + 2t, 8 + 2t + 1.
  static DEVICE_MEMBER void values(u32 (&b)[2][2], u32 start, u32 step, u32 i, e4m3) {
    u32 got[4];
    load_matrices_transposed(
        got, place<BYTES_V>(start, step * 32 + thread_index() % 32, i * 8));
    UNROLL for (u32 r = 0; r < 2; r++) {
      b[0][r] = choose_bytes(got[2 * r], got[2 * r + 1], 0x6420);
      b[1][r] = choose_bytes(got[2 * r], got[2 * r + 1], 0x7531);
    }
  }

  DEVICE_MEMBER void accumulate(u32 start) {
    UNROLL for (u32 step = 0; step < KEYS / DEPTH; step++) {
      u32 a[DOWN][4];
      UNROLL for (u32 d = 0; d < DOWN; d++) weights(a[d], d, step);
      UNROLL for (u32 i = 0; i < DIM_V / 8; i += 2) {
        u32 b[2][2];
        values(b, start, step, i, T());
        UNROLL for (u32 d = 0; d < DOWN; d++) {
          multiply(sums[d][i], a[d], b[0], T());
          multiply(sums[d][i + 1], a[d], b[1], T());
        }
      }
    }
  }

  // Two fragments of 16 columns: a lane's four values of a row.
  template <class E> static DEVICE_MEMBER void leave(E* row, u32 t, f32 s0, f32 s1, f32 s2, f32 s3, E) {
    *reinterpret_cast<u32*>(row + 2 * t) = narrow_pair(s0, s1, E());
    *reinterpret_cast<u32*>(row + 8 + 2 * t) = narrow_pair(s2, s3, E());
  }
  // Even and odd columns: they are neighbours.
  static DEVICE_MEMBER void leave(bf16* row, u32 t, f32 s0, f32 s1, f32 s2, f32 s3, e4m3) {
    *reinterpret_cast<u32*>(row + 4 * t) = narrow_pair(s0, s2, bf16());
    *reinterpret_cast<u32*>(row + 4 * t + 2) = narrow_pair(s1, s3, bf16());
  }

  DEVICE_MEMBER void finish(const AttentionParams& p, const AttentionSequence& sequence, u32 head,
                            u32 first) {
    using Out = typename Weights<T>::Out;
    const u32 warp = thread_index() / 32, g = thread_index() % 32 / 4, t = thread_index() % 4;
    UNROLL for (u32 d = 0; d < DOWN; d++) {
      UNROLL for (u32 half = 0; half < 2; half++) {
        f32 sum = total[d][half];
        sum += shuffle_xor(sum, 1);
        sum += shuffle_xor(sum, 2);
        const f32 share = sum > 0.0f ? 1.0f / sum : 0.0f;
        const u32 row = first + (warp * DOWN + d) * 16 + half * 8 + g;
        if (row >= sequence.queries) continue;
        Out* to = static_cast<Out*>(p.o) +
                  (u64(sequence.query_first + row) * p.heads + head) * DIM_V;
        UNROLL for (u32 i = 0; i < DIM_V / 8; i += 2) {
          const f32(&one)[4] = sums[d][i];
          const f32(&two)[4] = sums[d][i + 1];
          leave(to + i * 8, t, one[2 * half] * share, one[2 * half + 1] * share,
                two[2 * half] * share, two[2 * half + 1] * share, T());
        }
      }
    }
  }

  DEVICE_MEMBER void perform(const AttentionParams& p, const AttentionSequence& whole, u32 head,
                             u32 first) {
    // Keys count from the first that the block's first row sees on.
    const u32 hidden = first_key_seen(p, whole, first);
    const AttentionSequence sequence = {whole.query_first, whole.queries, whole.key_first + hidden,
                                        whole.keys - hidden};
    const u32 shared = shared_address(dynamic_shared());
    const u32 kv_head = head / (p.heads / p.kv_heads);
    const u32 last = smaller(first + ROWS, sequence.queries) - 1;
    const u32 end = keys_seen(p, sequence, last);
    // Of the keys that all rows see, the first and the one behind the last.
    const u32 seen_from = first_key_seen(p, sequence, last), seen_to = keys_seen(p, sequence, first);
    fetch<ROWS, BYTES_QK>(shared, p.q, [&](u32 row) -> const u8* {
      if (first + row >= sequence.queries) return nullptr;
      const u64 at = u64(sequence.query_first + first + row) * p.heads + head;
      return static_cast<const u8*>(p.q) + at * BYTES_QK;
    });
    if (end > 0) fetch_keys(p, sequence, kv_head, 0, shared + QUERIES);
    close_copies();
    UNROLL for (u32 d = 0; d < DOWN; d++) {
      UNROLL for (u32 half = 0; half < 2; half++) {
        max[d][half] = no_score();
        total[d][half] = 0.0f;
      }
      UNROLL for (u32 i = 0; i < DIM_V / 8; i++) {
        UNROLL for (u32 r = 0; r < 4; r++) sums[d][i][r] = 0.0f;
      }
    }
    u32 stage = shared + QUERIES, next = stage + STAGE;
    for (u32 from = 0; from < end; from += KEYS) {
      await_copies<0>();
      block_barrier();
      if (from + KEYS < end) fetch_keys(p, sequence, kv_head, from + KEYS, next);
      close_copies();
      score(shared, stage);
      if (from < seen_from || from + KEYS > seen_to) mask(p, from, sequence, first);
      weigh(p.scale * LOG2_E);
      accumulate(stage + KEYS * BYTES_QK);
      const u32 used = stage;
      stage = next;
      next = used;
    }
    await_copies<0>();
    finish(p, sequence, head, first);
    block_barrier();
  }

  // One block for each tile of queries, head and sequence; the last tiles, which see the most where
  // they are causal, come first.
  static DEVICE_MEMBER void all(const AttentionParams& p) {
    const u32 units = p.batch * p.heads, tiles = (p.queries + ROWS - 1) / ROWS;
    for (u32 index = block_index(); index < units * tiles; index += block_count()) {
      const u32 unit = index % units, first = (tiles - 1 - index / units) * ROWS;
      const AttentionSequence sequence = p.sequences[unit / p.heads];
      if (first >= sequence.queries) continue;
      Prefill made;
      made.perform(p, sequence, unit % p.heads, first);
    }
  }
};

}  // namespace
