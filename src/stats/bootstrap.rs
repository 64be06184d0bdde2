//! Bootstrap intervals of a median and of the ratio of two.
//!
//! The percentile bootstrap (Efron 1979) with a fixed seed, so that the record's raw samples give
//! the same interval again. Samples taken one after the other are seldom independent (clocks
//! drift, a neighbour wakes up): where neighbours agree more than chance allows, whole blocks of
//! neighbours are drawn (circular block bootstrap, Politis and Romano 1992), else an interval
//! would promise what a second run does not keep. With fewer than [`SAMPLES_MIN`] samples no
//! interval of 95 % exists; then it is the range, with the confidence a range has.

use super::{
    Interval,
    quantile::{quantile, sorted},
};
use crate::units::Seconds;
use oorandom::Rand64;

/// The confidence of every interval that has samples enough.
pub const CONFIDENCE: f64 = 0.95;

/// The range of n samples covers the median with probability 1 - 2^(1 - n): 0.969 for 6.
pub const SAMPLES_MIN: usize = 6;

/// Resamples for each interval: the ends are then known to about a twentieth of the width.
const RESAMPLES: usize = 2_000;

/// Work of one interval in draws; many samples get fewer resamples, never under 400.
const DRAWS_MAX: usize = 4_000_000;

const SEED: u128 = 0x1849;

/// The interval of the median of values in the order they were taken.
///
/// # Panics
///
/// Where there are no values.
pub fn median_interval(values: &[f64]) -> Interval {
    if values.len() < SAMPLES_MIN {
        return range(values);
    }
    let mut medians = Resampler::new(values, SEED).medians(resamples(values.len()));
    let (low, high) = middle(&mut medians);
    Interval { low: Seconds(low), high: Seconds(high), confidence: CONFIDENCE }
}

/// The ends of the interval of `median(second) / median(first)`, both in the order they were
/// taken. With too few samples on a side: from range to range.
///
/// # Panics
///
/// Where either is empty.
pub fn ratio_interval(first: &[f64], second: &[f64]) -> (f64, f64) {
    if first.len().min(second.len()) < SAMPLES_MIN {
        let (below, above) = (range(first), range(second));
        return (above.low / below.high, above.high / below.low);
    }
    let count = resamples(first.len().max(second.len()));
    let below = Resampler::new(first, SEED).medians(count);
    let above = Resampler::new(second, SEED + 1).medians(count);
    let mut ratios: Vec<f64> =
        above.iter().zip(&below).map(|(above, below)| above / below).collect();
    middle(&mut ratios)
}

fn resamples(length: usize) -> usize {
    (DRAWS_MAX / length).clamp(RESAMPLES / 5, RESAMPLES)
}

fn range(values: &[f64]) -> Interval {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let confidence = 1.0 - 0.5f64.powi(values.len() as i32 - 1);
    Interval { low: Seconds(low), high: Seconds(high), confidence }
}

/// The middle [`CONFIDENCE`] of a distribution.
fn middle(values: &mut [f64]) -> (f64, f64) {
    values.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - CONFIDENCE) / 2.0;
    (quantile(values, tail), quantile(values, 1.0 - tail))
}

/// Draws samples again. It draws ranks, not values: the median of ranks is found by counting.
struct Resampler {
    sorted: Vec<f64>,
    rank_at: Vec<usize>,
    block: usize,
    random: Rand64,
}

