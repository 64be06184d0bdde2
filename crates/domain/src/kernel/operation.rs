//! What a kernel computes: the closed set of operations that devices list kernels of.

use super::Params;
use crate::{
    case::{
        Access, AttentionKind, Fused, Instruction, InstructionPoint, Launching, Layout, Recurrence,
        Sparse, StreamOperation,
    },
    dtype::Dtype,
};
use bytemuck::Zeroable;
use serde::{Deserialize, Deserializer};
use std::{fmt, str::FromStr};

/// What a kernel computes. Its `Display` is the name in `kernels/kernels.toml` and
/// `kernels/amd.toml`, such as `gemm/bf16`, which [`FromStr`] reads back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `stream/copy`: an operation of STREAM.
    Stream(StreamOperation),
    /// `latency`: a chain of dependent loads.
    Latency,
    /// `latency/side`: the same chain by atomic operations, whose time tells the cache's slice.
    LatencySide,
    /// `latency/probe`: the cycles of one atomic operation on each of some lines.
    LatencyProbe,
    /// `compute/f32`: arithmetic in registers.
    Compute(Dtype),
    /// `instruction/fma/f32`: a chain of instructions, each of which waits for the one before.
    Instruction(InstructionPoint),
    /// `gemm/bf16`, `gemm/bf16/nt`: a matrix product of one layout of B.
    Gemm(Dtype, Layout),
    /// `grouped/bf16`: matrix products of groups of rows.
    Grouped(Dtype),
    /// `attention/prefill/bf16/128x128`: attention of one kind and of one pair of head dimensions.
    Attention {
        /// `None` for a kernel of all kinds.
        kind: Option<AttentionKind>,
        /// Element type of keys and values.
        dtype: Dtype,
        /// Dimensions of a query (and key) and of a value; `None` for a kernel of any.
        dims: Option<[u32; 2]>,
    },
    /// `fused/norm/bf16`: a fused operation, and the element type of its output.
    Fused(Fused, Dtype),
    /// `recurrence/kda/f32`: a recurrence, and the element type of its states.
    Recurrence(Recurrence, Dtype),
    /// `sparse/decode`: a step of sparse latent attention.
    Sparse(Sparse),
    /// `access/gather`: access to memory other than in streams.
    Access(Access),
    /// `transfer/copy`: one copy between two memories.
    Copy,
    /// `launch/queued`: launches of next to nothing.
    Launch(Launching),
    /// `collective/check_bf16`: counts what a collective left wrong on the device.
    Check(Dtype),
    /// `sdc/hash`: a hash of memory.
    Hash,
    /// `sdc/tally`: counts the hashes that were seen.
    Tally,
    /// `sdc/keep`: keeps what made a fresh hash.
    Keep,
    /// `sdc/pattern`: compares memory with a pattern, and writes another one.
    Pattern,
    /// `util/fill`: fills memory with a pattern.
    Fill,
    /// `util/compare`: counts words that differ from a pattern.
    Compare,
    /// `util/clock`: counts the units' cycles against a timer.
    Clock,
    /// `util/counters`: what each unit's counter of cycles and its timer show.
    Counters,
    /// `util/hold`: holds a stream until the host lets it continue.
    Hold,
}

impl Operation {
    /// Attention of an element type by a kernel of all kinds and dimensions.
    pub const fn any_attention(dtype: Dtype) -> Operation {
        Operation::Attention { kind: None, dtype, dims: None }
    }

    /// Parameters of the kind that its kernels take, all zeros.
    pub fn params(&self) -> Params {
        match self {
            Operation::Stream(_) => Params::Stream(Zeroable::zeroed()),
            Operation::Latency | Operation::LatencySide | Operation::Instruction(..) => {
                Params::Latency(Zeroable::zeroed())
            }
            Operation::LatencyProbe => Params::Probe(Zeroable::zeroed()),
            Operation::Compute(_) => Params::Compute(Zeroable::zeroed()),
            Operation::Gemm(..) => Params::Gemm(Zeroable::zeroed()),
            Operation::Grouped(_) => Params::Grouped(Zeroable::zeroed()),
            Operation::Attention { .. } => Params::Attention(Zeroable::zeroed()),
            Operation::Fused(..) => Params::Fused(Zeroable::zeroed()),
            Operation::Recurrence(..) => Params::Recurrence(Zeroable::zeroed()),
            Operation::Sparse(Sparse::TopK) => Params::SparseTopK(Zeroable::zeroed()),
            Operation::Sparse(Sparse::Decode) => Params::SparseDecode(Zeroable::zeroed()),
            Operation::Access(_) => Params::Access(Zeroable::zeroed()),
            Operation::Copy => Params::Transfer(Zeroable::zeroed()),
            Operation::Launch(_) => Params::Launch(Zeroable::zeroed()),
            Operation::Check(_) => Params::Check(Zeroable::zeroed()),
            Operation::Hash => Params::Hash(Zeroable::zeroed()),
            Operation::Tally => Params::Tally(Zeroable::zeroed()),
            Operation::Keep => Params::Keep(Zeroable::zeroed()),
            Operation::Pattern => Params::Pattern(Zeroable::zeroed()),
            Operation::Fill => Params::Fill(Zeroable::zeroed()),
            Operation::Compare => Params::Compare(Zeroable::zeroed()),
            Operation::Clock => Params::Clock(Zeroable::zeroed()),
            Operation::Counters => Params::Counters(Zeroable::zeroed()),
            Operation::Hold => Params::Hold(Zeroable::zeroed()),
        }
    }

