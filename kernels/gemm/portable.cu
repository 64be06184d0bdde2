// Matrix products on the vector units, for every shape: the reference on the device, and the peak
// of 32-bit floats.
//
// 256 threads make a tile of 128 x 128; each makes 8 x 8 of it, in four corners of 4 x 4, so that
// a warp's loads from shared memory are of 16 bytes without conflicts. The next 64 bytes
// along k are fetched into registers while the present ones are multiplied.
#include "grouped.h"
#include "params.h"
#include "tiles.h"

namespace {

CONSTANT u32 THREADS = 256;
CONSTANT u32 TILE = 128;
CONSTANT u32 GROUP = 8;
// A is kept by columns: 4 more than a tile's rows, so that a column's neighbours are in other banks.
CONSTANT u32 STRIDE = TILE + 4;

// 64 bytes along k.
template <class Sum> struct Operands {
  static constexpr u32 DEPTH = 64 / sizeof(Sum);
  alignas(16) Sum a[DEPTH][STRIDE];
  alignas(16) Sum b[DEPTH][STRIDE];
};

// One thread's share of a step along k. NT: B stands column by column, as A does row by row.
template <class In, class Sum, bool NT> struct Fetched {
  static constexpr u32 DEPTH = Operands<Sum>::DEPTH;
  static constexpr u32 FETCHED = TILE * DEPTH / THREADS;
  In a[FETCHED], b[FETCHED];

  // Of `lines` lines of p.k elements those of a tile, from line `first` on.
  DEVICE_MEMBER static void fetch_lines(In (&into)[FETCHED], const void* of, u32 first, u32 lines,
                                        const GemmParams& p, u32 k_first) {
    const u32 line = first + thread_index() / DEPTH;
    const u32 k = k_first + thread_index() % DEPTH;
    const In* from = static_cast<const In*>(of) + k;
    UNROLL for (u32 i = 0; i < FETCHED; i++) {
      const u32 at = line + i * (THREADS / DEPTH);
      into[i] = at < lines && k < p.k ? from[u64(at) * p.k] : In();
    }
  }

  DEVICE_MEMBER void fetch(const GemmParams& p, Tile tile, u32 k_first) {
    fetch_lines(a, p.a, tile.row * TILE, p.m, p, k_first);
    if (NT) {
      fetch_lines(b, p.b, tile.column * TILE, p.n, p, k_first);
      return;
    }
    const u32 column = tile.column * TILE + thread_index() % TILE;
    const u32 k_b = k_first + thread_index() / TILE;
    const In* from = static_cast<const In*>(p.b) + (u64(k_b) * p.n + column);
    UNROLL for (u32 i = 0; i < FETCHED; i++) {
      constexpr u32 STEP = THREADS / TILE;
      b[i] = k_b + i * STEP < p.k && column < p.n ? *from : In();
      from += u64(STEP) * p.n;
    }
  }

  DEVICE_MEMBER void keep(Operands<Sum>& operands) const {
    UNROLL for (u32 i = 0; i < FETCHED; i++) {
      const u32 line = i * (THREADS / DEPTH) + thread_index() / DEPTH;
      operands.a[thread_index() % DEPTH][line] = widen(a[i]);
    }
    UNROLL for (u32 i = 0; i < FETCHED; i++) {
      const u32 k = NT ? thread_index() % DEPTH : i * (THREADS / TILE) + thread_index() / TILE;
      const u32 column =
          NT ? i * (THREADS / DEPTH) + thread_index() / DEPTH : thread_index() % TILE;
      operands.b[k][column] = widen(b[i]);
    }
  }
};

// Where of a tile's 128 rows (or columns) the i-th of a thread's 8 is.
DEVICE u32 place(u32 thread, u32 i) { return i / 4 * (TILE / 2) + thread * 4 + i % 4; }

template <class Sum> DEVICE void multiply(const Operands<Sum>& operands, Sum (&sums)[8][8]) {
  const u32 down = thread_index() / 16, across = thread_index() % 16;
#pragma unroll 2
  for (u32 k = 0; k < Operands<Sum>::DEPTH; k++) {
    Sum a[8], b[8];
    UNROLL for (u32 i = 0; i < 8; i++) a[i] = operands.a[k][place(down, i)];
    UNROLL for (u32 i = 0; i < 8; i++) b[i] = operands.b[k][place(across, i)];
    UNROLL for (u32 r = 0; r < 8; r++) {
      UNROLL for (u32 c = 0; c < 8; c++) sums[r][c] = fused(a[r], b[c], sums[r][c]);
    }
  }
}

template <class Out, class Sum>
DEVICE void leave(const GemmParams& p, Tile tile, const Sum (&sums)[8][8]) {
  const u32 down = thread_index() / 16, across = thread_index() % 16;
  Out* to = static_cast<Out*>(p.c);
  UNROLL for (u32 r = 0; r < 8; r++) {
    const u32 row = tile.row * TILE + place(down, r);
    UNROLL for (u32 c = 0; c < 8; c++) {
      const u32 column = tile.column * TILE + place(across, c);
      if (row < p.m && column < p.n) to[u64(row) * p.n + column] = narrow(sums[r][c], Out());
    }
  }
}

template <class In, class Sum, class Out, bool NT = false, class Groups>
DEVICE void product(Groups groups) {
  SHARED Operands<Sum> operands;
  for (u32 index = block_index(); groups.seek(index); index += block_count()) {
    const GemmParams p = groups.template product<sizeof(In), sizeof(Out)>();
    const Tile tile = tile_at<GROUP>(groups.within(index), groups.rows, groups.columns);
    Sum sums[8][8] = {};
    Fetched<In, Sum, NT> fetched;
    fetched.fetch(p, tile, 0);
    constexpr u32 DEPTH = Operands<Sum>::DEPTH;
    for (u32 k = 0; k < p.k; k += DEPTH) {
      fetched.keep(operands);
      block_barrier();
      if (k + DEPTH < p.k) fetched.fetch(p, tile, k + DEPTH);
      multiply(operands, sums);
      block_barrier();
    }
    leave<Out>(p, tile, sums);
  }
}

}  // namespace

