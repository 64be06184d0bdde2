//! cuBLASLt, NVIDIA's matrix products.

use crate::{
    gpu::blas_lt::{BlasLtDialect, Functions, Kind, Scales},
    library::Wanted,
};
use cudarc::cublas::sys::cublasOperation_t;
use cudarc::cublaslt::sys::{
    cublasComputeType_t::{self, *},
    cublasLtMatmulAlgo_t, cublasLtMatmulDescAttributes_t, cublasLtMatmulHeuristicResult_t as Found,
    cublasLtMatmulMatrixScale_t, cublasLtMatmulPreferenceAttributes_t, cublasStatus_t,
    cudaDataType_t::{self, *},
};
use fizeau_domain::{dtype::Dtype, units::Bytes};
use std::{
    ffi::c_int,
    mem::{offset_of, size_of},
    sync::OnceLock,
};

use cublasLtMatmulDescAttributes_t as Attribute;

/// NVIDIA's. The workspace is what PyTorch allows on compute capability 9.0; shapes that it does
/// not take are invalid values as well.
pub static CUBLASLT: BlasLtDialect = BlasLtDialect {
    name: "cublaslt",
    library: Wanted {
        files: &["libcublasLt.so.13", "libcublasLt.so.12"],
        before: "",
        folders: &[],
        remedy: "install the CUDA toolkit, or `pip install nvidia-cublas` (nvidia-cublas-cu12 for \
               drivers before 580), to have the vendor's matrix products beside ours",
    },
    functions: Functions::of,
    algorithm: size_of::<cublasLtMatmulAlgo_t>(),
    found: [size_of::<Found>(), offset_of!(Found, state)],
    workspace_max: cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
        as c_int,
    workspace: Bytes(32 << 20),
    transpose: (
        Attribute::CUBLASLT_MATMUL_DESC_TRANSA as c_int,
        cublasOperation_t::CUBLAS_OP_T as i32,
    ),
    fast_sums: Some(Attribute::CUBLASLT_MATMUL_DESC_FAST_ACCUM as c_int),
    scales: Some(Scales {
        pointers: [
            Attribute::CUBLASLT_MATMUL_DESC_A_SCALE_POINTER as c_int,
            Attribute::CUBLASLT_MATMUL_DESC_B_SCALE_POINTER as c_int,
        ],
        modes: [
            Attribute::CUBLASLT_MATMUL_DESC_A_SCALE_MODE as c_int,
            Attribute::CUBLASLT_MATMUL_DESC_B_SCALE_MODE as c_int,
        ],
        mode: scale_mode,
    }),
    unsupported: &[
        cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED as i32,
        cublasStatus_t::CUBLAS_STATUS_INVALID_VALUE as i32,
    ],
    opened: OnceLock::new(),
};

fn scale_mode(dtype: Dtype) -> Option<i32> {
    use cublasLtMatmulMatrixScale_t::*;
    match dtype {
        Dtype::Nvfp4 => Some(CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3 as i32),
        Dtype::Mxfp8 => Some(CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0 as i32),
        _ => None,
    }
}

/// What cuBLASLt multiplies on a device of this compute capability: 8-bit floats from 8.9 on, types
/// whose elements share scales from 10.0 on.
pub fn kinds(capability: (u32, u32)) -> Vec<Kind> {
    type Type = cudaDataType_t;
    let kind =
        |dtype, operand: Type, output: Type, compute: cublasComputeType_t, scale: Type| Kind {
            dtype,
            operand: operand as c_int,
            output: output as c_int,
            compute: compute as c_int,
            scale: scale as c_int,
            factor: 1.0,
        };
    // Operands, product, sums and factors.
    let of = |dtype, operand, output| kind(dtype, operand, output, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    let fp8 = (capability >= (8, 9)).then(|| of(Dtype::Fp8, CUDA_R_8F_E4M3, CUDA_R_16BF));
    let scaled = [
        of(Dtype::Mxfp8, CUDA_R_8F_E4M3, CUDA_R_16BF),
        of(Dtype::Nvfp4, CUDA_R_4F_E2M1, CUDA_R_16BF),
    ];
    let scaled = scaled.into_iter().filter(|_| capability >= (10, 0));
    [
        kind(Dtype::F64, CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F, CUDA_R_64F),
        of(Dtype::F32, CUDA_R_32F, CUDA_R_32F),
        kind(Dtype::Tf32, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F),
        of(Dtype::F16, CUDA_R_16F, CUDA_R_16F),
        of(Dtype::Bf16, CUDA_R_16BF, CUDA_R_16BF),
        kind(Dtype::Int8, CUDA_R_8I, CUDA_R_32I, CUBLAS_COMPUTE_32I, CUDA_R_32I),
    ]
    .into_iter()
    .chain(fp8)
    .chain(scaled)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skipped;
    use crate::{
        DeviceError,
        gpu::{blas_lt::has, products::try_description},
        library::Refusal,
    };
    use fizeau_domain::kernel::GemmParams;

    #[test]
    fn element_types_have_their_capability() {
        let has = |operation: &str, capability| {
            has(operation.parse().expect("an operation"), &kinds(capability))
        };
        assert!(has("gemm/bf16", (8, 0)) && !has("gemm/fp8", (8, 6)) && has("gemm/fp8", (8, 9)));
        assert!(!has("gemm/nvfp4", (9, 0)) && has("gemm/nvfp4", (10, 0)));
        assert!(!has("gemm/fp4", (10, 0)) && !has("stream/copy", (9, 0)));
    }

    /// Runs where the library is found (`FIZEAU_LIBRARY_PATH` names its folder, or it is
    /// installed): it holds numbers and sizes of attributes against its own without a device.
    /// scripts/check_cublaslt.sh brings it.
    #[test]
    fn the_library_takes_every_description() {
        if let Err(error) = CUBLASLT.library() {
            return skipped::because("cublaslt", error);
        }
        let kinds = kinds((10, 0));
        for kind in &kinds {
            let gemm = GemmParams { m: 96, n: 256, k: 512, ..bytemuck::Zeroable::zeroed() };
            let described = try_description(&CUBLASLT, kind, &gemm);
            assert!(described.is_ok(), "{kind:?}: {:?}", described.err());
        }
        assert_eq!(kinds.len(), 9);
        let wrong = BlasLtDialect { transpose: (1_000, 1), opened: OnceLock::new(), ..CUBLASLT };
        let gemm = bytemuck::Zeroable::zeroed();
        let described = try_description(&wrong, &kinds[6], &gemm);
        assert!(matches!(described, Err(DeviceError::NotOffered { .. })));
    }

    #[test]
    fn what_it_does_not_support_is_skipped() {
        let refused = |code| CUBLASLT.error(Refusal::Code { call: "cublasLtMatmul", code });
        assert!(matches!(refused(15), DeviceError::NotOffered { .. }));
        assert!(matches!(refused(13), DeviceError::Launch { .. }));
        let missing = CUBLASLT.error(Refusal::NoSymbol("cublasLtMatmul"));
        assert!(matches!(missing, DeviceError::Missing { .. }));
    }
}
