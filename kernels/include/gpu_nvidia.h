// NVIDIA's words, for nvcc and for NVRTC, which brings no headers. Only gpu.h includes it.
#pragma once

#define DEVICE static __device__ __forceinline__
#define DEVICE_MEMBER __device__ __forceinline__
#define SHARED __shared__
// Threads of a unit, of which bounds of launches may ask: 1024 on 10.7, of which the assembler of CUDA 13.5
// takes no more; elsewhere what a kernel asks for is there.
#if __CUDA_ARCH__ == 1070
#define UNIT_THREADS 1024
#else
#define UNIT_THREADS 2048
#endif
// One block of THREADS threads has a unit for itself, or shares it with (PER_UNIT - 1) others, as many as a
// unit has threads for.
#define KERNEL(THREADS, PER_UNIT)                   \
  extern "C" __global__ void __launch_bounds__(THREADS, \
      (THREADS) * (PER_UNIT) > UNIT_THREADS ? UNIT_THREADS / (THREADS) : (PER_UNIT))

// How many blocks further one takes over what another had in a walk through a cache that all share.
CONSTANT u32 NEXT_PLACE = 7;

DEVICE u32 thread_index() { return threadIdx.x; }
DEVICE u32 block_index() { return blockIdx.x; }
DEVICE u32 block_count() { return gridDim.x; }
DEVICE void block_barrier() { __syncthreads(); }
DEVICE void warp_barrier() { __syncwarp(); }
DEVICE f64 shuffle_xor(f64 value, u32 mask) { return __shfl_xor_sync(~0u, value, mask); }
DEVICE f32 shuffle_xor(f32 value, u32 mask) { return __shfl_xor_sync(~0u, value, mask); }
DEVICE u64 shuffle_xor(u64 value, u32 mask) { return __shfl_xor_sync(~0u, value, mask); }
DEVICE u32 atomic_add(u32* at, u32 value) { return atomicAdd(at, value); }
DEVICE u64 atomic_add(u64* at, u64 value) { return atomicAdd(at, value); }
// What this thread wrote before it, other blocks see before what it writes after it.
DEVICE void device_fence() { __threadfence(); }
// What other blocks wrote: not from this unit's own cache.
DEVICE f32 load_fresh(const f32* from) {
  f32 got;
  asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(got) : "l"(from) : "memory");
  return got;
}
DEVICE u32 load_fresh(const u32* from) {
  u32 got;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(got) : "l"(from) : "memory");
  return got;
}
DEVICE u64 load_fresh(const u64* from) {
  u64 got;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(got) : "l"(from) : "memory");
  return got;
}
// 16 bytes in one instruction; each of the four elements is read as if by a load of its own.
DEVICE Vector<f32> load_fresh(const Vector<f32>* from) {
  Vector<f32> got;
  asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(got.at[0]), "=f"(got.at[1]), "=f"(got.at[2]), "=f"(got.at[3])
               : "l"(from) : "memory");
  return got;
}

// The shared memory whose size the launch gives, aligned for every kind of copy.
DEVICE u8* dynamic_shared() {
  extern __shared__ __align__(1024) u8 bytes[];
  return bytes;
}

DEVICE u32 bits_of(f32 value) { return __float_as_uint(value); }
DEVICE f32 float_of(u32 bits) { return __uint_as_float(bits); }

DEVICE f32 widen(f16 value) {
  f32 wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
  return wide;
}

