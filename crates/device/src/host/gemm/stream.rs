//! Few rows of A: B is streamed from memory once, and nothing of it is packed.
//!
//! With so few rows each element of B is used a few times only, so that reading it bounds the time
//! of one row, and of more rows where arithmetic is fast beside memory. A slab of some rows of B
//! passes by a strip of columns, whose sums stay in the first or second cache. The first rows of A
//! multiply a tile of B as it comes from memory and keep its words for the others, since the lines
//! of a slab share a few sets of the first cache where rows of B are a power of two apart. Lines
//! ahead are asked for meanwhile: rows are too far apart for the CPU to foresee them. Lanes of the
//! sums stand in the order in which interleaving B's rows leaves them, and are put right once, at
//! the end.
//!
//! Threads share the columns where each has a long part of every row of B, else the rows of B too
//! (see [`sharers`]), and then add their sums.

use super::{
    few::sharers,
    product::{Scratch, Share, cut},
    tile::Tile,
    words::{in_order, interleave, load, store},
};
use crate::host::pool::Block;
use fizeau_domain::kernel::GemmParams;
use std::{arch::x86_64::*, mem::size_of, ops::Range};

/// Rows of A that are few.
pub(super) const ROWS_MAX: usize = 16;

/// Bytes of a vector, and of a line of a cache.
const VECTOR: usize = 64;

/// Rows of B of a slab: the best of 4, 8, 16 and 32 on Zen 5.
const SLAB: usize = 16;

/// Bytes along a row of B that are asked for ahead: the best of 128 to 2,048 on Zen 5.
const AHEAD: usize = 1024;

/// Bytes of a strip's sums: half of a first cache where A has one row, else what a second cache
/// keeps beside B's lines.
const SUMS_MAX: [usize; 2] = [16 << 10, 128 << 10];

/// Rows of A that multiply a tile at once, at most: their sums, as many vectors of B and one of A
/// stay in the 32 registers.
const TOGETHER: usize = 8;

/// Vectors of words that a tile has beside each other: of one row of A, of up to four, of more.
const WIDE: usize = 8;
const MEDIUM: usize = 4;
const NARROW: usize = 2;

/// A tile's element type, on whole vectors of B.
pub(super) trait Stream: Tile {
    /// Adds the products of one word of A with words of B.
    ///
    /// # Safety
    ///
    /// The CPU has the instruction set; the word can be read.
    unsafe fn fused(sum: __m512i, a: *const Self::Word, b: __m512i) -> __m512i;

    /// The sum of two vectors of sums.
    ///
    /// # Safety
    ///
    /// The CPU has the instruction set.
    unsafe fn plus(left: __m512i, right: __m512i) -> __m512i;

    /// A sum, given what a row of nothing sums to: not nothing in int8, whose instruction wants A
    /// without a sign.
    ///
    /// # Safety
    ///
    /// The CPU has the instruction set.
    unsafe fn without_offset(sum: __m512i, offset: __m512i) -> __m512i;

    /// [`Streamed::some`] with the CPU's instructions, as a function of its own: all of them in one
    /// take minutes to compile.
    ///
    /// # Safety
    ///
    /// As there.
    unsafe fn some<const R: usize, const C: usize, const EDGE: bool, const KEEP: u8>(
        streamed: &Streamed<Self>,
        place: &Place,
        row: usize,
    ) where
        Self: Sized;

    /// Writes the first `count` of a vector of sums to C, all of them at most.
    ///
    /// # Safety
    ///
    /// They can be written; the CPU has the instruction set.
    unsafe fn put(sums: __m512i, c: *mut Self::Output, count: usize);
}

/// A tile's words of B are read from memory, for all rows of A.
const ONCE: u8 = 0;
/// They are read and kept for the next rows of A.
const KEPT: u8 = 1;
/// They are those that were kept.
const AGAIN: u8 = 2;

pub(super) struct Streamed<T: Stream> {
    a: *const T::Input,
    /// The first of this thread's rows.
    b: *const T::Input,
    c: *mut T::Output,
    m: usize,
    n: usize,
    /// Elements of a row of A.
    row: usize,
    /// This thread's rows of B.
    k: usize,
    columns: Range<usize>,
    /// Rows of A, and one of nothing where sums have an offset.
    rows: usize,
    /// Words of A, `rows` together.
    words: *mut T::Word,
    /// A tile's words of a slab of B.
    kept: *mut __m512i,
}

