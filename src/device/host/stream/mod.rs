//! STREAM kernels of the host, on `f64`.
//!
//! Every variant does the same on its block's part of the arrays. Those named `_nt` store past the
//! caches, so that memory is written without first being read; those named `_4s` walk four
//! places of the part at once, which gives the hardware's prefetchers more to do. Which one is best
//! differs by CPU, operation and working set: that is why they are all measured.

#![expect(unsafe_code, reason = "arrays are reached through addresses, by intrinsics")]

#[cfg(target_arch = "x86_64")]
mod x86;

use super::{HostKernel, Threads, pool::Block};
use crate::kernel::StreamParams;
use std::sync::Arc;

/// Elements that a block's part is a multiple of (but for the last): a page of 4 KiB.
const GRANULE: usize = 512;

/// The arrays of one block's part.
#[derive(Clone, Copy)]
struct Part {
    a: *mut f64,
    b: *const f64,
    c: *const f64,
    length: usize,
    scale: f64,
}

/// One pass of an operation over a part; the sum where it is a reduction, else zero.
type Pass = unsafe fn(Part) -> f64;

/// One pass of each operation, in the order of [`crate::case::StreamOperation::ALL`].
type Passes = [Pass; 7];

/// The operations as kernels are asked for by, in the order of [`crate::case::StreamOperation::ALL`].
const OPERATIONS: [&str; 7] = [
    "stream/read",
    "stream/write",
    "stream/copy",
    "stream/scale",
    "stream/add",
    "stream/triad",
    "stream/dot",
];

/// Runs the iterations of a block.
fn run(block: &Block<'_>, pass: Pass) {
    let params: &StreamParams = block.params();
    let range = block.part(params.length as usize, GRANULE);
    let offset = range.start;
    let part = Part {
        a: (params.a as *mut f64).wrapping_add(offset),
        b: (params.b as *const f64).wrapping_add(offset),
        c: (params.c as *const f64).wrapping_add(offset),
        length: range.len(),
        scale: params.scale,
    };
    let mut sum = 0.0;
    for _ in 0..block.repeat {
        // SAFETY: the launch's arrays have `length` elements, of which this range is a part that
        // no other block has; the device offers a kernel only where its instruction set is there.
        sum = unsafe { pass(std::hint::black_box(part)) };
    }
    // SAFETY: `partial` has a line of 64 bytes for each block.
    unsafe { (params.partial as *mut f64).add(8 * block.index as usize).write(sum) };
}

/// One kernel for each operation that a variant differs in: non-temporal stores make no
/// difference to an operation that stores nothing.
fn variant(
    name: &'static str,
    features: &'static [&'static str],
    passes: Passes,
) -> impl Iterator<Item = HostKernel> {
    let stores = |operation: &str| !matches!(operation, "stream/read" | "stream/dot");
    let differs = move |operation: &str| stores(operation) || !name.contains("_nt");
    let both = OPERATIONS.into_iter().zip(passes);
    both.filter(move |(operation, _)| differs(operation)).map(move |(operation, pass)| HostKernel {
        operation,
        name,
        features,
        threads: Threads::Pool,
        run: Arc::new(move |block: &Block<'_>| run(block, pass)),
    })
}

/// All of them; the device leaves out those whose instruction set is not there.
pub(super) fn kernels() -> Vec<HostKernel> {
    let plain: Passes = [
        plain::read,
        plain::write,
        plain::copy,
        plain::scale,
        plain::add,
        plain::triad,
        plain::dot,
    ];
    let mut kernels = Vec::new();
    #[cfg(target_arch = "x86_64")]
    kernels.extend(x86::kernels());
    kernels.extend(variant("plain", &[], plain));
    kernels
}

/// Plain loops, which the compiler turns into what the least CPU of the target has.
mod plain {
    use super::Part;

    /// Independent sums, so that additions need not wait for each other.
    const SUMS: usize = 8;

    /// # Safety
    ///
    /// As for [`super::Pass`]: the part's arrays are live, and `a` is nobody else's.
    unsafe fn slices<'p>(part: Part) -> (&'p mut [f64], &'p [f64], &'p [f64]) {
        let array = |at: *const f64| {
            let at = if at.is_aligned() && !at.is_null() { at } else { part.a.cast_const() };
            (at, if at == part.a.cast_const() { 0 } else { part.length })
        };
        let ((b, b_length), (c, c_length)) = (array(part.b), array(part.c));
        // SAFETY: the caller's promise; an array that is not there has no elements.
        unsafe {
            (
                std::slice::from_raw_parts_mut(part.a, part.length),
                std::slice::from_raw_parts(b, b_length),
                std::slice::from_raw_parts(c, c_length),
            )
        }
    }

    fn sum(values: impl Iterator<Item = [f64; SUMS]>) -> [f64; SUMS] {
        values.fold([0.0; SUMS], |mut sums, values| {
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum += value;
            }
            sums
        })
    }

    pub(super) unsafe fn read(part: Part) -> f64 {
        // SAFETY: the caller's promise.
        let (a, ..) = unsafe { slices(part) };
        let (chunks, rest) = a.as_chunks::<SUMS>();
        sum(chunks.iter().copied()).iter().sum::<f64>() + rest.iter().sum::<f64>()
    }

    pub(super) unsafe fn write(part: Part) -> f64 {
        // SAFETY: the caller's promise.
        let (a, ..) = unsafe { slices(part) };
        a.fill(part.scale);
        0.0
    }

    pub(super) unsafe fn copy(part: Part) -> f64 {
        // SAFETY: the caller's promise.
        let (a, b, _) = unsafe { slices(part) };
        a.copy_from_slice(b);
        0.0
    }

    pub(super) unsafe fn scale(part: Part) -> f64 {
        // SAFETY: the caller's promise.
        let (a, b, _) = unsafe { slices(part) };
        for (a, b) in a.iter_mut().zip(b) {
            *a = part.scale * b;
        }
        0.0
    }

    pub(super) unsafe fn add(part: Part) -> f64 {
        // SAFETY: the caller's promise.
        let (a, b, c) = unsafe { slices(part) };
        for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
            *a = b + c;
        }
        0.0
    }

    pub(super) unsafe fn triad(part: Part) -> f64 {
        // SAFETY: the caller's promise.
        let (a, b, c) = unsafe { slices(part) };
        for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
            *a = b + part.scale * c;
        }
        0.0
    }

    pub(super) unsafe fn dot(part: Part) -> f64 {
        // SAFETY: the caller's promise.
        let (a, b, _) = unsafe { slices(part) };
        let (a, a_rest) = a.as_chunks::<SUMS>();
        let (b, b_rest) = b.as_chunks::<SUMS>();
        let products = a.iter().zip(b).map(|(a, b)| std::array::from_fn(|at| a[at] * b[at]));
        let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
        sum(products).iter().sum::<f64>() + rest
    }
}
