// Stands in for kernels/include/gpu.h: a block's threads are fibers of one CPU thread, which go on
// until they wait for each other. What a kernel computes is then what its text says; nothing is
// said of speed, and races are found only where the order of lanes shows them (it is reversed for
// every second launch).
#pragma once
#define FIZEAU_GPU_H

// Fibers jump between stacks, which the checked form of longjmp takes for a fault.
#undef _FORTIFY_SOURCE
#include <setjmp.h>
#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i8 = signed char;
using i32 = int;
using f32 = float;
using f64 = double;
struct bf16 { u16 bits; };
struct f16 { u16 bits; };

#define DEVICE static inline
#define DEVICE_MEMBER inline
#define SHARED alignas(16) static
#define CONSTANT static constexpr
#define UNROLL
#define KERNEL(THREADS, PER_UNIT) void

template <class T> struct alignas(16) Vector { T at[16 / sizeof(T)]; };

// Lanes that go in step.
#ifndef MODEL_LANES
#define MODEL_LANES 32
#endif

namespace model {

// Where a fault ends a launch instead of the process, and what was said of it.
inline sigjmp_buf* caught;
inline const char* fault;

[[noreturn]] inline void fail(const char* what) {
  if (caught) {
    fault = what;
    siglongjmp(*caught, 1);
  }
  printf("fault: %s\n", what);
  exit(1);
}

// A place where a number of fibers wait for each other.
struct Barrier { u32 waiting = 0, round = 0; };

// A thread's own stack, which serves one launch after the other: making it costs system calls, going
// on with it none.
struct Fiber {
  static constexpr u32 STACK = 96 << 10;
  ucontext_t context;
  void* at[5];
  std::unique_ptr<char[]> stack{new char[STACK]};
  bool started = false, done = false;
};

// What is done without threads: tried once in every round.
inline std::deque<std::function<void()>> engine;
// Counts what lets threads go on.
inline u64 progress;

// Copies that no thread waits for happen as late as the rules allow: when their group is awaited.
struct Copy { u32 to; const void* from; u32 valid, bytes; };

inline std::deque<Fiber> stacks;
// Threads of the cluster that runs.
inline u32 threads_at_once;
inline std::vector<Barrier> warps;
inline std::vector<std::deque<std::vector<Copy>>> groups;
// Blocks of a cluster that run at once, each with its own part of `shared`. Static
// arrays are common to both: kernels that are run so have none.
constexpr u32 CLUSTER_MAX = 4;
inline u32 cluster = 1;
inline Barrier block[CLUSTER_MAX], whole_cluster;
inline void* scheduler[5];
inline std::function<void()> body;
inline u32 current, block_at, blocks, block_threads = 1, launches;
// Which block of the cluster this thread is of.
inline u32 place() { return current / block_threads; }
// What is to be done when a block has ended.
inline void (*after_block)();
// A clock that goes on by a tick whenever somebody asks how long it was, and by what an operation on
// a line takes where that is said.
inline u64 now, tick = 16;
inline u64 (*distance)(const void*);
// A wrong model of fragments, to see that the tests find it.
inline bool planted;

// How often each 16 bytes of an array were copied, where somebody counts.
struct Visited {
  const u8* start = nullptr;
  std::vector<u32> times;
};
inline Visited visited;

inline void visit(const void* from, u32 bytes) {
  const u8* first = static_cast<const u8*>(from);
  for (u32 at = 0; at < bytes; at += 16) {
    if (visited.start == nullptr || first + at < visited.start) continue;
    const u64 place = u64(first + at - visited.start) / 16;
    if (place < visited.times.size()) visited.times[place]++;
  }
}

// What lanes show each other, twice: a warp may be one exchange ahead.
inline std::vector<u64> shown;
inline std::vector<u32> exchanges;

constexpr u32 SHARED_BYTES = 227 << 10;
alignas(1024) inline u8 shared[CLUSTER_MAX * SHARED_BYTES];
inline u32 shared_size;

// Whether any thread of a block of the cluster has something to do still.
inline bool lives(u32 which) {
  for (u32 i = 0; i < block_threads; i++) {
    if (!stacks[which * block_threads + i].done) return true;
  }
  return false;
}

// The compiler's own jumps, which keep three words: the library's take a tenth of a run. They may not
// stand in a function that says where to go on.
[[noreturn, gnu::noinline]] inline void jump(void** to) { __builtin_longjmp(to, 1); }

[[gnu::noinline]] inline void yield() {
  if (__builtin_setjmp(stacks[current].at) == 0) jump(scheduler);
}

// This thread takes so long that others and the engine go on for some turns.
inline void take_long(u32 turns) {
  for (u32 i = 0; i < turns; i++) {
    progress++;
    yield();
  }
}

[[gnu::noinline]] inline void go_on(Fiber& fiber) {
  if (__builtin_setjmp(scheduler) != 0) return;
  if (fiber.started) jump(fiber.at);
  fiber.started = true;
  setcontext(&fiber.context);
}

inline void wait(Barrier& barrier, u32 count) {
  const u32 round = barrier.round;
  if (++barrier.waiting == count) {
    barrier.waiting = 0;
    barrier.round++;
    progress++;
  } else {
    while (barrier.round == round) yield();
  }
}

// A block of fewer threads than a warp has lanes is one warp of them.
inline void wait_warp() {
  wait(warps[current / MODEL_LANES], threads_at_once < MODEL_LANES ? threads_at_once : MODEL_LANES);
}

inline void run_fiber() {
  for (;;) {
    body();
    stacks[current].done = true;
    yield();
  }
}

inline void run_blocks(u32 threads) {
  for (Barrier& each : block) each = Barrier();
  whole_cluster = Barrier();
  // The last of several may be of fewer lanes, which then cannot wait for each other.
  warps.assign((threads + MODEL_LANES - 1) / MODEL_LANES, Barrier());
  groups.assign(threads, {{}});
  shown.assign(threads * 16, 0);
  exchanges.assign(threads, 0);
  // Whoever reads what was never written computes with what is not a number.
  for (u32 at = 0; at < cluster; at++) memset(shared + at * SHARED_BYTES, 0xff, shared_size);
  threads_at_once = threads;
  while (stacks.size() < threads) {
    Fiber& fiber = stacks.emplace_back();
    getcontext(&fiber.context);
    fiber.context.uc_stack = {fiber.stack.get(), 0, Fiber::STACK};
    makecontext(&fiber.context, run_fiber, 0);
  }
  for (u32 i = 0; i < threads; i++) stacks[i].done = false;
  const bool reversed = launches % 2 == 1;
  // Of a cluster's blocks one goes on for a while, then the next, in every launch for another while and
  // another one first: none may count on the others.
  const u32 still = 11 + launches % 9 * 13;
  // In every third launch what is done without threads is done when no thread can go on: a block that
  // does not wait for all of it ends too early.
  const bool late = launches % 3 == 2;
  u32 round = 0;
  for (u32 left = threads, idle = 0; left > 0; round++) {
    const u32 left_before = left;
    const u64 before = progress;
    left = 0;
    for (u32 i = 0; i < threads; i++) {
      current = reversed ? threads - 1 - i : i;
      if (stacks[current].done) continue;
      if (cluster > 1 && place() != (round / still + launches) % cluster) {
        left++;
        continue;
      }
      go_on(stacks[current]);
      left += !stacks[current].done;
    }
    if (!engine.empty() && (!late || (progress == before && left == left_before))) {
      engine.front()();
      engine.pop_front();
      progress++;
    }
    idle = progress == before && left == left_before ? idle + 1 : 0;
    if (idle > (cluster == 1 ? 4 : 2 * cluster * still)) fail("threads wait for what never comes");
  }
  if (!engine.empty()) fail("a block ended before its copies");
  if (after_block) after_block();
}

// In every third launch copies are made when they are asked for: one into what is still read is found.
inline bool copies_are_early() { return launches % 3 == 1; }
inline void copy_later(std::function<void()> copy) {
  if (copies_are_early()) copy();
  else engine.push_back(std::move(copy));
}

inline void launch(u32 grid, u32 threads, u32 dynamic, std::function<void()> entry,
                   u32 together = 1) {
  body = entry;
  cluster = together;
  block_threads = threads;
  blocks = grid;
  shared_size = dynamic;
  for (block_at = 0; block_at < grid; block_at += cluster) run_blocks(threads * cluster);
  cluster = 1;
  launches++;
}

// Shows 8 words of this lane to its warp; gives where the warp's are, 8 for each lane.
inline const u64* exchange(const u64 (&mine)[8]) {
  const u32 which = exchanges[current]++ % 2;
  u64* all = &shown[u64(which) * threads_at_once * 8];
  for (u32 i = 0; i < 8; i++) all[current * 8 + i] = mine[i];
  wait_warp();
  return all + current / MODEL_LANES * MODEL_LANES * 8;
}

}  // namespace model

