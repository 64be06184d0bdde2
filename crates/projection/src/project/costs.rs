//! What a kernel takes however little it has to do: published times of kernels of few rows, by the
//! bytes that they read. A rate of large operations has no such time in it.

use super::operation::Kind;
use fizeau_domain::{model::Format, units::Seconds};
use serde::Deserialize;

/// Published times of one kind of kernel.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelTimes {
    /// The kind.
    pub of: KernelKind,
    /// How weights are stored; absent for kernels without weights.
    pub format: Option<String>,
    /// How the kernels were given to the device.
    pub way: Way,
    /// Bytes that one kernel reads; of experts the weights of both products of a layer.
    pub bytes: Vec<f64>,
    /// The time of each, seconds.
    pub seconds: Vec<f64>,
    /// Who published it.
    pub source: String,
}

/// A kind of kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelKind {
    /// Element by element, with next to nothing to do: norms, rotations, activations.
    Small,
    /// A matrix product of one row.
    Product,
    /// All kernels of a layer of experts with one token: sorting, both products, and the sum.
    Experts,
    /// Attention over a KV cache.
    Attention,
}

/// How kernels are given to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// As nodes of a graph, which is enqueued as one.
    Graph,
    /// One by one, each enqueued before the one before it ends.
    Queued,
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Way::Graph => "in a graph",
            Way::Queued => "one by one",
        })
    }
}

/// What starting a kernel takes, and how that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Start {
    /// The time from one kernel's start to the next one's, where kernels have next to nothing to
    /// do.
    pub time: Seconds,
    /// How the kernels were given to the device.
    pub way: Way,
}

/// The times of one kind of kernel, in ascending order of bytes.
#[derive(Clone, Debug, PartialEq)]
struct Curve {
    of: KernelKind,
    format: Option<Format>,
    way: Way,
    points: Vec<(f64, f64)>,
    words: String,
}

/// Published times of kernels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Costs {
    curves: Vec<Curve>,
    /// Seconds for each byte beyond the largest size.
    beyond: f64,
}

impl Curve {
    fn of(times: &KernelTimes) -> Result<Curve, String> {
        let KernelTimes { of, way, bytes, seconds, source, .. } = times;
        let refuse = |why: &str| Err(format!("a kernel ({of:?}): {why}"));
        if bytes.len() != seconds.len() || bytes.is_empty() {
            return refuse("bytes and seconds are as many as each other, one at least");
        }
        let rises = |list: &[f64], least: f64| {
            let is_number = list.iter().all(|one| one.is_finite() && *one >= least);
            is_number && list.windows(2).all(|pair| pair[0] <= pair[1])
        };
        if !rises(bytes, 0.0) || bytes.windows(2).any(|pair| pair[0] >= pair[1]) {
            return refuse("bytes are numbers in ascending order");
        }
        if !rises(seconds, f64::MIN_POSITIVE) {
            return refuse("seconds are numbers above 0 that never fall with more bytes");
        }
        let format = times.format.as_ref().map(|text| text.parse::<Format>()).transpose()?;
        let points = bytes.iter().copied().zip(seconds.iter().copied()).collect();
        let words = format!("published, {way}: {source}");
        Ok(Curve { of: *of, format, way: *way, points, words })
    }

    /// The time at a size: linear between sizes, that of the smallest below them, and
    /// `beyond` seconds a byte more above them.
    fn at(&self, bytes: f64, beyond: f64) -> f64 {
        let points = &self.points;
        let (last, first) = (points[points.len() - 1], points[0]);
        let above = points.iter().position(|(size, _)| *size >= bytes);
        match above {
            None => last.1 + (bytes - last.0) * beyond,
            Some(0) => first.1,
            Some(at) => {
                let (low, high) = (points[at - 1], points[at]);
                low.1 + (bytes - low.0) / (high.0 - low.0) * (high.1 - low.1)
            }
        }
    }
}

