//! Figures that contradict themselves or their neighbours: what no machine in one state shows.

use super::{Cell, Column, Table, Weight, chart::measurements};
use fizeau_domain::{
    case::{LatencyPoint, Point},
    consistency::Doubt,
    outcome::{Cache, Measurement},
    text::{agreed, counted},
    units::{Bytes, Celsius, Joules, Megahertz, Seconds, Watts},
};
use fizeau_record::Record;
use std::collections::BTreeMap;

const COLUMNS: &[Column] = &[
    Column { key: "case", title: "case", weight: Weight::Essential },
    Column { key: "contradiction", title: "what contradicts it", weight: Weight::Essential },
];

/// A latency counts as lower than that of a shorter chain where it is lower by more than this
/// share, and by more than [`NOISES`] times the noise of both.
const FALLS: f64 = 0.03;

/// See [`FALLS`].
const NOISES: f64 = 3.0;

/// What contradicts the figure of one case.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Id of the case.
    pub case: String,
    /// What contradicts it, in words.
    pub words: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    TwoStates,
    HotSlower,
    LatencyFalls,
    MemoryFaster,
    Power,
    Reading,
    Time,
}

/// Everything in a record that contradicts itself, by kind and in the record's order.
pub fn findings(record: &Record) -> Vec<Finding> {
    let limit = record.header.environment.settings.as_ref().and_then(|set| set.power_limit);
    let doubts = measurements(record).filter_map(doubt);
    let power = measurements(record).filter_map(|one| power(one, limit));
    let most = record.header.device.clock.filter(|_| record.header.device.backend != "host");
    let readings = measurements(record).filter_map(|one| reading(one, most));
    let times = measurements(record).filter_map(times);
    let of_curves = latencies(record).into_iter().chain(streams(record));
    doubts.chain(of_curves).chain(power).chain(readings).chain(times).collect()
}

/// A clock may read above the one that a driver states as the highest by this share: it is counted
/// over an interval.
const CLOCK_ABOVE: f64 = 1.02;

/// Temperatures that a device which still works reads, in degrees Celsius.
const TEMPERATURES: [f64; 2] = [-60.0, 150.0];

/// What no sensor reads: a clock above the most that the driver of a GPU states, a least that is
/// above its most, a counter of energy that went back, or a temperature at which nothing works.
fn reading(one: &Measurement, most: Option<Megahertz>) -> Option<Finding> {
    let seen = one.telemetry.as_ref()?;
    let above = |low: Option<f64>, high: Option<f64>, slack: f64| {
        low.zip(high).filter(|(low, high)| *high > 0.0 && *low > slack * *high)
    };
    let [low, high, most] = [seen.clock_min, seen.clock_max, most].map(|one| one.map(|one| one.0));
    let watts = [seen.power_mean, seen.power_max].map(|one| one.map(|one| one.0));
    let is_back = |energy: &Joules| !(energy.0.is_finite() && energy.0 >= 0.0);
    let is_hot = |one: &Celsius| !(TEMPERATURES[0]..=TEMPERATURES[1]).contains(&one.0);
    let mut hot = [seen.temperature_max, seen.memory_temperature_max].into_iter().flatten();
    let words = if let Some((read, most)) = above(high, most, CLOCK_ABOVE) {
        format!("a clock of {read} MHz was read, and {most} MHz is the most that the driver states")
    } else if let Some((low, high)) = above(low, high, 1.0) {
        format!("the lowest clock that was read is {low} MHz, and the highest {high} MHz")
    } else if let Some((mean, high)) = above(watts[0], watts[1], 1.001) {
        format!("the mean of its power is {mean:.1} W, and the highest {high:.1} W")
    } else if let Some(energy) = seen.energy.filter(is_back) {
        format!("its energy is {} J: the counter went back", energy.0)
    } else if let Some(elapsed) = seen.elapsed.filter(|elapsed| is_shorter(one, *elapsed)) {
        format!("its sensors were read over {elapsed}, and its samples alone took longer")
    } else {
        format!("a temperature of {} degrees was read", hot.find(is_hot)?.0)
    };
    Some(Finding { case: one.case.to_string(), words, kind: Kind::Reading })
}

