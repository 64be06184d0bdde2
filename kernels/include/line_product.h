// What matrix products by fragments have in common whose B stands column by column: rows of A and
// columns of B, both along k, are lines, of which 64 bytes are a stage. 8 warps, 2 down and 4 across,
// make a tile of 128 x 256.
#pragma once
#include "chunks.h"
#include "params.h"
#include "sources.h"
#include "tiles.h"

struct Lines {
  static constexpr u32 THREADS = 256, ROWS = 128, COLUMNS = 256, DEPTH = 64, CHUNKS = DEPTH / 16;
  static constexpr u32 BYTES = (ROWS + COLUMNS) * DEPTH;
  // Fragments of 16 rows, and of 8 columns, that a warp has.
  static constexpr u32 DOWN = 4, ACROSS = 8;
  // From line to line of a thread's chunks.
  static constexpr u32 APART = THREADS / CHUNKS;
  template <class Sum> using SumsOf = Sum[DOWN][ACROSS][4];
  using Sums = SumsOf<f32>;

  Source a, b;

  // Where a chunk of a line (row of A; after them, column of B) stands: exchanged by the line's
  // number, so that 8 lines of a chunk are in 8 different banks.
  static DEVICE_MEMBER u32 place(u32 stage, u32 line, u32 chunk) {
    return stage + line * DEPTH + (chunk ^ (line / 2 % 4)) * 16;
  }

  DEVICE_MEMBER void start() {
    const u32 line = thread_index() / CHUNKS, chunk = thread_index() % CHUNKS;
    a.to = place(0, line, chunk);
    b.to = place(0, ROWS + line, chunk);
  }
  // To a tile's first stage. `bytes`: of a line.
  DEVICE_MEMBER void aim(const GemmParams& p, Tile tile, u32 bytes) {
    const u32 line = thread_index() / CHUNKS, byte = thread_index() % CHUNKS * 16;
    a.aim(p.a, bytes, tile.row * ROWS + line, byte);
    b.aim(p.b, bytes, tile.column * COLUMNS + line, byte);
  }
  DEVICE_MEMBER void copy(const GemmParams& p, u32 stage, u32 bytes) {
    a.copy<ROWS / APART, APART, APART * DEPTH>(stage, bytes, p.m, bytes);
    b.copy<COLUMNS / APART, APART, APART * DEPTH>(stage, bytes, p.n, bytes);
    a.along(DEPTH);
    b.along(DEPTH);
  }

  // This warp's fragments of 32 bytes along k.
  static DEVICE_MEMBER void load(u32 (&a)[DOWN][4], u32 (&b)[ACROSS][2], u32 stage, u32 step) {
    const u32 warp = thread_index() / 32, lane = thread_index() % 32;
    const u32 row = warp % 2 * (16 * DOWN), column = ROWS + warp / 2 * (8 * ACROSS);
    UNROLL for (u32 i = 0; i < DOWN; i++) {
      load_matrices(a[i], place(stage, row + 16 * i + lane % 16, step * 2 + lane / 16));
    }
    UNROLL for (u32 i = 0; i < ACROSS; i += 2) {
      u32 got[4];
      const u32 line = column + 8 * i + lane % 8 + lane / 16 * 8;
      load_matrices(got, place(stage, line, step * 2 + lane / 8 % 2));
      UNROLL for (u32 r = 0; r < 4; r++) b[i + r / 2][r % 2] = got[r];
    }
  }

  // Writes this warp's part of a tile, 16 bytes at a time.
  template <class Out = bf16>
  static DEVICE_MEMBER void leave(const GemmParams& p, Tile tile, const Sums& sums) {
    const u32 warp = thread_index() / 32, g = thread_index() % 32 / 4, t = thread_index() % 4;
    const u32 row_first = tile.row * ROWS + warp % 2 * (16 * DOWN) + g;
    const u32 column_first = tile.column * COLUMNS + warp / 2 * (8 * ACROSS) + 8 * t;
    UNROLL for (u32 i = 0; i < DOWN; i++) {
      UNROLL for (u32 half = 0; half < 2; half++) {
        const u32 row = row_first + 16 * i + 8 * half;
        u16* to = static_cast<u16*>(p.c) + u64(row) * p.n;
        UNROLL for (u32 j = 0; j < ACROSS; j += 4) {
          const Vector<u32> chunk = narrow_chunk(sums[i] + j, half, Out());
          const u32 column = column_first + 8 * j;
          if (row >= p.m || column >= p.n) continue;
          store(reinterpret_cast<Vector<u32>*>(to + column), chunk);
        }
      }
    }
  }

