// Latent decode from an 8-bit cache, 32 rows at once, in the 99 KiB of shared memory that a block can
// have on compute capability 8.9 and 12: attention_latent.h. Queries and output are bfloat16.
#include "attention_latent.h"
#include "sm89.h"

KERNEL(128, 1) attention_mla_fp8_mma_32(const AttentionParams p) {
  Latent<bf16, f16, e4m3, 32, 32, 3>::all(p);
}
