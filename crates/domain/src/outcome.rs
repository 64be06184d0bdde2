//! What became of a case. Plain data: everything a report may know.

use crate::{
    case::{Case, Work},
    spec::{SpeedOfLight, Tier},
    stats::Summary,
    tuning::Tuning,
    units::{Celsius, Joules, Megahertz, Seconds, Watts},
};
use serde::Deserialize;
use std::fmt;

/// What became of one case. The plan has one for each of its cases; none is ever left out.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It ran, its result was right, and its time is possible.
    Measured(Box<Measurement>),
    /// It cannot run here, which is nobody's fault.
    Skipped {
        /// Which one.
        case: Case,
        /// Why, and what would fix it.
        reason: String,
    },
    /// It should have run, or ran and was wrong.
    Failed {
        /// Which one.
        case: Case,
        /// The kind of failure.
        failure: Failure,
        /// What went wrong.
        error: String,
        /// What bitwise comparisons found, where the case makes some.
        integrity: Option<Box<Integrity>>,
    },
    /// It ran, and its time cannot be believed. Never a result, never averaged in.
    Invalid {
        /// Why its time cannot be believed.
        invalidity: Invalidity,
        /// Why, with the suspected cause.
        reason: String,
        /// What was seen, for whoever looks into it.
        measurement: Box<Measurement>,
    },
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The result differs from the reference by more than the tolerance.
    WrongResult,
    /// Memory could not be had.
    Allocation,
    /// The kernel could not be loaded or launched.
    Launch,
    /// It did not end within its deadline.
    Hang,
    /// The device answers no more.
    DeviceLost,
    /// Anything else.
    Other,
}

/// Why a measurement cannot be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalidity {
    /// Faster than the physical limit.
    FasterThanLight,
    /// Too many of its samples were taken while the device held its clock down.
    Throttled,
    /// Shorter than the timer can tell, even batched.
    Unresolved,
}

/// One measured case.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// What was measured.
    pub case: Case,
    /// When it was begun, RFC 3339 in UTC; none in records of programs that did not keep it.
    pub started: Option<String>,
    /// What code ran: images of this program's kernels, vendors' libraries. Kernels of the host are
    /// part of the program itself.
    pub code: Vec<Code>,
    /// Which of several ways to do its work was timed; none for a kernel that has one alone.
    pub tuning: Option<Box<Tuning>>,
    /// What one iteration had to do.
    pub work: Work,
    /// Whether what it reads was in the caches before each iteration.
    pub cache: Cache,
    /// The state of power and heat that the headline's samples were taken in; none where the case
    /// does not depend on it, or the record is of a program that did not keep it.
    pub regime: Option<Regime>,
    /// The headline's samples.
    pub samples: Samples,
    /// The same, in numbers.
    pub summary: Summary,
    /// Samples in the other regime, measured beside it where the suite asks for both.
    pub beside: Option<InRegime>,
    /// The other state of the caches, measured beside it, where it means something.
    pub contrast: Option<Contrast>,
    /// Clock of the units while the samples ran, where the device tells, else observed around and
    /// between them: median.
    pub clock: Option<Megahertz>,
    /// Every tier that could be computed before the run ended (the ceiling of the whole run is
    /// computed from the record).
    pub speed_of_light: Vec<SpeedOfLight>,
    /// The tier that the headline utilisation refers to, if any could be computed.
    pub tier: Option<Tier>,
    /// Median time of an iteration on each rank alone, by rank, where ranks have times of their
    /// own; the headline is each iteration's slowest.
    pub rank_times: Vec<Seconds>,
    /// Whether the answer was right, before timing and after.
    pub check: Check,
    /// The share of the units' arithmetic that was theirs to use, just before the samples or just
    /// after them, whichever was less: below one where other processes worked on the same cores.
    /// None where the device cannot tell.
    pub available: Option<f64>,
    /// The share of the time from the first warm-up to the last sample for which a CPU quota kept
    /// the threads that work from running; absent where no quota is set.
    pub stopped_by_quota: Option<f64>,
    /// Of a host: the share of the time from the first warm-up to the last sample in which threads
    /// that could have run waited for a CPU, because others were on it. None where the kernel does
    /// not count it.
    pub waited: Option<f64>,
    /// Of a host in a virtual machine: the share of the time from the first warm-up to the last
    /// sample for which the hypervisor had the CPUs of its threads run others. None where the
    /// kernel does not count it.
    pub stolen: Option<f64>,
    /// What the device's sensors saw from the first warm-up to the last sample.
    pub telemetry: Option<Telemetry>,
    /// What bitwise comparisons found, where the case makes some (`sdc/...`).
    pub integrity: Option<Box<Integrity>>,
}

