//! The plain words on top: what the machine is, how near it runs to its limits, what stands out.

use super::{
    Ceilings, Cell, Fact,
    case_table::{missing, size, tier_name},
    ceiling::memory_peak,
    chart::measurements,
};
use crate::{
    case::Point,
    dtype::Dtype,
    guard::FASTER_THAN_LIGHT,
    outcome::{AVAILABLE_MIN, Cache, Measurement, Outcome},
    record::Record,
    spec::{Bound, Tier},
    stats::{interval::TOO_FEW, quantile},
    units::{BytesPerSecond, FlopsPerSecond, Megahertz, Seconds},
};
use std::collections::BTreeMap;

/// Above this noise (MAD / median) a case is named as noisy: ten times what a quiet machine shows.
const NOISY: f64 = 0.05;

const PEAK_UNKNOWN: &str = "peak unknown";

/// The device by its best-known name.
pub fn title(record: &Record) -> String {
    let device = &record.header.device;
    match &record.header.part {
        Some(part) => format!("{} ({part})", device.name),
        None => device.name.clone(),
    }
}

/// When, what and by which version.
pub fn subtitle(record: &Record) -> String {
    let header = &record.header;
    let host = header.environment.host.as_ref().map(|host| format!(", on {host}"));
    let elapsed = record.footer.as_ref().map(|footer| format!(" in {}", footer.elapsed));
    format!(
        "suite {}{}, {}{}, fizeau {}, run {}",
        header.suite,
        elapsed.unwrap_or_default(),
        header.started,
        host.unwrap_or_default(),
        header.fizeau,
        header.run
    )
}

/// What this machine is.
pub fn machine(record: &Record) -> String {
    let device = &record.header.device;
    let unit = match (device.backend.as_str(), device.units) {
        ("host", 1) => "core",
        ("host", _) => "cores",
        (_, 1) => "unit",
        _ => "units",
    };
    let clock = device.clock.map(|clock| format!(" at {clock}")).unwrap_or_default();
    let caches: Vec<_> = device
        .caches
        .iter()
        .map(|cache| {
            let shared = match cache.shared_by {
                0 | 1 => String::new(),
                all if all >= device.units => " shared by all".into(),
                some => format!(" for each {some}"),
            };
            format!("L{} {}{shared}", cache.level, cache.size)
        })
        .collect();
    let caches = if caches.is_empty() { "unknown".into() } else { caches.join(", ") };
    let memory = match device.memory.0 {
        0 => "an unknown amount of".into(),
        _ => size(device.memory),
    };
    let under = device.virtualised.as_ref().map(|under| format!(" It runs under {under}."));
    format!(
        "{}: {} {unit}{clock}, {memory} memory, caches {caches}.{}",
        title(record),
        device.units,
        under.unwrap_or_default()
    )
}

/// The numbers to remember.
pub fn facts(record: &Record, ceilings: &Ceilings) -> Vec<Fact> {
    let mut facts = Vec::new();
    facts.extend(memory_fact(record, ceilings));
    facts.extend(latency_fact(record, ceilings));
    facts.extend(compute_facts(record, ceilings));
    facts.extend(gemm_facts(record, ceilings));
    facts.extend(attention_fact(record, ceilings));
    facts.extend(collective_fact(record));
    facts
}

fn memory_fact(record: &Record, ceilings: &Ceilings) -> Option<Fact> {
    let best = ceilings.memory.as_ref()?;
    let tiers = [Tier::Datasheet, Tier::Observed];
    let peak = tiers.into_iter().find_map(|tier| Some((tier, memory_peak(record, tier)?)));
    let of_case = measurements(record).find(|one| one.case.to_string() == best.case);
    let foreign = of_case.and_then(|one| ceilings.foreign(one));
    let peak = peak.filter(|_| foreign.is_none());
    Some(Fact {
        key: "memory_bandwidth".into(),
        label: "Memory bandwidth".into(),
        value: Cell::Bandwidth(best.rate),
        share: peak.map(|(_, peak)| best.rate / peak),
        of: match (peak, foreign) {
            (Some((tier, peak)), _) => format!("of {peak} ({})", tier_name(tier)),
            (None, Some(target)) => not_made_for(target),
            (None, None) => PEAK_UNKNOWN.into(),
        },
        case: best.case.clone(),
    })
}

