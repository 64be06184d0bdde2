//! The parameters of kernels: one plain struct for each kind of operation, the same for every
//! kernel of it, passed by value. Choosing another kernel changes no code that prepares a case.
//!
//! Addresses are those of [`fizeau_device::Buffer`].

use super::declared::{closed_set, shared_with_kernels};
use crate::case::Sequence;
use bytemuck::{Pod, Zeroable};
use std::mem::{offset_of, size_of};

/// How a struct that kernels take lies in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The struct's name, in Rust as in `kernels/include/params.h`.
    pub name: &'static str,
    /// Its size in bytes.
    pub size: usize,
    /// Each field's name and its offset in bytes, in the order of declaration.
    pub offsets: Vec<(&'static str, usize)>,
}

/// Parameters were given to a kernel of another operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("parameters of another operation")]
pub struct OtherOperation;

closed_set! {
    /// `stream/*`.
    Stream(StreamParams),
    /// `latency`, `latency/side`, `instruction/*`.
    Latency(LatencyParams),
    /// `latency/probe`.
    Probe(ProbeParams),
    /// `compute/*`.
    Compute(ComputeParams),
    /// `gemm/*`.
    Gemm(GemmParams),
    /// `grouped/*`.
    Grouped(GroupedParams),
    /// `attention/*`.
    Attention(AttentionParams),
    /// `fused/*`.
    Fused(FusedParams),
    /// `recurrence/*`.
    Recurrence(RecurrenceParams),
    /// `sparse/top_k`.
    SparseTopK(SparseTopKParams),
    /// `sparse/decode`.
    SparseDecode(SparseDecodeParams),
    /// `access/*`.
    Access(AccessParams),
    /// `transfer/copy`.
    Transfer(TransferParams),
    /// `launch/*`.
    Launch(LaunchParams),
    /// `collective/check_*`.
    Check(CheckParams),
    /// `sdc/hash`.
    Hash(HashParams),
    /// `sdc/tally`.
    Tally(TallyParams),
    /// `sdc/keep`.
    Keep(KeepParams),
    /// `sdc/pattern`.
    Pattern(PatternParams),
    /// `util/fill`.
    Fill(FillParams),
    /// `util/compare`.
    Compare(CompareParams),
    /// `util/clock`.
    Clock(ClockParams),
    /// `util/counters`.
    Counters(CountersParams),
    /// `util/hold`.
    Hold(HoldParams),
}

