//! One case from plan to outcome.

use crate::{bench::Rank, case::Case, outcome::Outcome, spec::Part, suite::MeasureSettings};

/// Prepares, verifies, times, verifies again and judges one case. Every fault ends in an outcome.
pub fn measure_case(
    case: &Case,
    _rank: Rank<'_>,
    _part: Option<&Part>,
    _settings: &MeasureSettings,
) -> Outcome {
    Outcome::Skipped { case: case.clone(), reason: "not yet".into() }
}
