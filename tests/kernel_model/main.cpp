// Runs kernels on the CPU and compares what they leave with a plain computation of the same. The
// values are small integers: sums are exact in any order, and nothing but equality passes.
#include "gpu.h"
#include "sm80.h"
#include "sm89.h"
#include "sm90.h"
#include "sm90_attention.h"
#include "sm100.h"
#include "sm100_attention.h"
#include "sm120.h"

#include "block_sum.h"
#include "chunks.h"
#include "count.h"
#include "count_mma.h"
#include "grouped.h"
#include "instruction.h"
#include "line_product.h"
#include "params.h"
#include "scaled.h"
#include "sm100_product.h"
#include "sm90_product.h"
#include "sources.h"
#include "stream_k.h"
#include "tiles.h"

#include "checks.h"
#include "grouped_check.h"
#include "product_check.h"
#include "scaled_check.h"
#include "stream_k_check.h"
#include "weights_check.h"

namespace stream {
#include "../../kernels/stream/portable.cu"
}
namespace cached {
#include "../../kernels/stream/cached.cu"
}
namespace access {
#include "../../kernels/access/portable.cu"
}
namespace cluster {
#include "../../kernels/access/sm90_cluster.cu"
}
namespace transfer {
#include "../../kernels/transfer/portable.cu"
}
namespace counting {
#include "../../kernels/launch/portable.cu"
}
namespace bulk {
#include "../../kernels/stream/sm90_bulk.cu"
#include "../../kernels/stream/sm90_bulk_deep.cu"
}
namespace latency {
#include "../../kernels/latency/portable.cu"
}
namespace instruction {
#include "../../kernels/instruction/portable.cu"
#include "../../kernels/instruction/sm80_mma.cu"
}
namespace sides {
#include "../../kernels/latency/sides.cu"
}
namespace compute {
#include "../../kernels/compute/vector.cu"
}
namespace compute_sm80 {
#include "../../kernels/compute/sm80_mma.cu"
}
namespace compute_sm89 {
#include "../../kernels/compute/sm89_mma.cu"
}
namespace compute_sm120 {
#include "../../kernels/compute/sm120_mma.cu"
}
namespace compute_sm90 {
#include "../../kernels/compute/sm90_wgmma.cu"
}
namespace compute_sm100 {
#include "../../kernels/compute/sm100_tcgen05.cu"
#include "../../kernels/compute/sm100_tcgen05_int8.cu"
#include "../../kernels/compute/sm103_tcgen05.cu"
}
namespace memory {
#include "../../kernels/util/memory.cu"
}
namespace collective {
#include "../../kernels/collective/check.cu"
#include "collective_check.h"
}
namespace sdc {
#include "../../kernels/sdc/portable.cu"
#include "sdc_check.h"
}
namespace portable {
#include "../../kernels/gemm/portable.cu"
}
namespace sm80 {
#include "../../kernels/gemm/sm80_mma.cu"
}
namespace skinny {
#include "../../kernels/gemm/sm80_mma_skinny.cu"
}
namespace sm89 {
#include "../../kernels/gemm/sm89_mma.cu"
}
namespace sm80_nt {
#include "../../kernels/gemm/sm80_mma_nt.cu"
}
namespace sm90 {
#include "../../kernels/gemm/sm90_wgmma.cu"
}
namespace sm90_few {
#include "../../kernels/gemm/sm90_wgmma_few.cu"
}
namespace sm90_turned {
#include "../../kernels/gemm/sm90_wgmma_turned.cu"
}
namespace sm100 {
#include "../../kernels/gemm/sm100_tcgen05.cu"
#include "../../kernels/gemm/sm100_tcgen05_int8.cu"
}
namespace sm100_few {
#include "../../kernels/gemm/sm100_tcgen05_few.cu"
#include "../../kernels/gemm/sm100_tcgen05_few_int8.cu"
}
namespace portable_scaled {
#include "../../kernels/gemm/portable_scaled.cu"
}
namespace mma_weights {
#include "../../kernels/gemm/sm80_mma_weights.cu"
}
namespace sm120 {
#include "../../kernels/gemm/sm120_mma.cu"
}
namespace sm100_scaled {
#include "../../kernels/gemm/sm100_tcgen05_scaled.cu"
#include "../../kernels/gemm/sm103_tcgen05_scaled.cu"
}