    /// Whether its kernels take parameters of this kind.
    pub fn takes(&self, params: &Params) -> bool {
        self.params().is_kind_of(params)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Stream(stream) => write!(f, "stream/{stream}"),
            Operation::Latency => f.write_str("latency"),
            Operation::LatencySide => f.write_str("latency/side"),
            Operation::LatencyProbe => f.write_str("latency/probe"),
            Operation::Compute(dtype) => write!(f, "compute/{dtype}"),
            Operation::Instruction(point) => write!(f, "instruction/{point}"),
            Operation::Gemm(dtype, Layout::Nn) => write!(f, "gemm/{dtype}"),
            Operation::Gemm(dtype, layout) => write!(f, "gemm/{dtype}/{layout}"),
            Operation::Grouped(dtype) => write!(f, "grouped/{dtype}"),
            Operation::Attention { kind, dtype, dims } => {
                f.write_str("attention/")?;
                if let Some(kind) = kind {
                    write!(f, "{kind}/")?;
                }
                write!(f, "{dtype}")?;
                dims.map_or(Ok(()), |[dim_qk, dim_v]| write!(f, "/{dim_qk}x{dim_v}"))
            }
            Operation::Fused(fused, output) => write!(f, "fused/{fused}/{output}"),
            Operation::Recurrence(recurrence, state) => {
                write!(f, "recurrence/{recurrence}/{state}")
            }
            Operation::Sparse(step) => write!(f, "sparse/{step}"),
            Operation::Access(access) => write!(f, "access/{access}"),
            Operation::Copy => f.write_str("transfer/copy"),
            Operation::Launch(launching) => write!(f, "launch/{launching}"),
            Operation::Check(dtype) => write!(f, "collective/check_{dtype}"),
            Operation::Hash => f.write_str("sdc/hash"),
            Operation::Tally => f.write_str("sdc/tally"),
            Operation::Keep => f.write_str("sdc/keep"),
            Operation::Pattern => f.write_str("sdc/pattern"),
            Operation::Fill => f.write_str("util/fill"),
            Operation::Compare => f.write_str("util/compare"),
            Operation::Clock => f.write_str("util/clock"),
            Operation::Counters => f.write_str("util/counters"),
            Operation::Hold => f.write_str("util/hold"),
        }
    }
}

/// A text that names no operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no operation that this version of fizeau knows")]
pub struct NotAnOperation(String);

impl FromStr for Operation {
    type Err = NotAnOperation;

    fn from_str(text: &str) -> Result<Operation, NotAnOperation> {
        let (family, rest) = text.split_once('/').unwrap_or((text, ""));
        let found = match family {
            "stream" => one_of(StreamOperation::ALL, rest).map(Operation::Stream),
            "latency" => match rest {
                "" => Some(Operation::Latency),
                "side" => Some(Operation::LatencySide),
                "probe" => Some(Operation::LatencyProbe),
                _ => None,
            },
            "compute" => one_of(Dtype::ALL, rest).map(Operation::Compute),
            "instruction" => instruction(rest).map(Operation::Instruction),
            "gemm" => gemm(rest),
            "grouped" => one_of(Dtype::ALL, rest).map(Operation::Grouped),
            "attention" => attention(rest),
            "fused" => pair(rest, Fused::ALL).map(|(of, output)| Operation::Fused(of, output)),
            "recurrence" => {
                pair(rest, Recurrence::ALL).map(|(of, state)| Operation::Recurrence(of, state))
            }
            "sparse" => one_of(Sparse::ALL, rest).map(Operation::Sparse),
            "access" => one_of(Access::ALL, rest).map(Operation::Access),
            "transfer" => (rest == "copy").then_some(Operation::Copy),
            "launch" => one_of(Launching::ALL, rest).map(Operation::Launch),
            "collective" => rest
                .strip_prefix("check_")
                .and_then(|dtype| one_of(Dtype::ALL, dtype))
                .map(Operation::Check),
            "sdc" => match rest {
                "hash" => Some(Operation::Hash),
                "tally" => Some(Operation::Tally),
                "keep" => Some(Operation::Keep),
                "pattern" => Some(Operation::Pattern),
                _ => None,
            },
            "util" => match rest {
                "fill" => Some(Operation::Fill),
                "compare" => Some(Operation::Compare),
                "clock" => Some(Operation::Clock),
                "counters" => Some(Operation::Counters),
                "hold" => Some(Operation::Hold),
                _ => None,
            },
            _ => None,
        };
        // Only the one spelling that `Display` gives: `latency/` is none.
        found
            .filter(|operation| operation.to_string() == text)
            .ok_or_else(|| NotAnOperation(text.to_owned()))
    }
}

