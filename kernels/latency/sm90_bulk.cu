// A chase through memory by bulk copies (TMA): each copy brings the 16 bytes that hold the address of
// the next one. The time of a step has the copy, the barrier that it arrives at and a load from shared
// memory.
#include "params.h"
#include "sm90.h"

KERNEL(32, 1) latency_chase_bulk(const LatencyParams p, const u32 repeat) {
  SHARED u64 arrived;
  u64** cell = reinterpret_cast<u64**>(dynamic_shared());
  if (thread_index() != 0) return;
  make_barrier(&arrived, 1);
  barriers_made();
  u64* at = load_address(p.position);
  for (u32 step = 0; step < repeat; step++) {
    arrive_expecting(&arrived, 16);
    bulk_load(cell, at, 16, &arrived);
    await_phase(&arrived, step % 2);
    at = cell[0];
  }
  *p.position = at;
}
