//! A level of load beside what the hardware allows: shares, where the time of a request goes, and
//! what TPOT is made of.

use super::{Join, Named};
use crate::{
    Axis, Block, Cell, Chart, Column, Fact, FactLimit, Quantity, Series, SeriesKind, Table, Weight,
};
use fizeau_domain::{number::brief, units::Seconds};
use fizeau_projection::{
    load::{Explained, Joined, Share},
    project::Limits,
};

const SHARES: &[Column] = &[
    Column { key: "level", title: "load", weight: Weight::Essential },
    Column { key: "decoding", title: "in decode", weight: Weight::Useful },
    Column { key: "time", title: "time", weight: Weight::Essential },
    Column { key: "measured_seconds", title: "mean", weight: Weight::Essential },
    Column { key: "light_seconds", title: "L0", weight: Weight::Useful },
    Column { key: "serial_seconds", title: "L1", weight: Weight::Useful },
    Column { key: "l2_seconds", title: "L2", weight: Weight::Essential },
    Column { key: "light_share", title: "of L0", weight: Weight::Essential },
    Column { key: "serial_share", title: "of L1", weight: Weight::Useful },
    Column { key: "l2_share", title: "of L2", weight: Weight::Essential },
    Column { key: "coverage", title: "covered", weight: Weight::Detail },
];

const PARTS: &[Column] = &[
    Column { key: "level", title: "load", weight: Weight::Essential },
    Column { key: "whole_seconds", title: "request", weight: Weight::Essential },
    Column { key: "client_seconds", title: "client", weight: Weight::Essential },
    Column { key: "queue_seconds", title: "queue", weight: Weight::Essential },
    Column { key: "prefill_seconds", title: "prefill", weight: Weight::Essential },
    Column { key: "decode_seconds", title: "decode", weight: Weight::Essential },
    Column { key: "prefill_basis", title: "prefill by", weight: Weight::Useful },
];

const WATERFALL: &[Column] = &[
    Column { key: "level", title: "load", weight: Weight::Essential },
    Column { key: "part", title: "part of TPOT", weight: Weight::Essential },
    Column { key: "added_seconds", title: "adds", weight: Weight::Essential },
    Column { key: "reached_seconds", title: "reaches", weight: Weight::Useful },
    Column { key: "bar", title: "", weight: Weight::Essential },
];

/// The join, in reading order.
pub fn blocks(join: &Join<'_>, named: &[Named<'_>]) -> Vec<Block> {
    let all: Vec<(&str, &Joined)> =
        named.iter().map(|one| one.name.as_str()).zip(&join.levels).collect();
    let mut blocks = vec![Block::Facts(facts(&all))];
    blocks.extend(all.iter().filter_map(|(name, one)| words(name, one)).map(Block::Text));
    for (name, one) in &all {
        let beyond = one.beyond_light();
        if !beyond.is_empty() {
            blocks.push(Block::Failure(impossible(name, &beyond, join)));
        }
    }
    let engine = &join.engine;
    blocks.push(Block::Text(format!(
        "Limits: {} in layout {}, weights {}, KV cache {}; {}. L0: the hard limit. L1: a \
         perfect engine that does one operation after the other. L2: each operation at the \
         efficiency that the record shows. Means of requests stand beside tiers at mean lengths, \
         and at the mean number of sequences in decode (rate x time in decode, 1 at least).",
        engine.model.name,
        engine.layout,
        engine.model.precision.describe(),
        engine.kv,
        engine.hardware.basis
    )));
    blocks.extend(engine.hardware.notes.iter().cloned().map(Block::Warning));
    blocks.extend(engine.model.notes.iter().cloned().map(Block::Warning));
    blocks.push(Block::Table(shares(&all)));
    blocks.push(Block::Table(parts(&all)));
    blocks.push(Block::Note(
        "queue is the time before the first token beyond the prefill of one prompt: waiting for a \
         place, and for steps of others. client is what the client states that it was late by; of \
         a client that does not state it, it is not known, and in none of the others."
            .into(),
    ));
    blocks.push(Block::Table(waterfall(&all)));
    blocks.extend(chart(&all).map(Block::Chart));
    blocks
}

