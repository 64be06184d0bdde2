// Walks the order of prefill's tiles (attention_order.h): each must be taken once, and what blocks
// read of keys and values from beyond a model of the last cache must stay near what there is.
#include "gpu.h"

#include "attention_order.h"

#include <list>
#include <unordered_map>

namespace {

// A cache that gives up what was not used for the longest time.
struct Cache {
  u64 size, held = 0, missed = 0;
  std::list<std::pair<u64, u64>> pieces;
  std::unordered_map<u64, std::list<std::pair<u64, u64>>::iterator> places;

  // Whether a piece had to be fetched.
  bool touch(u64 piece, u64 bytes) {
    const auto found = places.find(piece);
    if (found != places.end()) {
      pieces.splice(pieces.begin(), pieces, found->second);
      return false;
    }
    pieces.emplace_front(piece, bytes);
    places[piece] = pieces.begin();
    for (held += bytes; held > size; pieces.pop_back()) {
      held -= pieces.back().second;
      places.erase(pieces.back().first);
    }
    return true;
  }
};

struct Case {
  const char* name;
  u32 batch, heads, kv_heads, length, dim_qk, dim_v, bytes, rows, causal;
};

// Bytes of keys and values fetched at most, in units of what there is.
constexpr f64 MOST = 1.15;

// Tiles as they were taken before: the last tile of every head, then the last but one of every head.
Place all_heads_first(const AttentionParams& p, const TileOrder& order, u32 turn) {
  const u32 all = p.batch * p.heads, head = turn % all;
  return {head / p.heads, head % p.heads, order.tiles - 1 - turn / all};
}

// Bytes of keys and values fetched by 132 blocks that go through tiles of 128 keys in step.
template <class At> u64 fetched(const Case& c, const AttentionParams& p, u64 cache_bytes, At at) {
  struct Block { Place place = {}; u32 key_tile = 0, end = 0; };
  constexpr u32 BLOCKS = 132, KEYS = 128;
  const TileOrder order(p, c.rows, (c.dim_qk + c.dim_v) * c.bytes);
  const u64 tile_bytes = u64(KEYS) * (c.dim_qk + c.dim_v) * c.bytes;
  const u64 passing = u64(c.rows) * (c.dim_qk * c.bytes + c.dim_v * 2);
  Cache cache = {cache_bytes};
  std::vector<Block> blocks(BLOCKS);
  u64 bytes = 0;
  for (u32 turn = 0, working = 1; working > 0;) {
    working = 0;
    for (Block& block : blocks) {
      if (block.key_tile == block.end) {
        if (turn == order.count(p)) continue;
        block.place = at(order, turn++);
        // Queries and outputs pass through the cache as well.
        cache.touch(u64(1) << 63 | turn, passing);
        const u32 seen = c.causal ? smaller(c.length, (block.place.tile + 1) * c.rows) : c.length;
        block = {block.place, 0, (seen + KEYS - 1) / KEYS};
      }
      const u32 kv_head = block.place.sequence * c.kv_heads + block.place.head / (c.heads / c.kv_heads);
      if (cache.touch(u64(kv_head) << 32 | block.key_tile, tile_bytes)) bytes += tile_bytes;
      block.key_tile++;
      working++;
    }
  }
  return bytes;
}

AttentionParams params(const Case& c) {
  AttentionParams p = {};
  p.batch = c.batch;
  p.heads = c.heads;
  p.kv_heads = c.kv_heads;
  p.queries = p.keys = c.length;
  p.causal = c.causal;
  return p;
}

void each_tile_once(AttentionParams p, u32 rows, u32 bytes) {
  const TileOrder order(p, rows, bytes);
  std::vector<u32> times(u64(p.batch) * p.heads * order.tiles);
  if (order.count(p) != times.size()) model::fail("not as many turns as tiles");
  for (u32 turn = 0; turn < order.count(p); turn++) {
    const Place place = order.at(p, turn);
    if (place.sequence >= p.batch || place.head >= p.heads || place.tile >= order.tiles) {
      model::fail("a place that is not there");
    }
    times[(u64(place.sequence) * p.heads + place.head) * order.tiles + place.tile]++;
  }
  for (u32 time : times) {
    if (time != 1) model::fail("a tile is not taken once");
  }
}

}  // namespace

int main() {
  for (u32 i = 0; i < 400; i++) {
    AttentionParams p = {};
    p.batch = 1 + i % 5;
    p.kv_heads = 1 + i % 7;
    p.heads = p.kv_heads * (1 + i % 4);
    p.queries = i * 37 % 700;
    p.keys = i % 11 == 0 ? 0 : i * 7919 % 90000;
    p.causal = i % 3 != 0;
    p.window = p.causal != 0 && i % 8 == 1 ? 100 : 0;
    each_tile_once(p, i % 2 ? 128 : 192, i % 2 ? 512 : 128);
  }
  // The last cache of H100 and H200 has 50 MB; each half keeps copies of the other's lines, so that
  // what all blocks read has 25.
  const Case cases[] = {
      {"16 heads of 128, 8 x 2048, causal", 8, 16, 16, 2048, 128, 128, 2, 128, 1},
      {"16 heads of 128, 8 x 2048", 8, 16, 16, 2048, 128, 128, 2, 128, 0},
      {"16 heads of 128, 2 x 16384, causal", 2, 16, 16, 16384, 128, 128, 2, 128, 1},
      {"16 heads of 128, 2 x 16384", 2, 16, 16, 16384, 128, 128, 2, 128, 0},
      {"32 heads of 128 by 8, 4 x 8192, causal", 4, 32, 8, 8192, 128, 128, 2, 128, 1},
      {"32 heads of 64, 4 x 4096, causal", 4, 32, 32, 4096, 64, 64, 2, 192, 1},
      {"32 heads of 64, 4 x 4096", 4, 32, 32, 4096, 64, 64, 2, 192, 0},
      {"128 heads of 192 and 128, 1 x 4096, causal", 1, 128, 128, 4096, 192, 128, 2, 128, 1},
      {"16 heads of 256, 2 x 8192, causal", 2, 16, 16, 8192, 256, 256, 2, 128, 1},
      {"16 heads of 128 in fp8, 2 x 8192, causal", 2, 16, 16, 8192, 128, 128, 1, 128, 1},
  };
  u32 faults = 0;
  for (const Case& c : cases) {
    const AttentionParams p = params(c);
    const f64 there = f64(c.batch) * c.kv_heads * c.length * (c.dim_qk + c.dim_v) * c.bytes;
    const f64 now = f64(fetched(c, p, 25 << 20, [&](const TileOrder& order, u32 turn) {
      return order.at(p, turn);
    }));
    const f64 before = f64(fetched(c, p, 25 << 20, [&](const TileOrder& order, u32 turn) {
      return all_heads_first(p, order, turn);
    }));
    printf("%s: %.2f GB of keys and values, %.2f fetched; %.2f by one tile of every head at once\n",
           c.name, there / 1e9, now / 1e9, before / 1e9);
    if (now > MOST * there || before <= MOST * there) {
      printf("fault: more than %.2f times what there is, or no more by the other order\n", MOST);
      faults++;
    }
  }
  if (faults == 0) printf("%zu checks passed\n", std::size(cases));
  return faults != 0;
}
