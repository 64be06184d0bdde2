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
    /// What is prefetched meanwhile: as much as a row for each row.
    pub ahead: *const T,
    /// Elements from what is prefetched beside one row to that beside the next.
    pub ahead_stride: usize,
}

impl<T> Rows<T> {
    /// What is to be prefetched, in this many turns at most, of as many rows each.
    pub fn in_turns(&self, turns: usize) -> Ahead<T> {
        Ahead {
            next: self.ahead,
            stride: self.ahead_stride,
            left: self.count,
            length: self.length,
            each: self.count.div_ceil(turns.max(1)),
        }
    }
}

/// Rows that are prefetched in turns.
pub(super) struct Ahead<T> {
    next: *const T,
    stride: usize,
    left: usize,
    length: usize,
    /// Rows of one turn.
    each: usize,
}

impl<T> Ahead<T> {
    /// Prefetches the rows of one turn, each by `fetch`, which gets its start and its elements.
    #[inline(always)]
    pub fn turn(&mut self, fetch: fn(*const T, usize)) {
        for _ in 0..self.each.min(self.left) {
            fetch(self.next, self.length);
            self.next = self.next.wrapping_add(self.stride);
            self.left -= 1;
        }
    }
}
