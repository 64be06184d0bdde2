// What AMD's matrix kernels are made of beside their instructions: words of memory by the lane, the
// priority of a wave, and element types that only matrix units have.
//
// tests/kernel_model/lanes.h does the same in C++.
#ifndef FIZEAU_LANES_H
#define FIZEAU_LANES_H
#include "gpu.h"

// Floats of 8 exponent and 10 fraction bits in the place of 32, of 4 and 3 bits; of 2 and 3, and 2
// and 1 bits, which are packed without gaps.
struct tf32 { u32 bits; };
struct e4m3 { u8 bits; };
// The same bits as AMD's own form of it: half the value, and no negative zero.
struct e4m3_fnuz { u8 bits; };
struct e2m3 {};
struct e2m1 {};

DEVICE u32 lane_index() { return thread_index() % LANES; }
DEVICE u32 wave_index() { return thread_index() / LANES; }
// What another lane of the wave has.
DEVICE u32 of_lane(u32 value, u32 lane) {
  return u32(__builtin_amdgcn_ds_bpermute(i32(lane * 4), i32(value)));
}
// A bit for each lane of the wave that says so.
DEVICE u64 which_lanes(bool says) {
  if constexpr (LANES == 64) return __builtin_amdgcn_ballot_w64(says);
  else return __builtin_amdgcn_ballot_w32(says);
}
// Whether any lane of the wave says so.
DEVICE bool any_lane(bool says) { return which_lanes(says) != 0; }
// How many lanes of the wave say so, in a scalar register.
DEVICE u32 lanes_that(bool says) { return u32(__builtin_popcountll(which_lanes(says))); }
// What all lanes of a wave have alike, in a scalar register.
DEVICE u32 of_wave(u32 value) { return __builtin_amdgcn_readfirstlane(value); }