impl Resampler {
    fn new(values: &[f64], seed: u128) -> Resampler {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|&one, &other| values[one].total_cmp(&values[other]));
        let mut rank_at = vec![0; values.len()];
        for (rank, &position) in order.iter().enumerate() {
            rank_at[position] = rank;
        }
        let sorted = order.iter().map(|&position| values[position]).collect();
        Resampler { sorted, rank_at, block: block_length(values), random: Rand64::new(seed) }
    }

    fn medians(&mut self, count: usize) -> Vec<f64> {
        let mut times_drawn = vec![0u32; self.sorted.len()];
        (0..count).map(|_| self.median(&mut times_drawn)).collect()
    }

    fn median(&mut self, times_drawn: &mut [u32]) -> f64 {
        let length = self.sorted.len();
        times_drawn.fill(0);
        let mut drawn = 0;
        while drawn < length {
            let start = self.random.rand_range(0..length as u64) as usize;
            let block = self.block.min(length - drawn);
            for step in 0..block {
                let position = start + step;
                let wrapped = if position < length { position } else { position - length };
                times_drawn[self.rank_at[wrapped]] += 1;
            }
            drawn += block;
        }
        let lower = self.order_statistic(times_drawn, (length - 1) / 2);
        let upper = self.order_statistic(times_drawn, length / 2);
        (lower + upper) / 2.0
    }

    fn order_statistic(&self, times_drawn: &[u32], index: usize) -> f64 {
        let mut passed = 0;
        for (rank, &times) in times_drawn.iter().enumerate() {
            passed += times as usize;
            if passed > index {
                return self.sorted[rank];
            }
        }
        self.sorted[self.sorted.len() - 1]
    }
}

/// Neighbours drawn together. One where they are as good as independent, else Carlstein's length
/// for a first-order autoregression (Annals of Statistics 14, 1986): (sqrt 6 r / (1 - r^2))^(2/3)
/// n^(1/3), where r is the correlation of neighbours as seen by the median: of the signs of their
/// distances from it.
fn block_length(values: &[f64]) -> usize {
    let length = values.len() as f64;
    let correlation = neighbour_correlation(values);
    // Beyond what independent samples show once in forty times.
    if correlation < 1.96 / length.sqrt() {
        return 1;
    }
    // Signs correlate less than what they are the signs of: r = sin(pi/2 s) for a normal pair.
    let correlation = (std::f64::consts::FRAC_PI_2 * correlation).sin().min(0.95);
    let scale = 6f64.sqrt() * correlation / (1.0 - correlation * correlation);
    let block = scale.powf(2.0 / 3.0) * length.cbrt();
    (block.ceil() as usize).clamp(1, values.len() / 4)
}

fn neighbour_correlation(values: &[f64]) -> f64 {
    let median = quantile(&sorted(values), 0.5);
    let sign = |value: f64| f64::from(i8::from(value > median) - i8::from(value < median));
    let (mut product, mut square) = (0.0, 0.0);
    for pair in values.windows(2) {
        product += sign(pair[0]) * sign(pair[1]);
        square += sign(pair[0]).abs();
    }
    if square == 0.0 { 0.0 } else { product / square }
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
                assert!((0.92..=0.98).contains(&share), "{name}, {count} samples: {share}");
            }
        }
    }

    /// The distance from a normal's mean to its 5/7 quantile, where the median of the mixture
    /// lies: Phi^-1(0.5 / 0.7).
    const SHIFT: f64 = 0.565_948_821_932_863;

    #[test]
    fn too_few_samples_give_their_range_and_its_confidence() {
        let interval = median_interval(&[3.0, 1.0, 2.0]);
        assert_eq!((interval.low, interval.high), (Seconds(1.0), Seconds(3.0)));
        assert_eq!(interval.confidence, 0.75);
        assert_eq!(median_interval(&[1.0]).confidence, 0.0);
    }

    #[test]
    fn drifting_samples_are_not_taken_for_independent_ones() {
        // A first-order autoregression with r = 0.7; its median is 0.
        let mut random = oorandom::Rand64::new(7);
        let (mut blocks, mut covered) = (0, 0);
        let runs = 400;
        for _ in 0..runs {
            let mut value = 0.0;
            let mut values = Vec::with_capacity(100);
            for step in 0..150 {
                value = 0.7 * value + normal(&mut random);
                if step >= 50 {
                    values.push(value);
                }
            }
            blocks += block_length(&values);
            let interval = median_interval(&values);
            covered += i32::from(interval.low.0 <= 0.0 && 0.0 <= interval.high.0);
        }
        // Drawn one by one, two thirds of these intervals would cover it.
        assert!(f64::from(covered) > 0.85 * f64::from(runs), "{covered} of {runs}");
        assert!(blocks / runs as usize > 5, "{blocks}");
        let independent: Vec<f64> = (0..100).map(|_| normal(&mut random)).collect();
        assert_eq!(block_length(&independent), 1);
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
