//! What all levels together say of the server: knee, highest rate, front, plan.

use super::Named;
use crate::{Axis, Block, Cell, Chart, Column, Quantity, Series, SeriesKind, Table, Weight};
use fizeau_domain::text::counted;
use fizeau_projection::load::{
    Level,
    capacity::{Capacity, Fleet, Goal, HEADROOM},
};

const CLOSED: &[Column] = &[
    Column { key: "level", title: "load", weight: Weight::Essential },
    Column { key: "tokens_per_second", title: "output", weight: Weight::Essential },
    Column { key: "device_tokens_per_second", title: "per device", weight: Weight::Useful },
    Column { key: "user_tokens_per_second", title: "per user", weight: Weight::Essential },
    Column { key: "front", title: "front", weight: Weight::Essential },
];

const KEPT: &[Column] = &[
    Column { key: "level", title: "load", weight: Weight::Essential },
    Column { key: "kept_share", title: "keep the limits", weight: Weight::Essential },
    Column { key: "kept_low", title: "from", weight: Weight::Useful },
    Column { key: "kept_high", title: "to", weight: Weight::Useful },
    Column { key: "verdict", title: "the level", weight: Weight::Essential },
];

/// What the levels say; nothing where there is one level and no limit.
pub fn blocks(named: &[Named<'_>], goal: &Goal) -> Vec<Block> {
    let levels: Vec<&Level> = named.iter().map(|one| one.level).collect();
    let capacity = Capacity::of(&levels, goal);
    let mut blocks = Vec::new();
    blocks.extend(rate_words(named, &capacity, goal).map(Block::Text));
    if let Some(at) = capacity.piles_up {
        blocks.push(Block::Warning(format!(
            "{}: requests pile up: fewer are answered than arrive, and their times grow as long as \
             the level lasts. Quantiles of this level and of those above it are of its length, and \
             not of the server.",
            named[at].name
        )));
    }
    blocks.extend(knee_words(named, &capacity).map(Block::Text));
    blocks.extend(fleet_words(named, &capacity, goal).map(Block::Text));
    if named.iter().any(|one| one.level.kept.is_some()) {
        blocks.push(Block::Table(kept(named, goal)));
    }
    if capacity.closed.len() > 1 {
        blocks.extend(operating_words(named, &capacity, goal).map(Block::Text));
        blocks.push(Block::Table(closed(named, &capacity, goal)));
        blocks.extend(front_chart(named, &capacity, goal).map(Block::Chart));
    }
    if !blocks.is_empty() {
        blocks.insert(0, Block::Heading("What the server carries".into()));
    }
    blocks
}

fn percent(share: f64) -> String {
    format!("{} %", (share * 1e4).round() / 1e2)
}

fn rate_words(named: &[Named<'_>], capacity: &Capacity, goal: &Goal) -> Option<String> {
    if goal.limits.is_empty() || capacity.open.is_empty() {
        return None;
    }
    let wanted = percent(goal.share);
    let kept = |at: usize| named[at].level.kept;
    let Some(highest) = capacity.highest else {
        let lowest = capacity.open[0];
        if let Some(at) = capacity.not_judged {
            return Some(format!(
                "The highest rate that keeps the limits is not known: at {} the client itself was \
                 late, so that what its requests met is not the server's doing alone.",
                named[at].name
            ));
        }
        return Some(format!(
            "No rate was found that keeps the limits: at {} {} of the requests keep them, and \
             {wanted} have to.",
            named[lowest].name,
            kept(lowest).map_or_else(|| "an unknown share".into(), |kept| percent(kept.share))
        ));
    };
    let mut words = format!("Highest rate that keeps the limits: {}", named[highest].name);
    if let Some(kept) = kept(highest) {
        words += &format!(
            " ({} of the requests keep them, {} to {})",
            percent(kept.share),
            percent(kept.low),
            percent(kept.high)
        );
        if kept.low < goal.share {
            words += &format!(
                "; it takes more requests to be sure of {wanted}: the interval begins below it"
            );
        }
    }
    words += &match (capacity.not_judged, capacity.missed) {
        (Some(at), _) => format!(
            "; {} is not judged, since the client was late there, so that it is a lower bound.",
            named[at].name
        ),
        (None, Some(missed)) => format!("; {} misses them.", named[missed].name),
        (None, None) => "; no level above it was measured, so that it is a lower bound.".into(),
    };
    Some(words)
}

fn knee_words(named: &[Named<'_>], capacity: &Capacity) -> Option<String> {
    let knee = capacity.knee?;
    let name = &named[knee].name;
    let place = if capacity.open.first() == Some(&knee) {
        "the lowest rate of all: the knee is there or below"
    } else if capacity.open.last() == Some(&knee) {
        "the highest rate of all: the knee was not reached"
    } else {
        "beyond it latency grows faster than throughput"
    };
    Some(format!(
        "Knee: {name}; {place} (the greatest power, answered requests a second over their mean \
         time, of {})",
        counted(capacity.open.len(), "level")
    ))
}

fn fleet_words(named: &[Named<'_>], capacity: &Capacity, goal: &Goal) -> Option<String> {
    let target = goal.target?;
    let headroom = percent(HEADROOM);
    Some(match capacity.fleet? {
        Fleet::CannotBeMet => format!(
            "{target} requests/s cannot be met: no level that was measured keeps the limits, so \
             that no number of such servers is known to."
        ),
        Fleet::NotJudged => format!(
            "How many servers {target} requests/s take is not known: no level that keeps the \
             limits could be judged, since the client was late."
        ),
        Fleet::Servers(count) => {
            let devices = count * u64::from(goal.devices);
            let each = capacity.highest.map_or("", |at| named[at].name.as_str());
            format!(
                "{target} requests/s take {}, that is {}: each carries {each}, and {headroom} of \
                 headroom are included. A balancer that spreads them unevenly takes more.",
                counted(count as usize, "server"),
                counted(devices as usize, "device")
            )
        }
    })
}

fn operating_words(named: &[Named<'_>], capacity: &Capacity, goal: &Goal) -> Option<String> {
    let reason = match goal.limits.is_empty() {
        true => "the greatest power of the front",
        false => "the most throughput of the front that keeps the limits",
    };
    match capacity.operating {
        Some(at) => Some(format!("Operating point: {}, {reason}.", named[at].name)),
        None if !goal.limits.is_empty() => {
            Some("Operating point: none, no closed level keeps the limits.".into())
        }
        None => None,
    }
}

fn kept(named: &[Named<'_>], goal: &Goal) -> Table {
    let row = |one: &Named<'_>| {
        let kept = one.level.kept?;
        let piles_up = one.level.piles_up();
        let verdict = match one.level.keeps(goal.share) {
            None => "is not judged: the client was late",
            Some(true) if kept.low >= goal.share => "keeps them",
            Some(true) => "keeps them, of too few requests to be sure",
            _ if piles_up => "misses them: requests pile up",
            _ if kept.high < goal.share => "misses them",
            _ => "misses them, of too few requests to be sure",
        };
        Some(vec![
            Cell::Text(one.name.clone()),
            Cell::Share(kept.share),
            Cell::Share(kept.low),
            Cell::Share(kept.high),
            Cell::Text(verdict.into()),
        ])
    };
    let title = format!(
        "Requests that keep all limits, failed ones included; {} have to",
        percent(goal.share)
    );
    Table::new("kept", title, KEPT, named.iter().filter_map(row))
}

fn closed(named: &[Named<'_>], capacity: &Capacity, goal: &Goal) -> Table {
    let row = |at: &usize| {
        let level = named[*at].level;
        let tokens = level.token_rate();
        let place = match capacity.front.contains(at) {
            true if capacity.operating == Some(*at) => "operating point",
            true => "on it",
            false => "another level is better in both",
        };
        vec![
            Cell::Text(named[*at].name.clone()),
            Cell::Number(tokens, "tok/s"),
            Cell::Number(tokens / f64::from(goal.devices), "tok/s"),
            level.user_speed().map_or(Cell::Absent, |speed| Cell::Number(speed, "tok/s")),
            Cell::Text(place.into()),
        ]
    };
    let rows = capacity.closed.iter().map(row);
    Table::new("front", "Throughput and speed for each user: 1 / median TPOT", CLOSED, rows)
}

fn front_chart(named: &[Named<'_>], capacity: &Capacity, goal: &Goal) -> Option<Chart> {
    let series = |name: &str, kind: SeriesKind, is: &dyn Fn(&usize) -> bool| {
        let point = |at: &usize| {
            let level = named[*at].level;
            let tokens = level.token_rate() / f64::from(goal.devices);
            level.user_speed().map(|speed| (speed, tokens)).filter(|one| one.1 > 0.0)
        };
        let places = capacity.closed.iter().filter(|at| is(at));
        let mut points: Vec<(f64, f64)> = places.filter_map(point).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        Series::new(name, kind, points)
    };
    let is_on = |at: &usize| capacity.front.contains(at);
    let is_operating = |at: &usize| capacity.operating == Some(*at);
    let all = [
        series("front", SeriesKind::Curve, &is_on),
        series("operating point", SeriesKind::Points, &is_operating),
        series("beaten in both", SeriesKind::Faint, &|at| !is_on(at)),
    ];
    let series: Vec<Series> = all.into_iter().filter(|one| !one.points.is_empty()).collect();
    (series.first()?.points.len() > 1).then(|| Chart {
        name: "front".into(),
        title: "Throughput against speed for each user".into(),
        caption: "Each point is a closed loop with another number of requests at once.".into(),
        x: Axis::linear("Tokens a second for each user", Quantity::Number),
        y: Axis::linear("Output tokens a second for each device", Quantity::Number),
        series,
        marks: Vec::new(),
    })
}
