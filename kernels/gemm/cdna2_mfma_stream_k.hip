// Matrix products whose tiles blocks share, by the matrix units of CDNA 2 (MI200): bf16, f16 and int8.
#include "cdna2.h"
#include "lane_stream_k.h"

namespace {

// Two stages are on their way.
template <class T> using Mi200 = Shape<T, 4, 4, true, 1, AHEAD_MOST>;
using Brain = Lanes<Cdna, bf16, f32, bf16, 2>;
using Half = Lanes<Cdna, f16, f32, f16, 2>;
using Integer = Lanes<Cdna, i8, i32, i32, 1>;

}  // namespace

KERNEL(512, 1) gemm_bf16_cdna2_stream_k(const GemmParams p, f32* scratch) {
  product_stream_k<Brain, Mi200<Brain>>(p, scratch);
}
KERNEL(512, 1) gemm_f16_cdna2_stream_k(const GemmParams p, f32* scratch) {
  product_stream_k<Half, Mi200<Half>>(p, scratch);
}
KERNEL(512, 1) gemm_int8_cdna2_stream_k(const GemmParams p, f32* scratch) {
  product_stream_k<Integer, Mi200<Integer>>(p, scratch);
}
