//! Cases: what is measured, and by which kernel.

use crate::mirror::mirror;
use fizeau_domain::{
    case::{
        self, Access, AttentionKind, Buffers, CacheSide, Collective, Contents, Fused, HostMemory,
        Instruction, KernelName, Launching, Layout, Lengths, Mask, MemoryPattern, Place,
        Recurrence, Routing, StreamOperation, Transfer, limits,
    },
    dtype::Dtype,
    units::{Bytes, Flops},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One fully specified thing to measure, before any device is involved. Its `Display` is the
/// stable id that selectors match and comparisons join on.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Case {
    /// Which kernel performs it.
    pub kernel: KernelName,
    /// What is performed.
    pub point: Point,
}

mirror!(Case of case::Case { kernel, point });

/// What is measured, one shape for each operation. Closed on purpose: the compiler then finds
/// every report and guard that a new operation must teach.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "operation")]
pub enum Point {
    /// A STREAM operation over a working set.
    Stream(StreamPoint),
    /// Dependent loads over a working set.
    Latency(LatencyPoint),
    /// Multiply-adds on registers alone: the arithmetic ceiling.
    Compute(ComputePoint),
    /// Instructions that each wait for the one before: the time of one.
    Instruction(InstructionPoint),
    /// A matrix product.
    Gemm(GemmPoint),
    /// A matrix product for each of some groups.
    Grouped(GroupedPoint),
    /// Attention, forward.
    Attention(AttentionPoint),
    /// Several steps between products in one, which memory bounds.
    Fused(FusedPoint),
    /// One token of linear attention: its states updated and read out, which memory bounds.
    Recurrence(RecurrencePoint),
    /// A step of sparse latent attention: what is selected, and attention over it.
    Sparse(SparsePoint),
    /// A collective over all ranks.
    Collective(CollectivePoint),
    /// Access to memory other than in streams.
    Access(AccessPoint),
    /// Bytes from one memory to another.
    Transfer(TransferPoint),
    /// Launches of next to nothing.
    Launch(LaunchPoint),
    /// Work that leaves the same bits each time: whether it does.
    Sdc(SdcPoint),
}

mirror!(enum Point of case::Point {
    Stream(point), Latency(point), Compute(point), Instruction(point), Gemm(point),
    Grouped(point), Attention(point), Fused(point), Recurrence(point), Sparse(point),
    Collective(point), Access(point), Transfer(point), Launch(point), Sdc(point)
});

/// A STREAM operation on `f64` elements.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamPoint {
    /// Which of the operations.
    pub stream: StreamOperation,
    /// Bytes of all arrays together that one iteration touches.
    pub working_set: Bytes,
    /// Units (host: cores, one pinned thread each) that take part.
    #[schemars(range(min = 1, max = limits::UNITS_MAX))]
    pub units: u32,
}

mirror!(StreamPoint of case::StreamPoint { stream, working_set, units });

/// Loads that each depend on the one before, at random over a working set, one unit.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyPoint {
    /// Bytes the chain of pointers covers.
    pub working_set: Bytes,
    /// Only lines of the last cache that are so far from the unit; absent: all there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<CacheSide>,
    /// Bytes from the first to the second of two loads in each block of 512 bytes; absent: one load
    /// in each line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<Bytes>,
}

mirror!(LatencyPoint of case::LatencyPoint { working_set, side, pair });

/// Independent multiply-adds on registers.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComputePoint {
    /// Element type.
    pub dtype: Dtype,
    /// Units that take part.
    #[schemars(range(min = 1, max = limits::UNITS_MAX))]
    pub units: u32,
}

mirror!(ComputePoint of case::ComputePoint { dtype, units });

/// A chain of one instruction, each of which takes the result of the one before, on one unit.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InstructionPoint {
    /// Which one.
    pub instruction: Instruction,
    /// Element type; absent for instructions on 32-bit words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<Dtype>,
}

mirror!(InstructionPoint of case::InstructionPoint { instruction, dtype });

