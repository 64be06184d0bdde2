// Matrix products by the matrix units of CDNA 4 (MI350), A copied to shared memory without a register
// between, and B too where it lies along k: bf16, f16 and fp8.
#include "cdna4.h"
#include "lane_direct.h"

namespace {

template <class T, u32 DOWN = 8> using Mi350 = Shape<T, DOWN, 4, true, 8>;
using Brain = Lanes<Cdna, bf16, f32, bf16, 4>;
using Half = Lanes<Cdna, f16, f32, f16, 4>;
struct Quarter : Lanes<Cdna, e4m3, f32, bf16, 8> {
  static constexpr bool BY_COLUMNS = true;
};

}  // namespace

KERNEL(512, 1) gemm_bf16_cdna4_direct(const GemmParams p) { product_direct<Brain, Mi350<Brain>>(p); }
KERNEL(512, 1) gemm_f16_cdna4_direct(const GemmParams p) { product_direct<Half, Mi350<Half>>(p); }
KERNEL(512, 1) gemm_fp8_cdna4_direct(const GemmParams p) {
  product_direct<Quarter, Mi350<Quarter, 4>>(p);
}
