//! What a record says of this operator's own machine: how near to its limits each operation comes.
//!
//! An efficiency is the time of a case at the limits that L1 is computed with over the time that
//! was measured. Efficiencies and not times are carried over to other shapes. One above 1 (operands
//! that were still in a cache, a clock above the stated one) counts as 1 and is told.

use super::{
    costs::{Start, Way},
    hardware::{Hardware, Limits, Link, Speed},
    operation::{Kind, Operation},
    undisturbed::{disturbed, measurements},
};
use fizeau_domain::{
    case::{AttentionKind, Collective, Launching, Layout, Point},
    consistency::Doubt,
    dtype::Dtype,
    model::Format,
    outcome::{Cache, Measurement, Regime},
    random_peaks::RandomPeaks,
    spec::Part,
    stats::quantile,
    units::{Bytes, BytesPerSecond, FlopsPerSecond, Megahertz, Seconds},
};
use fizeau_record::Record;
use std::collections::BTreeMap;

/// Half an octave: a measurement within a factor of 2^0.5 in each dimension counts as of this
/// shape.
const NEAR: f64 = 0.5;

/// Beyond two octaves in outputs or inputs a measurement says nothing of a shape.
const FAR: f64 = 2.0;

/// A stream over a working set of this many last-level caches is one over memory (STREAM's rule).
const CACHES: u64 = 4;

/// What one record measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    products: Vec<Product>,
    grouped: Vec<Grouped>,
    attention: Vec<AttentionRate>,
    sums: Vec<Message>,
    exchanges: Vec<Message>,
    sends: Vec<Message>,
    /// The least time of a kernel of several that are queued one by one, where it was measured.
    pub queued: Option<Seconds>,
    /// The same of one of a graph, where it was measured.
    pub graph: Option<Seconds>,
    /// Cases that were faster than their limit, with the factor.
    pub clamped: Vec<(String, f64)>,
    /// Cases that say something against their own figure, of which the slower state was taken.
    pub doubtful: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
struct Product {
    dtype: Dtype,
    layout: Layout,
    m: f64,
    n: f64,
    k: f64,
    efficiency: f64,
    /// The efficiency without what starting the kernel takes.
    rate: f64,
    case: String,
}

/// Products of several experts, by the rows that an expert has on average.
#[derive(Clone, Debug, PartialEq)]
struct Grouped {
    dtype: Dtype,
    rows: f64,
    n: f64,
    k: f64,
    groups: f64,
    efficiency: f64,
    /// The efficiency without what starting the kernel takes.
    rate: f64,
    case: String,
}

#[derive(Clone, Debug, PartialEq)]
struct AttentionRate {
    is_prefill: bool,
    /// Bytes in decode, operations in prefill.
    size: f64,
    efficiency: f64,
    /// The efficiency without what starting the kernel takes.
    rate: f64,
    case: String,
}

/// A message of a collective and its time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Message {
    pub(super) ranks: u32,
    pub(super) bytes: f64,
    pub(super) time: f64,
    pub(super) case: String,
}

/// Where a time of L2 is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// A case of this operator's record.
    Record,
    /// Rates of the part that others published.
    Published,
    /// Nothing but limits: it is the time of L1.
    Limits,
}

/// What a time of L2 rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Basis {
    /// Where it is from.
    pub whence: Whence,
    /// The case or the source, or why there is none.
    pub words: String,
    /// Measured time at the limits of L1 / measured time, where a case gave it.
    pub efficiency: Option<f64>,
    /// Whether the case is within half an octave of the shape.
    pub is_near: bool,
}

/// A time of L2 with what it rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Timed {
    /// All of it.
    pub time: Seconds,
    /// The part that does not shrink with the work: starting kernels, and what few rows lose.
    pub fixed: Seconds,
    /// What it rests on.
    pub basis: Basis,
}

