//! Operations that one unit of a GPU's architecture completes each clock, dense: the limit of a
//! device that is in no table.
//!
//! For each target the most that any part of it is sold with: GeForce cards of a target have half
//! the matrix rate of its professional cards, and a limit that they cannot reach is still a limit.
//! `tests/library/limits.rs` compares these numbers with those of every part in `data/parts`.

use super::part::by_dtype;
use crate::dtype::Dtype;
use std::collections::BTreeMap;

/// Element types by the keys of `flop_per_clk_per_unit` in `data/parts`: the columns of the table.
const COLUMNS: [&str; 9] = [
    "fp64_matrix",
    "fp32_matrix",
    "tf32_matrix",
    "fp16_matrix",
    "bf16_matrix",
    "fp8_matrix",
    "fp6_matrix",
    "fp4_matrix",
    "int8_matrix",
];
/// Operations of one unit in a clock, for each of [`COLUMNS`]: of the matrix units, or of the
/// vector units where those do more; 0 where nothing is stated for the type.
type Rates = [u32; COLUMNS.len()];
/// Nothing is known.
const UNKNOWN: Rates = [0; COLUMNS.len()];

/// Volta. CUDA programming guide, "Throughput of native arithmetic instructions"; Tesla V100
/// architecture paper: 8 tensor cores of 64 fused multiply-adds each. DP4A on 64 lanes.
const SM_70: Rates = [64, 128, 0, 1024, 0, 0, 0, 0, 512];
/// Turing: the same guide; T4 datasheet (65 TFLOP/s and 130 TOP/s of 40 SMs at 1,590 MHz).
const SM_75: Rates = [4, 128, 0, 1024, 0, 0, 0, 0, 2048];
/// Ampere GA100: A100 architecture paper, table 4.
const SM_80: Rates = [128, 128, 1024, 2048, 2048, 0, 0, 0, 4096];
/// Ampere GA10x with full-rate accumulation in f32: GA102 architecture paper; A10, A40.
const SM_86: Rates = [4, 256, 512, 1024, 1024, 0, 0, 0, 2048];
/// Ada with full-rate accumulation in f32: Ada architecture paper 2.02; RTX 6000 Ada, L40S.
const SM_89: Rates = [4, 256, 512, 1024, 1024, 2048, 0, 0, 2048];
/// Hopper: H100 architecture paper, table 2 (989.4 TFLOP/s = 132 x 4,096 x 1.83 GHz).
const SM_90: Rates = [256, 256, 2048, 4096, 4096, 8192, 0, 0, 8192];
/// Blackwell of data centres: ratios of the Blackwell datasheet, 8,192 for 16 bits (PyTorch's
/// `GPULimits`, cuDNN frontend's table of peaks). Thor, 11.0, has units of the same kind.
const SM_100: Rates = [128, 256, 4096, 8192, 8192, 16384, 16384, 32768, 16384];
/// Blackwell Ultra: datasheet, October 2025; FP4 one and a half times that of 10.0.
const SM_103: Rates = [4, 256, 4096, 8192, 8192, 16384, 16384, 49152, 512];
/// Rubin, not confirmed: NVIDIA states rates of the whole GPU and no clock. These are the powers of
/// two by which they are 224 units at 2.18 to 2.39 GHz; half or twice as much would be a clock that
/// no part has. Measured of a unit: 120 of 128 lanes of f32 (NVIDIA/cudnn-frontend, pull request
/// 1178). 64 of FP8 and 128 of FP4 along k, which the highest rates may ask for, no kernel has yet.
const SM_107: Rates = [64, 256, 4096, 8192, 8192, 32768, 32768, 65536, 512];
/// Blackwell of workstations with full-rate accumulation in f32: RTX PRO 6000.
const SM_120: Rates = [4, 256, 512, 1024, 1024, 2048, 0, 4096, 2048];

/// Vega 20: ROCm documentation, MI50; packed and dot instructions on 64 lanes.
const GFX906: Rates = [64, 128, 0, 256, 0, 0, 0, 0, 512];
/// CDNA white paper, table 1.
const GFX908: Rates = [64, 256, 0, 1024, 512, 0, 0, 0, 1024];
/// CDNA 2 white paper, table 1.
const GFX90A: Rates = [256, 256, 0, 1024, 1024, 0, 0, 0, 1024];
/// CDNA 3 white paper, table 1.
const GFX942: Rates = [256, 256, 1024, 2048, 2048, 4096, 0, 0, 4096];
/// CDNA 4 white paper, table 1.
const GFX950: Rates = [128, 256, 0, 4096, 4096, 8192, 16384, 16384, 8192];
/// RDNA 3 and 3.5: GPUOpen, "How to accelerate AI applications on RDNA 3 using WMMA"; f32 with
/// two instructions at once.
const GFX11: Rates = [8, 256, 0, 512, 512, 0, 0, 0, 512];
/// RDNA 4: the specifications of RX 9070 XT (194.6 TFLOP/s = 64 x 1,024 x 2.97 GHz).
const GFX12: Rates = [8, 256, 0, 1024, 1024, 2048, 0, 0, 2048];
/// CDNA 5, of a work-group processor: MI455X's product page and white paper (40.26 PFLOP/s of fp4 =
/// 256 x 65,536 x 2.4 GHz). The rate of bf16 stands on the page alone; of others nothing is stated.
const GFX1250: Rates = [0, 0, 0, 0, 8192, 32768, 0, 65536, 0];

/// Of one multiprocessor of a compute capability, as major and minor; empty where it is unknown.
pub fn cuda(capability: (u32, u32)) -> BTreeMap<Dtype, f64> {
    table(match capability {
        (7, 0) => SM_70,
        (7, 5) => SM_75,
        (8, 0) => SM_80,
        (8, 6) => SM_86,
        (8, 9) => SM_89,
        (9, 0) => SM_90,
        (10, 0) | (11, 0) => SM_100,
        (10, 3) => SM_103,
        (10, 7) => SM_107,
        (12, _) => SM_120,
        _ => UNKNOWN,
    })
}

/// Of one compute unit of a compiler's target such as `gfx942`; empty where it is unknown.
pub fn hip(target: &str) -> BTreeMap<Dtype, f64> {
    table(match target {
        "gfx906" => GFX906,
        "gfx908" => GFX908,
        "gfx90a" => GFX90A,
        "gfx942" => GFX942,
        "gfx950" => GFX950,
        "gfx1200" | "gfx1201" => GFX12,
        "gfx1250" => GFX1250,
        target if target.starts_with("gfx110") || target.starts_with("gfx115") => GFX11,
        _ => UNKNOWN,
    })
}

/// Whether no text of a vendor states rates that [`cuda`] or [`hip`] has given: those of Rubin
/// follow from rates of the whole GPU and a clock that nobody states.
pub fn are_derived(rates: &BTreeMap<Dtype, f64>) -> bool {
    *rates == table(SM_107)
}

fn table(rates: Rates) -> BTreeMap<Dtype, f64> {
    let known = COLUMNS.iter().zip(rates).filter(|(_, rate)| *rate > 0);
    by_dtype(&known.map(|(key, rate)| ((*key).to_owned(), f64::from(rate))).collect())
}
