//! What could be otherwise, side by side, and quality beside cost.

use super::{
    points::{self, POINTS},
    rate, why_none,
};
use crate::{Block, Cell, Column, Heat, HeatMap, HeatRow, Table, Weight};
use fizeau_domain::units::{Bytes, Seconds};
use fizeau_projection::project::{
    By, Demand, Hardware, Point, Projection, Rests, Side, Variant, tier::common,
};

/// What the projection of the command line is called beside what could be otherwise.
const BASE: &str = "as asked";

const COLUMNS: &[Column] = &[
    Column { key: "what_if", title: "what if", weight: Weight::Essential },
    Column { key: "on", title: "on", weight: Weight::Detail },
    Column { key: "layout", title: "layout", weight: Weight::Useful },
    Column { key: "devices", title: "GPUs", weight: Weight::Detail },
    Column { key: "fits", title: "fits", weight: Weight::Useful },
    Column { key: "concurrency", title: "at once", weight: Weight::Essential },
    Column { key: "ttft_seconds", title: "TTFT", weight: Weight::Useful },
    Column { key: "tpot_seconds", title: "TPOT", weight: Weight::Essential },
    Column { key: "e2el_seconds", title: "E2EL", weight: Weight::Detail },
    Column { key: "user_tokens_per_second", title: "a user", weight: Weight::Useful },
    Column { key: "gpu_output_tokens_per_second", title: "a GPU", weight: Weight::Essential },
    Column { key: "rests_on", title: "by", weight: Weight::Essential },
    Column { key: "rate_relative", title: "to as asked", weight: Weight::Essential },
    Column { key: "rate_relative_by", title: "compared by", weight: Weight::Machine },
    Column { key: "dollars_per_million", title: "$ / 10^6", weight: Weight::Useful },
    Column { key: "joules_per_token", title: "J / token", weight: Weight::Useful },
    Column { key: "draft_seconds", title: "drafting", weight: Weight::Detail },
    Column { key: "transfer_seconds", title: "KV moves in", weight: Weight::Detail },
    Column { key: "why", title: "why not", weight: Weight::Detail },
];

/// A projection with its name: that of the command line first.
type Named<'a> = (&'a str, &'a Demand, &'a Side);

/// All of it; nothing where nothing was asked.
pub fn blocks(projection: &Projection) -> Vec<Block> {
    let Some(first) = projection.sides.first() else { return Vec::new() };
    if projection.variants.is_empty() {
        return Vec::new();
    }
    let base: Named<'_> = (BASE, &projection.demand, first);
    let others = projection.variants.iter();
    let others = others.map(|one| (one.name.as_str(), &one.demand, &one.side));
    let all: Vec<Named<'_>> = [base].into_iter().chain(others).collect();
    let mut blocks = vec![Block::Heading("What if".into())];
    blocks.push(Block::Text(format!(
        "Each row is the projection on {} with only this otherwise, at its own point to run at: \
         the most output tokens of a GPU among the points that fit and keep the limits. Rates \
         count all GPUs, and prefill. A row that rests on other things than the first one is \
         compared with it by L1, which both have; where limits are of different kinds (a \
         datasheet, a record) not at all.",
        first.offer.hardware.name
    )));
    for variant in &projection.variants {
        let notes = variant.notes.iter().chain(&variant.side.offer.hardware.notes);
        let base_notes = &first.offer.hardware.notes;
        let new = notes.filter(|note| !base_notes.contains(note));
        blocks.extend(new.map(|note| Block::Text(format!("{}: {note}.", variant.name))));
    }
    blocks.push(Block::Table(table(&all)));
    blocks.push(Block::HeatMap(heat(&all)));
    blocks.extend(quality(projection));
    let columns = POINTS.iter().map(|column| Column { weight: Weight::Machine, ..column.clone() });
    blocks.push(Block::Table(Table {
        name: "what_if_points".into(),
        title: "Points of each what-if".into(),
        columns: columns.collect(),
        rows: all[1..]
            .iter()
            .flat_map(|(name, demand, side)| points::rows(name, demand, side, By::BestKnown))
            .collect(),
    }));
    blocks
}

fn time(seconds: f64) -> Cell {
    Cell::Time(Seconds(seconds))
}

fn number(number: Option<f64>, unit: &'static str) -> Cell {
    number.map_or(Cell::Absent, |number| Cell::Number(number, unit))
}

/// What the point to run at rests on, with its hardware; none where there is no such point.
fn rests<'a>((_, demand, side): &Named<'a>) -> Option<(&'a Hardware, Rests)> {
    let point = side.operating_point(demand)?;
    Some((&side.offer.hardware, Rests::of_point(point, demand.scenario.output)))
}

