// GEMM for Hopper (sm_90a): wgmma with operands in shared memory and accumulators in registers; bf16
// and f16 with B row by row (nn) or column by column (nt), fp8 (e4m3), tf32 and int8 with B column by
// column. Rows must be multiples of 16 bytes.
//
// One block for each unit walks tiles of 128 x 256. One thread of the first warpgroup has stages of
// 128 bytes along k copied by tensor maps, four of them in a ring; the two other warpgroups multiply
// 64 rows each. A stage is given back when the multiplications of the next one are on their way, so
// that the matrix unit never waits for it. Accumulators go to a shared-memory buffer, 64 columns at a
// time; asynchronous tensor stores write it out while the next tile is computed.
//
// Blocks are clusters of two whose tiles are a pair (tiles.h): of the operand that both tiles need,
// each block has half copied to both (multicast). A stage of 48 KiB then takes 32 KiB from the last
// cache where the tiles are below each other, and 40 KiB where they are beside each other.
//
// Tensor cores accumulate fp8 products with about 14 bits of mantissa. Where that is too little,
// partial sums are promoted: every 128 along k they are added to f32 accumulators, while the other
// warpgroup multiplies. Tiles are then 128 x 192: two accumulators for each sum are what registers
// hold. Where every 128 along k of a row of A have a scale, and every 128 x 128 of B, that is where
// sums are multiplied by both; a warp has the scales of each stage copied beside it.
//
// Where tiles do not fill the device, clusters of two blocks share tiles of 128 x 128 (stream_k.h). The
// last cluster adds up a quarter of what it would of tiles of 128 x 256: half as many workers share tiles
// of half the size. Products of up to 256 rows are faster by sm90_wgmma_few.cu.
//
// Where each group of rows has a B of its own, the maps are of all groups: a box of A may reach into
// the next group's rows; those accumulators are not stored. 128 bytes along a row end with a group.
#include "grouped.h"
#include "params.h"
#include "scaled.h"
#include "sm90.h"
#include "sm90_product.h"
#include "stream_k.h"
#include "tiles.h"

