//! Plan, run, record: the one place that drives devices.

pub mod one;
pub mod planted;
pub mod tuner;

use fizeau_bench::{self as bench, Rank};
use fizeau_device::{DeviceError, clock, host};
use fizeau_domain::{
    case::Case,
    outcome::{Failure, Outcome},
    spec::{Properties, Yardstick},
    suite::MeasureSettings,
    units::{Bytes, Seconds},
};
use fizeau_record::{
    Footer, Header, Line,
    store::{RecordError, Writer},
};
use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
    sync::atomic::{AtomicBool, Ordering},
};

/// What a run tells whoever watches. Called between cases, never while one is timed.
pub trait Watcher {
    /// A case is about to start: its place in what is left to do, of how many. It may wait here
    /// until the case may start; where the run is interrupted meanwhile, the case does not start.
    fn starts(&mut self, place: usize, of: usize, case: &Case);
    /// It ended.
    fn ended(&mut self, outcome: &Outcome);
}

/// Measures some cases elsewhere than on the session's device: in processes of their own.
pub trait Apart {
    /// Whether it measures this case.
    fn takes(&self, case: &Case) -> bool;
    /// The case's outcome; `None` where the run was interrupted meanwhile.
    fn measure(&self, case: &Case) -> Option<Outcome>;
}

/// Everything a run needs but its plan.
pub struct Session<'s> {
    /// Where cases run.
    pub rank: Rank<'s>,
    /// What its times are set against.
    pub yardstick: Yardstick,
    /// How long to sample.
    pub settings: MeasureSettings,
    /// Set from outside to end the run after the case in flight.
    pub interrupted: &'s AtomicBool,
    /// Memory that may be taken, where it is known.
    pub memory_free: Option<Bytes>,
    /// Time spent before, where this continues an interrupted run.
    pub spent: Seconds,
    /// What measures cases whose kernels could take this process with them.
    pub apart: Option<&'s dyn Apart>,
    /// Candidates that tuned kernels are to take without a trial.
    pub choices: tuner::Choices,
}

/// What ends a run before its time.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The record cannot be kept.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The ranks cannot agree any more.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Every planned case has its outcome.
    Complete,
    /// It was interrupted; it can be resumed.
    Interrupted,
}

impl Session<'_> {
    /// Runs what the plan has and `done` does not, each outcome recorded before the next case
    /// starts. Of ranks in processes of their own one keeps the record, the others have no writer.
    pub fn run(
        &self,
        header: &Header,
        done: &[Outcome],
        mut writer: Option<&mut Writer>,
        watcher: &mut dyn Watcher,
    ) -> Result<End, SessionError> {
        self.agree_on(&header.plan)?;
        let start = clock::now();
        let done: HashSet<&Case> = done.iter().map(Outcome::case).collect();
        let left: Vec<&Case> = header.plan.iter().filter(|case| !done.contains(case)).collect();
        let mut lost: Option<String> = None;
        let mut end = End::Complete;
        for (place, case) in left.iter().enumerate() {
            watcher.starts(place, left.len(), case);
            let interrupted = f64::from(u8::from(self.interrupted.load(Ordering::Relaxed)));
            if self.rank.peers.largest(interrupted)? > 0.0 {
                end = End::Interrupted;
                break;
            }
            let apart = self.apart.filter(|apart| apart.takes(case));
            let outcome = match (apart, &lost) {
                (Some(apart), _) => {
                    bench::give_back();
                    apart.measure(case)
                }
                (None, Some(error)) => Some(failed(case, Failure::DeviceLost, error.clone())),
                (None, None) => Some(self.measure(case)),
            };
            let Some(outcome) = outcome else {
                end = End::Interrupted;
                break;
            };
            // What another process lost is not lost to this one.
            if let (None, Outcome::Failed { failure: Failure::DeviceLost, error, .. }) =
                (apart, &outcome)
            {
                lost.get_or_insert_with(|| error.clone());
            }
            if let Some(writer) = &mut writer {
                writer.append(&Line::Outcome(outcome.clone()))?;
            }
            watcher.ended(&outcome);
        }
        if let Some(writer) = writer {
            writer.append(&Line::Footer(self.footer(self.spent + start.elapsed(), end)))?;
        }
        Ok(end)
    }

    /// Ranks step through one plan: devices that differ may have made several.
    fn agree_on(&self, plan: &[Case]) -> Result<(), DeviceError> {
        let mut hasher = DefaultHasher::new();
        plan.iter().for_each(|case| case.to_string().hash(&mut hasher));
        let all = self.rank.peers.all_gather_bytes(&hasher.finish().to_le_bytes())?;
        match all.iter().position(|of| Some(of) != all.first()) {
            None => Ok(()),
            Some(rank) => Err(DeviceError::Driver(format!(
                "rank {rank} plans other cases than rank 0, since their devices differ: measure \
                 `collective` alone, or devices of one kind"
            ))),
        }
    }

    fn footer(&self, elapsed: Seconds, end: End) -> Footer {
        Footer { ended: clock::utc_now(), elapsed, interrupted: end == End::Interrupted }
    }

    fn measure(&self, case: &Case) -> Outcome {
        // What ranks do together takes what is told on all of them together.
        let ranks = match case.point.is_of_all_ranks() {
            true => 1,
            false => u64::from(self.rank.peers.processes()),
        };
        let free = self.memory_free.map(|free| Bytes(free.0 / ranks));
        let properties = self.rank.device.properties();
        let unfit = too_wide(case, properties).or_else(|| too_large(case, properties, free));
        if let Some(reason) = unfit {
            return Outcome::Skipped { case: case.clone(), reason };
        }
        let given = self.choices.get(&case.to_string()).map(String::as_str);
        one::measure_case(case, self.rank, &self.yardstick, &self.settings, given)
    }
}

/// Why a case cannot be measured on a device, if it needs more units than that has: its plan comes
/// from a record that was changed, or from another device. Fewer would do its work, and the time
/// would not be the case's.
pub fn too_wide(case: &Case, properties: &Properties) -> Option<String> {
    let units = case.point.units().filter(|&units| units > properties.units.max(1))?;
    Some(format!("needs {units} units, and the device has {}", properties.units))
}

/// Why a case cannot be measured in so much free memory, if so.
pub fn too_large(case: &Case, properties: &Properties, free: Option<Bytes>) -> Option<String> {
    let needed = bench::memory_needed(case, properties);
    let free = match properties.backend.as_str() {
        "host" => free.map(host::for_operands),
        _ => free,
    };
    let free = free.filter(|&free| needed > free)?;
    Some(format!("needs {needed} of memory, and {free} are free for it"))
}

fn failed(case: &Case, failure: Failure, error: String) -> Outcome {
    Outcome::Failed { case: case.clone(), failure, error, integrity: None }
}
