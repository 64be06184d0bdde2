// Matrix products for groups of rows by the matrix units of CDNA 3 (MI300): bf16, f16, fp8 and int8. 8-bit
// floats are as in cdna3_mfma.hip.
#include "cdna3.h"
#include "lane_grouped.h"

namespace {

// Two stages are on their way.
template <class T> using Mi300 = Shape<T, 4, 4, true, 8, AHEAD_MOST>;
using Brain = Lanes<Cdna, bf16, f32, bf16, 2>;
using Half = Lanes<Cdna, f16, f32, f16, 2>;
using Integer = Lanes<Cdna, i8, i32, i32, 2>;
struct Quarter : Lanes<Cdna, e4m3_fnuz, f32, bf16, 2> {
  static constexpr bool BY_COLUMNS = true;
  static constexpr u32 FACTOR = 4;
};

}  // namespace

KERNEL(512, 1) grouped_bf16_cdna3(const GroupedParams p) { product_grouped<Brain, Mi300<Brain>>(p); }
KERNEL(512, 1) grouped_f16_cdna3(const GroupedParams p) { product_grouped<Half, Mi300<Half>>(p); }
KERNEL(512, 1) grouped_fp8_cdna3(const GroupedParams p) { product_grouped<Quarter, Mi300<Quarter>>(p); }
KERNEL(512, 1) grouped_int8_cdna3(const GroupedParams p) { product_grouped<Integer, Mi300<Integer>>(p); }
