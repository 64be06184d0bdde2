// What every kernel starts from: element types, places in the grid, and the few words that differ
// between compilers. No vendor header is included, so that one text compiles with nvcc, with NVRTC,
// with a plain clang for AMD's targets, with hipcc and with hipRTC.
//
// tests/kernel_model/gpu.h stands in for it where kernels run on the CPU to check their arithmetic;
// it comes first there, and the guard keeps this one out.
#ifndef FIZEAU_GPU_H
#define FIZEAU_GPU_H

// Own names: a compiler's own headers may or may not define the standard ones.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef int i32;
typedef float f32;
typedef double f64;

// 16-bit floats are bits here: conversions are instructions, and no vendor type is needed.
struct bf16 { u16 bits; };
struct f16 { u16 bits; };

static_assert(sizeof(u16) == 2 && sizeof(u32) == 4 && sizeof(u64) == 8, "the data model");

#define CONSTANT static constexpr
#define UNROLL _Pragma("unroll")

// 16 bytes that one instruction loads.
template <class T> struct alignas(16) Vector { T at[16 / sizeof(T)]; };

// The only place that asks whose compiler is at work.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#include "gpu_nvidia.h"
#elif defined(__HIP__) || defined(__HIPCC__) || defined(__HIPCC_RTC__)
#include "gpu_amd.h"
#else
#error "kernels are compiled for a GPU: with nvcc or NVRTC, with clang -x hip or hipRTC"
#endif

DEVICE f32 widen(bf16 value) { return float_of(u32(value.bits) << 16); }
DEVICE f32 widen(f32 value) { return value; }
DEVICE f64 widen(f64 value) { return value; }
DEVICE i32 widen(i8 value) { return value; }

DEVICE bf16 narrow(f32 value, bf16 type) { return {u16(narrow_pair(value, 0.0f, type))}; }
DEVICE f16 narrow(f32 value, f16 type) { return {u16(narrow_pair(value, 0.0f, type))}; }
DEVICE f32 narrow(f32 value, f32) { return value; }
DEVICE f64 narrow(f64 value, f64) { return value; }
DEVICE i32 narrow(i32 value, i32) { return value; }

DEVICE i32 fused(i32 a, i32 b, i32 c) { return a * b + c; }

#endif  // FIZEAU_GPU_H
