// What stands between the products of a layer, several steps in one:
// crates/domain/src/case/fused.rs says what each leaves. Memory bounds them: each thread moves 16
// bytes of bf16 at once, every input is read once, and a row that is normalised stays in registers
// until its sum is known.
#include "e4m3.h"
#include "params.h"
#include "tiles.h"

namespace {

CONSTANT u32 THREADS = 256;
// Elements that a thread takes at once, and a block.
CONSTANT u32 EACH = 8;
CONSTANT u32 TURN = THREADS * EACH;
// Turns of a row that stay in registers.
CONSTANT u32 KEPT = 4;
// Threads whose elements share a scale.
CONSTANT u32 SHARING = 16;
// The least number that is taken for the largest of those that share a scale.
CONSTANT f32 LARGEST_MIN = 1e-10f;

typedef Vector<u64> Packed;

// A row of bf16, whose elements are reached eight at a time: by one instruction where rows begin at
// multiples of 16 bytes, else one by one. What is behind its end is zero and not written.
template <bool ALIGNED> struct Row {
  const bf16* first;
  u32 width;

  DEVICE_MEMBER bool has(u32 at) const { return at < width; }
};

template <bool ALIGNED, class Load>
DEVICE Packed fetch(const Row<ALIGNED>& row, u32 at, Load load_aligned) {
  Packed got = {};
  if constexpr (ALIGNED) {
    if (row.has(at)) got = load_aligned(reinterpret_cast<const Packed*>(row.first + at));
  } else {
    UNROLL for (u32 i = 0; i < EACH; i++) {
      if (row.has(at + i)) got.at[i / 4] |= u64(row.first[at + i].bits) << i % 4 * 16;
    }
  }
  return got;
}
// What is read once, and what others read as well.
template <bool ALIGNED> DEVICE Packed fetch_once(const Row<ALIGNED>& row, u32 at) {
  return fetch(row, at, [](const Packed* from) { return load_evict_first(from); });
}
template <bool ALIGNED> DEVICE Packed fetch_shared(const Row<ALIGNED>& row, u32 at) {
  return fetch(row, at, [](const Packed* from) { return load(from); });
}

template <bool ALIGNED> DEVICE void put(const Row<ALIGNED>& row, u32 at, Packed value) {
  bf16* to = const_cast<bf16*>(row.first) + at;
  if constexpr (ALIGNED) {
    if (row.has(at)) store(reinterpret_cast<Packed*>(to), value);
  } else {
    UNROLL for (u32 i = 0; i < EACH; i++) {
      if (row.has(at + i)) to[i].bits = u16(value.at[i / 4] >> i % 4 * 16);
    }
  }
}

DEVICE f32 value_at(const Packed& packed, u32 i) {
  const u32 pair = u32(packed.at[i / 4] >> i % 4 / 2 * 32);
  return float_of(i % 2 == 0 ? pair << 16 : pair & 0xffff0000);
}

DEVICE Packed packed(const f32 (&values)[EACH]) {
  Packed got;
  UNROLL for (u32 i = 0; i < 2; i++) {
    const f32* four = values + 4 * i;
    got.at[i] = narrow_pair(four[0], four[1], bf16()) |
                u64(narrow_pair(four[2], four[3], bf16())) << 32;
  }
  return got;
}

// How outputs are left.
struct ToBf16 {};
struct ToFp8 {};
struct ToFp8Block {};

template <bool ALIGNED>
DEVICE void leave(const FusedParams& p, u32 row, u32 at, const f32 (&values)[EACH], ToBf16) {
  const bf16* first = static_cast<const bf16*>(p.output) + u64(row) * p.width;
  put(Row<ALIGNED>{first, p.width}, at, packed(values));
}

template <bool ALIGNED>
DEVICE void leave_codes(const FusedParams& p, u32 row, u32 at, const f32 (&values)[EACH],
                        f32 factor) {
  u64 codes = 0;
  UNROLL for (u32 i = 0; i < 2; i++) {
    const f32* four = values + 4 * i;
    codes |= u64(narrow_four_e4m3(four[0] * factor, four[1] * factor, four[2] * factor,
                                  four[3] * factor)) << 32 * i;
  }
  u8* to = static_cast<u8*>(p.output) + u64(row) * p.width + at;
  if constexpr (ALIGNED) {
    if (at < p.width) *reinterpret_cast<u64*>(to) = codes;
  } else {
    UNROLL for (u32 i = 0; i < EACH; i++) {
      if (at + i < p.width) to[i] = u8(codes >> 8 * i);
    }
  }
}
template <bool ALIGNED>
DEVICE void leave(const FusedParams& p, u32 row, u32 at, const f32 (&values)[EACH], ToFp8) {
  leave_codes<ALIGNED>(p, row, at, values, p.inverse);
}
// All threads of a warp come here together: those that share a scale find their largest.
template <bool ALIGNED>
DEVICE void leave(const FusedParams& p, u32 row, u32 at, const f32 (&values)[EACH], ToFp8Block) {
  f32 largest = LARGEST_MIN;
  UNROLL for (u32 i = 0; i < EACH; i++) {
    largest = larger(largest, larger(values[i], -values[i]));
  }
  UNROLL for (u32 mask = SHARING / 2; mask > 0; mask /= 2) {
    largest = larger(largest, shuffle_xor(largest, mask));
  }
  leave_codes<ALIGNED>(p, row, at, values, E4M3_MOST / largest);
  if (thread_index() % SHARING != 0 || at >= p.width) return;
  const u32 blocks = tiles_along(p.width, SHARING * EACH);
  p.scales[u64(row) * blocks + at / (SHARING * EACH)] = largest / E4M3_MOST;
}

// The sum over the threads of a block, which all get. Two calls one after the other need two
// places.
DEVICE f32 total_of_block(f32 sum, f32 (&sums)[THREADS / 32]) {
  UNROLL for (u32 mask = 16; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
  if (thread_index() % 32 == 0) sums[thread_index() / 32] = sum;
  block_barrier();
  f32 total = 0.0f;
  UNROLL for (u32 warp = 0; warp < THREADS / 32; warp++) total += sums[warp];
  return total;
}

// What the elements of a row are multiplied by, beside their weights.
DEVICE f32 factor_of(const FusedParams& p, f32 squares) {
  return reciprocal_root(squares / f32(p.width) + p.epsilon);
}

// Input and residual together, as the residual keeps them; their squares are added to `squares`.
DEVICE Packed added(const Packed& input, const Packed& residual, f32& squares) {
  f32 values[EACH];
  UNROLL for (u32 i = 0; i < EACH; i++) values[i] = value_at(input, i) + value_at(residual, i);
  const Packed sums = packed(values);
  UNROLL for (u32 i = 0; i < EACH; i++) {
    const f32 value = value_at(sums, i);
    squares = fused(value, value, squares);
  }
  return sums;
}

template <class To, bool ALIGNED>
DEVICE void leave_normalised(const FusedParams& p, u32 row, u32 at, const Packed& sums,
                             f32 factor) {
  const Packed weights = fetch_shared(Row<ALIGNED>{p.weight, p.width}, at);
  f32 values[EACH];
  UNROLL for (u32 i = 0; i < EACH; i++) {
    values[i] = value_at(sums, i) * factor * value_at(weights, i);
  }
  leave<ALIGNED>(p, row, at, values, To());
}

// The rows of a norm, each a block's.
template <bool ALIGNED> struct Rows {
  Row<ALIGNED> input, residual, updated;

  DEVICE_MEMBER Rows(const FusedParams& p, u32 row)
      : input{p.input + u64(row) * p.width, p.width},
        residual{p.residual + u64(row) * p.width, p.width},
        updated{p.updated + u64(row) * p.width, p.width} {}
};

// Rows that stay in registers until their sum is known.
template <class To> DEVICE void norm_of_short_rows(const FusedParams& p) {
  SHARED f32 sums[2][THREADS / 32];
  const u32 mine = thread_index() * EACH;
  u32 side = 0;
  for (u32 row = block_index(); row < p.rows; row += block_count()) {
    const Rows<true> rows(p, row);
    Packed kept[KEPT], others[KEPT];
    UNROLL for (u32 i = 0; i < KEPT; i++) {
      kept[i] = fetch_once(rows.input, i * TURN + mine);
      others[i] = fetch_once(rows.residual, i * TURN + mine);
    }
    f32 squares = 0.0f;
    UNROLL for (u32 i = 0; i < KEPT; i++) {
      kept[i] = added(kept[i], others[i], squares);
      put(rows.updated, i * TURN + mine, kept[i]);
    }
    const f32 factor = factor_of(p, total_of_block(squares, sums[side]));
    side ^= 1;
    UNROLL for (u32 i = 0; i < KEPT; i++) {
      if (i * TURN < p.width) {
        leave_normalised<To, true>(p, row, i * TURN + mine, kept[i], factor);
      }
    }
  }
}

// Rows of any length: their sums with the residual are read again, by the thread that wrote them.
template <class To, bool ALIGNED> DEVICE void norm_of_any_rows(const FusedParams& p) {
  SHARED f32 sums[2][THREADS / 32];
  const u32 mine = thread_index() * EACH;
  u32 side = 0;
  for (u32 row = block_index(); row < p.rows; row += block_count()) {
    const Rows<ALIGNED> rows(p, row);
    f32 squares = 0.0f;
    for (u32 at = 0; at < p.width; at += TURN) {
      const Packed one = fetch_once(rows.input, at + mine);
      put(rows.updated, at + mine, added(one, fetch_once(rows.residual, at + mine), squares));
    }
    const f32 factor = factor_of(p, total_of_block(squares, sums[side]));
    side ^= 1;
    for (u32 at = 0; at < p.width; at += TURN) {
      const Packed again = fetch_shared(rows.updated, at + mine);
      leave_normalised<To, ALIGNED>(p, row, at + mine, again, factor);
    }
  }
}

// Turns of all rows one after the other are dealt to blocks; where rows are loaded 16 bytes at
// once, two are under way.
CONSTANT f32 LOG2_E = 1.44269504f;

template <class To, bool ALIGNED> DEVICE void swiglu(const FusedParams& p) {
  constexpr u32 AT_ONCE = ALIGNED ? 2 : 1;
  const u32 turns = tiles_along(p.width, TURN), mine = thread_index() * EACH;
  const u32 all = p.rows * turns, apart = block_count();
  for (u32 index = block_index(); index < all; index += AT_ONCE * apart) {
    Packed gates[AT_ONCE], ups[AT_ONCE];
    u32 rows[AT_ONCE], places[AT_ONCE];
    UNROLL for (u32 i = 0; i < AT_ONCE; i++) {
      const u32 turn = index + i * apart;
      const bool is_there = turn < all;
      rows[i] = is_there ? turn / turns : 0;
      // One that is not there is behind the end of its row.
      places[i] = is_there ? turn % turns * TURN + mine : p.width;
      const bf16* first = p.input + u64(rows[i]) * 2 * p.width;
      gates[i] = fetch_once(Row<ALIGNED>{first, p.width}, places[i]);
      ups[i] = fetch_once(Row<ALIGNED>{first + p.width, p.width}, places[i]);
    }
    UNROLL for (u32 i = 0; i < AT_ONCE; i++) {
      f32 values[EACH];
      UNROLL for (u32 j = 0; j < EACH; j++) {
        const f32 gate = value_at(gates[i], j);
        values[j] = gate * reciprocal(1.0f + power_of_two(gate * -LOG2_E)) * value_at(ups[i], j);
      }
      leave<ALIGNED>(p, rows[i], places[i], values, To());
    }
  }
}

// Whether rows begin at multiples of 16 bytes is the same for all of a launch.
template <class To> DEVICE void norm(const FusedParams& p) {
  if (p.width % EACH != 0) norm_of_any_rows<To, false>(p);
  else if (p.width > KEPT * TURN) norm_of_any_rows<To, true>(p);
  else norm_of_short_rows<To>(p);
}
template <class To> DEVICE void swiglu(const FusedParams& p) {
  if (p.width % EACH == 0) swiglu<To, true>(p);
  else swiglu<To, false>(p);
}

}  // namespace

KERNEL(256, 4) fused_norm_bf16(const FusedParams p) { norm<ToBf16>(p); }
KERNEL(256, 4) fused_norm_fp8(const FusedParams p) { norm<ToFp8>(p); }
KERNEL(256, 3) fused_norm_fp8block(const FusedParams p) { norm<ToFp8Block>(p); }
KERNEL(256, 4) fused_swiglu_bf16(const FusedParams p) { swiglu<ToBf16>(p); }
KERNEL(256, 4) fused_swiglu_fp8block(const FusedParams p) { swiglu<ToFp8Block>(p); }
