// The peak of 8-bit floats as compute capability 8.9 multiplies their fragments, and 12.0 still can.
#include "count_mma.h"
#include "sm89.h"

namespace {
struct Type : Ones<e4m3> {
  static constexpr u32 ONES = 0x38383838, DEPTH = 32;
};
}

KERNEL(256, 1) compute_fp8_mma(const ComputeParams p, const u32 r) { count_fragments<Type>(p, r); }