impl Costs {
    /// Of a part's file; `beyond` is what a byte takes at the rate of large operations, seconds.
    ///
    /// # Errors
    /// In words: which times cannot be.
    pub fn of(times: &[KernelTimes], beyond: f64) -> Result<Costs, String> {
        let curves = times.iter().map(Curve::of).collect::<Result<_, _>>()?;
        Ok(Costs { curves, beyond })
    }

    /// What starting a kernel takes: the time of the smallest that is published.
    pub fn start(&self) -> Option<(Start, &str)> {
        let small = self.curves.iter().filter(|one| one.of == KernelKind::Small);
        let least = small.min_by(|one, other| one.points[0].1.total_cmp(&other.points[0].1))?;
        let time = Seconds(least.points[0].1);
        Some((Start { time, way: least.way }, &least.words))
    }

    /// The time of one kernel of few rows that reads this many bytes, where it is published; with
    /// it the source.
    pub fn time(&self, kind: Kind, format: Format, bytes: f64) -> Option<(Seconds, &str)> {
        let of = |wanted: KernelKind, is_weight: bool| {
            let alike = |one: &&Curve| {
                let is_format = match (one.format, format) {
                    (Some(Format::Int4 { .. }), Format::Int4 { .. }) => true,
                    (Some(one), other) => one == other,
                    (None, _) => !is_weight,
                };
                one.of == wanted && is_format
            };
            self.curves.iter().find(alike)
        };
        match kind {
            Kind::Gemm(_) => {
                let curve = of(KernelKind::Product, true)?;
                Some((Seconds(curve.at(bytes, self.beyond)), &curve.words))
            }
            // A layer's time is of both its products: each takes half of it.
            Kind::Grouped(_) => {
                let curve = of(KernelKind::Experts, true)?;
                Some((Seconds(curve.at(bytes * 2.0, self.beyond) / 2.0), &curve.words))
            }
            Kind::Attention { is_prefill: false } => {
                let curve = of(KernelKind::Attention, false)?;
                Some((Seconds(curve.at(bytes, self.beyond)), &curve.words))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(bytes: &[f64], seconds: &[f64]) -> KernelTimes {
        KernelTimes {
            of: KernelKind::Product,
            format: Some("bf16".into()),
            way: Way::Graph,
            bytes: bytes.into(),
            seconds: seconds.into(),
            source: "made up".into(),
        }
    }

    #[test]
    fn times_are_linear_between_sizes() {
        let costs = Costs::of(&[times(&[100.0, 300.0], &[2.0, 6.0])], 0.5).expect("times");
        let kind = Kind::Gemm([1.0; 3]);
        let at = |bytes| costs.time(kind, Format::Bf16, bytes).map(|(time, _)| time.0);
        assert_eq!(
            [0.0, 100.0, 150.0, 300.0, 310.0].map(at),
            [Some(2.0), Some(2.0), Some(3.0), Some(6.0), Some(11.0)]
        );
        assert_eq!(costs.time(kind, Format::Fp8, 1.0), None);
        assert_eq!(costs.time(Kind::Grouped([1.0; 4]), Format::Bf16, 1.0), None);
        assert_eq!(costs.start(), None);
    }

    #[test]
    fn times_that_cannot_be_are_refused() {
        for (bytes, seconds) in [
            (vec![], vec![]),
            (vec![1.0], vec![1.0, 2.0]),
            (vec![2.0, 1.0], vec![1.0, 2.0]),
            (vec![1.0, 2.0], vec![2.0, 1.0]),
            (vec![1.0], vec![0.0]),
            (vec![f64::NAN], vec![1.0]),
        ] {
            assert!(Costs::of(&[times(&bytes, &seconds)], 0.0).is_err(), "{bytes:?} {seconds:?}");
        }
        let unknown = KernelTimes { format: Some("fp3".into()), ..times(&[1.0], &[1.0]) };
        assert!(Costs::of(&[unknown], 0.0).is_err());
    }
}
