// Attention on 8-bit floats by the matrix units of CDNA 3 (MI300): prefill, both of whose products are of
// 8 bits, and decode from a cache of them, which become bf16, as queries, weights and output are. What
// takes 16 bits is cdna2_mfma.hip's.
//
// The bits are OCP's in memory, and FNUZ to this generation's conversions: half the value. What OCP
// calls a negative zero is no number here, and its NaN is the number 480: neither must occur.
#include "attention_lanes.h"
#include "attention_lanes_latent.h"
#include "attention_lanes_split.h"
#include "cdna3.h"

namespace {

using Brain = Lanes<Cdna, bf16, f32, bf16, 2>;
using Quarter = Lanes<Cdna, e4m3_fnuz, f32, bf16, 2>;

}  // namespace

KERNEL(256, 2) PER_SIMD(2) attention_prefill_fp8_64_cdna3(const AttentionParams p) {
  PrefillLanes<Quarter, 64, 64>::all(p);
}
KERNEL(256, 2) PER_SIMD(2) attention_prefill_fp8_128_cdna3(const AttentionParams p) {
  PrefillLanes<Quarter, 128, 128>::all(p);
}
KERNEL(256, 2) PER_SIMD(2) attention_prefill_fp8_192_cdna3(const AttentionParams p) {
  PrefillLanes<Quarter, 192, 128>::all(p);
}

KERNEL(256, 1) attention_decode_fp8_64_cdna3(const AttentionParams p) {
  SplitLanes<Brain, 64, e4m3_fnuz>::all(p);
}
KERNEL(256, 1) attention_decode_fp8_128_cdna3(const AttentionParams p) {
  SplitLanes<Brain, 128, e4m3_fnuz>::all(p);
}
KERNEL(256, 1) attention_mla_fp8_cdna3(const AttentionParams p) {
  LatentLanes<Brain, e4m3_fnuz>::all(p);
}
