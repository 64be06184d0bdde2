//! Few rows of A with AVX2: B is read from memory once.
//!
//! Each element of B is used a few times only, so that reading it bounds the time of one row, and
//! of more rows where arithmetic is fast beside memory. A slab of some rows of B passes by a strip
//! of columns, whose sums stay in the first or second cache. One or two rows of A multiply B as it
//! is loaded. Of more rows the first ones multiply each block as it is widened, and the others what
//! that kept in the first cache. Lines ahead are prefetched between products, a few at a time: the
//! CPU's own prefetching ends with each page and with each row.
//!
//! Threads share the columns where each has a long part of every row of B. Where they would have
//! short ones they share the rows of B too, so that each reads one long piece of memory, and then
//! add their sums.

use super::product::{Scratch, Share, cut};
use crate::host::pool::Block;
use fizeau_domain::kernel::GemmParams;
use std::{arch::x86_64::*, mem::size_of, ops::Range};

/// Rows of A that are few.
pub(super) const ROWS_MAX: usize = 16;

/// Bytes of a strip's sums. One or two rows of A have half of the first cache. More rows have what
/// was fastest on Zen 3: the longer a strip, the longer the pieces in which rows of B are read.
const SUMS_MAX: [usize; 2] = [16 << 10, 64 << 10];

/// Bytes along a row of B that are fetched ahead, as was fastest on Zen 3: with one or two rows of
/// A, and with more.
const AHEAD: [usize; 2] = [512, 256];

/// Rows of A up to which a slab's words of A stay in registers, and B is multiplied as it is
/// loaded.
const ALONE_MAX: usize = 2;

/// Words along k of a slab where A has one or two rows. Rows of B are often a power of two bytes
/// apart, so that their lines share a set of the first cache, beside those of the sums.
const SLAB: usize = 4;

/// Words along k of a slab where A has more rows, which read and write the sums more often.
const LONG: usize = 16;

/// Pairs of vectors that a block's columns widen to.
const PAIRS: usize = 2;

/// Bytes of a block's sums of one row.
const BLOCK: usize = PAIRS * 64;

/// Bytes of each row of B below which threads share the rows rather than the columns.
const PART_MIN: usize = 16 << 10;

/// How often more bytes of B a thread reads at least than its sums have, where rows are shared: the
/// sums are written once and read once.
const SUMS_SHARE: usize = 16;

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
    /// The sum of two sums.
    unsafe fn add(left: Self::Vector, right: Self::Vector) -> Self::Vector;
    /// A pair's part of a block of one row of C.
    unsafe fn store(pair: usize, sums: [Self::Vector; 2], c: *mut Self::Output);
}

/// One thread's part: some columns, and some rows of B. Threads that have the same columns divide
/// the rows.
struct Part {
    columns: Range<usize>,
    rows: Range<usize>,
    /// Which of those with the same columns, and how many they are.
    index: usize,
    count: usize,
    /// The first of them.
    first: usize,
}

impl Part {
    /// That of a thread; `share_rows` tells whether rows may be shared, too.
    fn of<T: Few>(params: &GemmParams, share: Share, share_rows: bool) -> Part {
        let [m, n, k] = [params.m, params.n, params.k].map(|length| length as usize);
        let size = size_of::<T::Input>();
        let sum = BLOCK / T::COLUMNS;
        let count = if share_rows { sharers([m, n, k], [size, sum], share.count) } else { 1 };
        // Whole blocks; the last part has what is left, and no part has less than a block.
        let blocks = cut(n / T::COLUMNS, 1, share.index / count, share.count / count);
        let end = if blocks.end == n / T::COLUMNS { n } else { blocks.end * T::COLUMNS };
        let index = share.index % count;
        Part {
            columns: if blocks.is_empty() { 0..0 } else { blocks.start * T::COLUMNS..end },
            rows: cut(k, SLAB * T::GROUP, index, count),
            index,
            count,
            first: share.index - index,
        }
    }
}

