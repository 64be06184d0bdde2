//! Element types, by the names the field uses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

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
}

impl Dtype {
    /// All of them, widest first.
    pub const ALL: [Dtype; 9] = [
        Dtype::F64,
        Dtype::F32,
        Dtype::Tf32,
        Dtype::F16,
        Dtype::Bf16,
        Dtype::Fp8,
        Dtype::Fp6,
        Dtype::Fp4,
        Dtype::Int8,
    ];

    /// Bits of one element in memory, scales not counted.
    pub fn bits(self) -> u64 {
        match self {
            Dtype::F64 => 64,
            Dtype::F32 | Dtype::Tf32 => 32,
            Dtype::F16 | Dtype::Bf16 => 16,
            Dtype::Fp8 | Dtype::Int8 => 8,
            Dtype::Fp6 => 6,
            Dtype::Fp4 => 4,
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
        }
    }

    /// The name in ids, files and flags.
    pub fn name(self) -> &'static str {
        match self {
            Dtype::F64 => "f64",
            Dtype::F32 => "f32",
            Dtype::Tf32 => "tf32",
            Dtype::F16 => "f16",
            Dtype::Bf16 => "bf16",
            Dtype::Fp8 => "fp8",
            Dtype::Fp6 => "fp6",
            Dtype::Fp4 => "fp4",
            Dtype::Int8 => "int8",
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
