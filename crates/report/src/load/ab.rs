//! The report of two servers or settings under the same load in alternating rounds.

use super::levels;
use crate::{
    Axis, Block, Cell, Chart, Column, Document, Quantity, Series, SeriesKind, Table, Weight,
};
use fizeau_domain::{text::counted, units::Seconds};
use fizeau_projection::load::{
    ab::{self, Arm, Judged, Metric, Run, Trial, Way},
    level::Level,
};
use std::collections::BTreeMap;

const VERDICTS: &[Column] = &[
    Column { key: "metric", title: "metric", weight: Weight::Essential },
    Column { key: "verdict", title: "verdict", weight: Weight::Essential },
    Column { key: "a", title: "A", weight: Weight::Useful },
    Column { key: "b", title: "B", weight: Weight::Useful },
    Column { key: "ratio", title: "B / A", weight: Weight::Essential },
    Column { key: "ratio_low", title: "from", weight: Weight::Detail },
    Column { key: "ratio_high", title: "to", weight: Weight::Detail },
    Column { key: "rounds", title: "rounds", weight: Weight::Detail },
    Column { key: "p_value", title: "p", weight: Weight::Machine },
    Column { key: "seen_from", title: "seen from", weight: Weight::Detail },
    Column { key: "found", title: "found", weight: Weight::Machine },
];

const ROUNDS: &[Column] = &[
    Column { key: "round", title: "round", weight: Weight::Essential },
    Column { key: "side", title: "side", weight: Weight::Essential },
    Column { key: "place", title: "sent", weight: Weight::Detail },
    Column { key: "answered", title: "answered", weight: Weight::Useful },
    Column { key: "failed", title: "failed", weight: Weight::Essential },
    Column { key: "seconds", title: "lasted", weight: Weight::Detail },
    Column { key: "ttft_p50_seconds", title: "TTFT P50", weight: Weight::Essential },
    Column { key: "ttft_p99_seconds", title: "P99", weight: Weight::Useful },
    Column { key: "tpot_p50_seconds", title: "TPOT P50", weight: Weight::Essential },
    Column { key: "tpot_p99_seconds", title: "P99", weight: Weight::Useful },
    Column { key: "e2el_p50_seconds", title: "E2EL P50", weight: Weight::Useful },
    Column { key: "e2el_p99_seconds", title: "P99", weight: Weight::Detail },
    Column { key: "tokens_per_second", title: "output", weight: Weight::Essential },
    Column { key: "goodput_per_second", title: "goodput", weight: Weight::Detail },
    Column { key: "input_tokens", title: "prompt", weight: Weight::Detail },
    Column { key: "output_tokens", title: "answer", weight: Weight::Detail },
    Column { key: "lateness_p99_seconds", title: "late P99", weight: Weight::Detail },
];

const FAILED: &[Column] = &[
    Column { key: "side", title: "side", weight: Weight::Essential },
    Column { key: "failure", title: "what became of it", weight: Weight::Essential },
    Column { key: "count", title: "requests", weight: Weight::Essential },
];

/// What a trial found, in reading order.
pub fn document(trial: &Trial) -> Document {
    let judged = trial.judged();
    let mut blocks = vec![Block::Text(outcome(trial, &judged))];
    let [a, b] = &trial.sides;
    blocks.push(Block::Text(format!("A: {a}. B: {b}.")));
    blocks.extend(trial.warnings().into_iter().map(|words| Block::Warning(format!("{words}."))));
    if !judged.is_empty() {
        blocks.push(Block::Table(verdicts(&judged, trial)));
        blocks.push(Block::Text(method(trial)));
        if trial.complete().len() % 2 == 1 {
            blocks.push(Block::Note(
                "A was first in one more of the complete rounds than B: what the first run of a \
                 round gains or loses is not quite balanced."
                    .into(),
            ));
        }
    }
    let failures = failures(trial);
    if !failures.rows.is_empty() {
        blocks.push(Block::Table(failures));
    }
    blocks.push(Block::Heading("Rounds".into()));
    blocks.extend(chart(trial).map(Block::Chart));
    blocks.push(Block::Table(rounds(trial)));
    blocks.extend(levels::without_tail(trial.runs.iter().map(|run| &run.level)));
    blocks.extend(trial.load.iter().map(|line| Block::Text(format!("{line}."))));
    let subtitle = format!(
        "{} of {} complete; {} answered by A, {} by B",
        trial.complete().len(),
        counted(trial.planned as usize, "round"),
        counted(trial.answered(Arm::A) as usize, "request"),
        trial.answered(Arm::B)
    );
    Document { title: format!("B against A: model {} under load", trial.model), subtitle, blocks }
}

/// The first sentence: in what B differs.
fn outcome(trial: &Trial, judged: &[Judged]) -> String {
    let complete = trial.complete().len();
    if judged.iter().all(|one| one.way == Way::TooFew) {
        return format!(
            "Nothing is judged: {} complete, and a verdict takes {} at least in which both sides \
             answered requests.",
            counted(complete, "round"),
            ab::ROUNDS_MIN
        );
    }
    let names = |is_better: bool| {
        let of = judged.iter().filter(|one| one.is_better() == Some(is_better));
        of.map(|one| one.metric.name()).collect::<Vec<_>>().join(", ")
    };
    let (better, worse) = (names(true), names(false));
    let mut parts = Vec::new();
    if !better.is_empty() {
        parts.push(format!("B is better in {better}"));
    }
    if !worse.is_empty() {
        parts.push(format!("B is worse in {worse}"));
    }
    let others = judged.iter().filter(|one| one.is_better().is_none()).count();
    if parts.is_empty() {
        parts.push(format!(
            "No difference between A and B is shown in {}",
            counted(others, "metric")
        ));
    } else if others > 0 {
        parts.push(format!("no difference is shown in {}", counted(others, "other metric")));
    }
    format!("{}.", parts.join("; "))
}

