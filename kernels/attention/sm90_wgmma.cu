// Prefill for Hopper (compute capability 9.0): wgmma with scores and sums in registers, in the manner
// of FlashAttention-3 (Shah and others, 2024). Heads of 64, 128 and 256, and of 192 with values of
// 128; of 8-bit floats those of 128 and 256.
//
// A block stays on its multiprocessor and takes one tile of queries after the other, in the order of
// attention_order.h, by a counter in global memory. Its first warpgroup loads by tensor maps: queries,
// keys and values of the next tile as soon as their places are free, while the last tile is still
// multiplied. Two warpgroups (three for heads of 64) multiply, each 64 rows of the tile. The loop
// over keys does not end with a tile: scores of the next tile's first keys are multiplied together
// with the last sums of the one before, whose output is stored while the others multiply.
//
// While a warpgroup's scores of the next keys and its sums of the last are being multiplied, it waits
// for its scores alone and makes their weights under the sums' multiplication. Weights are made
// behind a branch that is always taken: without it the assembler moves the wait for the sums before
// the exponentials. The warpgroups take turns to ask for multiplications, so that one makes weights
// while another multiplies. Weights are the left operand in the registers they are made in.
//
// Scores become exponents of two in one operation each. Sums are corrected only where a row's largest
// score rises by more than 8 (a factor of 2^8), which is rare (FlashAttention-4): until then weights
// are larger than one, and the last division puts it right.
//
// Only keys that some row of a tile sees are loaded, from the first (sliding windows, chunks) to the
// last (causal). Scores are masked in those tiles of keys alone that some row does not see whole.
//
// Of 8-bit floats both products are multiplied as such. The unit takes 8-bit values only with keys
// along their rows, and they do not stand so: three warps beside the one that loads transpose them in
// shared memory. Weights are made 2^8 times as large, so that they use the range of the type.
#include "attention_order.h"
#include "attention_wgmma.h"
#include "sm89.h"

namespace {

// GROUPS warpgroups multiply; LOADER and MULTIPLIER are registers of a thread that loads, or
// multiplies. Q_STAGES tiles of queries and STAGES of keys and values are loaded ahead.
template <class T, u32 DIM_QK, u32 DIM_V, u32 KEYS, u32 GROUPS, u32 Q_STAGES, u32 STAGES>
struct Prefill90 {
  static constexpr bool NARROW = sizeof(T) == 1;
  struct BrainFloat { using Type = bf16; };
  struct Same { using Type = T; };
  template <bool IS, class A, class B> struct Choice { using Type = typename A::Type; };
  template <class A, class B> struct Choice<false, A, B> { using Type = typename B::Type; };
  using Out = typename Choice<NARROW, BrainFloat, Same>::Type;
  // Elements of a row of 128 bytes.
  static constexpr u32 ACROSS = 128 / sizeof(T);
  // Warps that transpose values, how many loads each of them has under way, and stages of values as they come.
  static constexpr u32 TURNERS = NARROW ? 3 : 0, AT_ONCE = DIM_V == 128 ? 4 : 1, RAW_STAGES = 2;
  static constexpr u32 GROUP = 128, ROWS = GROUPS * 64, WARPS = GROUPS * 4;
  // Heads of 256 leave warps that transpose no more registers than one that loads.
  static constexpr bool EVEN = NARROW && DIM_V == 128;
  static constexpr u32 LOADER = EVEN ? 72 : GROUPS == 3 ? 32 : 24;
  static constexpr u32 MULTIPLIER = EVEN ? 216 : GROUPS == 3 ? 160 : 240;
  static constexpr u32 PANELS_QK = DIM_QK / ACROSS, PANELS_V = DIM_V / ACROSS;
  static constexpr u32 PANEL = KEYS * 128, QUERY_PANEL = ROWS * 128;
  static constexpr u32 QUERIES = PANELS_QK * QUERY_PANEL;
  static constexpr u32 KEYS_BYTES = PANELS_QK * PANEL, VALUES_BYTES = PANELS_V * PANEL;
  static constexpr u32 KEYS_START = Q_STAGES * QUERIES;
  static constexpr u32 VALUES_START = KEYS_START + STAGES * KEYS_BYTES;
  static constexpr u32 RAW_START = VALUES_START + STAGES * VALUES_BYTES;
  static constexpr u32 SHARED_BYTES = RAW_START + (NARROW ? RAW_STAGES * VALUES_BYTES : 0);
  static_assert(SHARED_BYTES <= 225 << 10, "shared memory of a block, but for its barriers");
  static_assert(!NARROW || KEYS == 128, "transposed values are rows of 128 bytes");
  // Elements along k of one multiplication of weights by values.
  static constexpr u32 DEPTH = 32 / sizeof(T);