namespace {

CONSTANT u32 ROWS = 128;
CONSTANT u32 ROW_BYTES = 128;
// Boxes of 64 rows.
CONSTANT u32 BOXES_A = 2;
CONSTANT u32 BOX_BYTES_A = 64 * ROW_BYTES;
CONSTANT u32 BYTES_A = BOXES_A * BOX_BYTES_A;
// 64 rows of 64 sums of 16 bits.
CONSTANT u32 BUFFER_BYTES = 64 * ROW_BYTES;
// Past the barriers: what one thread tells the others, and scales.
CONSTANT u32 TOLD_PAST = 96;
CONSTANT u32 SCALES_PAST = 128;
// Scales of a stage: of 128 rows of A and of every 64 columns of B.
CONSTANT u32 SCALES_BYTES = (ROWS + 4) * 4;

// Tiles of so many columns.
template <u32 WIDE> struct Shape {
  static constexpr u32 COLUMNS = WIDE;
  static constexpr u32 BYTES = BYTES_A + WIDE * ROW_BYTES;
  static constexpr u32 STAGES = WIDE == 128 ? 6 : 4;
  // Store buffers of each multiplying warpgroup. A tile's parts of 64 columns are a multiple of these.
  static constexpr u32 BUFFERS = WIDE == 192 ? 3 : 2;
  static constexpr u32 BARRIERS_AT = STAGES * BYTES + MULTIPLIERS * BUFFERS * BUFFER_BYTES;
  // Of one thread.
  static constexpr u32 SUMS = WIDE / 2;
};

template <class In> struct Type;
template <class In> struct Half {
  using Out = In;
  using Sum = f32;
  static constexpr u32 DEPTH = ROW_BYTES / 2;
  // Rows of B are along n, 64 columns in each box.
  static constexpr u32 BOX_BYTES = DEPTH * ROW_BYTES;
  template <u32 WIDE> static constexpr u32 BOXES = WIDE / 64;
  template <class Shape, class Groups>
  static DEVICE_MEMBER Box box_of_b(u8* to, const Groups& groups, u32 column, u32 step, u32 box) {
    return {to + box * BOX_BYTES, column + box * 64, groups.group * groups.p.k + step * DEPTH};
  }
  // 16 along k are 16 rows.
  static constexpr u32 PART_BYTES_B = 16 * ROW_BYTES;
  static DEVICE_MEMBER u64 describe_b(u32 at) { return describe_mn_major(at, BOX_BYTES); }
};
template <> struct Type<bf16> : Half<bf16> {};
template <> struct Type<f16> : Half<f16> {};
// Both operands along k, of elements of BYTES bytes.
template <class OfC, class OfSums, u32 BYTES> struct AlongRows {
  using Out = OfC;
  using Sum = OfSums;
  static constexpr u32 DEPTH = ROW_BYTES / BYTES;
  // Rows of B are along k, half of a tile's columns in each box.
  template <u32 WIDE> static constexpr u32 BOXES = 2;
  template <class Shape, class Groups>
  static DEVICE_MEMBER Box box_of_b(u8* to, const Groups& groups, u32 column, u32 step, u32 box) {
    constexpr u32 HIGH = Shape::COLUMNS / 2;
    const u32 row = groups.group * groups.p.n + column + box * HIGH;
    return {to + box * (HIGH * ROW_BYTES), step * DEPTH, row};
  }
  // A multiplication takes 32 bytes of each row.
  static constexpr u32 PART_BYTES_B = 32;
  static DEVICE_MEMBER u64 describe_b(u32 at) { return describe_k_major(at); }
};
template <> struct Type<e4m3> : AlongRows<bf16, f32, 1> {};
template <> struct Type<AlongK<bf16>> : AlongRows<bf16, f32, 2> {};
template <> struct Type<AlongK<f16>> : AlongRows<f16, f32, 2> {};
template <> struct Type<tf32> : AlongRows<f32, f32, 4> {};
template <> struct Type<i8> : AlongRows<i32, i32, 1> {};

// Has stage after stage of one tile copied.
template <class In, class Shape, u32 SHARERS, class Ring, class Groups>
DEVICE void fetch_tile(Ring& ring, u8* shared, const Groups& groups, Place place, u32 first,
                       u32 end, const TensorMap* a, const TensorMap* b) {
  for (u32 step = first; step < end; step++) {
    u8* to = shared + ring.at * Shape::BYTES;
    const auto of_a = [&](u32 box) -> Box {
      const u32 row = groups.first + place.row * ROWS + box * 64;
      return {to + box * BOX_BYTES_A, step * Type<In>::DEPTH, row};
    };
    const auto of_b = [&](u32 box) {
      const u32 column = place.column * Shape::COLUMNS;
      return Type<In>::template box_of_b<Shape>(to + BYTES_A, groups, column, step, box);
    };
    constexpr u32 BOXES_B = Type<In>::template BOXES<Shape::COLUMNS>;
    fetch_stage<SHARERS, Shape::BYTES, BOXES_A, BOXES_B>(ring, place.down, a, b, of_a, of_b);
  }
}

// Has stage after stage copied, through all tiles.
template <class In, class Shape, class Ring, class Groups>
DEVICE void produce(Ring ring, u8* shared, Groups groups, const TensorMap* a,
                    const TensorMap* b) {
  const u32 steps = tiles_along(groups.p.k, Type<In>::DEPTH);
  for (u32 index = block_index(); groups.seek(index); index += block_count()) {
    const Place place = place_of(groups, index);
    fetch_tile<In, Shape, Groups::SHARERS>(ring, shared, groups, place, 0, steps, a, b);
  }
}

// Writes those of a warpgroup's 64 rows that a group has, where the next group's follow.
template <class Out, u32 SUMS>
DEVICE void leave_some(const f32 (&sums)[SUMS], Out* c, u32 columns, u32 column_first, u32 rows) {
  const u32 thread = thread_index() % 128, lane = thread % 32;
  const u32 row_first = thread / 32 * 16 + lane / 4;
  UNROLL for (u32 half = 0; half < 2; half++) {
    const u32 row = row_first + 8 * half;
    Out* to = c + u64(row) * columns;
    UNROLL for (u32 i = 0; i < SUMS / 4; i++) {
      const u32 column = column_first + 8 * i + lane % 4 * 2;
      const u32 pair = narrow_pair(sums[4 * i + 2 * half], sums[4 * i + 2 * half + 1], Out());
      if (row < rows && column < columns) *reinterpret_cast<u32*>(to + column) = pair;
    }
  }
}

DEVICE f32 word_of(f32 sum) { return sum; }
DEVICE f32 word_of(i32 sum) { return float_of(u32(sum)); }

// Writes a warpgroup's 64 rows of sums that are elements of C as they are, of 32 bits: 32 columns at a time.
template <class Shape, class Sum, class Groups>
DEVICE void leave_words(const Sum (&sums)[Shape::SUMS], u8* shared, u32 consumer,
                        const Groups& groups, Place tile, const TensorMap* c) {
  constexpr u32 COLUMNS = Shape::COLUMNS, BUFFERS = Shape::BUFFERS;
  const u32 thread = thread_index() % 128, t = thread % 4;
  const u32 row_first = tile.row * ROWS + consumer * 64;
  UNROLL for (u32 part = 0; part < COLUMNS / 32; part++) {
    const u32 which = consumer * BUFFERS + part % BUFFERS;
    u8* buffer = shared + Shape::STAGES * Shape::BYTES + which * BUFFER_BYTES;
    // The last store from this buffer has read it.
    if (thread == 0) await_stores_read<BUFFERS - 1>();
    barrier_of<128>(1 + consumer);
    UNROLL for (u32 half = 0; half < 2; half++) {
      const u32 row = thread / 32 * 16 + half * 8 + thread % 32 / 4;
      UNROLL for (u32 j = 0; j < 4; j++) {
        const u32 first = part * 16 + j * 4 + half * 2;
        const u32 chunk = (j * 2 + t / 2) ^ (row % 8);
        store_pair(shared_address(buffer) + row * ROW_BYTES + chunk * 16 + t % 2 * 8,
                   word_of(sums[first]), word_of(sums[first + 1]));
      }
    }
    show_to_copies();
    barrier_of<128>(1 + consumer);
    if (thread == 0) {
      tile_store(c, buffer, tile.column * COLUMNS + part * 32, row_first);
      close_stores();
    }
  }
}

// Writes a warpgroup's 64 rows, 64 columns at a time.
template <class Out, class Shape, class Groups>
DEVICE void leave(const f32 (&sums)[Shape::SUMS], u8* shared, u32 consumer, const Groups& groups,
                  Place tile, const TensorMap* c) {
  constexpr u32 COLUMNS = Shape::COLUMNS, BUFFERS = Shape::BUFFERS;
  const u32 thread = thread_index() % 128, warp = thread / 32, lane = thread % 32;
  const u32 row = warp * 16 + lane % 16;
  const u32 row_first = tile.row * ROWS + consumer * 64;
  if constexpr (Groups::GROUPS) {
    const GemmParams of_group = groups.template product<1, sizeof(Out)>();
    const u32 rows = row_first < of_group.m ? of_group.m - row_first : 0;
    if (rows < 64) {
      Out* to = static_cast<Out*>(of_group.c) + u64(row_first) * of_group.n;
      leave_some<Out>(sums, to, of_group.n, tile.column * COLUMNS, rows);
      return;
    }
  }
  UNROLL for (u32 part = 0; part < COLUMNS / 64; part++) {
    const u32 which = consumer * BUFFERS + part % BUFFERS;
    u8* buffer = shared + Shape::STAGES * Shape::BYTES + which * BUFFER_BYTES;
    // The last store from this buffer has read it.
    if (thread == 0) await_stores_read<BUFFERS - 1>();
    barrier_of<128>(1 + consumer);
    UNROLL for (u32 pair = 0; pair < 4; pair++) {
      u32 values[4];
      UNROLL for (u32 i = 0; i < 4; i++) {
        const u32 first = part * 32 + pair * 8 + i * 2;
        values[i] = narrow_pair(sums[first], sums[first + 1], Out());
      }
      const u32 chunk = (pair * 2 + lane / 16) ^ (row % 8);
      store_matrices(shared_address(buffer) + row * ROW_BYTES + chunk * 16, values);
    }
    show_to_copies();
    barrier_of<128>(1 + consumer);
    if (thread == 0) {
      tile_store(c, buffer, tile.column * COLUMNS + part * 64, groups.first + row_first);
      close_stores();
    }
  }
}

// Has the four parts of a stage that is there multiplied; gives the stage's barrier for when they have been.
template <class In, class Shape, class Ring, class Turns>
DEVICE u64* multiply_stage(typename Type<In>::Sum (&sums)[Shape::SUMS], Ring& ring, u8* shared,
                           u32 consumer, u32 accumulate, const Turns& turns) {
  const u32 at = warp_uniform(shared_address(shared) + ring.at * Shape::BYTES);
  const u64 a = describe_k_major(at + consumer * BOX_BYTES_A);
  const u64 b = Type<In>::describe_b(at + BYTES_A);
  turns.await();
  begin_multiplications();
  UNROLL for (u32 part = 0; part < 4; part++) {
    multiply_tiles(sums, further(a, part * 32), further(b, part * Type<In>::PART_BYTES_B),
                   part > 0 ? 1 : accumulate, In());
    if (Turns::HALVES && part == 1) close_multiplications();
  }
  close_multiplications();
  u64* empty = &ring.empty[ring.at];
  ring.advance();
  return empty;
}

// Multiplies the stages of one tile.
template <class In, class Shape, u32 SHARERS, class Ring>
DEVICE void multiply_tile(typename Type<In>::Sum (&sums)[Shape::SUMS], Ring& ring, u8* shared,
                          u32 consumer, u32 steps) {
  const bool speaks = thread_index() % 32 == 0;
  u64* previous = nullptr;
  for (u32 step = 0; step < steps; step++) {
    await_phase(&ring.full[ring.at], ring.parity);
    u64* empty = multiply_stage<In, Shape>(sums, ring, shared, consumer, step, NoTurns());
    // Only the products just issued are still running, so the stage before has been read.
    await_multiplications<1>();
    if (speaks && previous != nullptr) release_stage<SHARERS>(previous);
    previous = empty;
  }
  await_multiplications<0>();
  settle(sums);
  if (speaks) release_stage<SHARERS>(previous);
}

template <class In, class Shape, class Ring, class Groups>
DEVICE void consume(Ring ring, u8* shared, Groups groups, const TensorMap* c) {
  const u32 steps = tiles_along(groups.p.k, Type<In>::DEPTH);
  const u32 consumer = warpgroup_number() - 1;
  typename Type<In>::Sum sums[Shape::SUMS];
  for (u32 index = block_index(); groups.seek(index); index += block_count()) {
    multiply_tile<In, Shape, Groups::SHARERS>(sums, ring, shared, consumer, steps);
    using Out = typename Type<In>::Out;
    const Place place = place_of(groups, index);
    if constexpr (sizeof(Out) == 4) leave_words<Shape>(sums, shared, consumer, groups, place, c);
    else leave<Out, Shape>(sums, shared, consumer, groups, place, c);
  }
  if (thread_index() % 128 == 0) await_stores<0>();
}

// What a stage's sums are worth: in each of a thread's two rows, for every 64 columns.
template <u32 PARTS> struct Factors { f32 at[PARTS][2]; };

struct NoScales {
  static constexpr u32 COPIERS = 0;
  template <u32 WIDE> DEVICE_MEMBER void copy(u8*, Place, u32, u64*) const {}
  template <u32 PARTS> DEVICE_MEMBER Factors<PARTS> load(const u8*) const {
    Factors<PARTS> ones;
    UNROLL for (u32 part = 0; part < PARTS; part++) ones.at[part][0] = ones.at[part][1] = 1.0f;
    return ones;
  }
};
struct BlockScales {
  static constexpr u32 COPIERS = 32;
  const f32* a;
  const f32* b;
  u32 rows, columns, blocks;

