//! Elements that AVX2 computes with in `f32`: bfloat16 is widened while it is loaded.

use super::engine::Element;
use half::bf16;
use std::{arch::x86_64::*, ptr};

/// Lanes of a vector of sums.
pub(super) const LANES: usize = 8;

/// Elements that are loaded at once.
pub(super) const STEP: usize = 2 * LANES;

/// An element that AVX2 loads as `f32`.
pub(super) trait Wide: Element {
    /// Where the column of a step stands in the two vectors that it is loaded to.
    fn place(column: usize) -> usize;
    /// [`STEP`] elements.
    ///
    /// # Safety
    ///
    /// They can be read, and the CPU has AVX2.
    unsafe fn load(from: *const Self) -> [__m256; 2];
}

impl Wide for f32 {
    #[inline(always)]
    fn place(column: usize) -> usize {
        column
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> [__m256; 2] {
        // SAFETY: the caller's promise.
        unsafe { [_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(LANES))] }
    }
}

impl Wide for bf16 {
    /// The even ones before the odd ones: so one shift and one mask widen them.
    #[inline(always)]
    fn place(column: usize) -> usize {
        column % 2 * LANES + column / 2
    }
    #[inline(always)]
    unsafe fn load(from: *const bf16) -> [__m256; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let both = _mm256_loadu_si256(from.cast());
            let odd = _mm256_and_si256(both, _mm256_set1_epi32(!0xffff));
            [_mm256_castsi256_ps(_mm256_slli_epi32::<16>(both)), _mm256_castsi256_ps(odd)]
        }
    }
}

/// The first `count` of a step's elements, or all; zeros behind them.
///
/// # Safety
///
/// They can be read, and the CPU has AVX2.
#[inline(always)]
pub(super) unsafe fn load<E: Wide>(from: *const E, count: usize) -> [__m256; 2] {
    // SAFETY: the caller's promise.
    unsafe {
        if count >= STEP {
            return E::load(from);
        }
        let mut room = [E::default(); STEP];
        ptr::copy_nonoverlapping(from, room.as_mut_ptr(), count);
        E::load(room.as_ptr())
    }
}
