//! Fused operations without any instruction of vectors: compilers make what the target has.

use super::rows::{Bodies, E4M3_MOST, EXP2, EXP2_LEAST, Part, Rows, STEP, Step, bodies};
use std::{array::from_fn, f32::consts::LOG2_E};

/// A step of elements.
#[derive(Clone, Copy)]
struct Plain([f32; STEP]);

/// The bits of an `f32` that is rounded to bf16, which end in zeros.
fn rounded(value: f32) -> f32 {
    let bits = value.to_bits();
    f32::from_bits(bits.wrapping_add(0x7fff + (bits >> 16 & 1)) & 0xffff_0000)
}

/// The code of a number in e4m3, as `kernels/include/e4m3.h` makes it.
fn e4m3(value: f32) -> u8 {
    let bits = value.abs().min(E4M3_MOST).to_bits();
    let size = f32::from_bits(bits);
    let normal = (bits.wrapping_add(0x7_ffff + (bits >> 20 & 1)) >> 20).wrapping_sub(120 << 3);
    let small = (size + 16_384.0).to_bits() - 16_384f32.to_bits();
    let code = if size < 0.015_625 { small } else { normal };
    (code | value.to_bits() >> 24 & 0x80) as u8
}

/// 2^x for x that is not positive; 0 below 2^-125.
fn exp2(x: f32) -> f32 {
    /// 1.5 x 2^23: added, it leaves the nearest integer in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    let within = x.max(EXP2_LEAST);
    let whole = within + ROUND;
    let rest = within - (whole - ROUND);
    let [c0, c1, c2, c3, c4, c5] = EXP2;
    let power = c0 + rest * (c1 + rest * (c2 + rest * (c3 + rest * (c4 + rest * c5))));
    let scaled = f32::from_bits(power.to_bits().wrapping_add(whole.to_bits() << 23));
    if x < EXP2_LEAST { 0.0 } else { scaled }
}

fn silu(x: f32) -> f32 {
    let power = exp2(x.abs() * -LOG2_E);
    let above = if x >= 0.0 { 1.0 } else { power };
    x * above / (1.0 + power)
}

impl Plain {
    #[inline(always)]
    fn map(self, each: impl Fn(f32) -> f32) -> Plain {
        Plain(self.0.map(each))
    }
    #[inline(always)]
    fn with(self, other: Plain, each: impl Fn(f32, f32) -> f32) -> Plain {
        Plain(from_fn(|at| each(self.0[at], other.0[at])))
    }
}

impl Step for Plain {
    #[inline(always)]
    unsafe fn all(value: f32) -> Self {
        Plain([value; STEP])
    }
    #[inline(always)]
    unsafe fn load(from: *const u16) -> Self {
        // SAFETY: the caller's promise.
        let bits: [u16; STEP] = unsafe { from.cast::<[u16; STEP]>().read_unaligned() };
        Plain(bits.map(|bits| f32::from_bits(u32::from(bits) << 16)))
    }
    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        self.with(other, |a, b| a + b)
    }
    #[inline(always)]
    unsafe fn times(self, other: Self) -> Self {
        self.with(other, |a, b| a * b)
    }
    #[inline(always)]
    unsafe fn times_plus(self, factor: Self, term: Self) -> Self {
        self.with(factor, |a, b| a * b).with(term, |a, b| a + b)
    }
    #[inline(always)]
    unsafe fn larger_size(self, other: Self) -> Self {
        self.with(other, |a, b| a.abs().max(b.abs()))
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        self.0.iter().sum()
    }
    #[inline(always)]
    unsafe fn largest(self) -> f32 {
        self.0.into_iter().fold(0.0, f32::max)
    }
    #[inline(always)]
    unsafe fn silu(self) -> Self {
        self.map(silu)
    }
    #[inline(always)]
    unsafe fn rounded(self) -> Self {
        self.map(rounded)
    }
    #[inline(always)]
    unsafe fn store<const PAST: bool>(self, to: *mut u16) {
        let bits = self.0.map(|value| (value.to_bits() >> 16) as u16);
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[u16; STEP]>().write_unaligned(bits) };
    }
    #[inline(always)]
    unsafe fn store_e4m3<const PAST: bool>(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[u8; STEP]>().write_unaligned(self.0.map(e4m3)) };
    }
    #[inline(always)]
    unsafe fn prefetch(_: *const u16) {}
}

/// # Safety
///
/// As for [`super::rows::Body`].
unsafe fn run<R: Rows>(part: &mut Part<'_>) {
    // SAFETY: the caller's promise; no instructions are needed.
    unsafe { R::run::<Plain>(part) }
}

/// The bodies.
pub(super) fn bodies() -> Bodies {
    bodies!(run, past false)
}
