//! This device's own ceilings (tier 4): the best rate of each resource that the record holds, and
//! the share of them that a case reaches. The denominator for attention, where no vendor prints
//! a peak, and for whole machines whose peaks are unknown.

use fizeau_domain::{
    case::{Point, StreamOperation},
    dtype::Dtype,
    outcome::{Cache, Code, Measurement},
    random_peaks::RandomPeaks,
    spec::{Bound, Tier},
    units::{Bytes, BytesPerSecond, FlopsPerSecond, Seconds},
};
use fizeau_record::Record;
use std::collections::BTreeMap;

/// A working set is in memory from this many times the last-level cache on (STREAM's run rules).
const MEMORY_FACTOR: u64 = 4;

/// The best measured rate of each resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ceilings {
    /// Bytes to and from memory, caches left behind.
    pub memory: Option<Best<BytesPerSecond>>,
    /// Bytes from memory, by a stream that only reads.
    pub read: Option<Best<BytesPerSecond>>,
    /// Arithmetic of each element type, by a compute kernel or a matrix product.
    pub compute: BTreeMap<Dtype, Best<FlopsPerSecond>>,
    /// Arithmetic of each element type, by a matrix product.
    pub products: BTreeMap<Dtype, Best<FlopsPerSecond>>,
    /// Smallest working set that counts as memory.
    pub memory_from: Bytes,
    /// The last-level cache, all of it.
    pub cache: Bytes,
    /// The device's own target, where no kernel of the program was made for its architecture.
    pub unknown_architecture: Option<String>,
}

/// A best rate, and where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Best<Rate> {
    /// How much.
    pub rate: Rate,
    /// Id of the case.
    pub case: String,
    /// The state of the caches that a matrix product had; none where no cache matters, as for
    /// streams through memory and arithmetic on registers.
    pub cache: Option<Cache>,
}

impl<Rate: Copy + PartialOrd> Best<Rate> {
    fn new(rate: Rate, measurement: &Measurement) -> Best<Rate> {
        let is_product = matches!(measurement.case.point, Point::Gemm(_));
        let cache = is_product.then_some(measurement.cache);
        Best { rate, case: measurement.case.to_string(), cache }
    }

    fn keep(self, slot: &mut Option<Best<Rate>>) {
        if slot.as_ref().is_none_or(|best| best.rate < self.rate) {
            *slot = Some(self);
        }
    }

    /// What was done, without how much of it and how: `stream/read`, `gemm/bf16`.
    pub fn kind(&self) -> &str {
        let ends = self.case.match_indices('/').nth(1);
        ends.map_or(&self.case[..], |(end, _)| &self.case[..end])
    }

    /// The same with the state of the caches, where it matters: `hot gemm/bf16`.
    pub fn words(&self) -> String {
        let kind = self.kind();
        self.cache.map_or_else(|| kind.to_owned(), |cache| format!("{cache} {kind}"))
    }
}

/// What a case of attention is set against: the best read, and the best matrix product of the
/// element type that it multiplies; where none was measured, the best stream, and the best
/// arithmetic.
#[derive(Clone, Copy, Debug)]
pub struct BesideAttention<'c> {
    /// For its bytes; none where they stay in a cache.
    pub memory: Option<&'c Best<BytesPerSecond>>,
    /// For its arithmetic.
    pub arithmetic: Option<&'c Best<FlopsPerSecond>>,
}

/// The smallest working set that counts as lying in memory. Arrays are cut to whole elements, so
/// one may fall a few bytes short.
fn memory_from(record: &Record) -> Bytes {
    let cache = record.header.device.last_level_cache();
    Bytes((cache * MEMORY_FACTOR).0.saturating_sub(4096))
}

impl Ceilings {
    /// Those of a record; only measured outcomes count.
    pub fn of(record: &Record) -> Ceilings {
        let cache = record.header.device.last_level_cache();
        let memory_from = memory_from(record);
        let unknown_architecture = record.header.environment.unknown_architecture.clone();
        let mut ceilings =
            Ceilings { memory_from, cache, unknown_architecture, ..Ceilings::default() };
        let measured = || record.outcomes.iter().filter_map(|outcome| outcome.measured());
        let random = RandomPeaks::of(measured());
        let counts = |one: &&Measurement| !random.outdo(one) && one.doubt().is_none();
        for measurement in measured().filter(counts) {
            ceilings.take(measurement);
        }
        ceilings
    }

    fn take(&mut self, measurement: &Measurement) {
        let median = measurement.summary.median;
        match &measurement.case.point {
            Point::Stream(point) if self.in_memory(point.working_set) => {
                let best = Best::new(measurement.work.memory / median, measurement);
                if point.stream == StreamOperation::Read {
                    best.clone().keep(&mut self.read);
                }
                best.keep(&mut self.memory);
            }
            Point::Compute(_) | Point::Gemm(_) => {
                let Some(dtype) = measurement.case.point.dtype() else { return };
                let best = Best::new(measurement.work.flops / median, measurement);
                if let Point::Gemm(_) = measurement.case.point {
                    keep_of(dtype, best.clone(), &mut self.products);
                }
                keep_of(dtype, best, &mut self.compute);
            }
            _ => {}
        }
    }

    /// The share of the best matrix product that a case of attention reaches where both are hot:
    /// iteration after iteration, at the clock that lasts under load. The headline of attention is
    /// cold, each sample by itself. None where either is not known.
    pub fn attention_when_hot(&self, measurement: &Measurement) -> Option<f64> {
        let best = self.beside_attention(measurement).arithmetic?;
        let is_alike = best.cache == Some(Cache::Hot) && self.foreign(measurement).is_none();
        let time = measurement.median_when(Cache::Hot).filter(|_| is_alike)?;
        Some(measurement.work.flops / time / best.rate)
    }

