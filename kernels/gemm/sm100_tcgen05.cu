// Matrix products into tensor memory, as compute capability 10 has them: bf16 and f16 with B row by
// row, fp8 (e4m3) with B column by column. Rows must be multiples of 16 bytes.
//
// One block for each unit walks tiles of 128 x 256. One thread has stages of 128 bytes along k
// copied by tensor maps, four in a ring; one thread of another warp has them multiplied; four warps
// write the sums. Tensor memory holds two tiles of sums: one is written while the next is made.
#include "params.h"
#include "sm100.h"
#include "tiles.h"

namespace {

CONSTANT u32 ROWS = 128;
CONSTANT u32 COLUMNS = 256;
CONSTANT u32 ROW_BYTES = 128;
CONSTANT u32 STAGES = 4;
CONSTANT u32 GROUP = 8;
CONSTANT u32 BYTES_A = ROWS * ROW_BYTES;
CONSTANT u32 BYTES_B = COLUMNS * ROW_BYTES;
CONSTANT u32 BYTES = BYTES_A + BYTES_B;
// 128 rows of 64 sums of 16 bits.
CONSTANT u32 BUFFER_BYTES = ROWS * ROW_BYTES;
CONSTANT u32 BUFFERS = 2;
CONSTANT u32 WRITERS = 128;

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
  static DEVICE_MEMBER u64 describe_b(u32 stage, u32 part) {
    return describe_mn_major(stage + part * (16 * ROW_BYTES), BOX_BYTES);
  }
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
  static DEVICE_MEMBER u64 describe_b(u32 stage, u32 part) {
    return describe_k_major(stage + part * 32);
  }
};

// A ring of COUNT places with two barriers for each.
template <u32 COUNT> struct Ring {
  u64* full;
  u64* empty;
  u32 at, parity;

  DEVICE_MEMBER void advance() {
    if (++at < COUNT) return;
    at = 0;
    parity ^= 1;
  }
};
using Stages = Ring<STAGES>;
using Sums = Ring<2>;

struct Work {
  u32 rows, columns, steps;

  DEVICE_MEMBER u32 tiles() const { return rows * columns; }
};

// Has stage after stage copied, through all tiles.
template <class In>
DEVICE void produce(Stages ring, u8* shared, Work work, const TensorMap* a, const TensorMap* b) {
  for (u32 index = block_index(); index < work.tiles(); index += block_count()) {
    const Tile tile = tile_at<GROUP>(index, work.rows, work.columns);
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
      const u32 a = shared_address(shared) + ring.at * BYTES;
      UNROLL for (u32 part = 0; part < 4; part++) {
        multiply_into(memory + sums.at * COLUMNS,
                      describe_for_tensor_memory(describe_k_major(a + part * 32)),
                      describe_for_tensor_memory(Type<In>::describe_b(a + BYTES_A, part)),
                      Type<In>::INSTRUCTION, step + part, In());
      }
      arrive_when_multiplied(&ring.empty[ring.at]);
      ring.advance();
    }
    arrive_when_multiplied(&sums.full[sums.at]);
    sums.advance();
  }
}

// Writes tile after tile, 64 columns at a time: each thread has one row of them.
template <class In>
DEVICE void write_all(Sums sums, u32 memory, u8* buffers, Work work, const TensorMap* c) {
  using Out = typename Type<In>::Out;
  const u32 row = thread_index() % WRITERS;
  for (u32 index = block_index(); index < work.tiles(); index += block_count()) {
    const Tile tile = tile_at<GROUP>(index, work.rows, work.columns);
    await_phase(&sums.full[sums.at], sums.parity);
    see_tensor_memory();
    for (u32 part = 0; part < COLUMNS / 64; part++) {
      u8* buffer = buffers + part % BUFFERS * BUFFER_BYTES;
      // The store before the last one, which read this buffer, has done so.
      if (row == 0) await_stores_read<BUFFERS - 1>();
      barrier_of<WRITERS>(1);
      UNROLL for (u32 half = 0; half < 2; half++) {
        f32 values[32];
        const u32 lanes = row / 32 * 32 << 16;
        load_sums(values, memory + lanes + sums.at * COLUMNS + part * 64 + half * 32);
        UNROLL for (u32 i = 0; i < 4; i++) {
          Vector<u32> chunk;
          UNROLL for (u32 e = 0; e < 4; e++) {
            chunk.at[e] = narrow_pair(values[8 * i + 2 * e], values[8 * i + 2 * e + 1], Out());
          }
          const u32 place = (half * 4 + i) ^ (row % 8);
          *reinterpret_cast<Vector<u32>*>(buffer + row * ROW_BYTES + place * 16) = chunk;
        }
      }
      if (part == COLUMNS / 64 - 1) {
        // The last sums of this tile are read: its place is free.
        show_tensor_memory();
        arrive(&sums.empty[sums.at]);
      }
      show_to_copies();
      barrier_of<WRITERS>(1);
      if (row == 0) {
        tile_store(c, buffer, tile.column * COLUMNS + part * 64, tile.row * ROWS);
        close_stores();
      }
    }
    sums.advance();
  }
  if (row == 0) await_stores<0>();
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
  const u32 warp = thread_index() / 32;
  if (thread_index() == 0) {
    for (u32 i = 0; i < STAGES; i++) {
      make_barrier(&stages.full[i], 1);
      make_barrier(&stages.empty[i], 1);
    }
    for (u32 i = 0; i < 2; i++) {
      make_barrier(&sums.full[i], 1);
      make_barrier(&sums.empty[i], WRITERS);
    }
    barriers_made();
    prefetch_map(a);
    prefetch_map(b);
    prefetch_map(c);
  }
  warp_barrier();
  if (warp == 1) take_tensor_memory(memory_at);
  show_tensor_memory();
  block_barrier();
  see_tensor_memory();
  const u32 memory = memory_at[0];
  if (thread_index() == 0) produce<In>(stages, shared, work, a, b);
  if (thread_index() == 32) multiply_all<In>(stages, sums, memory, shared, work);
  if (warp >= 4) write_all<In>(sums, memory, shared + STAGES * BYTES, work, c);
  // Warps whose one thread worked come together before the block does.
  warp_barrier();
  show_tensor_memory();
  block_barrier();
  see_tensor_memory();
  if (warp == 1) give_tensor_memory(memory);
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
