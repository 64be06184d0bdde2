// Matrix products into tensor memory, as compute capability 10 has them: bf16 and f16 with B row by
// row, fp8 (e4m3) with B column by column. Rows must be multiples of 16 bytes.
//
// One block for each unit walks tiles of 128 x 256. One thread has stages of 128 bytes along k
// copied by tensor maps, four in a ring; one thread of another warp has them multiplied; four warps
// write the sums. Tensor memory holds two tiles of sums: one is written while the next is made.
#include "params.h"
#include "sm100_product.h"

namespace {

CONSTANT u32 ROWS = 128;
CONSTANT u32 COLUMNS = 256;
CONSTANT u32 ROW_BYTES = 128;
CONSTANT u32 STAGES = 4;
CONSTANT u32 BYTES_A = ROWS * ROW_BYTES;
CONSTANT u32 BYTES_B = COLUMNS * ROW_BYTES;
CONSTANT u32 BYTES = BYTES_A + BYTES_B;
using Stages = PhaseRing<STAGES>;

template <class In> struct Type;
template <class In, u32 TYPE> struct Half {
  using Out = In;
  static constexpr u32 DEPTH = ROW_BYTES / 2;
  static constexpr u32 INSTRUCTION = instruct(TYPE, 1, ROWS, COLUMNS);
  // Rows of B are along n, 64 columns in each of 4 boxes.
  static constexpr u32 BOX_BYTES = DEPTH * ROW_BYTES;
  static DEVICE_MEMBER void load_b(u8* to, const TensorMap* b, Tile tile, u32 step, u64* full) {
    UNROLL for (u32 box = 0; box < COLUMNS / 64; box++) {
      tile_load(to + box * BOX_BYTES, b, tile.column * COLUMNS + box * 64, step * DEPTH, full);
    }
  }
  static constexpr u32 PART_B = 16 * ROW_BYTES;
  static DEVICE_MEMBER u64 describe_b(u32 stage) { return describe_mn_major(stage, BOX_BYTES); }
};
template <> struct Type<f16> : Half<f16, 0> {};
template <> struct Type<bf16> : Half<bf16, 1> {};
template <> struct Type<e4m3> {
  using Out = bf16;
  static constexpr u32 DEPTH = ROW_BYTES;
  static constexpr u32 INSTRUCTION = instruct(0, 0, ROWS, COLUMNS);
  static DEVICE_MEMBER void load_b(u8* to, const TensorMap* b, Tile tile, u32 step, u64* full) {
    tile_load(to, b, step * DEPTH, tile.column * COLUMNS, full);
  }
  static constexpr u32 PART_B = 32;
  static DEVICE_MEMBER u64 describe_b(u32 stage) { return describe_k_major(stage); }
};

// Has stage after stage copied, through all tiles.
template <class In>
DEVICE void produce(Stages ring, u8* shared, Work work, const TensorMap* a, const TensorMap* b) {
  for (u32 index = block_index(); index < work.tiles(); index += block_count()) {
    const Tile tile = tile_at<PRODUCT_GROUP>(index, work.rows, work.columns);
    for (u32 step = 0; step < work.steps; step++) {
      await_phase(&ring.empty[ring.at], ring.parity ^ 1);
      u64* full = &ring.full[ring.at];
      u8* to = shared + ring.at * BYTES;
      arrive_expecting(full, BYTES);
      tile_load(to, a, step * Type<In>::DEPTH, tile.row * ROWS, full);
      Type<In>::load_b(to + BYTES_A, b, tile, step, full);
      ring.advance();
    }
  }
}

// Has stage after stage multiplied; each is given back, and each tile of sums handed over, when what
// was asked for so far is done.
template <class In>
DEVICE void multiply_all(Stages ring, Sums sums, u32 memory, u8* shared, Work work) {
  for (u32 index = block_index(); index < work.tiles(); index += block_count()) {
    await_phase(&sums.empty[sums.at], sums.parity ^ 1);
    see_tensor_memory();
    for (u32 step = 0; step < work.steps; step++) {
      await_phase(&ring.full[ring.at], ring.parity);
      see_tensor_memory();
      const u32 at = shared_address(shared) + ring.at * BYTES;
      const u64 a = describe_for_tensor_memory(describe_k_major(at));
      const u64 b = describe_for_tensor_memory(Type<In>::describe_b(at + BYTES_A));
      UNROLL for (u32 part = 0; part < 4; part++) {
        multiply_into(memory + sums.at * COLUMNS, further(a, part * 32),
                      further(b, part * Type<In>::PART_B), Type<In>::INSTRUCTION,
                      part > 0 ? 1 : step, In());
      }
      arrive_when_multiplied(&ring.empty[ring.at]);
      ring.advance();
    }
    arrive_when_multiplied(&sums.full[sums.at]);
    sums.advance();
  }
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
                     tiles_along(p.k, Type<In>::DEPTH)};
  if (thread_index() == 0) {
    prefetch_map(a);
    prefetch_map(b);
    prefetch_map(c);
  }
  with_tensor_memory(
      stages, sums, STAGES, memory_at, [&] { produce<In>(stages, shared, work, a, b); },
      [&](u32 memory) { multiply_all<In>(stages, sums, memory, shared, work); },
      [&](u32 memory) {
        write_all<typename Type<In>::Out, COLUMNS>(sums, memory, shared + STAGES * BYTES, work, c);
      });
}

}  // namespace

KERNEL(256, 1) gemm_bf16_tcgen05(const GemmParams p, MAP a, MAP b, MAP c) {
  product<bf16>(p, &a, &b, &c);
}
KERNEL(256, 1) gemm_f16_tcgen05(const GemmParams p, MAP a, MAP b, MAP c) {
  product<f16>(p, &a, &b, &c);
}
KERNEL(256, 1) gemm_fp8_tcgen05(const GemmParams p, MAP a, MAP b, MAP c) {
  product<e4m3>(p, &a, &b, &c);
}
