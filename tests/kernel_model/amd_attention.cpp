// Runs the kernels of attention for AMD's matrix units on the CPU and compares what they leave with the
// definition: those of CDNA 2 to 4 on waves of 64 lanes, those of RDNA 4 on waves of 32, and those of CDNA 5
// as part of cdna5_attention.cpp.
#include "gpu.h"
#include "lanes.h"

namespace {

// To nearest, ties to even; never a negative zero, which is no number on CDNA 3.
e4m3 narrow(f32 value, e4m3) {
  const f32 size = std::fabs(value);
  const int exponent = size < 0x1p-6f ? -6 : std::ilogb(size);
  const u32 bits = u32(std::nearbyint(std::ldexp(size, 3 - exponent))) + (u32(exponent + 6) << 3);
  return {u8(value < 0.0f && bits != 0 ? 0x80 | bits : bits)};
}

}  // namespace

#include "attention_check.h"
#include "attention_lanes.h"
#include "attention_lanes_latent.h"
#include "attention_lanes_split.h"

#if defined(MODEL_CDNA5)
namespace cdna5 {
#include "../../kernels/attention/cdna5_wmma.hip"
}
#elif MODEL_LANES == 32
namespace rdna4 {
#include "../../kernels/attention/rdna4_wmma.hip"
}
#else
namespace cdna2 {
#include "../../kernels/attention/cdna2_mfma.hip"
}
namespace cdna3 {
#include "../../kernels/attention/cdna3_mfma.hip"
}
namespace cdna4 {
#include "../../kernels/attention/cdna4_mfma.hip"
}
#endif

