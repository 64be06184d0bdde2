//! The charts of a run: which outcomes become which curves.

use super::{
    Axis, Ceilings, Chart, Mark, PlottedCase, Quantity, Series, SeriesKind, ceiling,
    startup_fit::fit_startup,
};
use fizeau_domain::{
    case::{Buffers, Collective, CollectivePoint, Place, Point, StreamPoint},
    dtype::Dtype,
    outcome::Measurement,
    spec::{Properties, Tier},
    units::{Bytes, BytesPerSecond, Seconds},
};
use fizeau_record::Record;
use std::collections::{BTreeMap, BTreeSet};

/// A curve needs this many points to be one.
const CURVE_POINTS_MIN: usize = 3;
/// More curves than this cannot be told apart.
const CURVES_MAX: usize = 7;
/// Collectives of one chart: all that there are in any suite of ours.
const COLLECTIVE_CURVES_MAX: usize = 64;
/// Charts of one kind; the tables have what more there is.
const CHARTS_MAX: usize = 16;

/// The measured outcomes of a record.
pub fn measurements(record: &Record) -> impl Iterator<Item = &Measurement> {
    record.outcomes.iter().filter_map(|outcome| outcome.measured())
}

fn streams(record: &Record) -> impl Iterator<Item = (&Measurement, StreamPoint)> {
    measurements(record).filter_map(|measurement| match measurement.case.point {
        Point::Stream(point) => Some((measurement, point)),
        _ => None,
    })
}

fn collectives(record: &Record) -> impl Iterator<Item = (&Measurement, CollectivePoint)> {
    measurements(record).filter_map(|measurement| match measurement.case.point {
        Point::Collective(point) => Some((measurement, point)),
        _ => None,
    })
}

/// Bytes over the median time.
fn rate(bytes: Bytes, measurement: &Measurement) -> f64 {
    (bytes / measurement.summary.median).0
}

/// Of memory: bandwidth and latency against working set, bandwidth against units.
pub fn memory(record: &Record, ceilings: &Ceilings) -> impl Iterator<Item = Chart> {
    bandwidth(record).into_iter().chain(latency(record)).chain(scaling(record, ceilings))
}

/// Of the collectives: bus bandwidth and time against message size.
pub fn collective(record: &Record) -> impl Iterator<Item = Chart> {
    collective_bandwidth(record).into_iter().chain(collective_time(record))
}

/// Sorts, keeps what can be drawn, and drops what is no curve.
fn curve(name: String, mut points: Vec<(f64, f64)>) -> Option<Series> {
    points.retain(|(x, y)| x.is_finite() && y.is_finite() && *x > 0.0 && *y > 0.0);
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points.dedup_by(|a, b| a.0 == b.0);
    let (kind, cases) = (SeriesKind::Curve, Vec::new());
    (points.len() >= CURVE_POINTS_MIN).then_some(Series { name, kind, points, cases })
}

/// Caches as marks on an axis of working sets, all instances together that `units` units have.
fn cache_marks(device: &Properties, units: u32) -> Vec<Mark> {
    device
        .caches
        .iter()
        .map(|cache| {
            let instances = u64::from(units.div_ceil(cache.shared_by.max(1)).max(1));
            let size = cache.size * instances;
            Mark { at: size.0 as f64, label: format!("L{} {size}", cache.level) }
        })
        .collect()
}

/// Points by operation and kernel.
type Curves = BTreeMap<(String, String), Vec<(f64, f64)>>;

/// Bandwidth against working set, a chart for each number of units that swept: one curve for each
/// operation and kernel.
fn bandwidth(record: &Record) -> Vec<Chart> {
    let mut sweeps: BTreeMap<u32, Curves> = BTreeMap::new();
    for (measurement, point) in streams(record) {
        let key = (point.stream.to_string(), measurement.case.kernel.0.clone());
        let place = (point.working_set.0 as f64, rate(measurement.work.memory, measurement));
        sweeps.entry(point.units).or_default().entry(key).or_default().push(place);
    }
    let charts = sweeps
        .into_iter()
        .filter_map(|(units, curves)| bandwidth_of(&record.header.device, units, curves));
    charts.take(CHARTS_MAX).collect()
}

