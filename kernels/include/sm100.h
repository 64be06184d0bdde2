// Instructions of compute capability 10: multiplication of tiles in shared memory into tensor
// memory, which belongs to the block: 128 lanes of 512 columns of 32 bits.
//
// tests/kernel_model/sm100.h does the same in C++.
#ifndef FIZEAU_SM100_H
#define FIZEAU_SM100_H
#include "scaled.h"
#include "sm90.h"

// The two blocks of a cluster of two can be a pair, whose first block has products of 256 rows made
// for both. Each block has 128 rows of A and of the sums, and half of B's columns. All that a kernel
// does with tensor memory is then said to be of 2 BLOCKS.

// Takes all of tensor memory; by one whole warp, of each block of a pair. The place of its first
// column is left in shared memory.
#define TAKE_TENSOR_MEMORY(GROUP)                                                                 \
  asm volatile("tcgen05.alloc.cta_group::" GROUP ".sync.aligned.shared::cta.b32 [%0], 512;\n"     \
               "tcgen05.relinquish_alloc_permit.cta_group::" GROUP ".sync.aligned;"               \
               :: "r"(shared_address(left_at)) : "memory")
template <u32 BLOCKS = 1> DEVICE void take_tensor_memory(u32* left_at) {
  if constexpr (BLOCKS == 2) TAKE_TENSOR_MEMORY("2");
  else TAKE_TENSOR_MEMORY("1");
}
#undef TAKE_TENSOR_MEMORY
#define GIVE_TENSOR_MEMORY(GROUP)                                                                 \
  asm volatile("tcgen05.dealloc.cta_group::" GROUP ".sync.aligned.b32 %0, 512;"                   \
               :: "r"(memory) : "memory")
template <u32 BLOCKS = 1> DEVICE void give_tensor_memory(u32 memory) {
  if constexpr (BLOCKS == 2) GIVE_TENSOR_MEMORY("2");
  else GIVE_TENSOR_MEMORY("1");
}
#undef GIVE_TENSOR_MEMORY
// What other threads did to tensor memory before they were waited for is seen after it; and what
// this thread did, before others are told.
DEVICE void see_tensor_memory() {
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}
DEVICE void show_tensor_memory() {
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}
// One arrival at the barrier, of a pair at that of each block, when all multiplications of this
// thread so far are done.
template <u32 BLOCKS = 1> DEVICE void arrive_when_multiplied(u64* barrier) {
  if constexpr (BLOCKS == 2) {
    asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster"
                 ".multicast::cluster.b64 [%0], %1;"
                 :: "r"(shared_address(barrier)), "h"(static_cast<unsigned short>(3)) : "memory");
  } else {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];"
                 :: "r"(shared_address(barrier)) : "memory");
  }
}
// As tile_load, by a block of a pair; the barrier of the first block in the same place gets the
// bytes.
DEVICE void tile_load_of_pair(void* to, const TensorMap* map, u32 column, u32 row, u64* barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               ".cta_group::2 [%0], [%1, {%2, %3}], [%4];"
               :: "r"(shared_address(to)), "l"(map), "r"(column), "r"(row),
                  "r"(address_in_cluster(shared_address(barrier), 0)) : "memory");
}

#define MULTIPLY_BY(GROUP, KIND)                                                                  \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"                                        \
               "tcgen05.mma.cta_group::" GROUP ".kind::" KIND " [%0], %1, %2, %3, p;\n}"          \
               :: "r"(sums), "l"(a), "l"(b), "r"(instruction), "r"(accumulate) : "memory")
#define MULTIPLY_INTO(KIND)                                                                       \
  if constexpr (BLOCKS == 2) MULTIPLY_BY("2", KIND);                                              \
  else MULTIPLY_BY("1", KIND)