// How many blocks further one takes over what another had in a walk through a cache that all share.
CONSTANT u32 NEXT_PLACE = 7;

DEVICE u32 thread_index() { return model::current % model::block_threads; }
DEVICE u32 block_index() { return model::block_at + model::place(); }
DEVICE u32 block_count() { return model::blocks; }
DEVICE u32 zero() { return 0; }
DEVICE void forget(u32&) {}
DEVICE void block_barrier() { model::wait(model::block[model::place()], model::block_threads); }
DEVICE void warp_barrier() { model::wait_warp(); }
DEVICE f64 shuffle_xor(f64 value, u32 mask) {
  u64 mine[8] = {};
  memcpy(mine, &value, 8);
  const u64* all = model::exchange(mine);
  memcpy(&value, &all[(model::current % MODEL_LANES ^ mask) * 8], 8);
  return value;
}
DEVICE f32 shuffle_xor(f32 value, u32 mask) { return f32(shuffle_xor(f64(value), mask)); }
DEVICE u64 shuffle_xor(u64 value, u32 mask) {
  f64 bits;
  memcpy(&bits, &value, 8);
  bits = shuffle_xor(bits, mask);
  memcpy(&value, &bits, 8);
  return value;
}
template <class T> T atomic_add(T* at, T value) {
  const T before = *at;
  *at += value;
  return before;
}
DEVICE u8* dynamic_shared() { return model::shared + model::place() * model::SHARED_BYTES; }

