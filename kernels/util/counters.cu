// What the counters of the units show: launched before and after work that is timed, their differences
// are the clock of the units while it ran.
#include "params.h"

// A block of one unit leaves what its counter of cycles and the timer of all units show at one moment.
KERNEL(32, 1) util_counters(const CountersParams p) {
  const u32 unit = unit_number();
  if (thread_index() != 0 || unit >= p.units) return;
  u64* place = p.counted + 8 * u64(unit);
  place[1] = cycles();
  place[2] = nanoseconds();
  place[0] = p.turn;
}
