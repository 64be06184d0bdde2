// Checks of tiles that blocks share: every stage of every tile is some block's, once, and what is
// added up of several is the product, launch after launch.
#pragma once
#include "checks.h"
#include "stream_k.h"

namespace {

void lines() {
  const u32 at = model::block_at, all = model::blocks;
  for (u32 tiles = 1; tiles < 30; tiles++) {
    for (u32 steps : {1u, 2u, 3u, 7u, 16u}) {
      for (u32 blocks : {1u, 2u, 3u, 5u, 8u, 13u}) {
        model::blocks = blocks;
        std::vector<u32> seen(tiles * steps);
        u32 longest = 0, shortest = ~0u;
        for (model::block_at = 0; model::block_at < blocks; model::block_at++) {
          const Line line = line_of(tiles, steps);
          u32 stages = 0, by_stage = 0;
          for (Stretch now = first_stretch(line); now.there(line); now.pass(line)) {
            same(now.step < now.end && now.end <= steps, "stream_k", "a stretch of a tile");
            for (u32 step = now.step; step < now.end; step++) seen[now.index * steps + step]++;
            stages += now.end - now.step;
            if (now.index < line.whole) continue;
            const u64 first = u64(now.index - line.whole) * steps + now.step;
            same(line.owner(first) == block_index(), "stream_k", "the owner of a stage");
          }
          for (Stretch now = first_stretch(line); now.there(line); now.advance(line)) by_stage++;
          same(by_stage == stages, "stream_k", "stage by stage as stretch by stretch");
          longest = stages > longest ? stages : longest;
          shortest = stages < shortest ? stages : shortest;
        }
        for (u32 count : seen) same(count == 1, "stream_k", "every stage of every tile once");
        same(longest - shortest <= 1, "stream_k", "all blocks have as much to do");
      }
    }
  }
  model::block_at = at;
  model::blocks = all;
}

// `run` launches a kernel with scratch memory for so many blocks, of zeros at first: for each two slots
// of sums, if not said otherwise of 128 x 256, and its counts.
template <class Checked, class Run>
void shared_tiles(Checked& product, u32 blocks, Run run, u32 bytes = 262208) {
  Array<f32> scratch(u64(blocks) * bytes / 4);
  memset(scratch.data(), 0, scratch.count * 4);
  for (u32 launch = 0; launch < 2; launch++) {
    memset(static_cast<void*>(product.c.data()), 0xff, product.c.count * sizeof(product.c.data()[0]));
    run(scratch.data());
    product.check(blocks);
    same(scratch.intact(), product.name, "scratch memory");
  }
}

}  // namespace
