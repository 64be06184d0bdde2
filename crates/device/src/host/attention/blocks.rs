//! The walk over blocks of queries and keys, the same for every instruction set.
//!
//! The query heads that share a key-value head are rows of one block beside each other, so that a
//! block of keys is read once for all of them. A thread takes a block of rows over all keys, or
//! over one split of them, whose sums go to scratch memory and are combined by all threads at the
//! end.

use super::{
    engine::{COLUMNS, Engine, Softmax},
    keys::{KEYS, Rows},
    packed::{PADDED, ROWS_MIN},
    room::{FETCHED, Heads, ROWS, ROWS_TOGETHER, Room},
};
use crate::host::pool::Block;
use fizeau_domain::kernel::{AttentionParams, AttentionSequence};
use std::ops::Range;

/// Fewest keys of a split: combining costs less than reading them.
const SPLIT_KEYS_MIN: usize = 256;

/// Words of scratch memory for one row of one split, beyond its sums: a cache line, of which the
/// softmax takes two.
const SPLIT_WORDS: usize = 16;

/// Attention, `block.repeat` times.
///
/// # Safety
///
/// The parameters' addresses are of operands that live, in the layouts of [`AttentionParams`].
#[inline(always)]
pub(super) unsafe fn attention<E: Engine>(block: &Block<'_>) {
    let shape = Shape::new::<E>(block.params(), block.count as usize);
    let mut room = Room::new(shape.stride, shape.depth(1));
    let (index, count) = (block.index as usize, block.count as usize);
    for _ in 0..block.repeat {
        let tasks = shape.tasks * shape.splits;
        // To and fro, since the largest come first: causal blocks differ in length.
        for (round, first) in (0..tasks).step_by(count).enumerate() {
            let task = first + if round % 2 == 0 { index } else { count - 1 - index };
            if task < tasks {
                // SAFETY: the caller's promise.
                unsafe {
                    if E::HEADS_TOGETHER && shape.is_together {
                        shape.perform_together::<E>(task, &mut room);
                    } else {
                        shape.perform::<E>(task, &mut room);
                    }
                }
            }
        }
        block.synchronise();
        if shape.splits > 1 {
            for row in block.part(shape.units * shape.rows, 1) {
                // SAFETY: all splits are there; no other thread has this row.
                unsafe { shape.combine::<E>(row, &mut room) };
            }
            block.synchronise();
        }
    }
}

/// The parameters, with what follows from them.
struct Shape<'p> {
    p: &'p AttentionParams,
    /// Sequences times key-value heads.
    units: usize,
    /// Query heads that share a key-value head.
    group: usize,
    /// Rows of the largest unit: its heads of each query.
    rows: usize,
    /// Blocks of rows of a unit.
    blocks: usize,
    /// Whether a task takes all heads of a sequence, so that keys of all heads, which lie beside
    /// each other, are read as they lie: strides of the CPU's own prefetching are those of whole
    /// pages.
    is_together: bool,
    /// Tasks for each split: sequences, or blocks of rows of units.
    tasks: usize,
    splits: usize,
    /// Keys of a split: the first one begins with the first key that a block of rows sees.
    split: usize,
    /// Words of a row of sums.
    stride: usize,
    /// Of values from one key to the next, and where they start.
    values: (usize, u64),
}