/// What code ran: two runs with the same have run the same machine code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Code {
    /// Kernels of this program, as the driver was given them.
    Image {
        /// SHA-256 of the image's bytes, hexadecimal.
        sha256: String,
        /// The target that it was compiled for: `sm_90a`, `gfx942`; `compute_80` for PTX, which the
        /// driver compiles.
        target: String,
        /// What compiled it: `nvcc release 12.9, V12.9.86`, `NVRTC 13.0`.
        compiler: String,
    },
    /// A vendor's library.
    Library {
        /// As kernels are named by it: `cublaslt`, `openblas`.
        name: String,
        /// What it says of itself.
        version: String,
    },
}

/// What a device's sensors saw while a case ran. Counters are what was added meanwhile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Telemetry {
    /// How often they were read.
    pub readings: u32,
    /// Lowest clock of the units.
    pub clock_min: Option<Megahertz>,
    /// Highest.
    pub clock_max: Option<Megahertz>,
    /// Each clock of the units that was read while a timed region was in flight, the warm-up's
    /// among them, in order. Empty where no reading fell into one.
    pub timed_clocks: Vec<Megahertz>,
    /// Lowest clock of the memory.
    pub memory_clock_min: Option<Megahertz>,
    /// Mean of the power read.
    pub power_mean: Option<Watts>,
    /// Highest.
    pub power_max: Option<Watts>,
    /// The time that each reading of power is an average over; 0 where it is of an instant. None
    /// where the device does not say.
    pub power_window: Option<Seconds>,
    /// Energy taken, by the device's own counter.
    pub energy: Option<Joules>,
    /// How often that counter was seen to advance. None where it was not watched, as in records
    /// that were made before this was kept.
    pub energy_steps: Option<u32>,
    /// The time that `energy` was taken in, and readings of the sensors: from the first warm-up to
    /// the last sample.
    pub elapsed: Option<Seconds>,
    /// Highest temperature of the device.
    pub temperature_max: Option<Celsius>,
    /// Highest temperature of its memory.
    pub memory_temperature_max: Option<Celsius>,
    /// What held the clock down: `power cap`, `hardware thermal slowdown`, ...
    pub held_by: Vec<String>,
    /// Memory errors that were corrected.
    pub ecc_corrected: Option<u64>,
    /// And those that were not.
    pub ecc_uncorrected: Option<u64>,
    /// Rows of memory replaced by spare ones.
    pub remapped_rows: Option<u64>,
    /// Packets sent again over PCIe.
    pub pcie_replays: Option<u64>,
    /// Errors of the links to other devices.
    pub nvlink_errors: Option<u64>,
    /// Numbers of the faults that the driver reported (NVIDIA: Xid).
    pub faults: Vec<u64>,
}

/// What bitwise comparisons of the same work found (`sdc/...`), from the first iteration to the
/// last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Integrity {
    /// What was compared, as often as `compared` says: `product`, `word`, `copy`, `all_reduce`
    /// (what one rank received).
    pub unit: String,
    /// How many were compared.
    pub compared: u64,
    /// How many were not as they should be.
    pub mismatches: u64,
    /// The rate that this many comparisons would have shown with a probability of 0.95, each on its
    /// own: 1 - 0.05^(1 / compared). Without a mismatch a lower one is not ruled out.
    pub rate_seen: f64,
    /// The 64-bit hash of what most of them left, as 16 hexadecimal digits; none of memory tests.
    pub hash: Option<String>,
    /// The first words that were wrong, at most [`Integrity::WORDS_MAX`].
    pub wrong: Vec<WrongWord>,
    /// Rows of a product whose sum is wrong beyond rounding, at most [`Integrity::LINES_MAX`].
    pub rows: Vec<u32>,
    /// Columns, likewise.
    pub columns: Vec<u32>,
    /// Operands of the first wrong element as they stood in the device's memory afterwards.
    pub operands: Vec<KeptOperand>,
    /// Memory errors that were corrected meanwhile, where the device tells.
    pub ecc_corrected: Option<u64>,
    /// And those that were not.
    pub ecc_uncorrected: Option<u64>,
}

