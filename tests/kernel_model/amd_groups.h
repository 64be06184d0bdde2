// What tests of AMD's generations share of products for groups of rows.
#pragma once
#include <numeric>

#include "amd_check.h"

namespace {

template <class In, class Out>
void check_groups(const char* name, void (*kernel)(GroupedParams), u32 blocks,
                  const std::vector<u32>& rows, u32 n, u32 k) {
  const u32 groups = u32(rows.size()), m = std::accumulate(rows.begin(), rows.end(), 0u);
  check_products<In, Out>(name, blocks, rows, n, k, [&](In* a, In* b, u8* c, const u32* firsts) {
    kernel(GroupedParams{a, b, c, firsts, m, n, k, groups, 0, 0});
  });
}

template <class In, class Out>
void check(const char* name, void (*kernel)(GroupedParams), u32 depth) {
  // Groups without rows at both ends and one after the other; more than a tile's rows; few of many.
  check_groups<In, Out>(name, kernel, 3, {0, 131, 0, 0, 3, 1, 65, 0}, 272, 4 * depth + 16);
  check_groups<In, Out>(name, kernel, 3, {5}, 16, 16);
  check_groups<In, Out>(name, kernel, 17, {0, 0, 0, 2, 0, 1, 1, 0, 0, 0, 0, 1, 17, 0, 0, 1}, 272, 32);
  // More groups than a wave has lanes, most of them without rows, a wave's worth of them among those.
  for (u32 groups : {64, 65, 193}) {
    std::vector<u32> rows(groups);
    for (u32 group = 0; group < groups; group++) {
      rows[group] = group % 13 == 11 && group / 64 != 1 ? group % 3 + 1 : 0;
    }
    rows[groups - 1] = 130;
    check_groups<In, Out>(name, kernel, 3, rows, 16, 32);
  }
}

}  // namespace
