// Where the keys of a part stand, for warps that copy them tile by tile: each token is looked up once,
// by one lane, a tile ahead. Pages are divided by only at the start of a part.
#pragma once
#include "attention.h"
#include "sm80.h"

namespace {

// A walk over every STEP-th token of a sequence's keys.
template <u32 STEP> struct TokenWalk {
  // Which page, and which token of it; in one piece, no page, and which token of all.
  u32 index, offset;
  // From one token to the next.
  u32 pages, tokens;

  DEVICE_MEMBER void start(const AttentionParams& p, const AttentionSequence& sequence, u32 key) {
    const u32 at = sequence.key_first + key;
    const bool paged = p.pages != nullptr;
    index = paged ? at / p.page : 0;
    offset = paged ? at - index * p.page : at;
    pages = paged ? STEP / p.page : 0;
    tokens = STEP - pages * p.page;
  }
  DEVICE_MEMBER void go_on(const AttentionParams& p) {
    index += pages;
    offset += tokens;
    if (p.pages == nullptr || offset < p.page) return;
    offset -= p.page;
    index++;
  }
  // The page's number, as it comes from memory; 0 in one piece.
  DEVICE_MEMBER u32 page(const AttentionParams& p) const {
    return p.pages == nullptr ? 0 : p.pages[index];
  }
};

// Tokens of tiles of KEYS keys that THREADS threads copy, ACROSS of them beside each other in a row
// and the rest in the rows below: each thread copies EACH rows, AT_ONCE apart. Of the rows that a warp
// copies each is looked up by another of its lanes. From one of their tiles to the next are STEP keys.
template <u32 KEYS, u32 THREADS, u32 ACROSS, u32 STEP = KEYS> struct TileTokens {
  static constexpr u32 AT_ONCE = THREADS / ACROSS, EACH = KEYS / AT_ONCE, DOWN = 32 / ACROSS;
  static_assert(EACH * DOWN <= 32, "a lane for each row of a warp");

  TokenWalk<STEP> walk;
  // The key that this lane looks up next, the end of them, and the page that it found.
  u32 key, end, page;

  // The first row of this thread.
  static DEVICE_MEMBER u32 row() { return thread_index() % THREADS / ACROSS; }

  // Of the keys of a sequence from `first` to `last`, which is not one of them.
  DEVICE_MEMBER void start(const AttentionParams& p, const AttentionSequence& sequence, u32 first,
                           u32 last) {
    const u32 lane = thread_index() % 32, warp = thread_index() % THREADS / 32;
    const u32 row = lane / DOWN % EACH * AT_ONCE + warp * DOWN + lane % DOWN;
    key = first + row;
    end = last;
    walk.start(p, sequence, key);
    page = key < end ? walk.page(p) : 0;
  }
  // Where this thread's rows of the tile are, in tokens, 0 where they are none, and the next tile's
  // pages are asked for. By whole warps.
  DEVICE_MEMBER void take(const AttentionParams& p, u32 (&tokens)[EACH]) {
    const u32 token = key < end ? page * p.page + walk.offset : 0;
    UNROLL for (u32 i = 0; i < EACH; i++) {
      tokens[i] = shuffle(token, i * DOWN + thread_index() % 32 / ACROSS);
    }
    key += STEP;
    walk.go_on(p);
    page = key < end ? walk.page(p) : 0;
  }
};

}  // namespace
