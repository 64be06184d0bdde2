// Decode of multi-head latent attention, absorbed (DeepSeek-V2, 2024), by fragments: one latent of
// 576 is the key of all heads, its first 512 the value; split over all units by a schedule:
// attention_parts.h.
//
// A block takes ROWS rows (heads) through the keys of a part, KEYS at a time, which come once into
// shared memory, some tiles ahead, and serve as keys and as values. For the scores, each warp has 16
// rows and SCORED keys; for the sums COLUMNS of the 512 columns for all rows: 128 registers of each
// thread, with 8 warps for 64 rows and with 4 for 32. Weights go from one to the other through shared
// memory.
//
// Of an 8-bit cache, keys and values become 16-bit floats in registers, which is exact. The
// dimensions of a score and the columns of a sum then come in another order, which queries and
// output follow.
#pragma once
#include "attention_parts.h"
#include "sm80.h"

namespace {

// Q and O, the elements of the multiplications and of the cache.
template <class Q, class M, class C, u32 ROWS, u32 KEYS, u32 STAGES> struct Latent {
  static constexpr bool NARROW = sizeof(C) == 1;
  static constexpr u32 DIM_QK = 576, DIM_V = 512;
  static constexpr u32 THREADS = 4 * ROWS, WARPS = THREADS / 32, DOWN = ROWS / 16;
  static constexpr u32 SCORED = KEYS * DOWN / WARPS, TILES = SCORED / 8;
  static constexpr u32 COLUMNS = DIM_V / WARPS;
  static constexpr u32 QUERY_BYTES = DIM_QK * 2, KEY_BYTES = DIM_QK * sizeof(C);
  static constexpr u32 QUERIES = ROWS * QUERY_BYTES, STAGE = KEYS * KEY_BYTES;
  // Words from one row of scores to the next: no bank twice.
  static constexpr u32 STRIDE = KEYS + 8;

  struct Room {
    f32 scores[ROWS * STRIDE];
    u32 weights[ROWS * KEYS / 2];
    f32 corrections[ROWS], max[ROWS], totals[ROWS];
  };
  static constexpr u32 SHARED_BYTES = QUERIES + STAGES * STAGE + sizeof(Room);
  static_assert(NARROW ? TILES == 2 : TILES <= 2, "how keys are loaded");

  f32 sums[DOWN][COLUMNS / 8][4];
  // Of the thread's row in the softmax, which it shares with the 3 threads beside it.
  f32 max, total;

  // Rows of 576 bytes start at half of all banks, as those of 64 do.
  template <u32 ROW_BYTES> static DEVICE_MEMBER u32 place(u32 start, u32 row, u32 byte) {
    const u32 exchange = ROW_BYTES % 128 == 0 ? row % 8 : row / 2 % 4;
    return start + row * ROW_BYTES + (byte / 16 ^ exchange) * 16 + byte % 16;
  }
  // Weights have rows of 64 or 32 bytes.
  static DEVICE_MEMBER u32 chunk_of_weights(u32 row, u32 chunk) {
    constexpr u32 CHUNKS = KEYS / 8;
    return row * CHUNKS + (chunk ^ row / (8 / CHUNKS) % CHUNKS);
  }
  static DEVICE_MEMBER Room& room() {
    return *reinterpret_cast<Room*>(dynamic_shared() + QUERIES + STAGES * STAGE);
  }

  template <u32 COUNT, u32 ROW_BYTES, class From>
  static DEVICE_MEMBER void fetch(u32 start, const void* any, From from) {
    constexpr u32 CHUNKS = ROW_BYTES / 16, COPIES = COUNT * CHUNKS;
#pragma unroll 3
    for (u32 i = 0; i < (COPIES + THREADS - 1) / THREADS; i++) {
      const u32 chunk = i * THREADS + thread_index(), row = chunk / CHUNKS;
      if (COPIES % THREADS != 0 && chunk >= COPIES) continue;
      const u32 byte = chunk % CHUNKS * 16;
      const u8* at = from(row);
      const void* source = at == nullptr ? any : at + byte;
      copy_async(place<ROW_BYTES>(start, row, byte), source, at == nullptr ? 0 : 16);
    }
  }
  static DEVICE_MEMBER void fetch_keys(const AttentionParams& p, const AttentionSequence& sequence,
                                       const AttentionPart& part, u32 from, u32 stage) {
    fetch<KEYS, KEY_BYTES>(stage, p.k, [&](u32 row) -> const u8* {
      if (from + row >= part.key_end) return nullptr;
      const u64 token = key_token(p, sequence, from + row);
      return static_cast<const u8*>(p.k) + (token * p.kv_heads + part.kv_head) * KEY_BYTES;
    });
  }
  // Queries of 16 bits are copied; those beside an 8-bit cache become what is multiplied, and of each
  // 16 dimensions a lane's 4 neighbours stand where its fragment of the left operand has them.
  static DEVICE_MEMBER void fetch_queries(const AttentionParams& p, const AttentionPart& part,
                                          const AttentionSequence& sequence, u32 first, u32 rows) {
    const auto from = [&](u32 row) -> const u8* {
      if (row >= rows) return nullptr;
      return static_cast<const u8*>(p.q) + output_row(p, part, sequence, first + row) * QUERY_BYTES;
    };
    const u32 start = shared_address(dynamic_shared());
    if constexpr (!NARROW) {
      fetch<ROWS, QUERY_BYTES>(start, p.q, from);
    } else {
      for (u32 i = thread_index(); i < ROWS * DIM_QK / 16; i += THREADS) {
        const u32 row = i / (DIM_QK / 16), byte = i % (DIM_QK / 16) * 32;
        const u8* at = from(row);
        Vector<u32> made[2] = {};
        if (at != nullptr) {
          UNROLL for (u32 half = 0; half < 2; half++) {
            const auto pairs = *reinterpret_cast<const Vector<u32>*>(at + byte + 16 * half);
            UNROLL for (u32 w = 0; w < 4; w++) {
              const Q low = {u16(pairs.at[w])}, high = {u16(pairs.at[w] >> 16)};
              made[w % 2].at[2 * half + w / 2] = narrow_pair(widen(low), widen(high), M());
            }
          }
        }
        UNROLL for (u32 half = 0; half < 2; half++) {
          const u32 to = place<QUERY_BYTES>(0, row, byte + 16 * half);
          *reinterpret_cast<Vector<u32>*>(dynamic_shared() + to) = made[half];
        }
      }
    }
  }

  // Keys of two steps of 16 dimensions as the right operand.
  static DEVICE_MEMBER void load_keys(u32 (&b)[2][TILES][2], u32 stage, u32 key, u32 step) {
    const u32 lane = thread_index() % 32;
    u32 got[4];
    if constexpr (NARROW) {
      const u32 row = key + lane / 16 * 8 + lane % 8;
      load_matrices(got, place<KEY_BYTES>(stage, row, step * 16 + lane / 8 % 2 * 16));
      UNROLL for (u32 r = 0; r < 4; r++) {
        b[r % 2][r / 2][0] = widen_pair(got[r], M());
        b[r % 2][r / 2][1] = widen_pair(got[r] >> 16, M());
      }
    } else if constexpr (TILES == 2) {
      UNROLL for (u32 s = 0; s < 2; s++) {
        const u32 row = key + lane / 16 * 8 + lane % 8;
        load_matrices(got, place<KEY_BYTES>(stage, row, (step + s) * 32 + lane / 8 % 2 * 16));
        UNROLL for (u32 r = 0; r < 4; r++) b[s][r / 2][r % 2] = got[r];
      }
    } else {
      load_matrices(got, place<KEY_BYTES>(stage, key + lane % 8, step * 32 + lane / 8 * 16));
      UNROLL for (u32 r = 0; r < 4; r++) b[r / 2][0][r % 2] = got[r];
    }
  }

  static DEVICE_MEMBER void score(u32 queries, u32 stage, u32 rows) {
    const u32 warp = thread_index() / 32, lane = thread_index() % 32;
    const u32 row = warp % DOWN * 16, key = warp / DOWN * SCORED;
    if (row >= rows) return;
    // Even and odd steps apart: one sum waits for itself less often.
    f32 scores[2][TILES][4] = {};
#pragma unroll 1
    for (u32 step = 0; step < DIM_QK / 16; step += 2) {
      u32 b[2][TILES][2];
      load_keys(b, stage, key, step);
      UNROLL for (u32 s = 0; s < 2; s++) {
        u32 a[4];
        const u32 byte = (step + s) * 32 + lane / 16 * 16;
        load_matrices(a, place<QUERY_BYTES>(queries, row + lane % 16, byte));
        UNROLL for (u32 i = 0; i < TILES; i++) multiply(scores[s][i], a, b[s][i], M());
      }
    }
    UNROLL for (u32 i = 0; i < TILES; i++) {
      UNROLL for (u32 r = 0; r < 4; r++) {
        const u32 at = (row + lane / 4 + r / 2 * 8) * STRIDE;
        room().scores[at + key + 8 * i + lane % 4 * 2 + r % 2] = scores[0][i][r] + scores[1][i][r];
      }
    }
  }

  // 4 threads for each row, which sees keys from `start` to `seen`, counted from the tile's first.
  DEVICE_MEMBER void weigh(f32 factor, u32 start, u32 seen) {
    constexpr u32 MINE = KEYS / 4;
    const u32 row = thread_index() / 4, quarter = thread_index() % 4;
    const f32* scores = room().scores + row * STRIDE + quarter * MINE;
    f32 weights[MINE], largest = no_score();
    UNROLL for (u32 i = 0; i < MINE; i++) {
      const u32 key = quarter * MINE + i;
      weights[i] = key >= start && key < seen ? scores[i] * factor : no_score();
      largest = larger(largest, weights[i]);
    }
    largest = larger(largest, shuffle_xor(largest, 1));
    largest = larger(max, larger(largest, shuffle_xor(largest, 2)));
    const f32 base = largest == no_score() ? 0.0f : largest;
    const f32 correction = power_of_two(max - base);
    max = largest;
    total *= correction;
    UNROLL for (u32 i = 0; i < MINE; i++) total += weights[i] = power_of_two(weights[i] - base);
    const u32 chunk = chunk_of_weights(row, quarter * MINE / 8);
    u32* to = room().weights + 4 * chunk + quarter * MINE % 8 / 2;
    UNROLL for (u32 i = 0; i < MINE / 2; i++) {
      to[i] = narrow_pair(weights[2 * i], weights[2 * i + 1], M());
    }
    if (quarter == 0) room().corrections[row] = correction;
  }

  // Values of 16 keys and 32 columns, or 16 of 16 bits, as the right operand.
  static constexpr u32 ACROSS = NARROW ? 4 : 2;
  static DEVICE_MEMBER void load_values(u32 (&b)[ACROSS][2], u32 stage, u32 step, u32 column) {
    const u32 lane = thread_index() % 32;
    u32 got[4];
    const u32 byte = column * sizeof(C) + lane / 16 * 16;
    load_matrices_transposed(got, place<KEY_BYTES>(stage, step * 16 + lane % 16, byte));
    if constexpr (NARROW) {
      // Bytes are transposed in pairs of columns: even and odd ones are tiles of their own.
      UNROLL for (u32 r = 0; r < 4; r++) {
        b[r / 2 * 2][r % 2] = widen_pair(choose_bytes(got[r], 0, 0x4420), M());
        b[r / 2 * 2 + 1][r % 2] = widen_pair(choose_bytes(got[r], 0, 0x4431), M());
      }
    } else {
      UNROLL for (u32 r = 0; r < 4; r++) b[r / 2][r % 2] = got[r];
    }
  }
  // Which column of the output sum `c` of tile `i` is.
  static DEVICE_MEMBER u32 column_of(u32 i, u32 c) {
    const u32 t = thread_index() % 4, start = thread_index() / 32 * COLUMNS;
    if constexpr (NARROW) return start + i / 2 * 16 + 2 * (2 * t + c) + i % 2;
    else return start + 8 * i + 2 * t + c;
  }

  DEVICE_MEMBER void accumulate(u32 stage, u32 rows) {
    const u32 warp = thread_index() / 32, lane = thread_index() % 32;
    const u32 weights = shared_address(room().weights);
    UNROLL for (u32 d = 0; d < DOWN; d++) {
      UNROLL for (u32 half = 0; half < 2; half++) {
        const f32 correction = room().corrections[16 * d + 8 * half + lane / 4];
        UNROLL for (u32 i = 0; i < COLUMNS / 8; i++) {
          sums[d][i][2 * half] *= correction;
          sums[d][i][2 * half + 1] *= correction;
        }
      }
    }
    UNROLL for (u32 step = 0; step < KEYS / 16; step++) {
      u32 a[DOWN][4];
      UNROLL for (u32 d = 0; d < DOWN; d++) {
        const u32 row = 16 * d + lane % 16;
        load_matrices(a[d], weights + 16 * chunk_of_weights(row, 2 * step + lane / 16));
      }
      UNROLL for (u32 i = 0; i < COLUMNS / 8; i += ACROSS) {
        u32 b[ACROSS][2];
        load_values(b, stage, step, COLUMNS * warp + 8 * i);
        UNROLL for (u32 d = 0; d < DOWN; d++) {
          if (16 * d >= rows) continue;
          UNROLL for (u32 j = 0; j < ACROSS; j++) multiply(sums[d][i + j], a[d], b[j], M());
        }
      }
    }
  }

  DEVICE_MEMBER void finish(const AttentionParams& p, const AttentionPart& part,
                            const AttentionSequence& sequence, u32 first, u32 rows) {
    const u32 g = thread_index() % 32 / 4;
    total += shuffle_xor(total, 1);
    total += shuffle_xor(total, 2);
    if (thread_index() % 4 == 0) {
      room().max[thread_index() / 4] = max;
      room().totals[thread_index() / 4] = total;
    }
    block_barrier();
    UNROLL for (u32 d = 0; d < DOWN; d++) {
      UNROLL for (u32 half = 0; half < 2; half++) {
        const u32 row = 16 * d + 8 * half + g;
        if (row >= rows) continue;
        const u64 to = output_row(p, part, sequence, first + row);
        UNROLL for (u32 i = 0; i < COLUMNS / 8; i++) {
          UNROLL for (u32 c = 0; c < 2; c++) {
            leave_sum<Q>(p, part, to, first + row, column_of(i, c), sums[d][i][2 * half + c],
                         room().max[row], room().totals[row]);
          }
        }
      }
    }
    block_barrier();
  }

  // Rows of a part from `first` on.
  static DEVICE_MEMBER void perform(const AttentionParams& p, const AttentionPart& part,
                                    const AttentionSequence& sequence, u32 first, u32 rows) {
    const u32 shared = shared_address(dynamic_shared()), group = p.heads / p.kv_heads;
    Latent made;
    made.max = no_score();
    made.total = 0.0f;
    UNROLL for (u32 i = 0; i < 128; i++) {
      made.sums[i / 4 / (COLUMNS / 8)][i / 4 % (COLUMNS / 8)][i % 4] = 0.0f;
    }
    fetch_queries(p, part, sequence, first, rows);
    const u32 mine = thread_index() / 4, query = (part.row_first + first + mine) / group;
    u32 seen = mine < rows ? keys_seen(p, sequence, query) : 0;
    seen = smaller(seen, part.key_end);
    const u32 start = first_key_seen(p, sequence, query);
    u32 fetched = part.key_first, filled = 0, stage = 0;
    auto fetch_next = [&] {
      if (fetched < part.key_end) {
        fetch_keys(p, sequence, part, fetched, shared + QUERIES + filled * STAGE);
      }
      // Closed even where it is empty: groups are counted.
      close_copies();
      fetched += KEYS;
      filled = filled + 1 == STAGES ? 0 : filled + 1;
    };
    UNROLL for (u32 i = 0; i < STAGES - 1; i++) fetch_next();
    for (u32 from = part.key_first; from < part.key_end; from += KEYS) {
      const u32 keys = shared + QUERIES + stage * STAGE;
      await_copies<STAGES - 2>();
      block_barrier();
      fetch_next();
      score(shared, keys, rows);
      block_barrier();
      made.weigh(p.scale * LOG2_E, larger(start, from) - from, larger(seen, from) - from);
      block_barrier();
      made.accumulate(keys, rows);
      stage = stage + 1 == STAGES ? 0 : stage + 1;
    }
    await_copies<0>();
    made.finish(p, part, sequence, first, rows);
  }

  static DEVICE_MEMBER void all(const AttentionParams& p) {
    SHARED u32 told[2];
    for (u32 worker = block_index(); worker < p.workers; worker += block_count()) {
      for (u32 i = p.part_firsts[worker]; i < p.part_firsts[worker + 1]; i++) {
        const AttentionPart part = p.parts[i];
        const AttentionSequence sequence = p.sequences[part.sequence];
        const u32 rows = part_rows(p, part, sequence);
        for (u32 first = 0; first < rows; first += ROWS) {
          perform(p, part, sequence, first, smaller(ROWS, rows - first));
        }
        combine_if_complete<Q, DIM_V, THREADS>(p, part, sequence, told);
        block_barrier();
      }
    }
  }
};

}  // namespace