/// `C[m, n] = A[m, k] B[k, n]`. A and C are row-major.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GemmPoint {
    /// Element type of A and B.
    pub dtype: Dtype,
    /// Rows of the output.
    #[schemars(range(min = 1, max = limits::SIZE_MAX))]
    pub m: u32,
    /// Columns of the output.
    #[schemars(range(min = 1, max = limits::SIZE_MAX))]
    pub n: u32,
    /// The dimension summed over.
    #[schemars(range(min = 1, max = limits::SIZE_MAX))]
    pub k: u32,
    /// How B stands in memory: `nn` row by row, `nt` column by column. Absent: `nn`, or for element
    /// types of 8-bit floats and narrower ones, which have no other, column by column.
    #[serde(default, skip_serializing_if = "Layout::is_nn")]
    pub layout: Layout,
    /// What stands in A and B.
    #[serde(default, skip_serializing_if = "Contents::are_random")]
    pub contents: Contents,
}

mirror!(GemmPoint of case::GemmPoint { dtype, m, n, k, layout, contents });

/// One product for each of some groups, as a mixture of experts needs them: the rows of A are dealt
/// to groups, those of a group follow each other, and each group has a B of its own.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GroupedPoint {
    /// Element type of A and B.
    pub dtype: Dtype,
    /// Rows of all groups together: tokens times the experts that each goes to.
    #[schemars(range(min = 1, max = limits::SIZE_MAX))]
    pub m: u32,
    /// Columns of the output.
    #[schemars(range(min = 1, max = limits::SIZE_MAX))]
    pub n: u32,
    /// The dimension summed over.
    #[schemars(range(min = 1, max = limits::SIZE_MAX))]
    pub k: u32,
    /// Groups: the experts that a device holds.
    #[schemars(range(min = 1, max = limits::GROUPS_MAX))]
    pub groups: u32,
    /// How many rows each has.
    pub routing: Routing,
}

mirror!(GroupedPoint of case::GroupedPoint { dtype, m, n, k, groups, routing });

/// Attention, forward, over a batch of sequences.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AttentionPoint {
    /// Which of the shapes of attention.
    pub attention: AttentionKind,
    /// Element type of K and V.
    #[schemars(
        description = "Element type of K and V; see [`AttentionPoint::queries_dtype`] for that \
                       of Q."
    )]
    pub dtype: Dtype,
    /// Sequences.
    #[schemars(range(min = 1, max = limits::BATCH_MAX))]
    pub batch: u32,
    /// Query heads.
    #[schemars(range(min = 1, max = limits::HEADS_MAX))]
    pub heads: u32,
    /// Key and value heads; `heads` is a multiple of it.
    #[schemars(range(min = 1, max = limits::HEADS_MAX))]
    pub kv_heads: u32,
    /// Query tokens of the longest sequence.
    #[schemars(range(min = 1, max = u32::MAX))]
    pub queries: u32,
    /// Key and value tokens of the longest sequence.
    #[schemars(range(min = 1, max = u32::MAX))]
    pub keys: u32,
    /// Dimension of a query and a key.
    #[schemars(range(min = 1, max = limits::DIM_MAX))]
    pub dim_qk: u32,
    /// Dimension of a value.
    #[schemars(range(min = 1, max = limits::DIM_MAX))]
    pub dim_v: u32,
    /// Which keys a query sees.
    pub mask: Mask,
    /// How long the sequences are.
    #[serde(default, skip_serializing_if = "Lengths::are_equal")]
    pub lengths: Lengths,
    /// Tokens of a page, where keys and values stand in pages in any order; absent: in one piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
}

mirror!(AttentionPoint of case::AttentionPoint {
    attention, dtype, batch, heads, kv_heads, queries, keys, dim_qk, dim_v, mask, lengths, page
});

/// A fused operation on rows of bf16, one for each token.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FusedPoint {
    /// Which one.
    pub fused: Fused,
    /// Element type of the output: bf16; fp8 by one scale; fp8block by a scale for each 128
    /// elements of a row.
    pub output: Dtype,
    /// Rows: tokens.
    #[schemars(range(min = 1, max = limits::SIZE_MAX))]
    pub rows: u32,
    /// Elements of a row of the output.
    #[schemars(range(min = 1, max = limits::SIZE_MAX))]
    pub width: u32,
}

mirror!(FusedPoint of case::FusedPoint { fused, output, rows, width });

