// The greatest of some numbers by the portable kernel: exactly those that sorting finds, of equal ones
// the first, whatever the order that they are left in.
#include "gpu.h"
#include "sm80.h"

#include "params.h"
#include "sparse/portable_top_k.cu"

#include "checks.h"

#include <algorithm>

namespace {

u64 drawn;
u32 below(u32 end) {
  drawn = drawn * 6364136223846793005ull + 1442695040888963407ull;
  return u32(drawn >> 33) % end;
}

// Random numbers, a few different ones, and the same one everywhere.
enum class Of { Any, Few, One };

struct Shape { u32 rows, context, selected, blocks; Of of; };

void check(const Shape& shape, std::vector<u64>& scratch) {
  const char* name = "sparse/top_k";
  const auto [rows, context, selected, blocks, of] = shape;
  Array<f32> logits(u64(rows) * context);
  Array<u32> selection(u64(rows) * selected);
  for (u64 i = 0; i < logits.count; i++) {
    const f32 any = f32(i32(below(1 << 20)) - (1 << 19)) / 65536;
    const f32 few = f32(i32(below(7)) - 3) + 0.5f;
    logits.data()[i] = of == Of::Any ? any : of == Of::Few ? few : -2.5f;
  }
  const SparseTopKParams p = {logits.data(), selection.data(), rows, context, selected, 0};
  memset(static_cast<void*>(selection.data()), 0xff, selection.count * 4);
  model::launch(blocks, THREADS, 0, [&] { sparse_top_k(p, scratch.data()); });
  std::vector<u32> order(context);
  for (u32 row = 0; row < rows; row++) {
    const f32* numbers = logits.data() + u64(row) * context;
    for (u32 i = 0; i < context; i++) order[i] = i;
    std::sort(order.begin(), order.end(), [&](u32 a, u32 b) {
      return numbers[a] != numbers[b] ? numbers[a] > numbers[b] : a < b;
    });
    std::sort(order.begin(), order.begin() + selected);
    u32* got = selection.data() + u64(row) * selected;
    std::sort(got, got + selected);
    for (u32 i = 0; i < selected; i++) same(got[i] == order[i], name, "a place");
  }
  same(logits.intact() && selection.intact(), name, "a write beside an array");
}

}  // namespace

int main() {
  // Whole rows and parts, rows of which all is wanted, more equal numbers than fit in shared memory.
  const Shape shapes[] = {{1, 700, 64, 1, Of::Any},    {3, 1000, 100, 8, Of::Any},
                          {2, 2600, 37, 9, Of::Few},   {1, 5000, 300, 5, Of::One},
                          {1, 4100, 600, 1, Of::Few},  {2, 40, 40, 3, Of::Any},
                          {1, 3, 1, 2, Of::One},       {1, 30000, 2048, 4, Of::Few},
                          {2, 500, 450, 2, Of::Any}};
  for (u64 seed : {2, 4, 7, 12}) {
    drawn = seed;
    // Zeros at first, as a launch leaves them in its counts.
    std::vector<u64> scratch(9 * SLOT);
    for (const Shape& shape : shapes) check(shape, scratch);
  }
  printf("%u checks passed\n", checked);
}
