// Stands in for kernels/include/sm120.h: elements that share scales.
#pragma once
#define FIZEAU_SM120_H
#include "sm80.h"
#include "scaled_model.h"

// Of the scales, lanes 0 and 1 of each four give those of A, lane 0 those of B (PTX manual, "Block
// Scaling for mma.sync", thread ids 0).
template <u32 BYTE, class In>
void multiply_scaled(f32 (&sums)[4], const u32 (&a)[4], const u32 (&b)[2], u32 scales_a,
                     u32 scales_b, In) {
  constexpr u32 WORD = 32 / In::BITS;
  static_assert(BYTE + 8 * WORD / In::BLOCK <= 4, "scales of one word");
  const u64 mine[8] = {a[0], a[1], a[2], a[3], b[0], b[1], scales_a, scales_b};
  const u64* all = model::exchange(mine);
  const u32 lane = model::current % 32;
  const auto element = [](u64 word, u32 at) {
    return In::BITS == 8 ? widen(e4m3{u8(word >> 8 * at)}) : model::value_of_e2m1(word, at);
  };
  for (u32 i = 0; i < 4; i++) {
    const u32 row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    const u64 scales_of_row = all[(row % 8 * 4 + row / 8) * 8 + 6];
    const u64 scales_of_column = all[column * 4 * 8 + 7];
    for (u32 k = 0; k < 8 * WORD; k++) {
      const u32 unit = k / WORD, byte = BYTE + k / In::BLOCK;
      const u64* from_a = all + (row % 8 * 4 + unit % 4) * 8;
      const u64* from_b = all + (column * 4 + unit % 4) * 8;
      const f32 left = element(from_a[row / 8 + unit / 4 * 2], k % WORD);
      const f32 right = element(from_b[4 + unit / 4], k % WORD);
      sums[i] += left * model::scale_value(u8(scales_of_row >> 8 * byte), In()) *
                 (right * model::scale_value(u8(scales_of_column >> 8 * byte), In()));
    }
  }
}
