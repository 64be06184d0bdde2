//! Levels of load over time: requests under way, drift, and what the server said of itself.

use super::Named;
use crate::{Axis, Block, Cell, Chart, Column, Quantity, Series, SeriesKind, Table, Weight};
use fizeau_domain::stats::quantile;
use fizeau_projection::load::{Sample, over_time::Window};

const DRIFTS: &[Column] = &[
    Column { key: "level", title: "load", weight: Weight::Essential },
    Column { key: "time", title: "time", weight: Weight::Essential },
    Column { key: "ratio", title: "last third / first", weight: Weight::Essential },
    Column { key: "ratio_low", title: "from", weight: Weight::Useful },
    Column { key: "ratio_high", title: "to", weight: Weight::Useful },
    Column { key: "verdict", title: "", weight: Weight::Essential },
];

const SERVER: &[Column] = &[
    Column { key: "level", title: "load", weight: Weight::Essential },
    Column { key: "samples", title: "samples", weight: Weight::Detail },
    Column { key: "running_median", title: "running", weight: Weight::Essential },
    Column { key: "running_max", title: "most", weight: Weight::Useful },
    Column { key: "waiting_median", title: "waiting", weight: Weight::Essential },
    Column { key: "waiting_max", title: "most", weight: Weight::Useful },
    Column { key: "kv_max_share", title: "KV cache, most", weight: Weight::Essential },
    Column { key: "preempted", title: "preempted", weight: Weight::Useful },
    Column { key: "prefix_share", title: "prefix found", weight: Weight::Useful },
];

/// The most levels whose curves stand in one chart.
const CURVES_MAX: usize = 7;

/// What changed while the levels lasted.
pub fn blocks(named: &[Named<'_>]) -> Vec<Block> {
    let mut blocks = Vec::new();
    let drifts = drifts(named);
    for row in drifts.rows.iter().filter(|row| row[5] == Cell::Text(DRIFTS_WORD.into())) {
        if let [Cell::Text(level), Cell::Text(time), Cell::Ratio(ratio), ..] = &row[..] {
            let percent = ((ratio - 1.0) * 100.0).round();
            let way = if percent > 0.0 { "grows" } else { "falls" };
            blocks.push(Block::Warning(format!(
                "{level}: {time} {way} while the level lasts, by {} % from its first third to its \
                 last: no quantile is of a steady state.",
                percent.abs()
            )));
        }
    }
    if !drifts.rows.is_empty() {
        blocks.push(Block::Table(drifts));
    }
    let server = server(named);
    if !server.rows.is_empty() {
        blocks.push(Block::Table(server));
    }
    let under_way = |window: &Window| Some(window.under_way);
    let first = |window: &Window| window.ttft;
    blocks.extend(
        [
            chart(named, "under_way", "Requests under way", Quantity::Number, &under_way),
            chart(named, "ttft_over_time", "TTFT over time", Quantity::Time, &first),
        ]
        .into_iter()
        .flatten()
        .map(Block::Chart),
    );
    if !blocks.is_empty() {
        blocks.insert(0, Block::Heading("Over time".into()));
    }
    blocks
}

const DRIFTS_WORD: &str = "drifts";

fn drifts(named: &[Named<'_>]) -> Table {
    let mut rows = Vec::new();
    for one in named {
        for drift in one.level.over_time.iter().flat_map(|over| &over.drifts) {
            let end = |ratio: f64| if drift.is_known { Cell::Ratio(ratio) } else { Cell::Absent };
            let verdict = match (drift.is_known, drift.is_shown()) {
                (false, _) => "too few to tell",
                (true, true) => DRIFTS_WORD,
                (true, false) => "no drift shown",
            };
            rows.push(vec![
                Cell::Text(one.name.clone()),
                Cell::Text(drift.name.into()),
                Cell::Ratio(drift.ratio),
                end(drift.low),
                end(drift.high),
                Cell::Text(verdict.into()),
            ]);
        }
    }
    let title = "Medians of the last third of the requests over those of the first";
    Table::new("drift", title, DRIFTS, rows)
}

fn server(named: &[Named<'_>]) -> Table {
    let row = |one: &Named<'_>| {
        let samples = &one.level.server;
        let values = |of: fn(&Sample) -> Option<f64>| -> Vec<f64> {
            samples.iter().filter_map(of).filter(|value| value.is_finite()).collect()
        };
        let median = |values: &[f64]| match values.is_empty() {
            true => Cell::Absent,
            false => number(Some(quantile::median(values))),
        };
        let most = |values: &[f64]| values.iter().copied().reduce(f64::max);
        let grown = |values: &[f64]| {
            let (first, last) = (values.first()?, values.last()?);
            (values.len() > 1 && last >= first).then_some(last - first)
        };
        let (running, waiting) = (values(|one| one.running), values(|one| one.waiting));
        let share = |value: Option<f64>| value.map_or(Cell::Absent, Cell::Share);
        let asked = grown(&values(|one| one.prefix_asked)).filter(|asked| *asked > 0.0);
        let found = grown(&values(|one| one.prefix_found));
        (!samples.is_empty()).then(|| {
            vec![
                Cell::Text(one.name.clone()),
                Cell::Count(samples.len() as u64),
                median(&running),
                number(most(&running)),
                median(&waiting),
                number(most(&waiting)),
                share(most(&values(|one| one.kv_used))),
                number(grown(&values(|one| one.preempted))),
                share(found.zip(asked).map(|(found, asked)| found / asked)),
            ]
        })
    };
    let title = "What the server says of itself at /metrics, warm-up included";
    Table::new("server", title, SERVER, named.iter().filter_map(row))
}

/// A number of requests: whole where it is, since medians may be halves.
fn number(value: Option<f64>) -> Cell {
    match value {
        None => Cell::Absent,
        Some(value) if value.fract() == 0.0 && value >= 0.0 => Cell::Count(value as u64),
        Some(value) => Cell::Number(value, ""),
    }
}

fn chart(
    named: &[Named<'_>],
    name: &str,
    title: &str,
    quantity: Quantity,
    of: &dyn Fn(&Window) -> Option<f64>,
) -> Option<Chart> {
    let series = |one: &Named<'_>| {
        let windows = &one.level.over_time.as_ref()?.windows;
        let begin = windows.first()?.from;
        let point = |window: &Window| {
            let value = of(window).filter(|value| *value > 0.0)?;
            Some(((window.from + window.to) / 2.0 - begin, value))
        };
        let points: Vec<(f64, f64)> = windows.iter().filter_map(point).collect();
        (points.len() > 1).then(|| Series::new(one.name.clone(), SeriesKind::Curve, points))
    };
    let series: Vec<Series> = named.iter().filter_map(series).take(CURVES_MAX).collect();
    (!series.is_empty()).then(|| Chart {
        name: name.into(),
        title: title.into(),
        caption: format!(
            "Each point is a part of a level of at least ten requests; warm-up is left out{}.",
            if series.len() < named.len() { "; the first levels that have such parts" } else { "" }
        ),
        x: Axis::linear("Time since the first measured request", Quantity::Time),
        y: Axis::linear(title, quantity),
        series,
        marks: Vec::new(),
    })
}
