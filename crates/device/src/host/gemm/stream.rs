//! Few rows of A: B is streamed from memory once, and nothing of it is packed.
//!
//! With so few rows each element of B is used a few times only, so that reading it bounds the
//! time. Sums of a strip of columns stay in the cache while a slab of some rows of B passes, its
//! successor being fetched meanwhile; their lanes stand in the order in which interleaving B's
//! rows leaves them, and are put right once, at the end.

use super::{
    product::{Scratch, Share, cut},
    tile::Tile,
};
use fizeau_domain::kernel::GemmParams;
use std::{arch::x86_64::*, mem::size_of, ops::Range};

/// Rows of A that are few.
pub(super) const ROWS_MAX: usize = 16;

/// Bytes of a vector.
const VECTOR: usize = 64;

/// Rows of B in a slab.
const SLAB: usize = 8;

/// Vectors of one row of B in a strip.
const STRIP: usize = 16;

/// A tile's element type, on whole vectors of B.
pub(super) trait Stream: Tile {
    /// Adds the products of one word of A with words of B.
    ///
    /// # Safety
    ///
    /// The CPU has the instruction set; the word can be read.
    unsafe fn fused(sum: __m512i, a: *const Self::Word, b: __m512i) -> __m512i;

    /// A sum, given what a row of nothing sums to: not nothing in int8, whose instruction wants A
    /// without a sign.
    fn without_offset(sum: Self::Sum, offset: Self::Sum) -> Self::Sum;
}

/// Interleaves `group` rows of B to as many vectors of words.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn interleave(group: usize, rows: [__m512i; 4]) -> [__m512i; 4] {
    match group {
        1 => rows,
        2 => {
            let low = _mm512_unpacklo_epi16(rows[0], rows[1]);
            let high = _mm512_unpackhi_epi16(rows[0], rows[1]);
            [low, high, rows[2], rows[3]]
        }
        _ => {
            let low =
                [_mm512_unpacklo_epi8(rows[0], rows[1]), _mm512_unpacklo_epi8(rows[2], rows[3])];
            let high =
                [_mm512_unpackhi_epi8(rows[0], rows[1]), _mm512_unpackhi_epi8(rows[2], rows[3])];
            [
                _mm512_unpacklo_epi16(low[0], low[1]),
                _mm512_unpackhi_epi16(low[0], low[1]),
                _mm512_unpacklo_epi16(high[0], high[1]),
                _mm512_unpackhi_epi16(high[0], high[1]),
            ]
        }
    }
}

/// Where in a vector of `group` interleaved rows a lane's column stands.
fn column_of(group: usize, vector: usize, lane: usize) -> usize {
    lane / 4 * 4 * group + vector * 4 + lane % 4
}

struct Streamed<T: Stream> {
    a: *const T::Input,
    b: *const T::Input,
    c: *mut T::Output,
    m: usize,
    n: usize,
    k: usize,
    /// Rows of A, and one of nothing where sums have an offset.
    rows: usize,
    /// Words of A, `rows` together.
    words: *mut T::Word,
    /// Sums of a strip: by vector of a row of B, row of A, interleaved vector.
    sums: *mut __m512i,
}

/// Runs a product's iterations for one thread.
///
/// # Safety
///
/// The parameters describe operands that live, with [`ROWS_MAX`] rows of A at most, and
/// the CPU has the tile's instructions.
#[inline(always)]
pub(super) unsafe fn stream<T: Stream>(params: &GemmParams, share: Share) {
    let [m, n, k] = [params.m, params.n, params.k].map(|length| length as usize);
    let across = VECTOR / size_of::<T::Input>();
    let part = cut(n, across, share.index, share.count);
    if part.is_empty() {
        return;
    }
    let rows = m + usize::from(!T::STARTS_AT_ZERO);
    let words = rows * k.div_ceil(T::GROUP) * size_of::<T::Word>();
    let sizes = [words.next_multiple_of(64), rows * STRIP * T::GROUP * VECTOR];
    let scratch = Scratch::take(sizes.iter().sum());
    let [words, sums] = scratch.areas(sizes);
    let streamed = Streamed::<T> {
        a: params.a as *const T::Input,
        b: params.b as *const T::Input,
        c: params.c as *mut T::Output,
        m,
        n,
        k,
        rows,
        words: words as *mut T::Word,
        sums: sums as *mut __m512i,
    };
    for _ in 0..share.repeat {
        // SAFETY: the caller's promise, and scratch of the sizes above.
        unsafe {
            streamed.pack();
            for left in part.clone().step_by(STRIP * across) {
                streamed.strip(left..(left + STRIP * across).min(part.end));
            }
        }
    }
}

impl<T: Stream> Streamed<T> {
    /// Elements in a vector.
    const ACROSS: usize = VECTOR / size_of::<T::Input>();

