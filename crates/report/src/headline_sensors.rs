//! What sensors saw of a whole run, among its headlines: power, and what held the clock down.

use super::{Cell, Fact};
use fizeau_domain::{
    outcome::{Measurement, Outcome, Telemetry},
    units::{Seconds, Watts},
};
use fizeau_record::Record;

/// What sensors saw of a case, believed or not.
fn seen(record: &Record) -> impl Iterator<Item = (&Measurement, &Telemetry)> {
    record.outcomes.iter().filter_map(|outcome| match outcome {
        Outcome::Measured(one) | Outcome::Invalid { measurement: one, .. } => {
            Some((&**one, one.telemetry.as_ref()?))
        }
        Outcome::Skipped { .. } | Outcome::Failed { .. } => None,
    })
}

/// The highest power that was read, beside the limit.
pub fn power_fact(record: &Record) -> Option<Fact> {
    let read = seen(record).filter_map(|(one, seen)| Some((seen.power_max?, one)));
    let (power, measurement) = read.max_by(|a, b| a.0.0.total_cmp(&b.0.0))?;
    let limit = record.header.environment.settings.as_ref().and_then(|set| set.power_limit);
    let limit = limit.filter(|limit| limit.0 > 0.0);
    let of = match limit {
        Some(limit) => format!("limit {limit}"),
        None => "limit unknown".into(),
    };
    let blurred = limit.and_then(|limit| blurred(record, power, limit));
    Some(Fact {
        of: format!("{of}{}", blurred.unwrap_or_default()),
        case: measurement.case.to_string(),
        ..Fact::new("power", "Highest power read", Cell::Text(power.to_string()))
    })
}

/// A sensor that shows less than this share of the limit does not show what reached the limit.
const AT_LIMIT: f64 = 0.9;

/// Why the highest power that was read lies below a limit that held the clock down.
fn blurred(record: &Record, power: Watts, limit: Watts) -> Option<String> {
    let at_cap = seen(record).filter(|(_, seen)| seen.held_by.iter().any(|by| by == "power cap"));
    let windows: Vec<Option<Seconds>> = at_cap.map(|(_, seen)| seen.power_window).collect();
    if windows.is_empty() || power.0 >= AT_LIMIT * limit.0 {
        return None;
    }
    let window = windows.into_iter().flatten().max_by(|a, b| a.0.total_cmp(&b.0));
    let over = match window {
        Some(window) if window.0 > 0.0 => format!("averages over {window}"),
        Some(_) => "is read now and then".into(),
        None => "may average over more than a case".into(),
    };
    Some(format!("; the power cap held the clock down, so more was drawn: the sensor {over}"))
}

/// What held the clock down, and in how many cases.
pub fn throttling_fact(record: &Record) -> Option<Fact> {
    let all = seen(record).count();
    let held: Vec<_> = seen(record).filter(|(_, seen)| !seen.held_by.is_empty()).collect();
    let mut by: Vec<&str> =
        held.iter().flat_map(|(_, seen)| &seen.held_by).map(String::as_str).collect();
    by.sort_unstable();
    by.dedup();
    let example = held.first().map(|(one, _)| one.case.to_string()).unwrap_or_default();
    let value = match held.is_empty() {
        true => Cell::Text("never".into()),
        false => Cell::Text(format!("{} of {all} cases", held.len())),
    };
    (all > 0).then(|| Fact {
        of: if by.is_empty() { String::new() } else { format!("by {}", by.join(", ")) },
        case: example,
        ..Fact::new("throttling", "Clock held down", value)
    })
}
