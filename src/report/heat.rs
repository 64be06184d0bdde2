//! Heat maps: rates over shapes and kernels, shaded by the share of a ceiling.

use super::{Ceilings, Cell, Heat, HeatMap, HeatRow, chart::measurements};
use crate::{
    case::{AttentionPoint, Case, GemmPoint, GroupedPoint, Point},
    outcome::Measurement,
    record::Record,
};
use std::collections::{HashMap, HashSet};

/// Matrix products over shapes and element type with kernel.
pub fn gemm(record: &Record, ceilings: &Ceilings) -> Option<HeatMap> {
    let empty = HeatMap {
        name: "gemm".into(),
        title: "Matrix products".into(),
        caption: "Arithmetic rate; the shade is the share of the best rate this run measured for \
                  the element type, or of memory's where the shape is bound by it."
            .into(),
        corner: "m x n x k".into(),
        columns: Vec::new(),
        rows: Vec::new(),
    };
    filled(empty, record, ceilings, |case| match case.point {
        Point::Gemm(point) => Some((shape(&point), format!("{} {}", point.dtype, case.kernel.0))),
        _ => None,
    })
}

/// Grouped products over shapes and element type with kernel.
pub fn grouped(record: &Record, ceilings: &Ceilings) -> Option<HeatMap> {
    let empty = HeatMap {
        name: "grouped".into(),
        title: "Grouped matrix products".into(),
        caption: "Arithmetic rate of one product for each expert of a mixture, with the rows of \
                  all together; the shade is the share of this machine's own ceilings: the slower \
                  of its best arithmetic and its best memory bandwidth, as the shape needs them."
            .into(),
        corner: "m x n x k".into(),
        columns: Vec::new(),
        rows: Vec::new(),
    };
    filled(empty, record, ceilings, |case| match case.point {
        Point::Grouped(point) => {
            Some((groups(&point), format!("{} {}", point.dtype, case.kernel.0)))
        }
        _ => None,
    })
}

/// Attention over shapes and kernels.
pub fn attention(record: &Record, ceilings: &Ceilings) -> Option<HeatMap> {
    let empty = HeatMap {
        name: "attention".into(),
        title: "Attention".into(),
        caption: "Arithmetic rate; the shade is the share of the slower of this run's own best \
                  read and best matrix product of the type that is multiplied; the table below \
                  names them."
            .into(),
        corner: "shape".into(),
        columns: Vec::new(),
        rows: Vec::new(),
    };
    filled(empty, record, ceilings, |case| match case.point {
        Point::Attention(point) => Some((sequence(&point), case.kernel.0.clone())),
        _ => None,
    })
}

fn shape(point: &GemmPoint) -> String {
    let shape = format!("{} x {} x {}", point.m, point.n, point.k);
    if point.contents.are_random() { shape } else { format!("{shape}, {}", point.contents) }
}

fn groups(point: &GroupedPoint) -> String {
    let GroupedPoint { m, n, k, groups, routing, .. } = point;
    format!("{m} x {n} x {k}, {groups} groups, {routing}")
}

fn sequence(p: &AttentionPoint) -> String {
    format!(
        "{} {}, {}, batch {}, heads {} / {}, queries {}, keys {}, d {} / {}",
        p.attention,
        p.mask,
        p.dtype,
        p.batch,
        p.heads,
        p.kv_heads,
        p.queries,
        p.keys,
        p.dim_qk,
        p.dim_v
    )
}

/// Cells of a map that a reader can take in; of more there is no map, and the table of cases has
/// them all.
const CELLS_MAX: usize = 50_000;

/// The map with the cases that have a place in it: none where no case has. `place` says row and
/// column; both come in the order they first appear, and the record's order is the suite's.
fn filled<'r>(
    empty: HeatMap,
    record: &'r Record,
    ceilings: &Ceilings,
    place: impl Fn(&Case) -> Option<(String, String)>,
) -> Option<HeatMap> {
    let cell = |measurement: &'r Measurement| {
        let (row, column) = place(&measurement.case)?;
        Some((row, column, measurement))
    };
    let (mut columns, mut labels) = (Vec::new(), Vec::new());
    let (mut known_columns, mut known_labels) = (HashSet::new(), HashSet::new());
    let mut cells: HashMap<(String, String), &Measurement> = HashMap::new();
    for (row, column, measurement) in measurements(record).filter_map(cell) {
        if known_columns.insert(column.clone()) {
            columns.push(column.clone());
        }
        if known_labels.insert(row.clone()) {
            labels.push(row.clone());
        }
        cells.entry((row, column)).or_insert(measurement);
    }
    if labels.is_empty() || labels.len() * columns.len() > CELLS_MAX {
        return None;
    }
    let heat = |label: &String, column: &String| {
        let found = cells.get(&(label.clone(), column.clone()));
        found.map_or(Heat { value: Cell::Absent, share: None }, |measurement| Heat {
            value: Cell::Throughput(measurement.work.flops / measurement.summary.median),
            share: ceilings.share(measurement),
        })
    };
    let rows = labels.into_iter().map(|label| HeatRow {
        values: columns.iter().map(|column| heat(&label, column)).collect(),
        label,
    });
    let rows = rows.collect();
    Some(HeatMap { columns, rows, ..empty })
}
