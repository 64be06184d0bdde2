//! A block of keys or of values: how many there are, and where they lie.

/// Keys of one block: their scores for a block of queries stay in the second cache, the block of
/// keys in the first.
pub(super) const KEYS: usize = 64;

/// Rows that lie `stride` elements apart.
pub(super) struct Rows<T> {
    /// The first one.
    pub start: *const T,
    /// Elements from one to the next.
    pub stride: usize,
    /// How many there are.
    pub count: usize,
    /// Elements of each.
    pub length: usize,
    /// What few rows prefetch meanwhile: as much as a row for each row.
    pub ahead: *const T,
    /// Elements from what is prefetched beside one row to that beside the next.
    pub ahead_stride: usize,
}