namespace {

template <class T, class O>
void run(const char* name, Kernel kernel, u32 blocks, Roundoff roundoff, const Shape& shape) {
  Attention<T, T, O> attention(name, shape);
  model::launch(blocks, 256, 0, [&] { kernel(attention.params); });
  attention.check(roundoff);
}

// Odd lengths, ragged; queries that see nothing; pages in any order; scores of hundreds.
template <class T, class O = T>
void prefills(const char* name, Kernel kernel, Roundoff roundoff, u32 dim_qk, u32 dim_v) {
  run<T, O>(name, kernel, 5, roundoff,
         {2, 1, dim_qk, dim_v, 1, 0, {{131, 131}, {1, 1}, {70, 33}, {3, 0}, {37, 205}}});
  run<T, O>(name, kernel, 2, roundoff, {2, 2, dim_qk, dim_v, 0, 16, {{5, 97}, {66, 64}}, 30.0f});
  run<T, O>(name, kernel, 1 + random_below(4), roundoff,
         random_shape(dim_qk, dim_v, 60, 150, Keys::ANYWHERE));
  run<T, O>(name, kernel, 3, roundoff,
         with_window({2, 1, dim_qk, dim_v, 1, 7, {{131, 131}, {70, 33}}}, 64));
  run<T, O>(name, kernel, 1 + random_below(4), roundoff,
         windowed(random_shape(dim_qk, dim_v, 60, 200, Keys::ANYWHERE)));
}

// Four waves share the keys of multi-head latent attention, and 256 threads all else.
u32 threads_of(const Shape& shape) { return shape.latent ? 4 * LANES : 256; }

// By a schedule, twice: what a launch leaves in scratch memory serves the next.
template <class T, class C>
void run_split(const char* name, Kernel kernel, Roundoff roundoff, u32 piece, const Shape& shape) {
  Attention<T, C, T> attention(name, shape);
  attention.deal(5, piece);
  for (u32 i = 0; i < 2; i++) {
    memset(static_cast<void*>(attention.o.data()), 0xff, attention.o.size() * 16);
    model::launch(3, threads_of(shape), 0, [&] { kernel(attention.params); });
    attention.check(roundoff);
  }
}

template <class T, class C = T>
void decodes(const char* name, Kernel kernel, Roundoff roundoff, u32 dim) {
  run_split<T, C>(name, kernel, roundoff, 128,
               {8, 1, dim, dim, 0, 16, {{1, 77}, {1, 200}, {1, 1}, {1, 0}, {1, 419}}});
  run_split<T, C>(name, kernel, roundoff, 192,
               {6, 2, dim, dim, 1, 0, {{7, 131}, {24, 11}, {3, 500}}, 20.0f});
  run_split<T, C>(name, kernel, roundoff, 64 * (1 + random_below(3)),
                  random_shape(dim, dim, 4, 250, Keys::ANYWHERE));
  run_split<T, C>(name, kernel, roundoff, 64,
                  with_chunks({8, 1, dim, dim, 1, 16, {{1, 77}, {3, 219}}}, 50));
  run_split<T, C>(name, kernel, roundoff, 64,
                  windowed(random_shape(dim, dim, 4, 250, Keys::ANYWHERE)));
}

template <class T, class C = T>
void latents(const char* name, Kernel kernel, Roundoff roundoff) {
  run_split<T, C>(name, kernel, roundoff, 64,
               {16, 1, 576, 512, 0, 16, {{1, 77}, {1, 1}, {1, 0}, {1, 150}}, 1.0f, true});
  run_split<T, C>(name, kernel, roundoff, 128,
               {40, 1, 576, 512, 1, 0, {{2, 131}, {3, 2}}, 10.0f, true});
  run_split<T, C>(name, kernel, roundoff, 64 * (1 + random_below(2)), random_latent_shape());
  run_split<T, C>(name, kernel, roundoff, 64, windowed(random_latent_shape()));
}

// By the program's own schedule, on contents of which every key shows that it leaves out or deals
// twice. (What these kernels load tells less: beyond a part's last key they load that key again.)
template <class T, class C = T>
void run_dealt(const char* name, Kernel kernel, Roundoff roundoff, const Shape& shape,
               const Dealt& dealt) {
  Attention<T, C, T> attention(name, shape);
  attention.take(dealt);
  model::launch(3, threads_of(shape), 0, [&] { kernel(attention.params); });
  attention.check(roundoff);
}

void follow(Shape shape, const Dealt& dealt) {
  // No kernel of AMD's has clusters.
  if (dealt.blocks > 1) return;
  shape.planted = true;
  shape.dim_qk = shape.dim_v = 128;
#if defined(MODEL_CDNA5)
  run_dealt<bf16>("schedule/bf16/cdna5_wmma", cdna5::attention_decode_bf16_128_cdna5, BF16, shape,
                  dealt);
  run_dealt<bf16, e4m3>("schedule/fp8/cdna5_wmma", cdna5::attention_decode_fp8_128_cdna5, BF16,
                        shape, dealt);
#elif MODEL_LANES == 32
  run_dealt<bf16>("schedule/bf16/rdna4_wmma", rdna4::attention_decode_bf16_128_rdna4, BF16, shape,
                  dealt);
  run_dealt<bf16, e4m3>("schedule/fp8/rdna4_wmma", rdna4::attention_decode_fp8_128_rdna4, BF16,
                        shape, dealt);
#else
  run_dealt<bf16>("schedule/bf16/cdna2_mfma", cdna2::attention_decode_bf16_128_cdna2, BF16, shape,
                  dealt);
  run_dealt<f16>("schedule/f16/cdna4_mfma", cdna4::attention_decode_f16_128_cdna4, F16, shape,
                 dealt);
  run_dealt<bf16, e4m3>("schedule/fp8/cdna3_mfma", cdna3::attention_decode_fp8_128_cdna3, BF16,
                        shape, dealt);
  run_dealt<bf16, e4m3>("schedule/fp8/cdna4_mfma", cdna4::attention_decode_fp8_128_cdna4, BF16,
                        shape, dealt);
#endif
  if (shape.kv_heads != 1) return;
  shape.dim_qk = 576;
  shape.dim_v = 512;
  shape.latent = true;
#if defined(MODEL_CDNA5)
  run_dealt<bf16>("schedule/mla/bf16/cdna5_wmma", cdna5::attention_mla_bf16_cdna5, BF16, shape,
                  dealt);
  run_dealt<bf16, e4m3>("schedule/mla/fp8/cdna5_wmma", cdna5::attention_mla_fp8_cdna5, BF16, shape,
                        dealt);
#elif MODEL_LANES == 64
  run_dealt<bf16>("schedule/mla/bf16/cdna2_mfma", cdna2::attention_mla_bf16_cdna2, BF16, shape,
                  dealt);
  run_dealt<bf16, e4m3>("schedule/mla/fp8/cdna4_mfma", cdna4::attention_mla_fp8_cdna4, BF16, shape,
                        dealt);
#endif
}

}  // namespace

