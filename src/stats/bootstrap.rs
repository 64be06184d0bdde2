//! Confidence intervals of medians, without assuming a distribution.

use super::{Interval, quantile};
use crate::units::Seconds;

/// How often an interval is to cover the true value.
pub const CONFIDENCE: f64 = 0.95;

/// Resamples of one interval.
const RESAMPLES: usize = 1_000;

/// Below this many samples resampling covers too rarely, and order statistics bound the median.
const SAMPLES_FOR_RESAMPLING: usize = 30;

/// The interval of the median of `values`, in the order they were taken: percentile bootstrap
/// (Efron 1979) from 30 values on, with a fixed seed so that it can be computed again; below that
/// the order statistics between which the median lies with at least this confidence.
///
/// # Panics
///
/// Where `values` is empty.
pub fn median_interval(values: &[f64]) -> Interval {
    let sorted = quantile::sorted(values);
    let (low, high) = if sorted.len() < SAMPLES_FOR_RESAMPLING {
        between_order_statistics(&sorted)
    } else {
        let medians = resampled_medians(&sorted, 0);
        let tail = (1.0 - CONFIDENCE) / 2.0;
        (quantile::quantile(&medians, tail), quantile::quantile(&medians, 1.0 - tail))
    };
    Interval { low: Seconds(low), high: Seconds(high), confidence: CONFIDENCE }
}

/// The interval of the ratio of the medians of `b` and `a`, by resampling both.
///
/// # Panics
///
/// Where either is empty.
pub fn ratio_interval(a: &[f64], b: &[f64]) -> (f64, f64) {
    let a = resampled_medians(&quantile::sorted(a), 1);
    let b = resampled_medians(&quantile::sorted(b), 2);
    // Both are sorted; pairing them in a random order makes them independent again.
    let mut random = oorandom::Rand64::new(3);
    let ratios: Vec<f64> =
        b.iter().map(|b| b / a[random.rand_range(0..a.len() as u64) as usize]).collect();
    let ratios = quantile::sorted(&ratios);
    let tail = (1.0 - CONFIDENCE) / 2.0;
    (quantile::quantile(&ratios, tail), quantile::quantile(&ratios, 1.0 - tail))
}

/// Medians of resamples of ascending values, ascending.
fn resampled_medians(sorted: &[f64], seed: u128) -> Vec<f64> {
    let mut random = oorandom::Rand64::new(0x5eed + seed);
    let count = sorted.len();
    let mut drawn = vec![0usize; count];
    let mut medians = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        for index in &mut drawn {
            *index = random.rand_range(0..count as u64) as usize;
        }
        let middle = count / 2;
        let (below, &mut upper, _) = drawn.select_nth_unstable(middle);
        let lower = if count % 2 == 0 { *below.iter().max().unwrap_or(&upper) } else { upper };
        medians.push((sorted[lower] + sorted[upper]) / 2.0);
    }
    medians.sort_by(f64::total_cmp);
    medians
}

/// The widest-apart order statistics whose binomial tails leave at least [`CONFIDENCE`] between
/// them; the extremes where there are too few values for it.
fn between_order_statistics(sorted: &[f64]) -> (f64, f64) {
    let count = sorted.len();
    let mut tail = 0.0;
    let mut term = 0.5f64.powi(count as i32);
    let mut rank = 0;
    for below in 0..count / 2 {
        tail += term;
        if tail > (1.0 - CONFIDENCE) / 2.0 {
            break;
        }
        rank = below + 1;
        term *= (count - below) as f64 / (below + 1) as f64;
    }
    let rank = rank.max(1);
    (sorted[rank - 1], sorted[count - rank])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of simulated runs whose interval covers the true median.
    fn coverage(count: usize, truth: f64, draw: impl Fn(&mut oorandom::Rand64) -> f64) -> f64 {
        let mut random = oorandom::Rand64::new(count as u128);
        let runs = 1_000;
        let covered = (0..runs)
            .filter(|_| {
                let values: Vec<f64> = (0..count).map(|_| draw(&mut random)).collect();
                let interval = median_interval(&values);
                interval.low.0 <= truth && truth <= interval.high.0
            })
            .count();
        covered as f64 / f64::from(runs)
    }

    fn normal(random: &mut oorandom::Rand64) -> f64 {
        let (a, b) = (random.rand_float().max(1e-300), random.rand_float());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }

    #[test]
    fn intervals_cover_as_often_as_they_say() {
        for count in [10, 30, 100] {
            for (name, share) in [
                ("normal", coverage(count, 0.0, normal)),
                ("log-normal", coverage(count, 1.0, |random| normal(random).exp())),
                (
                    "two humps",
                    coverage(count, 10.0, |random| {
                        // 70 % at the lower hump, whose median of the whole is inside it.
                        let upper = random.rand_float() < 0.3;
                        let hump = if upper { 20.0 } else { 10.0 - SHIFT };
                        hump + normal(random)
                    }),
                ),
            ] {
                assert!((0.92..=0.995).contains(&share), "{name}, {count} samples: {share}");
            }
        }
    }

    /// The distance from a normal's mean to its 5/7 quantile, where the median of the mixture
    /// lies: Phi^-1(0.5 / 0.7).
    const SHIFT: f64 = 0.565_948_821_932_863;

    #[test]
    fn few_samples_give_their_extremes() {
        assert_eq!(between_order_statistics(&[1.0]), (1.0, 1.0));
        assert_eq!(between_order_statistics(&[1.0, 2.0, 3.0]), (1.0, 3.0));
        // n = 10: the 2nd and 9th cover 97.9 % (David and Nagaraja, Order Statistics, 7.1).
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(between_order_statistics(&ten), (2.0, 9.0));
    }

    #[test]
    fn a_ratio_of_equal_samples_spans_one() {
        let values: Vec<f64> = (0..100).map(|at| 1.0 + f64::from(at) / 1000.0).collect();
        let (low, high) = ratio_interval(&values, &values);
        assert!(low <= 1.0 && 1.0 <= high, "{low}..{high}");
        let slower: Vec<f64> = values.iter().map(|value| value * 1.1).collect();
        let (low, high) = ratio_interval(&values, &slower);
        assert!(low > 1.05 && high < 1.15, "{low}..{high}");
    }
}
