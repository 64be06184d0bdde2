// Next to nothing: what is timed is the launch. It counts, so that a launch that did not happen is
// found out.
#include "params.h"

KERNEL(32, 1) launch_count(const LaunchParams p) {
  if (thread_index() == 0) *p.count += 1;
}
