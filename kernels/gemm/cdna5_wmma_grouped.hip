// Matrix products for groups of rows by the matrix units of CDNA 5 (MI455X, MI430X): bf16, f16, fp8 and int8.
#include "cdna5.h"
#include "lane_grouped.h"

namespace {

// Two stages are on their way.
template <class T> using Mi450 = Shape<T, 4, 4, true, 1, AHEAD_MOST>;
using Brain = Lanes<Cdna5, bf16, f32, bf16, 8>;
using Half = Lanes<Cdna5, f16, f32, f16, 8>;
using Integer = Lanes<Cdna5, i8, i32, i32, 8>;
struct Quarter : Lanes<Cdna5, e4m3, f32, bf16, 16> {
  static constexpr bool BY_COLUMNS = true;
};

}  // namespace

KERNEL(256, 1) grouped_bf16_cdna5(const GroupedParams p) { product_grouped<Brain, Mi450<Brain>>(p); }
KERNEL(256, 1) grouped_f16_cdna5(const GroupedParams p) { product_grouped<Half, Mi450<Half>>(p); }
KERNEL(256, 1) grouped_fp8_cdna5(const GroupedParams p) { product_grouped<Quarter, Mi450<Quarter>>(p); }
KERNEL(256, 1) grouped_int8_cdna5(const GroupedParams p) { product_grouped<Integer, Mi450<Integer>>(p); }