/// The longest chain beyond all caches that the TLBs still reach; none where no chain was that
/// long.
fn latency_fact(record: &Record, ceilings: &Ceilings) -> Option<Fact> {
    let (_, time, case) = measurements(record)
        .filter_map(|measurement| match measurement.case.point {
            Point::Latency(point)
                if ceilings.in_memory(point.working_set) && !point.is_beyond_tlb() =>
            {
                Some((point.working_set, measurement.summary.median, &measurement.case))
            }
            _ => None,
        })
        .max_by_key(|(size, ..)| *size)?;
    Some(Fact {
        key: "memory_latency".into(),
        label: "Memory latency".into(),
        value: Cell::Time(time),
        share: None,
        of: String::new(),
        case: case.to_string(),
    })
}

/// The fastest measurement of each element type among those that `of` admits. What memory binds
/// says nothing of arithmetic, however fast it is.
fn best_by_dtype(
    record: &Record,
    of: fn(&Point) -> bool,
) -> BTreeMap<Dtype, (&Measurement, FlopsPerSecond)> {
    let mut best: BTreeMap<Dtype, (&Measurement, FlopsPerSecond)> = BTreeMap::new();
    for measurement in measurements(record).filter(|measurement| of(&measurement.case.point)) {
        let light = measurement.tier.and_then(|tier| measurement.light(tier));
        if light.is_some_and(|light| light.bound != Bound::Compute) {
            continue;
        }
        let Some(dtype) = measurement.case.point.dtype() else { continue };
        let rate = measurement.work.flops / measurement.summary.median;
        let slot = best.entry(dtype).or_insert((measurement, rate));
        if slot.1 < rate {
            *slot = (measurement, rate);
        }
    }
    best
}

/// What a measurement reached of its own speed of light, in words and as a share: the same as its
/// row says.
fn share(
    measurement: &Measurement,
    rate: FlopsPerSecond,
    ceilings: &Ceilings,
) -> (Option<f64>, String) {
    if let Some(target) = ceilings.foreign(measurement) {
        return (None, not_made_for(target));
    }
    match (measurement.utilisation(), measurement.tier) {
        (Some(share), Some(tier)) => {
            let peak = rate * (1.0 / share);
            (Some(share), format!("of {peak} ({})", tier_name(tier)))
        }
        _ => (None, PEAK_UNKNOWN.into()),
    }
}

/// Why a kernel's share of a peak is not told.
fn not_made_for(target: &str) -> String {
    format!("(its kernel is not made for {target})")
}

fn rate_facts(
    record: &Record,
    ceilings: &Ceilings,
    (key, label): (&str, &str),
    of: fn(&Point) -> bool,
) -> Vec<Fact> {
    best_by_dtype(record, of)
        .into_iter()
        .map(|(dtype, (measurement, rate))| {
            let (share, of) = share(measurement, rate, ceilings);
            Fact {
                key: format!("{key}_{dtype}"),
                label: format!("{label} {dtype}"),
                value: Cell::Throughput(rate),
                share,
                of,
                case: measurement.case.to_string(),
            }
        })
        .collect()
}

fn compute_facts(record: &Record, ceilings: &Ceilings) -> Vec<Fact> {
    let all = |point: &Point| matches!(point, Point::Compute(_));
    rate_facts(record, ceilings, ("arithmetic", "Arithmetic"), all)
}

fn gemm_facts(record: &Record, ceilings: &Ceilings) -> Vec<Fact> {
    let earnest = |point: &Point| matches!(point, Point::Gemm(p) if p.contents.are_random());
    rate_facts(record, ceilings, ("gemm", "Best GEMM"), earnest)
}

