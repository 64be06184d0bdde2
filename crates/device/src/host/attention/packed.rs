//! Many rows: queries, keys and values are widened and packed once for each block, and scores and
//! sums are then made by one tile of registers, as a matrix product's are.
//!
//! In place, keys are often a power of two bytes apart, so that a block of them shares a few sets
//! of the first-level cache; and a score made from two rows in place ends in a sum over lanes.

use super::keys::Rows;

/// Fewest rows of a block that are worth packing its keys and values for.
pub(super) const ROWS_MIN: usize = 8;

/// Words that a packed row is padded to a multiple of.
pub(super) const PADDED: usize = 16;

/// The arithmetic of one element type on packed operands. These are words of 4 bytes: an `f32`, or
/// as many narrower elements as one instruction multiplies and sums. Elements of a row are in the
/// order of [`super::engine::Engine::place`].
///
/// # Safety
///
/// Every function needs operands of the sizes it names, and the instructions of its engine.
pub(super) struct Packed<T> {
    /// Rows of a tile.
    pub rows: usize,
    /// Columns of a tile: keys of a panel of packed keys, or columns of one of packed values.
    pub columns: usize,
    /// Elements of a word.
    pub group: usize,
    /// Packs a row of this many elements; zeros follow up to a whole [`PADDED`].
    pub row: unsafe fn(*const T, usize, *mut f32),
    /// Packs keys into panels: word by word, the keys of a tile each. Keys beyond the last
    /// one of a panel are the last one.
    pub keys: unsafe fn(&Rows<T>, *mut f32),
    /// Packs values into panels: word by word, the columns of a tile each; those of a panel take
    /// the place of [`KEYS`](super::keys::KEYS) keys.
    pub values: unsafe fn(&Rows<T>, *mut f32),
    /// Prefetches a row of this many elements into the second-level cache.
    pub fetch: fn(*const T, usize),
    /// Scores of a tile's queries with a panel of keys.
    pub scores: unsafe fn(ScoreTile),
    /// Adds a panel of values to the sums of a tile's rows.
    pub accumulate: unsafe fn(SumTile),
}

/// Operands of a tile of scores.
pub(super) struct ScoreTile {
    /// Words of a packed query; also the words from one to the next.
    pub depth: usize,
    /// The first query.
    pub queries: *const f32,
    /// A panel of `depth` words.
    pub keys: *const f32,
    /// What dot products are multiplied with.
    pub factor: f32,
    /// The first score; rows are [`KEYS`](super::keys::KEYS) apart.
    pub scores: *mut f32,
}

/// Operands of a tile of sums.
pub(super) struct SumTile {
    /// Words of keys that are added.
    pub depth: usize,
    /// The weight of the first key in the first row; rows are [`KEYS`](super::keys::KEYS) apart.
    pub weights: *const f32,
    /// The panel's first key that is added.
    pub values: *const f32,
    /// What each row's sums are multiplied with before.
    pub corrections: *const f32,
    /// The first sum.
    pub sums: *mut f32,
    /// Words from one row of sums to the next.
    pub stride: usize,
}
