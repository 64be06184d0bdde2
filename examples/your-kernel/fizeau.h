/* What a kernel of yours is given on the host: the parameters of its operation. GPUs get the same
 * structs by value (kernels/include/params.h). A test of fizeau compares them with the program's.
 *
 * An entry is a function of this type, in a shared object (cc -O3 -shared -fPIC):
 *
 *   int entry(const struct StreamParams* params, uint32_t block, uint32_t blocks, uint64_t repeat);
 *
 * Each of `blocks` threads, pinned to a core of its own, calls it at once with its own `block` from
 * 0, and it does its share of the work `repeat` times. Threads cannot wait for each other. It
 * returns 0; another number says that it does not take the shape: its case is skipped. */
#ifndef FIZEAU_H
#define FIZEAU_H

#include <stdint.h>

typedef uint32_t u32;
typedef uint64_t u64;
typedef float f32;
typedef double f64;

/* stream/read: sum of the bits of a as u64; write: a = scale; copy: a = b; scale: a = scale * b;
 * add: a = b + c; triad: a = b + scale * c; dot: sum of a * b. */
struct StreamParams {
  f64* a;
  const f64* b;
  const f64* c;
  f64* partial;      /* read, dot: one sum for each block, 64 bytes apart */
  u64 length;        /* elements of each array */
  f64 scale;
};

/* latency: each load's address is the value of the load before; one load for each repetition. */
struct LatencyParams {
  u64** position;    /* the cell that holds the address to load from next; left there at the end */
};

/* gemm/...: C = A B. */
struct GemmParams {
  const void* a;     /* m x k, row by row */
  const void* b;     /* k x n, row by row; layout nt, fp8 and narrower: n x k, row by row */
  void* c;           /* m x n, row by row, of the output's element type */
  u32 m;
  u32 n;
  u32 k;
  u32 dtype;
  const void* scales_a; /* where elements share some */
  const void* scales_b;
  f32 factor;        /* nvfp4: A's tensor scale times B's, by which each f32 sum is multiplied
                      * before it is rounded to bf16. 1 for other types. */
  u32 layout;        /* 0: nn, 1: nt. A kernel is made for one of them. */
};

/* grouped/...: products of groups of rows with a B for each group. */
struct GroupedParams {
  const void* a;     /* m x k, row by row, those of a group one after the other */
  const void* b;     /* for each group as above */
  void* c;           /* m x n, row by row */
  const u32* firsts; /* of each group its first row, and m */
  u32 m;
  u32 n;
  u32 k;
  u32 groups;
  u32 rows_max;      /* of the group that has the most */
  u32 dtype;
};

/* Where a sequence's tokens stand among those of all. */
struct AttentionSequence {
  u32 query_first;   /* of Q and O */
  u32 queries;
  u32 key_first;     /* of K and V; in pages, token i of all stands in page pages[i / page] */
  u32 keys;
};

/* Some keys of one head and sequence, for up to 64 of the rows that share them: a row is
 * query x group + head. */
struct AttentionPart {
  u32 sequence;
  u32 kv_head;
  u32 row_first;
  u32 key_first;     /* from the sequence's first */
  u32 key_end;
  u32 slot;          /* where its sums go in scratch memory */
  u32 slot_first;    /* of the same rows */
  u32 slots;         /* 1: the part has all keys */
};

/* attention/...: O = softmax(scale Q K^T) V. The last queries of a sequence see its last keys. */
struct AttentionParams {
  const void* q;     /* tokens x heads x dim_qk */
  const void* k;     /* tokens x kv_heads x dim_qk */
  const void* v;     /* tokens x kv_heads x dim_v; none: the first dim_v of K */
  void* o;           /* tokens x heads x dim_v */
  const struct AttentionSequence* sequences;
  const u32* pages;  /* none: in one piece */
  const struct AttentionPart* parts; /* those of a worker one after the other */
  const u32* part_firsts; /* of each worker, and their number */
  f32* scratch;      /* zeros at first */
  u64 scratch_bytes;
  u32 workers;
  u32 batch;
  u32 heads;
  u32 kv_heads;
  u32 queries;       /* of the longest sequence */
  u32 keys;
  u32 dim_qk;
  u32 dim_v;
  u32 causal;
  u32 dtype;
  u32 page;          /* tokens of one; 0: in one piece */
  f32 scale;
  u32 query_tokens;
  u32 key_tokens;
  u32 window;        /* causal: keys that a query sees at most, its own among them; 0: all */
  u32 chunk;         /* causal: a query sees keys of its own chunk of this many alone; 0: of all */
};

/* access/gather: rows of a table in the order of `order`, summed; mix_3r1w, mix_1r3w: arrays. */
struct AccessParams {
  u64* a;            /* the table of a gather; the arrays of a mix, those read first */
  const u32* order;  /* of a gather: which row is read when */
  u64* partial;      /* one sum for each block, 64 bytes apart */
  u64 rows;          /* of a gather; words of one array of a mix */
  u64 row;           /* bytes of a row; from one array of a mix to the next */
  u64 row_shift;     /* a row is 16 << row_shift bytes */
};

#endif
