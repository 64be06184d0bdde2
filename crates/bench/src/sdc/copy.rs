//! Copies from the host to the device, back to other host memory, and from there to the device
//! again: what arrives is hashed on the device both times. Two contents take turns, so that a copy
//! that is not made leaves the wrong one.

use super::{first_differences, hexadecimal, tally::Tally};
use crate::{Prepared, Workload};
use fizeau_device::{Buffer, Device, DeviceError, Elsewhere, Function, HostNode, Launch};
use fizeau_domain::{
    case::{HostMemory, KernelName},
    kernel::{Operation, TransferParams, sdc},
    outcome::{Check, Integrity},
    stats,
    units::Bytes,
};

/// Contents that take turns.
const CONTENTS: u64 = 2;

/// Copies made ready.
pub(super) struct Copies<'r> {
    device: &'r dyn Device,
    rounds: u32,
    function: Function,
    size: Bytes,
    /// Of each of the contents: where they stand on the host, their hash, and what was seen of
    /// them.
    contents: Vec<(Buffer, u64, Tally<'r>)>,
    /// On the device, on the host, on the device.
    ways: [Buffer; 3],
    done: u64,
}

/// What stands at a place of some contents.
fn word(contents: u64, at: u64) -> u64 {
    sdc::hashed(contents, at)
}

/// Makes a case ready.
pub(super) fn prepare<'r>(
    size: Bytes,
    rounds: u32,
    kernel: &KernelName,
    device: &'r dyn Device,
) -> Prepared<'r> {
    let function = device.load(Operation::Copy, kernel)?;
    let (kind, on) = (HostMemory::Pinned, HostNode::Near(device.properties().ordinal));
    let host = || device.allocate_at(Elsewhere::Host { kind, on }, size);
    let mut contents = Vec::new();
    for number in 0..CONTENTS {
        let words = size.0 / 8;
        let all = crate::collected(words as usize, (0..words).map(|at| word(number, at)))?;
        let buffer = host()?;
        device.write(&buffer, Bytes(0), bytemuck::cast_slice(&all))?;
        contents.push((buffer, sdc::hash_of(&all, 0), Tally::new(device, words)?));
    }
    let ways = [device.allocate(size)?, host()?, device.allocate(size)?];
    Ok(Box::new(Copies { device, rounds, function, size, contents, ways, done: 0 }))
}

impl Workload for Copies<'_> {
    fn enqueue(&mut self, repeat: u32) -> Result<(), DeviceError> {
        let device = self.device.properties().ordinal;
        let blocks = self.device.properties().units.max(1);
        for _ in 0..u64::from(repeat) * u64::from(self.rounds) {
            let (source, _, tally) = &self.contents[(self.done % CONTENTS) as usize];
            let mut from = source.address;
            for (way, to) in self.ways.iter().enumerate() {
                let (to, length) = (to.address, self.size.0);
                let params = TransferParams { to, from, length, device, lane: 0 }.into();
                let function = &self.function;
                self.device.launch(&Launch { function, blocks, repeat: 1, params })?;
                // The one on the host is looked at once it is back.
                if way != 1 {
                    tally.enqueue(to)?;
                }
                from = to;
            }
            self.done += 1;
        }
        Ok(())
    }

    /// Contents take turns: there is nothing to spoil.
    fn poison(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn verify(&mut self) -> Result<Check, DeviceError> {
        let integrity = self.integrity()?.unwrap_or_default();
        let (compared, wrong) = (integrity.compared, integrity.mismatches);
        Ok(Check { compared, wrong, ..Check::NONE })
    }

    fn integrity(&mut self) -> Result<Option<Integrity>, DeviceError> {
        let mut integrity = Integrity { unit: "copy".into(), ..Integrity::default() };
        let mut hash = 0u64;
        for (number, (_, expected, tally)) in self.contents.iter().enumerate() {
            let seen = tally.read()?;
            let right = seen.entries.iter().find(|entry| entry.hash == *expected);
            let wrong = seen.compared - right.map_or(0, |entry| entry.count.min(seen.compared));
            integrity.compared += seen.compared;
            integrity.mismatches += wrong;
            hash = hash.wrapping_add(*expected);
            let other = seen.entries.iter().take(2).position(|entry| entry.hash != *expected);
            if let (Some(other), true) = (other, integrity.wrong.is_empty()) {
                let words = self.size.0 / 8;
                let right: Vec<u64> = (0..words).map(|at| word(number as u64, at)).collect();
                integrity.wrong = first_differences("copy", &tally.kept(other)?, &right, None);
            }
        }
        integrity.rate_seen = stats::rate_seen(integrity.compared);
        integrity.hash = Some(hexadecimal(hash));
        Ok(Some(integrity))
    }
}
