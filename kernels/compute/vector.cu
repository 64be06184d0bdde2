// Fused multiply-adds on registers: the peak of the vector units.
//
// Each multiply-add counts one, and all counts are summed and left behind: they are exact, and the
// work cannot be left out. 16 warps of 8 independent chains hide the 4 cycles of a multiply-add on
// each of a unit's 4 schedulers four times over.
//
// The two factors are different registers, and every second chain takes them the other way round:
// RDNA makes two multiply-adds in one instruction only where neither operand comes from the same
// bank of registers.
#include "count.h"

namespace {

CONSTANT u32 THREADS = 512;
CONSTANT u32 CHAINS = 8;
CONSTANT u32 STEPS = 16;
// Counts of 32-bit floats are exact up to 2^24: they are emptied into 64 bits before that.
CONSTANT u64 ROUND = u64(1) << 20;

template <class T> DEVICE void count_products(const ComputeParams& p) {
  const T one = T(1 + zero()), same = T(1 + 2 * zero());
  u64 left = p.flops / 2 / (THREADS * CHAINS);
  f64 counted = 0.0;
  while (left > 0) {
    const u64 round = left < ROUND ? left : ROUND;
    T chains[CHAINS];
    UNROLL for (u32 c = 0; c < CHAINS; c++) chains[c] = T(zero());
    for (u64 step = 0; step < round / STEPS; step++) {
      UNROLL for (u32 s = 0; s < STEPS; s++) {
        UNROLL for (u32 c = 0; c < CHAINS; c++) {
          chains[c] = c % 2 == 0 ? fused(one, same, chains[c]) : fused(same, one, chains[c]);
        }
      }
    }
    UNROLL for (u32 c = 0; c < CHAINS; c++) counted += f64(chains[c]);
    left -= round;
  }
  leave_count<THREADS>(p, counted, 1);
}

}  // namespace

KERNEL(512, 1) compute_f32(const ComputeParams p) { count_products<f32>(p); }
KERNEL(512, 1) compute_f64(const ComputeParams p) { count_products<f64>(p); }
