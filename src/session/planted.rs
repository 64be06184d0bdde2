//! A slowdown that a test build plants in cases, so that whoever judges changes can be tried on a
//! real machine: `FIZEAU_PLANT='stream/*=0.1'` makes each iteration of those cases last a tenth
//! longer. A release build does not look at the variable.

use fizeau_bench::{Workload, sdc};
use fizeau_device::{DeviceError, clock};
use fizeau_domain::{
    case::Case,
    outcome::{Check, Integrity},
    selector::Selector,
};

/// The variable: `SELECTOR=SHARE`.
const VARIABLE: &str = "FIZEAU_PLANT";

/// What is planted, in words for the record. `None` where nothing is.
pub fn words() -> Option<String> {
    let all = [slowed(), sdc::planted::words()];
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
