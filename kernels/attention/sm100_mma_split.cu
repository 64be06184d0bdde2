// Decode as sm80_mma_split.cu and sm89_mma_split.cu have it, by twice as many warps, for whose rings a
// unit of compute capability 10 has room: memory gives a unit 16 keys in less time than one warp of a
// quarter needs for them.
#include "attention_split.h"
#include "sm89.h"

#define DECODE(THREADS, NAME, Q, M, C, DIM)                                                       \
  KERNEL(THREADS, 1) attention_decode_##NAME##_##DIM##_mma_wide(const AttentionParams p) {        \
    Split<Q, M, C, DIM, 2>::all(p);                                                               \
  }

DECODE(256, bf16, bf16, bf16, bf16, 64)
DECODE(256, bf16, bf16, bf16, bf16, 128)
DECODE(128, bf16, bf16, bf16, bf16, 256)
DECODE(256, f16, f16, f16, f16, 64)
DECODE(256, f16, f16, f16, f16, 128)
DECODE(128, f16, f16, f16, f16, 256)
DECODE(256, fp8, bf16, f16, e4m3, 64)
DECODE(256, fp8, bf16, f16, e4m3, 128)
DECODE(256, fp8, bf16, f16, e4m3, 256)

#undef DECODE
