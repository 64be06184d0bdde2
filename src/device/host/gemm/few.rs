//! Few rows of A with AVX2: B is read from memory once.
//!
//! Each element of B is used a few times only, so that reading it bounds the time of one row, and
//! of more rows where arithmetic is fast beside memory. A slab of some rows of B passes by a strip
//! of columns, whose sums stay in the first cache. One or two rows of A multiply B as it is loaded.
//! Of more rows the first ones multiply each block as it is widened, and the others what that kept
//! in the first cache. Lines ahead are prefetched between products, a few at a time, since the
//! CPU's own prefetching ends with each page and with each row.

use super::product::{Scratch, Share, cut};
use crate::kernel::GemmParams;
use std::{arch::x86_64::*, mem::size_of, ops::Range};

/// Rows of A that are few.
pub(super) const ROWS_MAX: usize = 16;

/// Bytes of a strip's sums: half of the first cache.
const SUMS_MAX: usize = 16 << 10;

/// Bytes along a row of B that are fetched ahead, as was fastest on Zen 3: with one or two rows of
/// A, and with more.
const AHEAD: [usize; 2] = [512, 128];

/// Rows of A up to which a slab's words of A stay in registers, and B is multiplied as it is
/// loaded.
const ALONE_MAX: usize = 2;

/// Rows of B of a slab where A has one or two rows. Rows are often a power of two bytes apart, so
/// that their lines share a set of the first cache, beside those of the sums.
const SLAB: usize = 4;

/// Words along k of a slab where A has more rows, which read and write the sums more often.
const LONG: usize = 16;

/// Pairs of vectors that a block's columns widen to.
const PAIRS: usize = 2;

/// Bytes of a block's sums of one row.
const BLOCK: usize = PAIRS * 64;