/// A word of 8 bytes that is not as it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct WrongWord {
    /// Of what: `a`, `b` (operands, as they stood afterwards), `c` (the output), `memory`, `copy`,
    /// `what rank 3 received`.
    pub of: String,
    /// Which word, from 0.
    pub at: u64,
    /// Row of the first of its elements that differ, where it is a matrix.
    pub row: Option<u32>,
    /// Column of that.
    pub column: Option<u32>,
    /// What stood there, as 16 hexadecimal digits.
    pub found: String,
    /// What should have.
    pub expected: String,
}

/// A line of an operand, kept with a wrong product.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptOperand {
    /// Which: `row 17 of a`, `column 3 of b`.
    pub of: String,
    /// Its bytes in order, as hexadecimal digits, at most [`Integrity::OPERAND_MAX`] bytes.
    pub bytes: String,
}

impl Integrity {
    /// Most words that are kept.
    pub const WORDS_MAX: usize = 16;
    /// Most rows, and most columns.
    pub const LINES_MAX: usize = 16;
    /// Most bytes of an operand's line.
    pub const OPERAND_MAX: usize = 1 << 15;
    /// What [`WrongWord::of`] begins with where a rank received the word: its number follows.
    pub const RECEIVED: &str = "what rank ";

    /// What was found, in words.
    pub fn words(&self) -> String {
        let Integrity { unit, compared, mismatches, rate_seen, .. } = self;
        let s = if *compared == 1 { "" } else { "s" };
        if *mismatches > 0 {
            let place = self.place().map_or(String::new(), |place| format!("; the first: {place}"));
            return format!("{mismatches} of {compared} {unit}s differ in their bits{place}");
        }
        format!("clean to p < {rate_seen:.1e} a {unit} at 95 % ({compared} {unit}{s} compared)")
    }

    /// Where the first wrong word is.
    fn place(&self) -> Option<String> {
        let WrongWord { of, at, row, column, found, expected } = self.wrong.first()?;
        let place = match (row, column) {
            (Some(row), Some(column)) => format!("row {row}, column {column} of {of}"),
            _ => format!("word {at} of {of}"),
        };
        let ranks = self.ranks();
        let others = match ranks.len() {
            0 | 1 => String::new(),
            _ => format!("; of ranks {}", ranks.join(", ")),
        };
        Some(format!("{place}, {found} where {expected} should stand{others}"))
    }

    /// The ranks that received something wrong.
    fn ranks(&self) -> Vec<&str> {
        let of = self.wrong.iter().filter_map(|word| word.of.strip_prefix(Integrity::RECEIVED));
        let mut ranks: Vec<&str> = of.map(|rank| rank.trim_end_matches(" received")).collect();
        ranks.dedup();
        ranks
    }
}

/// Below this share of the units' arithmetic a case counts as disturbed.
pub const AVAILABLE_MIN: f64 = 0.8;

/// What takes CPU time from a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taker {
    /// A quota of a control group.
    Quota,
    /// The hypervisor, which ran other machines on the same CPUs.
    Hypervisor,
    /// Other processes on the same cores.
    Processes,
}

impl fmt::Display for Taker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Taker::Quota => "a CPU quota",
            Taker::Hypervisor => "the hypervisor",
            Taker::Processes => "other processes",
        })
    }
}

/// The state of the caches before each sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// Without its operands: evicted before each sample, or iterations took turns with copies.
    Cold,
    /// As the iteration before left them.
    Hot,
}

named!(Cache { Cold => "cold", Hot => "hot" });

