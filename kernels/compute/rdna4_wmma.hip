// The peaks of the matrix units of RDNA 4 (Radeon 9000).
#include "rdna4.h"
#include "lane_count.h"

COUNT_PRODUCTS(bf16_rdna4, Lanes<Rdna4, bf16, f32, bf16, 4>)
COUNT_PRODUCTS(f16_rdna4, Lanes<Rdna4, f16, f32, f16, 4>)
COUNT_PRODUCTS(fp8_rdna4, Lanes<Rdna4, e4m3, f32, bf16, 2>)
COUNT_PRODUCTS(int8_rdna4, Lanes<Rdna4, i8, i32, i32, 2>)
