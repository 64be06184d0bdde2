//! Which keys of which sequence each worker of a split decode takes.
//!
//! The keys of all sequences and heads are laid on one line, in blocks, and the line is cut into
//! equal pieces, one for each worker (FlashMLA's scheme without its allowance for a request's
//! start): loads differ by a block at most, however ragged the batch is. What stood together and
//! was cut is combined by whichever worker is the last to finish. Keys before the first that a
//! part's rows see are not on the line.
//!
//! A worker is a block, or a cluster of blocks: then a part has as many sets of rows as the cluster
//! has blocks, and each block takes one of them through the part's keys.

use fizeau_domain::{
    case::{Mask, Sequence},
    kernel::AttentionPart,
};

/// Keys of a block: pieces are cut at multiples of it, counted from the first key that is seen.
pub const BLOCK: u32 = 64;

/// Blocks of a piece at least, but for what is left over: less is not worth a combination.
const BLOCKS_MIN: u64 = 2;

/// The parts of all workers.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Those of a worker one after the other.
    pub parts: Vec<AttentionPart>,
    /// Of each worker its first part, and the number of parts.
    pub firsts: Vec<u32>,
    /// Parts that are not alone, each counted for every set of rows that it has.
    pub slots: u32,
}

/// Who follows a schedule.
#[derive(Clone, Copy, Debug)]
pub struct Workers {
    /// How many there are.
    pub count: u32,
    /// Blocks of each: sets of [`AttentionPart::ROWS`] rows of a part.
    pub blocks: u32,
}

impl Workers {
    /// A worker for each of the device's units, or for each cluster of `cluster` of them.
    pub fn of(units: u32, cluster: u32) -> Workers {
        Workers { count: (units / cluster).max(1), blocks: cluster }
    }
}

impl Schedule {
    /// Deals the keys of every sequence, head of K and V and rows of a part to workers. `group`
    /// query heads share a head of K and V.
    pub fn new(
        mask: Mask,
        sequences: &[Sequence],
        kv_heads: u32,
        group: u32,
        workers: Workers,
    ) -> Schedule {
        let rows = AttentionPart::ROWS * workers.blocks;
        let tasks: Vec<AttentionPart> = tasks(mask, sequences, kv_heads, group, rows);
        let keys = |task: &AttentionPart| task.key_end - task.key_first;
        let blocks = |task: &AttentionPart| u64::from(keys(task).div_ceil(BLOCK));
        let total: u64 = tasks.iter().map(blocks).sum();
        let used = u64::from(workers.count.max(1)).min(total.div_ceil(BLOCKS_MIN)).max(1);
        let mut schedule = Schedule { parts: Vec::new(), firsts: vec![0], slots: 0 };
        let mut start = 0;
        for task in &tasks {
            let end = start + blocks(task);
            let first = schedule.parts.len();
            let mut from = start;
            loop {
                // The worker whose piece of the line this is.
                while (schedule.firsts.len() as u64) < used && schedule.cut(total, used) <= from {
                    schedule.firsts.push(schedule.parts.len() as u32);
                }
                let to = end.min(schedule.cut(total, used));
                let key =
                    |block: u64| task.key_first + ((block - start) as u32 * BLOCK).min(keys(task));
                schedule.parts.push(AttentionPart {
                    key_first: key(from),
                    key_end: key(to),
                    ..*task
                });
                from = to;
                if from >= end {
                    break;
                }
            }
            let rows_left = sequences[task.sequence as usize].queries * group - task.row_first;
            schedule.number(first, rows_left.div_ceil(AttentionPart::ROWS).min(workers.blocks));
            start = end;
        }
        schedule.firsts.resize(workers.count.max(1) as usize + 1, schedule.parts.len() as u32);
        schedule
    }

    /// Where the piece of the latest worker ends.
    fn cut(&self, total: u64, used: u64) -> u64 {
        total * self.firsts.len() as u64 / used
    }

    /// Gives the parts of a task their slots, where there are several: first those of the first of
    /// the `sets` sets of rows, then those of the next, which the parts do not name.
    fn number(&mut self, first: usize, sets: u32) {
        let parts = &mut self.parts[first..];
        let (slots, slot_first) = (parts.len() as u32, self.slots);
        if slots == 1 {
            return;
        }
        for (part, slot) in parts.iter_mut().zip(slot_first..) {
            *part = AttentionPart { slot, slot_first, slots, ..*part };
        }
        self.slots += slots * sets;
    }
}

