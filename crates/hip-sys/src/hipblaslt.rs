//! hipBLASLt, `libhipblaslt.so`: `hipblaslt/hipblaslt.h`, `hipblas-common/hipblas-common.h` and
//! `hip/library_types.h`.

use crate::{
    hip::hipStream_t,
    table::{codes, constants, functions, handles},
};
use std::ffi::{c_int, c_void};

codes! {
    /// What hipBLASLt's functions return. An integer, because a newer library may return codes that
    /// are not listed here.
    hipblasStatus_t, status_name:
    HIPBLAS_STATUS_SUCCESS = 0: "Success.",
    HIPBLAS_STATUS_NOT_INITIALIZED = 1: "The library was not initialised.",
    HIPBLAS_STATUS_ALLOC_FAILED = 2: "Not enough memory.",
    HIPBLAS_STATUS_INVALID_VALUE = 3: "An argument is out of its range, or a shape has no product.",
    HIPBLAS_STATUS_MAPPING_ERROR = 4: "Memory could not be mapped.",
    HIPBLAS_STATUS_EXECUTION_FAILED = 5: "A kernel failed.",
    HIPBLAS_STATUS_INTERNAL_ERROR = 6: "The library failed.",
    HIPBLAS_STATUS_NOT_SUPPORTED = 7: "The library has no product for this.",
    HIPBLAS_STATUS_ARCH_MISMATCH = 8: "The library has nothing for this device.",
    HIPBLAS_STATUS_HANDLE_IS_NULLPTR = 9: "The library's handle is null.",
    HIPBLAS_STATUS_INVALID_ENUM = 10: "A number is not of its enumeration.",
    HIPBLAS_STATUS_UNKNOWN = 11: "No better code is known.",
}

constants! {
    /// Element types. Those of matrix products.
    hipDataType = c_int {
        HIP_R_32F = 0: "IEEE binary32.",
        HIP_R_64F = 1: "IEEE binary64.",
        HIP_R_16F = 2: "IEEE binary16.",
        HIP_R_8I = 3: "8-bit integer with a sign.",
        HIP_R_32I = 10: "32-bit integer with a sign.",
        HIP_R_16BF = 14: "The upper half of a binary32.",
        HIP_R_8F_E4M3 = 28: "OCP's 8-bit float with 4 bits of exponent. Since ROCm 6.2.",
        HIP_R_8F_E5M2 = 29: "OCP's 8-bit float with 5 bits of exponent. Since ROCm 6.2.",
        HIP_R_8F_E4M3_FNUZ = 1000:
            "CDNA 3's 8-bit float with 4 bits of exponent: the same bits are half of OCP's value, \
             and there is no negative zero.",
        HIP_R_8F_E5M2_FNUZ = 1001: "CDNA 3's 8-bit float with 5 bits of exponent.",
    }

    /// Which type products are computed and accumulated in.
    hipblasComputeType_t = c_int {
        HIPBLAS_COMPUTE_32F = 2: "Binary32.",
        HIPBLAS_COMPUTE_32F_FAST_TF32 = 6: "Binary32 from operands rounded to tf32.",
        HIPBLAS_COMPUTE_64F = 7: "Binary64.",
        HIPBLAS_COMPUTE_32I = 9: "32-bit integers.",
    }

    /// What becomes of an operand before the product.
    hipblasOperation_t = c_int {
        HIPBLAS_OP_N = 111: "Nothing.",
        HIPBLAS_OP_T = 112: "It is transposed.",
    }

    /// Attributes of a product.
    hipblasLtMatmulDescAttributes_t = c_int {
        HIPBLASLT_MATMUL_DESC_TRANSA = 0: "[`hipblasOperation_t`] of the first operand.",
        HIPBLASLT_MATMUL_DESC_TRANSB = 1: "[`hipblasOperation_t`] of the second operand.",
        HIPBLASLT_MATMUL_DESC_A_SCALE_POINTER = 5: "Address of the first operand's scale.",
        HIPBLASLT_MATMUL_DESC_B_SCALE_POINTER = 6: "Address of the second operand's scale.",
    }

    /// Attributes of the search for an algorithm.
    hipblasLtMatmulPreferenceAttributes_t = c_int {
        HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1: "Largest workspace, in bytes: a `u64`.",
    }
}

handles! {
    /// A product: the types it is computed in and what becomes of its operands.
    hipblasLtMatmulDesc_t = *mut hipblasLtMatmulDescOpaque_t;
    /// A matrix: element type, rows, columns and leading dimension.
    hipblasLtMatrixLayout_t = *mut hipblasLtMatrixLayoutOpaque_t;
    /// What an algorithm is searched by.
    hipblasLtMatmulPreference_t = *mut hipblasLtMatmulPreferenceOpaque_t;
}

