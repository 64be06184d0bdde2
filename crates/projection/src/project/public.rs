//! Rates of a part that others measured and published: what L2 takes where a record lacks a shape.
//!
//! They say how near good kernels come to a part's limits, and nothing of this operator's machine:
//! what rests on them is not covered by a measurement.

use super::{
    hardware::Hardware,
    measured::{Basis, Message, Whence, message},
    operation::{Kind, Operation},
    step::Class,
};
use fizeau_domain::{
    case::Collective, dtype::Dtype, model::Format, stats::quantile, units::Seconds,
};
use serde::Deserialize;

/// A file of `data/medians`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MediansFile {
    /// Published rates.
    #[serde(default)]
    pub figure: Vec<Figure>,
    /// Published times of all_reduce.
    #[serde(default)]
    pub all_reduce: Vec<Sums>,
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

/// Published times of all_reduce over one number of ranks.
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

/// Shares of a part's limits that published kernels reach.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Public {
    shares: Vec<Share>,
    sums: Vec<Message>,
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
            let median = quantile::median(&values);
            if !(median.is_finite() && median > 0.0) {
                return Err(format!("{:?}: a rate is above 0", figure.of));
            }
            let words = match alike.as_slice() {
                [one] => format!("published: {}", one.source),
                [first, ..] => format!("published, median of {}: {}", alike.len(), first.source),
                [] => String::new(),
            };
            let share = (median / limit).min(1.0);
            public.shares.push(Share { of: figure.of, dtype: figure.dtype, share, words });
        }
        for sums in &file.all_reduce {
            if sums.bytes.len() != sums.seconds.len() {
                return Err("all_reduce: bytes and seconds are as many as each other".into());
            }
            public.sums.extend(sums.bytes.iter().zip(&sums.seconds).map(|(&bytes, &time)| {
                let case = format!("published: {}", sums.source);
                Message { ranks: sums.ranks, bytes, time, case }
            }));
        }
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

    /// The time of all_reduce: of as many ranks, or of the fewest more that are published, by the
    /// share of a message that a ring sends. Without that, layouts of fewer devices would look
    /// better only since nobody published their messages.
    fn sum(&self, bytes: f64, count: f64, group: u32) -> Option<(Seconds, String)> {
        let ranks = self.sums.iter().map(|one| one.ranks).filter(|ranks| *ranks >= group).min()?;
        let (time, basis) = message(&self.sums, bytes, count, ranks)?;
        if ranks == group {
            return Some((time, basis.words));
        }
        let factor = |ranks: u32| Collective::AllReduce.bus_factor(ranks);
        let time = time * (factor(group) / factor(ranks));
        Some((time, format!("{}, by the bus factor of {group} ranks", basis.words)))
    }

    /// The time of all of one operation, of which `serial` is that of L1, where it is published.
    pub fn time(
        &self,
        operation: &Operation,
        (serial, class): (Seconds, Class),
        group: u32,
    ) -> Option<(Seconds, Basis)> {
        let of = |words: &str| Basis {
            whence: Whence::Published,
            words: words.into(),
            efficiency: None,
            is_near: false,
        };
        match operation.kind {
            Kind::AllReduce(bytes) => {
                self.sum(bytes, operation.count, group).map(|(time, words)| (time, of(&words)))
            }
            Kind::AllToAll(_) | Kind::Send(_) => None,
            kind => {
                let Share { share, words, .. } = self.reached(kind, operation.format, class)?;
                let basis = Basis { efficiency: Some(*share), ..of(words) };
                Some((Seconds(serial.0 / share), basis))
            }
        }
    }
}
