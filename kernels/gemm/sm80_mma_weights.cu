// Matrix products of bf16 activations of few rows by weights of 4 or 8 bits, as decoding of a
// quantised model makes them: by fragments in registers. What counts is that the weights, which are
// read once, arrive on all units at the speed of memory.
//
// The product is turned: 16 columns of B are the rows of a multiplication, 8 rows of A its columns.
// Each of 8 warps makes 32 columns of a tile of 256, and 8, 16 or 32 rows. A lane widens in registers
// the weights that it copied itself: 16 bytes of a column, which are neighbours along k. Since any
// order along k is right that both operands have, it needs no others. Activations, and scales of 4-bit
// weights, are shared by all warps.
//
// The tiles stand on a line, stage after stage along k, of which each block has an equal stretch
// (stream_k.h): few columns fill the device too. Rows of A, B and C must be multiples of 16 bytes.
#include "params.h"
#include "sm80.h"
#include "stream_k.h"
#include "weights.h"

namespace {

CONSTANT u32 THREADS = 256;
CONSTANT u32 WARP_COLUMNS = 32;
CONSTANT u32 COLUMNS = 256;
// Rows of fragments of the most rows: 4 of 8.
CONSTANT u32 ACROSS_MAX = 4;
// Bytes of a column's weights in a stage, and of a stage's weights and scales.
CONSTANT u32 LINE_BYTES = 64;
CONSTANT u32 WEIGHTS_BYTES = COLUMNS * LINE_BYTES;
CONSTANT u32 SCALES_BYTES = COLUMNS * 4;
// Two blocks of a unit fit into the 164 KiB of compute capability 8.0, of which each takes 1 KiB more.
CONSTANT u32 SHARED_BYTES = 81920;

template <class In> struct Layout {
  // Elements along k of a stage; chunks of 16 bytes of a row of A, and of them those of one lane.
  static constexpr u32 DEPTH = LINE_BYTES * 8 / In::BITS;
  static constexpr u32 CHUNKS = DEPTH / 8, OWN = CHUNKS / 4;
  static constexpr u32 SCALE_BYTES = In::SCALE_BITS / 8;
  // Whether the scales multiply the sums of a stage, instead of the weights.
  static constexpr bool SCALED_LAST = In::SCALE_BITS == 16;

  // Where a chunk of a row of A stands, so that neither the lanes that copy a row's chunks nor those
  // that want the same chunk of their own of two rows meet a bank twice.
  static DEVICE_MEMBER u32 place(u32 row, u32 chunk) {
    const u32 t = chunk / OWN, w = chunk % OWN;
    const u32 at = (w ^ row) % 2 * 4 + (t / 2 ^ w / 2) * 2 + t % 2;
    return row * (CHUNKS * 16) + (t / 2 * (OWN / 4) * 8 + at) * 16;
  }
};

CONSTANT u32 MINUS_ZEROS = 0x80008000;
// 2^63: a scale of ue8m0 together with the power of two that e2m1 wants is beyond bf16.
CONSTANT u32 APART = 63;

// Eight weights of a column that follow each other along k, as pairs of bf16. `factors` is a pair.
DEVICE void widen_weights(u32 (&pairs)[4], u32 word, u32, u32, bf16int4) {
  // 128 + w + 8 has the weight's bits for its last.
  UNROLL for (u32 i = 0; i < 4; i++) {
    const u32 above = masked_or(word >> 4 * i, 0x000f000f, 0x43004300);
    pairs[i] = fused_pair(above, 0x3f803f80, 0xc308c308);
  }
}
DEVICE void widen_weights(u32 (&pairs)[4], u32 word, u32, u32 factors, bf16mxfp4) {
  // Exponent and fraction to their places: what is left is 2^126 and the scale.
  UNROLL for (u32 i = 0; i < 4; i++) {
    const u32 sized = i < 2 ? word << (6 - 4 * i) : word >> (4 * i - 6);
    const u32 placed = masked_or(word << (12 - 4 * i), 0x80008000, sized & 0x01c001c0);
    pairs[i] = fused_pair(placed, factors, MINUS_ZEROS);
  }
}
DEVICE void widen_weights(u32 (&pairs)[4], u32 low, u32 high, u32, bf16fp8) {
  UNROLL for (u32 i = 0; i < 4; i++) {
    const u32 spread = choose_bytes(i < 2 ? low : high, 0, i % 2 == 0 ? 0x1404 : 0x3424);
    const u32 placed = masked_or(spread, 0x80008000, (spread & 0x7f007f00) >> 4);
    pairs[i] = fused_pair(placed, 0x7b807b80, MINUS_ZEROS);  // 2^120
  }
}

// Copies 16 bytes, or zeros where they are outside: then nothing is read.
DEVICE void copy_chunk(u32 to, const void* all, u64 at, bool there) {
  copy_async(to, static_cast<const u8*>(all) + at, there ? 16 : 0);
}

template <class In, u32 ACROSS> struct Turned {
  using L = Layout<In>;
  static constexpr u32 ROWS = 8 * ACROSS;
  static constexpr u32 BYTES_A = ROWS * L::CHUNKS * 16;
  static constexpr u32 BYTES = WEIGHTS_BYTES + BYTES_A + SCALES_BYTES;
  static constexpr u32 STAGES = SHARED_BYTES / BYTES;
  static constexpr u32 SUMS = 2 * ACROSS * 4;
  static_assert(STAGES >= 3, "copies are on their way while others are multiplied");

  GemmParams p;
  u32 warp, lane, g, t;

  // This lane's weights of one of its four columns: it alone copies and reads them.
  DEVICE_MEMBER u32 own(u32 stage, u32 i) const { return stage + ((warp * 4 + i) * 32 + lane) * 16; }
  DEVICE_MEMBER u32 column(u32 i) const { return warp * WARP_COLUMNS + i * 8 + g; }

  DEVICE_MEMBER void fetch(Tile tile, u32 step, u32 stage) const {
    const u64 line = u64(p.k) * In::BITS / 8;
    const u32 byte = step * LINE_BYTES + t * 16;
    UNROLL for (u32 i = 0; i < 4; i++) {
      const u32 at = tile.column * COLUMNS + column(i);
      copy_chunk(own(stage, i), p.b, at * line + byte, at < p.n && byte < line);
    }
    constexpr u32 ALL = ROWS * L::CHUNKS;
    UNROLL for (u32 first = 0; first < ALL; first += THREADS) {
      const u32 i = first + thread_index();
      if (ALL % THREADS != 0 && i >= ALL) continue;
      const u32 row = i / L::CHUNKS, chunk = i % L::CHUNKS;
      const u32 at = tile.row * ROWS + row, k = step * L::DEPTH + chunk * 8;
      copy_chunk(stage + WEIGHTS_BYTES + L::place(row, chunk), p.a, (u64(at) * p.k + k) * 2,
                 at < p.m && k < p.k);
    }
    if constexpr (L::SCALE_BYTES > 0) {
      constexpr u32 OF_CHUNK = 16 / L::SCALE_BYTES;
      const u32 at = tile.column * COLUMNS + thread_index() * OF_CHUNK;
      if (thread_index() >= COLUMNS / OF_CHUNK) return;
      copy_chunk(stage + WEIGHTS_BYTES + BYTES_A + thread_index() * 16, p.scales_b,
                 (u64(step) * p.n + at) * L::SCALE_BYTES, at < p.n);
    }
  }

  // The scale of one of this lane's columns: of int4 as an f32; of mxfp4 that of the lane's 32 along k,
  // as a pair of bf16, 2^126 included.
  DEVICE_MEMBER u32 scale_of(u32 stage, u32 i) const {
    const u32 first = stage + WEIGHTS_BYTES + BYTES_A;
    if constexpr (L::SCALE_BYTES == 2) {
      // Two columns, packed into a word.
      const u32 pair = load_shared(first + column(i) / 2 * 4, u32());
      return g % 2 == 0 ? pair << 16 : pair & 0xffff0000;
    } else if constexpr (L::SCALE_BYTES == 4) {
      const u32 four = load_shared(first + column(i) * 4, u32());
      const u32 factor = ((four >> 8 * t & 255) + 126 - APART) << 7;
      return factor << 16 | factor;
    } else {
      return 0;
    }
  }

  DEVICE_MEMBER void multiply_stage(f32 (&sums)[2][ACROSS][4], u32 stage) const {
    u32 weights[4][4], scales[4];
    UNROLL for (u32 i = 0; i < 4; i++) {
      load_words(weights[i], own(stage, i));
      if (!L::SCALED_LAST) scales[i] = scale_of(stage, i);
    }
    f32 parts[2][ACROSS][4] = {};
    UNROLL for (u32 w = 0; w < L::OWN; w++) {
      u32 pairs[4][4];
      UNROLL for (u32 i = 0; i < 4; i++) {
        const u32 (&words)[4] = weights[i];
        if constexpr (In::BITS == 4) widen_weights(pairs[i], words[w], 0, scales[i], In());
        else widen_weights(pairs[i], words[2 * w], words[2 * w + 1], 0, In());
      }
      UNROLL for (u32 j = 0; j < ACROSS; j++) {
        u32 a[4];
        load_words(a, stage + WEIGHTS_BYTES + L::place(8 * j + g, t * L::OWN + w));
        UNROLL for (u32 i = 0; i < 4; i++) {
          const u32 (&low)[4] = pairs[i / 2 * 2], (&high)[4] = pairs[i / 2 * 2 + 1];
          const u32 k = i % 2 * 2;
          const u32 left[4] = {low[k], high[k], low[k + 1], high[k + 1]};
          const u32 right[2] = {a[k], a[k + 1]};
          multiply(L::SCALED_LAST ? parts[i / 2][j] : sums[i / 2][j], left, right, bf16());
        }
      }
    }
    if constexpr (L::SCALED_LAST) {
      UNROLL for (u32 i = 0; i < 4; i++) {
        const f32 scale = float_of(scale_of(stage, i));
        UNROLL for (u32 j = 0; j < ACROSS; j++) {
          UNROLL for (u32 e = i % 2 * 2; e < i % 2 * 2 + 2; e++) {
            sums[i / 2][j][e] = fused(parts[i / 2][j][e], scale, sums[i / 2][j][e]);
          }
        }
      }
    }
  }

  DEVICE_MEMBER void leave(Tile tile, const f32 (&sums)[2][ACROSS][4]) const {
    UNROLL for (u32 i = 0; i < 4; i++) {
      const u32 at = tile.column * COLUMNS + column(i);
      if (at >= p.n) continue;
      f32 scale = 1.0f;
      if constexpr (L::SCALE_BYTES == 4) scale = float_of((127 + APART) << 23);
      if constexpr (L::SCALE_BYTES == 0) scale = static_cast<const f32*>(p.scales_b)[at];
      UNROLL for (u32 j = 0; j < ACROSS; j++) {
        UNROLL for (u32 e = 0; e < 2; e++) {
          const u32 row = tile.row * ROWS + j * 8 + 2 * t + e;
          if (row >= p.m) continue;
          static_cast<bf16*>(p.c)[u64(row) * p.n + at] =
              narrow(sums[i / 2][j][i % 2 * 2 + e] * scale, bf16());
        }
      }
    }
  }

  DEVICE_MEMBER void product(f32* scratch, u32* told) const {
    const u32 shared = shared_address(dynamic_shared());
    const u32 rows = tiles_along(p.m, ROWS), columns = tiles_along(p.n, COLUMNS);
    const Line line = line_of(rows * columns, tiles_along(p.k, L::DEPTH));
    // Tiles go down the rows first, so that neighbouring blocks read the same weights.
    const auto tile_of = [&](u32 index) { return Tile{index % rows, index / rows}; };
    Stretch fetched = first_stretch(line);
    Tile tile = tile_of(fetched.index);
    u32 filled = 0;
    auto fetch_next = [&] {
      if (fetched.there(line)) {
        fetch(tile, fetched.step, shared + filled);
        if (++fetched.step == fetched.end) {
          fetched.pass(line);
          tile = tile_of(fetched.index);
        }
      }
      close_copies();
      filled = filled == (STAGES - 1) * BYTES ? 0 : filled + BYTES;
    };
    for (u32 i = 0; i < STAGES - 1; i++) fetch_next();
    u32 stage = 0;
    for (Stretch now = first_stretch(line); now.there(line); now.pass(line)) {
      f32 sums[2][ACROSS][4] = {};
      for (u32 step = now.step; step < now.end; step++) {
        await_copies<STAGES - 2>();
        block_barrier();
        fetch_next();
        multiply_stage(sums, shared + stage);
        stage = stage == (STAGES - 1) * BYTES ? 0 : stage + BYTES;
      }
      if (now.end - now.step < line.steps) {
        const Sharers<SUMS, THREADS, 1, 2 * ACROSS_MAX * 4> sharers = {scratch, told, 0,
                                                                       thread_index()};
        const auto sum = [&](u32 i) -> f32& {
          return sums[i / 4 / ACROSS][i / 4 % ACROSS][i % 4];
        };
        const auto meet = [] { block_barrier(); };
        if (!sharers.complete(line, now.index, now.step, now.end, sum, meet)) continue;
      }
      leave(tile_of(now.index), sums);
    }
  }
};

template <class In, u32 ACROSS> DEVICE void product(const GemmParams& p, f32* scratch, u32* told) {
  const u32 thread = thread_index(), lane = thread % 32;
  const Turned<In, ACROSS> turned = {p, thread / 32, lane, lane / 4, lane % 4};
  turned.product(scratch, told);
}

template <class In> DEVICE void product(const GemmParams& p, f32* scratch) {
  SHARED u32 told[1];
  if (p.m <= 8) product<In, 1>(p, scratch, told);
  // Beside the accumulators of a group there are no registers for more rows.
  else if (p.m <= 16 || Layout<In>::SCALED_LAST) product<In, 2>(p, scratch, told);
  else product<In, 4>(p, scratch, told);
}

}  // namespace

KERNEL(256, 2) gemm_bf16int4_mma(const GemmParams p, f32* scratch) {
  product<bf16int4>(p, scratch);
}
KERNEL(256, 2) gemm_bf16mxfp4_mma(const GemmParams p, f32* scratch) {
  product<bf16mxfp4>(p, scratch);
}
KERNEL(256, 2) gemm_bf16fp8_mma(const GemmParams p, f32* scratch) { product<bf16fp8>(p, scratch); }
