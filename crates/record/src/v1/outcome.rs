//! Outcomes: what became of a case, with its samples and what follows from them.

use super::{Case, DATE_TIME, Tuning, Work};
use crate::mirror::mirror;
use fizeau_domain::{
    launcher::RANKS_MAX,
    outcome, spec, stats,
    units::{Celsius, Joules, Megahertz, Seconds, Watts},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What became of one case. The plan has one for each of its cases; none is ever left out.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "outcome")]
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
        /// In what way.
        failure: Failure,
        /// What went wrong.
        error: String,
        /// What bitwise comparisons found, where the case makes some.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        integrity: Option<Box<Integrity>>,
    },
    /// It ran, and its time cannot be believed. Never a result, never averaged in.
    Invalid {
        /// In what way.
        invalidity: Invalidity,
        /// Why, with the suspected cause.
        reason: String,
        /// What was seen, for whoever looks into it.
        measurement: Box<Measurement>,
    },
}

mirror!(enum Outcome of outcome::Outcome {
    Measured(measurement), Skipped { case, reason }, Failed { case, failure, error, integrity },
    Invalid { invalidity, reason, measurement }
});

/// In what way a case failed.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// The result differs from the reference by more than the tolerance.
    WrongResult,
    /// Memory could not be had.
    Allocation,
    /// The kernel could not be loaded or launched.
    Launch,
    /// It did not end within its deadline.
    Hang,
    /// The device is gone.
    DeviceLost,
    /// Anything else.
    Other,
}

mirror!(enum Failure of outcome::Failure {
    WrongResult, Allocation, Launch, Hang, DeviceLost, Other
});

/// In what way a measurement cannot be believed.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Invalidity {
    /// Faster than the physical limit.
    FasterThanLight,
    /// Too many of its samples were taken while the device held its clock down.
    Throttled,
    /// Shorter than the timer can tell, even batched.
    Unresolved,
}

mirror!(enum Invalidity of outcome::Invalidity { FasterThanLight, Throttled, Unresolved });

/// One measured case.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measurement {
    /// What was measured.
    pub case: Case,
    /// When it was begun, RFC 3339 in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time", "pattern" = DATE_TIME))]
    pub started: Option<String>,
    /// What code ran: images of this program's kernels, vendors' libraries. Kernels of the host are
    /// part of the program itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub code: Vec<Code>,
    /// Which of several ways to do its work was timed; absent for a kernel that has one alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tuning: Option<Box<Tuning>>,
    /// What one iteration had to do.
    pub work: Work,
    /// Whether what it reads was in the caches before each iteration.
    pub cache: Cache,
    /// The state of power and heat that the headline's samples were taken in; absent where the case
    /// does not depend on it, or the program did not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regime: Option<Regime>,
    /// The headline's samples.
    pub samples: Samples,
    /// The same, in numbers.
    pub summary: Summary,
    /// Samples in the other regime, measured beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = RANKS_MAX))]
    pub rank_times: Vec<Seconds>,
    /// Whether the answer was right, before timing and after.
    pub check: Check,
    /// The share of the units' arithmetic that was theirs to use, just before the samples or just
    /// after them, whichever was less: below one where other processes worked on the same cores.
    /// None where the device cannot tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub available: Option<f64>,
    /// The share of the time from the first warm-up to the last sample for which a CPU quota kept
    /// the threads that work from running; absent where no quota is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub stopped_by_quota: Option<f64>,
    /// Of a host: the share of the time from the first warm-up to the last sample in which threads
    /// that could have run waited for a CPU, because others were on it. Absent where the kernel
    /// does not count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub waited: Option<f64>,
    /// Of a host in a virtual machine: the share of the time from the first warm-up to the last
    /// sample for which the hypervisor had the CPUs of its threads run others. Absent where the
    /// kernel does not count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub stolen: Option<f64>,
    /// What the device's sensors saw from the first warm-up to the last sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<Telemetry>,
    /// What bitwise comparisons found, where the case makes some (`sdc/...`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integrity: Option<Box<Integrity>>,
}

mirror!(Measurement of outcome::Measurement {
    case, started, code, tuning, work, cache, regime, samples, summary, beside, contrast, clock,
    speed_of_light, tier, rank_times, check, available, stopped_by_quota, waited, stolen,
    telemetry,
    integrity
});

/// What code ran: two runs with the same have run the same machine code.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "of")]
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

mirror!(enum Code of outcome::Code {
    Image { sha256, target, compiler }, Library { name, version }
});

