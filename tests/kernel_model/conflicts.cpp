// Runs a matrix kernel and counts how it uses the banks of shared memory, for AMD also one that turns B.
// tests/kernel_arithmetic.rs puts texts before the kernels' own whose rows all begin at the same bank, or
// whose lanes write columns that do: that must be found.
#include "gpu.h"
#if MODEL_LANES == 64
#include "lanes.h"
#else
#include "sm80.h"
#include "sm89.h"
#endif

#include "params.h"
#include "tiles.h"

#if MODEL_LANES == 64
#include "gemm/cdna3_mfma.hip"
#else
#include "gemm/sm89_mma.cu"
#endif

int main() {
  constexpr u32 SIZE = 256;
  std::vector<Vector<u8>> a(SIZE * SIZE / 8), b(SIZE * SIZE / 8), c(SIZE * SIZE / 8);
  const GemmParams params = {a.data(), b.data(), c.data(), SIZE, SIZE, SIZE, 0, nullptr, nullptr};
  model::counts_banks = true;
#if MODEL_LANES == 64
  model::launch(1, 512, 0, [&] { gemm_fp8_cdna3(params); });
#else
  model::launch(1, 256, 98304, [&] { gemm_fp8_mma(params); });
#endif
  model::count_for("gemm/fp8");
#if MODEL_LANES == 64
  model::launch(1, 512, 0, [&] { gemm_bf16_cdna3(params); });
  model::count_for("gemm/bf16");
#endif
  return model::judge_banks({});
}
