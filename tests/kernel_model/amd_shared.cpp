// Runs AMD's products whose tiles blocks share, and those for groups of rows, on the CPU, as amd.cpp does the
// others.
#include "gpu.h"
#include "lanes.h"

#include "lane_grouped.h"
#include "lane_stream_k.h"
#include "amd_check.h"
#include "amd_groups.h"

namespace cdna2 {
#include "../../kernels/gemm/cdna2_mfma_stream_k.hip"
}
namespace cdna2_grouped {
#include "../../kernels/gemm/cdna2_mfma_grouped.hip"
}
namespace cdna3 {
#include "../../kernels/gemm/cdna3_mfma_stream_k.hip"
}
namespace cdna3_grouped {
#include "../../kernels/gemm/cdna3_mfma_grouped.hip"
}
namespace cdna4 {
#include "../../kernels/gemm/cdna4_mfma_stream_k.hip"
}
namespace cdna4_grouped {
#include "../../kernels/gemm/cdna4_mfma_grouped.hip"
}

namespace {

// `depth`: of a stage, along k.
template <class In, class Out>
void check(const char* name, void (*kernel)(GemmParams, f32*), u32 depth) {
  const auto shape = [&](u32 blocks, u32 m, u32 n, u32 k) {
    check_twice<In, Out>(name, kernel, 262208, blocks, m, n, k);
  };
  shape(3, 1, 16, 16);
  // A tile of two blocks and one of three; the last stage is a part of one.
  shape(4, 17, 272, 49 * depth + 16);
  // The text of f16 is that of bf16 but for the instruction.
  if (std::is_same<In, f16>::value) return;
  // Two blocks for each tile, one below the other, which end where tiles do.
  shape(5, 131, 16, 50 * depth);
  // Every thread has sums that count.
  shape(3, 131, 272, 24 * depth + 16);
  // A tile that a block has alone beside those that it shares.
  shape(2, 5, 1040, 23 * depth + 16);
  // Several that it has alone, where none is long enough to be shared.
  shape(2, 5, 1040, 4 * depth + 16);
}

}  // namespace

#define BOTH(IN, OUT, NAME, FAMILY, DEPTH)                                                        \
  check<IN, OUT>("gemm/" #NAME "/" #FAMILY "_mfma_stream_k",                                      \
                 FAMILY::gemm_##NAME##_##FAMILY##_stream_k, DEPTH);                               \
  check<IN, OUT>("grouped/" #NAME "/" #FAMILY "_mfma",                                            \
                 FAMILY##_grouped::grouped_##NAME##_##FAMILY, DEPTH)

int main(int count, char** arguments) {
  model::planted = count > 1 && strcmp(arguments[1], "--planted") == 0;
  model::counts_banks = true;
  BOTH(bf16, bf16, bf16, cdna2, 32);
  BOTH(f16, f16, f16, cdna2, 32);
  BOTH(i8, i32, int8, cdna2, 64);
  BOTH(bf16, bf16, bf16, cdna3, 32);
  BOTH(f16, f16, f16, cdna3, 32);
  BOTH(e4m3, bf16, fp8, cdna3, 64);
  BOTH(i8, i32, int8, cdna3, 64);
  BOTH(bf16, bf16, bf16, cdna4, 32);
  BOTH(f16, f16, f16, cdna4, 32);
  BOTH(e4m3, bf16, fp8, cdna4, 128);
  BOTH(i8, i32, int8, cdna4, 64);
  // Dies whose blocks are neighbours on the line, all of one tile.
  check_twice<bf16, bf16>("gemm/bf16/cdna3_mfma_stream_k", cdna3::gemm_bf16_cdna3_stream_k, 262208,
                          17, 1, 16, 17 * 24 * 32);
  if (model::judge_banks({}) != 0) return 1;
  printf("%u checks passed\n", checked);
}
