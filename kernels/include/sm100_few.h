// Matrix products of few rows into tensor memory, as decoding makes them: B row by row (nn) or
// column by column (nt), of fp8 (e4m3) always column by column. B is read once, and the kernel is to take no longer than memory needs for it. Rows must
// be multiples of 16 bytes.
//
// A multiplication has 128 rows or more. So the product is made turned, transposed C = transposed B times
// transposed A: 128 columns of B are the multiplication's rows, and the rows of A, 16 to 256, its columns.
// Lanes of tensor memory are then columns of C, and its columns are rows of C.
//
// One thread has stages of 128 bytes along k copied by tensor maps, 128 columns of B and all rows of A, in a
// ring of 192 to 224 KiB; one thread of another warp has them multiplied; four warps write the sums.
//
// SPLIT 1: each block makes whole tiles of 128 columns, and the ring runs on from tile to tile. SPLIT 2 or 4:
// the blocks of a cluster make one tile, each a part of k. Each adds up a part of the rows, whose sums the
// others send through the network between units: no fence of the device's memory is needed.
#pragma once
#include "params.h"
#include "sm100_product.h"

CONSTANT u32 COLUMNS = 128;
CONSTANT u32 ROW_BYTES = 128;
CONSTANT u32 BYTES_B = COLUMNS * ROW_BYTES;
// The sums of a row of a tile, one for each column.
CONSTANT u32 LINE_BYTES = COLUMNS * 4;
// Of shared memory, before the barriers.
CONSTANT u32 ROOM = 224 << 10;

// Tiles of FEW rows of C that SPLIT blocks make together.
template <u32 FEW, u32 SPLIT> struct Shape {
  static constexpr u32 ROWS = FEW, SHARERS = SPLIT;
  static constexpr u32 BYTES = BYTES_B + FEW * ROW_BYTES;
  static constexpr u32 SUMS_BYTES = FEW * LINE_BYTES;
  // Rows that one block of a cluster leaves, and their sums.
  static constexpr u32 PART = FEW / SPLIT, PART_BYTES = PART * LINE_BYTES;
  // Sums of whole tiles stand behind the ring, which is then in use. The blocks of a cluster exchange theirs in
  // the memory of the ring: first all of a block's own, behind them those that the others send it.
  static constexpr u32 STAGES = (SPLIT == 1 ? ROOM - SUMS_BYTES : ROOM) / BYTES;
  static constexpr u32 SUMS_AT = SPLIT == 1 ? STAGES * BYTES : 0;
  static constexpr u32 BARRIERS_AT = ROOM;
  // Rows of sums that a thread takes from tensor memory at once.
  static constexpr u32 AT_ONCE = FEW < 32 ? FEW : 32;
  using Ring = PhaseRing<STAGES>;
  static_assert(SUMS_BYTES + (SPLIT - 1) * PART_BYTES <= ROOM && SUMS_AT + SUMS_BYTES <= ROOM, "room");
};

// Rows of B are along n, 128 bytes of each in a box. `TYPE` and `SUMS` as instruct takes them.
template <class In, class To, class Added, u32 TYPE, u32 SUMS> struct RowByRow {
  using Out = To;
  using Sum = Added;
  using Element = In;
  static constexpr u32 DEPTH = ROW_BYTES / sizeof(In);
  static constexpr u32 BOX_BYTES = DEPTH * ROW_BYTES;
  static constexpr u32 PART_B = DEPTH / 4 * ROW_BYTES;
  static DEVICE_MEMBER constexpr u32 instruction(u32 few) {
    return with_a_mn_major(instruct(TYPE, 0, COLUMNS, few, SUMS));
  }
  static DEVICE_MEMBER void load_b(u8* to, const TensorMap* b, u32 column, u32 step, u64* full) {
    UNROLL for (u32 box = 0; box < COLUMNS / DEPTH; box++) {
      tile_load(to + box * BOX_BYTES, b, column + box * DEPTH, step * DEPTH, full);
    }
  }
  static DEVICE_MEMBER u64 describe_b(u32 stage) {
    return describe_for_tensor_memory(describe_mn_major(stage, BOX_BYTES));
  }
};
template <class In> struct Type;
template <> struct Type<f16> : RowByRow<f16, f16, f32, 0, 1> {};
template <> struct Type<bf16> : RowByRow<bf16, bf16, f32, 1, 1> {};
template <> struct Type<tf32> : RowByRow<tf32, u32, f32, 2, 1> {
  static DEVICE_MEMBER u64 describe_b(u32 stage) { return describe_words_mn_major(stage, BOX_BYTES); }
};
template <> struct Type<i8> : RowByRow<i8, u32, u32, 1, 2> {};
// Columns of B are along k.
template <class In, class To, u32 TYPE> struct ColumnByColumn {
  using Out = To;
  using Sum = f32;
  using Element = In;
  static constexpr u32 DEPTH = ROW_BYTES / sizeof(In), PART_B = 32;
  static DEVICE_MEMBER constexpr u32 instruction(u32 few) { return instruct(TYPE, 0, COLUMNS, few); }
  static DEVICE_MEMBER void load_b(u8* to, const TensorMap* b, u32 column, u32 step, u64* full) {
    tile_load(to, b, step * DEPTH, column, full);
  }
  static DEVICE_MEMBER u64 describe_b(u32 stage) {
    return describe_for_tensor_memory(describe_k_major(stage));
  }
};
template <> struct Type<e4m3> : ColumnByColumn<e4m3, bf16, 0> {};
template <> struct Type<AlongK<f16>> : ColumnByColumn<f16, f16, 0> {};
template <> struct Type<AlongK<bf16>> : ColumnByColumn<bf16, bf16, 1> {};

