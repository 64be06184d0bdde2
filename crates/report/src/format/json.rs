//! JSON for machines: a document's numbers in SI units, with all digits.
//!
//! ```json
//! {
//!   "fizeau_report": 1,
//!   "run": { "id": "...", "suite": "...", "started": "...", "device": "...", "stub": false, ... },
//!   "counts": { "planned": 168, "measured": 168, "skipped": 0, "failed": 0, ... },
//!   "verdict": "complete",
//!   "title": "...", "subtitle": "...",
//!   "text": ["..."], "warnings": ["..."], "notes": ["..."],
//!   "facts": {
//!     "<key>": {
//!       "label": "...", "value": 4.1e10, "unit": "B/s", "share": 0.8, "of": "...",
//!       "limit": 5.1e10, "tier": "datasheet", "reasons": [], "case": "..."
//!     }
//!   },
//!   "tables": { "cases": [ { "case": "...", "median_seconds": 1e-3, ... } ], ... },
//!   "heat_maps": {
//!     "gemm": [ { "row": "...", "column": "...", "value": 1e11, "unit": "FLOP/s", "share": 0.9 } ]
//!   },
//!   "charts": {
//!     "bandwidth": {
//!       "title": "...", "x": "...", "y": "...",
//!       "series": [ { "name": "...", "points": [[x, y], ...] } ],
//!       "marks": [ { "at": 49152, "label": "..." } ]
//!     }
//!   },
//!   "listings": { "claim": "..." }
//! }
//! ```
//!
//! The `verdict` of a run is `complete` where each planned case was measured or skipped with its
//! reason, `failed` where one failed or was invalid, else `incomplete`: it says nothing of speed.
//! That of a comparison is `pass`, `fail`, `inconclusive` or `waived`. A comparison has `runs` in
//! the place of `run`, each with its `role`, `A` or `B`, and counts cases by their results
//! (`slower`, `same`, ...).
//!
//! `of` says in words what `limit` (in the unit of `value`), `tier` (whose limit it is) and
//! `reasons` (why a share is low) have as fields.
//!
//! `warnings` may spoil numbers, and `notes` explain them.
//!
//! `listings` are texts to be copied as they stand, and absent where there are none.
//!
//! A key ends in its unit; a column of mixed quantities is an object of `value` and `unit`. A
//! number of a stub driver is an object of `value` and `"stub": true`. What is not known is null.
//! Strings are as they stand in the record; characters that cannot be seen, or that act on a
//! terminal, are written as `\uXXXX`.

use super::{cell, csv::is_mixed};
use crate::{
    About, Block, Cell, Chart, Document, HeatMap, Table,
    about::{RunAbout, RunDetails},
};
use fizeau_domain::text::escaped;
use serde_json::{Map, Value, json};

/// The version of this shape, under the key `fizeau_report`.
pub const VERSION: u32 = 1;

/// Renders a document, indented, with what a program asks of it first.
pub fn render(document: &Document, about: &About) -> String {
    let mut text = Vec::new();
    let mut warnings = Vec::new();
    let mut notes = Vec::new();
    let [mut facts, mut tables, mut heat_maps, mut charts, mut listings] =
        std::array::from_fn(|_| Map::new());
    for block in &document.blocks {
        match block {
            Block::Heading(_) => {}
            Block::Text(paragraph) => text.push(paragraph.as_str()),
            Block::Warning(warning) | Block::Failure(warning) => warnings.push(warning.as_str()),
            Block::Note(note) => notes.push(note.as_str()),
            Block::Facts(list) => facts.extend(list.iter().map(|fact| {
                let mut value = quantity(&fact.value);
                value["label"] = json!(fact.label);
                value["share"] = json!(fact.share);
                value["of"] = json!(fact.of);
                let limit = fact.limit.value.as_ref();
                value["limit"] = limit.map_or(Value::Null, cell::value);
                value["tier"] = json!(fact.limit.tier);
                value["reasons"] = json!(fact.limit.reasons);
                value["case"] = json!(fact.case);
                (fact.key.clone(), value)
            })),
            Block::Table(table) => {
                tables.insert(table.name.clone(), rows(table));
            }
            Block::HeatMap(map) => {
                heat_maps.insert(map.name.clone(), heats(map));
            }
            Block::Chart(chart) => {
                charts.insert(chart.name.clone(), curves(chart));
            }
            Block::Listing(listing) => {
                listings.insert(listing.name.clone(), json!(listing.text));
            }
        }
    }
    let mut whole = json!({
        "fizeau_report": VERSION,
        "title": document.title,
        "subtitle": document.subtitle,
        "text": text,
        "warnings": warnings,
        "notes": notes,
        "facts": facts,
        "tables": tables,
        "heat_maps": heat_maps,
        "charts": charts,
    });
    if !listings.is_empty() {
        whole["listings"] = Value::Object(listings);
    }
    if let Some(verdict) = about.verdict {
        whole["verdict"] = json!(verdict);
        let counts = about.counts.iter().map(|(name, count)| (name.clone(), json!(count)));
        whole["counts"] = counts.collect();
    }
    match about.runs.as_slice() {
        [] => {}
        [one] if one.role.is_none() => whole["run"] = run(one),
        several => whole["runs"] = several.iter().map(run).collect(),
    }
    escaped(format!("{whole:#}\n"))
}

fn run(about: &RunAbout) -> Value {
    let RunAbout { role, id, suite, started, fizeau, device, details } = about;
    let mut run = json!({
        "id": id, "suite": suite, "started": started, "fizeau": fizeau, "device": device,
    });
    if let Some(role) = role {
        run["role"] = json!(role);
    }
    if let Some(details) = details {
        let RunDetails { elapsed_seconds, build, label, host, part, is_stub } = details;
        run["elapsed_seconds"] = json!(elapsed_seconds);
        run["build"] = json!(build);
        run["label"] = json!(label);
        run["host"] = json!(host);
        run["part"] = json!(part);
        run["stub"] = json!(is_stub);
    }
    run
}

fn quantity(cell: &Cell) -> Value {
    let mut value = json!({ "value": cell::value(cell), "unit": cell::unit(cell) });
    if cell::is_stub(cell) {
        value["stub"] = json!(true);
    }
    value
}

fn rows(table: &Table) -> Value {
    let mixed: Vec<_> = (0..table.columns.len()).map(|at| is_mixed(table, at)).collect();
    let row = |row: &Vec<Cell>| {
        let pairs = table.columns.iter().zip(row).zip(&mixed).map(|((column, cell), mixed)| {
            let is_object = *mixed || cell::is_stub(cell);
            let value = if is_object { quantity(cell) } else { cell::value(cell) };
            (column.key.to_owned(), value)
        });
        Value::Object(pairs.collect())
    };
    table.rows.iter().map(row).collect()
}

fn heats(map: &HeatMap) -> Value {
    let heats = map.rows.iter().flat_map(|row| {
        row.values.iter().zip(&map.columns).map(|(heat, column)| {
            let mut value = quantity(&heat.value);
            value["row"] = json!(row.label);
            value["column"] = json!(column);
            value["share"] = json!(heat.share);
            value
        })
    });
    heats.collect()
}

fn curves(chart: &Chart) -> Value {
    let series: Vec<_> = chart
        .series
        .iter()
        .map(|series| json!({ "name": series.name, "points": series.points }))
        .collect();
    let marks: Vec<_> =
        chart.marks.iter().map(|mark| json!({ "at": mark.at, "label": mark.label })).collect();
    json!({
        "title": chart.title,
        "x": chart.x.title,
        "y": chart.y.title,
        "series": series,
        "marks": marks,
    })
}
