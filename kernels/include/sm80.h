// Instructions that came with compute capability 8.0 and that later ones still have: copies from
// global to shared memory that no thread waits for, loads of matrix fragments, and multiplication
// of fragments that a warp's registers hold together.
//
// tests/kernel_model/sm80.h does the same in C++, lane by lane.
#ifndef FIZEAU_SM80_H
#define FIZEAU_SM80_H
#include "gpu.h"

// Shared memory as the instructions address it.
DEVICE u32 shared_address(const void* at) { return u32(__cvta_generic_to_shared(at)); }

// Copies 16 bytes, of which only the first `valid` are read: the rest become zeros.
DEVICE void copy_async(u32 to, const void* from, u32 valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :: "r"(to), "l"(from), "r"(valid) : "memory");
}
// The same of 4 bytes, `valid` all of them or none.
DEVICE void copy_word_async(u32 to, const void* from, u32 valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
               :: "r"(to), "l"(from), "r"(valid) : "memory");
}
DEVICE void close_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until all groups of copies are done but the OPEN latest.
template <u32 OPEN> DEVICE void await_copies() {
  asm volatile("cp.async.wait_group %0;" :: "n"(OPEN) : "memory");
}

DEVICE u32 load_shared(u32 at, u32) {
  u32 got;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(got) : "r"(at) : "memory");
  return got;
}
DEVICE void store_pair(u32 at, f32 first, f32 second) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" :: "r"(at), "f"(first), "f"(second) : "memory");
}
DEVICE u64 load_shared(u32 at, u64) {
  u64 got;
  asm volatile("ld.shared.u64 %0, [%1];" : "=l"(got) : "r"(at) : "memory");
  return got;
}
DEVICE f64 load_shared(u32 at, f64) {
  f64 got;
  asm volatile("ld.shared.f64 %0, [%1];" : "=d"(got) : "r"(at) : "memory");
  return got;
}

// 16 bytes of shared memory, by their address as any other's.
template <class T> DEVICE Vector<T> load_chunk(const u8* at) {
  return *reinterpret_cast<const Vector<T>*>(at);
}
template <class T> DEVICE void store_chunk(u8* at, Vector<T> value) {
  *reinterpret_cast<Vector<T>*>(at) = value;
}

// Four matrices of 8 rows of 16 bytes: lane l gives the address of row l % 8 of matrix l / 8. Of
// each matrix, lane l gets 4 bytes of row l / 4 from byte 4 * (l % 4) on.
DEVICE void load_matrices(u32 (&got)[4], u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(got[0]), "=r"(got[1]), "=r"(got[2]), "=r"(got[3]) : "r"(at) : "memory");
}
// The same of matrices of 16-bit elements, each transposed.
DEVICE void load_matrices_transposed(u32 (&got)[4], u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(got[0]), "=r"(got[1]), "=r"(got[2]), "=r"(got[3]) : "r"(at) : "memory");
}

DEVICE void load_words(u32 (&got)[4], u32 at) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(got[0]), "=r"(got[1]), "=r"(got[2]), "=r"(got[3]) : "r"(at) : "memory");
}

// The bits of a word that a mask has, and those of another word: one instruction, which the compiler
// makes two of where mask and other word are known.
DEVICE u32 masked_or(u32 word, u32 mask, u32 other) {
  u32 got;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(got) : "r"(word), "r"(mask), "r"(other));
  return got;
}
// a b + c of pairs of bf16.
DEVICE u32 fused_pair(u32 a, u32 b, u32 c) {
  u32 got;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(got) : "r"(a), "r"(b), "r"(c));
  return got;
}

// Bytes of two words, chosen by the nibbles of `chosen`: 0..3 of the first, 4..7 of the second.
DEVICE u32 choose_bytes(u32 first, u32 second, u32 chosen) {
  return __byte_perm(first, second, chosen);
}

