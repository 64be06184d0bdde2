// Streams through registers as AMD's memory likes them best: blocks of 512 threads, of which a unit
// holds four at once, loads and stores that leave nothing in the caches, and as many blocks as there
// are tiles, so that every channel has work to the end.
#include "stream.h"

STREAM_REDUCTIONS(_nt_512, true, 512, 4)
STREAM_ASSIGNMENTS(_nt_512, true, 512, 4)
