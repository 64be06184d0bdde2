//! Whether what was measured here reproduces a claim, and if not, why. Pure: records in, an answer
//! out, so that the other side can judge the same records again.

use super::{
    Answer, Claim, Condition, Met, Run, Statement, Verdict as Possible, condition, hardware,
};
use fizeau_domain::{
    case::{Collective, Point},
    dtype::Dtype,
    number::percent,
    outcome::{Cache, Measurement, Outcome, Regime},
    selector::Selector,
    spec::{Part, Properties, Tier},
    stats::student,
    verdict::Verdict,
};
use fizeau_record::Record;

/// A ratio this near to one of [`DEFINITIONS`] is taken for it.
const SAME_DEFINITION: f64 = 0.03;

/// A clock below this share of the highest one that is stated is a reason.
const CLOCK_LOW: f64 = 0.97;

/// A load average above this share of the CPUs is other processes' work.
const BUSY: f64 = 0.5;

/// Probability outside of each end of the interval: 95 % lie within.
const TAIL: f64 = 0.025;

/// What two sides may count differently: the claim over what is counted here, whether it can be of
/// this kind of figure, and in words what the claim then counts.
type Definition = (f64, fn(&Statement) -> bool, &'static str);

fn of_memory(statement: &Statement) -> bool {
    matches!(statement, Statement::Memory(_))
}

fn of_arithmetic(statement: &Statement) -> bool {
    matches!(statement, Statement::Arithmetic(..) | Statement::PerClock(..))
}

fn of_links(statement: &Statement) -> bool {
    matches!(statement, Statement::Bus(..))
}

/// Sources: vendors' datasheets (sparsity), STREAM's own counting rule (McCalpin: the read of a
/// write-allocate is not counted), nccl-tests' PERFORMANCE.md (bus bandwidth).
const DEFINITIONS: [Definition; 10] = [
    (2.0, of_arithmetic, "the rate with 2:4 sparsity, which is twice the dense one"),
    (0.5, of_arithmetic, "a multiply-add as one operation and not as two"),
    (2.0, of_memory, "bytes read and bytes written, or both directions, where one is counted here"),
    (0.5, of_memory, "a copied byte once, which is read and written"),
    (1.5, of_memory, "the hidden read of a copy's write-allocate too"),
    (4.0 / 3.0, of_memory, "the hidden read of a triad's write-allocate too"),
    (8.0, of_memory, "bits and not bytes"),
    (1.0 / 1.073_741_824, of_memory, "GiB and not GB"),
    (8.0, of_links, "bits and not bytes"),
    (2.0, of_links, "both directions of a link"),
];

/// Where a claim was run: what it was run with.
#[derive(Clone, Copy, Debug)]
pub struct Here<'a> {
    /// The part that the claim names.
    pub part: Option<&'a Part>,
    /// Whether the figure can be true at all.
    pub possible: &'a Possible,
    /// The case that counts.
    pub case: &'a str,
    /// One record for each fresh process.
    pub rounds: &'a [Record],
}

/// What came of a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Reproduction {
    /// Pass: reproduced. Fail: not reproduced, under the stated conditions. Inconclusive: a
    /// condition was not met, or the interval does not tell.
    pub verdict: Verdict,
    /// Why, in a sentence.
    pub why: String,
    /// What was measured over the figure: the geometric mean of the rounds; none of a stub.
    pub share: Option<f64>,
    /// Half of the width of its 95 % interval (Student's t on logarithms); none with fewer
    /// than two rounds.
    pub half: Option<f64>,
    /// What each round measured, in the claim's SI unit.
    pub figures: Vec<f64>,
    /// The conditions that the claim states.
    pub conditions: Vec<Condition>,
    /// What the record has that explains a difference.
    pub causes: Vec<String>,
    /// Whether a stub driver stood in for a device.
    pub is_stub: bool,
}

impl Reproduction {
    /// The answer in a word or two.
    pub fn answer(&self) -> &'static str {
        match self.verdict {
            Verdict::Pass | Verdict::Waived => "reproduced",
            Verdict::Fail => "not reproduced",
            Verdict::Inconclusive => "cannot tell",
        }
    }

    /// "96.1 % +- 0.4 of the claim".
    pub fn spelled_share(&self) -> Option<String> {
        let half = self.half.map(|half| format!(" +- {:.1}", half * 100.0)).unwrap_or_default();
        Some(format!("{}{half} of the claim", percent(self.share?, 1)))
    }
}

