// GEMM of few rows for Hopper (sm_90a), as decoding makes them: bf16 and f16 with B row by row, fp8 (e4m3)
// with B column by column. What counts is that B, which is read once, arrives at the speed of memory. Rows
// must be multiples of 16 bytes.
//
// wgmma makes 64 rows or more. So the product is made turned, transposed C = transposed B times transposed
// A: columns of B are its rows, and the few rows of A its columns, 16 or 64 of them.
//
// One thread of a block has stages of 128 bytes along k copied by tensor maps, 128 columns of B and all
// rows of A, in a ring that has 144 KiB of B under way and more; two warpgroups multiply 64 columns each.
// Blocks share the tiles of 128 columns (stream_k.h), so that all end together, and the ring runs on from
// tile to tile.
#include "params.h"
#include "sm90.h"
#include "sm90_product.h"
#include "stream_k.h"
#include "tiles.h"

namespace {

CONSTANT u32 ROW_BYTES = 128;
CONSTANT u32 COLUMNS = 64 * MULTIPLIERS;
CONSTANT u32 BYTES_B = COLUMNS * ROW_BYTES;
// A warpgroup's part of a stage of B.
CONSTANT u32 PART_BYTES = BYTES_B / MULTIPLIERS;

// Tiles of so many rows of C.
template <u32 FEW> struct Shape {
  static constexpr u32 ROWS = FEW;
  static constexpr u32 BYTES = BYTES_B + FEW * ROW_BYTES;
  static constexpr u32 STAGES = FEW == 16 ? 12 : 9;
  static constexpr u32 BARRIERS_AT = STAGES * BYTES;
  // Past the barriers: what one thread tells the others.
  static constexpr u32 TOLD_AT = BARRIERS_AT + STAGES * 16;
  // Of one thread: two columns of C by two rows of every eight.
  static constexpr u32 SUMS = FEW / 2;
};

template <class In> struct Type {
  using Out = In;
  static constexpr u32 DEPTH = 64, BOXES = 2;
  // Rows of B are along n, 64 columns in each box.
  static DEVICE_MEMBER Box box_of_b(u8* to, u32 column, u32 step, u32 box) {
    return {to + box * PART_BYTES, column + box * 64, step * DEPTH};
  }
  // 16 along k are 16 rows.
  static DEVICE_MEMBER u64 describe_b(u32 at, u32 part) {
    return describe_mn_major(at + part * (16 * ROW_BYTES), PART_BYTES);
  }
};
template <> struct Type<e4m3> {
  using Out = bf16;
  static constexpr u32 DEPTH = 128, BOXES = 1;
  // Rows of B are along k, 128 columns in the box.
  static DEVICE_MEMBER Box box_of_b(u8* to, u32 column, u32 step, u32) {
    return {to, step * DEPTH, column};
  }
  // 32 along k are 32 bytes of each row.
  static DEVICE_MEMBER u64 describe_b(u32 at, u32 part) { return describe_k_major(at + part * 32); }
};

template <class Shape> using Deal = Single<Shape::ROWS, COLUMNS>;

// Has stage after stage copied, of all that this block does.
template <class In, class Shape, class Ring>
DEVICE void produce(Ring ring, u8* shared, const Deal<Shape>& deal, const Line& line,
                    const TensorMap* a, const TensorMap* b) {
  for (Stretch now = first_stretch(line); now.there(line); now.pass(line)) {
    const Place place = place_of(deal, now.index);
    for (u32 step = now.step; step < now.end; step++) {
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
}

// Multiplies the stages of one stretch. Each stage's multiplications are awaited: by the tensor cores' rate they
// take about a tenth of the time in which the stage comes from memory.
template <class In, class Shape, class Ring>
DEVICE void multiply(f32 (&sums)[Shape::SUMS], Ring& ring, u8* shared, u32 consumer, u32 steps) {
  UNROLL for (u32 i = 0; i < Shape::SUMS; i++) sums[i] = 0.0f;
  settle(sums);
  for (u32 step = 0; step < steps; step++) {
    await_phase(&ring.full[ring.at], ring.parity);
    const u32 stage = shared_address(shared) + ring.at * Shape::BYTES;
    begin_multiplications();
    UNROLL for (u32 part = 0; part < 4; part++) {
      multiply_turned(sums, Type<In>::describe_b(stage + consumer * PART_BYTES, part),
                      describe_k_major(stage + BYTES_B + part * 32), 1, In());
    }
    close_multiplications();
    await_multiplications<0>();
    if (thread_index() % 32 == 0) release_stage<1>(&ring.empty[ring.at]);
    ring.advance();
  }
  settle(sums);
}

// Writes a warpgroup's 64 columns. Of two threads with neighbouring columns each writes both of one row:
// they exchange what the other has of it.
template <class Out, class Shape>
DEVICE void leave(const f32 (&sums)[Shape::SUMS], const GemmParams& p, u32 row_first,
                  u32 column_first) {
  const u32 lane = thread_index() % 32, g = lane / 4, odd = g % 2;
  const u32 column = column_first + thread_index() % 128 / 32 * 16 + (g - odd);
  UNROLL for (u32 i = 0; i < Shape::SUMS; i += 2) {
    const u32 row = row_first + i / 4 * 8 + lane % 4 * 2 + odd;
    const f32 got = shuffle_xor(odd ? sums[i] : sums[i + 1], 4);
    const f32 kept = odd ? sums[i + 1] : sums[i];
    const u32 pair = narrow_pair(odd ? got : kept, odd ? kept : got, Out());
    const u32 at = column + i % 4 / 2 * 8;
    Out* to = static_cast<Out*>(p.c) + u64(row) * p.n + at;
    if (row < p.m && at < p.n) *reinterpret_cast<u32*>(to) = pair;
  }
}

template <class In, class Shape, class Ring>
DEVICE void consume(Ring ring, u8* shared, const Deal<Shape>& deal, const Line& line,
                    f32* scratch) {
  const u32 consumer = thread_index() / 128 - 1;
  u32* told = reinterpret_cast<u32*>(shared + Shape::TOLD_AT);
  f32 sums[Shape::SUMS];
  for (Stretch now = first_stretch(line); now.there(line); now.pass(line)) {
    multiply<In, Shape>(sums, ring, shared, consumer, now.end - now.step);
    if (now.end - now.step < line.steps) {
      const Sharers<Shape::SUMS, 128, MULTIPLIERS> sharers = {scratch, told, consumer,
                                                              thread_index() % 128};
      const auto sum = [&](u32 i) -> f32& { return sums[i]; };
      const auto meet = [&] { barrier_of<128>(1 + consumer); };
      if (!sharers.complete(line, now.index, now.step, now.end, sum, meet)) continue;
    }
    const Place place = place_of(deal, now.index);
    leave<typename Type<In>::Out, Shape>(sums, deal.p, place.row * Shape::ROWS,
                                         place.column * COLUMNS + consumer * 64);
  }
}

template <class In, u32 FEW>
DEVICE void few_rows(const GemmParams& p, f32* scratch, const TensorMap* a, const TensorMap* b) {
  using S = Shape<FEW>;
  u8* shared = dynamic_shared();
  const auto deal = single<S::ROWS, COLUMNS>(p);
  const Line line = line_of(deal.rows * deal.columns, tiles_along(p.k, Type<In>::DEPTH));
  const auto fetch = [&](PhaseRing<S::STAGES> ring) {
    if (thread_index() == 0) produce<In, S>(ring, shared, deal, line, a, b);
  };
  run_warpgroups<S::STAGES, 1>(shared + S::BARRIERS_AT, a, b, nullptr, fetch,
                               [&](PhaseRing<S::STAGES> ring) {
    consume<In, S>(ring, shared, deal, line, scratch);
  });
}

}  // namespace

KERNEL(384, 1) gemm_bf16_wgmma_few(const GemmParams p, f32* scratch, MAP a, MAP b) {
  few_rows<bf16, 16>(p, scratch, &a, &b);
}
KERNEL(384, 1) gemm_f16_wgmma_few(const GemmParams p, f32* scratch, MAP a, MAP b) {
  few_rows<f16, 16>(p, scratch, &a, &b);
}
KERNEL(384, 1) gemm_fp8_wgmma_few(const GemmParams p, f32* scratch, MAP a, MAP b) {
  few_rows<e4m3, 16>(p, scratch, &a, &b);
}
KERNEL(384, 1) gemm_bf16_wgmma_few_64(const GemmParams p, f32* scratch, MAP a, MAP b) {
  few_rows<bf16, 64>(p, scratch, &a, &b);
}
KERNEL(384, 1) gemm_f16_wgmma_few_64(const GemmParams p, f32* scratch, MAP a, MAP b) {
  few_rows<f16, 64>(p, scratch, &a, &b);
}
KERNEL(384, 1) gemm_fp8_wgmma_few_64(const GemmParams p, f32* scratch, MAP a, MAP b) {
  few_rows<e4m3, 64>(p, scratch, &a, &b);
}
