// Matrix products of elements that share scales, into tensor memory, of compute capability 10.
#include "sm100_scaled.h"

#define SCALED_PRODUCTS(IN)                                                                       \
  KERNEL(256, 1) gemm_##IN##_tcgen05(const GemmParams p, MAP a, MAP b, MAP c) {                   \
    product<IN, 1>(p, &a, &b, &c);                                                                \
  }                                                                                               \
  KERNEL(256, 1) gemm_##IN##_tcgen05_pair(const GemmParams p, MAP a, MAP b, MAP c) {              \
    product<IN, 2>(p, &a, &b, &c);                                                                \
  }

SCALED_PRODUCTS(mxfp8)
SCALED_PRODUCTS(mxfp4)
SCALED_PRODUCTS(nvfp4)