  // What a block works on: a tile of queries, from `first` on, of a head, and the tiles of keys that
  // its rows see; from `plain_from` to `plain_end` every row sees all keys of a tile.
  struct alignas(16) Unit {
    AttentionSequence sequence;
    u32 head, first, from, tiles, plain_from, plain_end;
  };
  // Units that the loading warp tells the others ahead.
  static constexpr u32 UNITS = 4;
  struct Shared {
    Unit units[UNITS];
    u64 told[UNITS], heard[UNITS];
    u64 queries[Q_STAGES], queries_free[Q_STAGES];
    u64 keys[STAGES], values[STAGES], keys_free[STAGES], values_free[STAGES];
    u64 raw[RAW_STAGES], raw_free[RAW_STAGES];
    // Units of the whole grid, in shared memory: the loading thread has no register left for it.
    u32 blocks;
  };

  static DEVICE_MEMBER u8* keys_at(u32 stage) {
    return dynamic_shared() + KEYS_START + stage * KEYS_BYTES;
  }
  static DEVICE_MEMBER u8* values_at(u32 stage) {
    return dynamic_shared() + VALUES_START + stage * VALUES_BYTES;
  }
  static DEVICE_MEMBER u8* raw_at(u32 stage) {
    return dynamic_shared() + RAW_START + stage * VALUES_BYTES;
  }
  // Parity of the phase in which the `number`th use of one of `stages` places begins, and of the one
  // before, which ends when the place is free.
  static DEVICE_MEMBER u32 filled(u32 number, u32 stages) { return number / stages % 2; }
  static DEVICE_MEMBER u32 freed(u32 number, u32 stages) { return number / stages % 2 ^ 1; }

  // A unit that sees no key has no tiles.
  static DEVICE_MEMBER Unit unit_at(const AttentionParams& p, const Place& place) {
    Unit unit = {p.sequences[place.sequence], place.head, place.tile * ROWS, 0, 0, 0, 0};
    if (unit.first >= unit.sequence.queries) return unit;
    const u32 last = smaller(unit.first + ROWS, unit.sequence.queries) - 1;
    const u32 end = (keys_seen(p, unit.sequence, last) + KEYS - 1) / KEYS;
    unit.from = first_key_seen(p, unit.sequence, unit.first) / KEYS;
    unit.tiles = end > unit.from ? end - unit.from : 0;
    unit.plain_from = (first_key_seen(p, unit.sequence, last) + KEYS - 1) / KEYS;
    unit.plain_end = keys_seen(p, unit.sequence, unit.first) / KEYS;
    return unit;
  }

  // Queries that see no key at all: zeros.
  static DEVICE_MEMBER void leave_nothing(const AttentionParams& p, const Unit& unit) {
    for (u32 row = unit.first; row < smaller(unit.first + ROWS, unit.sequence.queries); row++) {
      Out* to = output(p, unit, row);
      for (u32 i = 0; i < DIM_V; i += 8) store(reinterpret_cast<Vector<u64>*>(to + i), {0, 0});
    }
  }
  static DEVICE_MEMBER Out* output(const AttentionParams& p, const Unit& unit, u32 row) {
    return static_cast<Out*>(p.o) +
           (u64(unit.sequence.query_first + row) * p.heads + unit.head) * DIM_V;
  }

  static DEVICE_MEMBER void tell(Shared& shared, u32 number, const Unit& unit) {
    const u32 slot = number % UNITS;
    await_phase(&shared.heard[slot], freed(number, UNITS));
    shared.units[slot] = unit;
    arrive(&shared.told[slot]);
  }