/// A measurement in the unit of a claim, in a state of the caches; none where it is of another kind
/// or element type.
pub fn measured_by(
    statement: &Statement,
    one: &Measurement,
    device: &Properties,
    cache: Option<Cache>,
) -> Option<f64> {
    let time = match cache {
        Some(cache) => one.median_when(cache)?,
        None => one.summary.median,
    };
    let same = |dtype: &Option<Dtype>| {
        let of_case = one.case.point.dtype();
        let of = |dtype: Dtype| [dtype, dtype.unscaled()];
        dtype.is_none_or(|stated| of_case.is_some_and(|case| of(case).contains(&stated)))
    };
    let flops = (one.work.flops / time).0;
    let figure = match (statement, &one.case.point) {
        (Statement::Memory(_), Point::Transfer(point)) if !point.transfer.is_latency() => {
            Some((point.moved() / time).0)
        }
        (
            Statement::Memory(_),
            Point::Stream(_)
            | Point::Access(_)
            | Point::Fused(_)
            | Point::Recurrence(_)
            | Point::Sparse(_)
            | Point::Attention(_)
            | Point::Gemm(_)
            | Point::Grouped(_),
        ) => Some((one.work.memory / time).0),
        (
            Statement::Arithmetic(_, dtype),
            Point::Compute(_) | Point::Gemm(_) | Point::Grouped(_) | Point::Attention(_),
        ) if same(dtype) => Some(flops),
        (Statement::PerClock(_, dtype), Point::Compute(_) | Point::Gemm(_)) if same(dtype) => {
            let units = f64::from(one.case.point.units().unwrap_or(device.units).max(1));
            let clock = condition::clock_of(one)?.0 * 1e6;
            (clock > 0.0).then(|| flops / units / clock)
        }
        (Statement::Bus(_, devices), Point::Collective(point))
            if point.collective == Collective::AllReduce
                && devices.is_none_or(|devices| devices == point.ranks) =>
        {
            Some((point.message / time).0 * point.collective.bus_factor(point.ranks))
        }
        _ => None,
    };
    figure.filter(|figure| figure.is_finite() && *figure > 0.0)
}

/// The state of the caches that a claim states.
fn cache_of(run: &Run) -> Option<Cache> {
    run.conditions.cache.map(Cache::from)
}

/// The fastest case of a record that counts for a claim.
///
/// # Errors
/// In words: why there is none.
pub fn best_case(claim: &Claim, run: &Run, record: &Record) -> Result<String, String> {
    let statement: Statement = claim.value.parse()?;
    let selector = Selector::parse(&run.cases).map_err(|error| error.to_string())?;
    let device = &record.header.device;
    let figure = |one: &Measurement| {
        // Where the stated state of the caches was not measured, the condition says so.
        measured_by(&statement, one, device, cache_of(run))
            .or_else(|| measured_by(&statement, one, device, None))
    };
    let counted = record.outcomes.iter().filter(|one| selector.selects(&one.case().to_string()));
    let measured = counted.clone().filter_map(Outcome::measured);
    let best = measured
        .filter_map(|one| Some((figure(one)?, one)))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, one)| one.case.to_string());
    best.ok_or_else(|| {
        let other_kind = format!("no case that was measured is of the kind of {:?}", claim.value);
        if counted.clone().any(|outcome| outcome.measured().is_some()) {
            return other_kind;
        }
        let reason = counted.clone().find_map(|outcome| match outcome {
            Outcome::Skipped { case, reason } => Some(format!("{case} was skipped: {reason}")),
            Outcome::Failed { case, error, .. } => Some(format!("{case} failed: {error}")),
            Outcome::Invalid { measurement, reason, .. } => {
                Some(format!("{} is no measurement: {reason}", measurement.case))
            }
            Outcome::Measured(_) => None,
        });
        reason.unwrap_or(other_kind)
    })
}

