// Matrix products of few rows by the matrix units of CDNA 3 (MI300): bf16, f16, fp8 and int8. 8-bit
// floats are as in cdna3_mfma.hip.
#include "cdna3.h"
#include "lane_skinny.h"

namespace {

using Brain = Lanes<Cdna, bf16, f32, bf16, 2>;
using Half = Lanes<Cdna, f16, f32, f16, 2>;
using Integer = Lanes<Cdna, i8, i32, i32, 2>;
struct Quarter : Lanes<Cdna, e4m3_fnuz, f32, bf16, 2> {
  static constexpr bool BY_COLUMNS = true;
  static constexpr u32 FACTOR = 4;
};

}  // namespace

KERNEL(512, 1) gemm_bf16_cdna3_skinny(const GemmParams p, f32* scratch) {
  product_skinny<Brain>(p, scratch);
}
KERNEL(512, 1) gemm_f16_cdna3_skinny(const GemmParams p, f32* scratch) {
  product_skinny<Half>(p, scratch);
}
KERNEL(512, 1) gemm_fp8_cdna3_skinny(const GemmParams p, f32* scratch) {
  product_skinny<Quarter>(p, scratch);
}
KERNEL(512, 1) gemm_int8_cdna3_skinny(const GemmParams p, f32* scratch) {
  product_skinny<Integer>(p, scratch);
}
