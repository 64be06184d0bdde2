// What tests of kernels on the CPU share, whoever's they are: values, and what is said of a fault.
#pragma once

namespace {

u32 checked = 0;

u64 random_state = 1;
[[maybe_unused]] i32 small_integer() {
  random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
  return i32(random_state >> 33) % 8 - 3;
}

void same(bool equal, const char* name, const char* what) {
  checked++;
  if (equal) return;
  printf("fault: %s: %s\n", name, what);
  exit(1);
}

}  // namespace
