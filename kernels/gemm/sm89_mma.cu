// Matrix products of 8-bit floats (e4m3) by fragments in registers, as compute capability 8.9 and 12.0
// have them. B is kept column by column. Rows of A, columns of B and rows of C must be multiples of
// 16 bytes; m, n and k are free otherwise.
//
// 8 warps, 2 down and 4 across, make a tile of 128 x 256. Of each row of A and column of B, 64 bytes
// along k are a stage; 4 stages are on their way or in use, through all tiles of a block.
#include "line_product.h"
#include "sm89.h"

namespace {

CONSTANT u32 STAGES = 4;
CONSTANT u32 GROUP = 8;

// `fetch` asks for a later stage, beside the last multiplications of this one.
template <class Fetch> DEVICE void multiply_stage(Lines::Sums& sums, u32 stage, Fetch fetch) {
  constexpr u32 STEPS = Lines::DEPTH / 32;
  UNROLL for (u32 step = 0; step < STEPS; step++) {
    u32 a[Lines::DOWN][4], b[Lines::ACROSS][2];
    Lines::load(a, b, stage, step);
    if (step == STEPS - 1) fetch();
    UNROLL for (u32 i = 0; i < Lines::DOWN; i++) {
      UNROLL for (u32 j = 0; j < Lines::ACROSS; j++) multiply(sums[i][j], a[i], b[j], e4m3());
    }
  }
}

}  // namespace

KERNEL(256, 1) gemm_fp8_mma(const GemmParams p) {
  const u32 shared = shared_address(dynamic_shared());
  const u32 rows = tiles_along(p.m, Lines::ROWS), columns = tiles_along(p.n, Lines::COLUMNS);
  const u32 steps = tiles_along(p.k, Lines::DEPTH);
  u32 next = block_index(), next_step = 0, filled = 0, stage = 0;
  Lines lines;
  lines.start();
  const auto fetch_next = [&] {
    if (next < rows * columns) {
      if (next_step == 0) lines.aim(p, tile_at<GROUP>(next, rows, columns), p.k);
      lines.copy(p, shared + filled * Lines::BYTES, p.k);
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
      multiply_stage(sums, shared + stage * Lines::BYTES, fetch_next);
      stage = (stage + 1) % STAGES;
    }
    Lines::leave(p, tile_at<GROUP>(index, rows, columns), sums);
  }
}
