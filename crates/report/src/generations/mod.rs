//! Generations beside each other: the share of its own part's limit that each operation and each
//! kernel reaches, how the limits moved, what limits now, and what to tune again first.

mod limits;
mod rows;

use super::{
    Block, Cell, Column, Document, Heat, HeatMap, HeatRow, Table, Weight, about::Counts,
    case_table::tier_name, ceiling::Ceilings, chart::measurements,
};
use fizeau_domain::{
    spec::{Part, STUB},
    text::counted,
};
use fizeau_record::Record;
use limits::{Limit, Limits, bandwidth, cell, per_byte, throughput};
use rows::{LOST_MIN, Loss, Row, Standing, bound, judged, losses};
use std::collections::BTreeMap;

/// Rows to tune again that the text names; the table has all.
const NAMED_MAX: usize = 3;

/// One generation: a record, or a part of the catalogue alone.
#[derive(Clone, Debug)]
pub struct Side<'r> {
    /// What it is called in the report; no two are alike.
    pub name: String,
    /// What was measured on it.
    pub record: Option<&'r Record>,
    /// Its part, where the catalogue names it.
    pub part: Option<&'r Part>,
    /// Where it comes from, for the reader: a path, or the catalogue.
    pub origin: String,
}

impl Side<'_> {
    /// Its name, marked where it is a stub.
    fn marked(&self) -> String {
        match self.is_stub() {
            true => format!("{} ({STUB})", self.name),
            false => self.name.clone(),
        }
    }

    fn is_stub(&self) -> bool {
        self.record.is_some_and(|record| record.header.device.is_stub())
    }
}

