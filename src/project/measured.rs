//! What a record says of this operator's own machine: how near to its limits each operation comes.
//!
//! An efficiency is the time of a case at the limits that L1 is computed with over the time that
//! was measured. Efficiencies and not times are carried over to other shapes. One above 1 (operands
//! that were still in a cache, a clock above the stated one) counts as 1 and is told.

use super::{
    hardware::{Hardware, Link},
    operation::{Kind, Operation},
};
use crate::{
    case::{AttentionKind, Collective, Launching, Point},
    dtype::Dtype,
    model::Format,
    outcome::{Cache, Measurement, Outcome},
    record::Record,
    spec::Part,
    units::{Bytes, BytesPerSecond, FlopsPerSecond, Seconds},
};
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
    attention: Vec<AttentionRate>,
    sums: Vec<Message>,
    exchanges: Vec<Message>,
    /// The least time of a kernel whose launch is queued, where it was measured.
    pub launch: Option<Seconds>,
    /// Cases that were faster than their limit, with the factor.
    pub clamped: Vec<(String, f64)>,
}

#[derive(Clone, Debug, PartialEq)]
struct Product {
    dtype: Dtype,
    m: f64,
    n: f64,
    k: f64,
    efficiency: f64,
    case: String,
}

#[derive(Clone, Debug, PartialEq)]
struct AttentionRate {
    is_prefill: bool,
    /// Bytes in decode, operations in prefill.
    size: f64,
    efficiency: f64,
    case: String,
}

#[derive(Clone, Debug, PartialEq)]
struct Message {
    ranks: u32,
    bytes: f64,
    time: f64,
    case: String,
}

/// What a time of L2 rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Basis {
    /// The case, or why there is none.
    pub words: String,
    /// Measured time at the limits of L1 / measured time, where a case gave it.
    pub efficiency: Option<f64>,
    /// Whether the case is within half an octave of the shape.
    pub is_near: bool,
}

impl Basis {
    fn none(words: &str) -> Basis {
        Basis { words: words.into(), efficiency: None, is_near: false }
    }
}

/// The least time of a case: with operands from memory where that was measured.
fn time(measurement: &Measurement) -> f64 {
    let cold = measurement
        .contrast
        .as_ref()
        .filter(|contrast| contrast.cache == Cache::Cold && measurement.cache == Cache::Hot);
    cold.map_or(measurement.summary.median.0, |contrast| contrast.summary.median.0)
}

fn measurements(record: &Record) -> impl Iterator<Item = &Measurement> {
    record.outcomes.iter().filter_map(|outcome| match outcome {
        Outcome::Measured(measurement) => Some(&**measurement),
        _ => None,
    })
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
    for measurement in measurements(record) {
        let time = time(measurement);
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
        hardware.capacity = device.memory;
        if device.last_level_cache() > hardware.cache {
            hardware.cache = device.last_level_cache();
        }
        let measured = Measured::of(record, &hardware);
        for (what, is_empty) in [
            ("matrix products (gemm)", measured.products.is_empty()),
            ("attention", measured.attention.is_empty()),
        ] {
            if is_empty {
                hardware.notes.push(format!("{name} has no {what}: their L2 is L1"));
            }
        }
        for (case, factor) in &measured.clamped {
            hardware.notes.push(format!(
                "{case} is {:.0} % above its limit (caches, or a higher clock): counted as 100 %",
                (factor - 1.0) * 100.0
            ));
        }
        hardware.measured = Some(measured);
        Ok(hardware)
    }
}

