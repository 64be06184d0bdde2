//! The hashes that repeated work left, counted on the device: nothing is read back until the end.

use crate::Unready;
use fizeau_device::{Buffer, Device, DeviceError, Function, Launch};
use fizeau_domain::{
    kernel::{
        HashParams, KeepParams, Operation, Params, TallyParams,
        sdc::{TALLY_ENTRIES, TALLY_ENTRY, TALLY_HEAD, TALLY_WORDS},
    },
    units::Bytes,
};

/// Copies of what was hashed that are kept: of the first hash, and of the first other one.
const KEPT: u64 = 2;

/// A tally on a device.
pub(super) struct Tally<'d> {
    device: &'d dyn Device,
    hash: Function,
    tally: Function,
    keep: Function,
    partial: Buffer,
    counts: Buffer,
    /// By itself: a launch that reads only this changes nothing as long as nothing is fresh.
    fresh: Buffer,
    kept: Buffer,
    /// Words that are hashed each time.
    words: u64,
}

/// A hash, how often it was seen, and when first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub hash: u64,
    pub count: u64,
    pub first: u64,
}

/// What a tally has counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// How often something was hashed.
    pub compared: u64,
    /// The hashes, in the order in which they first came.
    pub entries: Vec<Entry>,
}

/// The kernel of an operation that a device has.
pub(super) fn load(device: &dyn Device, operation: Operation) -> Result<Function, Unready> {
    let names = device.kernels(operation);
    let Some(name) = names.first() else {
        let needs = format!("this device has no kernel of {operation}");
        return Err(Unready::Unsupported(needs));
    };
    Ok(device.load(operation, name)?)
}

impl<'d> Tally<'d> {
    /// Of this many words each time, an even number.
    pub fn new(device: &'d dyn Device, words: u64) -> Result<Tally<'d>, Unready> {
        let units = u64::from(device.properties().units.max(1));
        let tally = Tally {
            device,
            hash: load(device, Operation::Hash)?,
            tally: load(device, Operation::Tally)?,
            keep: load(device, Operation::Keep)?,
            partial: device.allocate(Bytes(64 * units))?,
            counts: device.allocate(Bytes(8 * TALLY_WORDS as u64))?,
            fresh: device.allocate(Bytes(8))?,
            kept: device.allocate(Bytes(KEPT * 8 * words))?,
            words,
        };
        Ok(tally)
    }

    /// Memory that it takes for this many words.
    pub fn memory(words: u64) -> Bytes {
        Bytes(KEPT * 8 * words) + Bytes::MIB
    }

    /// Enqueues that what stands at an address is hashed and counted.
    pub fn enqueue(&self, values: u64) -> Result<(), DeviceError> {
        let units = self.device.properties().units.max(1);
        let (length, partial) = (self.words, self.partial.address);
        let (blocks, tally) = (u64::from(units), self.counts.address);
        let (fresh, kept) = (self.fresh.address, self.kept.address);
        let launch = |function: &Function, blocks: u32, params: Params| {
            self.device.launch(&Launch { function, blocks, repeat: 1, params })
        };
        launch(&self.hash, units, HashParams { values, length, partial }.into())?;
        let entries = TALLY_ENTRIES;
        launch(&self.tally, 1, TallyParams { partial, blocks, tally, entries, fresh }.into())?;
        launch(&self.keep, units, KeepParams { fresh, values, kept, length }.into())
    }

    /// What was counted up to now.
    pub fn read(&self) -> Result<Seen, DeviceError> {
        let mut words = [0u64; TALLY_WORDS];
        self.device.read(&self.counts, Bytes(0), bytemuck::cast_slice_mut(&mut words))?;
        let known = words[1].min(TALLY_ENTRIES) as usize;
        let entries = words[TALLY_HEAD..].chunks_exact(TALLY_ENTRY).take(known);
        let entry = |of: &[u64]| Entry { hash: of[0], count: of[1], first: of[2] };
        Ok(Seen { compared: words[0], entries: entries.map(entry).collect() })
    }

    /// The words that made one of the first two hashes.
    pub fn kept(&self, which: usize) -> Result<Vec<u64>, DeviceError> {
        let mut words = crate::filled(0u64, self.words as usize)?;
        let offset = Bytes(which as u64 * 8 * self.words);
        self.device.read(&self.kept, offset, bytemuck::cast_slice_mut(&mut words))?;
        Ok(words)
    }
}

impl Seen {
    /// The hash that was seen most often: what is right, as long as most were right.
    pub fn most(&self) -> Option<Entry> {
        // Of two that were seen as often, the first.
        self.entries.iter().copied().rev().max_by_key(|entry| entry.count)
    }

    /// How many had another hash than most.
    pub fn others(&self) -> u64 {
        self.compared - self.most().map_or(0, |most| most.count.min(self.compared))
    }

    /// Which of the first two hashes is that of most, and which is another one: the two whose words
    /// were kept.
    pub fn pair(&self) -> Option<[usize; 2]> {
        let most = self.most()?;
        let place = self.entries.iter().position(|entry| entry.hash == most.hash)?;
        match (place, self.entries.len()) {
            (_, 0 | 1) => None,
            (0, _) => Some([0, 1]),
            (1, _) => Some([1, 0]),
            // Both of the kept ones are seldom: neither is right.
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fizeau_device::{Backend, host::Host};
    use fizeau_domain::kernel::sdc::hash_of;

    #[test]
    fn products_are_counted_by_their_hash_and_the_first_two_kept() {
        let device = Host.open(0).expect("there is always a host");
        let device = device.as_ref();
        let words = 100;
        let values = device.allocate(Bytes(8 * words)).expect("memory");
        let tally = Tally::new(device, words).expect("kernels of the host");
        let mut right: Vec<u64> = (0..words).collect();
        let enqueue = |words: &[u64]| {
            device.write(&values, Bytes(0), bytemuck::cast_slice(words)).expect("written");
            tally.enqueue(values.address).expect("counted");
        };
        let mut spoilt = right.clone();
        spoilt[61] ^= 1 << 40;
        enqueue(&spoilt);
        (0..5).for_each(|_| enqueue(&right));
        // More kinds of wrong words than it has room for.
        for place in 0..10 {
            right[place] ^= 1;
            enqueue(&right);
            right[place] ^= 1;
        }
        let seen = tally.read().expect("read");
        assert_eq!((seen.compared, seen.entries.len() as u64), (16, TALLY_ENTRIES));
        assert_eq!(seen.most(), Some(Entry { hash: hash_of(&right, 0), count: 5, first: 1 }));
        assert_eq!((seen.others(), seen.pair()), (11, Some([1, 0])));
        assert_eq!((tally.kept(0), tally.kept(1)), (Ok(spoilt), Ok(right)));
    }
}
