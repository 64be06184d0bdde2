// The order in which the tiles of a prefill are taken: by blocks that stay, one tile after the other.
#pragma once
#include "attention.h"

// Bytes of keys and values that are to stay in the last cache while their tiles are worked on. H100
// and H200 have 50 MB, but what all multiprocessors read may stand in both halves, and queries and
// outputs pass through it: tests/kernel_model/attention_order.cpp counts what is fetched.
CONSTANT u32 CACHED_BYTES = 16 << 20;

// A head of a sequence, and a tile of its queries.
struct Place { u32 sequence, head, tile; };

// The heads of all sequences form one sequence of sections. Within a section the last tile of
// every head comes first, then the last but one of every head. With a causal mask these are the
// longest tiles, so that short ones are left for the end, when blocks run out of work. A section
// is as many heads, a power of two times those that share keys, as have keys and values of at most
// CACHED_BYTES. Where tiles are equally long, a section is one head.
struct TileOrder {
  u32 tiles, section;

  // For tiles of ROWS queries, and so many bytes of one key and its value.
  DEVICE_MEMBER TileOrder(const AttentionParams& p, u32 rows, u32 bytes)
      : tiles((p.queries + rows - 1) / rows), section(1) {
    if (p.causal == 0 || p.window != 0 || p.chunk != 0) return;
    section = p.heads / p.kv_heads;
    u64 taken = u64(p.keys) * bytes;
    for (; 2 * taken <= CACHED_BYTES && section < p.batch * p.heads; taken *= 2) section *= 2;
    section = smaller(section, p.batch * p.heads);
  }
  DEVICE_MEMBER u32 count(const AttentionParams& p) const { return p.batch * p.heads * tiles; }
  DEVICE_MEMBER Place at(const AttentionParams& p, u32 turn) const {
    const u32 first = turn / (section * tiles) * section, of_section = turn - first * tiles;
    const u32 wide = smaller(section, p.batch * p.heads - first);
    const u32 head = first + of_section % wide;
    return {head / p.heads, head % p.heads, tiles - 1 - of_section / wide};
  }
};
