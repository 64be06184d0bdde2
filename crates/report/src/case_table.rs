//! The tables of every case: those that gave a number, and those that did not, apart, so that an
//! invalid number is never read as a result.

use super::{Ceilings, Cell, Column, Table, Weight, regime, reproduce, unknown::kind_of};
use fizeau_domain::{
    case::{Point, SparsePoint},
    outcome::{Cache, Failure, Invalidity, Measurement, Outcome, StopReason},
    spec::Tier,
    stats::states::TwoStates,
    units::Seconds,
};
use fizeau_record::Record;
use std::collections::HashSet;

const MEASURED: &[Column] = &[
    Column { key: "case", title: "case", weight: Weight::Essential },
    Column { key: "outcome", title: "outcome", weight: Weight::Machine },
    Column { key: "median_seconds", title: "median", weight: Weight::Essential },
    Column { key: "rate", title: "rate", weight: Weight::Essential },
    Column { key: "busbw_bytes_per_second", title: "busbw", weight: Weight::Detail },
    Column { key: "utilisation", title: "of peak", weight: Weight::Essential },
    Column { key: "tier", title: "peak of", weight: Weight::Useful },
    Column { key: "bound", title: "bound by", weight: Weight::Useful },
    Column { key: "own_ceiling_share", title: "of run's best", weight: Weight::Useful },
    Column { key: "noise", title: "noise", weight: Weight::Useful },
    Column { key: "interval_low_seconds", title: "95% from", weight: Weight::Detail },
    Column { key: "interval_high_seconds", title: "to", weight: Weight::Detail },
    Column { key: "samples", title: "n", weight: Weight::Useful },
    Column { key: "independent_samples", title: "independent", weight: Weight::Detail },
    Column { key: "batch", title: "batch", weight: Weight::Detail },
    Column { key: "caches", title: "caches", weight: Weight::Detail },
    Column { key: "cold_over_hot", title: "cold / hot", weight: Weight::Detail },
    Column { key: "stopped", title: "stopped", weight: Weight::Detail },
    Column { key: "verified", title: "verified", weight: Weight::Detail },
    Column { key: "started", title: "started", weight: Weight::Machine },
    Column { key: "code", title: "code", weight: Weight::Machine },
];

/// In the tables of runs under a CPU quota alone.
const STOPPED_BY_QUOTA: Column =
    Column { key: "stopped_by_quota", title: "stopped by quota", weight: Weight::Essential };

/// In the tables of runs with cases that did not have their cores for themselves alone.
const DISTURBED: Column = Column { key: "disturbed", title: "disturbed", weight: Weight::Useful };

/// In the tables of runs that have a figure without a share for this reason alone.
const DOUBT: Column = Column { key: "doubt", title: "no share because", weight: Weight::Useful };

/// In the tables of runs that were timed in regimes alone.
const REGIME: [Column; 2] = [
    Column { key: "regime", title: "regime", weight: Weight::Detail },
    Column { key: "settled_over_burst", title: "settled / burst", weight: Weight::Detail },
];

/// In the tables of runs with kernels that took one of several candidates alone.
const TUNED: [Column; 2] = [
    Column { key: "chosen", title: "chosen", weight: Weight::Useful },
    Column { key: "next_best_over_chosen", title: "next best", weight: Weight::Detail },
];

const UNMEASURED: &[Column] = &[
    Column { key: "case", title: "case", weight: Weight::Essential },
    Column { key: "outcome", title: "outcome", weight: Weight::Essential },
    Column { key: "kind", title: "failure kind", weight: Weight::Useful },
    Column { key: "reason", title: "reason", weight: Weight::Essential },
];

