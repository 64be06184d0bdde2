//! Attention beside this run's own ceilings: which these are, the share of each that it reaches,
//! and which binds. Attention's headline is cold, each sample by itself, while products iterate
//! without a pause: the share of both hot stands beside.

use super::{Ceilings, Cell, Column, Table, Weight, ceiling::BesideAttention, chart::measurements};
use fizeau_domain::{case::Point, outcome::Measurement, spec::exps_time};
use fizeau_record::Record;

/// One row for each case of attention; none without such cases.
pub fn table(record: &Record, ceilings: &Ceilings) -> Option<Table> {
    let is_of = |point: &Point| matches!(point, Point::Attention(_));
    beside_ceilings(record, ceilings, ("attention", "Attention"), is_of)
}

/// One row for each step of sparse attention; none without such cases.
pub fn sparse(record: &Record, ceilings: &Ceilings) -> Option<Table> {
    let is_of = |point: &Point| matches!(point, Point::Sparse(_));
    beside_ceilings(record, ceilings, ("sparse", "Sparse attention"), is_of)
}

fn beside_ceilings(
    record: &Record,
    ceilings: &Ceilings,
    (name, kind): (&'static str, &str),
    is_of: impl Fn(&Point) -> bool,
) -> Option<Table> {
    let those = measurements(record).filter(|one| is_of(&one.case.point));
    let rows: Vec<_> = those.map(|one| row(record, ceilings, one)).collect();
    let title = format!("{kind} with cold caches beside this run's own ceilings");
    let columns = vec![
        Column::new("case", "case", Weight::Essential),
        Column::new("median_seconds", "median", Weight::Detail),
        Column::new("caches", "caches", Weight::Detail),
        Column::new("bytes_per_second", "bytes moved", Weight::Useful),
        Column::new("share_of_memory", "of memory's best", Weight::Essential),
        Column::new("flops_per_second", "arithmetic", Weight::Useful),
        Column::new("share_of_arithmetic", "of arithmetic's best", Weight::Essential),
        Column::new("share_both_hot", "both hot", Weight::Useful),
        Column::new("share_of_exps", "of the exponentials", Weight::Useful),
        Column::new("binds", "limited by", Weight::Essential),
        Column::new("set_against", "set against", Weight::Useful),
    ];
    Table::unless_empty(name, title, columns, rows)
}

fn row(record: &Record, ceilings: &Ceilings, measurement: &Measurement) -> Vec<Cell> {
    let (work, median) = (&measurement.work, measurement.summary.median);
    let BesideAttention { memory, arithmetic } = ceilings.beside_attention(measurement);
    let (bytes, flops) = (work.memory / median, work.flops / median);
    let clock = measurement.clock.or(record.header.device.clock);
    let exps = exps_time(&measurement.case.point, &record.header.device, clock);
    let shares = [
        memory.map(|best| bytes / best.rate),
        arithmetic.map(|best| flops / best.rate),
        exps.map(|time| time / median),
    ];
    let is_foreign = ceilings.foreign(measurement).is_some();
    let shares = shares.map(|share| share.filter(|_| !is_foreign));
    let cell = |share: Option<f64>| share.map_or(Cell::Absent, Cell::Share);
    let words = |words: String| if words.is_empty() { Cell::Absent } else { Cell::Text(words) };
    let kinds = [memory.map(|best| best.words()), arithmetic.map(|best| best.words())];
    let kinds: Vec<String> = kinds.into_iter().flatten().collect();
    vec![
        Cell::Code(measurement.case.to_string()),
        Cell::Time(median),
        Cell::Text(measurement.cache.to_string()),
        Cell::Bandwidth(bytes),
        cell(shares[0]),
        if work.flops.0 > 0.0 { Cell::Throughput(flops) } else { Cell::Absent },
        cell(shares[1]),
        cell(ceilings.attention_when_hot(measurement)),
        cell(shares[2]),
        words(binds(shares).into()),
        words(kinds.join(" and ")),
    ]
}

/// What takes the longest, where memory and arithmetic are both known.
fn binds([memory, arithmetic, exps]: [Option<f64>; 3]) -> &'static str {
    let (Some(memory), Some(arithmetic)) = (memory, arithmetic) else { return "" };
    if exps.is_some_and(|exps| exps > memory.max(arithmetic)) {
        "exponentials"
    } else if memory > arithmetic {
        "memory"
    } else {
        "arithmetic"
    }
}

#[cfg(test)]
mod tests {
    use super::binds;

    #[test]
    fn the_slowest_resource_binds() {
        assert_eq!(binds([Some(0.3), Some(0.2), None]), "memory");
        assert_eq!(binds([Some(0.2), Some(0.3), Some(0.1)]), "arithmetic");
        assert_eq!(binds([Some(0.2), Some(0.3), Some(0.4)]), "exponentials");
        assert_eq!(binds([None, Some(0.3), Some(0.4)]), "");
    }
}
