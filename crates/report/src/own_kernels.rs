//! Kernels of the user beside this program's own and the vendor library's, point by point: what a
//! run with `--kernel` was asked for.

use super::{
    Block, Cell, Column, Table, Weight, case_table::rate, chart::measurements, explain,
    summary::user_kernels,
};
use fizeau_domain::{
    case::{Case, Point},
    outcome::{Failure, Measurement, Outcome},
};
use fizeau_record::Record;

const COLUMNS: &[Column] = &[
    Column { key: "point", title: "case", weight: Weight::Essential },
    Column { key: "kernel", title: "your kernel", weight: Weight::Essential },
    Column { key: "rate", title: "rate", weight: Weight::Essential },
    Column { key: "best_rate", title: "Fizeau's", weight: Weight::Essential },
    Column { key: "best_kernel", title: "by", weight: Weight::Useful },
    Column { key: "library_rate", title: "a library's", weight: Weight::Essential },
    Column { key: "library", title: "by", weight: Weight::Useful },
    Column { key: "of_best", title: "yours / best other", weight: Weight::Essential },
];

/// Which file the kernels are from, and a row for each of their cases; of more than `rows_max` the
/// first. Nothing where the user brought none.
pub fn blocks(record: &Record, rows_max: usize) -> Vec<Block> {
    let mut blocks: Vec<Block> = user_kernels(record).into_iter().map(Block::Text).collect();
    let all: Vec<Vec<Cell>> =
        record.outcomes.iter().filter_map(|outcome| row(record, outcome)).collect();
    let more = all.len().saturating_sub(rows_max);
    let title = "Your kernels beside Fizeau's fastest and the vendor library's";
    let rows = all.into_iter().take(rows_max);
    blocks.extend(Table::unless_empty("own_kernels", title, COLUMNS, rows).map(Block::Table));
    if more > 0 {
        blocks.push(Block::Note(format!("{more} more of your kernels' cases are in the report")));
    }
    blocks.extend(tasks(record).into_iter().map(Block::Note));
    blocks
}

/// Operations that are named again where a kernel's results are wrong.
const TASKS_MAX: usize = 3;

/// What the kernels of the user have to compute whose results are wrong, once for each point.
fn tasks(record: &Record) -> Vec<String> {
    let is_host = record.header.device.backend == "host";
    let mut points: Vec<Point> = Vec::new();
    for outcome in &record.outcomes {
        let Outcome::Failed { case, failure: Failure::WrongResult, .. } = outcome else { continue };
        if is_own(record, case) && !points.contains(&case.point) {
            points.push(case.point);
        }
    }
    let task = |point: &Point| {
        let (computes, check) = (explain::measured(point, is_host), explain::check(point));
        format!(
            "What {point} computes: {computes} What is checked: {check} docs/your-kernel.md has \
             the layouts."
        )
    };
    points.iter().take(TASKS_MAX).map(task).collect()
}

fn is_own(record: &Record, case: &Case) -> bool {
    record.header.user_kernels.iter().any(|file| file.names.contains(&case.kernel.0))
}

/// The row of a case; none of what is not by a kernel of the user.
fn row(record: &Record, outcome: &Outcome) -> Option<Vec<Cell>> {
    let case = outcome.case();
    if !is_own(record, case) {
        return None;
    }
    let others = || {
        let at_point = |one: &&Measurement| one.case.point == case.point;
        measurements(record).filter(at_point).filter(|one| !is_own(record, &one.case))
    };
    let fastest = |is_library: bool| {
        let of_kind = others().filter(|one| one.case.kernel.is_of_library() == is_library);
        of_kind.min_by(|one, other| one.summary.median.0.total_cmp(&other.summary.median.0))
    };
    let (ours, library) = (fastest(false), fastest(true));
    let own = outcome.measured();
    let best = [ours, library].into_iter().flatten();
    let best = best.min_by(|one, other| one.summary.median.0.total_cmp(&other.summary.median.0));
    // Of figures that other processes or two states put off no ratio is told.
    let is_fit = |one: &Measurement| !one.disturbed() && one.doubt().is_none();
    let ratio = own.zip(best).filter(|(own, best)| is_fit(own) && is_fit(best));
    let ratio = ratio.map(|(own, best)| best.summary.median / own.summary.median);
    let said = |one: Option<&Measurement>| one.map_or(Cell::Absent, rate);
    let by = |one: Option<&Measurement>| {
        one.map_or(Cell::Absent, |one| Cell::Text(one.case.kernel.0.clone()))
    };
    let id = case.to_string();
    let kernel = &case.kernel.0;
    let point = id.strip_suffix(kernel).map_or(id.as_str(), |start| start.trim_end_matches('/'));
    let outcome = match outcome {
        Outcome::Measured(one) => rate(one),
        Outcome::Failed { .. } => Cell::Text("failed".into()),
        Outcome::Invalid { .. } => Cell::Text("invalid".into()),
        Outcome::Skipped { .. } => Cell::Text("skipped".into()),
    };
    Some(vec![
        Cell::Code(point.into()),
        Cell::Text(kernel.clone()),
        outcome,
        said(ours),
        by(ours),
        said(library),
        by(library),
        ratio.map_or(Cell::Absent, Cell::Ratio),
    ])
}
