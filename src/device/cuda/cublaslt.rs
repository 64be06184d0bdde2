//! cuBLASLt, the vendor's matrix products, beside this program's own: the same operands, the same
//! checks, in turn in the same run.
//!
//! Of the algorithms that its heuristics name, the fastest on the case's own operands is kept: each
//! is run twice and timed the second time, at the first launch. It multiplies by columns, so that
//! the transposed product is asked for, with the operands exchanged.

#![expect(unsafe_code, reason = "cuBLASLt is a C library")]
#![expect(clippy::too_many_arguments, reason = "its functions have as many as they have")]

use super::{device::Context, driver::Handle};
use crate::{
    device::{
        Buffer, DeviceError,
        library::{self, Refusal, Wanted, functions},
    },
    dtype::Dtype,
    kernel::GemmParams,
    units::Bytes,
};
use std::{
    cell::RefCell,
    ffi::{c_int, c_void},
    rc::Rc,
    sync::{Arc, OnceLock},
};

const LIBRARY: Wanted = Wanted {
    files: &["libcublasLt.so.13", "libcublasLt.so.12"],
    before: "",
    folders: &[],
    mend: "install the CUDA toolkit, or `pip install nvidia-cublas` (nvidia-cublas-cu12 for \
           drivers before 580), to have the vendor's matrix products beside ours",
};

functions! {
    /// The functions of `libcublasLt.so` that are called.
    Functions:
    create = "cublasLtCreate"(handle: *mut Handle);
    destroy = "cublasLtDestroy"(handle: Handle);
    product_create = "cublasLtMatmulDescCreate"(product: *mut Handle, compute: c_int, scale: c_int);
    product_set = "cublasLtMatmulDescSetAttribute"(
        product: Handle, attribute: c_int, value: *const c_void, size: usize,
    );
    product_destroy = "cublasLtMatmulDescDestroy"(product: Handle);
    layout_create = "cublasLtMatrixLayoutCreate"(
        layout: *mut Handle, kind: c_int, rows: u64, columns: u64, leading: i64,
    );
    layout_destroy = "cublasLtMatrixLayoutDestroy"(layout: Handle);
    preference_create = "cublasLtMatmulPreferenceCreate"(preference: *mut Handle);
    preference_set = "cublasLtMatmulPreferenceSetAttribute"(
        preference: Handle, attribute: c_int, value: *const c_void, size: usize,
    );
    preference_destroy = "cublasLtMatmulPreferenceDestroy"(preference: Handle);
    heuristics = "cublasLtMatmulAlgoGetHeuristic"(
        handle: Handle, product: Handle, a: Handle, b: Handle, c: Handle, d: Handle,
        preference: Handle, wanted: c_int, found: *mut Found, count: *mut c_int,
    );
    multiply = "cublasLtMatmul"(
        handle: Handle, product: Handle, alpha: *const c_void, a: u64, a_layout: Handle, b: u64,
        b_layout: Handle, beta: *const c_void, c: u64, c_layout: Handle, d: u64, d_layout: Handle,
        algorithm: *const Algorithm, workspace: u64, workspace_size: usize, stream: Handle,
    );
}

/// `cublasLtMatmulAlgo_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Algorithm([u64; 8]);

/// `cublasLtMatmulHeuristicResult_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Found {
    algorithm: Algorithm,
    workspace: usize,
    state: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

const _: () = assert!(size_of::<Found>() == 96);

/// The name among kernels.
pub const NAME: &str = "cublaslt";

/// Algorithms asked for, and scratch memory allowed, as PyTorch allows on compute capability 9.0.
const ALGORITHMS: usize = 16;
const WORKSPACE: Bytes = Bytes(32 << 20);

/// `CUBLAS_STATUS_NOT_SUPPORTED`, and `CUBLAS_STATUS_INVALID_VALUE`, which shapes that it does not
/// take end in as well.
const NOT_SUPPORTED: [i32; 2] = [15, 7];

/// `CUBLASLT_MATMUL_DESC_TRANSA`, `.._FAST_ACCUM`; `CUBLAS_OP_T`;
/// `CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES`.
const TRANSPOSE_A: c_int = 3;
const FAST_SUMS: c_int = 25;
const TRANSPOSED: i32 = 1;
const WORKSPACE_MAX: c_int = 1;

