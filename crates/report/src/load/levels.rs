//! What each level of load met: rates, times, what failed, and curves over the load.

use super::Named;
use crate::{
    Axis, Block, Cell, Chart, Column, Fact, Quantity, Scale, Series, SeriesKind, Table, Weight,
};
use fizeau_domain::{text::counted, units::Seconds};
use fizeau_projection::load::{
    Level, Times,
    capacity::{Capacity, Goal},
    level::Limits,
    times::{SHARES, is_time, values_for},
};

const LEVELS: &[Column] = &[
    Column { key: "level", title: "load", weight: Weight::Essential },
    Column { key: "answered", title: "answered", weight: Weight::Useful },
    Column { key: "failed", title: "failed", weight: Weight::Essential },
    Column { key: "seconds", title: "lasted", weight: Weight::Detail },
    Column { key: "requests_per_second", title: "RPS", weight: Weight::Essential },
    Column { key: "tokens_per_second", title: "output", weight: Weight::Essential },
    Column { key: "goodput_per_second", title: "goodput", weight: Weight::Useful },
    Column { key: "input_tokens", title: "prompt", weight: Weight::Detail },
    Column { key: "output_tokens", title: "answer", weight: Weight::Detail },
    Column { key: "decoding", title: "in decode", weight: Weight::Detail },
    Column { key: "ttft_p50_seconds", title: "TTFT P50", weight: Weight::Essential },
    Column { key: "ttft_p99_seconds", title: "P99", weight: Weight::Useful },
    Column { key: "tpot_p50_seconds", title: "TPOT P50", weight: Weight::Essential },
    Column { key: "tpot_p99_seconds", title: "P99", weight: Weight::Useful },
    Column { key: "e2el_p50_seconds", title: "E2EL P50", weight: Weight::Useful },
    Column { key: "e2el_p99_seconds", title: "P99", weight: Weight::Detail },
    Column { key: "lateness_p50_seconds", title: "late P50", weight: Weight::Detail },
    Column { key: "lateness_p99_seconds", title: "late P99", weight: Weight::Useful },
    Column { key: "over_server", title: "TPOT / server's", weight: Weight::Detail },
    Column { key: "chunked", title: "chunks not tokens", weight: Weight::Detail },
];

const QUANTILES: &[Column] = &[
    Column { key: "level", title: "load", weight: Weight::Essential },
    Column { key: "time", title: "time", weight: Weight::Essential },
    Column { key: "count", title: "of", weight: Weight::Useful },
    Column { key: "quantile", title: "quantile", weight: Weight::Essential },
    Column { key: "seconds", title: "is", weight: Weight::Essential },
    Column { key: "low_seconds", title: "from", weight: Weight::Essential },
    Column { key: "high_seconds", title: "to", weight: Weight::Essential },
    Column { key: "note", title: "note", weight: Weight::Useful },
];

const FAILED: &[Column] = &[
    Column { key: "level", title: "load", weight: Weight::Essential },
    Column { key: "count", title: "requests", weight: Weight::Essential },
    Column { key: "failure", title: "failure", weight: Weight::Essential },
];