/// The library, opened on a device.
pub type hipblasLtHandle_t = *mut c_void;

/// An algorithm for one product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct hipblasLtMatmulAlgo_t {
    /// The library's own.
    pub data: [u8; 16],
    /// Workspace that it may use, in bytes.
    pub max_workspace_bytes: usize,
}

/// What the search for an algorithm finds.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct hipblasLtMatmulHeuristicResult_t {
    /// The algorithm.
    pub algo: hipblasLtMatmulAlgo_t,
    /// Workspace that it needs, in bytes.
    pub workspaceSize: usize,
    /// Whether it can be used.
    pub state: hipblasStatus_t,
    /// Blocks in units of what the device holds at once.
    pub wavesCount: f32,
    /// Not used.
    pub reserved: [c_int; 4],
}

/// File names of the library, newest first.
pub const HIPBLASLT_FILES: &[&str] = &["libhipblaslt.so.1", "libhipblaslt.so.0"];

functions! {
    /// The functions of `libhipblaslt.so`. Each method calls the function of its name.
    HipBlasLt, status_name:
    /// Opens the library on the current device.
    fn hipblasLtCreate(handle: *mut hipblasLtHandle_t);
    /// Closes the library.
    fn hipblasLtDestroy(handle: hipblasLtHandle_t);
    /// Version of the library: 100 000 for each major one, 100 for each minor one.
    fn hipblasLtGetVersion(handle: hipblasLtHandle_t, version: *mut c_int);
    /// Makes a product.
    fn hipblasLtMatmulDescCreate(
        product: *mut hipblasLtMatmulDesc_t, compute: hipblasComputeType_t, scale: hipDataType,
    );
    /// Sets an attribute of a product, from `bytes` bytes at `value`.
    fn hipblasLtMatmulDescSetAttribute(
        product: hipblasLtMatmulDesc_t, attribute: hipblasLtMatmulDescAttributes_t,
        value: *const c_void, bytes: usize,
    );
    /// Destroys a product.
    fn hipblasLtMatmulDescDestroy(product: hipblasLtMatmulDesc_t);
    /// Makes a matrix by columns; `leading` counts elements from column to column.
    fn hipblasLtMatrixLayoutCreate(
        layout: *mut hipblasLtMatrixLayout_t, element: hipDataType, rows: u64, columns: u64,
        leading: i64,
    );
    /// Destroys a matrix.
    fn hipblasLtMatrixLayoutDestroy(layout: hipblasLtMatrixLayout_t);
    /// Makes what an algorithm is searched by.
    fn hipblasLtMatmulPreferenceCreate(preference: *mut hipblasLtMatmulPreference_t);
    /// Sets an attribute of the search, from `bytes` bytes at `value`.
    fn hipblasLtMatmulPreferenceSetAttribute(
        preference: hipblasLtMatmulPreference_t,
        attribute: hipblasLtMatmulPreferenceAttributes_t, value: *const c_void, bytes: usize,
    );
    /// Destroys what an algorithm is searched by.
    fn hipblasLtMatmulPreferenceDestroy(preference: hipblasLtMatmulPreference_t);
    /// Searches `wanted` algorithms for D = A B + C, the best guess first.
    fn hipblasLtMatmulAlgoGetHeuristic(
        handle: hipblasLtHandle_t, product: hipblasLtMatmulDesc_t, a: hipblasLtMatrixLayout_t,
        b: hipblasLtMatrixLayout_t, c: hipblasLtMatrixLayout_t, d: hipblasLtMatrixLayout_t,
        preference: hipblasLtMatmulPreference_t, wanted: c_int,
        found: *mut hipblasLtMatmulHeuristicResult_t, count: *mut c_int,
    );
    /// Enqueues D = alpha A B + beta C.
    fn hipblasLtMatmul(
        handle: hipblasLtHandle_t, product: hipblasLtMatmulDesc_t, alpha: *const c_void,
        a: *const c_void, a_layout: hipblasLtMatrixLayout_t, b: *const c_void,
        b_layout: hipblasLtMatrixLayout_t, beta: *const c_void, c: *const c_void,
        c_layout: hipblasLtMatrixLayout_t, d: *mut c_void, d_layout: hipblasLtMatrixLayout_t,
        algorithm: *const hipblasLtMatmulAlgo_t, workspace: *mut c_void, workspace_bytes: usize,
        stream: hipStream_t,
    );
    texts:
}
