//! The vendor's matrix products beside this program's own: the same operands and the same checks,
//! in turn in the same run.
//!
//! The algorithms that the library's heuristics name are candidates ([`crate::Tunable`]): whoever
//! times them takes the fastest. Until one is chosen, the library's best guess that it accepts does
//! the work. The library stores matrices by columns, so that the transposed product is asked for,
//! with the operands exchanged.

#![expect(unsafe_code, reason = "cuBLASLt and hipBLASLt are C libraries")]

use super::{
    blas_lt::{Algorithm, BlasLtDialect, Kind, Library},
    context::Context,
    tuned::CANDIDATES_MAX,
};
use crate::{Buffer, DeviceError, Result, library::Handle};
use fizeau_domain::{case::Layout, dtype::Dtype, kernel::GemmParams, outcome::Code, spec::STUB};
use std::{cell::RefCell, ffi::c_int, rc::Rc, sync::Arc};

/// Products of one context.
pub struct Products {
    dialect: &'static BlasLtDialect,
    kinds: Vec<Kind>,
    library: Arc<Library>,
    context: Rc<Context>,
    handle: Handle,
    workspace: Buffer,
    /// Of one shape: one for each pair of scales, whose addresses a description holds.
    planned: RefCell<Vec<(GemmParams, Planned)>>,
    /// What the library offers for that shape.
    offered: RefCell<Option<Offered>>,
}

/// The algorithms of one shape, the library's best guess first, and which of them is taken.
struct Offered {
    shape: GemmParams,
    algorithms: Vec<Algorithm>,
    taken: usize,
    /// Whether it was chosen: what refuses is then no reason to take another one.
    is_chosen: bool,
}

/// A product without its addresses: all copies of the operands have the same algorithm.
fn shape(of: &GemmParams) -> GemmParams {
    GemmParams { a: 0, b: 0, c: 0, scales_a: 0, scales_b: 0, ..*of }
}

/// One product: what it is described by.
struct Planned {
    library: Arc<Library>,
    kind: Kind,
    product: Handle,
    a: Handle,
    b: Handle,
    c: Handle,
}

impl Products {
    /// Opens the library of a context's vendor, for the element types that it multiplies there.
    ///
    /// # Errors
    ///
    /// Where it is not there, or refuses.
    pub fn new(context: &Rc<Context>, kinds: &[Kind]) -> Result<Products> {
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
        let (kinds, planned) = (kinds.to_vec(), RefCell::new(Vec::new()));
        let offered = RefCell::new(None);
        Ok(Products { dialect, kinds, library, context, handle, workspace, planned, offered })
    }

    /// The library, as a record keeps it.
    pub fn code(&self) -> Option<Code> {
        let version = match self.context.driver().is_stub {
            true => STUB.into(),
            // SAFETY: the handle is the library's, and destroyed with this.
            false => unsafe { self.library.version(self.handle) }?,
        };
        Some(Code::Library { name: self.dialect.name.into(), version })
    }

    /// Names of the algorithms that the library offers for a product, its best guess first.
    ///
    /// # Errors
    ///
    /// [`DeviceError::NotOffered`] where it has none.
    pub fn candidates(&self, gemm: &GemmParams) -> Result<Vec<String>> {
        self.plan(gemm)?;
        let offered = self.offered.borrow();
        let count = offered.as_ref().map_or(0, |of| of.algorithms.len());
        Ok((1..=count).map(|number| format!("guess_{number}")).collect())
    }

    /// Takes one of them from now on.
    ///
    /// # Errors
    ///
    /// Where there is none.
    pub fn choose(&self, candidate: usize) -> Result<()> {
        let mut offered = self.offered.borrow_mut();
        let of = offered.as_mut().filter(|of| candidate < of.algorithms.len());
        let none = || DeviceError::Driver("an algorithm that was not offered".into());
        let of = of.ok_or_else(none)?;
        (of.taken, of.is_chosen) = (candidate, true);
        Ok(())
    }

