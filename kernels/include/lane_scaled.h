// Scales beside the fragments of lane_product.h, where 32 elements along k share one. A lane's scales of
// a step are on their way while the other half of the waves multiplies.
//
// An instruction multiplies 128 along k. On CDNA 4 another group of lanes has the scale of each of its four
// blocks, whichever of the block's elements it has; on CDNA 5 the first sixteen lanes have all four of their row.
#pragma once
#include "lane_product.h"
#include "scaled.h"

namespace {

template <class T, class S> struct Scales {
  using In = typename T::In;
  // Those of the tile's rows and columns; tiles of them along k.
  Source rows, columns;
  u32 tiles;
  // Of each fragment of A, and of B, the four scales of a lane's line.
  LoadedWords<1> a[S::DOWN], b[S::ACROSS];
  static_assert(S::ROWS % SCALE_ROWS == 0 && S::COLUMNS % SCALE_ROWS == 0, "whole tiles of scales");

  DEVICE_MEMBER void start(const GemmParams& p, Tile tile) {
    tiles = scale_tiles<In>(p.k * (8 / In::BITS));
    rows = source(p.scales_a, tile.row * S::ROWS, S::ROWS, p.m);
    columns = source(p.scales_b, tile.column * S::COLUMNS, S::COLUMNS, p.n);
  }
  DEVICE_MEMBER Source source(const void* scales, u32 first, u32 count, u32 end) const {
    return rows_of(scales, first / SCALE_ROWS, count / SCALE_ROWS, tiles_along(end, SCALE_ROWS),
                   tiles * SCALE_BYTES);
  }

  // What is behind the last line, or step, is multiplied by zeros: by scales of zero, of which none is no
  // number.
  template <u32 COUNT>
  DEVICE_MEMBER void fetch(LoadedWords<1> (&to)[COUNT], Source scales, u32 first, u32 step) {
    if (step >= tiles) scales.bytes = 0;
    UNROLL for (u32 i = 0; i < COUNT; i++) {
      const u32 line = first + i * 16 + lane_index() % 16;
      get_words(to[i], scales, u32(scale_place(line, step * SCALE_STEPS, tiles)));
    }
  }
  DEVICE_MEMBER void fetch(u32 step) {
    const u32 wave = wave_index();
    fetch(a, rows, wave / 4 * 16 * S::DOWN, step);
    fetch(b, columns, wave % 4 * 16 * S::ACROSS, step);
  }
  // The scale of this lane's block in the first byte, or all four; asked for no sooner than here, where it is
  // there.
  static DEVICE_MEMBER u32 own(LoadedWords<1> scales) {
    u32 four = scales[0];
    forget(four);
    return T::GROUPS == 4 ? four >> lane_index() / 16 * 8 : four;
  }
  DEVICE_MEMBER void multiply(const Fragments<T, S>& fragments,
                              f32 (&sums)[S::DOWN][S::ACROSS][T::SUMS]) {
    u32 left[S::ACROSS], right[S::DOWN];
    UNROLL for (u32 j = 0; j < S::ACROSS; j++) left[j] = own(b[j]);
    UNROLL for (u32 i = 0; i < S::DOWN; i++) {
      right[i] = own(a[i]);
      UNROLL for (u32 j = 0; j < S::ACROSS; j++) {
        multiply_scaled(sums[i][j], fragments.b[j], fragments.a[i], left[j], right[i], In());
      }
    }
  }
};

// `p.k` elements along k become so many bytes.
template <class T, class S> DEVICE void product_scaled(const GemmParams& p) {
  GemmParams bytes = p;
  bytes.k = p.k / (8 / T::In::BITS);
  product<T, S, Scales<T, S>>(bytes);
}

}  // namespace