shared_with_kernels! {
    /// Of a stream kernel; see [`crate::case::StreamOperation`].
    pub struct StreamParams {
        /// Array written, or read by `read` and `dot`.
        pub a: u64,
        /// First array read beside it.
        pub b: u64,
        /// Second.
        pub c: u64,
        /// Where reductions leave one `f64` for each block, 64 bytes apart.
        pub partial: u64,
        /// Elements of each array.
        pub length: u64,
        /// The scalar `s`.
        pub scale: f64,
    }

    /// Of a latency kernel: one iteration is one load, whose address is the value of the load
    /// before. Of a chain of instructions: one iteration is a round of them.
    pub struct LatencyParams {
        /// Address of the cell that holds the address to load from next; left there at the end.
        /// Kernels of `latency/side` leave the number of their unit in the word behind it, those of
        /// `instruction` the chain's value as `f64` and behind it how many rounds they made.
        pub position: u64,
    }

    /// Of `latency/probe`: cycles of an operation on each of some lines.
    pub struct ProbeParams {
        /// Zeros, 64 bytes for each line.
        pub cells: u64,
        /// How many.
        pub lines: u64,
        /// Where each line's cycles are left, a word each.
        pub taken: u64,
        /// Where the number of the unit that counted them is left.
        pub unit: u64,
    }

    /// Of a compute kernel.
    pub struct ComputeParams {
        /// Where each block leaves its sum, 64 bytes apart, so that the work cannot be left out.
        pub partial: u64,
        /// Operations of one block.
        pub flops: u64,
    }

    /// Of a matrix product; see [`crate::case::GemmPoint`]. Rows are packed (leading dimensions k,
    /// n, n).
    pub struct GemmParams {
        /// m x k.
        pub a: u64,
        /// k x n, or n x k where `layout` says so. [`Dtype::Fp8`](crate::dtype::Dtype) and narrower
        /// types: always n x k, as the matrix units of all vendors want them and as weights are
        /// kept.
        pub b: u64,
        /// m x n, of the output's element type.
        pub c: u64,
        /// Rows of C.
        pub m: u32,
        /// Columns of C.
        pub n: u32,
        /// Dimension summed over.
        pub k: u32,
        /// [`crate::dtype::Dtype`] by its place in `ALL`.
        pub dtype: u32,
        /// Scales of A, where its elements have some, in the order of `kernels/include/scaled.h`.
        pub scales_a: u64,
        /// Scales of B, by columns.
        pub scales_b: u64,
        /// A's tensor scale times B's, which each sum is multiplied by before it is rounded to C's
        /// type: no unit. 1 where the element type has no tensor scales (all but nvfp4).
        pub factor: f32,
        /// [`crate::case::Layout`] by its place in `ALL`: 0 for `nn`, 1 for `nt`.
        pub layout: u32,
    }

    /// Of a grouped product; see [`crate::case::GroupedPoint`]. Rows are packed, and those of a
    /// group follow each other.
    pub struct GroupedParams {
        /// m x k.
        pub a: u64,
        /// For each group as for a product, one after the other.
        pub b: u64,
        /// m x n, of the output's element type.
        pub c: u64,
        /// Of each group the first of its rows in A and C, and m behind them, as `u32`.
        pub firsts: u64,
        /// Rows of all groups together.
        pub m: u32,
        /// Columns of C.
        pub n: u32,
        /// Dimension summed over.
        pub k: u32,
        /// Groups.
        pub groups: u32,
        /// Rows of the group that has the most.
        pub rows_max: u32,
        /// [`crate::dtype::Dtype`] by its place in `ALL`.
        pub dtype: u32,
    }

    /// Of attention; see [`crate::case::AttentionPoint`]. Layouts, row-major: Q is tokens x heads x
    /// dim_qk; K tokens x kv_heads x dim_qk; V tokens x kv_heads x dim_v (none for MLA: the first
    /// dim_v of K); O tokens x heads x dim_v. Tokens of all sequences follow each other.
    pub struct AttentionParams {
        /// Queries.
        pub q: u64,
        /// Keys.
        pub k: u64,
        /// Values; 0 where they are a part of the keys.
        pub v: u64,
        /// Output.
        pub o: u64,
        /// An [`AttentionSequence`] for each of the batch.
        pub sequences: u64,
        /// Where keys and values stand: the number of each page, as a `u32`; 0: in one piece.
        pub pages: u64,
        /// [`AttentionPart`]s, those of a worker one after the other.
        pub parts: u64,
        /// Of each worker its first part, and one number more: how many parts there are.
        pub part_firsts: u64,
        /// Scratch for partial results of split keys, zeros at first; may be unused.
        pub scratch: u64,
        /// Its bytes.
        pub scratch_bytes: u64,
        /// How many workers the parts are dealt to.
        pub workers: u32,
        /// Sequences.
        pub batch: u32,
        /// Query heads.
        pub heads: u32,
        /// Key and value heads.
        pub kv_heads: u32,
        /// Query tokens of the longest sequence.
        pub queries: u32,
        /// Key tokens of the longest sequence.
        pub keys: u32,
        /// Dimension of a query and a key.
        pub dim_qk: u32,
        /// Dimension of a value.
        pub dim_v: u32,
        /// 1 where causal.
        pub causal: u32,
        /// [`crate::dtype::Dtype`] of K and V by its place in `ALL`.
        pub dtype: u32,
        /// Tokens of a page; 0 where keys and values stand in one piece.
        pub page: u32,
        /// The factor on scores before softmax.
        pub scale: f32,
        /// Tokens of Q.
        pub query_tokens: u32,
        /// Tokens that K has room for.
        pub key_tokens: u32,
        /// Sliding window: keys that a query sees at most, its own among them; 0: no window.
        /// Only where causal, and not beside a chunk.
        pub window: u32,
        /// Tokens of a chunk: a query sees only keys of its own chunk; 0: no chunks. Only where
        /// causal.
        pub chunk: u32,
    }

    /// Where a sequence's tokens stand among those of all: [`Sequence`] as kernels take it.
    #[derive(Eq)]
    pub struct AttentionSequence {
        /// Its first token of Q and O.
        pub query_first: u32,
        /// Its tokens of Q and O.
        pub queries: u32,
        /// Its first token of K and V; in pages, token `i` of all stands in page `pages[i / page]`,
        /// at `i % page`.
        pub key_first: u32,
        /// Its tokens of K and V.
        pub keys: u32,
    }

    /// A part of a split decode, which a worker does by itself: some keys of one head and sequence,
    /// for up to [`AttentionPart::ROWS`] of the rows that share them, or as many for each block of
    /// a worker that is a cluster. A row is a query and one of the heads that share the keys:
    /// `query x group + head`.
    #[derive(Eq)]
    pub struct AttentionPart {
        /// Which sequence.
        pub sequence: u32,
        /// Which head of K and V.
        pub kv_head: u32,
        /// The first row.
        pub row_first: u32,
        /// The first key, counted from the sequence's first.
        pub key_first: u32,
        /// One past the last key.
        pub key_end: u32,
        /// Where its sums go in scratch memory, among all parts that are not alone.
        pub slot: u32,
        /// The first of the slots for the same rows, one after the other in the order of keys.
        pub slot_first: u32,
        /// How many there are: 1 where the part has all keys, and leaves its output itself.
        pub slots: u32,
    }

    /// Of a fused operation; see [`crate::case::FusedPoint`]. All arrays are row-major; those that
    /// an operation has not are 0.
    pub struct FusedParams {
        /// Of `norm` rows x width; of `swiglu` rows x 2 width, the gate before up. `bf16`.
        pub input: u64,
        /// Of `norm`: what the input is added to, rows x width, `bf16`.
        pub residual: u64,
        /// Of `norm`: where the sum is left, rows x width, `bf16`.
        pub updated: u64,
        /// Of `norm`: a weight for each column, `bf16`.
        pub weight: u64,
        /// Rows x width, of the output's element type.
        pub output: u64,
        /// Of an output with scales: an `f32` for each block of 128 elements of a row, rows x
        /// blocks; an element times its scale is the value.
        pub scales: u64,
        /// Rows.
        pub rows: u32,
        /// Elements of a row of the output.
        pub width: u32,
        /// Of `norm`: added to the mean of squares.
        pub epsilon: f32,
        /// Of an output with one scale: what values are multiplied by, the scale's reciprocal. No
        /// unit.
        pub inverse: f32,
    }

    /// Of a recurrence; see [`crate::case::RecurrencePoint`]. All arrays are row-major; those that
    /// a rule has not are 0.
    pub struct RecurrenceParams {
        /// Batch x heads x value x key, of the states' element type, at a multiple of 64 bytes.
        pub state: u64,
        /// Where the new states are left: not where the old ones are, so that each iteration does
        /// the same.
        pub updated: u64,
        /// Batch x key_heads x key, `bf16`.
        pub queries: u64,
        /// Batch x key_heads x key, `bf16`.
        pub keys: u64,
        /// Batch x heads x value, `bf16`.
        pub values: u64,
        /// Batch x heads, `f32`; of `kda` batch x heads x key.
        pub decays: u64,
        /// Batch x heads, `f32`.
        pub rates: u64,
        /// Of `mamba2`: heads, `f32`.
        pub skips: u64,
        /// Batch x heads x value, `bf16`.
        pub output: u64,
        /// Sequences.
        pub batch: u32,
        /// Heads of a sequence.
        pub heads: u32,
        /// Heads of its queries and keys.
        pub key_heads: u32,
        /// Elements of a query and a key.
        pub key: u32,
        /// Elements of a value.
        pub value: u32,
        /// Fills the last word.
        pub unused: u32,
    }

    /// Of the greatest of some numbers; see [`crate::case::SparseTopK`].
    pub struct SparseTopKParams {
        /// Rows x context, `f32`.
        pub logits: u64,
        /// Rows x selected: the places of the greatest of a row in any order, as `u32`.
        pub selection: u64,
        /// Rows.
        pub rows: u32,
        /// Numbers of a row.
        pub context: u32,
        /// Places that are wanted of a row.
        pub selected: u32,
        /// Fills the last word.
        pub unused: u32,
    }

    /// Of attention over selected tokens; see [`crate::case::SparseDecode`]. All arrays are
    /// row-major and begin at multiples of 16 bytes.
    pub struct SparseDecodeParams {
        /// Batch x heads x 576, `bf16`: what meets the latent, then what meets RoPE.
        pub queries: u64,
        /// Tokens of all sequences, 656 bytes each.
        pub cache: u64,
        /// Batch x selected: which of all tokens, as `u32`.
        pub indices: u64,
        /// Batch x heads x 512, `bf16`.
        pub output: u64,
        /// Sequences.
        pub batch: u32,
        /// Query heads of a sequence.
        pub heads: u32,
        /// Tokens that a sequence attends over.
        pub selected: u32,
        /// The factor on scores before softmax.
        pub scale: f32,
    }

    /// Of `collective/check_...`: how many elements that a rank received are not what they should
    /// be.
    pub struct CheckParams {
        /// What was received.
        pub values: u64,
        /// Where each block leaves how many are wrong, 64 bytes apart.
        pub wrong: u64,
        /// Where each leaves the largest relative error as an `f64`, 64 bytes apart.
        pub error: u64,
        /// Elements.
        pub length: u64,
        /// Elements in a row that are copies of what one rank sends.
        pub slice: u64,
        /// Elements of what each sends before those.
        pub before: u64,
        /// Who sends the first slice.
        pub peer: u64,
        /// Terms of each sum; 0: copies.
        pub ranks: u64,
        /// Not 0: sums may be larger, since they were added up again in place.
        pub grown: u64,
        /// Errors up to this are none.
        pub tolerance: f64,
    }

    /// Of `util/fill`: a target repeats a pattern, in words of 8 bytes.
    pub struct FillParams {
        /// What is filled.
        pub target: u64,
        /// With what.
        pub pattern: u64,
        /// Words of the target.
        pub length: u64,
        /// Words of the pattern.
        pub period: u64,
    }

    /// Of `util/compare`: how many words differ from a pattern that they should repeat.
    pub struct CompareParams {
        /// What is compared.
        pub values: u64,
        /// With what.
        pub pattern: u64,
        /// Words of the values.
        pub length: u64,
        /// Words of the pattern.
        pub period: u64,
        /// A word that is counted up by those that differ.
        pub differing: u64,
    }

    /// Of `util/clock`: work of some cycles, counted by the units' clock and by a timer.
    pub struct ClockParams {
        /// Two words for each block, 64 bytes apart: cycles, nanoseconds.
        pub counted: u64,
        /// To work for.
        pub cycles: u64,
    }

    /// Of `util/counters`: what each unit's counters show.
    pub struct CountersParams {
        /// Three words for each unit, 64 bytes apart: `turn`, cycles, nanoseconds.
        pub counted: u64,
        /// How many units have a place there.
        pub units: u64,
        /// Tells what this launch left from what an earlier one did.
        pub turn: u64,
    }

    /// Of `util/hold`: what is enqueued after it starts when the host says so.
    pub struct HoldParams {
        /// A 32-bit word of host memory; anything but 0 lets the stream continue.
        pub released: u64,
        /// Nanoseconds after which the stream continues in any case.
        pub limit: u64,
        /// A word that is given the nanoseconds waited; the limit where that was reached.
        pub waited: u64,
    }

    /// Of access other than in streams; see [`crate::case::AccessPoint`].
    pub struct AccessParams {
        /// The table of a gather; the arrays of a mix, those that are read first; what units'
        /// shared memory is filled with.
        pub a: u64,
        /// Of a gather: which row is read when, 32 bits each.
        pub order: u64,
        /// One sum for each block, 64 bytes apart.
        pub partial: u64,
        /// Rows of a gather; words of one array of a mix; how often 16 KiB of shared memory are
        /// read.
        pub rows: u64,
        /// Bytes of a row; from one array of a mix to the next.
        pub row: u64,
        /// A row is 16 << row_shift bytes.
        pub row_shift: u64,
    }

    /// Of one copy.
    pub struct TransferParams {
        /// Written.
        pub to: u64,
        /// Read.
        pub from: u64,
        /// Bytes, a multiple of 8.
        pub length: u64,
        /// The device whose engine copies.
        pub device: u32,
        /// Copies of different lanes go at once. With [`TransferParams::NOT_TIMED`] added, what is
        /// timed does not wait for the lane's end.
        pub lane: u32,
    }

    /// Of `sdc/hash`: the sum of [`super::sdc::hashed`] over words.
    pub struct HashParams {
        /// The words, 16 bytes aligned.
        pub values: u64,
        /// How many, a multiple of 2.
        pub length: u64,
        /// Where each block leaves its part of the sum, 64 bytes apart.
        pub partial: u64,
    }

    /// Of `sdc/tally`.
    pub struct TallyParams {
        /// What blocks of `sdc/hash` left.
        pub partial: u64,
        /// How many blocks.
        pub blocks: u64,
        /// [`super::sdc::TALLY_WORDS`] words, zeros at first.
        pub tally: u64,
        /// Hashes that it has room for.
        pub entries: u64,
        /// A word: which copy of the values is to be kept, counted from 1; 0 for none.
        pub fresh: u64,
    }

    /// Of `sdc/keep`.
    pub struct KeepParams {
        /// What `sdc/tally` left.
        pub fresh: u64,
        /// What may be kept.
        pub values: u64,
        /// Room for two copies.
        pub kept: u64,
        /// Words of one.
        pub length: u64,
    }

    /// Of `sdc/pattern`: words are compared with a pattern, and another one is written.
    pub struct PatternParams {
        /// The words.
        pub values: u64,
        /// How many.
        pub length: u64,
        /// Four words for each block, 64 bytes apart: how many were wrong in all launches, and of
        /// the first of them its place, its bits and its round.
        pub partial: u64,
        /// The round of the pattern that is compared with.
        pub checked_round: u64,
        /// That of the one that is written.
        pub written_round: u64,
        /// The pattern that is compared with ([`super::sdc::number`]); 0: none.
        pub checked: u32,
        /// The one that is written; 0: none.
        pub written: u32,
        /// Not 0: from the last word to the first.
        pub descending: u32,
        /// Fills the struct.
        pub unused: u32,
    }

    /// Of a launch of next to nothing.
    pub struct LaunchParams {
        /// A word that each launch counts up.
        pub count: u64,
        /// Kernels of one graph.
        pub kernels: u64,
    }
}

impl TransferParams {
    /// Marks a lane that runs beside what is timed.
    pub const NOT_TIMED: u32 = 1 << 31;
}

impl From<Sequence> for AttentionSequence {
    fn from(sequence: Sequence) -> AttentionSequence {
        let Sequence { query_first, queries, key_first, keys } = sequence;
        AttentionSequence { query_first, queries, key_first, keys }
    }
}

impl AttentionPart {
    /// Rows of a part at most.
    pub const ROWS: u32 = 64;
}