  // One thread takes units and asks for all copies. A block's first unit is that of its number; what
  // follows is dealt by counter[0].
  static DEVICE_MEMBER void load(const AttentionParams& p, u32* counter, Shared& shared,
                                 const TensorMap* q, const TensorMap* k, const TensorMap* v) {
    const TileOrder order(p, ROWS, (DIM_QK + DIM_V) * sizeof(T));
    u32 number = 0, count = 0;
    for (u32 turn = block_index(); turn < order.count(p);) {
      const Unit unit = unit_at(p, order.at(p, turn));
      u32 next = 0;
      if (unit.tiles == 0) {
        leave_nothing(p, unit);
        turn = shared.blocks + atomic_add(counter, 1u);
        continue;
      }
      tell(shared, number, unit);
      load_queries(p, shared, number++, unit, q);
      const u32 kv_head = unit.head / (p.heads / p.kv_heads);
      u32 row = unit.sequence.key_first + unit.from * KEYS;
      const u32 end = row + unit.tiles * KEYS, asked = unit.tiles == 1 ? row : end - 2 * KEYS;
      for (; row < end; row += KEYS, count++) {
        // The answer comes while the last two tiles of keys are waited for.
        if (row == asked) next = atomic_add(counter, 1u);
        load_keys(shared, count, kv_head, row, k);
        load_values(shared, count, kv_head, row, v);
      }
      turn = shared.blocks + next;
    }
    tell(shared, number, Unit{});
    // The last block leaves the counters as it found them.
    device_fence();
    if (atomic_add(counter + 1, 1u) == shared.blocks - 1) counter[0] = counter[1] = 0;
  }
  static DEVICE_MEMBER void load_queries(const AttentionParams& p, Shared& shared, u32 number,
                                         const Unit& unit, const TensorMap* q) {
    const u32 stage = number % Q_STAGES;
    await_phase(&shared.queries_free[stage], freed(number, Q_STAGES));
    arrive_expecting(&shared.queries[stage], QUERIES);
    for (u32 i = 0; i < PANELS_QK; i++) {
      tile_load(dynamic_shared() + stage * QUERIES + i * QUERY_PANEL, q,
                unit.head * DIM_QK + ACROSS * i, unit.sequence.query_first + unit.first,
                &shared.queries[stage]);
    }
  }
  static DEVICE_MEMBER void load_keys(Shared& shared, u32 count, u32 kv_head, u32 row,
                                      const TensorMap* k) {
    const u32 stage = count % STAGES;
    await_phase(&shared.keys_free[stage], freed(count, STAGES));
    arrive_expecting(&shared.keys[stage], KEYS_BYTES);
    for (u32 i = 0; i < PANELS_QK; i++) {
      tile_load(keys_at(stage) + i * PANEL, k, kv_head * DIM_QK + ACROSS * i, row,
                &shared.keys[stage]);
    }
  }
  static DEVICE_MEMBER void load_values(Shared& shared, u32 count, u32 kv_head, u32 row,
                                        const TensorMap* v) {
    constexpr u32 PLACES = NARROW ? RAW_STAGES : STAGES;
    const u32 stage = count % PLACES;
    u64* there = NARROW ? &shared.raw[stage] : &shared.values[stage];
    u8* to = NARROW ? raw_at(stage) : values_at(stage);
    await_phase(NARROW ? &shared.raw_free[stage] : &shared.values_free[stage],
                freed(count, PLACES));
    arrive_expecting(there, VALUES_BYTES);
    for (u32 i = 0; i < PANELS_V; i++) {
      tile_load(to + i * PANEL, v, kv_head * DIM_V + ACROSS * i, row, there);
    }
  }

  // Transposes 8-bit values, tile by tile: rows of keys become rows of 128 keys, in the order that
  // weights have (pack_weights_8). Of every 16 columns the even ones are rows 0 .. 7, the odd ones 8
  // .. 15. Matrices of 16-bit elements are transposed, each two columns of a key; then bytes change
  // places.
  static DEVICE_MEMBER void turn_values(Shared& shared, u32 warp) {
    constexpr u32 COLUMNS = DIM_V / 16;
    const u32 lane = thread_index() % 32;
    u32 count = 0;
    for (u32 number = 0;; number++) {
      const u32 slot = number % UNITS;
      await_phase(&shared.told[slot], filled(number, UNITS));
      const u32 tiles = shared.units[slot].tiles;
      release(&shared.heard[slot]);
      if (tiles == 0) break;
      for (const u32 end = count + tiles; count < end; count++) {
        const u32 stage = count % STAGES, raw = count % RAW_STAGES;
        const u32 from = shared_address(raw_at(raw)), to = shared_address(values_at(stage));
        await_phase(&shared.raw[raw], filled(count, RAW_STAGES));
        await_phase(&shared.values_free[stage], freed(count, STAGES));
#pragma unroll 1
        for (u32 first = warp * AT_ONCE; first < COLUMNS * KEYS / 32; first += TURNERS * AT_ONCE) {
          u32 got[AT_ONCE][4];
          UNROLL for (u32 j = 0; j < AT_ONCE; j++) {
            const u32 i = first + j, column = i % COLUMNS * 16, key = i / COLUMNS * 32 + lane;
            load_matrices_transposed(got[j], from + column / 128 * PANEL + key * 128 +
                                                 (column % 128 / 16 ^ key % 8) * 16);
          }
          UNROLL for (u32 j = 0; j < AT_ONCE; j++) {
            const u32(&of)[4] = got[j];
            const u32 turned[4] = {
                choose_bytes(of[0], of[1], 0x6420), choose_bytes(of[2], of[3], 0x6420),
                choose_bytes(of[0], of[1], 0x7531), choose_bytes(of[2], of[3], 0x7531)};
            const u32 i = first + j, row = i % COLUMNS * 16 + lane / 16 * 8 + lane % 8;
            store_matrices(to + row * 128 + ((i / COLUMNS * 2 + lane / 8 % 2) ^ row % 8) * 16, turned);
          }
        }
        show_to_copies();
        release(&shared.values[stage]);
        release(&shared.raw_free[raw]);
      }
    }
  }

