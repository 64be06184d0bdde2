// Matrix products of int8 into tensor memory, which compute capability 10.0 has and 10.3 has not.
#include "sm100_unscaled.h"

KERNEL(256, 1) gemm_int8_tcgen05(const GemmParams p, MAP a, MAP b, MAP c) {
  product<i8, 1>(p, &a, &b, &c);
}
KERNEL(256, 1) gemm_int8_tcgen05_pair(const GemmParams p, MAP a, MAP b, MAP c) {
  product<i8, 2>(p, &a, &b, &c);
}
KERNEL(256, 1) gemm_int8_nt_tcgen05(const GemmParams p, MAP a, MAP b, MAP c) {
  product<AlongK<i8>, 1>(p, &a, &b, &c);
}
KERNEL(256, 1) gemm_int8_nt_tcgen05_pair(const GemmParams p, MAP a, MAP b, MAP c) {
  product<AlongK<i8>, 2>(p, &a, &b, &c);
}
