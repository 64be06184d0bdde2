// Prefill and decode by the matrix instructions of RDNA 4 (Radeon 9000): bf16 and f16, heads of 64 and 128;
// prefill also of 8-bit floats, and decode from a cache of them, which become bf16, as queries, weights and output
// are.
//
// A wave has 16 queries: its 256 registers have no room for the sums of 32, nor for 16 queries of 192 elements of
// 16 bits.
#include "attention_lanes.h"
#include "attention_lanes_split.h"
#include "rdna4.h"

namespace {

using Brain = Lanes<Rdna4, bf16, f32, bf16, 4>;
using Half = Lanes<Rdna4, f16, f32, f16, 4>;
using Quarter = Lanes<Rdna4, e4m3, f32, bf16, 2>;

}  // namespace

KERNEL(256, 1) attention_prefill_bf16_64_rdna4(const AttentionParams p) {
  PrefillLanes<Brain, 64, 64, 1>::all(p);
}
KERNEL(256, 1) attention_prefill_bf16_128_rdna4(const AttentionParams p) {
  PrefillLanes<Brain, 128, 128, 1>::all(p);
}
KERNEL(256, 1) attention_prefill_f16_64_rdna4(const AttentionParams p) {
  PrefillLanes<Half, 64, 64, 1>::all(p);
}
KERNEL(256, 1) attention_prefill_f16_128_rdna4(const AttentionParams p) {
  PrefillLanes<Half, 128, 128, 1>::all(p);
}

KERNEL(256, 1) attention_prefill_fp8_64_rdna4(const AttentionParams p) {
  PrefillLanes<Quarter, 64, 64, 1>::all(p);
}
KERNEL(256, 1) attention_prefill_fp8_128_rdna4(const AttentionParams p) {
  PrefillLanes<Quarter, 128, 128, 1>::all(p);
}
KERNEL(256, 1) attention_prefill_fp8_192_rdna4(const AttentionParams p) {
  PrefillLanes<Quarter, 192, 128, 1>::all(p);
}

KERNEL(256, 1) attention_decode_bf16_64_rdna4(const AttentionParams p) {
  SplitLanes<Brain, 64>::all(p);
}
KERNEL(256, 1) attention_decode_bf16_128_rdna4(const AttentionParams p) {
  SplitLanes<Brain, 128>::all(p);
}
KERNEL(256, 1) attention_decode_f16_64_rdna4(const AttentionParams p) {
  SplitLanes<Half, 64>::all(p);
}
KERNEL(256, 1) attention_decode_f16_128_rdna4(const AttentionParams p) {
  SplitLanes<Half, 128>::all(p);
}
KERNEL(256, 1) attention_decode_fp8_64_rdna4(const AttentionParams p) {
  SplitLanes<Brain, 64, e4m3>::all(p);
}
KERNEL(256, 1) attention_decode_fp8_128_rdna4(const AttentionParams p) {
  SplitLanes<Brain, 128, e4m3>::all(p);
}
