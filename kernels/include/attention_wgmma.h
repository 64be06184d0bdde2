// Softmax on the scores that a warpgroup's multiplications leave: of 64 rows and KEYS keys, each
// thread has rows g and g + 8 of its warp's 16, and of them keys 8j + 2t and the next; the 4 threads
// of a row share it (wgmma of sm90_attention.h).
#pragma once
#include "attention.h"
#include "sm90_attention.h"

namespace {

CONSTANT f32 RISE_MAX = 8.0f;

// Rows g and g + 8 of a warp's 16: what their weights are relative to, as exponents of two, sums of
// weights so far, and what sums are to be multiplied with.
struct Softmax { f32 max[2], total[2], correction[2]; };

DEVICE Softmax no_softmax() {
  return {{no_score(), no_score()}, {0.0f, 0.0f}, {1.0f, 1.0f}};
}

// Keys from `from` on are none to rows that do not see so many.
template <u32 COUNT> DEVICE void mask_scores(f32 (&scores)[COUNT], u32 from, const u32 (&seen)[2]) {
  const u32 t = thread_index() % 4;
  UNROLL for (u32 i = 0; i < COUNT; i++) {
    if (from + i / 4 * 8 + 2 * t + i % 2 >= seen[i / 2 % 2]) scores[i] = no_score();
  }
}

// Scores become weights. They are relative to the largest score so far only where it rose by more
// than RISE_MAX: until then sums are not corrected.
template <u32 COUNT>
DEVICE void weigh_scores(f32 (&scores)[COUNT], Softmax& softmax, f32 factor) {
  UNROLL for (u32 half = 0; half < 2; half++) {
    f32 largest = no_score();
    UNROLL for (u32 i = 0; i < COUNT; i += 4) {
      largest = larger(largest, larger(scores[i + 2 * half], scores[i + 2 * half + 1]));
    }
    largest = larger(largest, shuffle_xor(largest, 1));
    largest = larger(largest, shuffle_xor(largest, 2)) * factor;
    const f32 before = softmax.max[half];
    // Where nothing was seen before, any score is a rise.
    const f32 base = largest > before + RISE_MAX ? largest : before;
    const f32 relative = base == no_score() ? 0.0f : base;
    softmax.correction[half] = base == before ? 1.0f : power_of_two(before - relative);
    softmax.max[half] = base;
    f32 sum = 0.0f;
    UNROLL for (u32 i = 0; i < COUNT; i += 4) {
      UNROLL for (u32 c = 0; c < 2; c++) {
        f32& score = scores[i + 2 * half + c];
        score = power_of_two(fused(score, factor, -relative));
        sum += score;
      }
    }
    softmax.total[half] = fused(softmax.total[half], softmax.correction[half], sum);
  }
}

// Weights as the left operand of the second product.
template <class Matrix, u32 STEPS>
DEVICE void pack_weights(u32 (&weights)[STEPS][4], const f32 (&scores)[STEPS * 8]) {
  UNROLL for (u32 i = 0; i < STEPS * 4; i++) {
    weights[i / 4][i % 4] = narrow_pair(scores[2 * i], scores[2 * i + 1], Matrix());
  }
}

template <u32 COUNT> DEVICE void correct_sums(f32 (&sums)[COUNT], const Softmax& softmax) {
  if (!any_of_warp(softmax.correction[0] != 1.0f || softmax.correction[1] != 1.0f)) return;
  UNROLL for (u32 i = 0; i < COUNT; i++) sums[i] *= softmax.correction[i / 2 % 2];
}

}  // namespace
