// Runs the kernels of attention on the CPU and compares what they leave with the definition in f64:
// odd lengths, ragged batches, pages in any order, scores of hundreds, rows that see no key. The
// bounds are those of rounding alone: of the weights, the sums and the output.
#include "gpu.h"
#include "sm80.h"
#include "sm89.h"
#include "sm90.h"
#include "sm90_attention.h"
#include "sm100_attention.h"

#include "attention.h"
#include "attention_copies.h"
#include "attention_latent.h"
#include "attention_mma.h"
#include "attention_split.h"
#include "attention_two_e4m3.h"
#include "attention_type.h"
#include "attention_wgmma.h"
#include "params.h"
#include "soft_exponential.h"

namespace {

u8 narrow(f32 value, u8) { return narrow(value, e4m3()).bits; }

}  // namespace

#include "attention_check.h"

namespace portable {
#include "../../kernels/attention/portable.cu"
}
namespace sm80 {
#include "../../kernels/attention/sm80_mma.cu"
}
namespace sm89 {
#include "../../kernels/attention/sm89_mma.cu"
}
namespace sm89_64 {
#include "../../kernels/attention/sm89_mma_64.cu"
}

namespace split {
#include "../../kernels/attention/sm80_mma_split.cu"
}
namespace latent {
#include "../../kernels/attention/sm80_mma_latent.cu"
}
namespace latent_32 {
#include "../../kernels/attention/sm80_mma_latent_32.cu"
}
namespace latent_sm90 {
#include "../../kernels/attention/sm90_wgmma_latent.cu"
}
namespace latent_sm100 {
#include "../../kernels/attention/sm100_tcgen05_latent.cu"
}
namespace latent_sm89 {
#include "../../kernels/attention/sm89_mma_latent.cu"
}
namespace latent_sm89_32 {
#include "../../kernels/attention/sm89_mma_latent_32.cu"
}
namespace sm90 {
#include "../../kernels/attention/sm90_wgmma.cu"
}
namespace sm100 {
#include "../../kernels/attention/sm100_tcgen05.cu"
}
#include "tensor_memory_check.h"
namespace split_sm90 {
#include "../../kernels/attention/sm90_wgmma_split.cu"
}
namespace split_sm89 {
#include "../../kernels/attention/sm89_mma_split.cu"
}
namespace split_sm100 {
#include "../../kernels/attention/sm100_mma_split.cu"
}

