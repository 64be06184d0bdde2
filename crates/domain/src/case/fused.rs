//! Points of fused operations: what stands between the products of a model's layer, where memory
//! bounds the time and engines therefore do several steps in one kernel.

use super::Work;
use crate::{dtype::Dtype, units::Bytes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A fused operation on rows of `bf16`, one for each token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FusedPoint {
    /// Which one.
    pub fused: Fused,
    /// Element type of the output, which says how it is quantised: [`FusedPoint::OUTPUTS`].
    pub output: Dtype,
    /// Rows: tokens.
    pub rows: u32,
    /// Elements of a row of the output.
    pub width: u32,
}

/// The fused operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fused {
    /// `residual = input + residual`, rounded to bf16; `output = quantised(residual * weight /
    /// sqrt(mean(residual^2) + epsilon))`: the addition and RMSNorm before each block of a
    /// layer (Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019).
    Norm,
    /// `output = quantised(silu(gate) * up)` with `silu(x) = x / (1 + exp(-x))`; a row of the input
    /// has the gate first and up behind it (Shazeer, "GLU Variants Improve Transformer", 2020).
    Swiglu,
}

named!(Fused { Norm => "norm", Swiglu => "swiglu" });

impl FusedPoint {
    /// Element types that an output can have: bf16 as it is; fp8 (e4m3) by a scale of the whole
    /// tensor that is known before; fp8block by a scale for each 128 elements of a row, which is
    /// made of the largest of them.
    pub const OUTPUTS: [Dtype; 3] = [Dtype::Bf16, Dtype::Fp8, Dtype::Fp8Block];

    /// Added to the mean of squares before its root is taken: that of DeepSeek-V3 and Qwen3
    /// (`rms_norm_eps` in `data/models`).
    pub const EPSILON: f32 = 1e-6;

    /// Elements of a row that share a scale, where they do.
    pub const BLOCK: u32 = 128;

    /// Bytes of one element of the output.
    fn output_bytes(&self) -> u64 {
        self.output.bits() / 8
    }

    /// Scales of one row of the output.
    pub fn scales(&self) -> u64 {
        match self.output.scaling() {
            Some(scaling) => u64::from(self.width).div_ceil(scaling.block),
            None => 0,
        }
    }

    /// Bytes that one iteration has to write.
    pub fn written(&self) -> Bytes {
        let (rows, width) = (u64::from(self.rows), u64::from(self.width));
        let updated = if self.fused == Fused::Norm { 2 * width } else { 0 };
        Bytes(rows * (updated + width * self.output_bytes() + 4 * self.scales()))
    }

    /// Bytes that one iteration has to read.
    pub fn read(&self) -> Bytes {
        let (rows, width) = (u64::from(self.rows), u64::from(self.width));
        match self.fused {
            // Input and residual, and the weights once.
            Fused::Norm => Bytes(rows * 4 * width + 2 * width),
            // Gate and up.
            Fused::Swiglu => Bytes(rows * 4 * width),
        }
    }

    /// Every input read once, every output written once. Additions and multiplications are a few
    /// for each element, on every device far from binding, and are not counted.
    pub(super) fn work(&self) -> Work {
        let exps = match self.fused {
            Fused::Norm => 0.0,
            Fused::Swiglu => f64::from(self.rows) * f64::from(self.width),
        };
        Work { memory: self.read() + self.written(), exps, ..Work::default() }
    }
}

impl fmt::Display for FusedPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FusedPoint { fused, output, rows, width } = self;
        write!(f, "{fused}/{output}/{rows}x{width}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_input_is_read_once_and_every_output_written_once() {
        let of = |fused, output| FusedPoint { fused, output, rows: 3, width: 200 };
        let bytes = |fused, output| {
            let point = of(fused, output);
            assert_eq!(point.work().memory, point.read() + point.written());
            (point.read().0, point.written().0)
        };
        // Input and residual of 2 bytes, weights; residual of 2 bytes, output, two scales a row.
        assert_eq!(bytes(Fused::Norm, Dtype::Bf16), (3 * 800 + 400, 3 * 800));
        assert_eq!(bytes(Fused::Norm, Dtype::Fp8), (3 * 800 + 400, 3 * 600));
        assert_eq!(bytes(Fused::Norm, Dtype::Fp8Block), (3 * 800 + 400, 3 * 608));
        assert_eq!(bytes(Fused::Swiglu, Dtype::Bf16), (3 * 800, 3 * 400));
        assert_eq!(bytes(Fused::Swiglu, Dtype::Fp8Block), (3 * 800, 3 * 208));
        assert_eq!(of(Fused::Swiglu, Dtype::Bf16).work().exps, 600.0);
        assert_eq!(of(Fused::Norm, Dtype::Fp8Block).to_string(), "norm/fp8block/3x200");
    }
}
