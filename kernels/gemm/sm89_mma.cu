// Matrix products of 8-bit floats (e4m3) by fragments in registers, as compute capability 8.9 and 12.0
// have them. B is kept column by column. Rows of A, columns of B and rows of C must be multiples of
// 16 bytes; m, n and k are free otherwise.
//
// 8 warps, 2 down and 4 across, make a tile of 128 x 256. Of each row of A and column of B, 64 bytes
// along k are a stage; 4 stages are on their way or in use, through all tiles of a block.
#include "chunks.h"
#include "params.h"
#include "sm89.h"
#include "tiles.h"

namespace {

CONSTANT u32 THREADS = 256;
CONSTANT u32 STAGES = 4;
CONSTANT u32 GROUP = 8;
CONSTANT u32 ROWS = 128;
CONSTANT u32 COLUMNS = 256;
CONSTANT u32 DEPTH = 64;
CONSTANT u32 CHUNKS = DEPTH / 16;
CONSTANT u32 BYTES = (ROWS + COLUMNS) * DEPTH;
// Fragments of 16 rows, and of 8 columns, that a warp has.
CONSTANT u32 DOWN = 4;
CONSTANT u32 ACROSS = 8;

// Where a chunk of a line (row of A; after them, column of B) stands: exchanged by the line's
// number, so that 8 lines of a chunk are in 8 different banks.
DEVICE u32 place(u32 stage, u32 line, u32 chunk) {
  return stage + line * DEPTH + (chunk ^ (line / 2 % 4)) * 16;
}

// Copies 64 bytes along k of `count` lines; what is outside becomes zero.
template <u32 COUNT>
DEVICE void fetch_lines(u32 stage, u32 line, const void* matrix, u32 first, u32 lines, u32 k,
                        u32 k_first) {
  const u8* bytes = static_cast<const u8*>(matrix);
  UNROLL for (u32 i = 0; i < COUNT * CHUNKS / THREADS; i++) {
    const u32 at = (i * THREADS + thread_index()) / CHUNKS, chunk = thread_index() % CHUNKS;
    const u32 from = first + at, byte = k_first + chunk * 16;
    const bool there = from < lines && byte < k;
    copy_async(place(stage, line + at, chunk), there ? bytes + (u64(from) * k + byte) : bytes,
               there ? 16 : 0);
  }
}

DEVICE void multiply_stage(f32 (&sums)[DOWN][ACROSS][4], u32 stage) {
  const u32 warp = thread_index() / 32, lane = thread_index() % 32;
  const u32 row = warp % 2 * (16 * DOWN), column = ROWS + warp / 2 * (8 * ACROSS);
  UNROLL for (u32 step = 0; step < DEPTH / 32; step++) {
    u32 a[DOWN][4], b[ACROSS][2];
    UNROLL for (u32 i = 0; i < DOWN; i++) {
      load_matrices(a[i], place(stage, row + 16 * i + lane % 16, step * 2 + lane / 16));
    }
    UNROLL for (u32 i = 0; i < ACROSS; i += 2) {
      u32 got[4];
      const u32 line = column + 8 * i + lane % 8 + lane / 16 * 8;
      load_matrices(got, place(stage, line, step * 2 + lane / 8 % 2));
      UNROLL for (u32 r = 0; r < 4; r++) b[i + r / 2][r % 2] = got[r];
    }
    UNROLL for (u32 i = 0; i < DOWN; i++) {
      UNROLL for (u32 j = 0; j < ACROSS; j++) multiply(sums[i][j], a[i], b[j], e4m3());
    }
  }
}

DEVICE void leave(const GemmParams& p, Tile tile, const f32 (&sums)[DOWN][ACROSS][4]) {
  const u32 warp = thread_index() / 32, g = thread_index() % 32 / 4, t = thread_index() % 4;
  const u32 row_first = tile.row * ROWS + warp % 2 * (16 * DOWN) + g;
  const u32 column_first = tile.column * COLUMNS + warp / 2 * (8 * ACROSS) + 8 * t;
  UNROLL for (u32 i = 0; i < DOWN; i++) {
    UNROLL for (u32 half = 0; half < 2; half++) {
      const u32 row = row_first + 16 * i + 8 * half;
      u16* to = static_cast<u16*>(p.c) + u64(row) * p.n;
      UNROLL for (u32 j = 0; j < ACROSS; j += 4) {
        const Vector<u32> chunk = narrow_chunk(sums[i] + j, half, bf16());
        const u32 column = column_first + 8 * j;
        if (row >= p.m || column >= p.n) continue;
        store(reinterpret_cast<Vector<u32>*>(to + column), chunk);
      }
    }
  }
}

}  // namespace

KERNEL(256, 1) gemm_fp8_mma(const GemmParams p) {
  const u32 shared = shared_address(dynamic_shared());
  const u32 rows = tiles_along(p.m, ROWS), columns = tiles_along(p.n, COLUMNS);
  const u32 steps = tiles_along(p.k, DEPTH);
  u32 next = block_index(), next_step = 0, filled = 0, stage = 0;
  auto fetch_next = [&] {
    if (next < rows * columns) {
      const Tile tile = tile_at<GROUP>(next, rows, columns);
      const u32 to = shared + filled * BYTES, k_first = next_step * DEPTH;
      fetch_lines<ROWS>(to, 0, p.a, tile.row * ROWS, p.m, p.k, k_first);
      fetch_lines<COLUMNS>(to, ROWS, p.b, tile.column * COLUMNS, p.n, p.k, k_first);
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
    f32 sums[DOWN][ACROSS][4] = {};
    for (u32 step = 0; step < steps; step++) {
      await_copies<STAGES - 2>();
      block_barrier();
      fetch_next();
      multiply_stage(sums, shared + stage * BYTES);
      stage = (stage + 1) % STAGES;
    }
    leave(p, tile_at<GROUP>(index, rows, columns), sums);
  }
}
