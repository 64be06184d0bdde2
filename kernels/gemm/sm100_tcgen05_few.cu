// Matrix products of few rows into tensor memory, as compute capability 10 has them: bf16, f16, tf32 and fp8
// (e4m3). Blocks make whole tiles (`few`), or the two or four of a cluster share one along k (`split`).
#include "sm100_few.h"

KERNEL(256, 1) gemm_bf16_tcgen05_few(const GemmParams p, MAP a, MAP b) {
  few_rows<bf16, 16, 1>(p, &a, &b);
}
KERNEL(256, 1) gemm_bf16_tcgen05_few_32(const GemmParams p, MAP a, MAP b) {
  few_rows<bf16, 32, 1>(p, &a, &b);
}
KERNEL(256, 1) gemm_bf16_tcgen05_few_64(const GemmParams p, MAP a, MAP b) {
  few_rows<bf16, 64, 1>(p, &a, &b);
}
KERNEL(256, 1) gemm_bf16_tcgen05_split2_16(const GemmParams p, MAP a, MAP b) {
  few_rows<bf16, 16, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_bf16_tcgen05_split2_32(const GemmParams p, MAP a, MAP b) {
  few_rows<bf16, 32, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_bf16_tcgen05_split2_64(const GemmParams p, MAP a, MAP b) {
  few_rows<bf16, 64, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_bf16_tcgen05_split2_128(const GemmParams p, MAP a, MAP b) {
  few_rows<bf16, 128, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_bf16_tcgen05_split2_256(const GemmParams p, MAP a, MAP b) {
  few_rows<bf16, 256, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_bf16_tcgen05_split4_16(const GemmParams p, MAP a, MAP b) {
  few_rows<bf16, 16, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_bf16_tcgen05_split4_32(const GemmParams p, MAP a, MAP b) {
  few_rows<bf16, 32, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_bf16_tcgen05_split4_64(const GemmParams p, MAP a, MAP b) {
  few_rows<bf16, 64, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_bf16_tcgen05_split4_128(const GemmParams p, MAP a, MAP b) {
  few_rows<bf16, 128, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_bf16_tcgen05_split4_256(const GemmParams p, MAP a, MAP b) {
  few_rows<bf16, 256, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_f16_tcgen05_few(const GemmParams p, MAP a, MAP b) {
  few_rows<f16, 16, 1>(p, &a, &b);
}
KERNEL(256, 1) gemm_f16_tcgen05_few_32(const GemmParams p, MAP a, MAP b) {
  few_rows<f16, 32, 1>(p, &a, &b);
}
KERNEL(256, 1) gemm_f16_tcgen05_few_64(const GemmParams p, MAP a, MAP b) {
  few_rows<f16, 64, 1>(p, &a, &b);
}
KERNEL(256, 1) gemm_f16_tcgen05_split2_16(const GemmParams p, MAP a, MAP b) {
  few_rows<f16, 16, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_f16_tcgen05_split2_32(const GemmParams p, MAP a, MAP b) {
  few_rows<f16, 32, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_f16_tcgen05_split2_64(const GemmParams p, MAP a, MAP b) {
  few_rows<f16, 64, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_f16_tcgen05_split2_128(const GemmParams p, MAP a, MAP b) {
  few_rows<f16, 128, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_f16_tcgen05_split2_256(const GemmParams p, MAP a, MAP b) {
  few_rows<f16, 256, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_f16_tcgen05_split4_16(const GemmParams p, MAP a, MAP b) {
  few_rows<f16, 16, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_f16_tcgen05_split4_32(const GemmParams p, MAP a, MAP b) {
  few_rows<f16, 32, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_f16_tcgen05_split4_64(const GemmParams p, MAP a, MAP b) {
  few_rows<f16, 64, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_f16_tcgen05_split4_128(const GemmParams p, MAP a, MAP b) {
  few_rows<f16, 128, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_f16_tcgen05_split4_256(const GemmParams p, MAP a, MAP b) {
  few_rows<f16, 256, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_tf32_tcgen05_few(const GemmParams p, MAP a, MAP b) {
  few_rows<tf32, 16, 1>(p, &a, &b);
}
KERNEL(256, 1) gemm_tf32_tcgen05_few_32(const GemmParams p, MAP a, MAP b) {
  few_rows<tf32, 32, 1>(p, &a, &b);
}
KERNEL(256, 1) gemm_tf32_tcgen05_few_64(const GemmParams p, MAP a, MAP b) {
  few_rows<tf32, 64, 1>(p, &a, &b);
}
KERNEL(256, 1) gemm_tf32_tcgen05_split2_16(const GemmParams p, MAP a, MAP b) {
  few_rows<tf32, 16, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_tf32_tcgen05_split2_32(const GemmParams p, MAP a, MAP b) {
  few_rows<tf32, 32, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_tf32_tcgen05_split2_64(const GemmParams p, MAP a, MAP b) {
  few_rows<tf32, 64, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_tf32_tcgen05_split2_128(const GemmParams p, MAP a, MAP b) {
  few_rows<tf32, 128, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_tf32_tcgen05_split2_256(const GemmParams p, MAP a, MAP b) {
  few_rows<tf32, 256, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_tf32_tcgen05_split4_16(const GemmParams p, MAP a, MAP b) {
  few_rows<tf32, 16, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_tf32_tcgen05_split4_32(const GemmParams p, MAP a, MAP b) {
  few_rows<tf32, 32, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_tf32_tcgen05_split4_64(const GemmParams p, MAP a, MAP b) {
  few_rows<tf32, 64, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_tf32_tcgen05_split4_128(const GemmParams p, MAP a, MAP b) {
  few_rows<tf32, 128, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_tf32_tcgen05_split4_256(const GemmParams p, MAP a, MAP b) {
  few_rows<tf32, 256, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_fp8_tcgen05_few(const GemmParams p, MAP a, MAP b) {
  few_rows<e4m3, 16, 1>(p, &a, &b);
}
KERNEL(256, 1) gemm_fp8_tcgen05_few_32(const GemmParams p, MAP a, MAP b) {
  few_rows<e4m3, 32, 1>(p, &a, &b);
}
KERNEL(256, 1) gemm_fp8_tcgen05_few_64(const GemmParams p, MAP a, MAP b) {
  few_rows<e4m3, 64, 1>(p, &a, &b);
}
KERNEL(256, 1) gemm_fp8_tcgen05_split2_16(const GemmParams p, MAP a, MAP b) {
  few_rows<e4m3, 16, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_fp8_tcgen05_split2_32(const GemmParams p, MAP a, MAP b) {
  few_rows<e4m3, 32, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_fp8_tcgen05_split2_64(const GemmParams p, MAP a, MAP b) {
  few_rows<e4m3, 64, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_fp8_tcgen05_split2_128(const GemmParams p, MAP a, MAP b) {
  few_rows<e4m3, 128, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_fp8_tcgen05_split2_256(const GemmParams p, MAP a, MAP b) {
  few_rows<e4m3, 256, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_fp8_tcgen05_split4_16(const GemmParams p, MAP a, MAP b) {
  few_rows<e4m3, 16, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_fp8_tcgen05_split4_32(const GemmParams p, MAP a, MAP b) {
  few_rows<e4m3, 32, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_fp8_tcgen05_split4_64(const GemmParams p, MAP a, MAP b) {
  few_rows<e4m3, 64, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_fp8_tcgen05_split4_128(const GemmParams p, MAP a, MAP b) {
  few_rows<e4m3, 128, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_fp8_tcgen05_split4_256(const GemmParams p, MAP a, MAP b) {
  few_rows<e4m3, 256, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_bf16_nt_tcgen05_few(const GemmParams p, MAP a, MAP b) {
  few_rows<AlongK<bf16>, 16, 1>(p, &a, &b);
}
KERNEL(256, 1) gemm_bf16_nt_tcgen05_few_32(const GemmParams p, MAP a, MAP b) {
  few_rows<AlongK<bf16>, 32, 1>(p, &a, &b);
}
KERNEL(256, 1) gemm_bf16_nt_tcgen05_few_64(const GemmParams p, MAP a, MAP b) {
  few_rows<AlongK<bf16>, 64, 1>(p, &a, &b);
}
KERNEL(256, 1) gemm_bf16_nt_tcgen05_split2_16(const GemmParams p, MAP a, MAP b) {
  few_rows<AlongK<bf16>, 16, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_bf16_nt_tcgen05_split2_32(const GemmParams p, MAP a, MAP b) {
  few_rows<AlongK<bf16>, 32, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_bf16_nt_tcgen05_split2_64(const GemmParams p, MAP a, MAP b) {
  few_rows<AlongK<bf16>, 64, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_bf16_nt_tcgen05_split2_128(const GemmParams p, MAP a, MAP b) {
  few_rows<AlongK<bf16>, 128, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_bf16_nt_tcgen05_split2_256(const GemmParams p, MAP a, MAP b) {
  few_rows<AlongK<bf16>, 256, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_bf16_nt_tcgen05_split4_16(const GemmParams p, MAP a, MAP b) {
  few_rows<AlongK<bf16>, 16, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_bf16_nt_tcgen05_split4_32(const GemmParams p, MAP a, MAP b) {
  few_rows<AlongK<bf16>, 32, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_bf16_nt_tcgen05_split4_64(const GemmParams p, MAP a, MAP b) {
  few_rows<AlongK<bf16>, 64, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_bf16_nt_tcgen05_split4_128(const GemmParams p, MAP a, MAP b) {
  few_rows<AlongK<bf16>, 128, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_bf16_nt_tcgen05_split4_256(const GemmParams p, MAP a, MAP b) {
  few_rows<AlongK<bf16>, 256, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_f16_nt_tcgen05_few(const GemmParams p, MAP a, MAP b) {
  few_rows<AlongK<f16>, 16, 1>(p, &a, &b);
}
KERNEL(256, 1) gemm_f16_nt_tcgen05_few_32(const GemmParams p, MAP a, MAP b) {
  few_rows<AlongK<f16>, 32, 1>(p, &a, &b);
}
KERNEL(256, 1) gemm_f16_nt_tcgen05_few_64(const GemmParams p, MAP a, MAP b) {
  few_rows<AlongK<f16>, 64, 1>(p, &a, &b);
}
KERNEL(256, 1) gemm_f16_nt_tcgen05_split2_16(const GemmParams p, MAP a, MAP b) {
  few_rows<AlongK<f16>, 16, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_f16_nt_tcgen05_split2_32(const GemmParams p, MAP a, MAP b) {
  few_rows<AlongK<f16>, 32, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_f16_nt_tcgen05_split2_64(const GemmParams p, MAP a, MAP b) {
  few_rows<AlongK<f16>, 64, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_f16_nt_tcgen05_split2_128(const GemmParams p, MAP a, MAP b) {
  few_rows<AlongK<f16>, 128, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_f16_nt_tcgen05_split2_256(const GemmParams p, MAP a, MAP b) {
  few_rows<AlongK<f16>, 256, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_f16_nt_tcgen05_split4_16(const GemmParams p, MAP a, MAP b) {
  few_rows<AlongK<f16>, 16, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_f16_nt_tcgen05_split4_32(const GemmParams p, MAP a, MAP b) {
  few_rows<AlongK<f16>, 32, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_f16_nt_tcgen05_split4_64(const GemmParams p, MAP a, MAP b) {
  few_rows<AlongK<f16>, 64, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_f16_nt_tcgen05_split4_128(const GemmParams p, MAP a, MAP b) {
  few_rows<AlongK<f16>, 128, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_f16_nt_tcgen05_split4_256(const GemmParams p, MAP a, MAP b) {
  few_rows<AlongK<f16>, 256, 4>(p, &a, &b);
}
