//! What the loop nest needs to know of the arithmetic on one register tile.

use std::ops::Add;

/// The arithmetic of one element type with one instruction set.
///
/// Operands are packed in words: [`Tile::GROUP`] consecutive values along k, as many as one
/// instruction multiplies and sums at once (2 for bfloat16, 4 for int8).
pub(super) trait Tile {
    /// An element of A and B; the default is zero, which stands for none.
    type Input: Copy + Default;
    /// Packed [`Tile::GROUP`] elements.
    type Word: Copy;
    /// A sum.
    type Sum: Copy + Add<Output = Self::Sum>;
    /// An element of C.
    type Output: Copy;

    /// Elements in a word.
    const GROUP: usize;
    /// Rows of the tile.
    const ROWS: usize;
    /// Columns of the tile.
    const COLUMNS: usize;
    /// Words along k packed at once, at most: a panel of A of this length stays in the first cache.
    const DEPTH_MAX: usize;
    /// Rows of A packed at once, at most: they stay in the second cache.
    const HEIGHT_MAX: usize;
    /// Columns of B packed at once, at most: they stay in the third.
    const WIDTH_MAX: usize;

    /// A word of A; `element` gives its values by their place along k, none beyond the end.
    fn word_a(element: impl Fn(usize) -> Self::Input) -> Self::Word;
    /// A word of B, likewise.
    #[inline(always)]
    fn word_b(element: impl Fn(usize) -> Self::Input) -> Self::Word {
        Self::word_a(element)
    }
    /// Whether a column's sums start from zero; if not, from [`Tile::start`] over its words.
    const STARTS_AT_ZERO: bool = true;
    /// Adds one word of a column to what its sums start from.
    fn start(sum: Self::Sum, _word: Self::Word) -> Self::Sum {
        sum
    }
    /// A finished sum as an element of C.
    fn output(sum: Self::Sum) -> Self::Output;

    /// Packs whole rows of A, as many as the tile has, `stride` elements apart: as many of the
    /// `words` as is done fast, which is returned.
    ///
    /// # Safety
    ///
    /// The rows have `words` words; `target` has room for them and 128 bytes more. The CPU has the
    /// instruction set.
    unsafe fn pack_rows(
        _source: *const Self::Input,
        _stride: usize,
        _words: usize,
        _target: *mut Self::Word,
    ) -> usize {
        0
    }

    /// Packs columns of B that stand one after the other, as many as the tile has, `stride`
    /// elements apart: as many of the `words` as is done fast, which is returned.
    ///
    /// # Safety
    ///
    /// The columns have `words` words, for which `target` has room. The CPU has the instruction
    /// set.
    unsafe fn pack_columns(
        _source: *const Self::Input,
        _stride: usize,
        _words: usize,
        _target: *mut Self::Word,
    ) -> usize {
        0
    }

    /// `C = start + A B`, or `C += start + A B`, over one tile.
    ///
    /// # Safety
    ///
    /// `a` has `depth` times [`Tile::ROWS`] words; `b` has [`Tile::COLUMNS`] sums to start from,
    /// then `depth` times as many words; `c` has all
    /// rows and columns of the tile, rows `stride` apart. The CPU has the instruction set.
    unsafe fn multiply(
        depth: usize,
        a: *const Self::Word,
        b: *const Self::Word,
        c: *mut Self::Sum,
        stride: usize,
        into: Into,
    );
}

/// What becomes of the sums that stand in C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Into {
    /// They are replaced.
    Replace,
    /// They are added to.
    Add,
}
