// Latent decode by tensor memory alone, for tests/kernel_arithmetic.rs to plant faults in.
#include "gpu.h"
#include "sm100_attention.h"
#include "sm80.h"
#include "sm89.h"
#include "sm90.h"

#include "attention.h"
#include "attention_copies.h"
#include "attention_parts.h"
#include "params.h"

namespace latent_sm100 {
#include "attention/sm100_tcgen05_latent.cu"
}
#include "latent_pair_check.h"

int main() {
  latent_100<bf16>("attention/mla/bf16/sm100_tcgen05",
                   by_map<latent_sm100::attention_mla_bf16_tcgen05, 32>, BF16);
  printf("%u checks passed\n", checked);
}
