// Products for groups of rows into tensor memory, the experts of a mixture: tiles of 128 x 256 by one block,
// counted through the groups by the table of their first rows (`grouped.h`). Rows of A and B must be multiples
// of 128 bytes, so that no stage reaches into the next group's k.
#pragma once
#include "grouped.h"
#include "sm100_unscaled.h"

using Groups = Grouped<ROWS, COLUMNS>;

// Calls `make(groups, tile)` for each tile of each group that this block makes.
template <class Make> DEVICE void for_each_of_groups(Groups groups, Make make) {
  const u32 height = group_height(ROWS, COLUMNS, block_count());
  for (u32 index = block_index(); groups.seek(index); index += block_count()) {
    make(groups, tile_at(groups.within(index), groups.rows, groups.columns, height));
  }
}

// Has stage after stage copied, through all tiles. A box of A may have rows of the next group, whose sums are
// not stored.
template <class In, class Ring>
DEVICE void produce_groups(Ring ring, u8* shared, Groups all, u32 steps, const TensorMap* a,
                           const TensorMap* b) {
  for_each_of_groups(all, [&](const Groups& groups, Tile tile) {
    const u32 column = Type<In>::column_of(groups.group, all.p.n) + tile.column * COLUMNS;
    copy_stages<In, 1, COLUMNS>(ring, shared, steps, groups.first + tile.row * ROWS, column,
                                Type<In>::stage_of(groups.group, steps), a, b);
  });
}

template <class In, class Ring>
DEVICE void multiply_groups(Ring ring, Sums sums, u32 memory, u8* shared, Groups all, u32 steps) {
  for_each_of_groups(all, [&](const Groups&, Tile) {
    await_phase(&sums.empty[sums.at], sums.parity ^ 1);
    see_tensor_memory();
    multiply_stages<In, 1, COLUMNS>(ring, memory + sums.at * COLUMNS, shared, steps);
    arrive_when_multiplied<1>(&sums.full[sums.at]);
    sums.advance();
  });
}

// Writes those of a tile's rows that a group has, where the next group's follow: each thread its own row.
template <class Out>
DEVICE void write_some(u32 from, const GemmParams& of_group, u32 first, u32 column_first) {
  const u32 thread = thread_index() % WRITERS, row = first + thread;
  Out* to = static_cast<Out*>(of_group.c) + u64(row) * of_group.n;
  for (u32 part = 0; part < COLUMNS; part += 32) {
    f32 values[32];
    load_sums(values, from + (thread / 32 * 32 << 16) + part);
    UNROLL for (u32 i = 0; i < 4; i++) {
      const u32 column = column_first + part + i * 8;
      const Vector<u32> chunk = chunk_of(values, i, Out());
      const bool there = row < of_group.m && column < of_group.n;
      if (there) store(reinterpret_cast<Vector<u32>*>(to + column), chunk);
    }
  }
}

template <class Out>
DEVICE void write_groups(Sums sums, u32 memory, u8* buffers, Groups all, const TensorMap* c) {
  u32 next = 0;
  for_each_of_groups(all, [&](const Groups& groups, Tile tile) {
    await_phase(&sums.full[sums.at], sums.parity);
    see_tensor_memory();
    const GemmParams of_group = groups.template product<1, sizeof(Out)>();
    const u32 from = memory + sums.at * COLUMNS, first = tile.row * ROWS;
    const auto freed = [&] { give_place<1>(sums); };
    if (of_group.m - first < ROWS) {
      write_some<Out>(from, of_group, first, tile.column * COLUMNS);
      freed();
    } else {
      write_tile<Out>(from, buffers, next, COLUMNS * sizeof(Out) / 128, tile.column * COLUMNS,
                      groups.first + first, c, freed);
    }
    sums.advance();
  });
  if (thread_index() % WRITERS == 0) await_stores<0>();
}

template <class In>
DEVICE void product_of_groups(const GroupedParams& p, const TensorMap* a, const TensorMap* b,
                              const TensorMap* c) {
  using S = Stage<1>;
  u8* shared = dynamic_shared();
  u8* buffers = shared + S::COUNT * S::BYTES;
  u64* barriers = reinterpret_cast<u64*>(buffers + BUFFERS * BUFFER_BYTES);
  const S::Ring ring = {barriers, barriers + S::COUNT, 0, 0};
  const Sums sums = {barriers + 2 * S::COUNT, barriers + 2 * S::COUNT + 2, 0, 0};
  u32* memory_at = reinterpret_cast<u32*>(barriers + 2 * S::COUNT + 4);
  const Groups groups = grouped<ROWS, COLUMNS>(p);
  const u32 steps = tiles_along(p.k, Type<In>::DEPTH);
  if (thread_index() == 0) {
    prefetch_map(a);
    prefetch_map(b);
    prefetch_map(c);
  }
  with_tensor_memory<1>(
      ring, sums, S::COUNT, memory_at, [&] { produce_groups<In>(ring, shared, groups, steps, a, b); },
      [&](u32 memory) { multiply_groups<In>(ring, sums, memory, shared, groups, steps); },
      [&](u32 memory) { write_groups<typename Type<In>::Out>(sums, memory, buffers, groups, c); });
}
