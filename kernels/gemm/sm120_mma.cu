// Matrix products of elements that share scales along k by fragments in registers, as compute
// capability 12 has them: mxfp8, mxfp4, nvfp4. B is kept column by column. Rows of A, columns of B
// and rows of C must be multiples of 16 bytes; m, n and k are free otherwise.
//
// 8 warps, 2 down and 4 across, make a tile of 128 x 256. Of each row of A and column of B, 64 bytes
// along k are a stage, and the tiles of scales that go with them; 3 stages are on their way or in
// use, through all tiles of a block. Of mxfp8 a tile of scales is for two stages, and comes twice.
#include "line_product.h"
#include "sm120.h"

namespace {

CONSTANT u32 STAGES = 3;
CONSTANT u32 GROUP = 8;
// Rows of tiles of scales: one of A, two of B.
CONSTANT u32 SCALES_DOWN = (Lines::ROWS + Lines::COLUMNS) / SCALE_ROWS;
// Multiplications of a stage along k, of 32 bytes each.
CONSTANT u32 STEPS = Lines::DEPTH / 32;

template <class In> struct Stage {
  static constexpr u32 ELEMENTS = Lines::DEPTH * 8 / In::BITS;
  // Of one multiplication.
  static constexpr u32 SCALES = ELEMENTS / STEPS / In::BLOCK;
  // Of a stage, along k: the last of them may be for the next stage as well.
  static constexpr u32 TILES = SCALES * STEPS < SCALE_STEPS ? 1 : SCALES * STEPS / SCALE_STEPS;
  static constexpr u32 SHARED_BY = SCALE_STEPS * TILES / (SCALES * STEPS);
  static constexpr u32 BYTES = Lines::BYTES + SCALES_DOWN * TILES * SCALE_BYTES;
};

// Where the 16 bytes of a tile of scales that row r % 32 has stand: rows that are 8 apart, which a
// warp wants at once, in different banks.
DEVICE u32 place_of_scales(u32 tile, u32 row) { return tile + (row ^ row / 8 % 2 * 4) * 16; }

// Copies a stage's tiles of scales: those of A, then two rows of those of B, one thread for each 16
// bytes.
template <class In>
DEVICE void fetch_scales(u32 stage, const GemmParams& p, Tile tile, u32 step) {
  using S = Stage<In>;
  constexpr u32 CHUNKS_OF_TILE = SCALE_BYTES / 16;
  const u32 which = thread_index() / CHUNKS_OF_TILE, row = thread_index() % CHUNKS_OF_TILE;
  if (which >= SCALES_DOWN * S::TILES) return;
  const u32 down = which / S::TILES, k = step / S::SHARED_BY * S::TILES + which % S::TILES;
  const u32 of_row = down == 0 ? tile.row : tile.column * (Lines::COLUMNS / SCALE_ROWS) + down - 1;
  const u32 rows = tiles_along(down == 0 ? p.m : p.n, SCALE_ROWS), tiles = scale_tiles<In>(p.k);
  const u8* all = static_cast<const u8*>(down == 0 ? p.scales_a : p.scales_b);
  const bool there = of_row < rows && k < tiles;
  const u64 from = (u64(of_row) * tiles + k) * SCALE_BYTES + row * 16;
  copy_async(place_of_scales(stage + Lines::BYTES + which * SCALE_BYTES, row),
             there ? all + from : all, there ? 16 : 0);
}

// Scales of this lane's rows of A and columns of B, 4 along k each.
struct Scales { u32 a[Lines::DOWN], b[Lines::ACROSS]; };

// From a tile along k of a stage; `exhausted` of each word's scales, the stage before had.
template <class In> DEVICE Scales load_scales(u32 stage, u32 k, u32 exhausted) {
  const u32 warp = thread_index() / 32, lane = thread_index() % 32;
  const u32 tile_a = stage + Lines::BYTES + k * SCALE_BYTES;
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

// `before` is done between the loads of fragments and their multiplications.
template <class In, u32 STEP, class Before>
DEVICE void multiply_step(Lines::Sums& sums, u32 stage, const Scales& scales, Before before) {
  constexpr u32 BYTE = STEP * Stage<In>::SCALES % SCALE_STEPS;
  u32 a[Lines::DOWN][4], b[Lines::ACROSS][2];
  Lines::load(a, b, stage, STEP);
  before();
  UNROLL for (u32 i = 0; i < Lines::DOWN; i++) {
    UNROLL for (u32 j = 0; j < Lines::ACROSS; j++) {
      multiply_scaled<BYTE>(sums[i][j], a[i], b[j], scales.a[i], scales.b[j], In());
    }
  }
}

// `fetch` asks for a later stage, beside the last multiplications of this one.
template <class In, class Fetch>
DEVICE void multiply_stage(Lines::Sums& sums, u32 stage, u32 step, Fetch fetch) {
  using S = Stage<In>;
  const u32 exhausted = step % S::SHARED_BY * (S::SCALES * STEPS);
  const Scales first = load_scales<In>(stage, 0, exhausted);
  multiply_step<In, 0>(sums, stage, first, [] {});
  if constexpr (S::TILES == 1) {
    multiply_step<In, 1>(sums, stage, first, fetch);
  } else {
    multiply_step<In, 1>(sums, stage, load_scales<In>(stage, 1, 0), fetch);
  }
}

template <class In> DEVICE void product(const GemmParams& p) {
  constexpr u32 BYTES = Stage<In>::BYTES;
  const u32 shared = shared_address(dynamic_shared());
  const u32 rows = tiles_along(p.m, Lines::ROWS), columns = tiles_along(p.n, Lines::COLUMNS);
  const u32 steps = tiles_along(p.k, Stage<In>::ELEMENTS), row_bytes = p.k * In::BITS / 8;
  u32 next = block_index(), next_step = 0, filled = 0, stage = 0;
  Lines lines;
  lines.start();
  Tile tile = {};
  const auto fetch_next = [&] {
    if (next < rows * columns) {
      if (next_step == 0) {
        tile = tile_at<GROUP>(next, rows, columns);
        lines.aim(p, tile, row_bytes);
      }
      const u32 to = shared + filled * BYTES;
      lines.copy(p, to, row_bytes);
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
    Lines::Sums sums = {};
    for (u32 step = 0; step < steps; step++) {
      await_copies<STAGES - 2>();
      block_barrier();
      multiply_stage<In>(sums, shared + stage * BYTES, step, fetch_next);
      stage = (stage + 1) % STAGES;
    }
    UNROLL for (auto& row : sums) {
      UNROLL for (auto& fragment : row) {
        UNROLL for (f32& sum : fragment) sum = with_tensor_scales(sum, p.factor, In());
      }
    }
    Lines::leave(p, tile_at<GROUP>(index, rows, columns), sums);
  }
}

}  // namespace

KERNEL(256, 1) gemm_mxfp8_mma(const GemmParams p) { product<mxfp8>(p); }
KERNEL(256, 1) gemm_mxfp4_mma(const GemmParams p) { product<mxfp4>(p); }
KERNEL(256, 1) gemm_nvfp4_mma(const GemmParams p) { product<nvfp4>(p); }
