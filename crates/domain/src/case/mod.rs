//! A case: one fully specified point of one operation, and the kernel that performs it. The plan
//! is a list of these.

mod attention;
mod collective;
mod fused;
mod grouped;
pub mod limits;
mod machine;
mod recurrence;
mod sdc;
mod sparse;
mod wire_bytes;

pub use attention::{AttentionKind, AttentionPoint, Lengths, Mask, Sequence};
pub use collective::{Buffers, Collective, CollectivePoint, Place};
pub use fused::{Fused, FusedPoint};
pub use grouped::{GroupedPoint, Routing};
pub use machine::{
    Access, AccessPoint, HostMemory, Instruction, InstructionPoint, LaunchPoint, Launching,
    MemoryNode, Transfer, TransferPoint,
};
pub use recurrence::{Recurrence, RecurrencePoint};
pub use sdc::{MemoryPattern, SdcPoint};
pub use sparse::{Sparse, SparseDecode, SparsePoint, SparseTopK};
pub use wire_bytes::Algorithm;

use crate::{
    dtype::Dtype,
    units::{Bytes, Flops},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One fully specified thing to measure, before any device is involved. Its `Display` is the
/// stable id that selectors match and comparisons join on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Case {
    /// Which kernel performs it.
    pub kernel: KernelName,
    /// What is performed.
    pub point: Point,
}

/// The name of a kernel: a bundled one (`avx512_nt`, `sm90_wgmma`) or a vendor library's
/// (`openblas`, `cublaslt`). A record outlives the table of kernels, so this is a name and not a
/// reference.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct KernelName(pub String);

impl KernelName {
    /// Vendors' libraries whose functions are measured as kernels.
    const LIBRARIES: [&str; 8] =
        ["cublaslt", "hipblaslt", "openblas", "blis", "mkl", "onednn", "nccl", "rccl"];

    /// Whether a vendor's library performs it, and no kernel of this program.
    pub fn is_of_library(&self) -> bool {
        KernelName::LIBRARIES.contains(&self.0.as_str())
    }

    /// Whether a peak of arithmetic is one of random numbers (`sm90_wgmma_random`). The others
    /// multiply ones, which toggle few bits and draw less power, so that the clock stays higher.
    pub fn is_of_random_numbers(&self) -> bool {
        self.0.ends_with("_random")
    }
}

/// What is measured, one shape for each operation. Closed on purpose: the compiler then finds
/// every report and guard that a new operation must teach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

/// A STREAM operation on `f64` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamPoint {
    /// Which of the operations.
    pub stream: StreamOperation,
    /// Bytes of all arrays together that one iteration touches.
    pub working_set: Bytes,
    /// Units (host: cores, one pinned thread each) that take part.
    pub units: u32,
}

/// Loads that each depend on the one before, at random over a working set, one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LatencyPoint {
    /// Bytes the chain of pointers covers.
    pub working_set: Bytes,
    /// Only lines of the last cache that are so far from the unit, by atomic operations, which take
    /// longer than loads; absent: all there are.
    pub side: Option<CacheSide>,
    /// Two loads in each block of [`LatencyPoint::BLOCK`], the second this many bytes after the
    /// first: within one line it finds what the first one brought. Absent: one load in each line.
    pub pair: Option<Bytes>,
}

impl LatencyPoint {
    /// From one pair of loads to the next in memory: longer than the line of any cache.
    pub const BLOCK: Bytes = Bytes(512);

    /// The least distance of a pair: two cells of 8 bytes with room between them.
    pub const PAIR_MIN: Bytes = Bytes(16);

    /// The least working set of a chain that is thin: 64 KiB of each 2 MiB. It is laid so far apart
    /// to miss the translation buffers (TLBs) of a GPU, which reach 8 GiB on a V100 by pages of 2
    /// MiB (Jia et al., "Dissecting the NVIDIA Volta GPU architecture via microbenchmarking",
    /// 2018).
    pub const BEYOND_TLB: Bytes = Bytes(16 << 30);

    /// Whether its loads are meant to miss the TLBs too: never on the host, whose memory is chased
    /// up to a few caches' size.
    pub fn is_beyond_tlb(&self) -> bool {
        self.working_set >= LatencyPoint::BEYOND_TLB
    }
}

/// Where slices of the last cache are as a unit sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CacheSide {
    /// In the unit's own part of the chip.
    Near,
    /// In another.
    Far,
}

named!(CacheSide { Near => "near", Far => "far" });

