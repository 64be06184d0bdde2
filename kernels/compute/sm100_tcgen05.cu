// The peak of the matrix units of compute capability 10.
#include "sm100_count.h"

KERNEL(128, 1) compute_bf16_tcgen05(const ComputeParams p, const u32 r) { count_products<bf16>(p, r); }
KERNEL(128, 1) compute_f16_tcgen05(const ComputeParams p, const u32 r) { count_products<f16>(p, r); }
KERNEL(128, 1) compute_tf32_tcgen05(const ComputeParams p, const u32 r) { count_products<tf32>(p, r); }
KERNEL(128, 1) compute_fp8_tcgen05(const ComputeParams p, const u32 r) { count_products<e4m3>(p, r); }
KERNEL(128, 1) compute_mxfp8_tcgen05(const ComputeParams p, const u32 r) {
  count_products<mxfp8>(p, r);
}
KERNEL(128, 1) compute_mxfp4_tcgen05(const ComputeParams p, const u32 r) {
  count_products<mxfp4>(p, r);
}
KERNEL(128, 1) compute_nvfp4_tcgen05(const ComputeParams p, const u32 r) {
  count_products<nvfp4>(p, r);
}