  // A warp gives a place back once all of its lanes are done with it.
  static DEVICE_MEMBER void release(u64* barrier) {
    warp_barrier();
    if (thread_index() % 32 == 0) arrive(barrier);
  }

  // Asks for the scores of a tile.
  static DEVICE_MEMBER void ask_scores(f32 (&scores)[KEYS / 2], u32 queries, u32 stage) {
    const u64 a = describe_k_major(warp_uniform(queries));
    const u64 b = describe_k_major(shared_address(keys_at(warp_uniform(stage))));
    UNROLL for (u32 step = 0; step < DIM_QK * sizeof(T) / 32; step++) {
      const u32 along = step % 4 * 32;
      multiply_scores(scores, further(a, step / 4 * QUERY_PANEL + along),
                      further(b, step / 4 * PANEL + along), step > 0, T());
    }
    close_multiplications();
  }
  static DEVICE_MEMBER void ask_sums(f32 (&sums)[DIM_V / 2], const u32 (&weights)[KEYS / DEPTH][4],
                                     u32 stage) {
    const u32 values = shared_address(values_at(warp_uniform(stage)));
    const u64 b = NARROW ? describe_k_major(values) : describe_mn_major(values, PANEL);
    UNROLL for (u32 step = 0; step < KEYS / DEPTH; step++) {
      multiply_values(sums, weights[step], further(b, step * (NARROW ? 32 : 2048)), 1, T());
    }
    close_multiplications();
  }

  // Masks what a row of the unit does not see of tile `at`, where there is such a row.
  static DEVICE_MEMBER void mask(const AttentionParams& p, const Unit& unit,
                                 f32 (&scores)[KEYS / 2], u32 row_in_tile, u32 at) {
    const u32 row = unit.first + row_in_tile;
    const u32 end[2] = {keys_seen(p, unit.sequence, row), keys_seen(p, unit.sequence, row + 8)};
    if (at >= unit.plain_from) {
      mask_scores(scores, at * KEYS, end);
    } else {
      const u32 first[2] = {first_key_seen(p, unit.sequence, row),
                            first_key_seen(p, unit.sequence, row + 8)};
      const u32 count[2] = {end[0] - first[0], end[1] - first[1]};
      mask_scores(scores, at * KEYS, first, count);
    }
  }

  static DEVICE_MEMBER void pack(u32 (&weights)[KEYS / DEPTH][4], const f32 (&scores)[KEYS / 2]) {
    if constexpr (NARROW) pack_weights_8(weights, scores);
    else pack_weights<T>(weights, scores);
  }