/// Independent multiply-adds on registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ComputePoint {
    /// Element type.
    pub dtype: Dtype,
    /// Units that take part.
    pub units: u32,
}

/// `C[m, n] = A[m, k] B[k, n]`. A and C are row-major; B stands as [`GemmPoint::layout`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GemmPoint {
    /// Element type of A and B; types such as `bf16-int4` name one for each.
    pub dtype: Dtype,
    /// Rows of the output.
    pub m: u32,
    /// Columns of the output.
    pub n: u32,
    /// The dimension summed over.
    pub k: u32,
    /// How B stands in memory, for element types that have a choice ([`Layout::of`]).
    pub layout: Layout,
    /// What stands in A and B.
    pub contents: Contents,
}

/// How B of a matrix product stands in memory. The names are those of BLAS for row-major matrices:
/// A is never transposed (`n`), B may be (`t`).
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Row by row: k rows of n elements.
    #[default]
    Nn,
    /// Column by column: n rows of k elements, as a linear layer holds its weights.
    Nt,
}

impl Layout {
    /// The layouts that products of an element type have. Elements of 8-bit floats and of narrower
    /// types, and weights that are narrower than A, stand column by column always: their points
    /// name no layout, which [`Layout::Nn`] stands for.
    pub fn of(dtype: Dtype) -> &'static [Layout] {
        match dtype {
            Dtype::F64 | Dtype::F32 | Dtype::Tf32 | Dtype::F16 | Dtype::Bf16 | Dtype::Int8 => {
                &Layout::ALL
            }
            _ => &[Layout::Nn],
        }
    }

    /// Whether it is [`Layout::Nn`], which records, ids and lists of kernels leave out.
    pub fn is_nn(&self) -> bool {
        *self == Layout::Nn
    }
}

/// What stands in the operands of a matrix product. Units that multiply take power by the bits that
/// change: with light data a GPU that its power limits runs at a higher clock, and a rate says
/// little that does not say of which data it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Contents {
    /// Near normal numbers; integers of all sizes.
    #[default]
    Random,
    /// Whole numbers from -4 to 4.
    Integers,
    /// Nothing but zeros.
    Zeros,
}

impl Contents {
    /// Whether they are random, as a real workload's: only these count toward bests and ceilings.
    pub fn are_random(&self) -> bool {
        *self == Contents::Random
    }
}

/// The STREAM operations: McCalpin's four, and the ends they leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamOperation {
    /// The sum of the bits of `a`, as integers.
    Read,
    /// `a = s`
    Write,
    /// `a = b`
    Copy,
    /// `a = s * b`
    Scale,
    /// `a = b + c`
    Add,
    /// `a = b + s * c`
    Triad,
    /// The sum of `a * b`.
    Dot,
}

impl StreamOperation {
    /// How many arrays an iteration touches, each once: the byte count of STREAM, which does not
    /// count a write-allocate's hidden read.
    pub fn arrays(self) -> u64 {
        match self {
            StreamOperation::Read | StreamOperation::Write => 1,
            StreamOperation::Copy | StreamOperation::Scale | StreamOperation::Dot => 2,
            StreamOperation::Add | StreamOperation::Triad => 3,
        }
    }

    /// How many of [`StreamOperation::arrays`] are only read.
    pub fn arrays_read(self) -> u64 {
        match self {
            StreamOperation::Write => 0,
            StreamOperation::Read | StreamOperation::Copy | StreamOperation::Scale => 1,
            StreamOperation::Add | StreamOperation::Triad | StreamOperation::Dot => 2,
        }
    }

    /// Floating-point operations for one element.
    fn flops(self) -> u64 {
        match self {
            // `read` adds integers.
            StreamOperation::Read | StreamOperation::Write | StreamOperation::Copy => 0,
            StreamOperation::Scale | StreamOperation::Add => 1,
            StreamOperation::Triad | StreamOperation::Dot => 2,
        }
    }
}

/// The least data movement and arithmetic that one iteration of a case can do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
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

impl Point {
    /// What one iteration must move and compute. Every rate this program prints follows from it.
    pub fn work(&self) -> Work {
        match self {
            Point::Stream(point) => point.work(),
            Point::Latency(_) | Point::Instruction(_) => Work::default(),
            Point::Compute(point) => point.work(),
            Point::Gemm(point) => point.work(),
            Point::Grouped(point) => point.work(),
            Point::Attention(point) => point.work(),
            Point::Fused(point) => point.work(),
            Point::Recurrence(point) => point.work(),
            Point::Sparse(point) => point.work(),
            Point::Collective(point) => point.work(),
            Point::Access(point) => point.work(),
            Point::Transfer(point) => point.work(),
            Point::Launch(_) => Work::default(),
            // It says whether results are right, and nothing of speed.
            Point::Sdc(_) => Work::default(),
        }
    }

