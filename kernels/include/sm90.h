// Instructions of compute capability 9.0: barriers in shared memory that count bytes, copies in bulk
// and by tensor maps, and (9.0 alone, target sm_90a) multiplication by warpgroups of tiles that
// stand in shared memory.
//
// tests/kernel_model/sm90.h does the same in C++.
#ifndef FIZEAU_SM90_H
#define FIZEAU_SM90_H
#include "descriptor.h"
#include "gpu.h"
#include "sm80.h"

// Of a matrix in global memory; encoded by the host.
struct alignas(64) TensorMap { u64 words[16]; };

// A parameter whose address the copy engine can be given.
#define MAP const __grid_constant__ TensorMap

// An element type of which both operands run along k, where its own name means that B runs along n.
template <class In> struct AlongK {};

// --- What a warp has in common.

// A value that all lanes of a warp have alike; all of them must call it. The assembler then keeps it, and
// what follows from it, in registers of the whole warp. Where it cannot know that, it moves a descriptor's
// address there anew for each multiplication.
DEVICE u32 warp_uniform(u32 value) { return __shfl_sync(~0u, value, 0); }
// Number of this thread's warp, and of the warpgroups before its own.
DEVICE u32 warp_number() { return warp_uniform(thread_index() / 32); }
DEVICE u32 warpgroup_number() { return warp_uniform(thread_index() / 128); }
// True for one lane of a warp, the same one at each call; all lanes must call it. Behind
// `if (elected())` the assembler knows that one lane is left. Where a lane is chosen by its number,
// it wraps each copy by a tensor map, multiplication and commit in a loop over the lanes.
DEVICE bool elected() {
  u32 chosen;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.b32 %0, 1, 0, p;\n}"
               : "=r"(chosen));
  return chosen != 0;
}

// --- Barriers. A barrier's phase ends when all that was expected of it has come: arrivals, and
// bytes. Whoever waits names the parity of the phase whose end it waits for.

DEVICE void make_barrier(u64* barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
               :: "r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
// What was made becomes visible to the copy engine.
DEVICE void barriers_made() {
  asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
}
DEVICE void arrive(u64* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
               :: "r"(shared_address(barrier)) : "memory");
}
DEVICE void arrive_expecting(u64* barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :: "r"(shared_address(barrier)), "r"(bytes) : "memory");
}
DEVICE void await_phase(u64* barrier, u32 parity) {
  u32 over = 0;
  while (over == 0) {
    asm volatile("{\n.reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(over) : "r"(shared_address(barrier)), "r"(parity) : "memory");
  }
}

// Arrives when this thread's copies by copy_async and copy_word_async have been made, and lets who
// waits see them.
DEVICE void arrive_when_copied(u64* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];"
               :: "r"(shared_address(barrier)) : "memory");
}

// A barrier of some of a block's threads, by number; 0 is the whole block's.
template <u32 THREADS> DEVICE void barrier_of(u32 number) {
  asm volatile("bar.sync %0, %1;" :: "r"(number), "n"(THREADS) : "memory");
}
// Comes to such a barrier without waiting there.
template <u32 THREADS> DEVICE void come_to_barrier(u32 number) {
  asm volatile("bar.arrive %0, %1;" :: "r"(number), "n"(THREADS) : "memory");
}

// Gives a warpgroup's registers back, or takes more.
template <u32 COUNT> DEVICE void keep_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(COUNT));
}
template <u32 COUNT> DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(COUNT));
}

// --- Clusters: blocks that see each other's shared memory.

DEVICE u32 cluster_place() {
  u32 place;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(place));
  return place;
}
// What was written before is seen by all threads of the cluster after.
DEVICE void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;"
               ::: "memory");
}
// The same for threads alone: what they wrote before is not sure to be seen after.
DEVICE void cluster_barrier_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
// The same place in another block's shared memory.
DEVICE u32 address_in_cluster(u32 at, u32 place) {
  u32 there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(place));
  return there;
}
// Arrives at the same barrier of another block. `.release.cluster` would make the assembler add a
// fence of the whole GPU's memory. This form adds none: use it where the other block reads nothing
// that this thread wrote. Bytes that came by copies in bulk, which a barrier of this block has counted,
// were not written by a thread.
DEVICE void arrive_in_cluster(u64* barrier, u32 place) {
  const u32 there = address_in_cluster(shared_address(barrier), place);
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];"
               :: "r"(there) : "memory");
}
// 16 bytes, loaded as often as it is asked for: the assembler takes plain loads out of loops.
DEVICE Vector<u64> load_from_cluster(u32 at) {
  Vector<u64> got;
  asm volatile("ld.relaxed.cluster.shared::cluster.v2.u64 {%0, %1}, [%2];"
               : "=l"(got.at[0]), "=l"(got.at[1]) : "r"(at) : "memory");
  return got;
}

