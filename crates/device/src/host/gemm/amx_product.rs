//! What [`super::amx`] needs to know of an element type that AMX multiplies: how a word is made of
//! it, and the product of two panels.

use super::{avx512, product::Share, tile::Into};
use crate::host::{
    amx::{ROW_BYTES, ROWS},
    pool::Block,
};
use fizeau_domain::kernel::GemmParams;
use half::bf16;
use std::{
    arch::{asm, x86_64::*},
    mem::transmute,
};

/// Bytes of a tile.
pub(super) const TILE: usize = ROWS * ROW_BYTES;
/// Words of four bytes in a row of a tile, and rows of words in one of B.
pub(super) const WORDS: usize = ROW_BYTES / 4;
/// Rows and columns of a block of sums that the tiles hold at once.
pub(super) const ACROSS: usize = 2 * ROWS;
/// Bytes of two tiles of an operand, which are packed together, and of the sums of four.
pub(super) const PAIR: usize = 2 * TILE;
pub(super) const SUMS: usize = 4 * TILE;

/// An element type that the tiles multiply. A word has 4 bytes: consecutive elements along k.
pub(super) trait Multiplied {
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
    /// As [`super::amx`]'s.
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
pub(super) const fn group<T: Multiplied>() -> usize {
    4 / size_of::<T::Input>()
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
        pub(super) struct $name;

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
