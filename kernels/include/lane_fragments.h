// How AMD's generations lay fragments over a wave's lanes, and what differs between element types:
// what products and peaks are made of. All instructions make 16 x 16 sums.
//
// A lane takes 16 bytes of a row at a time. Both operands' elements come along k in the same order,
// so that it does not matter which of them an instruction takes for which k.
#pragma once
#include "lanes.h"

// CDNA: four groups of lanes share a row. A lane has four sums, of rows that follow each other.
struct Cdna {
  static constexpr u32 GROUPS = 4, SUMS = 4, RUN = 4;
  static DEVICE_MEMBER u32 row(u32 lane, u32 sum) { return lane / 16 * 4 + sum; }
};
// Of f64 every fourth row is a lane's.
struct CdnaDouble {
  static constexpr u32 GROUPS = 4, SUMS = 4, RUN = 1;
  static DEVICE_MEMBER u32 row(u32 lane, u32 sum) { return lane / 16 + sum * 4; }
};
// RDNA 3: every lane has a whole row, two lanes the same.
struct Rdna3 {
  static constexpr u32 GROUPS = 1, SUMS = 8, RUN = 1;
  static DEVICE_MEMBER u32 row(u32 lane, u32 sum) { return lane / 16 + sum * 2; }
};
// RDNA 4: two groups share a row.
struct Rdna4 {
  static constexpr u32 GROUPS = 2, SUMS = 8, RUN = 8;
  static DEVICE_MEMBER u32 row(u32 lane, u32 sum) { return lane / 16 * 8 + sum; }
};
// CDNA 5: the same.
using Cdna5 = Rdna4;

// An element type on a generation. `WORDS`: of a lane, for one instruction. `FACTOR`: what sums are
// multiplied by in the end.
template <class Generation, class InType, class SumType, class OutType, u32 WORD_COUNT>
struct Lanes : Generation {
  using In = InType;
  using Sum = SumType;
  using Out = OutType;
  static constexpr u32 WORDS = WORD_COUNT;
  // Whether B comes column by column, as weights of 8 bits and less are kept.
  static constexpr bool BY_COLUMNS = false;
  static constexpr u32 FACTOR = 1;
};

// Chunks of 16 bytes of a lane that instructions take together.
template <class T> DEVICE constexpr u32 chunks_together() {
  return T::WORDS > 4 ? T::WORDS / 4 : 1;
}
// Bytes along k that one call of `multiply_chunks` multiplies.
template <class T> DEVICE constexpr u32 bytes_together() {
  return chunks_together<T>() * 16 * T::GROUPS;
}

// Where chunks of rows of 64 or 128 bytes stand in shared memory, counted along rows: those of 128 bytes,
// which are all of its banks, are exchanged by the number of these 128 bytes, so that lanes of
// neighbouring rows meet no bank twice. What is exchanged twice is where it was.
DEVICE u32 exchanged(u32 chunk) { return chunk ^ chunk / 8 % 8; }

// Words of shared memory, 16 bytes at a time: `place(i)` is where the i-th chunk stands.
template <u32 WORDS, class Place> DEVICE void read_chunks(u32 (&to)[WORDS], Place place) {
  UNROLL for (u32 chunk = 0; chunk < WORDS / 4; chunk++) {
    u32 got[4];
    read_shared(got, place(chunk));
    UNROLL for (u32 w = 0; w < 4; w++) to[4 * chunk + w] = got[w];
  }
}

template <class T>
DEVICE void multiply_chunks(typename T::Sum (&sums)[T::SUMS],
                            const u32 (&left)[4 * chunks_together<T>()],
                            const u32 (&right)[4 * chunks_together<T>()]) {
  UNROLL for (u32 first = 0; first < 4 * chunks_together<T>(); first += T::WORDS) {
    u32 a[T::WORDS], b[T::WORDS];
    UNROLL for (u32 i = 0; i < T::WORDS; i++) {
      a[i] = left[first + i];
      b[i] = right[first + i];
    }
    multiply(sums, a, b, typename T::In());
  }
}

// A column of rows that follow each other, as words along k; `row(i)` is the loaded words of row i, with
// elements of BYTES each.
template <u32 BYTES, u32 WORDS, class Row>
DEVICE void turn(u32 (&to)[WORDS], u32 column, Row row) {
  // The word of a row that has this column, or the column's words.
  const auto word = [&](u32 i, u32 at) { return row(i)[column * BYTES / 4 + at]; };
  UNROLL for (u32 w = 0; w < WORDS; w++) {
    if constexpr (BYTES == 1) {
      // Of two rows by turns the first two columns of a word, or the last two; then of both pairs one.
      const u32 half = column % 4 / 2 * 0x0202;
      const u32 low = bytes_of(word(4 * w + 1, 0), word(4 * w, 0), 0x05010400 + half * 0x10001);
      const u32 high = bytes_of(word(4 * w + 3, 0), word(4 * w + 2, 0), 0x05010400 + half * 0x10001);
      to[w] = bytes_of(high, low, column % 2 == 0 ? 0x05040100 : 0x07060302);
    } else if constexpr (BYTES == 2) {
      to[w] = bytes_of(word(2 * w + 1, 0), word(2 * w, 0), column % 2 == 0 ? 0x05040100 : 0x07060302);
    } else {
      constexpr u32 EACH = BYTES / 4;
      to[w] = word(w / EACH, w % EACH);
    }
  }
}
