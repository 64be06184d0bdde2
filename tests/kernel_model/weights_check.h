// Products of bf16 by weights of fewer bits, compared with a plain computation.
#pragma once
#include "checks.h"
#include "scaled_model.h"
#include "stream_k_check.h"
#include "weights.h"

namespace model {

// What a 4-bit weight is worth without its scale.
inline f32 weight_value(u32 bits, bf16int4) { return f32(i32(bits) - 8); }
inline f32 weight_value(u32 bits, bf16mxfp4) { return value_of_e2m1(bits, 0); }

// Which nibble of its word the weight of an index along k is.
constexpr u32 NIBBLE_OF_WEIGHT[8] = {0, 4, 1, 5, 2, 6, 3, 7};

}  // namespace model

namespace {

// Weights are all that there are in 4 bits, scales powers of two and, where they can be, others; sums
// of them are exact.
template <class In> struct WeightProduct {
  const char* name;
  u32 m, n, k;
  Array<bf16> a;
  Array<u8> b, scales;
  std::vector<f32> values;
  Array<bf16> c;

  static u64 scale_bytes(u32 n, u32 k) {
    return In::SCALE_BITS == 0 ? u64(n) * 4 : u64((k + 127) / 128) * n * In::SCALE_BITS / 8;
  }

  WeightProduct(const char* name, u32 m, u32 n, u32 k)
      : name(name), m(m), n(n), k(k), a(u64(m) * k), b(u64(n) * k * In::BITS / 8),
        scales(scale_bytes(n, k)), values(u64(n) * k), c(u64(m) * n) {
    for (u64 i = 0; i < a.count; i++) a.data()[i] = narrow(f32(small_integer()), bf16());
    memset(b.data(), 0, b.count);
    memset(scales.data(), 0, scales.count);
    for (u32 column = 0; column < n; column++) {
      f32 scale = 0.0f;
      for (u32 i = 0; i < k; i++) {
        if (i % (In::SCALE_BITS == 32 ? 32 : In::SCALE_BITS == 16 ? 128 : k) == 0) {
          scale = made_scale(column, i, In());
        }
        values[u64(column) * k + i] = made_weight(u64(column) * k + i, In()) * scale;
      }
    }
  }

  template <class Other> f32 made_weight(u64 at, Other) {
    const u32 bits = u32(small_integer() + 3) | (small_integer() > 0 ? 8 : 0);
    reinterpret_cast<u32*>(b.data())[at / 8] |= bits << 4 * model::NIBBLE_OF_WEIGHT[at % 8];
    return model::weight_value(bits, Other());
  }
  f32 made_weight(u64 at, bf16fp8) {
    const e4m3 made = made_e4m3(small_integer());
    b.data()[at] = made.bits;
    return widen(made);
  }
  f32 made_scale(u32 column, u32 i, bf16int4) {
    // 1/4 .. 2.
    const f32 scale = f32(small_integer() + 4) / 4.0f;
    reinterpret_cast<bf16*>(scales.data())[u64(i / 128) * n + column] = narrow(scale, bf16());
    return scale;
  }
  f32 made_scale(u32 column, u32 i, bf16mxfp4) {
    const u8 bits = u8(126 + u32(small_integer() + 3) % 4);
    scales.data()[(u64(i / 128) * n + column) * 4 + i % 128 / 32] = bits;
    return model::scale_value(bits, mxfp4());
  }
  f32 made_scale(u32 column, u32, bf16fp8) {
    const f32 scale = f32(small_integer() + 4) / 4.0f;
    reinterpret_cast<f32*>(scales.data())[column] = scale;
    return scale;
  }

  GemmParams params() {
    return {a.data(), b.data(), c.data(), m, n, k, 0, nullptr, scales.data()};
  }
  void check(u32 blocks) {
    bool equal = c.intact();
    for (u64 at = 0; at < c.count; at++) {
      const u64 row = at / n * k, column = at % n * k;
      f32 sum = 0.0f;
      for (u32 i = 0; i < k; i++) sum += widen(a.data()[row + i]) * values[column + i];
      const bf16 wanted = narrow(sum, bf16());
      equal = equal && memcmp(&wanted, &c.data()[at], sizeof wanted) == 0;
    }
    char shape[64];
    snprintf(shape, sizeof shape, "%u x %u x %u on %u blocks", m, n, k, blocks);
    same(equal, name, shape);
    model::count_for(name);
    printf("%s %s\n", name, shape);
  }

  static void check(const char* name, void (*kernel)(GemmParams), u32 blocks, u32 m, u32 n, u32 k) {
    WeightProduct product(name, m, n, k);
    model::launch(blocks, 256, 0, [&] { kernel(product.params()); });
    product.check(blocks);
  }
  static void check(const char* name, void (*kernel)(GemmParams, f32*), u32 blocks, u32 m, u32 n,
                    u32 k) {
    WeightProduct product(name, m, n, k);
    shared_tiles(product, blocks, [&](f32* scratch) {
      model::launch(blocks, 256, 81920, [&] { kernel(product.params(), scratch); });
    }, 65600);
  }
};

}  // namespace