  // Stores sums over totals, 16 bytes at a time: the 4 lanes of a row first exchange what they have,
  // so that each has 8 columns in a row.
  static DEVICE_MEMBER void finish(const AttentionParams& p, const Unit& unit,
                                   const f32 (&sums)[DIM_V / 2], const f32 (&totals)[2],
                                   u32 row_in_tile) {
    const u32 t = thread_index() % 4;
    UNROLL for (u32 half = 0; half < 2; half++) {
      f32 total = totals[half];
      total += shuffle_xor(total, 1);
      total += shuffle_xor(total, 2);
      const f32 share = total > 0.0f ? 1.0f / total : 0.0f;
      const u32 row = unit.first + row_in_tile + 8 * half;
      const bool is_there = row < unit.sequence.queries;
      Out* to = output(p, unit, row) + (NARROW ? t % 2 * 16 + t / 2 * 8 : t * 8);
      // Sums of 32 columns.
      UNROLL for (u32 i = 0; i < DIM_V / 2; i += 16) {
        const auto pair = [&](u32 a, u32 b) -> u64 {
          return narrow_pair(sums[i + a + 2 * half] * share, sums[i + b + 2 * half] * share, Out());
        };
        Vector<u64> chunk;
        if constexpr (NARROW) {
          // Columns 4t .. 4t + 3 of two sixteens (turn_values); lanes of even t get the first.
          const u64 low = pair(0, 4) | pair(1, 5) << 32, high = pair(8, 12) | pair(9, 13) << 32;
          const u64 got = shuffle_xor(t % 2 ? low : high, 1);
          chunk = t % 2 ? Vector<u64>{got, high} : Vector<u64>{low, got};
        } else {
          // Columns 2t and 2t + 1 of four eights: lane t gets the eight of its number.
          const u64 here[4] = {pair(0, 1), pair(4, 5), pair(8, 9), pair(12, 13)};
          const u64 sent = t % 2 ? here[0] | here[2] << 32 : here[1] | here[3] << 32;
          const u64 got = shuffle_xor(sent, 1);
          const u64 low = t % 2 ? (got & ~0u) | here[1] << 32 : here[0] | got << 32;
          const u64 high = t % 2 ? got >> 32 | here[3] << 32 : here[2] | got >> 32 << 32;
          const u64 other = shuffle_xor(t / 2 ? low : high, 2);
          chunk = t / 2 ? Vector<u64>{other, high} : Vector<u64>{low, other};
        }
        if (is_there) store(reinterpret_cast<Vector<u64>*>(to + 2 * i), chunk);
      }
    }
  }

  // One of the warpgroups that multiply.
  static DEVICE_MEMBER void attend(const AttentionParams& p, Shared& shared) {
    const u32 group = thread_index() / GROUP - 1, next_group = (group + 1) % GROUPS;
    const u32 queries = shared_address(dynamic_shared()) + group * 64 * 128;
    const u32 row = group * 64 + thread_index() % GROUP / 32 * 16 + thread_index() % 32 / 4;
    const f32 factor = p.scale * LOG2_E;
    const bool always = p.heads != 0;
    f32 scores[KEYS / 2], sums[DIM_V / 2];
    u32 weights[KEYS / DEPTH][4];
    using Range = WeightRange<T>;
    Softmax softmax = no_softmax();
    UNROLL for (u32 i = 0; i < DIM_V / 2; i++) sums[i] = 0.0f;
    // Units and tiles of keys so far; of the unit, which tile of keys, and how many from it on.
    u32 number = 0, count = 0;
    await_phase(&shared.told[0], 0);
    const Unit* unit = &shared.units[0];
    u32 at = unit->from, left = unit->tiles;
    u32 plain_from = unit->plain_from, plain_end = unit->plain_end;
    if (left == 0) return;
    // The first warpgroup has the first turn.
    if (group == GROUPS - 1) come_to_barrier<2 * GROUP>(1);
    await_phase(&shared.queries[0], 0);
    await_phase(&shared.keys[0], 0);
    begin_multiplications();
    ask_scores(scores, queries, 0);
    await_multiplications<0>();
    settle_sums(scores);
    release(&shared.keys_free[0]);
    if (left == 1) release(&shared.queries_free[0]);
    if (at < plain_from || at >= plain_end) mask(p, *unit, scores, row, at);
    weigh_scores<Range>(scores, softmax, factor);
    pack(weights, scores);
    for (;;) {
      const u32 before = count % STAGES, filled_before = filled(count, STAGES);
      const Unit* unit_before = unit;
      const bool is_over = left == 1;
      at++;
      left--;
      count++;
      if (is_over) {
        number++;
        await_phase(&shared.told[number % UNITS], filled(number, UNITS));
        unit = &shared.units[number % UNITS];
        at = unit->from;
        left = unit->tiles;
        plain_from = unit->plain_from;
        plain_end = unit->plain_end;
        if (left == 0) break;
      }
      const u32 stage = count % STAGES, q_stage = number % Q_STAGES;
      barrier_of<2 * GROUP>(1 + group);
      if (is_over) await_phase(&shared.queries[q_stage], filled(number, Q_STAGES));
      await_phase(&shared.keys[stage], filled(count, STAGES));
      begin_multiplications();
      ask_scores(scores, queries + q_stage * QUERIES, stage);
      await_phase(&shared.values[before], filled_before);
      begin_multiplications();
      ask_sums(sums, weights, before);
      come_to_barrier<2 * GROUP>(1 + next_group);
      await_multiplications<1>();
      settle_sums(scores);
      release(&shared.keys_free[stage]);
      if (left == 1) release(&shared.queries_free[q_stage]);
      if (at < plain_from || at >= plain_end) mask(p, *unit, scores, row, at);
      const f32 totals[2] = {softmax.total[0], softmax.total[1]};
      if (is_over) softmax = no_softmax();
      if (always) weigh_scores<Range>(scores, softmax, factor);
      await_multiplications<0>();
      settle_sums(sums);
      release(&shared.values_free[before]);
      if (is_over) {
        finish(p, *unit_before, sums, totals, row);
        release(&shared.heard[(number - 1) % UNITS]);
        UNROLL for (u32 i = 0; i < DIM_V / 2; i++) sums[i] = 0.0f;
      } else {
        correct_sums(sums, softmax);
      }
      pack(weights, scores);
    }
    // Nobody's turn is left behind.
    if (group == 0) barrier_of<2 * GROUP>(1);
    const u32 last = count - 1;
    await_phase(&shared.values[last % STAGES], filled(last, STAGES));
    begin_multiplications();
    ask_sums(sums, weights, last % STAGES);
    await_multiplications<0>();
    settle_sums(sums);
    finish(p, shared.units[(number - 1) % UNITS], sums, softmax.total, row);
  }

