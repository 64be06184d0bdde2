//! Few rows of A with B that stands column by column: each element of C is the dot product of a row
//! of A and a row of memory. B passes once, in order, so that reading it bounds the time.
//!
//! A is packed first, in the vectors that elements of B widen to. Some columns are multiplied with
//! some rows at once, so that each vector that is loaded is used several times; with more rows than
//! those, the columns' elements come from the second cache for the others. Threads share columns.

use super::product::{Scratch, Share, cut};
use fizeau_domain::kernel::GemmParams;
use std::{
    arch::x86_64::{_MM_HINT_T0, _mm_prefetch},
    mem::{MaybeUninit, size_of},
    ops::Range,
    ptr,
};

/// Rows of A that are few.
pub(super) const ROWS_MAX: usize = 16;

/// Bytes along a column that are asked for ahead.
const AHEAD: usize = 1024;

/// Columns of a thread's part are whole multiples of this: a cache line of C, or more.
const GRANULE: usize = 32;

/// Most elements of a step: one vector of bytes.
const STEP_MAX: usize = 64;

/// An element type's dot products with one instruction set.
pub(super) trait Dots {
    /// An element of A and B; the default is zero.
    type Input: Copy + Default;
    /// An element of C.
    type Output: Copy;
    /// A vector of elements or of sums.
    type Vector: Copy;

    /// Elements along k that are loaded at once.
    const STEP: usize;
    /// Vectors that they widen to, 2 at most.
    const PARTS: usize;
    /// Whether registers have room for 16 sums, and not for 8.
    const WIDE: bool;
    /// Whether a row of nothing has sums: those of int8, where the instruction takes A without a
    /// sign.
    const HAS_OFFSET: bool;

    /// Sums of nothing.
    ///
    /// # Safety
    ///
    /// The CPU has the instruction set, here and below.
    unsafe fn zero() -> Self::Vector;

    /// [`Dots::STEP`] elements, widened; the second vector is used where there are two parts.
    ///
    /// # Safety
    ///
    /// They can be read.
    unsafe fn load(from: *const Self::Input) -> [Self::Vector; 2];

    /// Elements of A as the instruction takes them.
    ///
    /// # Safety
    ///
    /// As [`Dots::zero`].
    unsafe fn flipped(a: Self::Vector) -> Self::Vector;

    /// Adds the products of two vectors.
    ///
    /// # Safety
    ///
    /// As [`Dots::zero`].
    unsafe fn fused(sum: Self::Vector, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// An element of C: the sum of a vector's lanes, without that of a row of nothing.
    ///
    /// # Safety
    ///
    /// As [`Dots::zero`].
    unsafe fn total(sum: Self::Vector, offset: Self::Vector) -> Self::Output;
}

/// One thread's operands.
struct Few<T: Dots> {
    b: *const T::Input,
    c: *mut T::Output,
    n: usize,
    k: usize,
    /// Rows of A, and one of nothing where sums have an offset.
    rows: usize,
    /// Vectors of a row of packed A.
    row: usize,
    packed: *mut T::Vector,
}

/// Runs a product's iterations for one thread.
///
/// # Safety
///
/// The parameters describe operands that live, with [`ROWS_MAX`] rows of A at most and B column by
/// column, and the CPU has the instruction set.
#[inline(always)]
pub(super) unsafe fn dots<T: Dots>(params: &GemmParams, share: Share) {
    let [m, n, k] = [params.m, params.n, params.k].map(|length| length as usize);
    let columns = cut(n, GRANULE, share.index, share.count);
    if columns.is_empty() {
        return;
    }
    let row = k.div_ceil(T::STEP) * T::PARTS;
    let rows = m + usize::from(T::HAS_OFFSET);
    let size = rows * row * size_of::<T::Vector>();
    let scratch = Scratch::take(size);
    let [packed] = scratch.areas([size]);
    let few = Few::<T> {
        b: params.b as *const T::Input,
        c: params.c as *mut T::Output,
        n,
        k,
        rows,
        row,
        packed: packed as *mut T::Vector,
    };
    // A plain loop: in a closure the compiler would forget the instruction set.
    for _ in 0..share.repeat {
        // SAFETY: the caller's promise, and scratch of the size above.
        unsafe {
            few.pack(params.a as *const T::Input, m);
            few.run(&columns, m);
        }
    }
}

impl<T: Dots> Few<T> {
    /// Rows of A as vectors; beyond k they are zero.
    #[inline(always)]
    unsafe fn pack(&self, a: *const T::Input, m: usize) {
        for row in 0..self.rows {
            for (step, first) in (0..self.k).step_by(T::STEP).enumerate() {
                let there = if row < m { (self.k - first).min(T::STEP) } else { 0 };
                // SAFETY: `there` elements lie within A, the vectors within the scratch.
                unsafe {
                    let vectors = Self::part(a.wrapping_add(row * self.k + first), there);
                    let target = self.packed.add(row * self.row + step * T::PARTS);
                    for (part, vector) in vectors.into_iter().enumerate().take(T::PARTS) {
                        target.add(part).write(T::flipped(vector));
                    }
                }
            }
        }
    }

