// The kernels that look for silent corruption: the hash is that of crates/domain/src/kernel/sdc.rs for any number
// of blocks, the tally counts each hash and keeps the first two, and patterns find what was
// changed.

namespace {

u64 hash_by(u32 blocks, const u64* values, u64 length) {
  std::vector<u64> partial(8 * blocks, ~0ull);
  const HashParams p = {values, length, partial.data()};
  model::launch(blocks, THREADS, 0, [&] { sdc_hash(p); });
  u64 sum = 0;
  for (u32 block = 0; block < blocks; block++) sum += partial[8 * block];
  return sum;
}

void check_hash() {
  Array<u64> known(4);
  const u64 words[4] = {1, 2, 3, ~0ull};
  for (u32 i = 0; i < 4; i++) known.data()[i] = words[i];
  same(hash_by(1, known.data(), 4) == 0x5adc101030f8dad6ull, "sdc/hash", "the host's hash");
  constexpr u64 LENGTH = 5002;
  Array<u64> values(LENGTH);
  for (u64 at = 0; at < LENGTH; at++) values.data()[at] = mixed(at + 1);
  const u64 right = hash_by(1, values.data(), LENGTH);
  for (u32 blocks : {2u, 3u, 7u}) {
    same(hash_by(blocks, values.data(), LENGTH) == right, "sdc/hash", "any number of blocks");
  }
  for (u64 bit = 0; bit < 64; bit++) {
    const u64 at = (bit * 977) % LENGTH;
    values.data()[at] ^= 1ull << bit;
    same(hash_by(2, values.data(), LENGTH) != right, "sdc/hash", "every bit");
    values.data()[at] ^= 1ull << bit;
  }
}

void check_tally() {
  constexpr u64 ENTRIES = 8, LENGTH = 1500;
  constexpr u32 BLOCKS = 3;
  Array<u64> tally(4 + 4 * ENTRIES), fresh(1), values(LENGTH), kept(2 * LENGTH);
  for (u64 i = 0; i < 4 + 4 * ENTRIES; i++) tally.data()[i] = 0;
  fresh.data()[0] = 0;
  for (u64 at = 0; at < LENGTH; at++) values.data()[at] = at;
  std::vector<u64> partial(8 * BLOCKS);
  const auto turn = [&] {
    const HashParams hash = {values.data(), LENGTH, partial.data()};
    model::launch(BLOCKS, THREADS, 0, [&] { sdc_hash(hash); });
    const TallyParams count = {partial.data(), BLOCKS, tally.data(), ENTRIES, fresh.data()};
    model::launch(1, 64, 0, [&] { sdc_tally(count); });
    const KeepParams keep = {fresh.data(), values.data(), kept.data(), LENGTH};
    model::launch(BLOCKS, THREADS, 0, [&] { sdc_keep(keep); });
  };
  // One spoilt, five right, ten spoilt otherwise each.
  values.data()[7] ^= 1;
  turn();
  values.data()[7] ^= 1;
  for (u32 i = 0; i < 5; i++) turn();
  for (u64 at = 0; at < 10; at++) {
    values.data()[100 + at] ^= 1ull << at;
    turn();
    values.data()[100 + at] ^= 1ull << at;
  }
  const u64* counted = tally.data();
  same(counted[0] == 16 && counted[1] == ENTRIES && counted[2] == 4, "sdc/tally",
       "all are counted");
  same(counted[4 + 1] == 1 && counted[4 + 4 + 1] == 5 && counted[4 + 4 + 2] == 1, "sdc/tally",
       "by their hash");
  bool is_kept = kept.data()[7] == 6 && kept.data()[LENGTH + 7] == 7;
  for (u64 at = 0; at < LENGTH; at++) is_kept &= at == 7 || kept.data()[at] == at;
  for (u64 at = 0; at < LENGTH; at++) is_kept &= kept.data()[LENGTH + at] == at;
  same(is_kept, "sdc/keep", "the first two");
}

void check_pattern() {
  constexpr u64 LENGTH = 5001;
  constexpr u32 BLOCKS = 3;
  Array<u64> values(LENGTH);
  for (u32 pattern = 1; pattern <= 4; pattern++) {
    std::vector<u64> partial(8 * BLOCKS, 0);
    const auto pass = [&](u32 checked, u64 checked_round, u32 written, u64 written_round,
                          u32 down) {
      const PatternParams p = {values.data(), LENGTH,  partial.data(), checked_round,
                               written_round, checked, written,        down,          0};
      model::launch(BLOCKS, THREADS, 0, [&] { sdc_pattern(p); });
      return partial[0] + partial[8] + partial[16];
    };
    pass(0, 0, pattern, 70, 0);
    same(pass(pattern, 70, pattern, 71, 1) == 0, "sdc/pattern", "what was written");
    same(pass(pattern, 71, 0, 0, 0) == 0, "sdc/pattern", "downwards too");
    values.data()[4321] ^= 1ull << 33;
    same(pass(pattern, 71, 0, 0, 0) == 1, "sdc/pattern", "what was changed");
    for (u32 block = 0; block < BLOCKS; block++) {
      const u64* left = partial.data() + 8 * block;
      if (left[0] == 0) continue;
      same(left[1] == 4321 && left[2] == values.data()[4321] && left[3] == 71, "sdc/pattern",
           "and where");
    }
  }
}

}  // namespace

void check_all() {
  check_hash();
  check_tally();
  check_pattern();
}