    /// Whether a working set lies in memory: a smaller one may be a cache's.
    pub fn in_memory(&self, working_set: Bytes) -> bool {
        working_set >= self.memory_from
    }

    /// Bytes that have to come from memory or go to it: of a hot case, all but what the last-level
    /// cache can keep from the iteration before.
    fn memory_bytes(&self, measurement: &Measurement) -> Bytes {
        let all = measurement.work.memory;
        match measurement.cache {
            Cache::Hot => Bytes(all.0.saturating_sub(self.cache.0)),
            Cache::Cold => all,
        }
    }

    /// Whether what a case touches stays in a cache from one iteration to the next.
    fn is_cached(&self, measurement: &Measurement) -> bool {
        self.memory_bytes(measurement) == Bytes(0)
    }

    /// What a case of attention is set against, wherever a report does so.
    pub fn beside_attention(&self, measurement: &Measurement) -> BesideAttention<'_> {
        let memory = self.read.as_ref().or(self.memory.as_ref());
        let dtype = measurement.case.point.dtype();
        BesideAttention {
            memory: memory.filter(|_| !self.is_cached(measurement)),
            arithmetic: dtype
                .and_then(|dtype| self.products.get(&dtype).or_else(|| self.compute.get(&dtype))),
        }
    }

    /// The least time at these ceilings, and what binds: none where no ceiling applies, as for a
    /// working set that the cache holds.
    pub fn light(&self, measurement: &Measurement) -> Option<(Seconds, Bound)> {
        let work = &measurement.work;
        let of_products = self.memory_bytes(measurement);
        let memory = self.memory.as_ref().map(|best| (work.memory / best.rate, Bound::Memory));
        match &measurement.case.point {
            Point::Stream(point) => memory.filter(|_| self.in_memory(point.working_set)),
            Point::Access(point) => {
                memory.filter(|_| !point.access.on_chip() && self.in_memory(point.working_set))
            }
            // A cache may hold what was written a moment ago.
            Point::Fused(_) | Point::Recurrence(_) => {
                memory.filter(|_| measurement.cache == Cache::Cold || self.in_memory(work.memory))
            }
            Point::Latency(_)
            | Point::Instruction(_)
            | Point::Collective(_)
            | Point::Transfer(_)
            | Point::Launch(_)
            | Point::Sdc(_) => None,
            Point::Attention(_) | Point::Sparse(_) => {
                let BesideAttention { memory, arithmetic } = self.beside_attention(measurement);
                slower(
                    arithmetic.map(|best| (work.flops / best.rate, Bound::Compute)),
                    memory.map(|best| (of_products / best.rate, Bound::Memory)),
                )
            }
            Point::Compute(_) | Point::Gemm(_) | Point::Grouped(_) => {
                let dtype = measurement.case.point.dtype()?;
                let compute = self
                    .compute
                    .get(&dtype)
                    .or_else(|| self.compute.get(&dtype.unscaled()))
                    .map(|best| (work.flops / best.rate, Bound::Compute));
                let memory = self.memory.as_ref().filter(|_| !self.is_cached(measurement));
                slower(compute, memory.map(|best| (of_products / best.rate, Bound::Memory)))
            }
        }
    }

    /// The share of its own ceiling that a case reaches, 0..1; none of a kernel that was not made
    /// for the device's architecture, of which it would say nothing.
    pub fn share(&self, measurement: &Measurement) -> Option<f64> {
        let light = self.light(measurement).filter(|_| self.foreign(measurement).is_none());
        let light = light.filter(|_| measurement.doubt().is_none());
        light.map(|(time, _)| time / measurement.summary.median)
    }

    /// The device's own target, where a case ran a kernel of the program that was not made for it.
    pub fn foreign(&self, measurement: &Measurement) -> Option<&str> {
        let is_ours = |code: &Code| matches!(code, Code::Image { .. });
        let target = self.unknown_architecture.as_deref();
        target.filter(|_| measurement.code.iter().any(is_ours))
    }
}

fn keep_of(
    dtype: Dtype,
    best: Best<FlopsPerSecond>,
    of: &mut BTreeMap<Dtype, Best<FlopsPerSecond>>,
) {
    let mut slot = of.remove(&dtype);
    best.keep(&mut slot);
    of.extend(slot.map(|best| (dtype, best)));
}

fn slower(a: Option<(Seconds, Bound)>, b: Option<(Seconds, Bound)>) -> Option<(Seconds, Bound)> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if a.0 >= b.0 { a } else { b }),
        (one, other) => one.or(other),
    }
}

/// The highest peak that the speeds of light of a tier imply for memory: the vendor's or the pin
/// rate. None where no stream knew one; other cases are bound by memory in one tier and not in the
/// next.
pub fn memory_peak(record: &Record, tier: Tier) -> Option<BytesPerSecond> {
    let from = memory_from(record);
    record
        .outcomes
        .iter()
        .filter_map(|outcome| {
            let measurement = outcome.measured()?;
            let Point::Stream(point) = measurement.case.point else { return None };
            if point.working_set < from {
                return None;
            }
            let light = measurement.light(tier).filter(|light| light.bound == Bound::Memory)?;
            Some(measurement.work.memory / light.time)
        })
        .filter(|rate| rate.0.is_finite())
        .max_by(|a, b| a.0.total_cmp(&b.0))
}
