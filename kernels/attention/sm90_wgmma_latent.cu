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
// A tile comes in panels of 64 dimensions, each with a barrier of its own: the first product starts on
// the first of them. Three sets of panels are given back each by itself, as soon as nobody multiplies by
// them any more: the last 64 dimensions after the scores, the values of either warpgroup's columns after
// that warpgroup's product. Two warps fill each of the two tiles. Where all keys of a tile stand
// together (in one piece, or in pages of whole tiles), one thread asks for each panel by a box of the
// tensor map; else, and at the end of a part, threads ask for 16 bytes each, and tokens are looked up
// once a tile, a tile ahead (attention_copies.h).
//
// Of an 8-bit cache each copying thread makes 16-bit floats of what it itself had copied, which is
// exact; there while one tile is in use, the other is on its way. The first warpgroup then asks for the scores of
// the next pair behind its last sums of this one, so that the unit need not wait between two pairs.
#include "attention_copies.h"
#include "attention_parts.h"
#include "attention_wgmma.h"
#include "sm89.h"

namespace {

// Number of the barrier of the two warps that fill a tile, and of the other two.
CONSTANT u32 LOADED = 6;

// Q and O, the elements of the multiplications and of the cache.
template <class Q, class M, class C, u32 KEYS> struct Latent90 {
  static constexpr bool NARROW = sizeof(C) == 1;
  static constexpr u32 DIM_QK = 576, DIM_V = 512, MINE = DIM_V / 2;
  static constexpr u32 GROUP = 128, CONSUMERS = 2 * GROUP, TILES = 2, LOADERS = GROUP / TILES;
  static constexpr u32 ROW_BYTES = DIM_QK * sizeof(C);
  // Copies of 16 bytes beside each other make 64 dimensions of a row, so that no two lanes that store
  // at once meet in a bank, nor do they when they store what they have widened.
  static constexpr u32 ACROSS = NARROW ? 4 : 8;
  using Tokens = TileTokens<KEYS, LOADERS, ACROSS>;
  // Rows of 128 bytes: 64 dimensions of the queries, of a tile, the weights of a tile.
  static constexpr u32 PANELS = DIM_QK / 64, PANEL = KEYS * 128, QUERY_PANEL = PART_ROWS * 128;
  static constexpr u32 QUERIES = PANELS * QUERY_PANEL, TILE = PANELS * PANEL;
  // Tiles of an 8-bit cache as they come: for each of the two one in use, one on its way.
  static constexpr u32 RAW = KEYS * ROW_BYTES, RAW_TILES = NARROW ? 2 * TILES : 0;
  static constexpr u32 AT_RAW = QUERIES + TILES * TILE, AT_WEIGHTS = AT_RAW + RAW_TILES * RAW;
  static constexpr u32 AT_SHARES = AT_WEIGHTS + QUERY_PANEL;
  // Panels of a tile with a barrier of their own.
  static constexpr u32 FULL = NARROW ? 1 : PANELS;
  // Sets of panels that are given back together: the values of each warpgroup, and the last
  // 64 dimensions, which are keys alone.
  static constexpr u32 SETS = 3, NO_VALUE = 2;
  // Numbers of barriers of some threads.
  static constexpr u32 TOGETHER = 1, READY = 2, OWN = 4;

  // What the warpgroups tell each other, by row: what weights are relative to, what the sums are to
  // be multiplied with before a tile's are added, the sums of either's weights.
  struct Shares { f32 max[PART_ROWS], factors[TILES][PART_ROWS], totals[TILES][PART_ROWS]; };
  static constexpr u32 SHARED_BYTES = AT_SHARES + sizeof(Shares);
  static_assert(SHARED_BYTES <= 226 << 10, "shared memory of a block, but for its barriers");

  struct Shared {
    u64 full[TILES][FULL], empty[TILES][SETS];
    u32 told[2];
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

  // The order in which panels are copied and multiplied: first the one that is given back first.
  static DEVICE_MEMBER u32 panel_of(u32 step) { return (step + PANELS - 1) % PANELS; }
  // The set that a panel belongs to, and whether it is the first of it to come.
  static DEVICE_MEMBER u32 set_of(u32 panel) { return panel / (MINE / 64); }
  static DEVICE_MEMBER bool opens_set(u32 panel) { return panel % (MINE / 64) == 0; }

  // --- The warpgroup that copies.

  static DEVICE_MEMBER void await_empty(Shared& shared, u32 index, u32 set) {
    await_phase(&shared.empty[index % TILES][set], index / TILES % 2 ^ 1);
  }
  static DEVICE_MEMBER bool leads() { return thread_index() % LOADERS == 0; }
  // Whether keys of whole tiles stand together, and one arrival tells that a panel is there. Under a
  // window, or chunks, parts may begin within a page's tile.
  static DEVICE_MEMBER bool come_by_boxes(const AttentionParams& p) {
    const bool whole = p.page % KEYS == 0 && p.window == 0 && p.chunk == 0;
    return !NARROW && (p.pages == nullptr || whole);
  }

  // A tile by boxes, from `token` on; by one thread.
  static DEVICE_MEMBER void fetch_boxes(const AttentionPart& part, const TensorMap* map, u32 token,
                                        u32 index, Shared& shared) {
    UNROLL for (u32 step = 0; step < PANELS; step++) {
      const u32 panel = panel_of(step);
      if (opens_set(panel)) await_empty(shared, index, set_of(panel));
      u64* full = &shared.full[index % TILES][panel % FULL];
      arrive_expecting(full, PANEL);
      tile_load(tile_at(index) + panel * PANEL, map, part.kv_head * DIM_QK + panel * 64, token,
                full);
    }
  }

  // Where 16 bytes of a thread's row `i` of a tile come first; `panel` counts 64 dimensions.
  static DEVICE_MEMBER u8* landing(u32 index, u32 i, u32 panel) {
    static_assert(Tokens::AT_ONCE % 8 == 0, "a thread's rows have their chunks alike");
    const u32 lane = thread_index() % ACROSS, row = Tokens::row();
    if constexpr (NARROW) {
      u8* raw = dynamic_shared() + AT_RAW + index % RAW_TILES * RAW + row * 64 + lane * 16;
      return raw + panel * (KEYS * 64) + i * (Tokens::AT_ONCE * 64);
    } else {
      u8* first = tile_at(index) + row * 128 + (lane ^ row % 8) * 16;
      return first + panel * PANEL + i * (Tokens::AT_ONCE * 128);
    }
  }
  // A tile by all threads whose turn it is, 2 rows of each at a time: more addresses would not fit into
  // registers. Copies of each panel are a group.
  static constexpr u32 ROWS = 2;
  static DEVICE_MEMBER void fetch(const AttentionParams& p, const AttentionPart& part,
                                  const u32 (&tokens)[Tokens::EACH], u32 from, u32 index,
                                  Shared& shared) {
    const u32 row_step = p.kv_heads * ROW_BYTES;
    const u8* keys = static_cast<const u8*>(p.k) + part.kv_head * ROW_BYTES +
                     thread_index() % ACROSS * 16;
    UNROLL for (u32 first = 0; first < Tokens::EACH; first += ROWS) {
#pragma unroll 1
      for (u32 step = 0; step < PANELS; step++) {
        const u32 panel = panel_of(step);
        if (!NARROW && first == 0 && opens_set(panel)) await_empty(shared, index, set_of(panel));
        UNROLL for (u32 i = first; i < first + ROWS; i++) {
          const u8* row = keys + u64(tokens[i]) * row_step;
          copy_async(shared_address(landing(index, i, panel)),
                     row + panel * (ROW_BYTES / PANELS),
                     from + Tokens::row() + i * Tokens::AT_ONCE < part.key_end ? 16 : 0);
        }
        if (!NARROW) close_copies();
      }
    }
    if (NARROW) close_copies();
  }
  // Arrives at the barrier of each panel as soon as this thread's copies of it are complete.
  template <u32 STEP = 0> static DEVICE_MEMBER void show_panels(Shared& shared, u32 index) {
    if constexpr (STEP < PANELS) {
      await_copies<PANELS - 1 - STEP>();
      show_to_copies();
      arrive(&shared.full[index % TILES][panel_of(STEP) % FULL]);
      show_panels<STEP + 1>(shared, index);
    }
  }
  // The same for barriers that expect a single arrival.
  static DEVICE_MEMBER void show_together(Shared& shared, u32 index) {
    await_copies<0>();
    show_to_copies();
    barrier_of<LOADERS>(LOADED + index % TILES);
    if (!leads()) return;
    for (u32 panel = 0; panel < FULL; panel++) arrive(&shared.full[index % TILES][panel]);
  }

  static DEVICE_MEMBER void widen_tile(u32 index) {
    UNROLL for (u32 i = 0; i < Tokens::EACH; i++) {
      const u32 row = Tokens::row() + i * Tokens::AT_ONCE;
      // Three loads before what they gave is stored: the compiler keeps a load behind a store that it follows.
      for (u32 first = 0; first < PANELS; first += 3) {
        Vector<u32> narrow[3];
        UNROLL for (u32 n = 0; n < 3; n++) narrow[n] = load_chunk<u32>(landing(index, i, first + n));
        UNROLL for (u32 n = 0; n < 3; n++) {
          UNROLL for (u32 half = 0; half < 2; half++) {
            Vector<u32> wide;
            UNROLL for (u32 w = 0; w < 4; w++) {
              wide.at[w] = widen_pair(narrow[n].at[2 * half + w / 2] >> 16 * (w % 2), f16());
            }
            const u32 chunk = (first + n) * 8 + thread_index() % ACROSS * 2 + half;
            store_chunk(place<PANEL>(tile_at(index), row, chunk), wide);
          }
        }
      }
    }
  }
  // Widens this thread's part of a tile of an 8-bit cache and arrives at the tile's barriers.
  static DEVICE_MEMBER void show_widened(Shared& shared, u32 index) {
    for (u32 set = 0; set < SETS; set++) await_empty(shared, index, set);
    widen_tile(index);
    show_to_copies();
    arrive(&shared.full[index % TILES][0]);
  }

  // Two warps take every second tile.
  static DEVICE_MEMBER void produce_by_boxes(const AttentionParams& p, const TensorMap* map,
                                             Shared& shared) {
    const u32 turn = thread_index() % GROUP / LOADERS;
    const bool first = warp_number() % (LOADERS / 32) == 0;
    u32 index = 0;
    for (u32 worker = block_index(); worker < p.workers; worker += block_count()) {
      for (u32 i = p.part_firsts[worker]; i < p.part_firsts[worker + 1]; i++) {
        const AttentionPart part = p.parts[i];
        TokenWalk<KEYS> walk;
        walk.start(p, p.sequences[part.sequence], part.key_first);
        u32 page = part.key_first < part.key_end ? walk.page(p) : 0, from = part.key_first;
        const bool together = p.pages == nullptr || from % KEYS == 0;
        for (; together && from + KEYS <= part.key_end; from += KEYS) {
          const u32 tile = index++, token = page * p.page + walk.offset;
          walk.go_on(p);
          page = from + KEYS < part.key_end ? walk.page(p) : 0;
          if (tile % TILES == turn && first && elected()) fetch_boxes(part, map, token, tile, shared);
        }
        for (; from < part.key_end; from += KEYS) {
          const u32 tile = index++;
          if (tile % TILES != turn) continue;
          // The leader has asked for all earlier tiles, so that no other thread waits for a phase
          // that is already over.
          barrier_of<LOADERS>(LOADED + turn);
          u32 found[Tokens::EACH];
          Tokens tokens;
          tokens.start(p, p.sequences[part.sequence], from, part.key_end);
          tokens.take(p, found);
          fetch(p, part, found, from, tile, shared);
          show_together(shared, tile);
        }
      }
    }
  }
  static DEVICE_MEMBER void produce_by_rows(const AttentionParams& p, Shared& shared) {
    const u32 turn = thread_index() % GROUP / LOADERS;
    u32 index = 0;
    for (u32 worker = block_index(); worker < p.workers; worker += block_count()) {
      for (u32 i = p.part_firsts[worker]; i < p.part_firsts[worker + 1]; i++) {
        const AttentionPart part = p.parts[i];
        Tokens tokens;
        tokens.start(p, p.sequences[part.sequence], part.key_first, part.key_end);
        for (u32 from = part.key_first; from < part.key_end; from += KEYS) {
          const u32 tile = index++;
          u32 found[Tokens::EACH];
          tokens.take(p, found);
          if (tile % TILES != turn) continue;
          fetch(p, part, found, from, tile, shared);
          if constexpr (NARROW) {
            if (tile < TILES) continue;
            await_copies<1>();
            show_widened(shared, tile - TILES);
          } else {
            show_panels(shared, tile);
          }
        }
      }
    }
    if constexpr (NARROW) {
      await_copies<0>();
      // The last of this turn's tiles.
      if (index > turn) show_widened(shared, index - 1 - (index - 1 - turn) % TILES);
    }
  }

  // --- The warpgroups that multiply.

  // What a warpgroup knows of a part's rows, and its columns of their sums.
  struct Rows {
    f32 sums[MINE / 2];
    Softmax softmax;
    Sight sight;
    u32 group;
    bool there;

    // The first of the thread's two rows, 8 apart.
    static DEVICE_MEMBER u32 row() {
      return thread_index() % GROUP / 32 * 16 + thread_index() % 32 / 4;
    }

    DEVICE_MEMBER void start(const AttentionParams& p, const AttentionPart& part,
                             const AttentionSequence& sequence, u32 rows) {
      softmax = no_softmax();
      UNROLL for (u32 i = 0; i < MINE / 2; i++) sums[i] = 0.0f;
      there = thread_index() % GROUP / 32 * 16 < rows;
      sight.start(p, part, sequence, row(), rows);
    }

    // By one thread of each warp of the warpgroup that was the last to use them.
    static DEVICE_MEMBER void release(Shared& shared, u32 index, u32 set) {
      warp_barrier();
      if (thread_index() % 32 == 0) arrive(&shared.empty[index % TILES][set]);
    }
    static DEVICE_MEMBER void await_panel(Shared& shared, u32 index, u32 panel) {
      await_phase(&shared.full[index % TILES][panel % FULL], index / TILES % 2);
    }
    // Waits for this warpgroup's columns of the values of a tile whose scores the other one made.
    DEVICE_MEMBER void await_values(Shared& shared, u32 index) const {
      for (u32 i = 0; i < smaller(MINE / 64, FULL); i++) {
        await_panel(shared, index, group * (MINE / 64) + i);
      }
    }

    DEVICE_MEMBER void ask_scores(f32 (&scores)[KEYS / 2], Shared& shared, u32 index) const {
      const u64 queries = describe_k_major(shared_address(dynamic_shared()));
      const u64 keys = describe_k_major(warp_uniform(shared_address(tile_at(index))));
      UNROLL for (u32 at = 0; at < PANELS; at++) {
        const u32 panel = panel_of(at);
        if (at < FULL) {
          await_panel(shared, index, panel);
          begin_multiplications();
        }
        UNROLL for (u32 step = 0; step < 4; step++) {
          multiply_scores(scores, further(queries, panel * QUERY_PANEL + step * 32),
                          further(keys, panel * PANEL + step * 32), at + step > 0, M());
        }
      }
      close_multiplications();
    }
    DEVICE_MEMBER void take_scores(f32 (&scores)[KEYS / 2], Shared& shared, u32 index) const {
      await_multiplications<0>();
      settle_sums(scores);
      release(shared, index, NO_VALUE);
    }
    DEVICE_MEMBER void score(f32 (&scores)[KEYS / 2], Shared& shared, u32 index) const {
      ask_scores(scores, shared, index);
      take_scores(scores, shared, index);
    }
    DEVICE_MEMBER void weigh(u32 (&weights)[KEYS / 16][4], f32 (&scores)[KEYS / 2], u32 from,
                             f32 factor) {
      if (there) {
        sight.template mask<KEYS>(scores, from);
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
    DEVICE_MEMBER u64 values(u32 index) const {
      const u32 at = shared_address(tile_at(index)) + group * (MINE / 64 * PANEL);
      return describe_mn_major(warp_uniform(at), PANEL);
    }
    DEVICE_MEMBER void add_own(const u32 (&weights)[KEYS / 16][4], Shared& shared, u32 index) {
      correct_sums(sums, softmax);
      const u64 b = values(index);
      begin_multiplications();
      UNROLL for (u32 step = 0; step < KEYS / 16; step++) {
        multiply_values(sums, weights[step], further(b, step * 2048), 1, M());
      }
      close_multiplications();
      await_multiplications<0>();
      settle_sums(sums);
      release(shared, index, group);
    }
    DEVICE_MEMBER void ask_others(u32 index) {
      const u64 a = describe_k_major(shared_address(dynamic_shared() + AT_WEIGHTS)), b = values(index);
      begin_multiplications();
      UNROLL for (u32 step = 0; step < KEYS / 16; step++) {
        multiply_tiles(sums, further(a, step * 32), further(b, step * 2048), 1, M());
      }
      close_multiplications();
    }
    // OPEN groups that were asked for later may be on their way.
    template <u32 OPEN = 0> DEVICE_MEMBER void await_others(Shared& shared, u32 index) {
      await_multiplications<OPEN>();
      settle_sums(sums);
      release(shared, index, group);
    }

    // A pair of tiles, the second of which may not be there, by the first warpgroup, which has the scores of the
    // first tile. Where another pair follows, its scores are asked for behind the last sums of this one.
    template <bool FOLLOWED>
    DEVICE_MEMBER void attend_first(f32 (&scores)[KEYS / 2], Shared& shared, u32 index, u32 from,
                                    u32 end, f32 factor) {
      u32 weights[KEYS / 16][4];
      weigh(weights, scores, from, factor);
      publish(weights);
      come_to_barrier<CONSUMERS>(READY);
      add_own(weights, shared, index);
      if (!FOLLOWED && from + KEYS >= end) return;
      barrier_of<CONSUMERS>(READY + 1);
      follow();
      await_values(shared, index + 1);
      ask_others(index + 1);
      if constexpr (FOLLOWED) {
        ask_scores(scores, shared, index + 2);
        await_others<1>(shared, index + 1);
        take_scores(scores, shared, index + 2);
      } else {
        await_others(shared, index + 1);
      }
    }
    // A pair of tiles by the second warpgroup.
    DEVICE_MEMBER void attend_second(Shared& shared, u32 index, u32 from, u32 end, f32 factor) {
      f32 scores[KEYS / 2] = {};
      u32 weights[KEYS / 16][4];
      const bool both = from + KEYS < end;
      if (both) score(scores, shared, index + 1);
      barrier_of<CONSUMERS>(READY);
      follow();
      await_values(shared, index);
      ask_others(index);
      if (both) weigh(weights, scores, from + KEYS, factor);
      await_others(shared, index);
      if (!both) return;
      publish(weights);
      come_to_barrier<CONSUMERS>(READY + 1);
      add_own(weights, shared, index + 1);
    }

    // All pairs of a part by this warpgroup; gives the number of the next tile. Registers hold the scores of a next
    // pair beside the sums where tiles are of 32 keys, those of an 8-bit cache, alone.
    DEVICE_MEMBER u32 attend_all(Shared& shared, u32 index, u32 from, u32 end, f32 factor) {
      f32 scores[KEYS / 2];
      if (NARROW && group == 0) {
        if (from < end) score(scores, shared, index);
        for (; from + TILES * KEYS < end; from += TILES * KEYS, index += TILES) {
          attend_first<true>(scores, shared, index, from, end, factor);
        }
        if (from >= end) return index;
        attend_first<false>(scores, shared, index, from, end, factor);
        return index + (from + KEYS < end ? 2 : 1);
      }
      for (; from < end; from += TILES * KEYS) {
        if (!NARROW && group == 0) {
          score(scores, shared, index);
          attend_first<false>(scores, shared, index, from, end, factor);
        } else {
          attend_second(shared, index, from, end, factor);
        }
        index += from + KEYS < end ? 2 : 1;
      }
      return index;
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
          f32* to = p.scratch + part.slot * slot_words(DIM_V) + at * DIM_V + column;
          UNROLL for (u32 i = 0; i < MINE / 2; i += 4) {
            *reinterpret_cast<Pair*>(to + 2 * i) = {sums[i + 2 * half], sums[i + 2 * half + 1]};
          }
          if (group == 0 && t == 0) leave_share(p, part, DIM_V, at, softmax.max[half], total);
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
        mine.group = warpgroup_number();
        mine.start(p, part, sequence, rows);
        index = mine.attend_all(shared, index, part.key_first, part.key_end, factor);
        mine.leave(p, part, sequence, rows);
        // Whether this is the last part that this block works on.
        const bool idle = worker + block_count() >= p.workers && i + 1 == p.part_firsts[worker + 1];
        combine_if_complete<Q, DIM_V, CONSUMERS, true>(p, part, sequence, shared.told, idle,
                                                       together);
        together();
      }
    }
  }

  static DEVICE_MEMBER void all(const AttentionParams& p, const TensorMap* map) {
    SHARED Shared shared;
    if (thread_index() == 0) {
      for (u32 i = 0; i < TILES; i++) {
        for (u32 panel = 0; panel < FULL; panel++) {
          make_barrier(&shared.full[i][panel], come_by_boxes(p) ? 1 : LOADERS);
        }
        // Arrivals: one thread of each warp of a warpgroup.
        for (u32 set = 0; set < SETS; set++) make_barrier(&shared.empty[i][set], GROUP / 32);
      }
      barriers_made();
    }
    block_barrier();
    if (thread_index() < CONSUMERS) {
      take_registers<216>();
      consume(p, shared);
    } else {
      keep_registers<72>();
      if constexpr (!NARROW) {
        if (come_by_boxes(p)) return produce_by_boxes(p, map, shared);
      }
      produce_by_rows(p, shared);
    }
  }
};

}  // namespace

KERNEL(384, 1) attention_mla_bf16_wgmma(const AttentionParams p, MAP keys) {
  Latent90<bf16, bf16, bf16, 64>::all(p, &keys);
}
KERNEL(384, 1) attention_mla_f16_wgmma(const AttentionParams p, MAP keys) {
  Latent90<f16, f16, f16, 64>::all(p, &keys);
}
KERNEL(384, 1) attention_mla_fp8_wgmma(const AttentionParams p) {
  Latent90<bf16, f16, e4m3, 32>::all(p, nullptr);
}
