//! The page of an acceptance: the verdict first, what to do, then each check with its value, floor
//! and cause; of a soak, clocks and temperatures in the course of time.

use super::{Axis, Block, Cell, Chart, Column, Document, Quantity, Series, SeriesKind};
use super::{Table, Weight};
use fizeau_domain::{
    text::{agreed, counted},
    units::{BytesPerSecond, FlopsPerSecond},
    verdict::Verdict,
};
use fizeau_judge::accept::{Judged, Report, node::Sample, remedy};
use std::collections::BTreeMap;

const COLUMNS: &[Column] = &[
    Column { key: "verdict", title: "verdict", weight: Weight::Machine },
    Column { key: "device", title: "device", weight: Weight::Essential },
    Column { key: "check", title: "check", weight: Weight::Essential },
    Column { key: "found", title: "found", weight: Weight::Essential },
    Column { key: "cause", title: "cause", weight: Weight::Essential },
    Column { key: "action", title: "do", weight: Weight::Useful },
    Column { key: "value", title: "value", weight: Weight::Useful },
    Column { key: "floor", title: "floor", weight: Weight::Useful },
    Column { key: "above_floor", title: "to its floor", weight: Weight::Useful },
    Column { key: "noise", title: "scatter", weight: Weight::Useful },
    Column { key: "repeats", title: "repeats", weight: Weight::Useful },
    Column { key: "point", title: "point", weight: Weight::Detail },
    Column { key: "floor_source", title: "where the floor comes from", weight: Weight::Machine },
];

/// Curves of one chart at most, one for each device and check.
const CURVES_MAX: usize = 16;

/// The page. `series` is what a soak measured in the course of time.
pub fn document(report: &Report, series: &[&Sample]) -> Document {
    let mark = if report.stub { " (stub)" } else { "" };
    let node = report.node.as_deref().unwrap_or("this node");
    let word = report.verdict.to_string().to_uppercase();
    let mut blocks = vec![summary(report)];
    blocks.extend(machine(report));
    let causes: Vec<String> = failures(report);
    blocks.extend(causes.into_iter().map(Block::Failure));
    blocks.extend(report.notes.iter().cloned().map(Block::Warning));
    for (verdict, title) in [
        (Verdict::Fail, "What failed"),
        (Verdict::Inconclusive, "What could not be decided"),
        (Verdict::Pass, "What passed"),
    ] {
        let mut rows: Vec<&Judged> =
            report.checks.iter().filter(|one| one.verdict == verdict).collect();
        // The furthest below its floor first; what has no floor keeps its place before them.
        let below = |one: &Judged| one.above_floor.unwrap_or(f64::NEG_INFINITY);
        rows.sort_by(|one, other| below(one).total_cmp(&below(other)));
        if !rows.is_empty() {
            blocks.push(Block::Heading(title.into()));
            blocks.push(Block::Table(table(title, &rows)));
        }
    }
    let charts = charts(series, mark);
    if !charts.is_empty() {
        blocks.push(Block::Heading("In the course of time".into()));
        blocks.extend(charts.into_iter().map(Block::Chart));
    }
    if !report.unread.is_empty() {
        blocks.push(Block::Heading("What could not be read, and is not judged".into()));
        blocks.extend(report.unread.iter().cloned().map(Block::Text));
    }
    let level = format!("{:?}", report.level).to_lowercase();
    let kind = format!("{:?}", report.profile_kind).to_lowercase();
    let ended = match (&report.ended, report.complete) {
        (Some(ended), _) => format!(" to {ended}"),
        (None, true) => String::new(),
        (None, false) => ", unfinished".to_owned(),
    };
    Document {
        title: format!("{word}: {node}{mark}"),
        subtitle: format!(
            "level {level}, profile {} ({kind}), {}{ended}, fizeau {}",
            report.profile, report.started, report.fizeau
        ),
        blocks,
    }
}

/// What an operator has to know: how many checks, and what to do.
fn summary(report: &Report) -> Block {
    let counts = [Verdict::Pass, Verdict::Fail, Verdict::Inconclusive].map(|of| report.count(of));
    let [pass, fail, unclear] = counts;
    let todo = match (report.verdict, report.action) {
        (Verdict::Pass, _) => "Nothing to do: the node is fit for work as far as this level sees.",
        (Verdict::Fail, Some(_)) => "Take the node out of service.",
        (Verdict::Fail, None) => "Take the node out of service and look at what failed.",
        (_, _) if !report.complete => "Run it again: the acceptance did not finish.",
        (_, _) => "Nothing can be concluded yet.",
    };
    let todo = match (report.verdict, remedy(report)) {
        (Verdict::Inconclusive, Some(remedy)) => format!("{todo} To decide: {remedy}."),
        (_, _) => todo.to_owned(),
    };
    let action = report.action.map(|action| format!(" What to do: {action}.")).unwrap_or_default();
    let stub = match report.stub {
        true => " A stub driver stood in for a device: nothing of it was measured.",
        false => "",
    };
    let counts = format!(
        "{} {}, {fail} {}, {unclear} {} inconclusive.",
        counted(pass, "check"),
        agreed(pass, "passes", "pass"),
        agreed(fail, "fails", "fail"),
        agreed(unclear, "is", "are")
    );
    Block::Text(format!("{counts} {todo}{action}{stub}"))
}

/// On what the verdict is, below what to do.
fn machine(report: &Report) -> Option<Block> {
    let all = report.machine.join("; ");
    (!all.is_empty()).then(|| Block::Text(format!("Machine: {all}.")))
}

