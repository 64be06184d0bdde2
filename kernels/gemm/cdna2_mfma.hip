// Matrix products by the matrix units of CDNA 2 (MI200): bf16, f16, f32, int8 and f64.
#include "cdna2.h"
#include "lane_product.h"

namespace {

template <class T, u32 DOWN = 8> using Mi200 = Shape<T, DOWN, 4, true, 1>;
using Brain = Lanes<Cdna, bf16, f32, bf16, 2>;
using Half = Lanes<Cdna, f16, f32, f16, 2>;
using Single = Lanes<Cdna, f32, f32, f32, 1>;
using Integer = Lanes<Cdna, i8, i32, i32, 1>;
using Double = Lanes<CdnaDouble, f64, f64, f64, 2>;

}  // namespace

KERNEL(512, 1) gemm_bf16_cdna2(const GemmParams p) { product<Brain, Mi200<Brain>>(p); }
KERNEL(512, 1) gemm_f16_cdna2(const GemmParams p) { product<Half, Mi200<Half>>(p); }
KERNEL(512, 1) gemm_f32_cdna2(const GemmParams p) { product<Single, Mi200<Single>>(p); }
KERNEL(512, 1) gemm_int8_cdna2(const GemmParams p) { product<Integer, Mi200<Integer>>(p); }
KERNEL(512, 1) gemm_f64_cdna2(const GemmParams p) { product<Double, Mi200<Double, 4>>(p); }
KERNEL(512, 1) gemm_bf16_nt_cdna2(const GemmParams p) {
  product<ByColumns<Brain>, Mi200<ByColumns<Brain>>>(p);
}
KERNEL(512, 1) gemm_f16_nt_cdna2(const GemmParams p) {
  product<ByColumns<Half>, Mi200<ByColumns<Half>>>(p);
}
KERNEL(512, 1) gemm_f32_nt_cdna2(const GemmParams p) {
  product<ByColumns<Single>, Mi200<ByColumns<Single>>>(p);
}
KERNEL(512, 1) gemm_int8_nt_cdna2(const GemmParams p) {
  product<ByColumns<Integer>, Mi200<ByColumns<Integer>>>(p);
}