namespace {

template <class Q, class C, class O>
void run(const char* name, Kernel kernel, u32 blocks, u32 shared, Roundoff roundoff,
         const Shape& shape) {
  Attention<Q, C, O> attention(name, shape);
  model::launch(blocks, 128, shared, [&] { kernel(attention.params); });
  attention.check(roundoff);
}

// By a kernel that follows a schedule, twice: what a launch leaves in scratch memory serves the next.
template <class Q, class C>
void run_split(const char* name, Kernel kernel, u32 threads, u32 shared, Roundoff roundoff,
               u32 piece, const Shape& shape) {
  Attention<Q, C, Q> attention(name, shape);
  attention.deal(5, piece);
  for (u32 i = 0; i < 2; i++) {
    memset(static_cast<void*>(attention.o.data()), 0xff, attention.o.size() * 16);
    model::launch(3, threads, shared, [&] { kernel(attention.params); });
    attention.check(roundoff);
  }
}

// By a kernel that follows the program's own schedule and makes so many rows of a part at once.
template <class Q, class C>
void run_dealt(const char* name, Kernel kernel, u32 threads, u32 shared, Roundoff roundoff,
               u32 at_once, const Shape& shape, const Dealt& dealt) {
  Attention<Q, C, Q> attention(name, shape);
  attention.take(dealt);
  const u64 bytes = u64(attention.key_tokens) * shape.kv_heads * shape.dim_qk * sizeof(C);
  model::visited = {reinterpret_cast<const u8*>(attention.k.data()),
                    std::vector<u32>(bytes / 16, 0)};
  const u32 blocks = dealt.blocks;
  model::launch(blocks == 1 ? 3 : 4, threads, shared, [&] { kernel(attention.params); }, blocks);
  attention.check_visits(at_once, blocks > 1);
  model::visited = {};
  attention.check(roundoff);
}

using ByCounter = void (*)(AttentionParams, u32*, TensorMap, TensorMap, TensorMap);

// With blocks that take tiles by a counter. They run one after the other here: each is let take a
// few tiles, the last one the rest. The counter must be left as it was found.
template <class T, class O, class Kernel>
void run_by_counter(const char* name, ByCounter kernel, u32 keys, Roundoff roundoff,
                    const Shape& shape) {
  run_with_maps<T, O>(name, keys, Kernel::ROWS, roundoff, shape,
                      [&](const AttentionParams& p, auto... maps) {
    u32 counter[2] = {};
    const u32 blocks = 1 + random_below(4);
    model::launch(blocks, (Kernel::ROWS / 64 + 1) * 128, Kernel::SHARED_BYTES,
                  [&] { kernel(p, counter, maps...); });
    if (counter[0] != 0 || counter[1] != 0) model::fail("counters are not left as they were");
  });
}

// Odd lengths; a sequence of one key; queries before all keys, which see none.
const std::vector<std::pair<u32, u32>> ODD = {{5, 70}, {1, 1}, {37, 33}, {3, 0}};

void portables() {
  run<f32, f32, f32>("attention/f32/portable", portable::attention_f32, 3, 0, EXACT,
                     {4, 2, 24, 17, 1, 0, ODD});
  run<f32, f32, f32>("attention/f32/portable", portable::attention_f32, 2, 0, EXACT,
                     {3, 1, 40, 130, 0, 16, ODD, 40.0f});
  run<f16, f16, f16>("attention/f16/portable", portable::attention_f16, 2, 0, {0.0, 1.0 / 2048},
                     {4, 4, 64, 64, 1, 7, ODD});
  run<bf16, bf16, bf16>("attention/bf16/portable", portable::attention_bf16, 3, 0, {0.0, 1.0 / 256},
                        {16, 1, 576, 512, 0, 0, {{1, 50}, {2, 3}}, 1.0f, true});
  run<u8, u8, bf16>("attention/fp8/portable", portable::attention_fp8, 1, 0, {0.0, 1.0 / 256},
                    {2, 1, 64, 64, 1, 0, ODD});
  run<bf16, u8, bf16>("attention/fp8/portable (cache)", portable::attention_fp8_cache, 1, 0,
                      {0.0, 1.0 / 256}, {8, 2, 128, 128, 0, 16, {{1, 77}, {1, 200}}});
  // A window of one key, of as many as a tile, of more than there are; chunks that queries cross.
  const Shape odd = {4, 2, 24, 17, 1, 7, ODD};
  for (u32 keys : {1u, 32u, 500u}) {
    run<f32, f32, f32>("attention/f32/portable", portable::attention_f32, 3, 0, EXACT,
                       with_window(odd, keys));
  }
  run<f32, f32, f32>("attention/f32/portable", portable::attention_f32, 3, 0, EXACT,
                     with_chunks(odd, 13));
  const auto any = [] {
    const u32 dim = 8 * (1 + random_below(20));
    const Shape shape = random_shape(dim, dim - random_below(8), 9, 200, Keys::ANYWHERE);
    return random_below(2) == 0 ? shape : windowed(shape);
  };
  for (u32 i = 0; i < 3; i++) {
    run<f32, f32, f32>("attention/f32/portable", portable::attention_f32, 2, 0, EXACT, any());
    run<f16, f16, f16>("attention/f16/portable", portable::attention_f16, 3, 0, {0.0, 1.0 / 2048},
                       any());
    run<bf16, bf16, bf16>("attention/bf16/portable", portable::attention_bf16, 2, 0,
                          {0.0, 1.0 / 256}, any());
    run<u8, u8, bf16>("attention/fp8/portable", portable::attention_fp8, 3, 0, {0.0, 1.0 / 256},
                      any());
    run<bf16, u8, bf16>("attention/fp8/portable (cache)", portable::attention_fp8_cache, 2, 0,
                        {0.0, 1.0 / 256}, any());
  }
}

#define PREFILL(IN, Q, O, ROUNDOFF, FAMILY, DIM_QK, DIM_V, DOWN, KEYS)                             \
  PREFILL_BY(#IN "/" #FAMILY "_mma", FAMILY::attention_prefill_##IN##_##DIM_QK##_mma, P_##IN,      \
             Q, O, ROUNDOFF, DIM_QK, DIM_V, DOWN, KEYS)
#define PREFILL_BY(NAME, ENTRY, T, Q, O, ROUNDOFF, DIM_QK, DIM_V, DOWN, KEYS)                      \
  run<Q, Q, O>("attention/prefill/" NAME, ENTRY, 5,                                                \
               Prefill<T, DIM_QK, DIM_V, DOWN, KEYS>::SHARED_BYTES, ROUNDOFF,                      \
               {2, 1, DIM_QK, DIM_V, 1, 0, {{130, 130}, {1, 1}, {70, 33}, {3, 0}}});               \
  run<Q, Q, O>("attention/prefill/" NAME, ENTRY, 2,                                                \
               Prefill<T, DIM_QK, DIM_V, DOWN, KEYS>::SHARED_BYTES, ROUNDOFF,                      \
               {2, 2, DIM_QK, DIM_V, 0, 16, {{5, 97}, {66, 64}}, 30.0f});                          \
  run<Q, Q, O>("attention/prefill/" NAME, ENTRY, 1 + random_below(4),                              \
               Prefill<T, DIM_QK, DIM_V, DOWN, KEYS>::SHARED_BYTES, ROUNDOFF,                      \
               random_shape(DIM_QK, DIM_V, 40, 100, Keys::ANYWHERE));                              \
  run<Q, Q, O>("attention/prefill/" NAME, ENTRY, 5,                                                \
               Prefill<T, DIM_QK, DIM_V, DOWN, KEYS>::SHARED_BYTES, ROUNDOFF,                      \
               with_window({2, 1, DIM_QK, DIM_V, 1, 7, {{133, 150}, {70, 33}}}, KEYS));            \
  run<Q, Q, O>("attention/prefill/" NAME, ENTRY, 1 + random_below(4),                              \
               Prefill<T, DIM_QK, DIM_V, DOWN, KEYS>::SHARED_BYTES, ROUNDOFF,                      \
               windowed(random_shape(DIM_QK, DIM_V, 40, 200, Keys::ANYWHERE)))

using P_bf16 = bf16;
using P_f16 = f16;
using P_fp8 = e4m3;

void prefills() {
  PREFILL(bf16, bf16, bf16, BF16, sm80, 64, 64, 2, 64);
  PREFILL(bf16, bf16, bf16, BF16, sm80, 128, 128, 2, 32);
  PREFILL(bf16, bf16, bf16, BF16, sm80, 192, 128, 1, 32);
  PREFILL(bf16, bf16, bf16, BF16, sm80, 256, 256, 1, 32);
  PREFILL(f16, f16, f16, F16, sm80, 64, 64, 2, 64);
  PREFILL(f16, f16, f16, F16, sm80, 128, 128, 2, 32);
  PREFILL(f16, f16, f16, F16, sm80, 192, 128, 1, 32);
  PREFILL(f16, f16, f16, F16, sm80, 256, 256, 1, 32);
  PREFILL(fp8, u8, bf16, E4M3, sm89, 64, 64, 2, 64);
  PREFILL(fp8, u8, bf16, E4M3, sm89, 128, 128, 2, 32);
  PREFILL(fp8, u8, bf16, E4M3, sm89, 192, 128, 2, 32);
  PREFILL(fp8, u8, bf16, E4M3, sm89, 256, 256, 1, 32);
#define OF_64(DIM_QK, DIM_V, KEYS)                                                                 \
  PREFILL_BY("fp8/sm89_mma_64", sm89_64::attention_prefill_fp8_##DIM_QK##_mma_64, e4m3, u8, bf16,  \
             E4M3, DIM_QK, DIM_V, 1, KEYS)
  OF_64(64, 64, 64);
  OF_64(128, 128, 32);
  OF_64(192, 128, 32);
}

// Pages of some tokens and none, masks, queries of several tokens, windows; and shapes drawn at random.
template <class Q, class C, class Made>
void split_by(const char* name, Kernel kernel, Roundoff roundoff, u32 dim) {
  const auto by = [&](u32 piece, const Shape& shape) {
    run_split<Q, C>(name, kernel, Made::THREADS, Made::SHARED_BYTES, roundoff, piece, shape);
  };
  by(128, {8, 1, dim, dim, 0, 16, {{1, 77}, {1, 200}, {1, 1}, {1, 0}, {1, 419}}});
  by(192, {6, 2, dim, dim, 1, 0, {{7, 131}, {24, 11}, {3, 500}}, 20.0f});
  by(64 * (1 + random_below(3)), random_shape(dim, dim, 5, 250, Keys::ANYWHERE));
  by(64, with_window({6, 2, dim, dim, 1, 7, {{7, 131}, {24, 11}, {3, 300}}}, 99));
  by(64, windowed(random_shape(dim, dim, 5, 250, Keys::ANYWHERE)));
}

// By 4 warps and by twice as many.
#define SPLIT(NAME, FAMILY, IN, CACHE, MATRIX, C, ROUNDOFF, DIM)                                   \
  split_by<IN, C, Split<IN, MATRIX, P_##CACHE, DIM>>(                                              \
      "attention/decode/" #CACHE "/" NAME, FAMILY::attention_decode_##CACHE##_##DIM##_mma,         \
      ROUNDOFF, DIM);                                                                              \
  split_by<IN, C, Split<IN, MATRIX, P_##CACHE, DIM, 2>>(                                           \
      "attention/decode/" #CACHE "/sm100_mma",                                                     \
      split_sm100::attention_decode_##CACHE##_##DIM##_mma_wide, ROUNDOFF, DIM)

