// Matrix products by warpgroups, of tf32 and int8. From shared memory the multiplication takes these
// types only with k along the rows of both operands, and rows of B are along n. So the product is
// turned: C' = B' A', whose left operand may come from registers. The rows of A are its right operand
// as they stand; of B each thread loads what it has to hold, words of tf32 as they are, bytes after
// exchanging them four by four. Which rows of B' a warp takes for which is free, and chosen so that
// no two threads want the same bank. Rows must be multiples of 16 bytes.
//
// Otherwise as in sm90_wgmma.cu: tiles of 128 x 256 (m x n), 128 bytes of each row of A along k are
// a stage, four in a ring; one thread has them copied, two warpgroups multiply 128 columns of C
// each. A warp has 32 columns and writes them by itself, 16 rows at a time.
#include "params.h"
#include "sm90_attention.h"
#include "tiles.h"

namespace {

CONSTANT u32 ROWS = 128;
CONSTANT u32 COLUMNS = 256;
CONSTANT u32 STAGES = 4;
CONSTANT u32 GROUP = 8;
CONSTANT u32 CONSUMERS = 2;
CONSTANT u32 BYTES_A = ROWS * 128;
// 128 bytes along k of 256 columns.
CONSTANT u32 BYTES_B = COLUMNS * 128;
CONSTANT u32 BYTES = BYTES_A + BYTES_B;
// 16 rows of 32 words, two for each warp.
CONSTANT u32 PART = 16;
CONSTANT u32 BUFFER_BYTES = PART * 128;
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

struct Ring {
  u64* full;
  u64* empty;
  u32 stage, parity;

  DEVICE_MEMBER void advance() {
    if (++stage < STAGES) return;
    stage = 0;
    parity ^= 1;
  }
};

struct Work {
  u32 rows, columns, steps;
};

// Has stage after stage copied, through all tiles.
template <class In>
DEVICE void produce(Ring ring, u8* shared, Work work, const TensorMap* a, const TensorMap* b) {
  using T = Type<In>;
  for (u32 index = block_index(); index < work.rows * work.columns; index += block_count()) {
    const Tile tile = tile_at<GROUP>(index, work.rows, work.columns);
    for (u32 step = 0; step < work.steps; step++) {
      await_phase(&ring.empty[ring.stage], ring.parity ^ 1);
      u64* full = &ring.full[ring.stage];
      u8* to = shared + ring.stage * BYTES;
      arrive_expecting(full, BYTES);
      tile_load(to, a, step * T::DEPTH, tile.row * ROWS, full);
      UNROLL for (u32 box = 0; box < COLUMNS / T::BOX_COLUMNS; box++) {
        tile_load(to + BYTES_A + box * T::BOX_BYTES, b,
                  tile.column * COLUMNS + box * T::BOX_COLUMNS, step * T::DEPTH, full);
      }
      ring.advance();
    }
  }
}

// Has a stage multiplied; gives its barrier for when it has been. The operands in `a` must stay until
// then.
template <class In>
DEVICE u64* multiply_stage(typename Type<In>::Sum (&sums)[BLOCKS][ROWS / 2], Fragments& a,
                           Ring& ring, u8* shared, u32 accumulate) {
  const u32 warp = thread_index() / 32 - 4;
  await_phase(&ring.full[ring.stage], ring.parity);
  const u32 stage = shared_address(shared) + ring.stage * BYTES;
  Type<In>::load(a, stage + BYTES_A, warp);
  begin_multiplications();
  UNROLL for (u32 step = 0; step < STEPS; step++) {
    UNROLL for (u32 block = 0; block < BLOCKS; block++) {
      multiply_left(sums[block], a[step][block], describe_k_major(stage + step * 32),
                    accumulate + step, In());
    }
  }
  close_multiplications();
  u64* empty = &ring.empty[ring.stage];
  ring.advance();
  return empty;
}

// Writes a warp's 32 columns, 16 rows at a time.
template <class In>
DEVICE void leave(const typename Type<In>::Sum (&sums)[BLOCKS][ROWS / 2], u8* buffers, Tile tile,
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

template <class In> DEVICE void consume(Ring ring, u8* shared, Work work, const TensorMap* c) {
  const bool speaks = thread_index() % 32 == 0;
  for (u32 index = block_index(); index < work.rows * work.columns; index += block_count()) {
    typename Type<In>::Sum sums[BLOCKS][ROWS / 2];
    Fragments a;
    for (u32 step = 0; step < work.steps; step++) {
      u64* empty = multiply_stage<In>(sums, a, ring, shared, step);
      // Operands in registers that are written while multiplications are under way make the compiler
      // have all of them wait for each other: the other warpgroup's fill the time.
      await_multiplications<0>();
      if (speaks) arrive(empty);
    }
    UNROLL for (u32 block = 0; block < BLOCKS; block++) settle_sums(sums[block]);
    leave<In>(sums, shared + STAGES * BYTES, tile_at<GROUP>(index, work.rows, work.columns), c);
  }
  if (speaks) await_stores<0>();
}

template <class In>
DEVICE void product(const GemmParams& p, const TensorMap* a, const TensorMap* b,
                    const TensorMap* c) {
  SHARED u64 barriers[2 * STAGES];
  u8* shared = dynamic_shared();
  const Ring ring = {barriers, barriers + STAGES, 0, 0};
  const Work work = {tiles_along(p.m, ROWS), tiles_along(p.n, COLUMNS),
                     tiles_along(p.k, Type<In>::DEPTH)};
  if (thread_index() == 0) {
    for (u32 stage = 0; stage < STAGES; stage++) {
      make_barrier(&ring.full[stage], 1);
      // One thread of each warp of the consumers.
      make_barrier(&ring.empty[stage], CONSUMERS * 4);
    }
    barriers_made();
    prefetch_map(a);
    prefetch_map(b);
    prefetch_map(c);
  }
  block_barrier();
  if (thread_index() < 128) {
    keep_registers<40>();
    if (thread_index() == 0) produce<In>(ring, shared, work, a, b);
  } else {
    take_registers<232>();
    consume<In>(ring, shared, work, c);
  }
}

}  // namespace

KERNEL(384, 1) gemm_tf32_wgmma(const GemmParams p, MAP a, MAP b, MAP c) {
  product<tf32>(p, &a, &b, &c);
}
KERNEL(384, 1) gemm_int8_wgmma(const GemmParams p, MAP a, MAP b, MAP c) {
  product<i8>(p, &a, &b, &c);
}