/// What each level met.
pub fn blocks(named: &[Named<'_>], limits: &Limits) -> Vec<Block> {
    let mut blocks = vec![Block::Heading("Levels of load".into()), Block::Table(levels(named))];
    blocks.push(legend());
    if named.iter().any(|one| one.level.offered.is_closed()) {
        blocks.push(Block::Note(
            "In a closed loop a request is sent when an earlier one has ended: a slow server is \
             asked less, and the times say nothing of requests that come whether or not it is slow."
                .into(),
        ));
    }
    blocks.extend(without_tail(named.iter().map(|one| one.level)));
    blocks.extend(curves(named, limits).into_iter().map(Block::Chart));
    blocks
}

/// What those columns of levels are whose names do not say it.
pub fn legend() -> Block {
    Block::Note(
        "goodput: requests/s that keep all of --slo; TPOT / server's: a token's time here / there"
            .into(),
    )
}

/// Why times of some levels have no P99, where a table shows a dash for it.
pub fn without_tail<'l>(levels: impl Iterator<Item = &'l Level>) -> Vec<Block> {
    let all = levels.flat_map(|level| [&level.ttft, &level.tpot, &level.e2el]).flatten();
    let without = all.filter(|times| times.at(TAIL).is_none());
    let (measured, summaries): (Vec<&Times>, Vec<&Times>) =
        without.partition(|times| times.min.is_some());
    let mut notes = Vec::new();
    if let Some(least) = measured.iter().map(|times| times.count).min() {
        notes.push(format!(
            "A dash for P99: it needs {}, and the fewest here are {least}. More requests or a \
             longer level give it.",
            counted(values_for(TAIL) as usize, "answered request")
        ));
    }
    if !summaries.is_empty() {
        notes.push("A dash for P99 of a client's summary: its file states none.".into());
    }
    notes.into_iter().map(Block::Note).collect()
}

/// The tail that tables show.
const TAIL: f64 = 0.99;