/// The time of a case: with operands from memory where that was measured, and the slower of its
/// states where it has two.
fn time(measurement: &Measurement) -> f64 {
    let slower = measurement.span()[1].0;
    let cold = measurement
        .contrast
        .as_ref()
        .filter(|contrast| contrast.cache == Cache::Cold && measurement.cache == Cache::Hot);
    if let Some(Doubt::HotSlower(_)) = measurement.doubt() {
        return slower;
    }
    // A server works without rests.
    let settled = measurement.beside.as_ref().filter(|beside| beside.regime == Regime::Settled);
    let own = settled.map_or(slower, |beside| beside.summary.median.0);
    cold.map_or(own, |contrast| contrast.summary.median.0)
}

/// The time of a case in the faster of its states: no ceiling lies below what was seen.
fn least_time(measurement: &Measurement) -> f64 {
    measurement.doubt().map_or_else(|| time(measurement), |_| measurement.span()[0].0)
}

/// The best rates of a record, where no datasheet says what this device can do.
struct Ceilings {
    memory: Option<(f64, String)>,
    peaks: BTreeMap<Dtype, FlopsPerSecond>,
}

fn ceilings(record: &Record) -> Ceilings {
    let device = &record.header.device;
    let far = Bytes(device.last_level_cache().0 * CACHES);
    let mut ceilings = Ceilings { memory: None, peaks: BTreeMap::new() };
    let random = RandomPeaks::of(measurements(record));
    for measurement in measurements(record).filter(|one| !random.outdo(one)) {
        let time = least_time(measurement);
        let work = &measurement.work;
        match measurement.case.point {
            Point::Stream(point) if point.units == device.units && point.working_set >= far => {
                let rate = work.memory.0 as f64 / time;
                if ceilings.memory.as_ref().is_none_or(|(best, _)| rate > *best) {
                    ceilings.memory = Some((rate, measurement.case.to_string()));
                }
            }
            Point::Compute(_) | Point::Gemm(_) => {
                let Some(dtype) = measurement.case.point.dtype() else { continue };
                let rate = work.flops.0 / measurement.summary.median.0.min(time);
                let best = ceilings.peaks.entry(dtype).or_default();
                best.0 = best.0.max(rate);
            }
            _ => {}
        }
    }
    ceilings
}

impl Hardware {
    /// Of a record; `part` is the part that its device is, where that is certain. A host's limits
    /// are what the record measured: the datasheet is of a whole socket with memory that nobody
    /// sees. `name` is the record's folder.
    ///
    /// # Errors
    /// In words: what the record lacks.
    pub fn of_record(name: &str, record: &Record, part: Option<&Part>) -> Result<Hardware, String> {
        let device = &record.header.device;
        if device.is_stub() {
            return Err(format!("{name} was made with a stub driver: none of its numbers count"));
        }
        let known = part.filter(|part| !part.is_host());
        let mut hardware = match known {
            Some(part) => {
                let mut hardware = Hardware::of_part(part)?;
                hardware.basis = format!("{}, and this record's cases", hardware.basis);
                hardware
            }
            None => of_ceilings(name, record)?,
        };
        hardware.name = name.into();
        let clocks = measurements(record).filter_map(|one| one.clock);
        let clocks: Vec<f64> = clocks.map(|clock| clock.0).collect();
        if !clocks.is_empty() {
            let clock = Megahertz(quantile::median(&clocks));
            hardware.basis += &format!("; units at {clock}, the median of its cases");
        }
        let settings = record.header.environment.settings.as_ref();
        hardware.power_limit = settings.and_then(|settings| settings.power_limit);
        hardware.capacity = device.memory;
        if device.last_level_cache() > hardware.cache {
            hardware.cache = device.last_level_cache();
        }
        let measured = Measured::of(record, &hardware);
        let products = measured.products.is_empty() && measured.grouped.is_empty();
        for (what, is_empty) in
            [("matrix products (gemm)", products), ("attention", measured.attention.is_empty())]
        {
            if is_empty {
                hardware.notes.push(format!(
                    "{name} has no {what}: their L2 is that of published rates, or else L1"
                ));
            }
        }
        for (case, factor) in &measured.clamped {
            hardware.notes.push(format!(
                "{case} is {:.0} % above its limit (caches, or a higher clock): counted as 100 %",
                (factor - 1.0) * 100.0
            ));
        }
        hardware.notes.extend(disturbed(record));
        hardware.notes.extend(doubtful(&measured.doubtful));
        hardware.measured = Some(measured);
        Ok(hardware)
    }
}

