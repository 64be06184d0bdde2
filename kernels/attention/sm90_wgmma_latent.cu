// Latent decode by warpgroups (after FlashMLA, DeepSeek, 2025): up to 64 rows (heads) that share one
// latent of 576, which is the key of all of them and whose first 512 are the value, through the keys
// of a worker's parts (attention_parts.h).
//
// Sums of 64 x 512 fill the registers of two warpgroups: each has 256 columns of them. Tiles of keys
// come in pairs. The first warpgroup makes scores and weights of the first tile of a pair, the second
// those of the second, and each leaves its weights in shared memory for the other: both multiply both
// tiles, each with its own columns of the values. The second makes its scores while the first is
// at its own, and its weights under the multiplication of the first tile's; while it does so the first
// warpgroup multiplies. What a row's weights are relative to goes from one to the other with them.
//
// Keys may stand in pages of any size, so that two warps for each of the two tiles look every token up
// and ask for 16 bytes each; while one tile is in use, the other is on its way. Of an 8-bit cache each
// of their threads makes 16-bit floats of what it itself had copied, which is exact.
#include "attention_parts.h"
#include "attention_wgmma.h"
#include "sm89.h"

namespace {

// Q and O, the elements of the multiplications and of the cache.
template <class Q, class M, class C, u32 KEYS> struct Latent90 {
  static constexpr bool NARROW = sizeof(C) == 1;
  static constexpr u32 DIM_QK = 576, DIM_V = 512, MINE = DIM_V / 2;
  static constexpr u32 GROUP = 128, CONSUMERS = 2 * GROUP, TILES = 2, LOADERS = GROUP / TILES;
  static constexpr u32 ROW_BYTES = DIM_QK * sizeof(C), CHUNKS = ROW_BYTES / 16;
  // Copies of one thread for a tile.
  static constexpr u32 COPIES = KEYS * CHUNKS / LOADERS;
  // Rows of 128 bytes: 64 dimensions of the queries, of a tile, the weights of a tile.
  static constexpr u32 PANELS = DIM_QK / 64, PANEL = KEYS * 128, QUERY_PANEL = PART_ROWS * 128;
  static constexpr u32 QUERIES = PANELS * QUERY_PANEL, TILE = PANELS * PANEL;
  // Tiles of an 8-bit cache as they come: for each of the two one in use, one on its way.
  static constexpr u32 RAW = KEYS * ROW_BYTES, RAW_TILES = NARROW ? 2 * TILES : 0;
  static constexpr u32 AT_RAW = QUERIES + TILES * TILE, AT_WEIGHTS = AT_RAW + RAW_TILES * RAW;
  static constexpr u32 AT_SHARES = AT_WEIGHTS + QUERY_PANEL;
  // Numbers of barriers of some threads.
  static constexpr u32 TOGETHER = 1, READY = 2, OWN = 4, LOOKED_UP = 6;

  // What the warpgroups tell each other, by row: what weights are relative to, what the sums are to
  // be multiplied with before a tile's are added, the sums of either's weights.
  struct Shares { f32 max[PART_ROWS], factors[TILES][PART_ROWS], totals[TILES][PART_ROWS]; };
  static constexpr u32 SHARED_BYTES = AT_SHARES + sizeof(Shares);
  static_assert(SHARED_BYTES <= 226 << 10, "shared memory of a block, but for its barriers");

  struct Shared {
    u64 full[TILES], empty[TILES];
    // Tokens of a tile's keys; of an 8-bit cache those of two tiles in turn.
    u32 tokens[TILES][NARROW ? 2 * KEYS : KEYS];
    u32 told;
  };
  struct Consumers {
    DEVICE_MEMBER void operator()() const { barrier_of<CONSUMERS>(TOGETHER); }
  };

  static DEVICE_MEMBER u8* tile_at(u32 index) {
    return dynamic_shared() + QUERIES + index % TILES * TILE;
  }
  static DEVICE_MEMBER Shares& shares() {
    return *reinterpret_cast<Shares*>(dynamic_shared() + AT_SHARES);
  }
  // Where 16 bytes of a row stand; `chunk` counts 16-bit elements by 8.
  template <u32 BYTES> static DEVICE_MEMBER u8* place(u8* start, u32 row, u32 chunk) {
    return start + chunk / 8 * BYTES + row * 128 + (chunk % 8 ^ row % 8) * 16;
  }

  // --- The warpgroup that copies.

  // Where this thread's copy `i` of a tile comes first.
  static DEVICE_MEMBER u8* landing(u32 index, u32 i) {
    const u32 chunk = i * LOADERS + thread_index() % LOADERS;
    if constexpr (NARROW) return dynamic_shared() + AT_RAW + index % RAW_TILES * RAW + chunk * 16;
    else return place<PANEL>(tile_at(index), chunk / CHUNKS, chunk % CHUNKS);
  }
  static DEVICE_MEMBER void fetch(const AttentionParams& p, const AttentionSequence& sequence,
                                  const AttentionPart& part, u32 from, u32 index, Shared& shared) {
    u32* tokens = shared.tokens[index % TILES] + (NARROW ? index / TILES % 2 * KEYS : 0);
    const u32 mine = thread_index() % LOADERS;
    if (mine < KEYS && from + mine < part.key_end) {
      tokens[mine] = u32(key_token(p, sequence, from + mine));
    }
    barrier_of<LOADERS>(LOOKED_UP + index % TILES);
#pragma unroll 6
    for (u32 i = 0; i < COPIES; i++) {
      const u32 chunk = i * LOADERS + mine, row = chunk / CHUNKS;
      const bool there = from + row < part.key_end;
      const u64 token = there ? tokens[row] : 0;
      const u64 at = (token * p.kv_heads + part.kv_head) * ROW_BYTES + chunk % CHUNKS * 16;
      copy_async(shared_address(landing(index, i)), static_cast<const u8*>(p.k) + at,
                 there ? 16 : 0);
    }
    close_copies();
  }
  static DEVICE_MEMBER void widen_tile(u32 index) {
#pragma unroll 3
    for (u32 i = 0; i < COPIES; i++) {
      const u32 chunk = i * LOADERS + thread_index() % LOADERS;
      const Vector<u32> narrow = load_chunk<u32>(landing(index, i));
      UNROLL for (u32 half = 0; half < 2; half++) {
        Vector<u32> wide;
        UNROLL for (u32 w = 0; w < 4; w++) {
          wide.at[w] = widen_pair(narrow.at[2 * half + w / 2] >> 16 * (w % 2), f16());
        }
        u8* to = place<PANEL>(tile_at(index), chunk / CHUNKS, chunk % CHUNKS * 2 + half);
        store_chunk(to, wide);
      }
    }
  }
  static DEVICE_MEMBER void await_empty(Shared& shared, u32 index) {
    await_phase(&shared.empty[index % TILES], index / TILES % 2 ^ 1);
  }
  // Hands a tile over whose copies by this thread are done.
  static DEVICE_MEMBER void show(Shared& shared, u32 index) {
    if constexpr (NARROW) {
      await_empty(shared, index);
      widen_tile(index);
    }
    show_to_copies();
    arrive(&shared.full[index % TILES]);
  }
  // Two warps take every second tile.
  static DEVICE_MEMBER void produce(const AttentionParams& p, Shared& shared) {
    const u32 turn = thread_index() % GROUP / LOADERS;
    u32 index = 0;
    for (u32 worker = block_index(); worker < p.workers; worker += block_count()) {
      for (u32 i = p.part_firsts[worker]; i < p.part_firsts[worker + 1]; i++) {
        const AttentionPart part = p.parts[i];
        const AttentionSequence sequence = p.sequences[part.sequence];
        for (u32 from = part.key_first; from < part.key_end; from += KEYS) {
          const u32 tile = index++;
          if (tile % TILES != turn) continue;
          if constexpr (NARROW) {
            fetch(p, sequence, part, from, tile, shared);
            if (tile < TILES) continue;
            await_copies<1>();
            show(shared, tile - TILES);
          } else {
            await_empty(shared, tile);
            fetch(p, sequence, part, from, tile, shared);
            await_copies<0>();
            show(shared, tile);
          }
        }
      }
    }
    if constexpr (NARROW) {
      await_copies<0>();
      // The last of this turn's tiles.
      if (index > turn) show(shared, index - 1 - (index - 1 - turn) % TILES);
    }
  }

  // --- The warpgroups that multiply.

  // What a warpgroup knows of a part's rows, and its columns of their sums.
  struct Rows {
    f32 sums[MINE / 2];
    Softmax softmax;
    u32 group, seen[2], seen_by_all;
    bool there;

    // The first of the thread's two rows, 8 apart.
    static DEVICE_MEMBER u32 row() {
      return thread_index() % GROUP / 32 * 16 + thread_index() % 32 / 4;
    }

    DEVICE_MEMBER void start(const AttentionParams& p, const AttentionPart& part,
                             const AttentionSequence& sequence, u32 rows) {
      const u32 heads = p.heads / p.kv_heads;
      softmax = no_softmax();
      UNROLL for (u32 i = 0; i < MINE / 2; i++) sums[i] = 0.0f;
      there = thread_index() % GROUP / 32 * 16 < rows;
      seen_by_all = smaller(keys_seen(p, sequence, part.row_first / heads), part.key_end);
      UNROLL for (u32 half = 0; half < 2; half++) {
        const u32 at = row() + 8 * half;
        seen[half] = at < rows ? keys_seen(p, sequence, (part.row_first + at) / heads) : 0;
        seen[half] = smaller(seen[half], part.key_end);
      }
    }

    static DEVICE_MEMBER void release(Shared& shared, u32 index) {
      warp_barrier();
      if (thread_index() % 32 == 0) arrive(&shared.empty[index % TILES]);
    }

    DEVICE_MEMBER void score(f32 (&scores)[KEYS / 2], Shared& shared, u32 index) const {
      const u32 queries = shared_address(dynamic_shared()), keys = shared_address(tile_at(index));
      await_phase(&shared.full[index % TILES], index / TILES % 2);
      begin_multiplications();
      UNROLL for (u32 step = 0; step < DIM_QK / 16; step++) {
        multiply_scores(scores, describe_k_major(queries + step / 4 * QUERY_PANEL + step % 4 * 32),
                        describe_k_major(keys + step / 4 * PANEL + step % 4 * 32), step > 0, M());
      }
      close_multiplications();
      await_multiplications<0>();
      settle_sums(scores);
    }
    DEVICE_MEMBER void weigh(u32 (&weights)[KEYS / 16][4], f32 (&scores)[KEYS / 2], u32 from,
                             f32 factor) {
      if (there) {
        if (from + KEYS > seen_by_all) mask_scores(scores, from, seen);
        weigh_scores(scores, softmax, factor);
      }
      pack_weights<M>(weights, scores);
    }
    // Leaves weights, and what they are relative to, for the other warpgroup.
    DEVICE_MEMBER void publish(const u32 (&weights)[KEYS / 16][4]) const {
      const u32 lane = thread_index() % 32;
      const u32 at = thread_index() % GROUP / 32 * 16 + lane / 8 % 2 * 8 + lane % 8;
      // Nobody of this warpgroup multiplies any more by the weights that stand there.
      barrier_of<GROUP>(OWN + group);
      UNROLL for (u32 step = 0; step < KEYS / 16; step++) {
        u8* to = place<QUERY_PANEL>(dynamic_shared() + AT_WEIGHTS, at, 2 * step + lane / 16);
        store_matrices(shared_address(to), weights[step]);
      }
      if (lane % 4 == 0) {
        UNROLL for (u32 half = 0; half < 2; half++) {
          shares().max[row() + 8 * half] = softmax.max[half];
          shares().factors[group][row() + 8 * half] = softmax.correction[half];
        }
      }
      show_to_copies();
    }
    // What the other's weights are relative to; sums and weights so far follow.
    DEVICE_MEMBER void follow() {
      UNROLL for (u32 half = 0; half < 2; half++) {
        softmax.max[half] = shares().max[row() + 8 * half];
        softmax.correction[half] = shares().factors[1 - group][row() + 8 * half];
        softmax.total[half] *= softmax.correction[half];
      }
      correct_sums(sums, softmax);
    }

    // Values of this warpgroup's columns.
    DEVICE_MEMBER u64 values(u32 index, u32 step) const {
      const u32 at = shared_address(tile_at(index)) + group * (MINE / 64 * PANEL);
      return describe_mn_major(at + step * 2048, PANEL);
    }
    DEVICE_MEMBER void add_own(const u32 (&weights)[KEYS / 16][4], Shared& shared, u32 index) {
      correct_sums(sums, softmax);
      begin_multiplications();
      UNROLL for (u32 step = 0; step < KEYS / 16; step++) {
        multiply_values(sums, weights[step], values(index, step), 1, M());
      }
      close_multiplications();
      await_multiplications<0>();
      settle_sums(sums);
      release(shared, index);
    }
    DEVICE_MEMBER void ask_others(u32 index) {
      const u32 weights = shared_address(dynamic_shared() + AT_WEIGHTS);
      begin_multiplications();
      UNROLL for (u32 step = 0; step < KEYS / 16; step++) {
        multiply_tiles(sums, describe_k_major(weights + step * 32), values(index, step), 1, M());
      }
      close_multiplications();
    }
    DEVICE_MEMBER void await_others(Shared& shared, u32 index) {
      await_multiplications<0>();
      settle_sums(sums);
      release(shared, index);
    }

    // A pair of tiles, the second of which may not be there, by the first warpgroup.
    DEVICE_MEMBER void attend_first(Shared& shared, u32 index, u32 from, u32 end, f32 factor) {
      f32 scores[KEYS / 2];
      u32 weights[KEYS / 16][4];
      score(scores, shared, index);
      weigh(weights, scores, from, factor);
      publish(weights);
      come_to_barrier<CONSUMERS>(READY);
      add_own(weights, shared, index);
      if (from + KEYS >= end) return;
      barrier_of<CONSUMERS>(READY + 1);
      follow();
      await_phase(&shared.full[(index + 1) % TILES], (index + 1) / TILES % 2);
      ask_others(index + 1);
      await_others(shared, index + 1);
    }
    // The same by the second.
    DEVICE_MEMBER void attend_second(Shared& shared, u32 index, u32 from, u32 end, f32 factor) {
      f32 scores[KEYS / 2] = {};
      u32 weights[KEYS / 16][4];
      const bool both = from + KEYS < end;
      if (both) score(scores, shared, index + 1);
      barrier_of<CONSUMERS>(READY);
      follow();
      await_phase(&shared.full[index % TILES], index / TILES % 2);
      ask_others(index);
      if (both) weigh(weights, scores, from + KEYS, factor);
      await_others(shared, index);
      if (!both) return;
      publish(weights);
      come_to_barrier<CONSUMERS>(READY + 1);
      add_own(weights, shared, index + 1);
    }

    DEVICE_MEMBER void leave(const AttentionParams& p, const AttentionPart& part,
                             const AttentionSequence& sequence, u32 rows) {
      const u32 t = thread_index() % 4;
      UNROLL for (u32 half = 0; half < 2; half++) {
        f32 total = softmax.total[half];
        total += shuffle_xor(total, 1);
        total += shuffle_xor(total, 2);
        if (t == 0) shares().totals[group][row() + 8 * half] = total;
      }
      barrier_of<CONSUMERS>(TOGETHER);
      // The columns' offsets are known beforehand: few addresses.
      UNROLL for (u32 half = 0; half < 2; half++) {
        const u32 at = row() + 8 * half, column = group * MINE + 2 * t;
        if (at >= rows) continue;
        const f32 total = shares().totals[0][at] + shares().totals[1][at];
        if (part.slots == 1) {
          const f32 share = total > 0.0f ? 1.0f / total : 0.0f;
          Q* to = static_cast<Q*>(p.o) + output_row(p, part, sequence, at) * DIM_V + column;
          UNROLL for (u32 i = 0; i < MINE / 2; i += 4) {
            *reinterpret_cast<u32*>(to + 2 * i) =
                narrow_pair(sums[i + 2 * half] * share, sums[i + 2 * half + 1] * share, Q());
          }
        } else {
          f32* to = p.scratch + part.slot * slot_words(DIM_V) + at * (DIM_V + 2);
          UNROLL for (u32 i = 0; i < MINE / 2; i += 4) {
            UNROLL for (u32 c = 0; c < 2; c++) to[column + 2 * i + c] = sums[i + 2 * half + c];
          }
          if (group == 0 && t == 0) {
            to[DIM_V] = softmax.max[half];
            to[DIM_V + 1] = total;
          }
        }
      }
    }
  };

  static DEVICE_MEMBER void consume(const AttentionParams& p, Shared& shared) {
    const Consumers together;
    const f32 factor = p.scale * LOG2_E;
    u32 index = 0;
    for (u32 worker = block_index(); worker < p.workers; worker += block_count()) {
      for (u32 i = p.part_firsts[worker]; i < p.part_firsts[worker + 1]; i++) {
        const AttentionPart part = p.parts[i];
        const AttentionSequence sequence = p.sequences[part.sequence];
        const u32 rows = part_rows(p, part, sequence);
        load_part_queries<M, Q, NARROW, PART_ROWS, DIM_QK, CONSUMERS>(
            p, part, sequence, rows,
            [](u32 row, u32 chunk) { return place<QUERY_PANEL>(dynamic_shared(), row, chunk); });
        show_to_copies();
        together();
        Rows mine;
        mine.group = thread_index() / GROUP;
        mine.start(p, part, sequence, rows);
        const u32 end = part.key_end;
        for (u32 from = part.key_first; from < end; from += TILES * KEYS) {
          if (mine.group == 0) mine.attend_first(shared, index, from, end, factor);
          else mine.attend_second(shared, index, from, end, factor);
          index += from + KEYS < end ? 2 : 1;
        }
        mine.leave(p, part, sequence, rows);
        combine_if_last<Q, CONSUMERS>(p, part, sequence, &shared.told, together);
        together();
      }
    }
  }

  static DEVICE_MEMBER void all(const AttentionParams& p) {
    SHARED Shared shared;
    if (thread_index() == 0) {
      for (u32 i = 0; i < TILES; i++) {
        make_barrier(&shared.full[i], LOADERS);
        // One thread of each warp that multiplies.
        make_barrier(&shared.empty[i], CONSUMERS / 32);
      }
      barriers_made();
    }
    block_barrier();
    if (thread_index() < CONSUMERS) {
      take_registers<216>();
      consume(p, shared);
    } else {
      keep_registers<72>();
      produce(p, shared);
    }
  }
};

}  // namespace

KERNEL(384, 1) attention_mla_bf16_wgmma(const AttentionParams p) {
  Latent90<bf16, bf16, bf16, 64>::all(p);
}
KERNEL(384, 1) attention_mla_f16_wgmma(const AttentionParams p) {
  Latent90<f16, f16, f16, 64>::all(p);
}
KERNEL(384, 1) attention_mla_fp8_wgmma(const AttentionParams p) {
  Latent90<bf16, f16, e4m3, 32>::all(p);
}