/// Judges the rounds of a claim.
///
/// # Errors
/// In words: where no round measured the case.
pub fn reproduce(claim: &Claim, run: &Run, here: Here<'_>) -> Result<Reproduction, String> {
    let statement: Statement = claim.value.parse()?;
    let mut rounds: Vec<(&Record, &Measurement)> = Vec::new();
    for record in here.rounds {
        let outcome = record.outcomes.iter().find(|one| one.case().to_string() == here.case);
        match outcome {
            Some(Outcome::Measured(one)) => rounds.push((record, one)),
            Some(Outcome::Failed { error, .. }) => return Err(format!("{}: {error}", here.case)),
            Some(Outcome::Invalid { reason, .. } | Outcome::Skipped { reason, .. }) => {
                return Err(format!("{}: {reason}", here.case));
            }
            None => return Err(format!("a round has no result of {}", here.case)),
        }
    }
    let Some(&(first, _)) = rounds.first() else { return Err("no round was measured".into()) };
    let is_stub = first.header.device.is_stub();
    let of = |cache: Option<Cache>| -> Vec<f64> {
        let figure = |(record, one): &(&Record, &Measurement)| {
            measured_by(&statement, one, &record.header.device, cache)
        };
        rounds.iter().filter_map(figure).collect()
    };
    let stated_cache = cache_of(run).filter(|cache| of(Some(*cache)).len() == rounds.len());
    let figures = of(stated_cache);
    if figures.len() != rounds.len() {
        return Err(format!("{} is no measurement of {:?}", here.case, claim.value));
    }
    let conditions = condition::worst(
        rounds.iter().map(|(record, one)| condition::of_round(claim, run, record, one)),
    );
    let shares: Vec<f64> = figures.iter().map(|figure| figure / statement.figure()).collect();
    let (mean, interval) = mean_and_interval(&shares);
    let mut found = Reproduction {
        verdict: Verdict::Inconclusive,
        why: String::new(),
        share: Some(mean).filter(|_| !is_stub),
        half: interval.map(|[low, high]| (high - low) / 2.0).filter(|_| !is_stub),
        figures,
        conditions,
        causes: Vec::new(),
        is_stub,
    };
    (found.verdict, found.why) = judged(&found, run, interval, &rounds);
    if found.verdict != Verdict::Pass && !is_stub {
        found.causes = causes(&statement, claim, run, here, &rounds, mean);
    }
    Ok(found)
}

/// The geometric mean, and its 95 % interval: what disturbs a process multiplies its time, and an
/// interval of rates themselves could reach below zero.
fn mean_and_interval(values: &[f64]) -> (f64, Option<[f64; 2]>) {
    let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let (mean, variance) = student::mean_and_variance(&logarithms);
    let half = (variance.freedom > 0.0).then(|| {
        let error = (variance.value / values.len() as f64).sqrt();
        student::exceeded_with(TAIL, variance.freedom) * error
    });
    (mean.exp(), half.map(|half| [mean - half, mean + half].map(f64::exp)))
}

/// The verdict and its reason.
fn judged(
    found: &Reproduction,
    run: &Run,
    interval: Option<[f64; 2]>,
    rounds: &[(&Record, &Measurement)],
) -> (Verdict, String) {
    let least = 1.0 - run.tolerance();
    let limit = format!("{} or more counts as reproduced", percent(least, 1));
    if found.is_stub {
        let why = "a stub driver stands in for the device: its figures say nothing of hardware";
        return (Verdict::Inconclusive, why.into());
    }
    let Some([low, high]) = interval else {
        let why = format!("one round tells nothing of the scatter between processes; {limit}");
        return (Verdict::Inconclusive, why);
    };
    let open = |met: Met| found.conditions.iter().filter(move |one| one.met == met);
    let named = |met: Met| open(met).map(|one| one.name).collect::<Vec<_>>().join(", ");
    let reached = match low >= least {
        true => "the figure is reached here all the same, under other conditions",
        false => "what was measured here says nothing of the figure",
    };
    if open(Met::No).next().is_some() {
        let why = format!("not met of its conditions: {}; {reached}", named(Met::No));
        return (Verdict::Inconclusive, why);
    }
    if open(Met::Unknown).next().is_some() {
        let why = format!("nothing here tells of its conditions: {}", named(Met::Unknown));
        return (Verdict::Inconclusive, why);
    }
    if low >= least {
        return (Verdict::Pass, limit);
    }
    if let Some(words) = rounds.iter().find_map(|(_, one)| one.disturbance()) {
        let why = format!("the measurement {words}: repeat it on a quiet machine");
        return (Verdict::Inconclusive, why);
    }
    if high < least {
        return match busy(rounds[0].0) {
            Some(words) => (Verdict::Inconclusive, words),
            None => (Verdict::Fail, limit),
        };
    }
    let why = format!("the interval holds the limit: more rounds would narrow it; {limit}");
    (Verdict::Inconclusive, why)
}

/// That a host was busy before the first round that counts, which raises the load average
/// by itself.
/// A process that never has its cores alone does not see that others take them: whether units are
/// disturbed is told by the most that they did in the same run.
fn busy(record: &Record) -> Option<String> {
    let environment = &record.header.environment;
    let cpus = f64::from(environment.cpus.max(1));
    let load = environment.load.filter(|load| *load > BUSY * cpus)?;
    (record.header.device.backend == "host").then(|| {
        format!(
            "the machine was busy at the start (load average {load:.2} on {cpus} CPUs): what is \
             measured then is not the machine alone; repeat it on a quiet one"
        )
    })
}

