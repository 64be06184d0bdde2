// Checks of single products.
#pragma once
#include "sm90.h"
#include "stream_k_check.h"

namespace {

// Rows of the boxes that tensor maps move, and bytes of B that stay together where its rows are along n.
struct Boxes { u32 a, b, c, atom_b = 16; };

// One product: operands, parameters, and whether what was left is right. COLUMNS_OF_B: B stands column by
// column.
template <class In, class Out, bool COLUMNS_OF_B = std::is_same<In, e4m3>::value> struct Product {
  using Wide = decltype(widen(In()));

  const char* name;
  u32 m, n, k;
  Array<In> a, b;
  Array<Out> c;

  static In made(i32 value, bf16) { return narrow(f32(value), In()); }
  static In made(i32 value, f16) { return narrow(f32(value), In()); }
  static In made(i32 value, f32) { return f32(value); }
  static In made(i32 value, f64) { return f64(value); }
  static In made(i32 value, i8) { return In(value); }
  static In made(i32 value, e4m3) { return made_e4m3(value); }

  Product(const char* name, u32 m, u32 n, u32 k)
      : name(name), m(m), n(n), k(k), a(u64(m) * k), b(u64(k) * n), c(u64(m) * n) {
    for (u64 i = 0; i < a.count; i++) a.data()[i] = made(small_integer(), In());
    for (u64 i = 0; i < b.count; i++) b.data()[i] = made(small_integer(), In());
  }
  GemmParams params() { return {a.data(), b.data(), c.data(), m, n, k, 0}; }

  std::array<TensorMap, 3> maps(Boxes boxes) {
    constexpr u32 IN = sizeof(In), OUT = sizeof(Out);
    const auto bytes = [](auto& array) { return reinterpret_cast<u8*>(array.data()); };
    const TensorMap of_a = {bytes(a), IN, k, m, {128 / IN, boxes.a}};
    const TensorMap of_b = COLUMNS_OF_B ? TensorMap{bytes(b), IN, k, n, {128 / IN, boxes.b}}
                                        : TensorMap{bytes(b), IN, n, k, {128 / IN, 128 / IN}, boxes.atom_b};
    return {of_a, of_b, TensorMap{bytes(c), OUT, n, m, {128 / OUT, boxes.c}}};
  }

  Wide element(u32 row, u32 column) {
    Wide sum = 0;
    for (u32 i = 0; i < k; i++) {
      const u64 at = COLUMNS_OF_B ? u64(column) * k + i : u64(i) * n + column;
      sum += widen(a.data()[u64(row) * k + i]) * widen(b.data()[at]);
    }
    return sum;
  }

  void check(u32 blocks) {
    bool equal = c.intact();
    for (u32 row = 0; row < m; row++) {
      for (u32 column = 0; column < n; column++) {
        const Out wanted = narrow(element(row, column), Out());
        equal = equal && memcmp(&wanted, &c.data()[u64(row) * n + column], sizeof(Out)) == 0;
      }
    }
    char shape[64];
    snprintf(shape, sizeof shape, "%u x %u x %u on %u blocks", m, n, k, blocks);
    same(equal, name, shape);
    model::count_for(name);
    printf("%s %s\n", name, shape);
  }

  static void check(const char* name, void (*kernel)(GemmParams), u32 blocks, u32 shared, u32 m,
                    u32 n, u32 k) {
    Product product(name, m, n, k);
    const GemmParams params = product.params();
    model::launch(blocks, 256, shared, [&] { kernel(params); });
    product.check(blocks);
  }

  using WithScratch = void (*)(GemmParams, f32*);
  static void check(const char* name, WithScratch kernel, u32 blocks, u32 m, u32 n, u32 k) {
    Product product(name, m, n, k);
    const GemmParams params = product.params();
    shared_tiles(product, blocks, [&](f32* scratch) {
      model::launch(blocks, 256, 98304, [&] { kernel(params, scratch); });
    });
  }

  using ByMaps = void (*)(GemmParams, TensorMap, TensorMap, TensorMap);
  // By a kernel of so many threads, with boxes of so many rows; of B where its rows are columns.
  static void check(const char* name, ByMaps kernel, u32 threads, Boxes boxes, u32 blocks, u32 m,
                    u32 n, u32 k, u32 cluster = 1) {
    Product product(name, m, n, k);
    const GemmParams params = product.params();
    const auto [a, b, c] = product.maps(boxes);
    model::launch(blocks, threads, 229504, [&] { kernel(params, a, b, c); }, cluster);
    product.check(blocks);
  }

  using SharedByMaps = void (*)(GemmParams, f32*, TensorMap, TensorMap, TensorMap);
  static void check(const char* name, SharedByMaps kernel, Boxes boxes, u32 blocks, u32 m, u32 n,
                    u32 k, u32 cluster = 1) {
    Product product(name, m, n, k);
    const GemmParams params = product.params();
    const auto [a, b, c] = product.maps(boxes);
    shared_tiles(product, blocks, [&, a = a, b = b, c = c](f32* scratch) {
      model::launch(blocks, 384, 229504, [&] { kernel(params, scratch, a, b, c); }, cluster);
    });
  }

  using FewByMaps = void (*)(GemmParams, TensorMap, TensorMap);
  // By a kernel of few rows: a box of A has `boxes.a`, and C has no map.
  static void check(const char* name, FewByMaps kernel, Boxes boxes, u32 blocks, u32 m, u32 n,
                    u32 k, u32 cluster = 1, u32 threads = 384) {
    Product product(name, m, n, k);
    const GemmParams params = product.params();
    const auto [a, b, c] = product.maps(boxes);
    for (u32 launch = 0; launch < 2; launch++) {
      memset(static_cast<void*>(product.c.data()), 0xff, product.c.count * sizeof(product.c.data()[0]));
      model::launch(blocks, threads, 229632, [&, a = a, b = b] { kernel(params, a, b); }, cluster);
      product.check(blocks);
    }
  }
};

}  // namespace
