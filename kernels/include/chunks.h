// Sums that fragments hold, as chunks of 16 bytes of a row: a store of such chunks fills whole sectors of
// memory, one of the two neighbours that a lane holds of a fragment only half of one.
#pragma once
#include "sm80.h"

// Of words i and i + APART, the lane without this bit in its number keeps the first and gets the other
// lane's first in place of the second; the lane with it keeps and gets the second.
template <u32 BIT, u32 APART> DEVICE void exchange_words(u32 (&words)[4]) {
  const bool upper = (thread_index() & BIT) != 0;
  UNROLL for (u32 i = 0; i < 4; i++) {
    if ((i & APART) != 0) continue;
    const u32 got = exchange_with(upper ? words[i] : words[i + APART], BIT);
    words[i] = upper ? got : words[i];
    words[i + APART] = upper ? words[i + APART] : got;
  }
}

// Row `half` of four fragments of 8 columns, in 16 bits: this lane's chunk is that of fragment lane % 4.
template <class Out>
DEVICE Vector<u32> narrow_chunk(const f32 (*sums)[4], u32 half, Out) {
  Vector<u32> words;
  UNROLL for (u32 i = 0; i < 4; i++) {
    words.at[i] = narrow_pair(sums[i][2 * half], sums[i][2 * half + 1], Out());
  }
  exchange_words<1, 1>(words.at);
  exchange_words<2, 2>(words.at);
  return words;
}
