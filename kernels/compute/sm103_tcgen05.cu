// The peak of 4-bit elements of compute capability 10.3, which multiplies 96 along k at once.
#include "sm100_count.h"

KERNEL(128, 1) compute_mxfp4_tcgen05_longer(const ComputeParams p, const u32 r) {
  count_products<mxfp4, true>(p, r);
}
KERNEL(128, 1) compute_nvfp4_tcgen05_longer(const ComputeParams p, const u32 r) {
  count_products<nvfp4, true>(p, r);
}
