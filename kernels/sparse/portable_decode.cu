// Attention over selected tokens of a cache of latents: crates/domain/src/case/sparse.rs says what a
// token's row holds and what comes out.
//
// A block of threads takes 16 heads of a sequence through some of its tokens, 16 at a time: rows are
// fetched a tile ahead, dequantised to bf16 once for all heads, and multiplied out of shared memory.
// A thread makes 4 x 4 scores from an eighth of the elements, and sums 4 columns of the output for
// all heads. Where there are more blocks than heads ask for, tokens are split: the last block of
// those that share heads combines what all have left.
#include "attention.h"
#include "tiles.h"

namespace {

CONSTANT u32 THREADS = 128;
CONSTANT u32 HEADS = 16;
CONSTANT u32 TOKENS = 16;
// Elements of a latent, those that share a scale, and elements of a key.
CONSTANT u32 LATENT = 512;
CONSTANT u32 SCALED = 128;
CONSTANT u32 KEY = 576;
// Bytes of a token's row.
CONSTANT u32 ROW = 656;
// Elements of 16 bytes, and such vectors of a key; one more keeps rows in different banks.
CONSTANT u32 EACH = 8;
CONSTANT u32 VECTORS = KEY / EACH;
CONSTANT u32 PADDED = VECTORS + 1;
// Threads that fetch a token, and those that share a score.
CONSTANT u32 FETCHING = THREADS / TOKENS;
CONSTANT u32 SHARING = 8;
// Heads and tokens of a thread's scores, columns of its sums.
CONSTANT u32 SIDE = 4;
CONSTANT u32 COLUMNS = LATENT / THREADS;
// Fewest tokens of a split.
CONSTANT u32 SPLIT_MIN = 4 * TOKENS;
// Words of what a split leaves: a line with the count of those that are done, largest scores and
// sums of weights, sums.
CONSTANT u32 OF_SOFTMAX = 16;
CONSTANT u32 OF_SUMS = OF_SOFTMAX + 2 * HEADS;
CONSTANT u32 SLOT = OF_SUMS + HEADS * LATENT;

typedef Vector<u64> Packed;

struct Room {
  Packed queries[HEADS][PADDED];
  Packed keys[TOKENS][PADDED];
  // Scores, then weights: of one token those of all heads.
  Vector<f32> weights[TOKENS][HEADS / 4];
  f32 corrections[HEADS];
  u32 done;
};

DEVICE f32 element(const Packed& packed, u32 i) {
  const u32 pair = u32(packed.at[i / 4] >> i % 4 / 2 * 32);
  return float_of(i % 2 == 0 ? pair << 16 : pair & 0xffff0000);
}

// What a block is at: heads of one sequence, and a part of its tokens.
struct Part {
  u32 sequence, head, heads, start, end;

