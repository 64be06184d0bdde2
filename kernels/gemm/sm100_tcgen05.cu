// Matrix products into tensor memory, as compute capability 10 has them: bf16, f16 and tf32
// with B row by row or column by column, fp8 (e4m3); of groups of rows bf16, f16 and fp8.
#include "sm100_grouped.h"

KERNEL(256, 1) gemm_bf16_tcgen05(const GemmParams p, MAP a, MAP b, MAP c) {
  product<bf16, 1>(p, &a, &b, &c);
}
KERNEL(256, 1) gemm_f16_tcgen05(const GemmParams p, MAP a, MAP b, MAP c) {
  product<f16, 1>(p, &a, &b, &c);
}
KERNEL(256, 1) gemm_tf32_tcgen05(const GemmParams p, MAP a, MAP b, MAP c) {
  product<tf32, 1>(p, &a, &b, &c);
}
KERNEL(256, 1) gemm_fp8_tcgen05(const GemmParams p, MAP a, MAP b, MAP c) {
  product<e4m3, 1>(p, &a, &b, &c);
}
KERNEL(256, 1) gemm_bf16_tcgen05_pair(const GemmParams p, MAP a, MAP b, MAP c) {
  product<bf16, 2>(p, &a, &b, &c);
}
KERNEL(256, 1) gemm_f16_tcgen05_pair(const GemmParams p, MAP a, MAP b, MAP c) {
  product<f16, 2>(p, &a, &b, &c);
}
KERNEL(256, 1) gemm_tf32_tcgen05_pair(const GemmParams p, MAP a, MAP b, MAP c) {
  product<tf32, 2>(p, &a, &b, &c);
}
KERNEL(256, 1) gemm_fp8_tcgen05_pair(const GemmParams p, MAP a, MAP b, MAP c) {
  product<e4m3, 2>(p, &a, &b, &c);
}
KERNEL(256, 1) gemm_bf16_nt_tcgen05(const GemmParams p, MAP a, MAP b, MAP c) {
  product<AlongK<bf16>, 1>(p, &a, &b, &c);
}
KERNEL(256, 1) gemm_bf16_nt_tcgen05_pair(const GemmParams p, MAP a, MAP b, MAP c) {
  product<AlongK<bf16>, 2>(p, &a, &b, &c);
}
KERNEL(256, 1) gemm_f16_nt_tcgen05(const GemmParams p, MAP a, MAP b, MAP c) {
  product<AlongK<f16>, 1>(p, &a, &b, &c);
}
KERNEL(256, 1) gemm_f16_nt_tcgen05_pair(const GemmParams p, MAP a, MAP b, MAP c) {
  product<AlongK<f16>, 2>(p, &a, &b, &c);
}
KERNEL(256, 1) gemm_tf32_nt_tcgen05(const GemmParams p, MAP a, MAP b, MAP c) {
  product<AlongK<tf32>, 1>(p, &a, &b, &c);
}
KERNEL(256, 1) gemm_tf32_nt_tcgen05_pair(const GemmParams p, MAP a, MAP b, MAP c) {
  product<AlongK<tf32>, 2>(p, &a, &b, &c);
}
KERNEL(256, 1) grouped_bf16_tcgen05(const GroupedParams p, MAP a, MAP b, MAP c) {
  product_of_groups<bf16>(p, &a, &b, &c);
}
KERNEL(256, 1) grouped_f16_tcgen05(const GroupedParams p, MAP a, MAP b, MAP c) {
  product_of_groups<f16>(p, &a, &b, &c);
}
KERNEL(256, 1) grouped_fp8_tcgen05(const GroupedParams p, MAP a, MAP b, MAP c) {
  product_of_groups<e4m3>(p, &a, &b, &c);
}
