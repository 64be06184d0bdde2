//! What each level of the memory gives: latency and bandwidth on its plateau.

use super::{Cell, Column, Table, Weight, chart::measurements};
use fizeau_domain::{
    case::{LatencyPoint, Point, StreamOperation},
    units::{Bytes, BytesPerSecond, Seconds},
};
use fizeau_record::Record;
use std::collections::{BTreeMap, BTreeSet};

/// A level, from the end of the one before to its own.
struct Level {
    name: String,
    size: Option<Bytes>,
    from: u64,
    to: u64,
}

/// One row for each level of cache and one for memory, as the units meet them that swept the most
/// working sets. None where nothing was swept.
pub fn table(record: &Record) -> Option<Table> {
    let device = &record.header.device;
    let units = swept_by(record);
    let rows: Vec<_> = levels(record, 1)
        .iter()
        .zip(levels(record, units))
        .map(|(one, all)| {
            vec![
                Cell::Text(one.name.clone()),
                one.size.map_or(Cell::Absent, Cell::Size),
                latency(record, one).map_or(Cell::Absent, Cell::Time),
                bandwidth(record, &all, StreamOperation::Read, units),
                bandwidth(record, &all, StreamOperation::Triad, units),
            ]
        })
        .collect();
    let something = rows.iter().flat_map(|row| &row[2..]).any(|cell| *cell != Cell::Absent);
    (something && !device.caches.is_empty()).then(|| Table {
        name: "levels".into(),
        title: match units {
            1 => "Levels of memory, one unit".into(),
            _ => format!("Levels of memory, {units} units"),
        },
        columns: vec![
            Column::new("level", "level", Weight::Essential),
            Column::new("size_bytes", "size of one", Weight::Essential),
            Column::new("latency_seconds", "latency", Weight::Essential),
            Column::new("read_bytes_per_second", "best read", Weight::Essential),
            Column::new("triad_bytes_per_second", "best triad", Weight::Useful),
        ],
        rows,
    })
}

/// The number of units that streamed over the most working sets.
fn swept_by(record: &Record) -> u32 {
    let mut swept: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
    for measurement in measurements(record) {
        if let Point::Stream(point) = measurement.case.point {
            swept.entry(point.units).or_default().insert(point.working_set.0);
        }
    }
    swept.into_iter().max_by_key(|(_, sets)| sets.len()).map_or(1, |(units, _)| units)
}

/// The middle of each level, away from the slopes between two: from 1.5 times the one before to
/// two thirds of its own size; memory from four times the last on.
fn levels(record: &Record, units: u32) -> Vec<Level> {
    let mut levels = Vec::new();
    let mut before = 0;
    for cache in &record.header.device.caches {
        let instances = u64::from(units.div_ceil(cache.shared_by.max(1)).max(1));
        let size = cache.size.0 * instances;
        levels.push(Level {
            name: format!("L{}", cache.level),
            size: Some(cache.size),
            from: before / 2 * 3,
            to: size / 3 * 2,
        });
        before = size;
    }
    let size = Some(record.header.device.memory).filter(|memory| memory.0 > 0);
    let beyond = LatencyPoint::BEYOND_TLB.0;
    let memory = |name: &str, size, from, to| Level { name: name.into(), size, from, to };
    levels.push(memory("memory", size, before * 4, beyond - 1));
    if measurements(record).any(|measurement| is_beyond_tlb(&measurement.case.point)) {
        let within = levels.last().and_then(|level| latency(record, level));
        let all = memory("", None, beyond, u64::MAX);
        let misses = within.zip(latency(record, &all)).map(|(within, all)| all / within);
        let name = match misses {
            Some(ratio) if ratio > TLB_MISSES => "memory, TLB misses",
            _ => "memory, 16 GiB and more",
        };
        levels.push(Level { name: name.into(), ..all });
    }
    levels
}

/// Loads of a chain of 16 GiB and more miss the TLBs where they take this many times as long as
/// those of shorter chains in memory. Otherwise the TLBs reach so far, or large pages do.
const TLB_MISSES: f64 = 1.05;

fn is_beyond_tlb(point: &Point) -> bool {
    matches!(point, Point::Latency(point) if point.is_beyond_tlb())
}

/// The median of the plateau's latencies; of two, the lower.
fn latency(record: &Record, level: &Level) -> Option<Seconds> {
    let mut times: Vec<f64> = measurements(record)
        .filter_map(|measurement| match measurement.case.point {
            Point::Latency(point) if point.side.is_none() && point.pair.is_none() => {
                let within = (level.from..=level.to).contains(&point.working_set.0);
                within.then_some(measurement.summary.median.0)
            }
            _ => None,
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times.get(times.len().saturating_sub(1) / 2).copied().map(Seconds)
}

/// The best of the plateau's bandwidths, which its title says.
fn bandwidth(record: &Record, level: &Level, stream: StreamOperation, units: u32) -> Cell {
    measurements(record)
        .filter_map(|measurement| match measurement.case.point {
            Point::Stream(point)
                if point.stream == stream
                    && point.units == units
                    // Arrays are cut to whole elements, a few bytes below the wanted size.
                    && (level.from.saturating_sub(4096)..=level.to)
                        .contains(&point.working_set.0) =>
            {
                Some((measurement.work.memory / measurement.summary.median).0)
            }
            _ => None,
        })
        .max_by(f64::total_cmp)
        .map_or(Cell::Absent, |rate| Cell::Bandwidth(BytesPerSecond(rate)))
}
