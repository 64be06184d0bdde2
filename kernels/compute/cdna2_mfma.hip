// The peaks of the matrix units of CDNA 2 (MI200).
#include "cdna2.h"
#include "lane_count.h"

COUNT_PRODUCTS(bf16_cdna2, Lanes<Cdna, bf16, f32, bf16, 2>)
COUNT_PRODUCTS(f16_cdna2, Lanes<Cdna, f16, f32, f16, 2>)
COUNT_PRODUCTS(f32_cdna2, Lanes<Cdna, f32, f32, f32, 1>)
COUNT_PRODUCTS(int8_cdna2, Lanes<Cdna, i8, i32, i32, 1>)
COUNT_PRODUCTS(f64_cdna2, Lanes<CdnaDouble, f64, f64, f64, 2>)
