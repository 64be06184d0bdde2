// Whether the same work leaves the same bits: a hash of memory, a tally of the hashes that were
// seen, and patterns that are written and read back. crates/domain/src/kernel/sdc.rs says the same for the host.
#include "params.h"
#include "block_sum.h"

namespace {

CONSTANT u32 THREADS = 1024;

// A bijection of 64 bits (the end of SplitMix64): two words that differ stay different.
DEVICE u64 mixed(u64 bits) {
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9ull;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBull;
  return bits ^ (bits >> 31);
}

// What a word at a place adds to the hash.
DEVICE u64 hashed(u64 word, u64 at) { return mixed(word + (at + 1) * 0x9E3779B97F4A7C15ull); }

// The word that a pattern has at a place in a round.
DEVICE u64 word_of(u32 pattern, u64 round, u64 at) {
  const u64 odd = 0 - (round & 1);
  if (pattern == 1) return (1ull << ((round + at) & 63)) ^ (0 - (round >> 6 & 1));
  if (pattern == 2) return (8 * at) ^ odd;
  if (pattern == 3) return hashed(round, at);
  return mixed((round >> 1) + 1) ^ odd;
}

DEVICE u64 first_place() { return u64(block_index()) * THREADS + thread_index(); }
DEVICE u64 stride() { return u64(block_count()) * THREADS; }

}  // namespace

// The sum of what all words add: in any order, by any number of blocks, the same.
KERNEL(1024, 1) sdc_hash(const HashParams p) {
  const Vector<u64>* values = reinterpret_cast<const Vector<u64>*>(p.values);
  const u64 pairs = p.length / 2;
  u64 sum = 0;
  for (u64 at = first_place(); at < pairs; at += stride()) {
    const Vector<u64> pair = load(values + at);
    sum += hashed(pair.at[0], 2 * at) + hashed(pair.at[1], 2 * at + 1);
  }
  sum = block_sum<THREADS>(sum);
  if (thread_index() == 0) leave_in_place(p.partial, sum);
}

// Counts the hash whose parts the blocks left. `fresh` is told which copy of the values is to be
// kept, counted from 1: those of the first two hashes are.
KERNEL(64, 1) sdc_tally(const TallyParams p) {
  u64 hash = 0;
  // As many threads as the lanes that go in step have on any device.
  for (u64 block = thread_index(); block < p.blocks; block += 64) hash += p.partial[8 * block];
  hash = block_sum<64>(hash);
  if (thread_index() != 0) return;
  u64* tally = p.tally;
  const u64 before = tally[0], known = tally[1];
  tally[0] = before + 1;
  u64 place = 0;
  while (place < known && tally[4 + 4 * place] != hash) place++;
  u64 fresh = 0;
  if (place < known) {
    tally[4 + 4 * place + 1]++;
  } else if (known == p.entries) {
    tally[2]++;
  } else {
    tally[4 + 4 * known] = hash;
    tally[4 + 4 * known + 1] = 1;
    tally[4 + 4 * known + 2] = before;
    tally[1] = known + 1;
    fresh = known < 2 ? known + 1 : 0;
  }
  if (*p.fresh != fresh) *p.fresh = fresh;
}

// Keeps the values that made a fresh hash.
KERNEL(1024, 1) sdc_keep(const KeepParams p) {
  const u64 fresh = *p.fresh;
  if (fresh == 0) return;
  u64* kept = p.kept + (fresh - 1) * p.length;
  for (u64 at = first_place(); at < p.length; at += stride()) kept[at] = p.values[at];
}

// Reads words and compares them with a pattern, and writes another one in their place. A block
// leaves how many were wrong in all launches, and of the first of them place, bits and round.
KERNEL(1024, 1) sdc_pattern(const PatternParams p) {
  SHARED u64 wrongs[THREADS];
  SHARED u64 places[THREADS];
  SHARED u64 found[THREADS];
  u64 wrong = 0, place = 0, bits = 0;
  for (u64 step = first_place(); step < p.length; step += stride()) {
    const u64 at = p.descending != 0 ? p.length - 1 - step : step;
    if (p.checked != 0) {
      const u64 word = p.values[at];
      if (word != word_of(p.checked, p.checked_round, at)) {
        if (wrong == 0) { place = at; bits = word; }
        wrong++;
      }
    }
    if (p.written != 0) p.values[at] = word_of(p.written, p.written_round, at);
  }
  wrongs[thread_index()] = wrong;
  places[thread_index()] = place;
  found[thread_index()] = bits;
  block_barrier();
  if (thread_index() != 0) return;
  u64* left = p.partial + 8 * u64(block_index());
  for (u32 t = 0; t < THREADS; t++) {
    if (wrongs[t] == 0) continue;
    if (left[0] == 0) {
      left[1] = places[t];
      left[2] = found[t];
      left[3] = p.checked_round;
    }
    left[0] += wrongs[t];
  }
}