/// What an element type's products are asked for by: `cudaDataType` of operands and product,
/// `cublasComputeType_t` and `cudaDataType` of the factors.
fn kinds(dtype: Dtype) -> Option<[c_int; 4]> {
    const F32: c_int = 0;
    Some(match dtype {
        Dtype::F64 => [1, 1, 70, 1],
        Dtype::F32 => [F32, F32, 68, F32],
        Dtype::Tf32 => [F32, F32, 77, F32],
        Dtype::F16 => [2, 2, 68, F32],
        Dtype::Bf16 => [14, 14, 68, F32],
        Dtype::Fp8 => [28, 14, 68, F32],
        Dtype::Int8 => [3, 10, 72, 10],
        Dtype::Fp6 | Dtype::Fp4 => return None,
    })
}

/// Whether it multiplies an operation's element type on a device of this compute capability (major
/// and minor): 8-bit floats from 8.9 on.
pub fn has(operation: &str, capability: (u32, u32)) -> bool {
    let of = |dtype: &&Dtype| operation.strip_prefix("gemm/") == Some(dtype.name());
    Dtype::ALL.iter().find(of).is_some_and(|&dtype| {
        kinds(dtype).is_some() && (dtype != Dtype::Fp8 || capability >= (8, 9))
    })
}

/// The opened library.
pub struct Library {
    functions: Functions,
}

/// The library, opened once in a process.
///
/// # Errors
///
/// [`DeviceError::Missing`] where there is none.
pub fn library() -> Result<Arc<Library>, DeviceError> {
    static LIBRARY_OPENED: OnceLock<Result<Arc<Library>, DeviceError>> = OnceLock::new();
    let open = || {
        let functions = Functions::of(library::open(&LIBRARY)?, library::as_it_is);
        Ok(Arc::new(Library { functions }))
    };
    LIBRARY_OPENED.get_or_init(open).clone()
}

/// A refusal as an outcome: what it does not support is nobody's fault.
fn error(refusal: Refusal) -> DeviceError {
    match refusal {
        Refusal::Code { code, .. } if NOT_SUPPORTED.contains(&code) => DeviceError::Unsupported {
            kernel: NAME.into(),
            needs: format!("a shape or type that the library supports ({refusal})"),
        },
        Refusal::NoSymbol(name) => DeviceError::Missing {
            what: format!("{name} in {}", LIBRARY.files[0]),
            mend: LIBRARY.mend.into(),
        },
        Refusal::Code { .. } => {
            DeviceError::Launch { kernel: NAME.into(), why: refusal.to_string() }
        }
    }
}

/// Products of one context.
pub struct Products {
    library: Arc<Library>,
    context: Rc<Context>,
    handle: Handle,
    workspace: Buffer,
    planned: RefCell<Option<(GemmParams, Planned)>>,
}

/// One product: what it is described by, and the algorithm that was the fastest.
struct Planned {
    library: Arc<Library>,
    product: Handle,
    a: Handle,
    b: Handle,
    c: Handle,
    algorithm: Algorithm,
}

impl Products {
    /// Opens the library for a context.
    ///
    /// # Errors
    ///
    /// Where it is not there, or refuses.
    pub fn new(context: &Rc<Context>) -> Result<Products, DeviceError> {
        let library = library()?;
        context.current()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the pointer is valid and the context current.
        unsafe { library.functions.create(&raw mut handle) }.map_err(error)?;
        let context = Rc::clone(context);
        // Made before the struct is: dropped with it.
        let workspace = match context.allocate(WORKSPACE) {
            Ok(workspace) => workspace,
            Err(refused) => {
                // SAFETY: created above, destroyed once.
                let _ = unsafe { library.functions.destroy(handle) };
                return Err(refused);
            }
        };
        Ok(Products { library, context, handle, workspace, planned: RefCell::new(None) })
    }

