// Prefill of 16-bit floats by fragments, as compute capability 8.0 and all later ones have them.
// Heads of 64, 128 and 256, and of 192 with values of 128 (multi-head latent attention, prefill).
#include "attention_mma.h"

// A warp has 32 rows where the output of 32 fits its registers, else 16.
KERNEL(128, 2) attention_prefill_bf16_64_mma(const AttentionParams p) {
  Prefill<bf16, 64, 64, 2, 64>::all(p);
}
KERNEL(128, 2) attention_prefill_bf16_128_mma(const AttentionParams p) {
  Prefill<bf16, 128, 128, 2, 32>::all(p);
}
KERNEL(128, 2) attention_prefill_bf16_192_mma(const AttentionParams p) {
  Prefill<bf16, 192, 128, 1, 32>::all(p);
}
KERNEL(128, 2) attention_prefill_bf16_256_mma(const AttentionParams p) {
  Prefill<bf16, 256, 256, 1, 32>::all(p);
}
KERNEL(128, 2) attention_prefill_f16_64_mma(const AttentionParams p) {
  Prefill<f16, 64, 64, 2, 64>::all(p);
}
KERNEL(128, 2) attention_prefill_f16_128_mma(const AttentionParams p) {
  Prefill<f16, 128, 128, 2, 32>::all(p);
}
KERNEL(128, 2) attention_prefill_f16_192_mma(const AttentionParams p) {
  Prefill<f16, 192, 128, 1, 32>::all(p);
}
KERNEL(128, 2) attention_prefill_f16_256_mma(const AttentionParams p) {
  Prefill<f16, 256, 256, 1, 32>::all(p);
}
