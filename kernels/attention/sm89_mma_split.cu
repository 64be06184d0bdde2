// Decode from a cache of 8-bit floats, which become 16-bit ones as compute capability 8.9 and all
// later ones do it; queries and output are bfloat16: attention_split.h.
#include "attention_split.h"
#include "sm89.h"

KERNEL(128, 1) attention_decode_fp8_64_mma(const AttentionParams p) {
  Split<bf16, f16, e4m3, 64>::all(p);
}
KERNEL(128, 1) attention_decode_fp8_128_mma(const AttentionParams p) {
  Split<bf16, f16, e4m3, 128>::all(p);
}
KERNEL(128, 1) attention_decode_fp8_256_mma(const AttentionParams p) {
  Split<bf16, f16, e4m3, 256>::all(p);
}