// --- Copies in bulk, of multiples of 16 bytes.

// How data used once are kept: the first to leave the last cache.
DEVICE u64 policy_evict_first() {
  u64 policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
DEVICE void bulk_load(void* to, const void* from, u32 bytes, u64* barrier, u64 policy) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
               "[%0], [%1], %2, [%3], %4;"
               :: "r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(barrier)),
                  "l"(policy) : "memory");
}
DEVICE void bulk_load(void* to, const void* from, u32 bytes, u64* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1], %2, [%3];"
               :: "r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
}
// To both blocks of a cluster, at the same place of each; each block's barrier gets the bytes.
DEVICE void bulk_load_to_both(void* to, const void* from, u32 bytes, u64* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
               ".multicast::cluster [%0], [%1], %2, [%3], %4;"
               :: "r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(barrier)),
                  "h"(static_cast<unsigned short>(3)) : "memory");
}
// From this block's shared memory to that of a block of the cluster, whose barrier gets the bytes.
DEVICE void bulk_copy_in_cluster(void* to, const void* from, u32 bytes, u64* barrier, u32 place) {
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
               "[%0], [%1], %2, [%3];"
               :: "r"(address_in_cluster(shared_address(to), place)), "r"(shared_address(from)),
                  "r"(bytes), "r"(address_in_cluster(shared_address(barrier), place)) : "memory");
}
DEVICE void bulk_store(void* to, const void* from, u32 bytes, u64 policy) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;"
               :: "l"(to), "r"(shared_address(from)), "r"(bytes), "l"(policy) : "memory");
}
// A tile of a map: `column` and `row` of its first element.
DEVICE void tile_load(void* to, const TensorMap* map, u32 column, u32 row, u64* barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%2, %3}], [%4];"
               :: "r"(shared_address(to)), "l"(map), "r"(column), "r"(row),
                  "r"(shared_address(barrier)) : "memory");
}
// The same for both blocks of a cluster, at the same place of each; each block's barrier gets the
// bytes that come to it.
DEVICE void tile_load_to_both(void* to, const TensorMap* map, u32 column, u32 row, u64* barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
               :: "r"(shared_address(to)), "l"(map), "r"(column), "r"(row),
                  "r"(shared_address(barrier)), "h"(static_cast<unsigned short>(3)) : "memory");
}
DEVICE void tile_store(const TensorMap* map, const void* from, u32 column, u32 row) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
               :: "l"(map), "r"(column), "r"(row), "r"(shared_address(from)) : "memory");
}
DEVICE void prefetch_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory");
}
DEVICE void close_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Until all groups of this thread's stores but the OPEN latest have read shared memory.
template <u32 OPEN> DEVICE void await_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(OPEN) : "memory");
}
template <u32 OPEN> DEVICE void await_stores() {
  asm volatile("cp.async.bulk.wait_group %0;" :: "n"(OPEN) : "memory");
}
// What this thread wrote to shared memory becomes visible to the copy engine.
DEVICE void show_to_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Four 8 x 8 matrices of 16-bit elements from fragments to shared memory, as load_matrices reads.
DEVICE void store_matrices(u32 at, const u32 (&values)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               :: "r"(at), "r"(values[0]), "r"(values[1]), "r"(values[2]), "r"(values[3])
               : "memory");
}

// --- Multiplication by a warpgroup: sums (64 x 256) += A (64 x 32 bytes) B. Warp w has rows 16w ..;
// sums[4j + i] is of row 16w + g + i / 2 * 8 and column 8j + 2t + i % 2. Targets other than sm_90a
// have it not.

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 900

