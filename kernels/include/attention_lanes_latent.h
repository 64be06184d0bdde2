// Decode of multi-head latent attention, absorbed, by AMD's matrix units: one latent of 576 is
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
  using Take = Taken<T>;
  static constexpr u32 SUMS = T::SUMS, CHUNKS_TAKEN = Take::CHUNKS, WORDS = 4 * CHUNKS_TAKEN;
  static constexpr u32 THREADS = 4 * LANES, DIM_QK = 576, DIM_V = 512;
  static constexpr u32 ROW_BYTES = Kept::BYTES * DIM_QK, STEPS = DIM_QK / 8 / (T::GROUPS * CHUNKS_TAKEN);
  // Of 8 elements.
  static constexpr u32 CHUNKS = DIM_QK / 8;
  // Words of weights of a lane, for one instruction.
  static constexpr u32 WEIGHTS = T::WORDS;
  static constexpr u32 KEYS = 2 * WEIGHTS * T::GROUPS, FRAGMENTS = KEYS / 16;
  // 8 columns of 4 keys each, of one thread; 8 pieces beside each other, then the next four keys. What is
  // behind the values, KEYS x 8 chunks, is dealt to as many threads, REST to each.
  static constexpr u32 FOURS = KEYS / 4, PIECES = FOURS * (DIM_V / 8) / THREADS;
  static constexpr u32 REST = (KEYS * 8 + THREADS - 1) / THREADS;
  static_assert(PIECES > 0 && THREADS % (8 * FOURS) == 0 && CHUNKS - DIM_V / 8 == 8, "pieces");
  // What a group of lanes takes of a column's keys, in places of 16 bytes at most.
  static constexpr u32 PLACE_WORDS = WEIGHTS < 4 ? WEIGHTS : 4, PLACES = WEIGHTS / PLACE_WORDS;
  static_assert(T::GROUPS * PLACES == 4, "four places to a column");

  struct Room {
    Vector<u32> keys[KEYS * CHUNKS];
    // Of each column, what each group of lanes takes of its keys.
    alignas(16) u32 values[DIM_V * 4][PLACE_WORDS];
  };

  static DEVICE_MEMBER u32 place(u32 key, u32 chunk) { return key * CHUNKS + (chunk ^ key % 8); }
  // Where a column's values for a group of lanes stand: among those of 128 bytes, which are all banks,
  // exchanged by the number of these 128 bytes; 16 columns further everything is the same.
  static DEVICE_MEMBER u32 value_place(u32 index, u32 place, u32 group) {
    const u32 at = place * T::GROUPS + group;
    if constexpr (PLACE_WORDS == 4) return exchanged(index * 4 + at);
    return index * 4 + (at ^ (index / 8 % 2 | index / 4 % 2 * 2));
  }
  // Columns stand so that neither those who write every eighth nor those who read meet a bank twice.
  static DEVICE_MEMBER u32 column_at(u32 index) { return index % (DIM_V / 8) * 8 + index / (DIM_V / 8); }

  // The first of a piece's four keys. Lanes that write turned columns at once have the halves of a place.
  static DEVICE_MEMBER u32 first_key() {
    const u32 four = thread_index() / 8 % FOURS;
    if constexpr (SUMS == 8) return four * 4;
    return (four % (FOURS / 4) * 4 + four / (FOURS / 4)) * 4;
  }
  // Which chunk of a key the first piece has.
  static DEVICE_MEMBER u32 first_chunk() {
    return thread_index() / (8 * FOURS) * 8 + thread_index() % 8;
  }
  static constexpr u32 APART = THREADS / FOURS;

  // A thread's share of the keys, on its way.
  struct Fetched {
    LoadedWords<Kept::WORDS> pieces[PIECES][4], rest[REST];

    DEVICE_MEMBER void fetch(const AttentionParams& p, const AttentionPart& part,
                             const Tokens<KEYS>& tokens) {
      const auto get = [&](LoadedWords<Kept::WORDS>& to, u64 row, u32 chunk) {
        get_chunk(to, p.k, row * ROW_BYTES + chunk * 8 * Kept::BYTES);
      };
      UNROLL for (u32 k = 0; k < 4; k++) {
        const u64 row = tokens.row(p, part.kv_head, first_key() + k);
        UNROLL for (u32 i = 0; i < PIECES; i++) get(pieces[i][k], row, first_chunk() + i * APART);
      }
      UNROLL for (u32 i = 0; i < REST; i++) {
        const u64 row = tokens.row(p, part.kv_head, (i * THREADS + thread_index()) / 8 % KEYS);
        get(rest[i], row, DIM_V / 8 + thread_index() % 8);
      }
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
          const u32 word = key / 16 * (SUMS / 2) + key % SUMS / 2, group = key % 16 / SUMS;
          const u32 at = value_place(first_chunk(), word / PLACE_WORDS, group);
          write_shared(room.values[at + (i * APART + c * (DIM_V / 8)) * 4], word % PLACE_WORDS, turned);
        }
      }
      if (KEYS * 8 < THREADS && thread_index() >= KEYS * 8) return;
      UNROLL for (u32 i = 0; i < REST; i++) {
        u32 wide[4];
        widen(wide, rest[i]);
        const u32 behind = (i * THREADS + thread_index()) / 8;
        write_shared(room.keys[place(behind, DIM_V / 8 + thread_index() % 8)], 0, wide);
      }
    }
  };

  // One row, of a lane's column.
  u32 queries[STEPS][WORDS];
  f32 sums[DIM_V / 16][SUMS];
  Column column;
  u32 start_key, seen;

  static DEVICE_MEMBER u32 row_of() { return wave_index() * 16 + lane_index() % 16; }
  // Of a row of keys or queries a chunk of what a lane takes in a step.
  static DEVICE_MEMBER u32 chunk_of(u32 step, u32 chunk) {
    return (step * CHUNKS_TAKEN + chunk) * T::GROUPS + lane_index() / 16;
  }

  DEVICE_MEMBER void start(const AttentionParams& p, const AttentionPart& part,
                           const AttentionSequence& sequence, u32 rows) {
    const u32 row = smaller(row_of(), rows - 1);
    const u64 at = output_row(p, part, sequence, row) * (2 * DIM_QK);
    UNROLL for (u32 step = 0; step < STEPS; step++) {
      UNROLL for (u32 chunk = 0; chunk < CHUNKS_TAKEN; chunk++) {
        u32 got[4];
        get_chunk(got, p.q, at + chunk_of(step, chunk) * 16);
        UNROLL for (u32 w = 0; w < 4; w++) queries[step][4 * chunk + w] = got[w];
      }
    }
    const u32 query = (part.row_first + row) / (p.heads / p.kv_heads);
    start_key = first_key_seen(p, sequence, query);
    seen = smaller(keys_seen(p, sequence, query), part.key_end);
    column.start();
    UNROLL for (u32 d = 0; d < DIM_V / 16; d++) {
      UNROLL for (u32 i = 0; i < SUMS; i++) sums[d][i] = 0.0f;
    }
  }

  DEVICE_MEMBER void attend(const Room& room, u32 from, f32 factor) {
    const u32 lane = lane_index();
    f32 scores[FRAGMENTS][SUMS] = {};
    UNROLL for (u32 step = 0; step < STEPS; step++) {
      if (step % 4 == 0) in_order();
      UNROLL for (u32 f = 0; f < FRAGMENTS; f++) {
        u32 keys[WORDS];
        read_chunks(keys, [&](u32 chunk) -> const Vector<u32>& {
          return room.keys[place(f * 16 + lane % 16, chunk_of(step, chunk))];
        });
        multiply_chunks<T>(scores[f], keys, queries[step]);
      }
    }
    u32 weights[WEIGHTS];
    weigh(weights, scores, from, factor);
    UNROLL for (u32 d = 0; d < DIM_V / 16; d++) {
      if (d % 4 == 0) in_order();
      u32 values[WEIGHTS];
      UNROLL for (u32 at = 0; at < PLACES; at++) {
        u32 got[PLACE_WORDS];
        read_shared(got, room.values[value_place(lane % 16, at, lane / 16) + d * 64]);
        UNROLL for (u32 w = 0; w < PLACE_WORDS; w++) values[at * PLACE_WORDS + w] = got[w];
      }
      multiply(sums[d], values, weights, In());
    }
  }

  DEVICE_MEMBER void weigh(u32 (&weights)[WEIGHTS], f32 (&scores)[FRAGMENTS][SUMS], u32 from,
                           f32 factor) {
    UNROLL for (u32 f = 0; f < FRAGMENTS; f++) {
      UNROLL for (u32 i = 0; i < SUMS; i++) {
        const u32 key = from + f * 16 + T::row(lane_index(), i);
        if (key >= seen || key < start_key) scores[f][i] = no_score();
      }
    }
    multiply_sums(sums, column.weigh(scores, factor));
    UNROLL for (u32 f = 0; f < FRAGMENTS; f++) {
      pack_weights<In>(weights + f * Take::WORDS, scores[f]);
    }
  }

  DEVICE_MEMBER void finish(const AttentionParams& p, const AttentionPart& part,
                            const AttentionSequence& sequence, u32 rows) {
    const f32 total = column.whole();
    const u32 row = row_of();
    if (row >= rows) return;
    const u64 to = output_row(p, part, sequence, row);
    UNROLL for (u32 d = 0; d < DIM_V / 16; d++) {
      UNROLL for (u32 i = 0; i < SUMS; i++) {
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
        shared_barrier();
        in_order();
        next.keep(room);
        shared_barrier();
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
