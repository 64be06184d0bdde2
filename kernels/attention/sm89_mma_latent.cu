// Latent decode from an 8-bit cache, 64 rows at once: attention_latent.h. Queries and output are
// bfloat16.
#include "attention_latent.h"
#include "sm89.h"

KERNEL(256, 1) attention_mla_fp8_mma(const AttentionParams p) {
  Latent<bf16, f16, e4m3, 64, 32, 4>::all(p);
}
