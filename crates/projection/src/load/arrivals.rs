//! When the requests of an open loop are sent.

use super::random::{Purpose, Random};
use fizeau_domain::number;
use std::{fmt, str::FromStr};

/// Intervals between the requests of an open loop.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Arrivals {
    /// Exponential: many users who do not know of each other.
    #[default]
    Poisson,
    /// All equal.
    Constant,
    /// Gamma with this shape: below 1 requests come in bursts, above 1 they are more even than
    /// Poisson. The burstiness of `vllm bench serve`.
    Gamma(f64),
}

impl Arrivals {
    /// The shape of gamma intervals, as [`super::Plan::burstiness`] has it.
    pub fn shape(self) -> Option<f64> {
        match self {
            Arrivals::Poisson => Some(1.0),
            Arrivals::Constant => None,
            Arrivals::Gamma(shape) => Some(shape),
        }
    }

    /// Moments of requests in seconds from the beginning of a level, at a rate in requests a
    /// second. Each part of the level, such as its warm-up, has its own number of requests and
    /// takes exactly as long as this number does at the rate: intervals are drawn and then scaled
    /// to it. Moments of a Poisson process of which the number is known are just that; without it
    /// a level of 20 requests would offer a rate that is a quarter off by chance.
    pub fn moments(self, rate: f64, parts: &[u64], seed: u64, level: u64) -> Vec<f64> {
        let mut random = Random::new(seed, level, Purpose::Arrivals);
        let mut interval = |_| match self {
            Arrivals::Poisson => random.exponential(),
            Arrivals::Constant => 1.0,
            Arrivals::Gamma(shape) => random.gamma(shape),
        };
        let (mut moments, mut begin) = (Vec::new(), 0.0);
        for count in parts {
            let intervals: Vec<f64> = (0..*count).map(&mut interval).collect();
            let sum: f64 = intervals.iter().sum();
            let length = *count as f64 / rate;
            let mut drawn = 0.0;
            for interval in intervals {
                drawn += interval;
                moments.push(begin + drawn / sum.max(f64::MIN_POSITIVE) * length);
            }
            begin += length;
        }
        moments
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arrivals::Poisson => f.write_str("Poisson"),
            Arrivals::Constant => f.write_str("constant intervals"),
            Arrivals::Gamma(shape) => write!(f, "gamma intervals of shape {shape}"),
        }
    }
}

/// Shapes outside of this are no arrivals that anybody means.
const SHAPES: std::ops::RangeInclusive<f64> = 0.01..=1e4;

impl FromStr for Arrivals {
    type Err = String;

    fn from_str(text: &str) -> Result<Arrivals, String> {
        let refuse =
            || format!("{text:?}: write poisson, constant or gamma=SHAPE, such as gamma=0.5");
        match text.split_once('=') {
            None if text == "poisson" => Ok(Arrivals::Poisson),
            None if text == "constant" => Ok(Arrivals::Constant),
            Some(("gamma", shape)) => {
                let shape = number::positive(shape).map_err(|_| refuse())?;
                SHAPES.contains(&shape).then_some(Arrivals::Gamma(shape)).ok_or_else(refuse)
            }
            _ => Err(refuse()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_the_mean_and_the_spread_that_they_are_named_for() {
        for (text, spread) in [
            ("poisson", 1.0),
            ("constant", 0.0),
            ("gamma=0.25", 2.0),
            ("gamma=1", 1.0),
            ("gamma=16", 0.25),
        ] {
            let arrivals: Arrivals = text.parse().expect("it is written well");
            let (rate, count) = (4.0, [100, 49_900]);
            let moments = arrivals.moments(rate, &count, 1, 0);
            let gaps: Vec<f64> = moments.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let square = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>();
            let deviation = (square / gaps.len() as f64).sqrt();
            assert!((mean * rate - 1.0).abs() < 1e-3, "{text}: mean {mean}");
            let ends = [moments[99], moments[49_999]];
            assert!((ends[0] - 25.0).abs() < 1e-6 && (ends[1] - 12_500.0).abs() < 1e-6, "{ends:?}");
            assert!((deviation / mean - spread).abs() < 0.03 * spread.max(0.01), "{text}");
            assert_eq!(moments, arrivals.moments(rate, &count, 1, 0), "the same seed");
            assert_eq!(moments == arrivals.moments(rate, &count, 2, 0), spread == 0.0, "{text}");
        }
        for text in ["", "gamma", "gamma=0", "gamma=1e9", "poison", "constant=1"] {
            assert!(text.parse::<Arrivals>().is_err(), "{text}");
        }
    }
}
