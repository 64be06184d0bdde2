// Softmax of one column of scores, a query's, which the lanes of a wave share whose numbers have the same rest
// by 16, each with SUMS of every 16 keys: what the kernels of attention by AMD's matrix units have in common
// (attention_lanes.h).
#pragma once
#include "attention.h"
#include "lane_fragments.h"

namespace {

// Words of memory, `byte` bytes from `from`.
template <u32 COUNT> DEVICE void get_chunk(u32 (&to)[COUNT], const void* from, u64 byte) {
  get_words(to, static_cast<const u8*>(from) + byte);
}

// Words that stay together until they are kept.
template <u32 COUNT> DEVICE void get_chunk(LoadedWords<COUNT>& to, const void* from, u64 byte) {
  get_words(to, static_cast<const u8*>(from) + byte);
}
template <u32 COUNT> DEVICE void words_of(u32 (&to)[COUNT], LoadedWords<COUNT> from) {
  UNROLL for (u32 w = 0; w < COUNT; w++) to[w] = from[w];
}

// Where the KEYS keys of a tile stand. Each wave looks them up by itself, lane l that of key l % KEYS, and where a
// tile has more keys than the wave lanes, that of key l + LANES too, a tile before they are fetched, so that nothing waits for the table of pages. Keys in one piece are of a
// table that is empty. A look-up comes before the loads of the tile before it: whoever waits for it does
// not wait for them.
template <u32 KEYS> struct Tokens {
  static constexpr u32 HELD = KEYS > LANES ? KEYS / LANES : 1;
  static_assert(HELD <= 2, "keys of a lane");

  Source table;
  u32 size, within[HELD], token[HELD];
  LoadedWords<1> page[HELD];

  DEVICE_MEMBER explicit Tokens(const AttentionParams& p)
      : table{reinterpret_cast<const u8*>(p.pages), of_wave(p.pages == nullptr ? 0 : NOWHERE)},
        size(p.pages == nullptr ? NOWHERE : p.page) {}
  // What is behind the last key is the last.
  DEVICE_MEMBER void find(const AttentionSequence& sequence, u32 from, u32 last) {
    UNROLL for (u32 i = 0; i < HELD; i++) {
      const u32 at = sequence.key_first + smaller(from + i * LANES + lane_index() % KEYS, last);
      within[i] = at % size;
      get_words(page[i], table, at / size * 4);
    }
  }
  // The tile that was found is the one to fetch; finds the next.
  DEVICE_MEMBER void go_on(const AttentionSequence& sequence, u32 next, u32 last) {
    UNROLL for (u32 i = 0; i < HELD; i++) token[i] = page[i][0] * size + within[i];
    find(sequence, next, last);
  }
  // Which of all rows of K or V a key of the tile to fetch is.
  DEVICE_MEMBER u64 row(const AttentionParams& p, u32 kv_head, u32 key) const {
    u32 found = of_lane(token[0], key % LANES);
    if constexpr (HELD == 2) {
      const u32 behind = of_lane(token[1], key % LANES);
      if (key >= LANES) found = behind;
    }
    return u64(found) * p.kv_heads + kv_head;
  }
};

// 4 keys of 8 columns, two elements of 16 bits to a word: the keys of one column, two to a word.
DEVICE void turn_column(u32 (&to)[2], const u32 (&keys)[4][4], u32 column) {
  const u32 word = column / 2, shift = column % 2 * 16;
  UNROLL for (u32 w = 0; w < 2; w++) {
    const u32 low = keys[2 * w][word] >> shift & 0xffff;
    const u32 high = keys[2 * w + 1][word] >> shift & 0xffff;
    to[w] = low | high << 16;
  }
}

// What a lane knows of its column: what weights are relative to, as an exponent of two, the same on all
// lanes that share it, and the sum of the weights that this lane made.
struct Column {
  f32 max, total;

  DEVICE_MEMBER void start() {
    max = no_score();
    total = 0.0f;
  }

  // The largest of the column's scores as an exponent of two.
  template <u32 FRAGMENTS, u32 SUMS>
  static DEVICE_MEMBER f32 largest(const f32 (&scores)[FRAGMENTS][SUMS], f32 factor) {
    f32 found = no_score();
    UNROLL for (u32 f = 0; f < FRAGMENTS; f++) {
      UNROLL for (u32 i = 0; i < SUMS; i++) found = larger(found, scores[f][i]);
    }
    UNROLL for (u32 apart = 16; apart < LANES; apart *= 2) {
      found = larger(found, shuffle_xor(found, apart));
    }
    return found * factor;
  }

