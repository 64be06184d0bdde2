// Stands in for kernels/include/sm100_attention.h.
#pragma once
#define FIZEAU_SM100_ATTENTION_H
#include "sm100.h"
#include "sm90_attention.h"

// Two 16-bit elements of A in each column, the first in the lower half.
DEVICE void multiply_from(u32 sums, u32 a, u64 b, u32 instruction, u32 accumulate) {
  const u32 type = instruction >> 7 & 7;
  const u32 rows = (instruction >> 24 & 31) * 16, columns = (instruction >> 17 & 63) * 8;
  if ((instruction & ~0x1f7f1fb0u) != 0 || (instruction >> 16 & 1) != 1 || rows != 128) {
    model::fail("an instruction that this one cannot be");
  }
  const auto of = [type](u32 bits) {
    return type == 1 ? widen(bf16{u16(bits)}) : widen(f16{u16(bits)});
  };
  model::ask(sums, [=] {
    for (u32 row = 0; row < rows; row++) {
      f32 left[16];
      for (u32 k = 0; k < 16; k++) {
        const u32 exchanged = model::planted ? k ^ 1 : k;
        left[k] = of(bits_of(model::tensor_memory()[row][a + k / 2]) >> 16 * (exchanged % 2));
      }
      for (u32 column = 0; column < columns; column++) {
        f32 sum = accumulate ? model::tensor_memory()[row][sums + column] : 0.0f;
        for (u32 k = 0; k < 16; k++) {
          u16 bits;
          memcpy(&bits, model::described(model::older(b), false, 2, column, k), 2);
          sum += left[k] * of(bits);
        }
        model::tensor_memory()[row][sums + column] = sum;
      }
    }
  });
}

template <u32 COUNT> void load_columns(f32 (&row)[COUNT], u32 column) {
  for (u32 part = 0; part < COUNT; part += 32) {
    load_sums(*reinterpret_cast<f32(*)[32]>(row + part), column + part);
  }
}
DEVICE void load_row(f32 (&row)[128], u32 column) { load_columns(row, column); }
DEVICE void load_half(f32 (&row)[64], u32 column) { load_columns(row, column); }
// Stores are done when they are awaited.
template <class Word> void store_words(const Word (&words)[32], u32 column) {
  const u32 lane = column >> 16, first = column & 0xffff;
  if (lane != model::current / 32 % 4 * 32) model::fail("a warp writes another's lanes");
  std::vector<f32> kept(32);
  memcpy(kept.data(), words, 128);
  const u32 row = lane + model::current % 32;
  auto& memory = model::tensor_memory();
  model::open_words[model::current].push_back([=, &memory] {
    memcpy(&memory[row][first], kept.data(), 128);
  });
}
DEVICE void await_words() {
  for (auto& each : model::open_words[model::current]) each();
  model::open_words[model::current].clear();
}

// Where whole numbers are one apart.
DEVICE f32 add_down(f32 a, f32 b) {
  const f64 sum = std::floor(f64(a) + f64(b));
  if (sum < 1 << 23 || sum >= 1 << 24) model::fail("a sum beyond what the model rounds");
  return f32(sum);
}
