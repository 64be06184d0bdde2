// A small decode attention for any GPU: a block takes one head of one query. Its four warps take every
// fourth key each, a lane four of the 128 dimensions, and their sums are put together at the end.
// docs/your-kernel.md explains the file; attention.h is fizeau's own (kernels/include).
#include "attention.h"

CONSTANT u32 WARPS = 4, DIM = 128, OWN = DIM / 32;

struct Part {
  f32 max, total, sums[DIM];
};

KERNEL(128, 4) attention_decode_bf16_mine(const AttentionParams p) {
  SHARED Part parts[WARPS];
  const u32 warp = thread_index() / 32, lane = thread_index() % 32;
  const u32 group = p.heads / p.kv_heads;
  for (u32 task = block_index(); task < p.batch * p.queries * p.heads; task += block_count()) {
    const u32 head = task % p.heads, query = task / p.heads % p.queries;
    const AttentionSequence sequence = p.sequences[task / p.heads / p.queries];
    if (query >= sequence.queries) continue;
    const u64 row = u64(sequence.query_first + query) * p.heads + head;
    const bf16* from = static_cast<const bf16*>(p.q) + row * DIM + lane * OWN;
    f32 asked[OWN], sums[OWN] = {}, max = no_score(), total = 0.0f;
    UNROLL for (u32 d = 0; d < OWN; d++) asked[d] = widen(from[d]) * (p.scale * LOG2_E);

    const u32 end = keys_seen(p, sequence, query);
    for (u32 key = first_key_seen(p, sequence, query) + warp; key < end; key += WARPS) {
      const u64 at = (key_token(p, sequence, key) * p.kv_heads + head / group) * DIM + lane * OWN;
      const bf16* keys = static_cast<const bf16*>(p.k) + at;
      const bf16* values = static_cast<const bf16*>(p.v) + at;
      f32 score = 0.0f;
      UNROLL for (u32 d = 0; d < OWN; d++) score = fused(asked[d], widen(keys[d]), score);
      UNROLL for (u32 mask = 16; mask > 0; mask /= 2) score += shuffle_xor(score, mask);
      const f32 largest = larger(max, score);
      const f32 correction = power_of_two(max - largest), weight = power_of_two(score - largest);
      total = total * correction + weight;
      UNROLL for (u32 d = 0; d < OWN; d++) {
        sums[d] = sums[d] * correction + weight * widen(values[d]);
      }
      max = largest;
    }

    if (lane == 0) parts[warp].max = max;
    if (lane == 0) parts[warp].total = total;
    UNROLL for (u32 d = 0; d < OWN; d++) parts[warp].sums[lane * OWN + d] = sums[d];
    block_barrier();
    f32 largest = no_score(), sum = 0.0f, weights = 0.0f;
    for (u32 w = 0; w < WARPS; w++) largest = larger(largest, parts[w].max);
    for (u32 w = 0; w < WARPS; w++) {
      // A warp without a key has no part; neither has a query that sees none.
      if (parts[w].max == no_score()) continue;
      const f32 share = power_of_two(parts[w].max - largest);
      weights += share * parts[w].total;
      sum += share * parts[w].sums[thread_index()];
    }
    bf16* to = static_cast<bf16*>(p.o) + row * DIM;
    to[thread_index()] = narrow(weights > 0.0f ? sum / weights : 0.0f, bf16());
    block_barrier();
  }
}
