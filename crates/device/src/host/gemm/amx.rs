//! AMX: 2 x 2 tiles of sums, two of A and two of B in the core's eight.
//!
//! Each tile that is loaded meets two others, so that four products (64 cycles) hide four loads
//! (32). All that a block of C needs along k is packed first, so that its sums stay in the second
//! cache from the first product to the last: moving them costs more than anything else here. Per
//! pass over k, a panel of B stays in the first cache; panels of A go by, loaded with the hint that
//! they are not to stay there. The sizes of the passes and blocks are the best of some on Emerald
//! Rapids. With few rows each panel of B is packed for two pairs of tiles and used at once; the
//! fewest are left to AVX-512, which streams B.

use super::{
    amx_product::{ACROSS, Bf16, Int8, Multiplied, PAIR, SUMS, TILE, WORDS, group},
    avx512,
    grouped::all,
    planted,
    product::{Part, Scratch, Share},
    tile::Into,
};
use crate::host::{
    amx::{Amx, ROW_BYTES, ROWS, Tiles},
    kernel::HostKernel,
    pool::Block,
    transpose::transposed,
};
use fizeau_domain::{case::Layout, dtype::Dtype, kernel::GemmParams};
use std::{arch::x86_64::*, ops::Range};

/// For bfloat16 and int8, as far as this CPU has them and what AVX-512 does of them.
pub(super) fn kernels() -> Vec<HostKernel> {
    let (amx, mut kernels) = (Amx::here(), Vec::new());
    let has = is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("avx512bf16")
        && is_x86_feature_detected!("avx512vnni")
        && is_x86_feature_detected!("fma");
    if amx.bf16 && has {
        kernels.extend(all::<avx512::Bf16>(Dtype::Bf16, "amx", one::<Bf16>));
    }
    if amx.int8 && has {
        kernels.extend(all::<avx512::Int8>(Dtype::Int8, "amx", one::<Int8>));
    }
    kernels
}

/// Pairs of tiles along k of a pass: a panel of B of 32 KiB, of a first cache of 48.
const PASS: usize = 16;
/// Rows and columns of a block of C: 512 KiB of sums and as much of A in each pass, of a second
/// cache of 2 MiB.
const BLOCK_ROWS: usize = 16 * ACROSS;
const BLOCK_COLUMNS: usize = 8 * ACROSS;
/// Panels of A up to which each panel of B is packed for some pairs along k and used at once.
const FEW_PANELS: usize = 4;
/// How many pairs along k that is.
const SLAB: usize = 2;
/// Bytes of the sums meanwhile, at most: a part of the second cache.
const SUMS_MAX: usize = 512 << 10;
/// Bytes along a row of B that are asked for ahead: many rows are read at once, which is more than
/// the CPU can foresee.
const AHEAD: usize = 1024;
/// Columns of B packed at once, at most. A is packed again for the next ones.
const COLUMNS_MAX: usize = 2048;
/// Bytes of packed B, at most: where k is long, fewer columns are packed at once.
const PACKED_MAX: usize = 32 << 20;

/// One thread's share of a product.
///
/// # Safety
///
/// The parameters describe operands that live; the CPU has what [`kernels`] asks for.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512bf16")]
unsafe fn one<T: Multiplied>(params: &GemmParams, share: Share, block: Option<&Block<'_>>) {
    if params.m as usize <= T::STREAMED {
        // SAFETY: the caller's promise.
        return unsafe { T::few(params, share, block) };
    }
    let [m, n, k] = [params.m, params.n, params.k].map(|length| length as usize);
    let part = Part::of(m, n, (ACROSS, ACROSS), share.index, share.count);
    if part.rows.is_empty() || part.columns.is_empty() {
        return;
    }
    let pairs = k.div_ceil(WORDS * group::<T>());
    let strips = part.rows.len().div_ceil(ACROSS);
    let is_few = strips <= FEW_PANELS;
    let fitting = match is_few {
        true => SUMS_MAX / (strips * SUMS) * ACROSS,
        false => PACKED_MAX / (pairs * PAIR) * ACROSS / BLOCK_COLUMNS * BLOCK_COLUMNS,
    };
    let width = fitting.clamp(BLOCK_COLUMNS, COLUMNS_MAX).min(part.columns.len());
    let height = BLOCK_ROWS.min(part.rows.len());
    let panels = |length: usize| length.div_ceil(ACROSS);
    let packed_b = if is_few { SLAB * PAIR } else { panels(width) * pairs * PAIR };
    let sums_across = if is_few { panels(width) } else { BLOCK_COLUMNS / ACROSS };
    let sizes = [panels(height) * pairs * PAIR, packed_b, panels(height) * sums_across * SUMS];
    let scratch = Scratch::take(sizes.iter().sum());
    let [packed_a, packed_b, sums] = scratch.areas(sizes).map(|address| address as *mut u8);
    let nest = Nest::<T> {
        a: params.a as *const T::Input,
        b: params.b as *const T::Input,
        c: params.c as *mut T::Output,
        n,
        k,
        is_nt: params.layout == Layout::Nt as u32,
        pairs,
        packed_a,
        packed_b,
        sums,
    };
    // SAFETY: the caller's promise, and scratch of the sizes above.
    unsafe {
        let _tiles = Tiles::configure();
        for _ in 0..share.repeat {
            match is_few {
                true => nest.few(&part, width),
                false => nest.run(&part, height, width),
            }
        }
    }
}

