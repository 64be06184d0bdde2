//! The vendor's library of matrix products. hipBLASLt is cuBLASLt by other names and numbers: a
//! [`BlasLtDialect`] is all that differs.

#![expect(unsafe_code, reason = "cuBLASLt and hipBLASLt are C libraries")]
#![expect(clippy::too_many_arguments, reason = "its functions have as many as they have")]

use crate::{
    DeviceError, Result,
    library::{self, Handle, Opened, Refusal, Wanted, functions},
};
use fizeau_domain::{dtype::Dtype, kernel::Operation, units::Bytes};
use std::{
    ffi::{c_int, c_void},
    sync::{Arc, OnceLock},
};

/// One vendor's library: what it calls and numbers in its own way.
pub struct BlasLtDialect {
    /// Its name among kernels.
    pub name: &'static str,
    /// The library.
    pub library: Wanted,
    /// Its functions, as the opened library exports them.
    pub functions: fn(&Opened) -> Functions,
    /// Bytes of an algorithm, at most 64.
    pub algorithm: usize,
    /// Bytes of what a search finds, which begins with the algorithm, and where its state is.
    pub found: [usize; 2],
    /// The attribute of a search by which scratch memory is limited.
    pub workspace_max: c_int,
    /// Scratch memory allowed.
    pub workspace: Bytes,
    /// The attribute of a product by which its first operand is transposed, and the value for it.
    pub transpose: (c_int, i32),
    /// The attribute by which sums of 8-bit floats may be less exact, where there is one.
    pub fast_sums: Option<c_int>,
    /// How elements share scales, where it multiplies such types.
    pub scales: Option<Scales>,
    /// Codes for what it has no product for.
    pub unsupported: &'static [i32],
    /// The library, once it is opened.
    pub opened: OnceLock<Result<Arc<Library>>>,
}

/// How a product is told of scales that elements share.
#[derive(Clone, Copy)]
pub struct Scales {
    /// The attributes of a product for its two operands' scales.
    pub pointers: [c_int; 2],
    /// The same for how they are shared.
    pub modes: [c_int; 2],
    /// How elements of a type share them; none where each has its own value.
    pub mode: fn(Dtype) -> Option<i32>,
}

functions! {
    /// The functions of the library that are called.
    Functions:
    create = "cublasLtCreate"(handle: *mut Handle);
    destroy = "cublasLtDestroy"(handle: Handle);
    property = "cublasLtGetProperty"(which: c_int, value: *mut c_int);
    version_of_hip = "hipblasLtGetVersion"(handle: Handle, version: *mut c_int);
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
        preference: Handle, wanted: c_int, found: *mut c_void, count: *mut c_int,
    );
    multiply = "cublasLtMatmul"(
        handle: Handle, product: Handle, alpha: *const c_void, a: u64, a_layout: Handle, b: u64,
        b_layout: Handle, beta: *const c_void, c: u64, c_layout: Handle, d: u64, d_layout: Handle,
        algorithm: *const Algorithm, workspace: u64, workspace_size: usize, stream: Handle,
    );
}

/// An algorithm, with room for the longest.
pub type Algorithm = [u64; 8];

/// What an element type's products are asked for by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kind {
    /// The element type.
    pub dtype: Dtype,
    /// The library's number for the type of the operands.
    pub operand: c_int,
    /// And of the product.
    pub output: c_int,
    /// How the library is to add up.
    pub compute: c_int,
    /// The type of the factors.
    pub scale: c_int,
    /// What the product is multiplied with: 1, but where the library takes bits for other values.
    pub factor: f64,
}

/// Whether it multiplies an operation's element type: in every layout that the type has.
pub fn has(operation: Operation, kinds: &[Kind]) -> bool {
    let of_kind = |kind: &Kind| matches!(operation, Operation::Gemm(of, _) if of == kind.dtype);
    kinds.iter().any(of_kind)
}

/// An opened library.
pub struct Library {
    /// Its functions.
    pub functions: Functions,
}

impl Library {
    /// The library's version, such as `13.0.0`; none where it does not tell.
    ///
    /// # Safety
    ///
    /// The handle is the library's own.
    pub unsafe fn version(&self, handle: Handle) -> Option<String> {
        let f = &self.functions;
        let mut numbers = [0; 3];
        // Major, minor and patch are the first three properties.
        let told = numbers.iter_mut().zip(0..).try_for_each(|(number, which)| {
            // SAFETY: the pointer is valid.
            unsafe { f.property(which, number) }
        });
        if told.is_err() {
            let mut whole = 0;
            // SAFETY: the caller's promise; the pointer is valid.
            unsafe { f.version_of_hip(handle, &raw mut whole) }.ok()?;
            numbers = [whole / 100_000, whole / 100 % 1_000, whole % 100];
        }
        Some(numbers.map(|number| number.to_string()).join("."))
    }
}

impl BlasLtDialect {
    /// The library, opened once in a process.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Missing`] where there is none.
    pub fn library(&self) -> Result<Arc<Library>> {
        let open = || {
            let functions = (self.functions)(&library::open(&self.library)?);
            Ok(Arc::new(Library { functions }))
        };
        self.opened.get_or_init(open).clone()
    }

    /// A refusal as an outcome: what it does not support is nobody's fault.
    pub fn error(&self, refusal: Refusal) -> DeviceError {
        match refusal {
            Refusal::Code { code, .. } if self.unsupported.contains(&code) => {
                DeviceError::NotOffered {
                    library: self.name.into(),
                    what: format!("this shape and element type on this device ({refusal})"),
                }
            }
            Refusal::NoSymbol(name) => DeviceError::Missing {
                what: format!("{name} in {}", self.library.files[0]),
                remedy: self.library.remedy.into(),
            },
            Refusal::Code { .. } => {
                DeviceError::Launch { kernel: self.name.into(), why: refusal.to_string() }
            }
        }
    }
}
