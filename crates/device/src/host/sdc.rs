//! Kernels of `sdc/*`: a hash of memory, a tally of the hashes that were seen, and patterns that
//! are written and read back. `kernels/sdc/portable.cu` has the same for GPUs.

#![expect(unsafe_code, reason = "memory is reached through addresses")]

use super::{kernel::HostKernel, pool::Block};
use fizeau_domain::{
    case::MemoryPattern,
    kernel::{
        HashParams, KeepParams, Operation, PatternParams, TallyParams,
        sdc::{self, TALLY_ENTRY, TALLY_HEAD},
    },
};
use std::{hint::black_box, slice};

/// Words from one block's place to the next.
const PLACE: usize = 8;

/// All of them: the same on every CPU.
pub(super) fn kernels() -> Vec<HostKernel> {
    let kernel = |operation, run: fn(&Block<'_>)| {
        let repeated = move |block: &Block<'_>| (0..block.repeat).for_each(|_| run(block));
        HostKernel::new(operation, "portable", &[], repeated)
    };
    vec![
        kernel(Operation::Hash, hash),
        kernel(Operation::Tally, tally),
        kernel(Operation::Keep, keep),
        kernel(Operation::Pattern, pattern),
    ]
}

/// Words of memory.
///
/// # Safety
///
/// There are `length` at the address, and nobody writes to them meanwhile.
unsafe fn words<'w>(address: u64, length: u64) -> &'w [u64] {
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(address as *const u64, length as usize) }
}

/// The same to be written.
///
/// # Safety
///
/// There are `length` at the address, and nobody else reaches them meanwhile.
unsafe fn words_mut<'w>(address: u64, length: u64) -> &'w mut [u64] {
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts_mut(address as *mut u64, length as usize) }
}

fn hash(block: &Block<'_>) {
    let params: &HashParams = block.params();
    let part = block.part(params.length as usize, PLACE);
    let first = part.start as u64;
    // SAFETY: whoever launches passes `length` words, and a place for each block.
    unsafe {
        let values = words(params.values, params.length);
        let sum = sdc::hash_of(&values[part], first);
        words_mut(params.partial + 64 * u64::from(block.index), 1)[0] = sum;
    }
}

fn tally(block: &Block<'_>) {
    if block.index != 0 {
        return;
    }
    let params: &TallyParams = block.params();
    let places = params.blocks * PLACE as u64;
    // SAFETY: whoever launches passes a place for each block, a whole tally and a word.
    let (partial, tally, fresh) = unsafe {
        let tally = TALLY_HEAD as u64 + TALLY_ENTRY as u64 * params.entries;
        (words(params.partial, places), words_mut(params.tally, tally), words_mut(params.fresh, 1))
    };
    let hash = partial.chunks(PLACE).fold(0u64, |sum, place| sum.wrapping_add(place[0]));
    let (head, entries) = tally.split_at_mut(TALLY_HEAD);
    let before = head[0];
    head[0] += 1;
    let known = head[1] as usize;
    let mut all = entries.chunks_mut(TALLY_ENTRY);
    if let Some(entry) = all.by_ref().take(known).find(|entry| entry[0] == hash) {
        (entry[1], fresh[0]) = (entry[1] + 1, 0);
        return;
    }
    match all.next() {
        Some(entry) => {
            entry[..3].copy_from_slice(&[hash, 1, before]);
            head[1] += 1;
            fresh[0] = if known < 2 { head[1] } else { 0 };
        }
        None => (head[2], fresh[0]) = (head[2] + 1, 0),
    }
}

fn keep(block: &Block<'_>) {
    let params: &KeepParams = block.params();
    let part = block.part(params.length as usize, PLACE);
    // SAFETY: whoever launches passes `length` words, a word, and room for two copies; blocks write
    // parts of their own.
    unsafe {
        let fresh = words(params.fresh, 1)[0];
        if fresh == 0 {
            return;
        }
        let values = &words(params.values, params.length)[part.clone()];
        let start = (fresh - 1) * params.length + part.start as u64;
        words_mut(params.kept + 8 * start, part.len() as u64).copy_from_slice(values);
    }
}

/// The pattern of a number; none of 0.
fn pattern_of(number: u32) -> Option<MemoryPattern> {
    MemoryPattern::ALL.into_iter().find(|&pattern| sdc::number(pattern) == number)
}

fn pattern(block: &Block<'_>) {
    let params: &PatternParams = block.params();
    let part = block.part(params.length as usize, PLACE);
    let (checked, written) = (pattern_of(params.checked), pattern_of(params.written));
    // SAFETY: whoever launches passes `length` words and a place for each block; blocks work on
    // parts of their own.
    let (values, left) = unsafe {
        let start = params.values + 8 * part.start as u64;
        let place = params.partial + 64 * u64::from(block.index);
        (words_mut(start, part.len() as u64), words_mut(place, PLACE as u64))
    };
    let mut step = |at: usize| {
        let (place, word) = ((part.start + at) as u64, &mut values[at]);
        // Not from a register: what is compared was in memory.
        let found = *black_box(&mut *word);
        if let Some(pattern) = checked
            && found != sdc::word_of(pattern, params.checked_round, place)
        {
            if left[0] == 0 {
                left[1..4].copy_from_slice(&[place, found, params.checked_round]);
            }
            left[0] += 1;
        }
        if let Some(pattern) = written {
            *word = sdc::word_of(pattern, params.written_round, place);
        }
    };
    let count = part.len();
    match params.descending {
        0 => (0..count).for_each(&mut step),
        _ => (0..count).rev().for_each(&mut step),
    }
}