/// One thread's operands.
struct Nest<T: Multiplied> {
    a: *const T::Input,
    b: *const T::Input,
    c: *mut T::Output,
    n: usize,
    k: usize,
    /// Whether B has n rows of k elements, and not k rows of n.
    is_nt: bool,
    /// Pairs of tiles along k.
    pairs: usize,
    /// By pass, panel of [`ACROSS`] rows, pair along k, row of both tiles, word.
    packed_a: *mut u8,
    /// By pass, panel of [`ACROSS`] columns, pair along k, tile, word along k, column.
    packed_b: *mut u8,
    /// By panel of B in a block of C, panel of A, tile, row.
    sums: *mut u8,
}

/// Bytes before a pair along k of a panel of `panels`.
#[inline(always)]
fn before(pairs: usize, panels: usize, panel: usize, pair: usize) -> usize {
    let first = pair / PASS * PASS;
    (first * panels + panel * (pairs - first).min(PASS) + pair - first) * PAIR
}

impl<T: Multiplied> Nest<T> {
    #[inline(always)]
    unsafe fn run(&self, part: &Part, height: usize, width: usize) {
        for left in part.columns.clone().step_by(width) {
            let columns = left..(left + width).min(part.columns.end);
            // SAFETY: the ranges lie within the operands, and their panels in the scratch.
            unsafe {
                self.pack_b(&columns);
                for top in part.rows.clone().step_by(height) {
                    let rows = top..(top + height).min(part.rows.end);
                    self.pack_a(&rows);
                    for first in columns.clone().step_by(BLOCK_COLUMNS) {
                        let of_block = first..(first + BLOCK_COLUMNS).min(columns.end);
                        let panels = (first - left) / ACROSS..columns.len().div_ceil(ACROSS);
                        self.block(&rows, &of_block, panels);
                        self.finish(&rows, &of_block);
                    }
                }
            }
        }
    }

    /// A few rows: B is read once, and nothing of it is packed for later.
    #[inline(always)]
    unsafe fn few(&self, part: &Part, width: usize) {
        let strips = part.rows.len().div_ceil(ACROSS);
        // SAFETY: as in `run`; a slab of one panel of B is packed at a time.
        unsafe {
            self.pack_a(&part.rows);
            for left in part.columns.clone().step_by(width) {
                let columns = left..(left + width).min(part.columns.end);
                let panels = columns.len().div_ceil(ACROSS);
                let slabs = self.pairs.div_ceil(SLAB);
                for at in 0..panels * slabs {
                    // In the order in which memory has B.
                    let (panel, slab) = match self.is_nt {
                        true => (at / slabs, at % slabs),
                        false => (at % panels, at / panels),
                    };
                    let (left, first) = (columns.start + panel * ACROSS, slab * SLAB);
                    let pairs = (self.pairs - first).min(SLAB);
                    let into = if first == 0 { Into::Replace } else { Into::Add };
                    for pair in 0..pairs {
                        let (target, count) = (pair * PAIR, (columns.end - left).min(ACROSS));
                        let target = self.packed_b.add(target);
                        self.pack_pair::<AHEAD>(first + pair, left, count, target);
                    }
                    for strip in 0..strips {
                        let a = self.packed_a.add(before(self.pairs, strips, strip, first));
                        let both = [a.cast_const(), self.packed_b.cast_const()];
                        let sums = self.sums.add((panel * strips + strip) * SUMS);
                        T::multiply(pairs, both, sums, both, into);
                    }
                }
                if fizeau_domain::CAN_PLANT {
                    self.flip_planted(&part.rows, &columns);
                }
                self.finish(&part.rows, &columns);
            }
        }
    }

