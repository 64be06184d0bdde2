// Prefill of 8-bit floats by fragments, as compute capability 8.9 and 12.0 have them: both products
// of 8-bit operands, the output bfloat16.
#include "attention_mma.h"
#include "sm89.h"

KERNEL(128, 2) attention_prefill_fp8_64_mma(const AttentionParams p) {
  Prefill<e4m3, 64, 64, 2, 64>::all(p);
}
KERNEL(128, 2) attention_prefill_fp8_128_mma(const AttentionParams p) {
  Prefill<e4m3, 128, 128, 2, 32>::all(p);
}
KERNEL(128, 2) attention_prefill_fp8_256_mma(const AttentionParams p) {
  Prefill<e4m3, 256, 256, 1, 32>::all(p);
}
KERNEL(128, 2) attention_prefill_fp8_192_mma(const AttentionParams p) {
  Prefill<e4m3, 192, 128, 2, 32>::all(p);
}
