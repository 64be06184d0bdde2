// The clock of the units, and a gate that holds a stream until the host lets it go.
#include "params.h"

// Looks at the time before one of its steps, of a microsecond or less, has come for certain.
CONSTANT u32 LOOKS = 4096;

// The time as it changes: between two of its steps a timer stands still.
DEVICE u64 next_step() {
  const u64 now = nanoseconds();
  u64 next = now;
  for (u32 look = 0; look < LOOKS && next == now; look++) next = nanoseconds();
  return next;
}

// Works for so many cycles and more, and leaves how many they were and how long they took.
KERNEL(128, 1) util_clock(const ClockParams p) {
  const u64 start_time = next_step();
  const u64 start = cycles();
  f32 value = f32(zero());
  while (cycles_since(start) < p.cycles) {
    UNROLL for (u32 i = 0; i < 64; i++) value = fused(value, value, value);
  }
  const u64 end_time = next_step();
  const u64 counted = cycles_since(start);
  // The value is 0, which no compiler knows: the work is kept.
  if (thread_index() != 0 && value == 0.0f) return;
  p.counted[8 * u64(block_index())] = counted;
  p.counted[8 * u64(block_index()) + 1] = end_time - start_time;
}

KERNEL(32, 1) util_hold(const HoldParams p) {
  if (thread_index() != 0) return;
  const u64 start = nanoseconds();
  u64 waited = 0;
  while (*const_cast<const volatile u32*>(p.released) == 0 && waited < p.limit) {
    waited = nanoseconds() - start;
  }
  *p.waited = waited < p.limit ? waited : p.limit;
}