fn impossible(name: &str, beyond: &[&str], join: &Join<'_>) -> String {
    let limits = match join.engine.hardware.limits {
        Limits::Datasheet => "a datasheet's, which nothing real exceeds",
        Limits::Record => "the best rates of a record, which another kernel may exceed",
    };
    format!(
        "{name}: the mean {} is below L0. The limits are {limits}. Else the model, its precision, \
         the layout, a prefix that was cached or speculative decoding is not as stated here: look \
         at --model, --precision, --layout and --prefix.",
        beyond.join(" and ")
    )
}

/// With places after the point, and with an exponent where that is shorter.
fn places(number: f64, places: usize) -> String {
    if number.abs() >= 1e6 { brief(number) } else { format!("{number:.places$}") }
}

fn seconds(time: f64) -> Cell {
    Cell::Time(Seconds(time))
}

fn facts(all: &[(&str, &Joined)]) -> Vec<Fact> {
    let fact = |key: &str, label: &str, of: &dyn Fn(&Joined) -> Option<Share>| {
        let shares = all.iter().filter_map(|(name, one)| Some((*name, of(one)?)));
        let (name, best) =
            shares.max_by(|(_, one), (_, other)| one.of_light().total_cmp(&other.of_light()))?;
        let of_l2 = best
            .of_measured()
            .map_or(String::new(), |share| format!("; {:.0} % of L2", share * 100.0));
        Some(Fact {
            key: key.into(),
            label: label.into(),
            value: seconds(best.measured),
            share: Some(best.of_light()),
            of: format!("of L0, {}{of_l2}; at {name}", Seconds(best.tiers.light)),
            limit: FactLimit {
                value: Some(seconds(best.tiers.light)),
                tier: None,
                reasons: Vec::new(),
            },
            case: String::new(),
        })
    };
    let first = fact("ttft", "TTFT nearest to light", &|one| one.ttft);
    let token = fact("tpot", "TPOT nearest to light", &|one| one.tpot);
    [first, token].into_iter().flatten().collect()
}

/// What TPOT of a level is made of, in a sentence.
fn words(name: &str, one: &Joined) -> Option<String> {
    let share = one.tpot?;
    let (tier, known) = match share.tiers.measured {
        Some(time) => ("L2", time),
        None => ("L1", share.tiers.serial),
    };
    let part = |one: &&Explained| one.name.starts_with("L2: ") || one.name.starts_with("prompts");
    let mut list: Vec<&Explained> = one.explained.iter().filter(part).collect();
    list.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    let list: Vec<String> = list
        .iter()
        .take(3)
        .map(|one| format!("{} {}", one.name.trim_start_matches("L2: "), Seconds(one.seconds)))
        .collect();
    let list = match list.is_empty() {
        true => String::new(),
        false => format!(" Of the time above L1, these are explained: {}.", list.join(", ")),
    };
    let rest = one.explained.last().map_or(0.0, |last| last.seconds);
    let rest = match rest >= 0.0 {
        true => {
            let percent = places(rest / share.measured * 100.0, 0);
            format!("{} ({percent} %) is not explained", Seconds(rest))
        }
        false => format!("these explain {} more than was measured", Seconds(-rest)),
    };
    Some(format!(
        "{name}: TPOT {} is {} x {tier} ({}) and {} x L0, with {} in decode at once.{list} \
         {rest}.",
        Seconds(share.measured),
        places(share.measured / known, 2),
        Seconds(known),
        places(1.0 / share.of_light(), 2),
        places(one.sequences, 1)
    ))
}