/// How many of `count` threads divide the rows of B among them, so that each reads long pieces of
/// memory: one where rows are long. `sizes` are the bytes of an element of B and of a sum.
pub(super) fn sharers([m, n, k]: [usize; 3], [size, sum]: [usize; 2], count: usize) -> usize {
    let most = k * size / (SUMS_SHARE * m * sum);
    let is_enough = |rows: usize| n * size * rows >= PART_MIN * count;
    let divisors = (1..=count).filter(|rows| count.is_multiple_of(*rows));
    let mut fitting = divisors.take_while(|&rows| rows == 1 || rows <= most);
    let last = fitting.clone().last();
    fitting.find(|&rows| is_enough(rows)).or(last).unwrap_or(1)
}

struct Streamed<T: Few> {
    /// Rows of words, `stride` apart.
    a: *const T::Word,
    stride: usize,
    /// The first of this thread's rows.
    b: *const T::Input,
    c: *mut T::Output,
    m: usize,
    n: usize,
    /// This thread's rows of B.
    k: usize,
    /// This thread's columns: one block at least.
    columns: Range<usize>,
    /// Words along k of a slab.
    slab: usize,
    /// Blocks of a strip, at most.
    blocks: usize,
    /// Words of a slab of a block: by pair.
    words: *mut [T::Vector; 2],
}

/// Runs a product's iterations for one thread. All threads of `block` take part, where one is
/// given: they may wait for each other.
///
/// # Safety
///
/// The parameters describe operands that live, with [`ROWS_MAX`] rows of A at most and one block of
/// columns at least. The CPU has AVX2 and FMA, as does the caller.
#[inline(always)]
pub(super) unsafe fn few<T: Few>(params: &GemmParams, share: Share, block: Option<&Block<'_>>) {
    let [m, n] = [params.m, params.n].map(|length| length as usize);
    let part = Part::of::<T>(params, share, block.is_some());
    let together = block.filter(|_| part.count > 1);
    if part.columns.is_empty() && together.is_none() {
        return;
    }
    let k = part.rows.len();
    // An odd number of lines, so that rows do not all begin in the same set of the first cache.
    let line = 64 / size_of::<T::Word>();
    let stride = (k.div_ceil(T::GROUP).div_ceil(line) | 1) * line;
    // Sums are read and written once for each slab.
    let slab = if m > ALONE_MAX { LONG } else { SLAB };
    let of_part = part.columns.len().div_ceil(T::COLUMNS);
    let blocks = (SUMS_MAX[usize::from(m > ALONE_MAX)] / m / BLOCK).min(of_part).max(1);
    // Where rows are shared, the first thread has room for the sums of all, twice: those of one
    // iteration may still be read when those of the next are made.
    let own = ((n / T::COLUMNS).div_ceil(share.count / part.count) + 1) * m * BLOCK;
    let all = if together.is_some() && share.index == 0 { 2 * share.count * own } else { 0 };
    let sizes = [m * stride * size_of::<T::Word>(), blocks * m * BLOCK, slab * BLOCK, all];
    let scratch = Scratch::take(sizes.iter().sum());
    let [a, sums, words, all] = scratch.areas(sizes);
    let all = together.map(|block| block.from_first(all));
    let streamed = Streamed::<T> {
        a: a as *const T::Word,
        stride,
        b: (params.b as *const T::Input).wrapping_add(part.rows.start * n),
        c: params.c as *mut T::Output,
        m,
        n,
        k,
        columns: part.columns.clone(),
        slab,
        blocks,
        words: words as *mut [T::Vector; 2],
    };
    for iteration in 0..share.repeat {
        let of = |thread: usize| {
            let at = (iteration as usize % 2 * share.count + thread) * own;
            all.map(|all| (all + at) as *mut [T::Vector; 2])
        };
        // SAFETY: the caller's promise, and scratch of the sizes above.
        unsafe {
            for row in 0..m {
                let from = (params.a as *const T::Input).add(row * params.k as usize);
                let to = (a as *mut T::Word).add(row * stride);
                T::widen(from.add(part.rows.start), k, to);
            }
            for left in streamed.columns.clone().step_by(blocks * T::COLUMNS) {
                match of(share.index) {
                    Some(of_all) => streamed.strip(left, of_all.add(streamed.sums_at(left))),
                    None => {
                        let sums = sums as *mut [T::Vector; 2];
                        streamed.strip(left, sums);
                        streamed.store(left, blocks, sums);
                    }
                }
            }
            if let Some(block) = together {
                block.synchronise();
                streamed.add_up(&part, of);
            }
        }
    }
    if let Some(block) = together {
        // Others may be reading what the first thread's scratch has.
        block.synchronise();
    }
}

