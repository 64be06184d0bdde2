//! What a device's sensors saw, operation by operation: whether its clock was held down, and
//! whether memory or links made errors meanwhile.

use super::{Axis, Cell, Chart, Column, Quantity, Series, SeriesKind, Table, Weight};
use fizeau_domain::{
    outcome::{Measurement, Outcome, Telemetry},
    stats::quantile,
    units::Megahertz,
};
use fizeau_record::Record;
use std::{collections::BTreeMap, fmt::Display};

const COLUMNS: &[Column] = &[
    Column { key: "operation", title: "operation", weight: Weight::Essential },
    Column { key: "clock_low", title: "lowest clock", weight: Weight::Essential },
    Column { key: "clock_high", title: "highest", weight: Weight::Essential },
    Column { key: "clock_timed", title: "in timed regions", weight: Weight::Useful },
    Column { key: "power_high", title: "highest power", weight: Weight::Essential },
    Column { key: "temperature_high", title: "hottest", weight: Weight::Useful },
    Column { key: "energy", title: "energy", weight: Weight::Detail },
    Column { key: "held_by", title: "clock held by", weight: Weight::Essential },
    Column { key: "ecc_corrected", title: "ECC corrected", weight: Weight::Useful },
    Column { key: "ecc_uncorrected", title: "uncorrected", weight: Weight::Useful },
    Column { key: "remapped_rows", title: "rows remapped", weight: Weight::Detail },
    Column { key: "link_errors", title: "link errors", weight: Weight::Useful },
    Column { key: "faults", title: "faults", weight: Weight::Useful },
];

/// One row for each operation whose cases had sensors; none where no case had.
pub fn table(record: &Record) -> Option<Table> {
    let mut operations: BTreeMap<&str, Vec<&Telemetry>> = BTreeMap::new();
    for measurement in record.outcomes.iter().filter_map(judged) {
        if let Some(telemetry) = &measurement.telemetry {
            operations.entry(measurement.case.point.operation()).or_default().push(telemetry);
        }
    }
    let rows: Vec<_> = operations.into_iter().map(|(name, seen)| row(name, &seen)).collect();
    Table::unless_empty("sensors", "What the sensors saw while cases ran", COLUMNS, rows)
}

/// Fewer points are no course of time.
const POINTS_MIN: usize = 3;

