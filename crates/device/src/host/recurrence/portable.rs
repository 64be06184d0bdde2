//! Recurrences without any instruction of vectors: compilers make what the target has.

use super::rows::{Bodies, Rows, STEP, Step, bodies};
use fizeau_domain::kernel::RecurrenceParams;
use std::{array::from_fn, ops::Range};

/// A step of elements.
#[derive(Clone, Copy)]
struct Plain([f32; STEP]);

impl Step for Plain {
    #[inline(always)]
    unsafe fn all(value: f32) -> Self {
        Plain([value; STEP])
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's promise.
        Plain(unsafe { from.cast::<[f32; STEP]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const u16) -> Self {
        // SAFETY: the caller's promise.
        let bits: [u16; STEP] = unsafe { from.cast::<[u16; STEP]>().read_unaligned() };
        Plain(bits.map(|bits| f32::from_bits(u32::from(bits) << 16)))
    }
    #[inline(always)]
    unsafe fn times(self, other: Self) -> Self {
        Plain(from_fn(|at| self.0[at] * other.0[at]))
    }
    #[inline(always)]
    unsafe fn times_plus(self, factor: Self, term: Self) -> Self {
        Plain(from_fn(|at| self.0[at] * factor.0[at] + term.0[at]))
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        self.0.iter().sum()
    }
    #[inline(always)]
    unsafe fn store<const PAST: bool>(self, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[f32; STEP]>().write_unaligned(self.0) };
    }
    #[inline(always)]
    unsafe fn store_bf16<const PAST: bool>(self, to: *mut u16) {
        let bits = self.0.map(|value| {
            let bits = value.to_bits();
            (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16
        });
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[u16; STEP]>().write_unaligned(bits) };
    }
}

/// # Safety
///
/// As for [`super::rows::Body`].
unsafe fn run<R: Rows>(params: &RecurrenceParams, rows: Range<usize>) {
    // SAFETY: the caller's promise; no instructions are needed.
    unsafe { R::run::<Plain>(params, rows) }
}

/// The bodies.
pub(super) fn bodies() -> Bodies {
    bodies!(run, past false)
}
