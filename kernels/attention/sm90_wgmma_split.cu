// Split decode by warpgroups: up to 64 rows that share a head of K and V (the query heads of its
// group, of one query or a few) are the 64 rows of a warpgroup's multiplication; the keys of a
// worker's parts come 64 at a time (attention_parts.h).
//
// One warpgroup copies: keys and values may stand in pages of any size, so that its threads ask for
// 16 bytes each, tiles ahead of those that are in use, from one part to the next without a pause.
// Tokens are looked up once a tile, a tile ahead (attention_copies.h). Two warpgroups take the tiles in
// turn, each with sums of its own: one makes weights while the other multiplies. Their sums are added at
// the end of a part. Warps whose rows are not there make no weights.
//
// Of an 8-bit cache another warpgroup makes 16-bit floats of each tile while the next are copied and
// those before are multiplied, which is exact; queries are of 16 bits.
#include "attention_copies.h"
#include "attention_parts.h"
#include "attention_wgmma.h"
#include "sm89.h"

namespace {

// Q and O, the elements of the multiplications and of the cache.
template <class Q, class M, class C, u32 DIM> struct Split90 {
  static constexpr bool NARROW = sizeof(C) == 1;
  static constexpr u32 KEYS = 64, GROUP = 128, CONSUMERS = 2 * GROUP;
  static constexpr u32 ROW_BYTES = DIM * sizeof(C);
  // Copies of 16 bytes beside each other make 64 dimensions of a row, so that no two lanes that store
  // at once meet in a bank, nor do they when they store what they have widened.
  static constexpr u32 ACROSS = NARROW ? 4 : 8;
  using Tokens = TileTokens<KEYS, GROUP, ACROSS>;
  // 64 rows of 128 bytes: 64 dimensions of a tile's keys, or of its values, or of the queries.
  static constexpr u32 PANELS = DIM / 64, PANEL = 64 * 128, TILE = PANELS * PANEL;
  // As many bytes on their way whatever the dimensions are: 96 KiB, or half of it of 8-bit floats.
  static constexpr u32 AHEAD = 3 * 128 / DIM, STAGES = (NARROW ? 3 : 5) * 128 / DIM;
  // Tiles of an 8-bit cache as they come, the values behind the keys.
  static constexpr u32 RAW = KEYS * ROW_BYTES, RAW_STAGES = NARROW ? AHEAD + 2 : 0;
  // What one warpgroup leaves for the other: the sums and 4 words of each thread.
  static constexpr u32 WORDS = DIM / 2 + 4, EXCHANGE = WORDS * GROUP * 4;
  static constexpr u32 AT_EXCHANGE = TILE + STAGES * 2 * TILE;
  static constexpr u32 AT_RAW = AT_EXCHANGE + EXCHANGE;
  static constexpr u32 SHARED_BYTES = AT_RAW + RAW_STAGES * 2 * RAW;
  static_assert(NARROW || STAGES > AHEAD, "a tile is shown before its place is wanted again");
  static_assert(SHARED_BYTES <= 226 << 10, "shared memory of a block, but for its barriers");

  struct Barriers {
    u64 full[STAGES], empty[STAGES];
    u64 raw_full[NARROW ? RAW_STAGES : 1], raw_empty[NARROW ? RAW_STAGES : 1];
  };
  struct Consumers {
    DEVICE_MEMBER void operator()() const { barrier_of<CONSUMERS>(1); }
  };

  static DEVICE_MEMBER u8* stage_at(u32 index) {
    return dynamic_shared() + TILE + index % STAGES * (2 * TILE);
  }
  // Where 16 bytes of a row stand; `chunk` counts 16-bit elements by 8.
  static DEVICE_MEMBER u8* place(u8* tile, u32 row, u32 chunk) {
    return tile + chunk / 8 * PANEL + row * 128 + (chunk % 8 ^ row % 8) * 16;
  }

  // --- The warpgroup that copies.

  // Where 16 bytes of a thread's row `i` of a tile's keys (0) or values (1) come first: `piece` counts
  // 64 dimensions.
  static DEVICE_MEMBER u8* landing(u32 index, u32 values, u32 i, u32 piece) {
    static_assert(Tokens::AT_ONCE % 8 == 0, "a thread's rows have their chunks alike");
    const u32 lane = thread_index() % ACROSS, row = Tokens::row();
    if constexpr (NARROW) {
      u8* raw = dynamic_shared() + AT_RAW + index % RAW_STAGES * (2 * RAW) + row * 64 + lane * 16;
      return raw + values * RAW + piece * (KEYS * 64) + i * (Tokens::AT_ONCE * 64);
    } else {
      u8* first = stage_at(index) + row * 128 + (lane ^ row % 8) * 16;
      return first + values * TILE + piece * PANEL + i * (Tokens::AT_ONCE * 128);
    }
  }

  static DEVICE_MEMBER void fetch(const AttentionParams& p, const AttentionPart& part,
                                  Tokens& tokens, u32 from, u32 index) {
    u32 found[Tokens::EACH];
    tokens.take(p, found);
    const u32 row_step = p.kv_heads * ROW_BYTES;
    const u32 column = part.kv_head * ROW_BYTES + thread_index() % ACROSS * 16;
    UNROLL for (u32 i = 0; i < Tokens::EACH; i++) {
      const u32 row = Tokens::row() + i * Tokens::AT_ONCE;
      const u32 bytes = from + row < part.key_end ? 16 : 0;
      const u64 at = u64(found[i]) * row_step + column;
      UNROLL for (u32 piece = 0; piece < PANELS; piece++) {
        const u64 there = at + piece * (ROW_BYTES / PANELS);
        copy_async(shared_address(landing(index, 0, i, piece)),
                   static_cast<const u8*>(p.k) + there, bytes);
        copy_async(shared_address(landing(index, 1, i, piece)),
                   static_cast<const u8*>(p.v) + there, bytes);
      }
    }
  }

  static DEVICE_MEMBER void await_empty(Barriers& barriers, u32 index) {
    if constexpr (NARROW) {
      await_phase(&barriers.raw_empty[index % RAW_STAGES], index / RAW_STAGES % 2 ^ 1);
    } else {
      await_phase(&barriers.empty[index % STAGES], index / STAGES % 2 ^ 1);
    }
  }
  // Hands a tile over whose copies by this thread are done.
  static DEVICE_MEMBER void show(Barriers& barriers, u32 index) {
    if constexpr (NARROW) {
      arrive(&barriers.raw_full[index % RAW_STAGES]);
    } else {
      show_to_copies();
      arrive(&barriers.full[index % STAGES]);
    }
  }

  static DEVICE_MEMBER void produce(const AttentionParams& p, Barriers& barriers) {
    u32 fetched = 0, shown = 0;
    for (u32 worker = block_index(); worker < p.workers; worker += block_count()) {
      for (u32 i = p.part_firsts[worker]; i < p.part_firsts[worker + 1]; i++) {
        const AttentionPart part = p.parts[i];
        Tokens tokens;
        tokens.start(p, p.sequences[part.sequence], part.key_first, part.key_end);
        for (u32 from = part.key_first; from < part.key_end; from += KEYS) {
          await_empty(barriers, fetched);
          fetch(p, part, tokens, from, fetched);
          close_copies();
          fetched++;
          if (fetched > AHEAD) {
            await_copies<AHEAD>();
            show(barriers, shown++);
          }
        }
      }
    }
    await_copies<0>();
    while (shown < fetched) show(barriers, shown++);
  }

  // --- The warpgroup that widens an 8-bit cache.

  // All of a thread's part is loaded before any of it is stored: the compiler keeps loads behind stores,
  // and each would wait for its own load alone.
  static DEVICE_MEMBER void widen_tile(u32 index) {
    constexpr u32 COUNT = Tokens::EACH * PANELS;
    Vector<u32> narrow[2 * COUNT];
    UNROLL for (u32 i = 0; i < 2 * COUNT; i++) {
      const u32 piece = i % COUNT;
      narrow[i] = load_chunk<u32>(landing(index, i / COUNT, piece / PANELS, piece % PANELS));
    }
    UNROLL for (u32 i = 0; i < 2 * COUNT; i++) {
      const u32 piece = i % COUNT, row = Tokens::row() + piece / PANELS * Tokens::AT_ONCE;
      UNROLL for (u32 half = 0; half < 2; half++) {
        Vector<u32> wide;
        UNROLL for (u32 w = 0; w < 4; w++) {
          wide.at[w] = widen_pair(narrow[i].at[2 * half + w / 2] >> 16 * (w % 2), f16());
        }
        const u32 chunk = piece % PANELS * 8 + thread_index() % ACROSS * 2 + half;
        store_chunk(place(stage_at(index) + i / COUNT * TILE, row, chunk), wide);
      }
    }
  }
  static DEVICE_MEMBER void widen_all(const AttentionParams& p, Barriers& barriers) {
    u32 index = 0;
    for (u32 worker = block_index(); worker < p.workers; worker += block_count()) {
      for (u32 i = p.part_firsts[worker]; i < p.part_firsts[worker + 1]; i++) {
        const u32 first = p.parts[i].key_first, end = p.parts[i].key_end;
        for (u32 from = first; from < end; from += KEYS) {
          await_phase(&barriers.raw_full[index % RAW_STAGES], index / RAW_STAGES % 2);
          await_phase(&barriers.empty[index % STAGES], index / STAGES % 2 ^ 1);
          widen_tile(index);
          show_to_copies();
          arrive(&barriers.full[index % STAGES]);
          arrive(&barriers.raw_empty[index % RAW_STAGES]);
          index++;
        }
      }
    }
  }

  // --- The warpgroups that multiply.

  // What a warpgroup knows of a part's rows.
  struct Rows {
    f32 sums[DIM / 2];
    Softmax softmax;
    Sight sight;
    bool there;

    DEVICE_MEMBER void start(const AttentionParams& p, const AttentionPart& part,
                             const AttentionSequence& sequence, u32 rows) {
      const u32 first = thread_index() % GROUP / 32 * 16;
      softmax = no_softmax();
      UNROLL for (u32 i = 0; i < DIM / 2; i++) sums[i] = 0.0f;
      there = first < rows;
      sight.start(p, part, sequence, first + thread_index() % 32 / 4, rows);
    }

    DEVICE_MEMBER void attend(Barriers& barriers, u32 index, u32 from, f32 factor) {
      const u32 tile = warp_uniform(shared_address(stage_at(index)));
      const u64 queries = describe_k_major(shared_address(dynamic_shared()));
      const u64 keys = describe_k_major(tile), values = describe_mn_major(tile + TILE, PANEL);
      f32 scores[KEYS / 2];
      u32 weights[KEYS / 16][4] = {};
      await_phase(&barriers.full[index % STAGES], index / STAGES % 2);
      begin_multiplications();
      UNROLL for (u32 step = 0; step < DIM / 16; step++) {
        const u32 at = step / 4 * PANEL + step % 4 * 32;
        multiply_scores(scores, further(queries, at), further(keys, at), step > 0, M());
      }
      close_multiplications();
      await_multiplications<0>();
      settle_sums(scores);
      if (there) {
        sight.template mask<KEYS>(scores, from);
        weigh_scores(scores, softmax, factor);
        correct_sums(sums, softmax);
        pack_weights<M>(weights, scores);
      }
      begin_multiplications();
      UNROLL for (u32 step = 0; step < KEYS / 16; step++) {
        multiply_values(sums, weights[step], further(values, step * 2048), 1, M());
      }
      close_multiplications();
      await_multiplications<0>();
      settle_sums(sums);
      warp_barrier();
      if (thread_index() % 32 == 0) arrive(&barriers.empty[index % STAGES]);
    }

    // The second warpgroup's share comes to the first.
    DEVICE_MEMBER f32* word(u32 which) const {
      f32* words = reinterpret_cast<f32*>(dynamic_shared() + AT_EXCHANGE);
      return words + which * GROUP + thread_index() % GROUP;
    }
    DEVICE_MEMBER void give() const {
      UNROLL for (u32 i = 0; i < DIM / 2; i++) *word(i) = sums[i];
      UNROLL for (u32 half = 0; half < 2; half++) {
        *word(DIM / 2 + half) = softmax.max[half];
        *word(DIM / 2 + 2 + half) = softmax.total[half];
      }
    }
    DEVICE_MEMBER void take() {
      UNROLL for (u32 half = 0; half < 2; half++) {
        const f32 other = *word(DIM / 2 + half), largest = larger(softmax.max[half], other);
        const f32 base = largest == no_score() ? 0.0f : largest;
        const f32 mine = power_of_two(softmax.max[half] - base);
        const f32 others = power_of_two(other - base);
        softmax.max[half] = largest;
        softmax.total[half] = fused(others, *word(DIM / 2 + 2 + half), mine * softmax.total[half]);
        UNROLL for (u32 i = 2 * half; i < DIM / 2; i += 4) {
          UNROLL for (u32 c = 0; c < 2; c++) {
            sums[i + c] = fused(others, *word(i + c), mine * sums[i + c]);
          }
        }
      }
    }

    DEVICE_MEMBER void leave(const AttentionParams& p, const AttentionPart& part,
                             const AttentionSequence& sequence, u32 rows) const {
      const u32 t = thread_index() % 4;
      UNROLL for (u32 half = 0; half < 2; half++) {
        f32 total = softmax.total[half];
        total += shuffle_xor(total, 1);
        total += shuffle_xor(total, 2);
        const u32 row = thread_index() % GROUP / 32 * 16 + thread_index() % 32 / 4 + 8 * half;
        if (row >= rows) continue;
        const bool alone = part.slots == 1;
        const f32 share = total > 0.0f ? 1.0f / total : 0.0f;
        if (!alone && t == 0) leave_share(p, part, DIM, row, softmax.max[half], total);
        Q* to = static_cast<Q*>(p.o) + output_row(p, part, sequence, row) * DIM + 2 * t;
        f32* slot = p.scratch + part.slot * slot_words(DIM) + row * DIM + 2 * t;
        UNROLL for (u32 i = 0; i < DIM / 2; i += 4) {
          const f32 low = sums[i + 2 * half], high = sums[i + 2 * half + 1];
          if (alone) *reinterpret_cast<u32*>(to + 2 * i) = narrow_pair(low * share, high * share, Q());
          else *reinterpret_cast<Pair*>(slot + 2 * i) = {low, high};
        }
      }
    }
  };

  static DEVICE_MEMBER void consume(const AttentionParams& p, Barriers& barriers, u32* told) {
    const u32 group = thread_index() / GROUP;
    const Consumers together;
    u32 index = 0;
    for (u32 worker = block_index(); worker < p.workers; worker += block_count()) {
      for (u32 i = p.part_firsts[worker]; i < p.part_firsts[worker + 1]; i++) {
        const AttentionPart part = p.parts[i];
        const AttentionSequence sequence = p.sequences[part.sequence];
        const u32 rows = part_rows(p, part, sequence);
        load_part_queries<M, Q, NARROW, PART_ROWS, DIM, CONSUMERS>(
            p, part, sequence, rows,
            [](u32 row, u32 chunk) { return place(dynamic_shared(), row, chunk); });
        show_to_copies();
        together();
        Rows mine;
        mine.start(p, part, sequence, rows);
        u32 turn = 0;
        for (u32 from = part.key_first; from < part.key_end; from += KEYS) {
          if (turn == group) mine.attend(barriers, index, from, p.scale * LOG2_E);
          turn ^= 1;
          index++;
        }
        if (group == 1) mine.give();
        together();
        if (group == 0) {
          mine.take();
          mine.leave(p, part, sequence, rows);
        }
        // Whether this is the last part that this block works on.
        const bool idle = worker + block_count() >= p.workers && i + 1 == p.part_firsts[worker + 1];
        combine_if_complete<Q, DIM, CONSUMERS, true>(p, part, sequence, told, idle, together);
        together();
      }
    }
  }

  static DEVICE_MEMBER void all(const AttentionParams& p) {
    SHARED Barriers barriers;
    SHARED u32 told[2];
    if (thread_index() == 0) {
      for (u32 i = 0; i < STAGES; i++) {
        make_barrier(&barriers.full[i], GROUP);
        // One thread of each warp of the warpgroup whose turn it was.
        make_barrier(&barriers.empty[i], 4);
      }
      for (u32 i = 0; NARROW && i < RAW_STAGES; i++) {
        make_barrier(&barriers.raw_full[i], GROUP);
        make_barrier(&barriers.raw_empty[i], GROUP);
      }
      barriers_made();
    }
    block_barrier();
    if constexpr (NARROW) {
      if (thread_index() < CONSUMERS) {
        take_registers<168>();
        consume(p, barriers, told);
      } else if (thread_index() < CONSUMERS + GROUP) {
        keep_registers<72>();
        produce(p, barriers);
      } else {
        keep_registers<104>();
        widen_all(p, barriers);
      }
    } else {
      if (thread_index() < CONSUMERS) {
        take_registers<216>();
        consume(p, barriers, told);
      } else {
        keep_registers<72>();
        produce(p, barriers);
      }
    }
  }
};

}  // namespace

#define DECODE(THREADS, NAME, Q, M, C, DIM)                                                       \
  KERNEL(THREADS, 1) attention_decode_##NAME##_##DIM##_wgmma(const AttentionParams p) {               \
    Split90<Q, M, C, DIM>::all(p);                                                                \
  }

DECODE(384, bf16, bf16, bf16, bf16, 64)
DECODE(384, bf16, bf16, bf16, bf16, 128)
DECODE(384, f16, f16, f16, f16, 64)
DECODE(384, f16, f16, f16, f16, 128)
DECODE(512, fp8, bf16, f16, e4m3, 64)
DECODE(512, fp8, bf16, f16, e4m3, 128)

#undef DECODE
