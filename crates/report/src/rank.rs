//! How fast ranks are beside each other: in each case, and over the cases of an operation.
//!
//! A rank's rate is given relative to the median rank: 0.85 where the median rank needs 0.85 of its
//! time. Ranks of a collective wait for each other, so that their times blame nobody.

use super::{Cell, Column, Heat, HeatMap, HeatRow, Table, Weight, chart::measurements};
use fizeau_domain::{
    case::{CollectivePoint, Point},
    outcome::Measurement,
    spec::STUB,
    stats::quantile,
    units::Seconds,
};
use fizeau_record::Record;
use std::collections::BTreeMap;

/// Columns of the heat map: beyond them the tables name the slowest alone.
const RANKS_MAX: usize = 32;

/// A rank is slow in an operation below this share of the median rank's rate, and only where ...
pub(super) const SLOW: f64 = 0.97;

/// ... it is off by more than this many standard deviations of the ranks' rates.
pub(super) const DEVIATIONS: f64 = 5.0;

/// A normal distribution's standard deviation / its median absolute deviation.
pub(super) const DEVIATION_OF_MAD: f64 = 1.4826;

/// Of fewer ranks none can be told to be the slow one.
pub(super) const RANKS_MIN: usize = 3;

/// The cases of which every rank has a time of its own.
fn cases(record: &Record) -> Vec<&Measurement> {
    measurements(record).filter(|measurement| measurement.rank_times.len() > 1).collect()
}

/// How many ranks there are, at most.
fn ranks(cases: &[&Measurement]) -> usize {
    cases.iter().map(|measurement| measurement.rank_times.len()).max().unwrap_or(0)
}

/// Each rank's rate, relative to the median rank's; none where a rank has no time.
fn relative(times: &[Seconds]) -> Vec<Option<f64>> {
    let known = |time: &Seconds| time.0.is_finite() && time.0 > 0.0;
    let all: Vec<f64> = times.iter().filter(|time| known(time)).map(|time| time.0).collect();
    if all.is_empty() {
        return vec![None; times.len()];
    }
    let median = quantile::median(&all);
    times.iter().map(|time| known(time).then(|| median / time.0)).collect()
}

/// The rates of every rank in an operation: the median over its cases.
struct Rates {
    operation: &'static str,
    by_rank: Vec<Option<f64>>,
}

/// One for each operation, in the record's order.
fn rates(cases: &[&Measurement]) -> Vec<Rates> {
    let mut operations: Vec<&'static str> = Vec::new();
    for case in cases {
        let operation = case.case.point.operation();
        if !operations.contains(&operation) {
            operations.push(operation);
        }
    }
    let of = |operation| {
        let its = cases.iter().filter(|case| case.case.point.operation() == operation);
        let mut known: Vec<Vec<f64>> = vec![Vec::new(); ranks(cases)];
        for case in its {
            for (of_rank, rate) in known.iter_mut().zip(relative(&case.rank_times)) {
                of_rank.extend(rate);
            }
        }
        let median = |known: &Vec<f64>| (!known.is_empty()).then(|| quantile::median(known));
        Rates { operation, by_rank: known.iter().map(median).collect() }
    };
    operations.into_iter().map(of).collect()
}

/// Where a rank runs, as the record says: `node7, cuda:3 (NVIDIA H200)`.
fn place(record: &Record, rank: usize) -> Option<&str> {
    let line = record.header.environment.ranks.get(rank)?;
    line.strip_prefix(&format!("rank {rank}: "))
}

/// A rank in words: `rank 3 (node7, cuda:3)`.
fn named(record: &Record, rank: usize) -> String {
    let place = place(record, rank).map(|place| place.split(" (").next().unwrap_or(place));
    place.map_or(format!("rank {rank}"), |place| format!("rank {rank} ({place})"))
}

fn cell(rate: Option<f64>) -> Cell {
    rate.map_or(Cell::Absent, |value| Cell::Relative { value, is_stub: false })
}

/// A number in a sentence, marked where it is a stub's.
fn number(record: &Record, rate: f64) -> String {
    let mark = if record.header.device.is_stub() { format!(" ({STUB})") } else { String::new() };
    format!("{rate:.3}{mark}")
}

