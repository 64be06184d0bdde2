// Attention by tensor memory alone, for tests/kernel_arithmetic.rs to plant faults in.
#include "gpu.h"
#include "sm100_attention.h"
#include "sm80.h"
#include "sm89.h"
#include "sm90.h"

#include "attention.h"
#include "attention_copies.h"
#include "attention_parts.h"
#include "attention_two_e4m3.h"
#include "attention_type.h"
#include "params.h"
#include "soft_exponential.h"
#include "weight_range.h"

namespace sm100 {
#include "attention/sm100_tcgen05.cu"
}
namespace latent_sm100 {
#include "attention/sm100_tcgen05_latent.cu"
}
#include "tensor_memory_check.h"

int main() {
  prefill_100<bf16, bf16>("attention/prefill/bf16/sm100_tcgen05",
                          sm100::attention_prefill_bf16_128_tcgen05,
                          sm100::Prefill100<bf16, 128, 128>::SHARED_BYTES, BF16, 128, 128);
  latent_100<bf16, bf16>("attention/mla/bf16/sm100_tcgen05",
                         by_map<latent_sm100::attention_mla_bf16_tcgen05, 32>, BF16);
  latent_100<bf16, e4m3>("attention/mla/fp8/sm100_tcgen05",
                         by_map<latent_sm100::attention_mla_fp8_tcgen05, 32, 1>, TWO_E4M3);
  printf("%u checks passed\n", checked);
}