/// The arithmetic of one element type on a block of columns.
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
    /// Columns of a block: those of [`PAIRS`] pairs of vectors.
    const COLUMNS: usize;

    /// Elements of A, as wide as words want them.
    unsafe fn widen(from: *const Self::Input, count: usize, to: *mut Self::Word);
    /// No sums yet.
    unsafe fn zero() -> Self::Vector;
    /// The block's words of B; `other` is the second row of a word of two.
    unsafe fn load(
        row: *const Self::Input,
        other: *const Self::Input,
    ) -> [[Self::Vector; 2]; PAIRS];
    /// One word of A in each lane.
    unsafe fn broadcast(word: *const Self::Word) -> Self::Vector;
    /// `sum` and the products of two vectors of words.
    unsafe fn fused(sum: Self::Vector, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// What the products of a slab are added to: the sum, or nothing where they are scaled. Scaled
    /// ones do not overflow in [`LONG`] words.
    unsafe fn start(sum: Self::Vector) -> Self::Vector;
    /// The sum with a slab's products.
    unsafe fn finish(sum: *const Self::Vector, total: Self::Vector) -> Self::Vector;
    /// A pair's part of a block of one row of C.
    unsafe fn store(pair: usize, sums: [Self::Vector; 2], c: *mut Self::Output);
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
    /// Sums of a strip: by block, by pair, by row of A.
    sums: *mut [T::Vector; 2],
    /// Words of a slab of a block: by pair.
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
    let slab = if m > ALONE_MAX { LONG } else { SLAB / T::GROUP };
    let blocks = SUMS_MAX / m / BLOCK;
    let blocks = blocks.min(columns.len().div_ceil(T::COLUMNS));
    let sizes = [m * stride * size_of::<T::Word>(), blocks * m * BLOCK, slab * BLOCK];
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

impl<T: Few> Streamed<T> {
    /// Bytes of a block's part of a row of B.
    const BYTES: usize = T::COLUMNS * size_of::<T::Input>();

    /// The columns of one strip, from `left`.
    #[inline(always)]
    unsafe fn strip(&self, left: usize) {
        let blocks = self.blocks.min((self.columns.end - left).div_ceil(T::COLUMNS));
        let all = self.k.div_ceil(T::GROUP);
        // SAFETY: sums and words have room for a strip; columns and rows lie within the operands.
        unsafe {
            for sums in 0..blocks * PAIRS * self.m {
                self.sums.add(sums).write([T::zero(); 2]);
            }
            for first in (0..all).step_by(self.slab) {
                let words = first..(first + self.slab).min(all);
                let is_whole = (first + self.slab) * T::GROUP <= self.k;
                match self.m {
                    1 if is_whole => self.alone::<1>(left, blocks, first),
                    2 if is_whole => self.alone::<2>(left, blocks, first),
                    _ => {
                        for block in 0..blocks {
                            self.block(left, blocks, block, &words);
                        }
                    }
                }
            }
            for block in 0..blocks {
                for pair in 0..PAIRS {
                    for row in 0..self.m {
                        let sums = self.sums.add((block * PAIRS + pair) * self.m + row).read();
                        let c = self.c.add(row * self.n + self.column(left, block));
                        T::store(pair, sums, c);
                    }
                }
            }
        }
    }

    /// Adds the products of `R` rows of A, which are all, with a whole slab of a strip, from the
    /// word `first` along k: the slab's words of A stay in registers.
    #[inline(always)]
    unsafe fn alone<const R: usize>(&self, left: usize, blocks: usize, first: usize) {
        let top = first * T::GROUP;
        let mut rows = [self.b; SLAB];
        for (at, row) in rows.iter_mut().enumerate() {
            *row = row.wrapping_add((top + at) * self.n);
        }
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
                let mut ahead = self.ahead(left, blocks, block, top);
                for _ in 0..SLAB / T::GROUP {
                    for line in (0..Self::BYTES).step_by(64) {
                        fetch(ahead.wrapping_byte_add(line));
                    }
                    ahead = ahead.wrapping_add(T::GROUP * self.n);
                }
                let sums = self.sums.add(block * PAIRS * R);
                let mut totals = [[[T::zero(); 2]; R]; PAIRS];
                for (pair, totals) in totals.iter_mut().enumerate() {
                    *totals = Self::read(sums.add(pair * R));
                }
                for word in 0..SLAB / T::GROUP {
                    let at = word * T::GROUP;
                    let (one, other) = (rows[at], rows[at + T::GROUP - 1]);
                    let words = T::load(one.add(column), other.add(column));
                    for (totals, [low, high]) in totals.iter_mut().zip(words) {
                        for (total, a) in totals.iter_mut().zip(&a) {
                            total[0] = T::fused(total[0], a[word], low);
                            total[1] = T::fused(total[1], a[word], high);
                        }
                    }
                }
                for (pair, totals) in totals.into_iter().enumerate() {
                    Self::write(totals, sums.add(pair * R));
                }
            }
        }
    }

    /// Adds the products with some words along k of a block. The first rows of A multiply the first
    /// pair while all are widened, and kept for the others. The first rows of each pair prefetch
    /// the lines that are [`AHEAD`] of theirs.
    #[inline(always)]
    unsafe fn block(&self, left: usize, blocks: usize, block: usize, words: &Range<usize>) {
        let top = words.start * T::GROUP;
        let ahead = self.ahead(left, blocks, block, top);
        // SAFETY: the caller's promise.
        unsafe {
            let a = self.a.add(words.start);
            let b = self.b.add(top * self.n + self.column(left, block));
            let sums = self.sums.add(block * PAIRS * self.m);
            let mut row = match self.m {
                6.. => self.widen::<6>(a, b, words, sums, ahead),
                4.. => self.widen::<4>(a, b, words, sums, ahead),
                2.. => self.widen::<2>(a, b, words, sums, ahead),
                _ => self.widen::<1>(a, b, words, sums, ahead),
            };
            for pair in 0..PAIRS {
                let count = words.len();
                let words = self.words.add(pair * self.slab);
                let mut fetched =
                    (pair == 1 && Self::BYTES > 64).then_some(ahead.wrapping_byte_add(64));
                while row < self.m {
                    let a = a.add(row * self.stride);
                    let sums = sums.add(pair * self.m + row);
                    row += match self.m - row {
                        // 10 are 5 and 5: 4 have too few sums to fill the pipelines.
                        5 | 10 => self.some::<5>(a, words, count, sums, fetched),
                        6.. => self.some::<6>(a, words, count, sums, fetched),
                        4.. => self.some::<4>(a, words, count, sums, fetched),
                        2.. => self.some::<2>(a, words, count, sums, fetched),
                        _ => self.some::<1>(a, words, count, sums, fetched),
                    };
                    fetched = None;
                }
                row = 0;
            }
        }
    }

    /// Adds the products of `R` rows of A with the first pair of a block's words, which are kept;
    /// returns `R`.
    #[inline(always)]
    unsafe fn widen<const R: usize>(
        &self,
        a: *const T::Word,
        mut from: *const T::Input,
        words: &Range<usize>,
        sums: *mut [T::Vector; 2],
        mut ahead: *const T::Input,
    ) -> usize {
        // Words of whole rows: the last one alone may lack its second row.
        let whole = (self.k / T::GROUP).min(words.end) - words.start;
        // SAFETY: the caller's promise; the second row of a last word alone is its first, whose
        // factor is zero.
        unsafe {
            let mut totals = Self::read::<R>(sums);
            for at in 0..words.len() {
                fetch(ahead);
                ahead = ahead.wrapping_add(T::GROUP * self.n);
                let other = if at < whole { from.wrapping_add(self.n) } else { from };
                let [words, others] = T::load(from, other);
                self.words.add(self.slab + at).write(others);
                self.words.add(at).write(words);
                self.fuse(&mut totals, a.add(at), words);
                from = from.wrapping_add(T::GROUP * self.n);
            }
            Self::write(totals, sums);
        }
        R
    }

    /// Adds the products of `R` rows of A with a pair of a block's words; returns `R`.
    #[inline(always)]
    unsafe fn some<const R: usize>(
        &self,
        a: *const T::Word,
        words: *const [T::Vector; 2],
        count: usize,
        sums: *mut [T::Vector; 2],
        mut ahead: Option<*const T::Input>,
    ) -> usize {
        // SAFETY: the caller's promise.
        unsafe {
            let mut totals = Self::read::<R>(sums);
            for at in 0..count {
                if let Some(line) = &mut ahead {
                    fetch(*line);
                    *line = line.wrapping_add(T::GROUP * self.n);
                }
                self.fuse(&mut totals, a.add(at), words.add(at).read());
            }
            Self::write(totals, sums);
        }
        R
    }

    /// Adds the products of a word of each of `R` rows of A with a pair of words of B.
    #[inline(always)]
    unsafe fn fuse<const R: usize>(
        &self,
        totals: &mut [[T::Vector; 2]; R],
        a: *const T::Word,
        [low, high]: [T::Vector; 2],
    ) {
        for (row, [one, two]) in totals.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            unsafe {
                let word = T::broadcast(a.add(row * self.stride));
                *one = T::fused(*one, word, low);
                *two = T::fused(*two, word, high);
            }
        }
    }

    /// What the products of `R` rows are added to. No closure makes vectors: where it is not
    /// inlined, it lacks the instructions.
    #[inline(always)]
    unsafe fn read<const R: usize>(sums: *const [T::Vector; 2]) -> [[T::Vector; 2]; R] {
        // SAFETY: the caller's promise.
        unsafe {
            let mut totals = [[T::zero(); 2]; R];
            for (at, total) in totals.iter_mut().enumerate() {
                let [one, two] = sums.add(at).read();
                *total = [T::start(one), T::start(two)];
            }
            totals
        }
    }

    /// Adds the products of `R` rows to their sums.
    #[inline(always)]
    unsafe fn write<const R: usize>(totals: [[T::Vector; 2]; R], sums: *mut [T::Vector; 2]) {
        for (at, [one, two]) in totals.into_iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe {
                let sums = sums.add(at).cast::<T::Vector>();
                sums.write(T::finish(sums, one));
                sums.add(1).write(T::finish(sums.add(1), two));
            }
        }
    }

    /// What comes [`AHEAD`] bytes after a block in the row of B from which a slab begins; the rows
    /// of the next slab follow those of this one. Blocks of half a line fetch one row of a word
    /// each.
    #[inline(always)]
    fn ahead(&self, left: usize, blocks: usize, block: usize, row: usize) -> *const T::Input {
        let ahead = block + AHEAD[usize::from(self.m > ALONE_MAX)] / Self::BYTES;
        let next = self.slab * T::GROUP * usize::from(ahead >= blocks) + block % T::GROUP;
        self.b.wrapping_add((row + next) * self.n + self.column(left, ahead % blocks))
    }

    /// The first column of a block. The last one reaches back into the one before where less than a
    /// block is left: both write the same there.
    #[inline(always)]
    fn column(&self, left: usize, block: usize) -> usize {
        (left + block * T::COLUMNS).min(self.columns.end - T::COLUMNS)
    }
}

/// Prefetches a line into the first cache.
#[inline(always)]
fn fetch<T>(line: *const T) {
    // SAFETY: a prefetch of any address is allowed.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
}