    /// The element type whose arithmetic peak binds, if there is arithmetic.
    pub fn dtype(&self) -> Option<Dtype> {
        match self {
            Point::Stream(_) => Some(Dtype::F64),
            Point::Latency(_)
            | Point::Fused(_)
            | Point::Recurrence(_)
            | Point::Sparse(SparsePoint::TopK(_))
            | Point::Access(_)
            | Point::Transfer(_)
            | Point::Launch(_)
            | Point::Sdc(_) => None,
            Point::Compute(point) => Some(point.dtype),
            Point::Instruction(point) => point.dtype,
            Point::Gemm(point) => Some(match point.dtype.weights() {
                Some(_) => point.dtype.unscaled(),
                None => point.dtype,
            }),
            Point::Grouped(point) => Some(point.dtype),
            Point::Attention(point) => Some(point.multiplied_dtype()),
            // What is dequantised is multiplied by queries of bf16.
            Point::Sparse(SparsePoint::Decode(_)) => Some(Dtype::Bf16),
            Point::Collective(_) => None,
        }
    }

    /// Whether its speed is that of arithmetic, which a regulator of power lowers under load.
    pub fn depends_on_power(&self) -> bool {
        matches!(
            self,
            Point::Compute(_)
                | Point::Gemm(_)
                | Point::Grouped(_)
                | Point::Attention(_)
                | Point::Sparse(SparsePoint::Decode(_))
        )
    }

    /// The units that take part, where it is not all of them.
    pub fn units(&self) -> Option<u32> {
        match self {
            Point::Stream(point) => Some(point.units),
            Point::Latency(_) | Point::Instruction(_) => Some(1),
            Point::Compute(point) => Some(point.units),
            Point::Access(point) => Some(point.units),
            Point::Gemm(_)
            | Point::Grouped(_)
            | Point::Attention(_)
            | Point::Fused(_)
            | Point::Recurrence(_)
            | Point::Sparse(_)
            | Point::Collective(_)
            | Point::Transfer(_)
            | Point::Launch(_)
            | Point::Sdc(_) => None,
        }
    }

    /// Whether all ranks work on it together; else each does so by itself.
    pub fn is_of_all_ranks(&self) -> bool {
        matches!(self, Point::Collective(_) | Point::Sdc(SdcPoint::AllReduce { .. }))
    }

    /// Whether it uses what the GPUs of a machine share: links to the host and to each other, and
    /// the host's cores, which launch. Such cases are measured on one GPU after another.
    pub fn is_shared_by_gpus(&self) -> bool {
        match self {
            Point::Transfer(point) => point.transfer != Transfer::DeviceLocalCopy,
            Point::Launch(_) | Point::Collective(_) => true,
            Point::Sdc(point) => {
                matches!(point, SdcPoint::Copy { .. } | SdcPoint::AllReduce { .. })
            }
            Point::Stream(_)
            | Point::Latency(_)
            | Point::Compute(_)
            | Point::Instruction(_)
            | Point::Gemm(_)
            | Point::Grouped(_)
            | Point::Attention(_)
            | Point::Fused(_)
            | Point::Recurrence(_)
            | Point::Sparse(_)
            | Point::Access(_) => false,
        }
    }

    /// The operation's name, which is the first segment of the id.
    pub fn operation(&self) -> &'static str {
        match self {
            Point::Stream(_) => "stream",
            Point::Latency(_) => "latency",
            Point::Compute(_) => "compute",
            Point::Instruction(_) => "instruction",
            Point::Gemm(_) => "gemm",
            Point::Grouped(_) => "grouped",
            Point::Attention(_) => "attention",
            Point::Fused(_) => "fused",
            Point::Recurrence(_) => "recurrence",
            Point::Sparse(_) => "sparse",
            Point::Collective(_) => "collective",
            Point::Access(_) => "access",
            Point::Transfer(_) => "transfer",
            Point::Launch(_) => "launch",
            Point::Sdc(_) => "sdc",
        }
    }
}

impl StreamPoint {
    /// Elements of one array.
    pub fn length(&self) -> u64 {
        self.working_set.0 / self.stream.arrays() / 8
    }

    fn work(&self) -> Work {
        let length = self.length();
        Work {
            memory: Bytes(length * 8 * self.stream.arrays()),
            flops: Flops((length * self.stream.flops()) as f64),
            ..Work::default()
        }
    }
}

