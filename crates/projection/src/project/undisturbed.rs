//! The cases of a record that a projection may use: what other processes, a hypervisor or a quota
//! took from a case is no property of the machine.

use fizeau_domain::{
    outcome::{Measurement, Outcome},
    text::counted,
};
use fizeau_record::Record;

/// The measured cases of a record that nothing disturbed.
pub(super) fn measurements(record: &Record) -> impl Iterator<Item = &Measurement> {
    record.outcomes.iter().filter_map(Outcome::measured).filter(|one| !one.disturbed())
}

/// How many cases were left out, and what had disturbed the first one.
pub(super) fn disturbed(record: &Record) -> Option<String> {
    let measured = record.outcomes.iter().filter_map(Outcome::measured);
    let left_out: Vec<&Measurement> = measured.filter(|one| one.disturbed()).collect();
    let first = left_out.first()?;
    Some(format!(
        "{} left out as disturbed: {} {}; measure them again on a quiet machine",
        counted(left_out.len(), "case"),
        first.case,
        first.disturbance()?
    ))
}