void splits() {
  SPLIT("sm80_mma", split, bf16, bf16, bf16, bf16, BF16, 64);
  SPLIT("sm80_mma", split, bf16, bf16, bf16, bf16, BF16, 128);
  SPLIT("sm80_mma", split, f16, f16, f16, f16, F16, 64);
  SPLIT("sm80_mma", split, f16, f16, f16, f16, F16, 128);
  SPLIT("sm89_mma", split_sm89, bf16, fp8, f16, u8, CACHE, 64);
  SPLIT("sm89_mma", split_sm89, bf16, fp8, f16, u8, CACHE, 128);
  SPLIT("sm80_mma", split, bf16, bf16, bf16, bf16, BF16, 256);
  SPLIT("sm80_mma", split, f16, f16, f16, f16, F16, 256);
  SPLIT("sm89_mma", split_sm89, bf16, fp8, f16, u8, CACHE, 256);
}

#define SPLIT_90(NAME, IN, CACHE, C, M, E, ROUNDOFF, DIM)                                          \
  split_90<IN, C, split_sm90::Split90<IN, M, E, DIM>>(                                             \
      "attention/decode/" NAME "/sm90_wgmma", split_sm90::attention_decode_##CACHE##_##DIM##_wgmma, \
      ROUNDOFF, DIM)