impl<T: Few> Streamed<T> {
    /// Bytes of a block's part of a row of B.
    const BYTES: usize = T::COLUMNS * size_of::<T::Input>();

    /// Where the sums of a strip are among those of all this thread's columns.
    fn sums_at(&self, left: usize) -> usize {
        (left - self.columns.start) / T::COLUMNS * PAIRS * self.m
    }

    /// Blocks from `left` on, `most` of them at most.
    fn blocks_from(&self, left: usize, most: usize) -> usize {
        most.min((self.columns.end - left).div_ceil(T::COLUMNS))
    }

    /// Sums of the columns of one strip, from `left`: by block, by pair, by row of A.
    #[inline(always)]
    unsafe fn strip(&self, left: usize, sums: *mut [T::Vector; 2]) {
        let blocks = self.blocks_from(left, self.blocks);
        let all = self.k.div_ceil(T::GROUP);
        // SAFETY: sums and words have room for a strip; columns and rows lie within the operands.
        unsafe {
            for at in 0..blocks * PAIRS * self.m {
                sums.add(at).write([T::zero(); 2]);
            }
            for first in (0..all).step_by(self.slab) {
                let words = first..(first + self.slab).min(all);
                let is_whole = (first + self.slab) * T::GROUP <= self.k;
                match self.m {
                    // Whole lines, where a block has half ones.
                    1 if is_whole && Self::BYTES < 64 => {
                        let pairs = blocks / 2 * 2;
                        self.alone::<1, 2>(left, blocks, 0..pairs, first, sums);
                        self.alone::<1, 1>(left, blocks, pairs..blocks, first, sums);
                    }
                    1 if is_whole => self.alone::<1, 1>(left, blocks, 0..blocks, first, sums),
                    2 if is_whole => self.alone::<2, 1>(left, blocks, 0..blocks, first, sums),
                    _ => {
                        for block in 0..blocks {
                            self.block(left, blocks, block, &words, sums);
                        }
                    }
                }
            }
        }
    }

    /// Writes the sums of `blocks` blocks at most from the column `left` to C.
    #[inline(always)]
    unsafe fn store(&self, left: usize, blocks: usize, sums: *const [T::Vector; 2]) {
        for block in 0..self.blocks_from(left, blocks) {
            for pair in 0..PAIRS {
                for row in 0..self.m {
                    // SAFETY: the caller's promise.
                    unsafe {
                        let sums = sums.add((block * PAIRS + pair) * self.m + row).read();
                        let c = self.c.add(row * self.n + self.column(left, block));
                        T::store(pair, sums, c);
                    }
                }
            }
        }
    }

    /// Adds the sums of threads that share rows, for this thread's part of the columns that they
    /// have in common, and writes them to C.
    #[inline(always)]
    unsafe fn add_up(&self, part: &Part, of: impl Fn(usize) -> Option<*mut [T::Vector; 2]>) {
        // The last two blocks may overlap, and are one thread's.
        let whole = self.columns.len() / T::COLUMNS;
        let own = cut(whole, 1, part.index, part.count);
        let end = if own.end == whole { self.blocks_from(self.columns.start, !0) } else { own.end };
        for block in own.start..end {
            for at in 0..PAIRS * self.m {
                let place = block * PAIRS * self.m + at;
                // SAFETY: every thread with these columns has made its sums.
                unsafe {
                    let mut sums = [T::zero(); 2];
                    for thread in part.first..part.first + part.count {
                        if let Some(theirs) = of(thread) {
                            let [one, two] = theirs.add(place).read();
                            sums = [T::add(sums[0], one), T::add(sums[1], two)];
                        }
                    }
                    let row = at % self.m;
                    let column = self.column(self.columns.start, block);
                    T::store(at / self.m, sums, self.c.add(row * self.n + column));
                }
            }
        }
    }

