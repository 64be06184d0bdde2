// GEMM of few rows for Hopper (sm_90a), as decoding makes them: bf16 and f16 with B row by row (nn) or
// column by column (nt), fp8 (e4m3) with B column by column. What counts is that B, which is read once, arrives at the speed of memory. Rows
// must be multiples of 16 bytes.
//
// wgmma makes 64 rows or more. So the product is made turned, transposed C = transposed B times transposed
// A: columns of B are its rows, and the few rows of A its columns, 16 to 256 of them.
//
// One thread of a block has stages of 128 bytes along k copied by tensor maps, 128 columns of B and all
// rows of A, in a ring that has 64 to 192 KiB of B under way; two warpgroups multiply 64 columns each.
//
// Where there are about as many tiles of 128 columns as units, or more, each block makes whole tiles, and
// the ring runs on from tile to tile: units that have one tile more than others then have all of memory's
// rate to themselves. Where there are fewer, the three blocks of a cluster make a tile, each along a third of
// k, and each adds up a third of the sums, which the others send it through the network between units. It is
// three since clusters of four leave units of an H200 idle: only 30 of them run at once, and 4096 columns are
// 32 tiles.
#include "params.h"
#include "sm90.h"
#include "sm90_product.h"
#include "tiles.h"

namespace {

CONSTANT u32 ROW_BYTES = 128;
CONSTANT u32 COLUMNS = 64 * MULTIPLIERS;
CONSTANT u32 BYTES_B = COLUMNS * ROW_BYTES;
// A warpgroup's part of a stage of B.
CONSTANT u32 PART_BYTES = BYTES_B / MULTIPLIERS;
// Blocks that make a tile together, and threads of each that multiply.
CONSTANT u32 SPLIT = 3;
CONSTANT u32 MULTIPLYING = 128 * MULTIPLIERS;

// Tiles of so many rows of C.
template <u32 FEW> struct Shape {
  static constexpr u32 ROWS = FEW;
  static constexpr u32 BYTES = BYTES_B + FEW * ROW_BYTES;
  static constexpr u32 STAGES = FEW == 16 ? 12 : FEW == 64 ? 9 : FEW == 128 ? 6 : 4;
  // Of one thread: two columns of C by two rows of every eight.
  static constexpr u32 SUMS = FEW / 2;
  static constexpr u32 PAIRS = SUMS / 2;
  // A third of its pairs of sums at most, and what one pair of all threads takes.
  static constexpr u32 PART = (PAIRS + SPLIT - 1) / SPLIT, PAIR_BYTES = 8 * MULTIPLYING;
  // What blocks exchange stands in the memory of the ring: all pairs, and those of two others.
  static constexpr u32 EXCHANGED = (PAIRS + (SPLIT - 1) * PART) * PAIR_BYTES;
  static constexpr u32 BARRIERS_AT = STAGES * BYTES > EXCHANGED ? STAGES * BYTES : EXCHANGED;
};

template <class In> struct Type {
  using Out = In;
  static constexpr u32 DEPTH = 64, BOXES = 2;
  // Rows of B are along n, 64 columns in each box.
  static DEVICE_MEMBER Box box_of_b(u8* to, u32 column, u32 step, u32 box) {
    return {to + box * PART_BYTES, column + box * 64, step * DEPTH};
  }
  // 16 along k are 16 rows.
  static constexpr u32 STEP_BYTES = 16 * ROW_BYTES;
  static DEVICE_MEMBER u64 describe_b(u32 at) { return describe_mn_major(at, PART_BYTES); }
};
// Both operands along k, of elements of BYTES bytes.
template <class OfC, u32 BYTES> struct AlongRows {
  using Out = OfC;
  static constexpr u32 DEPTH = ROW_BYTES / BYTES, BOXES = 1;
  // Rows of B are along k, 128 columns in the box.
  static DEVICE_MEMBER Box box_of_b(u8* to, u32 column, u32 step, u32) {
    return {to, step * DEPTH, column};
  }
  // A multiplication takes 32 bytes of each row.
  static constexpr u32 STEP_BYTES = 32;
  static DEVICE_MEMBER u64 describe_b(u32 at) { return describe_k_major(at); }
};
template <> struct Type<e4m3> : AlongRows<bf16, 1> {};
template <> struct Type<AlongK<bf16>> : AlongRows<bf16, 2> {};
template <> struct Type<AlongK<f16>> : AlongRows<f16, 2> {};

template <class Shape> using Deal = Single<Shape::ROWS, COLUMNS>;

// Has stage after stage of one tile copied.
template <class In, class Shape, class Ring>
DEVICE void fetch_tile(Ring& ring, u8* shared, Place place, u32 first, u32 end, const TensorMap* a,
                       const TensorMap* b) {
  for (u32 step = first; step < end; step++) {
    u8* to = shared + ring.at * Shape::BYTES;
    const auto of_a = [&](u32) -> Box {
      return {to + BYTES_B, step * Type<In>::DEPTH, place.row * Shape::ROWS};
    };
    const auto of_b = [&](u32 box) {
      return Type<In>::box_of_b(to, place.column * COLUMNS, step, box);
    };
    fetch_stage<1, Shape::BYTES, 1, Type<In>::BOXES>(ring, 0, a, b, of_a, of_b);
  }
}

// Multiplies the stages of one tile, or of a part of it.
template <class In, class Shape, class Ring>
DEVICE void multiply(f32 (&sums)[Shape::SUMS], Ring& ring, u8* shared, u32 consumer, u32 steps) {
  const bool speaks = thread_index() % 32 == 0;
  UNROLL for (u32 i = 0; i < Shape::SUMS; i++) sums[i] = 0.0f;
  settle(sums);
  u64* previous = nullptr;
  for (u32 step = 0; step < steps; step++) {
    await_phase(&ring.full[ring.at], ring.parity);
    const u32 stage = warp_uniform(shared_address(shared) + ring.at * Shape::BYTES);
    const u64 of_b = Type<In>::describe_b(stage + consumer * PART_BYTES);
    const u64 of_a = describe_k_major(stage + BYTES_B);
    begin_multiplications();
    UNROLL for (u32 part = 0; part < 4; part++) {
      multiply_turned(sums, further(of_b, part * Type<In>::STEP_BYTES), further(of_a, part * 32), 1, In());
    }
    close_multiplications();
    // Only the products just issued are still running, so the stage before has been read.
    await_multiplications<1>();
    if (speaks && previous != nullptr) release_stage<1>(previous);
    previous = &ring.empty[ring.at];
    ring.advance();
  }
  await_multiplications<0>();
  settle(sums);
  if (speaks && previous != nullptr) release_stage<1>(previous);
}

// Writes of a warpgroup's 64 columns the pairs of sums from `first` on, up to `end`. Of two threads with
// neighbouring columns each writes both of one row: they exchange what the other has of it.
template <class Out, u32 SUMS>
DEVICE void leave(const f32 (&sums)[SUMS], u32 first, u32 end, const GemmParams& p, u32 row_first,
                  u32 column_first) {
  const u32 lane = thread_index() % 32, g = lane / 4, odd = g % 2;
  const u32 column = column_first + thread_index() % 128 / 32 * 16 + (g - odd);
  UNROLL for (u32 i = 0; i < SUMS / 2; i++) {
    const u32 number = first + i;
    const u32 row = row_first + number / 2 * 8 + lane % 4 * 2 + odd;
    const f32 got = shuffle_xor(odd ? sums[2 * i] : sums[2 * i + 1], 4);
    const f32 kept = odd ? sums[2 * i + 1] : sums[2 * i];
    const u32 pair = narrow_pair(odd ? got : kept, odd ? kept : got, Out());
    const u32 at = column + number % 2 * 8;
    Out* to = static_cast<Out*>(p.c) + u64(row) * p.n + at;
    if (number < end && row < p.m && at < p.n) *reinterpret_cast<u32*>(to) = pair;
  }
}

template <class In, u32 FEW>
DEVICE void whole_tiles(const GemmParams& p, const TensorMap* a, const TensorMap* b) {
  using S = Shape<FEW>;
  u8* shared = dynamic_shared();
  Deal<S> deal = single<S::ROWS, COLUMNS>(p);
  const u32 steps = tiles_along(p.k, Type<In>::DEPTH);
  const auto fetch = [&](PhaseRing<S::STAGES> ring) {
    if (warp_number() != 0 || !elected()) return;
    for (u32 index = block_index(); deal.seek(index); index += block_count()) {
      fetch_tile<In, S>(ring, shared, place_of(deal, index), 0, steps, a, b);
    }
  };
  run_warpgroups<S::STAGES, 1>(shared + S::BARRIERS_AT, a, b, nullptr, fetch,
                               [&](PhaseRing<S::STAGES> ring) {
    const u32 consumer = warpgroup_number() - 1;
    f32 sums[S::SUMS];
    for (u32 index = block_index(); deal.seek(index); index += block_count()) {
      const Place place = place_of(deal, index);
      multiply<In, S>(sums, ring, shared, consumer, steps);
      leave<typename Type<In>::Out>(sums, 0, S::PAIRS, p, place.row * FEW,
                                    place.column * COLUMNS + consumer * 64);
    }
  });
}

// What the blocks of a cluster exchange: pairs of sums, of each pair those of all threads beside each other. A
// block's own stand first, behind them those that the others send it of its part.
template <class Shape> struct Exchange {
  static constexpr u32 BYTES = Shape::PAIR_BYTES;
  // The first pair of block `own`'s part; that of the next ends it.
  static DEVICE_MEMBER u32 part(u32 own) { return Shape::PAIRS * own / SPLIT; }
  // At which pair's place stands what block `from` sends to `to`.
  static DEVICE_MEMBER u32 place(u32 to, u32 from) {
    return Shape::PAIRS + (from - (from > to ? 1 : 0)) * Shape::PART;
  }

  static DEVICE_MEMBER void keep(const f32 (&sums)[Shape::SUMS], u8* shared) {
    const u32 to = shared_address(shared) + (thread_index() - 128) * 8;
    UNROLL for (u32 i = 0; i < Shape::PAIRS; i++) store_pair(to + i * BYTES, sums[2 * i], sums[2 * i + 1]);
  }
  // Has the others' parts copied to them.
  static DEVICE_MEMBER void send(u8* shared, u64* gathered, u32 own) {
    for (u32 to = 0; to < SPLIT; to++) {
      const u32 first = part(to), bytes = (part(to + 1) - first) * BYTES;
      if (to == own) continue;
      bulk_copy_in_cluster(shared + place(to, own) * BYTES, shared + first * BYTES, bytes, gathered, to);
    }
  }
  // Adds up this block's part in the order of blocks. A part has PART pairs or one less.
  static DEVICE_MEMBER void sum(f32 (&all)[2 * Shape::PART], u8* shared, u32 own) {
    const u32 pairs = part(own + 1) - part(own);
    UNROLL for (u32 i = 0; i < 2 * Shape::PART; i++) all[i] = 0.0f;
    UNROLL for (u32 from = 0; from < SPLIT; from++) {
      const u32 first = from == own ? part(own) : place(own, from);
      const u32 at = shared_address(shared) + first * BYTES + (thread_index() - 128) * 8;
      UNROLL for (u32 i = 0; i < Shape::PART; i++) {
        const u64 pair = i < pairs ? load_shared(at + i * BYTES, u64()) : 0;
        all[2 * i] += float_of(u32(pair));
        all[2 * i + 1] += float_of(u32(pair >> 32));
      }
    }
  }
};

// One cluster for each tile.
template <class In, u32 FEW>
DEVICE void split_tile(const GemmParams& p, const TensorMap* a, const TensorMap* b) {
  using S = Shape<FEW>;
  using E = Exchange<S>;
  u8* shared = dynamic_shared();
  u64* gathered = reinterpret_cast<u64*>(shared + S::BARRIERS_AT + S::STAGES * 16);
  const Deal<S> deal = single<S::ROWS, COLUMNS>(p);
  const Place place = place_of(deal, block_index() / SPLIT);
  const u32 steps = tiles_along(p.k, Type<In>::DEPTH), own = cluster_place();
  const u32 first = steps * own / SPLIT, end = steps * (own + 1) / SPLIT;
  const u32 pairs = E::part(own), pairs_end = E::part(own + 1);
  if (thread_index() == 0) {
    make_barrier(gathered, 1);
    arrive_expecting(gathered, (SPLIT - 1) * (pairs_end - pairs) * S::PAIR_BYTES);
  }
  const auto fetch = [&](PhaseRing<S::STAGES> ring) {
    if (warp_number() == 0 && elected()) fetch_tile<In, S>(ring, shared, place, first, end, a, b);
    warp_barrier();
    cluster_barrier_relaxed();
  };
  run_warpgroups<S::STAGES, 1, 0, SPLIT>(shared + S::BARRIERS_AT, a, b, nullptr, fetch,
                                         [&](PhaseRing<S::STAGES> ring) {
    const u32 consumer = warpgroup_number() - 1;
    f32 sums[S::SUMS], all[2 * S::PART];
    multiply<In, S>(sums, ring, shared, consumer, end - first);
    barrier_of<MULTIPLYING>(1);  // the ring is read
    E::keep(sums, shared);
    show_to_copies();
    barrier_of<MULTIPLYING>(1);
    cluster_barrier_relaxed();  // so are the others'
    if (warp_number() == 4 && elected()) E::send(shared, gathered, own);
    await_phase(gathered, 0);
    E::sum(all, shared, own);
    leave<typename Type<In>::Out>(all, pairs, pairs_end, p, place.row * FEW,
                                  place.column * COLUMNS + consumer * 64);
  });
}

}  // namespace

