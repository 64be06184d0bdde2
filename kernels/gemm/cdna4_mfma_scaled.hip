// Matrix products of elements that share scales along k by the matrix units of CDNA 4 (MI350): mxfp8 and
// mxfp4. Scales stand as scaled.h says.
#include "cdna4.h"
#include "lane_scaled.h"

namespace {

// Two stages are on their way, as in cdna4_mfma.hip.
template <class T, u32 DOWN> using Mi350 = Shape<T, DOWN, 4, true, 8, AHEAD_MOST>;
struct Eight : Lanes<Cdna, mxfp8, f32, bf16, 8> {
  static constexpr bool BY_COLUMNS = true;
};
struct Four : Lanes<Cdna, mxfp4, f32, bf16, 4> {
  static constexpr bool BY_COLUMNS = true;
};

}  // namespace

KERNEL(512, 1) gemm_mxfp8_cdna4(const GemmParams p) { product_scaled<Eight, Mi350<Eight, 4>>(p); }
KERNEL(512, 1) gemm_mxfp4_cdna4(const GemmParams p) { product_scaled<Four, Mi350<Four, 4>>(p); }
