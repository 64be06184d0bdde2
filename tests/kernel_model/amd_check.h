// What tests of AMD's matrix products share: a product on so many blocks against a plain computation of the same.
// The values are small integers: sums are exact in any order, and nothing but equality passes.
#pragma once
#include "lanes.h"
#include "params.h"
#include "faults.h"

namespace {

bf16 made(i32 value, bf16 type) { return narrow(f32(value), type); }
f16 made(i32 value, f16 type) { return narrow(f32(value), type); }
[[maybe_unused]] f32 made(i32 value, f32) { return f32(value); }
[[maybe_unused]] f64 made(i32 value, f64) { return f64(value); }
i8 made(i32 value, i8) { return i8(value); }
// -3 .. 4, of which 0 has no sign.
e4m3 made(i32 value, e4m3) {
  const u8 sizes[5] = {0x00, 0x38, 0x40, 0x44, 0x48};
  return {u8(value < 0 ? 0x80 | sizes[-value] : sizes[value])};
}

// Products for groups of so many rows on so many blocks, each group with a matrix of its own; those of groups without
// rows hold what is not a number. Guards behind C may not be touched. `kernel(a, b, c, firsts)` makes them.
template <class In, class Out, class Kernel>
void check_products(const char* name, u32 blocks, const std::vector<u32>& rows, u32 n, u32 k, Kernel kernel) {
  constexpr bool COLUMNS_OF_B = std::is_same<In, e4m3>::value;
  constexpr u32 GUARD = 4096;
  using Places = std::vector<Vector<u8>>;
  const u32 groups = u32(rows.size());
  std::vector<u32> firsts = {0};
  for (u32 of_group : rows) firsts.push_back(firsts.back() + of_group);
  const u32 m = firsts.back();
  Places a_places(u64(m) * k * sizeof(In) / 16), b_places(u64(groups) * k * n * sizeof(In) / 16);
  Places c_places((u64(m) * n * sizeof(Out) + GUARD) / 16);
  In* a = reinterpret_cast<In*>(a_places.data());
  In* b = reinterpret_cast<In*>(b_places.data());
  u8* c_bytes = reinterpret_cast<u8*>(c_places.data());
  memset(c_bytes, 0xa5, c_places.size() * 16);
  memset(static_cast<void*>(b), 0xff, b_places.size() * 16);
  for (u64 i = 0; i < u64(m) * k; i++) a[i] = made(small_integer(), In());
  for (u32 group = 0; group < groups; group++) {
    for (u64 i = 0; i < u64(k) * n && rows[group] > 0; i++) {
      b[u64(group) * k * n + i] = made(small_integer(), In());
    }
  }
  model::has_64_banks = strstr(name, "cdna4") != nullptr;
  model::launch(blocks, LANES * 8, 0, [&] { kernel(a, b, c_bytes, firsts.data()); });
  bool equal = true;
  for (u32 group = 0; group < groups; group++) {
    const In* of_group = b + u64(group) * k * n;
    for (u32 row = firsts[group]; row < firsts[group + 1]; row++) {
      for (u32 column = 0; column < n; column++) {
        decltype(widen(In())) sum = 0;
        for (u32 i = 0; i < k; i++) {
          const u64 at = COLUMNS_OF_B ? u64(column) * k + i : u64(i) * n + column;
          sum += widen(a[u64(row) * k + i]) * widen(of_group[at]);
        }
        const Out wanted = narrow(sum, Out());
        const u64 at = (u64(row) * n + column) * sizeof(Out);
        equal = equal && memcmp(&wanted, c_bytes + at, sizeof(Out)) == 0;
      }
    }
  }
  for (u64 at = u64(m) * n * sizeof(Out); at < c_places.size() * 16; at++) {
    equal = equal && c_bytes[at] == 0xa5;
  }
  char shape[64];
  snprintf(shape, sizeof shape, "%u x %u x %u, %u groups on %u blocks", m, n, k, groups, blocks);
  same(equal, name, shape);
  model::count_for(name);
  printf("%s %s\n", name, shape);
}

// One product.
template <class In, class Out, class Kernel>
void check_shape(const char* name, Kernel kernel, u32 blocks, u32 m, u32 n, u32 k) {
  check_products<In, Out>(name, blocks, {m}, n, k, [&](In* a, In* b, u8* c, const u32*) {
    kernel(GemmParams{a, b, c, m, n, k, 0, nullptr, nullptr});
  });
}

// Launch after launch with the same scratch memory, of so many bytes for each block and with guards behind.
template <class In, class Out>
void check_twice(const char* name, void (*kernel)(GemmParams, f32*), u32 bytes, u32 blocks, u32 m,
                 u32 n, u32 k) {
  std::vector<f32> scratch(blocks * bytes / 4 + 1024);
  const auto launch = [&](GemmParams params) { kernel(params, scratch.data()); };
  for (u32 i = 0; i < 2; i++) check_shape<In, Out>(name, launch, blocks, m, n, k);
  for (u32 i = 0; i < 1024; i++) {
    same(scratch[blocks * bytes / 4 + i] == 0.0f, name, "scratch memory");
  }
}

}  // namespace
