//! What a thread works in: scores, weights and sums of one block of rows, and how a block of keys
//! comes to them.

use super::{
    engine::{Engine, Softmax},
    keys::{KEYS, Rows},
    packed::{Packed, ScoreTile, SumTile},
};
use std::ops::Range;

/// Rows of one block: enough to make much of a block of keys, while sums and scores stay in the
/// second cache: the best of 96, 144, 192 and 288 on Zen 3 with AVX2.
pub(super) const ROWS: usize = 192;

/// Rows of all heads of a sequence at most where a task takes them together.
pub(super) const ROWS_TOGETHER: usize = 96;

const _: () = assert!(ROWS_TOGETHER <= ROWS);

/// Rows whose arithmetic is done at once; see [`Engine::scores`].
const TILE: usize = 4;

/// Keys and values that a head prefetches ahead by itself: the best of 0, 4, 8, 16, 32 and 64 on
/// Zen 3.
pub(super) const FETCHED: usize = 16;

/// Keys of all heads that are prefetched ahead in the order in which memory has them: the best of
/// 4, 8, 12 and 16 on Zen 3.
const AHEAD_TOGETHER: usize = 12;

/// Bytes of them at most: what the first cache keeps.
const AHEAD_MAX: usize = 32 << 10;

/// A cache line of words.
#[repr(align(64))]
#[derive(Clone, Copy)]
pub(super) struct Line(#[expect(dead_code, reason = "reached through its address")] [f32; 16]);

/// Words that begin with a cache line.
pub(super) fn lines(words: usize) -> Vec<Line> {
    vec![Line([0.0; 16]); words.div_ceil(16)]
}

/// What a thread works in.
pub(super) struct Room {
    /// ROWS x KEYS.
    scores: Vec<Line>,
    /// ROWS x stride.
    sums: Vec<Line>,
    softmax: [Softmax; ROWS],
    corrections: [f32; ROWS],
    /// Keys of the block that each tile of rows sees.
    counts: [usize; ROWS],
    /// Packed rows of Q: ROWS x depth.
    queries: Vec<Line>,
    /// A packed block of keys.
    keys: Vec<Line>,
    /// A packed block of values.
    values: Vec<Line>,
}

impl Room {
    pub fn new(stride: usize, depth: usize) -> Room {
        Room {
            scores: lines(ROWS * KEYS),
            sums: lines(ROWS * stride),
            softmax: [Softmax::NONE; ROWS],
            corrections: [0.0; ROWS],
            counts: [0; ROWS],
            queries: lines(ROWS * depth),
            keys: lines(KEYS * depth),
            values: lines(KEYS * stride),
        }
    }
}

/// The heads of a sequence, in the order of their rows.
#[derive(Clone, Copy)]
pub(super) struct Heads {
    /// How many.
    pub count: usize,
    /// Rows of each.
    pub rows: usize,
}

impl Room {
    /// Nothing seen, no sums.
    pub fn clear(&mut self) {
        self.softmax = [Softmax::NONE; ROWS];
        self.sums.fill(Line([0.0; 16]));
    }

    /// The sums of a row, and what its softmax has come to.
    pub fn row(&self, row: usize, stride: usize) -> (*const f32, Softmax) {
        (self.sums.as_ptr().cast::<f32>().wrapping_add(row * stride), self.softmax[row])
    }

    /// The sums of the first row.
    pub fn first_row(&mut self, stride: usize) -> &mut [f32] {
        // SAFETY: a row of sums is `stride` words.
        unsafe { std::slice::from_raw_parts_mut(self.sums.as_mut_ptr().cast(), stride) }
    }

    /// Weights of a row's scores, of which the first `count` were made.
    ///
    /// # Safety
    ///
    /// `row` is one of the room's.
    #[inline(always)]
    unsafe fn weigh<E: Engine>(&mut self, row: usize, seen: Range<usize>, count: usize) {
        let seen = seen.start..seen.end.min(count);
        // SAFETY: the caller's promise.
        unsafe {
            let scores = self.scores.as_mut_ptr().cast::<f32>().add(row * KEYS);
            self.corrections[row] = if !seen.is_empty() {
                E::weigh(scores, seen, count, &mut self.softmax[row])
            } else {
                scores.write_bytes(0, KEYS);
                1.0
            };
        }
    }
}

/// Few rows of each of many heads, which go through keys and values as they lie.
impl Room {
    /// Scores and weights of all heads' rows for a block of keys; `keys` are the first head's.
    ///
    /// # Safety
    ///
    /// Queries and keys can be read.
    #[inline(always)]
    pub unsafe fn score_heads<E: Engine>(
        &mut self,
        heads: Heads,
        query: impl Fn(usize, usize) -> *const E::Element,
        keys: Rows<E::Element>,
        factor: f32,
        seen: impl Fn(usize) -> Range<usize>,
    ) {
        // SAFETY: the caller's promise; the room has all rows.
        unsafe {
            for key in (0..keys.count).step_by(E::KEYS_TOGETHER) {
                for head in 0..heads.count {
                    let (ahead, ahead_stride) = ahead::<E>(&keys, key, head, keys.length);
                    let some = Rows {
                        start: keys.start.add(key * keys.stride + head * keys.length),
                        ahead,
                        ahead_stride,
                        count: E::KEYS_TOGETHER.min(keys.count - key),
                        ..keys
                    };
                    let mut row = 0;
                    while row < heads.rows {
                        let scores = self.scores.as_mut_ptr().cast::<f32>();
                        let scores = scores.add((head * heads.rows + row) * KEYS + key);
                        row += score_tile::<E>(
                            heads.rows - row,
                            |at| query(head, row + at),
                            &some,
                            factor,
                            scores,
                        );
                    }
                }
            }
            for row in 0..heads.count * heads.rows {
                self.weigh::<E>(row, seen(row % heads.rows), keys.count);
            }
        }
    }

    /// Adds the values of a block to the sums of all heads' rows; `values` are the first head's.
    ///
    /// # Safety
    ///
    /// Values can be read; the weights are made.
    #[inline(always)]
    pub unsafe fn accumulate_heads<E: Engine>(
        &mut self,
        heads: Heads,
        values: Rows<E::Element>,
        stride: usize,
    ) {
        let between = values.stride / heads.count;
        // SAFETY: the caller's promise; the room has all rows.
        unsafe {
            for key in (0..values.count).step_by(E::KEYS_TOGETHER) {
                for head in 0..heads.count {
                    let (ahead, ahead_stride) = ahead::<E>(&values, key, head, between);
                    let some = Rows {
                        start: values.start.add(key * values.stride + head * between),
                        ahead,
                        ahead_stride,
                        count: E::KEYS_TOGETHER.min(values.count - key),
                        ..values
                    };
                    let mut row = 0;
                    while row < heads.rows {
                        let first = head * heads.rows + row;
                        let correction =
                            |at: usize| if key == 0 { self.corrections[first + at] } else { 1.0 };
                        let weights = self.scores.as_ptr().cast::<f32>();
                        let weights = weights.add(first * KEYS + key / E::WEIGHTS);
                        let sums = self.sums.as_mut_ptr().cast::<f32>().add(first * stride);
                        row += sum_tile::<E>(
                            heads.rows - row,
                            correction,
                            weights,
                            &some,
                            sums,
                            stride,
                        );
                    }
                }
            }
        }
    }
}

/// What a head's part of some keys prefetches, whose rows have `length` elements. The parts of all
/// heads prefetch memory from end to end, where that stays in the first cache: the CPU's own
/// prefetching continues what it sees of that.
#[inline(always)]
fn ahead<E: Engine>(
    all: &Rows<E::Element>,
    key: usize,
    head: usize,
    length: usize,
) -> (*const E::Element, usize) {
    if AHEAD_TOGETHER * all.stride * size_of::<E::Element>() <= AHEAD_MAX {
        let at = (key + AHEAD_TOGETHER) * all.stride + head * E::KEYS_TOGETHER * length;
        (all.start.wrapping_add(at), length)
    } else {
        let at = (key + FETCHED) * all.stride + head * length;
        (all.start.wrapping_add(at), all.stride)
    }
}

/// Scores of as many of `left` rows as a tile has, which is returned.
///
/// # Safety
///
/// As [`Engine::scores`].
#[inline(always)]
unsafe fn score_tile<E: Engine>(
    left: usize,
    query: impl Fn(usize) -> *const E::Element,
    keys: &Rows<E::Element>,
    factor: f32,
    scores: *mut f32,
) -> usize {
    // SAFETY: the caller's promise.
    unsafe {
        match tile(left) {
            4 => E::scores([0, 1, 2, 3].map(query), keys, factor, scores),
            2 => E::scores([0, 1].map(query), keys, factor, scores),
            _ => E::scores([query(0)], keys, factor, scores),
        }
    }
    tile(left)
}

/// Adds values to the sums of as many of `left` rows as a tile has, which is returned.
///
/// # Safety
///
/// As [`Engine::accumulate`].
#[inline(always)]
unsafe fn sum_tile<E: Engine>(
    left: usize,
    correction: impl Fn(usize) -> f32,
    weights: *const f32,
    values: &Rows<E::Element>,
    sums: *mut f32,
    stride: usize,
) -> usize {
    // SAFETY: the caller's promise.
    unsafe {
        match tile(left) {
            4 => E::accumulate([0, 1, 2, 3].map(correction), weights, values, sums, stride),
            2 => E::accumulate([0, 1].map(correction), weights, values, sums, stride),
            _ => E::accumulate([correction(0)], weights, values, sums, stride),
        }
    }
    tile(left)
}

/// Rows of one head, or of a block, whose keys and values are read in place.
impl Room {
    /// Scores and weights of all rows for a block of keys.
    ///
    /// # Safety
    ///
    /// Queries and keys can be read.
    #[inline(always)]
    pub unsafe fn score<E: Engine>(
        &mut self,
        rows: usize,
        query: impl Fn(usize) -> *const E::Element,
        mut keys: Rows<E::Element>,
        factor: f32,
        seen: impl Fn(usize) -> Range<usize>,
    ) {
        let block = keys.count;
        let mut first = 0;
        while first < rows {
            let tile = tile(rows - first);
            // Rows are in the order of queries: the first one sees the first key, the last one the
            // last.
            let end = block.min(seen(first + tile - 1).end);
            let count = if seen(first).start < end { end } else { 0 };
            self.counts[first] = count;
            keys.count = count;
            // SAFETY: the caller's promise; the room has all rows.
            unsafe {
                let scores = self.scores.as_mut_ptr().cast::<f32>().add(first * KEYS);
                if count > 0 {
                    score_tile::<E>(rows - first, |row| query(first + row), &keys, factor, scores);
                }
                for row in first..first + tile {
                    self.weigh::<E>(row, seen(row), count);
                }
            }
            first += tile;
        }
    }

    /// Adds the values of a block to the sums of all rows.
    ///
    /// # Safety
    ///
    /// Values can be read; the weights are made.
    #[inline(always)]
    pub unsafe fn accumulate<E: Engine>(
        &mut self,
        rows: usize,
        mut values: Rows<E::Element>,
        stride: usize,
    ) {
        let mut first = 0;
        while first < rows {
            let tile = tile(rows - first);
            values.count = self.counts[first];
            let correction = |row: usize| self.corrections[first + row];
            // SAFETY: the caller's promise; the room has all rows.
            unsafe {
                let weights = self.scores.as_ptr().cast::<f32>().add(first * KEYS);
                let sums = self.sums.as_mut_ptr().cast::<f32>().add(first * stride);
                if values.count > 0 {
                    sum_tile::<E>(rows - first, correction, weights, &values, sums, stride);
                }
            }
            first += tile;
        }
    }
}

/// Many rows, by packed operands.
impl Room {
    /// Packs the queries of a block. Rows that a last tile has too many are zeros.
    ///
    /// # Safety
    ///
    /// Queries can be read.
    #[inline(always)]
    pub unsafe fn pack_queries<T>(
        &mut self,
        packed: &Packed<T>,
        rows: usize,
        query: impl Fn(usize) -> *const T,
        length: usize,
        depth: usize,
    ) {
        let to = self.queries.as_mut_ptr().cast::<f32>();
        let all = rows.next_multiple_of(packed.rows);
        self.corrections[rows..all].fill(0.0);
        // SAFETY: the caller's promise; the room has all rows.
        unsafe {
            for row in 0..rows {
                (packed.row)(query(row), length, to.add(row * depth));
            }
            to.add(rows * depth).write_bytes(0, (all - rows) * depth);
            let scores = self.scores.as_mut_ptr().cast::<f32>();
            scores.add(rows * KEYS).write_bytes(0, (all - rows) * KEYS);
        }
    }

    /// [`Room::score`] by packed keys.
    ///
    /// # Safety
    ///
    /// Keys can be read; queries are packed.
    #[inline(always)]
    pub unsafe fn score_packed<E: Engine>(
        &mut self,
        packed: &Packed<E::Element>,
        rows: usize,
        keys: &Rows<E::Element>,
        depth: usize,
        factor: f32,
        seen: impl Fn(usize) -> Range<usize>,
    ) {
        // Rows are in the order of queries: the first one sees the first key, the last one the
        // last.
        for first in (0..rows).step_by(packed.rows) {
            let end = keys.count.min(seen((first + packed.rows).min(rows) - 1).end);
            self.counts[first] = if seen(first).start < end { end } else { 0 };
        }
        let (queries, scores) = (self.queries.as_ptr(), self.scores.as_mut_ptr());
        let (queries, scores) = (queries.cast::<f32>(), scores.cast::<f32>());
        let panels = self.keys.as_mut_ptr().cast::<f32>();
        let mut ahead = keys.in_turns(tiles(packed, rows, keys.count));
        // SAFETY: the caller's promise; the room has all rows and a block of keys.
        unsafe {
            (packed.keys)(keys, panels);
            for panel in (0..keys.count).step_by(packed.columns) {
                for first in (0..rows).step_by(packed.rows) {
                    ahead.turn(packed.fetch);
                    if panel < self.counts[first] {
                        (packed.scores)(ScoreTile {
                            depth,
                            queries: queries.add(first * depth),
                            keys: panels.add(panel * depth),
                            factor,
                            scores: scores.add(first * KEYS + panel),
                        });
                    }
                }
            }
            for row in 0..rows {
                let count = self.counts[row / packed.rows * packed.rows];
                self.weigh::<E>(row, seen(row), count);
            }
        }
    }

    /// [`Room::accumulate`] by packed values.
    ///
    /// # Safety
    ///
    /// Values can be read; the weights are made.
    #[inline(always)]
    pub unsafe fn accumulate_packed<T>(
        &mut self,
        packed: &Packed<T>,
        rows: usize,
        values: &Rows<T>,
        stride: usize,
    ) {
        let panels = self.values.as_mut_ptr().cast::<f32>();
        let (weights, sums) = (self.scores.as_ptr(), self.sums.as_mut_ptr());
        let (weights, sums) = (weights.cast::<f32>(), sums.cast::<f32>());
        let mut ahead = values.in_turns(tiles(packed, rows, values.length));
        // SAFETY: the caller's promise; the room has all rows and a block of values.
        unsafe {
            (packed.values)(values, panels);
            for panel in (0..values.length).step_by(packed.columns) {
                for first in (0..rows).step_by(packed.rows) {
                    ahead.turn(packed.fetch);
                    if self.counts[first] > 0 {
                        (packed.accumulate)(SumTile {
                            depth: self.counts[first].div_ceil(packed.group),
                            weights: weights.add(first * KEYS),
                            values: panels.add(panel * KEYS / packed.group),
                            corrections: self.corrections.as_ptr().add(first),
                            sums: sums.add(first * stride + panel),
                            stride,
                        });
                    }
                }
            }
        }
    }
}

/// Tiles of a block of this many rows and columns.
fn tiles<T>(packed: &Packed<T>, rows: usize, columns: usize) -> usize {
    rows.div_ceil(packed.rows) * columns.div_ceil(packed.columns)
}

/// Rows of the next tile where `left` are left.
fn tile(left: usize) -> usize {
    if left >= TILE { TILE } else { left.min(2) }
}
