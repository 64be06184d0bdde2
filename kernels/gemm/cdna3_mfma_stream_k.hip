// Matrix products whose tiles blocks share, by the matrix units of CDNA 3 (MI300): bf16, f16, fp8 and int8. 8-bit
// floats are as in cdna3_mfma.hip.
#include "cdna3.h"
#include "lane_stream_k.h"

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

KERNEL(512, 1) gemm_bf16_cdna3_stream_k(const GemmParams p, f32* scratch) {
  product_stream_k<Brain, Mi300<Brain>>(p, scratch);
}
KERNEL(512, 1) gemm_f16_cdna3_stream_k(const GemmParams p, f32* scratch) {
  product_stream_k<Half, Mi300<Half>>(p, scratch);
}
KERNEL(512, 1) gemm_fp8_cdna3_stream_k(const GemmParams p, f32* scratch) {
  product_stream_k<Quarter, Mi300<Quarter>>(p, scratch);
}
KERNEL(512, 1) gemm_int8_cdna3_stream_k(const GemmParams p, f32* scratch) {
  product_stream_k<Integer, Mi300<Integer>>(p, scratch);
}