  // One warp copies the scales of a stage; the stage's barrier counts these copies too. Scales
  // outside of A and B are zero.
  template <u32 WIDE> DEVICE_MEMBER void copy(u8* to, Place place, u32 step, u64* full) const {
    const u32 lane = thread_index() % 32, at = shared_address(to);
    UNROLL for (u32 i = 0; i < ROWS / 32; i++) {
      const u32 row = 32 * i + lane, of_all = place.row * ROWS + row;
      const bool there = of_all < rows;
      copy_word_async(at + row * 4, a + (there ? u64(step) * rows + of_all : 0), there ? 4 : 0);
    }
    if (lane < WIDE / 64) {
      const u32 column = place.column * WIDE + lane * 64;
      const bool there = column < columns;
      const u64 of_all = there ? u64(column / fp8block::BLOCK) * blocks + step : 0;
      copy_word_async(at + (ROWS + lane) * 4, b + of_all, there ? 4 : 0);
    }
    arrive_when_copied(full);
  }
  template <u32 PARTS> DEVICE_MEMBER Factors<PARTS> load(const u8* from) const {
    const u32 thread = thread_index() - 128, at = shared_address(from);
    const u32 row = thread / 32 * 16 + thread % 32 / 4;
    const f32 of_rows[2] = {float_of(load_shared(at + row * 4, u32())),
                            float_of(load_shared(at + (row + 8) * 4, u32()))};
    Factors<PARTS> factors;
    UNROLL for (u32 part = 0; part < PARTS; part++) {
      const f32 of_b = float_of(load_shared(at + (ROWS + part) * 4, u32()));
      UNROLL for (u32 i = 0; i < 2; i++) factors.at[part][i] = of_rows[i] * of_b;
    }
    return factors;
  }
};

template <class Shape> DEVICE u8* scales_of(u8* shared, u32 stage) {
  return shared + Shape::BARRIERS_AT + SCALES_PAST + stage * SCALES_BYTES;
}

// Has the scales of stage after stage copied.
template <class In, class Shape, class Ring, class Groups, class Scales>
DEVICE void produce_scales(Ring ring, u8* shared, Groups groups, Scales scales) {
  const u32 steps = tiles_along(groups.p.k, Type<In>::DEPTH);
  for (u32 index = block_index(); groups.seek(index); index += block_count()) {
    const Place place = place_of(groups, index);
    for (u32 step = 0; step < steps; step++) {
      await_phase(&ring.empty[ring.at], ring.parity ^ 1);
      u8* to = scales_of<Shape>(shared, ring.at);
      scales.template copy<Shape::COLUMNS>(to, place, step, &ring.full[ring.at]);
      ring.advance();
    }
  }
}

// The same, with the sums of each stage promoted while the other warpgroup's are multiplied, in turns: sums
// that are read while multiplications of the same warpgroup are under way make the compiler have
// all of them wait for each other.
template <class In, class Shape, class Ring, class Groups, class Scales>
DEVICE void consume_promoting(Ring ring, u8* shared, Groups groups, Scales scales,
                              const TensorMap* c) {
  const u32 steps = tiles_along(groups.p.k, Type<In>::DEPTH);
  const u32 consumer = warpgroup_number() - 1;
  const bool speaks = thread_index() % 32 == 0;
  const InTurns turns = {consumer};
  turns.start();
  for (u32 index = block_index(); groups.seek(index); index += block_count()) {
    f32 all[Shape::SUMS] = {}, sums[Shape::SUMS];
    for (u32 step = 0; step < steps; step++) {
      const u8* beside = scales_of<Shape>(shared, ring.at);
      await_phase(&ring.full[ring.at], ring.parity);
      const auto factors = scales.template load<Shape::COLUMNS / 64>(beside);
      u64* empty = multiply_stage<In, Shape>(sums, ring, shared, consumer, 0, turns);
      turns.pass();
      await_multiplications<0>();
      settle(sums);
      // All lanes have loaded their scales.
      if (Scales::COPIERS > 0) warp_barrier();
      if (speaks) release_stage<Groups::SHARERS>(empty);
      UNROLL for (u32 i = 0; i < Shape::SUMS; i++) {
        all[i] = fused(sums[i], factors.at[i / 32][i / 2 % 2], all[i]);
      }
    }
    leave<typename Type<In>::Out, Shape>(all, shared, consumer, groups,
                                         place_of(groups, index), c);
  }
  turns.end();
  if (thread_index() % 128 == 0) await_stores<0>();
}

template <class In, class Groups>
DEVICE void plain_product(const Groups& groups, const TensorMap* a, const TensorMap* b,
                          const TensorMap* c) {
  using S = Shape<256>;
  using Ring = PhaseRing<S::STAGES>;
  u8* shared = dynamic_shared();
  const auto fetch = [&](Ring ring) {
    if (warp_number() == 0 && elected()) produce<In, S>(ring, shared, groups, a, b);
  };
  run_warpgroups<S::STAGES, Groups::SHARERS>(shared + S::BARRIERS_AT, a, b, c, fetch,
                                             [&](Ring ring) {
    consume<In, S>(ring, shared, groups, c);
  });
}

template <class Scales>
DEVICE void promoted_product(const GemmParams& p, const TensorMap* a, const TensorMap* b,
                             const TensorMap* c, Scales scales) {
  using S = Shape<192>;
  using Ring = PhaseRing<S::STAGES>;
  u8* shared = dynamic_shared();
  const auto groups = single<ROWS, S::COLUMNS, 2>(p);
  const auto fetch = [&](Ring ring) {
    if (warp_number() == 0 && elected()) produce<e4m3, S>(ring, shared, groups, a, b);
    if (Scales::COPIERS > 0 && thread_index() / 32 == 1) {
      produce_scales<e4m3, S>(ring, shared, groups, scales);
    }
  };
  run_warpgroups<S::STAGES, 2, Scales::COPIERS>(shared + S::BARRIERS_AT, a, b, c, fetch,
                                                [&](Ring ring) {
    consume_promoting<e4m3, S>(ring, shared, groups, scales, c);
  });
}

// Tiles that several clusters of two blocks share where there are not enough of them for all. The two
// tiles of a cluster stand beside each other, and both need the same rows of A.
CONSTANT u32 CLUSTER = 2;
template <class Shape> using Deal = Single<ROWS, Shape::COLUMNS * CLUSTER>;

template <class Deal> DEVICE Place place_in_cluster(const Deal& deal, u32 index) {
  const Place place = place_of(deal, index);
  return {place.row, place.column * CLUSTER + cluster_place(), 0};
}

template <class In, class Shape, class Ring>
DEVICE void produce_stretches(Ring ring, u8* shared, const Deal<Shape>& deal, const Line& line,
                              const TensorMap* a, const TensorMap* b) {
  for (Stretch now = first_stretch(line); now.there(line); now.pass(line)) {
    const Place place = place_in_cluster(deal, now.index);
    fetch_tile<In, Shape, CLUSTER>(ring, shared, deal, place, now.step, now.end, a, b);
  }
}

template <class In, class Shape, class Ring>
DEVICE void consume_stretches(Ring ring, u8* shared, const Deal<Shape>& deal, const Line& line,
                              f32* scratch, const TensorMap* c) {
  const u32 consumer = warpgroup_number() - 1;
  const u32 part = cluster_place() * MULTIPLIERS + consumer;
  u32* told = reinterpret_cast<u32*>(shared + Shape::BARRIERS_AT + TOLD_PAST);
  f32 sums[Shape::SUMS];
  for (Stretch now = first_stretch(line); now.there(line); now.pass(line)) {
    multiply_tile<In, Shape, CLUSTER>(sums, ring, shared, consumer, now.end - now.step);
    if (now.end - now.step < line.steps) {
      const Sharers<Shape::SUMS, 128, MULTIPLIERS * CLUSTER> sharers = {scratch, told, part,
                                                                        thread_index() % 128};
      const auto sum = [&](u32 i) -> f32& { return sums[i]; };
      const auto meet = [&] { barrier_of<128>(1 + consumer); };
      if (!sharers.complete(line, now.index, now.step, now.end, sum, meet)) continue;
    }
    leave<typename Type<In>::Out, Shape>(sums, shared, consumer, deal,
                                         place_in_cluster(deal, now.index), c);
  }
  if (thread_index() % 128 == 0) await_stores<0>();
}

template <class In, class Shape>
DEVICE void shared_product(const GemmParams& p, f32* scratch, const TensorMap* a,
                           const TensorMap* b, const TensorMap* c) {
  using Ring = PhaseRing<Shape::STAGES>;
  u8* shared = dynamic_shared();
  const auto deal = single<ROWS, Shape::COLUMNS * CLUSTER>(p);
  const u32 steps = tiles_along(p.k, Type<In>::DEPTH);
  const Line line = line_of<CLUSTER>(deal.rows * deal.columns, steps);
  const auto fetch = [&](Ring ring) {
    if (warp_number() != 0 || !elected()) return;
    produce_stretches<In, Shape>(ring, shared, deal, line, a, b);
  };
  const auto multiply = [&](Ring ring) {
    consume_stretches<In, Shape>(ring, shared, deal, line, scratch, c);
  };
  run_warpgroups<Shape::STAGES, CLUSTER>(shared + Shape::BARRIERS_AT, a, b, c, fetch, multiply);
}

}  // namespace