/// What a device's sensors saw while a case ran. Counters are what was added meanwhile.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Telemetry {
    /// How often they were read.
    pub readings: u32,
    /// Lowest clock of the units.
    pub clock_min: Option<Megahertz>,
    /// Highest.
    pub clock_max: Option<Megahertz>,
    /// Each clock of the units that was read while a timed region was in flight, the warm-up's
    /// among them, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timed_clocks: Vec<Megahertz>,
    /// Lowest clock of the memory.
    pub memory_clock_min: Option<Megahertz>,
    /// Mean of the power read.
    pub power_mean: Option<Watts>,
    /// Highest.
    pub power_max: Option<Watts>,
    /// The time that each reading of power is an average over; 0 where it is of an instant. Absent
    /// where the device does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_window: Option<Seconds>,
    /// Energy taken.
    pub energy: Option<Joules>,
    /// How often the counter of energy was seen to advance. Absent where it was not watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_steps: Option<u32>,
    /// The time that `energy` was taken in, and readings of the sensors. Absent in records that
    /// were made before it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed: Option<Seconds>,
    /// Highest temperature of the device.
    pub temperature_max: Option<Celsius>,
    /// Highest temperature of its memory.
    pub memory_temperature_max: Option<Celsius>,
    /// What held the clock down: `power cap`, `hardware thermal slowdown`, ...
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<u64>,
}

mirror!(Telemetry of outcome::Telemetry {
    readings, clock_min, clock_max, timed_clocks, memory_clock_min, power_mean, power_max,
    power_window, energy, energy_steps, elapsed, temperature_max, memory_temperature_max, held_by,
    ecc_corrected, ecc_uncorrected, remapped_rows, pcie_replays, nvlink_errors, faults
});

/// What bitwise comparisons of the same work found (`sdc/...`), from the first iteration to the
/// last.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    #[schemars(range(min = 0.0, max = 1.0))]
    pub rate_seen: f64,
    /// The 64-bit hash of what most of them left, as 16 hexadecimal digits; none of memory tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The first words that were wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = outcome::Integrity::WORDS_MAX))]
    pub wrong: Vec<WrongWord>,
    /// Rows of a product whose sum is wrong beyond rounding, the first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = outcome::Integrity::LINES_MAX))]
    pub rows: Vec<u32>,
    /// Columns, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = outcome::Integrity::LINES_MAX))]
    pub columns: Vec<u32>,
    /// Operands of the first wrong element as they stood in the device's memory afterwards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operands: Vec<KeptOperand>,
    /// Memory errors that were corrected meanwhile, where the device tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecc_corrected: Option<u64>,
    /// And those that were not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecc_uncorrected: Option<u64>,
}

mirror!(Integrity of outcome::Integrity {
    unit, compared, mismatches, rate_seen, hash, wrong, rows, columns, operands, ecc_corrected,
    ecc_uncorrected
});

/// A word of 8 bytes that is not as it should be.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WrongWord {
    /// Of what: `a`, `b` (operands, as they stood afterwards), `c` (the output), `memory`, `copy`,
    /// `what rank 3 received`.
    pub of: String,
    /// Which word, from 0.
    pub at: u64,
    /// Row of the first of its elements that differ, where it is a matrix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<u32>,
    /// Column of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// What stood there, as 16 hexadecimal digits.
    pub found: String,
    /// What should have.
    pub expected: String,
}

mirror!(WrongWord of outcome::WrongWord { of, at, row, column, found, expected });

/// A line of an operand, kept with a wrong product.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KeptOperand {
    /// Which: `row 17 of a`, `column 3 of b`.
    pub of: String,
    /// Its bytes in order, as hexadecimal digits.
    pub bytes: String,
}

mirror!(KeptOperand of outcome::KeptOperand { of, bytes });

/// The state of the caches before each sample.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cache {
    /// Without its operands: evicted before each sample, or iterations took turns with copies.
    Cold,
    /// As the iteration before left them.
    Hot,
}

mirror!(enum Cache of outcome::Cache { Cold, Hot });

/// The state of power and heat that samples were taken in.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Regime {
    /// Each sample after a rest, in the same state.
    Burst,
    /// After 0.3 s of the same load at least, without rests.
    Settled,
}

mirror!(enum Regime of outcome::Regime { Burst, Settled });

/// Samples in the other regime than the headline's.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InRegime {
    /// Which.
    pub regime: Regime,
    /// Its samples.
    pub samples: Samples,
    /// The same, in numbers.
    pub summary: Summary,
}

mirror!(InRegime of outcome::InRegime { regime, samples, summary });

