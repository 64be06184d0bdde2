//! Tables of access other than in streams, and of launches.

use super::{Ceilings, Cell, Column, Table, Weight, case_table, chart::measurements};
use fizeau_domain::{
    case::{Access, Point},
    outcome::Measurement,
};
use fizeau_record::Record;

const ACCESS: &[Column] = &[
    Column { key: "way", title: "way", weight: Weight::Essential },
    Column { key: "working_set_bytes", title: "working set", weight: Weight::Essential },
    Column { key: "row_bytes", title: "contiguous", weight: Weight::Useful },
    Column { key: "units", title: "units", weight: Weight::Detail },
    Column { key: "kernel", title: "kernel", weight: Weight::Useful },
    Column { key: "bytes_per_second", title: "bandwidth", weight: Weight::Essential },
    Column { key: "own_ceiling_share", title: "of run's best", weight: Weight::Useful },
    Column { key: "noise", title: "noise", weight: Weight::Useful },
];

/// One row for each case of access other than in streams.
pub fn table(record: &Record, ceilings: &Ceilings) -> Option<Table> {
    let row = |measurement: &Measurement| {
        let Point::Access(point) = measurement.case.point else { return None };
        Some(vec![
            Cell::Text(way(point.access).into()),
            Cell::Size(point.working_set),
            Cell::Size(point.row),
            Cell::Count(u64::from(point.units)),
            Cell::Code(measurement.case.kernel.0.clone()),
            case_table::rate(measurement),
            ceilings.share(measurement).map_or(Cell::Absent, Cell::Share),
            Cell::Share(measurement.summary.noise),
        ])
    };
    let rows: Vec<_> = measurements(record).filter_map(row).collect();
    Table::unless_empty("access", "Access other than in streams", ACCESS, rows)
}

fn way(access: Access) -> &'static str {
    match access {
        Access::Gather => "gather of rows",
        Access::Mix3r1w => "3 reads, 1 write",
        Access::Mix1r3w => "1 read, 3 writes",
        Access::Shared => "shared memory",
        Access::FirstCache => "first-level cache, again and again",
        Access::Distributed => "distributed shared memory",
    }
}

const LAUNCHES: &[Column] = &[
    Column { key: "way", title: "way", weight: Weight::Essential },
    Column { key: "kernels", title: "kernels", weight: Weight::Essential },
    Column { key: "median_seconds", title: "time", weight: Weight::Essential },
    Column { key: "kernel_seconds", title: "for each kernel", weight: Weight::Essential },
    Column { key: "kernel", title: "by", weight: Weight::Detail },
    Column { key: "noise", title: "noise", weight: Weight::Useful },
];

/// One row for each case of launches.
pub fn launches(record: &Record) -> Option<Table> {
    let row = |measurement: &Measurement| {
        let Point::Launch(point) = measurement.case.point else { return None };
        let median = measurement.summary.median;
        Some(vec![
            Cell::Text(point.launching.to_string()),
            Cell::Count(u64::from(point.kernels)),
            Cell::Time(median),
            Cell::Time(median * (1.0 / f64::from(point.kernels.max(1)))),
            Cell::Code(measurement.case.kernel.0.clone()),
            Cell::Share(measurement.summary.noise),
        ])
    };
    let rows: Vec<_> = measurements(record).filter_map(row).collect();
    Table::unless_empty("launches", "Launches of next to nothing", LAUNCHES, rows)
}
