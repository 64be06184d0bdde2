// The parameters of kernels: one struct for each operation, the same for every kernel of it,
// passed by value. src/kernel.rs mirrors them; tests/kernels.rs compares the two.
//
// Addresses are typed pointers: from integers, some compilers make slower loads.
#pragma once
#include "gpu.h"

struct StreamParams {
  f64* a;            // written, or read by `read` and `dot`
  const f64* b;      // read beside it
  const f64* c;      // read beside it
  f64* partial;      // one sum for each block, 64 bytes apart
  u64 length;        // elements of each array
  f64 scale;
};
static_assert(sizeof(StreamParams) == 48, "the mirror");

struct LatencyParams {
  u64** position;    // the cell that holds the address to load from next; left there at the end
};
static_assert(sizeof(LatencyParams) == 8, "the mirror");

struct ComputeParams {
  f64* partial;      // one count for each block, 64 bytes apart
  u64 flops;         // operations of one block
};
static_assert(sizeof(ComputeParams) == 16, "the mirror");

struct GemmParams {
  const void* a;     // m x k, row by row
  const void* b;     // k x n, row by row; fp8 and narrower: n x k, row by row
  void* c;           // m x n, row by row
  u32 m;
  u32 n;
  u32 k;
  u32 dtype;
};
static_assert(sizeof(GemmParams) == 40, "the mirror");

struct FillParams {
  u64* target;
  const u64* pattern;
  u64 length;        // words of the target
  u64 period;        // words of the pattern, which the target repeats
};
static_assert(sizeof(FillParams) == 32, "the mirror");

struct CompareParams {
  const u64* values;
  const u64* pattern;
  u64 length;        // words of the values
  u64 period;        // words of the pattern that they should repeat
  u64* differing;    // counted up by the words that differ
};
static_assert(sizeof(CompareParams) == 40, "the mirror");

struct HashParams {
  const u64* values;
  u64 length;        // words
  u64* hash;         // counted up by each word's hash; the order of blocks does not matter
};
static_assert(sizeof(HashParams) == 24, "the mirror");

struct EvictParams {
  u64* memory;
  u64 length;        // words
};
static_assert(sizeof(EvictParams) == 16, "the mirror");

struct ClockParams {
  u64* counted;      // [cycles, nanoseconds] for each block, 64 bytes apart
  u64 cycles;        // to work for
};
static_assert(sizeof(ClockParams) == 16, "the mirror");

struct HoldParams {
  const u32* released;  // in host memory; anything but 0 lets the stream go on
  u64 limit;         // nanoseconds after which it goes on whatever stands there
  u64* waited;       // nanoseconds it waited; the limit where it gave up
};
static_assert(sizeof(HoldParams) == 24, "the mirror");
