//! What could be otherwise, side by side, and quality beside cost.

use super::{
    points::{self, POINTS},
    rate, why_none,
};
use crate::{
    project::{Demand, Point, Projection, Side, Variant},
    report::{Block, Cell, Column, Heat, HeatMap, HeatRow, Table, Weight},
    units::{Bytes, Seconds},
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
    Column { key: "rate_relative", title: "to as asked", weight: Weight::Essential },
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
         count all GPUs, and prefill.",
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
            .flat_map(|(name, demand, side)| points::rows(name, demand, side))
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

fn table(all: &[Named<'_>]) -> Table {
    let of_base = all.first().and_then(|(_, demand, side)| {
        let point = side.operating_point(demand)?;
        Some(rate(point, demand.scenario.output))
    });
    let row = |(name, demand, side): &Named<'_>| {
        let output = demand.scenario.output;
        let on = Cell::Text(side.offer.hardware.name.clone());
        let Some(point) = side.operating_point(demand) else {
            let mut row = vec![Cell::Absent; COLUMNS.len()];
            (row[0], row[1]) = (Cell::Text((*name).into()), on);
            row[COLUMNS.len() - 1] = Cell::Text(why_none(side).into());
            return row;
        };
        let rate = rate(point, output);
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
            Cell::Number(rate, "tok/s"),
            of_base.map_or(Cell::Absent, |base| Cell::Ratio(rate / base)),
            number(side.cost(point, output), "$"),
            number(side.energy(point, output), "J"),
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
    Table {
        name: "what_if".into(),
        title: "What if, at the point to run at".into(),
        columns,
        rows: all.iter().map(row).collect(),
    }
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
    let best = |(_, demand, side): &Named<'_>, requests: u32| {
        let fitting = side.points.iter().filter(|one| one.concurrency == requests && one.fits());
        let rates = fitting.map(|point| rate(point, demand.scenario.output));
        rates.max_by(f64::total_cmp)
    };
    let most = counts.iter().flat_map(|&count| all.iter().filter_map(move |one| best(one, count)));
    let most = most.fold(0.0, f64::max);
    let row = |one: &Named<'_>| HeatRow {
        label: one.0.into(),
        values: counts
            .iter()
            .map(|&count| match best(one, count) {
                Some(rate) => Heat { value: Cell::Number(rate, "tok/s"), share: Some(rate / most) },
                None => Heat { value: Cell::Text("no room".into()), share: None },
            })
            .collect(),
    };
    HeatMap {
        name: "what_if_rates".into(),
        title: "Output tokens/s of a GPU by requests at once".into(),
        caption:
            "With prefill, by the best tier that is known, each in its best layout that fits. \
                  The shade is the share of the best of all."
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
    let at = |variant: &'_ Variant| {
        let point = variant.side.operating_point(&variant.demand)?;
        Some(rate(point, variant.demand.scenario.output))
    };
    let values: Vec<_> =
        rated.iter().map(|(one, figure)| (*figure, at(one).unwrap_or(0.0))).collect();
    let front = crate::project::sweep::front(&values);
    let row = |((variant, figure), is_front): (&(&Variant, f64), bool)| {
        let Variant { demand, side, .. } = variant;
        let output = demand.scenario.output;
        let point = side.operating_point(demand);
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
            of(&|point| time(point.token.best_known())),
            of(&|point| Cell::Number(rate(point, output), "tok/s")),
            of(&|point| number(side.cost(point, output), "$")),
            of(&|point| number(side.energy(point, output), "J")),
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
