// Matrix products by fragments in the registers of a wave, for all of AMD's generations. Rows of A,
// B and C must be multiples of 16 bytes; m, n and k are free otherwise, as long as 128 rows of A or
// columns of B, and a stage's rows of B, are less than 4 GiB.
//
// 8 waves, 2 down and 4 across, make a tile. Along k, 64 bytes of each row (128 where instructions
// take so many) are a stage; one stage is multiplied while the next is in shared memory and the one
// or two after it on their way to registers. B is turned on its way into shared memory, so that both
// operands lie there along k. The right operand of an instruction is A: its lanes then have sums of one row
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
template <class T, u32 DOWN_COUNT, u32 ACROSS_COUNT, bool ALTERNATE, u32 DIE_COUNT,
          u32 AHEAD_COUNT = 1>
struct Shape {
  using In = typename T::In;
  // The same with half of the rows, whose sums leave registers for more stages.
  using Half = Shape<T, DOWN_COUNT / 2, ACROSS_COUNT, ALTERNATE, DIE_COUNT, AHEAD_MOST>;
  // Stages on their way to registers.
  static constexpr u32 AHEAD = AHEAD_COUNT;
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
  // Loads of a thread, and their words.
  static constexpr u32 FETCHED_B = T::BY_COLUMNS ? COLUMNS * CHUNKS / THREADS : PIECES * PIECE_ROWS;
  static constexpr u32 WORDS_B = T::BY_COLUMNS ? 4 : PIECE_WORDS;
  // So many columns of B beside each other are in as many fragments of a wave, so that columns of
  // pieces beside each other, which lanes write at once, are neighbours in a fragment.
  static constexpr u32 BESIDE =
      T::BY_COLUMNS ? 1 : PIECE_COLUMNS < ACROSS ? PIECE_COLUMNS : ACROSS;
  // Which row of B's part of a stage a piece's first column is; the next is 16 rows further.
  static DEVICE_MEMBER u32 row_of(u32 column) {
    constexpr u32 TOGETHER = 16 * BESIDE;
    return column - column % TOGETHER + column % BESIDE * 16 + column % TOGETHER / BESIDE;
  }
  // Pieces of the lanes that write 128 bytes, all banks, at once.
  static constexpr u32 IN_FRAGMENT = 16 * BESIDE / PIECE_COLUMNS;
  static constexpr u32 PIECES_BESIDE = IN_FRAGMENT < 8 ? IN_FRAGMENT : 8;
  static constexpr u32 PIECES_BELOW = 128 / (PIECE_ROWS * BYTES) / PIECES_BESIDE;
  static constexpr u32 GROUPS_BESIDE = COLUMNS / PIECE_COLUMNS / PIECES_BESIDE;
};

// The same element type with B column by column (layout nt).
template <class T> struct ByColumns : T {
  static constexpr bool BY_COLUMNS = true;
};

using Place = Vector<u32>;

// Where a chunk of a stage is; 16 rows further everything is the same.
template <class S> DEVICE u32 place(u32 row, u32 chunk) {
  return exchanged(row * S::CHUNKS + chunk);
}

// The rows of a tile, of `bytes` each: `count` from `first` on, of which there are `all`.
DEVICE Source rows_of(const void* matrix, u32 first, u32 count, u32 all, u32 bytes) {
  // By signed numbers: an unsigned difference that ends at zero is a vector instruction's.
  const i32 left = i32(all) - i32(first), there = left < 0 ? 0 : left < i32(count) ? left : i32(count);
  return {static_cast<const u8*>(matrix) + u64(first) * bytes, u32(there) * bytes};
}
// Those of which the threads of a block have a chunk each, the `i`th of a tile that begins with `first`.
template <class S>
DEVICE Source rows_of(const void* matrix, u32 first, u32 i, u32 all, u32 bytes) {
  constexpr u32 COUNT = S::THREADS / S::CHUNKS;
  return rows_of(matrix, first + i * COUNT, COUNT, all, bytes);
}
// Where a chunk of a stage begins among the bytes of such rows; nowhere where it is behind their end.
template <class S> DEVICE u32 byte_of(u32 chunk, u32 step, u32 bytes) {
  const u32 byte = step * S::STAGE_BYTES + chunk % S::CHUNKS * 16;
  return byte < bytes ? chunk / S::CHUNKS * bytes + byte : NOWHERE;
}

