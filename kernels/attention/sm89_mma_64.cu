// Prefill of 8-bit floats by fragments, tiles of 64 queries, where the assembler makes 16-bit
// multiplications of 8-bit ones and needs registers for it: compute capability 9.0 and 10.
#include "attention_mma.h"
#include "sm89.h"

KERNEL(128, 2) attention_prefill_fp8_64_mma_64(const AttentionParams p) {
  Prefill<e4m3, 64, 64, 1, 64>::all(p);
}
KERNEL(128, 2) attention_prefill_fp8_128_mma_64(const AttentionParams p) {
  Prefill<e4m3, 128, 128, 1, 32>::all(p);
}
KERNEL(128, 2) attention_prefill_fp8_192_mma_64(const AttentionParams p) {
  Prefill<e4m3, 192, 128, 1, 32>::all(p);
}
