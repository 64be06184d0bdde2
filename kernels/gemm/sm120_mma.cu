// Matrix products of elements that share scales along k by fragments in registers, as compute
// capability 12 has them: mxfp8, mxfp4, nvfp4. B is kept column by column. Rows of A, columns of B
// and rows of C must be multiples of 16 bytes; m, n and k are free otherwise.
//
// 8 warps, 2 down and 4 across, make a tile of 128 x 256. Of each row of A and column of B, 64 bytes
// along k are a stage, and the tiles of scales that go with them; 3 stages are on their way or in
// use, through all tiles of a block. Of mxfp8 a tile of scales is for two stages, and comes twice.
#include "params.h"
#include "sm120.h"

namespace {

CONSTANT u32 THREADS = 256;
CONSTANT u32 STAGES = 3;
CONSTANT u32 GROUP = 8;
CONSTANT u32 ROWS = 128;
CONSTANT u32 COLUMNS = 256;
CONSTANT u32 DEPTH = 64;
CONSTANT u32 CHUNKS = DEPTH / 16;
CONSTANT u32 LINES_BYTES = (ROWS + COLUMNS) * DEPTH;
// Rows of tiles of scales: one of A, two of B.
CONSTANT u32 SCALES_DOWN = (ROWS + COLUMNS) / SCALE_ROWS;
// Fragments of 16 rows, and of 8 columns, that a warp has.
CONSTANT u32 DOWN = 4;
CONSTANT u32 ACROSS = 8;
// Multiplications of a stage along k, of 32 bytes each.
CONSTANT u32 STEPS = DEPTH / 32;

template <class In> struct Stage {
  static constexpr u32 ELEMENTS = DEPTH * 8 / In::BITS;
  // Of one multiplication.
  static constexpr u32 SCALES = ELEMENTS / STEPS / In::BLOCK;
  // Of a stage, along k: the last of them may be for the next stage as well.
  static constexpr u32 TILES = SCALES * STEPS < SCALE_STEPS ? 1 : SCALES * STEPS / SCALE_STEPS;
  static constexpr u32 SHARED_BY = SCALE_STEPS * TILES / (SCALES * STEPS);
  static constexpr u32 BYTES = LINES_BYTES + SCALES_DOWN * TILES * SCALE_BYTES;
};

// Where a chunk of a line (row of A; after them, column of B) stands: exchanged by the line's
// number, so that 8 lines of a chunk are in 8 different banks.
DEVICE u32 place(u32 stage, u32 line, u32 chunk) {
  return stage + line * DEPTH + (chunk ^ (line / 2 % 4)) * 16;
}

// Where the 16 bytes of a tile of scales that row r % 32 has stand: rows that are 8 apart, which a
// warp wants at once, in different banks.
DEVICE u32 place_of_scales(u32 tile, u32 row) { return tile + (row ^ row / 8 % 2 * 4) * 16; }

// Copies 64 bytes along k of COUNT lines; what is outside becomes zero.
template <u32 COUNT>
DEVICE void fetch_lines(u32 stage, u32 line, const void* matrix, u32 first, u32 lines, u32 bytes,
                        u32 byte_first) {
  const u8* from_all = static_cast<const u8*>(matrix);
  UNROLL for (u32 i = 0; i < COUNT * CHUNKS / THREADS; i++) {
    const u32 at = (i * THREADS + thread_index()) / CHUNKS, chunk = thread_index() % CHUNKS;
    const u32 from = first + at, byte = byte_first + chunk * 16;
    const bool there = from < lines && byte < bytes;
    copy_async(place(stage, line + at, chunk),
               there ? from_all + (u64(from) * bytes + byte) : from_all, there ? 16 : 0);
  }
}

// Copies a stage's tiles of scales: those of A, then two rows of those of B, one thread for each 16
// bytes.
template <class In>
DEVICE void fetch_scales(u32 stage, const GemmParams& p, Tile tile, u32 step) {
  using S = Stage<In>;
  constexpr u32 CHUNKS_OF_TILE = SCALE_BYTES / 16;
  const u32 which = thread_index() / CHUNKS_OF_TILE, row = thread_index() % CHUNKS_OF_TILE;
  if (which >= SCALES_DOWN * S::TILES) return;
  const u32 down = which / S::TILES, k = step / S::SHARED_BY * S::TILES + which % S::TILES;
  const u32 of_row = down == 0 ? tile.row : tile.column * (COLUMNS / SCALE_ROWS) + down - 1;
  const u32 rows = tiles_along(down == 0 ? p.m : p.n, SCALE_ROWS), tiles = scale_tiles<In>(p.k);
  const u8* all = static_cast<const u8*>(down == 0 ? p.scales_a : p.scales_b);
  const bool there = of_row < rows && k < tiles;
  const u64 from = (u64(of_row) * tiles + k) * SCALE_BYTES + row * 16;
  copy_async(place_of_scales(stage + LINES_BYTES + which * SCALE_BYTES, row),
             there ? all + from : all, there ? 16 : 0);
}

// Scales of this lane's rows of A and columns of B, 4 along k each.
struct Scales { u32 a[DOWN], b[ACROSS]; };

// From a tile along k of a stage; `exhausted` of each word's scales, the stage before had.
template <class In> DEVICE Scales load_scales(u32 stage, u32 k, u32 exhausted) {
  const u32 warp = thread_index() / 32, lane = thread_index() % 32;
  const u32 tile_a = stage + LINES_BYTES + k * SCALE_BYTES;
  const u32 tile_b = tile_a + (1 + warp / 4) * (Stage<In>::TILES * SCALE_BYTES);
  Scales scales;
  UNROLL for (u32 i = 0; i < 2; i++) {
    // Of rows 16 i .. of the warp's 64, and of those 32 further.
    const u32 row = 16 * i + lane / 4 + lane % 2 * 8;
    const u64 both = load_shared(place_of_scales(tile_a, row) + warp % 2 * 8, u64());
    scales.a[i] = u32(both) >> 8 * exhausted;
    scales.a[i + 2] = u32(both >> 32) >> 8 * exhausted;
  }
  UNROLL for (u32 i = 0; i < 4; i++) {
    const u32 column = 8 * i + lane / 4;
    const u64 both = load_shared(place_of_scales(tile_b, column) + warp / 2 % 2 * 8, u64());
    scales.b[i] = u32(both) >> 8 * exhausted;
    scales.b[i + 4] = u32(both >> 32) >> 8 * exhausted;
  }
  return scales;
}

template <class In, u32 STEP>
DEVICE void multiply_step(f32 (&sums)[DOWN][ACROSS][4], u32 stage, const Scales& scales) {
  const u32 warp = thread_index() / 32, lane = thread_index() % 32;
  const u32 row = warp % 2 * (16 * DOWN), column = ROWS + warp / 2 * (8 * ACROSS);
  constexpr u32 BYTE = STEP * Stage<In>::SCALES % SCALE_STEPS;
  u32 a[DOWN][4], b[ACROSS][2];
  UNROLL for (u32 i = 0; i < DOWN; i++) {
    load_matrices(a[i], place(stage, row + 16 * i + lane % 16, STEP * 2 + lane / 16));
  }
  UNROLL for (u32 i = 0; i < ACROSS; i += 2) {
    u32 got[4];
    const u32 line = column + 8 * i + lane % 8 + lane / 16 * 8;
    load_matrices(got, place(stage, line, STEP * 2 + lane / 8 % 2));
    UNROLL for (u32 r = 0; r < 4; r++) b[i + r / 2][r % 2] = got[r];
  }
  UNROLL for (u32 i = 0; i < DOWN; i++) {
    UNROLL for (u32 j = 0; j < ACROSS; j++) {
      multiply_scaled<BYTE>(sums[i][j], a[i], b[j], scales.a[i], scales.b[j], In());
    }
  }
}

template <class In>
DEVICE void multiply_stage(f32 (&sums)[DOWN][ACROSS][4], u32 stage, u32 step) {
  using S = Stage<In>;
  const u32 exhausted = step % S::SHARED_BY * (S::SCALES * STEPS);
  const Scales first = load_scales<In>(stage, 0, exhausted);
  multiply_step<In, 0>(sums, stage, first);
  if constexpr (S::TILES == 1) {
    multiply_step<In, 1>(sums, stage, first);
  } else {
    multiply_step<In, 1>(sums, stage, load_scales<In>(stage, 1, 0));
  }
}

DEVICE void leave(const GemmParams& p, Tile tile, const f32 (&sums)[DOWN][ACROSS][4]) {
  const u32 warp = thread_index() / 32, g = thread_index() % 32 / 4, t = thread_index() % 4;
  const u32 row_first = tile.row * ROWS + warp % 2 * (16 * DOWN) + g;
  const u32 column_first = tile.column * COLUMNS + warp / 2 * (8 * ACROSS) + 2 * t;
  UNROLL for (u32 i = 0; i < DOWN; i++) {
    UNROLL for (u32 half = 0; half < 2; half++) {
      const u32 row = row_first + 16 * i + 8 * half;
      u16* to = static_cast<u16*>(p.c) + u64(row) * p.n;
      UNROLL for (u32 j = 0; j < ACROSS; j++) {
        const u32 column = column_first + 8 * j;
        if (row >= p.m || column >= p.n) continue;
        *reinterpret_cast<u32*>(to + column) =
            narrow_pair(sums[i][j][2 * half], sums[i][j][2 * half + 1], bf16());
      }
    }
  }
}

template <class In> DEVICE void product(const GemmParams& p) {
  constexpr u32 BYTES = Stage<In>::BYTES;
  const u32 shared = shared_address(dynamic_shared());
  const u32 rows = tiles_along(p.m, ROWS), columns = tiles_along(p.n, COLUMNS);
  const u32 steps = tiles_along(p.k, Stage<In>::ELEMENTS), row_bytes = p.k * In::BITS / 8;
  u32 next = block_index(), next_step = 0, filled = 0, stage = 0;
  auto fetch_next = [&] {
    if (next < rows * columns) {
      const Tile tile = tile_at<GROUP>(next, rows, columns);
      const u32 to = shared + filled * BYTES, byte = next_step * DEPTH;
      fetch_lines<ROWS>(to, 0, p.a, tile.row * ROWS, p.m, row_bytes, byte);
      fetch_lines<COLUMNS>(to, ROWS, p.b, tile.column * COLUMNS, p.n, row_bytes, byte);
      fetch_scales<In>(to, p, tile, next_step);
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
      multiply_stage<In>(sums, shared + stage * BYTES, step);
      stage = (stage + 1) % STAGES;
    }
    leave(p, tile_at<GROUP>(index, rows, columns), sums);
  }
}

}  // namespace

KERNEL(256, 1) gemm_mxfp8_mma(const GemmParams p) { product<mxfp8>(p); }
KERNEL(256, 1) gemm_mxfp4_mma(const GemmParams p) { product<mxfp4>(p); }
KERNEL(256, 1) gemm_nvfp4_mma(const GemmParams p) { product<nvfp4>(p); }
