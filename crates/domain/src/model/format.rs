//! How weights and KV caches are stored, and on which arithmetic units they can be multiplied.

use crate::dtype::Dtype;
use std::fmt;

/// How numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// 32-bit floats.
    F32,
    /// 16 bits: bfloat16 or IEEE binary16, which every GPU multiplies at the same rate.
    Bf16,
    /// 8-bit floats. Scales of DeepSeek's blocks (4 bytes for 128 x 128) are left out: 0.02 %.
    Fp8,
    /// 8-bit integers.
    Int8,
    /// 8-bit integers with a 16-bit scale for 32 (ggml's Q8_0: 34 bytes for 32 weights).
    Q8,
    /// 4-bit floats with an 8-bit scale for 32 (OCP Microscaling Formats 1.0).
    Mxfp4,
    /// 4-bit floats with an 8-bit scale for 16 (NVIDIA).
    Nvfp4,
    /// 4-bit integers with a 16-bit scale for each group.
    Int4 {
        /// Weights that share a scale.
        group: u32,
    },
}

impl Format {
    /// Bytes of one number, its share of the scales included.
    pub fn bytes(self) -> f64 {
        match self {
            Format::F32 => 4.0,
            Format::Bf16 => 2.0,
            Format::Fp8 | Format::Int8 => 1.0,
            Format::Q8 => (8.0 + 16.0 / 32.0) / 8.0,
            Format::Mxfp4 => (4.0 + 8.0 / 32.0) / 8.0,
            Format::Nvfp4 => (4.0 + 8.0 / 16.0) / 8.0,
            Format::Int4 { group } => (4.0 + 16.0 / f64::from(group.max(1))) / 8.0,
        }
    }

    /// Element types of the arithmetic that may multiply such weights without a loss: their own,
    /// and every wider one. The fastest that a device has bounds them.
    pub fn arithmetic(self) -> &'static [Dtype] {
        match self {
            Format::F32 => &[Dtype::F32, Dtype::Tf32],
            Format::Bf16 => &[Dtype::Bf16, Dtype::F16, Dtype::F32],
            Format::Fp8 => &[Dtype::Fp8, Dtype::Bf16, Dtype::F16, Dtype::F32],
            Format::Int8 | Format::Q8 => &[Dtype::Int8, Dtype::Bf16, Dtype::F16, Dtype::F32],
            Format::Mxfp4 | Format::Nvfp4 => {
                &[Dtype::Fp4, Dtype::Fp8, Dtype::Bf16, Dtype::F16, Dtype::F32]
            }
            Format::Int4 { .. } => {
                &[Dtype::Fp4, Dtype::Int8, Dtype::Fp8, Dtype::Bf16, Dtype::F16, Dtype::F32]
            }
        }
    }

    /// Element type of the matrix product that a suite measures for such weights; the first that
    /// multiplies them as they are.
    pub fn measured_as(self) -> Dtype {
        match self {
            Format::F32 => Dtype::F32,
            Format::Bf16 | Format::Int4 { .. } => Dtype::Bf16,
            Format::Fp8 => Dtype::Fp8,
            Format::Int8 | Format::Q8 => Dtype::Int8,
            Format::Mxfp4 => Dtype::Mxfp4,
            Format::Nvfp4 => Dtype::Nvfp4,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Format::F32 => f.write_str("f32"),
            Format::Bf16 => f.write_str("bf16"),
            Format::Fp8 => f.write_str("fp8"),
            Format::Int8 => f.write_str("int8"),
            Format::Q8 => f.write_str("q8_0"),
            Format::Mxfp4 => f.write_str("mxfp4"),
            Format::Nvfp4 => f.write_str("nvfp4"),
            Format::Int4 { group } => write!(f, "int4-g{group}"),
        }
    }
}

impl std::str::FromStr for Format {
    type Err = String;
    fn from_str(text: &str) -> Result<Format, String> {
        Ok(match text {
            "f32" | "fp32" | "float32" => Format::F32,
            "bf16" | "fp16" | "f16" | "bfloat16" | "float16" => Format::Bf16,
            "fp8" => Format::Fp8,
            "int8" => Format::Int8,
            "q8_0" => Format::Q8,
            "mxfp4" => Format::Mxfp4,
            "nvfp4" => Format::Nvfp4,
            "int4" => Format::Int4 { group: 32 },
            other => {
                let group = other.strip_prefix("int4-g").and_then(|group| group.parse().ok());
                match group.filter(|group| (1..=1 << 20).contains(group)) {
                    Some(group) => Format::Int4 { group },
                    None => {
                        return Err(format!(
                            "{text:?} is no format of weights: f32, bf16, fp8, int8, q8_0, \
                             mxfp4, nvfp4, int4 (groups of 32), int4-g128"
                        ));
                    }
                }
            }
        })
    }
}