/// A sensor's curve: its name, and what a case's telemetry has of it.
type Sensor = (&'static str, fn(&Telemetry) -> Option<f64>);

/// Clock, power and temperature against the time since the first case began, a point for each case
/// that had sensors. Records of programs that did not keep when a case began have none.
pub fn charts(record: &Record) -> Vec<Chart> {
    let cases: Vec<&Measurement> = record.outcomes.iter().filter_map(judged).collect();
    let begun = cases.iter().filter_map(|one| Some((seconds(one.started.as_deref()?)?, *one)));
    let mut begun: Vec<(f64, &Measurement)> = begun.collect();
    begun.sort_by(|a, b| a.0.total_cmp(&b.0));
    let Some(first) = begun.first().map(|(at, _)| *at) else { return Vec::new() };
    let clocks: [Sensor; 2] =
        [("highest", |seen| Some(seen.clock_max?.0)), ("lowest", |seen| Some(seen.clock_min?.0))];
    let power: [Sensor; 2] =
        [("highest", |seen| Some(seen.power_max?.0)), ("mean", |seen| Some(seen.power_mean?.0))];
    let temperature: [Sensor; 2] = [
        ("GPU", |seen| Some(seen.temperature_max?.0)),
        ("memory", |seen| Some(seen.memory_temperature_max?.0)),
    ];
    let kinds = [
        ("clock", "Clock of the units over the run", "clock", Quantity::Clock, clocks),
        ("power", "Power over the run", "power", Quantity::Power, power),
        (
            "temperature",
            "Temperature over the run",
            "temperature",
            Quantity::Temperature,
            temperature,
        ),
    ];
    let chart = |(name, title, what, quantity, sensors): (_, &str, &str, _, [Sensor; 2])| {
        let curve = |(name, of): Sensor| {
            let at =
                |(at, one): &(f64, &Measurement)| Some((at - first, of(one.telemetry.as_ref()?)?));
            let points: Vec<(f64, f64)> = begun.iter().filter_map(at).collect();
            let points: Vec<_> = points.into_iter().filter(|(_, y)| *y > 0.0).collect();
            let kind = SeriesKind::Curve;
            let (name, cases) = (name.into(), Vec::new());
            (points.len() >= POINTS_MIN).then_some(Series { name, kind, points, cases })
        };
        let series: Vec<Series> = sensors.into_iter().filter_map(curve).collect();
        (!series.is_empty()).then(|| Chart {
            name: format!("sensors_{name}"),
            title: title.into(),
            caption: "A point for each case, when it began.".into(),
            x: Axis::linear("since the first case", Quantity::Time),
            y: Axis::linear(what, quantity),
            series,
            marks: Vec::new(),
        })
    };
    kinds.into_iter().filter_map(chart).collect()
}

/// Seconds from a fixed day to a time as records have it, `2026-11-21T07:32:22.125Z`; none for
/// another form. Days from a civil date by Howard Hinnant's algorithm (chrono-compatible low-level
/// date algorithms, 2013).
fn seconds(time: &str) -> Option<f64> {
    let (date, time) = time.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let mut time = time.splitn(3, ':').map(|part| part.parse::<f64>().ok());
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    let in_range = (0..=9999).contains(&year) && (1..=12).contains(&month);
    if !in_range || !(1..=31).contains(&day) || !(hour + minute + second).is_finite() {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let year_of_era = year.rem_euclid(400);
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era;
    Some(days as f64 * 86_400.0 + hour * 3_600.0 + minute * 60.0 + second)
}

/// Also what was not believed: a clock that was held down is told of here.
fn judged(outcome: &Outcome) -> Option<&Measurement> {
    match outcome {
        Outcome::Measured(measurement) | Outcome::Invalid { measurement, .. } => Some(measurement),
        Outcome::Skipped { .. } | Outcome::Failed { .. } => None,
    }
}

fn row(operation: &str, seen: &[&Telemetry]) -> Vec<Cell> {
    let mut held: Vec<&str> =
        seen.iter().flat_map(|one| &one.held_by).map(String::as_str).collect();
    held.sort_unstable();
    held.dedup();
    let faults: Vec<String> =
        seen.iter().flat_map(|one| &one.faults).map(|fault| format!("Xid {fault}")).collect();
    let links = |one: &Telemetry| match (one.pcie_replays, one.nvlink_errors) {
        (None, None) => None,
        (one, other) => Some(one.unwrap_or(0) + other.unwrap_or(0)),
    };
    vec![
        Cell::Code(operation.into()),
        extreme(seen, |one| one.clock_min, |a, b| a.0 < b.0),
        extreme(seen, |one| one.clock_max, |a, b| a.0 > b.0),
        timed(seen),
        extreme(seen, |one| one.power_max, |a, b| a.0 > b.0),
        extreme(seen, |one| one.temperature_max, |a, b| a.0 > b.0),
        energy(seen),
        listed(&held.join(", ")),
        sum(seen, |one| one.ecc_corrected),
        sum(seen, |one| one.ecc_uncorrected),
        sum(seen, |one| one.remapped_rows),
        sum(seen, links),
        listed(&faults.join(", ")),
    ]
}

/// The median of what was read within timed regions.
fn timed(seen: &[&Telemetry]) -> Cell {
    let clocks: Vec<f64> =
        seen.iter().flat_map(|one| &one.timed_clocks).map(|clock| clock.0).collect();
    match clocks.is_empty() {
        true => Cell::Absent,
        false => told(Megahertz(quantile::median(&clocks))),
    }
}

fn told(value: impl Display) -> Cell {
    Cell::Text(value.to_string())
}

fn listed(words: &str) -> Cell {
    if words.is_empty() { Cell::Text("nothing".into()) } else { Cell::Text(words.into()) }
}

fn extreme<T: Copy + Display>(
    seen: &[&Telemetry],
    of: fn(&Telemetry) -> Option<T>,
    is_beyond: fn(&T, &T) -> bool,
) -> Cell {
    let values = seen.iter().filter_map(|one| of(one));
    values.reduce(|a, b| if is_beyond(&b, &a) { b } else { a }).map_or(Cell::Absent, told)
}

fn energy(seen: &[&Telemetry]) -> Cell {
    let joules = seen.iter().filter_map(|one| one.energy).map(|energy| energy.0);
    joules.reduce(|a, b| a + b).map_or(Cell::Absent, |all| told(format!("{all:.1} J")))
}

fn sum(seen: &[&Telemetry], of: impl Fn(&Telemetry) -> Option<u64>) -> Cell {
    seen.iter().filter_map(|one| of(one)).reduce(|a, b| a + b).map_or(Cell::Absent, Cell::Count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fizeau_domain::units::Watts;

    #[test]
    fn times_of_records_are_seconds_apart() {
        let apart = |a: &str, b: &str| Some(seconds(b)? - seconds(a)?);
        assert_eq!(apart("2026-02-28T23:59:59.500Z", "2026-03-01T00:00:01Z"), Some(1.5));
        assert_eq!(apart("2024-02-28T00:00:00Z", "2024-03-01T00:00:00Z"), Some(172_800.0));
        for other in ["", "2026-03-01", "2026-13-01T00:00:00Z", "2026-03-01T00:00Z", "Tx:y:zZ"] {
            assert_eq!(seconds(other), None, "{other}");
        }
    }

    #[test]
    fn rows_have_the_extremes_and_sums_of_their_cases() {
        let seen = |clock: f64, held: &[&str], ecc| Telemetry {
            clock_min: Some(Megahertz(clock)),
            timed_clocks: vec![Megahertz(clock + 1.0), Megahertz(clock + 3.0)],
            power_max: Some(Watts(clock / 2.0)),
            held_by: held.iter().map(|&word| word.to_owned()).collect(),
            ecc_corrected: Some(ecc),
            faults: vec![ecc],
            ..Telemetry::default()
        };
        let (one, other) = (seen(1980.0, &[], 1), seen(1400.0, &["power cap"], 2));
        let row = row("gemm", &[&one, &other]);
        assert_eq!(row.len(), COLUMNS.len());
        assert_eq!(row[1], told(Megahertz(1400.0)));
        assert_eq!((&row[2], &row[3]), (&Cell::Absent, &told(Megahertz(1692.0))));
        assert_eq!(row[4], told(Watts(990.0)));
        assert_eq!((&row[7], &row[8]), (&told("power cap"), &Cell::Count(3)));
        assert_eq!((&row[9], &row[12]), (&Cell::Absent, &told("Xid 1, Xid 2")));
    }
}
