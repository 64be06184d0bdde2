// Prefill by AMD's matrix units whose lanes have sums that follow each other, for elements of 16 bits, and of 8
// with an output of 16.
//
// The waves of a block take a tile of queries of one head through their keys, 64 at a time; each wave has
// COLUMNS times 16 of them. Both products are turned, so that queries are columns: scores are K Q^T, the output
// is V^T P^T. A lane then has scores, weights and sums of the same queries, and its weights are what the second
// product wants of it (lane_fragments.h): they never leave its registers. Only the largest score of a
// query is to be found among the lanes that share it: four of a wave of 64, two of one of 32.
//
// Keys stand in shared memory as they come, values by columns, a column's keys in the order in which
// lanes have their weights. The next keys and values are on their way to registers while these are in
// use; two blocks share a unit, so that one multiplies while the other makes weights.
#pragma once
#include "lane_softmax.h"

namespace {

// Weights are 2^(EXPONENT + RISE) at most: of 8 bits so large that what is left of small ones is not lost.
// Elements are FACTOR times what the units take them for.
template <class In> struct Weights {
  static constexpr f32 EXPONENT = 0.0f, RISE = 8.0f, FACTOR = 1.0f;
};
// The largest number is 448, or 240.
template <> struct Weights<e4m3> {
  static constexpr f32 EXPONENT = 8.0f, RISE = 0.75f, FACTOR = 1.0f;
};
template <> struct Weights<e4m3_fnuz> {
  static constexpr f32 EXPONENT = 7.0f, RISE = 0.75f, FACTOR = 2.0f;
};

template <class T, u32 DIM_QK, u32 DIM_V, u32 COLUMNS = 2> struct PrefillLanes {
  using In = typename T::In;
  using Take = Taken<T>;
  static constexpr u32 SUMS = T::SUMS, CHUNKS_TAKEN = Take::CHUNKS, WORDS = 4 * CHUNKS_TAKEN;
  static constexpr u32 THREADS = 256, KEYS = 64, ROWS = THREADS / LANES * COLUMNS * 16;
  static constexpr u32 BYTES = sizeof(In), BYTES_QK = BYTES * DIM_QK, BYTES_V = BYTES * DIM_V;
  // 16 bytes of a key, or of a column of the values.
  static constexpr u32 CHUNKS = BYTES_QK / 16, COLUMN_CHUNKS = KEYS * BYTES / 16;
  // From key to key: chunks are exchanged among 8 or 16.
  static constexpr u32 STRIDE = CHUNKS < 8 ? CHUNKS : (CHUNKS + 7) / 8 * 8;
  // Of the first product; of the keys of both.
  static constexpr u32 STEPS = CHUNKS / (T::GROUPS * CHUNKS_TAKEN), FRAGMENTS = KEYS / 16;
  static constexpr u32 FETCHED = KEYS * CHUNKS / THREADS;
  // Fragments whose weights the second product takes together.
  static constexpr u32 TOGETHER = Take::TOGETHER;
  // Threads that fetch values: each 8 columns of 4 keys.
  static constexpr u32 PIECES = KEYS / 4 * (DIM_V / 8);
  static_assert(PIECES <= THREADS && FRAGMENTS % TOGETHER == 0 && STEPS > 0, "pieces");

  struct Room { Vector<u32> keys[KEYS * STRIDE], values[DIM_V * COLUMN_CHUNKS]; };

  u32 queries[COLUMNS][STEPS][WORDS];
  f32 scores[COLUMNS][FRAGMENTS][SUMS];
  f32 sums[COLUMNS][DIM_V / 16][SUMS];
  Column columns[COLUMNS];
  u32 start_key[COLUMNS], seen[COLUMNS];

  // Where a chunk stands: exchanged so that lanes of neighbouring rows meet no bank twice, of which
  // there are 256 bytes on CDNA 4.
  static DEVICE_MEMBER u32 key_place(u32 key, u32 chunk) {
    if (STRIDE < 8) return exchanged(key * STRIDE + chunk);
    return key * STRIDE + (chunk ^ key % (STRIDE % 16 == 0 ? 16 : 8));
  }
  // Of the keys of the `part`th fragments together a chunk of what a group of lanes takes.
  static DEVICE_MEMBER u32 value_place(u32 column, u32 part, u32 chunk, u32 group) {
    return exchanged(column * COLUMN_CHUNKS + (part * CHUNKS_TAKEN + chunk) * T::GROUPS + group);
  }
  // Of a row of keys or queries a chunk of what a lane takes in a step.
  static DEVICE_MEMBER u32 chunk_of(u32 step, u32 chunk) {
    return (step * CHUNKS_TAKEN + chunk) * T::GROUPS + lane_index() / 16;
  }

  // Which query of the block a column is.
  static DEVICE_MEMBER u32 row_of(u32 column) {
    return (wave_index() * COLUMNS + column) * 16 + lane_index() % 16;
  }

  // What is behind the last query or key is read as the last: nothing comes of it.
  DEVICE_MEMBER void start(const AttentionParams& p, const AttentionSequence& sequence, u32 head,
                           u32 first) {
    UNROLL for (u32 c = 0; c < COLUMNS; c++) {
      const u32 row = smaller(first + row_of(c), sequence.queries - 1);
      const u64 at = (u64(sequence.query_first + row) * p.heads + head) * BYTES_QK;
      UNROLL for (u32 step = 0; step < STEPS; step++) {
        UNROLL for (u32 chunk = 0; chunk < CHUNKS_TAKEN; chunk++) {
          u32 got[4];
          get_chunk(got, p.q, at + chunk_of(step, chunk) * 16);
          UNROLL for (u32 w = 0; w < 4; w++) queries[c][step][4 * chunk + w] = got[w];
        }
      }
      start_key[c] = first_key_seen(p, sequence, row);
      seen[c] = keys_seen(p, sequence, row);
      columns[c].start();
      UNROLL for (u32 d = 0; d < DIM_V / 16; d++) {
        UNROLL for (u32 i = 0; i < SUMS; i++) sums[c][d][i] = 0.0f;
      }
    }
  }

  // A thread's share of keys and values, on its way.
  struct Fetched {
    LoadedWords<4> keys[FETCHED];
    LoadedWords<2 * BYTES> values[4];

    // Threads that have no values fetch what others have.
    DEVICE_MEMBER void fetch(const AttentionParams& p, u32 kv_head, const Tokens<KEYS>& tokens) {
      UNROLL for (u32 i = 0; i < FETCHED; i++) {
        const u32 chunk = i * THREADS + thread_index();
        const u64 row = tokens.row(p, kv_head, chunk / CHUNKS);
        get_chunk(keys[i], p.k, row * BYTES_QK + chunk % CHUNKS * 16);
      }
      const u32 column = thread_index() % PIECES / (KEYS / 4) * 8;
      UNROLL for (u32 i = 0; i < 4; i++) {
        const u64 row = tokens.row(p, kv_head, thread_index() % (KEYS / 4) * 4 + i);
        get_chunk(values[i], p.v, row * BYTES_V + column * BYTES);
      }
    }

    DEVICE_MEMBER void keep(Room& room) const {
      UNROLL for (u32 i = 0; i < FETCHED; i++) {
        const u32 chunk = i * THREADS + thread_index();
        u32 words[4];
        words_of(words, keys[i]);
        write_shared(room.keys[key_place(chunk / CHUNKS, chunk % CHUNKS)], 0, words);
      }
      if (PIECES < THREADS && thread_index() >= PIECES) return;
      // Four keys of one lane's weights.
      const u32 four = thread_index() % (KEYS / 4), word = Take::word(four);
      UNROLL for (u32 i = 0; i < 8; i++) {
        const u32 column = thread_index() / (KEYS / 4) * 8 + i;
        u32 turned[BYTES];
        turn<BYTES>(turned, i, [&](u32 key) { return values[key]; });
        const u32 at = value_place(column, Take::part(four), word / 4, Take::group(four));
        write_shared(room.values[at], word % 4, turned);
      }
    }
  };

  DEVICE_MEMBER void score(const Room& room) {
    const u32 lane = lane_index();
    UNROLL for (u32 f = 0; f < FRAGMENTS; f++) {
      in_order();
      UNROLL for (u32 c = 0; c < COLUMNS; c++) {
        UNROLL for (u32 i = 0; i < SUMS; i++) scores[c][f][i] = 0.0f;
      }
      UNROLL for (u32 step = 0; step < STEPS; step++) {
        u32 keys[WORDS];
        read_chunks(keys, [&](u32 chunk) -> const Vector<u32>& {
          return room.keys[key_place(f * 16 + lane % 16, chunk_of(step, chunk))];
        });
        UNROLL for (u32 c = 0; c < COLUMNS; c++) {
          multiply_chunks<T>(scores[c][f], keys, queries[c][step]);
        }
      }
    }
  }

  DEVICE_MEMBER void mask(u32 from) {
    UNROLL for (u32 c = 0; c < COLUMNS; c++) {
      UNROLL for (u32 f = 0; f < FRAGMENTS; f++) {
        UNROLL for (u32 i = 0; i < SUMS; i++) {
          const u32 key = from + f * 16 + T::row(lane_index(), i);
          if (key >= seen[c] || key < start_key[c]) scores[c][f][i] = no_score();
        }
      }
    }
  }

  DEVICE_MEMBER void weigh(f32 factor) {
    // Sums are corrected where a score has risen so far that weights would become too large.
    f32 largest[COLUMNS];
    bool rises = false;
    UNROLL for (u32 c = 0; c < COLUMNS; c++) {
      largest[c] = Column::largest(scores[c], factor);
      rises = rises || largest[c] > columns[c].max + Weights<In>::RISE;
    }
    if (any_lane(rises)) {
      UNROLL for (u32 c = 0; c < COLUMNS; c++) multiply_sums(sums[c], columns[c].rise(largest[c]));
    }
    UNROLL for (u32 c = 0; c < COLUMNS; c++) {
      columns[c].make_weights(scores[c], factor, Weights<In>::EXPONENT);
    }
  }

  DEVICE_MEMBER void accumulate(const Room& room) {
    const u32 lane = lane_index();
    UNROLL for (u32 part = 0; part < FRAGMENTS / TOGETHER; part++) {
      u32 weights[COLUMNS][WORDS];
      UNROLL for (u32 c = 0; c < COLUMNS; c++) {
        UNROLL for (u32 f = 0; f < TOGETHER; f++) {
          pack_weights<In>(weights[c] + f * Take::WORDS, scores[c][part * TOGETHER + f]);
        }
      }
      UNROLL for (u32 d = 0; d < DIM_V / 16; d++) {
        if (d % 2 == 0) in_order();
        u32 values[WORDS];
        read_chunks(values, [&](u32 chunk) -> const Vector<u32>& {
          return room.values[value_place(lane % 16, part, chunk, lane / 16) + d * 16 * COLUMN_CHUNKS];
        });
        UNROLL for (u32 c = 0; c < COLUMNS; c++) {
          multiply_chunks<T>(sums[c][d], values, weights[c]);
        }
      }
    }
  }

  DEVICE_MEMBER void finish(const AttentionParams& p, const AttentionSequence& sequence, u32 head,
                            u32 first) const {
    UNROLL for (u32 c = 0; c < COLUMNS; c++) {
      const f32 sum = columns[c].whole();
      const f32 share = sum > 0.0f ? Weights<In>::FACTOR / sum : 0.0f;
      const u32 row = first + row_of(c);
      if (row >= sequence.queries) continue;
      u8* to = static_cast<u8*>(p.o) + (u64(sequence.query_first + row) * p.heads + head) * (2 * DIM_V);
      UNROLL for (u32 d = 0; d < DIM_V / 16; d++) {
        u32 words[SUMS / 2];
        UNROLL for (u32 i = 0; i < SUMS; i += 2) {
          words[i / 2] = narrow_pair(sums[c][d][i] * share, sums[c][d][i + 1] * share, typename T::Out());
        }
        put_words(to + (d * 16 + T::row(lane_index(), 0)) * 2, words);
      }
    }
  }

  // The keys that any row sees, and those that all see.
  struct Range { u32 start, end, all_from, all_to; };

  DEVICE_MEMBER void attend(const AttentionParams& p, const AttentionSequence& sequence, u32 kv_head,
                            const Range& range, Room& room) {
    const u32 end = range.end, last = sequence.keys - 1;
    Tokens<KEYS> tokens(p);
    tokens.find(sequence, range.start, last);
    Fetched next;
    tokens.go_on(sequence, range.start + KEYS, last);
    next.fetch(p, kv_head, tokens);
    for (u32 from = range.start; from < end; from += KEYS) {
      shared_barrier();
      next.keep(room);
      shared_barrier();
      tokens.go_on(sequence, from + 2 * KEYS, last);
      next.fetch(p, kv_head, tokens);
      go_first();
      score(room);
      go_as_others();
      if (from < range.all_from || from + KEYS > range.all_to) mask(from);
      weigh(p.scale * (LOG2_E * Weights<In>::FACTOR * Weights<In>::FACTOR));
      go_first();
      accumulate(room);
      go_as_others();
    }
  }

  DEVICE_MEMBER void perform(const AttentionParams& p, const AttentionSequence& sequence, u32 head,
                             u32 first, Room& room) {
    const u32 kv_head = head / (p.heads / p.kv_heads);
    const u32 last = smaller(first + ROWS, sequence.queries) - 1;
    const Range range = {first_key_seen(p, sequence, first), keys_seen(p, sequence, last),
                         first_key_seen(p, sequence, last), keys_seen(p, sequence, first)};
    start(p, sequence, head, first);
    if (range.start < range.end) attend(p, sequence, kv_head, range, room);
    finish(p, sequence, head, first);
  }

  // One block for each tile of queries, head and sequence; the last tiles, which see the most where
  // they are causal, come first. Blocks that follow each other go to different dies: heads that share
  // keys are as far apart as there are keys to share, so that they meet on one die's cache where that
  // is a multiple of the dies.
  static DEVICE_MEMBER void all(const AttentionParams& p) {
    SHARED Room room;
    const u32 shares = p.batch * p.kv_heads, group = p.heads / p.kv_heads, units = shares * group;
    const u32 tiles = (p.queries + ROWS - 1) / ROWS;
    for (u32 index = block_index(); index < units * tiles; index += block_count()) {
      const u32 unit = index % units, first = (tiles - 1 - index / units) * ROWS;
      const u32 share = unit % shares;
      const AttentionSequence sequence = p.sequences[share / p.kv_heads];
      if (first >= sequence.queries) continue;
      PrefillLanes made;
      made.perform(p, sequence, share % p.kv_heads * group + unit / shares, first, room);
    }
  }
};

}  // namespace