KERNEL(384, 1) gemm_bf16_wgmma_few(const GemmParams p, MAP a, MAP b) {
  whole_tiles<bf16, 16>(p, &a, &b);
}
KERNEL(384, 1) gemm_bf16_wgmma_few_64(const GemmParams p, MAP a, MAP b) {
  whole_tiles<bf16, 64>(p, &a, &b);
}
KERNEL(384, 1) gemm_f16_wgmma_few(const GemmParams p, MAP a, MAP b) {
  whole_tiles<f16, 16>(p, &a, &b);
}
KERNEL(384, 1) gemm_f16_wgmma_few_64(const GemmParams p, MAP a, MAP b) {
  whole_tiles<f16, 64>(p, &a, &b);
}
KERNEL(384, 1) gemm_fp8_wgmma_few(const GemmParams p, MAP a, MAP b) {
  whole_tiles<e4m3, 16>(p, &a, &b);
}
KERNEL(384, 1) gemm_fp8_wgmma_few_64(const GemmParams p, MAP a, MAP b) {
  whole_tiles<e4m3, 64>(p, &a, &b);
}
KERNEL(384, 1) gemm_bf16_wgmma_split_16(const GemmParams p, MAP a, MAP b) {
  split_tile<bf16, 16>(p, &a, &b);
}
KERNEL(384, 1) gemm_bf16_wgmma_split_64(const GemmParams p, MAP a, MAP b) {
  split_tile<bf16, 64>(p, &a, &b);
}
KERNEL(384, 1) gemm_bf16_wgmma_split_128(const GemmParams p, MAP a, MAP b) {
  split_tile<bf16, 128>(p, &a, &b);
}
KERNEL(384, 1) gemm_bf16_wgmma_split_256(const GemmParams p, MAP a, MAP b) {
  split_tile<bf16, 256>(p, &a, &b);
}
KERNEL(384, 1) gemm_f16_wgmma_split_16(const GemmParams p, MAP a, MAP b) {
  split_tile<f16, 16>(p, &a, &b);
}
KERNEL(384, 1) gemm_f16_wgmma_split_64(const GemmParams p, MAP a, MAP b) {
  split_tile<f16, 64>(p, &a, &b);
}
KERNEL(384, 1) gemm_f16_wgmma_split_128(const GemmParams p, MAP a, MAP b) {
  split_tile<f16, 128>(p, &a, &b);
}
KERNEL(384, 1) gemm_f16_wgmma_split_256(const GemmParams p, MAP a, MAP b) {
  split_tile<f16, 256>(p, &a, &b);
}
KERNEL(384, 1) gemm_fp8_wgmma_split_16(const GemmParams p, MAP a, MAP b) {
  split_tile<e4m3, 16>(p, &a, &b);
}
KERNEL(384, 1) gemm_fp8_wgmma_split_64(const GemmParams p, MAP a, MAP b) {
  split_tile<e4m3, 64>(p, &a, &b);
}
KERNEL(384, 1) gemm_fp8_wgmma_split_128(const GemmParams p, MAP a, MAP b) {
  split_tile<e4m3, 128>(p, &a, &b);
}
KERNEL(384, 1) gemm_fp8_wgmma_split_256(const GemmParams p, MAP a, MAP b) {
  split_tile<e4m3, 256>(p, &a, &b);
}
KERNEL(384, 1) gemm_bf16_nt_wgmma_few(const GemmParams p, MAP a, MAP b) {
  whole_tiles<AlongK<bf16>, 16>(p, &a, &b);
}
KERNEL(384, 1) gemm_bf16_nt_wgmma_few_64(const GemmParams p, MAP a, MAP b) {
  whole_tiles<AlongK<bf16>, 64>(p, &a, &b);
}
KERNEL(384, 1) gemm_bf16_nt_wgmma_split_16(const GemmParams p, MAP a, MAP b) {
  split_tile<AlongK<bf16>, 16>(p, &a, &b);
}
KERNEL(384, 1) gemm_bf16_nt_wgmma_split_64(const GemmParams p, MAP a, MAP b) {
  split_tile<AlongK<bf16>, 64>(p, &a, &b);
}
KERNEL(384, 1) gemm_bf16_nt_wgmma_split_128(const GemmParams p, MAP a, MAP b) {
  split_tile<AlongK<bf16>, 128>(p, &a, &b);
}
KERNEL(384, 1) gemm_bf16_nt_wgmma_split_256(const GemmParams p, MAP a, MAP b) {
  split_tile<AlongK<bf16>, 256>(p, &a, &b);
}
KERNEL(384, 1) gemm_f16_nt_wgmma_few(const GemmParams p, MAP a, MAP b) {
  whole_tiles<AlongK<f16>, 16>(p, &a, &b);
}
KERNEL(384, 1) gemm_f16_nt_wgmma_few_64(const GemmParams p, MAP a, MAP b) {
  whole_tiles<AlongK<f16>, 64>(p, &a, &b);
}
KERNEL(384, 1) gemm_f16_nt_wgmma_split_16(const GemmParams p, MAP a, MAP b) {
  split_tile<AlongK<f16>, 16>(p, &a, &b);
}
KERNEL(384, 1) gemm_f16_nt_wgmma_split_64(const GemmParams p, MAP a, MAP b) {
  split_tile<AlongK<f16>, 64>(p, &a, &b);
}
KERNEL(384, 1) gemm_f16_nt_wgmma_split_128(const GemmParams p, MAP a, MAP b) {
  split_tile<AlongK<f16>, 128>(p, &a, &b);
}
KERNEL(384, 1) gemm_f16_nt_wgmma_split_256(const GemmParams p, MAP a, MAP b) {
  split_tile<AlongK<f16>, 256>(p, &a, &b);
}
