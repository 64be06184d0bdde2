//! The fused operations on rows, written once for every kind of vector.
//!
//! Everything here is inlined into a function that has the vector's instructions enabled, and
//! reaches speed only there.

use fizeau_domain::kernel::FusedParams;
use std::{marker::PhantomData, ops::Range, ptr};

/// Elements of a step.
pub(super) const STEP: usize = 16;

/// Steps of elements that share a scale: 128.
const STEPS: usize = 8;

/// Elements that share a scale.
const BLOCK: usize = STEP * STEPS;

/// The largest number of e4m3.
pub(super) const E4M3_MOST: f32 = 448.0;

/// The least number that is taken for the largest of those that share a scale.
const LARGEST_MIN: f32 = 1e-10;

/// A step of elements, as `f32`.
///
/// # Safety
///
/// Every function needs the vector's instructions; addresses are those of as many elements as a
/// step has, and where `PAST` at a multiple of their size together.
pub(super) trait Step: Copy {
    /// The same in every lane.
    unsafe fn all(value: f32) -> Self;
    /// From bf16.
    unsafe fn load(from: *const u16) -> Self;
    unsafe fn plus(self, other: Self) -> Self;
    unsafe fn times(self, other: Self) -> Self;
    /// `self * factor + term`
    unsafe fn times_plus(self, factor: Self, term: Self) -> Self;
    /// The larger of two sizes, signs left out.
    unsafe fn larger_size(self, other: Self) -> Self;
    unsafe fn sum(self) -> f32;
    unsafe fn largest(self) -> f32;
    /// `self / (1 + exp(-self))`
    unsafe fn silu(self) -> Self;
    /// Rounded to bf16, ties to even.
    unsafe fn rounded(self) -> Self;
    /// Stores what was rounded.
    unsafe fn store<const PAST: bool>(self, to: *mut u16);
    /// Stores as e4m3: to nearest, ties to even, 448 at most.
    unsafe fn store_e4m3<const PAST: bool>(self, to: *mut u8);
    /// Asks for a line that is read soon.
    unsafe fn prefetch(from: *const u16);
}

/// Rows of one thread, and room for one of them.
pub(super) struct Part<'p> {
    params: &'p FusedParams,
    rows: Range<usize>,
    /// The sums of a row with the residual.
    room: Vec<Line>,
}

/// Elements of a cache line.
const IN_LINE: usize = 32;

#[derive(Clone)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "reached through its address")] [u16; IN_LINE]);

impl Part<'_> {
    /// Some rows of the parameters.
    pub fn new(params: &FusedParams, rows: Range<usize>) -> Part<'_> {
        let lines = (params.width as usize).next_multiple_of(BLOCK) / IN_LINE;
        let is_kept = params.residual != 0 && !rows.is_empty();
        let room = if is_kept { vec![Line([0; IN_LINE]); lines] } else { Vec::new() };
        Part { params, rows, room }
    }

    fn width(&self) -> usize {
        self.params.width as usize
    }

    /// Whether every step of every row begins where a store past the caches can.
    fn can_store_past(&self) -> bool {
        let FusedParams { updated, output, width, .. } = *self.params;
        (width as usize).is_multiple_of(STEP) && (updated | output).is_multiple_of(32)
    }
}

