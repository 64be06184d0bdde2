//! One finished case in a line, for whoever watches a run.

use super::{
    Cell,
    case_table::{self, tier_name},
};
use fizeau_domain::{
    outcome::{Measurement, Outcome},
    spec::STUB,
};
use fizeau_record::Header;

/// What became of a case, without its id.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// The rate or the time that the case is quoted by, or in words why there is none.
    pub value: Cell,
    /// The share of its limit, 0..1, and whose limit that is, where it is known.
    pub share: Option<(f64, &'static str)>,
}

/// The rate of a case and its share of the limit, or why there is none. Numbers of a stub driver
/// are not shown.
pub fn finished(outcome: &Outcome, header: &Header) -> Finished {
    let words = |words: String| Finished { value: Cell::Text(words), share: None };
    match outcome {
        Outcome::Measured(_) if header.device.is_stub() => words(STUB.into()),
        Outcome::Measured(one) => {
            Finished { value: case_table::rate(one), share: share(one, header) }
        }
        Outcome::Skipped { reason, .. } => words(format!("skipped: {reason}")),
        Outcome::Failed { error, .. } => words(format!("FAILED: {error}")),
        Outcome::Invalid { reason, .. } => words(format!("INVALID: {reason}")),
    }
}

/// None for a kernel that was made for an older architecture than the device's.
fn share(one: &Measurement, header: &Header) -> Option<(f64, &'static str)> {
    let is_foreign = header.environment.unknown_architecture.is_some() && !one.code.is_empty();
    let share = one.utilisation().filter(|_| !is_foreign)?;
    Some((share, tier_name(one.tier?)))
}
