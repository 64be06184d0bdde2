// Split decode by AMD's matrix units, for elements of 16 bits, and of 8 in the cache: the query
// rows that share a head of K and V, 16 at a time, are the columns of both products
// (attention_lanes.h).
//
// Each wave takes by itself as many keys as one instruction of the second product, and waits for nobody:
// keys go from memory to the registers that multiply them, values through a piece of shared memory of the wave's own, where
// columns become rows. The next keys and values are on their way while these are in use. The waves'
// sums are added at the end of a part.
#pragma once
#include "attention_parts.h"
#include "lane_cache.h"
#include "lane_softmax.h"

namespace {

template <class T, u32 DIM, class Cache = typename T::In> struct SplitLanes {
  using In = typename T::In;
  using Kept = Cached<In, Cache>;
  using Take = Taken<T>;
  static constexpr u32 SUMS = T::SUMS, CHUNKS_TAKEN = Take::CHUNKS, WORDS = 4 * CHUNKS_TAKEN;
  static constexpr u32 FRAGMENTS = Take::TOGETHER, KEYS = FRAGMENTS * 16, COLUMNS = 16;
  static constexpr u32 THREADS = 256, WAVES = THREADS / LANES;
  // Chunks of a row that a lane has; instructions take CHUNKS_TAKEN of them.
  static constexpr u32 ROW_BYTES = Kept::BYTES * DIM, OF_ROW = DIM / 8 / T::GROUPS;
  static constexpr u32 STEPS = OF_ROW / CHUNKS_TAKEN;
  // 16 bytes of a column of the values.
  static constexpr u32 COLUMN_CHUNKS = KEYS / 8;
  // 8 columns of 4 keys each, of one lane.
  static constexpr u32 PIECES = KEYS / 4 * (DIM / 8) / LANES;

  union Room {
    Vector<u32> values[WAVES][DIM * COLUMN_CHUNKS];
    struct {
      f32 sums[COLUMNS][DIM];
      f32 max[WAVES][COLUMNS], total[WAVES][COLUMNS];
    } all;
  };

  // A chunk of what a group of lanes takes of a column; REPEAT columns further everything is the same.
  static constexpr u32 REPEAT = 64 / COLUMN_CHUNKS, BESIDE = LANES / (KEYS / 4) * 8;
  static_assert(REPEAT % 16 == 0 && BESIDE % REPEAT == 0, "columns of a wave's pieces");
  static DEVICE_MEMBER u32 value_place(u32 column, u32 chunk, u32 group) {
    return exchanged(column * COLUMN_CHUNKS + chunk * T::GROUPS + group);
  }

  // A lane's share of keys and values, on its way.
  struct Fetched {
    LoadedWords<4> keys[FRAGMENTS][OF_ROW / Kept::CHUNKS];
    LoadedWords<Kept::WORDS> values[PIECES][4];

    // What is behind the part's last key is read as the last: nothing comes of it.
    DEVICE_MEMBER void fetch(const AttentionParams& p, const AttentionPart& part,
                             const Tokens<KEYS>& tokens) {
      const u32 lane = lane_index();
      UNROLL for (u32 f = 0; f < FRAGMENTS; f++) {
        const u64 row = tokens.row(p, part.kv_head, f * 16 + lane % 16);
        UNROLL for (u32 i = 0; i < OF_ROW / Kept::CHUNKS; i++) {
          get_chunk(keys[f][i], p.k, row * ROW_BYTES + (i * T::GROUPS + lane / 16) * 16);
        }
      }
      // All pieces of a lane are of the same keys.
      UNROLL for (u32 k = 0; k < 4; k++) {
        const u64 row = tokens.row(p, part.kv_head, lane % (KEYS / 4) * 4 + k);
        UNROLL for (u32 i = 0; i < PIECES; i++) {
          const u32 column = (i * LANES + lane) / (KEYS / 4) * 8;
          get_chunk(values[i][k], p.v, row * ROW_BYTES + column * Kept::BYTES);
        }
      }
    }

    // Each piece has four keys of one lane's weights.
    DEVICE_MEMBER void keep(Vector<u32> (&room)[DIM * COLUMN_CHUNKS]) const {
      UNROLL for (u32 i = 0; i < PIECES; i++) {
        // Waves of 32 lanes have twice as many words on a lane: not all pieces are turned at once.
        if (LANES == 32) in_order();
        const u32 four = lane_index() % (KEYS / 4);
        u32 wide[4][4];
        UNROLL for (u32 at = 0; at < 4; at++) {
          u32 words[Kept::WORDS];
          words_of(words, values[i][at]);
          Kept::widen(wide[at], words);
        }
        UNROLL for (u32 c = 0; c < 8; c++) {
          u32 turned[2];
          turn_column(turned, wide, c);
          const u32 column = lane_index() / (KEYS / 4) * 8 + c, word = Take::word(four);
          const u32 at = value_place(column, word / 4, Take::group(four)) + i * BESIDE * COLUMN_CHUNKS;
          write_shared(room[at], word % 4, turned);
        }
      }
    }
  };

  // One query row of 16, of a lane's column.
  u32 queries[STEPS][WORDS];
  f32 sums[DIM / 16][SUMS];
  Column column;
  u32 start_key, seen;

  DEVICE_MEMBER void start(const AttentionParams& p, const AttentionPart& part,
                           const AttentionSequence& sequence, u32 first, u32 rows) {
    const u32 lane = lane_index(), row = smaller(first + lane % 16, rows - 1);
    const u64 at = output_row(p, part, sequence, row) * (2 * DIM);
    UNROLL for (u32 i = 0; i < OF_ROW; i++) {
      // Of the same elements as the keys': 16 bytes of them may be two chunks here.
      constexpr u32 CHUNKS = Kept::CHUNKS;
      const u32 chunk = (i / CHUNKS * T::GROUPS + lane / 16) * CHUNKS + i % CHUNKS;
      u32 got[4];
      get_chunk(got, p.q, at + chunk * 16);
      UNROLL for (u32 w = 0; w < 4; w++) queries[i / CHUNKS_TAKEN][i % CHUNKS_TAKEN * 4 + w] = got[w];
    }
    const u32 query = (part.row_first + row) / (p.heads / p.kv_heads);
    start_key = first_key_seen(p, sequence, query);
    seen = smaller(keys_seen(p, sequence, query), part.key_end);
    column.start();
    UNROLL for (u32 d = 0; d < DIM / 16; d++) {
      UNROLL for (u32 i = 0; i < SUMS; i++) sums[d][i] = 0.0f;
    }
  }

  DEVICE_MEMBER void score(f32 (&scores)[FRAGMENTS][SUMS], const Fetched& got, u32 from) const {
    UNROLL for (u32 f = 0; f < FRAGMENTS; f++) {
      UNROLL for (u32 step = 0; step < STEPS; step++) {
        u32 keys[WORDS];
        UNROLL for (u32 chunk = 0; chunk < CHUNKS_TAKEN; chunk++) {
          const u32 at = step * CHUNKS_TAKEN + chunk;
          u32 part[Kept::WORDS], wide[4];
          UNROLL for (u32 w = 0; w < Kept::WORDS; w++) {
            part[w] = got.keys[f][at / Kept::CHUNKS][at % Kept::CHUNKS * Kept::WORDS + w];
          }
          Kept::widen(wide, part);
          UNROLL for (u32 w = 0; w < 4; w++) keys[4 * chunk + w] = wide[w];
        }
        multiply_chunks<T>(scores[f], keys, queries[step]);
      }
      UNROLL for (u32 i = 0; i < SUMS; i++) {
        const u32 key = from + f * 16 + T::row(lane_index(), i);
        if (key >= seen || key < start_key) scores[f][i] = no_score();
      }
    }
  }

  DEVICE_MEMBER void weigh(u32 (&weights)[WORDS], f32 (&scores)[FRAGMENTS][SUMS], f32 factor) {
    multiply_sums(sums, column.weigh(scores, factor));
    UNROLL for (u32 f = 0; f < FRAGMENTS; f++) {
      pack_weights<In>(weights + f * Take::WORDS, scores[f]);
    }
  }

  DEVICE_MEMBER void accumulate(const Vector<u32> (&room)[DIM * COLUMN_CHUNKS],
                                const u32 (&weights)[WORDS]) {
    const u32 lane = lane_index();
    UNROLL for (u32 d = 0; d < DIM / 16; d++) {
      u32 values[WORDS];
      read_chunks(values, [&](u32 chunk) -> const Vector<u32>& {
        const u32 column = d * 16 % REPEAT + lane % 16, before = d * 16 / REPEAT * REPEAT;
        return room[value_place(column, chunk, lane / 16) + before * COLUMN_CHUNKS];
      });
      multiply_chunks<T>(sums[d], values, weights);
    }
  }

  // Adds the sums of the waves, one after the other, and leaves them.
  DEVICE_MEMBER void finish(const AttentionParams& p, const AttentionPart& part,
                            const AttentionSequence& sequence, u32 first, u32 rows, Room& room) {
    const u32 lane = lane_index(), wave = wave_index(), own = lane % 16;
    const f32 total = column.whole();
    block_barrier();
    if (lane < 16) {
      room.all.max[wave][own] = column.max;
      room.all.total[wave][own] = total;
    }
    block_barrier();
    f32 largest = no_score();
    UNROLL for (u32 w = 0; w < WAVES; w++) largest = larger(largest, room.all.max[w][own]);
    const f32 weight = power_of_two(column.max - (largest == no_score() ? 0.0f : largest));
    for (u32 turn = 0; turn < WAVES; turn++) {
      if (turn == wave) {
        UNROLL for (u32 d = 0; d < DIM / 16; d++) {
          UNROLL for (u32 i = 0; i < SUMS; i++) {
            f32& to = room.all.sums[own][d * 16 + T::row(lane, i)];
            to = fused(weight * Kept::FACTOR, sums[d][i], turn == 0 ? 0.0f : to);
          }
        }
      }
      block_barrier();
    }
    const u32 here = smaller(COLUMNS, rows - first);
    for (u32 i = thread_index(); i < here * DIM; i += THREADS) {
      const u32 row = i / DIM;
      f32 most = no_score(), all = 0.0f;
      UNROLL for (u32 w = 0; w < WAVES; w++) most = larger(most, room.all.max[w][row]);
      const f32 base = most == no_score() ? 0.0f : most;
      UNROLL for (u32 w = 0; w < WAVES; w++) {
        all = fused(power_of_two(room.all.max[w][row] - base), room.all.total[w][row], all);
      }
      leave_sum<In>(p, part, output_row(p, part, sequence, first + row), first + row, i % DIM,
                    room.all.sums[row][i % DIM], most, all);
    }
    block_barrier();
  }

  // 16 rows of a part.
  static DEVICE_MEMBER void perform(const AttentionParams& p, const AttentionPart& part,
                                    const AttentionSequence& sequence, u32 first, u32 rows,
                                    Room& room) {
    const f32 factor = p.scale * LOG2_E * Kept::FACTOR;
    SplitLanes made;
    made.start(p, part, sequence, first, rows);
    u32 from = part.key_first + KEYS * wave_index();
    if (from < part.key_end) {
      auto& own = room.values[wave_index()];
      const u32 last = part.key_end - 1;
      Tokens<KEYS> tokens(p);
      tokens.find(sequence, from, last);
      Fetched next;
      tokens.go_on(sequence, from + WAVES * KEYS, last);
      next.fetch(p, part, tokens);
      for (; from < part.key_end; from += WAVES * KEYS) {
        f32 scores[FRAGMENTS][SUMS] = {};
        u32 weights[WORDS];
        made.score(scores, next, from);
        // The lanes are done with what stood here.
        warp_barrier();
        next.keep(own);
        warp_barrier();
        tokens.go_on(sequence, from + 2 * WAVES * KEYS, last);
        next.fetch(p, part, tokens);
        in_order();
        made.weigh(weights, scores, factor);
        made.accumulate(own, weights);
      }
    }
    made.finish(p, part, sequence, first, rows, room);
  }

  // The parts of one worker.
  static DEVICE_MEMBER void all(const AttentionParams& p) {
    SHARED Room room;
    SHARED u32 told[2];
    for (u32 worker = block_index(); worker < p.workers; worker += block_count()) {
      for (u32 i = p.part_firsts[worker]; i < p.part_firsts[worker + 1]; i++) {
        const AttentionPart part = p.parts[i];
        const AttentionSequence sequence = p.sequences[part.sequence];
        const u32 rows = part_rows(p, part, sequence);
        for (u32 first = 0; first < rows; first += COLUMNS) {
          perform(p, part, sequence, first, rows, room);
        }
        combine_if_complete<In, DIM, THREADS>(p, part, sequence, told);
        block_barrier();
      }
    }
  }
};

}  // namespace
