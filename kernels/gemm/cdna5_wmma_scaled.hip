// Matrix products of elements that share scales along k by the matrix units of CDNA 5 (MI455X): mxfp8 and mxfp4.
// Scales stand as scaled.h says.
#include "cdna5.h"
#include "lane_scaled.h"

namespace {

template <class T> using Mi450 = Shape<T, 4, 4, true, 1, AHEAD_MOST>;
struct Eight : Lanes<Cdna5, mxfp8, f32, bf16, 16> {
  static constexpr bool BY_COLUMNS = true;
};
struct Four : Lanes<Cdna5, mxfp4, f32, bf16, 8> {
  static constexpr bool BY_COLUMNS = true;
};

}  // namespace

KERNEL(256, 1) gemm_mxfp8_cdna5(const GemmParams p) { product_scaled<Eight, Mi450<Eight>>(p); }
KERNEL(256, 1) gemm_mxfp4_cdna5(const GemmParams p) { product_scaled<Four, Mi450<Four>>(p); }