template <class Q, class C, class Made>
void split_90(const char* name, Kernel kernel, Roundoff roundoff, u32 dim) {
  const auto by = [&](u32 piece, const Shape& shape) {
    run_split<Q, C>(name, kernel, Made::NARROW ? 512 : 384, Made::SHARED_BYTES, roundoff, piece, shape);
  };
  by(128, {8, 1, dim, dim, 0, 16, {{1, 77}, {1, 200}, {1, 1}, {1, 0}, {1, 419}}});
  by(320, {6, 2, dim, dim, 1, 0, {{7, 131}, {24, 11}, {3, 700}}, 20.0f});
  // More slots than are combined a row at a time, and than a lane loads at once.
  by(64, {4, 2, dim, dim, 1, 1, {{1, 1210}, {2, 530}}, 5.0f});
  by(64, with_window({6, 2, dim, dim, 1, 7, {{7, 131}, {24, 11}, {3, 300}}}, 99));
  by(64, with_chunks({8, 1, dim, dim, 1, 128, {{1, 77}, {3, 219}}}, 50));
  by(64 * (1 + random_below(4)), random_shape(dim, dim, 5, 250, Keys::ANYWHERE));
  by(64, windowed(random_shape(dim, dim, 5, 250, Keys::ANYWHERE)));
}

