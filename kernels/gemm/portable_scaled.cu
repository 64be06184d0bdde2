// Matrix products of elements that share scales along k, and of bf16 by weights of fewer bits, on the
// vector units: the reference on the device. B is kept column by column; k is whole blocks.
//
// 256 threads make a tile of 64 x 64, 4 x 4 each. Values are made from element and scale when they
// are fetched, the next 32 along k while the present ones are multiplied.
#include "params.h"
#include "weights.h"

namespace {

CONSTANT u32 THREADS = 256;
CONSTANT u32 TILE = 64;
CONSTANT u32 DEPTH = 32;
CONSTANT u32 GROUP = 8;
CONSTANT u32 FETCHED = TILE * DEPTH / THREADS;
// 4 more than a tile's lines, so that a line's neighbours are in other banks.
CONSTANT u32 STRIDE = TILE + 4;

// Rows of A, or columns of B.
struct Lines {
  const u8* elements;
  const void* scales;
  u32 count, k;
  bool of_b;
};

template <class In> DEVICE f32 scale_at(const Lines& lines, u32 line, u32 block, In type) {
  const u8* scales = static_cast<const u8*>(lines.scales);
  return value_of_scale(scales[scale_place(line, block, scale_tiles<In>(lines.k))], type);
}
DEVICE f32 scale_at(const Lines& lines, u32 line, u32 block, fp8block) {
  const f32* scales = static_cast<const f32*>(lines.scales);
  if (!lines.of_b) return scales[u64(block) * lines.count + line];
  return scales[u64(line / fp8block::BLOCK) * (lines.k / fp8block::BLOCK) + block];
}

template <class In> DEVICE f32 value(const Lines& lines, u64 at, u32 line, u32 k, In) {
  f32 element;
  if constexpr (In::BITS == 8) element = value_of_e4m3(lines.elements[at]);
  else element = value_of_e2m1(lines.elements[at / 2] >> 4 * (at % 2));
  return element * scale_at(lines, line, k / In::BLOCK, In());
}
DEVICE f32 value(const Lines& lines, u64 at, u32 column, u32, bf16fp8) {
  return value_of_e4m3(lines.elements[at]) * static_cast<const f32*>(lines.scales)[column];
}
DEVICE f32 value(const Lines& lines, u64 at, u32 column, u32 k, bf16int4) {
  const bf16* scales = static_cast<const bf16*>(lines.scales);
  return value_of_int4(weight_bits(lines.elements, at)) *
         widen(scales[u64(k / WEIGHT_GROUP) * lines.count + column]);
}
DEVICE f32 value(const Lines& lines, u64 at, u32 column, u32 k, bf16mxfp4) {
  const u64 word = u64(k / WEIGHT_GROUP) * lines.count + column;
  return value_of_e2m1(weight_bits(lines.elements, at)) *
         value_of_ue8m0(static_cast<const u8*>(lines.scales)[word * 4 + k % WEIGHT_GROUP / 32]);
}

template <class In> DEVICE f32 value_at(const Lines& lines, u32 line, u32 k) {
  if (line >= lines.count || k >= lines.k) return 0.0f;
  const u64 at = u64(line) * lines.k + k;
  if (In::A_IS_BF16 && !lines.of_b) return widen(reinterpret_cast<const bf16*>(lines.elements)[at]);
  return value(lines, at, line, k, In());
}

// One thread's share of 32 along k of 64 lines.
template <class In> DEVICE void fetch(f32 (&values)[FETCHED], const Lines& lines, u32 first, u32 k) {
  UNROLL for (u32 i = 0; i < FETCHED; i++) {
    const u32 line = first + i * (THREADS / DEPTH) + thread_index() / DEPTH;
    values[i] = value_at<In>(lines, line, k + thread_index() % DEPTH);
  }
}
DEVICE void keep(f32 (&kept)[DEPTH][STRIDE], const f32 (&values)[FETCHED]) {
  UNROLL for (u32 i = 0; i < FETCHED; i++) {
    kept[thread_index() % DEPTH][i * (THREADS / DEPTH) + thread_index() / DEPTH] = values[i];
  }
}

template <class In> DEVICE void product(const GemmParams& p) {
  alignas(16) SHARED f32 a[DEPTH][STRIDE];
  alignas(16) SHARED f32 b[DEPTH][STRIDE];
  const auto bytes = [](const void* at) { return static_cast<const u8*>(at); };
  const Lines of_a = {bytes(p.a), p.scales_a, p.m, p.k, false};
  const Lines of_b = {bytes(p.b), p.scales_b, p.n, p.k, true};
  const u32 rows = tiles_along(p.m, TILE), columns = tiles_along(p.n, TILE);
  const u32 down = thread_index() / 16 * 4, across = thread_index() % 16 * 4;
  for (u32 index = block_index(); index < rows * columns; index += block_count()) {
    const Tile tile = tile_at<GROUP>(index, rows, columns);
    f32 sums[4][4] = {}, next_a[FETCHED], next_b[FETCHED];
    fetch<In>(next_a, of_a, tile.row * TILE, 0);
    fetch<In>(next_b, of_b, tile.column * TILE, 0);
    for (u32 k = 0; k < p.k; k += DEPTH) {
      keep(a, next_a);
      keep(b, next_b);
      block_barrier();
      fetch<In>(next_a, of_a, tile.row * TILE, k + DEPTH);
      fetch<In>(next_b, of_b, tile.column * TILE, k + DEPTH);
      for (u32 i = 0; i < DEPTH; i++) {
        UNROLL for (u32 r = 0; r < 4; r++) {
          UNROLL for (u32 c = 0; c < 4; c++) {
            sums[r][c] = fused(a[i][down + r], b[i][across + c], sums[r][c]);
          }
        }
      }
      block_barrier();
    }
    bf16* to = static_cast<bf16*>(p.c);
    UNROLL for (u32 r = 0; r < 4; r++) {
      const u32 row = tile.row * TILE + down + r;
      UNROLL for (u32 c = 0; c < 4; c++) {
        const u32 column = tile.column * TILE + across + c;
        const f32 sum = with_tensor_scales(sums[r][c], p.factor, In());
        if (row < p.m && column < p.n) to[u64(row) * p.n + column] = narrow(sum, bf16());
      }
    }
  }
}

}  // namespace

KERNEL(256, 2) gemm_mxfp8(const GemmParams p) { product<mxfp8>(p); }
KERNEL(256, 2) gemm_mxfp4(const GemmParams p) { product<mxfp4>(p); }
KERNEL(256, 2) gemm_nvfp4(const GemmParams p) { product<nvfp4>(p); }
KERNEL(256, 2) gemm_fp8block(const GemmParams p) { product<fp8block>(p); }
KERNEL(256, 2) gemm_bf16fp8(const GemmParams p) { product<bf16fp8>(p); }
KERNEL(256, 2) gemm_bf16int4(const GemmParams p) { product<bf16int4>(p); }
KERNEL(256, 2) gemm_bf16mxfp4(const GemmParams p) { product<bf16mxfp4>(p); }
