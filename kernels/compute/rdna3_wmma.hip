// The peaks of the matrix units of RDNA 3 (Radeon 7000).
#include "rdna3.h"
#include "lane_count.h"

COUNT_PRODUCTS(bf16_rdna3, Lanes<Rdna3, bf16, f32, bf16, 8>)
COUNT_PRODUCTS(f16_rdna3, Lanes<Rdna3, f16, f32, f16, 8>)
COUNT_PRODUCTS(int8_rdna3, Lanes<Rdna3, i8, i32, i32, 4>)