  // Weights become relative to `found`, where that is larger; gives what sums are to be multiplied with.
  DEVICE_MEMBER f32 rise(f32 found) {
    found = larger(max, found);
    const f32 correction = power_of_two(max - base(found));
    max = found;
    total *= correction;
    return correction;
  }

  // Scores become weights: 2^exponent is that of the score that they are relative to.
  template <u32 FRAGMENTS, u32 SUMS>
  DEVICE_MEMBER void make_weights(f32 (&scores)[FRAGMENTS][SUMS], f32 factor, f32 exponent = 0.0f) {
    const f32 offset = base(max) - exponent;
    UNROLL for (u32 f = 0; f < FRAGMENTS; f++) {
      UNROLL for (u32 i = 0; i < SUMS; i++) {
        scores[f][i] = power_of_two(fused(scores[f][i], factor, -offset));
        total += scores[f][i];
      }
    }
  }

  // Scores become weights relative to the largest so far; gives what sums are to be multiplied with.
  template <u32 FRAGMENTS, u32 SUMS>
  DEVICE_MEMBER f32 weigh(f32 (&scores)[FRAGMENTS][SUMS], f32 factor) {
    const f32 correction = rise(largest(scores, factor));
    make_weights(scores, factor);
    return correction;
  }

  // Where nothing was seen there is nothing to correct either.
  static DEVICE_MEMBER f32 base(f32 found) { return found == no_score() ? 0.0f : found; }

  // The sum of the weights of all lanes that share the column.
  DEVICE_MEMBER f32 whole() const {
    f32 sum = total;
    UNROLL for (u32 apart = 16; apart < LANES; apart *= 2) sum += shuffle_xor(sum, apart);
    return sum;
  }
};

// A lane's weights of a fragment of 16 keys as the second product takes them. One that is no number stays one,
// unless the upper bits of its mantissa are all set: no test of it is needed here.
template <class In, u32 SUMS> DEVICE void pack_weights(u32* to, const f32 (&weights)[SUMS]) {
  if constexpr (sizeof(In) == 2) {
    UNROLL for (u32 i = 0; i < SUMS; i += 2) {
      to[i / 2] = narrow_numbers(weights[i], weights[i + 1], In());
    }
  } else {
    UNROLL for (u32 i = 0; i < SUMS; i += 4) {
      const f32 four[4] = {weights[i], weights[i + 1], weights[i + 2], weights[i + 3]};
      to[i / 4] = narrow_four(four, In());
    }
  }
}

template <u32 COUNT, u32 SUMS> DEVICE void multiply_sums(f32 (&sums)[COUNT][SUMS], f32 correction) {
  UNROLL for (u32 d = 0; d < COUNT; d++) {
    UNROLL for (u32 i = 0; i < SUMS; i++) sums[d][i] *= correction;
  }
}

// How an element type's second product takes weights: TOGETHER fragments of 16 keys by one call of
// `multiply_chunks`, WORDS of each from a lane, CHUNKS of 16 bytes in all.
template <class T> struct Taken {
  using In = typename T::In;
  static constexpr u32 CHUNKS = chunks_together<T>(), WORDS = T::SUMS * sizeof(In) / 4;
  static constexpr u32 TOGETHER = 4 * CHUNKS / WORDS;
  static_assert(T::GROUPS * T::SUMS == 16 && T::RUN == T::SUMS, "a lane has keys that follow each other");
  static_assert(T::GROUPS * 16 == LANES, "lanes of this generation");

  // Where a lane's words for the second product have the four keys from 4 `four` on.
  static DEVICE_MEMBER u32 part(u32 four) { return four / 4 / TOGETHER; }
  static DEVICE_MEMBER u32 group(u32 four) { return four % 4 * 4 / T::SUMS; }
  static DEVICE_MEMBER u32 word(u32 four) {
    return four / 4 % TOGETHER * WORDS + four % 4 * 4 % T::SUMS * sizeof(In) / 4;
  }
};

}  // namespace