  // The same of sums that are elements of C as they are, of 32 bits.
  template <class Sum>
  static DEVICE_MEMBER void leave_words(const GemmParams& p, Tile tile, const SumsOf<Sum>& sums) {
    const u32 warp = thread_index() / 32, g = thread_index() % 32 / 4, t = thread_index() % 4;
    const u32 row_first = tile.row * ROWS + warp % 2 * (16 * DOWN) + g;
    const u32 column_first = tile.column * COLUMNS + warp / 2 * (8 * ACROSS);
    UNROLL for (u32 i = 0; i < DOWN; i++) {
      UNROLL for (u32 half = 0; half < 2; half++) {
        const u32 row = row_first + 16 * i + 8 * half;
        u32* to = static_cast<u32*>(p.c) + u64(row) * p.n;
        UNROLL for (u32 j = 0; j < ACROSS; j += 2) {
          Vector<u32> words;
          UNROLL for (u32 e = 0; e < 4; e++) {
            words.at[e] = word_of(sums[i][j + e / 2][2 * half + e % 2]);
          }
          exchange_words<1, 2>(words.at);
          const u32 column = column_first + 8 * (j + t % 2) + t / 2 * 4;
          if (row >= p.m || column >= p.n) continue;
          store(reinterpret_cast<Vector<u32>*>(to + column), words);
        }
      }
    }
  }
  static DEVICE_MEMBER u32 word_of(f32 sum) { return bits_of(sum); }
  static DEVICE_MEMBER u32 word_of(i32 sum) { return u32(sum); }
};

// A product of elements of BYTES bytes, 4 stages of which are on their way or in use, through all tiles of a
// block.
template <class In, class Sum, class Out, u32 BYTES> struct LineProduct {
  static constexpr u32 STAGES = 4, GROUP = 8;
  using Sums = Lines::SumsOf<Sum>;

  // `fetch` asks for a later stage, beside the last multiplications of this one.
  template <class Fetch>
  static DEVICE_MEMBER void multiply_stage(Sums& sums, u32 stage, Fetch fetch) {
    constexpr u32 STEPS = Lines::DEPTH / 32;
    UNROLL for (u32 step = 0; step < STEPS; step++) {
      u32 a[Lines::DOWN][4], b[Lines::ACROSS][2];
      Lines::load(a, b, stage, step);
      if (step == STEPS - 1) fetch();
      UNROLL for (u32 i = 0; i < Lines::DOWN; i++) {
        UNROLL for (u32 j = 0; j < Lines::ACROSS; j++) multiply(sums[i][j], a[i], b[j], In());
      }
    }
  }

  static DEVICE_MEMBER void run(const GemmParams& p) {
    const u32 shared = shared_address(dynamic_shared()), line = p.k * BYTES;
    const u32 rows = tiles_along(p.m, Lines::ROWS), columns = tiles_along(p.n, Lines::COLUMNS);
    const u32 steps = tiles_along(line, Lines::DEPTH);
    u32 next = block_index(), next_step = 0, filled = 0, stage = 0;
    Lines lines;
    lines.start();
    const auto fetch_next = [&] {
      if (next < rows * columns) {
        if (next_step == 0) lines.aim(p, tile_at<GROUP>(next, rows, columns), line);
        lines.copy(p, shared + filled * Lines::BYTES, line);
        if (++next_step == steps) {
          next_step = 0;
          next += block_count();
        }
      }
      // Closed even where it is empty: groups are counted.
      close_copies();
      filled = (filled + 1) % STAGES;
    };
    for (u32 i = 0; i < STAGES - 1; i++) fetch_next();
    for (u32 index = block_index(); index < rows * columns; index += block_count()) {
      Sums sums = {};
      for (u32 step = 0; step < steps; step++) {
        await_copies<STAGES - 2>();
        block_barrier();
        multiply_stage(sums, shared + stage * Lines::BYTES, fetch_next);
        stage = (stage + 1) % STAGES;
      }
      const Tile tile = tile_at<GROUP>(index, rows, columns);
      if constexpr (sizeof(Out) == 4) Lines::leave_words<Sum>(p, tile, sums);
      else Lines::leave<Out>(p, tile, sums);
    }
  }
};
