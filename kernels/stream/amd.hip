// Streams through registers for AMD's memory: blocks of 512 threads, four for each unit, each of
// which walks many tiles, and loads and stores that leave nothing in the caches.
#include "stream.h"

STREAM_REDUCTIONS(_nt_512, true, 512, 4)
STREAM_ASSIGNMENTS(_nt_512, true, 512, 4)
