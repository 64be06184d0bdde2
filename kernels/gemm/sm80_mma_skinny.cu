// Matrix products of few rows, as decoding makes them: bf16 and f16, by fragments in registers. What
// counts is that B, which is read once, arrives on all units at the speed of memory.
//
// A block makes a tile of 16 x 32, so that a layer's 4096 columns are 128 blocks. Its 8 warps share
// the dimension summed over: each has every eighth stage of 32 along k, in a ring of its own of
// four, and waits for no other warp until the sums are added. Rows must be multiples of 16 bytes.
#include "grouped.h"
#include "params.h"
#include "sm80.h"
#include "tiles.h"

namespace {

CONSTANT u32 WARPS = 8;
CONSTANT u32 STAGES = 4;
CONSTANT u32 ROWS = 16;
CONSTANT u32 COLUMNS = 32;
CONSTANT u32 DEPTH = 32;
// Of a row of a stage: 32 of k for A, 32 columns for B.
CONSTANT u32 ROW_BYTES = 64;
CONSTANT u32 CHUNKS = ROW_BYTES / 16;
CONSTANT u32 BYTES_A = ROWS * ROW_BYTES;
CONSTANT u32 BYTES = BYTES_A + DEPTH * ROW_BYTES;
CONSTANT u32 FRAGMENTS = COLUMNS / 8;

// Chunks are exchanged by the row's number, so that 8 rows of a chunk are in 8 different banks.
DEVICE u32 place(u32 rows_at, u32 row, u32 chunk) {
  return rows_at + row * ROW_BYTES + (chunk ^ (row / 2 % 4)) * 16;
}

// Copies 16 bytes of a row-major matrix of 16-bit elements; what is outside becomes zero.
DEVICE void copy_chunk(u32 to, const void* matrix, u32 rows, u32 columns, u32 row, u32 column) {
  const bool there = row < rows && column < columns;
  const u16* from = static_cast<const u16*>(matrix);
  copy_async(to, there ? from + (u64(row) * columns + column) : from, there ? 16 : 0);
}

// One stage of this warp's.
DEVICE void fetch(const GemmParams& p, Tile tile, u32 k_first, u32 stage) {
  const u32 lane = thread_index() % 32;
  UNROLL for (u32 i = 0; i < ROWS * CHUNKS / 32; i++) {
    const u32 row = (i * 32 + lane) / CHUNKS, chunk = lane % CHUNKS;
    copy_chunk(place(stage, row, chunk), p.a, p.m, p.k, tile.row * ROWS + row,
               k_first + chunk * 8);
  }
  UNROLL for (u32 i = 0; i < DEPTH * CHUNKS / 32; i++) {
    const u32 row = (i * 32 + lane) / CHUNKS, chunk = lane % CHUNKS;
    copy_chunk(place(stage + BYTES_A, row, chunk), p.b, p.k, p.n, k_first + row,
               tile.column * COLUMNS + chunk * 8);
  }
}

template <class In> DEVICE void multiply_stage(f32 (&sums)[FRAGMENTS][4], u32 stage) {
  const u32 lane = thread_index() % 32;
  UNROLL for (u32 step = 0; step < DEPTH / 16; step++) {
    u32 a[4];
    load_matrices(a, place(stage, lane % 16, step * 2 + lane / 16));
    UNROLL for (u32 i = 0; i < FRAGMENTS; i += 2) {
      u32 got[4];
      const u32 k = step * 16 + lane % 16;
      load_matrices_transposed(got, place(stage + BYTES_A, k, i + lane / 16));
      const u32 b[2][2] = {{got[0], got[1]}, {got[2], got[3]}};
      multiply(sums[i], a, b[0], In());
      multiply(sums[i + 1], a, b[1], In());
    }
  }
}

// This warp's share of the sums of a tile.
template <class In>
DEVICE void multiply_share(const GemmParams& p, Tile tile, u32 ring, f32 (&sums)[FRAGMENTS][4]) {
  const u32 warp = thread_index() / 32;
  const u32 steps = tiles_along(p.k, DEPTH);
  u32 next = warp, filled = 0, stage = 0;
  auto fetch_next = [&] {
    if (next < steps) fetch(p, tile, next * DEPTH, ring + filled * BYTES);
    close_copies();
    next += WARPS;
    filled = (filled + 1) % STAGES;
  };
  for (u32 i = 0; i < STAGES - 1; i++) fetch_next();
  for (u32 step = warp; step < steps; step += WARPS) {
    await_copies<STAGES - 2>();
    // All lanes' copies are here, and all have read the stage that is filled next.
    warp_barrier();
    fetch_next();
    multiply_stage<In>(sums, ring + stage * BYTES);
    stage = (stage + 1) % STAGES;
  }
  await_copies<0>();
}

template <class In, class Groups> DEVICE void product(Groups groups) {
  u8* bytes = dynamic_shared();
  f32* shares = reinterpret_cast<f32*>(bytes);
  const u32 warp = thread_index() / 32, g = thread_index() % 32 / 4, t = thread_index() % 4;
  const u32 ring = shared_address(bytes) + warp * (STAGES * BYTES);
  for (u32 index = block_index(); groups.seek(index); index += block_count()) {
    const GemmParams p = groups.template product<2, 2>();
    // Down the rows first: what a block reads of B, its neighbours read too.
    const u32 within = groups.within(index);
    const Tile tile = {within % groups.rows, within / groups.rows};
    f32 sums[FRAGMENTS][4] = {};
    multiply_share<In>(p, tile, ring, sums);
    // The shares stand where the stages stood.
    block_barrier();
    UNROLL for (u32 i = 0; i < FRAGMENTS; i++) {
      UNROLL for (u32 e = 0; e < 4; e++) {
        const u32 row = g + e / 2 * 8, column = i * 8 + 2 * t + e % 2;
        shares[(warp * ROWS + row) * COLUMNS + column] = sums[i][e];
      }
    }
    block_barrier();
    // Two neighbours for each thread.
    const u32 row = thread_index() / (COLUMNS / 2), column = thread_index() % (COLUMNS / 2) * 2;
    f32 low = 0.0f, high = 0.0f;
    UNROLL for (u32 w = 0; w < WARPS; w++) {
      low += shares[(w * ROWS + row) * COLUMNS + column];
      high += shares[(w * ROWS + row) * COLUMNS + column + 1];
    }
    const u32 to_row = tile.row * ROWS + row, to_column = tile.column * COLUMNS + column;
    if (to_row < p.m && to_column < p.n) {
      u16* to = static_cast<u16*>(p.c) + (u64(to_row) * p.n + to_column);
      *reinterpret_cast<u32*>(to) = narrow_pair(low, high, In());
    }
    block_barrier();
  }
}

}  // namespace

KERNEL(256, 1) gemm_bf16_mma_skinny(const GemmParams p) {
  product<bf16>(single<ROWS, COLUMNS>(p));
}
KERNEL(256, 1) gemm_f16_mma_skinny(const GemmParams p) { product<f16>(single<ROWS, COLUMNS>(p)); }
KERNEL(256, 1) grouped_bf16_mma_skinny(const GroupedParams p) {
  product<bf16>(grouped<ROWS, COLUMNS>(p));
}
KERNEL(256, 1) grouped_f16_mma_skinny(const GroupedParams p) {
  product<f16>(grouped<ROWS, COLUMNS>(p));
}