namespace {

// With B column by column.
template <class In, class Out> using Nt = Product<In, Out, true>;
#define PORTABLE(IN, OUT, NAME)                                                                   \
  Nt<IN, OUT>::check("gemm/" #NAME "/nt/portable", portable::gemm_##NAME##_nt, 3, 0, 1, 1, 1);    \
  Nt<IN, OUT>::check("gemm/" #NAME "/nt/portable", portable::gemm_##NAME##_nt, 2, 0, 130, 131, 19); \
  Product<IN, OUT>::check("gemm/" #NAME "/portable", portable::gemm_##NAME, 3, 0, 1, 1, 1);       \
  Product<IN, OUT>::check("gemm/" #NAME "/portable", portable::gemm_##NAME, 2, 0, 130, 131, 19)
// Few rows: of each height of a tile; tiles that blocks share, with a whole round before them and without,
// or for so few stages that some blocks have nothing to do; rows that no tile has; no k for some warps.
#define SKINNY(IN, NAME)                                                                          \
  for (const auto& [blocks, m, n, k] : SKINNY_SHAPES) {                                           \
    Product<IN, IN>::check("gemm/" #NAME "/sm80_mma_skinny", skinny::gemm_##NAME##_mma_skinny,    \
                           blocks, m, n, k);                                                      \
  }
constexpr u32 SKINNY_SHAPES[][4] = {{3, 1, 16, 16},    {5, 16, 136, 4104}, {2, 19, 200, 2056},
                                    {7, 32, 72, 3080}, {4, 61, 64, 4104},  {2, 64, 328, 136},
                                    {3, 70, 80, 1544}};
// Rows of the boxes of the kernels by wgmma, of B where its rows are columns.
constexpr Boxes WGMMA = {64, 128, 64}, PROMOTED = {64, 96, 64}, TURNED = {64, 0, 16};
// In clusters of two blocks, of which one stands still while the other goes on: no pair of tiles but
// one with a tile outside of C; tiles below each other and beside each other, of which some are
// outside; more stages than a ring has.
template <class In, class Out, bool COLUMNS_OF_B = std::is_same<In, e4m3>::value, class Kernel>
void by_wgmma(const char* name, Kernel kernel, Boxes boxes, u32 columns) {
  const u32 depth = 128 / sizeof(In);
  const u32 shapes[][4] = {{2, 1, 16, 16},
                           {2, 131, 528, 272},
                           {4, 300, columns + 8, 5 * depth + 16},
                           {2, 100, 2 * columns + 16, 6 * depth},
                           {6, 640, 72, 3 * depth}};
  for (const auto& [blocks, m, n, k] : shapes) {
    Product<In, Out, COLUMNS_OF_B>::check(name, kernel, 384, boxes, blocks, m, (n + 15) / 16 * 16, k, 2);
  }
}
#define SM90(IN, OUT, NAME)                                                                       \
  by_wgmma<IN, OUT>("gemm/" #NAME "/sm90_wgmma", sm90::gemm_##NAME##_wgmma, WGMMA, 256)
// One block for each tile of 128 rows, or two for one of 256, of which one stands still while the other
// goes on: more stages than a ring has, many tiles of one stage for each block, rows and columns of which
// one block of a pair has none; a last tile that two blocks or pairs halve, with columns in both halves.
template <class In, class Out, bool COLUMNS_OF_B = std::is_same<In, e4m3>::value, class Kernel>
void by_tcgen05(const char* name, Kernel alone, Kernel pair) {
  const u32 depth = 128 / sizeof(In);
  const u32 shapes[][4] = {{2, 1, 16, 16},
                           {2, 131, 528, 272},
                           {4, 300, 272, 7 * depth + 16},
                           {2, 520, 1040, depth},
                           {4, 520, 208, 7 * depth + 16}};
  const u32 atom = sizeof(In) == 4 ? 32 : 16;
  const std::string name_of_pair = std::string(name) + "_pair";
  for (const auto& [blocks, m, n, k] : shapes) {
    using P = Product<In, Out, COLUMNS_OF_B>;
    P::check(name, alone, 256, {128, 64, 128, atom}, blocks + 1, m, n, k);
    P::check(name_of_pair.c_str(), pair, 256, {128, 64, 128, atom}, blocks, m, n, k, 2);
  }
}
#define SM100(IN, OUT, NAME)                                                                      \
  by_tcgen05<IN, OUT>("gemm/" #NAME "/sm100_tcgen05", sm100::gemm_##NAME##_tcgen05,               \
                      sm100::gemm_##NAME##_tcgen05_pair)
#define NT(IN, OUT, NAME)                                                                         \
  Nt<IN, OUT>::check("gemm/" #NAME "/nt/sm80_mma", sm80_nt::gemm_##NAME##_nt_mma, 3, 98304, 1, 16, 16); \
  Nt<IN, OUT>::check("gemm/" #NAME "/nt/sm80_mma", sm80_nt::gemm_##NAME##_nt_mma, 2, 98304, 131, 272, \
                     208);                                                                        \
  by_wgmma<IN, OUT, true>("gemm/" #NAME "/nt/sm90_wgmma", sm90::gemm_##NAME##_nt_wgmma, WGMMA, 256)
#define SM80(IN, OUT, NAME, SHARED_SIZE)                                                          \
  Product<IN, OUT>::check("gemm/" #NAME "/sm80_mma", sm80::gemm_##NAME##_mma, 3, SHARED_SIZE, 1,  \
                          16, 16);                                                                \
  Product<IN, OUT>::check("gemm/" #NAME "/sm80_mma", sm80::gemm_##NAME##_mma, 2, SHARED_SIZE,     \
                          131, 272, 208)

void products() {
  SM80(bf16, bf16, bf16, 98304);
  SM80(f16, f16, f16, 98304);
  SM80(f32, f32, tf32, 98304);
  SM80(i8, i32, int8, 98304);
  SM80(f64, f64, f64, 65536);
  Product<e4m3, bf16>::check("gemm/fp8/sm89_mma", sm89::gemm_fp8_mma, 3, 98304, 1, 16, 16);
  Product<e4m3, bf16>::check("gemm/fp8/sm89_mma", sm89::gemm_fp8_mma, 2, 98304, 131, 272, 208);
  NT(bf16, bf16, bf16);
  NT(f16, f16, f16);
  NT(f32, f32, tf32);
  NT(i8, i32, int8);
  SKINNY(bf16, bf16);
  SKINNY(f16, f16);
  SM90(bf16, bf16, bf16);
  SM90(f16, f16, f16);
  SM90(e4m3, bf16, fp8);
  by_wgmma<e4m3, bf16>("gemm/fp8/sm90_wgmma_promoted", sm90::gemm_fp8_wgmma_promoted, PROMOTED,
                       192);
  // Twice, in both orders of threads.
  for (u32 turn = 0; turn < 2; turn++) {
    by_wgmma<f32, f32>("gemm/tf32/sm90_wgmma", sm90_turned::gemm_tf32_wgmma, TURNED, 256);
    by_wgmma<i8, i32>("gemm/int8/sm90_wgmma", sm90_turned::gemm_int8_wgmma, TURNED, 256);
  }
#define SM100_NT(IN, OUT, NAME)                                                                   \
  by_tcgen05<IN, OUT, true>("gemm/" #NAME "/nt/sm100_tcgen05", sm100::gemm_##NAME##_nt_tcgen05,   \
                            sm100::gemm_##NAME##_nt_tcgen05_pair)
  SM100_NT(bf16, bf16, bf16);
  SM100_NT(f16, f16, f16);
  SM100_NT(f32, f32, tf32);
  SM100_NT(i8, i32, int8);
#undef SM100_NT
  SM100(bf16, bf16, bf16);
  SM100(f16, f16, f16);
  SM100(e4m3, bf16, fp8);
  SM100(f32, f32, tf32);
  SM100(i8, i32, int8);
  PORTABLE(f32, f32, f32);
  PORTABLE(f64, f64, f64);
  PORTABLE(f16, f16, f16);
  PORTABLE(bf16, bf16, bf16);
  PORTABLE(i8, i32, int8);
}

// One tile of many blocks, and of fewer stages than blocks; a whole round and a rest; no rest.
void shared_products() {
  const u32 shapes[][4] = {{4, 16, 32, 528}, {5, 16, 16, 72}, {3, 300, 264, 336}, {2, 131, 272, 80},
                           {2, 131, 256, 80}};
  for (const auto& [blocks, m, n, k] : shapes) {
    Product<bf16, bf16>::check("gemm/bf16/sm80_mma_stream_k", sm80::gemm_bf16_mma_stream_k, blocks,
                               m, n, k);
    Product<bf16, bf16>::check("gemm/bf16/sm90_wgmma_stream_k_narrow",
                               sm90::gemm_bf16_wgmma_stream_k_narrow, WGMMA, 2 * blocks, m, n, k,
                               2);
  }
}

// Few rows: one and all that a tile has, and more; columns that no tile divides; more tiles than blocks, and
// more stages than a ring has.
template <class In, class Out, u32 ROWS, bool COLUMNS_OF_B, class Kernel>
void few_rows(const char* name, Kernel kernel) {
  const u32 shapes[][4] = {{4, 1, 16, 16}, {3, ROWS, 144, 2064}, {2, ROWS - 3, 528, 272}};
  for (const auto& [blocks, m, n, k] : shapes) {
    Product<In, Out, COLUMNS_OF_B>::check(name, kernel, {ROWS, 128, 0}, blocks, m, n, k);
  }
}
// Split along k: fewer stages than blocks, so that some have none; numbers of them that three does not divide,
// and more than a ring has; a tile of rows and a bit.
template <class In, class Out, u32 ROWS, bool COLUMNS_OF_B, class Kernel>
void split_along_k(const char* name, Kernel kernel) {
  const u32 depth = 128 / sizeof(In);
  const u32 shapes[][3] = {{ROWS / 16, 16, depth / 2}, {ROWS - 3, 144, 17 * depth - 16}, {ROWS + 1, 16, 2 * depth}};
  for (const auto& [m, n, k] : shapes) {
    const u32 tiles = ((m + ROWS - 1) / ROWS) * ((n + 127) / 128);
    Product<In, Out, COLUMNS_OF_B>::check(name, kernel, {ROWS, 128, 0}, 3 * tiles, m, n, k, 3);
  }
}
#define SPLIT(IN, OUT, NAME, ENTRY, ROWS)                                                         \
  split_along_k<IN, OUT, ROWS, IS_NT>("gemm/" NAME "/sm90_wgmma_split_" #ROWS,                    \
                                      sm90_few::gemm_##ENTRY##_wgmma_split_##ROWS)
#define FEW(IN, OUT, NAME, ENTRY)                                                                 \
  few_rows<IN, OUT, 16, IS_NT>("gemm/" NAME "/sm90_wgmma_few", sm90_few::gemm_##ENTRY##_wgmma_few); \
  few_rows<IN, OUT, 64, IS_NT>("gemm/" NAME "/sm90_wgmma_few_64",                                 \
                               sm90_few::gemm_##ENTRY##_wgmma_few_64);                            \
  SPLIT(IN, OUT, NAME, ENTRY, 16);                                                                \
  SPLIT(IN, OUT, NAME, ENTRY, 64);                                                                \
  SPLIT(IN, OUT, NAME, ENTRY, 128);                                                               \
  SPLIT(IN, OUT, NAME, ENTRY, 256)
void products_of_few_rows() {
#define IS_NT false
  FEW(bf16, bf16, "bf16", bf16);
  FEW(f16, f16, "f16", f16);
#undef IS_NT
#define IS_NT true
  FEW(e4m3, bf16, "fp8", fp8);
  FEW(bf16, bf16, "bf16/nt", bf16_nt);
  FEW(f16, f16, "f16/nt", f16_nt);
#undef IS_NT
}
#undef SPLIT
#undef FEW

// The same by tensor memory. Whole tiles: one row, all that a tile has and fewer; columns that no tile divides;
// many tiles for each block, of more stages than a ring has, and of one. Shared ones: fewer stages than blocks,
// so that some have none; numbers of them that no number of blocks divides, and more than a ring has.
template <class In, class Out, u32 ROWS, u32 SPLIT, bool COLUMNS_OF_B, class Kernel>
void few_by_tcgen05(const char* name, Kernel kernel) {
  const u32 depth = 128 / sizeof(In);
  const Boxes boxes = {ROWS, 128, 0, sizeof(In) == 4 ? 32 : 16};
  const u32 whole[][4] = {{4, 1, 16, 16}, {3, ROWS, 144, 14 * depth + 16}, {2, ROWS - 3, 784, depth}};
  const u32 shared[][3] = {{ROWS / 16, 16, depth / 2}, {ROWS - 3, 272, (SPLIT * 13 + 1) * depth - 16},
                           {ROWS, 144, 5 * depth}};
  if (SPLIT == 1) {
    for (const auto& [blocks, m, n, k] : whole) {
      Product<In, Out, COLUMNS_OF_B>::check(name, kernel, boxes, blocks, m, n, k, 1, 256);
    }
    return;
  }
  for (const auto& [m, n, k] : shared) {
    const u32 blocks = SPLIT * ((n + 127) / 128);
    Product<In, Out, COLUMNS_OF_B>::check(name, kernel, boxes, blocks, m, n, k, SPLIT, 256);
  }
}
#define FEW(IN, OUT, NAME, FORM, ROWS, SPLIT)                                                     \
  few_by_tcgen05<IN, OUT, ROWS, SPLIT, IS_NT>("gemm/" #NAME "/sm100_tcgen05_" #FORM,              \
                                              sm100_few::gemm_##NAME##_tcgen05_##FORM)
#define SPLIT(IN, OUT, NAME, BLOCKS)                                                              \
  FEW(IN, OUT, NAME, split##BLOCKS##_16, 16, BLOCKS);                                             \
  FEW(IN, OUT, NAME, split##BLOCKS##_32, 32, BLOCKS);                                             \
  FEW(IN, OUT, NAME, split##BLOCKS##_64, 64, BLOCKS);                                             \
  FEW(IN, OUT, NAME, split##BLOCKS##_128, 128, BLOCKS);                                           \
  FEW(IN, OUT, NAME, split##BLOCKS##_256, 256, BLOCKS)
#define ALL(IN, OUT, NAME)                                                                        \
  FEW(IN, OUT, NAME, few, 16, 1);                                                                 \
  FEW(IN, OUT, NAME, few_32, 32, 1);                                                              \
  FEW(IN, OUT, NAME, few_64, 64, 1);                                                              \
  SPLIT(IN, OUT, NAME, 2);                                                                        \
  SPLIT(IN, OUT, NAME, 4)
void products_of_few_rows_by_tensor_memory() {
#define IS_NT false
  ALL(bf16, bf16, bf16);
  ALL(f16, f16, f16);
  ALL(f32, f32, tf32);
  ALL(i8, i32, int8);
#undef IS_NT
#define IS_NT true
  ALL(e4m3, bf16, fp8);
  ALL(bf16, bf16, bf16_nt);
  ALL(f16, f16, f16_nt);
#undef IS_NT
}
#undef ALL
#undef SPLIT
#undef FEW

void grouped_products() {
  grouped_plain<f32, f32>("grouped/f32/portable", portable::grouped_f32, 0, 131, 19);
  grouped_plain<f16, f16>("grouped/f16/portable", portable::grouped_f16, 0, 67, 5);
  grouped_plain<bf16, bf16>("grouped/bf16/portable", portable::grouped_bf16, 0, 1, 33);
  grouped_plain<bf16, bf16>("grouped/bf16/sm80_mma", sm80::grouped_bf16_mma, 98304, 272, 208);
  grouped_plain<bf16, bf16>("grouped/bf16/sm80_mma", sm80::grouped_bf16_mma, 98304, 16, 24);
  grouped_plain<f16, f16>("grouped/f16/sm80_mma", sm80::grouped_f16_mma, 98304, 520, 40);
  grouped_plain<bf16, bf16>("grouped/bf16/sm80_mma_skinny", skinny::grouped_bf16_mma_skinny, 98304,
                            72, 312);
  grouped_plain<f16, f16>("grouped/f16/sm80_mma_skinny", skinny::grouped_f16_mma_skinny, 98304, 40,
                          8);
  grouped_by_maps<bf16, bf16>("grouped/bf16/sm90_wgmma", sm90::grouped_bf16_wgmma);
  grouped_by_maps<f16, f16>("grouped/f16/sm90_wgmma", sm90::grouped_f16_wgmma);
  grouped_by_maps<e4m3, bf16>("grouped/fp8/sm90_wgmma", sm90::grouped_fp8_wgmma);
  grouped_by_tcgen05<bf16, bf16>("grouped/bf16/sm100_tcgen05", sm100::grouped_bf16_tcgen05);
  grouped_by_tcgen05<f16, f16>("grouped/f16/sm100_tcgen05", sm100::grouped_f16_tcgen05);
  grouped_by_tcgen05<e4m3, bf16>("grouped/fp8/sm100_tcgen05", sm100::grouped_fp8_tcgen05);
}

template <class In, class Plain, class ByMaps>
void scaled(Plain portable, Plain sm120, ByMaps sm100, ByMaps pair, const char* (&names)[4]) {
  using Checked = ScaledProduct<In>;
  Checked::check(names[0], portable, 3, 0, 1, 1, In::BLOCK);
  Checked::check(names[0], portable, 2, 0, 130, 67, 5 * In::BLOCK);
  const u32 shared = In::BLOCK == 16 ? 82944 : 78336;
  Checked::check(names[1], sm120, 3, shared, 1, 16, 32);
  // More than a stage, and a part of one that is no whole tile of scales. Tiles of C begin within a
  // tile of B's scales, the last one's in the last of them.
  const u32 k = In::BITS == 8 ? 288 : 544;
  Checked::check(names[1], sm120, 2, shared, 131, 424, k);
  Checked::check(names[2], sm100, 2, 131, 424, k);
  Checked::check(names[2], sm100, 3, 1, 16, 32);
  // More stages than a ring has.
  Checked::check(names[2], sm100, 1, 300, 272, 6 * (1024 / In::BITS) + 32);
  Checked::check_pair(names[3], pair);
}

void scaled_products() {
#define SCALED(IN)                                                                                \
  {                                                                                               \
    const char* names[4] = {"gemm/" #IN "/portable", "gemm/" #IN "/sm120_mma",                    \
                            "gemm/" #IN "/sm100_tcgen05", "gemm/" #IN "/sm100_tcgen05_pair"};     \
    scaled<IN>(portable_scaled::gemm_##IN, sm120::gemm_##IN##_mma,                                \
               sm100_scaled::gemm_##IN##_tcgen05, sm100_scaled::gemm_##IN##_tcgen05_pair, names); \
  }
  SCALED(mxfp8)
  SCALED(mxfp4)
  SCALED(nvfp4)
  // scaled_pairs.cpp has more shapes of these.
#define LONGER(IN)                                                                                \
  ScaledProduct<IN>::check_pair("gemm/" #IN "/sm103_tcgen05_pair",                                \
                                sm100_scaled::gemm_##IN##_tcgen05_longer)
  LONGER(mxfp4);
  LONGER(nvfp4);
  for (u32 k : {128u, 256u, 384u, 896u}) {
    BlockProduct plain(67, 200, k);
    model::launch(2, 256, 0, [&] { portable_scaled::gemm_fp8block(plain.params()); });
    plain.check("gemm/fp8block/portable");
    // Tiles below each other, one of them outside of C; beside each other, where tiles of B's scales
    // and of C begin at different columns.
    const u32 shapes[][2] = {{131, 272}, {37, 640}, {390, 64}};
    for (const auto& [m, n] : shapes) {
      BlockProduct product(m, n, k);
      const TensorMap a = {product.a.data(), 1, k, m, {128, 64}};
      const TensorMap b = {product.b.data(), 1, k, n, {128, 96}};
      const TensorMap c = {reinterpret_cast<u8*>(product.c.data()), 2, n, m, {64, 64}};
      model::launch(2, 384, 215232, [&] { sm90::gemm_fp8block_wgmma(product.params(), a, b, c); },
                    2);
      product.check("gemm/fp8block/sm90_wgmma");
    }
  }
  // Every value of 8 and 4 bits, made by shifting, against its definition.
  for (u32 bits = 0; bits < 256; bits++) {
    if ((bits & 0x7f) != 0x7f) {
      same(value_of_e4m3(bits) == widen(e4m3{u8(bits)}), "value_of_e4m3", "value");
    }
    same(value_of_e2m1(bits & 15) == model::value_of_e2m1(bits, 0), "value_of_e2m1", "value");
    if (bits < 255) {
      same(value_of_ue8m0(bits) == std::ldexp(1.0f, int(bits) - 127), "value_of_ue8m0", "value");
    }
  }
}

template <class In, class Plain, class Shared>
void weights(const char* portable, Plain plain, const char* mma, Shared shared, u32 granule) {
  using Checked = WeightProduct<In>;
  Checked::check(portable, plain, 2, 1, 1, granule);
  Checked::check(portable, plain, 3, 67, 130, 3 * granule);
  // Rows of one, two and more fragments; columns of less than a warp's share, and more than a tile;
  // stages that are no whole ones, and fewer and more of them than blocks and than the ring has.
  const u32 shapes[][4] = {{1, 1, 8, granule},       {2, 8, 40, 7 * granule},
                           {3, 13, 264, 5 * granule}, {2, 16, 520, 1280},
                           {5, 33, 272, 9 * granule}, {3, 64, 24, 640}};
  for (const auto& [blocks, m, n, k] : shapes) Checked::check(mma, shared, blocks, m, n, k);
}

void weight_products() {
  weights<bf16int4>("gemm/bf16-int4/portable", portable_scaled::gemm_bf16int4,
                    "gemm/bf16-int4/sm80_mma", mma_weights::gemm_bf16int4_mma, 128);
  weights<bf16mxfp4>("gemm/bf16-mxfp4/portable", portable_scaled::gemm_bf16mxfp4,
                     "gemm/bf16-mxfp4/sm80_mma", mma_weights::gemm_bf16mxfp4_mma, 32);
  weights<bf16fp8>("gemm/bf16-fp8/portable", portable_scaled::gemm_bf16fp8,
                   "gemm/bf16-fp8/sm80_mma", mma_weights::gemm_bf16fp8_mma, 16);
  // Every weight, widened at every place of a word.
  for (u32 bits = 0; bits < 256; bits++) {
    u32 pairs[4];
    const auto pair = [](f32 value) { return u32(narrow(value, bf16()).bits) * 0x10001; };
    const auto are = [&](u32 wanted) {
      return pairs[0] == wanted && pairs[1] == wanted && pairs[2] == wanted && pairs[3] == wanted;
    };
    if ((bits & 0x7f) != 0x7f) {
      const u32 word = bits * 0x1010101;
      mma_weights::widen_weights(pairs, word, word, 0, bf16fp8());
      same(are(pair(widen(e4m3{u8(bits)}))), "widen_weights", "bf16-fp8");
    }
    if (bits >= 16) continue;
    const u32 word = bits * 0x11111111, one = (126 + 3) << 7;
    mma_weights::widen_weights(pairs, word, 0, 0, bf16int4());
    same(are(pair(f32(i32(bits) - 8))), "widen_weights", "bf16-int4");
    // 2^(3 - 1): as bf16, the exponent's bias makes 2^126 of 253.
    mma_weights::widen_weights(pairs, word, 0, one << 16 | one, bf16mxfp4());
    const f32 small = std::ldexp(model::value_of_e2m1(bits, 0), -126 + 129 - 127);
    same(are(pair(small)), "widen_weights", "bf16-mxfp4");
  }
}

using StreamKernel = void (*)(StreamParams);
// What a stream leaves: an array, a sum for each block, or one of its elements' bits.
enum class Left { ARRAY, SUMS, WORDS };

template <class Sum> Sum sum_of(const f64* values, u64 count, u64 step) {
  Sum sum = 0;
  for (u64 i = 0; i < count; i++) {
    Sum value;
    memcpy(&value, values + i * step, 8);
    sum += value;
  }
  return sum;
}

void check_stream(const char* name, StreamKernel kernel, u32 threads, u32 blocks, u64 length,
                  f64 (*wanted)(f64, f64, f64), Left left) {
  const bool sums = left != Left::ARRAY;
  Array<f64> a(length), b(length), c(length), partial(8 * blocks);
  std::vector<f64> expected(length);
  for (u64 i = 0; i < length; i++) {
    b.data()[i] = small_integer();
    c.data()[i] = small_integer();
    a.data()[i] = sums ? small_integer() : -99.0;
    expected[i] = sums ? wanted(a.data()[i], b.data()[i], 0.0)
                       : wanted(b.data()[i], c.data()[i], 3.0);
  }
  const StreamParams params = {a.data(), b.data(), c.data(), partial.data(), length, 3.0};
  model::launch(blocks, threads, 196608, [&] { kernel(params); });
  bool equal = a.intact() && partial.intact();
  if (left == Left::SUMS) {
    equal = equal && sum_of<f64>(partial.data(), blocks, 8) == sum_of<f64>(&expected[0], length, 1);
  } else if (left == Left::WORDS) {
    equal = equal && sum_of<u64>(partial.data(), blocks, 8) == sum_of<u64>(&expected[0], length, 1);
  } else {
    for (u64 i = 0; i < length; i++) equal = equal && a.data()[i] == expected[i];
  }
  same(equal, name, "values");
}

void streams() {
  // Nothing, one, odd, one tile and a bit, many tiles on few blocks.
  for (u64 length : {1ull, 2ull, 8191ull, 8193ull, 30001ull}) {
    for (u32 blocks : {length < 9000 ? 1u : 3u}) {
#define STREAM(NAME, WANTED, LEFT)                                                                \
  check_stream(#NAME, stream::stream_##NAME, 1024, blocks, length, WANTED, Left::LEFT);           \
  check_stream(#NAME "_nt", stream::stream_##NAME##_nt, 1024, blocks, length, WANTED, Left::LEFT);\
  check_stream(#NAME " sm90_bulk_nt", bulk::stream_##NAME##_bulk, 288, blocks, length, WANTED,    \
               Left::LEFT)
      STREAM(read, [](f64 a, f64, f64) { return a; }, WORDS);
      STREAM(dot, [](f64 a, f64 b, f64) { return a * b; }, SUMS);
      STREAM(write, [](f64, f64, f64 s) { return s; }, ARRAY);
      STREAM(copy, [](f64 b, f64, f64) { return b; }, ARRAY);
      STREAM(scale, [](f64 b, f64, f64 s) { return s * b; }, ARRAY);
      STREAM(add, [](f64 b, f64 c, f64) { return b + c; }, ARRAY);
      STREAM(triad, [](f64 b, f64 c, f64 s) { return b + s * c; }, ARRAY);
    }
    check_stream("add sm90_bulk_deep_nt", bulk::stream_add_bulk_deep, 288, 1, length,
                 [](f64 b, f64 c, f64) { return b + c; }, Left::ARRAY);
    check_stream("triad sm90_bulk_deep_nt", bulk::stream_triad_bulk_deep, 288, 2, length,
                 [](f64 b, f64 c, f64 s) { return b + s * c; }, Left::ARRAY);
    const u32 once = u32((length + 2047) / 2048);
    check_stream("triad_nt_once", stream::stream_triad_nt_once, 256, once, length,
                 [](f64 b, f64 c, f64 s) { return b + s * c; }, Left::ARRAY);
  }
}

// Three walks in one launch leave what one does.
void cached_streams() {
  static void (*walked)(StreamParams, u32);
  const StreamKernel thrice = [](StreamParams p) { walked(p, 3); };
  for (u64 length : {1ull, 2ull, 8193ull, 30001ull}) {
    walked = cached::stream_read_cached;
    check_stream("stream/read/cached", thrice, 1024, 3, length, [](f64 a, f64, f64) { return a; },
                 Left::WORDS);
    walked = cached::stream_copy_cached;
    check_stream("stream/copy/cached", thrice, 1024, 3, length, [](f64 b, f64, f64) { return b; },
                 Left::ARRAY);
  }
}

u64 random_word() {
  small_integer();
  return random_state * 0x9E3779B97F4A7C15ull;
}

void gathers() {
  constexpr u32 ROWS = 301, BLOCKS = 3;
  for (u64 shift : {0ull, 1ull, 4ull, 9ull}) {
    const u64 row = 16ull << shift;
    Array<u64> table(ROWS * row / 8), partial(8 * BLOCKS);
    Array<u32> order(ROWS);
    for (u64 i = 0; i < table.count; i++) table.data()[i] = random_word();
    u64 wanted = 0;
    for (u32 i = 0; i < ROWS; i++) {
      order.data()[i] = i * 97 % ROWS;
      u64 sum = 0;
      for (u64 w = 0; w < row / 8; w++) sum += table.data()[order.data()[i] * row / 8 + w];
      wanted += (2 * i + 1) * sum;
    }
    const AccessParams p = {table.data(), order.data(), partial.data(), ROWS, row, shift};
    model::launch(BLOCKS, 512, 0, [&] { access::access_gather(p); });
    u64 got = 0;
    for (u32 block = 0; block < BLOCKS; block++) got += partial.data()[8 * block];
    same(got == wanted && partial.intact(), "access/gather", "the weighed sum");
  }
}

void check_mix(const char* name, void (*kernel)(AccessParams), u32 reads, u32 writes) {
  for (u64 length : {2ull, 1024ull, 8194ull}) {
    const u64 apart = length + 2;
    Array<u64> arrays(apart * (reads + writes));
    for (u64 i = 0; i < arrays.count; i++) arrays.data()[i] = random_word();
    const std::vector<u64> before(arrays.data(), arrays.data() + arrays.count);
    const AccessParams p = {arrays.data(), nullptr, nullptr, length, apart * 8, 0};
    model::launch(3, 512, 0, [&] { kernel(p); });
    bool equal = arrays.intact();
    for (u64 i = 0; i < arrays.count; i++) {
      const u64 array = i / apart, place = i % apart;
      u64 wanted = before[i];
      if (array >= reads && place < length) {
        wanted = 0;
        for (u32 read = 0; read < reads; read++) wanted ^= before[read * apart + place];
      }
      equal = equal && arrays.data()[i] == wanted;
    }
    same(equal, name, "arrays");
  }
}

void accesses() {
  gathers();
  check_mix("access/mix_3r1w", access::access_mix_3r1w, 3, 1);
  check_mix("access/mix_1r3w", access::access_mix_1r3w, 1, 3);
  Array<u64> words(4096), partial(16);
  u64 all = 0;
  for (u64 i = 0; i < 4096; i++) all += words.data()[i] = random_word();
  const AccessParams p = {words.data(), nullptr, partial.data(), 4, 16, 0};
  model::launch(2, 1024, 0, [&] { access::access_shared(p, 2); });
  same(partial.data()[0] == 2 * all && partial.data()[8] == 2 * all, "access/shared", "sums");
  partial.data()[0] = partial.data()[8] = 0;
  model::launch(2, 1024, 0, [&] { cluster::access_distributed(p, 2); });
  same(partial.data()[0] == 2 * all && partial.data()[8] == 2 * all, "access/distributed", "sums");
  // Rows of fewer vectors than a block has threads, of as many, and of more.
  for (u64 row : {8192ull, 16384ull, 32768ull}) {
    Array<u64> held(row / 8);
    u64 sum = 0;
    for (u64 i = 0; i < row / 8; i++) sum += held.data()[i] = random_word();
    partial.data()[0] = partial.data()[8] = 0;
    const AccessParams first = {held.data(), nullptr, partial.data(), 8, row, 0};
    model::launch(2, 1024, 0, [&] { access::access_first_cache(first, 3); });
    const u64 wanted = sum * (8 * 16384 / row);
    same(partial.data()[0] == wanted && partial.data()[8] == wanted, "access/first_cache", "sums");
    same(held.intact(), "access/first_cache", "operands");
  }
  same(partial.intact(), "access", "partial sums stay in their place");
}

void transfers() {
  for (u64 words : {1ull, 2ull, 8193ull}) {
    Array<u64> to(words), from(words);
    for (u64 i = 0; i < words; i++) from.data()[i] = random_word();
    const TransferParams p = {to.data(), from.data(), words * 8, 0, 0};
    model::launch(2, 512, 0, [&] { transfer::transfer_copy(p); });
    const bool equal = memcmp(to.data(), from.data(), words * 8) == 0;
    same(equal && to.intact(), "transfer/copy/sm", "words");
  }
  u64 count = 41;
  model::launch(1, 32, 0, [&] { counting::launch_count({&count, 1}); });
  same(count == 42, "launch/portable", "count");
}

void chases() {
  constexpr u64 CELLS = 37;
  std::vector<u64> cells(CELLS);
  for (u64 i = 0; i < CELLS; i++) {
    cells[i] = reinterpret_cast<u64>(&cells[(i + 10) % CELLS]);
  }
  u64* position = &cells[0];
  const LatencyParams params = {&position};
  model::launch(1, 32, 0, [&] { latency::latency_chase(params, 100); });
  model::launch(1, 32, 0, [&] { latency::latency_chase(params, 7); });
  same(position == &cells[107 * 10 % CELLS], "latency/portable", "where the chase ends");
  u64* end[2] = {&cells[0], nullptr};
  model::launch(1, 32, 0, [&] { sides::latency_side({end}, 107); });
  same(end[0] == position && u64(end[1]) == 7, "latency/side", "where the chase ends");
  std::vector<u64> zeros(8 * 5), taken(5);
  u64 unit = 0;
  model::launch(1, 32, 0, [&] { sides::latency_probe({zeros.data(), 5, taken.data(), &unit}); });
  for (u64 cycles : taken) same(cycles == 1, "latency/probe", "cycles of 16 operations in 16");
  for (u64 zero : zeros) same(zero == 0, "latency/probe", "lines stay as they were");
  same(unit == 7, "latency/probe", "the unit's number");
}

// Rounds end where they began; one whose steps up and down differ does not.
void chains() {
  const auto run = [](const char* name, void (*kernel)(LatencyParams, u32)) {
    for (const u32 rounds : {1, 3}) {
      u64 left[2] = {};
      const LatencyParams params = {reinterpret_cast<u64**>(left)};
      model::launch(1, 32, 0, [&] { kernel(params, rounds); });
      f64 value;
      memcpy(&value, left, sizeof value);
      same(value == 1 && left[1] == rounds, name, "a chain ends where it began");
    }
  };
#define CHAIN(NAME, KERNEL) run("instruction/" #NAME, instruction::instruction_##KERNEL)
  CHAIN(add/f32, add_f32);
  CHAIN(add/f64, add_f64);
  CHAIN(mul/f32, mul_f32);
  CHAIN(mul/f64, mul_f64);
  CHAIN(fma/f32, fma_f32);
  CHAIN(fma/f64, fma_f64);
  CHAIN(integer_add, integer_add);
  CHAIN(integer_mad, integer_mad);
  CHAIN(exp/f32, exp_f32);
  CHAIN(convert/f32, convert_f32);
  CHAIN(shuffle, shuffle);
  CHAIN(shared_load, shared_load);
  CHAIN(matrix/bf16, matrix_bf16_mma);
  CHAIN(matrix/f16, matrix_f16_mma);
  CHAIN(matrix/tf32, matrix_tf32_mma);
  CHAIN(matrix/int8, matrix_int8_mma);
  CHAIN(matrix/f64, matrix_f64_mma);
#undef CHAIN
}

using Counter = void (*)(ComputeParams, u32);

// `multiply_adds` of a block in each round.
void check_count(const char* name, Counter kernel, u32 threads, u32 shared, u64 multiply_adds,
                 u32 rounds = 3) {
  f64 partial[16] = {};
  const ComputeParams params = {partial, 2 * multiply_adds};
  model::launch(2, threads, shared, [&] { kernel(params, rounds); });
  const f64 wanted = f64(multiply_adds);
  same(partial[0] == wanted && partial[8] == wanted, name, "count");
}

void counts() {
  const auto once = [](auto kernel) { return kernel; };
  static void (*vector)(ComputeParams);
  const Counter counter = [](ComputeParams p, u32) { vector(p); };
  vector = once(compute::compute_f32);
  check_count("compute/f32/vector", counter, 512, 0, 1 << 17);
  vector = once(compute::compute_f64);
  check_count("compute/f64/vector", counter, 512, 0, 1 << 17);
#define MMA(NAME, DEPTH)                                                                          \
  check_count("compute/" #NAME "/sm80_mma", compute_sm80::compute_##NAME##_mma, 256, 0,           \
              2 * 64 * 128 * DEPTH)
#define WGMMA(NAME, DEPTH)                                                                        \
  check_count("compute/" #NAME "/sm90_wgmma", compute_sm90::compute_##NAME##_wgmma, 256, 32768,   \
              8 * 64 * 256 * DEPTH);                                                              \
  check_count("compute/" #NAME "/sm90_wgmma_random",                                              \
              compute_sm90::compute_##NAME##_wgmma_random, 256, 40960, 4 * 64 * 256 * 4 * DEPTH)
  // Sums are emptied so seldom that it takes less than a thousandth of the time: 16 cycles for each of
  // 256 columns, where a unit makes 49152 operations a cycle at the most (nvfp4 on 10.3).
  static_assert(u64(compute_sm100::COUNT_MAX) * 2 * 128 * 256 / 49152 > 1000 * 16 * 256, "");
#define TCGEN05(NAME, DEPTH)                                                                      \
  check_count("compute/" #NAME "/sm100_tcgen05", compute_sm100::compute_##NAME##_tcgen05, 128,    \
              32768, 8 * 128 * 256 * DEPTH)
  TCGEN05(bf16, 16);
  TCGEN05(f16, 16);
  TCGEN05(tf32, 8);
  TCGEN05(fp8, 32);
  TCGEN05(int8, 32);
  TCGEN05(mxfp8, 32);
  TCGEN05(mxfp4, 64);
  TCGEN05(nvfp4, 64);
  // 256, 512 and 768 along k: of 96 a rest of 64, of 32 and of none is left.
  for (u32 rounds : {1u, 2u, 3u}) {
    check_count("compute/mxfp4/sm103_tcgen05", compute_sm100::compute_mxfp4_tcgen05_longer, 128,
                32768, 4 * 128 * 256 * 64, rounds);
    check_count("compute/nvfp4/sm103_tcgen05", compute_sm100::compute_nvfp4_tcgen05_longer, 128,
                32768, 4 * 128 * 256 * 64, rounds);
  }
  MMA(bf16, 16);
  MMA(f16, 16);
  MMA(tf32, 8);
  MMA(int8, 32);
  MMA(f64, 4);
  check_count("compute/fp8/sm89_mma", compute_sm89::compute_fp8_mma, 256, 0, 2 * 64 * 128 * 32);
#define SM120(NAME, DEPTH)                                                                        \
  check_count("compute/" #NAME "/sm120_mma", compute_sm120::compute_##NAME##_mma, 256, 0,         \
              2 * 64 * 128 * DEPTH)
  SM120(mxfp8, 32);
  SM120(mxfp4, 64);
  SM120(nvfp4, 64);
  WGMMA(bf16, 16);
  WGMMA(f16, 16);
  WGMMA(tf32, 8);
  WGMMA(fp8, 32);
  WGMMA(int8, 32);
}

void words() {
  constexpr u64 LENGTH = 3001, PERIOD = 7;
  Array<u64> target(LENGTH);
  u64 pattern[PERIOD];
  for (u64 i = 0; i < PERIOD; i++) pattern[i] = 1000 + i;
  const FillParams fill = {target.data(), pattern, LENGTH, PERIOD};
  model::launch(3, 256, 0, [&] { memory::util_fill(fill); });
  bool equal = target.intact();
  for (u64 i = 0; i < LENGTH; i++) equal = equal && target.data()[i] == pattern[i % PERIOD];
  same(equal, "util/fill", "values");
  u64 differing = 0;
  const CompareParams compare = {target.data(), pattern, LENGTH, PERIOD, &differing};
  model::launch(3, 256, 0, [&] { memory::util_compare(compare); });
  same(differing == 0, "util/compare", "equal values");
  std::swap(target.data()[3], target.data()[2998]);
  model::launch(3, 256, 0, [&] { memory::util_compare(compare); });
  same(differing == 2, "util/compare", "two values exchanged");
  std::swap(target.data()[3], target.data()[2998]);
}

// Bits of descriptors by hand: address 0x2400 / 16 in bits 0.., strides / 16 in bits 16.. and 32..,
// 1 in bits 62..63.
void descriptors() {
  same(describe_k_major(0x2400) == 0x4000004000010240ull, "describe_k_major", "bits");
  same(describe_mn_major(0x38c00, 0x2000) == 0x40000040020038c0ull, "describe_mn_major", "bits");
  same(describe_for_tensor_memory(describe_k_major(0x2400)) == 0x4000404000010240ull,
       "describe_for_tensor_memory", "bits");
  // bf16, B mn-major, 128 x 256: 0x10 | 0x80 | 0x400 | 0x10000 | 32 << 17 | 8 << 24.
  same(instruct(1, 1, 128, 256) == 0x08410490u, "instruct", "bits of bf16");
  same(instruct(0, 0, 128, 256) == 0x08400010u, "instruct", "bits of fp8");
  // int8 by a pair, B mn-major, sums of i32: 0x20 | 0x80 | 0x400 | 0x10000 | 32 << 17 | 16 << 24.
  same(instruct(1, 1, 256, 256, 2) == 0x104104a0u, "instruct", "bits of int8");
  // bf16, A mn-major, 128 x 16: 0x10 | 0x80 | 0x400 | 0x8000 | 2 << 17 | 8 << 24.
  same(with_a_mn_major(instruct(1, 0, 128, 16)) == 0x08048490u, "with_a_mn_major", "bits of bf16");
  // 1 in bits 46..48 and in bits 61..63, 512 / 16 in bits 32...
  same(describe_words_mn_major(0x2400, 0x1000) == 0x2000402001000240ull,
       "describe_words_mn_major", "bits");
  // e2m1, scales of ue4m3: 0x80 | 0x400 | 32 << 17 | 1 << 27; of ue8m0 bit 23 more.
  same(instruct_scaled(1, 0, 128, 256) == 0x08400480u, "instruct_scaled", "bits of nvfp4");
  same(instruct_scaled(1, 1, 128, 256) == 0x08c00480u, "instruct_scaled", "bits of mxfp4");
  // e4m3: 24 << 17 | 1 << 23 | 1 << 27; scales from byte 3 on: 3 << 4 | 3 << 29.
  same(instruct_scaled(0, 1, 128, 192) == 0x08b00000u, "instruct_scaled", "bits of mxfp8");
  same(from_byte(0x08b00000u, 3) == 0x68b00030u, "from_byte", "bits");
  // 8 rows of 16 bytes: 128 / 16 in bits 32.., 1 in bits 46..48, no swizzle.
  same(describe_plain(0x2400) == 0x0000400800000240ull, "describe_plain", "bits");
  same(describe(0x3fff0, 0x3fff0, 0x3fff0) == 0x40003fff3fff3fffull, "describe", "widest");
}

// Every tile comes once, whatever is left of the last group, and where blocks take pairs.
void rasters() {
  for (u32 rows = 1; rows < 20; rows++) {
    for (u32 columns = 1; columns < 20; columns++) {
      for (u32 height : {4u, 8u, 16u}) {
        std::vector<u32> seen(rows * columns);
        for (u32 index = 0; index < rows * columns; index++) {
          const Tile tile = tile_at(index, rows, columns, height);
          same(tile.row < rows && tile.column < columns, "tile_at", "within C");
          seen[tile.row * columns + tile.column]++;
        }
        for (u32 count : seen) same(count == 1, "tile_at", "every tile once");
      }
      auto pairs = single<128, 256, 2>({nullptr, nullptr, nullptr, rows * 128, columns * 256, 1, 0,
                                        nullptr, nullptr});
      std::vector<u32> seen(rows * columns);
      u32 outside = 0;
      for (u32 index = 0; pairs.seek(index); index++) {
        const Place place = place_of(pairs, index);
        const bool there = place.row < rows && place.column < columns;
        if (there) seen[place.row * columns + place.column]++;
        outside += !there;
      }
      for (u32 count : seen) same(count == 1, "place_of", "every tile of a pair once");
      const u32 least = rows % 2 == 0 || columns % 2 == 0 ? 0 : rows < columns ? rows : columns;
      same(outside == least, "place_of", "as few tiles outside as there can be");
    }
  }
  // Every half of every tile comes once, and only tiles of a round that halves do not lengthen are cut.
  for (u32 tiles = 1; tiles < 40; tiles++) {
    for (u32 workers = 1; workers < 20; workers++) {
      const u32 whole = whole_tiles(tiles, workers);
      const Work work = {1, tiles, 1, 4, whole};
      std::vector<u32> halves(tiles * 2);
      for (u32 index = 0; index < made_in_all(work); index++) {
        const Made made = made_at(work, index);
        const u32 first = made.half == 1 ? 1 : 0, last = made.half == 0 ? 0 : 1;
        for (u32 half = first; half <= last; half++) halves[made.column * 2 + half]++;
        same((made.half == 2) == (index < whole), "made_at", "which tiles are cut");
      }
      for (u32 count : halves) same(count == 1, "made_at", "every half once");
      const u32 rounds = (made_in_all(work) + workers - 1) / workers;
      same(rounds == (tiles + workers - 1) / workers, "whole_tiles", "no more rounds than before");
      same(whole == tiles || whole % workers == 0, "whole_tiles", "whole rounds before the halves");
    }
  }
  // 256 tiles on 74 pairs: three rounds of whole tiles, 68 halves in the fourth.
  same(whole_tiles(256, 74) == 222, "whole_tiles", "4096 x 4096 on 74 pairs");
  same(whole_tiles(64, 74) == 64, "whole_tiles", "2048 x 2048 on 74 pairs");
  // 132 tiles of 128 x 256: 8 high they take 1024 rows of A and 4352 columns of B, 16 high 2048 and
  // 2304. 66 pairs below each other are 8 high, beside each other 16.
  same(group_height(128, 256, 132) == 16, "group_height", "tiles");
  same(group_height(256, 256, 66) == 8, "group_height", "pairs below each other");
  same(group_height(128, 512, 66) == 16, "group_height", "pairs beside each other");
  same(group_height(128, 256, 2) == 4, "group_height", "two tiles");
}

}  // namespace

int main(int count, char** arguments) {
  model::planted = count > 1 && strcmp(arguments[1], "--planted") == 0;
  model::counts_banks = true;
  products();
  lines();
  shared_products();
  products_of_few_rows();
  products_of_few_rows_by_tensor_memory();
  grouped_products();
  scaled_products();
  weight_products();
  streams();
  cached_streams();
  accesses();
  transfers();
  chases();
  chains();
  counts();
  words();
  collective::checks();
  sdc::check_all();
  rasters();
  descriptors();
  if (model::judge_banks({}) != 0) return 1;
  printf("%u checks passed\n", checked);
}