KERNEL(384, 1) gemm_bf16_wgmma(const GemmParams p, MAP a, MAP b, MAP c) {
  plain_product<bf16>(single<ROWS, 256, 2>(p), &a, &b, &c);
}
KERNEL(384, 1) gemm_f16_wgmma(const GemmParams p, MAP a, MAP b, MAP c) {
  plain_product<f16>(single<ROWS, 256, 2>(p), &a, &b, &c);
}
KERNEL(384, 1) gemm_fp8_wgmma(const GemmParams p, MAP a, MAP b, MAP c) {
  plain_product<e4m3>(single<ROWS, 256, 2>(p), &a, &b, &c);
}
KERNEL(384, 1) gemm_bf16_nt_wgmma(const GemmParams p, MAP a, MAP b, MAP c) {
  plain_product<AlongK<bf16>>(single<ROWS, 256, 2>(p), &a, &b, &c);
}
KERNEL(384, 1) gemm_f16_nt_wgmma(const GemmParams p, MAP a, MAP b, MAP c) {
  plain_product<AlongK<f16>>(single<ROWS, 256, 2>(p), &a, &b, &c);
}
KERNEL(384, 1) gemm_tf32_nt_wgmma(const GemmParams p, MAP a, MAP b, MAP c) {
  plain_product<tf32>(single<ROWS, 256, 2>(p), &a, &b, &c);
}
KERNEL(384, 1) gemm_int8_nt_wgmma(const GemmParams p, MAP a, MAP b, MAP c) {
  plain_product<i8>(single<ROWS, 256, 2>(p), &a, &b, &c);
}
KERNEL(384, 1) gemm_fp8_wgmma_promoted(const GemmParams p, MAP a, MAP b, MAP c) {
  promoted_product(p, &a, &b, &c, NoScales());
}
KERNEL(384, 1) gemm_fp8block_wgmma(const GemmParams p, MAP a, MAP b, MAP c) {
  const BlockScales scales = {static_cast<const f32*>(p.scales_a),
                              static_cast<const f32*>(p.scales_b), p.m, p.n,
                              p.k / fp8block::BLOCK};
  promoted_product(p, &a, &b, &c, scales);
}
KERNEL(384, 1) grouped_bf16_wgmma(const GroupedParams p, MAP a, MAP b, MAP c) {
  plain_product<bf16>(grouped<ROWS, 256, 2>(p), &a, &b, &c);
}
KERNEL(384, 1) grouped_f16_wgmma(const GroupedParams p, MAP a, MAP b, MAP c) {
  plain_product<f16>(grouped<ROWS, 256, 2>(p), &a, &b, &c);
}
KERNEL(384, 1) grouped_fp8_wgmma(const GroupedParams p, MAP a, MAP b, MAP c) {
  plain_product<e4m3>(grouped<ROWS, 256, 2>(p), &a, &b, &c);
}
KERNEL(384, 1) gemm_bf16_wgmma_stream_k_narrow(const GemmParams p, f32* scratch, MAP a, MAP b,
                                               MAP c) {
  shared_product<bf16, Shape<128>>(p, scratch, &a, &b, &c);
}
