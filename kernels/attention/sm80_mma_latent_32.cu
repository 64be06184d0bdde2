// Latent decode of 16-bit floats, 32 rows at once, in the 99 KiB of shared memory that a block can
// have on compute capability 8.6, 8.9 and 12: attention_latent.h. More heads read their keys twice.
#include "attention_latent.h"

KERNEL(128, 1) attention_mla_bf16_mma_32(const AttentionParams p) {
  Latent<bf16, bf16, bf16, 32, 16, 3>::all(p);
}
KERNEL(128, 1) attention_mla_f16_mma_32(const AttentionParams p) {
  Latent<f16, f16, f16, 32, 16, 3>::all(p);
}
