//! The host's kernels of `sparse/top_k`: each thread takes rows, or with fewer rows than threads a
//! part of one, whose findings one thread then chooses from.

use super::lanes::Kept;
use crate::host::{gemm::Scratch, kernel::HostKernel, pool::Block};
use fizeau_domain::{
    case::Sparse,
    kernel::{Operation, SparseTopKParams},
};
use std::ops::Range;

/// Fewest numbers of a part, in times of those that are wanted.
const PART_MIN: usize = 4;

/// How a kind of vector does one thing.
///
/// # Safety
///
/// As for [`Kept::see`]; the CPU has the instructions.
pub(super) type See = unsafe fn(&mut Kept, *const f32, Range<usize>);

/// # Safety
///
/// The CPU has the instructions.
pub(super) type Prune = unsafe fn(&mut Kept);

/// A kernel, of a kind of vector that the CPU has.
pub(super) fn kernel(
    name: &'static str,
    features: &'static [&'static str],
    see: See,
    prune: Prune,
) -> HostKernel {
    let run = move |block: &Block<'_>| {
        // SAFETY: whoever launches owns the arrays, and the device lists only kernels that the CPU
        // can run.
        unsafe { top_k(block, see, prune) }
    };
    HostKernel::new(Operation::Sparse(Sparse::TopK), name, features, run)
}

/// # Safety
///
/// The parameters' addresses are of arrays that live, in the layouts of [`SparseTopKParams`].
unsafe fn top_k(block: &Block<'_>, see: See, prune: Prune) {
    let p: &SparseTopKParams = block.params();
    let [rows, context, wanted] = [p.rows, p.context, p.selected].map(|count| count as usize);
    let (index, count) = (block.index as usize, block.count as usize);
    let parts = (count / rows).min(context / (PART_MIN * wanted)).max(1);
    let part = context.div_ceil(parts);
    let parts = context.div_ceil(part);
    let row = |row: usize| (p.logits as *const f32).wrapping_add(row * context);
    let output = |row: usize| (p.selection as *mut u32).wrapping_add(row * wanted);
    // What each part has found: keys, and places behind them.
    let slot = 2 * wanted;
    let bytes = rows * parts * slot * size_of::<u32>();
    let scratch = (parts > 1 && index == 0).then(|| Scratch::take(bytes));
    let mut slots = std::ptr::null_mut::<u32>();
    if parts > 1 {
        let [first] = scratch.as_ref().map_or([0], |scratch| scratch.areas([bytes]));
        slots = block.from_first(first) as *mut u32;
    }
    let of_part = |number: usize| part.min(context - number * part).min(wanted);
    let mut kept = Kept::new(wanted, if parts > 1 { parts * wanted } else { 0 });
    for _ in 0..block.repeat {
        for task in (index..rows * parts).step_by(count) {
            kept.clear();
            let first = task % parts * part;
            // SAFETY: the caller's promise; no other thread has this part.
            unsafe {
                see(&mut kept, row(task / parts), first..(first + part).min(context));
                prune(&mut kept);
                let (keys, places) = kept.found();
                if parts == 1 {
                    output(task).copy_from_nonoverlapping(places.as_ptr(), wanted);
                } else {
                    let slot = slots.add(task * slot);
                    slot.copy_from_nonoverlapping(keys.as_ptr().cast(), keys.len());
                    slot.add(wanted).copy_from_nonoverlapping(places.as_ptr(), places.len());
                }
            }
        }
        block.synchronise();
        if parts > 1 {
            for row in block.part(rows, 1) {
                kept.clear();
                // SAFETY: all parts are there; no other thread has this row.
                unsafe {
                    for number in 0..parts {
                        let slot = slots.add((row * parts + number) * slot).cast_const();
                        let count = of_part(number);
                        let keys = std::slice::from_raw_parts(slot.cast(), count);
                        kept.extend(keys, std::slice::from_raw_parts(slot.add(wanted), count));
                    }
                    prune(&mut kept);
                    output(row).copy_from_nonoverlapping(kept.found().1.as_ptr(), wanted);
                }
            }
            block.synchronise();
        }
    }
}

/// The kernels of `$lanes`, as functions that have its instructions.
macro_rules! vectors {
    ($see:ident, $prune:ident, $lanes:ty $(, $features:literal)?) => {
        /// # Safety
        ///
        /// As for [`See`].
        $(#[target_feature(enable = $features)])?
        unsafe fn $see(kept: &mut Kept, row: *const f32, places: Range<usize>) {
            // SAFETY: the caller's promise.
            unsafe { kept.see::<$lanes>(row, places) }
        }
        /// # Safety
        ///
        /// As for [`Prune`].
        $(#[target_feature(enable = $features)])?
        unsafe fn $prune(kept: &mut Kept) {
            // SAFETY: the caller's promise.
            unsafe { kept.prune::<$lanes>() }
        }
    };
}

#[cfg(target_arch = "x86_64")]
vectors!(see_avx512, prune_avx512, super::x86::Wide, "avx512f,avx512bw,avx512vl,popcnt");
#[cfg(target_arch = "x86_64")]
vectors!(see_avx2, prune_avx2, super::x86::Narrow, "avx2,popcnt");
vectors!(see_plain, prune_plain, super::portable::Plain);

/// All of them, best first.
pub(super) fn kernels() -> Vec<HostKernel> {
    let mut kernels = Vec::new();
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("popcnt") {
        let wide: &[&str] = &["avx512f", "avx512bw", "avx512vl"];
        kernels.push(kernel("avx512", wide, see_avx512, prune_avx512));
        kernels.push(kernel("avx2", &["avx2"], see_avx2, prune_avx2));
    }
    kernels.push(kernel("portable", &[], see_plain, prune_plain));
    kernels
}