fn method(trial: &Trial) -> String {
    let settings = trial.settings;
    format!(
        "Each round sends the same load to A and to B. The logarithms of B / A of the rounds are \
         tested by a paired t-test: a metric differs when its rounds refute that B is within {:.1} \
         % of A. The probability that any metric is called different wrongly is {:.1} % or less \
         over all of them (Holm). Intervals are 95 % of one metric alone. \"See differences \
         from\": found with 80 % probability by as many rounds of this scatter. A and B in the \
         table are geometric means over rounds.",
        settings.least_effect * 100.0,
        settings.error_rate * 100.0
    )
}

fn value(metric: Metric, value: f64) -> Cell {
    match metric {
        Metric::TokenRate => Cell::Number(value, "tok/s"),
        Metric::Goodput => Cell::Number(value, "/s"),
        Metric::Answered => Cell::Share(value),
        _ => Cell::Time(Seconds(value)),
    }
}

fn verdicts(judged: &[Judged], trial: &Trial) -> Table {
    let ratio = |value: f64| Cell::Relative { value, is_stub: false };
    let row = |one: &Judged| {
        let [low, high] = one.interval.map_or([Cell::Absent, Cell::Absent], |ends| ends.map(ratio));
        let found = match one.is_better() {
            Some(true) => "better",
            Some(false) => "worse",
            None if one.way == Way::TooFew => "not judged",
            None => "no difference",
        };
        vec![
            Cell::Text(one.metric.name().into()),
            Cell::Text(one.words(&trial.settings)),
            value(one.metric, one.means[0]),
            value(one.metric, one.means[1]),
            ratio(one.ratio),
            low,
            high,
            Cell::Count(one.rounds as u64),
            one.p_value.map_or(Cell::Absent, |p| Cell::Number(p, "")),
            one.seen_from.map_or(Cell::Absent, Cell::Share),
            Cell::Text(found.into()),
        ]
    };
    Table::new("verdicts", "B beside A", VERDICTS, judged.iter().map(row))
}

fn rounds(trial: &Trial) -> Table {
    let row = |run: &Run| {
        let level = &run.level;
        let of =
            |metric: Metric| metric.of(level).map_or(Cell::Absent, |found| value(metric, found));
        let late = level.lateness.as_ref().and_then(|times| times.at(0.99)).map(|one| one.value);
        let is_first = ab::order(run.round)[0] == run.arm;
        vec![
            Cell::Count(u64::from(run.round)),
            Cell::Text(ab::name(run.arm).into()),
            Cell::Text(if is_first { "first" } else { "second" }.into()),
            Cell::Count(level.answered),
            Cell::Count(level.failures()),
            Cell::Time(Seconds(level.duration)),
            of(Metric::TtftP50),
            of(Metric::TtftP99),
            of(Metric::TpotP50),
            of(Metric::TpotP99),
            of(Metric::E2elP50),
            of(Metric::E2elP99),
            of(Metric::TokenRate),
            of(Metric::Goodput),
            Cell::Number(level.input, "tok"),
            Cell::Number(level.output, "tok"),
            late.map_or(Cell::Absent, |late| Cell::Time(Seconds(late))),
        ]
    };
    let title = "Each run in the order in which it was sent; times of answered requests";
    Table::new("rounds", title, ROUNDS, trial.runs.iter().map(row))
}

fn failures(trial: &Trial) -> Table {
    let mut rows = Vec::new();
    for arm in [Arm::A, Arm::B] {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for run in trial.runs.iter().filter(|run| run.arm == arm) {
            for (what, count) in &run.level.failed {
                *counts.entry(what).or_insert(0) += count;
            }
        }
        rows.extend(counts.into_iter().map(|(what, count)| {
            vec![Cell::Text(ab::name(arm).into()), Cell::Text(what.into()), Cell::Count(count)]
        }));
    }
    let title = "Failed requests, by kind of failure (left out of all times)";
    Table::new("failures", title, FAILED, rows)
}

/// B / A of each round.
fn chart(trial: &Trial) -> Option<Chart> {
    let complete = trial.complete();
    let series = |metric: Metric| {
        let point = |(round, [a, b]): &(u32, [&Level; 2])| {
            Some((f64::from(*round), metric.of(b)? / metric.of(a)?))
        };
        let points: Vec<(f64, f64)> = complete.iter().filter_map(point).collect();
        Series::new(metric.name(), SeriesKind::Curve, points)
    };
    let shown = [Metric::TtftP50, Metric::TpotP50, Metric::E2elP50, Metric::TokenRate];
    let all = shown.into_iter().map(series).filter(|series| series.points.len() > 1);
    let series: Vec<Series> = all.collect();
    (!series.is_empty()).then(|| Chart {
        name: "ratios".into(),
        title: "B / A of each round".into(),
        caption: "What differs lies on one side of 1 in each round.".into(),
        x: Axis::linear("Round", Quantity::Count),
        y: Axis::logarithmic("B / A", Quantity::Ratio),
        series,
        marks: Vec::new(),
    })
}
