// Matrix products for groups of rows by the matrix units of CDNA 4 (MI350): bf16, f16, fp8 and int8.
#include "cdna4.h"
#include "lane_grouped.h"

namespace {

// Two stages are on their way.
template <class T> using Mi350 = Shape<T, 4, 4, true, 8, AHEAD_MOST>;
using Brain = Lanes<Cdna, bf16, f32, bf16, 4>;
using Half = Lanes<Cdna, f16, f32, f16, 4>;
using Integer = Lanes<Cdna, i8, i32, i32, 4>;
// 128 along k at once, with scales of 1.
struct Quarter : Lanes<Cdna, e4m3, f32, bf16, 8> {
  static constexpr bool BY_COLUMNS = true;
};

}  // namespace

KERNEL(512, 1) grouped_bf16_cdna4(const GroupedParams p) { product_grouped<Brain, Mi350<Brain>>(p); }
KERNEL(512, 1) grouped_f16_cdna4(const GroupedParams p) { product_grouped<Half, Mi350<Half>>(p); }
KERNEL(512, 1) grouped_fp8_cdna4(const GroupedParams p) { product_grouped<Quarter, Mi350<Quarter>>(p); }
KERNEL(512, 1) grouped_int8_cdna4(const GroupedParams p) { product_grouped<Integer, Mi350<Integer>>(p); }