fn shares(all: &[(&str, &Joined)]) -> Table {
    let mut rows = Vec::new();
    for (name, one) in all {
        let coverage = |step: Option<&fizeau_projection::project::Step>| {
            step.and_then(|step| step.coverage).map_or(Cell::Absent, Cell::Share)
        };
        let times = [
            ("TTFT", one.ttft, coverage(Some(&one.prefill))),
            ("TPOT", one.tpot, coverage(one.decode.as_ref())),
            ("E2EL", one.e2el, Cell::Absent),
        ];
        for (time, share, coverage) in times {
            let Some(share) = share else { continue };
            rows.push(vec![
                Cell::Text((*name).into()),
                Cell::Number(one.sequences, ""),
                Cell::Text(time.into()),
                seconds(share.measured),
                seconds(share.tiers.light),
                seconds(share.tiers.serial),
                share.tiers.measured.map_or(Cell::Absent, seconds),
                Cell::Share(share.of_light()),
                Cell::Share(share.of_serial()),
                share.of_measured().map_or(Cell::Absent, Cell::Share),
                coverage,
            ]);
        }
    }
    Table::new("joined", "Each level beside what the hardware allows: tier / mean", SHARES, rows)
}

fn parts(all: &[(&str, &Joined)]) -> Table {
    let row = |(name, one): &(&str, &Joined)| {
        let parts = one.parts?;
        Some(vec![
            Cell::Text((*name).into()),
            seconds(parts.whole),
            one.level.lateness.as_ref().map_or(Cell::Absent, |_| seconds(parts.client)),
            seconds(parts.queue),
            seconds(parts.prefill),
            seconds(parts.decode),
            Cell::Text(parts.basis.name().into()),
        ])
    };
    Table::new("parts", "Where the mean time of a request goes", PARTS, all.iter().filter_map(row))
}

fn waterfall(all: &[(&str, &Joined)]) -> Table {
    let mut rows = Vec::new();
    for (name, one) in all {
        let Some(share) = one.tpot else { continue };
        let sums = one.explained.iter().scan(0.0, |sum, part| {
            *sum += part.seconds;
            Some(*sum)
        });
        let sums: Vec<f64> = sums.collect();
        let whole = sums.iter().copied().fold(share.measured, f64::max).max(f64::MIN_POSITIVE);
        for (part, reached) in one.explained.iter().zip(sums) {
            let before = reached - part.seconds;
            let (from, to) = (before.min(reached), before.max(reached));
            rows.push(vec![
                Cell::Text((*name).into()),
                Cell::Text(part.name.clone()),
                seconds(part.seconds),
                seconds(reached),
                Cell::Span((from / whole).clamp(0.0, 1.0), (to / whole).clamp(0.0, 1.0)),
            ]);
        }
    }
    let title = "What the mean TPOT is made of, from L0 to what was measured";
    Table::new("waterfall", title, WATERFALL, rows)
}

/// TPOT and its tiers over the sequences in decode.
fn chart(all: &[(&str, &Joined)]) -> Option<Chart> {
    let series = |name: &str, kind: SeriesKind, of: &dyn Fn(&Share) -> Option<f64>| {
        let point = |(_, one): &(&str, &Joined)| {
            let value = of(&one.tpot?)?;
            (value > 0.0).then_some((one.sequences, value))
        };
        let mut points: Vec<(f64, f64)> = all.iter().filter_map(point).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        points.dedup_by(|one, other| one.0 == other.0);
        Series::new(name, kind, points)
    };
    let list = vec![
        series("measured", SeriesKind::Curve, &|share| Some(share.measured)),
        series("L2", SeriesKind::Curve, &|share| share.tiers.measured),
        series("L1", SeriesKind::Limit, &|share| Some(share.tiers.serial)),
        series("L0", SeriesKind::Limit, &|share| Some(share.tiers.light)),
    ];
    let list: Vec<Series> = list.into_iter().filter(|series| series.points.len() > 1).collect();
    (!list.is_empty()).then(|| Chart {
        name: "tpot_joined".into(),
        title: "Time of one token more beside its tiers".into(),
        caption: "Each point is a level of load; nothing real is below L0.".into(),
        x: Axis::logarithmic("Sequences in decode", Quantity::Number),
        y: Axis::logarithmic("Time of a token", Quantity::Time),
        series: list,
        marks: Vec::new(),
    })
}
