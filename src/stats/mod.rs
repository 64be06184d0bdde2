//! Statistics of samples: location, spread and how sure they are.
//!
//! Quantiles are R-7 (linear interpolation between order statistics; Hyndman and Fan 1996), the
//! default of NumPy and R, so that anyone can recompute them from the record.

use crate::units::Seconds;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The times of one case in numbers. All of it can be computed again from the raw samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// How many samples.
    pub count: u64,
    /// The headline.
    pub median: Seconds,
    /// The fastest.
    pub min: Seconds,
    /// The slowest.
    pub max: Seconds,
    /// 5th percentile.
    pub p5: Seconds,
    /// 25th percentile.
    pub p25: Seconds,
    /// 75th percentile.
    pub p75: Seconds,
    /// 95th percentile.
    pub p95: Seconds,
    /// 99th percentile.
    pub p99: Seconds,
    /// 99.9th percentile, from 1,000 samples on.
    pub p999: Option<Seconds>,
    /// Median absolute deviation / median.
    pub noise: f64,
    /// Of the median.
    pub interval: Interval,
}

/// A confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Its lower end.
    pub low: Seconds,
    /// Its upper end.
    pub high: Seconds,
    /// How often such an interval covers the true value: 0.95.
    pub confidence: f64,
}
