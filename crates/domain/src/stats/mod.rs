//! Statistics of samples: location, spread and how sure they are.
//!
//! Quantiles are R-7 (linear interpolation between order statistics; Hyndman and Fan 1996), the
//! default of NumPy and R, so that anyone can recompute them from the record.

pub mod interval;
pub mod quantile;
pub mod states;
pub mod student;

use crate::units::Seconds;

/// Samples from which the 99.9th percentile is more than the maximum by another name.
const SAMPLES_FOR_P999: usize = 1_000;

/// The times of one case in numbers. All of it can be computed again from the raw samples.
#[derive(Clone, Copy, Debug, PartialEq)]
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

/// The rate of an event that would have shown in `trials` independent trials with a probability of
/// 0.95: `1 - 0.05^(1 / trials)`. Where none showed, it is the exact upper bound of the rate at 95
/// % (Clopper and Pearson, Biometrika 26, 1934). 1 without a trial.
pub fn rate_seen(trials: u64) -> f64 {
    if trials == 0 {
        return 1.0;
    }
    -(0.05f64.ln() / trials as f64).exp_m1()
}

/// A confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Its lower end.
    pub low: Seconds,
    /// Its upper end.
    pub high: Seconds,
    /// How often such an interval covers the true value: 0.95, or less where there are too few
    /// independent samples for it; the interval is then the samples' range.
    pub confidence: f64,
    /// Effective sample size: how many independent samples would tell the median as well as these
    /// do. `None` in records that were made before it was computed.
    pub independent: Option<f64>,
}

impl Interval {
    /// Whether there are enough independent samples for an interval. Without, it is a range.
    pub fn is_known(&self) -> bool {
        self.confidence >= interval::CONFIDENCE
    }
}

impl Summary {
    /// Of the times of one case, in the order they were taken (the interval looks at how
    /// neighbours depend on each other). None where there are none, or one is not finite.
    pub fn of(times: &[Seconds]) -> Option<Summary> {
        if times.is_empty() || times.iter().any(|time| !time.0.is_finite()) {
            return None;
        }
        let values: Vec<f64> = times.iter().map(|time| time.0).collect();
        let sorted = quantile::sorted(&values);
        let at = |share: f64| Seconds(quantile::quantile(&sorted, share));
        let median = at(0.5);
        let deviation = quantile::median_absolute_deviation(&values);
        Some(Summary {
            count: times.len() as u64,
            median,
            min: at(0.0),
            max: at(1.0),
            p5: at(0.05),
            p25: at(0.25),
            p75: at(0.75),
            p95: at(0.95),
            p99: at(0.99),
            p999: (times.len() >= SAMPLES_FOR_P999).then(|| at(0.999)),
            noise: if median.0 > 0.0 { deviation / median.0 } else { 0.0 },
            interval: interval::median_interval(&values),
        })
    }
}
