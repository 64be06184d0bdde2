//! Operations that one unit of a GPU's architecture completes each clock, dense: the limit of a
//! device that is in no table.
//!
//! For each target the most that any part of it is sold with: GeForce cards of a target have half
//! the matrix rate of its professional cards, and a limit that they cannot reach is still a limit.
//! `tests/library/limits.rs` compares these numbers with those of every part in `data/parts`.

use super::part::by_dtype;
use crate::dtype::Dtype;
use std::collections::BTreeMap;

/// Keys are those of `flop_per_clk_per_unit` in `data/parts`.
type Rates = &'static [(&'static str, f64)];

/// Volta. CUDA programming guide, "Throughput of native arithmetic instructions"; Tesla V100
/// architecture paper: 8 tensor cores of 64 fused multiply-adds each. DP4A on 64 lanes.
const SM_70: Rates = &[
    ("fp64_vector", 64.0),
    ("fp32_vector", 128.0),
    ("fp16_matrix", 1024.0),
    ("int8_vector", 512.0),
];
/// Turing: the same guide; T4 datasheet (65 TFLOP/s and 130 TOP/s of 40 SMs at 1,590 MHz).
const SM_75: Rates = &[
    ("fp64_vector", 4.0),
    ("fp32_vector", 128.0),
    ("fp16_matrix", 1024.0),
    ("int8_matrix", 2048.0),
];
/// Ampere GA100: A100 architecture paper, table 4.
const SM_80: Rates = &[
    ("fp64_matrix", 128.0),
    ("fp32_vector", 128.0),
    ("tf32_matrix", 1024.0),
    ("fp16_matrix", 2048.0),
    ("bf16_matrix", 2048.0),
    ("int8_matrix", 4096.0),
];
/// Ampere GA10x with full-rate accumulation in f32: GA102 architecture paper; A10, A40.
const SM_86: Rates = &[
    ("fp64_vector", 4.0),
    ("fp32_vector", 256.0),
    ("tf32_matrix", 512.0),
    ("fp16_matrix", 1024.0),
    ("bf16_matrix", 1024.0),
    ("int8_matrix", 2048.0),
];
/// Ada with full-rate accumulation in f32: Ada architecture paper 2.02; RTX 6000 Ada, L40S.
const SM_89: Rates = &[
    ("fp64_vector", 4.0),
    ("fp32_vector", 256.0),
    ("tf32_matrix", 512.0),
    ("fp16_matrix", 1024.0),
    ("bf16_matrix", 1024.0),
    ("fp8_matrix", 2048.0),
    ("int8_matrix", 2048.0),
];
/// Hopper: H100 architecture paper, table 2 (989.4 TFLOP/s = 132 x 4,096 x 1.83 GHz).
const SM_90: Rates = &[
    ("fp64_matrix", 256.0),
    ("fp32_vector", 256.0),
    ("tf32_matrix", 2048.0),
    ("fp16_matrix", 4096.0),
    ("bf16_matrix", 4096.0),
    ("fp8_matrix", 8192.0),
    ("int8_matrix", 8192.0),
];
/// Blackwell of data centres: ratios of the Blackwell datasheet, 8,192 for 16 bits (PyTorch's
/// `GPULimits`, cuDNN frontend's table of peaks). Thor, 11.0, has units of the same kind.
const SM_100: Rates = &[
    ("fp64_matrix", 128.0),
    ("fp32_vector", 256.0),
    ("tf32_matrix", 4096.0),
    ("fp16_matrix", 8192.0),
    ("bf16_matrix", 8192.0),
    ("fp8_matrix", 16384.0),
    ("fp6_matrix", 16384.0),
    ("int8_matrix", 16384.0),
    ("fp4_matrix", 32768.0),
];
/// Blackwell Ultra: datasheet, October 2025; FP4 one and a half times that of 10.0.
const SM_103: Rates = &[
    ("fp64_matrix", 4.0),
    ("fp32_vector", 256.0),
    ("tf32_matrix", 4096.0),
    ("fp16_matrix", 8192.0),
    ("bf16_matrix", 8192.0),
    ("fp8_matrix", 16384.0),
    ("fp6_matrix", 16384.0),
    ("int8_matrix", 512.0),
    ("fp4_matrix", 49152.0),
];
/// Blackwell of workstations with full-rate accumulation in f32: RTX PRO 6000.
const SM_120: Rates = &[
    ("fp64_vector", 4.0),
    ("fp32_vector", 256.0),
    ("tf32_matrix", 512.0),
    ("fp16_matrix", 1024.0),
    ("bf16_matrix", 1024.0),
    ("fp8_matrix", 2048.0),
    ("int8_matrix", 2048.0),
    ("fp4_matrix", 4096.0),
];

/// Vega 20: ROCm documentation, MI50; packed and dot instructions on 64 lanes.
const GFX906: Rates = &[
    ("fp64_vector", 64.0),
    ("fp32_vector", 128.0),
    ("fp16_vector", 256.0),
    ("int8_vector", 512.0),
];
/// CDNA white paper, table 1.
const GFX908: Rates = &[
    ("fp64_vector", 64.0),
    ("fp32_matrix", 256.0),
    ("fp16_matrix", 1024.0),
    ("bf16_matrix", 512.0),
    ("int8_matrix", 1024.0),
];
/// CDNA 2 white paper, table 1.
const GFX90A: Rates = &[
    ("fp64_matrix", 256.0),
    ("fp32_matrix", 256.0),
    ("fp16_matrix", 1024.0),
    ("bf16_matrix", 1024.0),
    ("int8_matrix", 1024.0),
];
/// CDNA 3 white paper, table 1.
const GFX942: Rates = &[
    ("fp64_matrix", 256.0),
    ("fp32_matrix", 256.0),
    ("tf32_matrix", 1024.0),
    ("fp16_matrix", 2048.0),
    ("bf16_matrix", 2048.0),
    ("fp8_matrix", 4096.0),
    ("int8_matrix", 4096.0),
];
/// CDNA 4 white paper, table 1.
const GFX950: Rates = &[
    ("fp64_matrix", 128.0),
    ("fp32_matrix", 256.0),
    ("fp16_matrix", 4096.0),
    ("bf16_matrix", 4096.0),
    ("fp8_matrix", 8192.0),
    ("fp6_matrix", 16384.0),
    ("int8_matrix", 8192.0),
    ("fp4_matrix", 16384.0),
];
/// RDNA 3 and 3.5: GPUOpen, "How to accelerate AI applications on RDNA 3 using WMMA"; f32 with
/// two instructions at once.
const GFX11: Rates = &[
    ("fp64_vector", 8.0),
    ("fp32_vector", 256.0),
    ("fp16_matrix", 512.0),
    ("bf16_matrix", 512.0),
    ("int8_matrix", 512.0),
];
/// RDNA 4: the specifications of RX 9070 XT (194.6 TFLOP/s = 64 x 1,024 x 2.97 GHz).
const GFX12: Rates = &[
    ("fp64_vector", 8.0),
    ("fp32_vector", 256.0),
    ("fp16_matrix", 1024.0),
    ("bf16_matrix", 1024.0),
    ("fp8_matrix", 2048.0),
    ("int8_matrix", 2048.0),
];

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
        (12, _) => SM_120,
        _ => &[],
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
        target if target.starts_with("gfx110") || target.starts_with("gfx115") => GFX11,
        _ => &[],
    })
}

fn table(rates: Rates) -> BTreeMap<Dtype, f64> {
    by_dtype(&rates.iter().map(|&(key, rate)| (key.to_owned(), rate)).collect())
}
