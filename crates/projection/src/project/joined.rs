//! Several records of one machine as one: what one lacks, another may have.

use fizeau_domain::{case::Case, outcome::Outcome, text::counted};
use fizeau_record::Record;
use std::collections::HashSet;

/// The outcomes of all, under the header of the first. Of a case that several have measured, the
/// last one counts.
///
/// # Errors
/// In words: where there is none, or two are of different devices.
pub fn joined(records: Vec<(String, Record)>) -> Result<Record, String> {
    let mut records = records.into_iter();
    let (first, mut all) = records.next().ok_or("no record is named")?;
    for (name, record) in records {
        let key = |record: &Record| {
            let device = &record.header.device;
            (device.backend.clone(), device.name.clone(), device.units, device.vendor.clone())
        };
        let (one, other) = (key(&all), key(&record));
        if one != other {
            return Err(format!(
                "{first} is of {} with {}, and {name} of {} with {}: records of one machine can be \
                 joined, others not",
                one.1,
                counted(one.2 as usize, "unit"),
                other.1,
                other.2
            ));
        }
        let limit = |record: &Record| {
            let settings = record.header.environment.settings.as_ref()?;
            settings.power_limit
        };
        if limit(&all) != limit(&record) {
            return Err(format!(
                "{first} and {name} were made under different power limits: records of one \
                 setting can be joined, others not"
            ));
        }
        let measured = |outcome: &Outcome| outcome.measured().is_some();
        let newer: Vec<_> = record.outcomes.into_iter().filter(measured).collect();
        let cases: HashSet<&Case> = newer.iter().map(Outcome::case).collect();
        all.outcomes.retain(|outcome| !cases.contains(outcome.case()));
        all.outcomes.extend(newer);
    }
    Ok(all)
}
