// Recurrences by their portable kernel, on random sequences with keys that lanes fill and do not,
// against the same in f64: each element of a new state and each output is the rounding of a number
// that is within a bound of the right one.
#include "gpu.h"
#include "sm80.h"

#include "params.h"
#include "recurrence/portable.cu"

#include "checks.h"

namespace {

// What f32 may lose of sums of up to 512 products, relative to the sum of their sizes.
constexpr f64 BOUND = 1.0 / 131072;

u64 drawn;
f64 uniform() {
  drawn = drawn * 6364136223846793005ull + 1442695040888963407ull;
  return f64(drawn >> 11) / f64(1ull << 53) * 2 - 1;
}
f32 random(f32) { return f32(uniform() * 1.7); }
bf16 random(bf16) { return narrow(f32(uniform() * 1.7), bf16()); }

bool is_right(f64 wanted, f64 size, f32 got) { return std::fabs(got - wanted) <= BOUND * size; }
// The numbers that round to a value lie between the middles of it and its neighbours.
bool is_right(f64 wanted, f64 size, bf16 got) {
  const u32 bits = got.bits & 0x7fff;
  const auto value = [](u32 bits) { return f64(float_of(bits << 16)); };
  const f64 below = bits ? (value(bits - 1) + value(bits)) / 2 : -value(1) / 2;
  const f64 above = (value(bits) + value(bits + 1)) / 2;
  const f64 signed_wanted = got.bits & 0x8000 ? -wanted : wanted;
  return signed_wanted >= below - BOUND * size && signed_wanted <= above + BOUND * size;
}

struct Shape { u32 batch, heads, key_heads, key, value, blocks; };

enum class Of { GatedDelta, Kda, Mamba2 };

template <class T>
void check(const Shape& shape, Of of, const char* name, void (*kernel)(const RecurrenceParams)) {
  const auto [batch, heads, key_heads, key, value, blocks] = shape;
  const u64 states = u64(batch) * heads, keys = u64(batch) * key_heads * key;
  const u32 decays = of == Of::Kda ? key : 1;
  Array<T> state(states * value * key), updated(states * value * key);
  Array<bf16> query(keys), keyed(keys), values(states * value), output(states * value);
  Array<f32> decay(states * decays), rate(states), skip(heads);
  for (u64 i = 0; i < state.count; i++) state.data()[i] = random(T());
  const f64 size = 1 / std::sqrt(f64(key));
  for (u64 i = 0; i < keys; i++) {
    query.data()[i] = narrow(f32(uniform() * size), bf16());
    keyed.data()[i] = narrow(f32(uniform() * size), bf16());
  }
  for (u64 i = 0; i < values.count; i++) values.data()[i] = random(bf16());
  for (u64 i = 0; i < decay.count; i++) decay.data()[i] = f32(0.75 + uniform() / 4);
  for (u64 i = 0; i < states; i++) rate.data()[i] = f32(0.5 + uniform() / 2);
  for (u32 i = 0; i < heads; i++) skip.data()[i] = f32(1 + uniform() / 2);
  const RecurrenceParams p = {
      state.data(), updated.data(), query.data(), keyed.data(), values.data(), decay.data(),
      rate.data(), of == Of::Mamba2 ? skip.data() : nullptr, output.data(), batch, heads,
      key_heads, key, value, 0};
  model::launch(blocks, 128, 0, [&] { kernel(p); });
  for (u64 at = 0; at < states; at++) {
    const u64 first_key = (at / heads * key_heads + at % heads / (heads / key_heads)) * key;
    const auto q = [&](u32 i) { return f64(widen(query.data()[first_key + i])); };
    const auto k = [&](u32 i) { return f64(widen(keyed.data()[first_key + i])); };
    for (u32 row = 0; row < value; row++) {
      const u64 first = (at * value + row) * key;
      const auto decayed = [&](u32 i) {
        return f64(widen(state.data()[first + i])) * decay.data()[at * decays + i % decays];
      };
      const f64 v = widen(values.data()[at * value + row]), b = rate.data()[at];
      f64 kept = 0, kept_size = 0;
      for (u32 i = 0; i < key && of != Of::Mamba2; i++) {
        kept += decayed(i) * k(i);
        kept_size += std::fabs(decayed(i) * k(i));
      }
      const f64 change = b * (v - kept), change_size = b * (std::fabs(v) + kept_size);
      const f64 skipped = of == Of::Mamba2 ? f64(skip.data()[at % heads]) * v : 0;
      f64 wanted = skipped, sizes = std::fabs(skipped);
      for (u32 i = 0; i < key; i++) {
        const f64 now = decayed(i) + change * k(i);
        const f64 size = std::fabs(decayed(i)) + change_size * std::fabs(k(i));
        same(is_right(now, size, updated.data()[first + i]), name, "an element of a state");
        wanted += now * q(i);
        sizes += size * std::fabs(q(i));
      }
      same(is_right(wanted, sizes, output.data()[at * value + row]), name, "an output");
    }
  }
  same(state.intact() && updated.intact() && query.intact() && keyed.intact() &&
       values.intact() && output.intact() && decay.intact() && rate.intact() && skip.intact(),
       name, "a write beside an array");
}

}  // namespace

int main() {
  // Keys of today's models, then shorter ones, odd multiples of 16 and the longest; values that no
  // turn divides.
  const Shape shapes[] = {{1, 2, 1, 128, 128, 3}, {2, 3, 3, 128, 21, 2}, {1, 4, 2, 64, 33, 2},
                          {2, 2, 1, 16, 5, 1},    {1, 3, 1, 48, 17, 2},  {1, 2, 2, 240, 9, 1},
                          {1, 1, 1, 256, 7, 1},   {1, 2, 1, 512, 6, 2}};
  for (u64 seed : {2, 4, 7, 12}) {
    drawn = seed;
    for (const Shape& shape : shapes) {
      check<f32>(shape, Of::GatedDelta, "recurrence/gated_delta/f32", recurrence_gated_delta_f32);
      check<bf16>(shape, Of::GatedDelta, "recurrence/gated_delta/bf16", recurrence_gated_delta_bf16);
      check<f32>(shape, Of::Kda, "recurrence/kda/f32", recurrence_kda_f32);
      check<bf16>(shape, Of::Kda, "recurrence/kda/bf16", recurrence_kda_bf16);
      check<f32>(shape, Of::Mamba2, "recurrence/mamba2/f32", recurrence_mamba2_f32);
      check<bf16>(shape, Of::Mamba2, "recurrence/mamba2/bf16", recurrence_mamba2_bf16);
    }
  }
  printf("%u checks passed\n", checked);
}
