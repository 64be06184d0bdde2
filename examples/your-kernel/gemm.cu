// A small GEMM for Hopper: wgmma on tiles that tensor maps bring. Each block walks tiles of 64 x 128;
// its first thread keeps a ring of four stages filled. docs/your-kernel.md explains the file.
//
// params.h and sm90.h are fizeau's own (kernels/include): the parameters, and a function for each
// instruction. A text may as well declare the struct itself and use no header.
#include "params.h"
#include "sm90.h"

CONSTANT u32 ROWS = 64, COLUMNS = 128, DEPTH = 64, STAGES = 4;
CONSTANT u32 BYTES_A = ROWS * 128, BOX_B = DEPTH * 128, STAGE = BYTES_A + 2 * BOX_B;

KERNEL(128, 2) gemm_bf16_mine(const GemmParams p, MAP a, MAP b) {
  u8* shared = dynamic_shared();
  u64* full = reinterpret_cast<u64*>(shared + STAGES * STAGE);
  const u32 thread = thread_index(), lane = thread % 32;
  const u32 steps = (p.k + DEPTH - 1) / DEPTH, down = (p.m + ROWS - 1) / ROWS;
  const u32 tiles = down * ((p.n + COLUMNS - 1) / COLUMNS);
  const u32 own = block_index() < tiles ? (tiles - 1 - block_index()) / block_count() + 1 : 0;
  const auto tile_of = [&](u32 i) { return block_index() + i / steps * block_count(); };

  // Step i of all tiles of this block. Rows and columns beyond the matrices come as zeros.
  const auto fetch = [&](u32 i) {
    const u32 tile = tile_of(i), step = i % steps, row = tile % down * ROWS;
    u8* to = shared + i % STAGES * STAGE;
    u64* barrier = &full[i % STAGES];
    arrive_expecting(barrier, STAGE);
    tile_load(to, &a, step * DEPTH, row, barrier);
    for (u32 half = 0; half < 2; half++) {
      const u32 column = tile / down * COLUMNS + 64 * half;
      tile_load(to + BYTES_A + half * BOX_B, &b, column, step * DEPTH, barrier);
    }
  };
  if (thread == 0) {
    for (u32 stage = 0; stage < STAGES; stage++) make_barrier(&full[stage], 1);
    barriers_made();
    for (u32 i = 0; i < STAGES && i < own * steps; i++) fetch(i);
  }
  block_barrier();

  f32 sums[64];
  for (u32 i = 0; i < own * steps; i++) {
    const u32 from = shared_address(shared) + i % STAGES * STAGE;
    await_phase(&full[i % STAGES], i / STAGES % 2);
    begin_multiplications();
    UNROLL for (u32 part = 0; part < 4; part++) {
      multiply_tiles(sums, describe_k_major(from + 32 * part),
                     describe_mn_major(from + BYTES_A + part * 16 * 128, BOX_B),
                     i % steps + part, bf16());
    }
    close_multiplications();
    await_multiplications<0>();
    settle(sums);
    // All threads have read the stage: it is filled again.
    block_barrier();
    if (thread == 0 && i + STAGES < own * steps) fetch(i + STAGES);
    if (i % steps + 1 < steps) continue;

    const u32 tile = tile_of(i);
    const u32 row_first = tile % down * ROWS + thread / 32 * 16 + lane / 4;
    const u32 column_first = tile / down * COLUMNS + lane % 4 * 2;
    UNROLL for (u32 pair = 0; pair < 32; pair++) {
      const u32 row = row_first + pair % 2 * 8, column = column_first + pair / 2 * 8;
      if (row >= p.m || column >= p.n) continue;
      bf16* to = static_cast<bf16*>(p.c) + u64(row) * p.n + column;
      *reinterpret_cast<u32*>(to) = narrow_pair(sums[2 * pair], sums[2 * pair + 1], bf16());
    }
  }
}