// sums (128 BLOCKS x 256, row by lane) += A (128 BLOCKS x 32 bytes along k) B; by one thread, of a
// pair one of the first block. `accumulate` 0: the sums are made new.
template <u32 BLOCKS = 1>
DEVICE void multiply_into(u32 sums, u64 a, u64 b, u32 instruction, u32 accumulate, bf16) {
  MULTIPLY_INTO("f16");
}
template <u32 BLOCKS = 1>
DEVICE void multiply_into(u32 sums, u64 a, u64 b, u32 instruction, u32 accumulate, f16) {
  MULTIPLY_INTO("f16");
}
template <u32 BLOCKS = 1>
DEVICE void multiply_into(u32 sums, u64 a, u64 b, u32 instruction, u32 accumulate, e4m3) {
  MULTIPLY_INTO("f8f6f4");
}
template <u32 BLOCKS = 1>
DEVICE void multiply_into(u32 sums, u64 a, u64 b, u32 instruction, u32 accumulate, tf32) {
  MULTIPLY_INTO("tf32");
}
// On compute capability 10.0 alone. The sums are integers.
template <u32 BLOCKS = 1>
DEVICE void multiply_into(u32 sums, u64 a, u64 b, u32 instruction, u32 accumulate, i8) {
  MULTIPLY_INTO("i8");
}
#undef MULTIPLY_INTO
#undef MULTIPLY_BY
// The same of elements that share scales, which stand in tensor memory as copy_scales puts them: a
// 32-bit column for each 32 rows of A or columns of B, in it up to 4 scales along k. `instruction`
// says from which byte on they are taken. Those of 96 along k that have no room in one column stand in
// the same byte order further on: 4 columns for A, 8 for 256 columns of B, 4 for up to 128. Of a pair each block has the scales of its rows of A and of
// all columns of B.
#define MULTIPLY_SCALED_BY(GROUP, KIND)                                                           \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"                                        \
               "tcgen05.mma.cta_group::" GROUP ".kind::" KIND " [%0], %1, %2, %3, [%5], [%6], p;\n}" \
               :: "r"(sums), "l"(a), "l"(b), "r"(instruction), "r"(accumulate), "r"(scales_a),     \
                  "r"(scales_b) : "memory")
#define MULTIPLY_SCALED(KIND)                                                                     \
  if constexpr (BLOCKS == 2) MULTIPLY_SCALED_BY("2", KIND);                                       \
  else MULTIPLY_SCALED_BY("1", KIND)
template <u32 BLOCKS = 1>
DEVICE void multiply_scaled_into(u32 sums, u64 a, u64 b, u32 instruction, u32 accumulate,
                                 u32 scales_a, u32 scales_b, mxfp8) {
  MULTIPLY_SCALED("mxf8f6f4.block_scale.scale_vec::1X");
}
template <u32 BLOCKS = 1>
DEVICE void multiply_scaled_into(u32 sums, u64 a, u64 b, u32 instruction, u32 accumulate,
                                 u32 scales_a, u32 scales_b, mxfp4) {
  MULTIPLY_SCALED("mxf4nvf4.block_scale.scale_vec::2X");
}
template <u32 BLOCKS = 1>
DEVICE void multiply_scaled_into(u32 sums, u64 a, u64 b, u32 instruction, u32 accumulate,
                                 u32 scales_a, u32 scales_b, nvfp4) {
  MULTIPLY_SCALED("mxf4nvf4.block_scale.scale_vec::4X");
}
#undef MULTIPLY_SCALED
#undef MULTIPLY_SCALED_BY
// Copies 32 rows of 16 bytes to 4 columns of lanes 0..31, and to each 32 lanes after them, of a pair in
// each block from its own shared memory; by one thread, before the multiplications that it asks for
// later. Those asked for earlier may still read what stood there.
#define COPY_SCALES(GROUP)                                                                        \
  asm volatile("tcgen05.cp.cta_group::" GROUP ".32x128b.warpx4 [%0], %1;"                         \
               :: "r"(column), "l"(tile) : "memory")
template <u32 BLOCKS = 1> DEVICE void copy_scales(u32 column, u64 tile) {
  if constexpr (BLOCKS == 2) COPY_SCALES("2");
  else COPY_SCALES("1");
}
#undef COPY_SCALES

// 32 columns, from `column` on, of this warp's lanes: those of warp w are 32 (w % 4) and on. Integers
// come as the floats whose bits they are.
DEVICE void load_sums(f32 (&sums)[32], u32 column) {
#define SUMS_8(i)                                                                                 \
  "=f"(sums[i]), "=f"(sums[i + 1]), "=f"(sums[i + 2]), "=f"(sums[i + 3]), "=f"(sums[i + 4]),      \
      "=f"(sums[i + 5]), "=f"(sums[i + 6]), "=f"(sums[i + 7])
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x32.b32 "
               "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
               "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, [%32];\n"
               "tcgen05.wait::ld.sync.aligned;"
               : SUMS_8(0), SUMS_8(8), SUMS_8(16), SUMS_8(24) : "r"(column) : "memory");
}
// The same of 16 columns.
DEVICE void load_sums(f32 (&sums)[16], u32 column) {
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x16.b32 "
               "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, [%16];\n"
               "tcgen05.wait::ld.sync.aligned;"
               : SUMS_8(0), SUMS_8(8) : "r"(column) : "memory");
}
#undef SUMS_8

// A word of shared memory.
DEVICE void store_word(u32 at, u32 word) {
  asm volatile("st.shared.u32 [%0], %1;" :: "r"(at), "r"(word) : "memory");
}

#endif  // FIZEAU_SM100_H