/// Whether a time is shorter than all samples together, which lie within it.
fn is_shorter(one: &Measurement, elapsed: Seconds) -> bool {
    let all: f64 = one.samples.times.iter().map(|time| time.0).sum();
    elapsed.0 < 0.9 * all
}

/// Samples that are no times, or that all are one number: a clock stood still, or one reading was
/// written down again and again. Of short times a timer's steps may be as long as they differ.
fn times(one: &Measurement) -> Option<Finding> {
    let beside = one.contrast.iter().map(|one| &one.samples);
    let beside = beside.chain(one.beside.iter().map(|one| &one.samples));
    let words = std::iter::once(&one.samples).chain(beside).find_map(|samples| {
        let times = &samples.times;
        if let Some(time) = times.iter().find(|time| !(time.0.is_finite() && time.0 > 0.0)) {
            return Some(format!("one of its samples is {} s", time.0));
        }
        let first = times.first().filter(|first| first.0 > REPEATED_TIME)?;
        let is_first = |time: &Seconds| time.0.to_bits() == first.0.to_bits();
        let is_repeated = times.len() >= REPEATED_MIN && times.iter().all(is_first);
        is_repeated.then(|| format!("all of its {} samples are {first}", times.len()))
    })?;
    Some(Finding { case: one.case.to_string(), words, kind: Kind::Time })
}

/// Of times that are longer than this many seconds the timers of GPUs, which step by 0.5 to 1 us,
/// show how they differ.
const REPEATED_TIME: f64 = 1e-3;

/// As many samples as these are not alike to the last digit by chance.
const REPEATED_MIN: usize = 10;

fn doubt(one: &Measurement) -> Option<Finding> {
    let doubt = one.doubt()?;
    let kind = match doubt {
        Doubt::TwoStates(_) => Kind::TwoStates,
        Doubt::HotSlower(_) => Kind::HotSlower,
    };
    Some(Finding { case: one.case.to_string(), words: doubt.to_string(), kind })
}

/// Latencies of chains that lie below that of a shorter chain by the same kernel: some of the
/// longer chain's loads were answered by a cache.
fn latencies(record: &Record) -> Vec<Finding> {
    let mut curves: BTreeMap<&str, Vec<(Bytes, &Measurement)>> = BTreeMap::new();
    for one in measurements(record) {
        if let Point::Latency(LatencyPoint { working_set, side: None, pair: None }) = one.case.point
        {
            curves.entry(&one.case.kernel.0).or_default().push((working_set, one));
        }
    }
    let mut found = Vec::new();
    for mut curve in curves.into_values() {
        curve.sort_by_key(|(size, _)| *size);
        let mut most: Option<(Bytes, &Measurement)> = None;
        for (size, one) in curve {
            let median = one.summary.median;
            let below = most.filter(|(_, most)| {
                let noise = one.summary.noise + most.summary.noise;
                1.0 - median / most.summary.median > FALLS.max(NOISES * noise)
            });
            if let Some((shorter, longest)) = below {
                let before = longest.summary.median;
                let words = format!("{median}, while a shorter chain of {shorter} has {before}");
                found.push(Finding { case: one.case.to_string(), words, kind: Kind::LatencyFalls });
            }
            if most.is_none_or(|(_, most)| most.summary.median.0 < median.0) {
                most = Some((size, one));
            }
        }
    }
    found
}

/// Streams from memory that are faster than the longest stream of the same kernel that the caches
/// hold: then the shorter one was not timed in the state of the longer one. From memory are those
/// beyond four last caches, of which caches hold no part that counts.
fn streams(record: &Record) -> Vec<Finding> {
    let cache = record.header.device.last_level_cache();
    let mut streams: Vec<(Bytes, &Measurement)> = Vec::new();
    for one in measurements(record).filter(|one| one.cache == Cache::Hot) {
        if let Point::Stream(point) = one.case.point {
            streams.push((point.working_set, one));
        }
    }
    let is_alike = |one: &Measurement, other: &Measurement| match (one.case.point, other.case.point)
    {
        (Point::Stream(a), Point::Stream(b)) => {
            (a.stream, a.units, &one.case.kernel) == (b.stream, b.units, &other.case.kernel)
        }
        _ => false,
    };
    let mut found = Vec::new();
    for (_, one) in streams.iter().filter(|(size, _)| size.0 >= 4 * cache.0) {
        let held = streams.iter().filter(|(size, other)| *size <= cache && is_alike(one, other));
        let Some((shorter, within)) = held.max_by_key(|(size, _)| *size) else { continue };
        let rate = |one: &Measurement| one.work.memory / one.summary.median;
        let noise = one.summary.noise + within.summary.noise;
        let above = rate(one).0 / rate(within).0 - 1.0;
        if above > FALLS.max(NOISES * noise) {
            let words =
                format!("{}, while {shorter} within caches have {}", rate(one), rate(within));
            let case = one.case.to_string();
            found.push(Finding { case, words, kind: Kind::MemoryFaster });
        }
    }
    found
}