/// One iteration over some rows.
///
/// # Safety
///
/// The arrays of the parameters are those of the operation, nobody else writes to these rows
/// meanwhile, and the CPU has the variant's instructions.
pub(super) type Body = unsafe fn(&mut Part<'_>);

/// The bodies of one variant: norms into bf16, fp8 and fp8block, SwiGLU into bf16 and fp8block.
pub(super) type Bodies = [Body; 5];

/// The bodies of a kind of vector, each a function `$run` that has its instructions.
macro_rules! bodies {
    ($run:ident, past $past:literal) => {{
        use $crate::host::fused::rows::{Norm, Swiglu, ToBf16, ToFp8, ToFp8Block};
        [
            $run::<Norm<ToBf16, $past>> as $crate::host::fused::rows::Body,
            $run::<Norm<ToFp8, $past>>,
            $run::<Norm<ToFp8Block, $past>>,
            $run::<Swiglu<ToBf16, $past>>,
            $run::<Swiglu<ToFp8Block, $past>>,
        ]
    }};
}
pub(super) use bodies;

/// An operation on rows.
pub(super) trait Rows {
    /// # Safety
    ///
    /// As for [`Body`] and [`Step`].
    unsafe fn run<S: Step>(part: &mut Part<'_>);
}

/// Addition to the residual and RMSNorm.
pub(super) struct Norm<O, const PAST: bool>(PhantomData<O>);

/// SwiGLU.
pub(super) struct Swiglu<O, const PAST: bool>(PhantomData<O>);

/// How a block of outputs is left.
pub(super) trait Output {
    /// Leaves the elements from `at` on of a row.
    ///
    /// # Safety
    ///
    /// As for [`Body`] and [`Step`].
    unsafe fn leave<S: Step, const PAST: bool>(
        params: &FusedParams,
        row: usize,
        at: usize,
        values: [S; STEPS],
    );
}

pub(super) struct ToBf16;
pub(super) struct ToFp8;
pub(super) struct ToFp8Block;

/// A step of which `left` elements are there; zeros behind them.
///
/// # Safety
///
/// As for [`Step`], of the elements that are there.
#[inline(always)]
unsafe fn load<S: Step>(from: *const u16, left: usize) -> S {
    // SAFETY: the caller's promise; no more is read than there is.
    unsafe {
        if left >= STEP {
            return S::load(from);
        }
        let mut room = [0u16; STEP];
        ptr::copy_nonoverlapping(from, room.as_mut_ptr(), left);
        S::load(room.as_ptr())
    }
}

/// Stores the first `left` elements of a step.
///
/// # Safety
///
/// As for [`Step`], of the elements that are there.
#[inline(always)]
unsafe fn store<S: Step, const PAST: bool>(step: S, to: *mut u16, left: usize) {
    // SAFETY: the caller's promise; no more is written than there is.
    unsafe {
        if left >= STEP {
            return step.store::<PAST>(to);
        }
        let mut room = [0u16; STEP];
        step.store::<false>(room.as_mut_ptr());
        ptr::copy_nonoverlapping(room.as_ptr(), to, left);
    }
}

/// The same as e4m3.
///
/// # Safety
///
/// As for [`Step`], of the elements that are there.
#[inline(always)]
unsafe fn store_e4m3<S: Step, const PAST: bool>(step: S, to: *mut u8, left: usize) {
    // SAFETY: the caller's promise; no more is written than there is.
    unsafe {
        if left >= STEP {
            return step.store_e4m3::<PAST>(to);
        }
        let mut room = [0u8; STEP];
        step.store_e4m3::<false>(room.as_mut_ptr());
        ptr::copy_nonoverlapping(room.as_ptr(), to, left);
    }
}

/// Elements that are left of a row from a step of a block on.
#[inline(always)]
fn left(width: usize, at: usize, step: usize) -> usize {
    width.saturating_sub(at + step * STEP)
}

/// Leaves a block as e4m3.
///
/// # Safety
///
/// As for [`Output::leave`].
#[inline(always)]
unsafe fn leave_codes<S: Step, const PAST: bool>(
    params: &FusedParams,
    row: usize,
    at: usize,
    values: [S; STEPS],
    factor: f32,
) {
    let width = params.width as usize;
    let to = (params.output as *mut u8).wrapping_add(row * width + at);
    // SAFETY: the caller's promise; no step behind the row's end is stored.
    unsafe {
        let factor = S::all(factor);
        for (step, value) in values.into_iter().enumerate() {
            let left = left(width, at, step);
            store_e4m3::<S, PAST>(value.times(factor), to.wrapping_add(step * STEP), left);
        }
    }
}

impl Output for ToBf16 {
    #[inline(always)]
    unsafe fn leave<S: Step, const PAST: bool>(
        params: &FusedParams,
        row: usize,
        at: usize,
        values: [S; STEPS],
    ) {
        let width = params.width as usize;
        let to = (params.output as *mut u16).wrapping_add(row * width + at);
        for (step, value) in values.into_iter().enumerate() {
            let left = left(width, at, step);
            // SAFETY: the caller's promise; no step behind the row's end is stored.
            unsafe { store::<S, PAST>(value.rounded(), to.wrapping_add(step * STEP), left) };
        }
    }
}

impl Output for ToFp8 {
    #[inline(always)]
    unsafe fn leave<S: Step, const PAST: bool>(
        params: &FusedParams,
        row: usize,
        at: usize,
        values: [S; STEPS],
    ) {
        // SAFETY: the caller's promise.
        unsafe { leave_codes::<S, PAST>(params, row, at, values, params.inverse) }
    }
}

impl Output for ToFp8Block {
    #[inline(always)]
    unsafe fn leave<S: Step, const PAST: bool>(
        params: &FusedParams,
        row: usize,
        at: usize,
        values: [S; STEPS],
    ) {
        let blocks = (params.width as usize).div_ceil(BLOCK);
        // SAFETY: the caller's promise; a row has a scale for each block.
        unsafe {
            let mut sizes = S::all(LARGEST_MIN);
            for value in values {
                sizes = sizes.larger_size(value);
            }
            let largest = sizes.largest();
            let scale = (params.scales as *mut f32).wrapping_add(row * blocks + at / BLOCK);
            scale.write(largest / E4M3_MOST);
            leave_codes::<S, PAST>(params, row, at, values, E4M3_MOST / largest);
        }
    }
}

/// Sums of squares kept apart, so that additions need not wait for each other.
const SUMS: usize = 4;

impl<O: Output, const PAST: bool> Norm<O, PAST> {
    /// Adds a row to its residual, leaves the sum there and in the room, and gives the sum of its
    /// squares.
    #[inline(always)]
    unsafe fn add<S: Step, const NOW: bool>(
        params: &FusedParams,
        row: usize,
        room: *mut u16,
    ) -> f32 {
        let width = params.width as usize;
        let at = |address: u64| (address as *mut u16).wrapping_add(row * width);
        let (input, residual, updated) =
            (at(params.input), at(params.residual), at(params.updated));
        // SAFETY: the caller's promise; the room has whole blocks.
        unsafe {
            let mut sums = [S::all(0.0); SUMS];
            let mut first = 0;
            while first < width {
                for (step, sum) in sums.iter_mut().enumerate() {
                    let (at, left) = (first + step * STEP, left(width, first, step));
                    let input = load::<S>(input.wrapping_add(at), left);
                    let value = input.plus(load(residual.wrapping_add(at), left)).rounded();
                    store::<S, NOW>(value, updated.wrapping_add(at), left);
                    // The room has whole blocks.
                    value.store::<false>(room.wrapping_add(at));
                    *sum = value.times_plus(value, *sum);
                }
                first += SUMS * STEP;
            }
            let [a, b, c, d] = sums;
            a.plus(b).plus(c.plus(d)).sum()
        }
    }

    /// Leaves what was added, normalised; meanwhile the next row is asked for.
    #[inline(always)]
    unsafe fn leave<S: Step, const NOW: bool>(
        params: &FusedParams,
        row: usize,
        next: usize,
        room: *const u16,
        squares: f32,
    ) {
        let width = params.width as usize;
        let factor = 1.0 / (squares / width as f32 + params.epsilon).sqrt();
        let weights = params.weight as *const u16;
        let next = [params.input, params.residual]
            .map(|address| (address as *const u16).wrapping_add(next * width));
        // SAFETY: the caller's promise; the room has whole blocks.
        unsafe {
            let factor = S::all(factor);
            let mut at = 0;
            while at < width {
                let mut values = [S::all(0.0); STEPS];
                for (step, value) in values.iter_mut().enumerate() {
                    let place = at + step * STEP;
                    if step % 2 == 0 {
                        S::prefetch(next[0].wrapping_add(place));
                        S::prefetch(next[1].wrapping_add(place));
                    }
                    let weight = load::<S>(weights.wrapping_add(place), left(width, at, step));
                    *value = S::load(room.wrapping_add(place)).times(factor).times(weight);
                }
                O::leave::<S, NOW>(params, row, at, values);
                at += BLOCK;
            }
        }
    }

    #[inline(always)]
    unsafe fn rows<S: Step, const NOW: bool>(part: &mut Part<'_>) {
        let room: *mut u16 = part.room.as_mut_ptr().cast();
        let Range { start, end } = part.rows;
        for row in start..end {
            let next = if row + 1 < end { row + 1 } else { row };
            // SAFETY: the caller's promise.
            unsafe {
                let squares = Self::add::<S, NOW>(part.params, row, room);
                Self::leave::<S, NOW>(part.params, row, next, room, squares);
            }
        }
    }
}

impl<O: Output, const PAST: bool> Rows for Norm<O, PAST> {
    #[inline(always)]
    unsafe fn run<S: Step>(part: &mut Part<'_>) {
        // SAFETY: the caller's promise.
        unsafe {
            match PAST && part.can_store_past() {
                true => Self::rows::<S, PAST>(part),
                false => Self::rows::<S, false>(part),
            }
        }
    }
}

/// Elements by which SwiGLU asks for gates and ups before it reads them: 2 KiB. Rows are shorter
/// than what the CPU's own prefetching needs to find out about two streams.
const AHEAD: usize = 1024;

impl<O: Output, const PAST: bool> Swiglu<O, PAST> {
    #[inline(always)]
    unsafe fn rows<S: Step, const NOW: bool>(part: &Part<'_>) {
        let width = part.width();
        for row in part.rows.clone() {
            let gates = (part.params.input as *const u16).wrapping_add(row * 2 * width);
            let ups = gates.wrapping_add(width);
            let mut at = 0;
            while at < width {
                // SAFETY: the caller's promise; no step behind the row's end is loaded.
                unsafe {
                    let mut values = [S::all(0.0); STEPS];
                    for (step, value) in values.iter_mut().enumerate() {
                        let (place, left) = (at + step * STEP, left(width, at, step));
                        if step % 2 == 0 {
                            S::prefetch(gates.wrapping_add(place + AHEAD));
                            S::prefetch(ups.wrapping_add(place + AHEAD));
                        }
                        let gate = load::<S>(gates.wrapping_add(place), left);
                        *value = gate.silu().times(load(ups.wrapping_add(place), left));
                    }
                    O::leave::<S, NOW>(part.params, row, at, values);
                }
                at += BLOCK;
            }
        }
    }
}

impl<O: Output, const PAST: bool> Rows for Swiglu<O, PAST> {
    #[inline(always)]
    unsafe fn run<S: Step>(part: &mut Part<'_>) {
        // SAFETY: the caller's promise.
        unsafe {
            match PAST && part.can_store_past() {
                true => Self::rows::<S, PAST>(part),
                false => Self::rows::<S, false>(part),
            }
        }
    }
}

/// Coefficients of a polynomial for 2^x over [-1/2, 1/2]; off by less than 1.6e-7 of itself, as
/// that of attention.
pub(super) const EXP2: [f32; 6] =
    [1.0, 0.693_146_97, 0.240_221_2, 0.055_507_13, 0.009_675_541, 0.001_327_647_2];

/// Where 2^x of x that is not positive ends.
pub(super) const EXP2_LEAST: f32 = -125.0;
