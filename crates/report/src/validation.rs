//! The report of measurements beside the three tiers.

use super::{Block, Cell, Column, Document, Table, Weight};
use fizeau_domain::text::counted;
use fizeau_projection::validate::{Beside, Class, Validation};

/// Measurements below L2 that are named, at most.
const FARTHEST: usize = 10;

const TIERS: [&str; 3] = ["L0", "L1", "L2"];

const SPREADS: &[Column] = &[
    Column { key: "measurements", title: "measurements", weight: Weight::Essential },
    Column { key: "tier", title: "of", weight: Weight::Essential },
    Column { key: "count", title: "count", weight: Weight::Essential },
    Column { key: "least", title: "least", weight: Weight::Useful },
    Column { key: "quarter", title: "a quarter below", weight: Weight::Useful },
    Column { key: "median", title: "median", weight: Weight::Essential },
    Column { key: "three_quarters", title: "three quarters below", weight: Weight::Useful },
    Column { key: "most", title: "most", weight: Weight::Essential },
];

const POINTS: &[Column] = &[
    Column { key: "id", title: "measurement", weight: Weight::Essential },
    Column { key: "model", title: "model", weight: Weight::Essential },
    Column { key: "part", title: "on", weight: Weight::Essential },
    Column { key: "layout", title: "layout", weight: Weight::Essential },
    Column { key: "precision", title: "precision", weight: Weight::Useful },
    Column { key: "isl", title: "in", weight: Weight::Useful },
    Column { key: "osl", title: "out", weight: Weight::Useful },
    Column { key: "concurrency", title: "at once", weight: Weight::Essential },
    Column { key: "value", title: "measured", weight: Weight::Essential },
    Column { key: "unit", title: "unit", weight: Weight::Essential },
    Column { key: "of_light", title: "of L0", weight: Weight::Essential },
    Column { key: "of_serial", title: "of L1", weight: Weight::Useful },
    Column { key: "of_measured", title: "of L2", weight: Weight::Essential },
    Column { key: "unknown", title: "why L2 is not known", weight: Weight::Machine },
    Column { key: "source", title: "source", weight: Weight::Machine },
];

/// Measurements beside the tiers: how near they come by class, those above a tier, those farthest
/// below L2, and all.
pub fn document(validation: &Validation) -> Document {
    let above: Vec<_> = validation.above_bound().collect();
    let faster: Vec<_> = validation.above_measured().collect();
    let mut blocks = Vec::new();
    if !above.is_empty() {
        blocks.push(Block::Warning(format!(
            "{} above L0: the measurement, the datasheet or the model of this program is wrong, or \
             a condition is not what the list says",
            counted(above.len(), "measurement")
        )));
        blocks.push(Block::Table(table("above_l0", "Above L0", above.iter().copied())));
    }
    blocks.push(Block::Table(spreads(validation)));
    if !faster.is_empty() {
        let title = "Above L2: faster than measured or published kernels are";
        blocks.push(Block::Table(table("above_l2", title, faster.iter().copied())));
    }
    let farthest = validation.farthest(FARTHEST);
    if !farthest.is_empty() {
        let title = "Farthest below L2";
        blocks.push(Block::Table(table("farthest", title, farthest.iter().copied())));
    }
    let all = table("measurements", "All measurements", validation.points.iter());
    blocks.push(Block::Table(all));
    Document {
        title: format!(
            "{} beside L0, L1 and L2: {} above L0, {} above L2",
            counted(validation.points.len(), "measurement"),
            above.len(),
            faster.len()
        ),
        subtitle:
            "Shares are the measured rate over the tier's: 1 is as fast as the tier. Nothing \
                   is above L0 in truth."
                .into(),
        blocks,
    }
}

fn spreads(validation: &Validation) -> Table {
    let classes = [None].into_iter().chain(Class::ALL.map(Some));
    let tiers = |class: Option<Class>| (0..TIERS.len()).map(move |tier| (class, tier));
    let rows = classes.flat_map(tiers).map(|(class, tier)| {
        let spread = validation.spread(class, tier);
        let mut row = vec![
            Cell::Text(class.map_or("all".into(), Class::name)),
            Cell::Text(TIERS[tier].into()),
            Cell::Count(spread.count as u64),
        ];
        row.extend(match spread.quantiles {
            Some(quantiles) => quantiles.map(Cell::Share),
            None => [const { Cell::Absent }; 5],
        });
        row
    });
    Table::new("ratios", "Measured / tier", SPREADS, rows)
}

fn table<'a>(name: &str, title: &str, points: impl Iterator<Item = &'a Beside>) -> Table {
    let count = |number: Option<u32>| number.map_or(Cell::Absent, |n| Cell::Count(u64::from(n)));
    let share = |share: Option<f64>| share.map_or(Cell::Absent, Cell::Share);
    let row = |point: &Beside| {
        let entry = &point.entry;
        let [light, serial, measured] = point.shares.map(share);
        vec![
            Cell::Text(entry.id.clone()),
            Cell::Text(entry.model.clone()),
            Cell::Text(entry.part.clone()),
            Cell::Text(entry.layout.to_string()),
            Cell::Text(entry.precision.clone().unwrap_or_else(|| "as published".into())),
            count(entry.input.or(entry.context)),
            count(entry.output),
            Cell::Count(u64::from(point.concurrency)),
            Cell::Number(entry.value, ""),
            Cell::Text(entry.unit.name().into()),
            light,
            serial,
            measured,
            point.unknown.clone().map_or(Cell::Absent, Cell::Text),
            Cell::Text(entry.source.clone()),
        ]
    };
    Table::new(name.to_owned(), title.to_owned(), POINTS, points.map(row))
}
