// The peaks of the matrix units of CDNA 5 (MI455X, MI430X).
#include "cdna5.h"
#include "lane_count.h"

COUNT_PRODUCTS(bf16_cdna5, Lanes<Cdna5, bf16, f32, bf16, 8>)
COUNT_PRODUCTS(f16_cdna5, Lanes<Cdna5, f16, f32, f16, 8>)
COUNT_PRODUCTS(fp8_cdna5, Lanes<Cdna5, e4m3, f32, bf16, 16>)
COUNT_PRODUCTS(int8_cdna5, Lanes<Cdna5, i8, i32, i32, 8>)
COUNT_PRODUCTS(f32_cdna5, Lanes<Cdna5, f32, f32, f32, 2>)
COUNT_PRODUCTS(fp6_cdna5, Lanes<Cdna5, e2m3, f32, bf16, 16>, 128)
COUNT_PRODUCTS(fp4_cdna5, Lanes<Cdna5, e2m1, f32, bf16, 16>, 128)
