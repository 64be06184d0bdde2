// A chase through memory: each load's address is the value of the load before. Loads go through every
// cache there is, a unit's own first.
#include "params.h"

KERNEL(32, 1) latency_chase(const LatencyParams p, const u32 repeat) {
  if (thread_index() != 0) return;
  u64* at = load_address(p.position);
  u32 left = repeat;
  for (; left >= 32; left -= 32) {
    UNROLL for (u32 i = 0; i < 32; i++) at = load_address(reinterpret_cast<u64**>(at));
  }
  for (; left > 0; left--) at = load_address(reinterpret_cast<u64**>(at));
  *p.position = at;
}
