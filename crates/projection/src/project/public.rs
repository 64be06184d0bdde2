//! Rates of a part that others measured and published: what L2 takes where a record lacks a shape.
//!
//! They say how near good kernels come to a part's limits, and nothing of this operator's machine:
//! what rests on them is not covered by a measurement.

use super::{
    costs::{Costs, KernelTimes, Start},
    hardware::Hardware,
    measured::{Basis, Message, Timed, Whence, message},
    operation::{Kind, Operation},
    step::Class,
};
use fizeau_domain::{
    case::Collective, dtype::Dtype, model::Format, stats::quantile, units::Seconds,
};
use serde::Deserialize;

/// A file of `data/medians`, with that of `data/costs`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MediansFile {
    /// Published rates.
    #[serde(default)]
    pub figure: Vec<Figure>,
    /// Published times of all_reduce.
    #[serde(default)]
    pub all_reduce: Vec<Sums>,
    /// Published times of all_to_all.
    #[serde(default)]
    pub all_to_all: Vec<Sums>,
    /// Published times of kernels of few rows.
    #[serde(default)]
    pub kernel: Vec<KernelTimes>,
}

/// One published rate.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// What was measured.
    pub of: Measure,
    /// Element type of the operands; none of memory.
    pub dtype: Option<Dtype>,
    /// Bytes or operations each second.
    pub value: f64,
    /// Who published it.
    pub source: String,
}

/// Published times of a collective over one number of ranks.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sums {
    /// Ranks.
    pub ranks: u32,
    /// Sizes of messages.
    pub bytes: Vec<f64>,
    /// The time of each.
    pub seconds: Vec<f64>,
    /// Who published it.
    pub source: String,
}

/// What a published rate is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Streams over memory, bytes a second.
    Memory,
    /// Attention over a KV cache, bytes a second.
    Decode,
    /// Matrix products, operations a second.
    Gemm,
    /// Attention of prompts, operations a second.
    Prefill,
}

/// Shares of a part's limits that published kernels reach, and the least that they take.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Public {
    shares: Vec<Share>,
    sums: Vec<Vec<Message>>,
    exchanges: Vec<Vec<Message>>,
    costs: Costs,
}

#[derive(Clone, Debug, PartialEq)]
struct Share {
    of: Measure,
    dtype: Option<Dtype>,
    /// Median of the published rates over the stated limit, 1 at most.
    share: f64,
    words: String,
}

impl Public {
    /// Of a part's file; `hardware` states the limits.
    ///
    /// # Errors
    /// In words: which figure cannot be.
    pub fn of(file: &MediansFile, hardware: &Hardware) -> Result<Public, String> {
        let mut public = Public::default();
        for figure in &file.figure {
            let key = (figure.of, figure.dtype);
            if public.shares.iter().any(|share| (share.of, share.dtype) == key) {
                continue;
            }
            let limit = match (figure.of, figure.dtype) {
                (Measure::Memory | Measure::Decode, None) => Some(hardware.memory.0),
                (Measure::Gemm | Measure::Prefill, Some(dtype)) => {
                    hardware.peaks.get(&dtype).map(|peak| peak.0)
                }
                _ => None,
            };
            let limit = limit.ok_or_else(|| {
                format!("{:?} of {:?} has no limit to be set against", figure.of, figure.dtype)
            })?;
            let alike: Vec<_> =
                file.figure.iter().filter(|one| (one.of, one.dtype) == key).collect();
            let values: Vec<_> = alike.iter().map(|one| one.value).collect();
            // Each of them, since a median of what is no number is none.
            if !values.iter().all(|value| value.is_finite() && *value > 0.0) {
                return Err(format!("{:?}: a rate is above 0", figure.of));
            }
            let median = quantile::median(&values);
            let words = match alike.as_slice() {
                [one] => format!("published: {}", one.source),
                [first, ..] => format!("published, median of {}: {}", alike.len(), first.source),
                [] => String::new(),
            };
            let share = (median / limit).min(1.0);
            public.shares.push(Share { of: figure.of, dtype: figure.dtype, share, words });
        }
        public.sums = messages("all_reduce", &file.all_reduce)?;
        public.exchanges = messages("all_to_all", &file.all_to_all)?;
        let reached = public.reached(Kind::Gemm([1.0; 3]), Format::Bf16, Class::Memory);
        let share = reached.map_or(1.0, |share| share.share);
        public.costs = Costs::of(&file.kernel, 1.0 / (hardware.memory.0 * share))?;
        Ok(public)
    }

    fn share(&self, of: Measure, dtype: Option<Dtype>) -> Option<&Share> {
        self.shares.iter().find(|share| share.of == of && share.dtype == dtype)
    }

