// The parameters of kernels: one struct for each operation, the same for every kernel of it,
// passed by value. crates/domain/src/kernel.rs mirrors them; tests/library/kernels.rs compares the two.
//
// Addresses are typed pointers: from integers, some compilers make slower loads.
#pragma once
#include "gpu.h"

struct StreamParams {
  f64* a;            // written, or read by `read` and `dot`
  const f64* b;      // read beside it
  const f64* c;      // read beside it
  f64* partial;      // one sum for each block, 64 bytes apart
  u64 length;        // elements of each array
  f64 scale;
};
static_assert(sizeof(StreamParams) == 48, "the mirror");

struct LatencyParams {
  u64** position;    // the cell that holds the address to load from next; left there at the end;
                     // behind it, by `latency_side`, the number of the unit
};
static_assert(sizeof(LatencyParams) == 8, "the mirror");

struct ProbeParams {
  u64* cells;        // zeros, one at the start of each 64 bytes
  u64 lines;
  u64* taken;        // cycles for each line
  u64* unit;         // which one took them
};
static_assert(sizeof(ProbeParams) == 32, "the mirror");

struct ComputeParams {
  f64* partial;      // one count for each block, 64 bytes apart
  u64 flops;         // operations of one block
};
static_assert(sizeof(ComputeParams) == 16, "the mirror");

struct GemmParams {
  const void* a;     // m x k, row by row
  const void* b;     // k x n, row by row; layout nt, fp8 and narrower: n x k, row by row
  void* c;           // m x n, row by row
  u32 m;
  u32 n;
  u32 k;
  u32 dtype;
  const void* scales_a;  // where elements share some, in the order of scaled.h
  const void* scales_b;
  f32 factor;        // nvfp4: A's tensor scale times B's, by which each f32 sum is multiplied before
                     // it is rounded to bf16. Kernels of other types do not read it.
  u32 layout;        // 0: nn, 1: nt. A kernel is made for one of them.
};
static_assert(sizeof(GemmParams) == 64, "the mirror");

struct GroupedParams {
  const void* a;     // m x k, row by row, those of a group one after the other
  const void* b;     // for each group as above
  void* c;           // m x n, row by row
  const u32* firsts; // of each group its first row, and m
  u32 m;
  u32 n;
  u32 k;
  u32 groups;
  u32 rows_max;      // of the group that has the most
  u32 dtype;
};
static_assert(sizeof(GroupedParams) == 56, "the mirror");

// Where a sequence's tokens stand among those of all.
struct AttentionSequence {
  u32 query_first;   // of Q and O
  u32 queries;
  u32 key_first;     // of K and V; in pages, token i of all stands in page pages[i / page]
  u32 keys;
};
static_assert(sizeof(AttentionSequence) == 16, "the mirror");

// Some keys of one head and sequence, for up to 64 of the rows that share them.
struct AttentionPart {
  u32 sequence;
  u32 kv_head;
  u32 row_first;     // a row is query x group + head
  u32 key_first;     // from the sequence's first
  u32 key_end;
  u32 slot;          // where its sums go in scratch memory
  u32 slot_first;    // of the same rows
  u32 slots;         // 1: the part has all keys
};
static_assert(sizeof(AttentionPart) == 32, "the mirror");

struct AttentionParams {
  const void* q;     // tokens x heads x dim_qk
  const void* k;     // tokens x kv_heads x dim_qk
  const void* v;     // tokens x kv_heads x dim_v; none: the first dim_v of K
  void* o;           // tokens x heads x dim_v
  const AttentionSequence* sequences;
  const u32* pages;  // none: in one piece
  const AttentionPart* parts;
  const u32* part_firsts;  // of each worker, and their number
  f32* scratch;      // zeros at first
  u64 scratch_bytes;
  u32 workers;
  u32 batch;
  u32 heads;
  u32 kv_heads;
  u32 queries;       // of the longest sequence
  u32 keys;
  u32 dim_qk;
  u32 dim_v;
  u32 causal;
  u32 dtype;
  u32 page;          // tokens of one; 0: in one piece
  f32 scale;
  u32 query_tokens;
  u32 key_tokens;
  u32 window;        // causal: keys that a query sees at most, its own among them; 0: all before it
  u32 chunk;         // causal: a query sees keys of its own chunk of this many alone; 0: of all
};
static_assert(sizeof(AttentionParams) == 144, "the mirror");

// What stands between the products of a layer; crates/domain/src/case/fused.rs. Rows after each other.
struct FusedParams {
  const bf16* input;     // norm: rows x width; swiglu: rows x 2 width, the gate before up
  const bf16* residual;  // norm: what the input is added to
  bf16* updated;         // norm: their sum
  const bf16* weight;    // norm: of each column
  void* output;          // rows x width
  f32* scales;           // of each 128 elements of a row, where an output has such
  u32 rows;
  u32 width;
  f32 epsilon;           // norm: added to the mean of squares
  f32 inverse;           // of the scale of all, where an output has one
};
static_assert(sizeof(FusedParams) == 64, "the mirror");

// A token of linear attention; crates/domain/src/case/recurrence.rs. Arrays are row-major.
struct RecurrenceParams {
  const void* state;     // batch x heads x value x key
  void* updated;         // the same, elsewhere
  const bf16* queries;   // batch x key_heads x key
  const bf16* keys;      // batch x key_heads x key
  const bf16* values;    // batch x heads x value
  const f32* decays;     // batch x heads; kda: batch x heads x key
  const f32* rates;      // batch x heads
  const f32* skips;      // mamba2: heads
  bf16* output;          // batch x heads x value
  u32 batch;
  u32 heads;
  u32 key_heads;
  u32 key;
  u32 value;
  u32 unused;
};
static_assert(sizeof(RecurrenceParams) == 96, "the mirror");