// What a block makes: tiles of all columns, and of each the stages from `first` to `end`.
struct Part { u32 tiles, first, end; };

// Calls `make(tile)` for each tile of a block; of a cluster it is one.
template <u32 SPLIT, class Make> DEVICE void for_each_tile(Part part, Make make) {
  if constexpr (SPLIT > 1) {
    make(block_index() / SPLIT);
  } else {
    for (u32 tile = block_index(); tile < part.tiles; tile += block_count()) make(tile);
  }
}

// Has stage after stage copied.
template <class In, class S, class Ring>
DEVICE void produce(Ring ring, u8* shared, Part part, const TensorMap* a, const TensorMap* b) {
  for_each_tile<S::SHARERS>(part, [&](u32 tile) {
    for (u32 step = part.first; step < part.end; step++) {
      await_phase(&ring.empty[ring.at], ring.parity ^ 1);
      u64* full = &ring.full[ring.at];
      u8* to = shared + ring.at * S::BYTES;
      arrive_expecting(full, S::BYTES);
      Type<In>::load_b(to, b, tile * COLUMNS, step, full);
      tile_load(to + BYTES_B, a, step * Type<In>::DEPTH, 0, full);
      ring.advance();
    }
  });
}

// Has stage after stage multiplied, as multiply_all of sm100_unscaled.h.
template <class In, class S, class Ring>
DEVICE void multiply_all(Ring ring, Sums sums, u32 memory, u8* shared, Part part) {
  for_each_tile<S::SHARERS>(part, [&](u32) {
    await_phase(&sums.empty[sums.at], sums.parity ^ 1);
    see_tensor_memory();
    for (u32 step = part.first; step < part.end; step++) {
      await_phase(&ring.full[ring.at], ring.parity);
      see_tensor_memory();
      const u32 at = shared_address(shared) + ring.at * S::BYTES;
      const u64 b = Type<In>::describe_b(at);
      const u64 a = describe_for_tensor_memory(describe_k_major(at + BYTES_B));
      UNROLL for (u32 quarter = 0; quarter < 4; quarter++) {
        multiply_into<1>(memory + sums.at * S::ROWS, further(b, quarter * Type<In>::PART_B),
                         further(a, quarter * 32), Type<In>::instruction(S::ROWS),
                         quarter > 0 ? 1 : step - part.first,
                         typename Type<In>::Element());
      }
      arrive_when_multiplied<1>(&ring.empty[ring.at]);
      ring.advance();
    }
    arrive_when_multiplied<1>(&sums.full[sums.at]);
    sums.advance();
  });
}

DEVICE u32 added(u32 a, u32 b, f32) { return bits_of(float_of(a) + float_of(b)); }
DEVICE u32 added(u32 a, u32 b, u32) { return a + b; }

// Four sums of neighbouring columns, narrowed, or as they are (u32).
template <class Out> DEVICE void leave(void* c, u64 at, Vector<u32> sums, Out type) {
  const u32 low = narrow_pair(float_of(sums.at[0]), float_of(sums.at[1]), type);
  const u32 high = narrow_pair(float_of(sums.at[2]), float_of(sums.at[3]), type);
  *reinterpret_cast<u64*>(static_cast<Out*>(c) + at) = u64(high) << 32 | low;
}
DEVICE void leave(void* c, u64 at, Vector<u32> sums, u32) {
  store(reinterpret_cast<Vector<u32>*>(static_cast<u32*>(c) + at), sums);
}

// Puts this thread's column of a tile's sums into shared memory, row after row. Of a part of k without
// stages nothing was multiplied.
template <class S> DEVICE void keep(u8* buffer, u32 thread, u32 column, bool made) {
  const u32 to = shared_address(buffer) + thread * 4;
  for (u32 first = 0; first < S::ROWS; first += S::AT_ONCE) {
    f32 values[S::AT_ONCE] = {};
    if (S::SHARERS == 1 || made) load_sums(values, column + first);
    UNROLL for (u32 i = 0; i < S::AT_ONCE; i++) {
      store_word(to + (first + i) * LINE_BYTES, bits_of(values[i]));
    }
  }
}

