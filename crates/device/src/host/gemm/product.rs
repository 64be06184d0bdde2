//! The loop nest: which thread makes which part of C, and in which blocks.

use super::{
    planted,
    tile::{Into, Tile},
};
use crate::{
    Buffer,
    host::{
        memory,
        pool::{self, Block},
    },
};
use fizeau_domain::{case::Layout, kernel::GemmParams, units::Bytes};
use std::{cell::Cell, mem::size_of, ops::Range, ptr};

/// The part of C that one thread makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub rows: Range<usize>,
    pub columns: Range<usize>,
}

/// `length` things cut into `count` parts of whole granules: the part `index`.
pub(super) fn cut(length: usize, granule: usize, index: usize, count: usize) -> Range<usize> {
    let granules = length.div_ceil(granule);
    let at = |index: usize| (granules * index / count * granule).min(length);
    at(index)..at(index + 1)
}

impl Part {
    /// The part of thread `index` of `count`: threads stand in a grid over C. Each packs what it
    /// reads by itself, so that none ever waits for another; the grid with the least work for its
    /// busiest thread is taken, packing counted.
    pub fn of(m: usize, n: usize, tile: (usize, usize), index: usize, count: usize) -> Part {
        // Packing one word takes about as long as multiplying it this often.
        const PACKING: usize = 16;
        let cost = |down: usize| {
            let rows = m.div_ceil(tile.0).div_ceil(down) * tile.0;
            let columns = n.div_ceil(tile.1).div_ceil(count / down) * tile.1;
            rows * columns + PACKING * (rows + columns)
        };
        let grids = (1..=count).rev().filter(|down| count.is_multiple_of(*down));
        let down = grids.min_by_key(|&down| cost(down)).unwrap_or(1);
        let across = count / down;
        Part {
            rows: cut(m, tile.0, index / across, down),
            columns: cut(n, tile.1, index % across, across),
        }
    }

    fn is_empty(&self) -> bool {
        self.rows.is_empty() || self.columns.is_empty()
    }
}

thread_local! {
    /// Memory of one thread that lives from launch to launch.
    static SCRATCH: Cell<Option<Buffer>> = const { Cell::new(None) };
}

/// This thread's memory for packed operands, given back when dropped.
pub(in crate::host) struct Scratch(Option<Buffer>);

impl Scratch {
    /// Room for this many bytes. Where memory cannot be allocated, that is the launch's error.
    pub fn take(wanted: usize) -> Scratch {
        let wanted = Bytes(wanted as u64);
        let kept = SCRATCH.take().filter(|buffer| buffer.size >= wanted);
        let fresh = || memory::allocate(wanted).unwrap_or_else(|error| pool::give_up(error));
        Scratch(Some(kept.unwrap_or_else(fresh)))
    }

    /// The addresses of areas of `sizes` bytes, each a multiple of 64.
    pub fn areas<const N: usize>(&self, sizes: [usize; N]) -> [usize; N] {
        let mut at = self.0.as_ref().map_or(0, |buffer| buffer.address as usize);
        sizes.map(|size| {
            at += size;
            at - size
        })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        SCRATCH.set(self.0.take());
    }
}

/// `length` cut into as few equal blocks as `limit` allows, of whole granules.
fn blocked(length: usize, limit: usize, granule: usize) -> usize {
    length.div_ceil(length.div_ceil(limit).max(1)).next_multiple_of(granule).max(granule)
}

/// One thread's operands and blocks.
struct Nest<T: Tile> {
    a: *const T::Input,
    b: *const T::Input,
    c: *mut T::Output,
    n: usize,
    k: usize,
    /// Whether B has n rows of k elements, and not k rows of n.
    by_columns: bool,
    part: Part,
    /// Words along k of one block.
    depth: usize,
    height: usize,
    width: usize,
    packed_a: *mut T::Word,
    packed_b: *mut T::Word,
    /// Unfinished sums of a block of columns, where C does not hold sums.
    sums: *mut T::Sum,
}

/// One thread's share of a product.
#[derive(Clone, Copy)]
pub(super) struct Share {
    /// Which thread.
    pub index: usize,
    /// Of how many.
    pub count: usize,
    /// Iterations to run.
    pub repeat: u32,
}

impl Share {
    /// That of a launch's block.
    pub fn of(block: &Block<'_>) -> Share {
        let (index, count) = (block.index as usize, block.count as usize);
        Share { index, count, repeat: block.repeat }
    }
}

