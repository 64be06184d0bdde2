// Latencies of instructions on registers and in shared memory, as every GPU has them.
#include "instruction.h"

namespace {

// Operands are told from constants by `zero`, so that no compiler folds them.
template <class T> struct Additions {
  static constexpr u32 STEP = 1;
  T x = T(CHAIN_START + zero()), one = T(1 + zero());
  DEVICE_MEMBER void up() { x = x + one; }
  DEVICE_MEMBER void down() { x = x - one; }
  DEVICE_MEMBER f64 value(u32) const { return f64(x); }
};

template <class T> struct Multiplications {
  static constexpr u32 STEP = 1;
  T x = T(CHAIN_START + zero()), two = T(2 + zero()), half = T(1) / two;
  DEVICE_MEMBER void up() { x = x * two; }
  DEVICE_MEMBER void down() { x = x * half; }
  DEVICE_MEMBER f64 value(u32) const { return f64(x); }
};

template <class T> struct FusedMultiplyAdds {
  static constexpr u32 STEP = 1;
  T x = T(CHAIN_START + zero()), one = T(1 + zero()), step = T(2 + zero());
  DEVICE_MEMBER void up() { x = fused(one, step, x); }
  DEVICE_MEMBER void down() { x = fused(one, -step, x); }
  DEVICE_MEMBER f64 value(u32) const { return f64(x); }
};

// Fibonacci's numbers modulo 2^32: each sum is used twice, so that no two additions become one. Nothing is
// taken back, which assemblers would fold; what has to come out is computed by doubling. The third addend
// is zero: NVIDIA's assembler makes additions of two by multiply-adds too.
struct IntegerAdditions {
  static constexpr u32 STEP = 1;
  u32 last = zero(), x = CHAIN_START + zero(), nothing = zero();
  DEVICE_MEMBER void up() {
    u32 next = x + last + nothing;
    forget(next);
    last = x;
    x = next;
  }
  DEVICE_MEMBER void down() { up(); }
  DEVICE_MEMBER f64 value(u32 steps) const {
    u32 a = 0, b = 1;
    for (u32 bit = 1u << 31; bit != 0; bit >>= 1) {
      const u32 even = a * (2 * b - a), odd = a * a + b * b;
      a = steps & bit ? odd : even;
      b = steps & bit ? even + odd : odd;
    }
    return f64(last == a && x == b ? CHAIN_START : 0);
  }
};

// x becomes 3 x + 1 and again what it was, modulo 2^32.
struct IntegerMultiplyAdds {
  static constexpr u32 STEP = 1;
  u32 x = CHAIN_START + zero(), three = 3 + zero(), one = 1 + zero();
  u32 third = 0xaaaaaaab + zero(), less = 0x55555555 + zero();
  DEVICE_MEMBER void up() { x = x * three + one; }
  DEVICE_MEMBER void down() { x = x * third + less; }
  DEVICE_MEMBER f64 value(u32) const { return f64(x); }
};

// x becomes 2^-x, which nears 0.641186 from anywhere and stays there.
struct Exponentials {
  static constexpr u32 STEP = 1;
  f32 x = f32(CHAIN_START + zero());
  DEVICE_MEMBER void up() { x = power_of_two(-x); }
  DEVICE_MEMBER void down() { up(); }
  DEVICE_MEMBER f64 value(u32) const {
    return x > 0.64118f && x < 0.64119f ? f64(CHAIN_START) : f64(x);
  }
};

// A float becomes an integer of 32 bits, and that a float again.
struct Conversions {
  static constexpr u32 STEP = 2;
  f32 x = f32(CHAIN_START + zero());
  DEVICE_MEMBER void up() {
    u32 whole = u32(i32(x));
    forget(whole);
    x = f32(i32(whole));
  }
  DEVICE_MEMBER void down() { up(); }
  DEVICE_MEMBER f64 value(u32) const { return f64(x); }
};

// Neighbours exchange what they have; each begins with another number.
struct Shuffles {
  static constexpr u32 STEP = 1;
  f32 x = f32(CHAIN_START + thread_index());
  DEVICE_MEMBER void up() { x = shuffle_xor(x, 1); }
  DEVICE_MEMBER void down() { up(); }
  DEVICE_MEMBER f64 value(u32) const { return f64(x); }
};

// Each word of shared memory holds the place of the next one in bytes: 32 make a circle.
struct SharedLoads {
  static constexpr u32 STEP = 1;
  const u8* cells;
  u32 at = zero();
  DEVICE_MEMBER SharedLoads() {
    SHARED u32 words[32];
    words[thread_index()] = (thread_index() + 5) % 32 * 4;
    block_barrier();
    cells = reinterpret_cast<const u8*>(words);
  }
  DEVICE_MEMBER void up() { at = *reinterpret_cast<const u32*>(cells + at); }
  DEVICE_MEMBER void down() { up(); }
  DEVICE_MEMBER f64 value(u32) const { return f64(at == 0 ? CHAIN_START : 0); }
};

}  // namespace

#define CHAIN(NAME, CHAIN)                                                                        \
  KERNEL(32, 1) instruction_##NAME(const LatencyParams p, const u32 repeat) {                     \
    run_chain<CHAIN>(p, repeat);                                                                  \
  }
CHAIN(add_f32, Additions<f32>)
CHAIN(add_f64, Additions<f64>)
CHAIN(mul_f32, Multiplications<f32>)
CHAIN(mul_f64, Multiplications<f64>)
CHAIN(fma_f32, FusedMultiplyAdds<f32>)
CHAIN(fma_f64, FusedMultiplyAdds<f64>)
CHAIN(integer_add, IntegerAdditions)
CHAIN(integer_mad, IntegerMultiplyAdds)
CHAIN(exp_f32, Exponentials)
CHAIN(convert_f32, Conversions)
CHAIN(shuffle, Shuffles)
CHAIN(shared_load, SharedLoads)
#undef CHAIN