    /// Rows of A, each a line for every tile. Rows and words that are not there are zero.
    #[inline(always)]
    unsafe fn pack_a(&self, rows: &Range<usize>) {
        let line = ROW_BYTES / size_of::<T::Input>();
        let panels = rows.len().div_ceil(ACROSS);
        for row in 0..panels * ACROSS {
            let is_there = row < rows.len();
            // SAFETY: rows lie within A; masks keep loads within a row.
            unsafe {
                let source = self.a.wrapping_add((rows.start + row) * self.k);
                for pair in 0..self.pairs {
                    let left = self.k.saturating_sub(pair * line).min(line);
                    let bytes = if is_there { left * size_of::<T::Input>() } else { 0 };
                    let from = source.wrapping_add(pair * line).cast();
                    let words = _mm512_maskz_loadu_epi8(first_bytes(bytes), from);
                    let target = before(self.pairs, panels, row / ACROSS, pair);
                    let target = self.packed_a.add(target + row % ACROSS * ROW_BYTES);
                    _mm512_storeu_si512(target.cast(), words);
                }
            }
        }
    }

    /// Columns of B, in the order in which memory has them: row by row of all panels, or panel by
    /// panel.
    #[inline(always)]
    unsafe fn pack_b(&self, columns: &Range<usize>) {
        let panels = columns.len().div_ceil(ACROSS);
        for at in 0..self.pairs * panels {
            let (panel, pair) = match self.is_nt {
                true => (at / self.pairs, at % self.pairs),
                false => (at % panels, at / panels),
            };
            let left = columns.start + panel * ACROSS;
            // SAFETY: columns lie within B, and the pair within the packed panels.
            unsafe {
                let target = self.packed_b.add(before(self.pairs, panels, panel, pair));
                self.pack_pair::<0>(pair, left, (columns.end - left).min(ACROSS), target);
            }
        }
    }

