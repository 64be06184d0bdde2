// How far the slices of the last cache are from a unit, as latencies of atomic operations, which
// are longer than those of loads. An atomic operation is done by the slice that a line belongs to,
// whichever slices have a copy of it; those here leave the line as it was.
#include "params.h"

namespace {

CONSTANT u32 OPERATIONS = 16;
CONSTANT u32 TURNS = 3;

}  // namespace

// Cycles of one operation on each of some lines of zeros, the least of a few turns.
KERNEL(32, 1) latency_probe(const ProbeParams p) {
  if (thread_index() != 0) return;
  for (u64 line = 0; line < p.lines; line++) {
    u64 least = ~u64(0), value = 0;
    for (u32 turn = 0; turn < TURNS; turn++) {
      const u64 start = cycles();
      // What comes back is zero, which the compiler cannot know: each waits for the one before.
      UNROLL for (u32 i = 0; i < OPERATIONS; i++) value = fetch_or(p.cells + 8 * line + value, 0);
      const u64 taken = cycles_since(start) / OPERATIONS;
      least = taken < least ? taken : least;
    }
    p.taken[line] = least + value;
  }
  *p.unit = unit_number();
}

// A chase whose every step is one: the cell's value is the address of the next.
KERNEL(32, 1) latency_side(const LatencyParams p, const u32 repeat) {
  if (thread_index() != 0) return;
  u64* at = load_address(p.position);
  u32 left = repeat;
  for (; left >= 16; left -= 16) {
    UNROLL for (u32 i = 0; i < 16; i++) at = reinterpret_cast<u64*>(fetch_or(at, 0));
  }
  for (; left > 0; left--) at = reinterpret_cast<u64*>(fetch_or(at, 0));
  *p.position = at;
  p.position[1] = reinterpret_cast<u64*>(u64(unit_number()));
}
