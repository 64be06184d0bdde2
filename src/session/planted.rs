//! A slowdown that a test build plants in cases, so that whoever judges changes can be tried on a
//! real machine: `FIZEAU_PLANT='stream/*=0.1'` makes each iteration of those cases last a tenth
//! longer. A release build does not look at the variable.

use fizeau_bench::{Workload, sdc};
use fizeau_device::{
    DeviceError,
    clock::{self, Moment},
};
use fizeau_domain::{
    case::Case,
    outcome::{Check, Integrity},
    selector::Selector,
};
use std::cell::Cell;

/// The variable: `SELECTOR=SHARE`.
const VARIABLE: &str = "FIZEAU_PLANT";

/// A regulator of power for a host that has none: `FIZEAU_PLANT_TURBO=1.2@0.03` makes everything
/// take 1.2 times as long after 0.03 s of work without a rest.
const TURBO: &str = "FIZEAU_PLANT_TURBO";

/// A load is forgotten while nothing works, at this share of the speed at which it grew.
const FORGOTTEN: f64 = 0.25;

thread_local! {
    /// What the planted regulator knows: the load, and until when it has been counted.
    static LOAD: Cell<Option<(f64, Moment)>> = const { Cell::new(None) };
}

/// The slowdown of the planted regulator, and the load from which on it acts.
fn turbo() -> Option<(f64, f64)> {
    if !fizeau_domain::CAN_PLANT {
        return None;
    }
    let text = std::env::var(TURBO).ok()?;
    let (slowdown, after) = text.split_once('@')?;
    Some((slowdown.parse().ok().filter(|by| *by > 1.0)?, after.parse().ok()?))
}

/// A workload under the planted regulator.
pub struct Regulated<'w> {
    workload: &'w mut dyn Workload,
    slowdown: f64,
    after: f64,
}

/// The workload under the planted regulator, where one is asked for.
pub fn regulated(workload: &mut dyn Workload) -> Option<Regulated<'_>> {
    let (slowdown, after) = turbo()?;
    Some(Regulated { workload, slowdown, after })
}

impl Workload for Regulated<'_> {
    fn enqueue(&mut self, repeat: u32) -> Result<(), DeviceError> {
        let begun = clock::now();
        let (load, until) = LOAD.get().unwrap_or((0.0, begun));
        let rested = until.elapsed().0;
        let mut load = (load - rested * FORGOTTEN).max(0.0);
        for _ in 0..repeat {
            let start = clock::now();
            self.workload.enqueue(1)?;
            if load > self.after {
                clock::spin(start.elapsed() * (self.slowdown - 1.0))?;
            }
            load += start.elapsed().0;
        }
        LOAD.set(Some((load, clock::now())));
        Ok(())
    }

    fn granule(&self) -> u32 {
        self.workload.granule()
    }

    fn copies(&self) -> u32 {
        self.workload.copies()
    }

    fn candidates(&self) -> Result<Vec<String>, DeviceError> {
        self.workload.candidates()
    }

    fn choose(&mut self, candidate: usize) -> Result<(), DeviceError> {
        self.workload.choose(candidate)
    }

    fn take_turns(&mut self, on: bool) {
        self.workload.take_turns(on);
    }

    fn poison(&mut self) -> Result<(), DeviceError> {
        self.workload.poison()
    }

    fn verify(&mut self) -> Result<Check, DeviceError> {
        self.workload.verify()
    }

    fn integrity(&mut self) -> Result<Option<Integrity>, DeviceError> {
        self.workload.integrity()
    }
}

/// What is planted, in words for the record. `None` where nothing is.
pub fn words() -> Option<String> {
    let regulated = turbo().map(|(slowdown, after)| {
        format!(
            "{TURBO}: a test build takes {slowdown} times as long after {after} s of load; no \
             measurement"
        )
    });
    let all = [slowed(), regulated, sdc::planted::words()];
    let all: Vec<String> = all.into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join("; "))
}

fn slowed() -> Option<String> {
    let (selector, share) = asked_for()?;
    Some(format!("{VARIABLE}: a test build makes {selector} last {share} longer; no measurement"))
}

/// By which share a case is slowed, if at all.
pub fn share_of(case: &Case) -> Option<f64> {
    let (selector, share) = asked_for()?;
    let selector = Selector::parse(&[selector]).ok()?;
    selector.selects(&case.to_string()).then_some(share)
}

fn asked_for() -> Option<(String, f64)> {
    if !fizeau_domain::CAN_PLANT {
        return None;
    }
    let text = std::env::var(VARIABLE).ok()?;
    let (selector, share) = text.split_once('=')?;
    let share: f64 = share.parse().ok()?;
    (share > 0.0).then(|| (selector.to_owned(), share))
}

/// A workload whose iterations last longer than they need to. Of a device that works while the host
/// continues, only what enqueueing takes is lengthened.
pub struct Slowed<'w> {
    /// What is slowed.
    pub workload: &'w mut dyn Workload,
    /// By how much of its time.
    pub share: f64,
}

impl Workload for Slowed<'_> {
    fn enqueue(&mut self, repeat: u32) -> Result<(), DeviceError> {
        let start = clock::now();
        self.workload.enqueue(repeat)?;
        Ok(clock::spin(start.elapsed() * self.share)?)
    }

    fn granule(&self) -> u32 {
        self.workload.granule()
    }

    fn copies(&self) -> u32 {
        self.workload.copies()
    }

    fn candidates(&self) -> Result<Vec<String>, DeviceError> {
        self.workload.candidates()
    }

    fn choose(&mut self, candidate: usize) -> Result<(), DeviceError> {
        self.workload.choose(candidate)
    }

    fn take_turns(&mut self, on: bool) {
        self.workload.take_turns(on);
    }

    fn poison(&mut self) -> Result<(), DeviceError> {
        self.workload.poison()
    }

    fn verify(&mut self) -> Result<Check, DeviceError> {
        self.workload.verify()
    }

    fn integrity(&mut self) -> Result<Option<Integrity>, DeviceError> {
        self.workload.integrity()
    }
}