    /// The two tiles of one pair along k and `count` columns from `left` on. Elements that are
    /// `AHEAD` bytes further in a row of memory are asked for.
    #[inline(always)]
    unsafe fn pack_pair<const AHEAD: usize>(
        &self,
        pair: usize,
        left: usize,
        count: usize,
        target: *mut u8,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.is_nt {
                true => self.pack_columns::<AHEAD>(pair, left, count, target),
                false => self.pack_rows::<AHEAD>(pair, left, count, target),
            }
        }
    }

    /// [`Nest::pack_pair`] of columns that stand one after the other: as many rows of words, which
    /// are turned to columns.
    #[inline(always)]
    unsafe fn pack_columns<const AHEAD: usize>(
        &self,
        pair: usize,
        left: usize,
        count: usize,
        target: *mut u8,
    ) {
        let line = ROW_BYTES / size_of::<T::Input>();
        let bytes = self.k.saturating_sub(pair * line).min(line) * size_of::<T::Input>();
        for tile in 0..2 {
            // SAFETY: the caller's promise: masks keep loads within B; a tile has a line a word.
            unsafe {
                let mut rows = [_mm512_setzero_ps(); WORDS];
                for (row, words) in rows.iter_mut().enumerate() {
                    let column = tile * WORDS + row;
                    let source = self.b.wrapping_add((left + column) * self.k + pair * line);
                    if AHEAD > 0 {
                        _mm_prefetch::<_MM_HINT_T0>(source.cast::<i8>().wrapping_add(AHEAD));
                    }
                    let bytes = if column < count { bytes } else { 0 };
                    let elements = _mm512_maskz_loadu_epi8(first_bytes(bytes), source.cast());
                    *words = _mm512_castsi512_ps(elements);
                }
                for (word, columns) in transposed(rows).into_iter().enumerate() {
                    let line = target.add(tile * TILE + word * ROW_BYTES);
                    _mm512_storeu_ps(line.cast(), columns);
                }
            }
        }
    }

    /// [`Nest::pack_pair`] of columns beside each other, of which a row has a line or half of one.
    #[inline(always)]
    unsafe fn pack_rows<const AHEAD: usize>(
        &self,
        pair: usize,
        left: usize,
        count: usize,
        target: *mut u8,
    ) {
        let bytes = count * size_of::<T::Input>();
        let places = T::PLACES;
        // SAFETY: the caller's promise: masks keep loads within B; a tile has a line a word.
        unsafe {
            let [low, high] = places.map(|places| _mm512_loadu_si512(places.as_ptr().cast()));
            let source = self.b.wrapping_add(left);
            for word in 0..WORDS {
                let from = (pair * WORDS + word) * group::<T>();
                let row = |place: usize| {
                    let row = from + place;
                    let bytes = if row < self.k { bytes } else { 0 };
                    let source = source.wrapping_add(row * self.n).cast::<i8>();
                    if AHEAD > 0 {
                        _mm_prefetch::<_MM_HINT_T0>(source.wrapping_add(AHEAD));
                    }
                    _mm512_maskz_loadu_epi8(first_bytes(bytes), source)
                };
                let rows = if const { group::<T>() == 2 } {
                    [row(0), row(1)]
                } else {
                    let half = |place| {
                        let next = _mm512_castsi512_si256(row(place + 1));
                        _mm512_inserti64x4::<1>(row(place), next)
                    };
                    [half(0), half(2)]
                };
                let line = target.add(word * ROW_BYTES);
                let words = _mm512_permutex2var_epi8(rows[0], low, rows[1]);
                _mm512_storeu_si512(line.cast(), words);
                let words = _mm512_permutex2var_epi8(rows[0], high, rows[1]);
                _mm512_storeu_si512(line.add(TILE).cast(), words);
            }
        }
    }

    /// The sums of a block of C, whose columns are the packed ones from the panel `panel` of
    /// `panels` on. What the next pass multiplies comes to the second cache meanwhile.
    #[inline(always)]
    unsafe fn block(&self, rows: &Range<usize>, columns: &Range<usize>, panels: Range<usize>) {
        let (strips, across) = (rows.len().div_ceil(ACROSS), columns.len().div_ceil(ACROSS));
        let (panel, panels) = (panels.start, panels.end);
        let place_a =
            |strip, pair| self.packed_a.wrapping_add(before(self.pairs, strips, strip, pair));
        let place_b =
            |panel, pair| self.packed_b.wrapping_add(before(self.pairs, panels, panel, pair));
        for first in (0..self.pairs).step_by(PASS) {
            let pairs = (self.pairs - first).min(PASS);
            let into = if first == 0 { Into::Replace } else { Into::Add };
            let next = if first + PASS < self.pairs { first + PASS } else { 0 };
            let (next_a, part_a) = (place_a(0, next), strips * pairs * PAIR / (strips * across));
            for beside in 0..across {
                let next_b = match beside + 1 {
                    more if more < across => place_b(panel + more, first),
                    _ if next > 0 => place_b(panel, next),
                    more => place_b(panel + more, 0),
                };
                for strip in 0..strips {
                    let of_block = beside * strips + strip;
                    let sums = self.sums.wrapping_add(of_block * SUMS);
                    let ahead = [
                        next_a.wrapping_add(of_block * part_a),
                        next_b.wrapping_add(strip * pairs * PAIR / strips),
                    ];
                    let panels = [place_a(strip, first), place_b(panel + beside, first)];
                    let [panels, ahead] =
                        [panels, ahead].map(|both| both.map(|one| one.cast_const()));
                    // SAFETY: the packed panels are there, and sums for all of the block.
                    unsafe { T::multiply(pairs, panels, sums, ahead, into) };
                }
            }
            if fizeau_domain::CAN_PLANT && first == 0 {
                // SAFETY: as above.
                unsafe { self.flip_planted(rows, columns) };
            }
        }
    }

    /// Where the sums of a row and of [`WORDS`] columns begin, both of the block.
    #[inline(always)]
    fn sums_at(&self, strips: usize, row: usize, column: usize) -> *mut u8 {
        let block = (column / ACROSS * strips + row / ACROSS) * SUMS;
        let tile = (row % ACROSS / ROWS * 2 + column % ACROSS / WORDS) * TILE;
        self.sums.wrapping_add(block + tile + row % ROWS * ROW_BYTES)
    }

    /// Flips the bit of an unfinished sum that a test has planted.
    unsafe fn flip_planted(&self, rows: &Range<usize>, columns: &Range<usize>) {
        let is_its = |at: usize| rows.contains(&(at / self.n)) && columns.contains(&(at % self.n));
        let Some((at, bit)) = planted::take(self.c as u64, is_its) else { return };
        let (row, column) = (at / self.n - rows.start, at % self.n - columns.start);
        let line = self.sums_at(rows.len().div_ceil(ACROSS), row, column);
        // SAFETY: the byte is one of the sum's.
        unsafe { *line.add(column % WORDS * 4 + bit as usize % 32 / 8) ^= 1 << (bit % 8) };
    }

    /// Puts the sums of a block into C.
    #[inline(always)]
    unsafe fn finish(&self, rows: &Range<usize>, columns: &Range<usize>) {
        let strips = rows.len().div_ceil(ACROSS);
        for row in 0..rows.len() {
            for column in (0..columns.len()).step_by(WORDS) {
                let count = (columns.len() - column).min(WORDS);
                // SAFETY: within the block's sums, and C.
                unsafe {
                    let place = (rows.start + row) * self.n + columns.start + column;
                    T::put(self.sums_at(strips, row, column), self.c.add(place), count);
                }
            }
        }
    }
}

/// The first `count` of 64 bytes.
#[inline(always)]
fn first_bytes(count: usize) -> __mmask64 {
    if count >= ROW_BYTES { __mmask64::MAX } else { (1 << count) - 1 }
}