/// Every case that was measured.
pub fn measured(record: &Record, ceilings: &Ceilings) -> Option<Table> {
    let measured: Vec<&Measurement> =
        record.outcomes.iter().filter_map(Outcome::measured).collect();
    let mut columns = MEASURED.to_vec();
    let mut rows: Vec<_> = measured.iter().map(|one| measured_row(one, ceilings)).collect();
    if measured.iter().any(|one| one.stopped_by_quota.is_some()) {
        columns.push(STOPPED_BY_QUOTA);
        rows.iter_mut().zip(&measured).for_each(|(row, one)| {
            row.push(one.stopped_by_quota.map_or(Cell::Absent, Cell::Share));
        });
    }
    if measured.iter().any(|one| one.disturbed()) {
        columns.push(DISTURBED);
        rows.iter_mut().zip(&measured).for_each(|(row, one)| {
            row.push(one.disturbance().map_or(Cell::Absent, |words| text(&words)));
        });
    }
    let doubts: Vec<_> = measured.iter().map(|one| one.doubt()).collect();
    if doubts.iter().any(Option::is_some) {
        columns.push(DOUBT);
        rows.iter_mut().zip(doubts).for_each(|(row, doubt)| {
            row.push(doubt.map_or(Cell::Absent, |doubt| text(&doubt.to_string())));
        });
    }
    if measured.iter().any(|one| one.regime.is_some()) {
        columns.extend(REGIME);
        rows.iter_mut().zip(&measured).for_each(|(row, one)| {
            row.push(one.regime.map_or(Cell::Absent, |regime| text(regime.name())));
            row.push(regime::settled_over_burst(one).map_or(Cell::Absent, Cell::Ratio));
        });
    }
    if measured.iter().any(|one| one.tuning.is_some()) {
        // Beside the rate, which is that candidate's.
        let at = 1 + columns.iter().position(|column| column.key == "rate").unwrap_or(0);
        columns.splice(at..at, TUNED);
        rows.iter_mut().zip(&measured).for_each(|(row, one)| {
            let tuning = one.tuning.as_ref();
            let second = tuning.and_then(|tuning| tuning.second());
            let cells = [
                tuning.map_or(Cell::Absent, |tuning| text(&tuning.chosen)),
                second.map_or(Cell::Absent, |(_, ratio)| Cell::Ratio(ratio)),
            ];
            row.splice(at..at, cells);
        });
    }
    Table::unless_empty("cases", "Every measured case", columns, rows)
}

/// Every case that was planned and has no number, with the reason: those that failed first.
pub fn unmeasured(record: &Record) -> Option<Table> {
    let mut outcomes: Vec<&Outcome> = record.outcomes.iter().collect();
    outcomes.sort_by_key(|outcome| matches!(outcome, Outcome::Skipped { .. }));
    let mut rows: Vec<_> = outcomes.into_iter().filter_map(unmeasured_row).collect();
    rows.extend(missing(record).into_iter().map(|id| {
        let why = if record.footer.as_ref().is_some_and(|footer| footer.interrupted) {
            "the run was interrupted before it"
        } else {
            "the record ends before it"
        };
        vec![Cell::Code(id), text("not reached"), Cell::Absent, text(why)]
    }));
    Table::unless_empty("not_measured", "Failed, invalid, skipped or not reached", UNMEASURED, rows)
}

/// Ids that were planned and have no outcome.
pub fn missing(record: &Record) -> Vec<String> {
    let done: HashSet<_> = record.outcomes.iter().map(Outcome::case).collect();
    record
        .header
        .plan
        .iter()
        .filter(|case| !done.contains(case))
        .map(|case| case.to_string())
        .collect()
}

fn text(words: &str) -> Cell {
    Cell::Text(words.into())
}

/// What a case is quoted as: bandwidth, arithmetic or the time of one load.
pub fn rate(measurement: &Measurement) -> Cell {
    let median = measurement.summary.median;
    match &measurement.case.point {
        Point::Stream(_) => Cell::Bandwidth(measurement.work.memory / median),
        Point::Latency(_) | Point::Instruction(_) | Point::Launch(_) | Point::Sdc(_) => {
            Cell::Time(median)
        }
        Point::Access(_)
        | Point::Fused(_)
        | Point::Recurrence(_)
        | Point::Sparse(SparsePoint::TopK(_)) => Cell::Bandwidth(measurement.work.memory / median),
        Point::Transfer(point) if point.transfer.is_latency() => Cell::Time(median),
        Point::Transfer(point) => Cell::Bandwidth(point.moved() / median),
        Point::Compute(_)
        | Point::Gemm(_)
        | Point::Grouped(_)
        | Point::Attention(_)
        | Point::Sparse(SparsePoint::Decode(_)) => {
            Cell::Throughput(measurement.work.flops / median)
        }
        Point::Collective(point) => Cell::Bandwidth(point.message / median),
    }
}

fn busbw(measurement: &Measurement) -> Cell {
    match &measurement.case.point {
        Point::Collective(point) => {
            let algbw = point.message / measurement.summary.median;
            Cell::Bandwidth(algbw * point.collective.bus_factor(point.ranks))
        }
        _ => Cell::Absent,
    }
}