/// Samples in the other state of the caches than the headline's.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Contrast {
    /// Which.
    pub cache: Cache,
    /// Its samples.
    pub samples: Samples,
    /// The same, in numbers.
    pub summary: Summary,
}

mirror!(Contrast of outcome::Contrast { cache, samples, summary });

/// The times of one case, in the order they were taken.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Samples {
    /// Of one iteration each, after the warm-up.
    pub times: Vec<Seconds>,
    /// Iterations timed together for each sample; its time is the batch's divided by this.
    #[schemars(range(min = 1))]
    pub batch: u32,
    /// Positions in `times` of the samples taken while the device held its clock down.
    pub throttled: Vec<u32>,
    /// What came before.
    pub warmup: Warmup,
    /// Why there are no more.
    pub stop: StopReason,
}

mirror!(Samples of outcome::Samples { times, batch, throttled, warmup, stop });

/// The iterations before the first sample.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Warmup {
    /// How many.
    pub iterations: u32,
    /// How long in all.
    pub time: Seconds,
    /// Whether the times had settled when it ended; if not, its budget was spent.
    pub settled: bool,
}

mirror!(Warmup of outcome::Warmup { iterations, time, settled });

/// Why sampling ended.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
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

mirror!(enum StopReason of outcome::StopReason { Quiet, NoiseSettled, TimeBudget, SampleBudget });

/// Whether the result of a case was right.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// The largest error found, in the measure that `tolerance` is in.
    #[schemars(range(min = 0.0))]
    pub error: f64,
    /// The largest allowed, relative to the magnitude the reference's rounding analysis gives.
    #[schemars(range(min = 0.0))]
    pub tolerance: f64,
    /// Elements compared.
    pub compared: u64,
    /// Elements beyond the tolerance (`#wrong` of `nccl-tests`).
    pub wrong: u64,
}

mirror!(Check of outcome::Check { error, tolerance, compared, wrong });

/// The times of one case in numbers. All of it can be computed again from the raw samples.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// How many samples.
    #[schemars(range(min = 1))]
    pub count: u64,
    /// The headline.
    pub median: Seconds,
    /// The fastest.
    pub min: Seconds,
    /// The slowest.
    pub max: Seconds,
    /// 5th percentile.
    pub p5: Seconds,
    /// 25th percentile.
    pub p25: Seconds,
    /// 75th percentile.
    pub p75: Seconds,
    /// 95th percentile.
    pub p95: Seconds,
    /// 99th percentile.
    pub p99: Seconds,
    /// 99.9th percentile, from 1,000 samples on.
    pub p999: Option<Seconds>,
    /// Median absolute deviation / median.
    #[schemars(range(min = 0.0))]
    pub noise: f64,
    /// Of the median.
    pub interval: Interval,
}

mirror!(Summary of stats::Summary {
    count, median, min, max, p5, p25, p75, p95, p99, p999, noise, interval
});

/// A confidence interval.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Its lower end.
    pub low: Seconds,
    /// Its upper end.
    pub high: Seconds,
    /// How often such an interval covers the true value: 0.95, or less where there are too few
    /// independent samples for it; the interval is then the samples' range.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub confidence: f64,
    /// Effective sample size: how many independent samples would tell the median as well as these
    /// do. Absent in records that were made before it was computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub independent: Option<f64>,
}

mirror!(Interval of stats::Interval { low, high, confidence, independent });

/// The least time that some work can take.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpeedOfLight {
    /// For one iteration.
    pub time: Seconds,
    /// The resource that takes it.
    pub bound: Bound,
    /// Whose peak it is.
    pub tier: Tier,
}

mirror!(SpeedOfLight of spec::SpeedOfLight { time, bound, tier });

/// The resource that limits.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Bytes to and from memory.
    Memory,
    /// Bytes to and from a cache.
    Cache,
    /// Arithmetic.
    Compute,
    /// Exponentials.
    Exp,
    /// Bytes over links between ranks.
    Link,
}

mirror!(enum Bound of spec::Bound { Memory, Cache, Compute, Exp, Link });

/// Which peak a speed of light refers to; a percentage without it means nothing.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// 1: the vendor's printed dense peak.
    Datasheet,
    /// 2: units x operations per clock x the clock observed while it ran.
    Observed,
    /// 3: the slowest resource for this very case.
    Algorithmic,
    /// 4: the best rate of the resource measured in this run.
    Ceiling,
}

mirror!(enum Tier of spec::Tier { Datasheet, Observed, Algorithmic, Ceiling });