/// `fma/f32` or `shuffle`.
fn instruction(text: &str) -> Option<InstructionPoint> {
    let (instruction, dtype) = match text.split_once('/') {
        Some((one, dtype)) => (one_of(Instruction::ALL, one)?, Some(one_of(Dtype::ALL, dtype)?)),
        None => (one_of(Instruction::ALL, text)?, None),
    };
    let point = InstructionPoint { instruction, dtype };
    point.check().is_ok().then_some(point)
}

/// `bf16` or `bf16/nt`.
fn gemm(text: &str) -> Option<Operation> {
    let (dtype, layout) = text.split_once('/').unwrap_or((text, Layout::Nn.name()));
    let (dtype, layout) = (one_of(Dtype::ALL, dtype)?, one_of(Layout::ALL, layout)?);
    Layout::of(dtype).contains(&layout).then_some(Operation::Gemm(dtype, layout))
}

/// `prefill/bf16/128x128`, `prefill/bf16` or `bf16`.
fn attention(text: &str) -> Option<Operation> {
    let mut parts: Vec<&str> = text.split('/').collect();
    let dims = parts.last().and_then(|last| {
        let (dim_qk, dim_v) = last.split_once('x')?;
        Some([dim_qk.parse().ok()?, dim_v.parse().ok()?])
    });
    if dims.is_some() {
        parts.pop();
    }
    let (kind, dtype) = match parts[..] {
        [kind, dtype] => (Some(one_of(AttentionKind::ALL, kind)?), dtype),
        [dtype] => (None, dtype),
        _ => return None,
    };
    Some(Operation::Attention { kind, dtype: one_of(Dtype::ALL, dtype)?, dims })
}

/// `norm/bf16`: one of some operations, and an element type.
fn pair<T: fmt::Display, const N: usize>(text: &str, all: [T; N]) -> Option<(T, Dtype)> {
    let (of, dtype) = text.split_once('/')?;
    Some((one_of(all, of)?, one_of(Dtype::ALL, dtype)?))
}

/// The one of some values that is written like this.
fn one_of<T: fmt::Display, const N: usize>(all: [T; N], text: &str) -> Option<T> {
    all.into_iter().find(|one| one.to_string() == text)
}

impl<'de> Deserialize<'de> for Operation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Operation, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_back() {
        for text in [
            "stream/triad",
            "latency",
            "latency/side",
            "latency/probe",
            "compute/int8",
            "instruction/fma/f64",
            "instruction/shuffle",
            "gemm/nvfp4",
            "gemm/bf16/nt",
            "grouped/bf16",
            "attention/prefill/bf16/192x128",
            "attention/mla/fp8",
            "attention/f32",
            "fused/norm/fp8block",
            "recurrence/gated_delta/bf16",
            "sparse/top_k",
            "sparse/decode",
            "access/mix_3r1w",
            "transfer/copy",
            "launch/graph",
            "collective/check_bf16",
            "sdc/hash",
            "sdc/tally",
            "sdc/keep",
            "sdc/pattern",
            "util/fill",
            "util/compare",
            "util/clock",
            "util/hold",
        ] {
            let operation: Operation = text.parse().expect(text);
            assert_eq!(operation.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_operation_is_refused() {
        for text in [
            "",
            "latency/",
            "gemm/f31",
            "gemm/fp8/nt",
            "gemm/bf16/nn",
            "gemm/bf16/tn",
            "fused/norm",
            "recurrence/kda",
            "sparse/decode/bf16",
            "attention/bf16/128",
            "stream",
            "util/evict",
            "instruction/fma",
        ] {
            let error = text.parse::<Operation>().expect_err(text);
            assert!(error.to_string().contains(text));
        }
    }

    #[test]
    fn an_operation_takes_one_kind_of_parameters() {
        let gemm: Operation = "gemm/f32".parse().expect("an operation");
        let taken: Vec<Params> =
            Params::zeros().into_iter().filter(|params| gemm.takes(params)).collect();
        assert!(matches!(taken[..], [Params::Gemm(_)]), "{taken:?}");
    }
}