    #[inline(always)]
    unsafe fn pack(&self) {
        for row in 0..self.rows {
            for word in 0..self.k.div_ceil(T::GROUP) {
                let from = word * T::GROUP;
                // SAFETY: within A and the words.
                unsafe {
                    self.words.add(word * self.rows + row).write(T::word_a(|place| {
                        if row < self.m && from + place < self.k {
                            *self.a.add(row * self.k + from + place)
                        } else {
                            T::Input::default()
                        }
                    }));
                }
            }
        }
    }

    /// The columns of one strip.
    #[inline(always)]
    unsafe fn strip(&self, columns: Range<usize>) {
        let vectors = columns.len().div_ceil(Self::ACROSS);
        // SAFETY: sums have room for a strip; columns and rows lie within the operands.
        unsafe {
            self.sums.write_bytes(0, vectors * self.rows * T::GROUP);
            for top in (0..self.k).step_by(SLAB) {
                let slab = top..(top + SLAB).min(self.k);
                for vector in 0..vectors {
                    let left = columns.start + vector * Self::ACROSS;
                    self.fetch(left, &slab);
                    let sums = self.sums.add(vector * self.rows * T::GROUP);
                    let mut row = 0;
                    while row < self.rows {
                        let sums = sums.add(row * T::GROUP);
                        row += match self.rows - row {
                            8.. if T::GROUP <= 2 => self.some::<8>(left, &slab, row, sums),
                            4.. => self.some::<4>(left, &slab, row, sums),
                            2.. => self.some::<2>(left, &slab, row, sums),
                            _ => self.some::<1>(left, &slab, row, sums),
                        };
                    }
                }
            }
            self.finish(columns);
        }
    }

    /// Asks for the slab after this one: rows are too far apart for the CPU to foresee it.
    #[inline(always)]
    unsafe fn fetch(&self, left: usize, slab: &Range<usize>) {
        for row in slab.end..(slab.end + SLAB).min(self.k) {
            let ahead = self.b.wrapping_add(row * self.n + left);
            // SAFETY: a prefetch of any address is allowed.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(ahead.cast()) };
        }
    }

    /// A slab of one vector's columns, for `R` rows of A; returns `R`.
    #[inline(always)]
    unsafe fn some<const R: usize>(
        &self,
        left: usize,
        slab: &Range<usize>,
        row: usize,
        sums: *mut __m512i,
    ) -> usize {
        // SAFETY: the caller's promise; masks keep loads within rows of B.
        unsafe {
            let there = (self.n - left).min(Self::ACROSS) * size_of::<T::Input>();
            let mask = u64::MAX >> (VECTOR - there);
            let mut totals = [[_mm512_setzero_si512(); 4]; R];
            for (at, total) in totals.iter_mut().enumerate() {
                for (vector, sum) in total.iter_mut().enumerate().take(T::GROUP) {
                    *sum = _mm512_loadu_si512(sums.add(at * T::GROUP + vector));
                }
            }
            for top in slab.clone().step_by(T::GROUP) {
                let mut rows = [_mm512_setzero_si512(); 4];
                for (place, row) in rows.iter_mut().enumerate().take(T::GROUP) {
                    if top + place < slab.end {
                        let source = self.b.add((top + place) * self.n + left);
                        *row = _mm512_maskz_loadu_epi8(mask, source.cast());
                    }
                }
                let b = interleave(T::GROUP, rows);
                let a = self.words.add(top / T::GROUP * self.rows + row);
                for (at, total) in totals.iter_mut().enumerate() {
                    for (sum, &b) in total.iter_mut().zip(&b).take(T::GROUP) {
                        *sum = T::fused(*sum, a.add(at), b);
                    }
                }
            }
            for (at, total) in totals.iter().enumerate() {
                for (vector, sum) in total.iter().enumerate().take(T::GROUP) {
                    _mm512_storeu_si512(sums.add(at * T::GROUP + vector), *sum);
                }
            }
            R
        }
    }

    /// Puts a strip's sums into C.
    #[inline(always)]
    unsafe fn finish(&self, columns: Range<usize>) {
        let lanes = VECTOR / size_of::<T::Sum>();
        let sums = self.sums.cast::<T::Sum>().cast_const();
        for (vector, left) in columns.clone().step_by(Self::ACROSS).enumerate() {
            for interleaved in 0..T::GROUP {
                for lane in 0..lanes {
                    let column = left + column_of(T::GROUP, interleaved, lane);
                    if column >= columns.end {
                        continue;
                    }
                    // SAFETY: within the strip's sums, and C.
                    unsafe {
                        let sum = |row: usize| {
                            let at = (vector * self.rows + row) * T::GROUP + interleaved;
                            *sums.add(at * lanes + lane)
                        };
                        for row in 0..self.m {
                            let total = T::without_offset(sum(row), sum(self.rows - 1));
                            self.c.add(row * self.n + column).write(T::output(total));
                        }
                    }
                }
            }
        }
    }
}
