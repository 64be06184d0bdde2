// Matrix products by warpgroups out of shared memory, as compute capability 9.0 has them: bf16 and
// f16 with B row by row, fp8 (e4m3) with B column by column. Rows must be multiples of 16 bytes.
//
// One block for each unit walks tiles of 128 x 256. One thread of the first warpgroup has stages of
// 128 bytes along k copied by tensor maps, four of them in a ring; the two other warpgroups multiply
// 64 rows each. A stage is given back when the multiplications of the next one are on their way, so
// that the matrix unit never waits for it. Sums leave through a buffer in shared memory, 64
// columns at a time, by stores that no thread waits for: they overlap the next tile.
//
// The matrix unit adds products of fp8 in some 14 binary places. Where that is too few, the sums of
// every 128 along k are promoted: added to others in f32, while the next 128 are multiplied. Tiles
// are then of 128 columns, since there are three times as many sums for each. Where every 128 along
// k of a row of A have a scale, and every 128 x 128 of B, that is where sums are multiplied by both.
//
// Where each group of rows has a B of its own, the maps are of all groups: a box of A may reach into
// the next group's rows, whose sums are then not left. 128 bytes along a row end with a group.
#include "grouped.h"
#include "params.h"
#include "scaled.h"
#include "sm90.h"
#include "stream_k.h"
#include "tiles.h"

namespace {

CONSTANT u32 ROWS = 128;
CONSTANT u32 ROW_BYTES = 128;
CONSTANT u32 GROUP = 8;
CONSTANT u32 CONSUMERS = 2;
CONSTANT u32 BYTES_A = ROWS * ROW_BYTES;
// 64 rows of 64 sums of 16 bits, two for each consumer.
CONSTANT u32 BUFFER_BYTES = 64 * ROW_BYTES;
CONSTANT u32 BUFFERS = 2;

// Tiles of so many columns.
template <u32 WIDE> struct Shape {
  static constexpr u32 COLUMNS = WIDE;
  static constexpr u32 BYTES = BYTES_A + WIDE * ROW_BYTES;
  static constexpr u32 STAGES = WIDE == 256 ? 4 : 6;
  // Where barriers stand that another block arrives at.
  static constexpr u32 BARRIERS_AT = STAGES * BYTES + CONSUMERS * BUFFERS * BUFFER_BYTES;
  // Of one thread.
  static constexpr u32 SUMS = WIDE / 2;
};

template <class In> struct Type;
template <class In> struct Half {
  using Out = In;
  static constexpr u32 DEPTH = ROW_BYTES / 2;
  // Rows of B are along n, 64 columns in each of 4 boxes.
  static constexpr u32 BOX_BYTES = DEPTH * ROW_BYTES;
  template <class Groups>
  static DEVICE_MEMBER void load_b(u8* to, const TensorMap* b, const Groups& groups, u32 column,
                                   u32 step, u64* full) {
    const u32 row = groups.group * groups.p.k + step * DEPTH;
    UNROLL for (u32 box = 0; box < 256 / 64; box++) {
      tile_load(to + box * BOX_BYTES, b, column + box * 64, row, full);
    }
  }
  // One block's half, to both of a cluster.
  static DEVICE_MEMBER void load_half_of_b(u8* to, const TensorMap* b, u32 column, u32 step,
                                           u64* full) {
    UNROLL for (u32 i = 0; i < 2; i++) {
      const u32 box = cluster_place() * 2 + i;
      tile_load_to_both(to + box * BOX_BYTES, b, column + box * 64, step * DEPTH, full);
    }
  }
  // 16 along k are 16 rows.
  static DEVICE_MEMBER u64 describe_b(u32 stage, u32 part) {
    return describe_mn_major(stage + part * (16 * ROW_BYTES), BOX_BYTES);
  }
};
template <> struct Type<bf16> : Half<bf16> {};
template <> struct Type<f16> : Half<f16> {};
template <> struct Type<e4m3> {
  using Out = bf16;
  static constexpr u32 DEPTH = ROW_BYTES;
  template <class Groups>
  static DEVICE_MEMBER void load_b(u8* to, const TensorMap* b, const Groups& groups, u32 column,
                                   u32 step, u64* full) {
    tile_load(to, b, step * DEPTH, groups.group * groups.p.n + column, full);
  }
  // 32 along k are 32 bytes of each row.
  static DEVICE_MEMBER u64 describe_b(u32 stage, u32 part) {
    return describe_k_major(stage + part * 32);
  }
};

template <u32 STAGES> struct Ring {
  u64* full;
  u64* empty;
  u32 stage, parity;

  DEVICE_MEMBER void advance() {
    if (++stage < STAGES) return;
    stage = 0;
    parity ^= 1;
  }
};

template <class Groups> DEVICE Tile tile_of(const Groups& groups, u32 index) {
  return tile_at<GROUP>(groups.within(index), groups.rows, groups.columns);
}

// One product in pairs of tiles, one below the other, of the two blocks of a cluster: both need the
// same B, of which each fetches a half for both. The last pair may reach beyond C.
struct Pairs {
  static constexpr bool GROUPS = false;
  static constexpr u32 SHARERS = 2;
  static constexpr u32 first = 0;
  GemmParams p;
  u32 rows, columns;  // of pairs

