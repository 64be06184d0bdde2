//! The report of a power frontier: speed beside energy at each limit.

use super::{
    Axis, Block, Cell, Chart, Column, Document, Quantity, Series, SeriesKind, Table, Weight,
    case_table::rate, chart::measurements, line::Finished,
};
use fizeau_domain::{
    case::Case,
    outcome::{Measurement, PowerBy},
    units::{Joules, Watts},
};
use fizeau_record::Record;
use std::collections::BTreeSet;

/// One setting of the device.
#[derive(Clone, Debug)]
pub struct Rung {
    /// In words: `power limit 500 W`.
    pub setting: String,
    /// Whether it was set for this.
    pub is_set: bool,
    /// What was measured.
    pub record: Record,
}

const COLUMNS: &[Column] = &[
    Column { key: "case", title: "case", weight: Weight::Essential },
    Column { key: "setting", title: "setting", weight: Weight::Essential },
    Column { key: "rate", title: "rate", weight: Weight::Useful },
    Column { key: "speed", title: "speed", weight: Weight::Essential },
    Column { key: "energy", title: "energy", weight: Weight::Essential },
    Column { key: "power_watts", title: "power", weight: Weight::Useful },
    Column { key: "energy_joules", title: "for one iteration", weight: Weight::Detail },
    Column { key: "energy_by", title: "energy by", weight: Weight::Useful },
    Column { key: "clock_megahertz", title: "clock", weight: Weight::Detail },
    Column { key: "held_by", title: "held by", weight: Weight::Detail },
];

/// A case at a setting.
struct Point<'r> {
    rung: &'r Rung,
    one: &'r Measurement,
    /// Its time over the reference's, inverted: 1 is as fast.
    speed: f64,
    /// Power, and what it was computed from.
    power: Option<(Watts, PowerBy)>,
    /// Energy of one iteration over the reference's.
    energy: Option<f64>,
}

/// Energy of one iteration: the mean power over the case times its median.
fn joules(one: &Measurement) -> Option<(Joules, PowerBy)> {
    let (power, by) = one.telemetry.as_ref()?.power()?;
    Some((Joules(power.0 * one.summary.median.0), by))
}

/// The report. The first rung is what the others are set beside.
pub fn document(rungs: &[Rung], notes: &[String]) -> Document {
    let points = points(rungs);
    let mut blocks: Vec<Block> = sentences(&points).into_iter().map(Block::Text).collect();
    blocks.extend(notes.iter().cloned().map(Block::Warning));
    blocks.extend(energy_words(&points).map(Block::Warning));
    blocks.extend(drift(&points).map(Block::Warning));
    blocks.extend(failures(rungs).into_iter().map(Block::Failure));
    blocks.extend(chart(&points).map(Block::Chart));
    blocks.extend(table(&points).map(Block::Table));
    let device = rungs.first().map(|rung| &rung.record.header);
    Document {
        title: format!(
            "Power frontier of {}",
            device.map_or("no device", |header| header.device.name.as_str())
        ),
        subtitle: device.map_or_else(String::new, |header| {
            format!("suite {}, {}, fizeau {}", header.suite, header.started, header.fizeau)
        }),
        blocks,
    }
}

/// Every case at every rung that measured it, where the first one did too.
fn points(rungs: &[Rung]) -> Vec<Point<'_>> {
    let Some(first) = rungs.first() else { return Vec::new() };
    let mut points = Vec::new();
    for reference in measurements(&first.record) {
        for rung in rungs {
            let same = measurements(&rung.record).find(|one| one.case == reference.case);
            let Some(one) = same else { continue };
            let energy = joules(one).zip(joules(reference)).filter(|(now, then)| now.1 == then.1);
            let energy = energy.map(|(now, then)| now.0 / then.0);
            points.push(Point {
                rung,
                one,
                speed: reference.summary.median / one.summary.median,
                power: one.telemetry.as_ref().and_then(|seen| seen.power()),
                energy: energy.filter(|share| share.is_finite()),
            });
        }
    }
    points
}

