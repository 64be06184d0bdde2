// Prefill by tensor memory, as compute capability 10 has it (after FlashAttention-4, 2026): bf16 and
// fp16 and fp8 (e4m3, whose weights are of 8 bits too), heads of 64 and 128, and of 192 with values of
// 128.
//
// A block takes 256 queries of one head through their keys, 128 at a time, as two tiles of 128 rows.
// One thread has keys and values copied by tensor maps; one has everything multiplied. A warpgroup
// for each tile makes weights of scores, a row for each thread, so that no row needs another thread;
// weights go back to tensor memory, where they are the left operand of the second product. A third
// warpgroup corrects the sums where a row's largest score rises by more than 8 (a factor of 2^8; 0.75
// where weights are fp8), which is rare, and writes the output. Softmax of one tile runs while the other
// tile is multiplied.
//
// The matrix unit has the scores of a tile in the time in which the exponential unit makes half of
// its weights: three of eight are made by a polynomial instead. The first half of a tile's weights is
// multiplied while the second is made.
//
// Tensor memory: scores of both tiles, 128 columns each, sums of both, a column for each dimension of
// the values. With values of 64 dimensions, weights of 16 bits have columns of their own; all others take
// the place of half of their scores, and the next scores that of the weights. Nothing says that those wait: of two
// multiplications that one thread asks for, the second is done after the first only where both have
// the same sums and the same shape (PTX manual, "Pipelined tcgen05 Instructions"), and these have
// neither. So the thread waits until a tile's weights have been multiplied before it asks for the
// tile's next scores. Steps of one product along k do have the same sums, and need no wait; and a
// commit is told of all that its thread asked for before it, so that whoever corrects sums after new
// scores were there finds them complete.
#include "attention.h"
#include "attention_type.h"
#include "sm100_attention.h"
#include "soft_exponential.h"
#include "weight_range.h"

