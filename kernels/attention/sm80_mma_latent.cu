// Latent decode of 16-bit floats: attention_latent.h. 64 rows at once, for devices whose blocks can
// have 163 KiB of shared memory.
#include "attention_latent.h"

KERNEL(256, 1) attention_mla_bf16_mma(const AttentionParams p) {
  Latent<bf16, bf16, bf16, 64, 32, 2>::all(p);
}
KERNEL(256, 1) attention_mla_f16_mma(const AttentionParams p) {
  Latent<f16, f16, f16, 64, 32, 2>::all(p);
}
