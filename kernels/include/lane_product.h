// Matrix products by fragments in the registers of a wave, for all of AMD's generations. Rows of A,
// B and C must be multiples of 16 bytes; m, n and k are free otherwise.
//
// 8 waves, 2 down and 4 across, make a tile. Along k, 64 bytes of each row (128 where instructions
// take so many) are a stage; one stage is multiplied while the next is in shared memory and the one
// after it on its way to registers. B is turned on its way into shared memory, so that both operands
// lie there along k. The right operand of an instruction is A: its lanes then have sums of one row
// of C that follow each other.
//
// On CDNA half of the waves are one barrier behind the others, so that on each SIMD one wave
// multiplies while the other loads; multiplying goes first. No wave only loads: registers cannot be
// given to others there.
#pragma once
#include "lane_fragments.h"
#include "params.h"
#include "tiles.h"

namespace {

CONSTANT u32 GROUP = 8;

// Work goes to dies in turn, each with a cache of its own: indexes are exchanged so that a die's are
// neighbours. What is left over stays where it is.
DEVICE u32 index_on_die(u32 index, u32 count, u32 dies) {
  const u32 each = count / dies;
  return index < each * dies ? index % dies * each + index / dies : index;
}

// The tile and the ways of a generation with an element type.
template <class T, u32 DOWN_COUNT, u32 ACROSS_COUNT, bool ALTERNATE, u32 DIE_COUNT> struct Shape {
  using In = typename T::In;
  static constexpr u32 DIES = DIE_COUNT;
  static constexpr bool ALTERNATES = ALTERNATE;
  static constexpr u32 THREADS = 8 * LANES;
  static constexpr u32 BYTES = sizeof(In);
  // Fragments of a wave, and rows and columns of a tile.
  static constexpr u32 DOWN = DOWN_COUNT, ACROSS = ACROSS_COUNT;
  static constexpr u32 ROWS = 2 * 16 * DOWN, COLUMNS = 4 * 16 * ACROSS;
  static constexpr u32 STAGE_BYTES = bytes_together<T>() > 64 ? bytes_together<T>() : 64;
  static constexpr u32 CHUNKS = STAGE_BYTES / 16;
  static constexpr u32 DEPTH = STAGE_BYTES / BYTES;
  static constexpr u32 STEPS = STAGE_BYTES / bytes_together<T>();
  static constexpr u32 TOGETHER = chunks_together<T>();
  // 16-byte places of a stage.
  static constexpr u32 STAGE = (ROWS + COLUMNS) * CHUNKS;
  static constexpr u32 FETCHED_A = ROWS * CHUNKS / THREADS;
  // A piece of B that is turned: rows along k, and columns.
  static constexpr u32 PIECE_ROWS = BYTES == 8 ? 2 : 4;
  static constexpr u32 PIECE_COLUMNS = BYTES == 1 ? 8 : BYTES == 2 ? 4 : 2;
  static constexpr u32 PIECE_WORDS = PIECE_COLUMNS * BYTES / 4;
  static constexpr u32 PIECES = DEPTH * COLUMNS / (PIECE_ROWS * PIECE_COLUMNS) / THREADS;
  static constexpr u32 FETCHED_B =
      T::BY_COLUMNS ? COLUMNS * CHUNKS / THREADS * 4 : PIECES * PIECE_ROWS * PIECE_WORDS;
};

using Place = Vector<u32>;

// Where a chunk of a row is in a stage: exchanged by the row's number, so that lanes of neighbouring
// rows meet no bank twice.
template <class S> DEVICE u32 place(u32 row, u32 chunk) {
  const u32 exchanged = S::CHUNKS == 4 ? row / 2 % 4 : row % S::CHUNKS;
  return row * S::CHUNKS + (chunk ^ exchanged);
}

// A chunk of rows along k; zeros where there is none.
DEVICE void fetch_chunk(u32 (&to)[4], const void* matrix, u32 row, u32 rows, u64 byte, u64 bytes) {
  if (row < rows && byte < bytes) {
    get_words(to, static_cast<const u8*>(matrix) + (row * bytes + byte));
  } else {
    UNROLL for (u32 i = 0; i < 4; i++) to[i] = 0;
  }
}

// One thread's share of a stage, on its way.
template <class T, class S> struct Fetched {
  u32 a[S::FETCHED_A][4];
  u32 b[S::FETCHED_B];

  DEVICE_MEMBER void fetch(const GemmParams& p, Tile tile, u32 step) {
    fetch_a(p, tile, step);
    fetch_b(p, tile, step);
  }

  DEVICE_MEMBER void fetch_a(const GemmParams& p, Tile tile, u32 step) {
    const u64 bytes = u64(p.k) * S::BYTES, first = u64(step) * S::STAGE_BYTES;
    UNROLL for (u32 i = 0; i < S::FETCHED_A; i++) {
      const u32 chunk = i * S::THREADS + thread_index();
      const u32 row = tile.row * S::ROWS + chunk / S::CHUNKS;
      fetch_chunk(a[i], p.a, row, p.m, first + chunk % S::CHUNKS * 16, bytes);
    }
  }

  // COUNTED: loads are made in any case, for whoever counts them.
  template <bool COUNTED = false>
  DEVICE_MEMBER void fetch_b(const GemmParams& p, Tile tile, u32 step) {
    const u64 bytes = u64(p.k) * S::BYTES, first = u64(step) * S::STAGE_BYTES;
    if constexpr (T::BY_COLUMNS) {
      UNROLL for (u32 i = 0; i < S::FETCHED_B / 4; i++) {
        const u32 chunk = i * S::THREADS + thread_index();
        const u32 column = tile.column * S::COLUMNS + chunk / S::CHUNKS;
        u32 got[4];
        fetch_chunk(got, p.b, column, p.n, first + chunk % S::CHUNKS * 16, bytes);
        UNROLL for (u32 w = 0; w < 4; w++) b[i * 4 + w] = got[w];
      }
    } else {
      fetch_turned<COUNTED>(p, tile, step * S::DEPTH);
    }
  }

  // Column and row along k, within a stage, of a thread's piece.
  static DEVICE_MEMBER u32 piece_column(u32 piece) {
    const u32 at = piece * S::THREADS + thread_index();
    return at % (S::COLUMNS / S::PIECE_COLUMNS) * S::PIECE_COLUMNS;
  }
  static DEVICE_MEMBER u32 piece_row(u32 piece) {
    const u32 at = piece * S::THREADS + thread_index();
    return at / (S::COLUMNS / S::PIECE_COLUMNS) * S::PIECE_ROWS;
  }

  template <bool COUNTED> DEVICE_MEMBER void fetch_turned(const GemmParams& p, Tile tile, u32 k_first) {
    UNROLL for (u32 piece = 0; piece < S::PIECES; piece++) {
      const u32 column = tile.column * S::COLUMNS + piece_column(piece);
      UNROLL for (u32 r = 0; r < S::PIECE_ROWS; r++) {
        const u32 k = k_first + piece_row(piece) + r;
        const bool there = k < p.k && column < p.n;
        u32 got[S::PIECE_WORDS] = {};
        if (COUNTED || there) {
          const u64 at = there ? u64(k) * p.n + column : 0;
          get_words(got, static_cast<const u8*>(p.b) + at * S::BYTES);
        }
        UNROLL for (u32 w = 0; w < S::PIECE_WORDS; w++) {
          b[(piece * S::PIECE_ROWS + r) * S::PIECE_WORDS + w] = !COUNTED || there ? got[w] : 0;
        }
      }
    }
  }

  DEVICE_MEMBER void keep(Place* stage) const {
    keep_a(stage);
    keep_b(stage);
  }

  DEVICE_MEMBER void keep_a(Place* stage) const {
    UNROLL for (u32 i = 0; i < S::FETCHED_A; i++) {
      const u32 chunk = i * S::THREADS + thread_index();
      write_shared(stage[place<S>(chunk / S::CHUNKS, chunk % S::CHUNKS)], 0, a[i]);
    }
  }

  DEVICE_MEMBER void keep_b(Place* stage) const {
    Place* columns = stage + S::ROWS * S::CHUNKS;
    if constexpr (T::BY_COLUMNS) {
      UNROLL for (u32 i = 0; i < S::FETCHED_B / 4; i++) {
        const u32 chunk = i * S::THREADS + thread_index();
        u32 got[4];
        UNROLL for (u32 w = 0; w < 4; w++) got[w] = b[i * 4 + w];
        write_shared(columns[place<S>(chunk / S::CHUNKS, chunk % S::CHUNKS)], 0, got);
      }
    } else {
      UNROLL for (u32 piece = 0; piece < S::PIECES; piece++) keep_turned(columns, piece);
    }
  }

  DEVICE_MEMBER void keep_turned(Place* columns, u32 piece) const {
    constexpr u32 WORDS = S::PIECE_ROWS * S::BYTES / 4;
    const u32 byte = piece_row(piece) * S::BYTES;
    UNROLL for (u32 c = 0; c < S::PIECE_COLUMNS; c++) {
      u32 turned[WORDS] = {};
      UNROLL for (u32 r = 0; r < S::PIECE_ROWS; r++) {
        const u32* row = b + (piece * S::PIECE_ROWS + r) * S::PIECE_WORDS;
        if constexpr (S::BYTES < 4) {
          const u32 bits = 8 * S::BYTES, mask = (1u << bits) - 1;
          const u32 value = row[c * S::BYTES / 4] >> (c * bits % 32) & mask;
          turned[r * S::BYTES / 4] |= value << (r * bits % 32);
        } else {
          constexpr u32 EACH = S::BYTES / 4;
          UNROLL for (u32 w = 0; w < EACH; w++) turned[r * EACH + w] = row[c * EACH + w];
        }
      }
      write_shared(columns[place<S>(piece_column(piece) + c, byte / 16)], byte % 16 / 4, turned);
    }
  }
};

// Fragments of one step along k, of rows (or columns) from `first` on.
template <class T, class S, u32 COUNT>
DEVICE void load(u32 (&to)[COUNT][4 * S::TOGETHER], const Place* rows, u32 first, u32 step) {
  const u32 lane = lane_index();
  UNROLL for (u32 i = 0; i < COUNT; i++) {
    UNROLL for (u32 c = 0; c < S::TOGETHER; c++) {
      const u32 chunk = (step * S::TOGETHER + c) * T::GROUPS + lane / 16 % T::GROUPS;
      u32 got[4];
      read_shared(got, rows[place<S>(first + i * 16 + lane % 16, chunk)]);
      UNROLL for (u32 w = 0; w < 4; w++) to[i][c * 4 + w] = got[w];
    }
  }
}

template <class T, class S> struct Fragments {
  u32 a[S::DOWN][4 * S::TOGETHER], b[S::ACROSS][4 * S::TOGETHER];

  DEVICE_MEMBER void take(const Place* stage, u32 step) {
    const u32 wave = wave_index();
    load<T, S>(a, stage, wave / 4 * 16 * S::DOWN, step);
    load<T, S>(b, stage + S::ROWS * S::CHUNKS, wave % 4 * 16 * S::ACROSS, step);
  }
  DEVICE_MEMBER void multiply(typename T::Sum (&sums)[S::DOWN][S::ACROSS][T::SUMS]) const {
    UNROLL for (u32 i = 0; i < S::DOWN; i++) {
      UNROLL for (u32 j = 0; j < S::ACROSS; j++) multiply_chunks<T>(sums[i][j], b[j], a[i]);
    }
  }
};

// Values that follow each other, as words.
DEVICE void pack(u32 (&to)[1], const f32 (&from)[1], f32) { to[0] = bits_of(from[0]); }
DEVICE void pack(u32 (&to)[1], const i32 (&from)[1], i32) { to[0] = u32(from[0]); }
template <u32 COUNT> DEVICE void pack(u32 (&to)[COUNT], const f32 (&from)[COUNT], f32) {
  UNROLL for (u32 i = 0; i < COUNT; i++) to[i] = bits_of(from[i]);
}
template <u32 COUNT> DEVICE void pack(u32 (&to)[COUNT], const i32 (&from)[COUNT], i32) {
  UNROLL for (u32 i = 0; i < COUNT; i++) to[i] = u32(from[i]);
}
template <u32 COUNT, class Half> DEVICE void pack(u32 (&to)[COUNT], const f32 (&from)[2 * COUNT],
                                                  Half type) {
  UNROLL for (u32 i = 0; i < COUNT; i++) to[i] = narrow_pair(from[2 * i], from[2 * i + 1], type);
}

template <class T, class S>
DEVICE void leave(const GemmParams& p, Tile tile,
                  typename T::Sum (&sums)[S::DOWN][S::ACROSS][T::SUMS]) {
  using Out = typename T::Out;
  const u32 lane = lane_index(), wave = wave_index();
  UNROLL for (u32 i = 0; i < S::DOWN; i++) {
    in_order();
    const u32 row = tile.row * S::ROWS + (wave / 4 * S::DOWN + i) * 16 + lane % 16;
    Out* to = static_cast<Out*>(p.c) + u64(row) * p.n;
    UNROLL for (u32 j = 0; j < S::ACROSS; j++) {
      const u32 first = tile.column * S::COLUMNS + (wave % 4 * S::ACROSS + j) * 16;
      UNROLL for (u32 s = 0; s < T::SUMS; s += T::RUN) {
        const u32 column = first + T::row(lane, s);
        if (row >= p.m || column >= p.n) continue;
        if constexpr (T::RUN == 1) {
          to[column] = narrow(typename T::Sum(T::FACTOR * sums[i][j][s]), Out());
        } else {
          // As many as one store takes: RUN of 2 bytes, or 4 of 4.
          constexpr u32 WORDS = T::RUN * sizeof(Out) / 4 > 4 ? 4 : T::RUN * sizeof(Out) / 4;
          constexpr u32 AT_ONCE = WORDS * 4 / sizeof(Out);
          UNROLL for (u32 part = 0; part < T::RUN; part += AT_ONCE) {
            if (column + part >= p.n) continue;
            typename T::Sum values[AT_ONCE];
            UNROLL for (u32 v = 0; v < AT_ONCE; v++) {
              values[v] = T::FACTOR * sums[i][j][s + part + v];
            }
            u32 words[WORDS];
            pack(words, values, Out());
            put_words(reinterpret_cast<u8*>(to + column + part), words);
          }
        }
      }
    }
  }
}

// What a multiplication takes beside the fragments of a step: here nothing. It is told of each step
// when the one before was multiplied.
template <class T, class S> struct Alone {
  DEVICE_MEMBER Alone(const GemmParams&, Tile) {}
  DEVICE_MEMBER void fetch(u32) {}
  DEVICE_MEMBER void multiply(const Fragments<T, S>& fragments,
                              typename T::Sum (&sums)[S::DOWN][S::ACROSS][T::SUMS]) {
    fragments.multiply(sums);
  }
};

// The stages of one tile, half of the waves a barrier behind.
template <class T, class S, class Beside>
DEVICE void multiply_alternating(const GemmParams& p, Tile tile, u32 steps, Place* stages,
                                 Fetched<T, S>& fetched, Beside& beside,
                                 typename T::Sum (&sums)[S::DOWN][S::ACROSS][T::SUMS]) {
  static_assert(S::STEPS == 1, "all fragments of a stage are loaded at once");
  const bool late = wave_index() >= 4;
  if (late) block_barrier();
  for (u32 step = 0; step < steps; step++) {
    Fragments<T, S> fragments;
    fragments.take(stages + step % 2 * S::STAGE, 0);
    if (step + 1 < steps) fetched.keep(stages + (step + 1) % 2 * S::STAGE);
    if (step + 2 < steps) fetched.fetch(p, tile, step + 2);
    block_barrier();
    go_first();
    beside.multiply(fragments, sums);
    if (step + 1 < steps) beside.fetch(step + 1);
    go_as_others();
    block_barrier();
  }
  if (!late) block_barrier();
}

// The same, all waves together.
template <class T, class S>
DEVICE void multiply_together(const GemmParams& p, Tile tile, u32 steps, Place* stages,
                              Fetched<T, S>& fetched,
                              typename T::Sum (&sums)[S::DOWN][S::ACROSS][T::SUMS]) {
  for (u32 step = 0; step < steps; step++) {
    if (step + 1 < steps) fetched.keep(stages + (step + 1) % 2 * S::STAGE);
    if (step + 2 < steps) fetched.fetch(p, tile, step + 2);
    UNROLL for (u32 part = 0; part < S::STEPS; part++) {
      Fragments<T, S> fragments;
      fragments.take(stages + step % 2 * S::STAGE, part);
      fragments.multiply(sums);
    }
    block_barrier();
  }
}

template <class T, class S, class Beside = Alone<T, S>> DEVICE void product(const GemmParams& p) {
  SHARED Place stages[2 * S::STAGE];
  const u32 rows = tiles_along(p.m, S::ROWS), columns = tiles_along(p.n, S::COLUMNS);
  const u32 steps = tiles_along(p.k, S::DEPTH);
  for (u32 index = block_index(); index < rows * columns; index += block_count()) {
    const Tile tile = tile_at<GROUP>(index_on_die(index, rows * columns, S::DIES), rows, columns);
    Fetched<T, S> fetched;
    fetched.fetch(p, tile, 0);
    fetched.keep(stages);
    if (steps > 1) fetched.fetch(p, tile, 1);
    typename T::Sum sums[S::DOWN][S::ACROSS][T::SUMS] = {};
    block_barrier();
    if constexpr (S::ALTERNATES) {
      Beside beside(p, tile);
      beside.fetch(0);
      multiply_alternating<T, S>(p, tile, steps, stages, fetched, beside, sums);
    } else {
      multiply_together<T, S>(p, tile, steps, stages, fetched, sums);
    }
    leave<T, S>(p, tile, sums);
  }
}

}  // namespace