/// Runs a product's iterations for one thread. All threads of `block` take part, where one is
/// given: they may wait for each other.
///
/// # Safety
///
/// The parameters describe operands that live, with [`ROWS_MAX`] rows of A at most, and
/// the CPU has the tile's instructions.
#[inline(always)]
pub(super) unsafe fn stream<T: Stream>(
    params: &GemmParams,
    share: Share,
    block: Option<&Block<'_>>,
) {
    let [m, n, k] = [params.m, params.n, params.k].map(|length| length as usize);
    let across = VECTOR / size_of::<T::Input>();
    let rows = m + usize::from(!T::STARTS_AT_ZERO);
    let sizes = [size_of::<T::Input>(), size_of::<T::Sum>()];
    let count = block.map_or(1, |_| sharers([rows, n, k], sizes, share.count));
    let together = block.filter(|_| count > 1);
    // Threads beside each other have the same columns.
    let columns = cut(n, across, share.index / count, share.count / count);
    if columns.is_empty() && together.is_none() {
        return;
    }
    let of_rows = cut(k, SLAB, share.index % count, count);
    let sums_of = |vectors: usize| vectors * rows * T::GROUP * VECTOR;
    let vectors = columns.len().div_ceil(across);
    let strip = SUMS_MAX[usize::from(m > 1)] / sums_of(1) / WIDE * WIDE;
    let strip = strip.clamp(WIDE, vectors.max(WIDE));
    // Where rows are shared, the first thread has room for the sums of all, twice: those of one
    // iteration may still be read when those of the next are made.
    let own = sums_of(n.div_ceil(across).div_ceil(share.count / count) + 1);
    let all = if together.is_some() && share.index == 0 { 2 * share.count * own } else { 0 };
    let words = rows * of_rows.len().div_ceil(T::GROUP) * size_of::<T::Word>();
    let sizes = [words.next_multiple_of(VECTOR), sums_of(strip), SLAB * WIDE * VECTOR, all];
    let scratch = Scratch::take(sizes.iter().sum());
    let [words, sums, kept, all] = scratch.areas(sizes);
    let all = together.map(|block| block.from_first(all));
    let streamed = Streamed::<T> {
        a: (params.a as *const T::Input).wrapping_add(of_rows.start),
        b: (params.b as *const T::Input).wrapping_add(of_rows.start * n),
        c: params.c as *mut T::Output,
        m,
        n,
        row: k,
        k: of_rows.len(),
        columns: columns.clone(),
        rows,
        words: words as *mut T::Word,
        kept: kept as *mut __m512i,
    };
    for iteration in 0..share.repeat {
        let of = |thread: usize| {
            let at = (iteration as usize % 2 * share.count + thread) * own;
            all.map(|all| (all + at) as *mut __m512i)
        };
        // SAFETY: the caller's promise, and scratch of the sizes above.
        unsafe {
            streamed.pack();
            for left in columns.clone().step_by(strip * across) {
                let right = (left + strip * across).min(columns.end);
                match of(share.index) {
                    Some(of_all) => {
                        let before = (left - columns.start) / across * rows * T::GROUP;
                        streamed.strip(left..right, of_all.add(before));
                    }
                    None => {
                        let sums = sums as *mut __m512i;
                        streamed.strip(left..right, sums);
                        streamed.finish(left..right, left, 1, |_| sums);
                    }
                }
            }
            if let Some(block) = together {
                block.synchronise();
                streamed.add_up(share.index, count, of);
            }
        }
    }
    if let Some(block) = together {
        // Others may be reading what the first thread's scratch has.
        block.synchronise();
    }
}

/// A tile of B, and what becomes of it.
pub(super) struct Place {
    /// Its first element in the thread's rows.
    b: usize,
    /// How many of its columns there are, where some may be missing.
    there: usize,
    /// From its elements to those that are asked for meanwhile.
    ahead: isize,
    /// Words along k.
    words: Range<usize>,
    /// Its sums.
    sums: *mut __m512i,
}

