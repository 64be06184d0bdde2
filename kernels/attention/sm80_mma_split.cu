// Decode of 16-bit floats by fragments, split over all units by a schedule: attention_split.h. Heads
// of 64, 128 and 256, any number of them that share keys, pages of any size or none.
#include "attention_split.h"

KERNEL(128, 1) attention_decode_bf16_64_mma(const AttentionParams p) {
  Split<bf16, bf16, bf16, 64>::all(p);
}
KERNEL(128, 1) attention_decode_bf16_128_mma(const AttentionParams p) {
  Split<bf16, bf16, bf16, 128>::all(p);
}
KERNEL(64, 1) attention_decode_bf16_256_mma(const AttentionParams p) {
  Split<bf16, bf16, bf16, 256>::all(p);
}
KERNEL(128, 1) attention_decode_f16_64_mma(const AttentionParams p) {
  Split<f16, f16, f16, 64>::all(p);
}
KERNEL(128, 1) attention_decode_f16_128_mma(const AttentionParams p) {
  Split<f16, f16, f16, 128>::all(p);
}
KERNEL(64, 1) attention_decode_f16_256_mma(const AttentionParams p) {
  Split<f16, f16, f16, 256>::all(p);
}
