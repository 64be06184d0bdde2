//! One case from plan to outcome. Every fault ends in one. Whether a time can be believed is for
//! [`guard`] to judge.

use super::{
    planted::{self, Slowed},
    tuner,
};
use crate::measure::{self, Taken, regime};
use fizeau_bench::{self as bench, Prepared, Rank, Unready, Workload, stream};
use fizeau_device::{
    Device, DeviceError,
    clock::{self, Moment},
    host::{self, RunDelay, Steal},
};
use fizeau_domain::{
    case::{Case, Point},
    outcome::{
        AVAILABLE_MIN, Cache, Check, Contrast, Failure, InRegime, Integrity, Measurement, Outcome,
        Regime, Samples,
    },
    spec::Yardstick,
    stats::{Summary, quantile},
    suite::MeasureSettings,
    text::agreed,
    units::{Megahertz, Seconds},
};
use fizeau_record::guard::{self, Witness};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The other state of the caches is measured with this share of the headline's budgets.
const CONTRAST_SHARE: f64 = 0.25;

/// How often and how long a disturbed device is waited for before it is measured as it is.
const WAITS: u32 = 6;
const WAIT: Seconds = Seconds(0.01);

/// Why a case has no measurement.
enum Stopped {
    Skipped(String),
    Failed(Failure, String),
    /// A wrong result, and what bitwise comparisons found.
    Wrong(String, Option<Box<Integrity>>),
}

impl From<DeviceError> for Stopped {
    fn from(error: DeviceError) -> Stopped {
        let failure = match &error {
            DeviceError::Missing { .. }
            | DeviceError::NoDevice { .. }
            | DeviceError::Broken { .. }
            | DeviceError::NotOffered { .. }
            | DeviceError::Unfit { .. }
            | DeviceError::Unsupported { .. } => {
                return Stopped::Skipped(error.to_string());
            }
            DeviceError::Allocation { .. } => Failure::Allocation,
            DeviceError::Launch { .. } => Failure::Launch,
            DeviceError::Hang { .. } => Failure::Hang,
            DeviceError::Lost(_) => Failure::DeviceLost,
            DeviceError::Driver(_) => Failure::Other,
        };
        Stopped::Failed(failure, error.to_string())
    }
}

impl From<Unready> for Stopped {
    fn from(unready: Unready) -> Stopped {
        match unready {
            Unready::Unsupported(reason) => Stopped::Skipped(reason),
            Unready::Device(error) => error.into(),
        }
    }
}

/// Prepares, verifies, times, verifies again and judges one case. A panic in a kernel is a failed
/// case too: the run continues. A tuned kernel takes the given candidate, where there is one.
pub fn measure_case(
    case: &Case,
    rank: Rank<'_>,
    yardstick: &Yardstick,
    settings: &MeasureSettings,
    given: Option<&str>,
) -> Outcome {
    measure_prepared(case, rank, yardstick, (settings, given), || bench::prepare(case, rank))
}

/// The same, for a workload that the caller makes ready.
pub fn measure_prepared<'r>(
    case: &Case,
    rank: Rank<'r>,
    yardstick: &Yardstick,
    (settings, given): (&MeasureSettings, Option<&str>),
    prepare: impl FnOnce() -> Prepared<'r>,
) -> Outcome {
    let (started, device) = (clock::utc_now_with_milliseconds(), rank.device);
    // What was loaded up to here is none of this case's.
    device.loaded();
    let attempt = AssertUnwindSafe(|| {
        let mut workload = prepare()?;
        if let Some(share) = planted::share_of(case) {
            let mut slowed = Slowed { workload: workload.as_mut(), share };
            return measure_workload(case, &mut slowed, rank, settings, given);
        }
        if let Some(mut regulated) = planted::regulated(workload.as_mut()) {
            return measure_workload(case, &mut regulated, rank, settings, given);
        }
        measure_workload(case, workload.as_mut(), rank, settings, given)
    });
    let result = catch_unwind(attempt).unwrap_or_else(|payload| {
        let words = payload.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| payload.downcast_ref::<&str>().copied());
        let error = format!("the kernel panicked: {}", words.unwrap_or("without a word"));
        Err(Stopped::Failed(Failure::Other, error))
    });
    match result {
        Ok((mut measurement, witness)) => {
            measurement.started = Some(started);
            measurement.code = device.loaded();
            guard::judge(measurement, witness, rank.device.properties(), yardstick)
        }
        Err(Stopped::Skipped(reason)) => Outcome::Skipped { case: case.clone(), reason },
        Err(Stopped::Failed(failure, error)) => {
            Outcome::Failed { case: case.clone(), failure, error, integrity: None }
        }
        Err(Stopped::Wrong(error, integrity)) => {
            let failure = Failure::WrongResult;
            Outcome::Failed { case: case.clone(), failure, error, integrity }
        }
    }
}