/// Runs a product's iterations for one thread.
///
/// # Safety
///
/// The parameters describe operands that live, and the CPU has the tile's instructions.
#[inline(always)]
pub(super) unsafe fn product<T: Tile>(params: &GemmParams, share: Share) {
    let [m, n, k] = [params.m, params.n, params.k].map(|length| length as usize);
    let part = Part::of(m, n, (T::ROWS, T::COLUMNS), share.index, share.count);
    if part.is_empty() {
        return;
    }
    let depth = blocked(k.div_ceil(T::GROUP), T::DEPTH_MAX, 1);
    let height = blocked(part.rows.len(), T::HEIGHT_MAX, T::ROWS);
    let width = blocked(part.columns.len(), T::WIDTH_MAX, T::COLUMNS);
    let word = size_of::<T::Word>();
    let sums = if in_place::<T>() { 0 } else { part.rows.len() * width * size_of::<T::Sum>() };
    let sizes = [height * depth * word + 128, width * (depth + 1) * word, sums]
        .map(|size| size.next_multiple_of(64));
    let scratch = Scratch::take(sizes.iter().sum());
    let [packed_a, packed_b, sums] = scratch.areas(sizes);
    let nest = Nest::<T> {
        a: params.a as *const T::Input,
        b: params.b as *const T::Input,
        c: params.c as *mut T::Output,
        n,
        k,
        by_columns: params.layout == Layout::Nt as u32,
        part,
        depth,
        height,
        width,
        packed_a: packed_a as *mut T::Word,
        packed_b: packed_b as *mut T::Word,
        sums: sums as *mut T::Sum,
    };
    // A plain loop: in a closure the compiler would forget the instruction set.
    for _ in 0..share.repeat {
        // SAFETY: the caller's promise, and scratch of the sizes above.
        unsafe { nest.run() };
    }
}

/// Whether C itself holds unfinished sums: its elements are as wide as they are.
#[inline(always)]
const fn in_place<T: Tile>() -> bool {
    size_of::<T::Sum>() == size_of::<T::Output>()
}

impl<T: Tile> Nest<T> {
    #[inline(always)]
    unsafe fn run(&self) {
        let words = self.k.div_ceil(T::GROUP);
        for left in self.part.columns.clone().step_by(self.width) {
            let columns = left..(left + self.width).min(self.part.columns.end);
            for first in (0..words).step_by(self.depth) {
                let words = first..(first + self.depth).min(words);
                let into = if first == 0 { Into::Replace } else { Into::Add };
                // SAFETY: the ranges lie within the operands.
                unsafe {
                    self.pack_b(&columns, &words);
                    for top in self.part.rows.clone().step_by(self.height) {
                        let rows = top..(top + self.height).min(self.part.rows.end);
                        self.pack_a(&rows, &words);
                        self.block(&rows, &columns, words.len(), into);
                    }
                    if fizeau_domain::CAN_PLANT && first == 0 {
                        self.flip_planted(&columns);
                    }
                }
            }
            if !in_place::<T>() {
                // SAFETY: as above.
                unsafe { self.finish(&columns) };
            }
        }
    }

    /// Panels of [`Tile::ROWS`] rows, word by word along k.
    #[inline(always)]
    unsafe fn pack_a(&self, rows: &Range<usize>, words: &Range<usize>) {
        let (start, end) = (words.start * T::GROUP, (words.end * T::GROUP).min(self.k));
        let mut target = self.packed_a;
        for top in rows.clone().step_by(T::ROWS) {
            // SAFETY: rows and words lie within A and the packed block, which has room for
            // two vectors more.
            unsafe {
                let source = self.a.add(top * self.k + start);
                let whole = (end - start) / T::GROUP;
                let height = (rows.end - top).min(T::ROWS);
                let packed =
                    if height == T::ROWS { T::pack_rows(source, self.k, whole, target) } else { 0 };
                for row in 0..T::ROWS {
                    let cells = target.add(row);
                    for word in packed..words.len() {
                        let from = word * T::GROUP;
                        cells.add(word * T::ROWS).write(T::word_a(|place| {
                            if row < height && start + from + place < end {
                                *source.add(row * self.k + from + place)
                            } else {
                                T::Input::default()
                            }
                        }));
                    }
                }
                target = target.add(T::ROWS * words.len());
            }
        }
    }

