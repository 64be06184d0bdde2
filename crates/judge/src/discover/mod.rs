//! What a device can do, from a record of what was measured on it: caches by the knees of curves,
//! lines, latencies of instructions, rates of arithmetic, and what a draft of a part's file states
//! of them. docs/discover.md says what is measured how.

pub mod check;
pub mod draft;
pub mod knee;
pub mod search;

use fizeau_domain::{
    case::{AccessPoint, InstructionPoint, LatencyPoint, Point, StreamOperation, StreamPoint},
    dtype::Dtype,
    outcome::Measurement,
    random_peaks::RandomPeaks,
    units::{Bytes, BytesPerSecond, FlopsPerSecond, Megahertz, Seconds},
};
use fizeau_record::Record;
use knee::Knee;
use std::collections::BTreeMap;

/// What was found out about a device. What was not measured is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Discovery {
    /// Clock while cases ran: lowest, median and highest median of a case.
    pub clock: Option<[Megahertz; 3]>,
    /// Caches, the smallest first.
    pub caches: Vec<CacheFound>,
    /// Memory behind all caches.
    pub memory: MemoryFound,
    /// Bytes that one miss brings into the first cache.
    pub line: Option<Bytes>,
    /// Bytes that one unit loads from its first cache each clock.
    pub load_per_clock: Option<PerClock>,
    /// Bytes that it stores there each clock.
    pub store_per_clock: Option<PerClock>,
    /// Latencies of instructions.
    pub instructions: Vec<InstructionFound>,
    /// The fastest arithmetic of each element type.
    pub arithmetic: Vec<ArithmeticFound>,
    /// Everything else that was measured: launches, copies, shared memory, reads in random order,
    /// the halves of a last cache.
    pub others: Vec<OtherFound>,
    /// Cases in which other processes took more than a fifth of the units.
    pub disturbed: usize,
    /// Smallest and largest working set of the latency sweep.
    pub swept: Option<[Bytes; 2]>,
}

/// A cache.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheFound {
    /// Where latency steps up behind it, or bandwidth down where no latency was measured.
    pub knee: Knee,
    /// Where the bandwidth of reads steps down, if it does within a step of the other.
    pub by_bandwidth: Option<Knee>,
    /// Time of one dependent load on the plateau.
    pub latency: Option<Seconds>,
    /// The same in cycles of the clock seen meanwhile.
    pub cycles: Option<f64>,
    /// The best read bandwidth of working sets that it holds.
    pub read: Option<BytesPerSecond>,
}

impl CacheFound {
    /// The largest working set that was found in it.
    pub fn size(&self) -> Bytes {
        Bytes(self.knee.holds)
    }
}

/// Memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryFound {
    /// Time of one dependent load in the largest chain that TLBs reach.
    pub latency: Option<Seconds>,
    /// The same in cycles.
    pub cycles: Option<f64>,
    /// The best read by all units.
    pub read: Option<BytesPerSecond>,
    /// The best of all streams by all units, and its case.
    pub best: Option<(BytesPerSecond, String)>,
}

/// Bytes of one unit in one clock.
#[derive(Clone, Debug, PartialEq)]
pub struct PerClock {
    /// Bytes.
    pub bytes: f64,
    /// Bytes of one instruction of the kernel, where its name tells.
    pub width: Option<f64>,
    /// The case.
    pub case: String,
}

/// The latency of an instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct InstructionFound {
    /// Which one, and of which element type.
    pub point: InstructionPoint,
    /// The kernel, which names the width of its registers.
    pub kernel: String,
    /// Time of one.
    pub time: Seconds,
    /// The same in cycles of the clock seen meanwhile.
    pub cycles: Option<f64>,
}

/// The fastest arithmetic of an element type: by random numbers, where the run has it.
#[derive(Clone, Debug, PartialEq)]
pub struct ArithmeticFound {
    /// Element type.
    pub dtype: Dtype,
    /// The kernel that was fastest.
    pub kernel: String,
    /// Operations each second of all units.
    pub rate: FlopsPerSecond,
    /// Operations of one unit in one clock.
    pub per_clock: Option<f64>,
    /// Operations in the time that memory takes to read one byte.
    pub per_byte: Option<f64>,
}

