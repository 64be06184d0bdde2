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
    avx512,
    grouped::both,
    planted,
    product::{Part, Scratch, Share},
    tile::Into,
};
use crate::host::{
    amx::{Amx, ROW_BYTES, ROWS, Tiles},
    kernel::HostKernel,
    pool::Block,
};
use fizeau_domain::{dtype::Dtype, kernel::GemmParams};
use half::bf16;
use std::{
    arch::{asm, x86_64::*},
    mem::transmute,
    ops::Range,
};

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
        kernels.extend(both::<avx512::Bf16>(Dtype::Bf16, "amx", one::<Bf16>));
    }
    if amx.int8 && has {
        kernels.extend(both::<avx512::Int8>(Dtype::Int8, "amx", one::<Int8>));
    }
    kernels
}

/// Bytes of a tile.
const TILE: usize = ROWS * ROW_BYTES;
/// Words of four bytes in a row of a tile, and rows of words in one of B.
const WORDS: usize = ROW_BYTES / 4;
/// Rows and columns of a block of sums that the tiles hold at once.
const ACROSS: usize = 2 * ROWS;
/// Bytes of two tiles of an operand, which are packed together, and of the sums of four.
const PAIR: usize = 2 * TILE;
const SUMS: usize = 4 * TILE;

/// Pairs of tiles along k of a pass: a panel of B of 32 KiB, of a first cache of 48.
const PASS: usize = 16;
/// Rows and columns of a block of C: 512 KiB of sums and as much of A in each pass, of a second
/// cache of 2 MiB.
const BLOCK_ROWS: usize = 16 * ACROSS;
const BLOCK_COLUMNS: usize = 8 * ACROSS;
/// Panels of A up to which each panel of B is packed for some pairs along k and used at once.
const FEW_PANELS: usize = 4;
/// Those pairs, and bytes of the sums meanwhile.
const SLAB: usize = 2;
const SUMS_MAX: usize = 512 << 10;
/// Bytes along a row of B that are asked for ahead: many rows are read at once, which is more than
/// the CPU can foresee.
const AHEAD: usize = 1024;
/// Columns of B packed at once, at most, and their bytes: A is packed again for the next ones.
const COLUMNS_MAX: usize = 2048;
const PACKED_MAX: usize = 32 << 20;

/// An element type that the tiles multiply. A word has 4 bytes: consecutive elements along k.
trait Multiplied {
    /// An element of A and B.
    type Input: Copy;
    /// An element of C. Its sums have 4 bytes.
    type Output: Copy;

    /// Which bytes of two vectors, the second's from 64 on, make the word of a column: those of
    /// [`ACROSS`] columns, whose rows along k follow each other in the two vectors.
    const PLACES: [[u8; 64]; 2];

    /// Rows of A up to which AVX-512 streams B faster than tiles can be made of it, as seen on
    /// Emerald Rapids: a row of a panel is half a line in int8.
    const STREAMED: usize;

