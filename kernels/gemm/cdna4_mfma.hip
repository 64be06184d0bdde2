// Matrix products by the matrix units of CDNA 4 (MI350): bf16, f16, fp8, f32, int8 and f64.
#include "cdna4.h"
#include "lane_product.h"

namespace {

// A stage of these takes less time than memory may take to answer: two are on their way. Of f32 and f64
// a stage takes longer, and sums leave no registers for another.
template <class T, u32 DOWN = 8> using Mi350 = Shape<T, DOWN, 4, true, 8, AHEAD_MOST>;
template <class T, u32 DOWN = 8> using Mi350One = Shape<T, DOWN, 4, true, 8>;
using Brain = Lanes<Cdna, bf16, f32, bf16, 4>;
using Half = Lanes<Cdna, f16, f32, f16, 4>;
using Single = Lanes<Cdna, f32, f32, f32, 1>;
using Integer = Lanes<Cdna, i8, i32, i32, 4>;
using Double = Lanes<CdnaDouble, f64, f64, f64, 2>;
// 128 along k at once, with scales of 1.
struct Quarter : Lanes<Cdna, e4m3, f32, bf16, 8> {
  static constexpr bool BY_COLUMNS = true;
};

}  // namespace

KERNEL(512, 1) gemm_bf16_cdna4(const GemmParams p) { product<Brain, Mi350<Brain>>(p); }
KERNEL(512, 1) gemm_f16_cdna4(const GemmParams p) { product<Half, Mi350<Half>>(p); }
KERNEL(512, 1) gemm_fp8_cdna4(const GemmParams p) { product<Quarter, Mi350<Quarter, 4>>(p); }
KERNEL(512, 1) gemm_f32_cdna4(const GemmParams p) { product<Single, Mi350One<Single>>(p); }
KERNEL(512, 1) gemm_int8_cdna4(const GemmParams p) { product<Integer, Mi350<Integer>>(p); }
KERNEL(512, 1) gemm_f64_cdna4(const GemmParams p) { product<Double, Mi350One<Double, 4>>(p); }
KERNEL(512, 1) gemm_bf16_nt_cdna4(const GemmParams p) {
  product<ByColumns<Brain>, Mi350<ByColumns<Brain>>>(p);
}
KERNEL(512, 1) gemm_f16_nt_cdna4(const GemmParams p) {
  product<ByColumns<Half>, Mi350<ByColumns<Half>>>(p);
}
KERNEL(512, 1) gemm_f32_nt_cdna4(const GemmParams p) {
  product<ByColumns<Single>, Mi350One<ByColumns<Single>>>(p);
}
KERNEL(512, 1) gemm_int8_nt_cdna4(const GemmParams p) {
  product<ByColumns<Integer>, Mi350<ByColumns<Integer>>>(p);
}