/// One token of each of some sequences of linear attention: states are updated and read out.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecurrencePoint {
    /// Which rule.
    pub recurrence: Recurrence,
    /// Element type of the states: f32 or bf16.
    pub state: Dtype,
    /// Sequences.
    #[schemars(range(min = 1, max = limits::BATCH_MAX))]
    pub batch: u32,
    /// Heads of a sequence, each with a state.
    #[schemars(range(min = 1, max = limits::HEADS_MAX))]
    pub heads: u32,
    /// Heads of its queries and keys; `heads` is a multiple of it.
    #[schemars(range(min = 1, max = limits::HEADS_MAX))]
    pub key_heads: u32,
    /// Elements of a query and a key: a multiple of 16.
    #[schemars(range(min = 16, max = limits::RECURRENCE_KEY_MAX))]
    pub key: u32,
    /// Elements of a value.
    #[schemars(range(min = 1, max = limits::DIM_MAX))]
    pub value: u32,
}

mirror!(RecurrencePoint of case::RecurrencePoint {
    recurrence, state, batch, heads, key_heads, key, value
});

/// A step of sparse latent attention (DSA).
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "step")]
pub enum SparsePoint {
    /// Which tokens are selected: the greatest of their logits.
    TopK(SparseTopK),
    /// Attention over the tokens that were selected.
    Decode(SparseDecode),
}

mirror!(enum SparsePoint of case::SparsePoint { TopK(point), Decode(point) });

/// The places of the greatest of each row of logits in f32, of equal ones the first.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SparseTopK {
    /// Rows: queries.
    #[schemars(range(min = 1, max = limits::BATCH_MAX))]
    pub rows: u32,
    /// Numbers of a row.
    #[schemars(range(min = 1, max = limits::CONTEXT_MAX))]
    pub context: u32,
    /// Places that are wanted of a row: no more than it has.
    #[schemars(range(min = 1, max = limits::CONTEXT_MAX))]
    pub selected: u32,
}

mirror!(SparseTopK of case::SparseTopK { rows, context, selected });

/// One query token of each of some sequences, whose heads attend over selected tokens of a cache: a
/// row of 656 bytes each.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SparseDecode {
    /// Sequences.
    #[schemars(range(min = 1, max = limits::BATCH_MAX))]
    pub batch: u32,
    /// Query heads of a sequence.
    #[schemars(range(min = 1, max = limits::HEADS_MAX))]
    pub heads: u32,
    /// Tokens that a sequence attends over: no more than the context has.
    #[schemars(range(min = 1, max = limits::CONTEXT_MAX))]
    pub selected: u32,
    /// Tokens of a sequence's context, of which they are selected.
    #[schemars(range(min = 1, max = limits::CONTEXT_MAX))]
    pub context: u32,
}

mirror!(SparseDecode of case::SparseDecode { batch, heads, selected, context });

/// A collective over all ranks.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CollectivePoint {
    /// Which of the collectives.
    pub collective: Collective,
    /// Element type.
    pub dtype: Dtype,
    /// Size of the message as `nccl-tests` counts it in its `size` column: the larger of what one
    /// rank sends and receives. Where each rank has a part ([`Collective::in_parts`]) that is the
    /// whole buffer.
    pub message: Bytes,
    /// Ranks taking part.
    #[schemars(range(min = 1, max = limits::RANKS_MAX))]
    pub ranks: u32,
    /// Whether send and receive buffer are the same.
    pub place: Place,
    /// How the buffers are allocated.
    #[serde(default, skip_serializing_if = "Buffers::are_plain")]
    pub buffers: Buffers,
    /// How many of it are enqueued as one graph; 0 where each is enqueued by itself.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0, max = limits::GRAPH_MAX))]
    pub graph: u32,
}

fn is_zero(graph: &u32) -> bool {
    *graph == 0
}

mirror!(CollectivePoint of case::CollectivePoint {
    collective, dtype, message, ranks, place, buffers, graph
});

/// Access to memory other than in streams, by all units.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AccessPoint {
    /// Which way.
    pub access: Access,
    /// Bytes that one iteration reads and writes on all units together.
    pub working_set: Bytes,
    /// Bytes that are side by side; 16 where the way has no rows.
    pub row: Bytes,
    /// Units that take part.
    #[schemars(range(min = 1, max = limits::UNITS_MAX))]
    pub units: u32,
}

mirror!(AccessPoint of case::AccessPoint { access, working_set, row, units });

/// A transfer.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TransferPoint {
    /// Which.
    pub transfer: Transfer,
    /// Bytes of one copy; of a latency, those that the chain of pointers covers.
    pub size: Bytes,
    /// How the host's memory is allocated, where the host is at one end.
    pub host: HostMemory,
    /// The NUMA node that the host's memory is bound to; absent: the node of the device at the
    /// other end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<MemoryNode>,
    /// The device that it is measured on, and its peer where there is one.
    pub device: u32,
    /// The peer, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<u32>,
    /// Copies at once.
    #[schemars(range(min = 1, max = limits::COPIES_MAX))]
    pub copies: u32,
}

