// Prefill by warpgroups, as compute capability 9.0 has them (FlashAttention-3, Shah and others, 2024).
// Heads of 64, 128 and 256, and of 192 with values of 128; of 8-bit floats those of 128 and 256.
//
// One warpgroup loads, by tensor maps, two stages of keys and values ahead; two multiply, each 64 of
// a block's 128 queries. While a warpgroup's scores of the next keys and its sums of the last are
// being multiplied, it makes weights of nothing; then it waits for its scores alone and makes their
// weights under the sums' multiplication. The two take turns to ask for multiplications, so that one
// makes weights while the other multiplies. Weights are the left operand in the registers they are
// made in.
//
// Scores become exponents of two in one operation each. Sums are corrected only where a row's largest
// score rises by more than 8 (a factor of 2^8), which is rare (FlashAttention-4): until then weights
// are larger than one, and the last division puts it right.
//
// Of 8-bit floats only the scores are multiplied as such: the unit takes 8-bit values only with keys
// along their rows, and they do not stand so. Three warps beside the one that loads make 16-bit
// floats of them, which is exact, and the second product is one of 16-bit floats.
#include "attention_wgmma.h"
#include "sm89.h"

namespace {

// Weights and values as they are multiplied, and the output.
template <class T> struct Made {
  using Matrix = T;
  using Out = T;
};
template <> struct Made<e4m3> {
  using Matrix = f16;
  using Out = bf16;
};

template <class T, u32 DIM_QK, u32 DIM_V, u32 KEYS> struct Prefill90 {
  using Matrix = typename Made<T>::Matrix;
  using Out = typename Made<T>::Out;
  static constexpr bool NARROW = sizeof(T) == 1;
  // Elements of a row of 128 bytes.
  static constexpr u32 ACROSS = 128 / sizeof(T);
  // Threads that widen values.
  static constexpr u32 WIDENERS = 96;
  static constexpr u32 STAGES = 2, ROWS = 128, GROUP = 128, WARPS = 8;
  static constexpr u32 PANELS_QK = DIM_QK / ACROSS, PANELS_V = DIM_V / 64;
  static constexpr u32 PANEL = KEYS * 128, QUERY_PANEL = ROWS * 128;
  static constexpr u32 QUERIES = PANELS_QK * QUERY_PANEL;
  static constexpr u32 KEYS_BYTES = PANELS_QK * PANEL, VALUES_BYTES = PANELS_V * PANEL;
  // Values as they come, where they are widened.
  static constexpr u32 RAW_BYTES = NARROW ? KEYS * DIM_V : 0;
  static constexpr u32 SHARED_BYTES = QUERIES + STAGES * (KEYS_BYTES + VALUES_BYTES + RAW_BYTES);
  static_assert(SHARED_BYTES <= 226 << 10, "shared memory of a block, but for its barriers");

  struct Barriers {
    u64 queries, keys[STAGES], values[STAGES], keys_free[STAGES], values_free[STAGES];
    u64 raw[STAGES], raw_free[STAGES];
  };

  // What a block works on.
  struct Task {
    AttentionSequence sequence;
    u32 head, kv_head, first, end, tiles;
  };

  static DEVICE_MEMBER u8* keys_at(u32 stage) { return dynamic_shared() + QUERIES + stage * KEYS_BYTES; }
  static DEVICE_MEMBER u8* values_at(u32 stage) {
    return dynamic_shared() + QUERIES + STAGES * KEYS_BYTES + stage * VALUES_BYTES;
  }
  static DEVICE_MEMBER u8* raw_at(u32 stage) {
    return dynamic_shared() + QUERIES + STAGES * (KEYS_BYTES + VALUES_BYTES) + stage * RAW_BYTES;
  }

  // One thread asks for everything.
  static DEVICE_MEMBER void load(const Task& task, Barriers& barriers, const TensorMap* q,
                                 const TensorMap* k, const TensorMap* v) {
    arrive_expecting(&barriers.queries, QUERIES);
    for (u32 i = 0; i < PANELS_QK; i++) {
      tile_load(dynamic_shared() + i * QUERY_PANEL, q, task.head * DIM_QK + ACROSS * i,
                task.sequence.query_first + task.first, &barriers.queries);
    }
    for (u32 tile = 0; tile < task.tiles; tile++) {
      const u32 stage = tile % STAGES, parity = tile / STAGES % 2 ^ 1;
      const u32 row = task.sequence.key_first + tile * KEYS;
      await_phase(&barriers.keys_free[stage], parity);
      arrive_expecting(&barriers.keys[stage], KEYS_BYTES);
      for (u32 i = 0; i < PANELS_QK; i++) {
        tile_load(keys_at(stage) + i * PANEL, k, task.kv_head * DIM_QK + ACROSS * i, row,
                  &barriers.keys[stage]);
      }
      constexpr u32 BYTES = NARROW ? RAW_BYTES : VALUES_BYTES;
      u64* there = NARROW ? &barriers.raw[stage] : &barriers.values[stage];
      u8* to = NARROW ? raw_at(stage) : values_at(stage);
      await_phase(NARROW ? &barriers.raw_free[stage] : &barriers.values_free[stage], parity);
      arrive_expecting(there, BYTES);
      for (u32 i = 0; i < BYTES / PANEL; i++) {
        tile_load(to + i * PANEL, v, task.kv_head * DIM_V + ACROSS * i, row, there);
      }
    }
  }

  // Makes 16-bit floats of 8-bit values, tile by tile; by the threads of three warps.
  static DEVICE_MEMBER void widen_values(const Task& task, Barriers& barriers, u32 thread) {
    constexpr u32 CHUNKS = DIM_V / 16;
    for (u32 tile = 0; tile < task.tiles; tile++) {
      const u32 stage = tile % STAGES, parity = tile / STAGES % 2;
      await_phase(&barriers.raw[stage], parity);
      await_phase(&barriers.values_free[stage], parity ^ 1);
      for (u32 i = thread; i < KEYS * CHUNKS; i += WIDENERS) {
        const u32 row = i / CHUNKS, column = i % CHUNKS * 16;
        const u8* from = raw_at(stage) + column / 128 * PANEL + row * 128 +
                         (column % 128 / 16 ^ row % 8) * 16;
        const Vector<u32> narrow = load_chunk<u32>(from);
        u8* to = values_at(stage) + column / 64 * PANEL + row * 128;
        UNROLL for (u32 half = 0; half < 2; half++) {
          Vector<u32> wide;
          UNROLL for (u32 w = 0; w < 4; w++) {
            wide.at[w] = widen_pair(narrow.at[2 * half + w / 2] >> 16 * (w % 2), f16());
          }
          const u32 chunk = (column % 64 / 8 + half) ^ row % 8;
          store_chunk(to + chunk * 16, wide);
        }
      }
      show_to_copies();
      arrive(&barriers.values[stage]);
      arrive(&barriers.raw_free[stage]);
    }
  }

  // A warp is done with a stage: all of its lanes are.
  static DEVICE_MEMBER void release(u64* barrier) {
    warp_barrier();
    if (thread_index() % 32 == 0) arrive(barrier);
  }

  // Asks for the scores of a tile.
  static DEVICE_MEMBER void ask_scores(f32 (&scores)[KEYS / 2], u32 queries, u32 stage) {
    const u32 keys = shared_address(keys_at(stage));
    UNROLL for (u32 step = 0; step < DIM_QK * sizeof(T) / 32; step++) {
      const u64 a = describe_k_major(queries + step / 4 * QUERY_PANEL + step % 4 * 32);
      const u64 b = describe_k_major(keys + step / 4 * PANEL + step % 4 * 32);
      multiply_scores(scores, a, b, step > 0, T());
    }
    close_multiplications();
  }
  static DEVICE_MEMBER void ask_sums(f32 (&sums)[DIM_V / 2], const u32 (&weights)[KEYS / 16][4],
                                     u32 stage, u32 accumulate) {
    const u32 values = shared_address(values_at(stage));
    UNROLL for (u32 step = 0; step < KEYS / 16; step++) {
      const u64 b = describe_mn_major(values + step * 2048, PANEL);
      multiply_values(sums, weights[step], b, step > 0 ? 1 : accumulate, Matrix());
    }
    close_multiplications();
  }

  static DEVICE_MEMBER void finish(const AttentionParams& p, const Task& task,
                                   const f32 (&sums)[DIM_V / 2], const Softmax& softmax, u32 row) {
    const u32 t = thread_index() % 4;
    UNROLL for (u32 half = 0; half < 2; half++) {
      f32 total = softmax.total[half];
      total += shuffle_xor(total, 1);
      total += shuffle_xor(total, 2);
      const f32 share = total > 0.0f ? 1.0f / total : 0.0f;
      if (row + 8 * half >= task.sequence.queries) continue;
      Out* to = static_cast<Out*>(p.o) +
              (u64(task.sequence.query_first + row + 8 * half) * p.heads + task.head) * DIM_V;
      UNROLL for (u32 i = 0; i < DIM_V / 2; i += 4) {
        *reinterpret_cast<u32*>(to + 2 * i + 2 * t) =
            narrow_pair(sums[i + 2 * half] * share, sums[i + 2 * half + 1] * share, Out());
      }
    }
  }

  // One of the two warpgroups that multiply.
  static DEVICE_MEMBER void attend(const AttentionParams& p, const Task& task, Barriers& barriers) {
    const u32 group = thread_index() / GROUP - 1, other = 1 - group;
    const u32 queries = shared_address(dynamic_shared()) + group * 64 * 128;
    const u32 row = task.first + group * 64 + thread_index() % GROUP / 32 * 16 +
                    thread_index() % 32 / 4;
    const u32 seen[2] = {keys_seen(p, task.sequence, row), keys_seen(p, task.sequence, row + 8)};
    const u32 seen_by_all = keys_seen(p, task.sequence, task.first);
    const f32 factor = p.scale * LOG2_E;
    f32 scores[KEYS / 2], sums[DIM_V / 2];
    u32 weights[KEYS / 16][4];
    Softmax softmax = no_softmax();
    UNROLL for (u32 i = 0; i < DIM_V / 2; i++) sums[i] = 0.0f;
    // The first warpgroup has the first turn.
    if (group == 1) come_to_barrier<2 * GROUP>(1);
    await_phase(&barriers.queries, 0);
    await_phase(&barriers.keys[0], 0);
    begin_multiplications();
    ask_scores(scores, queries, 0);
    await_multiplications<0>();
    settle_sums(scores);
    release(&barriers.keys_free[0]);
    if (KEYS > seen_by_all) mask_scores(scores, 0, seen);
    weigh_scores(scores, softmax, factor);
    pack_weights<Matrix>(weights, scores);
    for (u32 tile = 1; tile < task.tiles; tile++) {
      const u32 stage = tile % STAGES, before = (tile - 1) % STAGES;
      barrier_of<2 * GROUP>(1 + group);
      await_phase(&barriers.keys[stage], tile / STAGES % 2);
      begin_multiplications();
      ask_scores(scores, queries, stage);
      await_phase(&barriers.values[before], (tile - 1) / STAGES % 2);
      begin_multiplications();
      ask_sums(sums, weights, before, 1);
      come_to_barrier<2 * GROUP>(1 + other);
      await_multiplications<1>();
      settle_sums(scores);
      release(&barriers.keys_free[stage]);
      if ((tile + 1) * KEYS > seen_by_all) mask_scores(scores, tile * KEYS, seen);
      weigh_scores(scores, softmax, factor);
      await_multiplications<0>();
      settle_sums(sums);
      release(&barriers.values_free[before]);
      correct_sums(sums, softmax);
      pack_weights<Matrix>(weights, scores);
    }
    // Nobody's turn is left behind.
    if (group == 0) barrier_of<2 * GROUP>(1);
    const u32 last = task.tiles - 1;
    await_phase(&barriers.values[last % STAGES], last / STAGES % 2);
    begin_multiplications();
    ask_sums(sums, weights, last % STAGES, 1);
    await_multiplications<0>();
    settle_sums(sums);
    finish(p, task, sums, softmax, row);
  }

  // Queries that see no key at all.
  static DEVICE_MEMBER void leave_nothing(const AttentionParams& p, const Task& task) {
    const u32 rows = smaller(ROWS, task.sequence.queries - task.first);
    for (u32 i = thread_index(); i < rows * DIM_V; i += 3 * GROUP) {
      const u64 row = u64(task.sequence.query_first + task.first + i / DIM_V) * p.heads + task.head;
      static_cast<Out*>(p.o)[row * DIM_V + i % DIM_V] = Out{0};
    }
  }

  static DEVICE_MEMBER void one(const AttentionParams& p, const TensorMap* q, const TensorMap* k,
                                const TensorMap* v) {
    SHARED Barriers barriers;
    const u32 units = p.batch * p.heads, tiles = (p.queries + ROWS - 1) / ROWS;
    // The last tiles, which see the most where they are causal, come first; heads that share keys
    // beside each other.
    const u32 unit = block_index() % units, first = (tiles - 1 - block_index() / units) * ROWS;
    const AttentionSequence sequence = p.sequences[unit / p.heads];
    if (first >= sequence.queries) return;
    const u32 head = unit % p.heads;
    const u32 end = keys_seen(p, sequence, smaller(first + ROWS, sequence.queries) - 1);
    const Task task = {sequence, head, head / (p.heads / p.kv_heads), first, end,
                       (end + KEYS - 1) / KEYS};
    if (task.tiles == 0) {
      leave_nothing(p, task);
      return;
    }
    if (thread_index() == 0) {
      make_barrier(&barriers.queries, 1);
      for (u32 i = 0; i < STAGES; i++) {
        make_barrier(&barriers.keys[i], 1);
        make_barrier(&barriers.values[i], NARROW ? WIDENERS : 1);
        make_barrier(&barriers.raw[i], 1);
        make_barrier(&barriers.raw_free[i], WIDENERS);
        make_barrier(&barriers.keys_free[i], WARPS);
        make_barrier(&barriers.values_free[i], WARPS);
      }
      barriers_made();
    }
    block_barrier();
    if (thread_index() < GROUP) {
      keep_registers<NARROW ? 56 : 24>();
      if (thread_index() == 0) load(task, barriers, q, k, v);
      if (NARROW && thread_index() >= 32) widen_values(task, barriers, thread_index() - 32);
    } else {
      take_registers<NARROW ? 224 : 240>();
      attend(p, task, barriers);
    }
  }
};

}  // namespace

#define PREFILL(NAME, TYPE, DIM_QK, DIM_V, KEYS)                                                  \
  KERNEL(384, 1)                                                                                  \
  attention_prefill_##NAME##_##DIM_QK##_wgmma(const AttentionParams p, MAP q, MAP k, MAP v) {      \
    Prefill90<TYPE, DIM_QK, DIM_V, KEYS>::one(p, &q, &k, &v);                                     \
  }

PREFILL(bf16, bf16, 64, 64, 128)
PREFILL(bf16, bf16, 128, 128, 128)
PREFILL(bf16, bf16, 192, 128, 128)
PREFILL(bf16, bf16, 256, 256, 64)
PREFILL(f16, f16, 64, 64, 128)
PREFILL(f16, f16, 128, 128, 128)
PREFILL(f16, f16, 192, 128, 128)
PREFILL(f16, f16, 256, 256, 64)
PREFILL(fp8, e4m3, 128, 128, 128)
PREFILL(fp8, e4m3, 256, 256, 64)

#undef PREFILL
