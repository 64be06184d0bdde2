// Decode of multi-head latent attention, absorbed, by the matrix units of CDNA: one latent of 576 is
// the key of all heads, its first 512 the value (attention_lanes.h, attention_parts.h).
//
// Each of 4 waves has 16 of the up to 64 rows (heads) of a part, as columns of both products; all
// waves share the keys, which are fetched once and kept in shared memory twice: as they are, and their
// first 512 columns turned. As many keys come at a time as one instruction of the second product takes.
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
  // Of 8 elements.
  static constexpr u32 CHUNKS = DIM_QK / 8;
  static constexpr u32 KEYS = 8 * T::WORDS, FRAGMENTS = KEYS / 16;
  // 8 columns of 4 keys each, of one thread; 8 pieces beside each other, then the next four keys. What is
  // behind the values, KEYS x 8 chunks, is a chunk of as many threads.
  static constexpr u32 FOURS = KEYS / 4, PIECES = FOURS * (DIM_V / 8) / THREADS;
  static_assert(T::GROUPS == 4 && T::SUMS == 4 && PIECES > 0, "CDNA's lanes");
  static_assert(THREADS % (8 * FOURS) == 0 && CHUNKS - DIM_V / 8 == 8 && KEYS * 8 <= THREADS, "pieces");

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
    return index * 4 + (group ^ (index / 8 % 2 | index / 4 % 2 * 2));
  }
  // Columns stand so that neither those who write every eighth nor those who read meet a bank twice.
  static DEVICE_MEMBER u32 column_at(u32 index) { return index % (DIM_V / 8) * 8 + index / (DIM_V / 8); }

  // The first of a piece's four keys. Lanes that write turned columns at once have the halves of what a
  // group of lanes takes.
  static DEVICE_MEMBER u32 first_key() {
    const u32 four = thread_index() / 8 % FOURS;
    return (four % (FOURS / 4) * 4 + four / (FOURS / 4)) * 4;
  }
  // Which chunk of a key the first piece has.
  static DEVICE_MEMBER u32 first_chunk() {
    return thread_index() / (8 * FOURS) * 8 + thread_index() % 8;
  }
  static constexpr u32 APART = THREADS / FOURS;

  // A thread's share of the keys, on its way.
  struct Fetched {
    LoadedWords<Kept::WORDS> pieces[PIECES][4], rest;

    DEVICE_MEMBER void fetch(const AttentionParams& p, const AttentionPart& part,
                             const Tokens<KEYS>& tokens) {
      const auto get = [&](LoadedWords<Kept::WORDS>& to, u64 row, u32 chunk) {
        get_chunk(to, p.k, row * ROW_BYTES + chunk * 8 * Kept::BYTES);
      };
      UNROLL for (u32 k = 0; k < 4; k++) {
        const u64 row = tokens.row(p, part.kv_head, first_key() + k);
        UNROLL for (u32 i = 0; i < PIECES; i++) get(pieces[i][k], row, first_chunk() + i * APART);
      }
      const u64 row = tokens.row(p, part.kv_head, thread_index() / 8 % KEYS);
      get(rest, row, DIM_V / 8 + thread_index() % 8);
    }

    static DEVICE_MEMBER void widen(u32 (&to)[4], LoadedWords<Kept::WORDS> from) {
      u32 words[Kept::WORDS];
      words_of(words, from);
      Kept::widen(to, words);
    }
    DEVICE_MEMBER void keep(Room& room) const {
      const u32 key = first_key();
      UNROLL for (u32 i = 0; i < PIECES; i++) {
        const u32 chunk = first_chunk() + i * APART;
        u32 wide[4][4];
        UNROLL for (u32 k = 0; k < 4; k++) {
          widen(wide[k], pieces[i][k]);
          write_shared(room.keys[place(key + k, chunk)], 0, wide[k]);
        }
        UNROLL for (u32 c = 0; c < 8; c++) {
          u32 turned[2];
          turn_column(turned, wide, c);
          // Columns are as many rows further; each 16 rows everything is the same.
          const u32 at = value_place(first_chunk(), key / 4 % 4) + (i * APART + c * (DIM_V / 8)) * 4;
          write_shared(room.values[at], key / 16 * 2, turned);
        }
      }
      if (KEYS * 8 < THREADS && thread_index() >= KEYS * 8) return;
      u32 wide[4];
      widen(wide, rest);
      write_shared(room.keys[place(thread_index() / 8, DIM_V / 8 + thread_index() % 8)], 0, wide);
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
      const u32 last = part.key_end - 1;
      Tokens<KEYS> tokens(p);
      tokens.find(sequence, part.key_first, last);
      Fetched next;
      tokens.go_on(sequence, part.key_first + KEYS, last);
      next.fetch(p, part, tokens);
      for (u32 from = part.key_first; from < part.key_end; from += KEYS) {
        block_barrier();
        in_order();
        next.keep(room);
        block_barrier();
        tokens.go_on(sequence, from + 2 * KEYS, last);
        next.fetch(p, part, tokens);
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