    /// Enqueues a product `repeat` times.
    ///
    /// # Errors
    ///
    /// [`DeviceError::NotOffered`] where the library has no algorithm for it; what it refuses where
    /// one was chosen.
    pub fn launch(&self, gemm: &GemmParams, repeat: u32) -> Result<()> {
        let at = self.plan(gemm)?;
        let planned = self.planned.borrow();
        let plan = &planned[at].1;
        for _ in 0..repeat {
            self.multiply_by_taken(gemm, plan)?;
            self.context.enqueued_one();
        }
        Ok(())
    }

    /// By the algorithm that is taken; where none was chosen and the library refuses it, by the
    /// next one that it accepts.
    fn multiply_by_taken(&self, gemm: &GemmParams, plan: &Planned) -> Result<()> {
        let mut offered = self.offered.borrow_mut();
        let none = || self.not_offered("an algorithm for this shape and element type");
        let of = offered.as_mut().ok_or_else(none)?;
        loop {
            match self.multiply(gemm, plan, &of.algorithms[of.taken]) {
                Err(_) if !of.is_chosen && of.taken + 1 < of.algorithms.len() => of.taken += 1,
                done => return done,
            }
        }
    }

    /// The place of a product's description, which is made the first time, with the algorithms of
    /// its shape where another one came before.
    fn plan(&self, gemm: &GemmParams) -> Result<usize> {
        let described = GemmParams { a: 0, b: 0, c: 0, ..*gemm };
        let mut planned = self.planned.borrow_mut();
        if let Some(at) = planned.iter().position(|(of, _)| *of == described) {
            return Ok(at);
        }
        planned.retain(|(of, _)| shape(of) == shape(&described));
        self.context.current()?;
        let dtype = Dtype::ALL.get(gemm.dtype as usize);
        let kind = self.kinds.iter().find(|kind| Some(&kind.dtype) == dtype);
        let kind =
            kind.ok_or_else(|| self.not_offered("products of this element type on this device"))?;
        let plan = Planned::described(self.dialect, &self.library, kind, gemm)?;
        let shape = shape(gemm);
        if self.offered.borrow().as_ref().is_none_or(|of| of.shape != shape) {
            let algorithms = self.heuristics(&plan)?;
            if algorithms.is_empty() {
                let what = "an algorithm for this shape and element type on this device";
                return Err(self.not_offered(what));
            }
            self.offered.replace(Some(Offered { shape, algorithms, taken: 0, is_chosen: false }));
        }
        planned.push((described, plan));
        Ok(planned.len() - 1)
    }

    fn not_offered(&self, what: &str) -> DeviceError {
        DeviceError::NotOffered { library: self.dialect.name.into(), what: what.into() }
    }

    fn multiply(&self, gemm: &GemmParams, plan: &Planned, algorithm: &Algorithm) -> Result<()> {
        self.context.current()?;
        let (factor, zero) = factors(&plan.kind, gemm.factor);
        // SAFETY: the operands are as large as the layouts say, and outlive what is enqueued; the
        // factors are read before the call returns.
        unsafe {
            self.library.functions.multiply(
                self.handle,
                plan.product,
                factor.as_ptr().cast(),
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
                self.context.stream,
            )
        }
        .map_err(|code| self.dialect.error(code))
    }

    /// The algorithms that may do, the best guess first.
    fn heuristics(&self, plan: &Planned) -> Result<Vec<Algorithm>> {
        let f = &self.library.functions;
        let words = self.dialect.found[0] / 8;
        let mut found = vec![0u64; words * CANDIDATES_MAX];
        let (mut preference, mut count) = (std::ptr::null_mut(), 0);
        let size = self.dialect.workspace.0 as usize;
        let error = |code| self.dialect.error(code);
        // SAFETY: the pointers are valid, the array as long as is said.
        let said = unsafe {
            f.preference_create(&raw mut preference).map_err(error)?;
            let value = (&raw const size).cast();
            let attribute = self.dialect.workspace_max;
            let said = f.preference_set(preference, attribute, value, size_of::<usize>());
            let said = said.and_then(|()| {
                let (a, b, c) = (plan.a, plan.b, plan.c);
                let wanted = CANDIDATES_MAX as c_int;
                let found = found.as_mut_ptr().cast();
                let (product, count) = (plan.product, &raw mut count);
                f.heuristics(self.handle, product, b, a, c, c, preference, wanted, found, count)
            });
            let _ = f.preference_destroy(preference);
            said
        };
        said.map_err(error)?;
        Ok(read(&found, self.dialect.algorithm, self.dialect.found, count.max(0) as usize))
    }
}

