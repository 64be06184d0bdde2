// Stands in for kernels/include/sm100.h: multiplications happen by the engine, in the order asked
// for, and read both descriptors and the instruction bit by bit.
#pragma once
#define FIZEAU_SM100_H
#include "sm90.h"

namespace model {

inline f32 tensor_memory[128][512];
// Of each thread: stores to tensor memory that nobody awaited yet.
inline std::map<u32, std::vector<std::function<void()>>> open_words;

}  // namespace model

DEVICE void take_tensor_memory(u32* left_at) {
  for (auto& lane : model::tensor_memory) {
    for (f32& sum : lane) sum = NAN;
  }
  *left_at = 0;
}
DEVICE void give_tensor_memory(u32 memory) {
  if (memory != 0) model::fail("another tensor memory is given back");
}
DEVICE void see_tensor_memory() {}
DEVICE void show_tensor_memory() {}
DEVICE void arrive_when_multiplied(u64* barrier) {
  model::engine.push_back([=] { model::arrive_with(barrier, 0); });
}

namespace model {

// A descriptor of compute capability 10 as one of 9.0, whose strides and patterns are the same.
inline u64 older(u64 descriptor) {
  if (descriptor >> 61 != 2 || (descriptor >> 46 & 7) != 1) fail("not a descriptor of 10");
  return (descriptor & 0x00003fff3fff3fffull) | u64(1) << 62;
}

template <class T> void multiply_into(u32 sums, u64 a, u64 b, u32 instruction, u32 accumulate,
                                      u32 type) {
  if ((instruction >> 4 & 3) != 1) fail("sums are not of 32 bits");
  if ((instruction >> 7 & 7) != type || (instruction >> 10 & 7) != type) fail("another type");
  if ((instruction & ~0x1f7f1fb0u) != 0) fail("bits of an instruction that should be 0");
  const u32 rows = (instruction >> 24 & 31) * 16, columns = (instruction >> 17 & 63) * 8;
  const bool b_k_major = (instruction >> 16 & 1) == 0;
  engine.push_back([=] {
    std::vector<Line<T>> lines;
    for (u32 row = 0; row < rows; row++) lines.emplace_back(older(a), true, row);
    for (u32 column = 0; column < columns; column++) {
      const Line<T> of_b(older(b), b_k_major, column);
      for (u32 row = 0; row < rows; row++) {
        f32& sum = tensor_memory[row][sums + column];
        sum = lines[row].added(accumulate ? sum : 0.0f, of_b);
      }
    }
  });
}

}  // namespace model

DEVICE void multiply_into(u32 sums, u64 a, u64 b, u32 instruction, u32 accumulate, bf16) {
  model::multiply_into<bf16>(sums, a, b, instruction, accumulate, 1);
}
DEVICE void multiply_into(u32 sums, u64 a, u64 b, u32 instruction, u32 accumulate, f16) {
  model::multiply_into<f16>(sums, a, b, instruction, accumulate, 0);
}
DEVICE void multiply_into(u32 sums, u64 a, u64 b, u32 instruction, u32 accumulate, e4m3) {
  model::multiply_into<e4m3>(sums, a, b, instruction, accumulate, 0);
}
DEVICE void multiply_into(u32 sums, u64 a, u64 b, u32 instruction, u32 accumulate, tf32) {
  model::multiply_into<tf32>(sums, a, b, instruction, accumulate, 2);
}

DEVICE void load_sums(f32 (&sums)[32], u32 column) {
  const u32 lane = column >> 16, first = column & 0xffff;
  if (lane != model::current / 32 % 4 * 32) model::fail("a warp reads another's lanes");
  for (u32 i = 0; i < 32; i++) {
    sums[i] = model::tensor_memory[lane + model::current % 32][first + i];
  }
}
