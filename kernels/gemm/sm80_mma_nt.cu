// Matrix products by fragments in registers with B column by column (layout nt), as compute capability
// 8.0 has them: bf16, f16, tf32 and int8. Both operands are lines along k, so that fragments of either
// are loaded as they stand: the kernel of 8-bit floats (sm89_mma.cu) with other instructions. Rows of A,
// columns of B and rows of C must be multiples of 16 bytes; m, n and k are free otherwise.
#include "sm80.h"

#include "line_product.h"

KERNEL(256, 1) gemm_bf16_nt_mma(const GemmParams p) { LineProduct<bf16, f32, bf16, 2>::run(p); }
KERNEL(256, 1) gemm_f16_nt_mma(const GemmParams p) { LineProduct<f16, f32, f16, 2>::run(p); }
KERNEL(256, 1) gemm_tf32_nt_mma(const GemmParams p) { LineProduct<tf32, f32, f32, 4>::run(p); }
KERNEL(256, 1) gemm_int8_nt_mma(const GemmParams p) { LineProduct<i8, i32, i32, 1>::run(p); }