void splits_by_warpgroups() {
  SPLIT_90("bf16", bf16, bf16, bf16, bf16, bf16, BF16, 64);
  SPLIT_90("bf16", bf16, bf16, bf16, bf16, bf16, BF16, 128);
  SPLIT_90("f16", f16, f16, f16, f16, f16, F16, 64);
  SPLIT_90("f16", f16, f16, f16, f16, f16, F16, 128);
  SPLIT_90("fp8", bf16, fp8, u8, f16, e4m3, CACHE, 64);
  SPLIT_90("fp8", bf16, fp8, u8, f16, e4m3, CACHE, 128);
}

#define LATENT(NAME, IN, C, KERNEL, THREADS, SHARED_SIZE, ROUNDOFF)                                \
  run_split<IN, C>("attention/mla/" NAME, KERNEL, THREADS, SHARED_SIZE, ROUNDOFF, 192,             \
                   {16, 1, 576, 512, 0, 16, {{1, 77}, {1, 1}, {1, 0}, {1, 250}}, 1.0f, true});     \
  run_split<IN, C>("attention/mla/" NAME, KERNEL, THREADS, SHARED_SIZE, ROUNDOFF, 64,              \
                   {40, 1, 576, 512, 1, 0, {{2, 131}, {3, 2}}, 10.0f, true});                      \
  run_split<IN, C>("attention/mla/" NAME, KERNEL, THREADS, SHARED_SIZE, ROUNDOFF,                  \
                   64 * (1 + random_below(2)), random_latent_shape())

// The same by warpgroups: keys in one piece and in pages of whole tiles, of one token and of a few;
// windows and chunks; more slots than are combined a row at a time.
template <class Q, class C>
void latent_90(const char* name, Kernel kernel, u32 shared, Roundoff roundoff) {
  const auto by = [&](u32 piece, const Shape& shape) {
    run_split<Q, C>(name, kernel, 384, shared, roundoff, piece, shape);
  };
  by(192, {16, 1, 576, 512, 0, 16, {{1, 77}, {1, 1}, {1, 0}, {1, 250}}, 1.0f, true});
  by(64, {40, 1, 576, 512, 1, 0, {{2, 131}, {3, 2}}, 10.0f, true});
  by(64 * (1 + random_below(2)), random_latent_shape());
  by(64, {5, 1, 576, 512, 1, 128, {{1, 590}, {2, 130}}, 3.0f, true});
  by(128, {64, 1, 576, 512, 0, 64, {{1, 64}, {1, 321}}, 1.0f, true});
  by(64, {3, 1, 576, 512, 1, 1, {{1, 580}}, 3.0f, true});
  for (u32 page : {0u, 16u, 64u}) {
    by(64, with_window({4, 1, 576, 512, 1, page, {{2, 190}, {3, 40}}, 1.0f, true}, 70));
  }
  by(64, with_chunks({4, 1, 576, 512, 1, 128, {{2, 190}, {3, 40}}, 1.0f, true}, 50));
  by(64, windowed(random_latent_shape()));
}

template <class T> using Latent64 = Latent<T, T, T, 64, 32, 2>;
template <class T> using Latent32 = Latent<T, T, T, 32, 16, 3>;
using Narrow64 = Latent<bf16, f16, e4m3, 64, 32, 4>;
using Narrow32 = Latent<bf16, f16, e4m3, 32, 32, 3>;