impl<T: Stream> Streamed<T> {
    /// Elements in a vector.
    const ACROSS: usize = VECTOR / size_of::<T::Input>();
    /// Sums in a vector.
    const LANES: usize = VECTOR / size_of::<T::Sum>();

    #[inline(always)]
    unsafe fn pack(&self) {
        for word in 0..self.k.div_ceil(T::GROUP) {
            let from = word * T::GROUP;
            let is_whole = from + T::GROUP <= self.k;
            for row in 0..self.rows {
                // SAFETY: within A and the words.
                unsafe {
                    let a = self.a.wrapping_add(row * self.row + from);
                    let packed = match (row < self.m, is_whole) {
                        (true, true) => T::word_a(|place| *a.add(place)),
                        (true, false) => T::word_a(|place| {
                            if from + place < self.k { *a.add(place) } else { T::Input::default() }
                        }),
                        _ => T::word_a(|_| T::Input::default()),
                    };
                    self.words.add(word * self.rows + row).write(packed);
                }
            }
        }
    }

    /// Vectors of a row of B that a tile has.
    #[inline(always)]
    fn width(&self) -> usize {
        let vectors = match self.m {
            1 => WIDE,
            2..=4 => MEDIUM,
            _ => NARROW,
        };
        (vectors / T::GROUP).max(1)
    }

    /// Where the sums of a vector of this thread's columns begin, from those of the vector `first`,
    /// with which a strip begins; and how far those of the next row of A are from them.
    #[inline(always)]
    fn sums_at(&self, first: usize, vector: usize) -> (usize, usize) {
        let width = self.width();
        // Tiles are whole; vectors that are left have tiles of their own.
        let tiled = self.columns.len() / Self::ACROSS / width * width;
        let (width, beside) = if vector < tiled { (width, vector % width) } else { (1, 0) };
        let before = (vector - beside - first) * self.rows;
        ((before + beside) * T::GROUP, width * T::GROUP)
    }

    /// Sums of the columns of one strip: by tile, row of A, vector of a row of B in the tile, and
    /// interleaved vector.
    #[inline(always)]
    unsafe fn strip(&self, columns: Range<usize>, sums: *mut __m512i) {
        let vectors = columns.len().div_ceil(Self::ACROSS);
        let all = self.k.div_ceil(T::GROUP);
        // SAFETY: sums have room for a strip; columns and rows lie within the operands.
        unsafe {
            sums.write_bytes(0, vectors * self.rows * T::GROUP);
            for first in (0..all).step_by(SLAB / T::GROUP) {
                let words = first..(first + SLAB / T::GROUP).min(all);
                match self.width() {
                    8 if const { T::GROUP == 1 } => self.slab::<8>(&columns, words, sums),
                    4 if const { T::GROUP <= 2 } => self.slab::<4>(&columns, words, sums),
                    2 => self.slab::<2>(&columns, words, sums),
                    _ => self.slab::<1>(&columns, words, sums),
                }
            }
        }
    }

    /// Adds the products of a slab's words along k with a strip's columns, by tiles of `C` vectors
    /// of a row of B.
    #[inline(always)]
    unsafe fn slab<const C: usize>(
        &self,
        columns: &Range<usize>,
        words: Range<usize>,
        sums: *mut __m512i,
    ) {
        let vectors = columns.len().div_ceil(Self::ACROSS);
        let tiles = columns.len() / Self::ACROSS / C * C;
        let place = |vector: usize| {
            let left = columns.start + vector * Self::ACROSS;
            // Beyond the strip's columns, those of the next slab's rows.
            let ahead = vector + AHEAD / VECTOR;
            let below = if ahead < vectors { 0 } else { SLAB * self.n };
            let beside = (ahead % vectors) as isize - vector as isize;
            Place {
                b: words.start * T::GROUP * self.n + left,
                there: columns.end - left,
                ahead: below as isize + beside * Self::ACROSS as isize,
                words: words.clone(),
                sums: sums.wrapping_add(vector * self.rows * T::GROUP),
            }
        };
        // SAFETY: the caller's promise.
        unsafe {
            for vector in (0..tiles).step_by(C) {
                self.tile::<C, false>(&place(vector));
            }
            for vector in tiles..vectors {
                self.tile::<1, true>(&place(vector));
            }
        }
    }

