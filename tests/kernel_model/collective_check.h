// The check of what collectives received: what it makes anew is what crates/bench/src/collective/element.rs
// sends (the digests stand there too), and each element that was spoilt is counted once.

namespace {

template <class T> f64 digest(u64 terms) {
  f64 sum = 0.0;
  for (u64 at = 0; at < 200; at++) {
    for (u64 rank = 0; rank < 3; rank++) sum += sent<T>(rank, at, terms) * f64(at + 1);
  }
  return sum;
}

// Bits of an element with this value, which the type has.
f64 element(f64 value, f64) { return value; }
f32 element(f64 value, f32) { return f32(value); }
bf16 element(f64 value, bf16) { return narrow(f32(value), bf16{}); }
f16 element(f64 value, f16) { return narrow(f32(value), f16{}); }
i8 element(f64 value, i8) { return i8(value); }
Eight element(f64 value, Eight) {
  for (u32 bits = 0; bits < 0x7f; bits++) {
    if (value_of(Eight{u8(bits)}) == value) return {u8(bits)};
  }
  return {0x7f};
}

using Entry = void (*)(const CheckParams);

struct Found { u64 wrong; f64 error; };

Found found(Entry entry, CheckParams p) {
  constexpr u32 BLOCKS = 3;
  std::vector<u64> wrong(8 * BLOCKS, ~0ull);
  std::vector<f64> error(8 * BLOCKS, -1.0);
  p.wrong = wrong.data();
  p.error = error.data();
  model::launch(BLOCKS, THREADS, 0, [&] { entry(p); });
  Found all = {0, 0.0};
  for (u32 block = 0; block < BLOCKS; block++) {
    all.wrong += wrong[8 * block];
    if (error[8 * block] > all.error) all.error = error[8 * block];
  }
  return all;
}

template <class T> void check_type(const char* name, Entry entry, const f64 (&digests)[3]) {
  const u64 terms[3] = {1, 8, 72};
  for (u32 i = 0; i < 3; i++) same(digest<T>(terms[i]) == digests[i], name, "what is sent");
  constexpr u64 LENGTH = 5001, RANKS = 8, SLICE = 700, BEFORE = 31;
  Array<T> sums(LENGTH), copies(LENGTH);
  for (u64 at = 0; at < LENGTH; at++) {
    f64 sum = 0.0;
    for (u64 rank = 0; rank < RANKS; rank++) sum += sent<T>(rank, BEFORE + at, RANKS);
    sums.data()[at] = element(sum, T{});
    const f64 copied = sent<T>(2 + at / SLICE, BEFORE + at % SLICE, 1);
    copies.data()[at] = element(copied, T{});
  }
  const f64 tolerance = sizeof(T) >= 4 ? 7 * 6e-8 : 0.0;
  CheckParams sum = {sums.data(), 0, 0, LENGTH, 1, BEFORE, 0, RANKS, 0, tolerance};
  CheckParams copy = {copies.data(), 0, 0, LENGTH, SLICE, BEFORE, 2, 0, 0, 0.0};
  same(found(entry, sum).wrong == 0, name, "right sums");
  same(found(entry, copy).wrong == 0, name, "right copies");
  // One of another rank; one of the next place; the last of all, of which every bit is another.
  copies.data()[699] = element(sent<T>(2, BEFORE + 700, 1), T{});
  const bool differs = sent<T>(2, BEFORE + 700, 1) != sent<T>(2, BEFORE + 699, 1);
  u8* last = reinterpret_cast<u8*>(copies.data() + LENGTH - 1);
  for (u32 i = 0; i < sizeof(T); i++) last[i] = u8(~last[i]);
  same(found(entry, copy).wrong == 1u + differs, name, "spoilt copies");
  same(found(entry, copy).error == 1.0, name, "an error of a copy");
  const f64 zero = 0.0;
  for (u64 at : {0ull, 511ull, 512ull, 5000ull}) sums.data()[at] = element(zero, T{});
  same(found(entry, sum).wrong == 4u, name, "spoilt sums");
  same(found(entry, sum).error == 1.0, name, "an error of a sum");
  // Grown: what is larger is right where the type grows, and all is where it wraps.
  sum.grown = 1;
  same(found(entry, sum).wrong == (Kind<T>::GROWS ? 4u : 0u), name, "grown sums");
}

void checks() {
#define CHECK_TYPE(NAME, TYPE, ...) \
  check_type<TYPE>("collective/check_" #NAME, collective_check_##NAME, {__VA_ARGS__})
  CHECK_TYPE(f64, f64, 60659.99393284321, 60659.99393284321, 60659.99393284321);
  CHECK_TYPE(f32, f32, 60659.993917286396, 60659.993917286396, 60659.993917286396);
  CHECK_TYPE(bf16, bf16, 7625900.0, 1011148.0, 89500.0);
  CHECK_TYPE(f16, f16, 60528300.0, 7625900.0, 862392.0);
  CHECK_TYPE(int8, i8, 3858799.0, 481115.0, 28080.0);
  CHECK_TYPE(fp8, Eight, 501324.0, 64112.0, 11449.0);
  const f32 no_number[1] = {__builtin_nanf("")};
  const CheckParams p = {no_number, 0, 0, 1, 1, 0, 0, 2, 1, 1.0};
  same(found(collective_check_f32, p).wrong == 1, "collective/check_f32", "no number");
  const f32 infinite[1] = {__builtin_inff()};
  const CheckParams q = {infinite, 0, 0, 1, 1, 0, 0, 2, 1, 1.0};
  same(found(collective_check_f32, q).wrong == 0, "collective/check_f32", "infinite, grown");
}

}  // namespace
