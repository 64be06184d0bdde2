// More multiplications by a warpgroup (9.0 alone, target sm_90a): of 64 and 128 columns, and with the
// left operand in registers, as attention wants them, and products of types that shared memory holds
// the wrong way round.
//
// tests/kernel_model/sm90_attention.h does the same in C++.
#ifndef FIZEAU_SM90_ATTENTION_H
#define FIZEAU_SM90_ATTENTION_H
#include "sm90.h"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 900

#define NAMES_32 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_64 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define NAMES_128 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define SUMS_8(i)                                                                                 \
  "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3]), "+f"(sums[i + 4]),      \
      "+f"(sums[i + 5]), "+f"(sums[i + 6]), "+f"(sums[i + 7])
#define SUMS_32(i) SUMS_8(i), SUMS_8(i + 8), SUMS_8(i + 16), SUMS_8(i + 24)
#define NAMES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define SUMS_OF_16 SUMS_8(0), SUMS_8(8)
#define SUMS_OF_32 SUMS_32(0)
#define SUMS_OF_64 SUMS_32(0), SUMS_32(32)
#define SUMS_OF_128 SUMS_32(0), SUMS_32(32), SUMS_32(64), SUMS_32(96)

// Scores: sums (64 x N) += A (64 x 16) B, both in shared memory and k-major. `accumulate` 0: the sums
// are made new.
#define SCORES(N, COUNT, TYPE, NAME, A, B, P)                                                     \
  DEVICE void multiply_scores(f32 (&sums)[COUNT], u64 a, u64 b, u32 accumulate, TYPE) {           \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " P ", 0;\n"                                  \
                 "wgmma.mma_async.sync.aligned.m64n" N "k16.f32." NAME "." NAME " {"              \
                 NAMES_##COUNT "}, " A ", " B ", p, 1, 1, 0, 0;\n}"                               \
                 : SUMS_OF_##COUNT : "l"(a), "l"(b), "r"(accumulate) : "memory");                    \
  }
// The same of 8-bit floats, 32 along k.
#define SCORES_8(N, COUNT, A, B, P)                                                               \
  DEVICE void multiply_scores(f32 (&sums)[COUNT], u64 a, u64 b, u32 accumulate, e4m3) {           \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " P ", 0;\n"                                  \
                 "wgmma.mma_async.sync.aligned.m64n" N "k32.f32.e4m3.e4m3 {" NAMES_##COUNT        \
                 "}, " A ", " B ", p, 1, 1;\n}"                                                   \
                 : SUMS_OF_##COUNT : "l"(a), "l"(b), "r"(accumulate) : "memory");                 \
  }
// Values: the same with A in registers, laid as multiply's of sm80.h for each warp's 16 rows, and B
// mn-major.
#define VALUES(N, COUNT, TYPE, NAME, A, B, P)                                                     \
  DEVICE void multiply_values(f32 (&sums)[COUNT], const u32 (&a)[4], u64 b, u32 accumulate,       \
                              TYPE) {                                                             \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " P ", 0;\n"                                  \
                 "wgmma.mma_async.sync.aligned.m64n" N "k16.f32." NAME "." NAME " {"              \
                 NAMES_##COUNT "}, " A ", " B ", p, 1, 1, 1;\n}"                                  \
                 : SUMS_OF_##COUNT                                                                \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate)            \
                 : "memory");                                                                     \
  }

// Values of 8-bit floats, 32 along k: B is k-major.
#define VALUES_8(N, COUNT, A, B, P)                                                               \
  DEVICE void multiply_values(f32 (&sums)[COUNT], const u32 (&a)[4], u64 b, u32 accumulate,       \
                              e4m3) {                                                             \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " P ", 0;\n"                                  \
                 "wgmma.mma_async.sync.aligned.m64n" N "k32.f32.e4m3.e4m3 {" NAMES_##COUNT        \
                 "}, " A ", " B ", p, 1, 1;\n}"                                                   \
                 : SUMS_OF_##COUNT                                                                \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate)            \
                 : "memory");                                                                     \
  }

SCORES("64", 32, bf16, "bf16", "%32", "%33", "%34")
SCORES("128", 64, bf16, "bf16", "%64", "%65", "%66")
SCORES_8("64", 32, "%32", "%33", "%34")
SCORES_8("128", 64, "%64", "%65", "%66")
VALUES("64", 32, bf16, "bf16", "{%32, %33, %34, %35}", "%36", "%37")
VALUES("128", 64, bf16, "bf16", "{%64, %65, %66, %67}", "%68", "%69")
VALUES("256", 128, bf16, "bf16", "{%128, %129, %130, %131}", "%132", "%133")
SCORES("32", 16, f16, "f16", "%16", "%17", "%18")
SCORES("64", 32, f16, "f16", "%32", "%33", "%34")
SCORES("128", 64, f16, "f16", "%64", "%65", "%66")
VALUES("64", 32, f16, "f16", "{%32, %33, %34, %35}", "%36", "%37")
VALUES("128", 64, f16, "f16", "{%64, %65, %66, %67}", "%68", "%69")
VALUES("256", 128, f16, "f16", "{%128, %129, %130, %131}", "%132", "%133")
VALUES_8("128", 64, "{%64, %65, %66, %67}", "%68", "%69")
VALUES_8("256", 128, "{%128, %129, %130, %131}", "%132", "%133")

// Sums (64 x 128) += A (64 x 32 bytes) B, A in registers as above, B k-major.
DEVICE void multiply_left(f32 (&sums)[64], const u32 (&a)[4], u64 b, u32 accumulate, tf32) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 {" NAMES_64
               "}, {%64, %65, %66, %67}, %68, p, 1, 1;\n}"
               : SUMS_OF_64
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate) : "memory");
}
#define WORDS_8(i)                                                                                \
  "+r"(sums[i]), "+r"(sums[i + 1]), "+r"(sums[i + 2]), "+r"(sums[i + 3]), "+r"(sums[i + 4]),      \
      "+r"(sums[i + 5]), "+r"(sums[i + 6]), "+r"(sums[i + 7])
#define WORDS_32(i) WORDS_8(i), WORDS_8(i + 8), WORDS_8(i + 16), WORDS_8(i + 24)
DEVICE void multiply_left(i32 (&sums)[64], const u32 (&a)[4], u64 b, u32 accumulate, i8) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {" NAMES_64
               "}, {%64, %65, %66, %67}, %68, p;\n}"
               : WORDS_32(0), WORDS_32(32)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate) : "memory");
}
#undef WORDS_32
#undef WORDS_8

#undef VALUES_8
#undef VALUES
#undef SCORES_8
#undef SCORES
#undef SUMS_OF_128
#undef SUMS_OF_64
#undef SUMS_OF_32
#undef SUMS_OF_16
#undef SUMS_32
#undef SUMS_8
#undef NAMES_128
#undef NAMES_64
#undef NAMES_32
#undef NAMES_16

// What reads the sums after this stays after it.
template <u32 COUNT> DEVICE void settle_sums(f32 (&sums)[COUNT]) {
  UNROLL for (u32 i = 0; i < COUNT; i++) asm volatile("" : "+f"(sums[i]) :: "memory");
}
template <u32 COUNT> DEVICE void settle_sums(i32 (&sums)[COUNT]) {
  UNROLL for (u32 i = 0; i < COUNT; i++) asm volatile("" : "+r"(sums[i]) :: "memory");
}

#endif

// Whether it is so for any lane of the warp.
DEVICE bool any_of_warp(bool is_so) { return __any_sync(~0u, is_so) != 0; }

#endif  // FIZEAU_SM90_ATTENTION_H
