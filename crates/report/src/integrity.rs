//! What comparisons of bits found: silent corruption, or the rate below which it would not have
//! shown.

use super::{Cell, Column, Table, Weight};
use fizeau_domain::outcome::{Integrity, Outcome};
use fizeau_record::Record;

const COLUMNS: &[Column] = &[
    Column { key: "case", title: "case", weight: Weight::Essential },
    Column { key: "compared", title: "compared", weight: Weight::Essential },
    Column { key: "unit", title: "of", weight: Weight::Essential },
    Column { key: "mismatches", title: "differ", weight: Weight::Essential },
    Column { key: "rate_seen", title: "clean to p <", weight: Weight::Essential },
    Column { key: "hash", title: "hash", weight: Weight::Useful },
    Column { key: "found", title: "found", weight: Weight::Useful },
];

/// What was found of a case, whether it failed or not.
fn found(outcome: &Outcome) -> Option<&Integrity> {
    match outcome {
        Outcome::Measured(one) => one.integrity.as_deref(),
        Outcome::Failed { integrity, .. } => integrity.as_deref(),
        Outcome::Skipped { .. } | Outcome::Invalid { .. } => None,
    }
}

/// One row for each case whose bits were compared.
pub fn table(record: &Record) -> Option<Table> {
    let row = |outcome: &Outcome| {
        let found = found(outcome)?;
        let is_clean = found.mismatches == 0 && matches!(outcome, Outcome::Measured(_));
        let rate = format!("{:.1e}", found.rate_seen);
        Some(vec![
            Cell::Code(outcome.case().to_string()),
            Cell::Count(found.compared),
            Cell::Text(format!("{}s", found.unit)),
            Cell::Count(found.mismatches),
            if is_clean { Cell::Text(rate) } else { Cell::Absent },
            found.hash.clone().map_or(Cell::Absent, Cell::Code),
            Cell::Text(found.words()),
        ])
    };
    let rows: Vec<_> = record.outcomes.iter().filter_map(row).collect();
    let title = "What was compared bit by bit, and what differed";
    Table::unless_empty("silent_corruption", title, COLUMNS, rows)
}

/// A sentence for each kind of thing that was compared and never differed.
pub fn sentences(record: &Record) -> Vec<String> {
    let all: Vec<&Integrity> = record.outcomes.iter().filter_map(found).collect();
    let sentence = |unit: &str| {
        let its: Vec<&&Integrity> = all.iter().filter(|found| found.unit == unit).collect();
        let least = its.iter().min_by_key(|found| found.compared)?;
        let is_clean = its.iter().all(|found| found.mismatches == 0);
        let cases = if its.len() == 1 { "case" } else { "cases, at least" };
        is_clean.then(|| {
            let (count, words) = (its.len(), least.words());
            format!("Silent corruption of {unit}s, {count} {cases}: {words}.")
        })
    };
    ["product", "word", "copy", "all_reduce"].into_iter().filter_map(sentence).collect()
}
