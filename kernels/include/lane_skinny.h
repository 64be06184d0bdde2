// Matrix products of few rows on CDNA, as decoding makes them. What counts is that B, which is read
// once, arrives on all units at the speed of memory.
//
// A tile is 128 columns, 64 where B comes column by column, by 16, 32 or 64 rows: as many as there are,
// so that B comes from memory once and in whole lines. The 8 waves of a block share the dimension
// summed over: each has every eighth stage in registers of its own, one that is multiplied and one on
// its way, and waits for no other wave until the sums of a tile are added. No operand goes through
// shared memory: a lane loads neighbouring columns of as many rows of B as it has elements along k,
// and turns them itself. While the sums of a tile are added, the next tile's stages are on their way.
//
// Tiles stand on a line, of which each block has an equal stretch (stream_k.h): few columns fill the
// device too. Rows of A, B and C must be multiples of 16 bytes; a stage's rows of B, or 128 columns of it,
// less than 4 GiB.
//
// Two stages in registers are more than compilers before clang 19 (ROCm 6.3) have room for: there
// loads wait for each other (lanes.h), and registers may be spilled.
#pragma once
#include "lane_product.h"
#include "stream_k.h"

namespace {

CONSTANT u32 WAVES = 8;
// A stretch has at least this many stages, two for each wave: a shorter one costs more to add up than it saves.
CONSTANT u32 LEAST = 2 * WAVES;
// Stages of a wave in registers.
CONSTANT u32 KEPT = 2;
// Fragments of 16 rows of the tallest tile, and most columns of a tile.
CONSTANT u32 DOWN_MOST = 4;
CONSTANT u32 COLUMNS_MOST = 128;

template <class T, u32 DOWN_COUNT> struct Skinny {
  static constexpr u32 BYTES = sizeof(typename T::In), THREADS = WAVES * LANES;
  // Chunks of 16 bytes along k that a lane has of a row of A: two where B comes column by column, in
  // lines of 128 bytes. Chunks that instructions take together are a part.
  static constexpr u32 CHUNKS = T::BY_COLUMNS ? 2 : 1;
  static constexpr u32 EACH = chunks_together<T>(), PARTS = CHUNKS / EACH;
  static constexpr u32 STAGE_BYTES = CHUNKS * 16 * T::GROUPS, DEPTH = STAGE_BYTES / BYTES;
  // Fragments of 16 rows and of 16 columns. A lane has neighbouring columns, one of each fragment.
  static constexpr u32 DOWN = DOWN_COUNT, ACROSS = COLUMNS_MOST / 16 / CHUNKS;
  static constexpr u32 ROWS = 16 * DOWN, COLUMNS = 16 * ACROSS;
  // Rows of B, along k, of a lane; its loads of B and their words.
  static constexpr u32 DEEP = 16 / BYTES;
  static constexpr u32 LOADS = T::BY_COLUMNS ? ACROSS * PARTS : DEEP;
  static constexpr u32 WORDS = T::BY_COLUMNS ? 4 * EACH : ACROSS * BYTES / 4;
  // Sums of a tile are added in rounds of 16 rows and 4 fragments across, of which a thread has two
  // columns.
  static constexpr u32 ROUNDS = DOWN * ACROSS / 4;
};

// One wave's stage, on its way. The chunks of a part stand together in registers, so that they need not
// be moved to each other.
template <class T, class S> struct Taken {
  using Chunks = LoadedWords<4 * S::EACH>;
  Chunks a[S::DOWN * S::PARTS];
  LoadedWords<S::WORDS> b[S::LOADS];

  // A stage of a tile; zeros from `end` on.
  DEVICE_MEMBER void fetch(const GemmParams& p, Tile tile, u32 step, u32 end) {
    const u32 lane = lane_index(), bytes = p.k * S::BYTES, there = step < end ? bytes : 0;
    // Of rows of A, or of columns of B.
    const auto get = [&](Chunks& to, Source from, u32 row, u32 part) {
      LoadedWords<4> got[S::EACH];
      UNROLL for (u32 i = 0; i < S::EACH; i++) {
        const u32 chunk = (part * S::EACH + i) * T::GROUPS + lane / 16;
        const u32 byte = step * S::STAGE_BYTES + chunk * 16;
        get_words(got[i], from, byte < there ? row * bytes + byte : NOWHERE);
      }
      UNROLL for (u32 w = 0; w < 4 * S::EACH; w++) to[w] = got[w / 4][w % 4];
    };
    UNROLL for (u32 down = 0; down < S::DOWN; down++) {
      const Source from = rows_of(p.a, tile.row * S::ROWS + down * 16, 16, p.m, bytes);
      UNROLL for (u32 i = 0; i < S::PARTS; i++) get(a[down * S::PARTS + i], from, lane % 16, i);
    }
    if constexpr (T::BY_COLUMNS) {
      UNROLL for (u32 across = 0; across < S::ACROSS; across++) {
        const u32 first = tile.column * S::COLUMNS + across;
        const Source from = rows_of(p.b, first, S::COLUMNS - across, p.n, bytes);
        UNROLL for (u32 i = 0; i < S::PARTS; i++) {
          get(b[across * S::PARTS + i], from, lane % 16 * S::ACROSS, i);
        }
      }
    } else {
      const u32 column = tile.column * S::COLUMNS + lane % 16 * S::ACROSS, line = p.n * S::BYTES;
      const u32 byte = lane / 16 * S::DEEP * line + column * S::BYTES, all = step < end ? p.k : 0;
      UNROLL for (u32 i = 0; i < S::DEEP; i++) {
        const Source from = rows_of(p.b, step * S::DEPTH + i, S::DEPTH - i, all, line);
        get_words(b[i], from, column < p.n ? byte : NOWHERE);
      }
    }
  }

  DEVICE_MEMBER void multiply(typename T::Sum (&sums)[S::DOWN][S::ACROSS][T::SUMS]) const {
    constexpr u32 WORDS = 4 * S::EACH;
    UNROLL for (u32 part = 0; part < S::PARTS; part++) {
      UNROLL for (u32 across = 0; across < S::ACROSS; across++) {
        u32 columns[WORDS];
        if constexpr (T::BY_COLUMNS) {
          UNROLL for (u32 w = 0; w < WORDS; w++) columns[w] = b[across * S::PARTS + part][w];
        } else {
          turn<S::BYTES>(columns, across, [&](u32 i) { return b[i]; });
        }
        UNROLL for (u32 down = 0; down < S::DOWN; down++) {
          u32 rows[WORDS];
          UNROLL for (u32 w = 0; w < WORDS; w++) rows[w] = a[down * S::PARTS + part][w];
          multiply_chunks<T>(sums[down][across], columns, rows);
        }
      }
    }
  }
};

// Stages that a block has of a tile: from `step` to `end`; none behind its last tile.
struct Part {
  Tile tile;
  u32 step, end;
};
DEVICE Part part_of(const Line& line, const Stretch& now, u32 rows) {
  return {{now.index % rows, now.index / rows}, now.step, now.there(line) ? now.end : 0};
}

// What waves share of a tile's sums in a round: pairs of neighbouring columns. Lanes that write pairs of
// neighbouring rows, or read those of neighbouring columns, meet no bank twice.
using Shares = u32[WAVES][2][16 * 16][2];
DEVICE u32 place_of_pair(u32 row, u32 column) { return column * 16 + (row ^ column); }

// Which sums of a round a thread has: a pair of the columns that a lane loads, of a row and of the
// `column`th lane.
struct Share { u32 half, row, column; };
DEVICE Share share_of(u32 thread) { return {thread / 256, thread / 16 % 16, thread % 16}; }

// Adds what the waves have of a tile's sums.
template <class T, class S>
DEVICE void add_shares(typename T::Sum (&added)[S::ROUNDS][2], Shares& shares,
                       const typename T::Sum (&sums)[S::DOWN][S::ACROSS][T::SUMS], u32 thread) {
  const u32 lane = thread % LANES;
  const Share mine = share_of(thread);
  UNROLL for (u32 round = 0; round < S::ROUNDS; round++) {
    // What stood here before is read.
    block_barrier();
    UNROLL for (u32 pair = 0; pair < 2; pair++) {
      UNROLL for (u32 s = 0; s < T::SUMS; s++) {
        u32 words[2];
        UNROLL for (u32 c = 0; c < 2; c++) {
          words[c] = bytes_as<u32>(sums[round % S::DOWN][round / S::DOWN * 4 + pair * 2 + c][s]);
        }
        const u32 place = place_of_pair(lane % 16, T::row(lane, s));
        write_shared(shares[thread / LANES][pair][place], 0, words);
      }
    }
    block_barrier();
    UNROLL for (u32 c = 0; c < 2; c++) added[round][c] = 0;
    UNROLL for (u32 wave = 0; wave < WAVES; wave++) {
      u32 words[2];
      read_shared(words, shares[wave][mine.half][place_of_pair(mine.row, mine.column)]);
      UNROLL for (u32 c = 0; c < 2; c++) added[round][c] += bytes_as<typename T::Sum>(words[c]);
    }
    in_order();
  }
}

template <class T, class S>
DEVICE void product_skinny(const GemmParams& p, f32* scratch, Shares& shares, u32* told) {
  using Out = typename T::Out;
  using Value = typename Scratch<typename T::Sum>::Value;
  const u32 rows = tiles_along(p.m, S::ROWS), columns = tiles_along(p.n, S::COLUMNS);
  const Line line = line_of<1, LEAST>(rows * columns, tiles_along(p.k, S::DEPTH));
  const u32 wave = of_wave(wave_index());
  Taken<T, S> kept[KEPT];
  // A wave for which no stage is left multiplies zeros.
  const auto fetch = [&](u32 i, const Part& part) {
    in_order();
    kept[i].fetch(p, part.tile, part.step + i * WAVES + wave, part.end);
  };
  Stretch now = first_stretch(line);
  Part part = part_of(line, now, rows);
  UNROLL for (u32 i = 0; i < KEPT; i++) fetch(i, part);
  while (now.there(line)) {
    const u32 index = now.index, first = now.step, end = now.end;
    const Tile tile = part.tile;
    now.pass(line);
    const Part next = part_of(line, now, rows);
    typename T::Sum sums[S::DOWN][S::ACROSS][T::SUMS] = {};
    for (u32 step = first; step < end; step += KEPT * WAVES) {
      // What is sent for is the next tile's where this one has no more.
      part.step += KEPT * WAVES;
      if (part.step >= end) part = next;
      UNROLL for (u32 i = 0; i < KEPT; i++) {
        in_order();
        kept[i].multiply(sums);
        fetch(i, part);
      }
    }
    // Places that follow from the thread take no registers while stages are multiplied.
    u32 thread = thread_index();
    forget(thread);
    typename T::Sum added[S::ROUNDS][2];
    add_shares<T, S>(added, shares, sums, thread);
    if (end - first < line.steps) {
      constexpr u32 ROOM = 2 * DOWN_MOST * COLUMNS_MOST / 64;
      const Sharers<2 * S::ROUNDS, S::THREADS, 1, ROOM, 8 / S::DOWN, Value> sharers = {
          reinterpret_cast<Value*>(scratch), told, 0, thread};
      const auto sum = [&](u32 i) -> Value& { return reinterpret_cast<Value&>(added[i / 2][i % 2]); };
      if (!sharers.complete(line, index, first, end, sum, [] { block_barrier(); })) continue;
    }
    const Share mine = share_of(thread);
    UNROLL for (u32 round = 0; round < S::ROUNDS; round++) {
      const u32 of = tile.row * S::ROWS + round % S::DOWN * 16 + mine.row;
      const u32 in_lane = round / S::DOWN * 4 + mine.half * 2;
      const u32 at = tile.column * S::COLUMNS + mine.column * S::ACROSS + in_lane;
      if (of >= p.m || at >= p.n) continue;
      typename T::Sum values[2];
      UNROLL for (u32 c = 0; c < 2; c++) values[c] = T::FACTOR * added[round][c];
      u32 words[2 * sizeof(Out) / 4];
      pack(words, values, Out());
      put_words(reinterpret_cast<u8*>(static_cast<Out*>(p.c) + u64(of) * p.n + at), words);
    }
  }
}

template <class T> DEVICE void product_skinny(const GemmParams& p, f32* scratch) {
  SHARED Shares shares;
  SHARED u32 told[1];
  if (p.m <= 16) product_skinny<T, Skinny<T, 1>>(p, scratch, shares, told);
  else if (p.m <= 32) product_skinny<T, Skinny<T, 2>>(p, scratch, shares, told);
  else product_skinny<T, Skinny<T, DOWN_MOST>>(p, scratch, shares, told);
}

}  // namespace