/// The rate of a row relative to the first one's, and the tier of both.
fn relative(base: &Named<'_>, one: &Named<'_>) -> Option<(f64, By)> {
    let by = common([rests(base)?, rests(one)?])?;
    let of = |(_, demand, side): &Named<'_>| {
        let point = side.operating_point_by(demand, by)?;
        Some(rate(point, demand.scenario.output, by))
    };
    Some((of(one)? / of(base)?, by))
}

fn table(all: &[Named<'_>]) -> Table {
    let row = |(name, demand, side): &Named<'_>| {
        let output = demand.scenario.output;
        let on = Cell::Text(side.offer.hardware.name.clone());
        let Some(point) = side.operating_point(demand) else {
            let mut row = vec![Cell::Absent; COLUMNS.len()];
            (row[0], row[1]) = (Cell::Text((*name).into()), on);
            row[COLUMNS.len() - 1] = Cell::Text(why_none(side).into());
            return row;
        };
        let relative = all.first().and_then(|base| relative(base, &(name, demand, side)));
        vec![
            Cell::Text((*name).into()),
            on,
            Cell::Text(layout(point)),
            Cell::Count(point.devices() as u64),
            point.fit.sequences.map_or(Cell::Text("no".into()), Cell::Count),
            Cell::Count(u64::from(point.concurrency)),
            time(point.first_token.best_known()),
            time(point.token.best_known()),
            time(point.end_to_end(output).best_known()),
            Cell::Number(point.user_rate().best_known(), "tok/s"),
            Cell::Number(rate(point, output, By::BestKnown), "tok/s"),
            Cell::Text(Rests::of_point(point, output).brief()),
            relative.map_or(Cell::Absent, |(ratio, _)| Cell::Ratio(ratio)),
            relative.map_or(Cell::Absent, |(_, by)| {
                Cell::Text(if by == By::Serial { "L1" } else { "best known" }.into())
            }),
            number(side.cost(point, output, By::BestKnown), "$"),
            number(side.energy(point, output, By::BestKnown), "J"),
            point.draft.map_or(Cell::Absent, |draft| time(draft.best_known())),
            point.apart.map_or(Cell::Absent, |apart| time(apart.moved.time.best_known())),
            Cell::Absent,
        ]
    };
    let mut columns = COLUMNS.to_vec();
    let is_empty = |key: &str| match key {
        "dollars_per_million" => all.iter().all(|(_, _, side)| side.offer.price.is_none()),
        "draft_seconds" => all.iter().all(|(_, demand, _)| demand.serving.speculation.is_none()),
        "transfer_seconds" => all.iter().all(|(_, demand, _)| demand.serving.apart.is_none()),
        "why" => all.iter().all(|(_, demand, side)| side.operating_point(demand).is_some()),
        "on" => {
            all.iter().all(|(_, _, side)| side.offer.hardware.name == all[0].2.offer.hardware.name)
        }
        _ => false,
    };
    for column in columns.iter_mut().filter(|column| is_empty(column.key)) {
        column.weight = Weight::Machine;
    }
    let compared = all.iter().filter_map(|one| relative(&all[0], one));
    if compared.clone().any(|(_, by)| by == By::Serial) {
        let by = columns.iter_mut().filter(|column| column.key == "rate_relative_by");
        by.for_each(|column| column.weight = Weight::Essential);
    }
    Table::new("what_if", "What if, at the point to run at", columns, all.iter().map(row))
}

/// The layout, with that of the devices that only prefill.
fn layout(point: &Point) -> String {
    match point.apart {
        Some(apart) => format!("{}, prefill {}", point.layout, apart.layout),
        None => point.layout.to_string(),
    }
}

