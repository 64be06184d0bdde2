// Decode of multi-head latent attention, absorbed (DeepSeek-V2, 2024): one latent of 576 is the key
// of all heads, its first 512 the value; split over all units by a schedule: attention_parts.h.
//
// A block of 8 warps takes up to 64 rows (heads) through the keys of a part, 32 at a time, which come
// once into shared memory and serve as keys and as values. For the scores, each warp has 16 rows and
// 16 keys; for the sums 64 of the 512 columns for all rows: 128 registers of each thread. Weights go
// from one to the other through shared memory.
#include "attention_parts.h"
#include "sm80.h"

namespace {

template <class T> struct Latent {
  static constexpr u32 THREADS = 256, KEYS = 32, DIM_QK = 576;
  static constexpr u32 ROW_BYTES = DIM_QK * 2;
  static constexpr u32 QUERIES = PART_ROWS * ROW_BYTES, STAGE = KEYS * ROW_BYTES;
  // Words from one row of scores to the next: no bank twice.
  static constexpr u32 STRIDE = KEYS + 8;

  f32 sums[4][8][4];
  // Of the thread's row in the softmax, which it shares with the 3 threads beside it.
  f32 max, total;

  static DEVICE_MEMBER u32 place(u32 start, u32 row, u32 byte) {
    return start + row * ROW_BYTES + (byte / 16 ^ row % 8) * 16 + byte % 16;
  }
  // Weights have rows of 64 bytes.
  static DEVICE_MEMBER u32 chunk_of_weights(u32 row, u32 chunk) {
    return row * 4 + (chunk ^ row / 2 % 4);
  }

  struct Room {
    f32 scores[PART_ROWS * STRIDE];
    u32 weights[PART_ROWS * KEYS / 2];
    f32 corrections[PART_ROWS], max[PART_ROWS], totals[PART_ROWS];
  };
  static DEVICE_MEMBER Room& room() {
    return *reinterpret_cast<Room*>(dynamic_shared() + QUERIES + 2 * STAGE);
  }

  template <u32 COUNT, class From> static DEVICE_MEMBER void fetch(u32 start, const void* any, From from) {
    constexpr u32 CHUNKS = ROW_BYTES / 16;
    UNROLL for (u32 i = 0; i < COUNT * CHUNKS / THREADS; i++) {
      const u32 chunk = i * THREADS + thread_index(), row = chunk / CHUNKS;
      const u32 byte = chunk % CHUNKS * 16;
      const u8* at = from(row);
      const void* source = at == nullptr ? any : at + byte;
      copy_async(place(start, row, byte), source, at == nullptr ? 0 : 16);
    }
  }
  static DEVICE_MEMBER void fetch_keys(const AttentionParams& p, const AttentionSequence& sequence,
                                       const AttentionPart& part, u32 from, u32 stage) {
    fetch<KEYS>(stage, p.k, [&](u32 row) -> const u8* {
      if (from + row >= part.key_end) return nullptr;
      const u64 token = key_token(p, sequence, from + row);
      return static_cast<const u8*>(p.k) + (token * p.kv_heads + part.kv_head) * ROW_BYTES;
    });
  }

  static DEVICE_MEMBER void score(u32 queries, u32 stage, u32 rows) {
    const u32 warp = thread_index() / 32, lane = thread_index() % 32;
    const u32 row = warp % 4 * 16, key = warp / 4 * 16;
    if (row >= rows) return;
    f32 scores[2][4] = {};
#pragma unroll 4
    for (u32 step = 0; step < ROW_BYTES / 32; step++) {
      u32 a[4], got[4];
      load_matrices(a, place(queries, row + lane % 16, step * 32 + lane / 16 * 16));
      load_matrices(got, place(stage, key + lane / 16 * 8 + lane % 8, step * 32 + lane / 8 % 2 * 16));
      const u32 b[2][2] = {{got[0], got[1]}, {got[2], got[3]}};
      multiply(scores[0], a, b[0], T());
      multiply(scores[1], a, b[1], T());
    }
    UNROLL for (u32 i = 0; i < 2; i++) {
      UNROLL for (u32 r = 0; r < 4; r++) {
        const u32 at = (row + lane / 4 + r / 2 * 8) * STRIDE;
        room().scores[at + key + 8 * i + lane % 4 * 2 + r % 2] = scores[i][r];
      }
    }
  }

  // 4 threads for each row, 8 keys each; `seen` keys count from `from` on.
  DEVICE_MEMBER void weigh(f32 factor, u32 seen) {
    const u32 row = thread_index() / 4, quarter = thread_index() % 4;
    const f32* scores = room().scores + row * STRIDE + quarter * 8;
    f32 weights[8], largest = no_score();
    UNROLL for (u32 i = 0; i < 8; i++) {
      weights[i] = quarter * 8 + i < seen ? scores[i] * factor : no_score();
      largest = larger(largest, weights[i]);
    }
    largest = larger(largest, shuffle_xor(largest, 1));
    largest = larger(max, larger(largest, shuffle_xor(largest, 2)));
    const f32 base = largest == no_score() ? 0.0f : largest;
    const f32 correction = power_of_two(max - base);
    max = largest;
    total *= correction;
    UNROLL for (u32 i = 0; i < 8; i++) total += weights[i] = power_of_two(weights[i] - base);
    u32* to = room().weights + 4 * chunk_of_weights(row, quarter);
    UNROLL for (u32 i = 0; i < 4; i++) to[i] = narrow_pair(weights[2 * i], weights[2 * i + 1], T());
    if (quarter == 0) room().corrections[row] = correction;
  }

  DEVICE_MEMBER void accumulate(u32 stage, u32 rows) {
    const u32 warp = thread_index() / 32, lane = thread_index() % 32;
    const u32 weights = shared_address(room().weights);
    UNROLL for (u32 d = 0; d < 4; d++) {
      UNROLL for (u32 half = 0; half < 2; half++) {
        const f32 correction = room().corrections[16 * d + 8 * half + lane / 4];
        UNROLL for (u32 i = 0; i < 8; i++) {
          sums[d][i][2 * half] *= correction;
          sums[d][i][2 * half + 1] *= correction;
        }
      }
    }
    UNROLL for (u32 step = 0; step < KEYS / 16; step++) {
      u32 a[4][4];
      UNROLL for (u32 d = 0; d < 4; d++) {
        const u32 row = 16 * d + lane % 16;
        load_matrices(a[d], weights + 16 * chunk_of_weights(row, 2 * step + lane / 16));
      }
      UNROLL for (u32 i = 0; i < 8; i += 2) {
        u32 got[4];
        const u32 byte = (64 * warp + 8 * i) * 2 + lane / 16 * 16;
        load_matrices_transposed(got, place(stage, step * 16 + lane % 16, byte));
        const u32 b[2][2] = {{got[0], got[1]}, {got[2], got[3]}};
        UNROLL for (u32 d = 0; d < 4; d++) {
          if (16 * d >= rows) continue;
          multiply(sums[d][i], a[d], b[0], T());
          multiply(sums[d][i + 1], a[d], b[1], T());
        }
      }
    }
  }

  DEVICE_MEMBER void finish(const AttentionParams& p, const AttentionPart& part,
                            const AttentionSequence& sequence, u32 rows) {
    const u32 warp = thread_index() / 32, g = thread_index() % 32 / 4, t = thread_index() % 4;
    total += shuffle_xor(total, 1);
    total += shuffle_xor(total, 2);
    if (t == 0) {
      room().max[thread_index() / 4] = max;
      room().totals[thread_index() / 4] = total;
    }
    block_barrier();
    UNROLL for (u32 d = 0; d < 4; d++) {
      UNROLL for (u32 half = 0; half < 2; half++) {
        const u32 row = 16 * d + 8 * half + g;
        if (row >= rows) continue;
        const u64 to = output_row(p, part, sequence, row);
        UNROLL for (u32 i = 0; i < 8; i++) {
          UNROLL for (u32 c = 0; c < 2; c++) {
            leave_sum<T>(p, part, to, row, 64 * warp + 8 * i + 2 * t + c, sums[d][i][2 * half + c],
                         room().max[row], room().totals[row]);
          }
        }
      }
    }
  }

  static DEVICE_MEMBER void perform(const AttentionParams& p, const AttentionPart& part,
                                    const AttentionSequence& sequence, u32 rows) {
    const u32 shared = shared_address(dynamic_shared()), group = p.heads / p.kv_heads;
    Latent made;
    made.max = no_score();
    made.total = 0.0f;
    UNROLL for (u32 i = 0; i < 128; i++) made.sums[i / 32][i / 4 % 8][i % 4] = 0.0f;
    fetch<PART_ROWS>(shared, p.q, [&](u32 row) -> const u8* {
      if (row >= rows) return nullptr;
      return static_cast<const u8*>(p.q) + output_row(p, part, sequence, row) * ROW_BYTES;
    });
    const u32 mine = thread_index() / 4;
    u32 seen = mine < rows ? keys_seen(p, sequence, (part.row_first + mine) / group) : 0;
    seen = smaller(seen, part.key_end);
    u32 stage = shared + QUERIES, next = stage + STAGE;
    if (part.key_first < part.key_end) fetch_keys(p, sequence, part, part.key_first, stage);
    close_copies();
    for (u32 from = part.key_first; from < part.key_end; from += KEYS) {
      await_copies<0>();
      block_barrier();
      if (from + KEYS < part.key_end) fetch_keys(p, sequence, part, from + KEYS, next);
      close_copies();
      score(shared, stage, rows);
      block_barrier();
      made.weigh(p.scale * LOG2_E, seen > from ? seen - from : 0);
      block_barrier();
      made.accumulate(stage, rows);
      const u32 used = stage;
      stage = next;
      next = used;
    }
    await_copies<0>();
    made.finish(p, part, sequence, rows);
  }

  static DEVICE_MEMBER void all(const AttentionParams& p) {
    SHARED u32 told;
    for (u32 worker = block_index(); worker < p.workers; worker += block_count()) {
      for (u32 i = p.part_firsts[worker]; i < p.part_firsts[worker + 1]; i++) {
        const AttentionPart part = p.parts[i];
        const AttentionSequence sequence = p.sequences[part.sequence];
        perform(p, part, sequence, part_rows(p, part, sequence));
        combine_if_last<T, THREADS>(p, part, sequence, &told);
        block_barrier();
      }
    }
  }
};

}  // namespace

KERNEL(256, 1) attention_mla_bf16_mma(const AttentionParams p) { Latent<bf16>::all(p); }
KERNEL(256, 1) attention_mla_f16_mma(const AttentionParams p) { Latent<f16>::all(p); }
