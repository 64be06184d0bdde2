//! Attention beside this run's own ceilings: its bytes beside the best measured read, its
//! arithmetic beside the best measured matrix product of its element type, and which of the two
//! binds.

use super::{Ceilings, Cell, Column, Table, Weight, chart::measurements};
use crate::{
    case::{Point, StreamOperation},
    dtype::Dtype,
    outcome::Measurement,
    record::Record,
    units::{BytesPerSecond, FlopsPerSecond},
};

/// One row for each case of attention; none without such cases.
pub fn table(record: &Record, ceilings: &Ceilings) -> Option<Table> {
    let read = best_read(record, ceilings);
    let row = |measurement: &Measurement| {
        let Point::Attention(point) = measurement.case.point else { return None };
        let (work, median) = (&measurement.work, measurement.summary.median);
        let (bytes, flops) = (work.memory / median, work.flops / median);
        let of_read = read.map(|read| bytes / read);
        let of_product = best_product(record, point.dtype).map(|product| flops / product);
        let share = |share: Option<f64>| share.map_or(Cell::Absent, Cell::Share);
        let binds = match (of_read, of_product) {
            (Some(of_read), Some(of_product)) if of_read > of_product => "memory",
            (Some(_), Some(_)) => "matrix products",
            _ => "",
        };
        Some(vec![
            Cell::Code(measurement.case.to_string()),
            Cell::Time(median),
            Cell::Bandwidth(bytes),
            share(of_read),
            Cell::Throughput(flops),
            share(of_product),
            if binds.is_empty() { Cell::Absent } else { Cell::Text(binds.into()) },
        ])
    };
    let rows: Vec<_> = measurements(record).filter_map(row).collect();
    let column = |key, title, weight| Column { key, title, weight };
    (!rows.is_empty()).then(|| Table {
        name: "attention".into(),
        title: "Attention beside this run's reads and matrix products".into(),
        columns: vec![
            column("case", "case", Weight::Essential),
            column("median_seconds", "median", Weight::Detail),
            column("bytes_per_second", "bytes moved", Weight::Useful),
            column("share_of_read", "of the best read", Weight::Essential),
            column("flops_per_second", "arithmetic", Weight::Useful),
            column("share_of_product", "of the best product", Weight::Essential),
            column("binds", "binds", Weight::Essential),
        ],
        rows,
    })
}

/// The best rate of a stream that only reads memory; of any where none was measured.
fn best_read(record: &Record, ceilings: &Ceilings) -> Option<BytesPerSecond> {
    let rates = measurements(record).filter_map(|measurement| match &measurement.case.point {
        Point::Stream(point)
            if point.stream == StreamOperation::Read && ceilings.in_memory(point.working_set) =>
        {
            Some(measurement.work.memory / measurement.summary.median)
        }
        _ => None,
    });
    let best = rates.max_by(|a, b| a.0.total_cmp(&b.0));
    best.or_else(|| ceilings.memory.as_ref().map(|best| best.rate))
}

/// The best rate of a matrix product of an element type; of its arithmetic alone where no product
/// was measured.
fn best_product(record: &Record, dtype: Dtype) -> Option<FlopsPerSecond> {
    let best = |is_one: fn(&Point) -> bool| {
        measurements(record)
            .filter(|one| is_one(&one.case.point) && one.case.point.dtype() == Some(dtype))
            .map(|one| one.work.flops / one.summary.median)
            .max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let product = best(|point| matches!(point, Point::Gemm(gemm) if gemm.contents.are_random()));
    product.or_else(|| best(|point| matches!(point, Point::Compute(_))))
}