/// Something that is quoted as it was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct OtherFound {
    /// The case.
    pub case: String,
    /// Its median.
    pub time: Seconds,
    /// Its rate, where it moves bytes.
    pub rate: Option<BytesPerSecond>,
}

/// The widths of registers that names of host kernels begin with, in bytes.
const WIDTHS: [(&str, f64); 2] = [("avx512", 64.0), ("avx2", 32.0)];

impl Discovery {
    /// What a record tells.
    pub fn of(record: &Record) -> Discovery {
        let all: Vec<&Measurement> =
            record.outcomes.iter().filter_map(|outcome| outcome.measured()).collect();
        let units = f64::from(record.header.device.units.max(1));
        let chains = chains(&all);
        let reads = sweep(&all, StreamOperation::Read);
        let caches = caches(&chains, &reads);
        let memory = memory(&all, &chains, record.header.device.units);
        Discovery {
            clock: clocks(&all),
            load_per_clock: per_clock(&reads, caches.first()),
            store_per_clock: per_clock(&sweep(&all, StreamOperation::Write), caches.first()),
            line: line(&all),
            instructions: instructions(&all),
            arithmetic: arithmetic(&all, units, memory.read),
            others: others(&all),
            disturbed: all.iter().filter(|one| one.disturbed()).count(),
            swept: chains.first().zip(chains.last()).map(|(first, last)| [first.0, last.0]),
            caches,
            memory,
        }
    }
}

/// Measurements by working set, ascending.
type Curve<'r> = Vec<(Bytes, &'r Measurement)>;

/// Of several curves the one with the most points, in order.
fn longest<'r, K: Ord>(curves: BTreeMap<K, Curve<'r>>) -> Curve<'r> {
    let mut curve = curves.into_values().max_by_key(Vec::len).unwrap_or_default();
    curve.sort_by_key(|(size, _)| *size);
    curve
}

/// Dependent loads over whole working sets, as far as TLBs reach.
fn chains<'r>(all: &[&'r Measurement]) -> Curve<'r> {
    let mut curves: BTreeMap<&str, Curve<'r>> = BTreeMap::new();
    for one in all {
        if let Point::Latency(LatencyPoint { working_set, side: None, pair: None }) = one.case.point
            && working_set < LatencyPoint::BEYOND_TLB
        {
            curves.entry(&one.case.kernel.0).or_default().push((working_set, one));
        }
    }
    longest(curves)
}

/// Streams over working sets of all sizes, by one kernel and one number of units.
fn sweep<'r>(all: &[&'r Measurement], stream: StreamOperation) -> Curve<'r> {
    let mut curves: BTreeMap<(&str, u32), Curve<'r>> = BTreeMap::new();
    for one in all {
        if let Point::Stream(point) = one.case.point
            && point.stream == stream
        {
            let key = (one.case.kernel.0.as_str(), point.units);
            curves.entry(key).or_default().push((point.working_set, one));
        }
    }
    longest(curves)
}

fn read_rate(one: &Measurement) -> BytesPerSecond {
    one.work.memory / one.summary.median
}

fn cycles(time: Seconds, one: &Measurement) -> Option<f64> {
    one.clock.map(|Megahertz(clock)| time.0 * clock * 1e6)
}

