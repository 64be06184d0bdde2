//! Element types, by the names the field uses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An element type of the operands. Accumulation is in [`Dtype::F32`] (`int8`: 32-bit integer)
/// unless a kernel says otherwise.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// IEEE binary64.
    F64,
    /// IEEE binary32.
    F32,
    /// 19-bit float of NVIDIA's and AMD's matrix units, stored in 32.
    Tf32,
    /// IEEE binary16.
    F16,
    /// bfloat16.
    Bf16,
    /// 8-bit float (e4m3 or e5m2).
    Fp8,
    /// 6-bit float, block-scaled.
    Fp6,
    /// 4-bit float, block-scaled.
    Fp4,
    /// 8-bit integer, accumulated in 32 bits.
    Int8,
    /// 8-bit floats (e4m3) with a power of two as scale (MXFP8 of the OCP Microscaling Formats).
    Mxfp8,
    /// 4-bit floats (e2m1) with a power of two as scale (MXFP4 of the same).
    Mxfp4,
    /// 4-bit floats (e2m1) with an 8-bit float (e4m3) as scale, and an f32 as scale of each tensor
    /// (NVFP4 of NVIDIA's Blackwell).
    Nvfp4,
    /// 8-bit floats (e4m3) with an f32 as scale for each 128 along k of a row of A and each 128 x
    /// 128 of B, as DeepSeek-V3 has them.
    Fp8Block,
    /// A of bfloat16, B of 8-bit floats (e4m3) with an f32 as scale for each column.
    #[serde(rename = "bf16-fp8")]
    Bf16Fp8,
    /// A of bfloat16, B of 4-bit integers with a bfloat16 as scale for each 128 along k, as GPTQ
    /// and AWQ have them.
    #[serde(rename = "bf16-int4")]
    Bf16Int4,
    /// A of bfloat16, B of 4-bit floats (e2m1) with a power of two as scale for each 32 along k.
    #[serde(rename = "bf16-mxfp4")]
    Bf16Mxfp4,
}

/// Weights of fewer bits than the activations that they are multiplied with: how B is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// Bits of a weight.
    pub bits: u64,
    /// Weights along k that share a scale; `None`: all of a column.
    pub block: Option<u64>,
    /// Bits of a scale.
    pub scale_bits: u64,
}

/// How elements of a matrix product's operands share scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scaling {
    /// Elements along k that share one.
    pub block: u64,
    /// Rows of A, and columns of B, that share one.
    pub lines: [u64; 2],
    /// Bits of a scale.
    pub bits: u64,
}

impl Dtype {
    /// Bits of one element in memory, scales not counted; of A where B has its own
    /// ([`Dtype::weights`]).
    pub fn bits(self) -> u64 {
        match self {
            Dtype::F64 => 64,
            Dtype::F32 | Dtype::Tf32 => 32,
            Dtype::F16 | Dtype::Bf16 => 16,
            Dtype::Bf16Fp8 | Dtype::Bf16Int4 | Dtype::Bf16Mxfp4 => 16,
            Dtype::Fp8 | Dtype::Int8 | Dtype::Mxfp8 | Dtype::Fp8Block => 8,
            Dtype::Fp6 => 6,
            Dtype::Fp4 | Dtype::Mxfp4 | Dtype::Nvfp4 => 4,
        }
    }

    /// How its elements share scales, where they do.
    pub fn scaling(self) -> Option<Scaling> {
        match self {
            Dtype::Mxfp8 | Dtype::Mxfp4 => Some(Scaling { block: 32, lines: [1, 1], bits: 8 }),
            Dtype::Nvfp4 => Some(Scaling { block: 16, lines: [1, 1], bits: 8 }),
            Dtype::Fp8Block => Some(Scaling { block: 128, lines: [1, 128], bits: 32 }),
            _ => None,
        }
    }

    /// How B is kept where it has fewer bits than A.
    pub fn weights(self) -> Option<Weights> {
        let of = |bits, block, scale_bits| Some(Weights { bits, block, scale_bits });
        match self {
            Dtype::Bf16Fp8 => of(8, None, 32),
            Dtype::Bf16Int4 => of(4, Some(128), 16),
            Dtype::Bf16Mxfp4 => of(4, Some(32), 8),
            _ => None,
        }
    }

    /// The type that is multiplied: of elements that share scales their own, of weights that of A,
    /// to which they are widened.
    pub fn unscaled(self) -> Dtype {
        match self {
            Dtype::Mxfp8 | Dtype::Fp8Block => Dtype::Fp8,
            Dtype::Mxfp4 | Dtype::Nvfp4 => Dtype::Fp4,
            Dtype::Bf16Fp8 | Dtype::Bf16Int4 | Dtype::Bf16Mxfp4 => Dtype::Bf16,
            other => other,
        }
    }

    /// The element type of a matrix product's output: 32 bits wide for `int8` (integers) and
    /// `f32`, 64 for `f64`, else bfloat16's 16 (as LLM inference stores it).
    pub fn output(self) -> Dtype {
        match self {
            Dtype::F64 => Dtype::F64,
            Dtype::F32 | Dtype::Tf32 | Dtype::Int8 => Dtype::F32,
            Dtype::F16 => Dtype::F16,
            Dtype::Bf16 | Dtype::Fp8 | Dtype::Fp6 | Dtype::Fp4 => Dtype::Bf16,
            Dtype::Mxfp8 | Dtype::Mxfp4 | Dtype::Nvfp4 | Dtype::Fp8Block => Dtype::Bf16,
            Dtype::Bf16Fp8 | Dtype::Bf16Int4 | Dtype::Bf16Mxfp4 => Dtype::Bf16,
        }
    }
}

// Widest first, those with scales and pairs of types last. Kernels take a type by its place here.
named!(Dtype {
    F64 => "f64", F32 => "f32", Tf32 => "tf32", F16 => "f16", Bf16 => "bf16", Fp8 => "fp8",
    Fp6 => "fp6", Fp4 => "fp4", Int8 => "int8", Mxfp8 => "mxfp8", Mxfp4 => "mxfp4",
    Nvfp4 => "nvfp4", Fp8Block => "fp8block", Bf16Fp8 => "bf16-fp8", Bf16Int4 => "bf16-int4",
    Bf16Mxfp4 => "bf16-mxfp4",
});