/// The case of attention that comes nearest to this run's own ceilings, and its share of them.
fn best_attention<'r>(record: &'r Record, ceilings: &Ceilings) -> Option<(&'r Measurement, f64)> {
    measurements(record)
        .filter(|measurement| matches!(measurement.case.point, Point::Attention(_)))
        .filter_map(|measurement| Some((measurement, ceilings.share(measurement)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
}

fn attention_fact(record: &Record, ceilings: &Ceilings) -> Option<Fact> {
    let (measurement, share) = best_attention(record, ceilings)?;
    let beside = ceilings.beside_attention(measurement);
    let bound = ceilings.light(measurement).map(|(_, bound)| bound);
    let of = match (bound, beside.memory, beside.arithmetic) {
        (Some(Bound::Memory), Some(best), _) => format!("{} ({})", best.rate, best.words()),
        (_, _, Some(best)) => format!("{} ({})", best.rate, best.words()),
        _ => return None,
    };
    Some(Fact {
        key: "attention".into(),
        label: format!("Attention, {}", measurement.cache),
        value: Cell::Throughput(measurement.work.flops / measurement.summary.median),
        share: Some(share),
        of: format!("of this run's own {of}"),
        case: measurement.case.to_string(),
    })
}

/// The best of the longest messages that were measured: shorter ones may never leave a cache.
fn collective_fact(record: &Record) -> Option<Fact> {
    let (message, busbw, case) = measurements(record)
        .filter_map(|measurement| match measurement.case.point {
            Point::Collective(point) => {
                let algbw: BytesPerSecond = point.message / measurement.summary.median;
                let busbw = algbw * point.collective.bus_factor(point.ranks);
                Some((point.message, busbw, &measurement.case))
            }
            _ => None,
        })
        .max_by(|a, b| a.0.cmp(&b.0).then(a.1.0.total_cmp(&b.1.0)))?;
    Some(Fact {
        key: "collective_busbw".into(),
        label: "Bus bandwidth".into(),
        value: Cell::Bandwidth(busbw),
        share: None,
        of: format!("({} messages)", size(message)),
        case: case.to_string(),
    })
}

/// How many cases have no interval, and why.
fn without_interval(record: &Record) -> Option<String> {
    let measured: Vec<_> = record.outcomes.iter().filter_map(Outcome::measured).collect();
    let unknown = measured.iter().filter(|one| !one.summary.interval.is_known()).count();
    (unknown > 0).then(|| {
        format!(
            "{unknown} of {} measured cases have {TOO_FEW}: their samples follow each other too \
             closely, or there are fewer than six.",
            measured.len()
        )
    })
}

/// How near it runs to its limits, and what became of the plan.
pub fn sentences(record: &Record, ceilings: &Ceilings) -> Vec<String> {
    let mut sentences = Vec::new();
    sentences.extend(limits(&facts(record, ceilings), attention_words(record, ceilings)));
    sentences.push(counts(record));
    sentences.extend(noisy(record));
    sentences.extend(without_interval(record));
    sentences
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// What the best attention reaches in the state of its headline, and beside a product also in that
/// product's: otherwise samples with cold caches would be read as if they were hot ones.
fn attention_words(record: &Record, ceilings: &Ceilings) -> Option<String> {
    let (measurement, share) = best_attention(record, ceilings)?;
    let Fact { of, .. } = attention_fact(record, ceilings)?;
    let cache = measurement.cache;
    let is_arithmetic = ceilings.light(measurement).is_some_and(|(_, of)| of == Bound::Compute);
    let hot = ceilings.attention_when_hot(measurement).filter(|_| cache == Cache::Cold);
    let beside =
        hot.filter(|_| is_arithmetic).map(|hot| format!(", {} with hot ones", percent(hot)));
    let beside = beside.unwrap_or_default();
    Some(format!("attention with {cache} caches reaches {} {of}{beside}", percent(share)))
}

/// "At best, memory reaches 90 %, ...": one clause for each kind of fact that has a share.
fn limits(facts: &[Fact], attention: Option<String>) -> Option<String> {
    let mut clauses = Vec::new();
    let share_of = |key: &str| facts.iter().find(|fact| fact.key == key)?.share;
    if let Some(share) = share_of("memory_bandwidth") {
        clauses.push(format!("memory bandwidth reaches {} of its peak", percent(share)));
    }
    let products: Vec<_> = facts
        .iter()
        .filter_map(|fact| {
            let dtype = fact.key.strip_prefix("gemm_")?;
            Some(format!("{} ({dtype})", percent(fact.share?)))
        })
        .collect();
    if !products.is_empty() {
        clauses.push(format!("matrix products reach {} of peak arithmetic", join(&products)));
    }
    clauses.extend(attention);
    (!clauses.is_empty()).then(|| format!("At best, {}.", clauses.join("; ")))
}

fn join(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// Planned = measured + skipped + failed + invalid (+ not reached).
fn counts(record: &Record) -> String {
    let [mut measured, mut skipped, mut failed, mut invalid] = [0; 4];
    for outcome in &record.outcomes {
        match outcome {
            Outcome::Measured(_) => measured += 1,
            Outcome::Skipped { .. } => skipped += 1,
            Outcome::Failed { .. } => failed += 1,
            Outcome::Invalid { .. } => invalid += 1,
        }
    }
    let missing = missing(record).len();
    let not_reached = if missing > 0 { format!(" + {missing} not reached") } else { String::new() };
    let planned = record.header.plan.len();
    format!(
        "{planned} cases planned = {measured} measured + {skipped} skipped + {failed} failed + \
         {invalid} invalid{not_reached}."
    )
}

fn noisy(record: &Record) -> Option<String> {
    let mut noisy: Vec<_> = measurements(record)
        .filter(|measurement| measurement.summary.noise > NOISY)
        .map(|measurement| (measurement.summary.noise, &measurement.case))
        .collect();
    noisy.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (noise, case) = noisy.first()?;
    let all = measurements(record).count();
    let are = if noisy.len() == 1 { "is" } else { "are" };
    Some(format!(
        "{} of {all} measured cases {are} noisy (more than {:.0} % about the median), most of all \
         {case} with {:.0} %.",
        noisy.len(),
        NOISY * 100.0,
        noise * 100.0
    ))
}

/// Where a CPU quota kept the program from running. Measured cases alone: a report lists the others
/// with their reasons.
fn held_by_quota(record: &Record) -> Option<String> {
    let held: Vec<_> = measurements(record)
        .filter(|measurement| measurement.held_by_quota())
        .filter_map(|measurement| Some((measurement.stopped_by_quota?, &measurement.case)))
        .collect();
    let (most, case) = held.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let cases = if held.len() == 1 { "case" } else { "cases" };
    let quota = record.header.environment.cpu_quota;
    let quota = quota.map(|quota| format!(" of {quota:.2} CPUs")).unwrap_or_default();
    Some(format!(
        "A CPU quota{quota} stopped the program while {} {cases} ran, {case} the most: for {:.0} % \
         of its time. Their figures may show the quota and not the machine.",
        held.len(),
        most * 100.0
    ))
}

/// Where other processes took CPU time on the same cores.
fn disturbed(record: &Record) -> Option<String> {
    let by_others = |one: &&Measurement| one.disturbed() && !one.held_by_quota();
    let shares = measurements(record).filter(by_others);
    let mut shares: Vec<_> = shares.filter_map(|one| Some((one.available?, &one.case))).collect();
    shares.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (least, case) = shares.first()?;
    let were = if shares.len() == 1 { "case was" } else { "cases were" };
    Some(format!(
        "{} {were} disturbed: other processes took CPU time on the same cores and left less than \
         {:.0} % of their arithmetic, only {:.0} % to {case}. Their figures are too low for this \
         machine.",
        shares.len(),
        AVAILABLE_MIN * 100.0,
        least * 100.0
    ))
}

/// Where more was reached than the limit that stands beside it. What exceeds all is invalid.
fn above(record: &Record) -> Option<String> {
    let shares = measurements(record).filter_map(|one| Some((one.utilisation()?, &one.case)));
    let mut shares: Vec<_> = shares.filter(|(share, _)| *share > 1.0).collect();
    shares.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (most, case) = shares.first()?;
    let read = if shares.len() == 1 { "case reads" } else { "cases read" };
    // As far as the guard allows, which has the same limits and the fastest clock that was seen.
    let why = match *most <= FASTER_THAN_LIGHT {
        true => "a clock is observed before and after samples, and theirs can differ by as much",
        false => {
            "the limit beside it is not that of the samples, whose clock or memory was faster \
             than what was observed: do not use these shares, only the rates"
        }
    };
    Some(format!(
        "{} {read} above 100 % of the limit that stands beside it, {case} the most with {:.1} %: \
         {why}.",
        shares.len(),
        most * 100.0
    ))
}

/// Readings within timed regions from which on their median is taken for the clock there.
const TIMED_CLOCKS_MIN: usize = 3;

/// How far two clocks may differ and still be called the same: sensors tell whole steps.
const CLOCK_TOLERANCE: f64 = 0.03;

/// Where sensors read another clock while a kernel was timed than the one that was observed around
/// its samples, and that shares of the observed clock refer to.
fn other_clock(record: &Record) -> Option<String> {
    let mut found: Vec<_> = measurements(record)
        .filter_map(|one| {
            let timed = &one.telemetry.as_ref()?.timed_clocks;
            let timed: Vec<f64> = timed.iter().map(|clock| clock.0).collect();
            let observed = one.clock.filter(|_| timed.len() >= TIMED_CLOCKS_MIN)?;
            let timed = Megahertz(quantile::median(&timed));
            let differs = (timed / observed - 1.0).abs();
            (differs > CLOCK_TOLERANCE).then_some((differs, timed, observed, &one.case))
        })
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (_, timed, observed, case) = found.first()?;
    let ran = if found.len() == 1 { "case ran" } else { "cases ran" };
    Some(format!(
        "{} {ran} at another clock than was observed around the samples, {case} the most: {timed} \
         by the sensors while it was timed, {observed} around it. Shares of the observed clock are \
         off by as much.",
        found.len()
    ))
}

/// What the reader must know before believing a number.
pub fn warnings(record: &Record) -> Vec<String> {
    let header = &record.header;
    let mut warnings: Vec<String> = header.environment.architecture_warning().into_iter().collect();
    warnings.extend(header.environment.warnings.iter().cloned());
    match &record.footer {
        None => warnings.push(
            "The record has no end: the run was killed, or still goes on. fizeau run --resume \
             completes it."
                .into(),
        ),
        Some(footer) if footer.interrupted => {
            warnings.push("The run was interrupted before its plan was done.".into());
        }
        Some(_) => {}
    }
    if header.part.is_none() && !header.device.flops_per_clock.is_empty() {
        let of_what = match header.device.backend.as_str() {
            "host" => "its instruction sets allow",
            _ => "units of its architecture can do at its clock",
        };
        warnings.push(format!(
            "No table names this device: its peak arithmetic is the most that {of_what}, which it \
             may not have."
        ));
    }
    let known = |peak: Option<BytesPerSecond>| peak.is_some();
    let memory = [Tier::Datasheet, Tier::Observed].map(|tier| known(memory_peak(record, tier)));
    if !memory.contains(&true) && Ceilings::of(record).memory.is_some() {
        warnings.push(
            "Memory's peak is unknown here: no share of a peak is printed for it, only shares \
             of this run's own best."
                .into(),
        );
    }
    let throttled = measurements(record)
        .filter(|measurement| !measurement.samples.throttled.is_empty())
        .count();
    if throttled > 0 {
        let cases = if throttled == 1 { "case holds" } else { "cases hold" };
        warnings.push(format!(
            "{throttled} {cases} samples taken while the device held its clock down."
        ));
    }
    warnings.extend(exps_unknown(record));
    warnings.extend(held_by_quota(record));
    warnings.extend(disturbed(record));
    warnings.extend(above(record));
    warnings.extend(other_clock(record));
    warnings.extend(wrong(record));
    warnings.extend(record.notes.iter().map(|note| format!("While reading the record: {note}")));
    warnings
}

/// Where attention was measured on a GPU of which nobody says how fast it makes exponentials.
fn exps_unknown(record: &Record) -> Option<String> {
    let device = &record.header.device;
    let attends = |one: &Measurement| matches!(one.case.point, Point::Attention(_));
    let unknown = device.backend != "host" && device.exps_per_clock.is_none();
    (unknown && measurements(record).any(attends)).then(|| {
        "How many exponentials a unit of this device makes each clock is unknown: attention is not \
         set against them."
            .into()
    })
}

/// Failed and invalid cases, said on top too.
fn wrong(record: &Record) -> Vec<String> {
    let mut wrong = Vec::new();
    let failed: Vec<_> = record
        .outcomes
        .iter()
        .filter(|outcome| matches!(outcome, Outcome::Failed { .. }))
        .collect();
    let invalid: Vec<_> = record
        .outcomes
        .iter()
        .filter(|outcome| matches!(outcome, Outcome::Invalid { .. }))
        .collect();
    for (cases, what) in [(failed, "failed"), (invalid, "gave a time that cannot be believed")] {
        if let Some(first) = cases.first() {
            let others = match cases.len() {
                1 => String::new(),
                many => format!(" and {} more", many - 1),
            };
            wrong.push(format!("{}{others} {what}; the reasons are below.", first.case()));
        }
    }
    wrong
}

/// The shortest time that can be told apart, for the foot of a report.
pub fn timer(record: &Record) -> String {
    let timer = &record.header.timer;
    let told = |time: Seconds| if time.0 > 0.0 { time.to_string() } else { "unknown".into() };
    format!("Timer: steps of {}, overhead {}.", told(timer.resolution), told(timer.overhead))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_read_as_prose() {
        let of = |parts: &[&str]| join(&parts.iter().map(|p| p.to_string()).collect::<Vec<_>>());
        assert_eq!(of(&[]), "");
        assert_eq!(of(&["a"]), "a");
        assert_eq!(of(&["a", "b", "c"]), "a, b and c");
    }
}