/// A mean or a highest power that no device of this limit can have.
fn power(one: &Measurement, limit: Option<Watts>) -> Option<Finding> {
    let seen = one.telemetry.as_ref()?;
    let limit = limit.filter(|limit| limit.0 > 0.0)?;
    // Boards exceed their limit for moments, and no mean over a case does so by a twentieth.
    let mean = seen.power().map(|(power, _)| (power, "mean", 1.05));
    let read = [(seen.power_mean, "mean", 1.05), (seen.power_max, "highest", 1.5)];
    let read = read.into_iter().filter_map(|(power, which, most)| Some((power?, which, most)));
    let impossible =
        |&(power, _, most): &(Watts, &str, f64)| !(power.0 > 0.0 && power.0 <= most * limit.0);
    let (power, which, _) = mean.into_iter().chain(read).find(impossible)?;
    let words = format!("its {which} power is {power}, of a device whose limit is {limit}");
    Some(Finding { case: one.case.to_string(), words, kind: Kind::Power })
}

/// Whether some of a chain's loads were answered by a cache, by the times of shorter chains.
pub fn has_cached_loads(record: &Record, one: &Measurement) -> bool {
    let case = one.case.to_string();
    latencies(record).iter().any(|found| found.case == case)
}

/// One row for each contradiction.
pub fn table(record: &Record) -> Option<Table> {
    let row = |found: Finding| vec![Cell::Code(found.case), Cell::Text(found.words)];
    let rows: Vec<_> = findings(record).into_iter().map(row).collect();
    Table::unless_empty("contradictions", "Figures that contradict themselves", COLUMNS, rows)
}

/// A sentence for each kind of contradiction.
pub fn sentences(record: &Record) -> Vec<String> {
    let all = findings(record);
    let sentence = |kind: Kind| {
        let of_it: Vec<&Finding> = all.iter().filter(|found| found.kind == kind).collect();
        let first = of_it.first()?;
        let case = match of_it.len() {
            1 => format!("It is {}", first.case),
            _ => format!("The first is {}", first.case),
        };
        let figures = counted(of_it.len(), "figure");
        Some(format!("{figures} {}. {case}: {}.", words_of(kind, of_it.len()), first.words))
    };
    let kinds = [
        Kind::TwoStates,
        Kind::HotSlower,
        Kind::LatencyFalls,
        Kind::MemoryFaster,
        Kind::Power,
        Kind::Reading,
        Kind::Time,
    ];
    kinds.into_iter().filter_map(sentence).collect()
}

/// What is wrong with this many figures, after their number.
fn words_of(kind: Kind, count: usize) -> String {
    let are = agreed(count, "is", "are");
    let them = agreed(count, "it", "them");
    match kind {
        Kind::TwoStates => "of this run had two states of the machine. Such a median depends on \
                            when sampling ended, so that no share and no ratio is computed from it"
            .into(),
        Kind::HotSlower => format!(
            "of this run took longer with hot caches than with cold ones, which no cache explains. \
             No share and no ratio is computed from {them}"
        ),
        Kind::LatencyFalls => {
            "of latency fell below that of a shorter chain: a cache answered some of the loads"
                .into()
        }
        Kind::MemoryFaster => format!(
            "of streams from memory {are} faster than a stream of the same kernel within caches"
        ),
        Kind::Power => format!("of power {are} impossible"),
        Kind::Reading => format!("{} readings that no sensor gives", agreed(count, "has", "have")),
        Kind::Time => format!("{} times that no clock gives", agreed(count, "has", "have")),
    }
}