// At which row of sums stand those that block `from` of the cluster has of block `own`'s part.
template <class S> DEVICE u32 place_of_part(u32 own, u32 from) {
  if (from == own) return own * S::PART;
  return S::ROWS + (from - (from > own ? 1 : 0)) * S::PART;
}
// Has the others' parts copied to them.
template <class S> DEVICE void send(u8* buffer, u64* gathered, u32 own) {
  for (u32 to = 0; to < S::SHARERS; to++) {
    if (to == own) continue;
    bulk_copy_in_cluster(buffer + place_of_part<S>(to, own) * LINE_BYTES,
                         buffer + to * S::PART_BYTES, S::PART_BYTES, gathered, to);
  }
}

// Adds up a block's part of the rows, in the order of blocks, and writes it: neighbouring threads have
// neighbouring columns, four each.
template <class In, class S>
DEVICE void write_part(const GemmParams& p, const u8* buffer, u32 thread, u32 tile, u32 own) {
  UNROLL for (u32 i = 0; i < S::PART * 32 / WRITERS; i++) {
    const u32 line = i * (WRITERS / 32) + thread / 32, row = own * S::PART + line;
    const u32 column = tile * COLUMNS + thread % 32 * 4;
    Vector<u32> sums = {};
    UNROLL for (u32 from = 0; from < S::SHARERS; from++) {
      const u32 at = (place_of_part<S>(own, from) + line) * LINE_BYTES + thread % 32 * 16;
      const Vector<u32> got = load_chunk<u32>(buffer + at);
      UNROLL for (u32 e = 0; e < 4; e++) {
        sums.at[e] = from == 0 ? got.at[e] : added(sums.at[e], got.at[e], typename Type<In>::Sum());
      }
    }
    if (row < p.m && column < p.n) leave(p.c, u64(row) * p.n + column, sums, typename Type<In>::Out());
  }
}

// Writes tile after tile, or a block's part of one.
template <class In, class S>
DEVICE void write_tiles(Sums sums, u32 memory, u8* buffer, u64* gathered, Part part,
                        const GemmParams& p) {
  const u32 thread = thread_index() % WRITERS, lanes = thread / 32 * 32 << 16;
  const u32 own = S::SHARERS > 1 ? cluster_place() : 0;
  for_each_tile<S::SHARERS>(part, [&](u32 tile) {
    await_phase(&sums.full[sums.at], sums.parity);
    see_tensor_memory();
    keep<S>(buffer, thread, memory + lanes + sums.at * S::ROWS, part.end > part.first);
    show_tensor_memory();
    arrive(&sums.empty[sums.at]);
    if constexpr (S::SHARERS > 1) show_to_copies();
    barrier_of<WRITERS>(1);
    if constexpr (S::SHARERS > 1) {
      // The rings of the others are read, too: what is sent to them takes their place.
      cluster_barrier_relaxed();
      if (thread == 0) send<S>(buffer, gathered, own);
      await_phase(gathered, 0);
    }
    write_part<In, S>(p, buffer, thread, tile, own);
    // The buffer is read before the next tile's sums come.
    if constexpr (S::SHARERS == 1) barrier_of<WRITERS>(1);
    sums.advance();
  });
}

template <class In, u32 FEW, u32 SPLIT>
DEVICE void few_rows(const GemmParams& p, const TensorMap* a, const TensorMap* b) {
  using S = Shape<FEW, SPLIT>;
  u8* shared = dynamic_shared();
  u64* barriers = reinterpret_cast<u64*>(shared + S::BARRIERS_AT);
  const typename S::Ring ring = {barriers, barriers + S::STAGES, 0, 0};
  const Sums sums = {barriers + 2 * S::STAGES, barriers + 2 * S::STAGES + 2, 0, 0};
  u64* gathered = barriers + 2 * S::STAGES + 4;
  u32* memory_at = reinterpret_cast<u32*>(gathered + 1);
  const u32 steps = tiles_along(p.k, Type<In>::DEPTH), own = SPLIT > 1 ? cluster_place() : 0;
  const Part part = {tiles_along(p.n, COLUMNS), steps * own / SPLIT, steps * (own + 1) / SPLIT};
  if (thread_index() == 0) {
    prefetch_map(a);
    prefetch_map(b);
    if constexpr (SPLIT > 1) {
      make_barrier(gathered, 1);
      arrive_expecting(gathered, (SPLIT - 1) * S::PART_BYTES);
    }
  }
  const auto meet = [] {
    if constexpr (SPLIT > 1) cluster_barrier_relaxed();
  };
  with_tensor_memory<1, SPLIT>(
      ring, sums, S::STAGES, memory_at, [&] { produce<In, S>(ring, shared, part, a, b); },
      [&](u32 memory) { multiply_all<In, S>(ring, sums, memory, shared, part); },
      [&](u32 memory) {
        write_tiles<In, S>(sums, memory, shared + S::SUMS_AT, gathered, part, p);
      },
      meet);
}