/// The ranks that are slow in an operation, with their rates.
fn slow(rates: &Rates) -> Vec<(usize, f64)> {
    let known: Vec<f64> = rates.by_rank.iter().flatten().copied().collect();
    if known.len() < RANKS_MIN || rates.operation == "collective" {
        return Vec::new();
    }
    let scatter = DEVIATION_OF_MAD * quantile::median_absolute_deviation(&known);
    let limit = SLOW.min(1.0 - DEVIATIONS * scatter);
    let ranks = rates.by_rank.iter().enumerate();
    ranks.filter_map(|(rank, rate)| Some((rank, (*rate)?))).filter(|(_, at)| *at < limit).collect()
}

/// One sentence for each rank that is slow.
pub fn warnings(record: &Record) -> Vec<String> {
    let cases = cases(record);
    let mut by_rank: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for rates in rates(&cases) {
        for (rank, rate) in slow(&rates) {
            let words = format!("{} at {}", rates.operation, number(record, rate));
            by_rank.entry(rank).or_default().push(words);
        }
    }
    let sentence = |(rank, its): (usize, Vec<String>)| {
        let who = named(record, rank);
        format!("{who} is slower than the other ranks: {} of their median.", its.join(", "))
    };
    by_rank.into_iter().map(sentence).collect()
}

/// That no rank is slow, where that can be told.
pub fn all_alike(record: &Record) -> Option<String> {
    let all = rates(&cases(record));
    let told = all.iter().filter(|rates| {
        rates.operation != "collective" && rates.by_rank.iter().flatten().count() >= RANKS_MIN
    });
    let ranks = |rates: &Rates| -> Vec<(f64, usize, &'static str)> {
        let known = rates.by_rank.iter().enumerate();
        known.filter_map(|(rank, rate)| Some(((*rate)?, rank, rates.operation))).collect()
    };
    let slowest = told.flat_map(ranks).min_by(|a, b| a.0.total_cmp(&b.0));
    let (rate, rank, operation) = slowest?;
    all.iter().all(|rates| slow(rates).is_empty()).then(|| {
        format!(
            "No rank is slow beside the others: the furthest behind is {}, {operation} at {} of \
             the median.",
            named(record, rank),
            number(record, rate)
        )
    })
}

/// One line for each rank: its rate in each operation.
pub fn summary(record: &Record) -> Option<Table> {
    let cases = cases(record);
    let all = rates(&cases);
    let mut columns = vec![
        Column::new("rank", "rank", Weight::Essential),
        Column::new("device", "device", Weight::Useful),
    ];
    columns.extend(all.iter().map(|of| Column::new(of.operation, of.operation, Weight::Essential)));
    let row = |rank: usize| {
        let place = place(record, rank).map_or(Cell::Absent, |place| Cell::Code(place.into()));
        let rates = all.iter().map(|rates| cell(rates.by_rank.get(rank).copied().flatten()));
        [Cell::Code(format!("rank {rank}")), place].into_iter().chain(rates).collect()
    };
    (!cases.is_empty()).then(|| Table {
        name: "rank_rates".into(),
        title: "Rate of each rank, relative to the median rank (median over an operation's cases)"
            .into(),
        columns,
        rows: (0..ranks(&cases)).map(row).collect(),
    })
}

/// One line for each case: who is slowest, and by how much.
pub fn table(record: &Record) -> Option<Table> {
    let row = |measurement: &&Measurement| {
        let (slowest, least, most) = extremes(&measurement.rank_times);
        let rate = relative(&measurement.rank_times).get(slowest).copied().flatten();
        vec![
            Cell::Code(measurement.case.to_string()),
            Cell::Code(named(record, slowest)),
            cell(rate),
            Cell::Time(least),
            Cell::Time(most),
            Cell::Share((most.0 - least.0) / most.0.max(f64::MIN_POSITIVE)),
        ]
    };
    let rows: Vec<_> = cases(record).iter().map(row).collect();
    let columns = vec![
        Column::new("case", "case", Weight::Essential),
        Column::new("slowest_rank", "slowest rank", Weight::Essential),
        Column::new("slowest_of_median", "of median", Weight::Essential),
        Column::new("fastest_rank_seconds", "fastest", Weight::Useful),
        Column::new("slowest_rank_seconds", "slowest", Weight::Useful),
        Column::new("skew", "apart", Weight::Useful),
    ];
    Table::unless_empty("ranks", "Rank skew", columns, rows)
}

