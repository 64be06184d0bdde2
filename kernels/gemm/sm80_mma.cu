// Matrix products by fragments in registers, as compute capability 8.0 has them: bf16, f16, tf32,
// int8 and f64. Rows of A, B and C must be multiples of 16 bytes; m, n and k are free otherwise.
//
// 8 warps, 2 down and 4 across, make a tile of 128 x 256 (f64: 128 x 128). Along k, 64 bytes of each
// row are a stage; 4 stages are on their way or in use. Stages follow each other through all tiles
// of a block, so that the next tile's operands arrive while this one is written.
//
// In shared memory a row's 16-byte chunks are exchanged by the row's number, so that the loads of
// fragments, which go down rows, meet no bank twice.
#include "chunks.h"
#include "grouped.h"
#include "params.h"
#include "sm80.h"
#include "sources.h"
#include "stream_k.h"
#include "tiles.h"

namespace {

CONSTANT u32 THREADS = 256;
CONSTANT u32 STAGES = 4;
CONSTANT u32 GROUP = 8;
CONSTANT u32 ROWS = 128;
CONSTANT u32 WARP_ROWS = 64;
// Bytes along k of a stage, and of one instruction's operands; one of f64 takes a whole stage.
CONSTANT u32 STAGE_BYTES = 64;
CONSTANT u32 STEP_BYTES = 32;

// What differs between element types. `exchange_a` and `exchange_b`: which chunk of a row is where.
template <class In> struct Type;

// 16-bit: both operands by load_matrices; B is k x n, and transposed on the way.
template <class In> struct Half {
  using Sum = f32;
  using Out = In;
  using A = u32[4];
  using B = u32[2];
  static constexpr u32 COLUMNS = 256;
  static constexpr u32 BYTES = 2;
  static DEVICE_MEMBER u32 exchange_a(u32 row) { return row / 2 % 4; }
  static DEVICE_MEMBER u32 exchange_b(u32 k) { return k % 8; }
};
template <> struct Type<bf16> : Half<bf16> {};
template <> struct Type<f16> : Half<f16> {};

template <> struct Type<tf32> {
  using Sum = f32;
  using Out = f32;
  using A = u32[4];
  using B = u32[2];
  static constexpr u32 COLUMNS = 256;
  static constexpr u32 BYTES = 4;
  static DEVICE_MEMBER u32 exchange_a(u32 row) { return row / 2 % 4; }
  static DEVICE_MEMBER u32 exchange_b(u32 k) { return k % 4 * 2; }
};

template <> struct Type<i8> {
  using Sum = i32;
  using Out = i32;
  using A = u32[4];
  using B = u32[2];
  static constexpr u32 COLUMNS = 256;
  static constexpr u32 BYTES = 1;
  static DEVICE_MEMBER u32 exchange_a(u32 row) { return row / 2 % 4; }
  static DEVICE_MEMBER u32 exchange_b(u32 k) { return k / 4 % 4 * 2; }
};

template <> struct Type<f64> {
  using Sum = f64;
  using Out = f64;
  using A = f64[4];
  using B = f64[2];
  static constexpr u32 COLUMNS = 128;
  static constexpr u32 BYTES = 8;
  static DEVICE_MEMBER u32 exchange_a(u32 row) { return row / 2 % 2 * 2; }
  static DEVICE_MEMBER u32 exchange_b(u32 k) { return k % 4 * 2; }
};

template <class In> struct Layout {
  static constexpr u32 COLUMNS = Type<In>::COLUMNS;
  static constexpr u32 WARP_COLUMNS = COLUMNS / 4;
  // Fragments of 16 rows, and of 8 columns, that a warp has.
  static constexpr u32 DOWN = WARP_ROWS / 16;
  static constexpr u32 ACROSS = WARP_COLUMNS / 8;
  static constexpr u32 DEPTH = STAGE_BYTES / Type<In>::BYTES;
  static constexpr u32 ROW_BYTES_B = COLUMNS * Type<In>::BYTES;
  static constexpr u32 BYTES_A = ROWS * STAGE_BYTES;
  static constexpr u32 BYTES = BYTES_A + DEPTH * ROW_BYTES_B;
};

// Where byte `byte` of a row of a stage stands.
template <class In> DEVICE u32 place_a(u32 stage, u32 row, u32 byte) {
  const u32 chunk = byte / 16 ^ Type<In>::exchange_a(row);
  return stage + row * STAGE_BYTES + chunk * 16 + byte % 16;
}
template <class In> DEVICE u32 place_b(u32 stage, u32 k, u32 byte) {
  const u32 chunk = byte / 16 ^ Type<In>::exchange_b(k);
  return stage + Layout<In>::BYTES_A + k * Layout<In>::ROW_BYTES_B + chunk * 16 + byte % 16;
}

// The stages of a block's tiles, one after the other.
template <class In> struct Walk {
  u32 index, step;

  DEVICE_MEMBER void advance(u32 steps) {
    if (++step < steps) return;
    step = 0;
    index += block_count();
  }
};

// What a thread copies of each stage of A and B.
template <class In> struct Sources {
  using L = Layout<In>;
  static constexpr u32 BYTES = Type<In>::BYTES;
  static constexpr u32 CHUNKS_A = STAGE_BYTES / 16, CHUNKS_B = L::ROW_BYTES_B / 16;
  // From line to line of a thread.
  static constexpr u32 APART_A = THREADS / CHUNKS_A, APART_B = THREADS / CHUNKS_B;
  static constexpr u32 COUNT_A = ROWS / APART_A, COUNT_B = L::DEPTH / APART_B;
  Source a, b;

  DEVICE_MEMBER void start() {
    const u32 thread = thread_index();
    a.to = place_a<In>(0, thread / CHUNKS_A, thread % CHUNKS_A * 16);
    b.to = place_b<In>(0, thread / CHUNKS_B, thread % CHUNKS_B * 16);
  }
  DEVICE_MEMBER void aim(const GemmParams& p, Tile tile, u32 step) {
    const u32 thread = thread_index();
    a.aim(p.a, u64(p.k) * BYTES, tile.row * ROWS + thread / CHUNKS_A,
          step * STAGE_BYTES + thread % CHUNKS_A * 16);
    b.aim(p.b, u64(p.n) * BYTES, step * L::DEPTH + thread / CHUNKS_B,
          tile.column * L::ROW_BYTES_B + thread % CHUNKS_B * 16);
  }
  DEVICE_MEMBER void copy(const GemmParams& p, u32 stage) {
    const u64 pitch_a = u64(p.k) * BYTES, pitch_b = u64(p.n) * BYTES;
    a.template copy<COUNT_A, APART_A, APART_A * STAGE_BYTES>(stage, pitch_a, p.m, p.k * BYTES);
    b.template copy<COUNT_B, APART_B, APART_B * L::ROW_BYTES_B>(stage, pitch_b, p.k, p.n * BYTES);
    a.along(STAGE_BYTES);
    b.down(L::DEPTH, pitch_b);
  }
};

template <class In> DEVICE void load_a(u32 (&a)[4], u32 stage, u32 row, u32 step) {
  const u32 lane = thread_index() % 32;
  load_matrices(a, place_a<In>(stage, row + lane % 16, step * STEP_BYTES + lane / 16 * 16));
}
template <class In> DEVICE void load_a(f64 (&a)[4], u32 stage, u32 row, u32) {
  const u32 g = thread_index() % 32 / 4, t = thread_index() % 4;
  UNROLL for (u32 i = 0; i < 4; i++) {
    a[i] = load_shared(place_a<In>(stage, row + i % 2 * 8 + g, i / 2 * 32 + 8 * t), f64());
  }
}

// Where a lane's first word of a column of B stands. Words further along k stand whole rows behind it, since
// their chunks are exchanged alike. The compiler would make each word's address anew; where it does not know
// how this one came about, the others become offsets of their loads.
template <class In> DEVICE u32 place_of_lane(u32 stage, u32 k, u32 byte) {
  u32 place = place_b<In>(stage, k, byte);
  forget(place);
  return place;
}

// All fragments of B of a warp for one step.
template <class T, u32 ACROSS>
DEVICE void load_b(u32 (&b)[ACROSS][2], u32 stage, u32 column, u32 step, Half<T>) {
  const u32 lane = thread_index() % 32;
  UNROLL for (u32 i = 0; i < ACROSS; i += 2) {
    const u32 byte = (column + 8 * i) * 2 + lane / 16 * 16;
    u32 got[4];
    load_matrices_transposed(got, place_b<T>(stage, step * 16 + lane % 16, byte));
    UNROLL for (u32 r = 0; r < 4; r++) b[i + r / 2][r % 2] = got[r];
  }
}
template <u32 ACROSS>
DEVICE void load_b(u32 (&b)[ACROSS][2], u32 stage, u32 column, u32 step, Type<tf32>) {
  const u32 g = thread_index() % 32 / 4, t = thread_index() % 4;
  UNROLL for (u32 i = 0; i < ACROSS; i++) {
    const u32 from = place_of_lane<tf32>(stage, t, (column + 8 * i + g) * 4);
    UNROLL for (u32 r = 0; r < 2; r++) {
      b[i][r] = load_shared(from + (step * 8 + 4 * r) * Layout<tf32>::ROW_BYTES_B, u32());
    }
  }
}
template <u32 ACROSS>
DEVICE void load_b(f64 (&b)[ACROSS][2], u32 stage, u32 column, u32, Type<f64>) {
  const u32 g = thread_index() % 32 / 4, t = thread_index() % 4;
  UNROLL for (u32 i = 0; i < ACROSS; i++) {
    UNROLL for (u32 half = 0; half < 2; half++) {
      b[i][half] = load_shared(place_b<f64>(stage, half * 4 + t, (column + 8 * i + g) * 8), f64());
    }
  }
}
// Of bytes nothing loads transposed. Four words of four rows, 4 columns each, become four fragments
// by exchanging bytes; column 4g + j of 32 is then column g of fragment j, and `leave` knows it.
template <u32 ACROSS>
DEVICE void load_b(u32 (&b)[ACROSS][2], u32 stage, u32 column, u32 step, Type<i8>) {
  const u32 g = thread_index() % 32 / 4, t = thread_index() % 4;
  UNROLL for (u32 i = 0; i < ACROSS; i += 4) {
    const u32 from = place_of_lane<i8>(stage, 4 * t, column + 8 * i + 4 * g);
    UNROLL for (u32 r = 0; r < 2; r++) {
      u32 rows[4];
      UNROLL for (u32 j = 0; j < 4; j++) {
        const u32 k = step * 32 + 16 * r + j;
        rows[j] = load_shared(from + k * Layout<i8>::ROW_BYTES_B, u32());
      }
      const u32 low[2] = {choose_bytes(rows[0], rows[1], 0x5140),
                          choose_bytes(rows[2], rows[3], 0x5140)};
      const u32 high[2] = {choose_bytes(rows[0], rows[1], 0x7362),
                           choose_bytes(rows[2], rows[3], 0x7362)};
      b[i][r] = choose_bytes(low[0], low[1], 0x5410);
      b[i + 1][r] = choose_bytes(low[0], low[1], 0x7632);
      b[i + 2][r] = choose_bytes(high[0], high[1], 0x5410);
      b[i + 3][r] = choose_bytes(high[0], high[1], 0x7632);
    }
  }
}

// `fetch` asks for a later stage, beside the last multiplications of this one.
template <class In, u32 DOWN, u32 ACROSS, class Fetch>
DEVICE void multiply_stage(typename Type<In>::Sum (&sums)[DOWN][ACROSS][4], u32 stage, Fetch fetch) {
  constexpr u32 STEPS = STAGE_BYTES / (Type<In>::BYTES == 8 ? STAGE_BYTES : STEP_BYTES);
  const u32 warp = thread_index() / 32;
  const u32 row = warp % 2 * WARP_ROWS, column = warp / 2 * Layout<In>::WARP_COLUMNS;
  UNROLL for (u32 step = 0; step < STEPS; step++) {
    typename Type<In>::A a[DOWN];
    typename Type<In>::B b[ACROSS];
    UNROLL for (u32 i = 0; i < DOWN; i++) load_a<In>(a[i], stage, row + 16 * i, step);
    load_b(b, stage, column, step, Type<In>());
    if (step == STEPS - 1) fetch();
    UNROLL for (u32 i = 0; i < DOWN; i++) {
      UNROLL for (u32 j = 0; j < ACROSS; j++) multiply(sums[i][j], a[i], b[j], In());
    }
  }
}

// 16 bytes of a row of sums of a warp: the `chunk`-th that this lane stores, and the column of the warp's
// at which they begin. Of 16 and 32 bits, lanes exchange what they have of some fragments.
template <class T, u32 ACROSS>
DEVICE Vector<u32> chunk_of(const f32 (&sums)[ACROSS][4], u32 half, u32 chunk, u32& column, Half<T>) {
  column = 8 * (4 * chunk + thread_index() % 4);
  return narrow_chunk(sums + 4 * chunk, half, T());
}
template <u32 ACROSS>
DEVICE Vector<u32> chunk_of(const f32 (&sums)[ACROSS][4], u32 half, u32 chunk, u32& column,
                            Type<tf32>) {
  const u32 t = thread_index() % 4;
  Vector<u32> words;
  UNROLL for (u32 i = 0; i < 2; i++) {
    UNROLL for (u32 e = 0; e < 2; e++) {
      words.at[2 * i + e] = bits_of(sums[2 * chunk + i][2 * half + e]);
    }
  }
  exchange_words<1, 2>(words.at);
  column = 8 * (2 * chunk + t % 2) + t / 2 * 4;
  return words;
}
// Fragments 0..3 of 32 columns hold columns 8t + j and 8t + 4 + j: neighbours are this lane's own.
template <u32 ACROSS>
DEVICE Vector<u32> chunk_of(const i32 (&sums)[ACROSS][4], u32 half, u32 chunk, u32& column,
                            Type<i8>) {
  Vector<u32> words;
  UNROLL for (u32 i = 0; i < 4; i++) {
    words.at[i] = u32(sums[chunk / 2 * 4 + i][2 * half + chunk % 2]);
  }
  column = chunk / 2 * 32 + thread_index() % 4 * 8 + chunk % 2 * 4;
  return words;
}
template <u32 ACROSS>
DEVICE Vector<f64> chunk_of(const f64 (&sums)[ACROSS][4], u32 half, u32 chunk, u32& column,
                            Type<f64>) {
  column = 8 * chunk + thread_index() % 4 * 2;
  return {{sums[chunk][2 * half], sums[chunk][2 * half + 1]}};
}

template <class In, u32 DOWN, u32 ACROSS>
DEVICE void leave(const GemmParams& p, Tile tile,
                  const typename Type<In>::Sum (&sums)[DOWN][ACROSS][4]) {
  using Out = typename Type<In>::Out;
  using L = Layout<In>;
  const u32 warp = thread_index() / 32, g = thread_index() % 32 / 4;
  const u32 row_first = tile.row * ROWS + warp % 2 * WARP_ROWS + g;
  const u32 column_first = tile.column * L::COLUMNS + warp / 2 * L::WARP_COLUMNS;
  UNROLL for (u32 i = 0; i < DOWN; i++) {
    UNROLL for (u32 half = 0; half < 2; half++) {
      const u32 row = row_first + 16 * i + 8 * half;
      Out* to = static_cast<Out*>(p.c) + (u64(row) * p.n + column_first);
      // Four lanes store a row's.
      UNROLL for (u32 c = 0; c < L::WARP_COLUMNS * sizeof(Out) / 64; c++) {
        u32 column;
        auto chunk = chunk_of(sums[i], half, c, column, Type<In>());
        if (row >= p.m || column_first + column >= p.n) continue;
        store(reinterpret_cast<decltype(chunk)*>(to + column), chunk);
      }
    }
  }
}

template <class In, class Groups> DEVICE Tile tile_of(const Groups& groups, u32 index) {
  return tile_at<GROUP>(groups.within(index), groups.rows, groups.columns);
}

template <class In, class Groups> DEVICE void product(Groups groups) {
  using L = Layout<In>;
  constexpr u32 BYTES = Type<In>::BYTES, BYTES_OUT = sizeof(typename Type<In>::Out);
  const u32 shared = shared_address(dynamic_shared());
  const u32 steps = tiles_along(groups.p.k, L::DEPTH);
  Walk<In> fetched = {block_index(), 0};
  // What is fetched may be of a later group than what is multiplied.
  Groups ahead = groups;
  Sources<In> sources;
  sources.start();
  bool there = false;
  u32 filled = 0;
  auto fetch_next = [&] {
    if (fetched.step == 0) {
      there = ahead.seek(fetched.index);
      if (there) {
        sources.aim(ahead.template product<BYTES, BYTES_OUT>(), tile_of<In>(ahead, fetched.index), 0);
      }
    }
    if (there) {
      sources.copy(ahead.template product<BYTES, BYTES_OUT>(), shared + filled * L::BYTES);
      fetched.advance(steps);
    }
    // Closed even where it is empty: groups are counted.
    close_copies();
    filled = (filled + 1) % STAGES;
  };
  for (u32 i = 0; i < STAGES - 1; i++) fetch_next();
  u32 stage = 0;
  for (u32 index = block_index(); groups.seek(index); index += block_count()) {
    typename Type<In>::Sum sums[L::DOWN][L::ACROSS][4] = {};
    for (u32 step = 0; step < steps; step++) {
      await_copies<STAGES - 2>();
      block_barrier();
      multiply_stage<In>(sums, shared + stage * L::BYTES, fetch_next);
      stage = (stage + 1) % STAGES;
    }
    leave<In>(groups.template product<BYTES, BYTES_OUT>(), tile_of<In>(groups, index), sums);
  }
}

// The same with tiles that several blocks share where there are not enough of them for all.
template <class In> DEVICE void shared_product(const GemmParams& p, f32* scratch) {
  using L = Layout<In>;
  constexpr u32 SUMS = L::DOWN * L::ACROSS * 4;
  SHARED u32 told[1];
  const u32 shared = shared_address(dynamic_shared());
  const u32 rows = tiles_along(p.m, ROWS), columns = tiles_along(p.n, L::COLUMNS);
  const Line line = line_of(rows * columns, tiles_along(p.k, L::DEPTH));
  Stretch fetched = first_stretch(line);
  Sources<In> sources;
  sources.start();
  u32 aimed = ~0u, filled = 0;
  auto fetch_next = [&] {
    if (fetched.there(line)) {
      // A block's next stretch is of another tile.
      if (fetched.index != aimed) {
        aimed = fetched.index;
        sources.aim(p, tile_at<GROUP>(aimed, rows, columns), fetched.step);
      }
      sources.copy(p, shared + filled * L::BYTES);
      fetched.advance(line);
    }
    close_copies();
    filled = (filled + 1) % STAGES;
  };
  for (u32 i = 0; i < STAGES - 1; i++) fetch_next();
  u32 stage = 0;
  for (Stretch now = first_stretch(line); now.there(line); now.pass(line)) {
    f32 sums[L::DOWN][L::ACROSS][4] = {};
    for (u32 step = now.step; step < now.end; step++) {
      await_copies<STAGES - 2>();
      block_barrier();
      multiply_stage<In>(sums, shared + stage * L::BYTES, fetch_next);
      stage = (stage + 1) % STAGES;
    }
    if (now.end - now.step < line.steps) {
      const Sharers<SUMS, THREADS, 1> sharers = {scratch, told, 0, thread_index()};
      const auto sum = [&](u32 i) -> f32& {
        return sums[i / 4 / L::ACROSS][i / 4 % L::ACROSS][i % 4];
      };
      const auto meet = [] { block_barrier(); };
      if (!sharers.complete(line, now.index, now.step, now.end, sum, meet)) continue;
    }
    leave<In>(p, tile_at<GROUP>(now.index, rows, columns), sums);
  }
}

template <class In> DEVICE void one_product(const GemmParams& p) {
  product<In>(single<ROWS, Layout<In>::COLUMNS>(p));
}
template <class In> DEVICE void all_products(const GroupedParams& p) {
  product<In>(grouped<ROWS, Layout<In>::COLUMNS>(p));
}

}  // namespace

KERNEL(256, 1) gemm_bf16_mma(const GemmParams p) { one_product<bf16>(p); }
KERNEL(256, 1) gemm_f16_mma(const GemmParams p) { one_product<f16>(p); }
KERNEL(256, 1) gemm_tf32_mma(const GemmParams p) { one_product<tf32>(p); }
KERNEL(256, 1) gemm_int8_mma(const GemmParams p) { one_product<i8>(p); }
KERNEL(256, 1) gemm_f64_mma(const GemmParams p) { one_product<f64>(p); }
KERNEL(256, 1) grouped_bf16_mma(const GroupedParams p) { all_products<bf16>(p); }
KERNEL(256, 1) grouped_f16_mma(const GroupedParams p) { all_products<f16>(p); }
KERNEL(256, 1) gemm_bf16_mma_stream_k(const GemmParams p, f32* scratch) {
  shared_product<bf16>(p, scratch);
}
