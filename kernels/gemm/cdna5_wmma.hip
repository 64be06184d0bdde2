// Matrix products by the matrix units of CDNA 5 (MI455X, MI430X): bf16, f16, fp8, f32 and int8.
#include "cdna5.h"
#include "lane_product.h"

namespace {

// As on CDNA 4. Which of a GPU's dies a block runs on is not published: blocks are dealt as if there were one.
template <class T, u32 DOWN = 8> using Mi450 = Shape<T, DOWN, 4, true, 1, AHEAD_MOST>;
using Brain = Lanes<Cdna5, bf16, f32, bf16, 8>;
using Half = Lanes<Cdna5, f16, f32, f16, 8>;
using Integer = Lanes<Cdna5, i8, i32, i32, 8>;
using Single = Lanes<Cdna5, f32, f32, f32, 2>;
struct Quarter : Lanes<Cdna5, e4m3, f32, bf16, 16> {
  static constexpr bool BY_COLUMNS = true;
};

}  // namespace

KERNEL(256, 1) gemm_bf16_cdna5(const GemmParams p) { product<Brain, Mi450<Brain>>(p); }
KERNEL(256, 1) gemm_f16_cdna5(const GemmParams p) { product<Half, Mi450<Half>>(p); }
KERNEL(256, 1) gemm_fp8_cdna5(const GemmParams p) { product<Quarter, Mi450<Quarter, 4>>(p); }
KERNEL(256, 1) gemm_int8_cdna5(const GemmParams p) { product<Integer, Mi450<Integer>>(p); }
// An instruction takes 4 along k, half of what a lane has of a stage's piece: all waves multiply together.
KERNEL(256, 1) gemm_f32_cdna5(const GemmParams p) { product<Single, Shape<Single, 8, 4, false, 1>>(p); }
