// More of compute capability 10, as attention wants it: a left operand in tensor memory, stores to
// tensor memory, loads of whole rows, exponentials without the unit for them.
//
// tests/kernel_model/sm100_attention.h does the same in C++.
#ifndef FIZEAU_SM100_ATTENTION_H
#define FIZEAU_SM100_ATTENTION_H
#include "sm100.h"
#include "sm90_attention.h"

// sums (128 x columns of the instruction) += A (128 x 32 bytes, in 8 columns of tensor memory from `a`
// on) B; by one thread. `accumulate` 0: the sums are made new.
#define MULTIPLY_FROM(KIND)                                                                       \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"                                        \
               "tcgen05.mma.cta_group::1.kind::" KIND " [%0], [%1], %2, %3, p;\n}"                \
               :: "r"(sums), "r"(a), "l"(b), "r"(instruction), "r"(accumulate) : "memory")
template <class T>
DEVICE void multiply_from(u32 sums, u32 a, u64 b, u32 instruction, u32 accumulate, T) {
  MULTIPLY_FROM("f16");
}
DEVICE void multiply_from(u32 sums, u32 a, u64 b, u32 instruction, u32 accumulate, e4m3) {
  MULTIPLY_FROM("f8f6f4");
}
#undef MULTIPLY_FROM

#define NAMES_32 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define NAMES_16 NAMES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define EIGHT(CONSTRAINT, i)                                                                      \
  CONSTRAINT(words[i]), CONSTRAINT(words[i + 1]), CONSTRAINT(words[i + 2]),                       \
      CONSTRAINT(words[i + 3]), CONSTRAINT(words[i + 4]), CONSTRAINT(words[i + 5]),               \
      CONSTRAINT(words[i + 6]), CONSTRAINT(words[i + 7])
#define THIRTY_TWO(CONSTRAINT, i)                                                                 \
  EIGHT(CONSTRAINT, i), EIGHT(CONSTRAINT, i + 8), EIGHT(CONSTRAINT, i + 16),                      \
      EIGHT(CONSTRAINT, i + 24)

// 128 or 64 columns from `column` on, of this thread's lane.
template <u32 COUNT> DEVICE void load_columns(f32 (&row)[COUNT], u32 column) {
  UNROLL for (u32 part = 0; part < COUNT; part += 32) {
    f32* words = row + part;
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x32.b32 {" NAMES_32 "}, [%32];"
                 : THIRTY_TWO("=f", 0) : "r"(column + part) : "memory");
  }
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
  // What reads them after this stays after it.
  UNROLL for (u32 i = 0; i < COUNT; i++) asm volatile("" : "+f"(row[i]) :: "memory");
}
DEVICE void load_row(f32 (&row)[128], u32 column) { load_columns(row, column); }
DEVICE void load_half(f32 (&row)[64], u32 column) { load_columns(row, column); }
// 32 columns, 16, or 8.
#define STORE_WORDS                                                                               \
  asm volatile("tcgen05.st.sync.aligned.32x32b.x32.b32 [%32], {" NAMES_32 "};"
DEVICE void store_words(const u32 (&words)[32], u32 column) {
  STORE_WORDS :: THIRTY_TWO("r", 0), "r"(column) : "memory");
}
DEVICE void store_words(const u32 (&words)[16], u32 column) {
  asm volatile("tcgen05.st.sync.aligned.32x32b.x16.b32 [%16], {" NAMES_16 "};"
               :: EIGHT("r", 0), EIGHT("r", 8), "r"(column) : "memory");
}
DEVICE void store_words(const u32 (&words)[8], u32 column) {
  asm volatile("tcgen05.st.sync.aligned.32x32b.x8.b32 [%8], {" NAMES_8 "};"
               :: EIGHT("r", 0), "r"(column) : "memory");
}
DEVICE void store_words(const f32 (&words)[32], u32 column) {
  STORE_WORDS :: THIRTY_TWO("f", 0), "r"(column) : "memory");
}
// Keeps the assembler from computing what follows before this, since it moves no arithmetic over a
// branch. The branch is never taken: tensor memory has no such column.
DEVICE void compute_later(u32 column) {
  asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, %0, 0xffffffff;\n@p exit;\n}"
               :: "r"(column) : "memory");
}
// Until this thread's stores are done.
DEVICE void await_words() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }

#undef STORE_WORDS
#undef THIRTY_TWO
#undef EIGHT
#undef NAMES_16
#undef NAMES_8
#undef NAMES_32

// Two floats, which one instruction adds or multiplies.
struct TwoFloats { f32 first, second; };

DEVICE u64 together(TwoFloats pair) {
  u64 both;
  asm("mov.b64 %0, {%1, %2};" : "=l"(both) : "f"(pair.first), "f"(pair.second));
  return both;
}
DEVICE TwoFloats apart(u64 both) {
  TwoFloats pair;
  asm("mov.b64 {%0, %1}, %2;" : "=f"(pair.first), "=f"(pair.second) : "l"(both));
  return pair;
}
// a b + c.
DEVICE TwoFloats fused(TwoFloats a, TwoFloats b, TwoFloats c) {
  u64 sum;
  asm("fma.rn.f32x2 %0, %1, %2, %3;"
      : "=l"(sum) : "l"(together(a)), "l"(together(b)), "l"(together(c)));
  return apart(sum);
}
DEVICE TwoFloats operator+(TwoFloats a, TwoFloats b) {
  u64 sum;
  asm("add.rn.f32x2 %0, %1, %2;" : "=l"(sum) : "l"(together(a)), "l"(together(b)));
  return apart(sum);
}
// a + b, rounded down.
DEVICE TwoFloats add_down(TwoFloats a, TwoFloats b) {
  u64 sum;
  asm("add.rm.f32x2 %0, %1, %2;" : "=l"(sum) : "l"(together(a)), "l"(together(b)));
  return apart(sum);
}

#endif  // FIZEAU_SM100_ATTENTION_H
