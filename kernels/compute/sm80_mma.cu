// Multiplication of fragments that never leave the registers: the peak of the matrix units as
// compute capability 8.0 drives them.
#include "count_mma.h"

namespace {

template <class In> struct Type;
template <> struct Type<bf16> : Ones<bf16> {
  static constexpr u32 ONES = 0x3f803f80, DEPTH = 16;
};
template <> struct Type<f16> : Ones<f16> {
  static constexpr u32 ONES = 0x3c003c00, DEPTH = 16;
};
template <> struct Type<tf32> : Ones<tf32> {
  static constexpr u32 ONES = 0x3f800000, DEPTH = 8;
};
template <> struct Type<i8> : Ones<i8> {
  using Sum = i32;
  static constexpr u32 ONES = 0x01010101, DEPTH = 32;
};
template <> struct Type<f64> {
  using In = f64;
  using Sum = f64;
  using A = f64[2];
  using B = f64;
  using Word = f64;
  static constexpr u32 ONES = 1, DEPTH = 4;
};

}  // namespace

KERNEL(256, 1) compute_bf16_mma(const ComputeParams p, const u32 r) {
  count_fragments<Type<bf16>>(p, r);
}
KERNEL(256, 1) compute_f16_mma(const ComputeParams p, const u32 r) {
  count_fragments<Type<f16>>(p, r);
}
KERNEL(256, 1) compute_tf32_mma(const ComputeParams p, const u32 r) {
  count_fragments<Type<tf32>>(p, r);
}
KERNEL(256, 1) compute_int8_mma(const ComputeParams p, const u32 r) {
  count_fragments<Type<i8>>(p, r);
}
KERNEL(256, 1) compute_f64_mma(const ComputeParams p, const u32 r) {
  count_fragments<Type<f64>>(p, r);
}
