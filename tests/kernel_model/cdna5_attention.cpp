// The kernels of attention of CDNA 5: whose 16-bit instructions have the operands of RDNA 3's in other lanes, so
// that they are not modelled in one program with RDNA's.
#define MODEL_CDNA5
#include "amd_attention.cpp"