/// The state of power and heat that samples were taken in. What a regulator of power lowers under
/// load, and a time that was taken before it did so, are not of the same machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Regime {
    /// Each sample begins after a rest, in the same state: a few milliseconds of load at most.
    Burst,
    /// The same load for 0.3 s at least before the first sample, and no rest between samples.
    Settled,
}

named!(Regime { Burst => "burst", Settled => "settled" });

/// Samples in the other regime than the headline's, in the same state of the caches.
#[derive(Clone, Debug, PartialEq)]
pub struct InRegime {
    /// Which.
    pub regime: Regime,
    /// Its samples.
    pub samples: Samples,
    /// The same, in numbers.
    pub summary: Summary,
}

/// Samples in the other state of the caches than the headline's.
#[derive(Clone, Debug, PartialEq)]
pub struct Contrast {
    /// Which.
    pub cache: Cache,
    /// Its samples.
    pub samples: Samples,
    /// The same, in numbers.
    pub summary: Summary,
}

/// The times of one case, in the order they were taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    /// Of one iteration each, after the warm-up.
    pub times: Vec<Seconds>,
    /// Iterations timed together for each sample; its time is the batch's divided by this.
    pub batch: u32,
    /// Positions in `times` of the samples taken while the device held its clock down.
    pub throttled: Vec<u32>,
    /// What came before.
    pub warmup: Warmup,
    /// Why there are no more.
    pub stop: StopReason,
}

/// The iterations before the first sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Warmup {
    /// How many.
    pub iterations: u32,
    /// How long in all.
    pub time: Seconds,
    /// Whether the times had settled when it ended; if not, its budget was spent.
    pub settled: bool,
}

/// Why sampling ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The noise fell below the goal.
    Quiet,
    /// The noise stopped changing: more samples would not lower it.
    NoiseSettled,
    /// The time budget was spent first.
    TimeBudget,
    /// The sample budget was spent first.
    SampleBudget,
}

/// Whether the result of a case was right.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Check {
    /// The largest error found, in the measure that `tolerance` is in.
    pub error: f64,
    /// The largest allowed, relative to the magnitude the reference's rounding analysis gives.
    pub tolerance: f64,
    /// Elements compared.
    pub compared: u64,
    /// Elements beyond the tolerance (`#wrong` of `nccl-tests`).
    pub wrong: u64,
}

impl Check {
    /// A check of nothing: for work without an output to be wrong.
    pub const NONE: Check = Check { error: 0.0, tolerance: 0.0, compared: 0, wrong: 0 };

    /// Counts one element's `error`, relative to `magnitude` where that is not zero. A NaN counts
    /// as wrong and as infinite.
    pub fn count(&mut self, error: f64, magnitude: f64) {
        let relative = if magnitude > 0.0 { error / magnitude } else { error };
        let relative = if relative.is_nan() { f64::INFINITY } else { relative };
        self.compared += 1;
        self.wrong += u64::from(relative > self.tolerance);
        // Infinity is not JSON.
        self.error = self.error.max(relative.min(f64::MAX));
    }

    /// Whether every element was within the tolerance. A NaN is not.
    pub fn passed(&self) -> bool {
        self.wrong == 0 && self.error <= self.tolerance
    }
}

/// Steps of a counter of energy from which on power is computed from it: a step more or less is
/// then 5 %.
const ENERGY_STEPS_MIN: u32 = 20;

/// The time of a counter of energy that is worth as much where its steps were not counted: NVML's
/// counter advances every 20 to 100 ms.
const ENERGY_TIME_MIN: Seconds = Seconds(2.0);

/// The window of a power sensor, as a share of the time of a case, up to which its readings are of
/// that case.
const WINDOW_MAX: f64 = 0.5;

/// What a mean power was computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerBy {
    /// The device's counter of energy, which advanced often enough.
    Counter,
    /// Readings of the power sensor.
    Sensor,
}

