// Runs AMD's matrix kernels on the CPU, on waves of MODEL_LANES lanes, and compares what they leave
// with a plain computation of the same. The values are small integers: sums are exact in any order,
// and nothing but equality passes.
#include "gpu.h"
#include "lanes.h"

#include "block_sum.h"
#include "count.h"
#include "lane_count.h"
#include "lane_direct.h"
#include "lane_product.h"
#include "lane_scaled.h"
#include "lane_skinny.h"
#include "params.h"
#include "amd_check.h"
#include "amd_scaled.h"

#if MODEL_LANES == 64
namespace cdna2 {
#include "../../kernels/compute/cdna2_mfma.hip"
#include "../../kernels/gemm/cdna2_mfma.hip"
}
namespace cdna3 {
#include "../../kernels/gemm/cdna3_mfma.hip"
}
namespace cdna2_skinny {
#include "../../kernels/gemm/cdna2_mfma_skinny.hip"
}
namespace cdna3_skinny {
#include "../../kernels/gemm/cdna3_mfma_skinny.hip"
}
namespace cdna4_skinny {
#include "../../kernels/gemm/cdna4_mfma_skinny.hip"
}
namespace cdna3_peak {
#include "../../kernels/compute/cdna3_mfma.hip"
}
namespace cdna4 {
#include "../../kernels/compute/cdna4_mfma.hip"
#include "../../kernels/gemm/cdna4_mfma.hip"
}
namespace cdna4_direct {
#include "../../kernels/gemm/cdna4_mfma_direct.hip"
}
namespace cdna4_scaled {
#include "../../kernels/gemm/cdna4_mfma_scaled.hip"
}
#else
namespace rdna3 {
#include "../../kernels/compute/rdna3_wmma.hip"
#include "../../kernels/gemm/rdna3_wmma.hip"
}
namespace rdna4 {
#include "../../kernels/compute/rdna4_wmma.hip"
#include "../../kernels/gemm/rdna4_wmma.hip"
}
#endif

namespace {

template <class In, class Out> void check(const char* name, void (*kernel)(GemmParams)) {
  check_shape<In, Out>(name, kernel, 3, 1, 16, 16);
  check_shape<In, Out>(name, kernel, 2, 131, 272, 144);
  // More stages than shared memory has room for, and columns for all of a stage's copies.
  check_shape<In, Out>(name, kernel, 1, 17, 272, 592);
  // A last round that half of the blocks would have no tile of.
  check_shape<In, Out>(name, kernel, 2, 520, 16, 144);
}

#if MODEL_LANES == 64
// Products of few rows, launch after launch with the same scratch memory.
template <class In, class Out> void check(const char* name, void (*kernel)(GemmParams, f32*)) {
  const auto shape = [&](u32 blocks, u32 m, u32 n, u32 k) {
    check_twice<In, Out>(name, kernel, 65600, blocks, m, n, k);
  };
  shape(3, 1, 16, 16);
  // Tiles of several blocks, whose last stage is a part of one.
  const u32 k = (sizeof(In) == 1 ? 2 * 1648 : 1648) + (std::is_same<In, e4m3>::value ? 1632 : 0);
  for (u32 rows : {1, 7, 16, 33, 64}) shape(5, rows, 144, k);
  // Several tiles of a block, alone and shared.
  shape(1, 17, 400, 592);
  shape(2, 5, 272, 592);
}

#endif

// Every index comes once, whatever is left over.
void dies() {
  for (u32 dies : {1u, 6u, 8u}) {
    for (u32 count = 1; count < 70; count++) {
      std::vector<u32> seen(count);
      for (u32 index = 0; index < count; index++) {
        const u32 at = index_on_die(index, count, dies);
        same(at < count, "index_on_die", "within the work");
        seen[at]++;
      }
      for (u32 times : seen) same(times == 1, "index_on_die", "every index once");
    }
  }
}

}  // namespace