impl<'p> Shape<'p> {
    fn new<E: Engine>(p: &'p AttentionParams, threads: usize) -> Shape<'p> {
        let group = (p.heads / p.kv_heads) as usize;
        let units = (p.batch * p.kv_heads) as usize;
        let rows = group * p.queries as usize;
        let blocks = rows.div_ceil(ROWS);
        let stride = (p.dim_v as usize).next_multiple_of(COLUMNS);
        // A block of rows sees a window or chunk, and what its queries are apart.
        let span = match [p.window, p.chunk] {
            [0, 0] => p.keys as usize,
            [window, chunk] => {
                (window.max(chunk) as usize + ROWS.div_ceil(group)).min(p.keys as usize)
            }
        };
        let row_bytes = (units * rows * (stride + SPLIT_WORDS) * size_of::<f32>()) as u64;
        let fitting = if p.scratch == 0 { 1 } else { (p.scratch_bytes / row_bytes) as usize };
        let parts = |tasks: usize| {
            let is_even = tasks >= 4 * threads || tasks.is_multiple_of(threads);
            let wanted = if is_even { 1 } else { threads };
            wanted.min(fitting).min(span / SPLIT_KEYS_MIN).max(1)
        };
        let sequences = p.batch as usize;
        let is_together = E::HEADS_TOGETHER
            && p.kv_heads > 1
            && rows < ROWS_MIN
            && rows * p.kv_heads as usize <= ROWS_TOGETHER
            && (sequences * parts(sequences)).is_multiple_of(threads);
        let tasks = if is_together { sequences } else { units * blocks };
        let parts = parts(tasks);
        let split = span.div_ceil(parts).next_multiple_of(KEYS);
        let values = match p.v {
            0 => (p.kv_heads as usize * p.dim_qk as usize, p.k),
            v => (p.kv_heads as usize * p.dim_v as usize, v),
        };
        let splits = span.div_ceil(split);
        Shape { p, units, group, rows, blocks, is_together, tasks, splits, split, stride, values }
    }

    /// Words of a packed query or key, of which each has `group` elements.
    fn depth(&self, group: usize) -> usize {
        (self.p.dim_qk as usize).div_ceil(group).next_multiple_of(PADDED)
    }

    /// The query and head of a row of a unit.
    fn query_head(&self, unit: usize, row: usize) -> (usize, usize) {
        let head = unit % self.p.kv_heads as usize * self.group + row % self.group;
        (row / self.group, head)
    }

    /// Where a row of a unit stands among all rows of Q and O.
    fn row_of_all(&self, unit: usize, row: usize) -> usize {
        let (query, head) = self.query_head(unit, row);
        (self.sequence(unit).query_first as usize + query) * self.p.heads as usize + head
    }

    /// The sequence that a unit is of.
    fn sequence(&self, unit: usize) -> AttentionSequence {
        let sequences = self.p.sequences as *const AttentionSequence;
        // SAFETY: there is one for each of the batch; see `attention`.
        unsafe { sequences.add(unit / self.p.kv_heads as usize).read() }
    }

    /// Rows of a unit.
    fn rows_of(&self, unit: usize) -> usize {
        self.sequence(unit).queries as usize * self.group
    }

    /// Keys that a row sees: the last query is aligned with the last key.
    fn seen(&self, sequence: &AttentionSequence, row: usize) -> Range<usize> {
        let keys = sequence.keys as usize;
        if self.p.causal == 0 {
            return 0..keys;
        }
        let end = (keys + row / self.group + 1).saturating_sub(sequence.queries as usize);
        let start = match [self.p.window, self.p.chunk].map(|length| length as usize) {
            [0, 0] => 0,
            [0, chunk] => end.saturating_sub(1) / chunk * chunk,
            [window, _] => end.saturating_sub(window),
        };
        start..end
    }

    /// Where a key of a sequence stands among all that there is room for, and how many up to `end`
    /// follow it there, [`KEYS`] at most.
    fn place(&self, sequence: &AttentionSequence, from: usize, end: usize) -> (usize, usize) {
        let (at, count) = (sequence.key_first as usize + from, KEYS.min(end - from));
        let page = self.p.page as usize;
        if self.p.pages == 0 || page == 0 {
            return (at, count);
        }
        // SAFETY: the table has a number for each page that a sequence begins; see `attention`.
        let number = unsafe { (self.p.pages as *const u32).add(at / page).read() };
        (number as usize * page + at % page, count.min(page - at % page))
    }

    /// One block of rows over one split of the keys.
    ///
    /// # Safety
    ///
    /// As [`attention`].
    #[inline(always)]
    unsafe fn perform<E: Engine>(&self, task: usize, room: &mut Room) {
        let (of_block, split) = (task / self.splits, task % self.splits);
        // The last blocks first: causal, they see the most.
        let (unit, number) = (of_block % self.units, self.blocks - 1 - of_block / self.units);
        let first = number * ROWS;
        let sequence = self.sequence(unit);
        let rows = ROWS.min(self.rows_of(unit).saturating_sub(first));
        if rows == 0 {
            return;
        }
        let (dim_qk, dim_v) = (self.p.dim_qk as usize, self.p.dim_v as usize);
        let kv_heads = self.p.kv_heads as usize;
        let kv_head = unit % kv_heads;
        // SAFETY: the caller's promise: these rows are within the operands.
        unsafe {
            let query = |row: usize| {
                (self.p.q as *const E::Element).add(self.row_of_all(unit, first + row) * dim_qk)
            };
            let key_stride = kv_heads * dim_qk;
            let key = (self.p.k as *const E::Element).add(kv_head * dim_qk);
            let (value_stride, value) = self.values;
            let value = (value as *const E::Element).add(kv_head * (value_stride / kv_heads));
            room.clear();
            let packed = E::PACKED.filter(|_| rows >= ROWS_MIN);
            if let Some(packed) = &packed {
                room.pack_queries(packed, rows, query, dim_qk, self.depth(packed.group));
            }
            let mut from = self.seen(&sequence, first).start + split * self.split;
            let end = (from + self.split).min(self.seen(&sequence, first + rows - 1).end);
            while from < end {
                let (at, count) = self.place(&sequence, from, end);
                // Many rows prefetch the next block.
                let ahead = if packed.is_some() {
                    self.place(&sequence, (from + count).min(end - 1), end).0
                } else {
                    at + FETCHED
                };
                let part = |start: *const E::Element, stride: usize, length: usize| Rows {
                    start: start.add(at * stride),
                    stride,
                    count,
                    length,
                    ahead: start.wrapping_add(ahead * stride),
                    ahead_stride: stride,
                };
                let seen = |row: usize| {
                    let Range { start, end } = self.seen(&sequence, first + row);
                    start.saturating_sub(from)..end.saturating_sub(from)
                };
                let keys = part(key, key_stride, dim_qk);
                let values = part(value, value_stride, dim_v);
                if let Some(packed) = &packed {
                    let depth = self.depth(packed.group);
                    room.score_packed::<E>(packed, rows, &keys, depth, self.factor(), seen);
                    room.accumulate_packed(packed, rows, &values, self.stride);
                } else {
                    room.score::<E>(rows, query, keys, self.factor(), seen);
                    room.accumulate::<E>(rows, values, self.stride);
                }
                from += count;
            }
            for row in 0..rows {
                self.leave::<E>(split, unit, first + row, row, room);
            }
        }
    }

    /// All heads of a sequence over one split of the keys.
    ///
    /// # Safety
    ///
    /// As [`attention`].
    #[inline(always)]
    unsafe fn perform_together<E: Engine>(&self, task: usize, room: &mut Room) {
        let (unit, split) = (task / self.splits * self.p.kv_heads as usize, task % self.splits);
        let sequence = self.sequence(unit);
        let rows = self.rows_of(unit);
        if rows == 0 {
            return;
        }
        let (dim_qk, dim_v) = (self.p.dim_qk as usize, self.p.dim_v as usize);
        let heads = Heads { count: self.p.kv_heads as usize, rows };
        // SAFETY: the caller's promise: these rows are within the operands.
        unsafe {
            let query = |head: usize, row: usize| {
                (self.p.q as *const E::Element).add(self.row_of_all(unit + head, row) * dim_qk)
            };
            let (value_stride, value) = self.values;
            room.clear();
            let mut from = self.seen(&sequence, 0).start + split * self.split;
            let end = (from + self.split).min(self.seen(&sequence, rows - 1).end);
            while from < end {
                let (at, count) = self.place(&sequence, from, end);
                let part = |start: u64, stride: usize, length: usize| {
                    let start = (start as *const E::Element).add(at * stride);
                    Rows { start, stride, count, length, ahead: start, ahead_stride: stride }
                };
                let seen = |row: usize| {
                    let Range { start, end } = self.seen(&sequence, row);
                    start.saturating_sub(from)..end.saturating_sub(from)
                };
                let keys = part(self.p.k, heads.count * dim_qk, dim_qk);
                room.score_heads::<E>(heads, query, keys, self.factor(), seen);
                room.accumulate_heads::<E>(heads, part(value, value_stride, dim_v), self.stride);
                from += count;
            }
            for head in 0..heads.count {
                for row in 0..rows {
                    self.leave::<E>(split, unit + head, row, head * rows + row, room);
                }
            }
        }
    }

    /// Writes a row of the room to O, or keeps it for [`Shape::combine`].
    ///
    /// # Safety
    ///
    /// The row's sums are made.
    #[inline(always)]
    unsafe fn leave<E: Engine>(
        &self,
        split: usize,
        unit: usize,
        row: usize,
        of_room: usize,
        room: &Room,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let (sums, softmax) = room.row(of_room, self.stride);
            if self.splits == 1 {
                self.finish::<E>(unit, row, sums, softmax.sum);
            } else {
                self.keep(split, unit, row, sums, softmax);
            }
        }
    }

