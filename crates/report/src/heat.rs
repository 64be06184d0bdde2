//! Heat maps: rates over shapes and kernels, shaded by the share of a ceiling.

use super::{Ceilings, Cell, Heat, HeatMap, HeatRow, chart::measurements};
use fizeau_domain::{
    case::{AttentionPoint, Case, GemmPoint, GroupedPoint, Point},
    dtype::Dtype,
    outcome::Measurement,
    text::counted,
};
use fizeau_record::Record;
use std::collections::{HashMap, HashSet};

/// Matrix products over shapes and kernels, a map for each element type.
pub fn gemm(record: &Record, ceilings: &Ceilings) -> Vec<HeatMap> {
    let words = Words {
        name: "gemm",
        title: "Matrix products",
        caption: "Arithmetic rate; the shade is the share of the best rate this run measured for \
                  the element type, or of memory's where the shape is bound by it.",
        corner: "m x n x k",
    };
    by_dtype(&words, record, ceilings, |point| match point {
        Point::Gemm(point) => Some((point.dtype, shape(point))),
        _ => None,
    })
}

/// Grouped products over shapes and kernels, a map for each element type.
pub fn grouped(record: &Record, ceilings: &Ceilings) -> Vec<HeatMap> {
    let words = Words {
        name: "grouped",
        title: "Grouped matrix products",
        caption: "Arithmetic rate of one product for each expert of a mixture, with the rows of \
                  all together; the shade is the share of this machine's own ceilings: the slower \
                  of its best arithmetic and its best memory bandwidth, as the shape needs them.",
        corner: "m x n x k",
    };
    by_dtype(&words, record, ceilings, |point| match point {
        Point::Grouped(point) => Some((point.dtype, groups(point))),
        _ => None,
    })
}

/// Attention over shapes and kernels, a map for each element type.
pub fn attention(record: &Record, ceilings: &Ceilings) -> Vec<HeatMap> {
    let words = Words {
        name: "attention",
        title: "Attention",
        caption: "Arithmetic rate; the shade is the share of the slower of this run's own best \
                  read and best matrix product of the type that is multiplied; the table below \
                  names them.",
        corner: "shape",
    };
    by_dtype(&words, record, ceilings, |point| match point {
        Point::Attention(point) => Some((point.dtype, sequence(point))),
        _ => None,
    })
}

/// What a kind of map says of itself.
struct Words {
    name: &'static str,
    title: &'static str,
    caption: &'static str,
    corner: &'static str,
}

/// The element types that training and inference use most; the others follow.
const FIRST: [Dtype; 2] = [Dtype::Bf16, Dtype::Fp8];

/// A map for each element type, a column for each kernel. `place` says element type and row.
fn by_dtype(
    words: &Words,
    record: &Record,
    ceilings: &Ceilings,
    place: impl Fn(&Point) -> Option<(Dtype, String)>,
) -> Vec<HeatMap> {
    let others = Dtype::ALL.into_iter().filter(|dtype| !FIRST.contains(dtype));
    let map = |dtype: Dtype| {
        let empty = HeatMap {
            name: format!("{}_{dtype}", words.name),
            title: format!("{}, {dtype}", words.title),
            caption: words.caption.into(),
            corner: words.corner.into(),
            columns: Vec::new(),
            rows: Vec::new(),
        };
        filled(empty, record, ceilings, |case| {
            let (_, row) = place(&case.point).filter(|(of, _)| *of == dtype)?;
            Some((row, case.kernel.0.clone()))
        })
    };
    let mut maps: Vec<HeatMap> = FIRST.into_iter().chain(others).filter_map(map).collect();
    // Once is enough for maps that stand below each other.
    maps.iter_mut().skip(1).for_each(|map| map.caption.clear());
    maps
}

fn shape(point: &GemmPoint) -> String {
    let shape = format!("{} x {} x {}", point.m, point.n, point.k);
    let shape = if point.layout.is_nn() { shape } else { format!("{shape} {}", point.layout) };
    if point.contents.are_random() { shape } else { format!("{shape}, {}", point.contents) }
}

fn groups(point: &GroupedPoint) -> String {
    let GroupedPoint { m, n, k, groups, routing, .. } = point;
    format!("{m} x {n} x {k}, {}, {routing}", counted(*groups as usize, "group"))
}

fn sequence(p: &AttentionPoint) -> String {
    format!(
        "{} {}, batch {}, heads {} / {}, queries {}, keys {}, d {} / {}",
        p.attention, p.mask, p.batch, p.heads, p.kv_heads, p.queries, p.keys, p.dim_qk, p.dim_v
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
