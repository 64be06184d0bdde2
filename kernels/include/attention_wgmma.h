// Softmax on the scores that a warpgroup's multiplications leave: of 64 rows and KEYS keys, each
// thread has rows g and g + 8 of its warp's 16, and of them keys 8j + 2t and the next; the 4 threads
// of a row share it (wgmma of sm90_attention.h).
#pragma once
#include "attention.h"
#include "sm89.h"
#include "sm90_attention.h"
#include "weight_range.h"

namespace {

// Rows g and g + 8 of a warp's 16: what their weights are relative to, as exponents of two, sums of
// weights so far, and what sums are to be multiplied with.
struct Softmax { f32 max[2], total[2], correction[2]; };

DEVICE Softmax no_softmax() {
  return {{no_score(), no_score()}, {0.0f, 0.0f}, {1.0f, 1.0f}};
}

// Scores of keys from `from` on become none where a row does not see the key: it sees those before
// `end`.
template <u32 COUNT> DEVICE void mask_scores(f32 (&scores)[COUNT], u32 from, const u32 (&end)[2]) {
  const u32 t = thread_index() % 4;
  UNROLL for (u32 i = 0; i < COUNT; i++) {
    if (from + i / 4 * 8 + 2 * t + i % 2 >= end[i / 2 % 2]) scores[i] = no_score();
  }
}

// The same where rows see no key before `first` either, and `count` from there on.
template <u32 COUNT>
DEVICE void mask_scores(f32 (&scores)[COUNT], u32 from, const u32 (&first)[2],
                        const u32 (&count)[2]) {
  const u32 t = thread_index() % 4;
  UNROLL for (u32 i = 0; i < COUNT; i++) {
    // Unsigned: keys before the first become larger than any count.
    const u32 key = from + i / 4 * 8 + 2 * t + i % 2 - first[i / 2 % 2];
    if (key >= count[i / 2 % 2]) scores[i] = no_score();
  }
}

// Which keys a thread's two rows of a part see, and which are seen by all rows.
struct Sight {
  u32 first[2], count[2], from_all, to_all;

  // `row` is the first of the thread's, `rows` are those of the part.
  DEVICE_MEMBER void start(const AttentionParams& p, const AttentionPart& part,
                           const AttentionSequence& sequence, u32 row, u32 rows) {
    const u32 heads = p.heads / p.kv_heads;
    to_all = smaller(keys_seen(p, sequence, part.row_first / heads), part.key_end);
    from_all = first_key_seen(p, sequence, (part.row_first + rows - 1) / heads);
    UNROLL for (u32 half = 0; half < 2; half++) {
      const u32 at = row + 8 * half, query = (part.row_first + smaller(at, rows - 1)) / heads;
      const u32 end = at < rows ? smaller(keys_seen(p, sequence, query), part.key_end) : 0;
      first[half] = first_key_seen(p, sequence, query);
      count[half] = end > first[half] ? end - first[half] : 0;
    }
  }
  template <u32 KEYS, u32 COUNT>
  DEVICE_MEMBER void mask(f32 (&scores)[COUNT], u32 from) const {
    if (from < from_all || from + KEYS > to_all) mask_scores(scores, from, first, count);
  }
};

// Scores become weights, in the range of a type. They are relative to the largest score so far only
// where it rose by more than RISE_MAX: until then sums are not corrected.
template <class Range = WeightRange<f32>, u32 COUNT>
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
    const f32 base = largest > before + Range::RISE_MAX ? largest : before;
    const f32 relative = base == no_score() ? 0.0f : base;
    softmax.correction[half] = base == before ? 1.0f : power_of_two(before - relative);
    softmax.max[half] = base;
    const f32 subtracted = relative - Range::OFFSET;
    f32 sum = 0.0f;
    UNROLL for (u32 i = 0; i < COUNT; i += 4) {
      UNROLL for (u32 c = 0; c < 2; c++) {
        f32& score = scores[i + 2 * half + c];
        score = power_of_two(fused(score, factor, -subtracted));
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
// The same of 8 bits, 32 keys for each multiplication. A thread has keys 8j + 2t and the next of four
// j, where the operand has 4t .. 4t + 3 and 16 more: what is at place 16h + 4t + e along k is key
// 16h + e / 2 * 8 + 2t + e % 2. Values stand in this order too (turn_values of sm90_wgmma.cu).
template <u32 STEPS>
DEVICE void pack_weights_8(u32 (&weights)[STEPS][4], const f32 (&scores)[STEPS * 16]) {
  UNROLL for (u32 i = 0; i < STEPS * 4; i++) {
    const u32 at = i / 4 * 16 + i % 4 / 2 * 8 + i % 2 * 2;
    weights[i / 4][i % 4] =
        narrow_four(scores[at], scores[at + 1], scores[at + 4], scores[at + 5], e4m3());
  }
}

template <u32 COUNT> DEVICE void correct_sums(f32 (&sums)[COUNT], const Softmax& softmax) {
  if (!any_of_warp(softmax.correction[0] != 1.0f || softmax.correction[1] != 1.0f)) return;
  UNROLL for (u32 i = 0; i < COUNT; i++) sums[i] *= softmax.correction[i / 2 % 2];
}

}  // namespace
