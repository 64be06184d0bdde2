// One token of linear attention: crates/domain/src/case/recurrence.rs says what each rule leaves.
// Memory bounds it: every state is read and written once, 16 bytes by a thread at once, and stays in
// registers between. A few lanes of a warp have a row of a state; what they sum along it they
// exchange.
#include "params.h"
#include "tiles.h"

namespace {

CONSTANT u32 THREADS = 128;
// Vectors of 16 bytes of states that a thread has at once: of one row, or of as many rows.
CONSTANT u32 KEPT = 4;

typedef Vector<u64> Packed;

DEVICE f32 element(const Packed& packed, u32 i, f32) {
  return float_of(u32(packed.at[i / 2] >> i % 2 * 32));
}
DEVICE f32 element(const Packed& packed, u32 i, bf16) {
  const u32 pair = u32(packed.at[i / 4] >> i % 4 / 2 * 32);
  return float_of(i % 2 == 0 ? pair << 16 : pair & 0xffff0000);
}

DEVICE Packed packed(const f32 (&values)[4], f32) {
  Packed got;
  UNROLL for (u32 i = 0; i < 2; i++) {
    got.at[i] = bits_of(values[2 * i]) | u64(bits_of(values[2 * i + 1])) << 32;
  }
  return got;
}
DEVICE Packed packed(const f32 (&values)[8], bf16) {
  Packed got;
  UNROLL for (u32 i = 0; i < 2; i++) {
    const f32* four = values + 4 * i;
    got.at[i] = narrow_pair(four[0], four[1], bf16()) |
                u64(narrow_pair(four[2], four[3], bf16())) << 32;
  }
  return got;
}

// COUNT elements of bf16 or f32, which begin at a multiple of 8 bytes.
template <u32 COUNT> DEVICE void widened(const bf16* from, f32 (&to)[COUNT]) {
  UNROLL for (u32 i = 0; i < COUNT / 4; i++) {
    const u64 four = reinterpret_cast<const u64*>(from)[i];
    UNROLL for (u32 j = 0; j < 4; j++) to[4 * i + j] = float_of(u32(four >> 16 * j) << 16);
  }
}
template <u32 COUNT> DEVICE void widened(const f32* from, f32 (&to)[COUNT]) {
  UNROLL for (u32 i = 0; i < COUNT / 2; i++) {
    const u64 two = reinterpret_cast<const u64*>(from)[i];
    UNROLL for (u32 j = 0; j < 2; j++) to[2 * i + j] = float_of(u32(two >> 32 * j));
  }
}

// The sum over the lanes of a row, which all get.
template <u32 LANES> DEVICE f32 total(f32 sum) {
  UNROLL for (u32 mask = LANES / 2; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
  return sum;
}

// What a lane has of a key and its query, and the decays of these elements.
template <u32 EACH, u32 CHUNKS> struct Columns {
  f32 keys[CHUNKS][EACH], queries[CHUNKS][EACH], decays[CHUNKS][EACH];
};

// States whose rows have LANES lanes with CHUNKS vectors each.
template <class T, bool DELTA, bool EACH_DECAYS, u32 LANES, u32 CHUNKS>
DEVICE void update(const RecurrenceParams& p) {
  constexpr u32 EACH = 16 / sizeof(T), ROWS = KEPT / CHUNKS;
  constexpr u32 TURN = THREADS / LANES * ROWS;
  const u32 lane = thread_index() % LANES, mine = thread_index() / LANES * ROWS;
  const u32 slices = tiles_along(p.value, TURN), all = p.batch * p.heads * slices;
  const T* state = static_cast<const T*>(p.state);
  T* updated = static_cast<T*>(p.updated);
  for (u32 index = block_index(); index < all; index += block_count()) {
    const u32 at = index / slices, first = index % slices * TURN + mine;
    const u32 sequence = at / p.heads, head = at % p.heads;
    const u64 row = u64(at) * p.value + first;
    const u64 of_keys = (u64(sequence) * p.key_heads + head / (p.heads / p.key_heads)) * p.key;
    Packed old[ROWS][CHUNKS];
    UNROLL for (u32 r = 0; r < ROWS; r++) {
      UNROLL for (u32 c = 0; c < CHUNKS; c++) {
        const u32 column = (c * LANES + lane) * EACH;
        old[r][c] = {};
        if (first + r >= p.value || column >= p.key) continue;
        old[r][c] =
            load_evict_first(reinterpret_cast<const Packed*>(state + (row + r) * p.key + column));
      }
    }
    Columns<EACH, CHUNKS> shared = {};
    f32 product = 0.0f;
    UNROLL for (u32 c = 0; c < CHUNKS; c++) {
      const u32 column = (c * LANES + lane) * EACH;
      if (column < p.key) {
        widened(p.keys + of_keys + column, shared.keys[c]);
        widened(p.queries + of_keys + column, shared.queries[c]);
        if constexpr (EACH_DECAYS) {
          widened(p.decays + u64(at) * p.key + column, shared.decays[c]);
        }
      }
      UNROLL for (u32 i = 0; i < EACH; i++) {
        if constexpr (!EACH_DECAYS) shared.decays[c][i] = p.decays[at];
        product = fused(shared.keys[c][i], shared.queries[c][i], product);
      }
    }
    product = total<LANES>(product);
    const f32 rate = p.rates[at], skip = p.skips == nullptr ? 0.0f : p.skips[head];
    UNROLL for (u32 r = 0; r < ROWS; r++) {
      f32 kept = 0.0f, read = 0.0f;
      UNROLL for (u32 c = 0; c < CHUNKS; c++) {
        UNROLL for (u32 i = 0; i < EACH; i++) {
          const f32 decayed = element(old[r][c], i, T()) * shared.decays[c][i];
          read = fused(decayed, shared.queries[c][i], read);
          if constexpr (DELTA) kept = fused(decayed, shared.keys[c][i], kept);
        }
      }
      read = total<LANES>(read);
      if constexpr (DELTA) kept = total<LANES>(kept);
      if (first + r >= p.value) continue;
      const f32 value = widen(p.values[row + r]), change = rate * (value - kept);
      UNROLL for (u32 c = 0; c < CHUNKS; c++) {
        const u32 column = (c * LANES + lane) * EACH;
        if (column >= p.key) continue;
        f32 now[EACH];
        UNROLL for (u32 i = 0; i < EACH; i++) {
          const f32 decayed = element(old[r][c], i, T()) * shared.decays[c][i];
          now[i] = fused(change, shared.keys[c][i], decayed);
        }
        store(reinterpret_cast<Packed*>(updated + (row + r) * p.key + column), packed(now, T()));
      }
      if (lane == r) {
        p.output[row + r] = narrow(fused(change, product, fused(skip, value, read)), bf16());
      }
    }
  }
}

// The length of a key is the same for all of a launch. Those of today's models have lanes for just
// as many elements.
template <bool DELTA, bool EACH_DECAYS> DEVICE void update(const RecurrenceParams& p, f32) {
  if (p.key == 128) update<f32, DELTA, EACH_DECAYS, 32, 1>(p);
  else if (p.key == 64) update<f32, DELTA, EACH_DECAYS, 16, 1>(p);
  else update<f32, DELTA, EACH_DECAYS, 32, 4>(p);
}
template <bool DELTA, bool EACH_DECAYS> DEVICE void update(const RecurrenceParams& p, bf16) {
  if (p.key == 128) update<bf16, DELTA, EACH_DECAYS, 16, 1>(p);
  else if (p.key == 64) update<bf16, DELTA, EACH_DECAYS, 8, 1>(p);
  else update<bf16, DELTA, EACH_DECAYS, 32, 2>(p);
}

}  // namespace

KERNEL(128, 6) recurrence_gated_delta_f32(const RecurrenceParams p) { update<true, false>(p, f32()); }
KERNEL(128, 4) recurrence_gated_delta_bf16(const RecurrenceParams p) {
  update<true, false>(p, bf16());
}
KERNEL(128, 6) recurrence_kda_f32(const RecurrenceParams p) { update<true, true>(p, f32()); }
KERNEL(128, 4) recurrence_kda_bf16(const RecurrenceParams p) { update<true, true>(p, bf16()); }
KERNEL(128, 6) recurrence_mamba2_f32(const RecurrenceParams p) { update<false, false>(p, f32()); }
KERNEL(128, 4) recurrence_mamba2_bf16(const RecurrenceParams p) { update<false, false>(p, bf16()); }
