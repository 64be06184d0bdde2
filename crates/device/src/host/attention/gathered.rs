//! Sparse latent attention: the walk over the selected rows of a cache, by the engines of bf16.
//!
//! Rows of 656 bytes are widened to keys of bf16, a block at a time, which all heads of a sequence
//! then share. Where there are fewer sequences than threads, the selected rows are split, and the
//! splits' sums are combined by all threads at the end.

use super::{
    engine::{COLUMNS, Engine, Softmax},
    keys::{KEYS, Rows},
    packed::{PADDED, ROWS_MIN},
    room::{self, ROWS, Room},
};
use crate::host::{gemm::Scratch, kernel::HostKernel, pool::Block};
use fizeau_domain::{
    case::{Sparse, SparseDecode},
    kernel::{Operation, SparseDecodeParams},
};
use half::bf16;
use std::ops::Range;

/// Elements of a key and of a value.
const KEY: usize = SparseDecode::KEY as usize;
const LATENT: usize = SparseDecode::LATENT as usize;

/// Bytes of a row of the cache.
const ROW: usize = SparseDecode::ROW as usize;

/// Elements of a latent that share a scale, and how many scales a row has.
pub(super) const SCALED: usize = SparseDecode::SCALED as usize;
pub(super) const SCALES: usize = LATENT / SCALED;

/// Fewest rows of a split: combining costs less than widening them.
const SPLIT_MIN: usize = 256;

/// Words of a head's sums of one split, and a cache line for its softmax.
const SUMS: usize = LATENT;
const KEPT: usize = SUMS + 16;

const _: () = assert!(SUMS.is_multiple_of(COLUMNS));

/// Widens a row of the cache to a key, and prefetches another row.
///
/// # Safety
///
/// The row can be read, the key written; the CPU has the instructions.
pub(super) type Widen = unsafe fn(row: *const u8, ahead: *const u8, key: *mut bf16);

/// The kernel of an engine, whose instructions the CPU has, as it has those of `widen`.
pub(super) fn kernel<E: Engine<Element = bf16> + 'static>(
    name: &'static str,
    widen: Widen,
) -> HostKernel {
    let run = move |block: &Block<'_>| {
        // SAFETY: whoever launches passes operands that live; the CPU is asked before this kernel
        // is listed.
        unsafe { decode::<E>(block, widen) }
    };
    HostKernel::new(Operation::Sparse(Sparse::Decode), name, &[], run)
}

/// Where the parts of a row of the cache begin: its scales, and its elements of RoPE.
pub(super) fn parts(row: *const u8) -> (*const f32, *const bf16) {
    let scales = row.wrapping_add(LATENT);
    (scales.cast(), scales.wrapping_add(SCALES * size_of::<f32>()).cast())
}

/// 2^120: by so much the bits of an 8-bit float, as those of an `f32`, are too small.
const OF_CODE: f32 = f32::from_bits((127 + 120) << 23);

/// A row by plain Rust.
///
/// # Safety
///
/// As for [`Widen`].
pub(super) unsafe fn widen(row: *const u8, _ahead: *const u8, key: *mut bf16) {
    let (scales, rope) = parts(row);
    // SAFETY: the caller's promise; rows begin at multiples of 16 bytes.
    unsafe {
        for block in 0..SCALES {
            let scale = scales.add(block).read();
            for at in block * SCALED..(block + 1) * SCALED {
                let code = u32::from(row.add(at).read());
                let value = f32::from_bits((code & 0x80) << 24 | (code & 0x7f) << 20);
                key.add(at).write(bf16::from_f32(value * OF_CODE * scale));
            }
        }
        key.add(LATENT).copy_from_nonoverlapping(rope, KEY - LATENT);
    }
}

/// Sparse decode, `block.repeat` times.
///
/// # Safety
///
/// The parameters' addresses are of operands that live, in the layouts of [`SparseDecodeParams`].
unsafe fn decode<E: Engine<Element = bf16>>(block: &Block<'_>, widen: Widen) {
    let (index, count) = (block.index as usize, block.count as usize);
    let mut walk = Walk::new(block.params(), count, widen);
    let bytes = walk.splits * walk.heads() * KEPT * size_of::<f32>();
    let scratch = (walk.splits > 1 && index == 0).then(|| Scratch::take(bytes));
    if walk.splits > 1 {
        let [kept] = scratch.as_ref().map_or([0], |scratch| scratch.areas([bytes]));
        walk.kept = block.from_first(kept) as *mut f32;
    }
    let mut room = Room::new(SUMS, KEY.next_multiple_of(PADDED));
    let mut keys = room::lines(KEYS * KEY / 2);
    for _ in 0..block.repeat {
        for task in (index..walk.tasks() * walk.splits).step_by(count) {
            // SAFETY: the caller's promise; there is room for a block of keys.
            unsafe { walk.perform::<E>(task, &mut room, keys.as_mut_ptr().cast()) };
        }
        block.synchronise();
        if walk.splits > 1 {
            for head in block.part(walk.heads(), 1) {
                // SAFETY: all splits are there; no other thread has this head.
                unsafe { walk.combine::<E>(head, &mut room) };
            }
            block.synchronise();
        }
    }
}

