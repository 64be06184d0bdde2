// Matrix products of few rows of int8 into tensor memory, which compute capability 10.0 has and 10.3 has not.
#include "sm100_few.h"

KERNEL(256, 1) gemm_int8_tcgen05_few(const GemmParams p, MAP a, MAP b) {
  few_rows<i8, 16, 1>(p, &a, &b);
}
KERNEL(256, 1) gemm_int8_tcgen05_few_32(const GemmParams p, MAP a, MAP b) {
  few_rows<i8, 32, 1>(p, &a, &b);
}
KERNEL(256, 1) gemm_int8_tcgen05_few_64(const GemmParams p, MAP a, MAP b) {
  few_rows<i8, 64, 1>(p, &a, &b);
}
KERNEL(256, 1) gemm_int8_tcgen05_split2_16(const GemmParams p, MAP a, MAP b) {
  few_rows<i8, 16, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_int8_tcgen05_split2_32(const GemmParams p, MAP a, MAP b) {
  few_rows<i8, 32, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_int8_tcgen05_split2_64(const GemmParams p, MAP a, MAP b) {
  few_rows<i8, 64, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_int8_tcgen05_split2_128(const GemmParams p, MAP a, MAP b) {
  few_rows<i8, 128, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_int8_tcgen05_split2_256(const GemmParams p, MAP a, MAP b) {
  few_rows<i8, 256, 2>(p, &a, &b);
}
KERNEL(256, 1) gemm_int8_tcgen05_split4_16(const GemmParams p, MAP a, MAP b) {
  few_rows<i8, 16, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_int8_tcgen05_split4_32(const GemmParams p, MAP a, MAP b) {
  few_rows<i8, 32, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_int8_tcgen05_split4_64(const GemmParams p, MAP a, MAP b) {
  few_rows<i8, 64, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_int8_tcgen05_split4_128(const GemmParams p, MAP a, MAP b) {
  few_rows<i8, 128, 4>(p, &a, &b);
}
KERNEL(256, 1) gemm_int8_tcgen05_split4_256(const GemmParams p, MAP a, MAP b) {
  few_rows<i8, 256, 4>(p, &a, &b);
}
