//! Sensors read on a thread of their own while cases run, and kept for each of them.

use super::{
    progress::Progress,
    sensors::{self, Counters, Faults, ReadSensors, Reading},
};
use crate::clock::{self, Moment};
use fizeau_domain::{
    outcome::Telemetry,
    units::{Celsius, Joules, Megahertz, Seconds, Watts},
};
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Between two readings. Sensors of power are averages over 25 to 100 ms themselves.
const EVERY_MILLISECONDS: u32 = 50;

/// A thread that reads a device's sensors until it is dropped.
pub struct Sampler<S: ReadSensors> {
    sensors: S,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    seen: Mutex<Seen>,
    /// The reasons of the last reading.
    reasons: AtomicU64,
    stop: AtomicBool,
}

/// What was seen since the last [`Sampler::take`].
#[derive(Default)]
struct Seen {
    readings: Vec<Reading>,
    /// Clocks of the readings that began and ended within one timed region.
    timed_clocks: Vec<u32>,
    start: Counters,
    /// When `start` was read.
    since: Option<Moment>,
    faults: Vec<u64>,
}

impl<S: ReadSensors> Sampler<S> {
    /// Starts to read a device whose timed regions `progress` tells of.
    pub fn start(sensors: S, progress: Progress) -> Sampler<S> {
        let shared = Arc::new(Shared::default());
        shared.seen().start = sensors.counters();
        shared.seen().since = Some(clock::now());
        let (theirs, reader) = (Arc::clone(&shared), sensors.clone());
        let faults = sensors.faults();
        let body = move || read_until_stopped(&reader, &progress, faults, &theirs);
        // Without a thread there are the readings at both ends of each case.
        let thread = thread::Builder::new().name("telemetry".into()).spawn(body).ok();
        Sampler { sensors, shared, thread }
    }

    /// What was seen since this was last called.
    pub fn take(&self) -> Telemetry {
        let (last, end) = (self.sensors.reading(), self.sensors.counters());
        self.shared.reasons.store(last.reasons.unwrap_or(0), Ordering::Relaxed);
        let mut seen = self.shared.seen();
        seen.readings.push(last);
        let start = std::mem::replace(&mut seen.start, end);
        let elapsed = seen.since.replace(clock::now()).map(Moment::elapsed);
        let (readings, faults) =
            (std::mem::take(&mut seen.readings), std::mem::take(&mut seen.faults));
        let timed_clocks = std::mem::take(&mut seen.timed_clocks);
        drop(seen);
        let timed_clocks = timed_clocks.into_iter().map(|clock| Megahertz(f64::from(clock)));
        Telemetry {
            timed_clocks: timed_clocks.collect(),
            elapsed,
            ..summarise(&readings, &start, &end, faults)
        }
    }

    /// Whether the device was held down when it was last looked at.
    pub fn is_throttled(&self) -> bool {
        sensors::is_throttled(self.shared.reasons.load(Ordering::Relaxed))
    }

    /// The clock of the SMs now.
    pub fn clock(&self) -> Option<Megahertz> {
        self.sensors.reading().clock.map(|clock| Megahertz(f64::from(clock)))
    }
}

