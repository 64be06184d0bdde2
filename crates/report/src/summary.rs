//! The plain words on top: what the machine is, how near it runs to its limits, what stands out.

use super::{
    Ceilings, Fact,
    about::Counts,
    ceiling::memory_peak,
    chart::measurements,
    consistency,
    headline::{beside_own_best, best_attention, facts},
    reasons::of_socket,
    severity::Remarks,
    unknown::{Unknown, of_record},
};
use fizeau_domain::{
    case::Point,
    outcome::{AVAILABLE_MIN, Cache, Measurement, Outcome, Taker},
    spec::{Bound, Tier},
    stats::{interval::TOO_FEW, quantile},
    text::{agreed, counted},
    units::{BytesPerSecond, Megahertz, Seconds},
};
use fizeau_record::{Record, UserKernels, guard::FASTER_THAN_LIGHT};

/// Above this noise (MAD / median) a case is named as noisy: ten times what a quiet machine shows.
pub const NOISY: f64 = 0.05;

/// The device by its best-known name.
pub fn title(record: &Record) -> String {
    let device = &record.header.device;
    match &record.header.part {
        Some(part) => format!("{} ({part})", device.name),
        None => device.name.clone(),
    }
}

/// A sentence for each file of kernels that the user brought.
pub fn user_kernels(record: &Record) -> Vec<String> {
    let sentence = |file: &UserKernels| {
        let UserKernels { names, path, sha256, .. } = file;
        let s = if names.len() == 1 { "" } else { "s" };
        format!("Kernel{s} of the user's: {}, of {path} (sha256 {sha256}).", names.join(", "))
    };
    record.header.user_kernels.iter().map(sentence).collect()
}

/// When, what and by which version.
pub fn subtitle(record: &Record) -> String {
    let header = &record.header;
    let host = header.environment.host.as_ref().map(|host| format!(", on {host}"));
    let elapsed = record.footer.as_ref().map(|footer| format!(" in {}", footer.elapsed.human()));
    format!(
        "{}{}, {}{}, fizeau {}, run {}",
        suite(record),
        elapsed.unwrap_or_default(),
        header.started,
        host.unwrap_or_default(),
        header.fizeau,
        header.run
    )
}

/// Characters of selectors that a subtitle has; it counts them where they are longer. The command
/// below a report has all of them.
const SELECTORS_MAX: usize = 120;

/// Which suite, and where selectors were given how much of it they took: `6 of 168 cases of suite
/// quick (gemm/bf16)`.
pub fn suite(record: &Record) -> String {
    let header = &record.header;
    if header.selectors.is_empty() {
        return format!("suite {}", header.suite);
    }
    let part = match header.suite_cases {
        Some(1) => "the one case".into(),
        Some(all) => format!("{} of {}", header.plan.len(), counted(all as usize, "case")),
        None => "part".into(),
    };
    let selectors = header.selectors.join(" ");
    let selectors = match selectors.chars().count() {
        ..=SELECTORS_MAX => selectors,
        _ => counted(header.selectors.len(), "selector"),
    };
    format!("{part} of suite {} ({selectors})", header.suite)
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
        _ => device.memory.to_string(),
    };
    let under = device.virtualised.as_ref().map(|under| format!(" It runs under {under}."));
    format!(
        "{}: {} {unit}{clock}, {memory} memory, caches {caches}.{}",
        title(record),
        device.units,
        under.unwrap_or_default()
    )
}

/// How many cases have no interval, and why.
fn without_interval(record: &Record) -> Option<String> {
    let measured: Vec<_> = record.outcomes.iter().filter_map(Outcome::measured).collect();
    let unknown = measured.iter().filter(|one| !one.summary.interval.is_known()).count();
    (unknown > 0).then(|| {
        format!(
            "{unknown} of {} {} {TOO_FEW}: {} samples follow each other too closely, or there are \
             fewer than six.",
            counted(measured.len(), "measured case"),
            agreed(unknown, "has", "have"),
            agreed(unknown, "its", "their")
        )
    })
}