  DEVICE_MEMBER bool seek(u32 index) const { return index / 2 < rows * columns; }
};
DEVICE Tile tile_of(const Pairs& pairs, u32 index) {
  const Tile pair = tile_at<GROUP / 2>(index / 2, pairs.rows, pairs.columns);
  return {pair.row * 2 + index % 2, pair.column};
}

// A stage has been read: whoever fills it may know, which are both blocks where each fills both's.
template <u32 SHARERS> DEVICE void release(u64* empty) {
  arrive(empty);
  if (SHARERS == 2) arrive_in_cluster(empty, cluster_place() ^ 1);
}

// Has stage after stage copied, through all tiles.
template <class In, class Shape, class Ring, class Groups>
DEVICE void produce(Ring ring, u8* shared, Groups groups, const TensorMap* a,
                    const TensorMap* b) {
  const u32 steps = tiles_along(groups.p.k, Type<In>::DEPTH);
  for (u32 index = block_index(); groups.seek(index); index += block_count()) {
    const Tile tile = tile_of(groups, index);
    for (u32 step = 0; step < steps; step++) {
      // Of a stage that was never used, the phase before the first is over.
      await_phase(&ring.empty[ring.stage], ring.parity ^ 1);
      u64* full = &ring.full[ring.stage];
      u8* to = shared + ring.stage * Shape::BYTES;
      arrive_expecting(full, Shape::BYTES);
      tile_load(to, a, step * Type<In>::DEPTH, groups.first + tile.row * ROWS, full);
      const u32 column = tile.column * Shape::COLUMNS;
      if constexpr (Groups::SHARERS == 2) {
        Type<In>::load_half_of_b(to + BYTES_A, b, column, step, full);
      } else {
        Type<In>::load_b(to + BYTES_A, b, groups, column, step, full);
      }
      ring.advance();
    }
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

// Writes a warpgroup's 64 rows, 64 columns at a time.
template <class Out, u32 SUMS, class Groups>
DEVICE void leave(const f32 (&sums)[SUMS], u8* buffers, u32 consumer, const Groups& groups,
                  Tile tile, const TensorMap* c) {
  constexpr u32 COLUMNS = 2 * SUMS;
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
    u8* buffer = buffers + (consumer * BUFFERS + part % BUFFERS) * BUFFER_BYTES;
    // The store before the last one, which read this buffer, has done so.
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

// Has the four parts of a stage multiplied; gives the stage's barrier for when they have been.
template <class In, class Shape, class Ring>
DEVICE u64* multiply_stage(f32 (&sums)[Shape::SUMS], Ring& ring, u8* shared, u32 consumer,
                           u32 accumulate) {
  await_phase(&ring.full[ring.stage], ring.parity);
  const u32 a = shared_address(shared) + ring.stage * Shape::BYTES;
  begin_multiplications();
  UNROLL for (u32 part = 0; part < 4; part++) {
    multiply_tiles(sums, describe_k_major(a + consumer * (64 * ROW_BYTES) + part * 32),
                   Type<In>::describe_b(a + BYTES_A, part), accumulate + part, In());
  }
  close_multiplications();
  u64* empty = &ring.empty[ring.stage];
  ring.advance();
  return empty;
}

template <class In, class Shape, class Ring, class Groups>
DEVICE void consume(Ring ring, u8* shared, Groups groups, const TensorMap* c) {
  const u32 steps = tiles_along(groups.p.k, Type<In>::DEPTH);
  const u32 consumer = thread_index() / 128 - 1;
  const bool speaks = thread_index() % 32 == 0;
  f32 sums[Shape::SUMS];
  for (u32 index = block_index(); groups.seek(index); index += block_count()) {
    u64* previous = nullptr;
    for (u32 step = 0; step < steps; step++) {
      u64* empty = multiply_stage<In, Shape>(sums, ring, shared, consumer, step);
      // All but the ones just closed are done: the stage before has been read.
      await_multiplications<1>();
      if (speaks && previous != nullptr) release<Groups::SHARERS>(previous);
      previous = empty;
    }
    await_multiplications<0>();
    settle(sums);
    if (speaks) release<Groups::SHARERS>(previous);
    leave<typename Type<In>::Out>(sums, shared + Shape::STAGES * Shape::BYTES, consumer, groups,
                                  tile_of(groups, index), c);
  }
  if (thread_index() % 128 == 0) await_stores<0>();
}

// What a stage's sums are worth, in each of a thread's two rows.
struct Factors { f32 of_row[2]; };

struct NoScales {
  DEVICE_MEMBER Factors load(Tile, u32) const { return {{1.0f, 1.0f}}; }
};
struct BlockScales {
  const f32* a;
  const f32* b;
  u32 rows, blocks;

  DEVICE_MEMBER Factors load(Tile tile, u32 step) const {
    const u32 thread = thread_index() - 128;
    const u32 row = tile.row * ROWS + thread / 32 * 16 + thread % 32 / 4;
    const f32 of_b = b[u64(tile.column) * blocks + step];
    Factors factors;
    UNROLL for (u32 i = 0; i < 2; i++) {
      const bool there = row + 8 * i < rows;
      factors.of_row[i] = there ? a[u64(step) * rows + row + 8 * i] * of_b : 0.0f;
    }
    return factors;
  }
};

template <u32 SUMS>
DEVICE void promote(f32 (&all)[SUMS], f32 (&sums)[SUMS], Factors factors) {
  settle(sums);
  UNROLL for (u32 i = 0; i < SUMS; i++) {
    all[i] = fused(sums[i], factors.of_row[i / 2 % 2], all[i]);
  }
}

// The same, with the sums of each stage promoted while the other warpgroup's are multiplied: sums
// that are read while multiplications of the same warpgroup are under way make the compiler have
// all of them wait for each other.
template <class In, class Shape, class Ring, class Groups, class Scales>
DEVICE void consume_promoting(Ring ring, u8* shared, Groups groups, Scales scales,
                              const TensorMap* c) {
  const u32 steps = tiles_along(groups.p.k, Type<In>::DEPTH);
  const u32 consumer = thread_index() / 128 - 1;
  const bool speaks = thread_index() % 32 == 0;
  for (u32 index = block_index(); groups.seek(index); index += block_count()) {
    const Tile tile = tile_of(groups, index);
    f32 all[Shape::SUMS] = {}, sums[Shape::SUMS];
    for (u32 step = 0; step < steps; step++) {
      const Factors factors = scales.load(tile, step);
      u64* empty = multiply_stage<In, Shape>(sums, ring, shared, consumer, 0);
      await_multiplications<0>();
      if (speaks) arrive(empty);
      promote(all, sums, factors);
    }
    leave<typename Type<In>::Out>(all, shared + Shape::STAGES * Shape::BYTES, consumer, groups,
                                  tile, c);
  }
  if (thread_index() % 128 == 0) await_stores<0>();
}

// `produce` is what one thread does, `consume` what the two warpgroups that multiply do.
template <class Shape, u32 SHARERS = 1, class Produce, class Consume>
DEVICE void run(const TensorMap* a, const TensorMap* b, const TensorMap* c, Produce produce,
                Consume consume) {
  constexpr u32 STAGES = Shape::STAGES;
  SHARED u64 own[2 * STAGES];
  u8* shared = dynamic_shared();
  u64* barriers = SHARERS == 1 ? own : reinterpret_cast<u64*>(shared + Shape::BARRIERS_AT);
  const Ring<STAGES> ring = {barriers, barriers + STAGES, 0, 0};
  if (thread_index() == 0) {
    for (u32 stage = 0; stage < STAGES; stage++) {
      make_barrier(&ring.full[stage], 1);
      // One thread of each warp of the consumers.
      make_barrier(&ring.empty[stage], CONSUMERS * 4 * SHARERS);
    }
    barriers_made();
    prefetch_map(a);
    prefetch_map(b);
    prefetch_map(c);
  }
  if (SHARERS == 1) block_barrier();
  else cluster_barrier();
  if (thread_index() < 128) {
    keep_registers<40>();
    if (thread_index() == 0) produce(ring, shared);
  } else {
    take_registers<232>();
    consume(ring, shared);
  }
  // The other block may still fill this one's memory, and arrive at its barriers.
  if (SHARERS == 2) {
    warp_barrier();
    cluster_barrier();
  }
}

template <class In, class Shape, class Groups, class Consume>
DEVICE void product(const Groups& groups, const TensorMap* a, const TensorMap* b,
                    const TensorMap* c, Consume consume) {
  const auto fetch = [&](Ring<Shape::STAGES> ring, u8* shared) {
    produce<In, Shape>(ring, shared, groups, a, b);
  };
  run<Shape, Groups::SHARERS>(a, b, c, fetch, consume);
}

template <class In, class Groups>
DEVICE void plain_product(const Groups& groups, const TensorMap* a, const TensorMap* b,
                          const TensorMap* c) {
  product<In, Shape<256>>(groups, a, b, c, [&](Ring<Shape<256>::STAGES> ring, u8* shared) {
    consume<In, Shape<256>>(ring, shared, groups, c);
  });
}

template <class Scales>
DEVICE void promoted_product(const GemmParams& p, const TensorMap* a, const TensorMap* b,
                             const TensorMap* c, Scales scales) {
  const auto groups = single<ROWS, 128>(p);
  product<e4m3, Shape<128>>(groups, a, b, c, [&](Ring<Shape<128>::STAGES> ring, u8* shared) {
    consume_promoting<e4m3, Shape<128>>(ring, shared, groups, scales, c);
  });
}

// Tiles that several blocks share where there are not enough of them for all.
template <class In, class Shape, class Ring>
DEVICE void produce_stretches(Ring ring, u8* shared, const Single<ROWS, Shape::COLUMNS>& single,
                              const Line& line, const TensorMap* a, const TensorMap* b) {
  for (Stretch now = first_stretch(line); now.there(line); now.pass(line)) {
    const Tile tile = tile_of(single, now.index);
    for (u32 step = now.step; step < now.end; step++) {
      await_phase(&ring.empty[ring.stage], ring.parity ^ 1);
      u64* full = &ring.full[ring.stage];
      u8* to = shared + ring.stage * Shape::BYTES;
      arrive_expecting(full, Shape::BYTES);
      tile_load(to, a, step * Type<In>::DEPTH, tile.row * ROWS, full);
      Type<In>::load_b(to + BYTES_A, b, single, tile.column * Shape::COLUMNS, step, full);
      ring.advance();
    }
  }
}

template <class In, class Shape, class Ring>
DEVICE void consume_stretches(Ring ring, u8* shared, const Single<ROWS, Shape::COLUMNS>& single,
                              const Line& line, f32* scratch, u32* told, const TensorMap* c) {
  const u32 consumer = thread_index() / 128 - 1;
  const bool speaks = thread_index() % 32 == 0;
  f32 sums[Shape::SUMS];
  for (Stretch now = first_stretch(line); now.there(line); now.pass(line)) {
    u64* previous = nullptr;
    for (u32 step = now.step; step < now.end; step++) {
      u64* empty = multiply_stage<In, Shape>(sums, ring, shared, consumer, step - now.step);
      await_multiplications<1>();
      if (speaks && previous != nullptr) arrive(previous);
      previous = empty;
    }
    await_multiplications<0>();
    settle(sums);
    if (speaks) arrive(previous);
    if (now.end - now.step < line.steps) {
      const Sharers<Shape::SUMS, 128, CONSUMERS> sharers = {scratch, told, consumer,
                                                            thread_index() % 128};
      const auto sum = [&](u32 i) -> f32& { return sums[i]; };
      const auto meet = [&] { barrier_of<128>(1 + consumer); };
      if (!sharers.complete(line, now.index, now.step, now.end, sum, meet)) continue;
    }
    leave<typename Type<In>::Out>(sums, shared + Shape::STAGES * Shape::BYTES, consumer, single,
                                  tile_of(single, now.index), c);
  }
  if (thread_index() % 128 == 0) await_stores<0>();
}

template <class In>
DEVICE void shared_product(const GemmParams& p, f32* scratch, const TensorMap* a,
                           const TensorMap* b, const TensorMap* c) {
  using S = Shape<256>;
  SHARED u32 told[CONSUMERS];
  const auto one = single<ROWS, 256>(p);
  const Line line = line_of(one.rows * one.columns, tiles_along(p.k, Type<In>::DEPTH));
  const auto produce = [&](Ring<S::STAGES> ring, u8* shared) {
    produce_stretches<In, S>(ring, shared, one, line, a, b);
  };
  run<S>(a, b, c, produce, [&](Ring<S::STAGES> ring, u8* shared) {
    consume_stretches<In, S>(ring, shared, one, line, scratch, told, c);
  });
}

}  // namespace

KERNEL(384, 1) gemm_bf16_wgmma(const GemmParams p, MAP a, MAP b, MAP c) {
  plain_product<bf16>(single<ROWS, 256>(p), &a, &b, &c);
}
KERNEL(384, 1) gemm_bf16_wgmma_pair(const GemmParams p, MAP a, MAP b, MAP c) {
  const Pairs pairs = {p, tiles_along(p.m, 2 * ROWS), tiles_along(p.n, 256)};
  plain_product<bf16>(pairs, &a, &b, &c);
}
KERNEL(384, 1) gemm_f16_wgmma(const GemmParams p, MAP a, MAP b, MAP c) {
  plain_product<f16>(single<ROWS, 256>(p), &a, &b, &c);
}
KERNEL(384, 1) gemm_fp8_wgmma(const GemmParams p, MAP a, MAP b, MAP c) {
  plain_product<e4m3>(single<ROWS, 256>(p), &a, &b, &c);
}
KERNEL(384, 1) gemm_fp8_wgmma_promoted(const GemmParams p, MAP a, MAP b, MAP c) {
  promoted_product(p, &a, &b, &c, NoScales());
}
KERNEL(384, 1) gemm_fp8block_wgmma(const GemmParams p, MAP a, MAP b, MAP c) {
  const BlockScales scales = {static_cast<const f32*>(p.scales_a),
                              static_cast<const f32*>(p.scales_b), p.m, p.k / fp8block::BLOCK};
  promoted_product(p, &a, &b, &c, scales);
}
KERNEL(384, 1) grouped_bf16_wgmma(const GroupedParams p, MAP a, MAP b, MAP c) {
  plain_product<bf16>(grouped<ROWS, 256>(p), &a, &b, &c);
}
KERNEL(384, 1) grouped_f16_wgmma(const GroupedParams p, MAP a, MAP b, MAP c) {
  plain_product<f16>(grouped<ROWS, 256>(p), &a, &b, &c);
}
KERNEL(384, 1) grouped_fp8_wgmma(const GroupedParams p, MAP a, MAP b, MAP c) {
  plain_product<e4m3>(grouped<ROWS, 256>(p), &a, &b, &c);
}
KERNEL(384, 1) gemm_bf16_wgmma_stream_k(const GemmParams p, f32* scratch, MAP a, MAP b, MAP c) {
  shared_product<bf16>(p, scratch, &a, &b, &c);
}
KERNEL(384, 1) gemm_fp8_wgmma_stream_k(const GemmParams p, f32* scratch, MAP a, MAP b, MAP c) {
  shared_product<e4m3>(p, scratch, &a, &b, &c);
}
