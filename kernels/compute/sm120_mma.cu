// The peak of elements with scales, as compute capability 12 multiplies their fragments. All scales
// are one.
#include "count_mma.h"
#include "sm120.h"

namespace {

template <class Format> struct Unscaled {};

template <class Format>
DEVICE void multiply(f32 (&sums)[4], const u32 (&a)[4], const u32 (&b)[2], Unscaled<Format>) {
  multiply_scaled<0>(sums, a, b, Format::SCALE_ONES, Format::SCALE_ONES, Format());
}

template <class Format> struct Type : Ones<Unscaled<Format>> {
  // 32 bytes along k.
  static constexpr u32 ONES = Format::ONES, DEPTH = 256 / Format::BITS;
};

}  // namespace

KERNEL(256, 1) compute_mxfp8_mma(const ComputeParams p, const u32 r) {
  count_fragments<Type<mxfp8>>(p, r);
}
KERNEL(256, 1) compute_mxfp4_mma(const ComputeParams p, const u32 r) {
  count_fragments<Type<mxfp4>>(p, r);
}
KERNEL(256, 1) compute_nvfp4_mma(const ComputeParams p, const u32 r) {
  count_fragments<Type<nvfp4>>(p, r);
}
