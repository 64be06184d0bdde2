//! What the walk over blocks needs to know of the arithmetic on one block.

use super::{keys::Rows, packed::Packed};
use half::bf16;
use std::ops::Range;

/// Columns of values that are summed at once; sums are kept in whole panels of this width.
pub(super) const COLUMNS: usize = 64;

/// What the softmax of one row has come to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Softmax {
    /// The largest score seen; infinite downwards where none was.
    pub max: f32,
    /// The sum of the weights, relative to 2^max.
    pub sum: f32,
}

impl Softmax {
    /// Nothing seen.
    pub const NONE: Softmax = Softmax { max: f32::NEG_INFINITY, sum: 0.0 };
}

/// The arithmetic of one element type with one instruction set. Scores are base-2 logarithms of
/// weights, [`KEYS`](super::keys::KEYS) words in a row; weights take the place of their scores,
/// each row from its start, in a format of the engine's own.
pub(super) trait Engine {
    /// An element of Q, K, V and O.
    type Element: Copy;

    /// How many rows are computed, if not as few ones are.
    const PACKED: Option<Packed<Self::Element>> = None;

    /// Whether few rows take all heads together.
    const HEADS_TOGETHER: bool = false;

    /// Keys that are then read of all heads before the next ones, which lie behind them in memory:
    /// with AVX2 the best of 8, 16, 32 and 64 on Zen 3.
    const KEYS_TOGETHER: usize = 8;

    /// Weights in the place of one score, from the start of a row.
    const WEIGHTS: usize = 1;

    /// A sum as an element of O.
    fn output(sum: f32) -> Self::Element;

    /// Where a column's sum lies within its panel.
    fn place(column: usize) -> usize {
        column
    }

    /// Scores of `R` queries (1, 2 or 4) for all keys of a block: `factor` times the dot product.
    /// May write up to the whole row of [`KEYS`](super::keys::KEYS).
    ///
    /// # Safety
    ///
    /// Queries and keys can be read, `R` rows of scores written. The CPU has the instructions.
    unsafe fn scores<const R: usize>(
        queries: [*const Self::Element; R],
        keys: &Rows<Self::Element>,
        factor: f32,
        scores: *mut f32,
    );

    /// Turns the scores of a row that are `seen` into weights relative to the largest score so far,
    /// and all others up to `count` into nothing. Gives what sums made before are to be multiplied
    /// with.
    ///
    /// # Safety
    ///
    /// The row of scores can be read and written; `seen` is not empty and ends at `count` at most,
    /// and that is [`KEYS`](super::keys::KEYS) at most.
    unsafe fn weigh(
        scores: *mut f32,
        seen: Range<usize>,
        count: usize,
        softmax: &mut Softmax,
    ) -> f32;

    /// Multiplies the sums of `R` rows with their corrections and adds the values of a block by
    /// their weights. Whole panels, padding included.
    ///
    /// # Safety
    ///
    /// Weights and values can be read, `R` rows of sums read and written, `stride` words apart.
    unsafe fn accumulate<const R: usize>(
        corrections: [f32; R],
        weights: *const f32,
        values: &Rows<Self::Element>,
        sums: *mut f32,
        stride: usize,
    );
}

/// An element that is computed with in `f32`; the default is zero.
pub(super) trait Element: Copy + Default {
    fn wide(self) -> f32;
    fn narrow(sum: f32) -> Self;
}

impl Element for f32 {
    #[inline(always)]
    fn wide(self) -> f32 {
        self
    }
    #[inline(always)]
    fn narrow(sum: f32) -> f32 {
        sum
    }
}

impl Element for bf16 {
    #[inline(always)]
    fn wide(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
    #[inline(always)]
    fn narrow(sum: f32) -> bf16 {
        bf16::from_f32(sum)
    }
}

/// Coefficients of a polynomial for 2^x over [-1/2, 1/2], by Remez' exchange for the relative
/// error, which is below 1.6e-7 with the first rounded to one.
pub(super) const EXP2: [f32; 6] =
    [1.0, 0.693_146_97, 0.240_221_2, 0.055_507_13, 0.009_675_541, 0.001_327_647_2];

/// An instruction set's 2^x, against the library's.
#[cfg(test)]
pub(super) fn check_exp2(of: impl Fn(f32) -> f32) {
    for step in 0..=1_000_000 {
        let x = -125.0 * step as f32 / 1e6;
        let exact = f64::from(x).exp2();
        let error = (f64::from(of(x)) - exact).abs() / exact;
        assert!(error < 2.5e-7, "2^{x}: {error:e}");
    }
    assert_eq!(of(0.0), 1.0);
    assert_eq!(of(-1.0), 0.5);
    assert_eq!(of(-126.0), 0.0);
    assert_eq!(of(f32::NEG_INFINITY), 0.0);
}
