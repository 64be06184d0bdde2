// Streams through registers, for every target of every vendor.
#include "stream.h"

STREAM_REDUCTIONS(, false, 1024, 1)
STREAM_ASSIGNMENTS(, false, 1024, 1)
STREAM_REDUCTIONS(_nt, true, 1024, 1)
STREAM_ASSIGNMENTS(_nt, true, 1024, 1)
STREAM_ASSIGNMENTS(_nt_once, true, 256, 6)