KERNEL(256, 1) gemm_f64(const GemmParams p) { product<f64, f64, f64>(single<TILE, TILE>(p)); }
KERNEL(256, 2) gemm_f32(const GemmParams p) { product<f32, f32, f32>(single<TILE, TILE>(p)); }
KERNEL(256, 2) gemm_f16(const GemmParams p) { product<f16, f32, f16>(single<TILE, TILE>(p)); }
KERNEL(256, 2) gemm_bf16(const GemmParams p) { product<bf16, f32, bf16>(single<TILE, TILE>(p)); }
KERNEL(256, 1) gemm_int8(const GemmParams p) { product<i8, i32, i32>(single<TILE, TILE>(p)); }
KERNEL(256, 1) gemm_f64_nt(const GemmParams p) {
  product<f64, f64, f64, true>(single<TILE, TILE>(p));
}
KERNEL(256, 2) gemm_f32_nt(const GemmParams p) {
  product<f32, f32, f32, true>(single<TILE, TILE>(p));
}
KERNEL(256, 2) gemm_f16_nt(const GemmParams p) {
  product<f16, f32, f16, true>(single<TILE, TILE>(p));
}
KERNEL(256, 2) gemm_bf16_nt(const GemmParams p) {
  product<bf16, f32, bf16, true>(single<TILE, TILE>(p));
}
KERNEL(256, 1) gemm_int8_nt(const GemmParams p) {
  product<i8, i32, i32, true>(single<TILE, TILE>(p));
}
KERNEL(256, 1) grouped_f32(const GroupedParams p) {
  product<f32, f32, f32>(grouped<TILE, TILE>(p));
}
KERNEL(256, 1) grouped_f16(const GroupedParams p) {
  product<f16, f32, f16>(grouped<TILE, TILE>(p));
}
KERNEL(256, 1) grouped_bf16(const GroupedParams p) {
  product<bf16, f32, bf16>(grouped<TILE, TILE>(p));
}
