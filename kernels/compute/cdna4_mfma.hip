// The peaks of the matrix units of CDNA 4 (MI350).
#include "cdna4.h"
#include "lane_count.h"

COUNT_PRODUCTS(bf16_cdna4, Lanes<Cdna, bf16, f32, bf16, 4>)
COUNT_PRODUCTS(f16_cdna4, Lanes<Cdna, f16, f32, f16, 4>)
COUNT_PRODUCTS(fp8_cdna4, Lanes<Cdna, e4m3, f32, bf16, 8>)
COUNT_PRODUCTS(f32_cdna4, Lanes<Cdna, f32, f32, f32, 1>)
COUNT_PRODUCTS(int8_cdna4, Lanes<Cdna, i8, i32, i32, 4>)
COUNT_PRODUCTS(f64_cdna4, Lanes<CdnaDouble, f64, f64, f64, 2>)
COUNT_PRODUCTS(fp6_cdna4, Lanes<Cdna, e2m3, f32, bf16, 8>, 128)
COUNT_PRODUCTS(fp4_cdna4, Lanes<Cdna, e2m1, f32, bf16, 8>, 128)