/// What the records and the catalogue have that explains why less was measured than is claimed.
fn causes(
    statement: &Statement,
    claim: &Claim,
    run: &Run,
    here: Here<'_>,
    rounds: &[(&Record, &Measurement)],
    share: f64,
) -> Vec<String> {
    let mut causes = Vec::new();
    if here.possible.answer == Answer::Impossible {
        causes.push(format!("the figure cannot be true as it stands: {}", here.possible.why));
    }
    if let Some(part) = here.part.filter(|part| hardware::is_stated_peak(part, statement)) {
        causes.push(format!(
            "wrong tier: the figure is the peak that the datasheet of {} prints, which no \
             measurement reaches",
            part.name
        ));
    }
    if share < 1.0 - run.tolerance() {
        let ratio = 1.0 / share;
        let same = |(factor, is_its, _): &&Definition| {
            is_its(statement) && (ratio / factor - 1.0).abs() <= SAME_DEFINITION
        };
        causes.extend(DEFINITIONS.iter().filter(same).map(|(factor, _, words)| {
            format!(
                "perhaps another definition: the figure is {ratio:.2} times what was measured, \
                 near {factor:.2}, as if it counted {words}"
            )
        }));
    }
    causes.extend(by_sensors(here.part, rounds));
    let device = &rounds[0].0.header.device;
    let other = rounds[0].1.contrast.as_ref().map(|contrast| contrast.cache);
    if let Some(figure) = other.and_then(|c| measured_by(statement, rounds[0].1, device, Some(c))) {
        let share = figure / statement.figure();
        if let Some(cache) = other.filter(|_| share >= 1.0 - run.tolerance()) {
            let share = percent(share, 1);
            causes.push(format!("with {cache} caches {share} of the figure were measured"));
        }
    }
    causes.extend(in_the_other_regime(statement, run, device, rounds[0].1));
    if let Some(under) = &device.virtualised {
        causes.push(format!("runs under {under}: neighbours share its memory and clock, unseen"));
    }
    if let (Some(share), Some(tier)) = (rounds[0].1.utilisation(), rounds[0].1.tier) {
        causes.push(format!(
            "what was measured is {} of the limit of this device ({})",
            percent(share, 1),
            tier_words(tier)
        ));
    }
    causes.extend(claim.note.iter().map(|note| format!("the claim's own note: {note}")));
    causes
}

/// That the figure was reached in the regime that is measured beside the headline's.
fn in_the_other_regime(
    statement: &Statement,
    run: &Run,
    device: &Properties,
    one: &Measurement,
) -> Option<String> {
    let beside = one.beside.as_ref()?;
    let faster = one.summary.median / beside.summary.median;
    let share = measured_by(statement, one, device, None)? * faster / statement.figure();
    let way = match beside.regime {
        Regime::Burst => "in bursts, each after a rest,",
        Regime::Settled => "after 0.3 s of the same load",
    };
    let words = format!("{way} {} of the figure were measured", percent(share, 1));
    (share >= 1.0 - run.tolerance()).then_some(words)
}

fn tier_words(tier: Tier) -> &'static str {
    match tier {
        Tier::Datasheet => "datasheet",
        Tier::Observed => "at the observed clock",
        Tier::Algorithmic => "algorithm",
        Tier::Ceiling => "best of the run",
    }
}

/// What held the device down: power limit and clock.
fn by_sensors(part: Option<&Part>, rounds: &[(&Record, &Measurement)]) -> Vec<String> {
    let mut causes = Vec::new();
    let held = rounds.iter().filter_map(|(_, one)| one.telemetry.as_ref());
    let mut held: Vec<&str> = held.flat_map(|seen| &seen.held_by).map(String::as_str).collect();
    held.sort_unstable();
    held.dedup();
    if !held.is_empty() {
        causes.push(format!("the clock was held down by: {}", held.join(", ")));
    }
    let (record, one) = rounds[0];
    let settings = record.header.environment.settings.as_ref();
    let limit = settings.and_then(|settings| settings.power_limit);
    let stated = part.and_then(|part| part.power);
    if let Some((limit, stated)) = limit.zip(stated).filter(|(limit, of)| limit.0 < of.0 * 0.995) {
        causes.push(format!("power cap: {limit} where the part is stated at {stated}"));
    }
    if let Some(lock) = settings.and_then(|settings| settings.clock_locks.as_ref())
        && lock != "auto"
    {
        causes.push(format!("clocks are held: {lock}"));
    }
    let most = part.and_then(|part| part.clock_most);
    let clock = condition::clock_of(one);
    let low = clock.zip(most).filter(|(clock, most)| clock.0 < most.0 * CLOCK_LOW);
    if let Some((clock, most)) = low {
        causes.push(format!("clock: {clock} meanwhile, of {most} at most"));
    }
    causes
}