/// The algorithms of as many results as there are whose state is a success. Algorithm, result and
/// the state's place are of as many bytes as is said, whole words all.
fn read(
    found: &[u64],
    algorithm: usize,
    [result, state]: [usize; 2],
    count: usize,
) -> Vec<Algorithm> {
    let results = found.chunks_exact(result / 8).take(count);
    // The state is the lower half of its word.
    let good = results.filter(|words| words[state / 8] as u32 == 0);
    let word = |words: &[u64], at| if at < algorithm / 8 { words[at] } else { 0 };
    good.map(|words| std::array::from_fn(|at| word(words, at))).collect()
}

/// What a product is multiplied with (alpha), `of_operands` included, and zero (beta) in the type
/// of the factors, in the first bytes.
fn factors(kind: &Kind, of_operands: f32) -> ([u64; 1], [u64; 1]) {
    let factor = kind.factor * f64::from(of_operands);
    let factor = match kind.dtype {
        Dtype::F64 => factor.to_bits(),
        Dtype::Int8 => factor as u64,
        _ => u64::from((factor as f32).to_bits()),
    };
    ([factor], [0])
}

/// Whether the library takes the description of a product, which needs no device.
///
/// # Errors
///
/// What the library refuses.
#[cfg(test)]
pub fn try_description(dialect: &BlasLtDialect, kind: &Kind, gemm: &GemmParams) -> Result<()> {
    Planned::described(dialect, &dialect.library()?, kind, gemm).map(drop)
}

impl Planned {
    /// C' = B' A' by columns: B' is n x k, or where B is kept by columns (`nt`, or a type that has
    /// no other layout) its transpose k x n.
    fn described(
        dialect: &BlasLtDialect,
        library: &Arc<Library>,
        kind: &Kind,
        gemm: &GemmParams,
    ) -> Result<Planned> {
        let error = |code| dialect.error(code);
        let [m, n, k] = [gemm.m, gemm.n, gemm.k].map(u64::from);
        let of_type = matches!(kind.dtype.unscaled(), Dtype::Fp8 | Dtype::Fp4);
        let by_columns = of_type || gemm.layout == Layout::Nt as u32;
        let null = std::ptr::null_mut();
        let mut plan = Planned {
            library: Arc::clone(library),
            kind: *kind,
            product: null,
            a: null,
            b: null,
            c: null,
        };
        let f = &library.functions;
        let layout = |layout: &mut Handle, kind, rows: u64, columns| {
            // SAFETY: the pointer is valid.
            unsafe { f.layout_create(layout, kind, rows, columns, rows as i64) }.map_err(error)
        };
        // SAFETY: the pointers are valid, the attributes' values of the size given.
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
            if let Some(scaled) = &dialect.scales
                && let Some(mode) = (scaled.mode)(kind.dtype)
            {
                // Operands are exchanged, and so are their scales.
                for (of, scales) in [gemm.scales_b, gemm.scales_a].into_iter().enumerate() {
                    let value = (&raw const mode).cast();
                    f.product_set(plan.product, scaled.modes[of], value, size_of::<i32>())
                        .map_err(error)?;
                    let value = (&raw const scales).cast();
                    f.product_set(plan.product, scaled.pointers[of], value, size_of::<u64>())
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
    fn results_are_read_by_the_size_of_an_algorithm() {
        // Two results of 24 bytes of algorithm, of which the first is refused, and room for more.
        let mut found = vec![0u64; 7 * 4];
        found[4] = 7 | 0x3f80_0000 << 32;
        (found[7], found[8], found[9], found[10]) = (11, 12, 13, 99);
        found[11] = 0x3f80_0000 << 32;
        assert_eq!(read(&found, 24, [56, 32], 2), [[11, 12, 13, 0, 0, 0, 0, 0]]);
        assert_eq!(read(&found, 24, [56, 32], 1), [[0; 8]; 0]);
    }
}
