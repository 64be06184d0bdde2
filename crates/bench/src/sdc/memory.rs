//! Memory that is written with a pattern and read back by the device. A pattern is written by one
//! launch and compared by the next, so that it has left the units' own caches; of memory larger
//! than the last cache it has come from memory.

use super::{hexadecimal, tally::load};
use crate::{Prepared, Workload};
use bytemuck::Zeroable;
use fizeau_device::{Buffer, Device, DeviceError, Function, Launch};
use fizeau_domain::{
    case::MemoryPattern,
    kernel::{
        Operation, PatternParams,
        sdc::{number, word_of},
    },
    outcome::{Check, Integrity, WrongWord},
    stats,
    units::Bytes,
};

/// Memory made ready.
pub(super) struct Memory<'r> {
    device: &'r dyn Device,
    pattern: MemoryPattern,
    rounds: u32,
    function: Function,
    values: Buffer,
    partial: Buffer,
    /// Rounds up to now.
    done: u64,
    /// Words that were compared.
    compared: u64,
}

/// One launch: what is compared, and what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pass {
    checked: Option<u64>,
    written: Option<u64>,
    descending: bool,
}

/// The launches of one round.
fn passes(pattern: MemoryPattern, round: u64) -> Vec<Pass> {
    let pass = |checked, written, descending| Pass { checked, written, descending };
    match pattern {
        MemoryPattern::Walking | MemoryPattern::Address | MemoryPattern::Random => {
            vec![pass(None, Some(round), false), pass(Some(round), None, false)]
        }
        MemoryPattern::Moving => {
            let (word, inverted) = (2 * round, 2 * round + 1);
            vec![
                pass(None, Some(word), false),
                pass(Some(word), Some(inverted), false),
                pass(Some(inverted), Some(word), true),
                pass(Some(word), None, false),
            ]
        }
    }
}

/// Makes a case ready.
pub(super) fn prepare<'r>(
    pattern: MemoryPattern,
    size: Bytes,
    rounds: u32,
    device: &'r dyn Device,
) -> Prepared<'r> {
    let function = load(device, Operation::Pattern)?;
    let units = u64::from(device.properties().units.max(1));
    let (values, partial) = (device.allocate(size)?, device.allocate(Bytes(64 * units))?);
    let (done, compared) = (0, 0);
    Ok(Box::new(Memory { device, pattern, rounds, function, values, partial, done, compared }))
}

impl Memory<'_> {
    fn launch(&self, pass: Pass) -> Result<(), DeviceError> {
        let of = |round: Option<u64>| round.map_or(0, |_| number(self.pattern));
        let params = PatternParams {
            values: self.values.address,
            length: self.values.size.0 / 8,
            partial: self.partial.address,
            checked_round: pass.checked.unwrap_or(0),
            written_round: pass.written.unwrap_or(0),
            checked: of(pass.checked),
            written: of(pass.written),
            descending: u32::from(pass.descending),
            ..PatternParams::zeroed()
        };
        let blocks = self.device.properties().units.max(1);
        let (function, params) = (&self.function, params.into());
        self.device.launch(&Launch { function, blocks, repeat: 1, params })
    }

    /// How many words were wrong, and the first of each block.
    fn wrong(&self) -> Result<(u64, Vec<WrongWord>), DeviceError> {
        let mut places = vec![0u64; self.partial.size.0 as usize / 8];
        self.device.read(&self.partial, Bytes(0), bytemuck::cast_slice_mut(&mut places))?;
        let blocks = places.chunks_exact(8);
        let wrong = blocks.clone().map(|block| block[0]).sum();
        let word = |block: &[u64]| WrongWord {
            of: "memory".into(),
            at: block[1],
            row: None,
            column: None,
            found: hexadecimal(block[2]),
            expected: hexadecimal(word_of(self.pattern, block[3], block[1])),
        };
        let first = blocks.filter(|block| block[0] > 0).map(word);
        Ok((wrong, first.take(Integrity::WORDS_MAX).collect()))
    }
}

impl Workload for Memory<'_> {
    fn enqueue(&mut self, repeat: u32) -> Result<(), DeviceError> {
        for _ in 0..u64::from(repeat) * u64::from(self.rounds) {
            for pass in passes(self.pattern, self.done) {
                self.launch(pass)?;
                let words = self.values.size.0 / 8;
                self.compared += if pass.checked.is_some() { words } else { 0 };
            }
            self.done += 1;
        }
        Ok(())
    }

    /// Every round writes what the one before did not: there is nothing to spoil.
    fn poison(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn verify(&mut self) -> Result<Check, DeviceError> {
        let (wrong, _) = self.wrong()?;
        Ok(Check { compared: self.compared, wrong, ..Check::NONE })
    }

    fn integrity(&mut self) -> Result<Option<Integrity>, DeviceError> {
        let (mismatches, wrong) = self.wrong()?;
        Ok(Some(Integrity {
            unit: "word".into(),
            compared: self.compared,
            mismatches,
            rate_seen: stats::rate_seen(self.compared),
            wrong,
            ..Integrity::default()
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fizeau_device::{Backend, host::Host};

    #[test]
    fn a_bit_that_sticks_is_found_by_every_pattern_with_its_place() {
        let host = Host.open(0).expect("there is always a host");
        for pattern in MemoryPattern::ALL {
            let device = host.as_ref();
            let function = load(device, Operation::Pattern).expect("a kernel of the host");
            let units = u64::from(device.properties().units.max(1));
            let values = device.allocate(Bytes(8 * 1000)).expect("memory");
            let partial = device.allocate(Bytes(64 * units)).expect("memory");
            let (rounds, done, compared) = (1, 0, 0);
            let mut memory =
                Memory { device, pattern, rounds, function, values, partial, done, compared };
            memory.enqueue(130).expect("it runs");
            assert_eq!(memory.verify().map(|check| check.wrong), Ok(0), "{pattern}");
            // The next round with a bit that is turned between the write and the read.
            let round = memory.done;
            for (at, pass) in passes(pattern, round).into_iter().enumerate() {
                if at == 1 {
                    let mut word = [0; 8];
                    memory.device.read(&memory.values, Bytes(8 * 701), &mut word).expect("read");
                    word[3] ^= 4;
                    memory.device.write(&memory.values, Bytes(8 * 701), &word).expect("written");
                }
                memory.launch(pass).expect("it runs");
            }
            let found = memory.integrity().expect("read").expect("what was found");
            assert_eq!((found.mismatches, found.wrong[0].at), (1, 701), "{pattern}");
            let [got, wanted] = [&found.wrong[0].found, &found.wrong[0].expected]
                .map(|digits| u64::from_str_radix(digits, 16).expect("digits"));
            assert_eq!(got ^ wanted, 4 << 24, "{pattern}");
        }
    }
}
