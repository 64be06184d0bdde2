// Latent decode by tensor memory, as compute capability 10 has it (after FlashMLA, DeepSeek, 2025): up
// to 128 rows (heads) that share one latent of 576, which is the key of all of them and whose first 512
// are the value, through the keys of a worker's parts (attention_parts.h).
//
// A worker is a pair of blocks. Each block has 64 of the rows: their queries, their softmax and their
// sums. The pair multiplies together (`cta_group::2`, 128 rows): keys and values stand in either
// block's shared memory, half of each, and come from memory for both once. Sums of 64 x 512 take all
// 128 lanes of 256 columns of a block's tensor memory: lanes 0 to 63 have the first 256 columns of the
// output, lanes 64 to 127 the rest. Scores of 64 keys take 32 columns, of two tiles 64. Where the rows
// are 64 or fewer, the second block brings its half of the keys and values and has no rows.
//
// Two tiles of 64 keys are in each block's shared memory. Of a tile each block has 32 whole keys, for
// the scores, and 256 columns of the values of all 64 keys. The part of the keys that is both stands
// there twice: one descriptor is for the shared memory of both blocks, so that the same dimensions
// have to stand in the same place of each.
//
// One thread of the first block has everything multiplied: the scores of the next tile before the sums
// of this one, so that the softmax of a tile runs while others are multiplied. Four warps make weights
// of scores, two threads for each row, and leave them in shared memory. They correct the sums where a
// row's largest score rises by more than 8, a factor of 2^8 (where keys are of 8 bits by more than
// 0.75), and write the output. Two halves of another warpgroup fill one tile each. Where all keys of a
// tile stand together (in one piece, or in pages of whole tiles), one thread asks for boxes of the
// tensor map; else, and at the end of a part, threads ask for 16 bytes each.
//
// Keys of 8 bits (e4m3, beside queries and output of bf16) are multiplied as they are, by queries and
// weights as sums of two e4m3 (attention_two_e4m3.h). A row of a left operand is all high ones and then
// all low ones, as many bytes as of 16-bit elements, and is multiplied by the same keys, or values, twice.
// The sums are as precise as those of 16-bit elements: this unit keeps 25 binary places of 8-bit products
// (MMA-Sim, Xie et al., 2025), where those of 8.9 and 9.0 keep 13.
#include "attention_copies.h"
#include "attention_parts.h"
#include "attention_two_e4m3.h"
#include "attention_type.h"
#include "sm100_attention.h"
#include "weight_range.h"

