//! How far ranks are apart: the slowest of each collective, and each rank's time beside the
//! fastest.

use super::{Cell, Column, Heat, HeatMap, HeatRow, Table, Weight, chart::measurements};
use crate::{
    case::{CollectivePoint, Point},
    outcome::Measurement,
    record::Record,
    units::Seconds,
};

/// Columns of the heat map: beyond them the table names the slowest alone.
const RANKS_MAX: usize = 32;

/// The collectives of which every rank has a time of its own.
fn collectives(record: &Record) -> Vec<(CollectivePoint, &Measurement)> {
    let with_times = measurements(record).filter(|measurement| measurement.rank_times.len() > 1);
    with_times
        .filter_map(|measurement| match measurement.case.point {
            Point::Collective(point) => Some((point, measurement)),
            _ => None,
        })
        .collect()
}

/// The first rank with the largest time, and the smallest and the largest time.
fn extremes(times: &[Seconds]) -> (usize, Seconds, Seconds) {
    let mut found = (0, times[0], times[0]);
    for (rank, &time) in times.iter().enumerate() {
        if time > found.2 {
            found = (rank, found.1, time);
        }
        if time < found.1 {
            found.1 = time;
        }
    }
    found
}

/// One line for each collective: who is slowest, and by how much.
pub fn table(record: &Record) -> Option<Table> {
    let name = |rank: usize| {
        let line = record.header.environment.ranks.get(rank);
        line.cloned().unwrap_or_else(|| format!("rank {rank}"))
    };
    let row = |(_, measurement): &(CollectivePoint, &Measurement)| {
        let (slowest, least, most) = extremes(&measurement.rank_times);
        vec![
            Cell::Code(measurement.case.to_string()),
            Cell::Time(least),
            Cell::Time(most),
            Cell::Share((most.0 - least.0) / most.0.max(f64::MIN_POSITIVE)),
            Cell::Text(name(slowest)),
        ]
    };
    let rows: Vec<_> = collectives(record).iter().map(row).collect();
    let column = |key, title, weight| Column { key, title, weight };
    (!rows.is_empty()).then(|| Table {
        name: "ranks".into(),
        title: "How far ranks are apart".into(),
        columns: vec![
            column("case", "case", Weight::Essential),
            column("fastest_rank_seconds", "fastest", Weight::Useful),
            column("slowest_rank_seconds", "slowest", Weight::Essential),
            column("skew", "apart", Weight::Essential),
            column("slowest_rank", "slowest rank", Weight::Essential),
        ],
        rows,
    })
}

/// Each rank's time of each collective, shaded by the fastest rank's.
pub fn heat(record: &Record) -> Option<HeatMap> {
    let collectives = collectives(record);
    let ranks = collectives.iter().map(|(_, measurement)| measurement.rank_times.len()).max()?;
    if ranks > RANKS_MAX {
        return None;
    }
    let label = |(point, _): &(CollectivePoint, &Measurement)| {
        let CollectivePoint { collective, dtype, message, place, .. } = point;
        format!("{collective} {dtype} {message} {place}{}", point.variant())
    };
    let value = |rank: usize, measurement: &Measurement| {
        let (_, least, _) = extremes(&measurement.rank_times);
        measurement.rank_times.get(rank).map_or(
            Heat { value: Cell::Absent, share: None },
            |&time| Heat { value: Cell::Time(time), share: Some(least / time) },
        )
    };
    let row = |collective: &(CollectivePoint, &Measurement)| HeatRow {
        label: label(collective),
        values: (0..ranks).map(|rank| value(rank, collective.1)).collect(),
    };
    Some(HeatMap {
        name: "ranks".into(),
        title: "Ranks".into(),
        caption: "Median time on each rank alone; the shade is the fastest rank's share of it."
            .into(),
        corner: "collective".into(),
        columns: (0..ranks).map(|rank| format!("rank {rank}")).collect(),
        rows: collectives.iter().map(row).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_rank_is_named() {
        let times = [2.0, 1.0, 4.0, 4.0].map(Seconds);
        assert_eq!(extremes(&times), (2, Seconds(1.0), Seconds(4.0)));
        assert_eq!(extremes(&times[..1]), (0, Seconds(2.0), Seconds(2.0)));
    }
}
