// Queries of bf16 and weights beside keys of 8 bits: each is the sum of two e4m3, a high one, which is the
// nearest, and a low one, which is the rest. Both have 4 bits of a significand, together the 8 of bf16.
#pragma once
#include "attention_parts.h"
#include "sm89.h"

namespace {

// Four at once: off by 2^-9 of themselves at most, or by 2^-10, whichever is more, since no e4m3 is
// smaller than 2^-9.
DEVICE void split_four(const f32 (&from)[4], u32& high, u32& low) {
  high = narrow_four(from[0], from[1], from[2], from[3], e4m3());
  const u32 pairs[2] = {widen_pair(high, f16()), widen_pair(high >> 16, f16())};
  f32 rest[4];
  UNROLL for (u32 i = 0; i < 4; i++) {
    const f16 of_high = {u16(pairs[i / 2] >> i % 2 * 16)};
    rest[i] = from[i] - widen(of_high);
  }
  low = narrow_four(rest[0], rest[1], rest[2], rest[3], e4m3());
}

// A part's queries as the left operand, to where `place` of a row and 16 bytes of it says: of each row the
// high ones, then the low ones; zeros in rows that are none. A warp takes a row at a time. A row is
// multiplied by the power of two by which its largest is 128 or more, and less than 256, so that elements
// are exact but for those below 2^-9 of the largest, which are off by 2^-17 of it at most. What takes the
// power back is left in `scales`. Rows that are all below 2^-63 are multiplied by less: scores of theirs
// are nothing.
template <u32 ROWS, u32 DIM, u32 THREADS, class Place>
DEVICE void load_split_queries(const AttentionParams& p, const AttentionPart& part,
                               const AttentionSequence& sequence, u32 rows, Place place, f32* scales) {
  constexpr u32 CHUNKS = DIM / 8, EACH = (CHUNKS + 31) / 32;
  struct alignas(8) Eight { u32 at[2]; };
  const u32 lane = thread_index() % 32;
#pragma unroll 1
  for (u32 row = thread_index() / 32; row < ROWS; row += THREADS / 32) {
    f32 from[EACH][8] = {}, largest = 0.0f;
    UNROLL for (u32 i = 0; i < EACH; i++) {
      const u32 chunk = i * 32 + lane;
      if (row >= rows || chunk >= CHUNKS) continue;
      const bf16* at = static_cast<const bf16*>(p.q) + output_row(p, part, sequence, row) * DIM;
      const Vector<u32> pairs = *reinterpret_cast<const Vector<u32>*>(at + chunk * 8);
      UNROLL for (u32 e = 0; e < 8; e++) {
        from[i][e] = float_of(e % 2 == 0 ? pairs.at[e / 2] << 16 : pairs.at[e / 2] & 0xffff0000);
        largest = larger(largest, float_of(bits_of(from[i][e]) & 0x7fffffff));
      }
    }
    UNROLL for (u32 mask = 16; mask > 0; mask /= 2) {
      largest = larger(largest, shuffle_xor(largest, mask));
    }
    // 2^(7 - e) and 2^(e - 7) of the largest's exponent e, which stands there with 127 added.
    const u32 exponent = larger(bits_of(largest) >> 23, 127u - 63);
    const f32 scale = float_of((2 * 127 + 7 - exponent) << 23);
    if (lane == 0) scales[row] = float_of((exponent - 7) << 23);
    UNROLL for (u32 i = 0; i < EACH; i++) {
      const u32 chunk = i * 32 + lane;
      if (chunk >= CHUNKS) continue;
      Eight high, low;
      UNROLL for (u32 w = 0; w < 2; w++) {
        f32 four[4];
        UNROLL for (u32 e = 0; e < 4; e++) four[e] = from[i][4 * w + e] * scale;
        split_four(four, high.at[w], low.at[w]);
      }
      const auto store = [&](u32 at, const Eight& eight) {
        *reinterpret_cast<Eight*>(place(row, at / 2) + at % 2 * 8) = eight;
      };
      store(chunk, high);
      store(CHUNKS + chunk, low);
    }
  }
}

}  // namespace