/// Time of one token by requests at once, each in its best layout that fits.
fn heat(all: &[Named<'_>]) -> HeatMap {
    let mut counts: Vec<u32> =
        all.iter().flat_map(|(_, demand, _)| demand.concurrency.clone()).collect();
    counts.sort_unstable();
    counts.dedup();
    let ranked = common(all.iter().filter_map(rests));
    let by = ranked.unwrap_or(By::BestKnown);
    let best = |(_, demand, side): &Named<'_>, requests: u32| {
        let of_one_tier = |one: &Point| match by {
            By::BestKnown => side.is_ranked(one),
            By::Serial => one.fits(),
        };
        let fitting = side.points.iter();
        let fitting = fitting.filter(|one| one.concurrency == requests && of_one_tier(one));
        let rates = fitting.map(|point| rate(point, demand.scenario.output, by));
        rates.max_by(f64::total_cmp)
    };
    let most = counts.iter().flat_map(|&count| all.iter().filter_map(move |one| best(one, count)));
    let most = most.fold(0.0, f64::max);
    let row = |one: &Named<'_>| HeatRow {
        label: one.0.into(),
        values: counts
            .iter()
            .map(|&count| match best(one, count) {
                Some(rate) => {
                    Heat { value: Cell::Number(rate, "tok/s"), share: ranked.map(|_| rate / most) }
                }
                None => Heat { value: Cell::Text("no room".into()), share: None },
            })
            .collect(),
    };
    HeatMap {
        name: "what_if_rates".into(),
        title: "Output tokens/s of a GPU by requests at once".into(),
        caption: match ranked {
            Some(By::BestKnown) => {
                "With prefill, by the best tier that is known, each in its best layout that fits. \
                 The shade is the share of the best of all."
            }
            Some(By::Serial) => {
                "With prefill, by L1, which all have, each in its best layout that fits: what is \
                 known beyond it rests on different things. The shade is the share of the best of \
                 all."
            }
            None => {
                "With prefill, by the best tier that is known of each, in its best layout that \
                 fits. Nothing is shaded: limits of different kinds are not compared."
            }
        }
        .into(),
        corner: "what if".into(),
        columns: counts.iter().map(u32::to_string).collect(),
        rows: all.iter().map(row).collect(),
    }
}

const QUALITY: &[Column] = &[
    Column { key: "precision", title: "weights", weight: Weight::Essential },
    Column { key: "accuracy", title: "quality (yours)", weight: Weight::Essential },
    Column { key: "weight_bytes", title: "bytes", weight: Weight::Useful },
    Column { key: "concurrency", title: "at once", weight: Weight::Useful },
    Column { key: "tpot_seconds", title: "TPOT", weight: Weight::Useful },
    Column { key: "gpu_output_tokens_per_second", title: "a GPU", weight: Weight::Essential },
    Column { key: "dollars_per_million", title: "$ / 10^6", weight: Weight::Essential },
    Column { key: "joules_per_token", title: "J / token", weight: Weight::Useful },
    Column { key: "basis", title: "by", weight: Weight::Essential },
    Column { key: "front", title: "front", weight: Weight::Essential },
];

/// Quality, cost and precision: which precision another one beats in both.
fn quality(projection: &Projection) -> Option<Block> {
    let rated: Vec<(&Variant, f64)> = projection
        .variants
        .iter()
        .filter_map(|variant| Some((variant, variant.accuracy?)))
        .collect();
    if rated.is_empty() {
        return None;
    }
    // One hardware: its limits are of one kind.
    let on =
        rated.iter().filter_map(|(one, _)| rests(&(one.name.as_str(), &one.demand, &one.side)));
    let by = common(on).unwrap_or(By::Serial);
    let at = |variant: &'_ Variant| {
        let point = variant.side.operating_point_by(&variant.demand, by)?;
        Some(rate(point, variant.demand.scenario.output, by))
    };
    let values: Vec<_> =
        rated.iter().map(|(one, figure)| (*figure, at(one).unwrap_or(0.0))).collect();
    let front = fizeau_projection::project::sweep::front(&values);
    let row = |((variant, figure), is_front): (&(&Variant, f64), bool)| {
        let Variant { demand, side, .. } = variant;
        let output = demand.scenario.output;
        let point = side.operating_point_by(demand, by);
        let of = |cell: &dyn Fn(&Point) -> Cell| point.map_or(Cell::Absent, cell);
        let word = match (point, is_front) {
            (None, _) => why_none(side),
            (_, true) => "not beaten",
            (_, false) => "beaten in both",
        };
        vec![
            Cell::Text(demand.model.precision.describe()),
            Cell::Number(*figure, ""),
            Cell::Size(Bytes(demand.model.weight_bytes() as u64)),
            of(&|point| Cell::Count(u64::from(point.concurrency))),
            of(&|point| time(point.token.by(by))),
            of(&|point| Cell::Number(rate(point, output, by), "tok/s")),
            of(&|point| number(side.cost(point, output, by), "$")),
            of(&|point| number(side.energy(point, output, by), "J")),
            of(&|point| {
                Cell::Text(match by {
                    By::BestKnown => Rests::of_point(point, output).brief(),
                    By::Serial => "L1".into(),
                })
            }),
            Cell::Text(word.into()),
        ]
    };
    let mut columns = QUALITY.to_vec();
    if rated.iter().all(|(variant, _)| variant.side.offer.price.is_none()) {
        columns[6].weight = Weight::Machine;
    }
    Some(Block::Table(Table {
        name: "quality".into(),
        title: "Quality, cost and precision; quality is your own figure, larger is better".into(),
        columns,
        rows: rated.iter().zip(front).map(row).collect(),
    }))
}