    /// A product of as few rows, by AVX-512.
    ///
    /// # Safety
    ///
    /// As [`one`].
    unsafe fn few(params: &GemmParams, share: Share, block: Option<&Block<'_>>);

    /// Adds the products of two panels, of A and B, over `pairs` pairs of tiles along k to the
    /// sums, or puts them there; fetches the sums that follow meanwhile, and what of the next
    /// panels of A and B is `ahead`.
    ///
    /// # Safety
    ///
    /// The panels have as many pairs, the sums have four tiles; the thread's tiles are configured.
    unsafe fn multiply(
        pairs: usize,
        panels: [*const u8; 2],
        sums: *mut u8,
        ahead: [*const u8; 2],
        into: Into,
    );

    /// Writes a row of [`WORDS`] sums to C, of which `count` are its own.
    ///
    /// # Safety
    ///
    /// They can be read and written; the CPU has AVX-512.
    unsafe fn put(sums: *const u8, c: *mut Self::Output, count: usize);
}

/// Elements in a word.
const fn group<T: Multiplied>() -> usize {
    4 / size_of::<T::Input>()
}

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
                for first in (0..self.pairs).step_by(SLAB) {
                    let pairs = (self.pairs - first).min(SLAB);
                    let into = if first == 0 { Into::Replace } else { Into::Add };
                    for (panel, left) in columns.clone().step_by(ACROSS).enumerate() {
                        let bytes = (columns.end - left).min(ACROSS) * size_of::<T::Input>();
                        for pair in 0..pairs {
                            let target = self.packed_b.add(pair * PAIR);
                            self.pack_pair::<AHEAD>(first + pair, left, bytes, target);
                        }
                        for strip in 0..strips {
                            let a = self.packed_a.add(before(self.pairs, strips, strip, first));
                            let panels = [a.cast_const(), self.packed_b.cast_const()];
                            let sums = self.sums.add((panel * strips + strip) * SUMS);
                            T::multiply(pairs, panels, sums, panels, into);
                        }
                    }
                    if fizeau_domain::CAN_PLANT && first == 0 {
                        self.flip_planted(&part.rows, &columns);
                    }
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

    /// Columns of B, some rows of all panels before the next, so that rows are read on and on.
    #[inline(always)]
    unsafe fn pack_b(&self, columns: &Range<usize>) {
        let panels = columns.len().div_ceil(ACROSS);
        for pair in 0..self.pairs {
            for (panel, left) in columns.clone().step_by(ACROSS).enumerate() {
                let bytes = (columns.end - left).min(ACROSS) * size_of::<T::Input>();
                // SAFETY: columns lie within B, and the pair within the packed panels.
                unsafe {
                    let target = self.packed_b.add(before(self.pairs, panels, panel, pair));
                    self.pack_pair::<0>(pair, left, bytes, target);
                }
            }
        }
    }

    /// The two tiles of one pair along k and `bytes` of each row from the column `left` on. Those
    /// that are `AHEAD` bytes further are asked for.
    #[inline(always)]
    unsafe fn pack_pair<const AHEAD: usize>(
        &self,
        pair: usize,
        left: usize,
        bytes: usize,
        target: *mut u8,
    ) {
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

/// [`Multiplied::PLACES`] of elements of `size` bytes, in rows of [`ACROSS`] of them.
const fn places(size: usize) -> [[u8; 64]; 2] {
    let mut places = [[0; 64]; 2];
    let mut at = 0;
    while at < 2 * ROW_BYTES {
        let (column, byte) = (at / 4, at % 4);
        let (row, part) = (byte / size, byte % size);
        places[at / ROW_BYTES][at % ROW_BYTES] = ((row * ACROSS + column) * size + part) as u8;
        at += 1;
    }
    places
}

/// `$product` multiplies two tiles of an element type and adds to a third.
macro_rules! multiplied {
    ($name:ident: $input:ty, to $output:ty, product $product:literal, streamed $streamed:literal,
     put |$sums:ident, $c:ident, $mask:ident| $put:expr) => {
        struct $name;

        impl Multiplied for $name {
            type Input = $input;
            type Output = $output;

            const PLACES: [[u8; 64]; 2] = places(size_of::<$input>());
            const STREAMED: usize = $streamed;

            #[inline(always)]
            unsafe fn few(params: &GemmParams, share: Share, block: Option<&Block<'_>>) {
                // SAFETY: the caller's promise.
                unsafe { avx512::$name::one(params, share, block) }
            }

            #[inline(always)]
            unsafe fn multiply(
                pairs: usize,
                [a, b]: [*const u8; 2],
                sums: *mut u8,
                [ahead_a, ahead_b]: [*const u8; 2],
                into: Into,
            ) {
                // SAFETY: the caller's promise; nothing but these lines uses the tiles, so that
                // they are the same from one to the next. Prefetches may reach anywhere.
                unsafe {
                    match into {
                        Into::Replace => asm!(
                            "tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3",
                            options(nomem, nostack, preserves_flags)
                        ),
                        Into::Add => asm!(
                            "tileloadd tmm0, [{sums} + {row}]",
                            "tileloadd tmm1, [{sums} + {row} + 1024]",
                            "tileloadd tmm2, [{sums} + {row} + 2048]",
                            "tileloadd tmm3, [{sums} + {row} + 3072]",
                            sums = in(reg) sums, row = in(reg) ROW_BYTES,
                            options(readonly, nostack, preserves_flags)
                        ),
                    }
                    asm!(
                        "2:",
                        "tileloaddt1 tmm4, [{a} + {row}]",
                        "tileloadd tmm6, [{b} + {row}]",
                        "tileloadd tmm7, [{b} + {row} + 1024]",
                        concat!($product, " tmm0, tmm4, tmm6"),
                        "tileloaddt1 tmm5, [{a} + {row} + 1024]",
                        concat!($product, " tmm1, tmm4, tmm7"),
                        concat!($product, " tmm2, tmm5, tmm6"),
                        concat!($product, " tmm3, tmm5, tmm7"),
                        "prefetcht0 [{next}]",
                        "prefetcht0 [{next} + 64]",
                        "prefetcht0 [{next} + 128]",
                        "prefetcht0 [{next} + 192]",
                        "add {next}, 256",
                        "prefetcht1 [{ahead_a}]",
                        "prefetcht1 [{ahead_a} + 64]",
                        "prefetcht1 [{ahead_a} + 128]",
                        "prefetcht1 [{ahead_a} + 192]",
                        "add {ahead_a}, 256",
                        "prefetcht1 [{ahead_b}]",
                        "prefetcht1 [{ahead_b} + 64]",
                        "add {ahead_b}, 128",
                        "add {a}, 2048",
                        "add {b}, 2048",
                        "sub {pairs}, 1",
                        "jnz 2b",
                        a = inout(reg) a => _,
                        b = inout(reg) b => _,
                        next = inout(reg) sums.wrapping_add(SUMS) => _,
                        ahead_a = inout(reg) ahead_a => _,
                        ahead_b = inout(reg) ahead_b => _,
                        pairs = inout(reg) pairs => _,
                        row = in(reg) ROW_BYTES,
                        options(readonly, nostack)
                    );
                    asm!(
                        "tilestored [{sums} + {row}], tmm0",
                        "tilestored [{sums} + {row} + 1024], tmm1",
                        "tilestored [{sums} + {row} + 2048], tmm2",
                        "tilestored [{sums} + {row} + 3072], tmm3",
                        sums = in(reg) sums, row = in(reg) ROW_BYTES,
                        options(nostack, preserves_flags)
                    );
                }
            }

            #[inline(always)]
            unsafe fn put($sums: *const u8, $c: *mut $output, count: usize) {
                // SAFETY: the caller's promise: the mask keeps the store within C.
                unsafe {
                    let $sums = _mm512_loadu_si512($sums.cast());
                    let $mask = ((1_u32 << count) - 1) as __mmask16;
                    $put
                }
            }
        }
    };
}

multiplied!(
    Bf16: bf16, to bf16, product "tdpbf16ps", streamed 12,
    put |sums, c, mask| {
        let narrow = _mm512_cvtneps_pbh(_mm512_castsi512_ps(sums));
        let narrow = transmute::<__m256bh, __m256i>(narrow);
        _mm256_mask_storeu_epi16(c.cast(), mask, narrow)
    }
);

multiplied!(
    Int8: i8, to i32, product "tdpbssd", streamed 16,
    put |sums, c, mask| _mm512_mask_storeu_epi32(c, mask, sums)
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_has_the_elements_of_its_column() {
        for (size, places) in [(1, Int8::PLACES), (2, Bf16::PLACES)] {
            for column in 0..ACROSS {
                for byte in 0..4 {
                    let at = column * 4 + byte;
                    let wanted = (byte / size * ACROSS + column) * size + byte % size;
                    assert_eq!(usize::from(places[at / 64][at % 64]), wanted, "{size} {at}");
                }
            }
        }
    }
}
