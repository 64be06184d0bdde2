// Products by warpgroups that take turns alone, for tests/kernel_arithmetic.rs to plant faults in.
#include "gpu.h"
#include "sm90.h"
#include "sm90_attention.h"

#include "grouped.h"
#include "params.h"
#include "scaled.h"
#include "sm90_product.h"
#include "stream_k.h"
#include "tiles.h"

namespace sm90 {
#include "gemm/sm90_wgmma.cu"
}
namespace sm90_turned {
#include "gemm/sm90_wgmma_turned.cu"
}
#include "product_check.h"

// In clusters of two blocks: a tile of one stage, and several tiles of more stages than a ring has.
template <class In, class Out, class Kernel> void check(const char* name, Kernel kernel, Boxes boxes) {
  const u32 depth = 128 / sizeof(In);
  Product<In, Out>::check(name, kernel, 384, boxes, 2, 1, 16, 16, 2);
  Product<In, Out>::check(name, kernel, 384, boxes, 2, 131, 528, 5 * depth + 16, 2);
}

int main() {
  (void)lines;
  check<e4m3, bf16>("gemm/fp8/sm90_wgmma_promoted", sm90::gemm_fp8_wgmma_promoted, {64, 96, 64});
  check<i8, i32>("gemm/int8/sm90_wgmma", sm90_turned::gemm_int8_wgmma, {64, 0, 16});
  check<f32, f32>("gemm/tf32/sm90_wgmma", sm90_turned::gemm_tf32_wgmma, {64, 0, 16});
  printf("%u checks passed\n", checked);
}