// Words of global memory, as one instruction: 1, 2 or 4 of them.
DEVICE void get_words(u32 (&to)[1], const u8* from) { to[0] = *(const GLOBAL u32*)from; }
DEVICE void put_words(u8* to, const u32 (&from)[1]) { *(GLOBAL u32*)to = from[0]; }
#define WORDS(COUNT)                                                                              \
  typedef u32 Word##COUNT __attribute__((ext_vector_type(COUNT)));                                \
  DEVICE void get_words(u32 (&to)[COUNT], const u8* from) {                                       \
    const Word##COUNT got = *(const GLOBAL Word##COUNT*)from;                                     \
    UNROLL for (u32 i = 0; i < COUNT; i++) to[i] = got[i];                                        \
  }                                                                                               \
  DEVICE void put_words(u8* to, const u32 (&from)[COUNT]) {                                       \
    Word##COUNT value;                                                                            \
    UNROLL for (u32 i = 0; i < COUNT; i++) value[i] = from[i];                                    \
    *(GLOBAL Word##COUNT*)to = value;                                                             \
  }
WORDS(2)
WORDS(4)
#undef WORDS

// Words that one load brings. As long as they stay together, nothing waits for them.
template <u32 COUNT> using LoadedWords = u32 __attribute__((ext_vector_type(COUNT)));
template <u32 COUNT> DEVICE void get_words(LoadedWords<COUNT>& to, const u8* from) {
  to = *(const GLOBAL LoadedWords<COUNT>*)from;
}
// Global memory that is read by bytes from its start. Beyond its end are zeros.
struct Source { const u8* from; u32 bytes; };
CONSTANT u32 NOWHERE = ~0u;
// Stages that products may have on their way to registers. Compilers before clang 19 (ROCm 6.3) lack loads
// from a source, and registers for a second stage beside what they do without.
#if __has_builtin(__builtin_amdgcn_raw_buffer_load_b128)
CONSTANT u32 AHEAD_MOST = 2;
#else
CONSTANT u32 AHEAD_MOST = 1;
#endif
// 1, 2 or 4 words of it. Lanes that have nothing to read load as well: registers that are set to zero on
// another way through the code are waited for where both ways meet.
template <u32 COUNT> DEVICE void get_words(LoadedWords<COUNT>& to, Source source, u32 byte) {
#if __has_builtin(__builtin_amdgcn_raw_buffer_load_b128)
  const auto buffer = __builtin_amdgcn_make_buffer_rsrc(const_cast<u8*>(source.from), 0,
                                                        source.bytes, BUFFER_OF_BYTES);
  if constexpr (COUNT == 1) {
    to = LoadedWords<1>(__builtin_amdgcn_raw_buffer_load_b32(buffer, byte, 0, 0));
  } else if constexpr (COUNT == 2) {
    to = __builtin_bit_cast(LoadedWords<2>, __builtin_amdgcn_raw_buffer_load_b64(buffer, byte, 0, 0));
  } else {
    to = __builtin_bit_cast(LoadedWords<4>, __builtin_amdgcn_raw_buffer_load_b128(buffer, byte, 0, 0));
  }
#else
  // They wait where both ways meet.
  to = {};
  if (byte < source.bytes) get_words(to, source.from + byte);
#endif
}

// Words of shared memory, as one instruction: a place of 16 bytes, or some of its words.
DEVICE void read_shared(u32 (&to)[4], const Vector<u32>& from) {
  const Vector<u32> got = from;
  UNROLL for (u32 w = 0; w < 4; w++) to[w] = got.at[w];
}
template <u32 COUNT> DEVICE void write_shared(Vector<u32>& to, u32 first, const u32 (&from)[COUNT]) {
  UNROLL for (u32 w = 0; w < COUNT; w++) to.at[first + w] = from[w];
}
// The same of a place that is an array of words.
template <u32 WORDS> DEVICE void read_shared(u32 (&to)[WORDS], const u32 (&from)[WORDS]) {
  UNROLL for (u32 w = 0; w < WORDS; w++) to[w] = from[w];
}
template <u32 WORDS, u32 COUNT>
DEVICE void write_shared(u32 (&to)[WORDS], u32 first, const u32 (&from)[COUNT]) {
  UNROLL for (u32 w = 0; w < COUNT; w++) to[first + w] = from[w];
}

// Four bytes of eight, by a number for each, the first in the lowest place: 0..3 are those of `low`, 4..7
// those of `high`.
DEVICE u32 bytes_of(u32 high, u32 low, u32 which) { return __builtin_amdgcn_perm(high, low, which); }

// Behind KERNEL: at least so many waves are to share a SIMD, each with a share of its registers.
#define PER_SIMD(WAVES) __attribute__((amdgpu_waves_per_eu(WAVES)))

// A wave whose operands are at hand goes before those that wait for theirs.
DEVICE void go_first() { __builtin_amdgcn_s_setprio(1); }
DEVICE void go_as_others() { __builtin_amdgcn_s_setprio(0); }

// A barrier between uses of shared memory alone, behind which loads of global memory stay under way. On CDNA every
// barrier of a block is one; RDNA would wait for all loads, since a block's units have first caches of their own.
DEVICE void shared_barrier() {
#if defined(__GFX9__) || __clang_major__ < 20
  block_barrier();
#else
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
#endif
}

// Two numbers rounded to nearest even, the first in the low half; of what is no number anything may come.
template <class T> DEVICE u32 narrow_numbers(f32 low, f32 high, T type) {
  return narrow_pair(low, high, type);
}
#if !defined(__gfx950__) && !defined(__gfx1250__) && !defined(__gfx1251__)
DEVICE u32 narrow_numbers(f32 low, f32 high, bf16) {
  const auto rounded = [](f32 value) {
    const u32 bits = bits_of(value);
    return bits + 0x7fff + (bits >> 16 & 1);
  };
  return bytes_of(rounded(high), rounded(low), 0x07060302);
}
#endif

// Nothing moves across it: what comes after does not take registers before.
DEVICE void in_order() { __builtin_amdgcn_sched_barrier(0); }

// Bytes of one kind as another.
template <class To, class From> DEVICE To bytes_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "as many bytes");
  To to;
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}

// sums += a b by the lanes of a wave, of 16 x 16 sums.
#define MULTIPLY(TYPE, SUM, COUNT, WORD_COUNT, VECTOR, ...)                                       \
  DEVICE void multiply(SUM (&sums)[COUNT], const u32 (&left)[WORD_COUNT],                         \
                       const u32 (&right)[WORD_COUNT], TYPE) {                                    \
    typedef SUM Sums __attribute__((ext_vector_type(COUNT)));                                     \
    const VECTOR a = bytes_as<VECTOR>(left), b = bytes_as<VECTOR>(right);                         \
    Sums c;                                                                                       \
    UNROLL for (u32 i = 0; i < COUNT; i++) c[i] = sums[i];                                        \
    c = __VA_ARGS__;                                                                              \
    UNROLL for (u32 i = 0; i < COUNT; i++) sums[i] = c[i];                                        \
  }

typedef short Short4 __attribute__((ext_vector_type(4)));
typedef short Short8 __attribute__((ext_vector_type(8)));
typedef short Short16 __attribute__((ext_vector_type(16)));
typedef _Float16 Half4 __attribute__((ext_vector_type(4)));
typedef _Float16 Half8 __attribute__((ext_vector_type(8)));
typedef _Float16 Half16 __attribute__((ext_vector_type(16)));
typedef f32 Float2 __attribute__((ext_vector_type(2)));
typedef i32 Int2 __attribute__((ext_vector_type(2)));
typedef i32 Int4 __attribute__((ext_vector_type(4)));
typedef i32 Int8 __attribute__((ext_vector_type(8)));

#endif  // FIZEAU_LANES_H