    /// From a dot product to the base-2 logarithm of a weight.
    fn factor(&self) -> f32 {
        self.p.scale * std::f32::consts::LOG2_E
    }

    /// Where a row of a split lies in scratch memory.
    fn kept(&self, split: usize, row: usize) -> *mut f32 {
        let words = self.stride + SPLIT_WORDS;
        let row = split * self.units * self.rows + row;
        (self.p.scratch as *mut f32).wrapping_add(row * words)
    }

    /// # Safety
    ///
    /// `sums` has a row of sums.
    unsafe fn keep(
        &self,
        split: usize,
        unit: usize,
        row: usize,
        sums: *const f32,
        softmax: Softmax,
    ) {
        let into = self.kept(split, unit * self.rows + row);
        // SAFETY: scratch memory has a row for each split; see `new`.
        unsafe {
            std::ptr::copy_nonoverlapping(sums, into, self.stride);
            into.add(self.stride).write(softmax.max);
            into.add(self.stride + 1).write(softmax.sum);
        }
    }

    /// Combines the splits of one row.
    ///
    /// # Safety
    ///
    /// All of them were kept.
    #[inline(always)]
    unsafe fn combine<E: Engine>(&self, row: usize, room: &mut Room) {
        if row % self.rows >= self.rows_of(row / self.rows) {
            return;
        }
        // SAFETY: the caller's promise.
        unsafe {
            let softmax = |split: usize| {
                let end = self.kept(split, row).add(self.stride);
                Softmax { max: end.read(), sum: end.add(1).read() }
            };
            let max = (0..self.splits).map(|s| softmax(s).max).fold(f32::NEG_INFINITY, f32::max);
            let sums = room.first_row(self.stride);
            sums.fill(0.0);
            let mut total = 0.0;
            for split in 0..self.splits {
                let part = softmax(split);
                if part.max == f32::NEG_INFINITY {
                    continue;
                }
                let weight = (part.max - max).exp2();
                total += weight * part.sum;
                let kept = std::slice::from_raw_parts(self.kept(split, row), self.stride);
                for (sum, kept) in sums.iter_mut().zip(kept) {
                    *sum += weight * kept;
                }
            }
            self.finish::<E>(row / self.rows, row % self.rows, sums.as_ptr(), total);
        }
    }

    /// Writes a row of O; zeros where the row sees no key.
    ///
    /// # Safety
    ///
    /// `sums` has a row of sums, O this row.
    #[inline(always)]
    unsafe fn finish<E: Engine>(&self, unit: usize, row: usize, sums: *const f32, total: f32) {
        let dim_v = self.p.dim_v as usize;
        let share = if total > 0.0 { 1.0 / total } else { 0.0 };
        // SAFETY: the caller's promise.
        unsafe {
            let output = (self.p.o as *mut E::Element).add(self.row_of_all(unit, row) * dim_v);
            for column in 0..dim_v {
                let panel = column / COLUMNS * COLUMNS;
                let sum = *sums.add(panel + E::place(column - panel));
                output.add(column).write(E::output(sum * share));
            }
        }
    }
}