  DEVICE_MEMBER u64 first_head(const SparseDecodeParams& p) const {
    return u64(sequence) * p.heads + head;
  }
};

// A thread's share of a token's row, as it is kept.
struct Fetched { Packed latent[LATENT / SCALED], scales, rope; };

// Beyond the last token, the last one again: its weight is nothing.
DEVICE Fetched fetch(const SparseDecodeParams& p, const Part& part, u32 from) {
  const u32 token = smaller(from + thread_index() / FETCHING, part.end - 1);
  const u64 row = p.indices[u64(part.sequence) * p.selected + token];
  const Packed* all = reinterpret_cast<const Packed*>(p.cache + row * ROW);
  const u32 mine = thread_index() % FETCHING;
  Fetched got;
  UNROLL for (u32 i = 0; i < LATENT / SCALED; i++) got.latent[i] = load(all + i * FETCHING + mine);
  got.scales = load(all + LATENT / 16);
  got.rope = load(all + LATENT / 16 + 1 + mine);
  return got;
}

// Dequantises it.
DEVICE void put(const Fetched& fetched, Room& room) {
  Packed* key = room.keys[thread_index() / FETCHING];
  const u32 mine = thread_index() % FETCHING;
  UNROLL for (u32 i = 0; i < LATENT / SCALED; i++) {
    const f32 scale = float_of(u32(fetched.scales.at[i / 2] >> i % 2 * 32));
    UNROLL for (u32 half = 0; half < 2; half++) {
      Packed wide = {};
      UNROLL for (u32 j = 0; j < EACH; j += 2) {
        const u32 codes = u32(fetched.latent[i].at[half] >> 8 * j);
        const f32 low = widen(u8(codes)) * scale, high = widen(u8(codes >> 8)) * scale;
        wide.at[j / 4] |= u64(narrow_pair(low, high, bf16())) << j % 4 / 2 * 32;
      }
      key[2 * (i * FETCHING + mine) + half] = wide;
    }
  }
  key[LATENT / EACH + mine] = fetched.rope;
}

DEVICE void score(const SparseDecodeParams& p, const Part& part, u32 from, Room& room) {
  const u32 share = thread_index() % SHARING, tile = thread_index() / SHARING;
  const u32 token = tile % (TOKENS / SIDE) * SIDE, head = tile / (TOKENS / SIDE) * SIDE;
  f32 sums[SIDE][SIDE] = {};
  for (u32 at = share; at < VECTORS; at += SHARING) {
    Packed queries[SIDE];
    UNROLL for (u32 h = 0; h < SIDE; h++) queries[h] = room.queries[head + h][at];
    UNROLL for (u32 t = 0; t < SIDE; t++) {
      const Packed key = room.keys[token + t][at];
      UNROLL for (u32 i = 0; i < EACH; i++) {
        UNROLL for (u32 h = 0; h < SIDE; h++) {
          sums[t][h] = fused(element(queries[h], i), element(key, i), sums[t][h]);
        }
      }
    }
  }
  UNROLL for (u32 t = 0; t < SIDE; t++) {
    Vector<f32> scores;
    UNROLL for (u32 h = 0; h < SIDE; h++) {
      f32 sum = sums[t][h];
      UNROLL for (u32 mask = SHARING / 2; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
      scores.at[h] = from + token + t < part.end ? sum * (p.scale * LOG2_E) : no_score();
    }
    if (share == t) room.weights[token + t][head / 4] = scores;
  }
}

// What the softmax of a head has come to; 8 threads share one.
struct Softmax { f32 largest, total; };

// Scores become weights relative to the largest score so far.
DEVICE void weigh(Room& room, Softmax& softmax) {
  const u32 head = thread_index() / SHARING, share = thread_index() % SHARING;
  f32* mine[TOKENS / SHARING];
  f32 largest = softmax.largest;
  UNROLL for (u32 i = 0; i < TOKENS / SHARING; i++) {
    mine[i] = &room.weights[i * SHARING + share][head / 4].at[head % 4];
    largest = larger(largest, *mine[i]);
  }
  UNROLL for (u32 mask = SHARING / 2; mask > 0; mask /= 2) {
    largest = larger(largest, shuffle_xor(largest, mask));
  }
  f32 sum = 0.0f;
  UNROLL for (u32 i = 0; i < TOKENS / SHARING; i++) {
    const f32 weight = power_of_two(*mine[i] - largest);
    *mine[i] = weight;
    sum += weight;
  }
  UNROLL for (u32 mask = SHARING / 2; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
  const f32 correction = power_of_two(softmax.largest - largest);
  softmax = {largest, fused(softmax.total, correction, sum)};
  if (share == 0) room.corrections[head] = correction;
}

DEVICE void accumulate(const Room& room, f32 (&sums)[HEADS][COLUMNS]) {
  UNROLL for (u32 h = 0; h < HEADS; h++) {
    const f32 correction = room.corrections[h];
    UNROLL for (u32 c = 0; c < COLUMNS; c++) sums[h][c] *= correction;
  }
  const u32 vector = thread_index() / 2, half = thread_index() % 2;
  for (u32 t = 0; t < TOKENS; t++) {
    const u64 four = room.keys[t][vector].at[half];
    f32 values[COLUMNS];
    UNROLL for (u32 c = 0; c < COLUMNS; c++) values[c] = float_of(u32(four >> 16 * c) << 16);
    UNROLL for (u32 i = 0; i < HEADS / 4; i++) {
      const Vector<f32> weights = room.weights[t][i];
      UNROLL for (u32 j = 0; j < 4; j++) {
        UNROLL for (u32 c = 0; c < COLUMNS; c++) {
          sums[4 * i + j][c] = fused(weights.at[j], values[c], sums[4 * i + j][c]);
        }
      }
    }
  }
}

DEVICE void leave(const SparseDecodeParams& p, const Part& part, u32 head,
                  const f32 (&sums)[COLUMNS], f32 total) {
  if (head >= part.heads) return;
  const f32 share = 1.0f / total;
  const u64 four = narrow_pair(sums[0] * share, sums[1] * share, bf16()) |
                   u64(narrow_pair(sums[2] * share, sums[3] * share, bf16())) << 32;
  bf16* output = p.output + (part.first_head(p) + head) * LATENT;
  reinterpret_cast<u64*>(output)[thread_index()] = four;
}

// What one of several splits has come to, in its slot of scratch memory.
DEVICE void keep(f32* slot, const f32 (&sums)[HEADS][COLUMNS], const Softmax& softmax) {
  UNROLL for (u32 h = 0; h < HEADS; h++) {
    Vector<f32> four;
    UNROLL for (u32 c = 0; c < COLUMNS; c++) four.at[c] = sums[h][c];
    reinterpret_cast<Vector<f32>*>(slot + OF_SUMS + h * LATENT)[thread_index()] = four;
  }
  if (thread_index() % SHARING != 0) return;
  slot[OF_SOFTMAX + 2 * (thread_index() / SHARING)] = softmax.largest;
  slot[OF_SOFTMAX + 2 * (thread_index() / SHARING) + 1] = softmax.total;
}

// What all of some splits, whose slots follow each other, come to.
DEVICE void combine(const SparseDecodeParams& p, const Part& part, const f32* slots, u32 splits) {
  for (u32 h = 0; h < part.heads; h++) {
    const f32* softmax = slots + OF_SOFTMAX + 2 * h;
    f32 largest = no_score();
    for (u32 i = 0; i < splits; i++) largest = larger(largest, load_fresh(softmax + i * SLOT));
    f32 sums[COLUMNS] = {}, total = 0.0f;
    for (u32 i = 0; i < splits; i++) {
      const f32 weight = power_of_two(load_fresh(softmax + i * SLOT) - largest);
      total = fused(weight, load_fresh(softmax + i * SLOT + 1), total);
      const f32* from = slots + i * SLOT + OF_SUMS + h * LATENT;
      const Vector<f32> four =
          load_fresh(reinterpret_cast<const Vector<f32>*>(from) + thread_index());
      UNROLL for (u32 c = 0; c < COLUMNS; c++) sums[c] = fused(weight, four.at[c], sums[c]);
    }
    leave(p, part, h, sums, total);
  }
}

// Whether this block is the last of those that share heads; `count` is zero again then.
DEVICE bool is_last(u32* count, u32 splits, Room& room) {
  device_fence();
  block_barrier();
  if (thread_index() == 0) {
    room.done = atomic_add(count, 1u) + 1;
    if (room.done == splits) *count = 0;
  }
  block_barrier();
  device_fence();
  return room.done == splits;
}

DEVICE void fill_queries(const SparseDecodeParams& p, const Part& part, Room& room) {
  for (u32 at = thread_index(); at < HEADS * VECTORS; at += THREADS) {
    const u32 head = at / VECTORS, vector = at % VECTORS;
    const bf16* from = p.queries + (part.first_head(p) + head) * KEY;
    Packed query = {};
    if (head < part.heads) query = load(reinterpret_cast<const Packed*>(from) + vector);
    room.queries[head][vector] = query;
  }
}

}  // namespace

KERNEL(128, 2) sparse_decode(const SparseDecodeParams p, f32* scratch) {
  SHARED Room room;
  const u32 blocks = tiles_along(p.heads, HEADS), tasks = p.batch * blocks;
  const u32 most = tiles_along(p.selected, SPLIT_MIN);
  const u32 wanted = smaller(larger(block_count() / tasks, 1u), most);
  const u32 span = tiles_along(tiles_along(p.selected, wanted), TOKENS) * TOKENS;
  const u32 splits = tiles_along(p.selected, span);
  for (u32 index = block_index(); index < tasks * splits; index += block_count()) {
    const u32 task = index / splits, head = task % blocks * HEADS, start = index % splits * span;
    const Part part = {task / blocks, head, smaller(HEADS, p.heads - head), start,
                       smaller(start + span, p.selected)};
    block_barrier();
    fill_queries(p, part, room);
    Softmax softmax = {no_score(), 0.0f};
    f32 sums[HEADS][COLUMNS] = {};
    Fetched fetched = fetch(p, part, start);
    for (u32 from = start; from < part.end; from += TOKENS) {
      put(fetched, room);
      block_barrier();
      score(p, part, from, room);
      // Under way while weights and sums are made; earlier it would take registers that scores need.
      fetched = fetch(p, part, from + TOKENS);
      block_barrier();
      weigh(room, softmax);
      block_barrier();
      accumulate(room, sums);
      block_barrier();
    }
    if (splits > 1) {
      keep(scratch + u64(index) * SLOT, sums, softmax);
      f32* slots = scratch + u64(index - index % splits) * SLOT;
      if (is_last(reinterpret_cast<u32*>(slots), splits, room)) combine(p, part, slots, splits);
      continue;
    }
    // Sums of weights, which 8 threads each have, to all.
    if (thread_index() % SHARING == 0) room.corrections[thread_index() / SHARING] = softmax.total;
    block_barrier();
    UNROLL for (u32 h = 0; h < HEADS; h++) leave(p, part, h, sums[h], room.corrections[h]);
  }
}
