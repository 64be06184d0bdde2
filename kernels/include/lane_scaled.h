// Scales beside the fragments of lane_product.h, where 32 elements along k share one. A lane's scales of
// a step are on their way while the other half of the waves multiplies.
//
// An instruction multiplies 128 along k. Of each of its four blocks another group of lanes has the
// scale, whichever of the block's elements it has.
#pragma once
#include "lane_product.h"
#include "scaled.h"

namespace {

template <class T, class S> struct Scales {
  using In = typename T::In;
  const GemmParams& p;
  Tile tile;
  // Of each fragment of A, and of B, the four scales of a lane's line.
  u32 a[S::DOWN], b[S::ACROSS];

  DEVICE_MEMBER Scales(const GemmParams& p, Tile tile) : p(p), tile(tile) {}

  // What is behind the last line is multiplied by zeros.
  template <u32 COUNT>
  DEVICE_MEMBER void fetch(u32 (&to)[COUNT], const void* scales, u32 first, u32 end, u32 step) {
    // Rows of so many bytes.
    const u32 tiles = scale_tiles<In>(p.k * (8 / In::BITS));
    UNROLL for (u32 i = 0; i < COUNT; i++) {
      const u32 line = first + i * 16 + lane_index() % 16;
      u32 word[1];
      get_words(word, static_cast<const u8*>(scales) +
                          scale_place(line < end ? line : end - 1, step * SCALE_STEPS, tiles));
      to[i] = word[0];
    }
  }
  DEVICE_MEMBER void fetch(u32 step) {
    const u32 wave = wave_index();
    fetch(a, p.scales_a, tile.row * S::ROWS + wave / 4 * 16 * S::DOWN, p.m, step);
    fetch(b, p.scales_b, tile.column * S::COLUMNS + wave % 4 * 16 * S::ACROSS, p.n, step);
  }
  DEVICE_MEMBER void multiply(const Fragments<T, S>& fragments,
                              f32 (&sums)[S::DOWN][S::ACROSS][T::SUMS]) {
    // The scale of this lane's block comes to be in the first byte.
    const u32 shift = lane_index() / 16 * 8;
    UNROLL for (u32 i = 0; i < S::DOWN; i++) a[i] >>= shift;
    UNROLL for (u32 j = 0; j < S::ACROSS; j++) b[j] >>= shift;
    UNROLL for (u32 i = 0; i < S::DOWN; i++) {
      UNROLL for (u32 j = 0; j < S::ACROSS; j++) {
        multiply_scaled(sums[i][j], fragments.b[j], fragments.a[i], b[j], a[i], In());
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
