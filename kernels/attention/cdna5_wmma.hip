// Prefill and decode by the matrix units of CDNA 5 (MI455X, MI430X): bf16 and f16, heads of 64 and
// 128, and those of multi-head latent attention; prefill also of 8-bit floats, and decode from a cache of
// them, which become bf16, as queries, weights and output are.
#include "attention_lanes.h"
#include "attention_lanes_latent.h"
#include "attention_lanes_split.h"
#include "cdna5.h"

namespace {

using Brain = Lanes<Cdna5, bf16, f32, bf16, 8>;
using Half = Lanes<Cdna5, f16, f32, f16, 8>;
using Quarter = Lanes<Cdna5, e4m3, f32, bf16, 8>;

}  // namespace

KERNEL(256, 1) attention_prefill_bf16_64_cdna5(const AttentionParams p) {
  PrefillLanes<Brain, 64, 64>::all(p);
}
KERNEL(256, 1) attention_prefill_bf16_128_cdna5(const AttentionParams p) {
  PrefillLanes<Brain, 128, 128>::all(p);
}
KERNEL(256, 1) attention_prefill_bf16_192_cdna5(const AttentionParams p) {
  PrefillLanes<Brain, 192, 128>::all(p);
}
KERNEL(256, 1) attention_prefill_f16_64_cdna5(const AttentionParams p) {
  PrefillLanes<Half, 64, 64>::all(p);
}
KERNEL(256, 1) attention_prefill_f16_128_cdna5(const AttentionParams p) {
  PrefillLanes<Half, 128, 128>::all(p);
}
KERNEL(256, 1) attention_prefill_f16_192_cdna5(const AttentionParams p) {
  PrefillLanes<Half, 192, 128>::all(p);
}

KERNEL(256, 1) attention_prefill_fp8_64_cdna5(const AttentionParams p) {
  PrefillLanes<Quarter, 64, 64>::all(p);
}
KERNEL(256, 1) attention_prefill_fp8_128_cdna5(const AttentionParams p) {
  PrefillLanes<Quarter, 128, 128>::all(p);
}
KERNEL(256, 1) attention_prefill_fp8_192_cdna5(const AttentionParams p) {
  PrefillLanes<Quarter, 192, 128>::all(p);
}

KERNEL(256, 1) attention_decode_bf16_64_cdna5(const AttentionParams p) {
  SplitLanes<Brain, 64>::all(p);
}
KERNEL(256, 1) attention_decode_bf16_128_cdna5(const AttentionParams p) {
  SplitLanes<Brain, 128>::all(p);
}
KERNEL(256, 1) attention_decode_f16_64_cdna5(const AttentionParams p) {
  SplitLanes<Half, 64>::all(p);
}
KERNEL(256, 1) attention_decode_f16_128_cdna5(const AttentionParams p) {
  SplitLanes<Half, 128>::all(p);
}
KERNEL(256, 1) attention_decode_fp8_64_cdna5(const AttentionParams p) {
  SplitLanes<Brain, 64, e4m3>::all(p);
}
KERNEL(256, 1) attention_decode_fp8_128_cdna5(const AttentionParams p) {
  SplitLanes<Brain, 128, e4m3>::all(p);
}

KERNEL(128, 1) attention_mla_bf16_cdna5(const AttentionParams p) { LatentLanes<Brain>::all(p); }
KERNEL(128, 1) attention_mla_f16_cdna5(const AttentionParams p) { LatentLanes<Half>::all(p); }
KERNEL(128, 1) attention_mla_fp8_cdna5(const AttentionParams p) {
  LatentLanes<Brain, e4m3>::all(p);
}
