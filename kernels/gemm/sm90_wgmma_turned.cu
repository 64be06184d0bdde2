// GEMM for Hopper (sm_90a) by wgmma, of tf32 and int8. From shared memory the multiplication takes
// these types only with k along the rows of both operands, and rows of B are along n. So the product
// is turned: C' = B' A', whose left operand may come from registers. The rows of A are its right
// operand as they stand; of B each thread loads what it has to hold, words of tf32 as they are, bytes
// after exchanging them four by four. Which rows of B' a warp takes for which is free, and chosen so
// that no two threads want the same bank. Rows must be multiples of 16 bytes.
//
// Otherwise as in sm90_wgmma.cu: tiles of 128 x 256 (m x n) in pairs for clusters of two blocks, 128
// bytes of each row of A along k are a stage, four in a ring; one thread has them copied, two
// warpgroups multiply 128 columns of C each. A warp has 32 columns and writes them by itself, 16 rows
// at a time.
#include "params.h"
#include "sm90_attention.h"
#include "sm90_product.h"
#include "tiles.h"

namespace {

CONSTANT u32 ROWS = 128;
CONSTANT u32 COLUMNS = 256;
CONSTANT u32 STAGES = 4;
// Boxes of 64 rows of A.
CONSTANT u32 BOXES_A = 2;
CONSTANT u32 BOX_BYTES_A = 64 * 128;
CONSTANT u32 BYTES_A = BOXES_A * BOX_BYTES_A;
// 128 bytes along k of 256 columns.
CONSTANT u32 BYTES_B = COLUMNS * 128;
CONSTANT u32 BYTES = BYTES_A + BYTES_B;
// 16 rows of 32 words, two for each warp.
CONSTANT u32 PART = 16;
CONSTANT u32 BUFFER_BYTES = PART * 128;
CONSTANT u32 BARRIERS_AT = STAGES * BYTES + MULTIPLIERS * 4 * 2 * BUFFER_BYTES;
// Steps of one multiplication in a stage, and blocks of 64 columns of C that a warpgroup has.
CONSTANT u32 STEPS = 4;
CONSTANT u32 BLOCKS = 2;
// A stage's left operands of one thread.
using Fragments = u32[STEPS][BLOCKS][4];

// What differs: `column` says which of a warp's 32 columns is row g + 8 half of block `block`.
template <class In> struct Type;

template <> struct Type<tf32> {
  using Sum = f32;
  static constexpr u32 DEPTH = 32;
  // Boxes of 32 columns and 32 rows of B.
  static constexpr u32 BOX_COLUMNS = 32;
  static constexpr u32 BOX_BYTES = DEPTH * 128;

  static DEVICE_MEMBER void load(Fragments& a, u32 b, u32 warp) {
    const u32 g = thread_index() % 32 / 4, t = thread_index() % 4;
    const u32 box = b + warp * BOX_BYTES + t * 128 + g % 4 * 4;
    UNROLL for (u32 step = 0; step < STEPS; step++) {
      UNROLL for (u32 block = 0; block < BLOCKS; block++) {
        UNROLL for (u32 r = 0; r < 4; r++) {
          const u32 later = r / 2 * 4, chunk = g / 4 * 4 + 2 * block + r % 2;
          const u32 at = box + (8 * step + later) * 128 + (chunk ^ (later + t)) * 16;
          a[step][block][r] = load_shared(at, u32());
        }
      }
    }
  }
  // One of a warp's rows of C: words of its 4 columns of this thread.
  static DEVICE_MEMBER void leave(u8* row, u32 number, const f32 (&words)[4]) {
    const u32 g = thread_index() % 32 / 4;
    UNROLL for (u32 i = 0; i < 4; i++) {
      const u32 chunk = (g / 4 * 4 + i) ^ number % 8;
      *reinterpret_cast<f32*>(row + chunk * 16 + g % 4 * 4) = words[i];
    }
  }
};

template <> struct Type<i8> {
  using Sum = i32;
  static constexpr u32 DEPTH = 128;
  static constexpr u32 BOX_COLUMNS = 128;
  static constexpr u32 BOX_BYTES = DEPTH * 128;

  static DEVICE_MEMBER void load(Fragments& a, u32 b, u32 warp) {
    const u32 g = thread_index() % 32 / 4, t = thread_index() % 4;
    const u32 box = b + warp / 4 * BOX_BYTES + g % 4 * 4, chunk = warp % 4 * 2 + g / 4;
    // Half of the threads load their four rows in another order, for the banks' sake.
    const u32 turned = t / 2 * 2;
    const u32 low_halves = turned ? 0x1054 : 0x5410, high_halves = turned ? 0x3276 : 0x7632;
    UNROLL for (u32 step = 0; step < STEPS; step++) {
      UNROLL for (u32 later = 0; later < 2; later++) {
        u32 rows[4];
        UNROLL for (u32 i = 0; i < 4; i++) {
          const u32 k = 32 * step + 16 * later + 4 * t + (i ^ turned);
          rows[i] = load_shared(box + k * 128 + (chunk ^ k % 8) * 16, u32());
        }
        const u32 low[2] = {choose_bytes(rows[0], rows[1], 0x5140),
                            choose_bytes(rows[2], rows[3], 0x5140)};
        const u32 high[2] = {choose_bytes(rows[0], rows[1], 0x7362),
                             choose_bytes(rows[2], rows[3], 0x7362)};
        a[step][0][2 * later] = choose_bytes(low[0], low[1], low_halves);
        a[step][0][2 * later + 1] = choose_bytes(low[0], low[1], high_halves);
        a[step][1][2 * later] = choose_bytes(high[0], high[1], low_halves);
        a[step][1][2 * later + 1] = choose_bytes(high[0], high[1], high_halves);
      }
    }
  }
  static DEVICE_MEMBER void leave(u8* row, u32 number, const i32 (&words)[4]) {
    const u32 chunk = thread_index() % 32 / 4 ^ number % 8;
    Vector<i32> all;
    UNROLL for (u32 i = 0; i < 4; i++) all.at[i] = words[i];
    store_chunk(row + chunk * 16, all);
  }
};

using Ring = PhaseRing<STAGES>;
using Deal = Single<ROWS, COLUMNS, 2>;

// Has stage after stage copied, through all tiles.
template <class In>
DEVICE void produce(Ring ring, u8* shared, Deal deal, u32 steps, const TensorMap* a,
                    const TensorMap* b) {
  using T = Type<In>;
  for (u32 index = block_index(); deal.seek(index); index += block_count()) {
    const Place place = place_of(deal, index);
    for (u32 step = 0; step < steps; step++) {
      u8* to = shared + ring.at * BYTES;
      const auto of_a = [&](u32 box) -> Box {
        return {to + box * BOX_BYTES_A, step * T::DEPTH, place.row * ROWS + box * 64};
      };
      const auto of_b = [&](u32 box) -> Box {
        return {to + BYTES_A + box * T::BOX_BYTES, place.column * COLUMNS + box * T::BOX_COLUMNS,
                step * T::DEPTH};
      };
      fetch_stage<2, BYTES, BOXES_A, COLUMNS / T::BOX_COLUMNS>(ring, place.down, a, b, of_a, of_b);
    }
  }
}

// Has a stage multiplied in this warpgroup's turn; gives its barrier for when it has been. The operands in `a`
// must stay until then. They are made behind a branch that is always taken: without it the assembler moves a
// part of that behind the wait for the turn.
template <class In>
DEVICE u64* multiply_stage(typename Type<In>::Sum (&sums)[BLOCKS][ROWS / 2], Fragments& a,
                           Ring& ring, u8* shared, u32 accumulate, const InTurns& turns, bool always) {
  const u32 warp = thread_index() / 32 - 4;
  await_phase(&ring.full[ring.at], ring.parity);
  const u32 stage = shared_address(shared) + ring.at * BYTES;
  if (always) Type<In>::load(a, stage + BYTES_A, warp);
  const u64 right = describe_k_major(warp_uniform(stage));
  turns.await();
  begin_multiplications();
  UNROLL for (u32 step = 0; step < STEPS; step++) {
    UNROLL for (u32 block = 0; block < BLOCKS; block++) {
      multiply_left(sums[block], a[step][block], further(right, step * 32),
                    step > 0 ? 1 : accumulate, In());
    }
    if (step % (STEPS / 2) == STEPS / 2 - 1) close_multiplications();
  }
  u64* empty = &ring.empty[ring.at];
  ring.advance();
  return empty;
}

// Writes a warp's 32 columns, 16 rows at a time.
template <class In>
DEVICE void leave(const typename Type<In>::Sum (&sums)[BLOCKS][ROWS / 2], u8* buffers, Place tile,
                  const TensorMap* c) {
  const u32 warp = thread_index() / 32 - 4, t = thread_index() % 4;
  const bool speaks = thread_index() % 32 == 0;
  UNROLL for (u32 part = 0; part < ROWS / PART; part++) {
    u8* buffer = buffers + (warp * 2 + part % 2) * BUFFER_BYTES;
    // The store before the last one, which read this buffer, has done so.
    if (speaks) await_stores_read<1>();
    warp_barrier();
    UNROLL for (u32 i = 0; i < PART / 4; i++) {
      const u32 row = i / 2 * 8 + 2 * t + i % 2, at = (part * 2 + i / 2) * 4 + i % 2;
      const typename Type<In>::Sum words[4] = {sums[0][at], sums[0][at + 2], sums[1][at],
                                               sums[1][at + 2]};
      Type<In>::leave(buffer + row * 128, row, words);
    }
    show_to_copies();
    warp_barrier();
    if (speaks) {
      tile_store(c, buffer, tile.column * COLUMNS + warp * 32, tile.row * ROWS + part * PART);
      close_stores();
    }
  }
}

template <class In>
DEVICE void consume(Ring ring, u8* shared, Deal deal, u32 steps, const TensorMap* c) {
  const bool speaks = thread_index() % 32 == 0, always = deal.p.k != 0;
  const InTurns turns = {warpgroup_number() - 1};
  turns.start();
  for (u32 index = block_index(); deal.seek(index); index += block_count()) {
    typename Type<In>::Sum sums[BLOCKS][ROWS / 2];
    Fragments a = {};
    for (u32 step = 0; step < steps; step++) {
      u64* empty = multiply_stage<In>(sums, a, ring, shared, step, turns, always);
      // Operands in registers that are written while multiplications are under way make the compiler
      // have all of them wait for each other: the other warpgroup's fill the time.
      turns.pass();
      await_multiplications<0>();
      if (speaks) release_stage<2>(empty);
    }
    UNROLL for (u32 block = 0; block < BLOCKS; block++) settle_sums(sums[block]);
    leave<In>(sums, shared + STAGES * BYTES, place_of(deal, index), c);
  }
  turns.end();
  if (speaks) await_stores<0>();
}

template <class In>
DEVICE void product(const GemmParams& p, const TensorMap* a, const TensorMap* b,
                    const TensorMap* c) {
  u8* shared = dynamic_shared();
  const auto deal = single<ROWS, COLUMNS, 2>(p);
  const u32 steps = tiles_along(p.k, Type<In>::DEPTH);
  const auto fetch = [&](Ring ring) {
    if (warp_number() == 0 && elected()) produce<In>(ring, shared, deal, steps, a, b);
  };
  run_warpgroups<STAGES, 2>(shared + BARRIERS_AT, a, b, c, fetch,
                            [&](Ring ring) { consume<In>(ring, shared, deal, steps, c); });
}

}  // namespace

KERNEL(384, 1) gemm_tf32_wgmma(const GemmParams p, MAP a, MAP b, MAP c) {
  product<tf32>(p, &a, &b, &c);
}
KERNEL(384, 1) gemm_int8_wgmma(const GemmParams p, MAP a, MAP b, MAP c) {
  product<i8>(p, &a, &b, &c);
}
