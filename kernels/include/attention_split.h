// Split decode by fragments: the few query rows that share a head of K and V are the small side of
// the multiplications, 8 or 16 columns wide, and keys and values the large one.
//
// Each of 4 warps (2 where a row has 512 bytes) takes 16 keys of every 64 through a ring of its own, so
// that warps wait for nobody; where a unit has shared memory for more rings, there are twice as many.
// S' = K Q' makes the scores of 16 keys, whose weights are transposed within the warp to stand where
// O' += V' P' wants them. The warps' sums are added at the end of a part. Tokens are looked up once a
// tile, by one lane each, a tile ahead (attention_copies.h).
//
// Keys and values of 8 bits become 16-bit floats in registers. The dimensions of a score and the
// rows of V' then come in another order, which queries and outputs follow.
#pragma once
#include "attention_copies.h"
#include "attention_parts.h"
#include "sm80.h"

namespace {

// Q and O, the elements of the multiplication and of the cache. WIDE: 2 for twice as many warps.
template <class Q, class M, class C, u32 DIM, u32 WIDE = 1> struct Split {
  static constexpr bool NARROW = sizeof(C) == 1;
  static constexpr u32 ROW_BYTES = DIM * sizeof(C);
  static constexpr u32 WARPS = (ROW_BYTES > 256 ? 2 : 4) * WIDE, THREADS = 32 * WARPS, KEYS = 16;
  static constexpr u32 TILE = KEYS * ROW_BYTES, STAGE = 2 * TILE;
  static constexpr u32 STAGES = WIDE * 98304 / (WARPS * STAGE);
  static constexpr u32 SHARED_BYTES = WARPS * STAGE * STAGES;
  static_assert(STAGES >= 3, "a ring");
  // Rows at once, by 8: of heads of 256 twice as many would not fit into registers.
  static constexpr u32 TILES_MAX = DIM > 128 ? 1 : 2;

  static DEVICE_MEMBER u32 place(u32 start, u32 row, u32 byte) {
    const u32 exchange = ROW_BYTES >= 128 ? row % 8 : row / 2 % 4;
    return start + row * ROW_BYTES + (byte / 16 ^ exchange) * 16 + byte % 16;
  }

  // A lane copies the same 16 bytes of some rows of a tile.
  static constexpr u32 CHUNKS = ROW_BYTES / 16;
  using Tokens = TileTokens<KEYS, 32, CHUNKS, WARPS * KEYS>;

  // 16 keys and their values, from `from` on, by one warp.
  static DEVICE_MEMBER void fetch(const AttentionParams& p, const AttentionPart& part,
                                  Tokens& tokens, u32 from, u32 stage) {
    const u32 byte = thread_index() % CHUNKS * 16;
    u32 found[Tokens::EACH];
    tokens.take(p, found);
    UNROLL for (u32 i = 0; i < Tokens::EACH; i++) {
      const u32 row = Tokens::row() + i * Tokens::AT_ONCE, to = place(stage, row, byte);
      const bool there = from + row < part.key_end;
      const u64 at = (u64(found[i]) * p.kv_heads + part.kv_head) * ROW_BYTES + byte;
      copy_async(to, static_cast<const u8*>(p.k) + at, there ? 16 : 0);
      copy_async(to + TILE, static_cast<const u8*>(p.v) + at, there ? 16 : 0);
    }
  }

  // The sums of 8 x TILES rows, and what else a warp knows of them.
  template <u32 TILES> struct Rows {
    u32 queries[TILES][DIM / 16][2];
    f32 sums[TILES][DIM / 16][4];
    // Of rows 2t and 2t + 1 of each 8.
    f32 max[TILES][2], total[TILES][2];
    u32 start_key[TILES][2], seen[TILES][2];

    // Two neighbours of a row, as the multiplication takes them.
    static DEVICE_MEMBER u32 pair(const Q* from) {
      if constexpr (sizeof(C) == 2) return *reinterpret_cast<const u32*>(from);
      else return narrow_pair(widen(from[0]), widen(from[1]), M());
    }

    DEVICE_MEMBER void start(const AttentionParams& p, const AttentionPart& part,
                             const AttentionSequence& sequence, u32 first, u32 rows) {
      const u32 g = thread_index() % 32 / 4, t = thread_index() % 4;
      UNROLL for (u32 i = 0; i < TILES; i++) {
        const u32 row = first + 8 * i + g;
        const bool there = row < rows;
        const Q* from = static_cast<const Q*>(p.q) +
                        output_row(p, part, sequence, there ? row : 0) * DIM;
        UNROLL for (u32 step = 0; step < DIM / 16; step++) {
          // Of 8-bit keys a lane has 4 neighbours, else 2 and 2.
          const u32 low = 16 * step + (NARROW ? 4 * t : 2 * t), high = low + (NARROW ? 2 : 8);
          queries[i][step][0] = there ? pair(from + low) : 0;
          queries[i][step][1] = there ? pair(from + high) : 0;
          UNROLL for (u32 r = 0; r < 4; r++) sums[i][step][r] = 0.0f;
        }
        UNROLL for (u32 c = 0; c < 2; c++) {
          const u32 column = first + 8 * i + 2 * t + c;
          const u32 group = p.heads / p.kv_heads;
          seen[i][c] = column < rows ? keys_seen(p, sequence, (part.row_first + column) / group) : 0;
          seen[i][c] = smaller(seen[i][c], part.key_end);
          start_key[i][c] = first_key_seen(p, sequence, (part.row_first + column) / group);
          max[i][c] = no_score();
          total[i][c] = 0.0f;
        }
      }
    }

    // Keys of one or two steps of 16 dimensions as the left operand.
    static DEVICE_MEMBER void keys(u32 (&a)[2][4], u32 stage, u32 step) {
      const u32 lane = thread_index() % 32;
      if constexpr (NARROW) {
        u32 got[4];
        load_matrices(got, place(stage, lane % 16, step * 16 + lane / 16 * 16));
        UNROLL for (u32 r = 0; r < 4; r++) {
          a[r / 2][r % 2] = widen_pair(got[r], M());
          a[r / 2][r % 2 + 2] = widen_pair(got[r] >> 16, M());
        }
      } else {
        UNROLL for (u32 s = 0; s < 2; s++) {
          load_matrices(a[s], place(stage, lane % 16, (step + s) * 32 + lane / 16 * 16));
        }
      }
    }
    // Values of 16 columns, transposed, as the left operand.
    static DEVICE_MEMBER void values(u32 (&a)[2][4], u32 stage, u32 step) {
      const u32 lane = thread_index() % 32;
      if constexpr (NARROW) {
        // Bytes are transposed in pairs of columns: even ones are rows g, odd ones rows g + 8.
        u32 got[4];
        load_matrices_transposed(got, place(stage, lane % 16, step * 16 + lane / 16 * 16));
        UNROLL for (u32 r = 0; r < 4; r++) {
          a[r / 2][r % 2 * 2] = widen_pair(choose_bytes(got[r], 0, 0x4420), M());
          a[r / 2][r % 2 * 2 + 1] = widen_pair(choose_bytes(got[r], 0, 0x4431), M());
        }
      } else {
        UNROLL for (u32 s = 0; s < 2; s++) {
          const u32 row = lane / 16 * 8 + lane % 8, byte = (step + s) * 32 + lane / 8 % 2 * 16;
          load_matrices_transposed(a[s], place(stage, row, byte));
        }
      }
    }

    DEVICE_MEMBER void attend(const AttentionParams& p, u32 from, u32 stage) {
      const u32 g = thread_index() % 32 / 4;
      const f32 factor = p.scale * LOG2_E;
      f32 scores[TILES][4] = {};
      UNROLL for (u32 step = 0; step < DIM / 16; step += 2) {
        u32 a[2][4];
        keys(a, stage, step);
        UNROLL for (u32 i = 0; i < TILES; i++) {
          multiply(scores[i], a[0], queries[i][step], M());
          multiply(scores[i], a[1], queries[i][step + 1], M());
        }
      }
      u32 weights[TILES][2];
      UNROLL for (u32 i = 0; i < TILES; i++) {
        f32 correction[2];
        UNROLL for (u32 c = 0; c < 2; c++) {
          UNROLL for (u32 half = 0; half < 2; half++) {
            const u32 key = from + g + 8 * half;
            if (key >= seen[i][c] || key < start_key[i][c]) scores[i][2 * half + c] = no_score();
          }
          f32 largest = larger(scores[i][c], scores[i][2 + c]);
          UNROLL for (u32 other = 4; other < 32; other *= 2) {
            largest = larger(largest, shuffle_xor(largest, other));
          }
          largest = larger(max[i][c], largest * factor);
          const f32 base = largest == no_score() ? 0.0f : largest;
          correction[c] = power_of_two(max[i][c] - base);
          max[i][c] = largest;
          UNROLL for (u32 half = 0; half < 2; half++) {
            f32& score = scores[i][2 * half + c];
            score = power_of_two(fused(score, factor, -base));
          }
          total[i][c] = fused(total[i][c], correction[c], scores[i][c] + scores[i][2 + c]);
        }
        UNROLL for (u32 half = 0; half < 2; half++) {
          weights[i][half] = transpose_matrix(
              narrow_pair(scores[i][2 * half], scores[i][2 * half + 1], M()));
        }
        UNROLL for (u32 step = 0; step < DIM / 16; step++) {
          UNROLL for (u32 r = 0; r < 4; r++) sums[i][step][r] *= correction[r % 2];
        }
      }
      UNROLL for (u32 step = 0; step < DIM / 16; step += 2) {
        u32 a[2][4];
        values(a, stage + TILE, step);
        UNROLL for (u32 i = 0; i < TILES; i++) {
          multiply(sums[i][step], a[0], weights[i], M());
          multiply(sums[i][step + 1], a[1], weights[i], M());
        }
      }
    }

    // Adds the sums of the warps and leaves them.
    DEVICE_MEMBER void finish(const AttentionParams& p, const AttentionPart& part,
                              const AttentionSequence& sequence, u32 first, u32 rows) {
      constexpr u32 STRIDE = DIM + 2;
      const u32 warp = thread_index() / 32, g = thread_index() % 32 / 4, t = thread_index() % 4;
      f32* room = reinterpret_cast<f32*>(dynamic_shared());
      f32* mine = room + warp * (8 * TILES * STRIDE);
      UNROLL for (u32 i = 0; i < TILES; i++) {
        UNROLL for (u32 c = 0; c < 2; c++) {
          f32* row = mine + (8 * i + 2 * t + c) * STRIDE;
          UNROLL for (u32 other = 4; other < 32; other *= 2) {
            total[i][c] += shuffle_xor(total[i][c], other);
          }
          UNROLL for (u32 step = 0; step < DIM / 16; step++) {
            row[16 * step + (NARROW ? 2 * g : g)] = sums[i][step][c];
            row[16 * step + (NARROW ? 2 * g + 1 : g + 8)] = sums[i][step][2 + c];
          }
          if (g == 0) {
            row[DIM] = max[i][c];
            row[DIM + 1] = total[i][c];
          }
        }
      }
      block_barrier();
      const u32 here = smaller(8 * TILES, rows - first);
      for (u32 i = thread_index(); i < here * DIM; i += THREADS) {
        const f32* of = room + i / DIM * STRIDE;
        f32 largest = no_score(), sum = 0.0f, all = 0.0f;
        UNROLL for (u32 w = 0; w < WARPS; w++) {
          largest = larger(largest, of[w * (8 * TILES * STRIDE) + DIM]);
        }
        const f32 base = largest == no_score() ? 0.0f : largest;
#pragma unroll 2
        for (u32 w = 0; w < WARPS; w++) {
          const f32* one = of + w * (8 * TILES * STRIDE);
          const f32 weight = power_of_two(one[DIM] - base);
          sum = fused(weight, one[i % DIM], sum);
          all = fused(weight, one[DIM + 1], all);
        }
        const u32 row = first + i / DIM;
        leave_sum<Q>(p, part, output_row(p, part, sequence, row), row, i % DIM, sum, largest, all);
      }
      block_barrier();
    }
  };

  // 8 x TILES rows of a part.
  template <u32 TILES>
  static DEVICE_MEMBER void perform(const AttentionParams& p, const AttentionPart& part,
                                    const AttentionSequence& sequence, u32 first, u32 rows) {
    const u32 warp = thread_index() / 32;
    const u32 ring = shared_address(dynamic_shared()) + warp * (STAGES * STAGE);
    Rows<TILES> made;
    made.start(p, part, sequence, first, rows);
    const u32 start = part.key_first + KEYS * warp;
    u32 fetched = start, filled = 0, stage = 0;
    Tokens tokens;
    tokens.start(p, sequence, start, part.key_end);
    auto fetch_next = [&] {
      if (fetched < part.key_end) fetch(p, part, tokens, fetched, ring + filled * STAGE);
      // Closed even where it is empty: groups are counted.
      close_copies();
      fetched += WARPS * KEYS;
      filled = filled + 1 == STAGES ? 0 : filled + 1;
    };
    UNROLL for (u32 i = 0; i < STAGES - 1; i++) fetch_next();
    for (u32 from = start; from < part.key_end; from += WARPS * KEYS) {
      await_copies<STAGES - 2>();
      // All lanes' copies are there, and all are done with the stage that is filled next.
      warp_barrier();
      fetch_next();
      made.attend(p, from, ring + stage * STAGE);
      stage = stage + 1 == STAGES ? 0 : stage + 1;
    }
    await_copies<0>();
    block_barrier();
    made.finish(p, part, sequence, first, rows);
  }

  // The parts of one worker.
  static DEVICE_MEMBER void all(const AttentionParams& p) {
    SHARED u32 told[2];
    for (u32 worker = block_index(); worker < p.workers; worker += block_count()) {
      for (u32 i = p.part_firsts[worker]; i < p.part_firsts[worker + 1]; i++) {
        const AttentionPart part = p.parts[i];
        const AttentionSequence sequence = p.sequences[part.sequence];
        const u32 rows = part_rows(p, part, sequence);
        for (u32 first = 0; first < rows;) {
          if (TILES_MAX > 1 && rows - first > 8) {
            perform<TILES_MAX>(p, part, sequence, first, rows);
            first += 8 * TILES_MAX;
          } else {
            perform<1>(p, part, sequence, first, rows);
            first += 8;
          }
        }
        combine_if_complete<Q, DIM, THREADS>(p, part, sequence, told);
        block_barrier();
      }
    }
  }
};

}  // namespace