// The greatest of some numbers; crates/domain/src/case/sparse.rs. Arrays are row-major.
struct SparseTopKParams {
  const f32* logits;     // rows x context
  u32* selection;        // rows x selected
  u32 rows;
  u32 context;
  u32 selected;
  u32 unused;
};
static_assert(sizeof(SparseTopKParams) == 32, "the mirror");

// Attention over selected tokens; crates/domain/src/case/sparse.rs. Arrays are row-major.
struct SparseDecodeParams {
  const bf16* queries;   // batch x heads x 576
  const u8* cache;       // tokens of 656 bytes
  const u32* indices;    // batch x selected
  bf16* output;          // batch x heads x 512
  u32 batch;
  u32 heads;
  u32 selected;
  f32 scale;
};
static_assert(sizeof(SparseDecodeParams) == 48, "the mirror");

// What a rank received of a collective: copies of what ranks send, or sums of it.
struct CheckParams {
  const void* values;
  u64* wrong;        // elements that are, of each block, 64 bytes apart
  f64* error;        // the largest of each block, relative, 64 bytes apart
  u64 length;        // elements
  u64 slice;         // elements in a row that are copies of what one rank sends
  u64 before;        // elements of what each sends before those
  u64 peer;          // who sends the first slice
  u64 ranks;         // terms of each sum; 0: copies
  u64 grown;         // not 0: sums may be larger
  f64 tolerance;     // errors up to this are none
};
static_assert(sizeof(CheckParams) == 80, "the mirror");

struct FillParams {
  u64* target;
  const u64* pattern;
  u64 length;        // words of the target
  u64 period;        // words of the pattern, which the target repeats
};
static_assert(sizeof(FillParams) == 32, "the mirror");

struct CompareParams {
  const u64* values;
  const u64* pattern;
  u64 length;        // words of the values
  u64 period;        // words of the pattern that they should repeat
  u64* differing;    // counted up by the words that differ
};
static_assert(sizeof(CompareParams) == 40, "the mirror");

struct ClockParams {
  u64* counted;      // [cycles, nanoseconds] for each block, 64 bytes apart
  u64 cycles;        // to work for
};
static_assert(sizeof(ClockParams) == 16, "the mirror");

struct CountersParams {
  u64* counted;      // [turn, cycles, nanoseconds] for each unit, 64 bytes apart
  u64 units;         // that have a place there
  u64 turn;          // tells what this launch left from what an earlier one did
};
static_assert(sizeof(CountersParams) == 24, "the mirror");

struct HoldParams {
  const u32* released;  // in host memory; anything but 0 lets the stream go on
  u64 limit;         // nanoseconds after which it goes on whatever stands there
  u64* waited;       // nanoseconds it waited; the limit where it gave up
};
static_assert(sizeof(HoldParams) == 24, "the mirror");

struct AccessParams {
  u64* a;            // the table of a gather; the arrays of a mix, those read first
  const u32* order;  // of a gather: which row is read when
  u64* partial;      // one sum for each block, 64 bytes apart
  u64 rows;          // of a gather; words of one array of a mix; turns of what is a unit's own
  u64 row;           // bytes of a row; from one array of a mix to the next; what a first-level cache holds
  u64 row_shift;     // a row is 16 << row_shift bytes
};
static_assert(sizeof(AccessParams) == 48, "the mirror");

struct TransferParams {
  u64* to;
  const u64* from;
  u64 length;        // bytes, a multiple of 8
  u32 device;        // whose copy engine does it
  u32 lane;          // of several copies at once; the host's
};
static_assert(sizeof(TransferParams) == 32, "the mirror");

struct LaunchParams {
  u64* count;        // counted up by each launch
  u64 kernels;       // of one graph; the host's
};
static_assert(sizeof(LaunchParams) == 16, "the mirror");

struct HashParams {
  const u64* values; // 16 bytes aligned
  u64 length;        // words, a multiple of 2
  u64* partial;      // one sum for each block, 64 bytes apart
};
static_assert(sizeof(HashParams) == 24, "the mirror");

struct TallyParams {
  const u64* partial;  // what `sdc_hash` left
  u64 blocks;        // of it
  u64* tally;        // [products, hashes known, others, 0], then [hash, count, first, 0] each
  u64 entries;       // how many hashes the tally has room for
  u64* fresh;        // which copy to keep, from 1; 0: none
};
static_assert(sizeof(TallyParams) == 40, "the mirror");

struct KeepParams {
  const u64* fresh;  // what `sdc_tally` left
  const u64* values;
  u64* kept;         // room for two copies
  u64 length;        // words of one
};
static_assert(sizeof(KeepParams) == 32, "the mirror");

struct PatternParams {
  u64* values;
  u64 length;        // words
  u64* partial;      // [wrong, place, bits, round] of each block, 64 bytes apart
  u64 checked_round;
  u64 written_round;
  u32 checked;       // the pattern that should stand there; 0: none
  u32 written;       // the one that is written; 0: none
  u32 descending;    // not 0: from the last word to the first
  u32 unused;
};
static_assert(sizeof(PatternParams) == 56, "the mirror");
