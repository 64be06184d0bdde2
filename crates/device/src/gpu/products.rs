//! The vendor's matrix products beside this program's own: the same operands and the same checks,
//! in turn in the same run.
//!
//! Of the algorithms that the library's heuristics name, the fastest on the case's own operands is
//! kept. They are timed at the first launch, by the device's timer, the nearest ones in rounds. The
//! library stores
//! matrices by columns, so that the transposed product is asked for, with the operands exchanged.

#![expect(unsafe_code, reason = "cuBLASLt and hipBLASLt are C libraries")]

use super::{
    blas_lt::{Algorithm, BlasLtDialect, Kind, Library},
    context::Context,
};
use crate::{Buffer, DeviceError, Result, library::Handle};
use fizeau_domain::{
    case::Layout, dtype::Dtype, kernel::GemmParams, outcome::Code, spec::STUB, stats::quantile,
};
use std::{cell::RefCell, ffi::c_int, rc::Rc, sync::Arc};

/// Algorithms asked for.
const ALGORITHMS: usize = 16;

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
        Ok(Products { dialect, kinds, library, context, handle, workspace, planned })
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

    /// Enqueues a product `repeat` times; the first time of a shape, chooses its algorithm.
    ///
    /// # Errors
    ///
    /// [`DeviceError::NotOffered`] where the library has no algorithm for it.
    pub fn launch(&self, gemm: &GemmParams, repeat: u32) -> Result<()> {
        let mut planned = self.planned.borrow_mut();
        let described = GemmParams { a: 0, b: 0, c: 0, ..*gemm };
        let at = match planned.iter().position(|(of, _)| *of == described) {
            Some(at) => at,
            None => {
                let shape = |of: &GemmParams| GemmParams { scales_a: 0, scales_b: 0, ..*of };
                planned.retain(|(of, _)| shape(of) == shape(&described));
                // Copies of operands have the shape's algorithm, and scales of their own.
                let chosen = planned.first().map(|(_, plan)| (plan.kind, plan.algorithm));
                let plan = match chosen {
                    Some((kind, algorithm)) => {
                        let library = &self.library;
                        let mut plan = Planned::described(self.dialect, library, &kind, gemm)?;
                        plan.algorithm = algorithm;
                        plan
                    }
                    None => self.plan(gemm)?,
                };
                planned.push((described, plan));
                planned.len() - 1
            }
        };
        let plan = &planned[at].1;
        (0..repeat).try_for_each(|_| {
            self.multiply(gemm, plan, &plan.algorithm)?;
            self.context.enqueued_one();
            Ok(())
        })
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

    fn plan(&self, gemm: &GemmParams) -> Result<Planned> {
        self.context.current()?;
        let dtype = Dtype::ALL.get(gemm.dtype as usize);
        let kind = self.kinds.iter().find(|kind| Some(&kind.dtype) == dtype);
        let not_offered = |what: &str| DeviceError::NotOffered {
            library: self.dialect.name.into(),
            what: what.into(),
        };
        let kind =
            kind.ok_or_else(|| not_offered("products of this element type on this device"))?;
        let mut plan = Planned::described(self.dialect, &self.library, kind, gemm)?;
        plan.algorithm = self.fastest(gemm, &plan)?.ok_or_else(|| {
            not_offered("an algorithm for this shape and element type on this device")
        })?;
        Ok(plan)
    }

    /// The algorithm that takes least time, by the device's own timer: all of them once, then those
    /// that are near the best in rounds, each of which begins with another one. Of those that are
    /// alike, the library's better guess.
    fn fastest(&self, gemm: &GemmParams, plan: &Planned) -> Result<Option<Algorithm>> {
        let mut found: Vec<(Algorithm, Vec<f64>)> = Vec::new();
        for algorithm in self.heuristics(plan)? {
            // What one algorithm refuses, another may take.
            let Ok(()) = self.multiply(gemm, plan, &algorithm) else { continue };
            self.context.wait("a product")?;
            found.push((algorithm, vec![self.time(gemm, plan, &algorithm, TIMED)?]));
        }
        let least = found.iter().map(|(_, times)| times[0]).fold(f64::INFINITY, f64::min);
        found.retain(|(_, times)| times[0] <= least * NEAR);
        let count = (BATCH / least.max(1e-7)).clamp(1.0, BATCH_MAX) as usize;
        for round in 0..if found.len() > 1 { ROUNDS } else { 0 } {
            let all = found.len();
            for at in (0..all).map(|at| (at + round) % all) {
                let (algorithm, times) = &mut found[at];
                if round == 0 {
                    times.clear();
                }
                times.push(self.time(gemm, plan, algorithm, count)?);
            }
        }
        let median = |(_, times): &(Algorithm, Vec<f64>)| quantile::median(times);
        let least = found.iter().map(median).fold(f64::INFINITY, f64::min);
        Ok(found.iter().find(|one| median(one) <= least * ALIKE).map(|(algorithm, _)| *algorithm))
    }

    /// The algorithms that may do, the best guess first.
    fn heuristics(&self, plan: &Planned) -> Result<Vec<Algorithm>> {
        let f = &self.library.functions;
        let words = self.dialect.found[0] / 8;
        let mut found = vec![0u64; words * ALGORITHMS];
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
                let wanted = ALGORITHMS as c_int;
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

    /// Seconds of one product among several.
    fn time(
        &self,
        gemm: &GemmParams,
        plan: &Planned,
        algorithm: &Algorithm,
        count: usize,
    ) -> Result<f64> {
        let mut several = || (0..count).try_for_each(|_| self.multiply(gemm, plan, algorithm));
        Ok(self.context.timed(&mut several)?.0 / count as f64)
    }
}

/// Products that an algorithm is first timed by.
const TIMED: usize = 5;

/// Rounds of those that are near the best; seconds of products that one is timed by in each, and
/// the most products.
const ROUNDS: usize = 3;
const BATCH: f64 = 0.000_2;
const BATCH_MAX: f64 = 100.0;

/// An algorithm that first takes longer than this much of the best is not tried again; those
/// within this much are alike.
const NEAR: f64 = 1.15;
const ALIKE: f64 = 1.01;

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
            algorithm: [0; 8],
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