/// A line for each cause on each device, with the checks that failed by it.
fn failures(report: &Report) -> Vec<String> {
    let mut by_cause: BTreeMap<(String, String), Vec<&Judged>> = BTreeMap::new();
    for one in report.checks.iter().filter(|one| one.verdict == Verdict::Fail) {
        let cause = one.cause.map_or("unknown cause".to_owned(), |cause| cause.to_string());
        by_cause.entry((one.device.clone(), cause)).or_default().push(one);
    }
    let line = |((device, cause), rows): ((String, String), Vec<&Judged>)| {
        let mut checks: Vec<&str> = rows.iter().map(|one| one.check.as_str()).collect();
        checks.dedup();
        let stub = if rows.iter().any(|one| one.stub) { " (stub)" } else { "" };
        let action = rows.iter().filter_map(|one| one.action).max();
        let action = action.map(|action| format!(" -> {action}")).unwrap_or_default();
        let device = report.named(&device);
        format!("{device}: {cause} ({}){action}{stub}", checks.join(", "))
    };
    by_cause.into_iter().map(line).collect()
}

/// The checks of a section, by its heading.
fn table(heading: &str, rows: &[&Judged]) -> Table {
    let rows: Vec<Vec<Cell>> = rows.iter().map(|one| row(one)).collect();
    // A column in which nothing stands takes room from the others.
    let is_used = |at: &usize| rows.iter().any(|row| row[*at] != Cell::Absent);
    let used: Vec<usize> = (0..COLUMNS.len()).filter(is_used).collect();
    Table {
        name: heading.to_lowercase().replace(' ', "_"),
        title: "Checks with their values and floors".into(),
        columns: used.iter().map(|&at| COLUMNS[at].clone()).collect(),
        rows: rows.iter().map(|row| used.iter().map(|&at| row[at].clone()).collect()).collect(),
    }
}

fn row(one: &Judged) -> Vec<Cell> {
    let stub = if one.stub { " (stub)" } else { "" };
    let text = |text: Option<&String>| text.map_or(Cell::Absent, |text| Cell::Text(text.clone()));
    let number = |value: f64| match one.value.map_or("", |value| value.unit) {
        "B/s" => Cell::Bandwidth(BytesPerSecond(value)),
        "FLOP/s" => Cell::Throughput(FlopsPerSecond(value)),
        unit => Cell::Number(value, unit),
    };
    vec![
        Cell::Text(one.verdict.to_string()),
        Cell::Text(format!("{}{stub}", one.device)),
        Cell::Text(one.check.clone()),
        Cell::Text(format!("{}{stub}", one.words)),
        one.cause.map_or(Cell::Absent, |cause| Cell::Text(cause.to_string())),
        one.action.map_or(Cell::Absent, |action| Cell::Text(action.to_string())),
        one.value.map_or(Cell::Absent, |value| number(value.value)),
        one.floor.map_or(Cell::Absent, number),
        one.above_floor
            .map_or(Cell::Absent, |above| Cell::Relative { value: 1.0 + above, is_stub: one.stub }),
        one.noise.filter(|_| !one.stub && one.repeats > 1).map_or(Cell::Absent, Cell::Share),
        if one.repeats > 0 { Cell::Count(one.repeats as u64) } else { Cell::Absent },
        text(one.point.as_ref()),
        text(one.floor_source.as_ref()),
    ]
}

/// What a chart of a soak shows: a quantity of a reading.
struct Shown {
    name: &'static str,
    title: &'static str,
    quantity: Quantity,
    of: fn(&Sample) -> Option<f64>,
}

const SHOWN: [Shown; 3] = [
    Shown {
        name: "rate",
        title: "rate over its median",
        quantity: Quantity::Ratio,
        of: |one| Some(one.relative),
    },
    Shown { name: "clock", title: "clock", quantity: Quantity::Clock, of: |one| one.clock },
    Shown {
        name: "temperature",
        title: "temperature",
        quantity: Quantity::Temperature,
        of: |one| one.telemetry.as_ref()?.temperature_max.map(|heat| heat.0),
    },
];

/// Rates, clocks and temperatures over the repeats of a soak. Clocks and temperatures of a stub are
/// none.
fn charts(series: &[&Sample], mark: &str) -> Vec<Chart> {
    let chart = |shown: &Shown| {
        let mut curves: BTreeMap<(&str, &str), Vec<(f64, f64)>> = BTreeMap::new();
        let of_devices = series.iter().filter(|one| !one.stub || shown.name == "rate");
        for one in of_devices {
            let Some(value) = (shown.of)(one).filter(|value| *value > 0.0) else { continue };
            let curve = curves.entry((&one.device, &one.check)).or_default();
            curve.push((curve.len() as f64 + 1.0, value));
        }
        let curve = |((device, check), points): ((&str, &str), Vec<(f64, f64)>)| {
            Series::new(format!("{device}, {check}"), SeriesKind::Curve, points)
        };
        let all: Vec<Series> = curves.into_iter().take(CURVES_MAX).map(curve).collect();
        let has_curve = all.iter().any(|one| one.points.len() > 1);
        has_curve.then(|| Chart {
            name: shown.name.into(),
            title: format!("{}{mark}", capital(shown.title)),
            caption: "Each repeat of what lasts, in order.".into(),
            x: Axis::linear("repeat", Quantity::Count),
            y: Axis::linear(shown.title, shown.quantity),
            series: all,
            marks: Vec::new(),
        })
    };
    SHOWN.iter().filter_map(chart).collect()
}

fn capital(text: &str) -> String {
    let (first, rest) = text.split_at(1);
    first.to_uppercase() + rest
}
