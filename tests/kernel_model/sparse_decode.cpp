// Attention over selected tokens by its portable kernel, on random tokens, against the same in
// f64. Each output is within what rounding rows and outputs to bf16 may do.
#include "gpu.h"
#include "sm80.h"

#include "params.h"
#include "sparse/portable_decode.cu"

#include "checks.h"

#include <algorithm>

namespace {

u64 drawn;
f64 uniform() {
  drawn = drawn * 6364136223846793005ull + 1442695040888963407ull;
  return f64(drawn >> 11) / f64(1ull << 53) * 2 - 1;
}
u32 below(u32 end) { return u32((uniform() + 1) / 2 * end); }

struct Shape { u32 batch, heads, selected, context, blocks; };

// What a token's row stands for.
void values_of(const u8* row, f64 (&key)[KEY]) {
  for (u32 i = 0; i < LATENT; i++) {
    f32 scale;
    memcpy(&scale, row + LATENT + i / SCALED * 4, 4);
    key[i] = f64(widen(row[i])) * scale;
  }
  for (u32 i = LATENT; i < KEY; i++) {
    u16 bits;
    memcpy(&bits, row + LATENT + 16 + (i - LATENT) * 2, 2);
    key[i] = float_of(u32(bits) << 16);
  }
}

void check_decode(const Shape& shape, std::vector<f32>& scratch) {
  const char* name = "sparse/decode";
  const auto [batch, heads, selected, context, blocks] = shape;
  Array<bf16> queries(u64(batch) * heads * KEY), output(u64(batch) * heads * LATENT);
  Array<u8> cache(u64(batch) * context * ROW);
  Array<u32> indices(u64(batch) * selected);
  for (u64 i = 0; i < queries.count; i++) queries.data()[i] = narrow(f32(uniform() * 2), bf16());
  for (u64 token = 0; token < u64(batch) * context; token++) {
    u8* row = cache.data() + token * ROW;
    for (u32 i = 0; i < LATENT; i++) row[i] = u8((below(2) << 7) | below(0x60));
    for (u32 i = 0; i < LATENT / SCALED; i++) {
      const f32 scale = f32(0.01 + (uniform() + 1) / 8);
      memcpy(row + LATENT + 4 * i, &scale, 4);
    }
    for (u32 i = 0; i < KEY - LATENT; i++) {
      const bf16 element = narrow(f32(uniform() * 2), bf16());
      memcpy(row + LATENT + 16 + 2 * i, &element, 2);
    }
  }
  for (u32 sequence = 0; sequence < batch; sequence++) {
    std::vector<u32> order(context);
    for (u32 i = 0; i < context; i++) order[i] = i;
    for (u32 i = 0; i < selected; i++) {
      std::swap(order[i], order[i + below(context - i)]);
      indices.data()[u64(sequence) * selected + i] = sequence * context + order[i];
    }
  }
  const f32 scale = 1 / 24.0f;
  const SparseDecodeParams p = {queries.data(), cache.data(), indices.data(), output.data(),
                                batch, heads, selected, scale};
  memset(static_cast<void*>(output.data()), 0xff, output.count * 2);
  model::launch(blocks, THREADS, 0, [&] { sparse_decode(p, scratch.data()); });
  std::vector<f64> weights(selected), sums(LATENT), sizes(LATENT);
  for (u64 head = 0; head < u64(batch) * heads; head++) {
    const u32* of_sequence = indices.data() + head / heads * selected;
    f64 key[KEY], largest = -1e300, total = 0;
    for (u32 i = 0; i < selected; i++) {
      values_of(cache.data() + u64(of_sequence[i]) * ROW, key);
      f64 sum = 0;
      for (u32 j = 0; j < KEY; j++) sum += key[j] * widen(queries.data()[head * KEY + j]);
      weights[i] = sum * scale;
      largest = std::max(largest, weights[i]);
    }
    std::fill(sums.begin(), sums.end(), 0.0);
    std::fill(sizes.begin(), sizes.end(), 0.0);
    for (u32 i = 0; i < selected; i++) {
      values_of(cache.data() + u64(of_sequence[i]) * ROW, key);
      const f64 weight = std::exp(weights[i] - largest);
      total += weight;
      for (u32 j = 0; j < LATENT; j++) {
        sums[j] += weight * key[j];
        sizes[j] += weight * std::fabs(key[j]);
      }
    }
    for (u32 j = 0; j < LATENT; j++) {
      const f64 wanted = sums[j] / total, got = widen(output.data()[head * LATENT + j]);
      same(std::fabs(got - wanted) <= std::fabs(wanted) / 256 + sizes[j] / total / 64, name,
           "an output");
    }
  }
  same(queries.intact() && cache.intact() && indices.intact() && output.intact(), name,
       "a write beside an array");
}

}  // namespace

int main() {
  // Heads and tokens that no tile divides, one and several splits, fewer blocks than heads ask for.
  const Shape shapes[] = {{1, 16, 64, 64, 1}, {1, 5, 83, 200, 3},  {2, 16, 130, 300, 8},
                          {3, 20, 40, 41, 4}, {1, 1, 1, 9, 2},     {1, 33, 257, 700, 16}};
  for (u64 seed : {2, 4, 7, 12}) {
    drawn = seed;
    // Zeros at first, as a launch leaves them in its counts.
    std::vector<f32> scratch(16 * SLOT);
    for (const Shape& shape : shapes) check_decode(shape, scratch);
  }
  printf("%u checks passed\n", checked);
}
