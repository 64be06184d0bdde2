//! Few rows of A with AVX2: B is read from memory once.
//!
//! Each element of B is used a few times only, so that reading it bounds the time of one row, and
//! of more rows where arithmetic is fast beside memory. A slab of some rows of B passes by a strip
//! of columns, whose sums stay in the first cache. One or two rows of A, and all of wide elements,
//! multiply B as it is loaded. Narrow elements that more rows meet are widened once, into a buffer
//! in the caches. Lines ahead are fetched meanwhile, since the CPU's own prefetching ends with each
//! page and with each row.

use super::product::{Scratch, Share, cut};
use crate::kernel::GemmParams;
use std::{arch::x86_64::*, array::from_fn, mem::size_of, ops::Range};

/// Rows of A that are few.
pub(super) const ROWS_MAX: usize = 16;

/// Bytes of a strip's sums: half of the first cache.
const SUMS_MAX: usize = 16 << 10;

/// Bytes of a strip's widened words, a slab that is multiplied and one that comes: both stay in the
/// second cache.
const WORDS_MAX: usize = 64 << 10;

/// Words along k that B is fetched ahead.
const FETCHED: usize = 2;

/// Bytes along a row of B that are fetched ahead, as was fastest on Zen 3: with one or two rows of
/// A, and with more.
const AHEAD: [usize; 2] = [512, 1024];

/// Rows of A up to which a slab's words of A stay in registers, and B is multiplied as it is
/// loaded.
const ALONE_MAX: usize = 2;

/// Rows of A up to which each block of B is multiplied as soon as it is widened. More rows of a
/// type narrower than a word take longer than memory does, and gain from longer slabs.
const IN_STEP_MAX: usize = 4;

/// Rows of B of a slab where A has few rows: no more than a set of the first cache has ways.
const SLAB: usize = 8;

/// Bytes of a vector of sums, twice: a block of one row.
const BLOCK: usize = 64;

/// The arithmetic of one element type on a block of columns, which is two vectors of sums.
///
/// # Safety
///
/// Every function needs AVX2 and FMA, and is inlined into one that has them.
pub(super) trait Few {
    /// An element of A and B.
    type Input: Copy;
    /// What is broadcast of A: [`Few::GROUP`] elements along k.
    type Word: Copy;
    /// An element of C.
    type Output: Copy;
    /// A vector of sums or of words.
    type Vector: Copy;

    /// Elements along k in a word.
    const GROUP: usize;
    /// Columns of a block.
    const COLUMNS: usize;

