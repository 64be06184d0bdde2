// Matrix products of 8-bit floats (e4m3) by fragments in registers, as compute capability 8.9 and 12.0
// have them. B is kept column by column. Rows of A, columns of B and rows of C must be multiples of
// 16 bytes; m, n and k are free otherwise.
//
// 8 warps, 2 down and 4 across, make a tile of 128 x 256. Of each row of A and column of B, 64 bytes
// along k are a stage; 4 stages are on their way or in use, through all tiles of a block.
#include "sm89.h"

#include "line_product.h"

KERNEL(256, 1) gemm_fp8_mma(const GemmParams p) { LineProduct<e4m3, f32, bf16, 1>::run(p); }