    /// Adds the products of `R` rows of A, which are all, with a whole slab of some of a strip's
    /// `all` blocks, `L` at once, from the word `first` along k.
    #[inline(always)]
    unsafe fn alone<const R: usize, const L: usize>(
        &self,
        left: usize,
        all: usize,
        blocks: Range<usize>,
        first: usize,
        sums: *mut [T::Vector; 2],
    ) {
        let top = first * T::GROUP;
        // Rows of one word.
        let (rows, second) = (T::GROUP * self.n, (T::GROUP - 1) * self.n);
        for block in blocks.step_by(L) {
            let mut ahead = self.ahead(left, all, block, top);
            let mut row = self.b.wrapping_add(top * self.n);
            let mut columns = [0; L];
            for (at, column) in columns.iter_mut().enumerate() {
                *column = self.column(left, block + at);
            }
            // SAFETY: the caller's promise.
            unsafe {
                let sums = sums.add(block * PAIRS * R);
                let mut totals = [[[[T::zero(); 2]; R]; PAIRS]; L];
                for (at, totals) in totals.iter_mut().enumerate() {
                    for (pair, totals) in totals.iter_mut().enumerate() {
                        *totals = Self::read(sums.add((at * PAIRS + pair) * R));
                    }
                }
                // A loop: all words at once have more vectors than there are registers.
                for word in first..first + self.slab {
                    fetch::<_MM_HINT_NTA, _>(ahead);
                    if L > 1 {
                        fetch::<_MM_HINT_NTA, _>(ahead.wrapping_add(self.n));
                    } else if Self::BYTES > 64 {
                        fetch::<_MM_HINT_NTA, _>(ahead.wrapping_byte_add(64));
                    }
                    ahead = ahead.wrapping_add(rows);
                    let mut a = [T::zero(); R];
                    for (at, a) in a.iter_mut().enumerate() {
                        *a = T::broadcast(self.a.add(at * self.stride + word));
                    }
                    for (totals, &column) in totals.iter_mut().zip(&columns) {
                        let words = T::load(row.add(column), row.add(second + column));
                        for (totals, [low, high]) in totals.iter_mut().zip(words) {
                            for (total, &a) in totals.iter_mut().zip(&a) {
                                total[0] = T::fused(total[0], a, low);
                                total[1] = T::fused(total[1], a, high);
                            }
                        }
                    }
                    row = row.wrapping_add(rows);
                }
                for (at, totals) in totals.into_iter().enumerate() {
                    for (pair, totals) in totals.into_iter().enumerate() {
                        Self::write(totals, sums.add((at * PAIRS + pair) * R));
                    }
                }
            }
        }
    }

    /// Adds the products with some words along k of a block. The first rows of A multiply the first
    /// pair while all are widened, and kept for the others. The first rows of each pair prefetch
    /// the lines that are [`AHEAD`] of theirs.
    #[inline(always)]
    unsafe fn block(
        &self,
        left: usize,
        blocks: usize,
        block: usize,
        words: &Range<usize>,
        sums: *mut [T::Vector; 2],
    ) {
        let top = words.start * T::GROUP;
        let ahead = self.ahead(left, blocks, block, top);
        // SAFETY: the caller's promise.
        unsafe {
            let a = self.a.add(words.start);
            let b = self.b.add(top * self.n + self.column(left, block));
            let sums = sums.add(block * PAIRS * self.m);
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
                fetch::<_MM_HINT_T1, _>(ahead);
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
                    fetch::<_MM_HINT_T1, _>(*line);
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

/// Prefetches a line into the caches that `HINT` names.
#[inline(always)]
fn fetch<const HINT: i32, T>(line: *const T) {
    // SAFETY: a prefetch of any address is allowed.
    unsafe { _mm_prefetch::<HINT>(line.cast()) };
}