    /// Elements of A, as wide as words want them.
    unsafe fn widen(from: *const Self::Input, count: usize, to: *mut Self::Word);
    /// No sums yet.
    unsafe fn zero() -> Self::Vector;
    /// The block's words of B; `other` is the second row of a word of two.
    unsafe fn load(row: *const Self::Input, other: *const Self::Input) -> [Self::Vector; 2];
    /// One word of A in each lane.
    unsafe fn broadcast(word: *const Self::Word) -> Self::Vector;
    /// `sum` and the products of two vectors of words.
    unsafe fn fused(sum: Self::Vector, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// A block of one row of C.
    unsafe fn store(sums: [Self::Vector; 2], c: *mut Self::Output);
}

struct Streamed<T: Few> {
    /// Rows of words, `stride` apart.
    a: *const T::Word,
    stride: usize,
    b: *const T::Input,
    c: *mut T::Output,
    m: usize,
    n: usize,
    k: usize,
    /// This thread's columns: none, or one block at least.
    columns: Range<usize>,
    /// Words along k of a slab.
    slab: usize,
    /// Blocks of a strip, at most.
    blocks: usize,
    /// Sums of a strip: by block, by row of A.
    sums: *mut [T::Vector; 2],
    /// Words of two slabs of a strip: by slab, by block.
    words: *mut [T::Vector; 2],
}

/// Runs a product's iterations for one thread.
///
/// # Safety
///
/// The parameters describe operands that live, with [`ROWS_MAX`] rows of A at most and one block of
/// columns at least. The CPU has AVX2 and FMA, as does the caller.
#[inline(always)]
pub(super) unsafe fn few<T: Few>(params: &GemmParams, share: Share) {
    let [m, n, k] = [params.m, params.n, params.k].map(|length| length as usize);
    // Whole blocks; the last part has what is left, and no part has less than a block.
    let blocks = cut(n / T::COLUMNS, 1, share.index, share.count);
    if blocks.is_empty() {
        return;
    }
    let end = if blocks.end == n / T::COLUMNS { n } else { blocks.end * T::COLUMNS };
    let columns = blocks.start * T::COLUMNS..end;
    // An odd number of lines, so that rows do not all begin in the same set of the first cache.
    let line = 64 / size_of::<T::Word>();
    let stride = (k.div_ceil(T::GROUP).div_ceil(line) | 1) * line;
    // Sums are read and written once for each slab.
    let (slab, words) =
        if goes_ahead::<T>(m) { (4 * SLAB, WORDS_MAX) } else { (SLAB / T::GROUP, usize::MAX) };
    let blocks = (SUMS_MAX / m).min(words / 2 / slab) / BLOCK;
    let blocks = blocks.min(columns.len().div_ceil(T::COLUMNS));
    let sizes = [m * stride * size_of::<T::Word>(), blocks * m * BLOCK, 2 * blocks * slab * BLOCK];
    let scratch = Scratch::take(sizes.iter().sum());
    let [a, sums, words] = scratch.areas(sizes);
    let streamed = Streamed::<T> {
        a: a as *const T::Word,
        stride,
        b: params.b as *const T::Input,
        c: params.c as *mut T::Output,
        m,
        n,
        k,
        columns,
        slab,
        blocks,
        sums: sums as *mut [T::Vector; 2],
        words: words as *mut [T::Vector; 2],
    };
    for _ in 0..share.repeat {
        // SAFETY: the caller's promise, and scratch of the sizes above.
        unsafe {
            for row in 0..m {
                let from = (params.a as *const T::Input).add(row * k);
                T::widen(from, k, (a as *mut T::Word).add(row * stride));
            }
            for left in streamed.columns.clone().step_by(blocks * T::COLUMNS) {
                streamed.strip(left);
            }
        }
    }
}

/// Whether B is multiplied as it is loaded. Wide elements need no conversion, which a buffer would
/// save the second row of A.
#[inline(always)]
fn is_direct<T: Few>(m: usize) -> bool {
    m <= ALONE_MAX || size_of::<T::Input>() >= 4
}

/// Whether a whole slab is widened while the one before is multiplied.
#[inline(always)]
fn goes_ahead<T: Few>(m: usize) -> bool {
    m > IN_STEP_MAX && size_of::<T::Input>() < 4
}

impl<T: Few> Streamed<T> {
    /// The columns of one strip, from `left`.
    #[inline(always)]
    unsafe fn strip(&self, left: usize) {
        let blocks = self.blocks.min((self.columns.end - left).div_ceil(T::COLUMNS));
        let all = self.k.div_ceil(T::GROUP);
        // SAFETY: sums and words have room for a strip; columns and rows lie within the operands.
        unsafe {
            for sums in 0..blocks * self.m {
                self.sums.add(sums).write([T::zero(); 2]);
            }
            let is_ahead = goes_ahead::<T>(self.m);
            if is_ahead {
                for word in 0..self.slab.min(all) {
                    self.widen(left, blocks, word);
                }
            }
            for first in (0..all).step_by(self.slab) {
                let count = self.slab.min(all - first);
                if is_direct::<T>(self.m) && (first + self.slab) * T::GROUP <= self.k {
                    match self.m {
                        1 => self.direct_alone::<1>(left, blocks, first),
                        2 => self.direct_alone::<2>(left, blocks, first),
                        _ => self.direct(left, blocks, first),
                    }
                    continue;
                }
                let slab = first / self.slab % 2 * blocks;
                let mut next = first + self.slab;
                for block in 0..blocks {
                    let mut words = self.words;
                    if is_ahead {
                        // The slab after this one comes meanwhile.
                        let until = (first + self.slab + self.slab * (block + 1) / blocks).min(all);
                        while next < until {
                            self.widen(left, blocks, next);
                            next += 1;
                        }
                        words = words.add((slab + block) * self.slab);
                    } else {
                        self.widen_block(left, blocks, block, first..first + count);
                    }
                    let words = (words.cast_const(), count);
                    let mut row = 0;
                    while row < self.m {
                        let a = self.a.add(row * self.stride + first);
                        let sums = self.sums.add(block * self.m + row);
                        row += match self.m - row {
                            6.. => self.some::<6>(a, words, sums),
                            4.. => self.some::<4>(a, words, sums),
                            2.. => self.some::<2>(a, words, sums),
                            _ => self.some::<1>(a, words, sums),
                        };
                    }
                }
            }
            for block in 0..blocks {
                for row in 0..self.m {
                    let sums = self.sums.add(block * self.m + row).read();
                    T::store(sums, self.c.add(row * self.n + self.column(left, block)));
                }
            }
        }
    }