fn measure_workload(
    case: &Case,
    workload: &mut (dyn Workload + '_),
    rank: Rank<'_>,
    settings: &MeasureSettings,
    given: Option<&str>,
) -> Result<(Measurement, Witness), Stopped> {
    let device = rank.device;
    let copies = workload.copies();
    let (cache, other_cache) = bench::headline_cache(case, copies);
    let asked = settings.regime.filter(|_| case.point.depends_on_power());
    let tuning = tuner::tune(rank, workload, (cache, asked), settings, given)?;
    workload.poison()?;
    device.timed(&mut || workload.enqueue(workload.granule()))?;
    let before = verified(device, workload, "before timing")?;

    // What was seen up to here was none of the samples' doing.
    device.telemetry();
    let units = case.point.units().unwrap_or(device.properties().units);
    let state = State { cache, regime: asked, before: Seconds(0.0) };
    let (taken, lost) = least_disturbed(case, rank, workload, units, state, settings)?;
    let rank_times = times_of_ranks(device, &taken.samples)?;
    // The same errors are told once: where the result is wrong, with it.
    let check = worse(before, verified(device, workload, "after timing")?);
    let integrity = workload.integrity()?.map(Box::new);
    let telemetry = device.telemetry();
    // What was settled still is: it has hardly rested since.
    let is_settled = taken.regime == Some(Regime::Settled);
    let before = if is_settled { regime::SETTLING } else { Seconds(0.0) };
    let contrast = other_cache
        .map(|cache| contrast(rank, workload, units, State { cache, before, ..state }, settings))
        .transpose()?;
    let (contrast, clocks_beside) = contrast.unzip();
    let other = settings.beside.filter(|_| asked.is_some() && taken.regime == asked);
    let state = State { regime: other, ..state };
    let beside = other.map(|_| beside(rank, workload, units, state, settings)).transpose()?;

    let Taken { samples, regime, clocks, .. } = taken;
    let clocks_beside = clocks_beside.unwrap_or_default().into_iter();
    // All looks of one short case may be disturbed, those of a whole run are not.
    let seen = clocks.iter().copied().chain(clocks_beside).chain(device.fastest_clock(units));
    let clock_max = seen.max_by(|a, b| a.0.total_cmp(&b.0));
    let clocks: Vec<f64> = clocks.iter().map(|clock| clock.0).collect();
    let clock = (!clocks.is_empty()).then(|| Megahertz(quantile::median(&clocks)));
    let summary = summary_of(&samples.times)?;
    let measurement = Measurement {
        case: case.clone(),
        started: None,
        code: Vec::new(),
        tuning: tuning.map(Box::new),
        work: case.point.work(),
        cache,
        regime,
        samples,
        summary,
        beside: beside.flatten(),
        contrast,
        clock,
        speed_of_light: Vec::new(),
        tier: None,
        rank_times,
        check,
        available: lost.available,
        stopped_by_quota: lost.by_quota,
        waited: lost.by_waiting,
        stolen: lost.by_hypervisor,
        telemetry,
        integrity,
    };
    Ok((measurement, Witness { timer: measure::calibrate_on(device)?, clock_max, copies }))
}

/// Samples, and what others took meanwhile: once more where they took much, and then the attempt
/// of which they took less. A quota would take as much again.
fn least_disturbed(
    case: &Case,
    rank: Rank<'_>,
    workload: &mut (dyn Workload + '_),
    units: u32,
    state: State,
    settings: &MeasureSettings,
) -> Result<(Taken, Lost), DeviceError> {
    let mut attempt = || -> Result<(Taken, Lost), DeviceError> {
        let watch = Watch::begin(case, rank);
        let (taken, available) = sample(rank, workload, units, state, settings)?;
        Ok((taken, watch.lost(available)))
    };
    let (taken, lost) = attempt()?;
    if lost.to_others() > 1.0 - AVAILABLE_MIN {
        let again = attempt()?;
        if again.1.to_others() < lost.to_others() {
            return Ok(again);
        }
    }
    Ok((taken, lost))
}

/// Each rank's own time of one iteration, where ranks have such.
fn times_of_ranks(device: &dyn Device, samples: &Samples) -> Result<Vec<Seconds>, DeviceError> {
    let Some(times) = device.capabilities().rank_times else { return Ok(Vec::new()) };
    let times = times.rank_times(samples.times.len())?;
    let of_one = 1.0 / f64::from(samples.batch);
    Ok(times.into_iter().map(|time| time * of_one).collect())
}

/// The state in which samples are to be taken.
#[derive(Clone, Copy, Debug)]
struct State {
    cache: Cache,
    /// What is asked for; what is possible can differ.
    regime: Option<Regime>,
    /// How long the same load has just been on the device.
    before: Seconds,
}

/// Warms up, waits until the units are its own, spoils the output and samples: what is verified
/// afterwards is then the timed loop's own work, also where an iteration could leave out what one
/// before has done. With the samples comes the share of the units that was available for them.
fn sample(
    rank: Rank<'_>,
    workload: &mut (dyn Workload + '_),
    units: u32,
    State { cache, regime: asked, before }: State,
    settings: &MeasureSettings,
) -> Result<(Taken, Option<f64>), DeviceError> {
    let granule = workload.granule();
    // Operands that take turns with copies are in no cache, and need no eviction.
    let takes_turns = cache == Cache::Cold && workload.copies() > 1;
    workload.take_turns(takes_turns);
    let cache = if takes_turns { Cache::Hot } else { cache };
    let mut warming = |repeat: u32| workload.enqueue(repeat.saturating_mul(granule));
    let mut warm_up = *settings;
    if asked == Some(Regime::Burst) {
        warm_up.warmup_max = Seconds(settings.warmup_max.0.min(regime::WARM_UP.0));
    }
    let ready = measure::warm_up(rank, &mut warming, cache, &warm_up)?;
    let regime = regime::possible(asked, rank.peers.processes());
    let available_before = undisturbed(rank, units)?;
    // Only now, and before one thread alone spoils the output: a device that has not worked yet
    // shows the clock of a rest, and one core alone a higher clock than all together.
    let clock = rank.device.observe_clock()?;
    workload.poison()?;
    let mut enqueue = |repeat: u32| workload.enqueue(repeat.saturating_mul(granule));
    rank.device.tell_clock(regime.is_some());
    let taken = measure::sample(rank, &mut enqueue, cache, ready, (regime, before), settings);
    rank.device.tell_clock(false);
    let mut taken = taken?;
    // Between samples a GPU's regulator of power lets go: a look there shows another clock than
    // that of the work, and none is better than that one.
    let would_mislead = regime.is_some() && stream::is_gpu(rank.device.properties());
    if !taken.clocks_of_samples && !would_mislead {
        taken.clocks.extend(clock);
        taken.clocks.extend(rank.device.observe_clock()?);
    }
    let after = available(rank, units)?;
    each(&mut taken.samples, granule);
    Ok((taken, available_before.zip(after).map(|(one, other)| one.min(other))))
}

/// The time of one iteration of a batch that was timed together.
fn each(samples: &mut Samples, granule: u32) {
    let of_one = 1.0 / f64::from(granule);
    samples.times.iter_mut().for_each(|time| *time = *time * of_one);
    samples.batch = samples.batch.saturating_mul(granule);
    samples.warmup.iterations = samples.warmup.iterations.saturating_mul(granule);
}

/// Waits a moment for others to leave the device's units, and says what share of them is there.
fn undisturbed(rank: Rank<'_>, units: u32) -> Result<Option<f64>, DeviceError> {
    for _ in 0..WAITS {
        match available(rank, units)? {
            Some(share) if share < AVAILABLE_MIN => clock::rest(WAIT),
            enough => return Ok(enough),
        }
    }
    available(rank, units)
}

/// The least share of its units that any rank has, on which all agree; `None` where one of them
/// cannot tell.
fn available(Rank { device, peers }: Rank<'_>, units: u32) -> Result<Option<f64>, DeviceError> {
    let reports = device.capabilities().reports;
    let own = reports.map(|reports| reports.available(units)).transpose()?.flatten();
    let unknown = f64::from(u8::from(own.is_none()));
    if peers.largest(unknown)? > 0.0 {
        return Ok(None);
    }
    let taken = peers.largest(own.map_or(0.0, |share| 1.0 - share))?;
    Ok(Some(1.0 - taken))
}

/// What a CPU quota and other processes take from a case, by the kernel's own counts.
struct Watch {
    since: Moment,
    /// What a quota had taken before, in seconds of all CPUs together; none without a quota.
    before: Option<Seconds>,
    /// Threads that work at once.
    threads: u32,
    /// What this process's threads had run and waited before. None where a GPU works, which works
    /// on while the thread that feeds it waits, and where threads or ranks of this run share CPUs
    /// or are a vendor library's, which wait for each other.
    delay: Option<RunDelay>,
    /// What the hypervisor had taken from their CPUs before; none where a GPU works.
    stolen: Option<Steal>,
}

/// Shares that a case lost, 0..1; none where nobody counts.
struct Lost {
    /// The share of its units that was there just before and just after it.
    available: Option<f64>,
    by_quota: Option<f64>,
    by_waiting: Option<f64>,
    by_hypervisor: Option<f64>,
}

impl Lost {
    /// The share that other processes or machines took, before, after or during the case.
    fn to_others(&self) -> f64 {
        let around = self.available.map_or(0.0, |share| 1.0 - share);
        // A thread that a quota stops waits too, by the kernel's count.
        let during = self.by_waiting.unwrap_or(0.0) - self.by_quota.unwrap_or(0.0);
        around.max(during).max(self.by_hypervisor.unwrap_or(0.0))
    }
}

impl Watch {
    fn begin(case: &Case, Rank { device, peers }: Rank<'_>) -> Watch {
        let properties = device.properties();
        let is_host = properties.backend == "host";
        // A GPU works on while the one thread that feeds it is stopped.
        let threads = match &case.point {
            Point::Collective(point) if is_host => point.ranks,
            point if is_host => point.units().unwrap_or(properties.units),
            _ => 1,
        };
        // Threads of a vendor library wait for each other.
        let is_library = host::library::version_of(&case.kernel.0).is_some();
        let has_cpus =
            is_host && threads <= properties.units && peers.processes() == 1 && !is_library;
        if has_cpus {
            host::let_threads_rest();
        }
        let delay = RunDelay::now().filter(|_| has_cpus);
        let stolen = Steal::now().filter(|_| has_cpus);
        Watch { since: clock::now(), before: host::groups().stopped(), threads, delay, stolen }
    }

    /// What was lost since, of which the units that were there before and after are known.
    fn lost(&self, available: Option<f64>) -> Lost {
        let waited = self.delay.zip(RunDelay::now());
        let stolen = self.stolen.as_ref().zip(Steal::now());
        let stolen = stolen
            .and_then(|(before, now)| now.share_since(before, self.since.elapsed(), self.threads));
        Lost {
            available,
            by_quota: self.by_quota(),
            by_waiting: waited.and_then(|(before, now)| now.share_since(&before)),
            by_hypervisor: stolen,
        }
    }

    fn by_quota(&self) -> Option<f64> {
        let stopped = host::groups().stopped()?.0 - self.before?.0;
        let in_all = self.since.elapsed().0 * f64::from(self.threads.max(1));
        Some((stopped / in_all).clamp(0.0, 1.0)).filter(|share| share.is_finite())
    }
}

/// The check that came nearer to its tolerance.
fn worse(one: Check, other: Check) -> Check {
    if one.error > other.error { one } else { other }
}

fn summary_of(times: &[Seconds]) -> Result<Summary, Stopped> {
    let none = || Stopped::Failed(Failure::Other, "no samples were taken".into());
    Summary::of(times).ok_or_else(none)
}

/// An error in few digits, as people write it where it is neither large nor small.
fn short(error: f64) -> String {
    match error.abs() {
        0.0 => "0".into(),
        1e-3..1e4 => format!("{error:.4}"),
        _ => format!("{error:.3e}"),
    }
}

/// Compares the result with its reference; where it is wrong, with all that can be told of it.
fn verified(
    device: &dyn Device,
    workload: &mut (dyn Workload + '_),
    when: &str,
) -> Result<Check, Stopped> {
    let check = workload.verify()?;
    if check.passed() {
        return Ok(check);
    }
    let integrity = workload.integrity()?.map(|found| {
        let seen = device.telemetry().unwrap_or_default();
        let (ecc_corrected, ecc_uncorrected) = (seen.ecc_corrected, seen.ecc_uncorrected);
        Box::new(Integrity { ecc_corrected, ecc_uncorrected, ..found })
    });
    let differs = integrity.as_ref().filter(|found| found.mismatches > 0);
    if let Some(found) = differs {
        return Err(Stopped::Wrong(format!("{when}, {}", found.words()), integrity));
    }
    let Check { error, tolerance, compared, wrong } = check;
    let words = format!(
        "{when}, {wrong} of {compared} elements {} wrong: largest error {}, tolerance {}",
        agreed(wrong as usize, "is", "are"),
        short(error),
        short(tolerance)
    );
    Err(Stopped::Wrong(words, integrity))
}

/// Samples in another state than the headline's, with [`CONTRAST_SHARE`] of its budgets.
fn sample_briefly(
    rank: Rank<'_>,
    workload: &mut (dyn Workload + '_),
    units: u32,
    state: State,
    settings: &MeasureSettings,
) -> Result<Taken, DeviceError> {
    let short = MeasureSettings {
        samples_min: settings.samples_min.div_ceil(2),
        time_min: Seconds(0.0),
        time_max: settings.time_max * CONTRAST_SHARE,
        warmup_max: settings.warmup_max * CONTRAST_SHARE,
        ..*settings
    };
    Ok(sample(rank, workload, units, state, &short)?.0)
}

/// Samples in the other regime than the headline's. The device rests after settled ones.
fn beside(
    rank: Rank<'_>,
    workload: &mut (dyn Workload + '_),
    units: u32,
    state: State,
    settings: &MeasureSettings,
) -> Result<Option<InRegime>, Stopped> {
    let Taken { samples, regime, .. } = sample_briefly(rank, workload, units, state, settings)?;
    if regime == Some(Regime::Settled) {
        rank.device.rest(regime::RECOVERY);
    }
    let summary = summary_of(&samples.times)?;
    Ok(regime.map(|regime| InRegime { regime, samples, summary }))
}

fn contrast(
    rank: Rank<'_>,
    workload: &mut (dyn Workload + '_),
    units: u32,
    state: State,
    settings: &MeasureSettings,
) -> Result<(Contrast, Vec<Megahertz>), Stopped> {
    let taken = sample_briefly(rank, workload, units, state, settings)?;
    let summary = summary_of(&taken.samples.times)?;
    Ok((Contrast { cache: state.cache, samples: taken.samples, summary }, taken.clocks))
}