/// That the slower one of two states counts, and of which cases.
fn doubtful(cases: &[String]) -> Option<String> {
    let named = &cases[..cases.len().min(3)];
    let rest = match cases.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let words = "in two states of the machine, of which the slower one counts";
    (!cases.is_empty()).then(|| format!("measured {words}: {}{rest}", named.join(", ")))
}

fn of_ceilings(name: &str, record: &Record) -> Result<Hardware, String> {
    let device = &record.header.device;
    let ceilings = ceilings(record);
    let disturbed = disturbed(record);
    let quiet = if disturbed.is_some() { " while nothing else runs" } else { "" };
    let undisturbed = disturbed.map(|words| format!(" ({words})")).unwrap_or_default();
    let Some((memory, case)) = ceilings.memory else {
        return Err(format!(
            "{name} has no stream over memory by all units{undisturbed}, and no datasheet says \
             what its share of the memory does: run `fizeau run stream`{quiet}, or give another \
             record"
        ));
    };
    if ceilings.peaks.is_empty() {
        return Err(format!(
            "{name} has neither matrix products nor arithmetic (gemm, compute){undisturbed}, and \
             no datasheet says what its share of the units does: run `fizeau run compute \
             gemm`{quiet}, or give another record"
        ));
    }
    let memory = BytesPerSecond(memory);
    let rates = ceilings.peaks.iter();
    let rates = rates.map(|(dtype, rate)| format!("{dtype} {rate}")).collect::<Vec<_>>().join(", ");
    let basis = format!(
        "best rates of this record: memory {memory} ({case}), {rates}. They are measured, not \
         bounds: another kernel may be faster"
    );
    Ok(Hardware {
        name: name.into(),
        basis,
        limits: Limits::Record,
        memory,
        memory_most: memory,
        peaks: ceilings.peaks,
        link: link_of_record(record),
        capacity: device.memory,
        cache: device.last_level_cache(),
        power: None,
        power_limit: None,
        measured: None,
        public: None,
        speed: Speed::FULL,
        notes: Vec::new(),
    })
}

/// The best bus bandwidth of a record's all_reduce, where nothing else says what links carry.
fn link_of_record(record: &Record) -> Option<Link> {
    let rates = measurements(record).filter_map(|measurement| match measurement.case.point {
        Point::Collective(point) if point.collective == Collective::AllReduce => {
            let rate = measurement.work.link.0 as f64 / measurement.summary.median.0;
            Some((rate, measurement.case.to_string()))
        }
        _ => None,
    });
    let (rate, case) = rates.max_by(|one, other| one.0.total_cmp(&other.0))?;
    let basis = format!("best bus bandwidth of this record ({case})");
    Some(Link { inside: BytesPerSecond(rate), domain: None, outside: None, basis })
}

impl Measured {
    /// What a record measured, set against the limits of L1.
    pub fn of(record: &Record, hardware: &Hardware) -> Measured {
        let mut measured = Measured::default();
        for measurement in measurements(record) {
            measured.add_launch(measurement);
        }
        for measurement in measurements(record) {
            measured.add(measurement, hardware);
        }
        measured
    }

