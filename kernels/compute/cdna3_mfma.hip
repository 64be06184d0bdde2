// The peaks of the matrix units of CDNA 3 (MI300).
#include "cdna3.h"
#include "lane_count.h"

COUNT_PRODUCTS(bf16_cdna3, Lanes<Cdna, bf16, f32, bf16, 2>)
COUNT_PRODUCTS(f16_cdna3, Lanes<Cdna, f16, f32, f16, 2>)
COUNT_PRODUCTS(tf32_cdna3, Lanes<Cdna, tf32, f32, f32, 2>)
COUNT_PRODUCTS(f32_cdna3, Lanes<Cdna, f32, f32, f32, 1>)
COUNT_PRODUCTS(int8_cdna3, Lanes<Cdna, i8, i32, i32, 2>)
COUNT_PRODUCTS(f64_cdna3, Lanes<CdnaDouble, f64, f64, f64, 2>)
// To these units 8-bit floats are FNUZ.
COUNT_PRODUCTS(fp8_cdna3, Lanes<Cdna, e4m3_fnuz, f32, bf16, 2>)
