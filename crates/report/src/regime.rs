//! In which state of power and heat the cases of a run were timed.

use fizeau_domain::{
    outcome::{Measurement, Outcome, Regime},
    text::counted,
};
use fizeau_record::Record;

/// What a reader has to know before setting a figure of arithmetic beside another one's; none where
/// no case was timed in a regime.
pub fn sentence(record: &Record) -> Option<String> {
    let measured = record.outcomes.iter().filter_map(Outcome::measured);
    let regimes: Vec<Regime> = measured.filter_map(|one| one.regime).collect();
    let of = |regime| regimes.iter().filter(|&&one| one == regime).count();
    let (burst, settled) = (of(Regime::Burst), of(Regime::Settled));
    let what = "Arithmetic, products and attention were timed";
    let words = match (burst, settled) {
        (0, 0) => return None,
        (0, _) => format!("{what} settled, after 0.3 s of the same load."),
        (_, 0) => format!("{what} in bursts, each sample after a rest."),
        _ => format!(
            "{what} in bursts, each sample after a rest, but for {} settled, after 0.3 s of the \
             same load.",
            counted(settled, "case")
        ),
    };
    Some(words)
}

/// How much longer an iteration takes settled than in a burst, where both were measured.
pub fn settled_over_burst(measurement: &Measurement) -> Option<f64> {
    let beside = measurement.beside.as_ref()?;
    let (own, other) = (measurement.summary.median, beside.summary.median);
    match (measurement.regime?, beside.regime) {
        (Regime::Burst, Regime::Settled) => Some(other / own),
        (Regime::Settled, Regime::Burst) => Some(own / other),
        _ => None,
    }
}