#if MODEL_LANES == 64
#define UNITS "_mfma"
#else
#define UNITS "_wmma"
#endif
#define LATENT(TYPE, NAME, ROUNDOFF, FAMILY)                                                       \
  latents<TYPE>("attention/mla/" #NAME "/" #FAMILY UNITS,                                          \
                FAMILY::attention_mla_##NAME##_##FAMILY, ROUNDOFF)
#define DECODE(TYPE, NAME, ROUNDOFF, FAMILY, DIM)                                                  \
  decodes<TYPE>("attention/decode/" #NAME "/" #FAMILY UNITS,                                       \
                FAMILY::attention_decode_##NAME##_##DIM##_##FAMILY, ROUNDOFF, DIM)
#define CACHED(FAMILY)                                                                             \
  decodes<bf16, e4m3>("attention/decode/fp8/" #FAMILY UNITS,                                       \
                      FAMILY::attention_decode_fp8_64_##FAMILY, BF16, 64);                         \
  decodes<bf16, e4m3>("attention/decode/fp8/" #FAMILY UNITS,                                       \
                      FAMILY::attention_decode_fp8_128_##FAMILY, BF16, 128)
#define CACHED_LATENT(FAMILY)                                                                      \
  latents<bf16, e4m3>("attention/mla/fp8/" #FAMILY UNITS, FAMILY::attention_mla_fp8_##FAMILY, BF16)
#define PREFILL(TYPE, NAME, ROUNDOFF, FAMILY, DIM_QK, DIM_V)                                       \
  prefills<TYPE>("attention/prefill/" #NAME "/" #FAMILY UNITS,                                     \
                 FAMILY::attention_prefill_##NAME##_##DIM_QK##_##FAMILY, ROUNDOFF, DIM_QK, DIM_V)

#define PREFILL_8(FAMILY, DIM_QK, DIM_V)                                                           \
  prefills<e4m3, bf16>("attention/prefill/fp8/" #FAMILY UNITS,                                     \
                       FAMILY::attention_prefill_fp8_##DIM_QK##_##FAMILY, E4M3, DIM_QK, DIM_V)
#define ALL_16(FAMILY)                                                                             \
  PREFILL(bf16, bf16, BF16, FAMILY, 64, 64);                                                       \
  PREFILL(bf16, bf16, BF16, FAMILY, 128, 128);                                                     \
  PREFILL(f16, f16, F16, FAMILY, 64, 64);                                                          \
  PREFILL(f16, f16, F16, FAMILY, 128, 128);                                                        \
  DECODE(bf16, bf16, BF16, FAMILY, 64);                                                            \
  DECODE(bf16, bf16, BF16, FAMILY, 128);                                                           \
  DECODE(f16, f16, F16, FAMILY, 64);                                                               \
  DECODE(f16, f16, F16, FAMILY, 128)
#define PREFILL_192(FAMILY)                                                                        \
  PREFILL(bf16, bf16, BF16, FAMILY, 192, 128);                                                     \
  PREFILL(f16, f16, F16, FAMILY, 192, 128)
#define LATENTS(FAMILY)                                                                            \
  LATENT(bf16, bf16, BF16, FAMILY);                                                                \
  LATENT(f16, f16, F16, FAMILY)
#define ALL_8(FAMILY)                                                                              \
  PREFILL_8(FAMILY, 64, 64);                                                                       \
  PREFILL_8(FAMILY, 128, 128);                                                                     \
  PREFILL_8(FAMILY, 192, 128);                                                                     \
  CACHED(FAMILY)

int main(int count, char** arguments) {
  if (count > 2 && strcmp(arguments[1], "--schedules") == 0) {
    schedules(arguments[2], follow);
    printf("%u checks passed\n", checked);
    return 0;
  }
  model::planted = count > 1 && strcmp(arguments[1], "--planted") == 0;
  model::counts_banks = true;
#if defined(MODEL_CDNA5)
  ALL_16(cdna5);
  PREFILL_192(cdna5);
  LATENTS(cdna5);
  ALL_8(cdna5);
  CACHED_LATENT(cdna5);
#elif MODEL_LANES == 32
  ALL_16(rdna4);
  ALL_8(rdna4);
#else
  ALL_16(cdna2);
  PREFILL_192(cdna2);
  LATENTS(cdna2);
  ALL_16(cdna4);
  PREFILL_192(cdna4);
  LATENTS(cdna4);
  ALL_8(cdna3);
  CACHED_LATENT(cdna3);
  ALL_8(cdna4);
  CACHED_LATENT(cdna4);
#endif
  // A row is 12 chunks, kept 16 apart: where 8 lanes write the end of one and the start of the next.
  if (model::judge_banks({{"attention/prefill/fp8/*/192x128", 100, 120, "keys of 192 bytes"}}) != 0) {
    return 1;
  }
  printf("%u checks passed\n", checked);
}