fn bandwidth_of(device: &Properties, units: u32, curves: Curves) -> Option<Chart> {
    let curves: Vec<_> = curves
        .into_iter()
        .filter_map(|((stream, kernel), points)| Some((kernel, curve(stream, points)?)))
        .collect();
    let kernels: BTreeSet<String> = curves.iter().map(|(kernel, _)| kernel.clone()).collect();
    let mut series: Vec<Series> = curves
        .into_iter()
        .map(|(kernel, series)| {
            let kernel = if kernels.len() > 1 { format!(" {kernel}") } else { String::new() };
            Series { name: series.name + &kernel, ..series }
        })
        .collect();
    series.truncate(CURVES_MAX);
    let by = if units == 1 { "one unit".into() } else { format!("{units} units") };
    (!series.is_empty()).then(|| Chart {
        name: format!("bandwidth_{units}u"),
        title: format!("Bandwidth against working set, {by}"),
        caption: "Bytes each second as STREAM counts them. Each step down is a level of cache \
                  left behind; the level at the right is memory."
            .into(),
        x: Axis::logarithmic("working set", Quantity::Size),
        y: Axis::logarithmic("bandwidth", Quantity::Bandwidth),
        series,
        marks: cache_marks(device, units),
    })
}

/// Time of one dependent load against working set.
fn latency(record: &Record) -> Option<Chart> {
    let mut curves: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for measurement in measurements(record) {
        let Point::Latency(point) = measurement.case.point else { continue };
        if point.side.is_some() || point.pair.is_some() {
            continue;
        }
        curves
            .entry(measurement.case.kernel.0.clone())
            .or_default()
            .push((point.working_set.0 as f64, measurement.summary.median.0));
    }
    let series: Vec<_> =
        curves.into_iter().filter_map(|(kernel, points)| curve(kernel, points)).collect();
    (!series.is_empty()).then(|| Chart {
        name: "latency".into(),
        title: "Latency against working set".into(),
        caption: "Time of one load that must wait for the load before it, at random places: what \
                  each level of the memory costs when nothing hides it."
            .into(),
        x: Axis::logarithmic("working set", Quantity::Size),
        y: Axis::logarithmic("time of one load", Quantity::Time),
        series,
        marks: cache_marks(&record.header.device, 1),
    })
}

/// A limit this many times the best rate is said below a chart: drawn, it would leave no room for
/// the curves.
const FAR: f64 = 3.0;

/// Bandwidth against the number of units, in memory.
fn scaling(record: &Record, ceilings: &Ceilings) -> Option<Chart> {
    let mut curves: BTreeMap<(String, String, u64), Vec<(f64, f64)>> = BTreeMap::new();
    for (measurement, point) in
        streams(record).filter(|(_, point)| ceilings.in_memory(point.working_set))
    {
        let key =
            (point.stream.to_string(), measurement.case.kernel.0.clone(), point.working_set.0);
        let y = rate(measurement.work.memory, measurement);
        curves.entry(key).or_default().push((f64::from(point.units), y));
    }
    let mut series = Vec::new();
    for ((stream, kernel, _), mut points) in curves {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points.dedup_by(|a, b| a.0 == b.0);
        // Two points are a curve here: a machine may have two units.
        if points.len() >= 2 {
            let name = format!("{stream} {kernel}");
            series.push(Series::new(name, SeriesKind::Curve, points));
        }
    }
    series.truncate(CURVES_MAX);
    let best = { series.iter() }.flat_map(|series| series.points.iter().map(|(_, rate)| *rate));
    let best = best.fold(0.0, f64::max);
    let peak = ceiling::memory_peak(record, Tier::Datasheet);
    let far = peak.filter(|peak| peak.0 > FAR * best);
    if let Some(peak) = peak.filter(|_| far.is_none()) {
        let units = f64::from(record.header.device.units.max(2));
        series.push(Series::new(
            format!("datasheet {peak}"),
            SeriesKind::Limit,
            vec![(1.0, peak.0), (units, peak.0)],
        ));
    }
    series.iter().any(|series| series.kind == SeriesKind::Curve).then(|| Chart {
        name: "scaling".into(),
        title: "Memory bandwidth against units".into(),
        caption: format!(
            "How many cores it takes to fill memory: a curve that flattens has met the memory's \
             limit, one that rises to the end has not.{}",
            far.map_or(String::new(), |peak| format!(
                " The datasheet's {peak} lie above the chart: these cores reach {:.0} % of them.",
                best / peak.0 * 100.0
            ))
        ),
        x: Axis::linear("units", Quantity::Count),
        y: Axis::linear("bandwidth", Quantity::Bandwidth),
        series,
        marks: Vec::new(),
    })
}