    /// The share that an operation reaches: of memory where that binds it, of arithmetic else.
    fn reached(&self, kind: Kind, format: Format, class: Class) -> Option<&Share> {
        let streams = || self.share(Measure::Memory, None);
        let decode = || self.share(Measure::Decode, None);
        if class == Class::Memory {
            return match kind {
                Kind::Attention { .. } => decode().or_else(streams),
                _ => streams().or_else(decode),
            };
        }
        let product = |dtype: &Dtype| self.share(Measure::Gemm, Some(*dtype));
        let prefill = || self.share(Measure::Prefill, Some(Dtype::Bf16));
        match kind {
            Kind::Attention { is_prefill: true } => prefill().or_else(|| product(&Dtype::Bf16)),
            _ => format.arithmetic().iter().find_map(product),
        }
    }

    /// What starting a kernel takes, where that is published; with it the source.
    pub fn start(&self) -> Option<(Start, &str)> {
        self.costs.start()
    }

    /// The time of all of one operation, of which `serial` is that of L1, where it is published;
    /// `start` is what starting a kernel takes.
    pub fn time(
        &self,
        operation: &Operation,
        (serial, class): (Seconds, Class),
        (group, start): (u32, Option<Seconds>),
    ) -> Option<Timed> {
        let count = operation.count;
        let of = |words: &str, efficiency| Basis {
            whence: Whence::Published,
            words: words.into(),
            efficiency,
            is_near: false,
        };
        let table = match operation.kind {
            Kind::AllReduce(bytes) => Some((&self.sums, bytes, Collective::AllReduce)),
            Kind::AllToAll(bytes) => Some((&self.exchanges, bytes, Collective::AllToAll)),
            Kind::Send(_) => return None,
            _ => None,
        };
        if let Some((tables, bytes, collective)) = table {
            let (time, words) = fastest(tables, collective, (bytes, count), group)?;
            let basis = of(&words, None);
            return Some(Timed { time, fixed: Seconds(0.0), basis });
        }
        if operation.kind == Kind::Small {
            return None;
        }
        let start = start.map_or(0.0, |start| start.0);
        let share = self.reached(operation.kind, operation.format, class);
        let least = self.costs.time(operation.kind, operation.format, operation.bytes);
        let rate = serial.0 / share.map_or(1.0, |share| share.share);
        let by_rate = rate + start * count;
        let efficiency = share.map(|share| share.share);
        let (time, basis) = match (share, least) {
            (_, Some((least, words))) if least.0 * count > by_rate => {
                (least.0 * count, of(words, None))
            }
            (Some(share), _) => (by_rate, of(&share.words, efficiency)),
            // Its time at few rows is known, and is less than what L1 takes at these.
            (None, Some((_, words))) if class == Class::Memory => (by_rate, of(words, None)),
            (None, _) => return None,
        };
        Some(Timed { time: Seconds(time), fixed: Seconds(time - rate), basis })
    }
}

/// Tables of messages, one for each that is published.
fn messages(name: &str, all: &[Sums]) -> Result<Vec<Vec<Message>>, String> {
    let table = |sums: &Sums| {
        if sums.bytes.len() != sums.seconds.len() {
            return Err(format!("{name}: bytes and seconds are as many as each other"));
        }
        let message = |(&bytes, &time): (&f64, &f64)| {
            let case = format!("published: {}", sums.source);
            Message { ranks: sums.ranks, bytes, time, case }
        };
        Ok(sums.bytes.iter().zip(&sums.seconds).map(message).collect())
    };
    all.iter().map(table).collect()
}

/// The time of messages: the least of the tables of as many ranks that reach down or up to their
/// size, since an engine chooses among libraries; or of the fewest more ranks that are published,
/// by the share of a message that a ring sends. Without that, layouts of fewer devices would look
/// better only since nobody published their messages.
fn fastest(
    tables: &[Vec<Message>],
    collective: Collective,
    (bytes, count): (f64, f64),
    group: u32,
) -> Option<(Seconds, String)> {
    let ranks_of = |table: &Vec<Message>| table.first().map(|one| one.ranks);
    let ranks = tables.iter().filter_map(ranks_of).filter(|ranks| *ranks >= group).min()?;
    let factor = |ranks: u32| collective.bus_factor(ranks);
    let by = if ranks == group { 1.0 } else { factor(group) / factor(ranks) };
    let alike = tables.iter().filter(|table| ranks_of(table) == Some(ranks));
    let times = alike.filter_map(|table| {
        let largest = table.iter().map(|one| one.bytes).fold(0.0, f64::max);
        let (time, basis) = message(table, bytes, count, ranks)?;
        Some((bytes <= largest, time, basis))
    });
    // A table that ends below this size says less of it than one that does not.
    let order = |is_within: bool| u8::from(!is_within);
    let best = times
        .min_by(|one, other| order(one.0).cmp(&order(other.0)).then(one.1.0.total_cmp(&other.1.0)));
    best.map(|(_, time, basis)| match ranks == group {
        true => (time, basis.words),
        false => (time * by, format!("{}, by the bus factor of {group} ranks", basis.words)),
    })
}
