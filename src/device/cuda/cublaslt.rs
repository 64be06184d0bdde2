//! The vendor's matrix products beside this program's own: the same operands, the same checks, in
//! turn in the same run. hipBLASLt is cuBLASLt by other names and numbers: a [`Dialect`] is all
//! that differs.
//!
//! Of the algorithms that its heuristics name, the fastest on the case's own operands is kept: each
//! is run twice and timed the second time, at the first launch. It multiplies by columns, so that
//! the transposed product is asked for, with the operands exchanged.

#![expect(unsafe_code, reason = "cuBLASLt and hipBLASLt are C libraries")]
#![expect(clippy::too_many_arguments, reason = "its functions have as many as they have")]

use super::{device::Context, driver::Handle};
use crate::{
    device::{
        Buffer, DeviceError,
        library::{self, Refusal, Spelling, Wanted, functions},
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

/// One vendor's library: what it calls and numbers in its own way.
pub struct Dialect {
    /// Its name among kernels.
    pub name: &'static str,
    /// The library.
    pub library: Wanted,
    /// What it calls the functions of `libcublasLt.so`.
    pub functions: Spelling,
    /// Bytes of an algorithm, at most 64.
    pub algorithm: usize,
    /// Scratch memory allowed.
    pub workspace: Bytes,
    /// The attribute of a product by which its first operand is transposed, and the value for it.
    pub transpose: (c_int, i32),
    /// The attribute by which sums of 8-bit floats may be less exact, where there is one.
    pub fast_sums: Option<c_int>,
    /// Codes for what it has no product for.
    pub unsupported: &'static [i32],
    /// The library, once it is opened.
    pub opened: OnceLock<Result<Arc<Library>, DeviceError>>,
}

/// NVIDIA's. The workspace is what PyTorch allows on compute capability 9.0; the codes are
/// `CUBLAS_STATUS_NOT_SUPPORTED` and `CUBLAS_STATUS_INVALID_VALUE`, which shapes that it does not
/// take end in as well; the attributes `CUBLASLT_MATMUL_DESC_TRANSA` and `.._FAST_ACCUM`.
pub static CUBLASLT: Dialect = Dialect {
    name: "cublaslt",
    library: Wanted {
        files: &["libcublasLt.so.13", "libcublasLt.so.12"],
        before: "",
        folders: &[],
        mend: "install the CUDA toolkit, or `pip install nvidia-cublas` (nvidia-cublas-cu12 for \
               drivers before 580), to have the vendor's matrix products beside ours",
    },
    functions: library::as_it_is,
    algorithm: 64,
    workspace: Bytes(32 << 20),
    transpose: (3, 1),
    fast_sums: Some(25),
    unsupported: &[15, 7],
    opened: OnceLock::new(),
};

functions! {
    /// The functions of the library that are called.
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
        preference: Handle, wanted: c_int, found: *mut c_void, count: *mut c_int,
    );
    multiply = "cublasLtMatmul"(
        handle: Handle, product: Handle, alpha: *const c_void, a: u64, a_layout: Handle, b: u64,
        b_layout: Handle, beta: *const c_void, c: u64, c_layout: Handle, d: u64, d_layout: Handle,
        algorithm: *const Algorithm, workspace: u64, workspace_size: usize, stream: Handle,
    );
}

/// `cublasLtMatmulAlgo_t`; hipBLASLt's is shorter.
pub type Algorithm = [u64; 8];

/// Bytes of a heuristic's result behind its algorithm: workspace, state, waves and four words that
/// are reserved.
pub(in crate::device) const FOUND: usize = 32;

/// Algorithms asked for.
const ALGORITHMS: usize = 16;

/// `CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES`, of the same number in hipBLASLt.
pub(in crate::device) const WORKSPACE_MAX: c_int = 1;

/// What an element type's products are asked for by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kind {
    /// The element type.
    pub dtype: Dtype,
    /// `cudaDataType` of the operands.
    pub operand: c_int,
    /// And of the product.
    pub output: c_int,
    /// `cublasComputeType_t`.
    pub compute: c_int,
    /// `cudaDataType` of the factors.
    pub scale: c_int,
    /// What the product is multiplied with: 1, but where the library takes bits for other values.
    pub factor: f64,
}

