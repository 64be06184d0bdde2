// Stands in for kernels/include/sm90_attention.h.
#pragma once
#define FIZEAU_SM90_ATTENTION_H
#include "sm90.h"

namespace model {

// Left operands in registers are those of the moment when the multiplication was asked for.
template <class T, u32 COUNT>
void multiply_scores(f32 (&sums)[COUNT], u64 a, u64 b, u32 accumulate) {
  const u32 warp = current / 32 % 4, lane = current % 32;
  f32* into = sums;
  open_multiplications[current].push_back([=] {
    const Line<T> rows[2] = {Line<T>(a, true, 16 * warp + lane / 4),
                             Line<T>(a, true, 16 * warp + lane / 4 + 8)};
    multiply_lines(into, COUNT, rows, b, accumulate, true);
  });
}

// The left operand in registers, in units of 4 bytes along k.
template <class T, class Sum, u32 COUNT>
void multiply_registers(Sum (&sums)[COUNT], const u32 (&a)[4], u64 b, u32 accumulate,
                        bool b_k_major) {
  const u64 mine[8] = {a[0], planted ? a[2] : a[1], planted ? a[1] : a[2], a[3]};
  const u64* all = exchange(mine);
  const u32 lane = current % 32;
  constexpr u32 UNIT = 4 / sizeof(T);
  // Rows g and g + 8.
  Line<T> rows[2];
  for (u32 r = 0; r < 2; r++) {
    for (u32 k = 0; k < Line<T>::DEPTH; k++) {
      const u32 unit = k / UNIT;
      const u64* from = all + (lane / 4 * 4 + unit % 4) * 8;
      rows[r].at[k] = value_of(element<T>(u32(from[r + unit / 4 * 2]), k % UNIT));
    }
  }
  Sum* into = sums;
  const Line<T> low = rows[0], high = rows[1];
  open_multiplications[current].push_back([=] {
    const Line<T> both[2] = {low, high};
    multiply_lines(into, COUNT, both, b, accumulate, b_k_major);
  });
}

}  // namespace model

template <u32 COUNT, class T>
void multiply_scores(f32 (&sums)[COUNT], u64 a, u64 b, u32 accumulate, T) {
  model::multiply_scores<T>(sums, a, b, accumulate);
}
template <u32 COUNT, class T>
void multiply_values(f32 (&sums)[COUNT], const u32 (&a)[4], u64 b, u32 accumulate, T) {
  model::multiply_registers<T>(sums, a, b, accumulate, sizeof(T) == 1);
}
template <class Sum, class T>
void multiply_left(Sum (&sums)[64], const u32 (&a)[4], u64 b, u32 accumulate, T) {
  model::multiply_registers<T>(sums, a, b, accumulate, true);
}
template <class Sum, u32 COUNT> void settle_sums(Sum (&)[COUNT]) {}
DEVICE bool any_of_warp(bool is_so) {
  const u64 mine[8] = {is_so};
  const u64* all = model::exchange(mine);
  bool any = false;
  for (u32 lane = 0; lane < 32; lane++) any = any || all[lane * 8] != 0;
  return any;
}