namespace {

template <class T> struct Latent100 {
  static constexpr u32 DIM_QK = 576, DIM_V = 512, KEYS = 64, BLOCKS = 2, STAGES = 2;
  // Keys of a tile, and columns of the values, that a block brings.
  static constexpr u32 OWN = KEYS / BLOCKS, COLUMNS = DIM_V / BLOCKS;
  static constexpr u32 GROUP = 128, LOADERS = GROUP / STAGES;
  // The warp that has everything multiplied.
  static constexpr u32 DIRECTING = 2 * GROUP / 32;
  static constexpr u32 ACROSS = 8;
  using Tokens = TileTokens<KEYS, LOADERS, ACROSS>;
  using Range = WeightRange<T>;
  using Out = typename AttentionType<T>::Out;
  // Whether left operands are sums of two. Either way an element of theirs has 2 bytes.
  static constexpr bool SPLIT = sizeof(T) == 1;
  static constexpr u32 ROW_BYTES = DIM_QK * sizeof(T);
  // Elements along k of one multiplication, and of a row of a panel.
  static constexpr u32 DEPTH = 32 / sizeof(T), WIDTH = 128 / sizeof(T);
  // Panels of 128 bytes of each row: of the queries, of a block's keys, of a block's columns of the
  // values. Keys of 8 bits do not fill the last one: 64 bytes of the next head stand there, zeros, or
  // nothing yet, by which nothing is multiplied.
  static constexpr u32 QUERY_PANELS = DIM_QK * 2 / 128, KEY_PANELS = (ROW_BYTES + 127) / 128;
  static constexpr u32 VALUE_PANELS = COLUMNS / WIDTH;
  static constexpr u32 QUERY_PANEL = PART_ROWS * 128, KEY_PANEL = OWN * 128, PANEL = KEYS * 128;
  static constexpr u32 QUERIES = QUERY_PANELS * QUERY_PANEL, TILE = KEY_PANELS * KEY_PANEL;
  static constexpr u32 VALUES = VALUE_PANELS * PANEL, WEIGHTS = PART_ROWS * 128;
  static constexpr u32 AT_VALUES = QUERIES + STAGES * TILE, AT_WEIGHTS = AT_VALUES + STAGES * VALUES;
  static constexpr u32 AT_SHARED = AT_WEIGHTS + STAGES * WEIGHTS;
  // Columns of tensor memory: the sums, 128 for each product of 256 columns, then scores of two tiles.
  static constexpr u32 PRODUCT = 256, AT_SCORES = COLUMNS, SCORES = KEYS / BLOCKS;
  static constexpr u32 FOR_SCORES = instruct(AttentionType<T>::NUMBER, 0, 2 * PART_ROWS, KEYS);
  static constexpr u32 FOR_SUMS = instruct(AttentionType<T>::NUMBER, 1, 2 * PART_ROWS, PRODUCT);
  // Numbers of barriers of some threads: of two warps that share rows, of the softmax, of those that
  // fill a tile.
  static constexpr u32 SHARING = 1, TOGETHER = 3, LOADED = 4;

  // Barriers of the first block's `queries`, `keys`, `values` and `weights` are for both blocks; the
  // others are arrived at in each.
  struct Shared {
    // A part's queries are there; of each tile its keys are, its values, its weights with corrected
    // sums; its scores are there and its keys no longer needed; its sums and its values the same.
    u64 queries, keys[STAGES], values[STAGES], weights[STAGES], scores[STAGES], used[STAGES];
    // What the two threads of a row tell each other, of every second tile.
    f32 shares[2][GROUP];
    u32 told[2];
    u32 memory;
  };
  // Behind it, where queries are split, what each row was multiplied by, taken back.
  static constexpr u32 AT_SCALES = AT_SHARED + sizeof(Shared);
  static constexpr u32 SHARED_BYTES = AT_SCALES + (SPLIT ? PART_ROWS * 4 : 0);
  static_assert(SHARED_BYTES <= 227 << 10, "shared memory of a block");

  static DEVICE_MEMBER Shared& shared() {
    return *reinterpret_cast<Shared*>(dynamic_shared() + AT_SHARED);
  }
  static DEVICE_MEMBER f32* scales() {
    return reinterpret_cast<f32*>(dynamic_shared() + AT_SCALES);
  }
  static DEVICE_MEMBER u8* keys_at(u32 index) {
    return dynamic_shared() + QUERIES + index % STAGES * TILE;
  }
  static DEVICE_MEMBER u8* values_at(u32 index) {
    return dynamic_shared() + AT_VALUES + index % STAGES * VALUES;
  }
  static DEVICE_MEMBER u8* weights_at(u32 index) {
    return dynamic_shared() + AT_WEIGHTS + index % STAGES * WEIGHTS;
  }
  // Where 16 bytes of a row of a panel stand, whose chunks are exchanged.
  static DEVICE_MEMBER u8* place(u8* panel, u32 row, u32 chunk) {
    return panel + row * 128 + (chunk ^ row % 8) * 16;
  }
  // The same of queries; `chunk` counts through all panels.
  static DEVICE_MEMBER u8* query_place(u32 row, u32 chunk) {
    return place(dynamic_shared() + chunk / 8 * QUERY_PANEL, row, chunk % 8);
  }
  static DEVICE_MEMBER u32 tiles(const AttentionPart& part) {
    return (part.key_end - part.key_first + KEYS - 1) / KEYS;
  }
  // Until a barrier has been arrived at for this tile.
  static DEVICE_MEMBER void await_tile(u64* barriers, u32 index) {
    await_phase(&barriers[index % STAGES], index / STAGES % 2);
  }
  // The same for the tile that had this one's place before.
  static DEVICE_MEMBER void await_place(u64* barriers, u32 index) {
    await_phase(&barriers[index % STAGES], index / STAGES % 2 ^ 1);
  }
  // At a barrier of the first block.
  static DEVICE_MEMBER void tell(u64* barrier) {
    if (cluster_place() == 0) arrive(barrier);
    else arrive_in_cluster(barrier, 0);
  }
  // Calls `make(part)` for each part of this pair.
  template <class Make> static DEVICE_MEMBER void for_each_part(const AttentionParams& p, Make make) {
    for (u32 worker = block_index() / BLOCKS; worker < p.workers; worker += block_count() / BLOCKS) {
      for (u32 i = p.part_firsts[worker]; i < p.part_firsts[worker + 1]; i++) {
        const AttentionPart part = p.parts[i];
        const bool last = i + 1 == p.part_firsts[worker + 1];
        make(part, last && worker + block_count() / BLOCKS >= p.workers);
      }
    }
  }

  // --- The warpgroup that copies.

  // Whether keys of whole tiles stand together. Under a window, or chunks, parts may begin within a
  // page's tile.
  static DEVICE_MEMBER bool come_by_boxes(const AttentionParams& p) {
    return p.pages == nullptr || (p.page % KEYS == 0 && p.window == 0 && p.chunk == 0);
  }

  // This block's part of a tile by boxes, from `token` on; by one thread.
  static DEVICE_MEMBER void fetch_boxes(const AttentionPart& part, const TensorMap* map, u32 token,
                                        u32 index) {
    const u32 rank = cluster_place(), column = part.kv_head * DIM_QK;
    u64* full = &shared().keys[index % STAGES];
    await_place(shared().scores, index);
    if (rank == 0) arrive_expecting(full, BLOCKS * TILE);
    else arrive_in_cluster(full, 0);
    UNROLL for (u32 panel = 0; panel < KEY_PANELS; panel++) {
      tile_load_of_pair(keys_at(index) + panel * KEY_PANEL, map, column + panel * WIDTH,
                        token + rank * OWN, full);
    }
    full = &shared().values[index % STAGES];
    await_place(shared().used, index);
    if (rank == 0) arrive_expecting(full, BLOCKS * VALUES);
    else arrive_in_cluster(full, 0);
    UNROLL for (u32 i = 0; i < VALUE_PANELS * BLOCKS; i++) {
      tile_load_of_pair(values_at(index) + i * KEY_PANEL, map,
                        column + rank * COLUMNS + i / BLOCKS * WIDTH, token + i % BLOCKS * OWN, full);
    }
  }

  // The same by all threads whose turn it is, 16 bytes at a time.
  static DEVICE_MEMBER void fetch(const AttentionParams& p, const AttentionPart& part,
                                  const u32 (&tokens)[Tokens::EACH], u32 from, u32 index) {
    constexpr u32 EACH_OWN = Tokens::EACH / BLOCKS;
    const u32 rank = cluster_place(), lane = thread_index() % ACROSS, row_step = p.kv_heads * ROW_BYTES;
    const u8* keys = static_cast<const u8*>(p.k) + part.kv_head * ROW_BYTES + lane * 16;
    const auto copy = [&](u8* to, u32 row, u32 token, u32 byte) {
      copy_async(shared_address(to), keys + u64(token) * row_step + byte,
                 from + row < part.key_end ? 16 : 0);
    };
    await_place(shared().scores, index);
    UNROLL for (u32 i = 0; i < EACH_OWN; i++) {
      const u32 row = Tokens::row() + i * Tokens::AT_ONCE;
      const u32 token = rank == 0 ? tokens[i] : tokens[EACH_OWN + i];
#pragma unroll (SPLIT ? KEY_PANELS : 3)
      for (u32 panel = 0; panel < KEY_PANELS; panel++) {
        if (SPLIT && panel * 128 + lane * 16 >= ROW_BYTES) continue;
        copy(place(keys_at(index) + panel * KEY_PANEL, row, lane), rank * OWN + row, token,
             panel * 128);
      }
    }
    close_copies();
    await_place(shared().used, index);
    UNROLL for (u32 i = 0; i < Tokens::EACH; i++) {
      const u32 row = Tokens::row() + i * Tokens::AT_ONCE;
      UNROLL for (u32 panel = 0; panel < VALUE_PANELS; panel++) {
        copy(place(values_at(index) + panel * PANEL, row, lane), row, tokens[i],
             rank * COLUMNS * sizeof(T) + panel * 128);
      }
    }
    close_copies();
    show<1>(&shared().keys[index % STAGES], index);
    show<0>(&shared().values[index % STAGES], index);
  }
  // All copies of these threads but the OPEN latest groups are there.
  template <u32 OPEN> static DEVICE_MEMBER void show(u64* full, u32 index) {
    await_copies<OPEN>();
    show_to_copies();
    barrier_of<LOADERS>(LOADED + index % STAGES);
    if (thread_index() % LOADERS == 0) tell(full);
  }

  // Whole tiles of a part whose keys stand together, by one thread, of which it takes every second one;
  // `index` is the first one's.
  static DEVICE_MEMBER void produce_boxes(const AttentionParams& p, const AttentionPart& part,
                                          const TensorMap* map, u32 whole, u32 index, u32 turn) {
    TokenWalk<KEYS> walk;
    walk.start(p, p.sequences[part.sequence], part.key_first);
    u32 page = walk.page(p);
    for (u32 i = 0; i < whole; i++) {
      const u32 token = page * p.page + walk.offset;
      walk.go_on(p);
      if (i + 1 < whole) page = walk.page(p);
      if ((index + i) % STAGES == turn) fetch_boxes(part, map, token, index + i);
    }
  }
  // Two warps take every second tile.
  static DEVICE_MEMBER void produce(const AttentionParams& p, const TensorMap* map) {
    const u32 turn = thread_index() % GROUP / LOADERS;
    const bool leads = warp_number() % (LOADERS / 32) == 0;
    u32 index = 0;
    for_each_part(p, [&](const AttentionPart& part, bool) {
      const bool together = come_by_boxes(p) && (p.pages == nullptr || part.key_first % KEYS == 0);
      const u32 whole = together ? (part.key_end - part.key_first) / KEYS : 0;
      if (whole > 0 && leads && elected()) produce_boxes(p, part, map, whole, index, turn);
      warp_barrier();
      index += whole;
      u32 from = part.key_first + whole * KEYS;
      if (from >= part.key_end) return;
      // Whoever asked for boxes has waited for the places of all earlier tiles, so that no thread
      // waits for a phase before the last.
      barrier_of<LOADERS>(LOADED + turn);
      Tokens tokens;
      tokens.start(p, p.sequences[part.sequence], from, part.key_end);
      for (; from < part.key_end; from += KEYS) {
        u32 found[Tokens::EACH];
        tokens.take(p, found);
        const u32 tile = index++;
        if (tile % STAGES == turn) fetch(p, part, found, from, tile);
      }
    });
  }

  // --- The thread that has everything multiplied.

  static DEVICE_MEMBER u64 described(const u8* at) {
    return describe_for_tensor_memory(describe_k_major(shared_address(at)));
  }
  static DEVICE_MEMBER void ask_scores(u32 memory, u32 index) {
    await_tile(shared().keys, index);
    see_tensor_memory();
    const u32 to = memory + AT_SCORES + index % STAGES * SCORES;
    const u64 queries = described(dynamic_shared()), keys = described(keys_at(index));
    UNROLL for (u32 step = 0; step < DIM_QK / 16; step++) {
      const u32 of_keys = step % (DIM_QK / DEPTH);
      multiply_into<BLOCKS>(to, further(queries, step / 4 * QUERY_PANEL + step % 4 * 32),
                            further(keys, of_keys / 4 * KEY_PANEL + of_keys % 4 * 32), FOR_SCORES,
                            step, T());
    }
    arrive_when_multiplied<BLOCKS>(&shared().scores[index % STAGES]);
  }
  static DEVICE_MEMBER void ask_sums(u32 memory, u32 index, u32 before) {
    await_tile(shared().values, index);
    await_tile(shared().weights, index);
    see_tensor_memory();
    const u64 weights = described(weights_at(index));
    const u64 values =
        describe_for_tensor_memory(describe_mn_major(shared_address(values_at(index)), PANEL));
    UNROLL for (u32 product = 0; product < DIM_V / PRODUCT; product++) {
      UNROLL for (u32 step = 0; step < KEYS / 16; step++) {
        // A block has half of a product's columns.
        const u32 panel = product * (PRODUCT / BLOCKS / WIDTH);
        const u32 key = step % (KEYS / DEPTH) * DEPTH;
        multiply_into<BLOCKS>(memory + product * (PRODUCT / BLOCKS), further(weights, step * 32),
                              further(values, panel * PANEL + key * 128), FOR_SUMS,
                              step > 0 ? 1 : before, T());
      }
    }
    arrive_when_multiplied<BLOCKS>(&shared().used[index % STAGES]);
  }
  static DEVICE_MEMBER void multiply_all(const AttentionParams& p, u32 memory) {
    u32 index = 0, turn = 0;
    for_each_part(p, [&](const AttentionPart& part, bool) {
      const u32 count = tiles(part);
      if (count == 0) return;
      await_phase(&shared().queries, turn++ % 2);
      for (u32 at = 0; at <= count; at++) {
        if (at < count) ask_scores(memory, index + at);
        if (at > 0) ask_sums(memory, index + at - 1, at - 1);
      }
      index += count;
    });
  }

  // --- The warpgroup of the softmax.

  struct Together {
    DEVICE_MEMBER void operator()() const { barrier_of<GROUP>(TOGETHER); }
  };

  // A thread has a row with the thread that is 64 further on: half of a tile's keys, and half of the
  // columns of the sums.
  struct Row {
    u32 row, half, lanes;
    f32 max, total;
    // The keys that the row sees, and those that all of the block's rows see.
    u32 first, count, from_all, to_all;

    DEVICE_MEMBER void start(const AttentionParams& p, const AttentionPart& part,
                             const AttentionSequence& sequence, u32 rows) {
      const u32 heads = p.heads / p.kv_heads;
      row = thread_index() % PART_ROWS;
      half = thread_index() / PART_ROWS;
      lanes = thread_index() / 32 * 32 << 16;
      max = no_score();
      total = 0.0f;
      first = count = from_all = to_all = 0;
      if (rows == 0) return;
      to_all = smaller(keys_seen(p, sequence, part.row_first / heads), part.key_end);
      from_all = first_key_seen(p, sequence, (part.row_first + rows - 1) / heads);
      if (row >= rows) return;
      const u32 query = (part.row_first + row) / heads;
      const u32 end = smaller(keys_seen(p, sequence, query), part.key_end);
      first = first_key_seen(p, sequence, query);
      count = end > first ? end - first : 0;
    }
    // The larger, or the sum, of what this thread has and what the other of the row has.
    DEVICE_MEMBER f32 others(f32 mine, u32 index) const {
      f32* shares = shared().shares[index % 2];
      shares[thread_index()] = mine;
      barrier_of<2 * 32>(SHARING + thread_index() / 32 % 2);
      return shares[thread_index() ^ PART_ROWS];
    }

    // Weights of a tile whose first key is `from`; `before` counts the part's tiles before it.
    DEVICE_MEMBER void weigh(u32 memory, u32 index, u32 before, u32 from, f32 factor) {
      f32 scores[SCORES];
      await_tile(shared().scores, index);
      see_tensor_memory();
      load_sums(scores, memory + AT_SCORES + index % STAGES * SCORES + lanes);
      if (from < from_all || from + KEYS > to_all) {
        // Unsigned: keys before the first become larger than any count.
        UNROLL for (u32 i = 0; i < SCORES; i++) {
          if (from + half * SCORES + i - first >= count) scores[i] = no_score();
        }
      }
      f32 parts[4] = {no_score(), no_score(), no_score(), no_score()};
      UNROLL for (u32 i = 0; i < SCORES; i++) parts[i % 4] = larger(parts[i % 4], scores[i]);
      f32 largest = larger(larger(parts[0], parts[1]), larger(parts[2], parts[3])) * factor;
      largest = larger(largest, others(largest, index));
      const f32 old = max;
      // Where nothing was seen before, any score is a rise.
      max = largest > old + Range::RISE_MAX ? largest : old;
      const f32 relative = max == no_score() ? 0.0f : max;
      const f32 correction = max == old ? 1.0f : power_of_two(old - relative);
      f32 sums[2] = {};
      UNROLL for (u32 i = 0; i < SCORES; i++) {
        scores[i] = power_of_two(fused(scores[i], factor, Range::OFFSET - relative));
        sums[i % 2] += scores[i];
      }
      total = fused(total, correction, sums[0] + sums[1]);
      // The weights that stood there have been multiplied.
      await_place(shared().used, index);
      store_weights(index, scores);
      if (before > 0 && any_of_warp(correction != 1.0f)) correct(memory, index, correction);
      show_to_copies();
      show_tensor_memory();
      warp_barrier();
      if (thread_index() % 32 == 0) tell(&shared().weights[index % STAGES]);
    }
    DEVICE_MEMBER void store_weights(u32 index, const f32 (&weights)[SCORES]) const {
      constexpr u32 EACH = 16 / sizeof(T), CHUNKS = SCORES / EACH;
      UNROLL for (u32 i = 0; i < CHUNKS; i++) {
        Vector<u32> chunk, low;
        UNROLL for (u32 w = 0; w < 4; w++) {
          const f32* of = weights + (4 * i + w) * (4 / sizeof(T));
          if constexpr (SPLIT) split_four({of[0], of[1], of[2], of[3]}, chunk.at[w], low.at[w]);
          else chunk.at[w] = narrow_pair(of[0], of[1], T());
        }
        store_chunk(place(weights_at(index), row, half * CHUNKS + i), chunk);
        if constexpr (SPLIT) store_chunk(place(weights_at(index), row, (2 + half) * CHUNKS + i), low);
      }
    }
    // Sums of all tiles before this one are multiplied.
    DEVICE_MEMBER void correct(u32 memory, u32 index, f32 correction) const {
      await_tile(shared().used, index - 1);
      see_tensor_memory();
#pragma unroll 1
      for (u32 part = 0; part < COLUMNS; part += 32) {
        f32 words[32];
        load_sums(words, memory + lanes + part);
        UNROLL for (u32 i = 0; i < 32; i++) words[i] *= correction;
        store_words(words, memory + lanes + part);
      }
      await_words();
    }

    // `index` is the next tile's, `count` are those of the part.
    DEVICE_MEMBER void leave(const AttentionParams& p, const AttentionPart& part,
                             const AttentionSequence& sequence, u32 rows, u32 memory, u32 index,
                             u32 tiles) {
      total += others(total, index);
      // The sums before the last ones too: what the multiplying thread tells may come in any order.
      if (tiles > 1) await_tile(shared().used, index - 2);
      if (tiles > 0) await_tile(shared().used, index - 1);
      see_tensor_memory();
      const f32 share = total > 0.0f ? 1.0f / total : 0.0f;
      const bool there = row < rows;
      const u64 to = there ? output_row(p, part, sequence, row) : 0;
#pragma unroll 1
      for (u32 at = 0; at < COLUMNS; at += 32) {
        const u32 column = half * COLUMNS + at;
        f32 words[32] = {};
        if (tiles > 0) load_sums(words, memory + lanes + at);
        if (!there) continue;
        if (part.slots == 1) {
          Out* o = static_cast<Out*>(p.o) + to * DIM_V + column;
          UNROLL for (u32 i = 0; i < 4; i++) {
            Vector<u32> chunk;
            UNROLL for (u32 w = 0; w < 4; w++) {
              const u32 word = 8 * i + 2 * w;
              chunk.at[w] = narrow_pair(words[word] * share, words[word + 1] * share, Out());
            }
            *reinterpret_cast<Vector<u32>*>(o + 8 * i) = chunk;
          }
        } else {
          f32* sums = p.scratch + part.slot * slot_words(DIM_V) + row * DIM_V + column;
          UNROLL for (u32 i = 0; i < 32; i += 4) {
            *reinterpret_cast<Vector<f32>*>(sums + i) = {
                {words[i], words[i + 1], words[i + 2], words[i + 3]}};
          }
        }
      }
      if (there && half == 0 && part.slots > 1) leave_share(p, part, DIM_V, row, max, total);
      show_tensor_memory();
    }
  };

  // This block's rows of a pair's part: the second block has the next 64, and slots of its own.
  static DEVICE_MEMBER AttentionPart mine_of(AttentionPart part) {
    if (cluster_place() == 0) return part;
    part.row_first += PART_ROWS;
    if (part.slots > 1) {
      part.slot += part.slots;
      part.slot_first += part.slots;
    }
    return part;
  }
  static DEVICE_MEMBER void consume(const AttentionParams& p, u32 memory) {
    const Together together;
    u32 index = 0;
    for_each_part(p, [&](const AttentionPart& whole, bool idle) {
      const AttentionPart part = mine_of(whole);
      const AttentionSequence sequence = p.sequences[part.sequence];
      const bool none = part.row_first >= sequence.queries * (p.heads / p.kv_heads);
      const u32 rows = none ? 0 : part_rows(p, part, sequence), count = tiles(part);
      f32 factor = p.scale * LOG2_E;
      if (count > 0) {
        if constexpr (SPLIT) {
          load_split_queries<PART_ROWS, DIM_QK, GROUP>(p, part, sequence, rows, query_place, scales());
        } else {
          load_part_queries<T, T, false, PART_ROWS, DIM_QK, GROUP>(p, part, sequence, rows,
                                                                   query_place);
        }
        show_to_copies();
        warp_barrier();
        if (thread_index() % 32 == 0) tell(&shared().queries);
        if constexpr (SPLIT) {
          together();
          factor *= scales()[thread_index() % PART_ROWS];
        }
      }
      Row mine;
      mine.start(p, part, sequence, rows);
      for (u32 at = 0; at < count; at++) {
        mine.weigh(memory, index + at, at, part.key_first + at * KEYS, factor);
      }
      index += count;
      mine.leave(p, part, sequence, rows, memory, index, count);
      if (rows > 0) {
        combine_if_complete<Out, DIM_V, GROUP, true>(p, part, sequence, shared().told, idle, together);
      }
      together();
    });
  }

  static DEVICE_MEMBER void all(const AttentionParams& p, const TensorMap* map) {
    Shared& shared = Latent100::shared();
    const u32 warp = warp_number();
    if (thread_index() == 0) {
      // Arrivals: of each block one thread of each warp of the softmax, and one that copies.
      make_barrier(&shared.queries, BLOCKS * GROUP / 32);
      for (u32 i = 0; i < STAGES; i++) {
        make_barrier(&shared.keys[i], BLOCKS);
        make_barrier(&shared.values[i], BLOCKS);
        make_barrier(&shared.weights[i], BLOCKS * GROUP / 32);
        make_barrier(&shared.scores[i], 1);
        make_barrier(&shared.used[i], 1);
      }
      barriers_made();
    }
    // No block uses the other's barriers before they are made, or after it has ended.
    const auto meet = [] {
      warp_barrier();
      show_tensor_memory();
      cluster_barrier();
      see_tensor_memory();
    };
    warp_barrier();
    if (warp == DIRECTING) take_tensor_memory<BLOCKS>(&shared.memory);
    meet();
    const u32 memory = shared.memory;
    if (warp < GROUP / 32) consume(p, memory);
    else if (warp < DIRECTING) produce(p, map);
    else if (cluster_place() == 0 && elected()) multiply_all(p, memory);
    meet();
    if (warp == DIRECTING) give_tensor_memory<BLOCKS>(memory);
  }
};

}  // namespace

KERNEL(288, 1) attention_mla_bf16_tcgen05(const AttentionParams p, MAP keys) {
  Latent100<bf16>::all(p, &keys);
}
KERNEL(288, 1) attention_mla_f16_tcgen05(const AttentionParams p, MAP keys) {
  Latent100<f16>::all(p, &keys);
}
KERNEL(288, 1) attention_mla_fp8_tcgen05(const AttentionParams p, MAP keys) {
  Latent100<e4m3>::all(p, &keys);
}