/// One line for each case and rank, for machines: people have the heat map.
pub fn times(record: &Record) -> Option<Table> {
    let of_case = |measurement: &&Measurement| {
        let rates = relative(&measurement.rank_times);
        let ranks = measurement.rank_times.iter().zip(rates).enumerate();
        let row = |(rank, (time, rate)): (usize, (&Seconds, Option<f64>))| {
            vec![
                Cell::Code(measurement.case.to_string()),
                Cell::Code(format!("rank {rank}")),
                Cell::Time(*time),
                cell(rate),
            ]
        };
        ranks.map(row).collect::<Vec<_>>()
    };
    let rows: Vec<_> = cases(record).iter().flat_map(of_case).collect();
    let columns = vec![
        Column::new("case", "case", Weight::Machine),
        Column::new("rank", "rank", Weight::Machine),
        Column::new("rank_seconds", "median", Weight::Machine),
        Column::new("of_median", "of median", Weight::Machine),
    ];
    Table::unless_empty("rank_times", "Each case on each rank", columns, rows)
}

/// Each rank's rate in each case.
pub fn heat(record: &Record) -> Option<HeatMap> {
    let cases = cases(record);
    let ranks = ranks(&cases);
    if ranks == 0 || ranks > RANKS_MAX {
        return None;
    }
    let label = |measurement: &Measurement| match measurement.case.point {
        Point::Collective(point) => {
            let CollectivePoint { collective, dtype, message, place, .. } = point;
            format!("{collective} {dtype} {message} {place}{}", point.variant())
        }
        _ => measurement.case.to_string(),
    };
    let heat =
        |rate: Option<f64>| Heat { value: cell(rate), share: rate.map(|rate| rate.min(1.0)) };
    let row = |measurement: &&Measurement| {
        let rates = relative(&measurement.rank_times);
        let of_rank = |rank: usize| heat(rates.get(rank).copied().flatten());
        HeatRow { label: label(measurement), values: (0..ranks).map(of_rank).collect() }
    };
    Some(HeatMap {
        name: "ranks".into(),
        title: "Rate of each rank in each case, relative to the median rank".into(),
        caption: "From the median time on each rank alone. Ranks of a collective wait for each \
                  other: there the slow one may be another."
            .into(),
        corner: "case".into(),
        columns: (0..ranks).map(|rank| format!("rank {rank}")).collect(),
        rows: cases.iter().map(row).collect(),
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_rank_is_named() {
        let times = [2.0, 1.0, 4.0, 4.0].map(Seconds);
        assert_eq!(extremes(&times), (2, Seconds(1.0), Seconds(4.0)));
        assert_eq!(extremes(&times[..1]), (0, Seconds(2.0), Seconds(2.0)));
    }

    #[test]
    fn rates_are_relative_to_the_median_rank() {
        let times = [1.0, 1.0, 2.0, 0.5, 0.0].map(Seconds);
        assert_eq!(relative(&times), [Some(1.0), Some(1.0), Some(0.5), Some(2.0), None]);
    }

    #[test]
    fn a_rank_is_slow_where_it_stands_out() {
        let rates = |operation, rates: &[f64]| Rates {
            operation,
            by_rank: rates.iter().map(|&rate| Some(rate)).collect(),
        };
        let quiet = [1.001, 0.999, 1.004, 0.851, 1.0, 0.997];
        assert_eq!(slow(&rates("stream", &quiet)), [(3, 0.851)]);
        // Within the scatter of the others; within what counts as alike; of too few ranks; of
        // ranks that wait for each other.
        assert_eq!(slow(&rates("stream", &[1.1, 0.9, 1.2, 0.85, 1.0])), []);
        assert_eq!(slow(&rates("stream", &[1.0, 0.98, 1.0, 1.0])), []);
        assert_eq!(slow(&rates("stream", &[1.08, 0.92])), []);
        assert_eq!(slow(&rates("collective", &quiet)), []);
    }
}
