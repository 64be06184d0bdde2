// What all kernels of attention share: where tokens stand, what a query sees, 8-bit floats as bits.
#pragma once
#include "params.h"

// Scores are kept as exponents of two.
CONSTANT f32 LOG2_E = 1.44269504f;

// Below every score; no score is so low by itself.
DEVICE f32 no_score() { return float_of(0xff800000u); }

// Which of all tokens that K and V have room for is a key of a sequence.
DEVICE u64 key_token(const AttentionParams& p, const AttentionSequence& sequence, u32 key) {
  const u32 at = sequence.key_first + key;
  if (p.pages == nullptr) return at;
  return u64(p.pages[at / p.page]) * p.page + at % p.page;
}

// How many keys a query of a sequence sees: causal, the last query is aligned with the last key.
DEVICE u32 keys_seen(const AttentionParams& p, const AttentionSequence& sequence, u32 query) {
  if (p.causal == 0) return sequence.keys;
  const u32 end = sequence.keys + query + 1;
  return end > sequence.queries ? end - sequence.queries : 0;
}

// The first key that a query of a sequence sees, where there are windows or chunks (0 otherwise). It
// never falls from one query to the next, nor does keys_seen: a query sees one run of keys.
DEVICE u32 first_key_seen(const AttentionParams& p, const AttentionSequence& sequence, u32 query) {
  const u32 seen = keys_seen(p, sequence, query);
  if (p.window != 0) return seen > p.window ? seen - p.window : 0;
  if (p.chunk != 0 && seen != 0) return (seen - 1) / p.chunk * p.chunk;
  return 0;
}

// A float of 4 exponent and 3 fraction bits, from its bits: those of an f32 whose exponent is 120
// too small.
DEVICE f32 widen(u8 bits) {
  const f32 size = float_of(u32(bits & 0x7f) << 20) * 0x1p120f;
  return bits & 0x80 ? -size : size;
}

DEVICE u32 larger(u32 a, u32 b) { return a > b ? a : b; }
DEVICE u32 smaller(u32 a, u32 b) { return a < b ? a : b; }
