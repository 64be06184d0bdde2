// Matrix instructions of CDNA 4 (gfx950), of 16 x 16 sums over 64 lanes (AMD Instinct CDNA4
// Instruction Set Architecture, chapter 7). Lanes hold operands and sums as in cdna2.h; 8-bit floats
// are OCP's.
//
// tests/kernel_model/lanes.h does the same in C++.
#ifndef FIZEAU_CDNA4_H
#define FIZEAU_CDNA4_H
#include "lanes.h"
#include "scaled.h"

typedef __bf16 Brain8 __attribute__((ext_vector_type(8)));

MULTIPLY(bf16, f32, 4, 4, Brain8, __builtin_amdgcn_mfma_f32_16x16x32_bf16(a, b, c, 0, 0, 0))
MULTIPLY(f16, f32, 4, 4, Half8, __builtin_amdgcn_mfma_f32_16x16x32_f16(a, b, c, 0, 0, 0))
MULTIPLY(e4m3, f32, 4, 2, long, __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(a, b, c, 0, 0, 0))
MULTIPLY(i8, i32, 4, 4, Int4, __builtin_amdgcn_mfma_i32_16x16x64_i8(a, b, c, 0, 0, 0))
MULTIPLY(f32, f32, 4, 1, f32, __builtin_amdgcn_mfma_f32_16x16x4f32(a, b, c, 0, 0, 0))
MULTIPLY(f64, f64, 4, 2, f64, __builtin_amdgcn_mfma_f64_16x16x4f64(a, b, c, 0, 0, 0))

// Of 128 along k, with a power of two for each 32 elements of a lane; here all of them are 1, whose
// exponent is 127. Formats: 0 is e4m3, 2 is e2m3 (6 bits), 4 is e2m1 (4 bits).
#define SCALED(FORMAT)                                                                            \
  __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(a, b, c, FORMAT, FORMAT, 0, 0x7f7f7f7f, 0,     \
                                                   0x7f7f7f7f)
MULTIPLY(e4m3, f32, 4, 8, Int8, SCALED(0))
MULTIPLY(e2m3, f32, 4, 8, Int8, SCALED(2))
MULTIPLY(e2m1, f32, 4, 8, Int8, SCALED(4))
#undef SCALED

// The same with scales, in the first bytes of words: a lane's are of its row, and of the 32 elements
// along k that begin at 32 times its group. Of 8 bits a lane's elements are 16 from 16 times its group
// on and 16 from 64 further on; of 4 bits 32 from 32 times its group on.
DEVICE void multiply_scaled(f32 (&sums)[4], const u32 (&left)[8], const u32 (&right)[8],
                            u32 scale_left, u32 scale_right, mxfp8) {
  typedef f32 Sums __attribute__((ext_vector_type(4)));
  const Sums c = __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(
      bytes_as<Int8>(left), bytes_as<Int8>(right), bytes_as<Sums>(sums), 0, 0, 0, i32(scale_left), 0,
      i32(scale_right));
  UNROLL for (u32 i = 0; i < 4; i++) sums[i] = c[i];
}
DEVICE void multiply_scaled(f32 (&sums)[4], const u32 (&left)[4], const u32 (&right)[4],
                            u32 scale_left, u32 scale_right, mxfp4) {
  typedef f32 Sums __attribute__((ext_vector_type(4)));
  Int8 a = {}, b = {};
  UNROLL for (u32 i = 0; i < 4; i++) {
    a[i] = i32(left[i]);
    b[i] = i32(right[i]);
  }
  const Sums c = __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(
      a, b, bytes_as<Sums>(sums), 4, 4, 0, i32(scale_left), 0, i32(scale_right));
  UNROLL for (u32 i = 0; i < 4; i++) sums[i] = c[i];
}

// Four 8-bit floats, rounded to nearest even.
DEVICE u32 narrow_four(const f32 (&from)[4], e4m3) {
  const i32 low = __builtin_amdgcn_cvt_pk_fp8_f32(from[0], from[1], 0, false);
  return u32(__builtin_amdgcn_cvt_pk_fp8_f32(from[2], from[3], low, true));
}

// Four 8-bit floats as bf16, two by one instruction.
DEVICE void widen_four(u32 (&to)[2], u32 four, e4m3) {
  to[0] = __builtin_bit_cast(u32, __builtin_amdgcn_cvt_scalef32_pk_bf16_fp8(four, 1.0f, false));
  to[1] = __builtin_bit_cast(u32, __builtin_amdgcn_cvt_scalef32_pk_bf16_fp8(four, 1.0f, true));
}

// Copies 16 bytes for each lane to shared memory, the lanes' one after the other from `to` on, which
// is the same for all of a wave, without a register between. Compilers wait for a copy that they know of
// before each read of shared memory, whichever place it reads: they are not told of these. M0 is the
// place; what follows it, or a vector instruction that wrote the source, has to wait for 5 cycles.
DEVICE void copy_direct(Vector<u32>* to, Source source, u32 byte) {
  const u64 from = reinterpret_cast<u64>(source.from);
  const Words4 buffer = {u32(from), u32(from >> 32) & 0xffff, source.bytes, BUFFER_OF_BYTES};
  const u32 place = u32(reinterpret_cast<u64>((__attribute__((address_space(3))) void*)to));
  asm volatile("s_mov_b32 m0, %0\n\ts_nop 4\n\tbuffer_load_dwordx4 %1, %2, 0 offen lds"
               :: "s"(place), "v"(byte), "s"(buffer) : "memory");
}
// Until all but the OPEN latest loads and copies of this wave are done. They end in their order. The
// machine code must have as many as whoever waits counts: kernels/proofs.toml asserts it.
template <u32 OPEN> DEVICE void await_direct() {
  asm volatile("s_waitcnt vmcnt(%0)" :: "n"(OPEN) : "memory");
}

#endif  // FIZEAU_CDNA4_H
