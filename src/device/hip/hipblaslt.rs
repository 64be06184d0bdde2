//! hipBLASLt, AMD's matrix products: cuBLASLt by other names and numbers.
//!
//! Names and numbers are those of its header hipblaslt.h and of hipblas-common.h (ROCm 6.4 and
//! 7.2); `scripts/check_hip.sh abi` holds them against bindings made of these headers.

use super::driver::{FOLDERS, spelled_in};
use crate::{
    device::{
        gpu::blas_lt::{BlasLtDialect, F32, Kind},
        library::Wanted,
    },
    dtype::Dtype,
    units::Bytes,
};
use std::{ffi::c_int, sync::OnceLock};

/// What it calls the functions of cuBLASLt.
pub(super) const NAMES: &[(&str, &str)] = &[
    ("cublasLtCreate", "hipblasLtCreate"),
    ("cublasLtDestroy", "hipblasLtDestroy"),
    ("cublasLtMatmulDescCreate", "hipblasLtMatmulDescCreate"),
    ("cublasLtMatmulDescSetAttribute", "hipblasLtMatmulDescSetAttribute"),
    ("cublasLtMatmulDescDestroy", "hipblasLtMatmulDescDestroy"),
    ("cublasLtMatrixLayoutCreate", "hipblasLtMatrixLayoutCreate"),
    ("cublasLtMatrixLayoutDestroy", "hipblasLtMatrixLayoutDestroy"),
    ("cublasLtMatmulPreferenceCreate", "hipblasLtMatmulPreferenceCreate"),
    ("cublasLtMatmulPreferenceSetAttribute", "hipblasLtMatmulPreferenceSetAttribute"),
    ("cublasLtMatmulPreferenceDestroy", "hipblasLtMatmulPreferenceDestroy"),
    ("cublasLtMatmulAlgoGetHeuristic", "hipblasLtMatmulAlgoGetHeuristic"),
    ("cublasLtMatmul", "hipblasLtMatmul"),
];

/// `HIPBLASLT_MATMUL_DESC_TRANSA`, and `HIPBLAS_OP_T`.
pub(super) const TRANSPOSE_A: c_int = 0;
pub(super) const TRANSPOSED: i32 = 112;

/// `HIPBLAS_STATUS_INVALID_VALUE`, `.._NOT_SUPPORTED`, `.._ARCH_MISMATCH`, `.._INVALID_ENUM`.
pub(super) const UNSUPPORTED: &[i32] = &[3, 7, 8, 10];

/// Bytes of `hipblasLtMatmulAlgo_t`.
pub(super) const ALGORITHM: usize = 24;

/// AMD's library. The workspace is what PyTorch allows it.
pub(super) static HIPBLASLT: BlasLtDialect = BlasLtDialect {
    name: "hipblaslt",
    library: Wanted {
        files: &["libhipblaslt.so.1", "libhipblaslt.so.0"],
        before: "",
        folders: FOLDERS,
        mend: "install hipBLASLt (AMD's package hipblaslt), to have the vendor's matrix products \
               beside ours",
    },
    functions: |name| spelled_in(NAMES, name),
    algorithm: ALGORITHM,
    workspace: Bytes(76 << 20),
    transpose: (TRANSPOSE_A, TRANSPOSED),
    fast_sums: None,
    unsupported: UNSUPPORTED,
    opened: OnceLock::new(),
};

/// `hipDataType` (HIP_R_16F, HIP_R_8I, HIP_R_32I, HIP_R_16BF, HIP_R_8F_E4M3 and its FNUZ form).
pub(super) const F16: c_int = 2;
pub(super) const I8: c_int = 3;
pub(super) const I32: c_int = 10;
pub(super) const BF16: c_int = 14;
pub(super) const E4M3: c_int = 28;
pub(super) const E4M3_FNUZ: c_int = 1000;

/// `hipblasComputeType_t` (HIPBLAS_COMPUTE_32F, .._32F_FAST_TF32, .._32I).
pub(super) const IN_F32: c_int = 2;
pub(super) const IN_TF32: c_int = 6;
pub(super) const IN_I32: c_int = 9;

/// What it multiplies on a target ("hipBLASLt: Data type support"): no `f64`; tf32 where there is
/// an instruction for it, which CDNA 3 alone has; 8-bit floats in the form that the target has.
pub(super) fn kinds(target: &str) -> Vec<Kind> {
    let kind = |dtype, operand, output, compute, scale| Kind {
        dtype,
        operand,
        output,
        compute,
        scale,
        factor: 1.0,
    };
    let tf32 = (target == "gfx942").then(|| kind(Dtype::Tf32, F32, F32, IN_TF32, F32));
    let fp8 = match target {
        // The same bits are half of OCP's value there, in both operands.
        "gfx942" => Some(Kind { factor: 4.0, ..kind(Dtype::Fp8, E4M3_FNUZ, BF16, IN_F32, F32) }),
        "gfx950" | "gfx1200" | "gfx1201" => Some(kind(Dtype::Fp8, E4M3, BF16, IN_F32, F32)),
        _ => None,
    };
    [
        kind(Dtype::F32, F32, F32, IN_F32, F32),
        kind(Dtype::F16, F16, F16, IN_F32, F32),
        kind(Dtype::Bf16, BF16, BF16, IN_F32, F32),
        kind(Dtype::Int8, I8, I32, IN_I32, I32),
    ]
    .into_iter()
    .chain(tf32)
    .chain(fp8)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::gpu::blas_lt::has;

    #[test]
    fn element_types_are_those_of_the_target() {
        let has =
            |operation: &str, target| has(operation.parse().expect("an operation"), &kinds(target));
        for target in ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"] {
            assert!(has("gemm/bf16", target) && has("gemm/int8", target));
            assert!(!has("gemm/f64", target) && !has("gemm/fp4", target));
            assert_eq!(has("gemm/tf32", target), target == "gfx942");
            let narrow = ["gfx942", "gfx950", "gfx1201"].contains(&target);
            assert_eq!(has("gemm/fp8", target), narrow, "{target}");
        }
    }

    #[test]
    fn every_function_of_the_table_has_a_name_here() {
        assert!(
            NAMES
                .iter()
                .all(|(nvidia, amd)| { amd.strip_prefix("hip") == nvidia.strip_prefix("cu") })
        );
        assert_eq!((HIPBLASLT.functions)("cublasLtMatmul"), Some("hipblasLtMatmul"));
        assert_eq!((HIPBLASLT.functions)("cublasLtGetVersion"), None);
    }
}