/// The cases, each once, in order.
fn cases<'p>(points: &'p [Point<'_>]) -> Vec<&'p Case> {
    let mut seen = BTreeSet::new();
    let all = points.iter().map(|point| &point.one.case);
    all.filter(|case| seen.insert(case.to_string())).collect()
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// For each case the setting that takes the least energy.
fn sentences(points: &[Point<'_>]) -> Vec<String> {
    let best = |case: &&Case| {
        let of_it = points.iter().filter(|point| point.one.case == **case && point.rung.is_set);
        let best = of_it.filter_map(|point| Some((point.energy?, point)));
        let (energy, point) = best.min_by(|a, b| a.0.total_cmp(&b.0))?;
        let (speed, energy) = (percent(point.speed), percent(energy));
        Some(format!(
            "{case}: {speed} of the speed at {energy} of the energy, {}.",
            point.rung.setting
        ))
    };
    cases(points).iter().filter_map(best).collect()
}

/// What the energy is by.
fn energy_words(points: &[Point<'_>]) -> impl Iterator<Item = String> {
    let by = |wanted: PowerBy| {
        points.iter().any(|point| point.power.is_some_and(|(_, by)| by == wanted))
    };
    let none = !points.is_empty() && points.iter().all(|point| point.power.is_none());
    let words = [
        (
            by(PowerBy::Counter),
            "Energy is the device's own counter over the time of a case, from its warm-up to its \
             last sample, times the median time of an iteration: what is between samples counts. \
             The counter is used where it advanced at least 20 times.",
        ),
        (
            by(PowerBy::Sensor),
            "Energy is the mean of the power that sensors read now and then, times the median \
             time of an iteration: the device shows no counter of energy, or the counter advanced \
             too seldom while a case ran.",
        ),
        (
            none,
            "Energy is unknown: this device shows neither a counter of energy nor its power over \
             times as short as its cases.",
        ),
    ];
    words.into_iter().filter(|(is, _)| *is).map(|(_, words)| words.to_owned())
}

/// How far the last rung, at which nothing is set any more, is from the first one.
fn drift(points: &[Point<'_>]) -> Option<String> {
    let last = points.iter().filter(|point| !point.rung.is_set);
    let away = |point: &&Point<'_>| (point.speed - 1.0).abs();
    let most = last.max_by(|a, b| away(a).total_cmp(&away(b)))?;
    let apart = away(&most);
    (apart > 0.01).then(|| {
        format!(
            "With nothing set, the last measurement of {} is {} of the first one's speed: \
             differences below that are the machine's own.",
            most.one.case,
            percent(most.speed)
        )
    })
}

/// What failed at a rung.
fn failures(rungs: &[Rung]) -> Vec<String> {
    let of_rung = |rung: &Rung| -> Vec<String> {
        let told = rung.record.outcomes.iter().filter(|outcome| outcome.measured().is_none());
        let told = told.map(|outcome| {
            let Finished { value, .. } = super::finished(outcome, &rung.record.header);
            let words = match value {
                Cell::Text(words) => words,
                _ => String::new(),
            };
            format!("{}, {}: {words}", outcome.case(), rung.setting)
        });
        told.collect()
    };
    rungs.iter().flat_map(of_rung).collect()
}

/// Speed against energy, a curve for each case.
fn chart(points: &[Point<'_>]) -> Option<Chart> {
    let series = |case: &Case| {
        let mut curve: Vec<(f64, f64)> = points
            .iter()
            .filter(|point| point.one.case == *case)
            .filter_map(|point| Some((point.energy?, point.speed)))
            .collect();
        curve.sort_by(|a, b| a.0.total_cmp(&b.0));
        (curve.len() > 1).then(|| Series::new(case.to_string(), SeriesKind::Curve, curve))
    };
    let series: Vec<Series> = cases(points).into_iter().filter_map(series).collect();
    (!series.is_empty()).then(|| Chart {
        name: "frontier".into(),
        title: "Speed against energy".into(),
        caption:
            "Each point is one setting of the device, relative to the first one: up is faster, \
                  left takes less energy for the same work."
                .into(),
        x: Axis::linear("energy of the same work", Quantity::Ratio),
        y: Axis::linear("speed", Quantity::Ratio),
        series,
        marks: Vec::new(),
    })
}

fn table(points: &[Point<'_>]) -> Option<Table> {
    let row = |point: &Point<'_>| {
        let Point { rung, one, speed, power, energy } = point;
        let is_stub = rung.record.header.device.is_stub();
        let relative = |value: f64| Cell::Relative { value, is_stub };
        let by = match power {
            Some((_, PowerBy::Counter)) => "counter",
            Some((_, PowerBy::Sensor)) => "power x time",
            None => "unknown",
        };
        let held = one.telemetry.as_ref().map(|seen| seen.held_by.join(", "));
        let clock = one.clock.map(|clock| Cell::Number(clock.0, "MHz"));
        vec![
            Cell::Code(one.case.to_string()),
            Cell::Text(rung.setting.clone()),
            rate(one),
            relative(*speed),
            energy.map_or(Cell::Absent, relative),
            power.map_or(Cell::Absent, |(power, _)| Cell::Number(power.0, "W")),
            joules(one).map_or(Cell::Absent, |(joules, _)| Cell::Number(joules.0, "J")),
            Cell::Text(by.into()),
            clock.unwrap_or(Cell::Absent),
            held.map_or(Cell::Absent, Cell::Text),
        ]
    };
    Table::unless_empty("frontier", "Every case at every setting", COLUMNS, points.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_measured_is_a_page_without_numbers() {
        let document = document(&[], &["nothing was set".into()]);
        assert_eq!(document.blocks, [Block::Warning("nothing was set".into())]);
    }
}
