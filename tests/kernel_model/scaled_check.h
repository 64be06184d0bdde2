// Products of elements that share scales, compared with a plain computation.
#pragma once
#include "checks.h"
#include "params.h"
#include "scaled_model.h"
#include "sm90.h"

namespace {

// A product of elements that share scales. Elements are all there are in 4 bits, scales powers of two
// and, where they can be, others; sums of them are exact.
template <class In> struct ScaledProduct {
  // Rows of A, or columns of B.
  struct Lines {
    u32 count, k;
    Array<u8> elements, scales;
    std::vector<f32> values;

    static u64 places(u32 count, u32 k) {
      return u64((count + 127) / 128) * ((k / In::BLOCK + 3) / 4) * 512;
    }
    static u8 scale(nvfp4) {
      // 1/2, 1, 3/2, 2.
      const u8 some[4] = {0x30, 0x38, 0x3c, 0x40};
      return some[u32(small_integer() + 3) % 4];
    }
    template <class Other> static u8 scale(Other) { return u8(126 + u32(small_integer() + 3) % 4); }

    Lines(u32 count, u32 k)
        : count(count), k(k), elements(u64(count) * k * In::BITS / 8), scales(places(count, k)),
          values(u64(count) * k) {
      for (u64 i = 0; i < elements.count; i++) {
        if (In::BITS == 8) {
          const e4m3 made = made_e4m3(small_integer());
          elements.data()[i] = made.bits;
          values[i] = widen(made);
        } else {
          const u8 pair = u8(small_integer() + 3) << 4 | u8(small_integer() + 3) | 0x80;
          elements.data()[i] = pair;
          for (u32 half = 0; half < 2; half++) values[2 * i + half] = model::value_of_e2m1(pair, half);
        }
      }
      // In the order of memory: tiles along, then down; in one, rows 0, 32, 64, 96, 1, 33 ...
      u8* next = scales.data();
      for (u32 down = 0; down < count; down += 128) {
        for (u32 along = 0; along < k / In::BLOCK; along += 4) {
          for (u32 row = 0; row < 32; row++) {
            for (u32 at = 0; at < 16; at++) put(next++, down + at / 4 * 32 + row, along + at % 4);
          }
        }
      }
    }
    void put(u8* to, u32 line, u32 block) {
      *to = 0;
      if (line >= count || block >= k / In::BLOCK) return;
      *to = scale(In());
      for (u32 i = 0; i < In::BLOCK; i++) {
        values[u64(line) * k + block * In::BLOCK + i] *= model::scale_value(*to, In());
      }
    }
    TensorMap map(u32 lines) {
      return {elements.data(), 1, u64(k) * In::BITS / 8, count, {128, lines}};
    }
  };

  // No power of two. Of a type without tensor scales it would spoil every sum.
  static f32 factor(nvfp4) { return 0.3f; }
  template <class Other> static f32 factor(Other) { return NAN; }

  const char* name;
  Lines a, b;
  Array<bf16> c;

  ScaledProduct(const char* name, u32 m, u32 n, u32 k)
      : name(name), a(m, k), b(n, k), c(u64(m) * n) {}
  GemmParams params() {
    return {a.elements.data(), b.elements.data(), c.data(), a.count, b.count, a.k, 0,
            a.scales.data(),   b.scales.data(),   factor(In())};
  }
  void check(u32 blocks) {
    bool equal = c.intact();
    for (u64 at = 0; at < c.count; at++) {
      const f32* left = &a.values[at / b.count * a.k];
      const f32* right = &b.values[at % b.count * a.k];
      f32 sum = 0.0f;
      for (u32 i = 0; i < a.k; i++) sum += left[i] * right[i];
      if (std::is_same<In, nvfp4>::value) sum *= factor(In());
      const bf16 wanted = narrow(sum, bf16());
      equal = equal && memcmp(&wanted, &c.data()[at], sizeof wanted) == 0;
    }
    char shape[64];
    snprintf(shape, sizeof shape, "%u x %u x %u on %u blocks", a.count, b.count, a.k, blocks);
    same(equal, name, shape);
    model::count_for(name);
    printf("%s %s\n", name, shape);
  }

  static void check(const char* name, void (*kernel)(GemmParams), u32 blocks, u32 shared, u32 m,
                    u32 n, u32 k) {
    ScaledProduct product(name, m, n, k);
    const GemmParams params = product.params();
    model::launch(blocks, 256, shared, [&] { kernel(params); });
    product.check(blocks);
  }
  static void check(const char* name, void (*kernel)(GemmParams, TensorMap, TensorMap, TensorMap),
                    u32 blocks, u32 m, u32 n, u32 k, u32 cluster = 1) {
    ScaledProduct product(name, m, n, k);
    const GemmParams params = product.params();
    const TensorMap a = product.a.map(128), b = product.b.map(64);
    const TensorMap c = {reinterpret_cast<u8*>(product.c.data()), 2, n, m, {64, 128}};
    model::launch(blocks, 256, 227456, [&] { kernel(params, a, b, c); }, cluster);
    product.check(blocks);
  }
  // Rows and columns of which one block of a pair has none; more stages than a ring has; whole tiles in
  // both places of sums; a last tile that two pairs halve, with columns in both halves.
  static void check_pair(const char* name,
                         void (*kernel)(GemmParams, TensorMap, TensorMap, TensorMap)) {
    const u32 depth = 1024 / In::BITS, odd = In::BITS == 8 ? 32 : 96;
    const u32 shapes[][4] = {{2, 1, 16, 32},
                             {2, 131, 528, 2 * depth + 32},
                             {4, 300, 272, 6 * depth + odd},
                             {2, 520, 1040, depth},
                             {4, 520, 208, 6 * depth + odd}};
    for (const auto& [blocks, m, n, k] : shapes) check(name, kernel, blocks, m, n, k, 2);
  }
  // The same by 96 along k. Each of the eight multiplications of three stages is the last one for some
  // k; it ends in the stage that it begins in, or in the next one, which k reaches or does not reach.
  static void check_longer(const char* name,
                           void (*kernel)(GemmParams, TensorMap, TensorMap, TensorMap)) {
    check_pair(name, kernel);
    for (u32 k : {96, 160, 224, 256, 288, 384, 448, 480, 512, 576, 608, 672, 768, 800, 1056, 2304}) {
      check(name, kernel, 2, 140, 1304, k, 2);
    }
    // Halves, of fewer stages than a whole tile; a stage behind k after three whole ones.
    for (u32 k : {224, 512, 992, 1280}) check(name, kernel, 4, 520, 208, k, 2);
  }
};

// fp8 with scales of 128 along k for each row of A, and of 128 x 128 for B. Scales are powers of two.
struct BlockProduct {
  u32 m, n, k;
  Array<u8> a, b;
  Array<f32> scales_a, scales_b;
  Array<bf16> c;

