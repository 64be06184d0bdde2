// AMD's words, for clang -x hip, hipcc and hipRTC, which brings headers that are not asked for
// anything. Only gpu.h includes it.
//
// Nothing here needs the arguments that HIP's compilers add behind a kernel's own: the size of the
// grid comes from the packet that launched it.
#pragma once

#define DEVICE static __attribute__((device)) inline __attribute__((always_inline))
#define DEVICE_MEMBER __attribute__((device)) inline __attribute__((always_inline))
#define SHARED static __attribute__((device)) __attribute__((shared))
// One block of THREADS threads; how many share a unit is for its registers to say.
#define KERNEL(THREADS, PER_UNIT)                                                                 \
  extern "C" __attribute__((global))                                                              \
  __attribute__((amdgpu_flat_work_group_size(THREADS, THREADS))) void

// Lanes that go in step. Compilers tell one target's from another's.
#if defined(__GFX9__)
CONSTANT u32 LANES = 64;
#else
CONSTANT u32 LANES = 32;
#endif

#define GLOBAL __attribute__((address_space(1)))

// Blocks go to dies in turn, of which there are 1, 6 or 8: so many blocks further is the same die.
CONSTANT u32 NEXT_PLACE = 24;

DEVICE u32 thread_index() { return __builtin_amdgcn_workitem_id_x(); }
DEVICE u32 block_index() { return __builtin_amdgcn_workgroup_id_x(); }
// Threads of the grid over threads of a block, as the packet of the launch has them (HSA Platform
// System Architecture Specification, section 2.9.6: kernel dispatch packet).
DEVICE u32 block_count() {
  const auto* packet = __builtin_amdgcn_dispatch_ptr();
  const auto* halves = (const __attribute__((address_space(4))) u16*)packet;
  const auto* words = (const __attribute__((address_space(4))) u32*)packet;
  return words[3] / halves[2];
}
DEVICE void block_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
DEVICE void warp_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}
DEVICE u32 shuffle_xor(u32 value, u32 mask) {
  const u32 lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));
  return u32(__builtin_amdgcn_ds_bpermute(i32((lane ^ mask) * 4), i32(value)));
}
DEVICE u64 shuffle_xor(u64 value, u32 mask) {
  const u64 low = shuffle_xor(u32(value), mask), high = shuffle_xor(u32(value >> 32), mask);
  return low | high << 32;
}
DEVICE f64 shuffle_xor(f64 value, u32 mask) {
  return __builtin_bit_cast(f64, shuffle_xor(__builtin_bit_cast(u64, value), mask));
}
DEVICE f32 shuffle_xor(f32 value, u32 mask) {
  return __builtin_bit_cast(f32, shuffle_xor(__builtin_bit_cast(u32, value), mask));
}
DEVICE u32 atomic_add(u32* at, u32 value) {
  return __hip_atomic_fetch_add(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
DEVICE u64 atomic_add(u64* at, u64 value) {
  return __hip_atomic_fetch_add(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

// What this thread wrote before it, other blocks see before what it writes after it.
DEVICE void device_fence() { __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "agent"); }
// What other blocks wrote: not from this unit's own cache.
DEVICE f32 load_fresh(const f32* from) {
  return __hip_atomic_load(from, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
DEVICE u32 load_fresh(const u32* from) {
  return __hip_atomic_load(from, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
DEVICE u64 load_fresh(const u64* from) {
  return __hip_atomic_load(from, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
// Only after this thread's own device_fence(), which drops what the unit's cache has.
DEVICE Vector<f32> load_fresh(const Vector<f32>* from) {
  typedef u32 Words __attribute__((ext_vector_type(4)));
  return __builtin_bit_cast(Vector<f32>, *(const GLOBAL Words*)from);
}

DEVICE u32 bits_of(f32 value) { return __builtin_bit_cast(u32, value); }
DEVICE f32 float_of(u32 bits) { return __builtin_bit_cast(f32, bits); }

DEVICE f32 widen(f16 value) { return f32(__builtin_bit_cast(_Float16, value.bits)); }

// Two rounded to nearest even, the first in the low half.
DEVICE u32 narrow_pair(f32 low, f32 high, bf16) {
#if defined(__gfx950__) || defined(__gfx1250__) || defined(__gfx1251__)
  // One instruction.
  typedef f32 Floats __attribute__((ext_vector_type(2)));
  typedef __bf16 Brains __attribute__((ext_vector_type(2)));
  return __builtin_bit_cast(u32, __builtin_convertvector((Floats{low, high}), Brains));
#else
  const auto rounded = [](f32 value) {
    const u32 bits = bits_of(value);
    return value != value ? 0x7fff0000 : bits + 0x7fff + (bits >> 16 & 1);
  };
  // The upper halves of both.
  return __builtin_amdgcn_perm(rounded(high), rounded(low), 0x07060302);
#endif
}
DEVICE u32 narrow_pair(f32 low, f32 high, f16) {
  const u32 low_bits = __builtin_bit_cast(u16, _Float16(low));
  return low_bits | u32(__builtin_bit_cast(u16, _Float16(high))) << 16;
}

DEVICE f32 fused(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
DEVICE f64 fused(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }

// The number, where one of them is none.
DEVICE f32 larger(f32 a, f32 b) { return __builtin_fmaxf(a, b); }

// 2^x by the unit for it, 0 below 2^-126.
DEVICE f32 power_of_two(f32 x) {
#if __has_builtin(__builtin_amdgcn_exp2f)
  return __builtin_amdgcn_exp2f(x);
#else
  return __builtin_exp2f(x);
#endif
}

// 1 / x and 1 / sqrt(x), off by a unit in the last place.
DEVICE f32 reciprocal(f32 x) { return __builtin_amdgcn_rcpf(x); }
DEVICE f32 reciprocal_root(f32 x) { return __builtin_amdgcn_rsqf(x); }

// Zero, which no compiler knows: blocks are one-dimensional.
DEVICE u32 zero() { return __builtin_amdgcn_workitem_id_y(); }

// A value that no compiler knows from now on: what went into it is not folded with what comes.
DEVICE void forget(u32& value) { asm volatile("" : "+v"(value)); }

// Loads and stores of 16 bytes of global memory, as one instruction each. `evict_first` is the
// first to leave the caches: data used once.
typedef u32 Words4 __attribute__((ext_vector_type(4)));
template <class T> DEVICE Vector<T> load(const Vector<T>* from) {
  return __builtin_bit_cast(Vector<T>, *(const GLOBAL Words4*)from);
}
template <class T> DEVICE Vector<T> load_evict_first(const Vector<T>* from) {
  return __builtin_bit_cast(Vector<T>,
                            __builtin_nontemporal_load((const GLOBAL Words4*)from));
}
template <class T> DEVICE void store(Vector<T>* to, Vector<T> value) {
  *(GLOBAL Words4*)to = __builtin_bit_cast(Words4, value);
}
template <class T> DEVICE void store_evict_first(Vector<T>* to, Vector<T> value) {
  __builtin_nontemporal_store(__builtin_bit_cast(Words4, value), (GLOBAL Words4*)to);
}
// The last word of what describes a raw buffer of bytes (composable_kernel, config.hpp:
// CK_TILE_BUFFER_RESOURCE_3RD_DWORD). CDNA 5 has longer numbers in a buffer and four bits of flags in
// their place (LLVM, SIISelLowering.cpp: has45BitNumRecordsBufferResource), of which none is set.
#if defined(__GFX9__)
CONSTANT u32 BUFFER_OF_BYTES = 0x00020000;
#elif defined(__gfx1250__) || defined(__gfx1251__)
CONSTANT u32 BUFFER_OF_BYTES = 0;
#else
CONSTANT u32 BUFFER_OF_BYTES = 0x31004000;
#endif

// COUNT vectors of each thread, APART from each other, from the cache that all units share, past
// the unit's own; zeros beyond the `left` that there are. `from` is where thread 0 starts.
//
// Loads from a buffer can be told to go past the unit's cache and still be under way together.
// Where a compiler lacks them (before clang 19, ROCm 6.3), each volatile load is waited for.
template <u32 COUNT, u32 APART>
DEVICE void load_shared_cache(Vector<u64> (&to)[COUNT], const Vector<u64>* from, u64 left) {
#if __has_builtin(__builtin_amdgcn_raw_buffer_load_b128)
  // As an atomic load that the whole device agrees on: sc1, scope:SCOPE_DEV; glc.
#if defined(__gfx942__) || defined(__gfx950__) || defined(__GFX12__)
  constexpr i32 DEVICE_SCOPE = 16;
#else
  constexpr i32 DEVICE_SCOPE = 1;
#endif
  // In a scalar register: a buffer that lanes could have different ones of is loaded from in a loop.
  const u32 bytes = __builtin_amdgcn_readfirstlane(left < COUNT * APART ? u32(left) * 16
                                                                        : COUNT * APART * 16);
  // A raw buffer of bytes; what is loaded beyond its end is zero.
  const auto buffer = __builtin_amdgcn_make_buffer_rsrc(const_cast<Vector<u64>*>(from), 0, bytes,
                                                        BUFFER_OF_BYTES);
  UNROLL for (u32 i = 0; i < COUNT; i++) {
    const u32 at = (i * APART + thread_index()) * 16;
    to[i] = __builtin_bit_cast(
        Vector<u64>, __builtin_amdgcn_raw_buffer_load_b128(buffer, at, 0, DEVICE_SCOPE));
  }
  // None is put off until what it loads is used, where all others would have to be waited for.
  asm volatile("" ::: "memory");
#else
  UNROLL for (u32 i = 0; i < COUNT; i++) {
    const u64 at = i * APART + thread_index();
    to[i] = {};
    if (at >= left) continue;
    const auto* words = (const volatile GLOBAL Words4*)(from + at);
    to[i] = __builtin_bit_cast(Vector<u64>, Words4(*words));
  }
#endif
}
// Number `index` of some vectors, through the unit's first-level cache, as often as it is asked for: the
// compiler is not told that the index is the same as before.
DEVICE Vector<u64> load_first_cache(const Vector<u64>* from, u32 index) {
  asm volatile("" : "+v"(index));
  return load(from + index);
}
// 16 bytes of shared memory, `offset` bytes from its start, loaded as often as it is asked for: the
// compiler is not told that the offset is the same as before. A volatile load would be waited for.
DEVICE Vector<u64> load_from_shared(const void* start, u32 offset) {
  typedef const __attribute__((address_space(3))) u8* Bytes;
  typedef const __attribute__((address_space(3))) Words4* Quads;
  asm volatile("" : "+v"(offset));
  return __builtin_bit_cast(Vector<u64>, Words4(*(Quads)((Bytes)start + offset)));
}

// The address that stands in global memory, through the unit's own cache. A volatile load would go
// past it; a plain one of a place that all lanes share would be left to the scalar cache: so the
// compiler is not told that they share it.
DEVICE u64* load_address(u64* const* from) {
  asm volatile("" : "+v"(from));
  return (u64*)*(const GLOBAL u64*)from;
}

// Cycles of this unit's clock. gfx11 counts in 20 bits; what is timed by it must be shorter.
DEVICE u64 cycles() { return __builtin_readcyclecounter(); }
DEVICE u64 cycles_since(u64 start) {
#if defined(__GFX11__)
  return (cycles() - start) & 0xfffff;
#else
  return cycles() - start;
#endif
}
// Nanoseconds of a timer that all units share, were it of 100 MHz; the backend asks the driver what
// it is of, and corrects what is derived of it.
DEVICE u64 nanoseconds() {
#if defined(__GFX9__)
  return 10 * __builtin_amdgcn_s_memrealtime();
#else
  return 10 * __builtin_readsteadycounter();
#endif
}
