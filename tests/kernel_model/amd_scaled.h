// What tests of AMD's generations share of products whose elements share scales, and of peaks.
#pragma once
#include "amd_check.h"

namespace {

// Rows of A, or columns of B, of elements that share scales: what stands in memory, and the values.
struct Scaled {
  std::vector<Vector<u8>> elements, scales;
  std::vector<f32> values;

  // All elements of 4 bits, small integers of 8; scales of 1/2 to 4.
  Scaled(u32 lines, u32 k, u32 bits)
      : elements(u64(lines) * k * bits / 128), scales(u64(lines + 127) / 128 * ((k + 127) / 128) * 32),
        values(u64(lines) * k) {
    const f32 sizes[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
    u8* bytes = reinterpret_cast<u8*>(elements.data());
    u8* places = reinterpret_cast<u8*>(scales.data());
    for (u32 line = 0; line < lines; line++) {
      for (u32 at = 0; at < k; at++) {
        const u64 place = u64(line) * k + at;
        if (bits == 8) {
          const e4m3 made = ::made(small_integer(), e4m3());
          bytes[place] = made.bits;
          values[place] = widen(made);
        } else {
          const u32 nibble = u32(small_integer() + 3) | u32(small_integer() + 3) / 4 * 8;
          bytes[place / 2] = u8(place % 2 == 0 ? nibble : bytes[place / 2] | nibble << 4);
          values[place] = (nibble & 8 ? -1.0f : 1.0f) * sizes[nibble & 7];
        }
      }
      for (u32 block = 0; block < k / 32; block++) {
        // Tiles of 128 lines and 4 blocks, along k first; in one, lines 0, 32, 64, 96, 1, 33 ...
        const u64 tile = u64(line / 128) * ((k + 127) / 128) + block / 4;
        const u32 in_tile = (line % 32 * 4 + line % 128 / 32) * 4 + block % 4;
        const u32 exponent = u32(small_integer() + 3) % 4;
        places[tile * 512 + in_tile] = u8(126 + exponent);
        for (u32 i = 0; i < 32; i++) {
          values[u64(line) * k + block * 32 + i] *= std::ldexp(0.5f, int(exponent));
        }
      }
    }
  }
};

void check_scaled(const char* name, void (*kernel)(GemmParams), u32 bits, u32 m, u32 n, u32 k) {
  constexpr u32 GUARD = 4096;
  Scaled a(m, k, bits), b(n, k, bits);
  std::vector<Vector<u8>> c_places((u64(m) * n * 2 + GUARD) / 16);
  u8* c = reinterpret_cast<u8*>(c_places.data());
  memset(c, 0xa5, c_places.size() * 16);
  const GemmParams params = {a.elements.data(), b.elements.data(), c, m, n, k, 0,
                             a.scales.data(),   b.scales.data()};
  model::has_64_banks = strstr(name, "cdna4") != nullptr;
  model::launch(2, LANES * 8, 0, [&] { kernel(params); });
  bool equal = true;
  for (u32 row = 0; row < m; row++) {
    for (u32 column = 0; column < n; column++) {
      f32 sum = 0.0f;
      for (u32 i = 0; i < k; i++) sum += a.values[u64(row) * k + i] * b.values[u64(column) * k + i];
      const bf16 wanted = narrow(sum, bf16());
      equal = equal && memcmp(&wanted, c + (u64(row) * n + column) * 2, 2) == 0;
    }
  }
  for (u64 at = u64(m) * n * 2; at < c_places.size() * 16; at++) equal = equal && c[at] == 0xa5;
  char shape[64];
  snprintf(shape, sizeof shape, "%u x %u x %u", m, n, k);
  same(equal, name, shape);
  model::count_for(name);
  printf("%s %s\n", name, shape);
}

[[maybe_unused]] void check_scaled(const char* name, void (*kernel)(GemmParams), u32 bits) {
  check_scaled(name, kernel, bits, 1, 16, 32);
  for (u64 seed : {1, 2, 3, 4}) {
    random_state = seed;
    check_scaled(name, kernel, bits, 131, 272, 160);
  }
  check_scaled(name, kernel, bits, 17, 272, 608);
}

void check_count(const char* name, void (*kernel)(ComputeParams, u32), u64 multiply_adds) {
  f64 partial[16] = {};
  const ComputeParams params = {partial, 2 * multiply_adds};
  model::launch(2, 256, 0, [&] { kernel(params, 3); });
  same(partial[0] == f64(multiply_adds) && partial[8] == f64(multiply_adds), name, "count");
}

}  // namespace
