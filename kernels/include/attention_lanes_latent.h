// Decode of multi-head latent attention, absorbed, by the matrix units of CDNA: one latent of 576 is
// the key of all heads, its first 512 the value (attention_lanes.h, attention_parts.h).
//
// Each of 4 waves has 16 of the up to 64 rows (heads) of a part, as columns of both products; all
// waves share the keys, which come to shared memory twice: as they are, and their first 512 columns
// turned. As many keys come at a time as one instruction of the second product takes.
#pragma once
#include "attention_parts.h"
#include "lane_cache.h"
#include "lane_softmax.h"

namespace {

template <class T, class Cache = typename T::In> struct LatentLanes {
  using In = typename T::In;
  using Kept = Cached<In, Cache>;
  static constexpr u32 THREADS = 256, DIM_QK = 576, DIM_V = 512;
  static constexpr u32 ROW_BYTES = Kept::BYTES * DIM_QK, STEPS = DIM_QK / 32;
  // Of 8 elements, and of 16 bytes in memory.
  static constexpr u32 CHUNKS = DIM_QK / 8, LOADS = CHUNKS / Kept::CHUNKS;
  static constexpr u32 KEYS = 8 * T::WORDS, FRAGMENTS = KEYS / 16;
  static constexpr u32 FETCHED = (KEYS * LOADS + THREADS - 1) / THREADS;
  // 8 columns of 4 keys each, of one thread.
  static constexpr u32 PIECES = KEYS / 4 * (DIM_V / 8) / THREADS;
  static_assert(T::GROUPS == 4 && T::SUMS == 4 && PIECES > 0, "CDNA's lanes");

  struct Room {
    Vector<u32> keys[KEYS * CHUNKS];
    // Of each column, what each group of lanes takes of its keys.
    alignas(16) u32 values[DIM_V * 4][T::WORDS];
  };

  static DEVICE_MEMBER u32 place(u32 key, u32 chunk) { return key * CHUNKS + (chunk ^ key % 8); }
  // Where a column's values for a group of lanes stand: among those of 128 bytes, which are all banks,
  // exchanged by the number of these 128 bytes; 16 columns further everything is the same.
  static DEVICE_MEMBER u32 value_place(u32 index, u32 group) {
    if constexpr (T::WORDS == 4) return exchanged(index * 4 + group);
    return index * 4 + (group ^ index / 4 % 4);
  }
  // Columns stand so that neither those who write every eighth nor those who read meet a bank twice.
  static DEVICE_MEMBER u32 column_at(u32 index) { return index % (DIM_V / 8) * 8 + index / (DIM_V / 8); }

  // A thread's share of the keys, twice, on its way.
  struct Fetched {
    u32 keys[FETCHED][4], values[PIECES][4][Kept::WORDS];

    // What is behind the part's last key is read as the last: nothing comes of it.
    DEVICE_MEMBER void fetch(const AttentionParams& p, const AttentionPart& part,
                             const AttentionSequence& sequence, u32 from) {
      const auto row = [&](u32 key) {
        const u64 token = key_token(p, sequence, smaller(from + key, part.key_end - 1));
        return (token * p.kv_heads + part.kv_head) * ROW_BYTES;
      };
      UNROLL for (u32 i = 0; i < FETCHED; i++) {
        const u32 load = smaller(i * THREADS + thread_index(), KEYS * LOADS - 1);
        get_chunk(keys[i], p.k, row(load / LOADS) + load % LOADS * 16);
      }
      UNROLL for (u32 i = 0; i < PIECES; i++) {
        const u32 piece = i * THREADS + thread_index(), column = piece / (KEYS / 4) * 8;
        UNROLL for (u32 k = 0; k < 4; k++) {
          get_chunk(values[i][k], p.k, row(piece % (KEYS / 4) * 4 + k) + column * Kept::BYTES);
        }
      }
    }

    DEVICE_MEMBER void keep(Room& room) const {
      UNROLL for (u32 i = 0; i < FETCHED; i++) {
        const u32 load = i * THREADS + thread_index();
        if (load >= KEYS * LOADS) continue;
        UNROLL for (u32 c = 0; c < Kept::CHUNKS; c++) {
          u32 part[Kept::WORDS], wide[4];
          UNROLL for (u32 w = 0; w < Kept::WORDS; w++) part[w] = keys[i][c * Kept::WORDS + w];
          Kept::widen(wide, part);
          write_shared(room.keys[place(load / LOADS, load % LOADS * Kept::CHUNKS + c)], 0, wide);
        }
      }
      UNROLL for (u32 i = 0; i < PIECES; i++) {
        const u32 piece = i * THREADS + thread_index(), k = piece % (KEYS / 4);
        u32 wide[4][4];
        UNROLL for (u32 at = 0; at < 4; at++) Kept::widen(wide[at], values[i][at]);
        UNROLL for (u32 c = 0; c < 8; c++) {
          u32 turned[2];
          turn_column(turned, wide, c);
          const u32 at = value_place(thread_index() / (KEYS / 4), k % 4);
          const u32 further = i * (THREADS / (KEYS / 4)) + c * (DIM_V / 8);
          write_shared(room.values[at + further * 4], k / 4 * 2, turned);
        }
      }
    }
  };

  // One row, of a lane's column.
  u32 queries[STEPS][4];
  f32 sums[DIM_V / 16][4];
  Column column;
  u32 start_key, seen;

  static DEVICE_MEMBER u32 row_of() { return wave_index() * 16 + lane_index() % 16; }

  DEVICE_MEMBER void start(const AttentionParams& p, const AttentionPart& part,
                           const AttentionSequence& sequence, u32 rows) {
    const u32 row = smaller(row_of(), rows - 1);
    const u64 at = output_row(p, part, sequence, row) * (2 * DIM_QK);
    UNROLL for (u32 step = 0; step < STEPS; step++) {
      get_chunk(queries[step], p.q, at + (step * 4 + lane_index() / 16) * 16);
    }
    const u32 query = (part.row_first + row) / (p.heads / p.kv_heads);
    start_key = first_key_seen(p, sequence, query);
    seen = smaller(keys_seen(p, sequence, query), part.key_end);
    column.start();
    UNROLL for (u32 d = 0; d < DIM_V / 16; d++) {
      UNROLL for (u32 i = 0; i < 4; i++) sums[d][i] = 0.0f;
    }
  }

  DEVICE_MEMBER void attend(const Room& room, u32 from, f32 factor) {
    const u32 lane = lane_index();
    f32 scores[FRAGMENTS][4] = {};
    UNROLL for (u32 step = 0; step < STEPS; step++) {
      if (step % 4 == 0) in_order();
      UNROLL for (u32 f = 0; f < FRAGMENTS; f++) {
        u32 keys[4];
        read_shared(keys, room.keys[place(f * 16 + lane % 16, step * 4 + lane / 16)]);
        multiply_chunks<T>(scores[f], keys, queries[step]);
      }
    }
    u32 weights[T::WORDS];
    weigh(weights, scores, from, factor);
    UNROLL for (u32 d = 0; d < DIM_V / 16; d++) {
      if (d % 4 == 0) in_order();
      u32 values[T::WORDS];
      read_shared(values, room.values[value_place(lane % 16, lane / 16) + d * 64]);
      multiply(sums[d], values, weights, In());
    }
  }

  DEVICE_MEMBER void weigh(u32 (&weights)[T::WORDS], f32 (&scores)[FRAGMENTS][4], u32 from,
                           f32 factor) {
    UNROLL for (u32 f = 0; f < FRAGMENTS; f++) {
      UNROLL for (u32 i = 0; i < 4; i++) {
        const u32 key = from + f * 16 + T::row(lane_index(), i);
        if (key >= seen || key < start_key) scores[f][i] = no_score();
      }
    }
    multiply_sums(sums, column.weigh(scores, factor));
    UNROLL for (u32 f = 0; f < FRAGMENTS; f++) {
      pack_weights<In>(weights[2 * f], weights[2 * f + 1], scores[f]);
    }
  }

  DEVICE_MEMBER void finish(const AttentionParams& p, const AttentionPart& part,
                            const AttentionSequence& sequence, u32 rows) {
    const f32 total = column.whole();
    const u32 row = row_of();
    if (row >= rows) return;
    const u64 to = output_row(p, part, sequence, row);
    UNROLL for (u32 d = 0; d < DIM_V / 16; d++) {
      UNROLL for (u32 i = 0; i < 4; i++) {
        const u32 at = column_at(d * 16 + T::row(lane_index(), i));
        leave_sum<In>(p, part, to, row, at, sums[d][i] * Kept::FACTOR, column.max, total);
      }
    }
  }

  static DEVICE_MEMBER void perform(const AttentionParams& p, const AttentionPart& part,
                                    const AttentionSequence& sequence, u32 rows, Room& room) {
    LatentLanes made;
    made.start(p, part, sequence, rows);
    if (part.key_first < part.key_end) {
      Fetched next;
      next.fetch(p, part, sequence, part.key_first);
      for (u32 from = part.key_first; from < part.key_end; from += KEYS) {
        block_barrier();
        next.keep(room);
        block_barrier();
        if (from + KEYS < part.key_end) next.fetch(p, part, sequence, from + KEYS);
        if (wave_index() * 16 < rows) made.attend(room, from, p.scale * LOG2_E * Kept::FACTOR);
      }
    }
    made.finish(p, part, sequence, rows);
  }

  // The parts of one worker.
  static DEVICE_MEMBER void all(const AttentionParams& p) {
    SHARED Room room;
    SHARED u32 told[2];
    for (u32 worker = block_index(); worker < p.workers; worker += block_count()) {
      for (u32 i = p.part_firsts[worker]; i < p.part_firsts[worker + 1]; i++) {
        const AttentionPart part = p.parts[i];
        const AttentionSequence sequence = p.sequences[part.sequence];
        perform(p, part, sequence, part_rows(p, part, sequence), room);
        combine_if_complete<In, DIM_V, THREADS>(p, part, sequence, told);
        block_barrier();
      }
    }
  }
};

}  // namespace