  BlockProduct(u32 m, u32 n, u32 k)
      : m(m), n(n), k(k), a(u64(m) * k), b(u64(n) * k), scales_a(u64(k / 128) * m),
        scales_b(u64((n + 127) / 128) * (k / 128)), c(u64(m) * n) {
    for (auto* elements : {&a, &b}) {
      for (u64 i = 0; i < elements->count; i++) {
        elements->data()[i] = made_e4m3(small_integer()).bits;
      }
    }
    for (auto* scales : {&scales_a, &scales_b}) {
      for (u64 i = 0; i < scales->count; i++) {
        scales->data()[i] = std::ldexp(1.0f, small_integer() / 2);
      }
    }
  }
  GemmParams params() {
    return {a.data(), b.data(), c.data(), m, n, k, 0, scales_a.data(), scales_b.data()};
  }
  f32 element(u32 row, u32 column) {
    f32 sum = 0.0f;
    for (u32 i = 0; i < k; i++) {
      const f32 left = widen(e4m3{a.data()[u64(row) * k + i]});
      const f32 right = widen(e4m3{b.data()[u64(column) * k + i]});
      const f32 scale = scales_b.data()[column / 128 * (k / 128) + i / 128];
      sum += left * scales_a.data()[i / 128 * m + row] * (right * scale);
    }
    return sum;
  }
  void check(const char* name) {
    bool equal = c.intact();
    for (u64 at = 0; at < c.count; at++) {
      const bf16 wanted = narrow(element(u32(at / n), u32(at % n)), bf16());
      equal = equal && memcmp(&wanted, &c.data()[at], sizeof wanted) == 0;
    }
    char shape[64];
    snprintf(shape, sizeof shape, "%u x %u x %u", m, n, k);
    same(equal, name, shape);
    model::count_for(name);
    printf("%s %s\n", name, shape);
  }
};

}  // namespace
