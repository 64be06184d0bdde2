//! Workloads of ranks in processes of their own, or with a GPU each, that measure the same case at
//! the same time: what one of them finds, all of them act upon. A rank that went on alone would
//! wait for the others without end.

use super::{Prepared, Rank, Unready, Workload};
use fizeau_device::DeviceError;
use fizeau_domain::outcome::Check;

/// A case that each rank works on alone, ready on every rank or on none.
pub fn beside_each_other<'r>(ready: Prepared<'r>, rank: Rank<'r>) -> Prepared<'r> {
    let workload = settled(ready, rank)?;
    Ok(Box::new(Beside { workload, rank }))
}

/// One rank's part of it.
struct Beside<'r> {
    workload: Box<dyn Workload + 'r>,
    rank: Rank<'r>,
}

impl Workload for Beside<'_> {
    fn enqueue(&mut self, repeat: u32) -> Result<(), DeviceError> {
        self.workload.enqueue(repeat)
    }
    fn granule(&self) -> u32 {
        self.workload.granule()
    }
    fn copies(&self) -> u32 {
        self.workload.copies()
    }
    fn take_turns(&mut self, on: bool) {
        self.workload.take_turns(on);
    }
    fn candidates(&self) -> Result<Vec<String>, DeviceError> {
        self.workload.candidates()
    }
    fn choose(&mut self, candidate: usize) -> Result<(), DeviceError> {
        self.workload.choose(candidate)
    }
    fn poison(&mut self) -> Result<(), DeviceError> {
        self.workload.poison().inspect_err(|error| self.rank.peers.failed(error))
    }
    fn verify(&mut self) -> Result<Check, DeviceError> {
        let found = self.workload.verify();
        agreed(found.inspect_err(|error| self.rank.peers.failed(error))?, self.rank)
    }
}

/// A workload that is ready in every process, or in none: those that are ready would wait in the
/// collective for the others without end.
pub fn settled<T>(ready: Result<T, Unready>, rank: Rank<'_>) -> Result<T, Unready> {
    let mine = ready.as_ref().err().map(ToString::to_string).unwrap_or_default();
    let all = rank.peers.all_gather_bytes(mine.as_bytes())?;
    match all.iter().enumerate().find(|(_, why)| !why.is_empty()) {
        Some((process, why)) if ready.is_ok() => {
            let why = String::from_utf8_lossy(why);
            Err(DeviceError::Driver(format!("process {process}: {why}")).into())
        }
        _ => ready,
    }
}

/// What all processes have found in what they received.
pub fn agreed(mine: Check, rank: Rank<'_>) -> Result<Check, DeviceError> {
    let words = [mine.error.to_bits(), mine.compared, mine.wrong];
    let all = rank.peers.all_gather_bytes(bytemuck::cast_slice(&words))?;
    let mut check = Check { error: 0.0, compared: 0, wrong: 0, ..mine };
    for theirs in all {
        let mut words = theirs.chunks_exact(8).map(bytemuck::pod_read_unaligned::<u64>);
        let mut word = || words.next().unwrap_or(0);
        check.error = check.error.max(f64::from_bits(word()));
        check.compared += word();
        check.wrong += word();
    }
    Ok(check)
}
