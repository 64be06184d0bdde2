//! `libhipblaslt.so.1`: as cuBLASLt's, with the names, numbers and sizes of hipblaslt.h and
//! hipblas-common.h, written down here a second time.

use crate::{
    cost::Cost,
    cublaslt::{self, Handle, Layout, Product, params},
    cuda::export,
    hip::alias,
    products,
    state::{OK, State, call, state},
};
use std::ffi::{c_int, c_void};

/// `HIPBLAS_STATUS_INVALID_VALUE`, `.._EXECUTION_FAILED`, `.._NOT_SUPPORTED`.
const INVALID_VALUE: i32 = 3;
const EXECUTION_FAILED: i32 = 5;
const NOT_SUPPORTED: i32 = 7;

/// `hipblasLtMatmulAlgo_t`.
#[repr(C)]
pub struct HipAlgorithm {
    data: [u8; 16],
    workspace_max: usize,
}

/// `hipblasLtMatmulHeuristicResult_t`.
#[repr(C)]
pub struct HipFound {
    algorithm: HipAlgorithm,
    workspace: usize,
    state: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

/// An OCP E4M3 (bias 7), or AMD's own form of it (FNUZ, bias 8), whose negative zero is no number.
fn e4m3(bits: u8, bias: i32, without_negative_zero: bool) -> f64 {
    if without_negative_zero && bits == 0x80 || !without_negative_zero && bits & 0x7f == 0x7f {
        return f64::NAN;
    }
    let (exponent, fraction) = (i32::from(bits >> 3 & 15), f64::from(bits & 7) / 8.0);
    let size = match exponent {
        0 => fraction * 2f64.powi(1 - bias),
        _ => (1.0 + fraction) * 2f64.powi(exponent - bias),
    };
    if bits & 0x80 == 0 { size } else { -size }
}

alias! {
    hipblasLtCreate = cublaslt::cublasLtCreate, (handle: *mut Handle);
    hipblasLtDestroy = cublaslt::cublasLtDestroy, (handle: Handle);
    hipblasLtMatmulDescCreate = cublaslt::cublasLtMatmulDescCreate,
        (product: *mut Handle, compute: c_int, scale: c_int);
    hipblasLtMatmulDescDestroy = cublaslt::cublasLtMatmulDescDestroy, (product: Handle);
    hipblasLtMatrixLayoutDestroy = cublaslt::cublasLtMatrixLayoutDestroy, (layout: Handle);
    hipblasLtMatmulPreferenceCreate = cublaslt::cublasLtMatmulPreferenceCreate,
        (preference: *mut Handle);
    hipblasLtMatmulPreferenceDestroy = cublaslt::cublasLtMatmulPreferenceDestroy,
        (preference: Handle);
}

export! {
    hipblasLtMatmulDescSetAttribute(
        product: Handle, attribute: c_int, value: *const c_void, size: usize
    ) |_state| {
        // HIPBLASLT_MATMUL_DESC_TRANSA to HIPBLAS_OP_N or HIPBLAS_OP_T.
        (*product.cast::<Product>()).transposed = match (attribute, size) {
            (0, 4) => match value.cast::<i32>().read() {
                111 => false,
                112 => true,
                _ => return INVALID_VALUE,
            },
            _ => return INVALID_VALUE,
        };
        OK
    }
    hipblasLtMatrixLayoutCreate(
        layout: *mut Handle, kind: c_int, rows: u64, columns: u64, leading: i64
    ) |state| {
        if leading != rows as i64 { return INVALID_VALUE; }
        layout.write(Box::into_raw(Box::new(Layout { kind, rows, columns })).cast());
        state.count("cublas", 1);
        OK
    }
    hipblasLtMatmulPreferenceSetAttribute(
        _preference: Handle, attribute: c_int, _value: *const c_void, size: usize
    ) |_state| { if (attribute, size) == (1, 8) { OK } else { INVALID_VALUE } }
    hipblasLtMatmulAlgoGetHeuristic(
        _handle: Handle, _product: Handle, a: Handle, _b: Handle, _c: Handle, d: Handle,
        _preference: Handle, wanted: c_int, found: *mut HipFound, count: *mut c_int
    ) |_state| {
        // Of integers, none; else three, of which the first refuses to run and the second says
        // at once that it would not.
        let kinds = [a, d].map(|layout| (*layout.cast::<Layout>()).kind);
        let some = if kinds == [3, 10] { 0 } else { wanted.min(3) };
        for at in 0..some as usize {
            let mut algorithm = HipAlgorithm { data: [0; 16], workspace_max: 1 << 20 };
            algorithm.data[15] = at as u8;
            let state = if at == 1 { NOT_SUPPORTED } else { OK };
            let result =
                HipFound { algorithm, workspace: 0, state, waves: 1.0, reserved: [0; 4] };
            found.add(at).write(result);
        }
        count.write(some);
        OK
    }
    hipblasLtMatmul(
        _handle: Handle, product: Handle, alpha: *const c_void, a: u64, a_layout: Handle, b: u64,
        b_layout: Handle, _beta: *const c_void, _c: u64, _c_layout: Handle, d: u64,
        d_layout: Handle, algorithm: *const HipAlgorithm, workspace: u64, size: usize,
        stream: Handle
    ) |state| {
        let chosen = &*algorithm;
        match chosen.data[15] {
            0 => return NOT_SUPPORTED,
            2 if chosen.workspace_max == 1 << 20 && size >= 1 << 20 && workspace.is_multiple_of(16) => {}
            _ => return INVALID_VALUE,
        }
        let layouts = [a_layout, b_layout, d_layout].map(|layout| &*layout.cast::<Layout>());
        let &Product { transposed, compute, .. } = &*product.cast::<Product>();
        let Some((params, shape)) = params(transposed, [a, b, d], layouts) else {
            return INVALID_VALUE;
        };
        let factor = f64::from(alpha.cast::<f32>().read());
        // Operand, product, sums (HIPBLAS_COMPUTE_32F, HIPBLAS_COMPUTE_32F_FAST_TF32), factors.
        let kinds = [layouts[0].kind, layouts[2].kind, compute[0], compute[1]];
        let memory = &mut state.memory;
        let done = match kinds {
            [0, 0, 2 | 6, 0] => products::run("f32", &params, memory),
            [14, 14, 2, 0] => products::run("bf16", &params, memory),
            [28, 14, 2, 0] if state.script.gfx != "gfx942" => {
                products::product_of_bytes(&params, memory, |bits| e4m3(bits, 7, false), factor)
            }
            [1000, 14, 2, 0] if state.script.gfx == "gfx942" => {
                products::product_of_bytes(&params, memory, |bits| e4m3(bits, 8, true), factor)
            }
            _ => return NOT_SUPPORTED,
        };
        state.log(format!("hipblaslt {shape} kinds={kinds:?} factor={factor}"));
        let dtype = match kinds[0] { 0 => "f32", 14 => "bf16", _ => "fp8" };
        let cost = Cost::of(&format!("gemm_{dtype}_library"), &params);
        state.launched(stream as usize, &cost);
        match done {
            Some(_) => OK,
            None => EXECUTION_FAILED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_bits_are_half_the_value_without_a_negative_zero() {
        for bits in (0..=255).filter(|bits| bits & 0x7f != 0x7f && *bits != 0x80) {
            assert_eq!(e4m3(bits, 7, false), 2.0 * e4m3(bits, 8, true));
        }
        assert_eq!((e4m3(0x38, 7, false), e4m3(0x7f, 8, true)), (1.0, 240.0));
        assert!(e4m3(0x80, 8, true).is_nan() && e4m3(0xff, 7, false).is_nan());
    }
}