/// Where each case stands under the ceilings of memory and arithmetic.
pub fn roofline(record: &Record, ceilings: &Ceilings) -> Option<Chart> {
    let memory = ceilings.memory.as_ref()?;
    let mut kinds: BTreeMap<_, Vec<(_, PlottedCase)>> = BTreeMap::new();
    for measurement in measurements(record) {
        let point = &measurement.case.point;
        let in_memory = match point {
            Point::Stream(stream) => ceilings.in_memory(stream.working_set),
            Point::Gemm(_) | Point::Grouped(_) | Point::Attention(_) | Point::Sparse(_) => true,
            _ => false,
        };
        let work = &measurement.work;
        if in_memory && work.memory.0 > 0 && work.flops.0 > 0.0 {
            let x = work.flops.0 / work.memory.0 as f64;
            let y = (work.flops / measurement.summary.median).0;
            let id = measurement.case.to_string();
            let case = PlottedCase { id, share: ceilings.share(measurement) };
            kinds.entry(point.operation()).or_default().push(((x, y), case));
        }
    }
    let xs: Vec<f64> = kinds.values().flatten().map(|((x, _), _)| *x).collect();
    let low = xs.iter().copied().fold(f64::INFINITY, f64::min) / 2.0;
    let dtypes: Vec<Dtype> = ceilings.compute.keys().copied().collect();
    let corner = |dtype: &Dtype| ceilings.compute[dtype].rate.0 / memory.rate.0;
    let high = xs.iter().copied().chain(dtypes.iter().map(corner)).fold(0.0, f64::max) * 2.0;
    if kinds.is_empty() || dtypes.is_empty() {
        return None;
    }
    let mut series: Vec<_> = dtypes
        .iter()
        .map(|dtype| {
            let best = &ceilings.compute[dtype];
            let start = (low, low * memory.rate.0);
            let points = vec![start, (corner(dtype), best.rate.0), (high, best.rate.0)];
            let name = format!("{dtype} {}", best.rate);
            Series::new(name, SeriesKind::Limit, points)
        })
        .collect();
    series.extend(kinds.into_iter().map(|(name, mut points)| {
        points.sort_by(|(a, _), (b, _)| a.0.total_cmp(&b.0));
        let (points, cases) = points.into_iter().unzip();
        Series { name: name.into(), kind: SeriesKind::Points, points, cases }
    }));
    Some(Chart {
        name: "roofline".into(),
        title: "Roofline".into(),
        caption: format!(
            "Each point is a case; the lines are the best rates this run measured: {} of memory \
             along the slope, arithmetic along the flats. A point above the slope had its \
             operands in a cache.",
            memory.rate
        ),
        x: Axis::logarithmic("operations for each byte", Quantity::Intensity),
        y: Axis::logarithmic("operations each second", Quantity::Throughput),
        series,
        marks: Vec::new(),
    })
}

/// A collective of one element type, with how its buffers are allocated and how many are one graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Swept {
    /// Which.
    pub collective: Collective,
    dtype: Dtype,
    buffers: Buffers,
    graph: u32,
}

impl Swept {
    /// Whose points are one curve.
    pub fn of(point: &CollectivePoint) -> Swept {
        let CollectivePoint { collective, dtype, buffers, graph, .. } = *point;
        Swept { collective, dtype, buffers, graph }
    }

