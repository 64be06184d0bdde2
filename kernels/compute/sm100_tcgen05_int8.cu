// The peak of int8 of compute capability 10.0; 10.3 has no such multiplication.
#include "sm100_count.h"

KERNEL(128, 1) compute_int8_tcgen05(const ComputeParams p, const u32 r) { count_products<i8>(p, r); }