    fn add(&mut self, measurement: &Measurement, hardware: &Hardware) {
        let time = time(measurement);
        let case = measurement.case.to_string();
        match &measurement.case.point {
            Point::Gemm(point) if point.contents.are_random() => {
                let Some([efficiency, rate]) = self.efficiency(measurement, hardware) else {
                    return;
                };
                let (m, n, k) = (f64::from(point.m), f64::from(point.n), f64::from(point.k));
                let same =
                    |one: &&mut Product| (one.dtype, one.m, one.n, one.k) == (point.dtype, m, n, k);
                let (dtype, layout) = (point.dtype, point.layout);
                let found = Product { dtype, layout, m, n, k, efficiency, rate, case };
                // Layers hold weights as `nt`: where it was measured, `nn` says nothing of them.
                let rank = |one: &Product| (one.layout, one.efficiency);
                match self.products.iter_mut().find(same) {
                    Some(one) if rank(one) >= rank(&found) => {}
                    Some(one) => *one = found,
                    None => self.products.push(found),
                }
            }
            Point::Grouped(point) => {
                let Some([efficiency, rate]) = self.efficiency(measurement, hardware) else {
                    return;
                };
                let groups = f64::from(point.groups);
                let (n, k) = (f64::from(point.n), f64::from(point.k));
                let rows = f64::from(point.m) / groups.max(1.0);
                let dtype = point.dtype;
                let grouped = Grouped { dtype, rows, n, k, groups, efficiency, rate, case };
                self.grouped.push(grouped);
            }
            // No engine serves in 32 bits.
            Point::Attention(point) if point.dtype != Dtype::F32 => {
                let Some([efficiency, rate]) = self.efficiency(measurement, hardware) else {
                    return;
                };
                let is_prefill = point.attention == AttentionKind::Prefill;
                let work = &measurement.work;
                let size = if is_prefill { work.flops.0 } else { work.memory.0 as f64 };
                self.attention.push(AttentionRate { is_prefill, size, efficiency, rate, case });
            }
            Point::Collective(point) => {
                let (ranks, bytes) = (point.ranks, point.message.0 as f64);
                let message = Message { ranks, bytes, time, case };
                match point.collective {
                    Collective::AllReduce => self.sums.push(message),
                    Collective::AllToAll => self.exchanges.push(message),
                    Collective::SendReceive => self.sends.push(message),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn add_launch(&mut self, measurement: &Measurement) {
        let Point::Launch(point) = &measurement.case.point else { return };
        let known = match point.launching {
            Launching::Queued => &mut self.queued,
            Launching::Graph => &mut self.graph,
            Launching::Waited => return,
        };
        let time = time(measurement) / f64::from(point.kernels.max(1));
        *known = Some(Seconds(known.map_or(time, |least| least.0.min(time))));
    }

    /// What starting a kernel takes in a chain of them: in a graph where that was measured, as
    /// engines serve, else one by one.
    pub fn start(&self) -> Option<Start> {
        let of = |time: Option<Seconds>, way: Way| time.map(|time| Start { time, way });
        of(self.graph, Way::Graph).or(of(self.queued, Way::Queued))
    }

    /// The time of a case at the limits of L1 over its own, 1 at most; with it the same over its
    /// own without what starting a kernel takes. Cases are queued one by one.
    fn efficiency(&mut self, measurement: &Measurement, hardware: &Hardware) -> Option<[f64; 2]> {
        let dtype = measurement.case.point.dtype()?;
        let format = format_of(dtype)?;
        let (_, peak) = hardware.arithmetic(format)?;
        let work = &measurement.work;
        let memory = work.memory.0 as f64 / hardware.memory.0;
        let (limit, time) = (memory.max(work.flops.0 / peak.0), time(measurement));
        let efficiency = limit / time;
        if !efficiency.is_finite() || efficiency <= 0.0 {
            return None;
        }
        if measurement.doubt().is_some() {
            self.doubtful.push(measurement.case.to_string());
        }
        if efficiency > 1.0 {
            self.clamped.push((measurement.case.to_string(), efficiency));
        }
        let start = self.queued.map_or(0.0, |start| start.0);
        let rate = limit / (time - start).max(limit);
        Some([efficiency.min(1.0), rate.min(1.0)])
    }

    /// The time of all of one operation, of which `serial` is that of L1 and which `group` devices
    /// work on together; none where the record has nothing like it. `start` is what starting a
    /// kernel takes. A case near the shape has that in its own time; the rate of another shape has
    /// not, and it is added.
    pub fn time(
        &self,
        operation: &Operation,
        serial: Seconds,
        (group, start): (u32, Option<Seconds>),
    ) -> Option<Timed> {
        let count = operation.count;
        let (rate, basis) = match operation.kind {
            Kind::Gemm(shape) => self.product(operation.format, shape),
            Kind::Grouped([rows, n, k, groups]) => {
                let rows = (rows / groups.max(1.0)).max(1.0);
                // Without grouped ones as one product of the rows that an expert has.
                self.grouped(operation.format, [rows, n, k, groups])
                    .or_else(|| self.product(operation.format, [rows, n, k]))
            }
            Kind::Attention { is_prefill } => {
                let size = if is_prefill { operation.flops } else { operation.bytes };
                self.attention(is_prefill, size)
            }
            Kind::AllReduce(bytes) => return sent(&self.sums, bytes, count, group),
            // What one device sends is what it has less its own part.
            Kind::AllToAll(bytes) => return sent(&self.exchanges, bytes, count, group),
            // From one rank to the next, whatever their number.
            Kind::Send(bytes) => {
                let ranks = self.sends.iter().map(|one| one.ranks).min()?;
                return sent(&self.sends, bytes, count, ranks);
            }
            Kind::Small => return None,
        }?;
        let start = start.map_or(0.0, |start| start.0) * count;
        let efficiency = basis.efficiency.unwrap_or(1.0);
        let (time, fixed) = match basis.is_near {
            true => {
                let time = serial.0 / efficiency;
                (time, start.min(time - serial.0).max(0.0))
            }
            false => (serial.0 / rate + start, start),
        };
        Some(Timed { time: Seconds(time), fixed: Seconds(fixed), basis })
    }

    /// The efficiency of grouped products: of the shape nearest in outputs, inputs, rows of an
    /// expert and experts, without what starting a kernel takes.
    fn grouped(&self, format: Format, [rows, n, k, groups]: [f64; 4]) -> Option<(f64, Basis)> {
        let dtype = format.measured_as();
        let away = |one: &Grouped| {
            let shape = octaves(one.n, n).max(octaves(one.k, k));
            (shape, octaves(one.rows, rows).max(octaves(one.groups, groups)))
        };
        let of_type = self.grouped.iter().filter(|one| one.dtype == dtype);
        let near = of_type.map(|one| (away(one), one)).filter(|((shape, _), _)| *shape <= FAR);
        let sum = |(shape, load): (f64, f64)| shape + load;
        let ((shape, load), one) = near.min_by(|(a, _), (b, _)| sum(*a).total_cmp(&sum(*b)))?;
        let basis = Basis {
            whence: Whence::Record,
            words: one.case.clone(),
            efficiency: Some(one.efficiency),
            is_near: shape.max(load) <= NEAR,
        };
        Some((one.rate, basis))
    }

    /// The efficiency of a product: of the shape nearest in outputs and inputs, in between its
    /// measured rows.
    fn product(&self, format: Format, [m, n, k]: [f64; 3]) -> Option<(f64, Basis)> {
        let dtype = format.measured_as();
        let away = |one: &Product| octaves(one.n, n).max(octaves(one.k, k));
        let of_type = || self.products.iter().filter(|one| one.dtype == dtype);
        let nearest = of_type().map(away).min_by(f64::total_cmp).filter(|away| *away <= FAR)?;
        let shape = of_type().find(|one| away(one) == nearest)?;
        let mut rows: Vec<_> =
            of_type().filter(|one| (one.n, one.k) == (shape.n, shape.k)).collect();
        rows.sort_by(|one, other| one.m.total_cmp(&other.m));
        let above = rows.iter().position(|one| one.m >= m).unwrap_or(rows.len() - 1);
        let (low, high) = (rows[above.saturating_sub(1)], rows[above]);
        let [efficiency, rate] = match (m <= low.m, m >= high.m || low.m == high.m) {
            (true, _) => [low.efficiency, low.rate],
            (_, true) => [high.efficiency, high.rate],
            _ => {
                let share = (m / low.m).log2() / (high.m / low.m).log2();
                let between = |low: f64, high: f64| low + share * (high - low);
                [between(low.efficiency, high.efficiency), between(low.rate, high.rate)]
            }
        };
        let rows_away = rows.iter().map(|one| octaves(one.m, m)).fold(f64::INFINITY, f64::min);
        let is_near = nearest <= NEAR && rows_away <= NEAR;
        let words = if octaves(low.m, m) < octaves(high.m, m) { &low.case } else { &high.case };
        let basis = Basis {
            whence: Whence::Record,
            words: words.clone(),
            efficiency: Some(efficiency),
            is_near,
        };
        Some((rate, basis))
    }

    fn attention(&self, is_prefill: bool, size: f64) -> Option<(f64, Basis)> {
        let of_kind = self.attention.iter().filter(|one| one.is_prefill == is_prefill);
        let away = |one: &&AttentionRate| octaves(one.size, size);
        let one = of_kind.min_by(|a, b| away(a).total_cmp(&away(b)))?;
        let efficiency = Some(one.efficiency);
        let is_near = octaves(one.size, size) <= NEAR;
        let (whence, words) = (Whence::Record, one.case.clone());
        Some((one.rate, Basis { whence, words, efficiency, is_near }))
    }
}

/// A message of a record: all of its time beyond that of L1 is latency, which is told by its row.
fn sent(table: &[Message], bytes: f64, count: f64, devices: u32) -> Option<Timed> {
    let (time, basis) = message(table, bytes, count, devices)?;
    Some(Timed { time, fixed: Seconds(0.0), basis })
}

/// How many doublings lie between two sizes.
fn octaves(one: f64, other: f64) -> f64 {
    if one > 0.0 && other > 0.0 { (one / other).log2().abs() } else { f64::INFINITY }
}

/// The time of `count` messages between as many devices as were measured: linear in bytes between
/// and beyond the sizes, and never below the smallest one's.
pub(super) fn message(
    table: &[Message],
    bytes: f64,
    count: f64,
    devices: u32,
) -> Option<(Seconds, Basis)> {
    let mut sizes: Vec<_> = table.iter().filter(|one| one.ranks == devices).collect();
    sizes.sort_by(|one, other| {
        one.bytes.total_cmp(&other.bytes).then(one.time.total_cmp(&other.time))
    });
    sizes.dedup_by(|one, other| one.bytes == other.bytes);
    let above = sizes.iter().position(|one| one.bytes >= bytes).or(sizes.len().checked_sub(1))?;
    let (low, high) = (sizes[above.saturating_sub(1)], sizes[above]);
    let time = if bytes <= low.bytes {
        low.time
    } else if low.bytes < high.bytes && bytes <= high.bytes {
        low.time + (bytes - low.bytes) / (high.bytes - low.bytes) * (high.time - low.time)
    } else {
        high.time * bytes / high.bytes
    };
    let nearest = if octaves(low.bytes, bytes) < octaves(high.bytes, bytes) { low } else { high };
    let is_near = octaves(nearest.bytes, bytes) <= NEAR;
    let (whence, words) = (Whence::Record, nearest.case.clone());
    let basis = Basis { whence, words, efficiency: None, is_near };
    Some((Seconds(time * count), basis))
}

/// The format whose operands a case of an element type has.
fn format_of(dtype: Dtype) -> Option<Format> {
    Some(match dtype {
        Dtype::F32 | Dtype::Tf32 => Format::F32,
        Dtype::F16 | Dtype::Bf16 => Format::Bf16,
        Dtype::Bf16Fp8 | Dtype::Bf16Int4 | Dtype::Bf16Mxfp4 => Format::Bf16,
        Dtype::Fp8 | Dtype::Mxfp8 | Dtype::Fp8Block => Format::Fp8,
        Dtype::Int8 => Format::Int8,
        Dtype::Mxfp4 | Dtype::Fp4 => Format::Mxfp4,
        Dtype::Nvfp4 => Format::Nvfp4,
        Dtype::F64 | Dtype::Fp6 => return None,
    })
}