/// `CUDA_R_32F`, of the same number in HIP: the factors of most products.
pub(in crate::device) const F32: c_int = 0;

/// `cublasLtMatmulMatrixScale_t` of types whose elements share scales:
/// `CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3`, `.._VEC32_UE8M0`.
fn scale_mode(dtype: Dtype) -> Option<i32> {
    match dtype {
        Dtype::Nvfp4 => Some(1),
        Dtype::Mxfp8 => Some(2),
        _ => None,
    }
}

/// `CUBLASLT_MATMUL_DESC_A_SCALE_POINTER` and `.._A_SCALE_MODE`; those of B are one more.
const SCALES: c_int = 17;
const SCALE_MODE: c_int = 31;

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

/// Whether it multiplies an operation's element type.
pub fn has(operation: &str, kinds: &[Kind]) -> bool {
    let dtype = operation.strip_prefix("gemm/");
    kinds.iter().any(|kind| dtype == Some(kind.dtype.name()))
}

/// An opened library.
pub struct Library {
    functions: Functions,
}

impl Dialect {
    /// The library, opened once in a process.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Missing`] where there is none.
    pub fn library(&self) -> Result<Arc<Library>, DeviceError> {
        let open = || {
            let functions = Functions::of(library::open(&self.library)?, self.functions);
            Ok(Arc::new(Library { functions }))
        };
        self.opened.get_or_init(open).clone()
    }

    /// A refusal as an outcome: what it does not support is nobody's fault.
    fn error(&self, refusal: Refusal) -> DeviceError {
        match refusal {
            Refusal::Code { code, .. } if self.unsupported.contains(&code) => {
                DeviceError::Unsupported {
                    kernel: self.name.into(),
                    needs: format!("a shape or type that the library supports ({refusal})"),
                }
            }
            Refusal::NoSymbol(name) => DeviceError::Missing {
                what: format!("{name} in {}", self.library.files[0]),
                mend: self.library.mend.into(),
            },
            Refusal::Code { .. } => {
                DeviceError::Launch { kernel: self.name.into(), why: refusal.to_string() }
            }
        }
    }
}

/// Products of one context.
pub struct Products {
    dialect: &'static Dialect,
    kinds: Vec<Kind>,
    library: Arc<Library>,
    context: Rc<Context>,
    handle: Handle,
    workspace: Buffer,
    planned: RefCell<Option<(GemmParams, Planned)>>,
}

/// One product: what it is described by, and the algorithm that was the fastest.
struct Planned {
    library: Arc<Library>,
    kind: Kind,
    product: Handle,
    a: Handle,
    b: Handle,
    c: Handle,
    algorithm: Algorithm,
}