template <class T> using Latent90 = latent_sm90::Latent90<T, T, T, 64>;
using Narrow90 = latent_sm90::Latent90<bf16, f16, e4m3, 32>;

void latents() {
#define BY_FRAGMENTS(NAME, IN, C, KERNEL, OF, ROUNDOFF)                                            \
  LATENT(NAME, IN, C, KERNEL, OF::THREADS, OF::SHARED_BYTES, ROUNDOFF);                            \
  run_split<IN, C>("attention/mla/" NAME, KERNEL, OF::THREADS, OF::SHARED_BYTES, ROUNDOFF, 64,     \
                   windowed(random_latent_shape()))
  BY_FRAGMENTS("bf16/sm80_mma", bf16, bf16, latent::attention_mla_bf16_mma, Latent64<bf16>, BF16);
  BY_FRAGMENTS("f16/sm80_mma", f16, f16, latent::attention_mla_f16_mma, Latent64<f16>, F16);
  BY_FRAGMENTS("bf16/sm80_mma_32", bf16, bf16, latent_32::attention_mla_bf16_mma_32,
               Latent32<bf16>, BF16);
  BY_FRAGMENTS("f16/sm80_mma_32", f16, f16, latent_32::attention_mla_f16_mma_32, Latent32<f16>,
               F16);
  BY_FRAGMENTS("fp8/sm89_mma", bf16, u8, latent_sm89::attention_mla_fp8_mma, Narrow64, CACHE);
  BY_FRAGMENTS("fp8/sm89_mma_32", bf16, u8, latent_sm89_32::attention_mla_fp8_mma_32, Narrow32,
               CACHE);
  latent_90<bf16, bf16>("attention/mla/bf16/sm90_wgmma",
                        by_map<latent_sm90::attention_mla_bf16_wgmma>, Latent90<bf16>::SHARED_BYTES,
                        BF16);
  latent_90<f16, f16>("attention/mla/f16/sm90_wgmma",
                      by_map<latent_sm90::attention_mla_f16_wgmma>, Latent90<f16>::SHARED_BYTES, F16);
  latent_100<bf16, bf16>("attention/mla/bf16/sm100_tcgen05",
                         by_map<latent_sm100::attention_mla_bf16_tcgen05, 32>, BF16);
  latent_100<f16, f16>("attention/mla/f16/sm100_tcgen05",
                        by_map<latent_sm100::attention_mla_f16_tcgen05, 32>, F16);
  latent_100<bf16, e4m3>("attention/mla/fp8/sm100_tcgen05",
                         by_map<latent_sm100::attention_mla_fp8_tcgen05, 32, 1>, TWO_E4M3);
  latent_90<bf16, u8>("attention/mla/fp8/sm90_wgmma", latent_sm90::attention_mla_fp8_wgmma,
                      Narrow90::SHARED_BYTES, CACHE);
}