/// How near it runs to its limits, and what became of the plan.
pub fn sentences(record: &Record, ceilings: &Ceilings) -> Vec<String> {
    let mut sentences = Vec::new();
    sentences.extend(limits(&facts(record, ceilings), attention_words(record, ceilings)));
    sentences.push(counts(record));
    sentences
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// What the best attention reaches in the state of its headline, and beside a product also in that
/// product's: otherwise samples with cold caches would be read as if they were hot ones.
fn attention_words(record: &Record, ceilings: &Ceilings) -> Option<String> {
    let (measurement, share) = best_attention(record, ceilings)?;
    let Fact { of, .. } = beside_own_best(record, ceilings, measurement, share)?;
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
    let Counts { planned, measured, skipped, failed, invalid, not_reached } = Counts::of(record);
    let missing = match not_reached {
        0 => String::new(),
        count => format!(" + {count} not reached"),
    };
    let cases = counted(planned, "case");
    format!(
        "{cases} planned = {measured} measured + {skipped} skipped + {failed} failed + \
         {invalid} invalid{missing}."
    )
}

fn noisy(record: &Record) -> Option<String> {
    let mut noisy: Vec<_> = measurements(record)
        .filter(|measurement| measurement.summary.noise > NOISY)
        .map(|measurement| (measurement.summary.noise, &measurement.case))
        .collect();
    noisy.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (noise, case) = noisy.first()?;
    let all = counted(measurements(record).count(), "measured case");
    let are = agreed(noisy.len(), "is", "are");
    Some(format!(
        "{} of {all} {are} noisy (more than {:.0} % about the median), most of all \
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
    let cases = counted(held.len(), "case");
    let quota = record.header.environment.cpu_quota;
    let quota = quota.map(|quota| format!(" of {quota:.2} CPUs")).unwrap_or_default();
    Some(format!(
        "A CPU quota{quota} stopped the program while {cases} ran, {case} the most: for {:.0} % \
         of its time. {} may show the quota and not the machine.",
        most * 100.0,
        agreed(held.len(), "Its figure", "Their figures")
    ))
}

/// Where other processes or a hypervisor took CPU time on the same cores.
fn disturbed(record: &Record) -> Option<String> {
    let by_others =
        |one: &&Measurement| matches!(one.taken_by(), Some(Taker::Processes | Taker::Hypervisor));
    let by_hypervisor = |one: &&Measurement| one.taken_by() == Some(Taker::Hypervisor);
    let shares = measurements(record).filter(by_others);
    let stolen = measurements(record).filter(by_hypervisor).count();
    let mut shares: Vec<_> =
        shares.filter_map(|one| Some((one.share_left()?, &one.case))).collect();
    shares.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (least, case) = shares.first()?;
    let were = if shares.len() == 1 { "case was" } else { "cases were" };
    let who = match stolen {
        0 => "other processes".to_owned(),
        all if all == shares.len() => "the hypervisor".to_owned(),
        some => format!("other processes, and in {some} of them the hypervisor,"),
    };
    Some(format!(
        "{} {were} disturbed: {who} took CPU time on the same cores and left less than \
         {:.0} % of it, only {:.0} % to {case}. {} too low for this machine.",
        shares.len(),
        AVAILABLE_MIN * 100.0,
        least * 100.0,
        agreed(shares.len(), "Its figure is", "Their figures are")
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

/// What the reader must know before believing a number, and what explains numbers.
pub fn remarks(record: &Record) -> Remarks {
    let environment = &record.header.environment;
    let mut all = Remarks::default();
    all.warnings.extend(ended(record));
    all.warnings.extend(of_figures(record));
    all.notes.extend(of_record(record).iter().map(Unknown::words));
    all.notes.extend(without_interval(record));
    all.add_environment(environment, environment.warnings.iter());
    all.notes.extend(of_sockets(record));
    all.notes.extend(of_peaks(record));
    let of_reading = record.notes.iter().map(|note| format!("While reading the record: {note}"));
    all.warnings.extend(of_reading);
    all
}

/// Those of the short form, which says itself how the run ended and which cases broke: what spoils
/// figures first, since few are named there.
pub fn short_remarks(record: &Record) -> Remarks {
    let environment = &record.header.environment;
    let mut all = Remarks::default();
    all.warnings.extend(of_figures(record));
    // What the run found out itself comes last there, after what is always so on this host.
    all.add_environment(environment, environment.warnings.iter().rev());
    all.notes.extend(of_peaks(record));
    all
}

/// Whether the run came to its end.
fn ended(record: &Record) -> Option<String> {
    match &record.footer {
        None => Some(
            "The record has no end: the run was killed, or is still running. fizeau run --resume \
             completes it."
                .into(),
        ),
        Some(footer) if footer.interrupted => {
            Some("The run was interrupted before its plan was done.".into())
        }
        Some(_) => None,
    }
}

/// Whose limit the shares of memory's datasheet are of, where the run had a part of a socket.
fn of_sockets(record: &Record) -> Option<String> {
    let peak = memory_peak(record, Tier::Datasheet)?;
    let part = of_socket(record)?;
    Some(format!(
        "Memory's limit, {peak}, is that of whole sockets, and this run had {part}. Shares of that \
         limit are low for this reason alone, also those of products of few rows and of decoding: \
         compare them with this run's own memory bandwidth."
    ))
}

/// Limits that are unknown, so that figures lack something to be set against.
fn of_peaks(record: &Record) -> Vec<String> {
    let mut warnings = Vec::new();
    let known = |peak: Option<BytesPerSecond>| peak.is_some();
    let memory = [Tier::Datasheet, Tier::Observed].map(|tier| known(memory_peak(record, tier)));
    if !memory.contains(&true) && Ceilings::of(record).memory.is_some() {
        warnings.push(
            "Memory's peak is unknown here: no share of a peak is printed for it, only shares \
             of this run's own best. A file of the part states it: --data (docs/adding.md)."
                .into(),
        );
    }
    warnings.extend(exps_unknown(record));
    warnings
}

/// Where samples were taken at a clock that was held down.
fn throttled(record: &Record) -> Option<String> {
    let throttled = measurements(record)
        .filter(|measurement| !measurement.samples.throttled.is_empty())
        .count();
    (throttled > 0).then(|| {
        let cases = if throttled == 1 { "case holds" } else { "cases hold" };
        format!("{throttled} {cases} samples taken while the device held its clock down.")
    })
}

/// Where figures are off, by what puts them off most first.
fn of_figures(record: &Record) -> Vec<String> {
    let first = [throttled, held_by_quota, disturbed].map(|of| of(record));
    let last = [noisy, above, other_clock].map(|of| of(record));
    let contradictions = consistency::sentences(record);
    first.into_iter().flatten().chain(contradictions).chain(last.into_iter().flatten()).collect()
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
pub fn failures(record: &Record) -> Vec<String> {
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
