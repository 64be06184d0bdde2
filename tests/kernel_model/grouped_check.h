// Checks of products for groups of rows: groups of any number of rows, none among them, each with a
// matrix of its own. Those of groups without rows hold what is not a number, and nothing of it may
// come into a result.
#pragma once
#include "checks.h"
#include "sm90.h"

namespace {

template <class In> In made_of(i32 value) { return narrow(f32(value), In()); }
template <> e4m3 made_of<e4m3>(i32 value) { return made_e4m3(value); }

template <class In, class Out> struct GroupedProduct {
  static constexpr bool COLUMNS_OF_B = std::is_same<In, e4m3>::value;

  const char* name;
  std::vector<u32> firsts;
  u32 m, n, k, groups, rows_max;
  Array<In> a, b;
  Array<Out> c;

  static u32 sum(const std::vector<u32>& rows) {
    u32 all = 0;
    for (u32 of_group : rows) all += of_group;
    return all;
  }

  GroupedProduct(const char* name, const std::vector<u32>& rows, u32 n, u32 k)
      : name(name), m(sum(rows)), n(n), k(k), groups(u32(rows.size())), rows_max(0),
        a(u64(m) * k), b(u64(groups) * k * n), c(u64(m) * n) {
    for (u64 i = 0; i < a.count; i++) a.data()[i] = made_of<In>(small_integer());
    memset(static_cast<void*>(b.data()), 0xff, b.count * sizeof(In));
    firsts.push_back(0);
    for (u32 group = 0; group < groups; group++) {
      firsts.push_back(firsts.back() + rows[group]);
      rows_max = rows[group] > rows_max ? rows[group] : rows_max;
      In* of_group = b.data() + u64(group) * k * n;
      if (rows[group] == 0) continue;
      for (u64 i = 0; i < u64(k) * n; i++) of_group[i] = made_of<In>(small_integer());
    }
  }
  GroupedParams params() {
    return {a.data(), b.data(), c.data(), firsts.data(), m, n, k, groups, rows_max, 0};
  }

  f32 element(u32 group, u32 row, u32 column) {
    f32 sum = 0;
    for (u32 i = 0; i < k; i++) {
      const u64 at = COLUMNS_OF_B ? u64(column) * k + i : u64(i) * n + column;
      sum += widen(a.data()[u64(row) * k + i]) * widen(b.data()[u64(group) * k * n + at]);
    }
    return sum;
  }

  void check(u32 blocks) {
    bool equal = c.intact();
    for (u32 group = 0; group < groups; group++) {
      for (u32 row = firsts[group]; row < firsts[group + 1]; row++) {
        for (u32 column = 0; column < n; column++) {
          const Out wanted = narrow(element(group, row, column), Out());
          equal = equal && memcmp(&wanted, &c.data()[u64(row) * n + column], sizeof(Out)) == 0;
        }
      }
    }
    char shape[64];
    snprintf(shape, sizeof shape, "%u x %u x %u, %u groups on %u blocks", m, n, k, groups, blocks);
    same(equal, name, shape);
    model::count_for(name);
    printf("%s %s\n", name, shape);
  }

  using Plain = void (*)(GroupedParams);
  using ByMaps = void (*)(GroupedParams, TensorMap, TensorMap, TensorMap);

  static void check(const char* name, Plain kernel, u32 blocks, u32 shared,
                    const std::vector<u32>& rows, u32 n, u32 k) {
    GroupedProduct product(name, rows, n, k);
    const GroupedParams params = product.params();
    model::launch(blocks, 256, shared, [&] { kernel(params); });
    product.check(blocks);
  }

  // Rows of the boxes of A, B and C, threads of a block and blocks of a cluster.
  struct Form { u32 a, b, c, threads, cluster; };
  static void check(const char* name, ByMaps kernel, u32 blocks, const std::vector<u32>& rows,
                    u32 n, u32 k, Form form) {
    GroupedProduct product(name, rows, n, k);
    const GroupedParams params = product.params();
    constexpr u32 IN = sizeof(In);
    const auto bytes = [](auto& array) { return reinterpret_cast<u8*>(array.data()); };
    const u32 groups = product.groups;
    const TensorMap a = {bytes(product.a), IN, k, product.m, {128 / IN, form.a}};
    const TensorMap b =
        COLUMNS_OF_B ? TensorMap{bytes(product.b), IN, k, u64(groups) * n, {128 / IN, form.b}}
                     : TensorMap{bytes(product.b), IN, n, u64(groups) * k, {128 / IN, 128 / IN}};
    const TensorMap c = {bytes(product.c), sizeof(Out), n, product.m, {128 / sizeof(Out), form.c}};
    model::launch(blocks, form.threads, 229632, [&] { kernel(params, a, b, c); }, form.cluster);
    product.check(blocks);
  }
};

// Groups without rows at both ends and one after the other; more than a tile's rows; few of many.
const std::vector<std::vector<u32>> DEALT = {
    {0, 131, 0, 0, 3, 1, 65, 0}, {5}, {0, 0, 0, 2, 0, 1, 1, 0, 0, 0, 0, 1, 17, 0, 0, 1}};

template <class In, class Out, class Kernel>
void grouped_plain(const char* name, Kernel kernel, u32 shared, u32 n, u32 k) {
  for (const auto& rows : DEALT) {
    GroupedProduct<In, Out>::check(name, kernel, 3, shared, rows, n, k);
  }
}

template <class In, class Out, class Kernel> void grouped_by_maps(const char* name, Kernel kernel) {
  constexpr typename GroupedProduct<In, Out>::Form WGMMA = {64, 128, 64, 384, 2};
  // Tiles of a group below each other, or beside each other, one of which may be outside of C.
  for (const auto& rows : DEALT) {
    GroupedProduct<In, Out>::check(name, kernel, 4, rows, 320, 256 / sizeof(In), WGMMA);
  }
  GroupedProduct<In, Out>::check(name, kernel, 2, {3, 300, 0, 9}, 64, 768 / sizeof(In), WGMMA);
}

// Tiles by one block each, in tensor memory.
template <class In, class Out, class Kernel>
void grouped_by_tcgen05(const char* name, Kernel kernel) {
  constexpr typename GroupedProduct<In, Out>::Form TCGEN05 = {128, 64, 128, 256, 1};
  for (const auto& rows : DEALT) {
    GroupedProduct<In, Out>::check(name, kernel, 3, rows, 320, 256 / sizeof(In), TCGEN05);
  }
  GroupedProduct<In, Out>::check(name, kernel, 2, {3, 300, 0, 9}, 64, 768 / sizeof(In), TCGEN05);
}

}  // namespace