    /// Adds the products of `R` rows of A, which are all, with a whole slab of a strip, from the
    /// word `first` along k: the slab's words of A stay in registers.
    #[inline(always)]
    unsafe fn direct_alone<const R: usize>(&self, left: usize, blocks: usize, first: usize) {
        let top = first * T::GROUP;
        let rows: [*const T::Input; SLAB] = from_fn(|at| self.b.wrapping_add((top + at) * self.n));
        // SAFETY: the caller's promise.
        unsafe {
            let mut a = [[T::zero(); SLAB]; R];
            for (at, a) in a.iter_mut().enumerate() {
                for (word, a) in a.iter_mut().take(SLAB / T::GROUP).enumerate() {
                    *a = T::broadcast(self.a.add(at * self.stride + first + word));
                }
            }
            for block in 0..blocks {
                let column = self.column(left, block);
                if block.is_multiple_of(Self::PER_LINE) {
                    self.fetch(left, blocks, block, top);
                }
                let sums = self.sums.add(block * R);
                let mut totals = Self::read::<R>(sums);
                for word in 0..SLAB / T::GROUP {
                    let at = word * T::GROUP;
                    let (one, other) = (rows[at], rows[at + T::GROUP - 1]);
                    let [low, high] = T::load(one.add(column), other.add(column));
                    for (total, a) in totals.iter_mut().zip(&a) {
                        total[0] = T::fused(total[0], a[word], low);
                        total[1] = T::fused(total[1], a[word], high);
                    }
                }
                for (at, total) in totals.into_iter().enumerate() {
                    sums.add(at).write(total);
                }
            }
        }
    }

    /// Adds the products with a whole slab of a strip, from the word `first` along k.
    #[inline(always)]
    unsafe fn direct(&self, left: usize, blocks: usize, first: usize) {
        let top = first * T::GROUP;
        let rows: [*const T::Input; SLAB] = from_fn(|at| self.b.wrapping_add((top + at) * self.n));
        for block in 0..blocks {
            if block.is_multiple_of(Self::PER_LINE) {
                self.fetch(left, blocks, block, top);
            }
            let column = self.column(left, block);
            let mut at_block = rows;
            for row in &mut at_block {
                *row = row.wrapping_add(column);
            }
            let mut row = 0;
            while row < self.m {
                // SAFETY: the caller's promise.
                unsafe {
                    let a = self.a.add(row * self.stride + first);
                    let sums = self.sums.add(block * self.m + row);
                    row += match self.m - row {
                        6.. => self.some_direct::<6>(a, at_block, sums),
                        4.. => self.some_direct::<4>(a, at_block, sums),
                        2.. => self.some_direct::<2>(a, at_block, sums),
                        _ => self.some_direct::<1>(a, at_block, sums),
                    };
                }
            }
        }
    }

    /// Adds the products of `R` rows of A with a slab of a block, as it lies; returns `R`.
    #[inline(always)]
    unsafe fn some_direct<const R: usize>(
        &self,
        a: *const T::Word,
        rows: [*const T::Input; SLAB],
        sums: *mut [T::Vector; 2],
    ) -> usize {
        // SAFETY: the caller's promise.
        unsafe {
            let mut totals = Self::read::<R>(sums);
            for word in 0..SLAB / T::GROUP {
                let at = word * T::GROUP;
                let (one, other) = (rows[at], rows[at + T::GROUP - 1]);
                let [low, high] = T::load(one, other);
                for (row, [one, two]) in totals.iter_mut().enumerate() {
                    let a = T::broadcast(a.add(row * self.stride + word));
                    *one = T::fused(*one, a, low);
                    *two = T::fused(*two, a, high);
                }
            }
            for (at, total) in totals.into_iter().enumerate() {
                sums.add(at).write(total);
            }
            R
        }
    }

