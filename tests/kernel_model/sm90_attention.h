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
    for (u32 i = 0; i < COUNT; i += 4) {
      for (u32 c = 0; c < 2; c++) {
        const Line<T> column(b, true, i / 4 * 8 + lane % 4 * 2 + c);
        for (u32 r = 0; r < 2; r++) {
          f32& sum = into[i + 2 * r + c];
          sum = rows[r].added(accumulate ? sum : 0.0f, column);
        }
      }
    }
  });
}

template <class T, u32 COUNT>
void multiply_values(f32 (&sums)[COUNT], const u32 (&a)[4], u64 b, u32 accumulate) {
  const u64 mine[8] = {a[0], planted ? a[2] : a[1], planted ? a[1] : a[2], a[3]};
  const u64* all = exchange(mine);
  const u32 lane = current % 32;
  // Rows g and g + 8: units of two along k.
  Line<T> rows[2];
  for (u32 r = 0; r < 2; r++) {
    for (u32 k = 0; k < 16; k++) {
      const u64* from = all + (lane / 4 * 4 + k / 2 % 4) * 8;
      rows[r].at[k] = value_of(element<T>(u32(from[r + k / 8 * 2]), k % 2));
    }
  }
  f32* into = sums;
  const Line<T> low = rows[0], high = rows[1];
  open_multiplications[current].push_back([=] {
    for (u32 i = 0; i < COUNT; i += 4) {
      for (u32 c = 0; c < 2; c++) {
        const Line<T> column(b, false, i / 4 * 8 + lane % 4 * 2 + c);
        f32 &one = into[i + c], &two = into[i + 2 + c];
        one = low.added(accumulate ? one : 0.0f, column);
        two = high.added(accumulate ? two : 0.0f, column);
      }
    }
  });
}

}  // namespace model

template <u32 COUNT, class T>
void multiply_scores(f32 (&sums)[COUNT], u64 a, u64 b, u32 accumulate, T) {
  model::multiply_scores<T>(sums, a, b, accumulate);
}
template <u32 COUNT, class T>
void multiply_values(f32 (&sums)[COUNT], const u32 (&a)[4], u64 b, u32 accumulate, T) {
  model::multiply_values<T>(sums, a, b, accumulate);
}
template <u32 COUNT> void settle_sums(f32 (&)[COUNT]) {}
template <u32 THREADS> void come_to_barrier(u32 number) {
  model::Barrier& barrier = model::named[number];
  if (++barrier.waiting == THREADS) {
    barrier.waiting = 0;
    barrier.round++;
  }
  model::progress++;
}
DEVICE bool any_of_warp(bool is_so) {
  const u64 mine[8] = {is_so};
  const u64* all = model::exchange(mine);
  bool any = false;
  for (u32 lane = 0; lane < 32; lane++) any = any || all[lane * 8] != 0;
  return any;
}