DEVICE u32 bits_of(f32 value) {
  u32 bits;
  memcpy(&bits, &value, 4);
  return bits;
}
DEVICE f32 float_of(u32 bits) {
  f32 value;
  memcpy(&value, &bits, 4);
  return value;
}

DEVICE f32 widen(bf16 value) { return float_of(u32(value.bits) << 16); }

namespace model {

// A float of so many bits as one of 32, whose exponent is kept 127 higher instead of `BIAS`. Of its
// exponents, all are of numbers.
template <u32 EXPONENTS, u32 FRACTIONS, u32 BIAS> f32 computed_small_float(u32 bits) {
  const u32 exponent = bits >> FRACTIONS & ((1 << EXPONENTS) - 1), fraction = bits & ((1 << FRACTIONS) - 1);
  const u32 sign = bits >> (EXPONENTS + FRACTIONS) << 31;
  if (exponent != 0) return float_of(sign | (exponent + 127 - BIAS) << 23 | fraction << (23 - FRACTIONS));
  const f32 unit = float_of((128 - BIAS - FRACTIONS) << 23);
  return sign ? -unit * f32(fraction) : unit * f32(fraction);
}

// All of them: operands are widened so often that to compute each would take a quarter of a run.
template <u32 EXPONENTS, u32 FRACTIONS, u32 BIAS> struct SmallFloats {
  f32 at[2u << (EXPONENTS + FRACTIONS)];
  SmallFloats() {
    u32 bits = 0;
    for (f32& value : at) value = computed_small_float<EXPONENTS, FRACTIONS, BIAS>(bits++);
  }
};
template <u32 EXPONENTS, u32 FRACTIONS, u32 BIAS>
inline const SmallFloats<EXPONENTS, FRACTIONS, BIAS> small_floats;
template <u32 EXPONENTS, u32 FRACTIONS, u32 BIAS> f32 small_float(u32 bits) {
  return small_floats<EXPONENTS, FRACTIONS, BIAS>.at[bits];
}

}  // namespace model

DEVICE f32 widen(f16 value) {
  if ((value.bits >> 10 & 31) == 31) return value.bits & 1023 ? NAN : value.bits >> 15 ? -INFINITY : INFINITY;
  return model::small_float<5, 10, 15>(value.bits);
}
DEVICE f32 widen(f32 value) { return value; }
DEVICE f64 widen(f64 value) { return value; }
DEVICE i32 widen(i8 value) { return value; }