    /// The sums of `R` rows of a block. No closure makes vectors: where it is not inlined, it lacks
    /// the instructions.
    #[inline(always)]
    unsafe fn read<const R: usize>(sums: *const [T::Vector; 2]) -> [[T::Vector; 2]; R] {
        // SAFETY: the caller's promise.
        unsafe {
            let mut totals = [[T::zero(); 2]; R];
            for (at, total) in totals.iter_mut().enumerate() {
                *total = sums.add(at).read();
            }
            totals
        }
    }

    /// Fetches what comes [`AHEAD`] bytes after a block in each of [`SLAB`] rows of B from `row`;
    /// the rows of the next slab follow those of this one.
    #[inline(always)]
    fn fetch(&self, left: usize, blocks: usize, block: usize, row: usize) {
        let ahead = AHEAD[usize::from(self.m > ALONE_MAX)];
        let ahead = block + ahead / (T::COLUMNS * size_of::<T::Input>());
        let row = row + SLAB * usize::from(ahead >= blocks);
        let column = self.column(left, ahead % blocks);
        let mut fetched = self.b.wrapping_add(row * self.n + column);
        for _ in 0..SLAB {
            // SAFETY: fetching reads nothing.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(fetched.cast()) };
            fetched = fetched.wrapping_add(self.n);
        }
    }

    /// The first column of a block. The last one reaches back into the one before where less than a
    /// block is left: both write the same there.
    #[inline(always)]
    fn column(&self, left: usize, block: usize) -> usize {
        (left + block * T::COLUMNS).min(self.columns.end - T::COLUMNS)
    }

    /// Widens one word along k of a strip's columns, and fetches what follows.
    #[inline(always)]
    unsafe fn widen(&self, left: usize, blocks: usize, word: usize) {
        let row = word * T::GROUP;
        let slab = word / self.slab % 2 * blocks;
        // SAFETY: the caller's promise; the second row of a last word alone is its first, whose
        // factor is zero. Fetching reads nothing.
        unsafe {
            let from = self.b.add(row * self.n);
            let other = if row + 1 < self.k { from.wrapping_add(self.n) } else { from };
            for block in 0..blocks {
                let column = self.column(left, block);
                if block.is_multiple_of(Self::PER_LINE) {
                    for ahead in 0..T::GROUP {
                        let ahead =
                            from.wrapping_add((FETCHED * T::GROUP + ahead) * self.n + column);
                        _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
                    }
                }
                let to = self.words.add((slab + block) * self.slab + word % self.slab);
                to.write(T::load(from.wrapping_add(column), other.wrapping_add(column)));
            }
        }
    }

    /// Widens a slab of one block alone, and fetches what follows.
    #[inline(always)]
    unsafe fn widen_block(&self, left: usize, blocks: usize, block: usize, words: Range<usize>) {
        let first = words.start * T::GROUP;
        let step = T::GROUP * self.n;
        let mut from = self.b.wrapping_add(first * self.n + self.column(left, block));
        // Words of whole rows: the last one alone may lack its second row.
        let whole = (self.k / T::GROUP).min(words.end) - words.start;
        // SAFETY: as above.
        unsafe {
            for at in 0..words.len() {
                let other = if at < whole { from.wrapping_add(self.n) } else { from };
                self.words.add(at).write(T::load(from, other));
                from = from.wrapping_add(step);
            }
        }
        if block.is_multiple_of(Self::PER_LINE) {
            self.fetch(left, blocks, block, first);
        }
    }

    /// Blocks of a row of B in a line.
    const PER_LINE: usize = 64 / (T::COLUMNS * size_of::<T::Input>());

    /// Adds the products of `R` rows of A with the first `count` words of a block; returns `R`.
    #[inline(always)]
    unsafe fn some<const R: usize>(
        &self,
        a: *const T::Word,
        (words, count): (*const [T::Vector; 2], usize),
        sums: *mut [T::Vector; 2],
    ) -> usize {
        // SAFETY: the caller's promise.
        unsafe {
            let mut totals = Self::read::<R>(sums);
            for at in 0..count {
                let [low, high] = words.add(at).read();
                for (row, [one, two]) in totals.iter_mut().enumerate() {
                    let word = T::broadcast(a.add(row * self.stride + at));
                    *one = T::fused(*one, word, low);
                    *two = T::fused(*two, word, high);
                }
            }
            for (at, total) in totals.iter().enumerate() {
                sums.add(at).write(*total);
            }
            R
        }
    }
}