/// Every sequence, head and `rows` rows, with all keys from the first that its rows see.
fn tasks(
    mask: Mask,
    sequences: &[Sequence],
    kv_heads: u32,
    group: u32,
    rows: u32,
) -> Vec<AttentionPart> {
    let mut tasks = Vec::new();
    for (number, sequence) in (0..).zip(sequences) {
        for kv_head in 0..kv_heads {
            for row_first in (0..sequence.queries * group).step_by(rows as usize) {
                tasks.push(AttentionPart {
                    sequence: number,
                    kv_head,
                    row_first,
                    key_first: mask.seen(sequence, row_first / group).start,
                    key_end: sequence.keys,
                    slot: 0,
                    slot_first: 0,
                    slots: 1,
                });
            }
        }
    }
    tasks
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn full(sequences: &[Sequence], kv_heads: u32, group: u32, workers: u32) -> Schedule {
        Schedule::new(Mask::Full, sequences, kv_heads, group, Workers::of(workers, 1))
    }

    fn sequences(keys: &[u32], queries: u32) -> Vec<Sequence> {
        let of = |&keys: &u32| Sequence { query_first: 0, queries, key_first: 0, keys };
        keys.iter().map(of).collect()
    }

    fn blocks(part: &AttentionPart) -> u32 {
        (part.key_end - part.key_first).div_ceil(BLOCK)
    }

    /// What each worker has to read, in blocks.
    fn loads(schedule: &Schedule) -> Vec<u32> {
        let parts = |edges: &[u32]| &schedule.parts[edges[0] as usize..edges[1] as usize];
        schedule.firsts.windows(2).map(|edges| parts(edges).iter().map(blocks).sum()).collect()
    }

    proptest! {
        #[test]
        fn every_key_comes_once(
            keys in prop::collection::vec(0u32..3000, 1..20),
            kv_heads in 1u32..4, group in 1u32..200, queries in 1u32..3, workers in 1u32..200,
            cluster in 1u32..3,
            mask in prop_oneof![
                Just(Mask::Full),
                Just(Mask::Causal),
                (1u32..1500).prop_map(Mask::Window),
                (1u32..1500).prop_map(Mask::Chunk),
            ],
        ) {
            let sequences = sequences(&keys, queries);
            let workers = Workers::of(workers, cluster);
            let schedule = Schedule::new(mask, &sequences, kv_heads, group, workers);
            prop_assert_eq!(schedule.firsts.len(), workers.count as usize + 1);
            prop_assert!(schedule.firsts.is_sorted());
            prop_assert_eq!(*schedule.firsts.last().expect("one") as usize, schedule.parts.len());
            let mut tasks: BTreeMap<_, Vec<&AttentionPart>> = BTreeMap::new();
            for part in &schedule.parts {
                let task = (part.sequence, part.kv_head, part.row_first);
                tasks.entry(task).or_default().push(part);
            }
            let row_sets = (queries * group).div_ceil(AttentionPart::ROWS * cluster);
            prop_assert_eq!(tasks.len() as u32, keys.len() as u32 * kv_heads * row_sets);
            let mut slots = 0;
            for ((sequence, _, row), parts) in &tasks {
                // In order, without gaps, from the first key seen to the last, by whole blocks.
                let first = mask.seen(&sequences[*sequence as usize], row / group).start;
                prop_assert_eq!(parts[0].key_first, first);
                prop_assert_eq!(parts[parts.len() - 1].key_end, keys[*sequence as usize]);
                for pair in parts.windows(2) {
                    prop_assert_eq!(pair[0].key_end, pair[1].key_first);
                    prop_assert_eq!((pair[1].key_first - first) % BLOCK, 0);
                    prop_assert_eq!(pair[0].slot + 1, pair[1].slot);
                }
                for part in parts {
                    prop_assert_eq!(part.slots as usize, parts.len());
                    prop_assert_eq!(part.slot_first, parts[0].slot);
                }
                if parts.len() > 1 {
                    prop_assert_eq!(parts[0].slot, slots);
                    let sets = (queries * group - row).div_ceil(AttentionPart::ROWS).min(cluster);
                    slots += parts.len() as u32 * sets;
                }
            }
            prop_assert_eq!(slots, schedule.slots);
        }

        /// On batches that give each worker 20 blocks or more, nobody has 5 % more than the mean.
        #[test]
        fn loads_are_within_a_block_of_even(
            keys in prop::collection::vec(1u32..40_000, 1..64), kv_heads in 1u32..9,
            workers in 1u32..300,
        ) {
            let schedule = full(&sequences(&keys, 1), kv_heads, 8, workers);
            let loads = loads(&schedule);
            let mean = f64::from(loads.iter().sum::<u32>()) / f64::from(workers);
            let most = f64::from(*loads.iter().max().expect("a worker"));
            prop_assert!(most <= mean.max(2.0) + 1.0, "{most} of {mean}");
            if mean >= 20.0 {
                prop_assert!(most <= 1.05 * mean, "{most} of {mean}");
            }
        }
    }

    #[test]
    fn what_needs_no_split_is_not_split() {
        let schedule = full(&sequences(&[64; 8], 1), 1, 8, 4);
        assert_eq!((schedule.slots, schedule.parts.len()), (0, 8));
        assert_eq!(loads(&schedule), [2, 2, 2, 2]);
    }

    #[test]
    fn a_long_sequence_is_shared_by_all() {
        let schedule = full(&sequences(&[131_072], 1), 8, 4, 132);
        let loads = loads(&schedule);
        assert!(loads.iter().all(|&load| (124..=125).contains(&load)), "{loads:?}");
    }
}