    /// A tile for all rows of A, as many at once as registers have sums for. `EDGE`: columns may be
    /// missing.
    #[inline(always)]
    unsafe fn tile<const C: usize, const EDGE: bool>(&self, place: &Place) {
        let most = const {
            match C * T::GROUP {
                WIDE => 2,
                MEDIUM => 6,
                _ => TOGETHER,
            }
        };
        let groups = self.rows.div_ceil(most);
        // SAFETY: the caller's promise.
        unsafe {
            if groups == 1 {
                self.group::<C, EDGE, ONCE>(place, 0..self.rows);
                return;
            }
            for index in 0..groups {
                let rows = cut(self.rows, 1, index, groups);
                if index == 0 {
                    self.group::<C, EDGE, KEPT>(place, rows);
                } else {
                    self.group::<C, EDGE, AGAIN>(place, rows);
                }
            }
        }
    }

    /// A tile for some rows of A.
    #[inline(always)]
    unsafe fn group<const C: usize, const EDGE: bool, const KEEP: u8>(
        &self,
        place: &Place,
        rows: Range<usize>,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            match rows.len() {
                1 => T::some::<1, C, EDGE, KEEP>(self, place, rows.start),
                2 => T::some::<2, C, EDGE, KEEP>(self, place, rows.start),
                3 if const { C * T::GROUP <= 4 } => {
                    T::some::<3, C, EDGE, KEEP>(self, place, rows.start)
                }
                4 if const { C * T::GROUP <= 4 } => {
                    T::some::<4, C, EDGE, KEEP>(self, place, rows.start)
                }
                5 if const { C * T::GROUP <= 4 } => {
                    T::some::<5, C, EDGE, KEEP>(self, place, rows.start)
                }
                6 if const { C * T::GROUP <= 4 } => {
                    T::some::<6, C, EDGE, KEEP>(self, place, rows.start)
                }
                7 if const { C * T::GROUP <= 2 } => {
                    T::some::<7, C, EDGE, KEEP>(self, place, rows.start)
                }
                8 if const { C * T::GROUP <= 2 } => {
                    T::some::<8, C, EDGE, KEEP>(self, place, rows.start)
                }
                _ => unreachable!("no group has more rows"),
            }
        }
    }

    /// A tile for the `R` rows of A from `row` on.
    #[inline(always)]
    pub(super) unsafe fn some<const R: usize, const C: usize, const EDGE: bool, const KEEP: u8>(
        &self,
        place: &Place,
        row: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let sums = place.sums.add(row * C * T::GROUP);
            let mut totals = [[[_mm512_setzero_si512(); 4]; C]; R];
            for (at, total) in totals.iter_mut().enumerate() {
                load::<C>(T::GROUP, sums.add(at * C * T::GROUP), total);
            }
            let mut from = self.b.add(place.b);
            let mut a = self.words.add(place.words.start * self.rows + row);
            let mut kept = self.kept;
            let mut left = self.k - place.words.start * T::GROUP;
            for _ in place.words.clone() {
                let mut words = [[_mm512_setzero_si512(); 4]; C];
                if KEEP == AGAIN {
                    load::<C>(T::GROUP, kept, &mut words);
                } else {
                    self.read::<C, EDGE>(place, from, left, &mut words);
                    from = from.wrapping_add(T::GROUP * self.n);
                    left = left.saturating_sub(T::GROUP);
                }
                if KEEP == KEPT {
                    store::<C>(T::GROUP, kept, &words);
                }
                kept = kept.wrapping_add(C * T::GROUP);
                for (at, total) in totals.iter_mut().enumerate() {
                    for (total, words) in total.iter_mut().zip(&words) {
                        for (sum, &b) in total.iter_mut().zip(words).take(T::GROUP) {
                            *sum = T::fused(*sum, a.add(at), b);
                        }
                    }
                }
                a = a.add(self.rows);
            }
            for (at, total) in totals.iter().enumerate() {
                store::<C>(T::GROUP, sums.add(at * C * T::GROUP), total);
            }
        }
    }

    /// A tile's words that begin at `from`, with `left` rows of B from there on; prefetches those
    /// that come later.
    #[inline(always)]
    unsafe fn read<const C: usize, const EDGE: bool>(
        &self,
        place: &Place,
        from: *const T::Input,
        left: usize,
        words: &mut [[__m512i; 4]; C],
    ) {
        let mask = match place.there.min(Self::ACROSS) * size_of::<T::Input>() {
            VECTOR => u64::MAX,
            bytes => (1 << bytes) - 1,
        };
        for (vector, words) in words.iter_mut().enumerate() {
            // SAFETY: the caller's promise: the CPU has the instructions.
            let mut rows = [unsafe { _mm512_setzero_si512() }; 4];
            for (row, elements) in rows.iter_mut().enumerate().take(T::GROUP) {
                // Beyond the last row, the first of its word again: A has nothing there.
                let below = if row < left { row * self.n } else { 0 };
                let source = from.wrapping_add(below + vector * Self::ACROSS);
                let ahead = source.wrapping_offset(place.ahead).cast();
                // SAFETY: the caller's promise; masks keep loads within rows of B, and a prefetch
                // of any address is allowed.
                unsafe {
                    *elements = if EDGE {
                        _mm512_maskz_loadu_epi8(mask, source.cast())
                    } else {
                        _mm512_loadu_si512(source.cast())
                    };
                    _mm_prefetch::<_MM_HINT_T0>(ahead);
                }
            }
            // SAFETY: as above.
            *words = unsafe { interleave(T::GROUP, rows) };
        }
    }

    /// Adds the sums of `count` threads that share rows, for this thread's part of the columns that
    /// they have in common, and puts them into C.
    #[inline(always)]
    unsafe fn add_up(
        &self,
        thread: usize,
        count: usize,
        of: impl Fn(usize) -> Option<*mut __m512i>,
    ) {
        let columns = &self.columns;
        let part = cut(columns.len(), Self::ACROSS, thread % count, count);
        let first = thread - thread % count;
        // SAFETY: every thread with these columns has made its sums.
        unsafe {
            let part = columns.start + part.start..columns.start + part.end;
            self.finish(part, columns.start, count, |thread| match of(first + thread) {
                Some(sums) => sums,
                None => unreachable!("threads that share rows have room in common"),
            });
        }
    }

    /// Puts the sums of some columns into C, which are those of `count` threads together, each of
    /// which has them from the column `first` on.
    #[inline(always)]
    unsafe fn finish(
        &self,
        columns: Range<usize>,
        first: usize,
        count: usize,
        of: impl Fn(usize) -> *mut __m512i,
    ) {
        let vector_of = |column: usize| (column - self.columns.start) / Self::ACROSS;
        for left in columns.clone().step_by(Self::ACROSS) {
            let there = (columns.end - left).min(Self::ACROSS);
            let (at, next) = self.sums_at(vector_of(first), vector_of(left));
            // SAFETY: within the strip's sums, and C.
            unsafe {
                let mut offset = [_mm512_setzero_si512(); 4];
                if !T::STARTS_AT_ZERO {
                    for thread in 0..count {
                        add_to::<T>(&mut offset, of(thread).add(at + self.m * next));
                    }
                }
                for row in 0..self.m {
                    let mut total = [_mm512_setzero_si512(); 4];
                    for thread in 0..count {
                        add_to::<T>(&mut total, of(thread).add(at + row * next));
                    }
                    for (total, &offset) in total.iter_mut().zip(&offset).take(T::GROUP) {
                        *total = T::without_offset(*total, offset);
                    }
                    let total = in_order(T::GROUP, total);
                    for (lane, &sums) in total.iter().enumerate().take(T::GROUP) {
                        let before = lane * Self::LANES;
                        if before < there {
                            let c = self.c.add(row * self.n + left + before);
                            T::put(sums, c, (there - before).min(Self::LANES));
                        }
                    }
                }
            }
        }
    }
}

/// Adds the sums of one row of A and one vector of B, as threads left them.
///
/// # Safety
///
/// The sums can be read; the CPU has the tile's instructions.
#[inline(always)]
unsafe fn add_to<T: Stream>(total: &mut [__m512i; 4], sums: *const __m512i) {
    for (lane, total) in total.iter_mut().enumerate().take(T::GROUP) {
        // SAFETY: the caller's promise.
        unsafe { *total = T::plus(*total, _mm512_loadu_si512(sums.add(lane))) };
    }
}
