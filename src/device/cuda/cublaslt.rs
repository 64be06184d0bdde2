//! cuBLASLt, NVIDIA's matrix products.

use crate::{
    device::{
        gpu::blas_lt::{BlasLtDialect, F32, Functions, Kind},
        library::Wanted,
    },
    dtype::Dtype,
    units::Bytes,
};
use std::sync::OnceLock;

/// NVIDIA's. The workspace is what PyTorch allows on compute capability 9.0; the codes are
/// `CUBLAS_STATUS_NOT_SUPPORTED` and `CUBLAS_STATUS_INVALID_VALUE`, which shapes that it does not
/// take end in as well; the attributes `CUBLASLT_MATMUL_DESC_TRANSA` and `.._FAST_ACCUM`.
pub static CUBLASLT: BlasLtDialect = BlasLtDialect {
    name: "cublaslt",
    library: Wanted {
        files: &["libcublasLt.so.13", "libcublasLt.so.12"],
        before: "",
        folders: &[],
        mend: "install the CUDA toolkit, or `pip install nvidia-cublas` (nvidia-cublas-cu12 for \
               drivers before 580), to have the vendor's matrix products beside ours",
    },
    functions: Functions::of,
    algorithm: 64,
    workspace: Bytes(32 << 20),
    transpose: (3, 1),
    fast_sums: Some(25),
    unsupported: &[15, 7],
    opened: OnceLock::new(),
};

/// What cuBLASLt multiplies on a device of this compute capability: 8-bit floats from 8.9 on, types
/// whose elements share scales from 10.0 on.
pub fn kinds(capability: (u32, u32)) -> Vec<Kind> {
    let kind = |dtype, operand, output, compute, scale| Kind {
        dtype,
        operand,
        output,
        compute,
        scale,
        factor: 1.0,
    };
    let fp8 = (capability >= (8, 9)).then(|| kind(Dtype::Fp8, 28, 14, 68, F32));
    let scaled = [kind(Dtype::Mxfp8, 28, 14, 68, F32), kind(Dtype::Nvfp4, 33, 14, 68, F32)];
    let scaled = scaled.into_iter().filter(|_| capability >= (10, 0));
    [
        kind(Dtype::F64, 1, 1, 70, 1),
        kind(Dtype::F32, F32, F32, 68, F32),
        kind(Dtype::Tf32, F32, F32, 77, F32),
        kind(Dtype::F16, 2, 2, 68, F32),
        kind(Dtype::Bf16, 14, 14, 68, F32),
        kind(Dtype::Int8, 3, 10, 72, 10),
    ]
    .into_iter()
    .chain(fp8)
    .chain(scaled)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{
        DeviceError,
        gpu::{blas_lt::has, products::try_description},
        library::Refusal,
    };
    use crate::{kernel::GemmParams, skipped};

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
    /// scripts/check_headers.sh brings it.
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
        assert!(matches!(described, Err(DeviceError::Unsupported { .. })));
    }

    #[test]
    fn what_it_does_not_support_is_skipped() {
        let refused = |code| CUBLASLT.error(Refusal::Code { call: "cublasLtMatmul", code });
        assert!(matches!(refused(15), DeviceError::Unsupported { .. }));
        assert!(matches!(refused(13), DeviceError::Launch { .. }));
        let missing = CUBLASLT.error(Refusal::NoSymbol("cublasLtMatmul"));
        assert!(matches!(missing, DeviceError::Missing { .. }));
    }
}
