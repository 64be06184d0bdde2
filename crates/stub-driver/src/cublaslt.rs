//! `libcublasLt.so.13`: products of the operands that it is told of, by columns.

use crate::{
    cost::Cost,
    cuda::export,
    products, scaled,
    state::{INVALID_VALUE, OK, State, call},
};
use std::ffi::{c_int, c_void};

pub(crate) type Handle = *mut c_void;

/// `CUBLAS_STATUS_NOT_SUPPORTED`.
const NOT_SUPPORTED: i32 = 15;

/// What stands behind a product's handle.
pub(crate) struct Product {
    /// Whether the first operand is transposed.
    pub transposed: bool,
    /// How sums are made, and the type of the factors.
    pub compute: [c_int; 2],
    /// Of both operands: what scales they have, and where.
    pub modes: [i32; 2],
    pub scales: [u64; 2],
}

/// And behind a layout's.
pub(crate) struct Layout {
    /// The element type.
    pub kind: c_int,
    /// Of each column.
    pub rows: u64,
    /// How many.
    pub columns: u64,
}

/// Whether layouts fit each other; as the kernels' parameters, by rows, with the operands exchanged
/// again.
pub(crate) fn params(
    transposed: bool,
    addresses: [u64; 3],
    [a, b, d]: [&Layout; 3],
) -> Option<(Vec<u8>, String)> {
    let (n, m, k) = (d.rows, d.columns, b.rows);
    let wanted = if transposed { [k, n] } else { [n, k] };
    if [a.rows, a.columns] != wanted || b.columns != m || a.kind != b.kind {
        return None;
    }
    let mut params = Vec::new();
    let [a, b, d] = addresses;
    for word in [b, a, d] {
        params.extend(word.to_le_bytes());
    }
    for word in [m, n, k, 0] {
        params.extend((word as u32).to_le_bytes());
    }
    Some((params, format!("{m}x{n}x{k}")))
}

/// `cublasLtMatmulHeuristicResult_t`.
#[repr(C)]
pub struct Found {
    algorithm: [u64; 8],
    workspace: usize,
    state: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

export! {
    cublasLtCreate(handle: *mut Handle) |state| {
        handle.write(0xb1a5 as Handle);
        state.count("cublas", 1);
        OK
    }
    cublasLtDestroy(_handle: Handle) |state| { state.count("cublas", -1); OK }
    cublasLtGetProperty(which: c_int, value: *mut c_int) |_state| {
        if !(0..3).contains(&which) { return INVALID_VALUE; }
        value.write(0);
        OK
    }
    cublasLtMatmulDescCreate(product: *mut Handle, compute: c_int, scale: c_int) |state| {
        let compute = [compute, scale];
        let made = Product { transposed: false, compute, modes: [0; 2], scales: [0; 2] };
        product.write(Box::into_raw(Box::new(made)).cast());
        state.count("cublas", 1);
        OK
    }
    cublasLtMatmulDescSetAttribute(
        product: Handle, attribute: c_int, value: *const c_void, size: usize
    ) |_state| {
        match (attribute, size) {
            (3, 4) => (*product.cast::<Product>()).transposed = value.cast::<i32>().read() == 1,
            (25, 1) => {}
            (17 | 18, 8) => {
                (*product.cast::<Product>()).scales[attribute as usize - 17] =
                    value.cast::<u64>().read();
            }
            (31 | 32, 4) => {
                (*product.cast::<Product>()).modes[attribute as usize - 31] =
                    value.cast::<i32>().read();
            }
            _ => return INVALID_VALUE,
        }
        OK
    }
    cublasLtMatmulDescDestroy(product: Handle) |state| {
        drop(Box::from_raw(product.cast::<Product>()));
        state.count("cublas", -1);
        OK
    }
    cublasLtMatrixLayoutCreate(
        layout: *mut Handle, kind: c_int, rows: u64, columns: u64, leading: i64
    ) |state| {
        if leading != rows as i64 { return INVALID_VALUE; }
        layout.write(Box::into_raw(Box::new(Layout { kind, rows, columns })).cast());
        state.count("cublas", 1);
        OK
    }
    cublasLtMatrixLayoutDestroy(layout: Handle) |state| {
        drop(Box::from_raw(layout.cast::<Layout>()));
        state.count("cublas", -1);
        OK
    }
    cublasLtMatmulPreferenceCreate(preference: *mut Handle) |state| {
        preference.write(0x9ef as Handle);
        state.count("cublas", 1);
        OK
    }
    cublasLtMatmulPreferenceSetAttribute(
        _preference: Handle, attribute: c_int, _value: *const c_void, size: usize
    ) |_state| { if (attribute, size) == (1, 8) { OK } else { INVALID_VALUE } }
    cublasLtMatmulPreferenceDestroy(_preference: Handle) |state| {
        state.count("cublas", -1);
        OK
    }
    cublasLtMatmulAlgoGetHeuristic(
        _handle: Handle, _product: Handle, _a: Handle, _b: Handle, _c: Handle, d: Handle,
        _preference: Handle, wanted: c_int, found: *mut Found, count: *mut c_int
    ) |_state| {
        // Of integers, none; else two, of which the first refuses to run.
        let integers = (*d.cast::<Layout>()).kind == 10;
        let some = if integers { 0 } else { wanted.min(2) };
        for at in 0..some as usize {
            (*found.add(at)).algorithm[0] = at as u64;
            (*found.add(at)).state = OK;
        }
        count.write(some);
        OK
    }
    cublasLtMatmul(
        _handle: Handle, product: Handle, alpha: *const c_void, a: u64, a_layout: Handle, b: u64,
        b_layout: Handle, _beta: *const c_void, _c: u64, _c_layout: Handle, d: u64,
        d_layout: Handle, algorithm: *const [u64; 8], _workspace: u64, _size: usize,
        stream: Handle
    ) |state| {
        if (*algorithm)[0] == 0 { return NOT_SUPPORTED; }
        let layouts = [a_layout, b_layout, d_layout].map(|layout| &*layout.cast::<Layout>());
        let transposed = (*product.cast::<Product>()).transposed;
        let Some((mut params, shape)) = params(transposed, [a, b, d], layouts) else {
            return INVALID_VALUE;
        };
        let &Product { modes, scales, .. } = &*product.cast::<Product>();
        let dtype = match (layouts[0].kind, modes) {
            (0, [0, 0]) => "f32",
            (1, [0, 0]) => "f64",
            (14, [0, 0]) => "bf16",
            (28, [2, 2]) => "mxfp8",
            (33, [1, 1]) => "nvfp4",
            _ => return NOT_SUPPORTED,
        };
        for word in [scales[1], scales[0]] { params.extend(word.to_le_bytes()); }
        state.log(format!("cublaslt {shape} kind={}", layouts[0].kind));
        state.launched(stream as usize, &Cost::of(&format!("gemm_{dtype}_library"), &params));
        let memory = &mut state.memory;
        let done = match scaled::format(dtype) {
            Some(format) => {
                scaled::product(&params, format, memory, f64::from(alpha.cast::<f32>().read()))
            }
            None => products::run(dtype, &params, memory),
        };
        match done {
            Some(()) => OK,
            None => 14,
        }
    }
}
