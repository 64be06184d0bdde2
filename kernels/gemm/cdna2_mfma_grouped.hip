// Matrix products for groups of rows by the matrix units of CDNA 2 (MI200): bf16, f16 and int8.
#include "cdna2.h"
#include "lane_grouped.h"

namespace {

// Two stages are on their way.
template <class T> using Mi200 = Shape<T, 4, 4, true, 1, AHEAD_MOST>;
using Brain = Lanes<Cdna, bf16, f32, bf16, 2>;
using Half = Lanes<Cdna, f16, f32, f16, 2>;
using Integer = Lanes<Cdna, i8, i32, i32, 1>;

}  // namespace

KERNEL(512, 1) grouped_bf16_cdna2(const GroupedParams p) { product_grouped<Brain, Mi200<Brain>>(p); }
KERNEL(512, 1) grouped_f16_cdna2(const GroupedParams p) { product_grouped<Half, Mi200<Half>>(p); }
KERNEL(512, 1) grouped_int8_cdna2(const GroupedParams p) { product_grouped<Integer, Mi200<Integer>>(p); }
