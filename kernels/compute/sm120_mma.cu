// The peak of 4-bit floats with a scale for every 16 along k, as compute capability 12 multiplies
// their fragments.
#include "count_mma.h"
#include "sm120.h"

namespace {
struct Type : Ones<e2m1> {
  static constexpr u32 ONES = 0x22222222, DEPTH = 64;
};
}

KERNEL(256, 1) compute_fp4_mma(const ComputeParams p, const u32 r) { count_fragments<Type>(p, r); }
