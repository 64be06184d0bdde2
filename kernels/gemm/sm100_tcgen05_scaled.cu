// Matrix products into tensor memory of elements that share scales along k, as compute capability 10
// multiplies them: mxfp8, mxfp4, nvfp4. B is kept column by column. Rows of A and columns of B must
// be multiples of 16 bytes.
//
// As sm100_tcgen05.cu, but scales need tensor memory too, and two tiles of 256 columns would leave
// none: tiles are 128 x 192. A stage is 128 bytes along k and the tiles of scales that go with them;
// before its multiplications they are copied to one of two places in tensor memory. Every second
// tile of C begins in the middle of a tile of B's scales, which is two of their columns.
#include "params.h"
#include "sm100_product.h"

namespace {

CONSTANT u32 ROWS = 128;
CONSTANT u32 COLUMNS = 192;
CONSTANT u32 ROW_BYTES = 128;
CONSTANT u32 STAGES = 4;
// Multiplications of a stage, of 32 bytes along k each.
CONSTANT u32 PARTS = 4;
CONSTANT u32 BYTES_A = ROWS * ROW_BYTES;
CONSTANT u32 BYTES_B = COLUMNS * ROW_BYTES;
// Tiles of scales of A along k, and those of B in two rows of tiles.
CONSTANT u32 SCALES_BYTES = PARTS * SCALE_BYTES;
CONSTANT u32 BYTES = BYTES_A + BYTES_B + 3 * SCALES_BYTES;
using Stages = PhaseRing<STAGES>;

// In tensor memory: sums of two tiles, then twice scales, those of A first.
CONSTANT u32 SCALES_AT = 2 * COLUMNS;
CONSTANT u32 SCALES_STEP = 64;
CONSTANT u32 SCALES_B = PARTS * 4;

// `TYPE` and `SCALE_TYPE` as instruct_scaled takes them.
template <class In, u32 TYPE, u32 SCALE_TYPE> struct Format {
  static constexpr u32 INSTRUCTION = instruct_scaled(TYPE, SCALE_TYPE, ROWS, COLUMNS);
  static constexpr u32 DEPTH = ROW_BYTES * 8 / In::BITS;
  // Along k, of a multiplication: elements and scales.
  static constexpr u32 PART = DEPTH / PARTS;
  static constexpr u32 SCALES = PART / In::BLOCK;
  // Of a stage.
  static constexpr u32 SCALE_TILES = DEPTH / In::BLOCK / SCALE_STEPS;
};
template <class In> struct Type;
template <> struct Type<mxfp8> : Format<mxfp8, 0, 1> {};
template <> struct Type<mxfp4> : Format<mxfp4, 1, 1> {};
template <> struct Type<nvfp4> : Format<nvfp4, 1, 0> {};

struct Scales {
  const u8* a;
  const u8* b;
  // Tiles along k, and rows of them that B has.
  u32 tiles, rows_b;
};

// The first row of tiles of B's scales that a tile of C needs: it needs two. Where there is one, the
// other's columns are not stored, and its scales are those of the first.
DEVICE u32 scales_row(u32 column) { return column * COLUMNS / SCALE_ROWS; }
// Columns of tensor memory that come before its own.
DEVICE u32 scales_before(u32 column) { return column * COLUMNS % SCALE_ROWS / 32; }

// Has stage after stage copied, through all tiles.
template <class In>
DEVICE void produce(Stages ring, u8* shared, Work work, Scales scales, const TensorMap* a,
                    const TensorMap* b) {
  using T = Type<In>;
  for_each_tile<1>(work, [&](Tile tile) {
    const u32 row_b = scales_row(tile.column);
    for (u32 step = 0; step < work.steps; step++) {
      await_phase(&ring.empty[ring.at], ring.parity ^ 1);
      u64* full = &ring.full[ring.at];
      u8* to = shared + ring.at * BYTES;
      u8* scales_to = to + BYTES_A + BYTES_B;
      const u32 first = step * T::SCALE_TILES, left = scales.tiles - first;
      const u32 bytes = (left < T::SCALE_TILES ? left : T::SCALE_TILES) * SCALE_BYTES;
      arrive_expecting(full, BYTES_A + BYTES_B + 3 * bytes);
      tile_load(to, a, step * ROW_BYTES, tile.row * ROWS, full);
      tile_load(to + BYTES_A, b, step * ROW_BYTES, tile.column * COLUMNS, full);
      const u64 of_a = (u64(tile.row) * scales.tiles + first) * SCALE_BYTES;
      bulk_load(scales_to, scales.a + of_a, bytes, full);
      for (u32 row = 0; row < 2; row++) {
        const u32 there = row_b + row < scales.rows_b ? row_b + row : row_b;
        const u64 of_b = (u64(there) * scales.tiles + first) * SCALE_BYTES;
        bulk_load(scales_to + (1 + row) * SCALES_BYTES, scales.b + of_b, bytes, full);
      }
      ring.advance();
    }
  });
}

// Has a stage's scales copied to tensor memory, then its elements multiplied. Of both only what the
// `left` elements that k still has need: scales behind them are not there. All lanes of the warp
// know `left`, and where it is a constant nothing is asked of it.
template <class In>
DEVICE void multiply_stage(u32 sums, u32 at, u32 scales, u32 scales_b, u32 left, u32 accumulate) {
  using T = Type<In>;
  const u64 from = describe_plain(at + BYTES_A + BYTES_B);
  UNROLL for (u32 tile = 0; tile < T::SCALE_TILES; tile++) {
    if (tile * SCALE_STEPS * In::BLOCK >= left) continue;
    copy_scales(scales + tile * 4, further(from, tile * SCALE_BYTES));
    UNROLL for (u32 row = 0; row < 2; row++) {
      copy_scales(scales + SCALES_B + tile * 8 + row * 4,
                  further(from, (1 + row) * SCALES_BYTES + tile * SCALE_BYTES));
    }
  }
  const u64 a = describe_for_tensor_memory(describe_k_major(at));
  const u64 b = describe_for_tensor_memory(describe_k_major(at + BYTES_A));
  UNROLL for (u32 part = 0; part < PARTS; part++) {
    if (part * T::PART >= left) continue;
    const u32 scale = part * T::SCALES, tile = scale / SCALE_STEPS;
    multiply_scaled_into(sums, further(a, part * 32), further(b, part * 32),
                         from_byte(T::INSTRUCTION, scale % SCALE_STEPS), part > 0 ? 1 : accumulate,
                         scales + tile * 4, scales_b + tile * 8, In());
  }
}

// Has stage after stage multiplied; each is given back, and each tile of sums handed over, when what
// was asked for so far is done.
template <class In>
DEVICE void multiply_all(Stages ring, Sums sums, u32 memory, u8* shared, Work work, u32 k) {
  using T = Type<In>;
  u32 count = 0;
  for_each_tile<1>(work, [&](Tile tile) {
    await_phase(&sums.empty[sums.at], sums.parity ^ 1);
    see_tensor_memory();
    for (u32 step = 0; step < work.steps; step++, count++) {
      await_phase(&ring.full[ring.at], ring.parity);
      // The stage before the last one, which read scales in this place, has been multiplied.
      if (count >= 2) await_phase(&ring.empty[(count - 2) % STAGES], (count - 2) / STAGES % 2);
      see_tensor_memory();
      const u32 at = shared_address(shared) + ring.at * BYTES, left = k - step * T::DEPTH;
      const u32 scales = memory + SCALES_AT + count % 2 * SCALES_STEP;
      const u32 scales_b = scales + SCALES_B + scales_before(tile.column);
      const u32 to = memory + sums.at * COLUMNS;
      if (left >= T::DEPTH) multiply_stage<In>(to, at, scales, scales_b, T::DEPTH, step);
      else multiply_stage<In>(to, at, scales, scales_b, left, step);
      arrive_when_multiplied(&ring.empty[ring.at]);
      ring.advance();
    }
    arrive_when_multiplied(&sums.full[sums.at]);
    sums.advance();
  });
}

template <class In>
DEVICE void product(const GemmParams& p, const TensorMap* a, const TensorMap* b,
                    const TensorMap* c) {
  SHARED u64 barriers[2 * STAGES + 4];
  SHARED u32 memory_at[1];
  u8* shared = dynamic_shared();
  const Stages stages = {barriers, barriers + STAGES, 0, 0};
  const Sums sums = {barriers + 2 * STAGES, barriers + 2 * STAGES + 2, 0, 0};
  const Work work = {tiles_along(p.m, ROWS), tiles_along(p.n, COLUMNS),
                     tiles_along(p.k, Type<In>::DEPTH),
                     group_height(ROWS, COLUMNS, block_count())};
  const Scales scales = {static_cast<const u8*>(p.scales_a), static_cast<const u8*>(p.scales_b),
                         scale_tiles<In>(p.k), tiles_along(p.n, SCALE_ROWS)};
  if (thread_index() == 0) {
    prefetch_map(a);
    prefetch_map(b);
    prefetch_map(c);
  }
  with_tensor_memory<1>(
      stages, sums, STAGES, memory_at,
      [&] { produce<In>(stages, shared, work, scales, a, b); },
      [&](u32 memory) { multiply_all<In>(stages, sums, memory, shared, work, p.k); },
      [&](u32 memory) {
        write_all<bf16, COLUMNS, 1>(
            sums, memory, shared + STAGES * BYTES, work, c,
            [&](f32 sum) { return with_tensor_scales(sum, p.factor, In()); });
      });
}

}  // namespace

KERNEL(256, 1) gemm_mxfp8_tcgen05(const GemmParams p, MAP a, MAP b, MAP c) {
  product<mxfp8>(p, &a, &b, &c);
}
KERNEL(256, 1) gemm_mxfp4_tcgen05(const GemmParams p, MAP a, MAP b, MAP c) {
  product<mxfp4>(p, &a, &b, &c);
}
KERNEL(256, 1) gemm_nvfp4_tcgen05(const GemmParams p, MAP a, MAP b, MAP c) {
  product<nvfp4>(p, &a, &b, &c);
}