mirror!(TransferPoint of case::TransferPoint {
    transfer, size, host, node, device, peer, copies
});

/// A NUMA node of the host.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryNode {
    /// Its number.
    pub number: u32,
    /// How far it is from the device's own node, where 10 is that node itself; absent where the
    /// kernel does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance: Option<u32>,
}

mirror!(MemoryNode of case::MemoryNode { number, distance });

/// Launches of next to nothing.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LaunchPoint {
    /// How.
    pub launching: Launching,
    /// Kernels of one iteration.
    #[schemars(range(min = 1, max = limits::KERNELS_MAX))]
    pub kernels: u32,
}

mirror!(LaunchPoint of case::LaunchPoint { launching, kernels });

/// What is repeated and compared bit by bit. One iteration of a case is this many rounds of it.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "test")]
pub enum SdcPoint {
    /// The same matrix product again and again.
    Product {
        /// Element type of A and B.
        dtype: Dtype,
        /// Rows of the output.
        #[schemars(range(min = 1, max = limits::SIZE_MAX))]
        m: u32,
        /// Columns of the output.
        #[schemars(range(min = 1, max = limits::SIZE_MAX))]
        n: u32,
        /// The dimension summed over.
        #[schemars(range(min = 1, max = limits::SIZE_MAX))]
        k: u32,
        /// Products of one iteration.
        #[schemars(range(min = 1, max = limits::ROUNDS_MAX))]
        rounds: u32,
    },
    /// Memory that is written with a pattern and read back.
    Memory {
        /// Which pattern.
        pattern: MemoryPattern,
        /// How much memory.
        size: Bytes,
        /// How often in one iteration.
        #[schemars(range(min = 1, max = limits::ROUNDS_MAX))]
        rounds: u32,
    },
    /// Copies from the host to the device, back, and to the device again.
    Copy {
        /// Bytes of one copy.
        size: Bytes,
        /// How often in one iteration.
        #[schemars(range(min = 1, max = limits::ROUNDS_MAX))]
        rounds: u32,
    },
    /// Two all_reduces in turn, whose sums are known to the bit.
    AllReduce {
        /// Element type.
        dtype: Dtype,
        /// Bytes of one rank's message.
        size: Bytes,
        /// How many ranks.
        #[schemars(range(min = 2, max = limits::RANKS_MAX))]
        ranks: u32,
        /// How often in one iteration.
        #[schemars(range(min = 1, max = limits::ROUNDS_MAX))]
        rounds: u32,
    },
}

mirror!(enum SdcPoint of case::SdcPoint {
    Product { dtype, m, n, k, rounds }, Memory { pattern, size, rounds }, Copy { size, rounds },
    AllReduce { dtype, size, ranks, rounds }
});

/// The least data movement and arithmetic that one iteration of a case can do.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Work {
    /// To and from memory, summed over all units.
    pub memory: Bytes,
    /// Over the links between ranks, for one rank: the bus bytes of `nccl-tests`.
    pub link: Bytes,
    /// Arithmetic.
    pub flops: Flops,
    /// Exponentials, which attention needs and a special unit makes.
    pub exps: f64,
}

mirror!(Work of case::Work { memory, link, flops, exps });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::Mirror;

    #[test]
    fn a_product_without_a_layout_is_nn_and_stays_so() {
        let texts = [
            (r#""m":1,"n":2,"k":3"#, "gemm/bf16/1x2x3/cublaslt"),
            (r#""m":1,"n":2,"k":3,"layout":"nt""#, "gemm/bf16/nt/1x2x3/cublaslt"),
        ];
        for (fields, id) in texts {
            let point = format!(r#"{{"operation":"gemm","dtype":"bf16",{fields}}}"#);
            let text = format!(r#"{{"kernel":"cublaslt","point":{point}}}"#);
            let case: Case = serde_json::from_str(&text).expect("a case");
            let case = case.into_domain();
            assert_eq!(case.to_string(), id);
            let written = serde_json::to_string(&Case::from_domain(&case)).expect("it is text");
            assert_eq!(written, text);
        }
    }
}