impl<S: ReadSensors> Drop for Sampler<S> {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It cannot have panicked where nothing in it can; nobody is left to be told.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread. It waits for faults, which is its pause; where a device has no queue of them, it
/// sleeps.
fn read_until_stopped<S: ReadSensors>(
    sensors: &S,
    progress: &Progress,
    mut faults: Option<Box<dyn Faults>>,
    shared: &Shared,
) {
    while !shared.stop.load(Ordering::Relaxed) {
        match faults.as_ref().map(|faults| faults.next(EVERY_MILLISECONDS)) {
            Some(Ok(Some(fault))) => shared.seen().faults.push(fault),
            Some(Ok(None)) => {}
            Some(Err(_)) => faults = None,
            None => thread::sleep(Duration::from_millis(u64::from(EVERY_MILLISECONDS))),
        }
        let (reading, is_timed) = read_beside(sensors, progress);
        shared.reasons.store(reading.reasons.unwrap_or(0), Ordering::Relaxed);
        let mut seen = shared.seen();
        seen.readings.push(reading);
        seen.timed_clocks.extend(reading.clock.filter(|_| is_timed));
    }
}

/// A reading, and whether the device worked on one timed region from its begin to its end.
fn read_beside<S: ReadSensors>(sensors: &S, progress: &Progress) -> (Reading, bool) {
    let before = progress.in_flight();
    let reading = sensors.reading();
    (reading, before.is_some() && progress.in_flight() == before)
}

/// Readings and the counters at both ends, as a record keeps them.
fn summarise(
    readings: &[Reading],
    start: &Counters,
    end: &Counters,
    faults: Vec<u64>,
) -> Telemetry {
    let values = |of: fn(&Reading) -> Option<u32>| readings.iter().filter_map(of);
    let clock = |value: u32| Megahertz(f64::from(value));
    let celsius = |value: u32| Celsius(f64::from(value));
    let power: Vec<f64> = values(|r| r.power).map(|power| f64::from(power) / 1e3).collect();
    let grown = |of: fn(&Counters) -> Option<u64>| Some(of(end)?.saturating_sub(of(start)?));
    let reasons = readings.iter().filter_map(|r| r.reasons).fold(0, |all, bits| all | bits);
    Telemetry {
        readings: readings.len() as u32,
        clock_min: values(|r| r.clock).min().map(clock),
        clock_max: values(|r| r.clock).max().map(clock),
        memory_clock_min: values(|r| r.memory_clock).min().map(clock),
        power_mean: (!power.is_empty())
            .then(|| Watts(power.iter().sum::<f64>() / power.len() as f64)),
        power_max: power.iter().copied().reduce(f64::max).map(Watts),
        power_window: values(|r| r.power_window)
            .max()
            .map(|milliseconds| Seconds(f64::from(milliseconds) / 1e3)),
        energy_steps: steps(readings, start, end),
        energy: grown(|c| c.energy).map(|millijoules| Joules(millijoules as f64 / 1e3)),
        elapsed: None,
        temperature_max: values(|r| r.temperature).max().map(celsius),
        memory_temperature_max: values(|r| r.memory_temperature).max().map(celsius),
        timed_clocks: Vec::new(),
        held_by: sensors::spelled(reasons),
        ecc_corrected: grown(|c| c.ecc_corrected),
        ecc_uncorrected: grown(|c| c.ecc_uncorrected),
        remapped_rows: grown(|c| c.remapped_rows),
        pcie_replays: grown(|c| c.pcie_replays),
        nvlink_errors: grown(|c| c.nvlink_errors),
        faults,
    }
}

/// How often the counter of energy advanced, as readings saw it.
fn steps(readings: &[Reading], start: &Counters, end: &Counters) -> Option<u32> {
    let (first, last) = (start.energy?, end.energy?);
    let seen = readings.iter().filter_map(|reading| reading.energy);
    let mut all: Vec<u64> = std::iter::once(first).chain(seen).chain([last]).collect();
    all.dedup();
    Some((all.len() - 1) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sensors that tell a clock while something else happens.
    #[derive(Clone)]
    struct Meanwhile(Progress, fn(&Progress));

    impl ReadSensors for Meanwhile {
        fn reading(&self) -> Reading {
            (self.1)(&self.0);
            Reading { clock: Some(1_410), ..Reading::default() }
        }
        fn counters(&self) -> Counters {
            Counters::default()
        }
    }

    #[test]
    fn a_clock_is_of_a_timed_region_where_all_of_its_reading_is() {
        let progress = Progress::default();
        let is_timed =
            |meanwhile| read_beside(&Meanwhile(progress.clone(), meanwhile), &progress).1;
        assert!(!is_timed(|_| ()), "nothing is timed");
        progress.enqueueing();
        assert!(!is_timed(|_| ()), "the host enqueues");
        progress.enqueued();
        assert!(is_timed(|_| ()));
        let into_the_next = |progress: &Progress| {
            progress.ended();
            progress.enqueueing();
            progress.enqueued();
        };
        assert!(!is_timed(into_the_next), "partly of another region");
        assert!(!is_timed(Progress::ended), "partly of none");
    }

    #[test]
    fn readings_and_counters_become_what_a_case_did() {
        let reading = |clock, power, reasons| Reading {
            clock: Some(clock),
            power: Some(power),
            reasons: Some(reasons),
            ..Reading::default()
        };
        let readings = [reading(1980, 100_000, 0x1), reading(1455, 700_000, 0x4)];
        let start = Counters { energy: Some(5_000), ecc_corrected: Some(3), ..Counters::default() };
        let end = Counters { energy: Some(12_500), ecc_corrected: Some(4), ..start };
        let seen = summarise(&readings, &start, &end, vec![79]);
        assert_eq!((seen.readings, seen.clock_min), (2, Some(Megahertz(1455.0))));
        assert_eq!((seen.power_mean, seen.power_max), (Some(Watts(400.0)), Some(Watts(700.0))));
        assert_eq!((seen.energy, seen.ecc_corrected), (Some(Joules(7.5)), Some(1)));
        assert_eq!((seen.pcie_replays, seen.temperature_max), (None, None));
        assert_eq!((seen.held_by, seen.faults), (vec!["power cap".to_owned()], vec![79]));
    }
}
