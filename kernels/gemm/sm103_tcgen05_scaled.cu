// Matrix products of 4-bit elements that share scales, of compute capability 10.3, which multiplies 96
// along k at once.
#include "sm100_scaled.h"

#define LONGER_PRODUCTS(IN)                                                                       \
  KERNEL(256, 1) gemm_##IN##_tcgen05_longer(const GemmParams p, MAP a, MAP b, MAP c) {            \
    product<IN, 2, true>(p, &a, &b, &c);                                                          \
  }

LONGER_PRODUCTS(mxfp4)
LONGER_PRODUCTS(nvfp4)
