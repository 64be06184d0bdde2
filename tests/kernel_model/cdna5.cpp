// Runs the matrix kernels of CDNA 5 on the CPU, on waves of 32 lanes, and compares what they leave with a plain
// computation of the same. Its 16-bit instructions have the operands of RDNA 3's in other lanes, so that the two
// are not modelled in one program.
//
// `--planted N TYPE` makes products of a type whose instructions find the operands of lanes N and N + 1 exchanged;
// `--planted N TYPE scales` the same of scales.
#define MODEL_CDNA5
#include "gpu.h"
#include "lanes.h"

#include "block_sum.h"
#include "count.h"
#include "lane_count.h"
#include "lane_grouped.h"
#include "lane_product.h"
#include "lane_scaled.h"
#include "params.h"
#include "amd_check.h"
#include "amd_groups.h"
#include "amd_scaled.h"

namespace cdna5 {
#include "../../kernels/compute/cdna5_wmma.hip"
#include "../../kernels/gemm/cdna5_wmma.hip"
}
namespace cdna5_grouped {
#include "../../kernels/gemm/cdna5_wmma_grouped.hip"
}
namespace cdna5_scaled {
#include "../../kernels/gemm/cdna5_wmma_scaled.hip"
}

namespace {

template <class In, class Out> void check(const char* name, void (*kernel)(GemmParams)) {
  check_shape<In, Out>(name, kernel, 3, 1, 16, 16);
  // Other numbers as well.
  for (u64 seed : {1, 2, 3, 4}) {
    random_state = seed;
    check_shape<In, Out>(name, kernel, 2, 131, 272, 144);
  }
  // More stages than shared memory has room for, and columns for all of a stage's copies.
  check_shape<In, Out>(name, kernel, 1, 17, 272, 592);
  // A last round that half of the blocks would have no tile of.
  check_shape<In, Out>(name, kernel, 2, 520, 16, 144);
}

}  // namespace

#define PRODUCT(IN, OUT, NAME)                                                                    \
  check<IN, OUT>("gemm/" #NAME "/cdna5_wmma", cdna5::gemm_##NAME##_cdna5)
// `depth`: of a stage, along k.
#define GROUPED(IN, OUT, NAME, DEPTH)                                                             \
  check<IN, OUT>("grouped/" #NAME "/cdna5_wmma", cdna5_grouped::grouped_##NAME##_cdna5, DEPTH)
// Multiply-adds of one step of a block: waves x chains x 16 x 16 x depth; two steps.
#define COUNT(NAME, DEPTH)                                                                        \
  check_count("compute/" #NAME "/cdna5", cdna5::compute_##NAME##_cdna5,                           \
              u64(2) * (256 / LANES) * 8 * 256 * DEPTH)

int main(int count, char** arguments) {
  model::planted = count > 3 && strcmp(arguments[1], "--planted") == 0;
  if (model::planted) model::planted_lane = u32(atoi(arguments[2]));
  model::planted_scales = count > 4;
  const auto asked = [&](const char* name) { return !model::planted || strcmp(arguments[3], name) == 0; };
  model::counts_banks = true;
  if (asked("bf16")) PRODUCT(bf16, bf16, bf16);
  if (asked("f16")) PRODUCT(f16, f16, f16);
  if (asked("fp8")) PRODUCT(e4m3, bf16, fp8);
  if (asked("f32")) PRODUCT(f32, f32, f32);
  if (asked("int8")) PRODUCT(i8, i32, int8);
  if (asked("mxfp8")) check_scaled("gemm/mxfp8/cdna5_wmma", cdna5_scaled::gemm_mxfp8_cdna5, 8);
  if (asked("mxfp4")) check_scaled("gemm/mxfp4/cdna5_wmma", cdna5_scaled::gemm_mxfp4_cdna5, 4);
  if (!model::planted) {
    GROUPED(bf16, bf16, bf16, 32);
    GROUPED(f16, f16, f16, 32);
    GROUPED(e4m3, bf16, fp8, 128);
    GROUPED(i8, i32, int8, 64);
  }
  COUNT(bf16, 32);
  COUNT(f16, 32);
  COUNT(fp8, 128);
  COUNT(f32, 8);
  COUNT(int8, 64);
  COUNT(fp6, 128);
  COUNT(fp4, 128);
  if (model::judge_banks({}) != 0) return 1;
  printf("%u checks passed\n", checked);
}