impl ComputePoint {
    /// Multiply-adds of one iteration on one unit, in one lane-independent count: large enough
    /// that starting and stopping the units does not show.
    pub const FLOPS_PER_UNIT: f64 = (1u64 << 28) as f64;

    fn work(&self) -> Work {
        let flops = Flops(Self::FLOPS_PER_UNIT * f64::from(self.units));
        Work { flops, ..Work::default() }
    }
}

impl GemmPoint {
    /// Whether B stands column by column (n rows of k elements), by the point's layout or because
    /// the element type has no other.
    pub fn is_b_by_columns(&self) -> bool {
        self.layout == Layout::Nt || Layout::of(self.dtype).len() == 1
    }

    /// Bits of an element of B, scales not counted.
    pub fn bits_of_b(&self) -> u64 {
        self.dtype.weights().map_or(self.dtype.bits(), |weights| weights.bits)
    }

    /// 2 m n k operations; A and B read once, and what scales they have; C written once.
    fn work(&self) -> Work {
        let (m, n, k) = (f64::from(self.m), f64::from(self.n), f64::from(self.k));
        let bits_a = self.dtype.bits() as f64;
        let bits_b = self.bits_of_b() as f64;
        let bits_out = self.dtype.output().bits() as f64;
        let scales = self.dtype.scaling().map_or(0.0, |scaling| {
            let of = |length: u32, shared: u64| u64::from(length).div_ceil(shared);
            let lines = of(self.m, scaling.lines[0]) + of(self.n, scaling.lines[1]);
            (lines * of(self.k, scaling.block) * scaling.bits) as f64
        });
        let of_weights = self.dtype.weights().map_or(0.0, |weights| {
            let blocks = weights.block.map_or(1, |block| u64::from(self.k).div_ceil(block));
            (u64::from(self.n) * blocks * weights.scale_bits) as f64
        });
        let elements = m * k * bits_a + k * n * bits_b + m * n * bits_out;
        let memory = (elements + scales + of_weights) / 8.0;
        Work {
            memory: Bytes(memory.ceil() as u64),
            flops: Flops(2.0 * m * n * k),
            ..Work::default()
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.point, self.kernel.0)
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.operation())?;
        match self {
            Point::Stream(p) => {
                write!(f, "{}/{}/{}u", p.stream, compact(p.working_set), p.units)
            }
            Point::Latency(p) => {
                write!(f, "{}", compact(p.working_set))?;
                p.side.map_or(Ok(()), |side| write!(f, "-{side}"))?;
                p.pair.map_or(Ok(()), |pair| write!(f, "-pair{}", compact(pair)))
            }
            Point::Access(p) => write!(f, "{p}"),
            Point::Transfer(p) => write!(f, "{p}"),
            Point::Launch(p) => write!(f, "{p}"),
            Point::Sdc(p) => write!(f, "{p}"),
            Point::Compute(p) => write!(f, "{}/{}u", p.dtype, p.units),
            Point::Instruction(p) => write!(f, "{p}"),
            Point::Gemm(p) => {
                write!(f, "{}/", p.dtype)?;
                if !p.layout.is_nn() {
                    write!(f, "{}/", p.layout)?;
                }
                write!(f, "{}x{}x{}", p.m, p.n, p.k)?;
                if p.contents.are_random() { Ok(()) } else { write!(f, "-{}", p.contents) }
            }
            Point::Grouped(p) => write!(f, "{p}"),
            Point::Attention(p) => write!(f, "{p}"),
            Point::Fused(p) => write!(f, "{p}"),
            Point::Recurrence(p) => write!(f, "{p}"),
            Point::Sparse(p) => write!(f, "{p}"),
            Point::Collective(p) => write!(f, "{p}"),
        }
    }
}

/// A size without a space: `4KiB`; a size that no binary unit divides is in bytes: `1000B`.
fn compact(size: Bytes) -> String {
    for (unit, shift) in [("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        if size.0 > 0 && size.0.is_multiple_of(1 << shift) {
            return format!("{}{unit}", size.0 >> shift);
        }
    }
    format!("{}B", size.0)
}

named!(Layout { Nn => "nn", Nt => "nt" });
named!(Contents { Random => "random", Integers => "integers", Zeros => "zeros" });
named!(StreamOperation {
    Read => "read", Write => "write", Copy => "copy", Scale => "scale", Add => "add",
    Triad => "triad", Dot => "dot",
});