#define PRODUCT(IN, OUT, NAME, FAMILY, WORD)                                                      \
  check<IN, OUT>("gemm/" #NAME "/" #FAMILY "_" WORD, FAMILY::gemm_##NAME##_##FAMILY)
#define SKINNY(IN, OUT, NAME, FAMILY)                                                             \
  check<IN, OUT>("gemm/" #NAME "/" #FAMILY "_mfma_skinny",                                        \
                 FAMILY##_skinny::gemm_##NAME##_##FAMILY##_skinny)
// Multiply-adds of one step of a block: waves x chains x 16 x 16 x depth; two steps.
#define COUNT(NAME, SPACE, FAMILY, DEPTH)                                                         \
  check_count("compute/" #NAME "/" #FAMILY, SPACE::compute_##NAME##_##FAMILY,                     \
              u64(2) * (256 / LANES) * 8 * 256 * DEPTH)

int main(int count, char** arguments) {
  model::planted = count > 1 && strcmp(arguments[1], "--planted") == 0;
  model::counts_banks = true;
  dies();
#if MODEL_LANES == 64
  PRODUCT(bf16, bf16, bf16, cdna2, "mfma");
  PRODUCT(f16, f16, f16, cdna2, "mfma");
  PRODUCT(f32, f32, f32, cdna2, "mfma");
  PRODUCT(i8, i32, int8, cdna2, "mfma");
  PRODUCT(f64, f64, f64, cdna2, "mfma");
  PRODUCT(bf16, bf16, bf16, cdna3, "mfma");
  PRODUCT(f16, f16, f16, cdna3, "mfma");
  PRODUCT(f32, f32, tf32, cdna3, "mfma");
  PRODUCT(e4m3, bf16, fp8, cdna3, "mfma");
  PRODUCT(f32, f32, f32, cdna3, "mfma");
  PRODUCT(i8, i32, int8, cdna3, "mfma");
  PRODUCT(f64, f64, f64, cdna3, "mfma");
  PRODUCT(bf16, bf16, bf16, cdna4, "mfma");
  PRODUCT(f16, f16, f16, cdna4, "mfma");
  PRODUCT(e4m3, bf16, fp8, cdna4, "mfma");
  PRODUCT(f32, f32, f32, cdna4, "mfma");
  PRODUCT(i8, i32, int8, cdna4, "mfma");
  PRODUCT(f64, f64, f64, cdna4, "mfma");
  check<bf16, bf16>("gemm/bf16/cdna4_mfma_direct", cdna4_direct::gemm_bf16_cdna4_direct);
  check<f16, f16>("gemm/f16/cdna4_mfma_direct", cdna4_direct::gemm_f16_cdna4_direct);
  check<e4m3, bf16>("gemm/fp8/cdna4_mfma_direct", cdna4_direct::gemm_fp8_cdna4_direct);
  SKINNY(bf16, bf16, bf16, cdna2);
  SKINNY(f16, f16, f16, cdna2);
  SKINNY(i8, i32, int8, cdna2);
  SKINNY(bf16, bf16, bf16, cdna3);
  SKINNY(f16, f16, f16, cdna3);
  SKINNY(e4m3, bf16, fp8, cdna3);
  SKINNY(i8, i32, int8, cdna3);
  SKINNY(bf16, bf16, bf16, cdna4);
  SKINNY(f16, f16, f16, cdna4);
  SKINNY(e4m3, bf16, fp8, cdna4);
  SKINNY(i8, i32, int8, cdna4);
  check_scaled("gemm/mxfp8/cdna4_mfma", cdna4_scaled::gemm_mxfp8_cdna4, 8);
  check_scaled("gemm/mxfp4/cdna4_mfma", cdna4_scaled::gemm_mxfp4_cdna4, 4);
  COUNT(bf16, cdna2, cdna2, 32);
  COUNT(f16, cdna2, cdna2, 32);
  COUNT(f32, cdna2, cdna2, 16);
  COUNT(int8, cdna2, cdna2, 64);
  COUNT(f64, cdna2, cdna2, 8);
  COUNT(bf16, cdna3_peak, cdna3, 32);
  COUNT(f16, cdna3_peak, cdna3, 32);
  COUNT(tf32, cdna3_peak, cdna3, 16);
  COUNT(fp8, cdna3_peak, cdna3, 64);
  COUNT(f32, cdna3_peak, cdna3, 16);
  COUNT(int8, cdna3_peak, cdna3, 64);
  COUNT(f64, cdna3_peak, cdna3, 8);
  COUNT(bf16, cdna4, cdna4, 32);
  COUNT(f16, cdna4, cdna4, 32);
  COUNT(fp8, cdna4, cdna4, 128);
  COUNT(fp6, cdna4, cdna4, 128);
  COUNT(fp4, cdna4, cdna4, 128);
  COUNT(int8, cdna4, cdna4, 64);
  COUNT(f64, cdna4, cdna4, 8);
#else
  PRODUCT(bf16, bf16, bf16, rdna3, "wmma");
  PRODUCT(f16, f16, f16, rdna3, "wmma");
  PRODUCT(i8, i32, int8, rdna3, "wmma");
  PRODUCT(bf16, bf16, bf16, rdna4, "wmma");
  PRODUCT(f16, f16, f16, rdna4, "wmma");
  PRODUCT(e4m3, bf16, fp8, rdna4, "wmma");
  PRODUCT(i8, i32, int8, rdna4, "wmma");
  COUNT(bf16, rdna3, rdna3, 16);
  COUNT(f16, rdna3, rdna3, 16);
  COUNT(int8, rdna3, rdna3, 16);
  COUNT(bf16, rdna4, rdna4, 16);
  COUNT(f16, rdna4, rdna4, 16);
  COUNT(fp8, rdna4, rdna4, 32);
  COUNT(int8, rdna4, rdna4, 32);
#endif
  if (model::judge_banks({}) != 0) return 1;
  printf("%u checks passed\n", checked);
}
