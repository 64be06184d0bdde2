// Products of elements that share scales by pairs of blocks alone, for tests/kernel_arithmetic.rs to
// plant faults in.
#include "gpu.h"
#include "sm90.h"
#include "sm100.h"

#include "params.h"
#include "sm100_product.h"

namespace sm100 {
#include "gemm/sm100_tcgen05_scaled.cu"
#include "gemm/sm103_tcgen05_scaled.cu"
}
#include "scaled_check.h"

int main() {
  ScaledProduct<nvfp4>::check_pair("gemm/nvfp4/sm100_tcgen05_pair", sm100::gemm_nvfp4_tcgen05_pair);
  ScaledProduct<mxfp8>::check_pair("gemm/mxfp8/sm100_tcgen05_pair", sm100::gemm_mxfp8_tcgen05_pair);
  ScaledProduct<nvfp4>::check_longer("gemm/nvfp4/sm103_tcgen05_pair", sm100::gemm_nvfp4_tcgen05_longer);
  ScaledProduct<mxfp4>::check_longer("gemm/mxfp4/sm103_tcgen05_pair", sm100::gemm_mxfp4_tcgen05_longer);
  printf("%u checks passed\n", checked);
}
