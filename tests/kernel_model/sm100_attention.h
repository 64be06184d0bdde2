// Stands in for kernels/include/sm100_attention.h.
#pragma once
#define FIZEAU_SM100_ATTENTION_H
#include "sm100.h"
#include "sm90_attention.h"

// As many elements of A in each column as it has room for, the first in the lowest bits.
template <class T>
void multiply_from(u32 sums, u32 a, u64 b, u32 instruction, u32 accumulate, T) {
  constexpr u32 TOGETHER = 4 / sizeof(T), DEPTH = 8 * TOGETHER;
  const u32 type = instruction >> 7 & 7, wanted = std::is_same<T, bf16>::value;
  const u32 rows = (instruction >> 24 & 31) * 16, columns = (instruction >> 17 & 63) * 8;
  if ((instruction & ~0x1f7f1fb0u) != 0 || (instruction >> 16 & 1) != 1 || rows != 128) {
    model::fail("an instruction that this one cannot be");
  }
  if (type != wanted || (instruction >> 10 & 7) != wanted) model::fail("another type");
  model::ask(sums, [=] {
    for (u32 row = 0; row < rows; row++) {
      f32 left[DEPTH];
      for (u32 k = 0; k < DEPTH; k++) {
        const u32 word = bits_of(model::tensor_memory()[row][a + k / TOGETHER]);
        const u32 exchanged = model::planted ? k ^ 1 : k;
        left[k] = widen(model::element<T>(word, exchanged % TOGETHER));
      }
      for (u32 column = 0; column < columns; column++) {
        f32 sum = accumulate ? model::tensor_memory()[row][sums + column] : 0.0f;
        for (u32 k = 0; k < DEPTH; k++) {
          T right;
          memcpy(&right, model::described(model::older(b), false, sizeof(T), column, k), sizeof(T));
          sum += left[k] * widen(right);
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
template <class Word, u32 COUNT> void store_words(const Word (&words)[COUNT], u32 column) {
  const u32 lane = column >> 16, first = column & 0xffff;
  if (lane != thread_index() / 32 % 4 * 32) model::fail("a warp writes another's lanes");
  std::vector<f32> kept(COUNT);
  memcpy(kept.data(), words, 4 * COUNT);
  const u32 row = lane + model::current % 32;
  auto& memory = model::tensor_memory();
  model::open_words[model::current].push_back([=, &memory] {
    memcpy(&memory[row][first], kept.data(), 4 * COUNT);
  });
}
DEVICE void compute_later(u32 column) {
  if (column == ~0u) model::fail("a column that tensor memory has not");
}
// In some launches this takes so long that whoever waits for nothing goes on.
DEVICE void await_words() {
  if (model::launches % 3 == 0) model::take_long(40);
  for (auto& each : model::open_words[model::current]) each();
  model::open_words[model::current].clear();
}

struct TwoFloats { f32 first, second; };
DEVICE TwoFloats fused(TwoFloats a, TwoFloats b, TwoFloats c) {
  return {fused(a.first, b.first, c.first), fused(a.second, b.second, c.second)};
}
DEVICE TwoFloats operator+(TwoFloats a, TwoFloats b) { return {a.first + b.first, a.second + b.second}; }
// Where whole numbers are one apart.
DEVICE f32 add_down(f32 a, f32 b) {
  const f64 sum = std::floor(f64(a) + f64(b));
  if (sum < 1 << 23 || sum >= 1 << 24) model::fail("a sum beyond what the model rounds");
  return f32(sum);
}
DEVICE TwoFloats add_down(TwoFloats a, TwoFloats b) {
  return {add_down(a.first, b.first), add_down(a.second, b.second)};
}
