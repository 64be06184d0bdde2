//! Fused operations and recurrences beside this run's own ceiling of memory, and beside the launch
//! of an empty kernel: with few rows an operation takes as long as it takes to start one.

use super::{
    Ceilings, Cell, Column, Fact, FactLimit, Table, Weight,
    case_table::{self, tier_name},
    chart::measurements,
};
use fizeau_domain::{
    case::{Launching, Point},
    outcome::Measurement,
    spec::Tier,
    units::Seconds,
};
use fizeau_record::Record;

/// The name of a point among a run's figures; `None` of other operations.
type Named = fn(&Point) -> Option<String>;

/// The fused operation and the recurrence that move most bytes a second, each beside this run's own
/// memory.
pub fn facts(record: &Record, ceilings: &Ceilings) -> Vec<Fact> {
    let kinds: [(&str, Named); 2] = [
        ("fused", |point| match point {
            Point::Fused(point) => Some(format!("Fused {} {}", point.fused, point.output)),
            _ => None,
        }),
        ("recurrence", |point| match point {
            Point::Recurrence(point) => Some(format!("Linear attention {}", point.state)),
            _ => None,
        }),
    ];
    let rate = |one: &Measurement| one.work.memory / one.summary.median;
    let fact = |(key, named): (&str, Named)| {
        let all = measurements(record).filter_map(|one| Some((named(&one.case.point)?, one)));
        let (name, best) = all.max_by(|(_, a), (_, b)| rate(a).0.total_cmp(&rate(b).0))?;
        let own = ceilings.share(best).zip(ceilings.memory.as_ref());
        let of_peak = best.utilisation().zip(best.tier);
        let of_peak = of_peak.filter(|_| own.is_none() && ceilings.foreign(best).is_none());
        let limit = |rate, tier| FactLimit {
            value: Some(Cell::Bandwidth(rate)),
            tier: Some(tier_name(tier)),
            reasons: Vec::new(),
        };
        let (share, of, limit) = match (own, of_peak, best.doubt()) {
            (Some((share, memory)), ..) => {
                let of = format!("of this run's own {} ({})", memory.rate, memory.words());
                (Some(share), of, limit(memory.rate, Tier::Ceiling))
            }
            (None, Some((share, tier)), _) => {
                let peak = rate(best) * (1.0 / share);
                (Some(share), format!("of {peak} ({})", tier_name(tier)), limit(peak, tier))
            }
            (.., Some(doubt)) => (None, doubt.to_string(), FactLimit::default()),
            (.., None) => (None, "peak unknown: add stream".to_owned(), FactLimit::default()),
        };
        Some(Fact {
            key: key.into(),
            label: format!("{name}, {}", best.cache),
            value: Cell::Bandwidth(rate(best)),
            share,
            of,
            limit,
            case: best.case.to_string(),
        })
    };
    kinds.into_iter().filter_map(fact).collect()
}

/// The place of the column that sets a time beside an empty launch.
const LAUNCHES: usize = 3;

/// Fused operations, one row for each case; none without such cases.
pub fn table(record: &Record, ceilings: &Ceilings) -> Option<Table> {
    let rows = |point: &Point| match point {
        Point::Fused(point) => Some(point.rows),
        _ => None,
    };
    beside_memory(record, ceilings, ("fused", "Fused operations"), ("rows", rows))
}

/// Recurrences, one row for each case; none without such cases.
pub fn recurrences(record: &Record, ceilings: &Ceilings) -> Option<Table> {
    let sequences = |point: &Point| match point {
        Point::Recurrence(point) => Some(point.batch),
        _ => None,
    };
    beside_memory(record, ceilings, ("recurrence", "Linear attention"), ("sequences", sequences))
}

/// A table of the cases of which `count` knows how many rows or sequences they have.
fn beside_memory(
    record: &Record,
    ceilings: &Ceilings,
    (name, title): (&'static str, &'static str),
    (counted, count): (&'static str, impl Fn(&Point) -> Option<u32>),
) -> Option<Table> {
    let launch = launch_time(record);
    let of = |one| row(ceilings, launch, one, &count);
    let mut rows: Vec<_> = measurements(record).filter_map(of).collect();
    let mut columns = vec![
        Column::new("case", "case", Weight::Essential),
        Column::new(counted, counted, Weight::Useful),
        Column::new("median_seconds", "median", Weight::Essential),
        Column::new("launches", "of an empty launch", Weight::Essential),
        Column::new("bytes", "bytes", Weight::Detail),
        Column::new("caches", "caches", Weight::Useful),
        Column::new("bytes_per_second", "bytes moved", Weight::Essential),
        Column::new("utilisation", "of peak", Weight::Useful),
        Column::new("share_of_memory", "of memory's best", Weight::Essential),
        Column::new("noise", "noise", Weight::Useful),
    ];
    // A host has no launches.
    if launch.is_none() {
        rows.iter_mut().for_each(|row| drop(row.remove(LAUNCHES)));
        columns.remove(LAUNCHES);
    }
    let beside = if launch.is_some() { "memory and launches" } else { "memory" };
    Table::unless_empty(name, format!("{title} beside {beside}"), columns, rows)
}

/// The time from one empty kernel to the next that was enqueued behind it, where it was measured.
fn launch_time(record: &Record) -> Option<Seconds> {
    let queued = measurements(record).filter(|one| match one.case.point {
        Point::Launch(point) => point.launching == Launching::Queued,
        _ => false,
    });
    queued.map(|one| one.summary.median).min_by(|a, b| a.0.total_cmp(&b.0))
}

fn row(
    ceilings: &Ceilings,
    launch: Option<Seconds>,
    one: &Measurement,
    count: impl Fn(&Point) -> Option<u32>,
) -> Option<Vec<Cell>> {
    let count = count(&one.case.point)?;
    let median = one.summary.median;
    let share = |share: Option<f64>| share.map_or(Cell::Absent, Cell::Share);
    let is_foreign = ceilings.foreign(one).is_some();
    Some(vec![
        Cell::Code(one.case.to_string()),
        Cell::Count(u64::from(count)),
        Cell::Time(median),
        launch.map_or(Cell::Absent, |launch| Cell::Ratio(median / launch)),
        Cell::Size(one.work.memory),
        Cell::Text(one.cache.to_string()),
        case_table::rate(one),
        share(one.utilisation().filter(|_| !is_foreign)),
        share(ceilings.share(one)),
        Cell::Share(one.summary.noise),
    ])
}
