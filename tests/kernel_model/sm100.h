// Stands in for kernels/include/sm100.h: multiplications happen by the engine, and read both
// descriptors and the instruction bit by bit. Those into the same sums happen in the order asked for;
// in every second launch later ones into other sums go before them, as the rules allow.
#pragma once
#define FIZEAU_SM100_H
#include "sm90.h"

namespace model {

inline f32 tensor_memory[128][512];
// Multiplications that were asked for, in this order.
struct Asked {
  u32 sums;
  u64 serial;
  std::function<void()> perform;
};
inline std::deque<Asked> asked;
inline u64 asked_so_far;

inline void perform_asked(std::deque<Asked>::iterator which) {
  const std::function<void()> perform = which->perform;
  asked.erase(which);
  perform();
}
inline void ask(u32 sums, std::function<void()> perform) {
  asked.push_back({sums, asked_so_far++, perform});
  engine.push_back([] {
    if (asked.empty()) return;
    auto which = asked.begin();
    while (launches % 2 == 1 && which->sums != asked.back().sums) which++;
    perform_asked(which);
  });
}

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
  const u64 before = model::asked_so_far;
  model::engine.push_back([=] {
    while (!model::asked.empty() && model::asked.front().serial < before) {
      model::perform_asked(model::asked.begin());
    }
    model::arrive_with(barrier, 0);
  });
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
  ask(sums, [=] {
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

// Scales of a row of A or a column of B, 4 bytes in the lane of its number below 32, the others in
// the columns after; the same for each 32 lanes. Exact for the scales of ones and powers of two.
DEVICE void multiply_scaled_into(u32 sums, u64 a, u64 b, u32 instruction, u32 accumulate,
                                 u32 scales_a, u32 scales_b, e2m1) {
  const u32 rows = (instruction >> 27 & 3) * 128, columns = (instruction >> 17 & 63) * 8;
  if ((instruction & ~0x187e0000u) != 0x480u) model::fail("another type, or bits that should be 0");
  if (rows != 128 || columns == 0) model::fail("a tile that cannot be");
  model::ask(sums, [=] {
    const auto values = [](u64 descriptor, u32 line, u32 scales) {
      std::vector<f32> made(64);
      for (u32 k = 0; k < 64; k++) {
        u8 pair;
        memcpy(&pair, model::described(model::older(descriptor), true, 1, line, k / 2), 1);
        const u32 column = scales + line / 32, byte = k / 16 * 8;
        const u32 word = bits_of(model::tensor_memory[line % 32][column]);
        for (u32 lane = line % 32 + 32; lane < 128; lane += 32) {
          const u32 other = bits_of(model::tensor_memory[lane][column]);
          if (other != word) model::fail("scales that differ between the lanes of warps");
        }
        made[k] = model::value_of_e2m1(pair, k % 2) * widen(e4m3{u8(word >> byte)});
      }
      return made;
    };
    std::vector<std::vector<f32>> lines;
    for (u32 row = 0; row < rows; row++) lines.push_back(values(a, row, scales_a));
    for (u32 column = 0; column < columns; column++) {
      const std::vector<f32> of_b = values(b, column, scales_b);
      for (u32 row = 0; row < rows; row++) {
        f32 sum = accumulate ? model::tensor_memory[row][sums + column] : 0.0f;
        for (u32 k = 0; k < 64; k++) sum += lines[row][k] * of_b[k];
        model::tensor_memory[row][sums + column] = sum;
      }
    }
  });
}

DEVICE void load_sums(f32 (&sums)[32], u32 column) {
  const u32 lane = column >> 16, first = column & 0xffff;
  if (lane != model::current / 32 % 4 * 32) model::fail("a warp reads another's lanes");
  for (u32 i = 0; i < 32; i++) {
    sums[i] = model::tensor_memory[lane + model::current % 32][first + i];
  }
}
