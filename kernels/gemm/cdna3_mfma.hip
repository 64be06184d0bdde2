// Matrix products by the matrix units of CDNA 3 (MI300): bf16, f16, tf32, fp8, f32, int8 and f64.
//
// 8-bit floats are OCP's in memory, and FNUZ to these units: the same bits mean half the value, so
// that sums are a quarter of what they should be. What OCP calls a negative zero is no number here:
// it must not occur.
#include "cdna3.h"
#include "lane_product.h"

namespace {

// A stage may take less time than memory does to answer: two are on their way. Of f32 and f64 a stage takes
// longer; tf32 leaves no registers for another.
template <class T> using Mi300 = Shape<T, 8, 4, true, 8, AHEAD_MOST>;
template <class T, u32 DOWN = 8> using Mi300One = Shape<T, DOWN, 4, true, 8>;
using Brain = Lanes<Cdna, bf16, f32, bf16, 2>;
using Half = Lanes<Cdna, f16, f32, f16, 2>;
using Tensor = Lanes<Cdna, tf32, f32, f32, 2>;
using Single = Lanes<Cdna, f32, f32, f32, 1>;
using Integer = Lanes<Cdna, i8, i32, i32, 2>;
using Double = Lanes<CdnaDouble, f64, f64, f64, 2>;
struct Quarter : Lanes<Cdna, e4m3_fnuz, f32, bf16, 2> {
  static constexpr bool BY_COLUMNS = true;
  static constexpr u32 FACTOR = 4;
};

}  // namespace

KERNEL(512, 1) gemm_bf16_cdna3(const GemmParams p) { product<Brain, Mi300<Brain>>(p); }
KERNEL(512, 1) gemm_f16_cdna3(const GemmParams p) { product<Half, Mi300<Half>>(p); }
KERNEL(512, 1) gemm_tf32_cdna3(const GemmParams p) { product<Tensor, Mi300One<Tensor>>(p); }
KERNEL(512, 1) gemm_fp8_cdna3(const GemmParams p) { product<Quarter, Mi300<Quarter>>(p); }
KERNEL(512, 1) gemm_f32_cdna3(const GemmParams p) { product<Single, Mi300One<Single>>(p); }
KERNEL(512, 1) gemm_int8_cdna3(const GemmParams p) { product<Integer, Mi300<Integer>>(p); }
KERNEL(512, 1) gemm_f64_cdna3(const GemmParams p) { product<Double, Mi300One<Double, 4>>(p); }
KERNEL(512, 1) gemm_bf16_nt_cdna3(const GemmParams p) {
  product<ByColumns<Brain>, Mi300<ByColumns<Brain>>>(p);
}
KERNEL(512, 1) gemm_f16_nt_cdna3(const GemmParams p) {
  product<ByColumns<Half>, Mi300<ByColumns<Half>>>(p);
}
KERNEL(512, 1) gemm_tf32_nt_cdna3(const GemmParams p) {
  product<ByColumns<Tensor>, Mi300One<ByColumns<Tensor>>>(p);
}
KERNEL(512, 1) gemm_f32_nt_cdna3(const GemmParams p) {
  product<ByColumns<Single>, Mi300One<ByColumns<Single>>>(p);
}
KERNEL(512, 1) gemm_int8_nt_cdna3(const GemmParams p) {
  product<ByColumns<Integer>, Mi300<ByColumns<Integer>>>(p);
}