    /// Panels of [`Tile::COLUMNS`] columns: what their sums start from, then word by word along k.
    #[inline(always)]
    unsafe fn pack_b(&self, columns: &Range<usize>, words: &Range<usize>) {
        /// Words along k of all panels before the next: rows of B are then read on and on, and
        /// panels written in pieces of some lines.
        const SLAB: usize = 8;
        let panel_words = T::COLUMNS * (words.len() + 1);
        if self.by_columns {
            for (panel, left) in columns.clone().step_by(T::COLUMNS).enumerate() {
                let width = (columns.end - left).min(T::COLUMNS);
                // SAFETY: columns and words lie within B and the packed block.
                unsafe {
                    let panel = self.packed_b.add(panel * panel_words);
                    self.pack_columns(words, left, width, panel.add(T::COLUMNS));
                    self.start_panel(panel, words.len());
                }
            }
            return;
        }
        for first in (0..words.len()).step_by(SLAB) {
            let slab = first..(first + SLAB).min(words.len());
            for (panel, left) in columns.clone().step_by(T::COLUMNS).enumerate() {
                let width = (columns.end - left).min(T::COLUMNS);
                for row in slab.clone() {
                    // SAFETY: columns and words lie within B and the packed block.
                    unsafe {
                        let target =
                            self.packed_b.add(panel * panel_words + (row + 1) * T::COLUMNS);
                        self.pack_row(words.start + row, left, width, target);
                    }
                }
            }
        }
        for panel in 0..columns.len().div_ceil(T::COLUMNS) {
            // SAFETY: as above.
            unsafe { self.start_panel(self.packed_b.add(panel * panel_words), words.len()) };
        }
    }

    /// All words along k of one panel of B that stands column by column.
    #[inline(always)]
    unsafe fn pack_columns(
        &self,
        words: &Range<usize>,
        left: usize,
        width: usize,
        target: *mut T::Word,
    ) {
        let (start, end) = (words.start * T::GROUP, (words.end * T::GROUP).min(self.k));
        // SAFETY: the caller's promise.
        unsafe {
            let source = self.b.add(left * self.k + start);
            let whole = (end - start) / T::GROUP;
            let is_whole = width == T::COLUMNS;
            let packed = if is_whole { T::pack_columns(source, self.k, whole, target) } else { 0 };
            for column in 0..T::COLUMNS {
                let cells = target.add(column);
                for word in packed..words.len() {
                    let from = word * T::GROUP;
                    cells.add(word * T::COLUMNS).write(T::word_b(|place| {
                        if column < width && start + from + place < end {
                            *source.add(column * self.k + from + place)
                        } else {
                            T::Input::default()
                        }
                    }));
                }
            }
        }
    }

    /// One word along k of one panel of B.
    #[inline(always)]
    unsafe fn pack_row(&self, word: usize, left: usize, width: usize, target: *mut T::Word) {
        let rows = (self.k - word * T::GROUP).min(T::GROUP);
        // SAFETY: `width` columns and `rows` rows lie within B.
        unsafe {
            let source = self.b.add(word * T::GROUP * self.n + left);
            if width == T::COLUMNS && size_of::<T::Input>() == size_of::<T::Word>() {
                // One element is one word: a copy, which no loop over elements becomes by itself.
                ptr::copy_nonoverlapping(source.cast::<T::Word>(), target, T::COLUMNS);
                return;
            }
            if width == T::COLUMNS && rows == T::GROUP {
                for column in 0..T::COLUMNS {
                    let source = source.add(column);
                    target.add(column).write(T::word_b(|place| *source.add(place * self.n)));
                }
                return;
            }
            for column in 0..T::COLUMNS {
                target.add(column).write(T::word_b(|place| {
                    if column < width && place < rows {
                        *source.add(column + place * self.n)
                    } else {
                        T::Input::default()
                    }
                }));
            }
        }
    }

    /// Fills the first row of a packed panel.
    #[inline(always)]
    unsafe fn start_panel(&self, panel: *mut T::Word, depth: usize) {
        let starts = panel.cast::<T::Sum>();
        // SAFETY: the panel has `depth` words of each column below its first row; a word is as
        // wide as a sum, and zeroes are zero in every type of sum.
        unsafe {
            starts.write_bytes(0, T::COLUMNS);
            if T::STARTS_AT_ZERO {
                return;
            }
            let mut words = panel.cast_const();
            for _ in 0..depth {
                words = words.add(T::COLUMNS);
                for column in 0..T::COLUMNS {
                    *starts.add(column) = T::start(*starts.add(column), *words.add(column));
                }
            }
        }
    }