impl Products {
    /// Opens the library of a context's vendor, for the element types that it multiplies there.
    ///
    /// # Errors
    ///
    /// Where it is not there, or refuses.
    pub fn new(context: &Rc<Context>, kinds: &[Kind]) -> Result<Products, DeviceError> {
        let dialect = context.driver().vendor.products;
        let library = dialect.library()?;
        context.current()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the pointer is valid and the context current.
        unsafe { library.functions.create(&raw mut handle) }.map_err(|code| dialect.error(code))?;
        let context = Rc::clone(context);
        // Made before the struct is: dropped with it.
        let workspace = match context.allocate(dialect.workspace) {
            Ok(workspace) => workspace,
            Err(refused) => {
                // SAFETY: created above, destroyed once.
                let _ = unsafe { library.functions.destroy(handle) };
                return Err(refused);
            }
        };
        let (kinds, planned) = (kinds.to_vec(), RefCell::new(None));
        Ok(Products { dialect, kinds, library, context, handle, workspace, planned })
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
        let (one, zero) = factors(&plan.kind);
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
                self.dialect.workspace.0 as usize,
                self.context.stream(),
            )
        }
        .map_err(|code| self.dialect.error(code))
    }

    fn plan(&self, gemm: &GemmParams) -> Result<Planned, DeviceError> {
        self.context.current()?;
        let dtype = Dtype::ALL.get(gemm.dtype as usize);
        let kind = self.kinds.iter().find(|kind| Some(&kind.dtype) == dtype);
        let kind = kind.ok_or_else(|| DeviceError::Unsupported {
            kernel: self.dialect.name.into(),
            needs: "an element type that the library multiplies on this device".into(),
        })?;
        let mut plan = Planned::described(self.dialect, &self.library, kind, gemm)?;
        let mut best: Option<(f64, Algorithm)> = None;
        for algorithm in self.heuristics(&plan)? {
            // What one algorithm refuses, another may take.
            let Ok(time) = self.time(gemm, &plan, &algorithm)? else { continue };
            if best.is_none_or(|(least, _)| time < least) {
                best = Some((time, algorithm));
            }
        }
        let (_, algorithm) = best.ok_or_else(|| DeviceError::Unsupported {
            kernel: self.dialect.name.into(),
            needs: "a shape or type that the library has an algorithm for".into(),
        })?;
        plan.algorithm = algorithm;
        Ok(plan)
    }

    /// The algorithms that may do, the best guess first.
    fn heuristics(&self, plan: &Planned) -> Result<Vec<Algorithm>, DeviceError> {
        let f = &self.library.functions;
        let words = (self.dialect.algorithm + FOUND) / 8;
        let mut found = vec![0u64; words * ALGORITHMS];
        let (mut preference, mut count) = (std::ptr::null_mut(), 0);
        let size = self.dialect.workspace.0 as usize;
        let error = |code| self.dialect.error(code);
        // SAFETY: the pointers are valid, the array as long as is said.
        let said = unsafe {
            f.preference_create(&raw mut preference).map_err(error)?;
            let value = (&raw const size).cast();
            let said = f.preference_set(preference, WORKSPACE_MAX, value, size_of::<usize>());
            let said = said.and_then(|()| {
                let (a, b, c) = (plan.a, plan.b, plan.c);
                let wanted = ALGORITHMS as c_int;
                let found = found.as_mut_ptr().cast();
                let (product, count) = (plan.product, &raw mut count);
                f.heuristics(self.handle, product, b, a, c, c, preference, wanted, found, count)
            });
            let _ = f.preference_destroy(preference);
            said
        };
        said.map_err(error)?;
        Ok(read(&found, self.dialect.algorithm, count.max(0) as usize))
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
        let start = crate::clock::now();
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

/// The algorithms of as many results as there are whose state is a success.
fn read(found: &[u64], algorithm: usize, count: usize) -> Vec<Algorithm> {
    let at = algorithm / 8;
    let results = found.chunks_exact(at + FOUND / 8).take(count);
    // Behind the algorithm the workspace, then the state in the lower half of a word.
    let good = results.filter(|words| words[at + 1] as u32 == 0);
    good.map(|words| std::array::from_fn(|word| if word < at { words[word] } else { 0 })).collect()
}

/// The product's factor and zero in the type of the factors, in the first bytes.
fn factors(kind: &Kind) -> ([u64; 1], [u64; 1]) {
    let factor = match kind.dtype {
        Dtype::F64 => kind.factor.to_bits(),
        Dtype::Int8 => kind.factor as u64,
        _ => u64::from((kind.factor as f32).to_bits()),
    };
    ([factor], [0])
}

impl Planned {
    /// C' = B' A' by columns: B' is n x k, or where B is kept by columns its transpose k x n.
    fn described(
        dialect: &Dialect,
        library: &Arc<Library>,
        kind: &Kind,
        gemm: &GemmParams,
    ) -> Result<Planned, DeviceError> {
        let error = |code| dialect.error(code);
        let [m, n, k] = [gemm.m, gemm.n, gemm.k].map(u64::from);
        let by_columns = matches!(kind.dtype.unscaled(), Dtype::Fp8 | Dtype::Fp4);
        let null = std::ptr::null_mut();
        let mut plan = Planned {
            library: Arc::clone(library),
            kind: *kind,
            product: null,
            a: null,
            b: null,
            c: null,
            algorithm: [0; 8],
        };
        let f = &library.functions;
        let layout = |layout: &mut Handle, kind, rows: u64, columns| {
            // SAFETY: the pointer is valid.
            unsafe { f.layout_create(layout, kind, rows, columns, rows as i64) }.map_err(error)
        };
        // SAFETY: the pointers are valid, the attributes' values of the size that is said.
        unsafe {
            f.product_create(&raw mut plan.product, kind.compute, kind.scale).map_err(error)?;
            if by_columns {
                let (attribute, value) = &dialect.transpose;
                let value: *const i32 = value;
                let value = value.cast();
                f.product_set(plan.product, *attribute, value, size_of::<i32>()).map_err(error)?;
                if let (Some(attribute), Dtype::Fp8) = (dialect.fast_sums, kind.dtype) {
                    let value = (&raw const FAST_VALUE).cast();
                    f.product_set(plan.product, attribute, value, 1).map_err(error)?;
                }
            }
            if let Some(mode) = scale_mode(kind.dtype) {
                // Operands are exchanged, and so are their scales.
                for (of, scales) in (0..).zip([gemm.scales_b, gemm.scales_a]) {
                    let value = (&raw const mode).cast();
                    f.product_set(plan.product, SCALE_MODE + of, value, size_of::<i32>())
                        .map_err(error)?;
                    let value = (&raw const scales).cast();
                    f.product_set(plan.product, SCALES + of, value, size_of::<u64>())
                        .map_err(error)?;
                }
            }
        }
        let [rows, columns] = if by_columns { [k, n] } else { [n, k] };
        layout(&mut plan.b, kind.operand, rows, columns)?;
        layout(&mut plan.a, kind.operand, k, m)?;
        layout(&mut plan.c, kind.output, n, m)?;
        Ok(plan)
    }
}

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
        let has = |operation: &str, capability| super::has(operation, &kinds(capability));
        assert!(has("gemm/bf16", (8, 0)) && !has("gemm/fp8", (8, 6)) && has("gemm/fp8", (8, 9)));
        assert!(!has("gemm/nvfp4", (9, 0)) && has("gemm/nvfp4", (10, 0)));
        assert!(!has("gemm/fp4", (10, 0)) && !has("stream/copy", (9, 0)));
    }

    /// Runs where the library is found (`FIZEAU_LIBRARY_PATH` names its folder, or it is
    /// installed): it holds numbers and sizes of attributes against its own without a device.
    /// scripts/check_headers.sh brings it.
    #[test]
    fn the_library_takes_every_description() {
        let library = match CUBLASLT.library() {
            Ok(library) => library,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        let kinds = kinds((10, 0));
        for kind in &kinds {
            let gemm = GemmParams { m: 96, n: 256, k: 512, ..bytemuck::Zeroable::zeroed() };
            let described = Planned::described(&CUBLASLT, &library, kind, &gemm);
            assert!(described.is_ok(), "{kind:?}: {:?}", described.err());
        }
        assert_eq!(kinds.len(), 9);
        let wrong = Dialect { transpose: (1_000, 1), opened: OnceLock::new(), ..CUBLASLT };
        let gemm = bytemuck::Zeroable::zeroed();
        let described = Planned::described(&wrong, &library, &kinds[6], &gemm);
        assert!(matches!(described, Err(DeviceError::Unsupported { .. })));
    }

    #[test]
    fn results_are_read_by_the_size_of_an_algorithm() {
        // Two results of 24 bytes of algorithm, of which the first is refused, and room for more.
        let mut found = vec![0u64; 7 * 4];
        found[4] = 7 | 0x3f80_0000 << 32;
        (found[7], found[8], found[9], found[10]) = (11, 12, 13, 99);
        found[11] = 0x3f80_0000 << 32;
        assert_eq!(read(&found, 24, 2), [[11, 12, 13, 0, 0, 0, 0, 0]]);
        assert_eq!(read(&found, 24, 1), [[0; 8]; 0]);
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