/// The report of generations, the oldest first. The last one with a record is judged.
///
/// # Panics
/// Where there is no side.
pub fn document(sides: &[Side<'_>]) -> Document {
    let limits: Vec<Limits> = sides.iter().map(Limits::of).collect();
    let operations = rows::operations(sides);
    let kernels = rows::kernels(sides);
    let judged = judged(sides);
    let lost = judged.map(|judged| losses(&operations, judged)).unwrap_or_default();
    let mut blocks: Vec<Block> = verdict(sides, &operations, &lost).map(Block::Text).collect();
    blocks.extend(stubs(sides).map(Block::Warning));
    blocks.extend(without_record(sides).map(Block::Note));
    blocks.extend(sides.iter().filter_map(counts).map(Block::Note));
    let [rates, ratios, balance] = limits::maps(sides, &limits).map(Block::HeatMap);
    let shares = [
        shares(sides, "operation_shares", "Operations, the best kernel of each", &operations),
        shares(sides, "kernel_shares", "The same kernel on each", &kernels),
    ];
    let shares = shares.into_iter().flatten().map(Block::HeatMap).collect();
    let one = |table: Option<Table>| table.map(Block::Table).into_iter().collect::<Vec<_>>();
    let mut first = one(retune(sides, &lost));
    if let (Some(judged), false) = (judged, first.is_empty()) {
        first.insert(0, Block::Text(rule(&sides[judged])));
    }
    let sections: [(&str, Vec<Block>); 7] = [
        ("Shares of limits", shares),
        ("To tune again first", first),
        ("What limits now", one(judged.and_then(|now| bounds(sides, &operations, now)))),
        ("Limits and balance", vec![rates, ratios, balance]),
        ("Not on all", one(apart(sides, &operations))),
        ("Every row", one(every_row(sides, &kernels))),
        ("Where this comes from", one(Some(origins(sides)))),
    ];
    for (title, section) in sections {
        if !section.is_empty() {
            blocks.push(Block::Heading(title.into()));
            blocks.extend(section);
        }
    }
    let names: Vec<String> = sides.iter().map(Side::marked).collect();
    Document {
        title: format!("{}: {}", counted(sides.len(), "generation"), names.join(", ")),
        subtitle: "Each share is of that generation's own limit.".into(),
        blocks,
    }
}

/// A share in words; a stub's is marked.
fn percent(share: f64, is_stub: bool) -> String {
    let mark = if is_stub { format!(" ({STUB})") } else { String::new() };
    format!("{:.0} %{mark}", share * 100.0)
}

fn share_cell(share: f64, is_stub: bool) -> Cell {
    if is_stub { Cell::StubShare(share) } else { Cell::Share(share) }
}

/// The first sentences: what was lost, and what to do first.
fn verdict(
    sides: &[Side<'_>],
    operations: &[Row<'_>],
    lost: &[Loss<'_, '_>],
) -> impl Iterator<Item = String> {
    let mut sentences = Vec::new();
    let Some(now) = judged(sides) else {
        sentences.push(
            "No record of any of these: limits of the catalogue and their balance alone. A record \
             (fizeau run) adds the shares of them that kernels reach."
                .to_owned(),
        );
        return sentences.into_iter();
    };
    let name = sides[now].marked();
    let is_shared = |row: &&Row<'_>| row.standings[now].is_some() && row.count() > 1;
    let records = sides.iter().filter(|side| side.record.is_some()).count();
    match (operations.iter().filter(is_shared).count(), records) {
        (_, 1) => sentences.push(format!(
            "{name} is the only one with a record: its shares have nothing to stand beside, and \
             of the others there are limits alone."
        )),
        (0, _) => sentences.push(format!(
            "No operation has a share of a limit both on {name} and on another generation: run \
             the same suite on each."
        )),
        (shared, _) => {
            sentences.push(format!(
                "{name} comes less near to its limit than another generation in {} of {} that both \
                 have, by more than {:.0} % of the limit.",
                lost.len(),
                counted(shared, "operation"),
                LOST_MIN * 100.0
            ));
        }
    }
    let first = lost.iter().take(NAMED_MAX).map(|loss| {
        let (before, is_stub) = (&sides[loss.before], sides[now].is_stub());
        format!(
            "{}: {} on {}, {} on {name}",
            loss.row.name,
            percent(loss.share_before, before.is_stub()),
            before.marked(),
            percent(loss.now.share, is_stub),
        )
    });
    let first: Vec<String> = first.collect();
    if !first.is_empty() {
        sentences.push(format!("To tune again first: {}.", first.join("; ")));
    }
    sentences.into_iter()
}

fn stubs(sides: &[Side<'_>]) -> Option<String> {
    let names: Vec<String> = sides.iter().filter(|side| side.is_stub()).map(Side::marked).collect();
    (!names.is_empty()).then(|| {
        format!(
            "{}: a stub driver for tests. Nothing was measured there; each share and ratio that \
             rests on it is marked ({STUB}), and no other number of it is shown.",
            names.join(", ")
        )
    })
}

fn without_record(sides: &[Side<'_>]) -> Option<String> {
    let names: Vec<&str> =
        sides.iter().filter(|side| side.record.is_none()).map(|side| side.name.as_str()).collect();
    let some = sides.iter().any(|side| side.record.is_some());
    (some && !names.is_empty()).then(|| {
        format!("{}: no record, so that only limits of the catalogue are known.", names.join(", "))
    })
}

/// What became of the cases of a side: none is left out without a word.
fn counts(side: &Side<'_>) -> Option<String> {
    let record = side.record?;
    let ceilings = Ceilings::of(record);
    let planned = Counts::of(record).planned;
    let measured: Vec<_> = measurements(record).collect();
    let foreign = measured.iter().filter(|one| ceilings.foreign(one).is_some()).count();
    let shared = measured
        .iter()
        .filter(|one| ceilings.foreign(one).is_none() && one.utilisation().is_some())
        .count();
    let mut without: BTreeMap<&str, usize> = BTreeMap::new();
    for one in measured.iter().filter(|one| one.utilisation().is_none()) {
        *without.entry(one.case.point.operation()).or_default() += 1;
    }
    let kinds: Vec<String> = without.iter().map(|(of, count)| format!("{of} {count}")).collect();
    let number = |count: usize| match side.is_stub() {
        true => STUB.to_owned(),
        false => count.to_string(),
    };
    let mut parts = vec![format!("{} with a share of a limit", number(shared))];
    let unlimited = measured.len() - shared - foreign;
    if unlimited > 0 && side.is_stub() {
        let kinds: Vec<&str> = without.keys().copied().collect();
        parts.push(format!("{STUB} without a limit ({})", kinds.join(", ")));
    } else if unlimited > 0 {
        parts.push(format!("{unlimited} without a limit ({})", kinds.join(", ")));
    }
    if foreign > 0 {
        parts.push(format!(
            "{} of portable kernels, which are not made for its architecture",
            number(foreign)
        ));
    }
    if planned > measured.len() {
        let rest = number(planned - measured.len());
        parts.push(format!("{rest} without a result (its own report names them)"));
    }
    let cases = match side.is_stub() {
        true => format!("{STUB} cases"),
        false => counted(planned, "case"),
    };
    Some(format!("{}: {cases}, {}.", side.marked(), parts.join(", ")))
}

/// A map of shares: a row for each operation that at least two sides have, or the only record.
fn shares(sides: &[Side<'_>], name: &str, title: &str, rows: &[Row<'_>]) -> Option<HeatMap> {
    let records = sides.iter().filter(|side| side.record.is_some()).count();
    let value = |(standing, side): (&Option<Standing<'_>>, &Side<'_>)| match standing {
        Some(of) => {
            let share = Some(of.share).filter(|_| !side.is_stub());
            Heat { value: share_cell(of.share, side.is_stub()), share }
        }
        None => Heat { value: Cell::Absent, share: None },
    };
    let rows: Vec<HeatRow> = rows
        .iter()
        .filter(|row| row.count() >= records.min(2))
        .map(|row| HeatRow {
            label: row.name.clone(),
            values: row.standings.iter().zip(sides).map(value).collect(),
        })
        .collect();
    (!rows.is_empty()).then(|| HeatMap {
        name: name.into(),
        title: title.into(),
        caption: "Time at the limit over the median time. The shade is the share.".into(),
        corner: "operation".into(),
        columns: sides.iter().map(|side| side.name.clone()).collect(),
        rows,
    })
}

/// The rule, in words.
fn rule(now: &Side<'_>) -> String {
    format!(
        "In this order: the time that one iteration on {} would save if it reached the largest \
         share that another generation reaches of its limit, t (1 - s / s'). Listed is what lost \
         more than {:.0} % of the limit. Each operation counts once; how often yours runs, this \
         report does not know.",
        now.marked(),
        LOST_MIN * 100.0
    )
}

const RETUNE: &[Column] = &[
    Column { key: "operation", title: "operation", weight: Weight::Essential },
    Column { key: "share", title: "share now", weight: Weight::Essential },
    Column { key: "share_before", title: "before", weight: Weight::Essential },
    Column { key: "before", title: "on", weight: Weight::Useful },
    Column { key: "lost_share", title: "of all lost", weight: Weight::Essential },
    Column { key: "lost_seconds", title: "lost", weight: Weight::Useful },
    Column { key: "kernel", title: "kernel now", weight: Weight::Useful },
    Column { key: "median_seconds", title: "time", weight: Weight::Detail },
];

fn retune(sides: &[Side<'_>], lost: &[Loss<'_, '_>]) -> Option<Table> {
    let now = &sides[judged(sides)?];
    let all: f64 = lost.iter().map(|loss| loss.time.0).sum();
    let time = |seconds| match now.is_stub() {
        true => Cell::Text(STUB.into()),
        false => Cell::Time(seconds),
    };
    let row = |loss: &Loss<'_, '_>| {
        let before = &sides[loss.before];
        vec![
            Cell::Code(loss.row.name.clone()),
            share_cell(loss.now.share, now.is_stub()),
            share_cell(loss.share_before, before.is_stub()),
            Cell::Text(before.marked()),
            share_cell(loss.time.0 / all, now.is_stub() || before.is_stub()),
            // It rests on the share of the other side too.
            match before.is_stub() {
                true => Cell::Text(STUB.into()),
                false => time(loss.time),
            },
            Cell::Code(loss.now.one.case.kernel.0.clone()),
            time(loss.now.one.summary.median),
        ]
    };
    let title = format!("Operations that come less near to the limit on {}", now.marked());
    Table::unless_empty("tune_again", title, RETUNE, lost.iter().map(row))
}

const BOUNDS: &[Column] = &[
    Column { key: "operation", title: "operation", weight: Weight::Essential },
    Column { key: "bound_now", title: "is bound by", weight: Weight::Essential },
    Column { key: "bound_before", title: "was bound by", weight: Weight::Essential },
    Column { key: "before", title: "on", weight: Weight::Essential },
    Column { key: "basis", title: "according to", weight: Weight::Useful },
];

/// Where another resource limits on the judged side than on another one.
fn bounds(sides: &[Side<'_>], operations: &[Row<'_>], now: usize) -> Option<Table> {
    let mut rows = Vec::new();
    for row in operations {
        let Some(bound_now) = bound(row, &sides[now], now) else { continue };
        for (at, side) in sides.iter().enumerate().filter(|(at, _)| *at != now) {
            let Some(before) = bound(row, side, at).filter(|before| *before != bound_now) else {
                continue;
            };
            let basis = if side.record.is_some() { "both records" } else { "its datasheet" };
            rows.push(vec![
                Cell::Code(row.name.clone()),
                Cell::Text(bound_now.to_string()),
                Cell::Text(before.to_string()),
                Cell::Text(side.marked()),
                Cell::Text(basis.into()),
            ]);
        }
    }
    let title = format!("Operations that another resource limits on {}", sides[now].marked());
    Table::unless_empty("bounds", title, BOUNDS, rows)
}

const APART: &[Column] = &[
    Column { key: "operation", title: "operation", weight: Weight::Essential },
    Column { key: "on", title: "has a share on", weight: Weight::Essential },
    Column { key: "not_on", title: "and not on", weight: Weight::Useful },
];

/// Operations that not every record has a share of.
fn apart(sides: &[Side<'_>], operations: &[Row<'_>]) -> Option<Table> {
    let names = |row: &Row<'_>, has: bool| {
        let sides = sides.iter().zip(&row.standings);
        let found = sides.filter(|(side, one)| side.record.is_some() && one.is_some() == has);
        found.map(|(side, _)| side.marked()).collect::<Vec<_>>().join(", ")
    };
    let rows: Vec<Vec<Cell>> = operations
        .iter()
        .filter(|row| !names(row, false).is_empty())
        .map(|row| {
            vec![
                Cell::Code(row.name.clone()),
                Cell::Text(names(row, true)),
                Cell::Text(names(row, false)),
            ]
        })
        .collect();
    let title =
        format!("{} that not every record has a share of", counted(rows.len(), "operation"));
    Table::unless_empty("not_on_all", title, APART, rows)
}

const ROWS: &[Column] = &[
    Column { key: "row", title: "row", weight: Weight::Essential },
    Column { key: "generation", title: "generation", weight: Weight::Essential },
    Column { key: "share", title: "share", weight: Weight::Essential },
    Column { key: "tier", title: "limit of", weight: Weight::Useful },
    Column { key: "bound", title: "bound by", weight: Weight::Useful },
    Column { key: "median_seconds", title: "median", weight: Weight::Useful },
    Column { key: "case", title: "case", weight: Weight::Detail },
];

/// Each kernel of each operation on each side that has it.
fn every_row(sides: &[Side<'_>], kernels: &[Row<'_>]) -> Option<Table> {
    let cells = |row: &Row<'_>, side: &Side<'_>, of: &Standing<'_>| {
        vec![
            Cell::Code(row.name.clone()),
            Cell::Text(side.marked()),
            share_cell(of.share, side.is_stub()),
            Cell::Text(tier_name(of.tier).into()),
            Cell::Text(of.bound.to_string()),
            match side.is_stub() {
                true => Cell::Text(STUB.into()),
                false => Cell::Time(of.one.summary.median),
            },
            Cell::Code(of.one.case.to_string()),
        ]
    };
    let mut rows = Vec::new();
    for row in kernels {
        let standings = sides.iter().zip(&row.standings);
        rows.extend(standings.filter_map(|(side, of)| Some(cells(row, side, of.as_ref()?))));
    }
    Table::unless_empty("generation_rows", "Every kernel on every generation", ROWS, rows)
}

/// Every number of the report in one table, for CSV: a line for each kernel and for each limit on
/// each side.
pub fn table(sides: &[Side<'_>]) -> Table {
    let limit_columns = [
        Column { key: "limit", title: "limit", weight: Weight::Essential },
        Column { key: "flops_per_byte", title: "balance", weight: Weight::Essential },
    ];
    let kernels = every_row(sides, &rows::kernels(sides));
    let mut rows = kernels.map(|table| table.rows).unwrap_or_default();
    rows.iter_mut().for_each(|row| row.extend([Cell::Absent, Cell::Absent]));
    let limits: Vec<Limits> = sides.iter().map(Limits::of).collect();
    for (side, own) in sides.iter().zip(&limits) {
        let mut push = |of: String, limit: Limit, rate, balance| {
            let tier = Cell::Text(tier_name(limit.tier).into());
            let mut row = vec![Cell::Absent; ROWS.len() + 2];
            row[0] = Cell::Code(format!("limit/{of}"));
            row[1] = Cell::Text(side.marked());
            row[3] = tier;
            row[ROWS.len()] = rate;
            row[ROWS.len() + 1] = balance;
            rows.push(row);
        };
        if let Some(limit) = own.memory {
            push("memory".into(), limit, cell(Some(limit), bandwidth), Cell::Absent);
        }
        for dtype in limits::dtypes(&limits) {
            let Some(limit) = own.arithmetic.get(&dtype).copied() else { continue };
            let balance = cell(own.balance(dtype), per_byte);
            push(dtype.to_string(), limit, cell(Some(limit), throughput), balance);
        }
    }
    let columns: Vec<Column> = ROWS.iter().chain(&limit_columns).cloned().collect();
    Table::new("every_number", "Every number", columns, rows)
}

const ORIGINS: &[Column] = &[
    Column { key: "generation", title: "generation", weight: Weight::Essential },
    Column { key: "device", title: "device", weight: Weight::Essential },
    Column { key: "part", title: "part", weight: Weight::Useful },
    Column { key: "origin", title: "from", weight: Weight::Essential },
    Column { key: "suite", title: "suite", weight: Weight::Useful },
    Column { key: "started", title: "started", weight: Weight::Detail },
    Column { key: "run", title: "run", weight: Weight::Detail },
];

fn origins(sides: &[Side<'_>]) -> Table {
    let row = |side: &Side<'_>| {
        let header = side.record.map(|record| &record.header);
        let text = |words: Option<String>| words.map_or(Cell::Absent, Cell::Text);
        let name = header.map(|header| header.device.name.clone());
        vec![
            Cell::Text(side.marked()),
            text(name.or_else(|| side.part.map(|part| part.name.clone()))),
            side.part.map_or(Cell::Absent, |part| Cell::Code(part.id.clone())),
            Cell::Text(side.origin.clone()),
            text(header.map(|header| header.suite.clone())),
            text(header.map(|header| header.started.clone())),
            text(header.map(|header| header.run.clone())),
        ]
    };
    Table::new("generations", "Records and parts", ORIGINS, sides.iter().map(row))
}