    /// One packed block of A times one of B.
    #[inline(always)]
    unsafe fn block(&self, rows: &Range<usize>, columns: &Range<usize>, depth: usize, into: Into) {
        // SAFETY: offsets stay within C and the sums, which have all rows of the part.
        let (sums, stride) = unsafe {
            if in_place::<T>() {
                let start = self.c.cast::<T::Sum>();
                (start.add(rows.start * self.n + columns.start), self.n)
            } else {
                let above = rows.start - self.part.rows.start;
                (self.sums.add(above * self.width), self.width)
            }
        };
        for (panel, left) in (0..columns.len()).step_by(T::COLUMNS).enumerate() {
            for (strip, top) in (0..rows.len()).step_by(T::ROWS).enumerate() {
                // SAFETY: packed blocks have these panels whole.
                unsafe {
                    let a = self.packed_a.add(strip * depth * T::ROWS);
                    let b = self.packed_b.add(panel * (depth + 1) * T::COLUMNS);
                    let c = sums.add(top * stride + left);
                    let height = (rows.len() - top).min(T::ROWS);
                    let width = (columns.len() - left).min(T::COLUMNS);
                    if height == T::ROWS && width == T::COLUMNS {
                        T::multiply(depth, a, b, c, stride, into);
                    } else {
                        edge::<T>(depth, (a, b), c, stride, (height, width), into);
                    }
                }
            }
        }
    }

    /// Flips the bit of an unfinished sum that a test has planted.
    unsafe fn flip_planted(&self, columns: &Range<usize>) {
        let is_its =
            |at: usize| self.part.rows.contains(&(at / self.n)) && columns.contains(&(at % self.n));
        let Some((at, bit)) = planted::take(self.c as u64, is_its) else { return };
        let bit = bit as usize % (8 * size_of::<T::Sum>());
        let (row, column) = (at / self.n, at % self.n);
        // SAFETY: as in `block`; the byte is one of the sum's.
        unsafe {
            let sum = match in_place::<T>() {
                true => self.c.cast::<T::Sum>().add(at),
                false => {
                    let above = row - self.part.rows.start;
                    self.sums.add(above * self.width + column - columns.start)
                }
            };
            *sum.cast::<u8>().add(bit / 8) ^= 1 << (bit % 8);
        }
    }

    /// Rounds finished sums to elements of C.
    #[inline(always)]
    unsafe fn finish(&self, columns: &Range<usize>) {
        for (above, row) in self.part.rows.clone().enumerate() {
            // SAFETY: the row lies within the sums and C.
            unsafe {
                let sums = self.sums.add(above * self.width);
                let target = self.c.add(row * self.n + columns.start);
                for column in 0..columns.len() {
                    target.add(column).write(T::output(*sums.add(column)));
                }
            }
        }
    }
}

/// A tile that reaches beyond C, by way of one that does not.
///
/// # Safety
///
/// As [`Tile::multiply`], with `shape` rows and columns of C.
#[inline(always)]
unsafe fn edge<T: Tile>(
    depth: usize,
    (a, b): (*const T::Word, *const T::Word),
    c: *mut T::Sum,
    stride: usize,
    shape: (usize, usize),
    into: Into,
) {
    /// Room for the largest tile.
    #[repr(align(64))]
    struct Room([std::mem::MaybeUninit<u64>; 512]);
    let mut room = Room([std::mem::MaybeUninit::uninit(); 512]);
    assert!(T::ROWS * T::COLUMNS * size_of::<T::Sum>() <= size_of::<Room>());
    let tile = room.0.as_mut_ptr().cast::<T::Sum>();
    // SAFETY: the room holds a whole tile, all of which `multiply` writes.
    unsafe {
        T::multiply(depth, a, b, tile, T::COLUMNS, Into::Replace);
        for row in 0..shape.0 {
            for column in 0..shape.1 {
                let sum = *tile.add(row * T::COLUMNS + column);
                let cell = c.add(row * stride + column);
                cell.write(if into == Into::Add { *cell + sum } else { sum });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_cover_the_output_once(
            m in 1usize..200, n in 1usize..200, count in 1usize..13,
        ) {
            let mut covered = vec![0; m * n];
            for index in 0..count {
                let part = Part::of(m, n, (12, 32), index, count);
                for row in part.rows {
                    for column in part.columns.clone() {
                        covered[row * n + column] += 1;
                    }
                }
            }
            prop_assert!(covered.iter().all(|&times| times == 1));
        }
    }
}