// All kernels that follow a schedule, by one that the program made: those of pairs of blocks by theirs.
void follow(Shape shape, const Dealt& dealt) {
  if (dealt.blocks == 2) {
    shape.dim_qk = 576;
    shape.dim_v = 512;
    shape.latent = true;
    run_dealt<bf16, bf16>("schedule/mla/bf16/sm100_tcgen05",
                          by_map<latent_sm100::attention_mla_bf16_tcgen05, 32>, 288,
                          latent_sm100::Latent100<bf16>::SHARED_BYTES, BF16, 128, shape, dealt);
    return;
  }
  shape.dim_qk = shape.dim_v = 256;
  run_dealt<bf16, bf16>("schedule/bf16/sm80_mma (256)", split::attention_decode_bf16_256_mma, 64,
                        98304, BF16, 8, shape, dealt);
  shape.dim_qk = shape.dim_v = 128;
  run_dealt<bf16, bf16>("schedule/bf16/sm80_mma", split::attention_decode_bf16_128_mma, 128, 98304,
                        BF16, 16, shape, dealt);
  run_dealt<bf16, bf16>("schedule/bf16/sm100_mma", split_sm100::attention_decode_bf16_128_mma_wide,
                        256, 196608, BF16, 16, shape, dealt);
  run_dealt<bf16, u8>("schedule/fp8/sm89_mma", split_sm89::attention_decode_fp8_128_mma, 128, 98304,
                      CACHE, 16, shape, dealt);
  run_dealt<bf16, bf16>("schedule/bf16/sm90_wgmma", split_sm90::attention_decode_bf16_128_wgmma,
                        384, split_sm90::Split90<bf16, bf16, bf16, 128>::SHARED_BYTES, BF16, 64, shape,
                        dealt);
  run_dealt<bf16, u8>("schedule/fp8/sm90_wgmma", split_sm90::attention_decode_fp8_128_wgmma, 512,
                      split_sm90::Split90<bf16, f16, e4m3, 128>::SHARED_BYTES, CACHE, 64, shape, dealt);
  shape.dim_qk = 576;
  shape.dim_v = 512;
  shape.latent = true;
  run_dealt<bf16, bf16>("schedule/mla/bf16/sm80_mma", latent::attention_mla_bf16_mma, 256,
                        Latent64<bf16>::SHARED_BYTES, BF16, 64, shape, dealt);
  run_dealt<bf16, bf16>("schedule/mla/bf16/sm80_mma_32", latent_32::attention_mla_bf16_mma_32, 128,
                        Latent32<bf16>::SHARED_BYTES, BF16, 32, shape, dealt);
  run_dealt<bf16, bf16>("schedule/mla/bf16/sm90_wgmma", by_map<latent_sm90::attention_mla_bf16_wgmma>, 384,
                        Latent90<bf16>::SHARED_BYTES, BF16, 64, shape, dealt);
  run_dealt<bf16, u8>("schedule/mla/fp8/sm90_wgmma", latent_sm90::attention_mla_fp8_wgmma, 384,
                      Narrow90::SHARED_BYTES, CACHE, 64, shape, dealt);
  run_dealt<bf16, u8>("schedule/mla/fp8/sm89_mma_32", latent_sm89_32::attention_mla_fp8_mma_32, 128,
                      Narrow32::SHARED_BYTES, CACHE, 32, shape, dealt);
}

// Odd lengths; tiles of keys that are whole and not; units one after the other in a block, with and
// without keys; sliding windows and chunks that begin and end within tiles, shorter and longer ones.
#define BY_COUNTER(IN, T, O, ROUNDOFF, DIM_QK, DIM_V, KEYS, ...)                                   \
  for (const Shape& shape : {                                                                      \
           Shape{2, 1, DIM_QK, DIM_V, 1, 0, {{131, 131}, {1, 1}, {70, 433}, {3, 0}, {37, 5}}},     \
           Shape{2, 2, DIM_QK, DIM_V, 0, 0, {{5, 97}, {66, 300}}, 30.0f},                          \
           random_shape(DIM_QK, DIM_V, 70, 200, Keys::IN_ONE_PIECE),                               \
           with_window({2, 1, DIM_QK, DIM_V, 1, 0, {{200, 500}, {60, 20}}}, 129),                  \
           with_chunks({2, 1, DIM_QK, DIM_V, 1, 0, {{150, 400}}}, 90),                             \
           windowed(random_shape(DIM_QK, DIM_V, 90, 400, Keys::IN_ONE_PIECE))}) {                  \
    run_by_counter<T, O, sm90::Prefill90<P_##IN, DIM_QK, DIM_V, KEYS, __VA_ARGS__>>(               \
        "attention/prefill/" #IN "/sm90_wgmma", sm90::attention_prefill_##IN##_##DIM_QK##_wgmma,   \
        KEYS, ROUNDOFF, shape);                                                                    \
  }

