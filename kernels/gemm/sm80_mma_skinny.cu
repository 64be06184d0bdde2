// Matrix products of few rows, as decoding makes them: bf16 and f16, by fragments in registers. What
// counts is that B, which is read once, arrives on all units at the speed of memory.
//
// A tile is 64 columns, whose rows of B are whole lines of 128 bytes, by 16, 32 or 64 rows: as many as
// there are, so that B comes from memory once. The 8 warps of a block share the dimension summed over:
// each has every eighth stage of 16 along k, in a ring of its own, and waits for no other warp until
// the sums of a tile are added. Rings stay full meanwhile: the next tile's stages are on their way.
//
// Tiles of one product stand on a line, of which each block has an equal stretch (stream_k.h): few
// columns fill the device too. Of groups each block takes whole tiles. Rows must be multiples of 16
// bytes.
#include "grouped.h"
#include "params.h"
#include "sm80.h"
#include "stream_k.h"
#include "tiles.h"

namespace {

CONSTANT u32 THREADS = 256;
CONSTANT u32 WARPS = THREADS / 32;
CONSTANT u32 COLUMNS = 64;
CONSTANT u32 FRAGMENTS = COLUMNS / 8;
// Along k of a stage, and bytes of a row of A and of B in it.
CONSTANT u32 DEPTH = 16;
CONSTANT u32 ROW_BYTES_A = DEPTH * 2;
CONSTANT u32 ROW_BYTES_B = COLUMNS * 2;
CONSTANT u32 SHARED_BYTES = 98304;
// Fragments of 16 rows of the tallest tile.
CONSTANT u32 DOWN_MAX = 4;
// Stages of a stretch at least: 8 for each warp. What is shorter costs more to add up than it saves.
CONSTANT u32 LEAST = 64;
// Sums of a tile are added in rounds of as many rows as there are warps: their shares of a round.
CONSTANT u32 ROUND_BYTES = WARPS * COLUMNS * 4;

template <u32 DOWN> struct Layout {
  static constexpr u32 ROWS = 16 * DOWN;
  static constexpr u32 BYTES_A = ROWS * ROW_BYTES_A;
  static constexpr u32 BYTES = BYTES_A + DEPTH * ROW_BYTES_B;
  static constexpr u32 THERE = SHARED_BYTES / (WARPS * BYTES);
  static constexpr u32 STAGES = THERE < 4 ? THERE : 4;
  static_assert(STAGES >= 3, "copies are on their way while others are multiplied");
  static_assert(ROUND_BYTES <= BYTES, "a round's shares take the place of a stage");
};

// Chunks of 16 bytes are exchanged by the row's number, so that 8 rows of a chunk are in 8 different
// banks.
DEVICE u32 place_a(u32 stage, u32 row, u32 chunk) {
  return stage + row * ROW_BYTES_A + (chunk ^ row / 4 % 2) * 16;
}
DEVICE u32 place_b(u32 stage, u32 k, u32 chunk) {
  return stage + k * ROW_BYTES_B + (chunk ^ k % 8) * 16;
}
// Where two neighbouring sums of a round's row stand.
DEVICE u32 place_pair(u32 shares, u32 row, u32 pair) {
  return shares + row * (COLUMNS * 4) + (pair / 4 ^ row) * 32 + pair % 4 * 8;
}

// Where this lane's chunks of a warp's next stage come from.
template <u32 DOWN> struct Source {
  const u8* a;
  const u8* b;
  u64 line_a, line_b;  // bytes of a row
  // What there is from the first chunk on: rows of A, elements along k of A and of B.
  u32 rows, left_a, left_b;

  // To the stage that begins at `k`, of which what is before `end` is there.
  DEVICE_MEMBER void aim(const GemmParams& p, Tile tile, u32 k, u32 end) {
    const u32 lane = thread_index() % 32;
    const u32 row = tile.row * Layout<DOWN>::ROWS + lane / 2;
    const u32 k_a = k + lane % 2 * 8, k_b = k + lane / 8;
    const u32 column = tile.column * COLUMNS + lane % 8 * 8;
    line_a = u64(p.k) * 2;
    line_b = u64(p.n) * 2;
    a = static_cast<const u8*>(p.a) + row * line_a + k_a * 2;
    b = static_cast<const u8*>(p.b) + k_b * line_b + column * 2;
    rows = row < p.m ? p.m - row : 0;
    left_a = k_a < end ? end - k_a : 0;
    left_b = k_b < end && column < p.n ? end - k_b : 0;
  }
  // Of what is not there nothing is read: it becomes zero.
  DEVICE_MEMBER void fetch(u32 stage) const {
    const u32 lane = thread_index() % 32;
    UNROLL for (u32 i = 0; i < DOWN; i++) {
      copy_async(place_a(stage, i * 16 + lane / 2, lane % 2), a + i * 16 * line_a,
                 left_a > 0 && i * 16 < rows ? 16 : 0);
    }
    UNROLL for (u32 i = 0; i < DEPTH / 4; i++) {
      copy_async(place_b(stage + Layout<DOWN>::BYTES_A, i * 4 + lane / 8, lane % 8),
                 b + i * 4 * line_b, i * 4 < left_b ? 16 : 0);
    }
  }
  // To this warp's next stage.
  DEVICE_MEMBER void advance() {
    constexpr u32 ON = WARPS * DEPTH;
    a += ON * 2;
    b += ON * line_b;
    left_a = left_a > ON ? left_a - ON : 0;
    left_b = left_b > ON ? left_b - ON : 0;
  }
};

template <class In, u32 DOWN>
DEVICE void multiply_stage(f32 (&sums)[DOWN][FRAGMENTS][4], u32 stage) {
  const u32 lane = thread_index() % 32;
  u32 a[DOWN][4];
  UNROLL for (u32 i = 0; i < DOWN; i++) {
    load_matrices(a[i], place_a(stage, i * 16 + lane % 16, lane / 16));
  }
  UNROLL for (u32 j = 0; j < FRAGMENTS; j += 2) {
    u32 got[4];
    load_matrices_transposed(
        got, place_b(stage + Layout<DOWN>::BYTES_A, lane % 16, j + lane / 16));
    const u32 b[2][2] = {{got[0], got[1]}, {got[2], got[3]}};
    UNROLL for (u32 i = 0; i < DOWN; i++) {
      multiply(sums[i][j], a[i], b[0], In());
      multiply(sums[i][j + 1], a[i], b[1], In());
    }
  }
}

// What a block makes of one product, stretch after stretch.
template <u32 DOWN> struct Stretches {
  GemmParams p;
  f32* scratch;
  u32* told;
  u32 rows;
  Line line;
  Stretch now;

  DEVICE_MEMBER bool there() const { return now.there(line); }
  DEVICE_MEMBER u32 first() const { return now.step; }
  DEVICE_MEMBER u32 end() const { return now.end; }
  DEVICE_MEMBER Tile tile() const { return {now.index % rows, now.index / rows}; }
  DEVICE_MEMBER const GemmParams& product() const { return p; }
  DEVICE_MEMBER void pass() { now.pass(line); }
  // Whether the sums are those of all blocks that share the tile.
  DEVICE_MEMBER bool complete(f32 (&sums)[2 * DOWN][2]) const {
    if (now.end - now.step == line.steps) return true;
    const Sharers<4 * DOWN, THREADS, 1, 4 * DOWN_MAX, 4> sharers = {scratch, told, 0,
                                                                    thread_index()};
    const auto sum = [&](u32 i) -> f32& { return sums[i / 2][i % 2]; };
    return sharers.complete(line, now.index, now.step, now.end, sum, [] { block_barrier(); });
  }
};
// What it makes of products for groups, tile after tile. Down the rows first: what a block reads of B,
// its neighbours read too.
template <u32 DOWN> struct WholeTiles {
  Grouped<Layout<DOWN>::ROWS, COLUMNS> groups;
  u32 steps, index;
  bool found;

  DEVICE_MEMBER bool there() const { return found; }
  DEVICE_MEMBER u32 first() const { return 0; }
  DEVICE_MEMBER u32 end() const { return steps; }
  DEVICE_MEMBER Tile tile() const {
    const u32 within = groups.within(index);
    return {within % groups.rows, within / groups.rows};
  }
  DEVICE_MEMBER GemmParams product() const { return groups.template product<2, 2>(); }
  DEVICE_MEMBER void pass() {
    index += block_count();
    found = groups.seek(index);
  }
  DEVICE_MEMBER bool complete(f32 (&)[2 * DOWN][2]) const { return true; }
};

// Adds the shares that the warps have of a tile's sums. This thread then has two neighbouring columns,
// 2 (thread % 32) and the next, of each eighth row from thread / 32 on. `slot` of each warp's ring is
// free.
template <u32 DOWN>
DEVICE void add_shares(f32 (&added)[2 * DOWN][2], const f32 (&sums)[DOWN][FRAGMENTS][4], u32 slot) {
  constexpr u32 RING = Layout<DOWN>::STAGES * Layout<DOWN>::BYTES;
  const u32 warp = thread_index() / 32, lane = thread_index() % 32;
  UNROLL for (u32 round = 0; round < 2 * DOWN; round++) {
    // What stood here before is read.
    block_barrier();
    UNROLL for (u32 j = 0; j < FRAGMENTS; j++) {
      const f32 (&of)[4] = sums[round / 2][j];
      store_pair(place_pair(slot + warp * RING, lane / 4, j * 4 + lane % 4), of[round % 2 * 2],
                 of[round % 2 * 2 + 1]);
    }
    block_barrier();
    UNROLL for (u32 c = 0; c < 2; c++) added[round][c] = 0.0f;
    UNROLL for (u32 w = 0; w < WARPS; w++) {
      const u64 pair = load_shared(place_pair(slot + w * RING, warp, lane), u64());
      added[round][0] += float_of(u32(pair));
      added[round][1] += float_of(u32(pair >> 32));
    }
  }
  block_barrier();
}

template <class In, u32 DOWN, class Work> DEVICE void product(Work work) {
  using L = Layout<DOWN>;
  const u32 warp = thread_index() / 32, lane = thread_index() % 32;
  const u32 shared = shared_address(dynamic_shared());
  const u32 ring = shared + warp * (L::STAGES * L::BYTES);
  // What is fetched may be of a later tile than what is multiplied.
  Work ahead = work;
  Source<DOWN> source;
  u32 left = 0, filled = 0, stage = 0;
  // All warps go on together: one for which no stage is left has one of zeros.
  const auto aim = [&] {
    if (!ahead.there()) return;
    const GemmParams p = ahead.product();
    const u32 end = ahead.end() * DEPTH;
    source.aim(p, ahead.tile(), (ahead.first() + warp) * DEPTH, end < p.k ? end : p.k);
    left = tiles_along(ahead.end() - ahead.first(), WARPS);
  };
  aim();
  const auto after = [](u32 slot) { return slot == (L::STAGES - 1) * L::BYTES ? 0 : slot + L::BYTES; };
  auto fetch_next = [&] {
    if (ahead.there()) {
      source.fetch(ring + filled);
      source.advance();
      if (--left == 0) {
        ahead.pass();
        aim();
      }
    }
    // Closed even where it is empty: groups are counted.
    close_copies();
    filled = after(filled);
  };
  for (u32 i = 0; i < L::STAGES - 1; i++) fetch_next();
  for (; work.there(); work.pass()) {
    f32 sums[DOWN][FRAGMENTS][4] = {};
    for (u32 step = work.first(); step < work.end(); step += WARPS) {
      await_copies<L::STAGES - 2>();
      // All lanes' copies are here, and all have read the stage that is filled next.
      warp_barrier();
      fetch_next();
      multiply_stage<In, DOWN>(sums, ring + stage);
      stage = after(stage);
    }
    f32 added[2 * DOWN][2];
    add_shares<DOWN>(added, sums, shared + filled);
    if (!work.complete(added)) continue;
    const GemmParams p = work.product();
    const Tile tile = work.tile();
    const u32 column = tile.column * COLUMNS + 2 * lane;
    UNROLL for (u32 round = 0; round < 2 * DOWN; round++) {
      const u32 row = tile.row * L::ROWS + round * WARPS + warp;
      if (row >= p.m || column >= p.n) continue;
      u16* to = static_cast<u16*>(p.c) + (u64(row) * p.n + column);
      *reinterpret_cast<u32*>(to) = narrow_pair(added[round][0], added[round][1], In());
    }
  }
}

template <class In, u32 DOWN> DEVICE void one(const GemmParams& p, f32* scratch, u32* told) {
  const u32 rows = tiles_along(p.m, Layout<DOWN>::ROWS), columns = tiles_along(p.n, COLUMNS);
  const Line line = line_of<1, LEAST>(rows * columns, tiles_along(p.k, DEPTH));
  product<In, DOWN>(Stretches<DOWN>{p, scratch, told, rows, line, first_stretch(line)});
}
template <class In, u32 DOWN> DEVICE void all(const GroupedParams& p) {
  WholeTiles<DOWN> work = {grouped<Layout<DOWN>::ROWS, COLUMNS>(p), tiles_along(p.k, DEPTH),
                           block_index(), true};
  work.found = work.groups.seek(work.index);
  product<In, DOWN>(work);
}

template <class In> DEVICE void product(const GemmParams& p, f32* scratch) {
  SHARED u32 told[1];
  if (p.m <= 16) one<In, 1>(p, scratch, told);
  else if (p.m <= 32) one<In, 2>(p, scratch, told);
  else one<In, 4>(p, scratch, told);
}
template <class In> DEVICE void products(const GroupedParams& p) {
  if (p.rows_max <= 16) all<In, 1>(p);
  else if (p.rows_max <= 32) all<In, 2>(p);
  else all<In, 4>(p);
}

}  // namespace

KERNEL(256, 1) gemm_bf16_mma_skinny(const GemmParams p, f32* scratch) { product<bf16>(p, scratch); }
KERNEL(256, 1) gemm_f16_mma_skinny(const GemmParams p, f32* scratch) { product<f16>(p, scratch); }
KERNEL(256, 1) grouped_bf16_mma_skinny(const GroupedParams p) { products<bf16>(p); }
KERNEL(256, 1) grouped_f16_mma_skinny(const GroupedParams p) { products<f16>(p); }