DEVICE bf16 narrow(f32 value, bf16) {
  const u32 bits = bits_of(value);
  if (value != value) return {0x7fff};
  return {u16((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
DEVICE f16 narrow(f32 value, f16) {
  const u16 sign = std::signbit(value) ? 0x8000 : 0;
  const f32 size = std::fabs(value);
  if (value != value) return {0x7fff};
  if (size >= 65520.0f) return {u16(sign | 0x7c00)};
  int exponent = size == 0.0f ? -14 : std::ilogb(size);
  if (exponent < -14) exponent = -14;
  // In units of the last place, to nearest even.
  const u32 units = u32(std::nearbyint(std::ldexp(size, 10 - exponent)));
  return {u16(sign | (units + (u32(exponent + 14) << 10)))};
}
DEVICE f32 narrow(f32 value, f32) { return value; }
DEVICE f64 narrow(f64 value, f64) { return value; }
DEVICE i32 narrow(i32 value, i32) { return value; }
template <class T> u32 narrow_pair(f32 low, f32 high, T type) {
  return narrow(low, type).bits | u32(narrow(high, type).bits) << 16;
}

DEVICE f32 fused(f32 a, f32 b, f32 c) { return std::fma(a, b, c); }
DEVICE f64 fused(f64 a, f64 b, f64 c) { return std::fma(a, b, c); }
DEVICE i32 fused(i32 a, i32 b, i32 c) { return a * b + c; }

DEVICE void device_fence() {}
template <class T> T load_fresh(const T* from) {
  if (reinterpret_cast<uintptr_t>(from) % alignof(T) != 0) model::fail("a load is not aligned");
  return *from;
}

DEVICE f32 larger(f32 a, f32 b) { return std::fmax(a, b); }
DEVICE f32 reciprocal(f32 x) { return 1.0f / x; }
DEVICE f32 reciprocal_root(f32 x) { return 1.0f / std::sqrt(x); }
DEVICE f32 power_of_two(f32 x) { return x < -126.0f ? 0.0f : std::exp2(x); }

template <class T> T aligned_load(const T* from) {
  if (reinterpret_cast<uintptr_t>(from) % sizeof(T) != 0) model::fail("a load is not aligned");
  return *from;
}
DEVICE Vector<f64> load(const Vector<f64>* from) { return aligned_load(from); }
DEVICE Vector<f64> load_evict_first(const Vector<f64>* from) { return aligned_load(from); }
DEVICE void store(Vector<f64>* to, Vector<f64> value) {
  aligned_load(to);
  *to = value;
}
DEVICE void store_evict_first(Vector<f64>* to, Vector<f64> value) { store(to, value); }
template <u32 COUNT, u32 APART>
void load_shared_cache(Vector<u64> (&to)[COUNT], const Vector<u64>* from, u64 left) {
  for (u32 i = 0; i < COUNT; i++) {
    const u64 at = i * APART + thread_index();
    to[i] = at < left ? aligned_load(from + at) : Vector<u64>();
  }
}
DEVICE Vector<u64> load(const Vector<u64>* from) { return aligned_load(from); }
DEVICE void store(Vector<u64>* to, Vector<u64> value) {
  aligned_load(to);
  *to = value;
}
DEVICE Vector<u64> load_evict_first(const Vector<u64>* from) { return aligned_load(from); }
DEVICE void store_evict_first(Vector<u64>* to, Vector<u64> value) {
  aligned_load(to);
  *to = value;
}
DEVICE Vector<u64> load_first_cache(const Vector<u64>* from, u32 index) {
  return aligned_load(from + index);
}
// A block's own arrays in shared memory are static ones here.
DEVICE Vector<u64> load_from_shared(const void* start, u32 offset) {
  return aligned_load(reinterpret_cast<const Vector<u64>*>(static_cast<const u8*>(start) + offset));
}
DEVICE u64 fetch_or(u64* at, u64 bits) {
  const u64 before = *at;
  *at |= bits;
  if (model::distance) model::now += model::distance(at);
  return before;
}
DEVICE u32 unit_number() { return 7; }
DEVICE u64 cycles() { return model::now; }
DEVICE u64 cycles_since(u64 start) { return (model::now += model::tick) - start; }
// One cycle each.
DEVICE u64 nanoseconds() { return model::now; }
DEVICE u64* load_address(u64* const* from) { return *from; }