fn measured_row(measurement: &Measurement, ceilings: &Ceilings) -> Vec<Cell> {
    let summary = &measurement.summary;
    let light = measurement.tier.and_then(|tier| measurement.light(tier));
    let own = ceilings.light(measurement);
    let share = |share: Option<f64>| share.map_or(Cell::Absent, Cell::Share);
    let is_known = summary.interval.is_known();
    let end = |time| if is_known { Cell::Time(time) } else { Cell::Absent };
    let independent = summary.interval.independent;
    let foreign = ceilings.foreign(measurement);
    let tier = match (foreign, light) {
        (Some(target), _) => text(&format!("portable, not made for {target}")),
        (None, Some(light)) => text(tier_name(light.tier)),
        (None, None) if has_cached_part(measurement, ceilings) => {
            text(match measurement.case.point {
                Point::Fused(_) | Point::Recurrence(_) => "in caches",
                _ => "partly cached",
            })
        }
        (None, None) => ceilings.unknown_architecture.as_ref().map_or(Cell::Absent, |_| {
            text(&format!("{}, limit unknown", kind_of(&measurement.case.kernel)))
        }),
    };
    let bound = light.map(|light| light.bound).or(own.map(|(_, bound)| bound));
    vec![
        Cell::Code(measurement.case.to_string()),
        text("measured"),
        Cell::Time(summary.median),
        rate(measurement),
        busbw(measurement),
        share(measurement.utilisation().filter(|_| foreign.is_none())),
        tier,
        bound.map_or(Cell::Absent, |bound| Cell::Text(bound.to_string())),
        share(ceilings.share(measurement)),
        Cell::Share(summary.noise),
        end(summary.interval.low),
        end(summary.interval.high),
        Cell::Count(summary.count),
        independent.map_or(Cell::Absent, |independent| Cell::Count(independent as u64)),
        Cell::Count(u64::from(measurement.samples.batch)),
        text(measurement.cache.name()),
        cold_over_hot(measurement),
        text(stop_name(measurement.samples.stop)),
        text(verified(measurement)),
        measurement.started.as_deref().map_or(Cell::Absent, text),
        reproduce::code(measurement),
    ]
}

/// Whether it has no headline tier because caches may keep a part of its working set.
fn has_cached_part(measurement: &Measurement, ceilings: &Ceilings) -> bool {
    let working_set = match measurement.case.point {
        Point::Stream(point) => point.working_set,
        Point::Access(point) => point.working_set,
        Point::Fused(_) | Point::Recurrence(_) => measurement.work.memory,
        _ => return false,
    };
    let is_hot = measurement.cache == Cache::Hot;
    is_hot && !measurement.speed_of_light.is_empty() && !ceilings.in_memory(working_set)
}

/// How much longer it takes when the caches were evicted.
fn cold_over_hot(measurement: &Measurement) -> Cell {
    let is_one_state = measurement.doubt().is_none();
    let Some(contrast) = measurement.contrast.as_ref().filter(|_| is_one_state) else {
        return Cell::Absent;
    };
    if TwoStates::of(&contrast.samples.times).is_some() {
        return Cell::Absent;
    }
    let (here, there): (Seconds, Seconds) = (measurement.summary.median, contrast.summary.median);
    match (measurement.cache, contrast.cache) {
        (Cache::Cold, Cache::Hot) => Cell::Ratio(here / there),
        (Cache::Hot, Cache::Cold) => Cell::Ratio(there / here),
        _ => Cell::Absent,
    }
}

fn verified(measurement: &Measurement) -> &'static str {
    match (measurement.check.compared, measurement.check.passed()) {
        (0, _) => "nothing to check",
        (_, true) => "right",
        (_, false) => "wrong",
    }
}

fn unmeasured_row(outcome: &Outcome) -> Option<Vec<Cell>> {
    let case = Cell::Code(outcome.case().to_string());
    match outcome {
        Outcome::Measured(_) => None,
        Outcome::Skipped { reason, .. } => {
            Some(vec![case, text("skipped"), Cell::Absent, text(reason)])
        }
        Outcome::Failed { failure, error, .. } => {
            Some(vec![case, text("failed"), text(failure_name(*failure)), text(error)])
        }
        Outcome::Invalid { invalidity, reason, .. } => {
            Some(vec![case, text("invalid"), text(invalidity_name(*invalidity)), text(reason)])
        }
    }
}

/// Of a tier, in words.
pub fn tier_name(tier: Tier) -> &'static str {
    match tier {
        Tier::Datasheet => "datasheet",
        Tier::Observed => "observed clock",
        Tier::Algorithmic => "algorithm",
        Tier::Ceiling => "own best",
    }
}

fn stop_name(stop: StopReason) -> &'static str {
    match stop {
        StopReason::Quiet => "quiet",
        StopReason::NoiseSettled => "noise settled",
        StopReason::TimeBudget => "time budget",
        StopReason::SampleBudget => "sample budget",
    }
}

/// The kind of a failure.
pub fn failure_name(failure: Failure) -> &'static str {
    match failure {
        Failure::WrongResult => "wrong result",
        Failure::Allocation => "allocation",
        Failure::Launch => "launch",
        Failure::Hang => "hang",
        Failure::DeviceLost => "device lost",
        Failure::Other => "other",
    }
}

/// Why a time cannot be believed, in a word or two.
pub fn invalidity_name(invalidity: Invalidity) -> &'static str {
    match invalidity {
        Invalidity::FasterThanLight => "faster than light",
        Invalidity::Throttled => "throttled",
        Invalidity::Unresolved => "unresolved",
    }
}