    /// Its name; the element type is left out where a record has but one.
    pub fn named(&self, record: &Record) -> String {
        let Swept { collective, dtype, buffers, graph } = *self;
        let is_one = collectives(record).all(|(_, point)| point.dtype == dtype);
        let named = CollectivePoint {
            buffers,
            graph,
            ..CollectivePoint::new(collective, dtype, Bytes(0), 0)
        };
        let variant = named.variant();
        if is_one {
            format!("{collective}{variant}")
        } else {
            format!("{collective} {dtype}{variant}")
        }
    }
}

/// The times of each collective by message size; out of place where both were measured.
pub fn collective_times(record: &Record) -> BTreeMap<Swept, Vec<(Bytes, Seconds)>> {
    let mut times: BTreeMap<Swept, BTreeMap<u64, (bool, Seconds)>> = BTreeMap::new();
    let of_buffers = |point: &CollectivePoint| point.place != Place::Unaligned;
    for (measurement, point) in collectives(record).filter(|(_, point)| of_buffers(point)) {
        let preferred = point.place == Place::OutOfPlace;
        let slot = times.entry(Swept::of(&point)).or_default().entry(point.message.0);
        let value = (preferred, measurement.summary.median);
        slot.and_modify(|held| *held = if preferred { value } else { *held }).or_insert(value);
    }
    times
        .into_iter()
        .map(|(collective, times)| {
            (collective, times.into_iter().map(|(size, (_, time))| (Bytes(size), time)).collect())
        })
        .collect()
}

fn ranks(record: &Record) -> u32 {
    collectives(record).map(|(_, point)| point.ranks).max().unwrap_or(1)
}

/// Bus bandwidth against message size.
fn collective_bandwidth(record: &Record) -> Option<Chart> {
    let ranks = ranks(record);
    let series: Vec<_> = collective_times(record)
        .into_iter()
        .filter_map(|(of, times)| {
            let busbw = |(message, time): (Bytes, Seconds)| {
                let algbw: BytesPerSecond = message / time;
                (message.0 as f64, algbw.0 * of.collective.bus_factor(ranks))
            };
            curve(of.named(record), times.into_iter().map(busbw).collect())
        })
        .collect();
    (!series.is_empty()).then(|| Chart {
        name: "busbw".into(),
        title: "Bus bandwidth against message size".into(),
        caption: format!(
            "{ranks} ranks. busbw = algbw x factor, as nccl-tests defines both, so that \
             collectives can be set beside each other; it is no wire speed."
        ),
        x: Axis::logarithmic("message size", Quantity::Size),
        y: Axis::logarithmic("bus bandwidth", Quantity::Bandwidth),
        series: series.into_iter().take(COLLECTIVE_CURVES_MAX).collect(),
        marks: Vec::new(),
    })
}

/// Time against message size.
fn collective_time(record: &Record) -> Option<Chart> {
    let series: Vec<_> = collective_times(record)
        .into_iter()
        .filter_map(|(of, times)| {
            let points = times.into_iter().map(|(size, time)| (size.0 as f64, time.0)).collect();
            curve(of.named(record), points)
        })
        .collect();
    let holds = |times: &Vec<_>| fit_startup(times).is_some_and(|fit| fit.holds());
    let fitted = collective_times(record).values().any(holds);
    (!series.is_empty()).then(|| Chart {
        name: "collective_time".into(),
        title: "Time against message size".into(),
        caption: if fitted {
            "Flat at the left is the start-up cost, the slope at the right the bandwidth; the \
             table below gives both and where they meet, for collectives that follow this model."
                .into()
        } else {
            "Flat at the left is the start-up cost, the slope at the right the bandwidth.".into()
        },
        x: Axis::logarithmic("message size", Quantity::Size),
        y: Axis::logarithmic("time", Quantity::Time),
        series: series.into_iter().take(COLLECTIVE_CURVES_MAX).collect(),
        marks: Vec::new(),
    })
}
