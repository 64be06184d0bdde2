// Matrix products by the matrix instructions of RDNA 3 (Radeon 7000): bf16, f16 and int8.
#include "rdna3.h"
#include "lane_product.h"

namespace {

// A block's units multiply a stage in about the time that memory takes to answer: two are on their way.
template <class T> using Radeon = Shape<T, 4, 2, false, 1, AHEAD_MOST>;
using Brain = Lanes<Rdna3, bf16, f32, bf16, 8>;
using Half = Lanes<Rdna3, f16, f32, f16, 8>;
using Integer = Lanes<Rdna3, i8, i32, i32, 4>;

}  // namespace

KERNEL(256, 1) gemm_bf16_rdna3(const GemmParams p) { product<Brain, Radeon<Brain>>(p); }
KERNEL(256, 1) gemm_f16_rdna3(const GemmParams p) { product<Half, Radeon<Half>>(p); }
KERNEL(256, 1) gemm_int8_rdna3(const GemmParams p) { product<Integer, Radeon<Integer>>(p); }
// Of 16 bits a lane would have one sum of each row, half of a word.
KERNEL(256, 1) gemm_int8_nt_rdna3(const GemmParams p) {
  product<ByColumns<Integer>, Radeon<ByColumns<Integer>>>(p);
}