  static DEVICE_MEMBER void one(const AttentionParams& p, u32* counter, const TensorMap* q,
                                const TensorMap* k, const TensorMap* v) {
    SHARED Shared shared;
    if (thread_index() == 0) {
      for (u32 i = 0; i < UNITS; i++) {
        make_barrier(&shared.told[i], 1);
        make_barrier(&shared.heard[i], WARPS + TURNERS);
      }
      for (u32 i = 0; i < Q_STAGES; i++) {
        make_barrier(&shared.queries[i], 1);
        make_barrier(&shared.queries_free[i], WARPS);
      }
      for (u32 i = 0; i < STAGES; i++) {
        make_barrier(&shared.keys[i], 1);
        make_barrier(&shared.keys_free[i], WARPS);
        make_barrier(&shared.values[i], NARROW ? TURNERS : 1);
        make_barrier(&shared.values_free[i], WARPS);
      }
      for (u32 i = 0; NARROW && i < RAW_STAGES; i++) {
        make_barrier(&shared.raw[i], 1);
        make_barrier(&shared.raw_free[i], TURNERS);
      }
      shared.blocks = block_count();
      barriers_made();
    }
    block_barrier();
    if (thread_index() < GROUP) {
      keep_registers<LOADER>();
      if (NARROW && thread_index() >= 32) turn_values(shared, thread_index() / 32 - 1);
      else if (warp_number() == 0 && elected()) load(p, counter, shared, q, k, v);
    } else {
      take_registers<MULTIPLIER>();
      attend(p, shared);
    }
  }
};

}  // namespace

#define PREFILL(NAME, TYPE, DIM_QK, DIM_V, KEYS, GROUPS, Q_STAGES, STAGES)                         \
  KERNEL((GROUPS + 1) * 128, 1)                                                                    \
  attention_prefill_##NAME##_##DIM_QK##_wgmma(const AttentionParams p, u32* counter, MAP q, MAP k, \
                                              MAP v) {                                             \
    Prefill90<TYPE, DIM_QK, DIM_V, KEYS, GROUPS, Q_STAGES, STAGES>::one(p, counter, &q, &k, &v);   \
  }

PREFILL(bf16, bf16, 64, 64, 128, 3, 2, 4)
PREFILL(bf16, bf16, 128, 128, 128, 2, 2, 2)
PREFILL(bf16, bf16, 192, 128, 128, 2, 1, 2)
PREFILL(bf16, bf16, 256, 256, 64, 2, 1, 2)
PREFILL(f16, f16, 64, 64, 128, 3, 2, 4)
PREFILL(f16, f16, 128, 128, 128, 2, 2, 2)
PREFILL(f16, f16, 192, 128, 128, 2, 1, 2)
PREFILL(f16, f16, 256, 256, 64, 2, 1, 2)
PREFILL(fp8, e4m3, 128, 128, 128, 2, 2, 4)
PREFILL(fp8, e4m3, 256, 256, 128, 2, 1, 2)

#undef PREFILL
