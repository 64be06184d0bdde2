//! How the time of a case changed between two runs, and what each says against itself.

use super::Change;
use fizeau_domain::{outcome::Measurement, stats::interval};

/// The change between two runs, as their samples show it.
pub fn change(before: &Measurement, after: &Measurement) -> Change {
    let values = |measurement: &Measurement| -> Vec<f64> {
        measurement.samples.times.iter().map(|time| time.0).collect()
    };
    let ratio = after.summary.median / before.summary.median;
    let (a, b) = (values(before), values(after));
    // Raw samples can be left out of a record; the summary's interval is then all there is.
    let (low, high) = if a.is_empty() || b.is_empty() {
        let (a, b) = (&before.summary.interval, &after.summary.interval);
        (b.low / a.high, b.high / a.low)
    } else {
        let (low, high, _) = interval::ratio_interval(&a, &b);
        // Which of two states a run would be in next time is not known.
        let [[a_least, a_most], [b_least, b_most]] = [before, after].map(Measurement::span);
        (low.min(b_least / a_most), high.max(b_most / a_least))
    };
    Change { before: before.summary.median, after: after.summary.median, ratio, low, high }
}

/// By what share the slowest state of a single run is above that of another, and what each says
/// against itself; 0 and nothing where both are one number.
pub fn states(a: &Measurement, b: &Measurement) -> (f64, Vec<String>) {
    let named = [("A", a), ("B", b)];
    let doubt = |(name, one): (&str, &Measurement)| Some(format!("{name}: {}", one.doubt()?));
    let doubts: Vec<String> = named.into_iter().filter_map(doubt).collect();
    let [[_, a], [_, b]] = [a, b].map(Measurement::span);
    (if doubts.is_empty() { 0.0 } else { b / a - 1.0 }, doubts)
}

/// Which runs did not have their cores for themselves.
pub fn disturbance<'m>(runs: impl Iterator<Item = (&'m str, &'m Measurement)>) -> Option<String> {
    let words = |(name, one): (&str, &Measurement)| Some(format!("{name} {}", one.disturbance()?));
    let runs: Vec<_> = runs.filter_map(words).collect();
    (!runs.is_empty()).then(|| format!("disturbed: {}", runs.join(", ")))
}

/// Which candidate each run took of a tuned kernel, where they did not all take the same: then two
/// kernels are compared.
pub fn other_choice(runs: &[(&str, &Measurement)]) -> Option<String> {
    let chosen = |one: &Measurement| one.tuning.as_ref().map(|tuning| tuning.chosen.clone());
    let all: Vec<(&str, String)> =
        runs.iter().filter_map(|(name, one)| Some((*name, chosen(one)?))).collect();
    let (_, first) = all.first()?;
    if all.iter().all(|(_, other)| other == first) {
        return None;
    }
    let words: Vec<String> = all.iter().map(|(name, one)| format!("{one} in {name}")).collect();
    Some(format!("another kernel was chosen: {}", words.join(", ")))
}
