// Latencies of multiplications of fragments, whose sums wait for those before: one m16n8 of a warp.
#include "instruction.h"
#include "sm80.h"

namespace {

template <class Element, u32 ONE, u32 MINUS_ONE, class Number = f32> struct Fragments {
  using In = Element;
  using Sum = Number;
  using A = u32[4];
  using B = u32[2];
  static DEVICE_MEMBER void fill(A& a) { for (u32& word : a) word = ONE + zero(); }
  static DEVICE_MEMBER void fill(B& plus, B& minus) {
    for (u32& word : plus) word = ONE + zero();
    for (u32& word : minus) word = MINUS_ONE + zero();
  }
};
struct FragmentsOfF64 {
  using In = f64;
  using Sum = f64;
  using A = f64[2];
  using B = f64;
  static DEVICE_MEMBER void fill(A& a) { a[0] = a[1] = 1 + zero(); }
  static DEVICE_MEMBER void fill(B& plus, B& minus) {
    plus = 1 + zero();
    minus = -plus;
  }
};

// Products of ones are added to each sum, and taken off it again.
template <class T> struct Products {
  static constexpr u32 STEP = 1;
  typename T::A ones;
  typename T::B plus, minus;
  typename T::Sum sums[4];
  DEVICE_MEMBER Products() {
    T::fill(ones);
    T::fill(plus, minus);
    for (auto& sum : sums) sum = CHAIN_START + zero();
  }
  DEVICE_MEMBER void up() { multiply(sums, ones, plus, typename T::In()); }
  DEVICE_MEMBER void down() { multiply(sums, ones, minus, typename T::In()); }
  DEVICE_MEMBER f64 value(u32) const {
    return (f64(sums[0]) + f64(sums[1]) + f64(sums[2]) + f64(sums[3])) / 4;
  }
};

}  // namespace

#define CHAIN(NAME, ...)                                                                          \
  KERNEL(32, 1) instruction_matrix_##NAME##_mma(const LatencyParams p, const u32 repeat) {        \
    run_chain<Products<__VA_ARGS__>>(p, repeat);                                                  \
  }
CHAIN(bf16, Fragments<bf16, 0x3f803f80, 0xbf80bf80>)
CHAIN(f16, Fragments<f16, 0x3c003c00, 0xbc00bc00>)
CHAIN(tf32, Fragments<tf32, 0x3f800000, 0xbf800000>)
CHAIN(int8, Fragments<i8, 0x01010101, 0xffffffff, i32>)
CHAIN(f64, FragmentsOfF64)
#undef CHAIN