/// The parameters, with what follows from them.
struct Walk<'p> {
    p: &'p SparseDecodeParams,
    widen: Widen,
    /// Blocks of heads of a sequence.
    blocks: usize,
    splits: usize,
    /// Rows of a split.
    split: usize,
    /// Sums and softmax of each head of each split.
    kept: *mut f32,
}

impl<'p> Walk<'p> {
    fn new(p: &'p SparseDecodeParams, threads: usize, widen: Widen) -> Walk<'p> {
        let blocks = (p.heads as usize).div_ceil(ROWS);
        let (tasks, selected) = (p.batch as usize * blocks, p.selected as usize);
        let is_even = tasks >= 4 * threads || tasks.is_multiple_of(threads);
        let wanted = if is_even { 1 } else { threads.min(selected / SPLIT_MIN).max(1) };
        let split = selected.div_ceil(wanted).next_multiple_of(KEYS);
        let splits = selected.div_ceil(split);
        Walk { p, widen, blocks, splits, split, kept: std::ptr::null_mut() }
    }

    /// Blocks of heads of all sequences.
    fn tasks(&self) -> usize {
        self.p.batch as usize * self.blocks
    }

    /// Heads of all sequences.
    fn heads(&self) -> usize {
        self.p.batch as usize * self.p.heads as usize
    }

    /// The selected row of number `at` of a sequence.
    ///
    /// # Safety
    ///
    /// There is one.
    unsafe fn row(&self, sequence: usize, at: usize) -> *const u8 {
        let indices = self.p.indices as *const u32;
        // SAFETY: the caller's promise.
        let row = unsafe { indices.add(sequence * self.p.selected as usize + at).read() };
        (self.p.cache as *const u8).wrapping_add(row as usize * ROW)
    }

    /// A block of heads over one split of the selected rows; `keys` has room for a block of them.
    ///
    /// # Safety
    ///
    /// As [`decode`].
    unsafe fn perform<E: Engine<Element = bf16>>(
        &self,
        task: usize,
        room: &mut Room,
        keys: *mut bf16,
    ) {
        let (of_block, split) = (task / self.splits, task % self.splits);
        let (sequence, first) = (of_block / self.blocks, of_block % self.blocks * ROWS);
        let rows = ROWS.min(self.p.heads as usize - first);
        let head = sequence * self.p.heads as usize + first;
        let Range { start, end } =
            split * self.split..(self.p.selected as usize).min((split + 1) * self.split);
        // SAFETY: the caller's promise: these rows are within the operands.
        unsafe {
            let query = |row: usize| (self.p.queries as *const bf16).add((head + row) * KEY);
            room.clear();
            let packed = E::PACKED.filter(|_| rows >= ROWS_MIN);
            let depth = |group: usize| KEY.div_ceil(group).next_multiple_of(PADDED);
            if let Some(packed) = &packed {
                room.pack_queries(packed, rows, query, KEY, depth(packed.group));
            }
            for from in (start..end).step_by(KEYS) {
                let count = KEYS.min(end - from);
                for at in 0..count {
                    let ahead = self.row(sequence, (from + KEYS + at).min(end - 1));
                    (self.widen)(self.row(sequence, from + at), ahead, keys.add(at * KEY));
                }
                let part = |length| {
                    let (start, stride) = (keys.cast_const(), KEY);
                    Rows { start, stride, count, length, ahead: start, ahead_stride: stride }
                };
                let (keys, values) = (part(KEY), part(LATENT));
                let seen = |_| 0..count;
                if let Some(packed) = &packed {
                    let depth = depth(packed.group);
                    room.score_packed::<E>(packed, rows, &keys, depth, self.factor(), seen);
                    room.accumulate_packed(packed, rows, &values, SUMS);
                } else {
                    room.score::<E>(rows, query, keys, self.factor(), seen);
                    room.accumulate::<E>(rows, values, SUMS);
                }
            }
            for row in 0..rows {
                let (sums, softmax) = room.row(row, SUMS);
                if self.splits == 1 {
                    self.finish::<E>(head + row, sums, softmax.sum);
                } else {
                    let into = self.kept(split, head + row);
                    into.copy_from_nonoverlapping(sums, SUMS);
                    into.add(SUMS).write(softmax.max);
                    into.add(SUMS + 1).write(softmax.sum);
                }
            }
        }
    }

    /// From a dot product to the base-2 logarithm of a weight.
    fn factor(&self) -> f32 {
        self.p.scale * std::f32::consts::LOG2_E
    }

    /// Where a head's sums of a split are kept.
    fn kept(&self, split: usize, head: usize) -> *mut f32 {
        self.kept.wrapping_add((split * self.heads() + head) * KEPT)
    }

    /// Combines the splits of one head.
    ///
    /// # Safety
    ///
    /// All of them were kept.
    unsafe fn combine<E: Engine<Element = bf16>>(&self, head: usize, room: &mut Room) {
        // SAFETY: the caller's promise.
        unsafe {
            let softmax = |split: usize| {
                let end = self.kept(split, head).add(SUMS);
                Softmax { max: end.read(), sum: end.add(1).read() }
            };
            let max = (0..self.splits).map(|s| softmax(s).max).fold(f32::NEG_INFINITY, f32::max);
            let sums = room.first_row(SUMS);
            sums.fill(0.0);
            let mut total = 0.0;
            for split in 0..self.splits {
                let part = softmax(split);
                let weight = (part.max - max).exp2();
                total += weight * part.sum;
                let kept = std::slice::from_raw_parts(self.kept(split, head), SUMS);
                for (sum, kept) in sums.iter_mut().zip(kept) {
                    *sum += weight * kept;
                }
            }
            self.finish::<E>(head, sums.as_ptr(), total);
        }
    }

    /// Writes the output of a head.
    ///
    /// # Safety
    ///
    /// `sums` has a row of sums.
    unsafe fn finish<E: Engine<Element = bf16>>(&self, head: usize, sums: *const f32, total: f32) {
        let share = 1.0 / total;
        // SAFETY: the caller's promise; the output has this head.
        unsafe {
            let output = (self.p.output as *mut bf16).add(head * LATENT);
            for column in 0..LATENT {
                let panel = column / COLUMNS * COLUMNS;
                let sum = *sums.add(panel + E::place(column - panel));
                output.add(column).write(E::output(sum * share));
            }
        }
    }
}

/// What widens a row, against plain Rust, for every code.
#[cfg(test)]
pub(super) fn check_widen(of: Widen) {
    let mut row = [0u64; ROW / 8];
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut row);
    // Codes that are numbers, in another order for each scale.
    for (at, byte) in bytes[..LATENT].iter_mut().enumerate() {
        let code = (at * 77 + at / SCALED * 5) as u8;
        *byte = if code & 0x7f == 0x7f { 0x35 } else { code };
    }
    for (at, scale) in [0.37f32, 1.0, 3e-3, 117.0].into_iter().enumerate() {
        bytes[LATENT + 4 * at..][..4].copy_from_slice(&scale.to_le_bytes());
    }
    for (at, byte) in bytes[LATENT + 4 * SCALES..].iter_mut().enumerate() {
        *byte = (at * 31) as u8;
    }
    let [mut wanted, mut got] = [[bf16::ZERO; KEY]; 2];
    let row = row.as_ptr().cast::<u8>();
    // SAFETY: rows and keys are whole; the caller has the instructions.
    unsafe {
        widen(row, row, wanted.as_mut_ptr());
        of(row, row, got.as_mut_ptr());
    }
    assert_eq!(wanted.map(bf16::to_bits), got.map(bf16::to_bits));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_what_they_stand_for() {
        let mut row = [0u8; ROW];
        // 1, -448, 2^-9 (the least), 1.125.
        row[..4].copy_from_slice(&[0x38, 0xfe, 0x01, 0x39]);
        for block in 0..SCALES {
            row[LATENT + 4 * block..][..4].copy_from_slice(&2f32.to_le_bytes());
        }
        let aligned: Vec<u32> =
            row.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect();
        let mut key = [bf16::ZERO; KEY];
        // SAFETY: the row and the key are whole.
        unsafe { widen(aligned.as_ptr().cast(), aligned.as_ptr().cast(), key.as_mut_ptr()) };
        assert_eq!(key[..4], [2.0, -896.0, 2f64.powi(-8), 2.25].map(bf16::from_f64));
    }
}