namespace {

// A word of weights.
template <class T> DEVICE u32 word_of(const TwoFloats (&weights)[1], T type) {
  return narrow_pair(weights[0].first, weights[0].second, type);
}
DEVICE u32 word_of(const TwoFloats (&weights)[2], e4m3 type) {
  const auto& [low, high] = weights;
  return narrow_four(low.first, low.second, high.first, high.second, type);
}

template <class T, u32 DIM_QK, u32 DIM_V> struct Prefill100 {
  static constexpr u32 ROWS = 128, KEYS = 128, TILES = 2, GROUP = 128;
  // Tiles of keys and of values in shared memory, as many as there is room for.
  static constexpr bool LONGER = DIM_QK > DIM_V, NARROW = sizeof(T) == 1;
  static constexpr u32 STAGES = !NARROW ? 2 : LONGER ? 3 : 4;
  static constexpr u32 VALUE_STAGES = LONGER && !NARROW ? 1 : STAGES;
  // Warpgroups: softmax of either tile, correction, and the one whose warps copy and multiply.
  static constexpr u32 CORRECTING = 2, DIRECTING = 3;
  // Panels of 128 bytes of each row. Where a head does not fill the last one, 64 bytes of the next head
  // stand there, or zeros, by which nothing is multiplied.
  static constexpr u32 PANEL = 128 * 128, WIDTH = 128 / sizeof(T);
  static constexpr u32 PANELS_QK = (DIM_QK + WIDTH - 1) / WIDTH, PANELS_V = (DIM_V + WIDTH - 1) / WIDTH;
  static constexpr u32 TILE = PANELS_QK * PANEL, VALUES = PANELS_V * PANEL;
  static constexpr u32 SHARED_BYTES = (TILES + STAGES) * TILE + VALUE_STAGES * VALUES;
  static_assert(SHARED_BYTES <= 226 << 10, "shared memory of a block, but for its barriers");
  // Elements along k of one multiplication, and columns of tensor memory that a row of weights takes.
  static constexpr u32 DEPTH = 32 / sizeof(T), WEIGHTS = KEYS * sizeof(T) / 4;
  using Out = typename AttentionType<T>::Out;
  using Range = WeightRange<T>;
  // Of eight pairs of weights of a row, so many are made without the exponential unit.
  static constexpr u32 SOFT = 3;
  static constexpr u32 SCORES = instruct(AttentionType<T>::NUMBER, 0, ROWS, KEYS);
  static constexpr u32 SUMS = instruct(AttentionType<T>::NUMBER, 1, ROWS, DIM_V);
  // Whether weights have columns of their own: those of 16 bits, where there is room.
  static constexpr bool APART = !NARROW && TILES * (KEYS + DIM_V + WEIGHTS) <= 512;

  // What a tile of queries sees, in tiles of keys and in keys from the block's first one on.
  struct Keys {
    // The first tile of keys that a row sees, and the one behind the last.
    u32 first, end;
    // The keys that all rows see.
    u32 all_from, all_to;

    DEVICE_MEMBER u32 count() const { return end - first; }
  };

  struct Shared {
    u64 queries, keys[STAGES], values[VALUE_STAGES], keys_free[STAGES], values_free[VALUE_STAGES];
    // Of each tile: its scores are there, the first half of its weights is and its sums are
    // corrected, the second half is, its corrections are, its sums are complete, its weights have been
    // multiplied.
    u64 scores[TILES], weights[TILES], rest[TILES], corrections[TILES], sums[TILES], used[TILES];
    f32 factors[TILES][ROWS];
    // The same numbers as in Task, in shared memory for threads that have no registers left.
    Keys of[TILES];
    u32 memory;
  };

  // What a block works on: queries from `first` on, keys from `start` on.
  struct Task {
    AttentionSequence sequence;
    u32 head, kv_head, first, start;
    Keys low, high;

    DEVICE_MEMBER const Keys& of(u32 tile) const { return tile == 0 ? low : high; }
    DEVICE_MEMBER u32 most() const { return larger(low.end, high.end); }
  };

  static DEVICE_MEMBER u8* queries_at(u32 tile) { return dynamic_shared() + tile * TILE; }
  static DEVICE_MEMBER u8* keys_at(u32 stage) { return dynamic_shared() + (TILES + stage) * TILE; }
  static DEVICE_MEMBER u8* values_at(u32 stage) {
    return dynamic_shared() + (TILES + STAGES) * TILE + stage * VALUES;
  }
  // Columns of tensor memory.
  static DEVICE_MEMBER u32 scores_at(u32 memory, u32 tile) { return memory + tile * KEYS; }
  static DEVICE_MEMBER u32 weights_at(u32 memory, u32 tile) {
    if constexpr (APART) return memory + TILES * (KEYS + DIM_V) + tile * WEIGHTS;
    else return memory + tile * KEYS + KEYS / 2;
  }
  static DEVICE_MEMBER u32 sums_at(u32 memory, u32 tile) {
    return memory + TILES * KEYS + tile * DIM_V;
  }
  // This warp's lanes.
  static DEVICE_MEMBER u32 lanes() { return thread_index() % GROUP / 32 * 32 << 16; }

  // One thread asks for everything.
  static DEVICE_MEMBER void load(const Task& task, Shared& shared, const TensorMap* q,
                                 const TensorMap* k, const TensorMap* v) {
    arrive_expecting(&shared.queries, TILES * TILE);
    for (u32 i = 0; i < TILES * PANELS_QK; i++) {
      const u32 tile = i / PANELS_QK, panel = i % PANELS_QK;
      tile_load(queries_at(tile) + panel * PANEL, q, task.head * DIM_QK + panel * WIDTH,
                task.sequence.query_first + task.first + tile * ROWS, &shared.queries);
    }
    for (u32 at = 0; at < task.most(); at++) {
      const u32 stage = at % STAGES, value_stage = at % VALUE_STAGES;
      const u32 row = task.sequence.key_first + task.start + at * KEYS;
      await_phase(&shared.keys_free[stage], at / STAGES % 2 ^ 1);
      arrive_expecting(&shared.keys[stage], TILE);
      for (u32 i = 0; i < PANELS_QK; i++) {
        tile_load(keys_at(stage) + i * PANEL, k, task.kv_head * DIM_QK + i * WIDTH, row,
                  &shared.keys[stage]);
      }
      await_phase(&shared.values_free[value_stage], at / VALUE_STAGES % 2 ^ 1);
      arrive_expecting(&shared.values[value_stage], VALUES);
      for (u32 i = 0; i < PANELS_V; i++) {
        tile_load(values_at(value_stage) + i * PANEL, v, task.kv_head * DIM_V + i * WIDTH, row,
                  &shared.values[value_stage]);
      }
    }
  }

  // A tile's address in shared memory, computed anew at each call. The compiler would otherwise make the
  // descriptors of all steps before the loop over both tiles, for which this warpgroup has no registers.
  static DEVICE_MEMBER u32 place_of(const u8* tile) {
    u32 at = shared_address(tile);
    forget(at);
    return at;
  }

  // One thread has all multiplied. `turn` counts a tile's own tiles of keys.
  static DEVICE_MEMBER void ask_scores(Shared& shared, u32 tile, u32 at, u32 turn) {
    const u32 stage = at % STAGES;
    await_phase(&shared.keys[stage], at / STAGES % 2);
    if (!APART && turn > 0) await_phase(&shared.used[tile], (turn - 1) % 2);
    see_tensor_memory();
    const u32 to = scores_at(shared.memory, tile);
    const u64 queries = describe_for_tensor_memory(describe_k_major(place_of(queries_at(tile))));
    const u64 keys = describe_for_tensor_memory(describe_k_major(place_of(keys_at(stage))));
    UNROLL for (u32 step = 0; step < DIM_QK / DEPTH; step++) {
      const u32 offset = step / 4 * PANEL + step % 4 * 32;
      multiply_into(to, further(queries, offset), further(keys, offset), SCORES, step, T());
    }
    arrive_when_multiplied(&shared.scores[tile]);
  }
  static DEVICE_MEMBER void ask_sums(Shared& shared, u32 tile, u32 at, u32 turn) {
    const u32 stage = at % VALUE_STAGES;
    await_phase(&shared.values[stage], at / VALUE_STAGES % 2);
    await_phase(&shared.weights[tile], turn % 2);
    see_tensor_memory();
    const u32 to = sums_at(shared.memory, tile), weights = weights_at(shared.memory, tile);
    const u64 values =
        describe_for_tensor_memory(describe_mn_major(place_of(values_at(stage)), PANEL));
    UNROLL for (u32 step = 0; step < KEYS / DEPTH; step++) {
      if (step == KEYS / DEPTH / 2) {
        await_phase(&shared.rest[tile], turn % 2);
        see_tensor_memory();
      }
      multiply_from(to, weights + step * 8, further(values, step * DEPTH * 128), SUMS,
                    step > 0 ? 1 : turn, T());
    }
  }
  static DEVICE_MEMBER void multiply_all(const Task& task, Shared& shared) {
    await_phase(&shared.queries, 0);
    UNROLL for (u32 tile = 0; tile < TILES; tile++) {
      const Keys& of = task.of(tile);
      if (of.first == 0 && of.end > 0) ask_scores(shared, tile, 0, 0);
    }
    arrive_when_multiplied(&shared.keys_free[0]);
    for (u32 at = 0; at < task.most(); at++) {
#pragma unroll 1
      for (u32 tile = 0; tile < TILES; tile++) {
        const Keys& of = task.of(tile);
        if (at + 1 < of.first || at >= of.end) continue;
        if (at >= of.first) {
          ask_sums(shared, tile, at, at - of.first);
          if (!APART) arrive_when_multiplied(&shared.used[tile]);
        }
        if (at + 1 < of.end) ask_scores(shared, tile, at + 1, at + 1 - of.first);
        else arrive_when_multiplied(&shared.sums[tile]);
      }
      // Nobody waits for what is free behind the last keys: an arrival could come after the block's
      // end. The last one is that of the sums, which is waited for.
      if (at + 1 == task.most()) break;
      arrive_when_multiplied(&shared.values_free[at % VALUE_STAGES]);
      arrive_when_multiplied(&shared.keys_free[(at + 1) % STAGES]);
    }
  }

  // A warp has done its part: all of its lanes have.
  static DEVICE_MEMBER void tell(u64* barrier) {
    show_tensor_memory();
    warp_barrier();
    if (thread_index() % 32 == 0) arrive(barrier);
  }

  // Scores of one row become weights, relative to the largest so far where that rose much; what sums
  // are to be multiplied with is left for whoever corrects them.
  struct Softmax {
    f32 max, total;

    // Where nothing was seen, weights are relative to no score.
    DEVICE_MEMBER f32 relative() const { return max == no_score() ? 0.0f : max; }

    DEVICE_MEMBER f32 rise(f32 largest) {
      const f32 before = max;
      // Where nothing was seen before, any score is a rise.
      max = largest > before + Range::RISE_MAX ? largest : before;
      return max == before ? 1.0f : power_of_two(before - relative());
    }
  };
  // Four at a time: one after the other, each would wait for the one before.
  template <u32 COUNT> static DEVICE_MEMBER f32 largest_of(const f32 (&scores)[COUNT]) {
    f32 largest[4] = {no_score(), no_score(), no_score(), no_score()};
    UNROLL for (u32 i = 0; i < COUNT; i++) {
      largest[i / 2 % 4] = larger(largest[i / 2 % 4], scores[i]);
    }
    return larger(larger(largest[0], largest[1]), larger(largest[2], largest[3]));
  }
  // Scores of keys outside of `start` .. `seen`, the keys that the row sees, become none.
  template <u32 COUNT>
  static DEVICE_MEMBER void mask(f32 (&scores)[COUNT], u32 from, u32 start, u32 seen) {
    UNROLL for (u32 i = 0; i < COUNT; i++) {
      if (from + i >= seen || from + i < start) scores[i] = no_score();
    }
  }
  // Weights of half of the keys; gives their sum.
  static DEVICE_MEMBER f32 weigh(const f32* scores, f32 factor, f32 relative, u32 weights) {
    constexpr u32 TOGETHER = 2 / sizeof(T), WORDS = WEIGHTS / 2;
    const f32 offset = Range::OFFSET - relative;
    TwoFloats sums[2] = {};
    u32 words[WORDS];
    UNROLL for (u32 i = 0; i < WORDS; i++) {
      TwoFloats word[TOGETHER];
      UNROLL for (u32 c = 0; c < TOGETHER; c++) {
        const u32 at = i * TOGETHER + c;
        const TwoFloats exponents = fused({scores[2 * at], scores[2 * at + 1]}, {factor, factor},
                                          {offset, offset});
        word[c] = at % 8 < SOFT
                      ? soft_powers_of_two(exponents)
                      : TwoFloats{power_of_two(exponents.first), power_of_two(exponents.second)};
        sums[at % 2] = sums[at % 2] + word[c];
      }
      words[i] = word_of(word, T());
    }
    store_words(words, weights);
    const TwoFloats sum = sums[0] + sums[1];
    return sum.first + sum.second;
  }

  // The warpgroup of a tile of queries.
  static DEVICE_MEMBER void soften(const AttentionParams& p, const Task& task, Shared& shared) {
    const u32 tile = thread_index() / GROUP, row = thread_index() % GROUP;
    const u32 query = task.first + tile * ROWS + row;
    const u32 seen = keys_seen(p, task.sequence, query) - task.start;
    const u32 start = first_key_seen(p, task.sequence, query) - task.start;
    const f32 factor = p.scale * LOG2_E;
    Softmax softmax = {no_score(), 0.0f};
    for (u32 turn = 0; turn < shared.of[tile].count(); turn++) {
      const u32 from = scores_at(shared.memory, tile) + lanes();
      const u32 weights = weights_at(shared.memory, tile) + lanes();
      const u32 key = (shared.of[tile].first + turn) * KEYS;
      const bool masked = key < shared.of[tile].all_from || key + KEYS > shared.of[tile].all_to;
      await_phase(&shared.scores[tile], turn % 2);
      see_tensor_memory();
      f32 correction, sum;
      const auto rise = [&](f32 largest) {
        correction = softmax.rise(largest * factor);
        shared.factors[tile][row] = correction;
        tell(&shared.corrections[tile]);
      };
      const auto stored = [&](u64* barrier) {
        await_words();
        tell(barrier);
      };
      constexpr u32 HALF = KEYS / 2;
      if constexpr (APART) {
        // Scores stay where they are: a half of them at a time is enough in registers.
        f32 scores[HALF], largest = no_score();
        const auto load = [&](u32 half) {
          load_half(scores, from + half * HALF);
          if (masked) mask(scores, key + half * HALF, start, seen);
        };
        load(1);
        largest = largest_of(scores);
        load(0);
        rise(larger(largest, largest_of(scores)));
        sum = weigh(scores, factor, softmax.relative(), weights);
        stored(&shared.weights[tile]);
        load(1);
        sum += weigh(scores, factor, softmax.relative(), weights + WEIGHTS / 2);
      } else {
        f32 scores[KEYS];
        load_row(scores, from);
        if (masked) mask(scores, key, start, seen);
        rise(largest_of(scores));
        sum = weigh(scores, factor, softmax.relative(), weights);
        stored(&shared.weights[tile]);
        compute_later(weights);
        sum += weigh(scores + HALF, factor, softmax.relative(), weights + WEIGHTS / 2);
      }
      stored(&shared.rest[tile]);
      softmax.total = fused(softmax.total, correction, sum);
    }
    if (shared.of[tile].count() == 0) return;
    // Whoever corrects has read the last factor before weights were whole, which the sums wait for.
    await_phase(&shared.sums[tile], 0);
    shared.factors[tile][row] = softmax.total > 0.0f ? 1.0f / softmax.total : 0.0f;
    tell(&shared.corrections[tile]);
  }

  static DEVICE_MEMBER void correct(Shared& shared, u32 tile, u32 turn) {
    await_phase(&shared.corrections[tile], turn % 2);
    see_tensor_memory();
    const f32 factor = shared.factors[tile][thread_index() % GROUP];
    if (turn > 0 && any_of_warp(factor != 1.0f)) {
      const u32 sums = sums_at(shared.memory, tile) + lanes();
#pragma unroll 1
      for (u32 part = 0; part < DIM_V; part += 32) {
        f32 words[32];
        load_sums(words, sums + part);
        UNROLL for (u32 i = 0; i < 32; i++) words[i] *= factor;
        store_words(words, sums + part);
      }
      await_words();
    }
    tell(&shared.weights[tile]);
  }
  static DEVICE_MEMBER void leave(const AttentionParams& p, const Task& task, Shared& shared,
                                  u32 tile) {
    const u32 row = thread_index() % GROUP, query = task.first + tile * ROWS + row;
    const bool there = query < task.sequence.queries, nothing = task.of(tile).count() == 0;
    Out* to = static_cast<Out*>(p.o) +
            (u64(task.sequence.query_first + query) * p.heads + task.head) * DIM_V;
    if (!nothing) {
      await_phase(&shared.corrections[tile], task.of(tile).count() % 2);
      see_tensor_memory();
    }
    const f32 share = nothing ? 0.0f : shared.factors[tile][row];
#pragma unroll 1
    for (u32 part = 0; part < DIM_V; part += 32) {
      f32 words[32] = {};
      if (!nothing) load_sums(words, sums_at(shared.memory, tile) + lanes() + part);
      if (!there) continue;
      UNROLL for (u32 i = 0; i < 4; i++) {
        Vector<u32> chunk;
        UNROLL for (u32 w = 0; w < 4; w++) {
          const u32 at = 8 * i + 2 * w;
          chunk.at[w] = narrow_pair(words[at] * share, words[at + 1] * share, Out());
        }
        *reinterpret_cast<Vector<u32>*>(to + part + 8 * i) = chunk;
      }
    }
  }
  static DEVICE_MEMBER void correct_all(const AttentionParams& p, const Task& task,
                                        Shared& shared) {
    for (u32 at = 0; at < task.most(); at++) {
      for (u32 tile = 0; tile < TILES; tile++) {
        const Keys& of = task.of(tile);
        if (at >= of.first && at < of.end) correct(shared, tile, at - of.first);
      }
    }
    for (u32 tile = 0; tile < TILES; tile++) leave(p, task, shared, tile);
  }

  static DEVICE_MEMBER void make_barriers(Shared& shared) {
    make_barrier(&shared.queries, 1);
    for (u32 i = 0; i < STAGES; i++) {
      make_barrier(&shared.keys[i], 1);
      make_barrier(&shared.keys_free[i], 1);
    }
    for (u32 i = 0; i < VALUE_STAGES; i++) {
      make_barrier(&shared.values[i], 1);
      make_barrier(&shared.values_free[i], 1);
    }
    for (u32 tile = 0; tile < TILES; tile++) {
      make_barrier(&shared.scores[tile], 1);
      // Of weights the warps that make them and those that correct the sums.
      make_barrier(&shared.weights[tile], 8);
      make_barrier(&shared.rest[tile], 4);
      make_barrier(&shared.corrections[tile], 4);
      make_barrier(&shared.sums[tile], 1);
      make_barrier(&shared.used[tile], 1);
    }
    barriers_made();
  }

  static DEVICE_MEMBER void one(const AttentionParams& p, const TensorMap* q, const TensorMap* k,
                                const TensorMap* v) {
    SHARED Shared shared;
    const u32 units = p.batch * p.heads, blocks = (p.queries + TILES * ROWS - 1) / (TILES * ROWS);
    // The last queries, which see the most where they are causal, come first; heads that share keys
    // beside each other.
    const u32 unit = block_index() % units;
    const u32 first = (blocks - 1 - block_index() / units) * (TILES * ROWS);
    const AttentionSequence sequence = p.sequences[unit / p.heads];
    if (first >= sequence.queries) return;
    const u32 head = unit % p.heads;
    const u32 start = first_key_seen(p, sequence, first);
    const auto keys = [&](u32 from) -> Keys {
      if (from >= sequence.queries) return {};
      const u32 last = smaller(from + ROWS, sequence.queries) - 1;
      const u32 end = keys_seen(p, sequence, last) - start;
      return {(first_key_seen(p, sequence, from) - start) / KEYS, (end + KEYS - 1) / KEYS,
              first_key_seen(p, sequence, last) - start, keys_seen(p, sequence, from) - start};
    };
    const Task task = {sequence, head,  head / (p.heads / p.kv_heads), first,
                       start,    keys(first), keys(first + ROWS)};
    const u32 warpgroup = thread_index() / GROUP, warp = warp_number();
    if (thread_index() == 0) make_barriers(shared);
    if (thread_index() < TILES) shared.of[thread_index()] = task.of(thread_index());
    warp_barrier();
    if (warp == 4 * DIRECTING) take_tensor_memory(&shared.memory);
    show_tensor_memory();
    block_barrier();
    see_tensor_memory();
    if (warpgroup == DIRECTING) {
      keep_registers<48>();
      if (task.most() > 0 && warp == 4 * DIRECTING && elected()) multiply_all(task, shared);
      if (task.most() > 0 && warp == 4 * DIRECTING + 1 && elected()) load(task, shared, q, k, v);
    } else if (warpgroup == CORRECTING) {
      keep_registers<96>();
      correct_all(p, task, shared);
    } else {
      take_registers<184>();
      soften(p, task, shared);
    }
    // Warps whose one thread worked come together before the block does.
    warp_barrier();
    show_tensor_memory();
    block_barrier();
    see_tensor_memory();
    if (warp == 4 * DIRECTING) give_tensor_memory(shared.memory);
  }
};

}  // namespace

#define PREFILL(TYPE, DIM_QK, DIM_V)                                                              \
  KERNEL(512, 1)                                                                                  \
  attention_prefill_##TYPE##_##DIM_QK##_tcgen05(const AttentionParams p, MAP q, MAP k, MAP v) {   \
    Prefill100<TYPE, DIM_QK, DIM_V>::one(p, &q, &k, &v);                                          \
  }

PREFILL(bf16, 64, 64)
PREFILL(bf16, 128, 128)
PREFILL(bf16, 192, 128)
PREFILL(f16, 64, 64)
PREFILL(f16, 128, 128)
PREFILL(f16, 192, 128)
#undef PREFILL

#define PREFILL_8(DIM_QK, DIM_V)                                                                  \
  KERNEL(512, 1)                                                                                  \
  attention_prefill_fp8_##DIM_QK##_tcgen05(const AttentionParams p, MAP q, MAP k, MAP v) {        \
    Prefill100<e4m3, DIM_QK, DIM_V>::one(p, &q, &k, &v);                                          \
  }

PREFILL_8(64, 64)
PREFILL_8(128, 128)
PREFILL_8(192, 128)

#undef PREFILL_8
