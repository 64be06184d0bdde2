//! hipBLASLt, AMD's matrix products: cuBLASLt by other names and numbers.

use super::functions;
use crate::{
    gpu::blas_lt::{BlasLtDialect, Kind},
    library::Wanted,
};
use fizeau_domain::{dtype::Dtype, units::Bytes};
use hip_sys::{
    HIP_R_8F_E4M3, HIP_R_8F_E4M3_FNUZ, HIP_R_8I, HIP_R_16BF, HIP_R_16F, HIP_R_32F, HIP_R_32I,
    HIPBLAS_COMPUTE_32F, HIPBLAS_COMPUTE_32F_FAST_TF32, HIPBLAS_COMPUTE_32I,
    hipblasLtMatmulHeuristicResult_t as Found,
};
use std::{mem::offset_of, sync::OnceLock};

/// AMD's library. The workspace is what PyTorch allows it.
pub(super) static HIPBLASLT: BlasLtDialect = BlasLtDialect {
    name: "hipblaslt",
    library: Wanted {
        files: hip_sys::HIPBLASLT_FILES,
        before: "",
        folders: functions::FOLDERS,
        remedy: "install hipBLASLt (AMD's package hipblaslt), to have the vendor's matrix products \
               beside ours",
    },
    functions: functions::products,
    algorithm: size_of::<hip_sys::hipblasLtMatmulAlgo_t>(),
    found: [size_of::<Found>(), offset_of!(Found, state)],
    workspace_max: hip_sys::HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
    workspace: Bytes(76 << 20),
    transpose: (hip_sys::HIPBLASLT_MATMUL_DESC_TRANSA, hip_sys::HIPBLAS_OP_T),
    fast_sums: None,
    scales: None,
    unsupported: &[
        hip_sys::HIPBLAS_STATUS_INVALID_VALUE,
        hip_sys::HIPBLAS_STATUS_NOT_SUPPORTED,
        hip_sys::HIPBLAS_STATUS_ARCH_MISMATCH,
        hip_sys::HIPBLAS_STATUS_INVALID_ENUM,
    ],
    opened: OnceLock::new(),
};

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
    // Operands and product.
    let of = |dtype, operand, output| kind(dtype, operand, output, HIPBLAS_COMPUTE_32F, HIP_R_32F);
    let tf32 = (target == "gfx942")
        .then(|| kind(Dtype::Tf32, HIP_R_32F, HIP_R_32F, HIPBLAS_COMPUTE_32F_FAST_TF32, HIP_R_32F));
    let fp8 = match target {
        // The same bits are half of OCP's value there, in both operands.
        "gfx942" => Some(Kind { factor: 4.0, ..of(Dtype::Fp8, HIP_R_8F_E4M3_FNUZ, HIP_R_16BF) }),
        "gfx950" | "gfx1200" | "gfx1201" | "gfx1250" | "gfx1251" => {
            Some(of(Dtype::Fp8, HIP_R_8F_E4M3, HIP_R_16BF))
        }
        _ => None,
    };
    [
        of(Dtype::F32, HIP_R_32F, HIP_R_32F),
        of(Dtype::F16, HIP_R_16F, HIP_R_16F),
        of(Dtype::Bf16, HIP_R_16BF, HIP_R_16BF),
        kind(Dtype::Int8, HIP_R_8I, HIP_R_32I, HIPBLAS_COMPUTE_32I, HIP_R_32I),
    ]
    .into_iter()
    .chain(tf32)
    .chain(fp8)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::blas_lt::has;

    #[test]
    fn element_types_are_those_of_the_target() {
        let has =
            |operation: &str, target| has(operation.parse().expect("an operation"), &kinds(target));
        for target in ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250", "gfx1251"] {
            assert!(has("gemm/bf16", target) && has("gemm/int8", target));
            assert!(!has("gemm/f64", target) && !has("gemm/fp4", target));
            assert_eq!(has("gemm/tf32", target), target == "gfx942");
            let narrow = !["gfx90a", "gfx1100"].contains(&target);
            assert_eq!(has("gemm/fp8", target), narrow, "{target}");
        }
    }
}
