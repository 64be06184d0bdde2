/* A stream on the host: copy and triad. docs/your-kernel.md says how it is built and measured. */
#include "fizeau.h"

#include <stddef.h>

/* This block's part of `length` elements, in whole lines of 8. */
static size_t from(u64 length, u32 block, u32 blocks) {
  return (size_t)(length / 8 * block / blocks * 8);
}

static size_t to(u64 length, u32 block, u32 blocks) {
  return block + 1 == blocks ? (size_t)length : from(length, block + 1, blocks);
}

int my_copy(const struct StreamParams* p, u32 block, u32 blocks, u64 repeat) {
  f64* restrict a = p->a;
  const f64* restrict b = p->b;
  const size_t first = from(p->length, block, blocks), end = to(p->length, block, blocks);
  while (repeat-- > 0) {
    for (size_t i = first; i < end; i++) a[i] = b[i];
    __asm__ volatile("" ::: "memory"); /* each repetition is work of its own */
  }
  return 0;
}

int my_triad(const struct StreamParams* p, u32 block, u32 blocks, u64 repeat) {
  f64* restrict a = p->a;
  const f64 *restrict b = p->b, *restrict c = p->c;
  const f64 scale = p->scale;
  const size_t first = from(p->length, block, blocks), end = to(p->length, block, blocks);
  while (repeat-- > 0) {
    for (size_t i = first; i < end; i++) a[i] = b[i] + scale * c[i];
    __asm__ volatile("" ::: "memory");
  }
  return 0;
}