// Before the first multiplication, and wherever registers of sums were touched.
DEVICE void begin_multiplications() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void close_multiplications() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <u32 OPEN> DEVICE void await_multiplications() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(OPEN) : "memory");
}

#define QUARTER_SUM_NAMES \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define HALF_SUM_NAMES QUARTER_SUM_NAMES ", " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define SUM_NAMES_96 HALF_SUM_NAMES ", " \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define SUM_NAMES SUM_NAMES_96 ", " \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define SUMS_8(TYPE, i)                                                                           \
  TYPE(sums[i]), TYPE(sums[i + 1]), TYPE(sums[i + 2]), TYPE(sums[i + 3]), TYPE(sums[i + 4]),      \
      TYPE(sums[i + 5]), TYPE(sums[i + 6]), TYPE(sums[i + 7])
#define SUMS_32(TYPE, i)                                                                          \
  SUMS_8(TYPE, i), SUMS_8(TYPE, i + 8), SUMS_8(TYPE, i + 16), SUMS_8(TYPE, i + 24)
// `accumulate` 0: the sums are made new.
#define MULTIPLY_TILES(SHAPE, TYPES, FLAGS, TYPE)                                                 \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"                                      \
               "wgmma.mma_async.sync.aligned." SHAPE "." TYPES " {" SUM_NAMES "}, %128, %129, p, " \
               FLAGS ";\n}"                                                                       \
               : SUMS_32(TYPE, 0), SUMS_32(TYPE, 32), SUMS_32(TYPE, 64), SUMS_32(TYPE, 96)        \
               : "l"(a), "l"(b), "r"(accumulate) : "memory")

// 16 along k; A k-major, B mn-major.
DEVICE void multiply_tiles(f32 (&sums)[128], u64 a, u64 b, u32 accumulate, bf16) {
  MULTIPLY_TILES("m64n256k16", "f32.bf16.bf16", "1, 1, 0, 1", "+f");
}
DEVICE void multiply_tiles(f32 (&sums)[128], u64 a, u64 b, u32 accumulate, f16) {
  MULTIPLY_TILES("m64n256k16", "f32.f16.f16", "1, 1, 0, 1", "+f");
}
// The same of 128 columns: sums (64 x 128).
DEVICE void multiply_tiles(f32 (&sums)[64], u64 a, u64 b, u32 accumulate, bf16) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" HALF_SUM_NAMES
               "}, %64, %65, p, 1, 1, 0, 1;\n}"
               : SUMS_32("+f", 0), SUMS_32("+f", 32)
               : "l"(a), "l"(b), "r"(accumulate) : "memory");
}
// Both k-major.
DEVICE void multiply_tiles(f32 (&sums)[128], u64 a, u64 b, u32 accumulate, AlongK<bf16>) {
  MULTIPLY_TILES("m64n256k16", "f32.bf16.bf16", "1, 1, 0, 0", "+f");
}
DEVICE void multiply_tiles(f32 (&sums)[128], u64 a, u64 b, u32 accumulate, AlongK<f16>) {
  MULTIPLY_TILES("m64n256k16", "f32.f16.f16", "1, 1, 0, 0", "+f");
}
// 32 bytes along k; both k-major, as all types but those of 16 bits must be.
DEVICE void multiply_tiles(f32 (&sums)[128], u64 a, u64 b, u32 accumulate, e4m3) {
  MULTIPLY_TILES("m64n256k32", "f32.e4m3.e4m3", "1, 1", "+f");
}
DEVICE void multiply_tiles(f32 (&sums)[128], u64 a, u64 b, u32 accumulate, tf32) {
  MULTIPLY_TILES("m64n256k8", "f32.tf32.tf32", "1, 1", "+f");
}
DEVICE void multiply_tiles(i32 (&sums)[128], u64 a, u64 b, u32 accumulate, i8) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 {" SUM_NAMES
               "}, %128, %129, p;\n}"
               : SUMS_32("+r", 0), SUMS_32("+r", 32), SUMS_32("+r", 64), SUMS_32("+r", 96)
               : "l"(a), "l"(b), "r"(accumulate) : "memory");
}