// Two rounded to nearest even, the first in the low half.
DEVICE u32 narrow_pair(f32 low, f32 high, bf16) {
  u32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
DEVICE u32 narrow_pair(f32 low, f32 high, f16) {
  u32 pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

DEVICE f32 fused(f32 a, f32 b, f32 c) { return fmaf(a, b, c); }
DEVICE f64 fused(f64 a, f64 b, f64 c) { return fma(a, b, c); }

// The number, where one of them is none.
DEVICE f32 larger(f32 a, f32 b) {
  f32 found;
  asm("max.f32 %0, %1, %2;" : "=f"(found) : "f"(a), "f"(b));
  return found;
}

// 2^x by the unit for it: off by 2^-22 of itself, 0 below 2^-126.
DEVICE f32 power_of_two(f32 x) {
  f32 power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

// 1 / x and 1 / sqrt(x), off by 2^-22 of themselves at most (PTX ISA: rcp.approx.ftz.f32,
// rsqrt.approx.ftz.f32).
DEVICE f32 reciprocal(f32 x) {
  f32 got;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(got) : "f"(x));
  return got;
}
DEVICE f32 reciprocal_root(f32 x) {
  f32 got;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(got) : "f"(x));
  return got;
}

#if __CUDA_ARCH__ >= 890
#define HAS_E4M3
// Two of 8 bits, the first in the low byte; see e4m3.h.
DEVICE u32 pair_e4m3(f32 low, f32 high) {
  u16 pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
}
#endif

// Zero, which no compiler knows: blocks are one-dimensional. What depends on it is not folded, and
// not left to the one lane that some targets have for values that a warp shares.
DEVICE u32 zero() { return threadIdx.y; }

// A value that no compiler knows from now on: what went into it is not folded with what comes.
DEVICE void forget(u32& value) { asm volatile("" : "+r"(value)); }

// Loads and stores of 16 bytes. `evict_first` is the first to leave the caches: data used once.
DEVICE Vector<f64> load(const Vector<f64>* from) {
  Vector<f64> got;
  asm volatile("ld.global.v2.f64 {%0, %1}, [%2];"
               : "=d"(got.at[0]), "=d"(got.at[1]) : "l"(from));
  return got;
}
DEVICE Vector<u64> load(const Vector<u64>* from) {
  Vector<u64> got;
  asm volatile("ld.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(got.at[0]), "=l"(got.at[1]) : "l"(from));
  return got;
}
DEVICE Vector<f64> load_evict_first(const Vector<f64>* from) {
  Vector<f64> got;
  asm volatile("ld.global.cs.v2.f64 {%0, %1}, [%2];"
               : "=d"(got.at[0]), "=d"(got.at[1]) : "l"(from));
  return got;
}
// COUNT vectors of each thread, APART from each other, from the cache that all units share, past the
// unit's own; zeros beyond the `left` that there are. `from` is where thread 0 starts.
template <u32 COUNT, u32 APART>
DEVICE void load_shared_cache(Vector<u64> (&to)[COUNT], const Vector<u64>* from, u64 left) {
  UNROLL for (u32 i = 0; i < COUNT; i++) {
    const u64 at = i * APART + thread_index();
    to[i] = {};
    if (at >= left) continue;
    asm volatile("ld.global.cg.v2.u64 {%0, %1}, [%2];"
                 : "=l"(to[i].at[0]), "=l"(to[i].at[1]) : "l"(from + at) : "memory");
  }
}
DEVICE Vector<u64> load_evict_first(const Vector<u64>* from) {
  Vector<u64> got;
  asm volatile("ld.global.cs.v2.u64 {%0, %1}, [%2];"
               : "=l"(got.at[0]), "=l"(got.at[1]) : "l"(from));
  return got;
}
DEVICE void store_evict_first(Vector<u64>* to, Vector<u64> value) {
  asm volatile("st.global.cs.v2.u64 [%0], {%1, %2};"
               :: "l"(to), "l"(value.at[0]), "l"(value.at[1]) : "memory");
}
// Number `index` of some vectors, through the unit's first-level cache, as often as it is asked for.
DEVICE Vector<u64> load_first_cache(const Vector<u64>* from, u32 index) {
  Vector<u64> got;
  asm volatile("ld.global.ca.v2.u64 {%0, %1}, [%2];"
               : "=l"(got.at[0]), "=l"(got.at[1]) : "l"(from + index));
  return got;
}
// 16 bytes of shared memory, `offset` bytes from its start, loaded as often as it is asked for:
// `asm volatile` binds the compiler alone, and only a volatile load the assembler too.
DEVICE Vector<u64> load_from_shared(const void* start, u32 offset) {
  Vector<u64> got;
  asm volatile("ld.volatile.shared.v2.u64 {%0, %1}, [%2];"
               : "=l"(got.at[0]), "=l"(got.at[1])
               : "r"(u32(__cvta_generic_to_shared(start)) + offset) : "memory");
  return got;
}
DEVICE void store(Vector<u64>* to, Vector<u64> value) {
  asm volatile("st.global.v2.u64 [%0], {%1, %2};"
               :: "l"(to), "l"(value.at[0]), "l"(value.at[1]) : "memory");
}
DEVICE void store(Vector<f64>* to, Vector<f64> value) {
  asm volatile("st.global.v2.f64 [%0], {%1, %2};"
               :: "l"(to), "d"(value.at[0]), "d"(value.at[1]) : "memory");
}
DEVICE void store_evict_first(Vector<f64>* to, Vector<f64> value) {
  asm volatile("st.global.cs.v2.f64 [%0], {%1, %2};"
               :: "l"(to), "d"(value.at[0]), "d"(value.at[1]) : "memory");
}

// The address that stands in global memory. A plain load would first ask which kind of memory an
// address that came from memory is in.
DEVICE u64* load_address(u64* const* from) {
  u64* got;
  asm volatile("ld.global.u64 %0, [%1];" : "=l"(got) : "l"(from) : "memory");
  return got;
}

// What stood there before these bits were added to it.
DEVICE u64 fetch_or(u64* at, u64 bits) {
  u64 before;
  asm volatile("atom.global.or.b64 %0, [%1], %2;" : "=l"(before) : "l"(at), "l"(bits) : "memory");
  return before;
}
// Which multiprocessor this block is on.
DEVICE u32 unit_number() {
  u32 number;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
  return number;
}

// Cycles of this unit's clock, and nanoseconds of a timer that all units share.
DEVICE u64 cycles() { return u64(clock64()); }
DEVICE u64 cycles_since(u64 start) { return cycles() - start; }
DEVICE u64 nanoseconds() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}
