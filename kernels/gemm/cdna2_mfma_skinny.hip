// Matrix products of few rows by the matrix units of CDNA 2 (MI200): bf16, f16 and int8.
#include "cdna2.h"
#include "lane_skinny.h"

namespace {

using Brain = Lanes<Cdna, bf16, f32, bf16, 2>;
using Half = Lanes<Cdna, f16, f32, f16, 2>;
using Integer = Lanes<Cdna, i8, i32, i32, 1>;

}  // namespace

KERNEL(512, 1) gemm_bf16_cdna2_skinny(const GemmParams p, f32* scratch) {
  product_skinny<Brain>(p, scratch);
}
KERNEL(512, 1) gemm_f16_cdna2_skinny(const GemmParams p, f32* scratch) {
  product_skinny<Half>(p, scratch);
}
KERNEL(512, 1) gemm_int8_cdna2_skinny(const GemmParams p, f32* scratch) {
  product_skinny<Integer>(p, scratch);
}
