//! What no run can have written, and what an older program wrote by an older rule.

use super::Line;
use fizeau_domain::{
    outcome::{Cache, Integrity, Measurement, Outcome, Samples},
    spec::{self, Bound, Properties, SpeedOfLight},
    stats::{self, Summary},
    units::Seconds,
};

/// What a time may be off by, as a share, that another program has written again.
const SUMMARY_ROUNDING: f64 = 1e-6;

/// The shortest and the longest time, in seconds, that any case can take: far less than a cycle of
/// any clock, and thirty years. Rates of times between them are finite numbers.
const TIMES: [Seconds; 2] = [Seconds(1e-15), Seconds(1e9)];

/// What no run can have written, where a line holds that: reports divide by these.
pub fn impossible(line: &Line) -> Option<String> {
    let time = |time: &Seconds| !(*time >= TIMES[0] && *time <= TIMES[1]);
    let (cases, measured) = match line {
        Line::Header(header) => (&header.plan[..], None),
        Line::Outcome(Outcome::Measured(measured)) => {
            (std::slice::from_ref(&measured.case), Some(measured))
        }
        Line::Outcome(outcome) => (std::slice::from_ref(outcome.case()), None),
        Line::Footer(_) => (&[][..], None),
    };
    if let Some(why) = cases.iter().find_map(|case| case.check().err()) {
        return Some(why);
    }
    if let Line::Outcome(outcome) = line
        && let Some(why) = impossible_bits(outcome)
    {
        return Some(format!("{}: {why}", outcome.case()));
    }
    let measured = measured?;
    let Some(first) = measured.samples.times.first() else {
        return Some(format!("{} is measured without a sample", measured.case));
    };
    let contrast = measured.contrast.iter().map(|one| (&one.samples, &one.summary));
    let beside = measured.beside.iter().map(|one| (&one.samples, &one.summary)).chain(contrast);
    let of_beside = beside.clone();
    let beside =
        beside.flat_map(|(samples, summary)| [&summary.median].into_iter().chain(&samples.times));
    let times = [first, &measured.summary.median].into_iter().chain(&measured.samples.times);
    if let Some(found) = times.chain(beside).find(|found| time(found)) {
        let case = &measured.case;
        return Some(format!("{:e} s for {case}: no case is measured in that time", found.0));
    }
    let mut all = std::iter::once((&measured.samples, &measured.summary)).chain(of_beside);
    let why = all.find_map(|(samples, summary)| unlike(samples, summary))?;
    Some(format!("{}: {why}", measured.case))
}

/// In what comparisons of bits cannot be as an outcome says: verdicts are made of these numbers.
fn impossible_bits(outcome: &Outcome) -> Option<String> {
    let (found, is_right) = match outcome {
        Outcome::Measured(one) => (one.integrity.as_deref()?, true),
        Outcome::Failed { integrity, .. } => (integrity.as_deref()?, false),
        Outcome::Skipped { .. } | Outcome::Invalid { .. } => return None,
    };
    let Integrity { unit, compared, mismatches, rate_seen, .. } = found;
    if mismatches > compared || is_right && *mismatches > 0 {
        return Some(format!("{mismatches} of {compared} {unit}s differ, which is not measured"));
    }
    let right = stats::rate_seen(*compared);
    let is_so = (rate_seen - right).abs() <= SUMMARY_ROUNDING * right;
    (!is_so).then(|| format!("its rate is {rate_seen}, that of {compared} {unit}s {right}"))
}

/// In what a summary is not that of its samples, in words. Where it counts more than there are,
/// samples were left out, and nothing can be checked against them.
fn unlike(samples: &Samples, summary: &Summary) -> Option<String> {
    let of_samples = Summary::of(&samples.times)?;
    let [told, kept] = [summary.count, of_samples.count];
    if told < kept {
        return Some(format!("its summary is of {told} samples, and there are {kept}"));
    }
    let named = |of: &Summary| [("median", of.median), ("least", of.min), ("largest", of.max)];
    let mut pairs = named(summary).into_iter().zip(named(&of_samples));
    pairs.find_map(|((name, told), (_, found))| {
        let (told, found) = (told.0, found.0);
        let is_so = summary.count > kept || (told - found).abs() <= SUMMARY_ROUNDING * found;
        let why = format!("its summary's {name} time is {told} s, that of its samples {found} s");
        (!is_so).then_some(why)
    })
}

/// Computes the intervals again that were made before they allowed for samples which depend on each
/// other: such a record has no effective sample size. Whether all samples are there that its
/// summaries count.
pub fn renew_intervals(measured: &mut Measurement) -> bool {
    let contrast = measured.contrast.iter_mut().map(|one| (&one.samples, &mut one.summary));
    let beside = measured.beside.iter_mut().map(|one| (&one.samples, &mut one.summary));
    let beside = beside.chain(contrast);
    let mut all = true;
    for (samples, summary) in
        std::iter::once((&measured.samples, &mut measured.summary)).chain(beside)
    {
        let is_whole = summary.count == samples.times.len() as u64;
        all &= is_whole;
        if is_whole
            && summary.interval.independent.is_none()
            && let Some(again) = Summary::of(&samples.times)
        {
            summary.interval = again.interval;
        }
    }
    all
}

/// Takes the headline tier from what caches may have kept a part of, and the limits of caches that
/// were not asked from streams of GPUs: programs before stated a share there.
pub fn renew_tier(measured: &mut Measurement, properties: &Properties) {
    let is_hot = measured.cache == Cache::Hot;
    if spec::is_partly_cached(&measured.case.point, properties, is_hot) {
        measured.tier = None;
    }
    let (point, clock) = (measured.case.point, measured.clock);
    let is_own = |light: &SpeedOfLight| spec::is_of_own_caches(&point, properties, clock, light);
    if measured.speed_of_light.iter().any(is_own) {
        measured.speed_of_light.retain(|light| light.bound != Bound::Cache);
        measured.tier = spec::headline(&measured.speed_of_light);
    }
}