    /// Enqueues a product `repeat` times; the first time of a shape, chooses its algorithm.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unsupported`] where the library has no algorithm for it.
    pub fn launch(&self, gemm: &GemmParams, repeat: u32) -> Result<(), DeviceError> {
        let mut planned = self.planned.borrow_mut();
        if planned.as_ref().is_none_or(|(of, _)| of != gemm) {
            *planned = Some((*gemm, self.plan(gemm)?));
        }
        let Some((_, plan)) = &*planned else { return Ok(()) };
        (0..repeat).try_for_each(|_| {
            self.multiply(gemm, plan, &plan.algorithm)?;
            self.context.enqueued_one();
            Ok(())
        })
    }

    fn multiply(
        &self,
        gemm: &GemmParams,
        plan: &Planned,
        algorithm: &Algorithm,
    ) -> Result<(), DeviceError> {
        self.context.current()?;
        let (one, zero) = factors(dtype_of(gemm));
        // SAFETY: the operands are as large as the layouts say, and outlive what is enqueued; the
        // factors are read before the call returns.
        unsafe {
            self.library.functions.multiply(
                self.handle,
                plan.product,
                one.as_ptr().cast(),
                gemm.b,
                plan.b,
                gemm.a,
                plan.a,
                zero.as_ptr().cast(),
                gemm.c,
                plan.c,
                gemm.c,
                plan.c,
                algorithm,
                self.workspace.address,
                WORKSPACE.0 as usize,
                self.context.stream(),
            )
        }
        .map_err(error)
    }

    fn plan(&self, gemm: &GemmParams) -> Result<Planned, DeviceError> {
        self.context.current()?;
        let mut plan = Planned::described(&self.library, gemm)?;
        let found = self.heuristics(&plan)?;
        let mut best: Option<(f64, Algorithm)> = None;
        for found in found.iter().filter(|found| found.state == 0) {
            // What one algorithm refuses, another may take.
            let Ok(time) = self.time(gemm, &plan, &found.algorithm)? else { continue };
            if best.is_none_or(|(least, _)| time < least) {
                best = Some((time, found.algorithm));
            }
        }
        let (_, algorithm) = best.ok_or_else(|| DeviceError::Unsupported {
            kernel: NAME.into(),
            needs: "a shape or type that the library has an algorithm for".into(),
        })?;
        plan.algorithm = algorithm;
        Ok(plan)
    }

    fn heuristics(&self, plan: &Planned) -> Result<Vec<Found>, DeviceError> {
        let f = &self.library.functions;
        let empty = Found {
            algorithm: Algorithm([0; 8]),
            workspace: 0,
            state: -1,
            waves: 0.0,
            reserved: [0; 4],
        };
        let mut found = vec![empty; ALGORITHMS];
        let (mut preference, mut count) = (std::ptr::null_mut(), 0);
        let size = WORKSPACE.0 as usize;
        // SAFETY: the pointers are valid, the array as long as is said.
        let said = unsafe {
            f.preference_create(&raw mut preference).map_err(error)?;
            let value = (&raw const size).cast();
            let said = f.preference_set(preference, WORKSPACE_MAX, value, size_of::<usize>());
            let said = said.and_then(|()| {
                let (a, b, c) = (plan.a, plan.b, plan.c);
                let wanted = ALGORITHMS as c_int;
                let found = found.as_mut_ptr();
                let (product, count) = (plan.product, &raw mut count);
                f.heuristics(self.handle, product, b, a, c, c, preference, wanted, found, count)
            });
            let _ = f.preference_destroy(preference);
            said
        };
        said.map_err(error)?;
        found.truncate(count.max(0) as usize);
        Ok(found)
    }

    /// The time of the second of two runs; the inner error where the algorithm refuses.
    fn time(
        &self,
        gemm: &GemmParams,
        plan: &Planned,
        algorithm: &Algorithm,
    ) -> Result<Result<f64, DeviceError>, DeviceError> {
        if let Err(refused) = self.multiply(gemm, plan, algorithm) {
            return Ok(Err(refused));
        }
        self.context.wait("a product")?;
        let start = crate::measure::clock::now();
        // Enough of them that the host's own time does not decide.
        for _ in 0..TIMED {
            self.multiply(gemm, plan, algorithm)?;
        }
        self.context.wait("products")?;
        Ok(Ok(start.elapsed().0))
    }
}