fn caches(chains: &Curve<'_>, reads: &Curve<'_>) -> Vec<CacheFound> {
    let of_loads: Vec<(u64, f64)> =
        chains.iter().map(|(size, one)| (size.0, one.summary.median.0)).collect();
    let of_bytes: Vec<(u64, f64)> =
        reads.iter().map(|(size, one)| (size.0, 1.0 / read_rate(one).0)).collect();
    let by_bandwidth = knee::knees(&of_bytes);
    let has_latency = !chains.is_empty();
    let found = if has_latency { knee::knees(&of_loads) } else { by_bandwidth.clone() };
    let mut before = 0;
    let cache = |knee: Knee| {
        let beyond = std::mem::replace(&mut before, knee.holds);
        let within = |size: &Bytes| (beyond + 1..=knee.holds).contains(&size.0);
        let read = reads.iter().filter(|(size, _)| within(size)).map(|(_, one)| read_rate(one));
        let on_plateau = chains.iter().filter(|(size, _)| within(size));
        // The measurement whose time is nearest to the plateau's has the clock of the plateau.
        let nearest = on_plateau.map(|(_, one)| *one).min_by(|a, b| {
            let off = |one: &Measurement| (one.summary.median.0 - knee.before).abs();
            off(a).total_cmp(&off(b))
        });
        let latency = has_latency.then_some(Seconds(knee.before));
        CacheFound {
            knee,
            by_bandwidth: by_bandwidth.iter().copied().find(|other| knee.is_near(other.holds)),
            latency,
            cycles: latency.zip(nearest).and_then(|(time, one)| cycles(time, one)),
            read: read.max_by(|a, b| a.0.total_cmp(&b.0)),
        }
    };
    found.into_iter().map(cache).collect()
}

fn memory(all: &[&Measurement], chains: &Curve<'_>, units: u32) -> MemoryFound {
    let streams = all.iter().filter_map(|one| match one.case.point {
        Point::Stream(StreamPoint { stream, working_set, units: of }) if of == units => {
            Some((working_set, stream, *one))
        }
        _ => None,
    });
    let streams: Vec<_> = streams.collect();
    let largest = streams.iter().map(|(size, ..)| *size).max();
    let beyond = || streams.iter().filter(|(size, ..)| Some(*size) == largest);
    let best_of = |stream: Option<StreamOperation>| {
        let wanted = beyond().filter(|(_, of, _)| stream.is_none_or(|stream| stream == *of));
        let rates = wanted.map(|(.., one)| (read_rate(one), one.case.to_string()));
        rates.max_by(|a, b| a.0.0.total_cmp(&b.0.0))
    };
    let last = chains.last().map(|(_, one)| *one);
    MemoryFound {
        latency: last.map(|one| one.summary.median),
        cycles: last.and_then(|one| cycles(one.summary.median, one)),
        read: best_of(Some(StreamOperation::Read)).map(|(rate, _)| rate),
        best: best_of(None),
    }
}

fn clocks(all: &[&Measurement]) -> Option<[Megahertz; 3]> {
    let mut clocks: Vec<f64> = all.iter().filter_map(|one| one.clock).map(|of| of.0).collect();
    clocks.sort_by(f64::total_cmp);
    let at = |place: usize| clocks.get(place).copied().map(Megahertz);
    Some([at(0)?, at(clocks.len() / 2)?, at(clocks.len().checked_sub(1)?)?])
}

/// The most bytes that one unit moves in a clock to or from its first cache.
fn per_clock(curve: &Curve<'_>, first: Option<&CacheFound>) -> Option<PerClock> {
    let holds = first?.size();
    let of_one = |one: &&Measurement| {
        let Point::Stream(StreamPoint { units, .. }) = one.case.point else { return None };
        let cycles = one.clock?.0 * 1e6 * f64::from(units.max(1));
        let kernel = one.case.kernel.0.as_str();
        let width = WIDTHS.iter().find(|(name, _)| kernel.starts_with(name));
        Some(PerClock {
            bytes: read_rate(one).0 / cycles,
            width: width.map(|(_, width)| *width),
            case: one.case.to_string(),
        })
    };
    // What several units stream over together is no first cache's of one.
    let within = curve.iter().filter(|(size, one)| {
        *size <= holds && matches!(one.case.point, Point::Stream(StreamPoint { units: 1, .. }))
    });
    within
        .map(|(_, one)| *one)
        .filter_map(|one| of_one(&one))
        .max_by(|a, b| a.bytes.total_cmp(&b.bytes))
}