// The same of 192 columns: sums (64 x 192).
DEVICE void multiply_tiles(f32 (&sums)[96], u64 a, u64 b, u32 accumulate, e4m3) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %98, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n192k32.f32.e4m3.e4m3 {" SUM_NAMES_96
               "}, %96, %97, p, 1, 1;\n}"
               : SUMS_32("+f", 0), SUMS_32("+f", 32), SUMS_32("+f", 64)
               : "l"(a), "l"(b), "r"(accumulate) : "memory");
}
// The same with A given along m, as B is above, and few columns: sums (64 x 16 to 64 x 256). 16 along k;
// A mn-major, B k-major.
#define MULTIPLY_TURNED(SHAPE, TYPES, FLAGS, A, B, P, NAMES, ...)                                 \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " P ", 0;\n"                                    \
               "wgmma.mma_async.sync.aligned." SHAPE "." TYPES " {" NAMES "}, " A ", " B ", p, "  \
               FLAGS ";\n}"                                                                       \
               : __VA_ARGS__ : "l"(a), "l"(b), "r"(accumulate) : "memory")
#define MULTIPLY_TURNED_16(SHAPE, TYPES, FLAGS)                                                   \
  MULTIPLY_TURNED(SHAPE, TYPES, FLAGS, "%8", "%9", "%10", "%0, %1, %2, %3, %4, %5, %6, %7",       \
                  SUMS_8("+f", 0))
#define MULTIPLY_TURNED_64(SHAPE, TYPES, FLAGS)                                                   \
  MULTIPLY_TURNED(SHAPE, TYPES, FLAGS, "%32", "%33", "%34", QUARTER_SUM_NAMES, SUMS_32("+f", 0))
#define MULTIPLY_TURNED_128(SHAPE, TYPES, FLAGS)                                                  \
  MULTIPLY_TURNED(SHAPE, TYPES, FLAGS, "%64", "%65", "%66", HALF_SUM_NAMES, SUMS_32("+f", 0),     \
                  SUMS_32("+f", 32))
#define MULTIPLY_TURNED_256(SHAPE, TYPES, FLAGS)                                                  \
  MULTIPLY_TURNED(SHAPE, TYPES, FLAGS, "%128", "%129", "%130", SUM_NAMES, SUMS_32("+f", 0),       \
                  SUMS_32("+f", 32), SUMS_32("+f", 64), SUMS_32("+f", 96))