/// What became of requests that failed, in a sentence and as a table; nothing where none failed.
pub fn failed(named: &[Named<'_>]) -> Vec<Block> {
    let failed: u64 = named.iter().map(|one| one.level.failures()).sum();
    if failed == 0 {
        return Vec::new();
    }
    let sent = failed + named.iter().map(|one| one.level.answered).sum::<u64>();
    let mut kinds: Vec<(&String, u64)> = Vec::new();
    for (kind, count) in named.iter().flat_map(|one| &one.level.failed) {
        match kinds.iter_mut().find(|(name, _)| *name == kind) {
            Some((_, all)) => *all += count,
            None => kinds.push((kind, *count)),
        }
    }
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let kinds: Vec<String> =
        kinds.iter().map(|(kind, count)| format!("{count} x {kind}")).collect();
    let share = 100.0 * failed as f64 / sent as f64;
    let words = format!(
        "{failed} of {sent} requests failed ({share:.1} %): {}. Times are those of answered \
         requests alone.",
        kinds.join(", ")
    );
    vec![Block::Warning(words), Block::Table(failures(named))]
}

/// Levels whose client was late itself, each in a sentence.
pub fn late(named: &[Named<'_>], goal: &Goal) -> Vec<Block> {
    let words = |one: &Named<'_>| {
        let late = one.level.late?;
        let is_judged = !one.level.is_not_judged(goal.share);
        Some(Block::Warning(format!("{}: {}.", one.name, late.words(is_judged))))
    };
    named.iter().filter_map(words).collect()
}

/// The figures of one level: the highest rate that keeps the limits, else the operating point,
/// else the last level.
pub fn cards(named: &[Named<'_>], goal: &Goal) -> Option<Block> {
    let all: Vec<&Level> = named.iter().map(|one| one.level).collect();
    let capacity = Capacity::of(&all, goal);
    let at = capacity.highest.or(capacity.operating).or(named.len().checked_sub(1))?;
    let (name, level) = (&named[at].name, named[at].level);
    let fact = |key: &str, label: &str, value: Cell, of: String| Fact {
        of,
        ..Fact::new(key, label, value)
    };
    let mut facts = Vec::new();
    if is_time(level.duration) {
        let rate = Cell::Number(level.request_rate(), "/s");
        facts.push(fact("requests_per_second", "Answered requests", rate, name.clone()));
        let rate = Cell::Number(level.token_rate(), "tok/s");
        facts.push(fact("tokens_per_second", "Output", rate, name.clone()));
    }
    let times = [
        ("ttft_p50_seconds", "TTFT P50", &level.ttft),
        ("tpot_p50_seconds", "TPOT P50", &level.tpot),
        ("e2el_p50_seconds", "E2EL P50", &level.e2el),
    ];
    for (key, label, times) in times {
        let Some(median) = times.as_ref().and_then(|times| times.at(0.5)) else { continue };
        let high = times.as_ref().and_then(|times| times.at(0.99));
        let of = match high {
            Some(high) => format!("P99 {}", Seconds(high.value)),
            None => format!("P99 needs {}", counted(values_for(TAIL) as usize, "request")),
        };
        facts.push(fact(key, label, Cell::Time(Seconds(median.value)), of));
    }
    let of = format!("{} failed", level.failures());
    facts.push(fact("answered", "Requests answered", Cell::Count(level.answered), of));
    Some(Block::Facts(facts))
}

/// All quantiles with their intervals.
pub fn all_quantiles(named: &[Named<'_>]) -> Vec<Block> {
    let mut blocks = vec![Block::Heading("Quantiles".into())];
    blocks.push(Block::Text(
        "Quantiles are R-7. Intervals hold 95 %: ranks of a binomial count, widened by how much \
         neighbouring requests and those beyond the quantile depend on each other. A quantile is \
         shown where one request at least lies beyond it."
            .into(),
    ));
    blocks.push(Block::Table(quantiles(named)));
    blocks
}

fn time(seconds: Option<f64>) -> Cell {
    seconds.map_or(Cell::Absent, |seconds| Cell::Time(Seconds(seconds)))
}

fn at(times: &Option<Times>, share: f64) -> Cell {
    time(times.as_ref().and_then(|times| times.at(share)).map(|one| one.value))
}

/// What each level met, as a table.
pub fn levels(named: &[Named<'_>]) -> Table {
    let row = |one: &Named<'_>| {
        let level = one.level;
        let rate = |rate: f64, unit| match is_time(level.duration) {
            true => Cell::Number(rate, unit),
            false => Cell::Absent,
        };
        vec![
            Cell::Text(one.name.clone()),
            Cell::Count(level.answered),
            Cell::Count(level.failures()),
            time(Some(level.duration).filter(|seconds| is_time(*seconds))),
            rate(level.request_rate(), "/s"),
            rate(level.token_rate(), "tok/s"),
            level.goodput.map_or(Cell::Absent, |rate| Cell::Number(rate, "/s")),
            Cell::Number(level.input, "tok"),
            Cell::Number(level.output, "tok"),
            level.decoding().map_or(Cell::Absent, |count| Cell::Number(count, "")),
            at(&level.ttft, 0.5),
            at(&level.ttft, 0.99),
            at(&level.tpot, 0.5),
            at(&level.tpot, 0.99),
            at(&level.e2el, 0.5),
            at(&level.e2el, 0.99),
            at(&level.lateness, 0.5),
            at(&level.lateness, 0.99),
            level.over_server.map_or(Cell::Absent, Cell::Ratio),
            Cell::Count(level.chunked),
        ]
    };
    let rows = named.iter().map(row);
    Table::new("levels", "Each level of load; times of answered requests", LEVELS, rows)
}

/// Its times by name.
fn times_of(level: &Level) -> [(&'static str, &Option<Times>); 6] {
    [
        ("TTFT", &level.ttft),
        ("TPOT", &level.tpot),
        ("ITL", &level.itl),
        ("E2EL", &level.e2el),
        ("lateness", &level.lateness),
        ("server's prompt", &level.server_prompt),
    ]
}

fn quantiles(named: &[Named<'_>]) -> Table {
    let mut rows = Vec::new();
    for one in named {
        for (name, times) in times_of(one.level) {
            let Some(times) = times else { continue };
            let mut add = |quantile: String, value: f64, ends: [Option<f64>; 2], note: &str| {
                rows.push(vec![
                    Cell::Text(one.name.clone()),
                    Cell::Text(name.into()),
                    Cell::Count(times.count),
                    Cell::Text(quantile),
                    time(Some(value)),
                    time(ends[0]),
                    time(ends[1]),
                    if note.is_empty() { Cell::Absent } else { Cell::Text(note.into()) },
                ]);
            };
            if let Some(mean) = times.mean {
                add("mean".into(), mean, [None, None], "");
            }
            for quantile in &times.quantiles {
                let is_summary = times.min.is_none();
                let note = match (quantile.low, quantile.high) {
                    (Some(_), Some(_)) => "",
                    (Some(_), None) => "too few requests for an upper bound",
                    (None, Some(_)) => "too few requests for a lower bound",
                    (None, None) if is_summary => "of a summary: no interval",
                    (None, None) => "too few requests for an interval",
                };
                let label = format!("P{}", (quantile.share * 1e3).round() / 10.0);
                add(label, quantile.value, [quantile.low, quantile.high], note);
            }
            if let Some(most) = times.max {
                add("max".into(), most, [None, None], "");
            }
        }
    }
    let title = format!("Means and quantiles up to P{}", SHARES[SHARES.len() - 1] * 100.0);
    Table::new("quantiles", title, QUANTILES, rows)
}

fn failures(named: &[Named<'_>]) -> Table {
    let mut rows = Vec::new();
    for one in named {
        for (what, count) in &one.level.failed {
            rows.push(vec![
                Cell::Text(one.name.clone()),
                Cell::Count(*count),
                Cell::Text(what.clone()),
            ]);
        }
    }
    let title = "Failed requests, by kind of failure";
    Table::new("failures", title, FAILED, rows)
}

/// Times over the rate of requests, where there are several levels: over the offered rate of open
/// loops, or, where all are closed, over the answered one.
fn curves(named: &[Named<'_>], limits: &Limits) -> Vec<Chart> {
    let offered =
        |level: &Level| level.offered.rate.filter(|_| level.offered.concurrency.is_none());
    let is_open = named.iter().any(|one| offered(one.level).is_some());
    let rate_of = |level: &Level| match is_open {
        true => offered(level),
        false => Some(level.request_rate()),
    };
    let chart =
        |name: &str, title: &str, limit: Option<f64>, of: &dyn Fn(&Level) -> Option<Times>| {
            let series = |label: &str, share: f64| {
                let point = |one: &Named<'_>| {
                    let value = of(one.level)?.at(share)?.value;
                    let rate = rate_of(one.level)?;
                    (value > 0.0 && rate > 0.0).then_some((rate, value))
                };
                let mut points: Vec<(f64, f64)> = named.iter().filter_map(point).collect();
                points.sort_by(|one, other| one.0.total_cmp(&other.0));
                points.dedup_by(|one, other| one.0 == other.0);
                Series::new(label, SeriesKind::Curve, points)
            };
            let mut series: Vec<Series> = [("P50", 0.5), ("P99", 0.99)]
                .into_iter()
                .map(|(label, share)| series(label, share))
                .filter(|series| series.points.len() > 1)
                .collect();
            let ends =
                series.first().and_then(|one| Some((one.points.first()?.0, one.points.last()?.0)));
            if let (Some((from, to)), Some(limit)) = (ends, limit) {
                let points = vec![(from, limit), (to, limit)];
                series.push(Series::new("limit of --slo", SeriesKind::Limit, points));
            }
            (!series.is_empty()).then(|| Chart {
                name: name.into(),
                title: title.into(),
                caption: match is_open {
                    true => "Each point is an open loop.".into(),
                    false => "Each point is a closed loop.".into(),
                },
                x: Axis {
                    title: match is_open {
                        true => "Offered requests a second".into(),
                        false => "Answered requests a second".into(),
                    },
                    quantity: Quantity::Number,
                    scale: Scale::Linear,
                },
                y: Axis::logarithmic("Time", Quantity::Time),
                series,
                marks: Vec::new(),
            })
        };
    let first = chart("ttft", "Time to the first token", limits.ttft, &|level| level.ttft.clone());
    let token = chart("tpot", "Time per output token", limits.tpot, &|level| level.tpot.clone());
    [first, token].into_iter().flatten().collect()
}