/// Products that an algorithm is timed by.
const TIMED: usize = 5;

fn dtype_of(gemm: &GemmParams) -> Dtype {
    Dtype::ALL.get(gemm.dtype as usize).copied().unwrap_or(Dtype::F32)
}

/// One and zero in the type of the factors, in the first bytes.
fn factors(dtype: Dtype) -> ([u64; 1], [u64; 1]) {
    let one = match dtype {
        Dtype::F64 => 1f64.to_bits(),
        Dtype::Int8 => 1,
        _ => u64::from(1f32.to_bits()),
    };
    ([one], [0])
}

impl Planned {
    /// C' = B' A' by columns: B' is n x k, or where B is kept by columns its transpose k x n.
    fn described(library: &Arc<Library>, gemm: &GemmParams) -> Result<Planned, DeviceError> {
        let dtype = dtype_of(gemm);
        let [operand, output, compute, scale] = kinds(dtype).ok_or_else(|| {
            let needs = format!("products of {dtype}, which the library has not");
            DeviceError::Unsupported { kernel: NAME.into(), needs }
        })?;
        let [m, n, k] = [gemm.m, gemm.n, gemm.k].map(u64::from);
        let by_columns = dtype == Dtype::Fp8;
        let null = std::ptr::null_mut();
        let mut plan = Planned {
            library: Arc::clone(library),
            product: null,
            a: null,
            b: null,
            c: null,
            algorithm: Algorithm([0; 8]),
        };
        let f = &library.functions;
        let layout = |layout: &mut Handle, kind, rows: u64, columns| {
            // SAFETY: the pointer is valid.
            unsafe { f.layout_create(layout, kind, rows, columns, rows as i64) }.map_err(error)
        };
        // SAFETY: the pointers are valid, the attributes' values of the size that is said.
        unsafe {
            f.product_create(&raw mut plan.product, compute, scale).map_err(error)?;
            if by_columns {
                let value = (&raw const TRANSPOSED_VALUE).cast();
                f.product_set(plan.product, TRANSPOSE_A, value, size_of::<i32>()).map_err(error)?;
                let value = (&raw const FAST_VALUE).cast();
                f.product_set(plan.product, FAST_SUMS, value, 1).map_err(error)?;
            }
        }
        let [rows, columns] = if by_columns { [k, n] } else { [n, k] };
        layout(&mut plan.b, operand, rows, columns)?;
        layout(&mut plan.a, operand, k, m)?;
        layout(&mut plan.c, output, n, m)?;
        Ok(plan)
    }
}

static TRANSPOSED_VALUE: i32 = TRANSPOSED;
static FAST_VALUE: i8 = 1;

impl Drop for Planned {
    fn drop(&mut self) {
        let f = &self.library.functions;
        // SAFETY: each is destroyed once, null ones not at all; they are of the host alone.
        unsafe {
            for layout in [self.a, self.b, self.c].into_iter().filter(|layout| !layout.is_null()) {
                let _ = f.layout_destroy(layout);
            }
            if !self.product.is_null() {
                let _ = f.product_destroy(self.product);
            }
        }
    }
}

impl Drop for Products {
    fn drop(&mut self) {
        if self.context.current().is_ok() {
            // SAFETY: created once, destroyed once.
            let _ = unsafe { self.library.functions.destroy(self.handle) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn element_types_have_their_capability() {
        assert!(has("gemm/bf16", (8, 0)) && !has("gemm/fp8", (8, 6)) && has("gemm/fp8", (8, 9)));
        assert!(!has("gemm/fp4", (10, 0)) && !has("stream/copy", (9, 0)));
    }

    #[test]
    fn what_it_does_not_support_is_skipped() {
        let refused = |code| error(Refusal::Code { call: "cublasLtMatmul", code });
        assert!(matches!(refused(15), DeviceError::Unsupported { .. }));
        assert!(matches!(refused(13), DeviceError::Launch { .. }));
        assert!(matches!(error(Refusal::NoSymbol("cublasLtMatmul")), DeviceError::Missing { .. }));
    }
}