DEVICE void multiply_turned(f32 (&sums)[8], u64 a, u64 b, u32 accumulate, bf16) {
  MULTIPLY_TURNED_16("m64n16k16", "f32.bf16.bf16", "1, 1, 1, 0");
}
DEVICE void multiply_turned(f32 (&sums)[8], u64 a, u64 b, u32 accumulate, f16) {
  MULTIPLY_TURNED_16("m64n16k16", "f32.f16.f16", "1, 1, 1, 0");
}
DEVICE void multiply_turned(f32 (&sums)[32], u64 a, u64 b, u32 accumulate, bf16) {
  MULTIPLY_TURNED_64("m64n64k16", "f32.bf16.bf16", "1, 1, 1, 0");
}
DEVICE void multiply_turned(f32 (&sums)[32], u64 a, u64 b, u32 accumulate, f16) {
  MULTIPLY_TURNED_64("m64n64k16", "f32.f16.f16", "1, 1, 1, 0");
}
DEVICE void multiply_turned(f32 (&sums)[64], u64 a, u64 b, u32 accumulate, bf16) {
  MULTIPLY_TURNED_128("m64n128k16", "f32.bf16.bf16", "1, 1, 1, 0");
}
DEVICE void multiply_turned(f32 (&sums)[64], u64 a, u64 b, u32 accumulate, f16) {
  MULTIPLY_TURNED_128("m64n128k16", "f32.f16.f16", "1, 1, 1, 0");
}
DEVICE void multiply_turned(f32 (&sums)[128], u64 a, u64 b, u32 accumulate, bf16) {
  MULTIPLY_TURNED_256("m64n256k16", "f32.bf16.bf16", "1, 1, 1, 0");
}
DEVICE void multiply_turned(f32 (&sums)[128], u64 a, u64 b, u32 accumulate, f16) {
  MULTIPLY_TURNED_256("m64n256k16", "f32.f16.f16", "1, 1, 1, 0");
}
// Both k-major.
DEVICE void multiply_turned(f32 (&sums)[8], u64 a, u64 b, u32 accumulate, AlongK<bf16>) {
  MULTIPLY_TURNED_16("m64n16k16", "f32.bf16.bf16", "1, 1, 0, 0");
}
DEVICE void multiply_turned(f32 (&sums)[8], u64 a, u64 b, u32 accumulate, AlongK<f16>) {
  MULTIPLY_TURNED_16("m64n16k16", "f32.f16.f16", "1, 1, 0, 0");
}
DEVICE void multiply_turned(f32 (&sums)[32], u64 a, u64 b, u32 accumulate, AlongK<bf16>) {
  MULTIPLY_TURNED_64("m64n64k16", "f32.bf16.bf16", "1, 1, 0, 0");
}
DEVICE void multiply_turned(f32 (&sums)[32], u64 a, u64 b, u32 accumulate, AlongK<f16>) {
  MULTIPLY_TURNED_64("m64n64k16", "f32.f16.f16", "1, 1, 0, 0");
}
DEVICE void multiply_turned(f32 (&sums)[64], u64 a, u64 b, u32 accumulate, AlongK<bf16>) {
  MULTIPLY_TURNED_128("m64n128k16", "f32.bf16.bf16", "1, 1, 0, 0");
}
DEVICE void multiply_turned(f32 (&sums)[64], u64 a, u64 b, u32 accumulate, AlongK<f16>) {
  MULTIPLY_TURNED_128("m64n128k16", "f32.f16.f16", "1, 1, 0, 0");
}
DEVICE void multiply_turned(f32 (&sums)[128], u64 a, u64 b, u32 accumulate, AlongK<bf16>) {
  MULTIPLY_TURNED_256("m64n256k16", "f32.bf16.bf16", "1, 1, 0, 0");
}
DEVICE void multiply_turned(f32 (&sums)[128], u64 a, u64 b, u32 accumulate, AlongK<f16>) {
  MULTIPLY_TURNED_256("m64n256k16", "f32.f16.f16", "1, 1, 0, 0");
}
// 32 along k; both k-major.
DEVICE void multiply_turned(f32 (&sums)[8], u64 a, u64 b, u32 accumulate, e4m3) {
  MULTIPLY_TURNED_16("m64n16k32", "f32.e4m3.e4m3", "1, 1");
}
DEVICE void multiply_turned(f32 (&sums)[32], u64 a, u64 b, u32 accumulate, e4m3) {
  MULTIPLY_TURNED_64("m64n64k32", "f32.e4m3.e4m3", "1, 1");
}
DEVICE void multiply_turned(f32 (&sums)[64], u64 a, u64 b, u32 accumulate, e4m3) {
  MULTIPLY_TURNED_128("m64n128k32", "f32.e4m3.e4m3", "1, 1");
}
DEVICE void multiply_turned(f32 (&sums)[128], u64 a, u64 b, u32 accumulate, e4m3) {
  MULTIPLY_TURNED_256("m64n256k32", "f32.e4m3.e4m3", "1, 1");
}
// What reads the sums after this stays after it: the compiler does not know that they are written
// behind its back.
template <u32 SUMS> DEVICE void settle(f32 (&sums)[SUMS]) {
  UNROLL for (u32 i = 0; i < SUMS; i++) asm volatile("" : "+f"(sums[i]) :: "memory");
}
DEVICE void settle(i32 (&sums)[128]) {
  UNROLL for (u32 i = 0; i < 128; i++) asm volatile("" : "+r"(sums[i]) :: "memory");
}

#undef MULTIPLY_TURNED_16
#undef MULTIPLY_TURNED_64
#undef MULTIPLY_TURNED_128
#undef MULTIPLY_TURNED_256
#undef MULTIPLY_TURNED
#undef MULTIPLY_TILES
#undef SUMS_32
#undef SUMS_8
#undef SUM_NAMES
#undef SUM_NAMES_96
#undef HALF_SUM_NAMES
#undef QUARTER_SUM_NAMES

#endif

#endif  // FIZEAU_SM90_H