    /// A step of which only the first `there` elements are in memory; the others are zero.
    #[inline(always)]
    unsafe fn part(from: *const T::Input, there: usize) -> [T::Vector; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            if there == T::STEP {
                return T::load(from);
            }
            let mut room = [MaybeUninit::<T::Input>::uninit(); STEP_MAX];
            for (at, cell) in room.iter_mut().enumerate() {
                cell.write(if at < there { *from.add(at) } else { T::Input::default() });
            }
            T::load(room.as_ptr().cast())
        }
    }

    #[inline(always)]
    unsafe fn run(&self, columns: &Range<usize>, m: usize) {
        let mut left = columns.start;
        // SAFETY: columns lie within B.
        unsafe {
            while left < columns.end {
                let most = if self.rows <= 1 + usize::from(T::WIDE) { 8 } else { 4 };
                match (columns.end - left).min(most) {
                    8.. => {
                        self.rows_of::<8>(left, m);
                        left += 8;
                    }
                    4..8 => {
                        self.rows_of::<4>(left, m);
                        left += 4;
                    }
                    _ => {
                        self.rows_of::<1>(left, m);
                        left += 1;
                    }
                }
            }
        }
    }

    /// `C` columns with all rows.
    #[inline(always)]
    unsafe fn rows_of<const C: usize>(&self, left: usize, m: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut offset = [T::zero(); C];
            if T::HAS_OFFSET && self.rows > 2 {
                offset = self.sums::<1, C>(left, self.rows - 1)[0];
            }
            if T::HAS_OFFSET && self.rows == 2 {
                // One row, and the one of nothing beside it.
                let [sums, offset] = self.sums::<2, C>(left, 0);
                self.put(left, 0, sums, offset);
                return;
            }
            let mut row = 0;
            while row < m {
                match m - row {
                    4.. if T::WIDE && C <= 4 => {
                        let sums = self.sums::<4, C>(left, row);
                        for (at, sums) in sums.into_iter().enumerate() {
                            self.put(left, row + at, sums, offset);
                        }
                        row += 4;
                    }
                    2.. if T::WIDE || C <= 4 => {
                        let sums = self.sums::<2, C>(left, row);
                        for (at, sums) in sums.into_iter().enumerate() {
                            self.put(left, row + at, sums, offset);
                        }
                        row += 2;
                    }
                    _ => {
                        let [sums] = self.sums::<1, C>(left, row);
                        self.put(left, row, sums, offset);
                        row += 1;
                    }
                }
            }
        }
    }

    /// Sums of `R` rows with `C` columns.
    #[inline(always)]
    unsafe fn sums<const R: usize, const C: usize>(
        &self,
        left: usize,
        row: usize,
    ) -> [[T::Vector; C]; R] {
        // SAFETY: rows and columns lie within A and B; only what is asked for ahead may not.
        unsafe {
            let mut sums = [[T::zero(); C]; R];
            let b = self.b.add(left * self.k);
            let whole = self.k / T::STEP;
            for step in 0..whole {
                let a = self.packed.add(row * self.row + step * T::PARTS);
                for column in 0..C {
                    let from = b.add(column * self.k + step * T::STEP);
                    _mm_prefetch::<_MM_HINT_T0>(from.cast::<i8>().wrapping_add(AHEAD));
                    let vectors = T::load(from);
                    for (part, vector) in vectors.into_iter().enumerate().take(T::PARTS) {
                        for (at, sums) in sums.iter_mut().enumerate() {
                            let a = *a.add(at * self.row + part);
                            sums[column] = T::fused(sums[column], a, vector);
                        }
                    }
                }
            }
            if whole * T::STEP < self.k {
                let a = self.packed.add(row * self.row + whole * T::PARTS);
                for column in 0..C {
                    let from = b.add(column * self.k + whole * T::STEP);
                    let vectors = Self::part(from, self.k - whole * T::STEP);
                    for (part, vector) in vectors.into_iter().enumerate().take(T::PARTS) {
                        for (at, sums) in sums.iter_mut().enumerate() {
                            let a = *a.add(at * self.row + part);
                            sums[column] = T::fused(sums[column], a, vector);
                        }
                    }
                }
            }
            sums
        }
    }

    /// One row's elements of C.
    #[inline(always)]
    unsafe fn put<const C: usize>(
        &self,
        left: usize,
        row: usize,
        sums: [T::Vector; C],
        offset: [T::Vector; C],
    ) {
        for (column, (sum, offset)) in sums.into_iter().zip(offset).enumerate() {
            // SAFETY: the element lies within C.
            unsafe {
                let target = self.c.add(row * self.n + left + column);
                ptr::write(target, T::total(sum, offset));
            }
        }
    }
}
