// Matrix products by the matrix instructions of RDNA 4 (Radeon 9000): bf16, f16, fp8 and int8.
#include "rdna4.h"
#include "lane_product.h"

namespace {

// A block's units multiply a stage in about the time that memory takes to answer: two are on their way.
template <class T> using Radeon = Shape<T, 4, 2, false, 1, AHEAD_MOST>;
using Brain = Lanes<Rdna4, bf16, f32, bf16, 4>;
using Half = Lanes<Rdna4, f16, f32, f16, 4>;
using Integer = Lanes<Rdna4, i8, i32, i32, 2>;
struct Quarter : Lanes<Rdna4, e4m3, f32, bf16, 2> {
  static constexpr bool BY_COLUMNS = true;
};

}  // namespace

KERNEL(256, 1) gemm_bf16_rdna4(const GemmParams p) { product<Brain, Radeon<Brain>>(p); }
KERNEL(256, 1) gemm_f16_rdna4(const GemmParams p) { product<Half, Radeon<Half>>(p); }
KERNEL(256, 1) gemm_fp8_rdna4(const GemmParams p) { product<Quarter, Radeon<Quarter>>(p); }
KERNEL(256, 1) gemm_int8_rdna4(const GemmParams p) { product<Integer, Radeon<Integer>>(p); }
KERNEL(256, 1) gemm_bf16_nt_rdna4(const GemmParams p) {
  product<ByColumns<Brain>, Radeon<ByColumns<Brain>>>(p);
}
KERNEL(256, 1) gemm_f16_nt_rdna4(const GemmParams p) {
  product<ByColumns<Half>, Radeon<ByColumns<Half>>>(p);
}
KERNEL(256, 1) gemm_int8_nt_rdna4(const GemmParams p) {
  product<ByColumns<Integer>, Radeon<ByColumns<Integer>>>(p);
}