/// The least distance from which on two loads are in two lines: their time is then nearer to that
/// of the farther half of all distances than to that of the least. None where both are level.
fn line(all: &[&Measurement]) -> Option<Bytes> {
    let mut pairs: Vec<(Bytes, f64)> = all
        .iter()
        .filter_map(|one| match one.case.point {
            Point::Latency(LatencyPoint { pair: Some(pair), .. }) => {
                Some((pair, one.summary.median.0))
            }
            _ => None,
        })
        .collect();
    pairs.sort_by_key(|(pair, _)| *pair);
    let near = pairs.first()?.1;
    let far = knee::median(pairs[pairs.len() / 2..].iter().map(|(_, time)| *time).collect());
    let middle = (near + far) / 2.0;
    let in_two = pairs.into_iter().find(|(_, time)| *time > middle);
    in_two.filter(|_| far > near * knee::FLAT).map(|(pair, _)| pair)
}

fn instructions(all: &[&Measurement]) -> Vec<InstructionFound> {
    let found = all.iter().filter_map(|one| {
        let Point::Instruction(point) = one.case.point else { return None };
        let time = one.summary.median;
        Some(InstructionFound {
            point,
            kernel: one.case.kernel.0.clone(),
            time,
            cycles: cycles(time, one),
        })
    });
    found.collect()
}

fn arithmetic(
    all: &[&Measurement],
    units: f64,
    read: Option<BytesPerSecond>,
) -> Vec<ArithmeticFound> {
    let mut best: BTreeMap<Dtype, ArithmeticFound> = BTreeMap::new();
    let random = RandomPeaks::of(all.iter().copied());
    for one in all.iter().filter(|one| !random.outdo(one)) {
        let Point::Compute(point) = one.case.point else { continue };
        let rate = one.work.flops / one.summary.median;
        if best.get(&point.dtype).is_some_and(|other| other.rate >= rate) {
            continue;
        }
        let found = ArithmeticFound {
            dtype: point.dtype,
            kernel: one.case.kernel.0.clone(),
            rate,
            per_clock: one.clock.map(|Megahertz(clock)| rate.0 / (units * clock * 1e6)),
            per_byte: read.map(|read| rate.0 / read.0),
        };
        best.insert(point.dtype, found);
    }
    best.into_values().collect()
}

fn others(all: &[&Measurement]) -> Vec<OtherFound> {
    let found = all.iter().filter_map(|one| {
        let rate = match one.case.point {
            Point::Access(AccessPoint { .. }) => Some(read_rate(one)),
            Point::Transfer(point) if point.transfer.is_latency() => None,
            Point::Transfer(point) => Some(point.moved() / one.summary.median),
            Point::Launch(_) => None,
            Point::Latency(LatencyPoint { side: Some(_), .. }) => None,
            Point::Latency(point) if point.is_beyond_tlb() => None,
            _ => return None,
        };
        Some(OtherFound { case: one.case.to_string(), time: one.summary.median, rate })
    });
    found.collect()
}

/// What no measurement of this program tells, in words.
pub fn unknown(found: &Discovery, is_host: bool) -> Vec<String> {
    let mut words = vec![
        "what the vendor promises: a rate that was reached is no limit, and another kernel may \
         reach more"
            .to_owned(),
        "the kind of the memory, the width of its bus and its clock".to_owned(),
        "instruction caches, translation buffers, ports of instructions that no kernel here uses"
            .to_owned(),
    ];
    if let Some([from, to]) = found.swept {
        words.push(format!("caches that hold less than {from} or more than a quarter of {to}"));
    }
    words.push(match is_host {
        true => "cores and caches of the socket that this machine does not see; which part of a \
                 shared cache others leave"
            .to_owned(),
        false => "links to other devices, power limits, and matrix instructions that no bundled \
                  kernel uses"
            .to_owned(),
    });
    words
}
