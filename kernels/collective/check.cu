// Compares what a rank received with what it ought to be: the elements that ranks send are made
// anew (crates/bench/src/collective/element.rs), so that nothing is read but what is checked.
#include "params.h"

namespace {

CONSTANT u32 THREADS = 512;

// An 8-bit float: 4 bits of exponent, 3 of mantissa, no infinity.
struct Eight { u8 bits; };

DEVICE f64 value_of(f64 received) { return received; }
DEVICE f64 value_of(f32 received) { return f64(received); }
DEVICE f64 value_of(bf16 received) { return f64(widen(received)); }
DEVICE f64 value_of(f16 received) { return f64(widen(received)); }
DEVICE f64 value_of(i8 received) { return f64(i32(received)); }
DEVICE f64 value_of(Eight received) {
  const u32 magnitude = received.bits & 0x7f, exponent = magnitude >> 3, mantissa = magnitude & 7;
  // No number: less than anything that is ever sent, and wrong in every sum.
  if (magnitude == 0x7f) return -1e308;
  const u32 scaled = exponent == 0 ? 2 * mantissa : (8 + mantissa) << exponent;
  const f64 value = f64(scaled) * (1.0 / 1024.0);
  return received.bits >> 7 ? -value : value;
}

// What a type holds of a sum: all integers up to EXACT, where what is sent are integers; and whether
// what is summed again and again only grows.
template <class T> struct Kind;
template <> struct Kind<f64> { CONSTANT bool GROWS = true; };
template <> struct Kind<f32> { CONSTANT bool GROWS = true; };
template <> struct Kind<bf16> { CONSTANT u64 EXACT = 256; CONSTANT bool GROWS = true; };
template <> struct Kind<f16> { CONSTANT u64 EXACT = 2048; CONSTANT bool GROWS = true; };
template <> struct Kind<i8> { CONSTANT u64 EXACT = 127; CONSTANT bool GROWS = false; };
template <> struct Kind<Eight> { CONSTANT u64 EXACT = 16; CONSTANT bool GROWS = false; };

// An integer whose sum over all terms is exact at most.
DEVICE f64 integer(u64 random, u64 place, u64 terms, u64 exact) {
  const u64 most = exact / terms;
  if (most == 0) return place % terms < exact ? 1.0 : 0.0;
  return f64(most < 4 ? random % (most + 1) : 1 + random % most);
}

// What random bits are as an element: of fractions the upper 24 of them, else an integer.
DEVICE f64 drawn(u64 bits, u64, u64, f64) { return f64(bits >> 40) * (1.0 / 16777216.0) + 0.5; }
DEVICE f64 drawn(u64 bits, u64, u64, f32) {
  return f64(f32(f64(bits >> 40) * (1.0 / 16777216.0) + 0.5));
}
template <class T> DEVICE f64 drawn(u64 bits, u64 place, u64 terms, T) {
  return integer(bits >> 32, place, terms, Kind<T>::EXACT);
}

// What a rank sends at a place where so many ranks' elements are added.
template <class T> DEVICE f64 sent(u64 rank, u64 at, u64 terms) {
  u64 bits = (rank << 48 | at) * 0x9E3779B97F4A7C15ull;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9ull;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBull;
  bits ^= bits >> 31;
  return drawn(bits, rank + at, terms, T{});
}

// How far an element is from what it ought to be, relative to it.
template <class T> DEVICE f64 error_of(const CheckParams& p, u64 at, f64 received) {
  if (p.ranks == 0) {
    const f64 copied = sent<T>(p.peer + at / p.slice, p.before + at % p.slice, 1);
    return received == copied ? 0.0 : 1.0;
  }
  f64 sum = 0.0;
  for (u64 rank = 0; rank < p.ranks; rank++) sum += sent<T>(rank, p.before + at, p.ranks);
  if (p.grown != 0 && (received >= sum || !Kind<T>::GROWS)) return 0.0;
  if (received == sum) return 0.0;
  const f64 error = (received > sum ? received - sum : sum - received) / sum;
  // Not at most anything: no number.
  return error <= 1e308 ? error : 1e308;
}

template <class T> DEVICE void check(const CheckParams& p) {
  SHARED u64 wrongs[THREADS];
  SHARED f64 errors[THREADS];
  const T* values = static_cast<const T*>(p.values);
  u64 wrong = 0;
  f64 largest = 0.0;
  u64 at = u64(block_index()) * THREADS + thread_index();
  for (; at < p.length; at += u64(block_count()) * THREADS) {
    const f64 error = error_of<T>(p, at, value_of(values[at]));
    wrong += error > p.tolerance;
    largest = error > largest ? error : largest;
  }
  wrongs[thread_index()] = wrong;
  errors[thread_index()] = largest;
  block_barrier();
  if (thread_index() != 0) return;
  for (u32 t = 1; t < THREADS; t++) {
    wrong += wrongs[t];
    largest = errors[t] > largest ? errors[t] : largest;
  }
  p.wrong[8 * u64(block_index())] = wrong;
  p.error[8 * u64(block_index())] = largest;
}

}  // namespace

#define CHECK(NAME, TYPE) \
  KERNEL(512, 2) collective_check_##NAME(const CheckParams p) { check<TYPE>(p); }

CHECK(f64, f64)
CHECK(f32, f32)
CHECK(bf16, bf16)
CHECK(f16, f16)
CHECK(int8, i8)
CHECK(fp8, Eight)