void by_counter() {
  BY_COUNTER(bf16, bf16, bf16, BF16, 64, 64, 128, 3, 2, 4);
  BY_COUNTER(bf16, bf16, bf16, BF16, 128, 128, 128, 2, 2, 2);
  BY_COUNTER(bf16, bf16, bf16, BF16, 192, 128, 128, 2, 1, 2);
  BY_COUNTER(bf16, bf16, bf16, BF16, 256, 256, 64, 2, 1, 2);
  BY_COUNTER(f16, f16, f16, F16, 64, 64, 128, 3, 2, 4);
  BY_COUNTER(f16, f16, f16, F16, 128, 128, 128, 2, 2, 2);
  BY_COUNTER(f16, f16, f16, F16, 192, 128, 128, 2, 1, 2);
  BY_COUNTER(f16, f16, f16, F16, 256, 256, 64, 2, 1, 2);
  BY_COUNTER(fp8, u8, bf16, E4M3, 128, 128, 128, 2, 2, 4);
  BY_COUNTER(fp8, u8, bf16, E4M3, 256, 256, 128, 2, 1, 2);
}

// Tiles of queries that are not there, that see no key, that see fewer than the other; more tiles of keys
// than twice as many as stages.
void by_tensor_memory() {
#define BY_TENSOR_MEMORY(IN, T, O, ROUNDOFF, DIM_QK, DIM_V)                                        \
  prefill_100<T, O>("attention/prefill/" #IN "/sm100_tcgen05",                                     \
                    sm100::attention_prefill_##IN##_##DIM_QK##_tcgen05,                            \
                    sm100::Prefill100<P_##IN, DIM_QK, DIM_V>::SHARED_BYTES, ROUNDOFF, DIM_QK, DIM_V)
  BY_TENSOR_MEMORY(bf16, bf16, bf16, BF16, 64, 64);
  BY_TENSOR_MEMORY(bf16, bf16, bf16, BF16, 128, 128);
  BY_TENSOR_MEMORY(bf16, bf16, bf16, BF16, 192, 128);
  BY_TENSOR_MEMORY(f16, f16, f16, F16, 64, 64);
  BY_TENSOR_MEMORY(f16, f16, f16, F16, 128, 128);
  BY_TENSOR_MEMORY(f16, f16, f16, F16, 192, 128);
  BY_TENSOR_MEMORY(fp8, u8, bf16, E4M3, 64, 64);
  BY_TENSOR_MEMORY(fp8, u8, bf16, E4M3, 128, 128);
  BY_TENSOR_MEMORY(fp8, u8, bf16, E4M3, 192, 128);
#undef BY_TENSOR_MEMORY
}

// The exponential without its unit, against the definition: all fractions, all exponents that
// weights have, and what becomes zero.
void soft_exponentials() {
  f64 worst = 0.0;
  for (i32 i = -125 * 4096; i <= 8 * 4096; i++) {
    const f64 x = i / 4096.0, wanted = std::exp2(x);
    const TwoFloats made = soft_powers_of_two(TwoFloats{f32(x), f32(x)});
    worst = std::fmax(worst, std::fabs(made.first - wanted) / wanted);
    worst = std::fmax(worst, std::fabs(made.second - wanted) / wanted);
  }
  const auto [none, little] = soft_powers_of_two(TwoFloats{-INFINITY, -130.0f});
  if (worst > 9e-5 || worst < 1e-6 || none != 0.0f || little != 0.0f) {
    printf("fault: 2^x is off by %g of itself, 2^-infinity is %g, 2^-130 %g\n", worst, none, little);
    exit(1);
  }
  checked++;
  printf("2^x without its unit is off by %g of itself at most\n", worst);
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 2 && strcmp(arguments[1], "--schedules") == 0) {
    schedules(arguments[2], follow);
    printf("%u checks passed\n", checked);
    return 0;
  }
  model::planted = count > 1 && strcmp(arguments[1], "--planted") == 0;
  model::counts_banks = true;
  prefills();
  by_counter();
  by_tensor_memory();
  soft_exponentials();
  splits();
  splits_by_warpgroups();
  latents();
  portables();
  if (model::judge_banks({}) != 0) return 1;
  printf("%u checks passed\n", checked);
}