// An 8 x 8 matrix of 16-bit elements that a warp's registers hold as fragments do, transposed: lane l
// gives columns 2 (l % 4) and the next of row l / 4, and gets the same of the transposed.
DEVICE u32 transpose_matrix(u32 pair) {
  u32 got;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(got) : "r"(pair));
  return got;
}

// 16 bytes of global memory.
DEVICE void store(Vector<u32>* to, Vector<u32> value) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
               :: "l"(to), "r"(value.at[0]), "r"(value.at[1]), "r"(value.at[2]), "r"(value.at[3])
               : "memory");
}

// The value that another lane of the warp holds; that of the lane whose number differs by these bits.
DEVICE u32 shuffle(u32 value, u32 lane) { return __shfl_sync(~0u, value, lane); }
DEVICE u32 exchange_with(u32 value, u32 bits) { return __shfl_xor_sync(~0u, value, bits); }

// sums += a b, of 16 x 8 sums. Lane l (g = l / 4, t = l % 4) holds, in units of 4 bytes along k:
// a[0] of row g and unit t, a[1] of row g + 8, a[2] and a[3] the same of unit t + 4; b[0] of column
// g and unit t, b[1] of unit t + 4; sums of rows g, g, g + 8, g + 8 and columns 2t, 2t + 1 twice.
#define MULTIPLY(SHAPE, TYPES, CONSTRAINT)                                                        \
  asm volatile("mma.sync.aligned." SHAPE ".row.col." TYPES                                        \
               " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                 \
               : "+" CONSTRAINT(sums[0]), "+" CONSTRAINT(sums[1]), "+" CONSTRAINT(sums[2]),       \
                 "+" CONSTRAINT(sums[3])                                                          \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

// Floats of 8 exponent and 10 fraction bits in the place of 32, and of 4 and 3 bits.
struct tf32 { u32 bits; };
struct e4m3 { u8 bits; };

DEVICE void multiply(f32 (&sums)[4], const u32 (&a)[4], const u32 (&b)[2], bf16) {
  MULTIPLY("m16n8k16", "f32.bf16.bf16.f32", "f");
}
DEVICE void multiply(f32 (&sums)[4], const u32 (&a)[4], const u32 (&b)[2], f16) {
  MULTIPLY("m16n8k16", "f32.f16.f16.f32", "f");
}
DEVICE void multiply(f32 (&sums)[4], const u32 (&a)[4], const u32 (&b)[2], tf32) {
  MULTIPLY("m16n8k8", "f32.tf32.tf32.f32", "f");
}
DEVICE void multiply(i32 (&sums)[4], const u32 (&a)[4], const u32 (&b)[2], i8) {
  MULTIPLY("m16n8k32", "s32.s8.s8.s32", "r");
}
#undef MULTIPLY

// The same of 64-bit floats, 4 along k: a[0] of row g and k = t, a[1] of row g + 8, b of column g.
DEVICE void multiply(f64 (&sums)[4], const f64 (&a)[2], const f64& b, f64) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 "
               "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+d"(sums[0]), "+d"(sums[1]), "+d"(sums[2]), "+d"(sums[3])
               : "d"(a[0]), "d"(a[1]), "d"(b));
#else
  // Before 9.0 there is only the half of it.
  UNROLL for (u32 half = 0; half < 2; half++) {
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(sums[2 * half]), "+d"(sums[2 * half + 1]) : "d"(a[half]), "d"(b));
  }
#endif
}
// 8 along k: of `a` and `b` the second half is that of k = 4 and on.
DEVICE void multiply(f64 (&sums)[4], const f64 (&a)[4], const f64 (&b)[2], f64) {
#if __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1000
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+d"(sums[0]), "+d"(sums[1]), "+d"(sums[2]), "+d"(sums[3])
               : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#else
  // Other generations have only parts of it.
  UNROLL for (u32 half = 0; half < 2; half++) {
    const f64 part[2] = {a[2 * half], a[2 * half + 1]};
    multiply(sums, part, b[half], f64());
  }
#endif
}

#endif  // FIZEAU_SM80_H