fn of_ceilings(name: &str, record: &Record) -> Result<Hardware, String> {
    let device = &record.header.device;
    let ceilings = ceilings(record);
    let Some((memory, case)) = ceilings.memory else {
        return Err(format!(
            "{name} has no stream over memory by all units, and no datasheet says what its memory \
             does: run `fizeau run stream`, or another record"
        ));
    };
    if ceilings.peaks.is_empty() {
        return Err(format!(
            "{name} has neither matrix products nor arithmetic (gemm, compute), and no datasheet \
             says what its units do: run `fizeau run compute gemm`, or give another record"
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
        memory,
        memory_most: memory,
        peaks: ceilings.peaks,
        link: link_of_record(record),
        capacity: device.memory,
        cache: device.last_level_cache(),
        power: None,
        measured: None,
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
            measured.add(measurement, hardware);
        }
        measured
    }

    fn add(&mut self, measurement: &Measurement, hardware: &Hardware) {
        let time = time(measurement);
        let case = measurement.case.to_string();
        match &measurement.case.point {
            Point::Gemm(point) if point.contents.are_random() => {
                let Some(efficiency) = self.efficiency(measurement, hardware) else { return };
                let (m, n, k) = (f64::from(point.m), f64::from(point.n), f64::from(point.k));
                let same =
                    |one: &&mut Product| (one.dtype, one.m, one.n, one.k) == (point.dtype, m, n, k);
                match self.products.iter_mut().find(same) {
                    Some(one) if one.efficiency >= efficiency => {}
                    Some(one) => (one.efficiency, one.case) = (efficiency, case),
                    None => {
                        let dtype = point.dtype;
                        self.products.push(Product { dtype, m, n, k, efficiency, case });
                    }
                }
            }
            // No engine serves in 32 bits.
            Point::Attention(point) if point.dtype != Dtype::F32 => {
                let Some(efficiency) = self.efficiency(measurement, hardware) else { return };
                let is_prefill = point.attention == AttentionKind::Prefill;
                let work = &measurement.work;
                let size = if is_prefill { work.flops.0 } else { work.memory.0 as f64 };
                self.attention.push(AttentionRate { is_prefill, size, efficiency, case });
            }
            Point::Collective(point) => {
                let (ranks, bytes) = (point.ranks, point.message.0 as f64);
                let message = Message { ranks, bytes, time, case };
                match point.collective {
                    Collective::AllReduce => self.sums.push(message),
                    Collective::AllToAll => self.exchanges.push(message),
                    _ => {}
                }
            }
            Point::Launch(point) if point.launching == Launching::Queued => {
                let time = time / f64::from(point.kernels.max(1));
                let least = self.launch.map_or(time, |least| least.0.min(time));
                self.launch = Some(Seconds(least));
            }
            _ => {}
        }
    }

    /// The time of a case at the limits of L1 over its own, 1 at most.
    fn efficiency(&mut self, measurement: &Measurement, hardware: &Hardware) -> Option<f64> {
        let dtype = measurement.case.point.dtype()?;
        let format = format_of(dtype)?;
        let (_, peak) = hardware.arithmetic(format)?;
        let work = &measurement.work;
        let memory = work.memory.0 as f64 / hardware.memory.0;
        let efficiency = memory.max(work.flops.0 / peak.0) / time(measurement);
        if !efficiency.is_finite() || efficiency <= 0.0 {
            return None;
        }
        if efficiency > 1.0 {
            self.clamped.push((measurement.case.to_string(), efficiency));
        }
        Some(efficiency.min(1.0))
    }

    /// The time of all of one operation, of which `serial` is that of L1.
    pub fn time(&self, operation: &Operation, serial: Seconds, devices: u32) -> (Seconds, Basis) {
        let found = match operation.kind {
            Kind::Gemm(shape) => self.product(operation.format, shape),
            Kind::Grouped([rows, n, k, groups]) => {
                // As one product of the rows that an expert has.
                self.product(operation.format, [(rows / groups.max(1.0)).max(1.0), n, k])
            }
            Kind::Attention { is_prefill } => {
                let size = if is_prefill { operation.flops } else { operation.bytes };
                self.attention(is_prefill, size)
            }
            Kind::AllReduce(bytes) => {
                return message(&self.sums, bytes, operation.count, devices, serial);
            }
            // What one device sends is what it has less its own part.
            Kind::AllToAll(bytes) => {
                return message(&self.exchanges, bytes, operation.count, devices, serial);
            }
        };
        match found {
            Some((efficiency, basis)) => (Seconds(serial.0 / efficiency), basis),
            None => (serial, Basis::none("not in the record: as L1")),
        }
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
        let efficiency = match (m <= low.m, m >= high.m || low.m == high.m) {
            (true, _) => low.efficiency,
            (_, true) => high.efficiency,
            _ => {
                let share = (m / low.m).log2() / (high.m / low.m).log2();
                low.efficiency + share * (high.efficiency - low.efficiency)
            }
        };
        let rows_away = rows.iter().map(|one| octaves(one.m, m)).fold(f64::INFINITY, f64::min);
        let is_near = nearest <= NEAR && rows_away <= NEAR;
        let words = if octaves(low.m, m) < octaves(high.m, m) { &low.case } else { &high.case };
        Some((efficiency, Basis { words: words.clone(), efficiency: Some(efficiency), is_near }))
    }

    fn attention(&self, is_prefill: bool, size: f64) -> Option<(f64, Basis)> {
        let of_kind = self.attention.iter().filter(|one| one.is_prefill == is_prefill);
        let away = |one: &&AttentionRate| octaves(one.size, size);
        let one = of_kind.min_by(|a, b| away(a).total_cmp(&away(b)))?;
        let efficiency = Some(one.efficiency);
        let is_near = octaves(one.size, size) <= NEAR;
        Some((one.efficiency, Basis { words: one.case.clone(), efficiency, is_near }))
    }
}

/// How many doublings lie between two sizes.
fn octaves(one: f64, other: f64) -> f64 {
    if one > 0.0 && other > 0.0 { (one / other).log2().abs() } else { f64::INFINITY }
}

/// The time of `count` messages between as many devices as were measured: linear in bytes between
/// and beyond the sizes, and never below the smallest one's.
fn message(
    table: &[Message],
    bytes: f64,
    count: f64,
    devices: u32,
    serial: Seconds,
) -> (Seconds, Basis) {
    let mut sizes: Vec<_> = table.iter().filter(|one| one.ranks == devices).collect();
    sizes.sort_by(|one, other| {
        one.bytes.total_cmp(&other.bytes).then(one.time.total_cmp(&other.time))
    });
    sizes.dedup_by(|one, other| one.bytes == other.bytes);
    let Some(above) =
        sizes.iter().position(|one| one.bytes >= bytes).or(sizes.len().checked_sub(1))
    else {
        let words = format!("no such messages between {devices} ranks in the record: as L1");
        return (serial, Basis { words, efficiency: None, is_near: false });
    };
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
    let basis = Basis { words: nearest.case.clone(), efficiency: None, is_near };
    (Seconds(time * count), basis)
}

/// The format whose operands a case of an element type has.
fn format_of(dtype: Dtype) -> Option<Format> {
    Some(match dtype {
        Dtype::F32 | Dtype::Tf32 => Format::F32,
        Dtype::F16 | Dtype::Bf16 => Format::Bf16,
        Dtype::Fp8 | Dtype::Mxfp8 | Dtype::Fp8Block => Format::Fp8,
        Dtype::Int8 => Format::Int8,
        Dtype::Mxfp4 | Dtype::Fp4 => Format::Mxfp4,
        Dtype::Nvfp4 => Format::Nvfp4,
        Dtype::F64 | Dtype::Fp6 => return None,
    })
}