// One thread's share of a stage, on its way.
template <class T, class S> struct Fetched {
  LoadedWords<4> a[S::FETCHED_A];
  LoadedWords<S::WORDS_B> b[S::FETCHED_B];

  DEVICE_MEMBER void fetch(const GemmParams& p, Tile tile, u32 step) {
    fetch_a(p, tile, step);
    fetch_b(p, tile, step);
  }

  DEVICE_MEMBER void fetch_a(const GemmParams& p, Tile tile, u32 step) {
    const u32 bytes = p.k * S::BYTES, byte = byte_of<S>(thread_index(), step, bytes);
    UNROLL for (u32 i = 0; i < S::FETCHED_A; i++) {
      get_words(a[i], rows_of<S>(p.a, tile.row * S::ROWS, i, p.m, bytes), byte);
    }
  }

  DEVICE_MEMBER void fetch_b(const GemmParams& p, Tile tile, u32 step) {
    if constexpr (T::BY_COLUMNS) {
      const u32 bytes = p.k * S::BYTES, byte = byte_of<S>(thread_index(), step, bytes);
      UNROLL for (u32 i = 0; i < S::FETCHED_B; i++) {
        get_words(b[i], rows_of<S>(p.b, tile.column * S::COLUMNS, i, p.n, bytes), byte);
      }
    } else {
      fetch_turned(p, tile, step * S::DEPTH);
    }
  }

  // Column and row along k, within a stage, of a thread's piece. Lanes that write at once have
  // PIECES_BESIDE pieces beside each other, and PIECES_BELOW below each other.
  static DEVICE_MEMBER u32 piece_column(u32 piece) {
    const u32 at = piece * S::THREADS + thread_index();
    const u32 group = at / (S::PIECES_BESIDE * S::PIECES_BELOW) % S::GROUPS_BESIDE;
    return (group * S::PIECES_BESIDE + at % S::PIECES_BESIDE) * S::PIECE_COLUMNS;
  }
  static DEVICE_MEMBER u32 piece_row(u32 piece) {
    const u32 at = piece * S::THREADS + thread_index();
    const u32 group = at / (S::PIECES_BESIDE * S::PIECES_BELOW) / S::GROUPS_BESIDE;
    return (group * S::PIECES_BELOW + at / S::PIECES_BESIDE % S::PIECES_BELOW) * S::PIECE_ROWS;
  }

  DEVICE_MEMBER void fetch_turned(const GemmParams& p, Tile tile, u32 k_first) {
    const u32 bytes = p.n * S::BYTES;
    const Source from = rows_of(p.b, k_first, S::DEPTH, p.k, bytes);
    UNROLL for (u32 piece = 0; piece < S::PIECES; piece++) {
      const u32 column = tile.column * S::COLUMNS + piece_column(piece);
      UNROLL for (u32 r = 0; r < S::PIECE_ROWS; r++) {
        const u32 byte = (piece_row(piece) + r) * bytes + column * S::BYTES;
        get_words(b[piece * S::PIECE_ROWS + r], from, column < p.n ? byte : NOWHERE);
      }
    }
  }

  DEVICE_MEMBER void keep(Place* stage) const {
    keep_a(stage);
    keep_b(stage);
  }

  DEVICE_MEMBER void keep_a(Place* stage) const {
    UNROLL for (u32 i = 0; i < S::FETCHED_A; i++) {
      keep_chunk(stage, i, a[i]);
    }
  }

  DEVICE_MEMBER void keep_b(Place* stage) const {
    Place* columns = stage + S::ROWS * S::CHUNKS;
    if constexpr (T::BY_COLUMNS) {
      UNROLL for (u32 i = 0; i < S::FETCHED_B; i++) keep_chunk(columns, i, b[i]);
    } else {
      UNROLL for (u32 piece = 0; piece < S::PIECES; piece++) keep_turned(columns, piece);
    }
  }

  static DEVICE_MEMBER void keep_chunk(Place* rows, u32 i, LoadedWords<4> chunk) {
    u32 words[4];
    UNROLL for (u32 w = 0; w < 4; w++) words[w] = chunk[w];
    write_shared(rows[exchanged(thread_index()) + i * S::THREADS], 0, words);
  }

  DEVICE_MEMBER void keep_turned(Place* columns, u32 piece) const {
    constexpr u32 WORDS = S::PIECE_ROWS * S::BYTES / 4;
    const u32 byte = piece_row(piece) * S::BYTES, row = S::row_of(piece_column(piece));
    UNROLL for (u32 c = 0; c < S::PIECE_COLUMNS; c++) {
      u32 turned[WORDS];
      turn<S::BYTES>(turned, c, [&](u32 row) { return b[piece * S::PIECE_ROWS + row]; });
      const u32 at = place<S>(row + c / S::BESIDE, byte / 16) + c % S::BESIDE * 16 * S::CHUNKS;
      write_shared(columns[at], byte % 16 / 4, turned);
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
      read_shared(got, rows[place<S>(lane % 16, chunk) + (first + i * 16) * S::CHUNKS]);
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
template <u32 COUNT> DEVICE void pack(u32 (&to)[COUNT], const f32 (&from)[COUNT], f32) {
  UNROLL for (u32 i = 0; i < COUNT; i++) to[i] = bits_of(from[i]);
}
template <u32 COUNT> DEVICE void pack(u32 (&to)[COUNT], const i32 (&from)[COUNT], i32) {
  UNROLL for (u32 i = 0; i < COUNT; i++) to[i] = u32(from[i]);
}
template <u32 COUNT> DEVICE void pack(u32 (&to)[2 * COUNT], const f64 (&from)[COUNT], f64) {
  __builtin_memcpy(to, from, sizeof(to));
}
template <u32 COUNT, class Half> DEVICE void pack(u32 (&to)[COUNT], const f32 (&from)[2 * COUNT],
                                                  Half type) {
  UNROLL for (u32 i = 0; i < COUNT; i++) to[i] = narrow_pair(from[2 * i], from[2 * i + 1], type);
}

template <class T, class S>
DEVICE void leave(const GemmParams& p, Tile tile,
                  typename T::Sum (&sums)[S::DOWN][S::ACROSS][T::SUMS]) {
  using Out = typename T::Out;
  // Columns that follow each other in a lane, and in one store.
  constexpr u32 RUN = T::RUN * S::BESIDE, MOST = 16 / sizeof(Out), AT_ONCE = RUN < MOST ? RUN : MOST;
  const u32 lane = lane_index(), wave = wave_index();
  UNROLL for (u32 i = 0; i < S::DOWN; i++) {
    in_order();
    const u32 row = tile.row * S::ROWS + (wave / 4 * S::DOWN + i) * 16 + lane % 16;
    Out* to = static_cast<Out*>(p.c) + u64(row) * p.n;
    UNROLL for (u32 j = 0; j < S::ACROSS; j += S::BESIDE) {
      const u32 first = tile.column * S::COLUMNS + (wave % 4 * S::ACROSS + j) * 16;
      UNROLL for (u32 s = 0; s < T::SUMS; s += T::RUN) {
        UNROLL for (u32 part = 0; part < RUN; part += AT_ONCE) {
          const u32 column = first + T::row(lane, s) * S::BESIDE + part;
          if (row >= p.m || column >= p.n) continue;
          typename T::Sum values[AT_ONCE];
          UNROLL for (u32 v = 0; v < AT_ONCE; v++) {
            const u32 at = part + v;
            values[v] = T::FACTOR * sums[i][j + at % S::BESIDE][s + at / S::BESIDE];
          }
          u32 words[AT_ONCE * sizeof(Out) / 4];
          pack(words, values, Out());
          put_words(reinterpret_cast<u8*>(to + column), words);
        }
      }
    }
  }
}

// What a multiplication takes beside the fragments of a step: here nothing. It is told of the step to
// come when one was multiplied; there are as many as stages on their way.
template <class T, class S> struct Alone {
  DEVICE_MEMBER void start(const GemmParams&, Tile) {}
  DEVICE_MEMBER void fetch(u32) {}
  DEVICE_MEMBER void multiply(const Fragments<T, S>& fragments,
                              typename T::Sum (&sums)[S::DOWN][S::ACROSS][T::SUMS]) {
    fragments.multiply(sums);
  }
};

// Which stages of a tile are made: all from the first on. Behind the last one there are zeros.
struct AllStages {
  u32 count;
  DEVICE_MEMBER u32 at(u32 step) const { return step; }
};

// The stages of one tile, half of the waves a barrier behind.
template <class T, class S, class Beside, class Stages>
DEVICE void multiply_alternating(const GemmParams& p, Tile tile, Stages which, Place* stages,
                                 Fetched<T, S> (&fetched)[S::AHEAD], Beside (&beside)[S::AHEAD],
                                 typename T::Sum (&sums)[S::DOWN][S::ACROSS][T::SUMS]) {
  static_assert(S::STEPS == 1, "all fragments of a stage are loaded at once");
  const bool late = of_wave(wave_index()) >= 4;
  if (late) shared_barrier();
  // `next` has the next stage, and is given the one that is then to be sent for.
  const auto turn = [&](u32 step, Fetched<T, S>& next, Beside& beside) {
    Fragments<T, S> fragments;
    fragments.take(stages + step % 2 * S::STAGE, 0);
    // Fragments come first: what is kept may still be on its way. All of it is waited for before the
    // next loads begin, of which none is then waited for. Behind the last stage there are zeros: with a
    // way around these loads, waits behind them would have to be as long as if they were not made.
    in_order();
    next.keep(stages + (step + 1) % 2 * S::STAGE);
    in_order();
    next.fetch(p, tile, which.at(step + 1 + S::AHEAD));
    shared_barrier();
    go_first();
    beside.multiply(fragments, sums);
    beside.fetch(step + S::AHEAD);
    go_as_others();
    shared_barrier();
  };
  // The last of these may be of zeros alone: a way around it would make waits longer.
  for (u32 step = 0; step < which.count; step += S::AHEAD) {
    UNROLL for (u32 ahead = 0; ahead < S::AHEAD; ahead++) {
      turn(step + ahead, fetched[ahead], beside[ahead]);
    }
  }
  if (!late) shared_barrier();
}

// The same, all waves together.
template <class T, class S>
DEVICE void multiply_together(const GemmParams& p, Tile tile, u32 steps, Place* stages,
                              Fetched<T, S> (&fetched)[S::AHEAD],
                              typename T::Sum (&sums)[S::DOWN][S::ACROSS][T::SUMS]) {
  const auto turn = [&](u32 step, Fetched<T, S>& next) {
    in_order();
    next.keep(stages + (step + 1) % 2 * S::STAGE);
    in_order();
    next.fetch(p, tile, step + 1 + S::AHEAD);
    in_order();
    UNROLL for (u32 part = 0; part < S::STEPS; part++) {
      Fragments<T, S> fragments;
      fragments.take(stages + step % 2 * S::STAGE, part);
      fragments.multiply(sums);
    }
    shared_barrier();
  };
  for (u32 step = 0; step < steps; step += S::AHEAD) {
    UNROLL for (u32 ahead = 0; ahead < S::AHEAD; ahead++) turn(step + ahead, fetched[ahead]);
  }
}

// Sends for the first stages of a tile, and keeps the first one.
template <class T, class S, class Stages>
DEVICE void send_first(const GemmParams& p, Tile tile, Stages which, Place* stages,
                  Fetched<T, S> (&fetched)[S::AHEAD]) {
  fetched[0].fetch(p, tile, which.at(0));
  fetched[0].keep(stages);
  UNROLL for (u32 ahead = 0; ahead < S::AHEAD; ahead++) {
    in_order();
    fetched[ahead].fetch(p, tile, which.at(1 + ahead));
  }
}

template <class T, class S, class Beside = Alone<T, S>>
DEVICE void make_tile(const GemmParams& p, Tile tile, Place* stages) {
  const u32 steps = tiles_along(p.k, S::DEPTH);
  Fetched<T, S> fetched[S::AHEAD];
  send_first(p, tile, AllStages{steps}, stages, fetched);
  typename T::Sum sums[S::DOWN][S::ACROSS][T::SUMS] = {};
  shared_barrier();
  if constexpr (S::ALTERNATES) {
    Beside beside[S::AHEAD];
    UNROLL for (u32 ahead = 0; ahead < S::AHEAD; ahead++) {
      in_order();
      beside[ahead].start(p, tile);
      beside[ahead].fetch(ahead);
    }
    multiply_alternating<T, S>(p, tile, AllStages{steps}, stages, fetched, beside, sums);
  } else {
    multiply_together<T, S>(p, tile, steps, stages, fetched, sums);
  }
  leave<T, S>(p, tile, sums);
}

template <class T, class S, class Beside = Alone<T, S>> DEVICE void product(const GemmParams& p) {
  SHARED Place stages[2 * S::STAGE];
  const u32 rows = tiles_along(p.m, S::ROWS), columns = tiles_along(p.n, S::COLUMNS);
  const u32 tiles = rows * columns, blocks = block_count(), rest = tiles % blocks;
  const auto tile = [&](u32 index) {
    return tile_at<GROUP>(index_on_die(index, tiles, S::DIES), rows, columns);
  };
  // Tiles of a last round that leaves half of the blocks without any are divided between two each.
  constexpr bool DIVIDES = S::ALTERNATES && S::DOWN == 8;
  const u32 whole = DIVIDES && 2 * rest <= blocks ? tiles - rest : tiles;
  for (u32 index = block_index(); index < whole; index += blocks) {
    make_tile<T, S, Beside>(p, tile(index), stages);
  }
  if constexpr (DIVIDES) {
    const u32 half = block_index();
    if (half >= 2 * (tiles - whole)) return;
    const Tile of = tile(whole + half / 2);
    make_tile<T, typename S::Half>(p, {of.row * 2 + half % 2, of.column}, stages);
  }
}

}  // namespace