impl Telemetry {
    /// The mean power over the case, and what it was computed from. None where neither tells: a
    /// counter that advanced too seldom, and a sensor that averages over longer than the case.
    pub fn power(&self) -> Option<(Watts, PowerBy)> {
        let counted = self.energy.zip(self.elapsed).filter(|(energy, elapsed)| {
            let enough = match self.energy_steps {
                Some(steps) => steps >= ENERGY_STEPS_MIN,
                None => elapsed.0 >= ENERGY_TIME_MIN.0,
            };
            enough && energy.0 > 0.0 && elapsed.0 > 0.0
        });
        let of_counter = |(energy, elapsed): (Joules, Seconds)| Watts(energy.0 / elapsed.0);
        let is_blurred = self
            .power_window
            .zip(self.elapsed)
            .is_some_and(|(window, elapsed)| window.0 > WINDOW_MAX * elapsed.0);
        let read = self.power_mean.filter(|power| power.0 > 0.0 && !is_blurred);
        let counted = counted.map(|counted| (of_counter(counted), PowerBy::Counter));
        counted.or(read.map(|power| (power, PowerBy::Sensor)))
    }
}

impl Outcome {
    /// Its case.
    pub fn case(&self) -> &Case {
        match self {
            Outcome::Measured(measurement) => &measurement.case,
            Outcome::Skipped { case, .. } | Outcome::Failed { case, .. } => case,
            Outcome::Invalid { measurement, .. } => &measurement.case,
        }
    }

    /// The measurement, if it counts.
    pub fn measured(&self) -> Option<&Measurement> {
        match self {
            Outcome::Measured(measurement) => Some(measurement),
            _ => None,
        }
    }
}

impl Measurement {
    /// Whether less than [`AVAILABLE_MIN`] of its units was there for the case: by a CPU quota, or
    /// by other processes on the same cores, before and after it or while it ran, or by a
    /// hypervisor. What was measured is then not the machine alone.
    pub fn disturbed(&self) -> bool {
        self.share_left().is_some_and(|share| share < AVAILABLE_MIN)
    }

    /// Whether a CPU quota is what disturbed it.
    pub fn held_by_quota(&self) -> bool {
        self.stopped_by_quota.is_some_and(|share| 1.0 - share < AVAILABLE_MIN)
    }

    /// What took the most of its units, where so little was left that it counts as disturbed.
    pub fn taken_by(&self) -> Option<Taker> {
        if !self.disturbed() {
            return None;
        }
        let by_hypervisor = self.stolen.filter(|share| 1.0 - share < AVAILABLE_MIN);
        Some(match by_hypervisor {
            _ if self.held_by_quota() => Taker::Quota,
            Some(stolen) if stolen >= self.waited.unwrap_or(0.0) => Taker::Hypervisor,
            _ => Taker::Processes,
        })
    }

    /// The share of its units that was there for the case, 0..1: the least of what a probe before
    /// and after it found, what a quota left, and what the kernel's counts of run delay and of
    /// stolen time left while it ran. None where none of the four is known.
    pub fn share_left(&self) -> Option<f64> {
        let lost = [self.stopped_by_quota, self.waited, self.stolen].into_iter().flatten();
        let left = lost.map(|share| 1.0 - share);
        self.available.into_iter().chain(left).min_by(f64::total_cmp)
    }

    /// What disturbed it, in words that follow a run's name; `None` where nothing did.
    pub fn disturbance(&self) -> Option<String> {
        let share = self.share_left()? * 100.0;
        let taker = self.taken_by()?;
        Some(format!("had {share:.0} % of its cores, which {taker} left to it"))
    }

    /// The median in a state of the caches: the headline's, or that of the samples beside it; none
    /// where that state was not measured.
    pub fn median_when(&self, cache: Cache) -> Option<Seconds> {
        if self.cache == cache {
            return Some(self.summary.median);
        }
        let beside = self.contrast.as_ref().filter(|one| one.cache == cache)?;
        Some(beside.summary.median)
    }

    /// The speed of light of one tier.
    pub fn light(&self, tier: Tier) -> Option<&SpeedOfLight> {
        self.speed_of_light.iter().find(|light| light.tier == tier)
    }

    /// The share of the headline tier's speed of light that was reached, 0..1. None where the
    /// median is no property of the machine ([`Measurement::doubt`]).
    pub fn utilisation(&self) -> Option<f64> {
        let light = self.tier.and_then(|tier| self.light(tier))?;
        self.doubt().is_none().then(|| light.time / self.summary.median)
    }
}
