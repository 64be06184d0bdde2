//! Intervals of a median, and of the ratio of two medians, from samples that may depend on each
//! other.
//!
//! Samples that follow one another are seldom independent: clocks drift, a neighbour wakes up, a
//! device holds one of two states for a while. An interval for independent samples would then be
//! too narrow. So the interval here is what a test leaves over: all values that cannot be refused
//! as the median. If `m` is the median, half of the samples lie above it, whatever their
//! distribution. How far the count may stray from half depends on how long the samples stay on one
//! side of `m`, which two estimates tell:
//!
//! - **Neighbours**: the rank correlation of neighbouring samples, corrected for its bias (Kendall,
//!   Biometrika 41, 1954), is taken for that of a first-order autoregression. This one sees
//!   dependence over a few samples also where there are few of them.
//! - **Slow changes**: the power of the signs of `sample - m` at the lowest frequencies, the first
//!   cosines of the series (the equal-weighted cosine estimate of Lazarus, Lewis, Stock and Watson,
//!   Journal of Business and Economic Statistics 36, 2018), judged by Student's t. This one sees
//!   drift and states that last, whatever the neighbours say.
//!
//! The wider of the two counts. docs/appendix/error-rates.md has the coverage, simulated. Where the
//! samples leave the ends unknown, the interval is their range with a confidence below
//! [`CONFIDENCE`], and reports say [`TOO_FEW`].

use super::{
    Interval,
    quantile::{self, quantile},
};
use crate::units::Seconds;
use std::f64::consts::PI;

/// The confidence of every interval that has enough independent samples.
pub const CONFIDENCE: f64 = 0.95;

/// What a report says in the place of an interval that is not known.
pub const TOO_FEW: &str = "too few independent samples for an interval";

/// The range of n independent samples covers the median with probability 1 - 2^(1 - n): 0.969 for
/// 6. With fewer samples no interval of 95 % exists.
pub const SAMPLES_MIN: usize = 6;

/// From this many samples on, their slow changes are looked at: with fewer, the lowest frequencies
/// are those of neighbours.
const SAMPLES_FOR_SLOW: usize = 50;

/// Independent samples that fewer than [`SAMPLES_FOR_SLOW`] samples must be worth. One more than
/// [`SAMPLES_MIN`], since the correlation of so few neighbours is itself uncertain.
const INDEPENDENT_MIN: f64 = 7.0;

/// From this many samples on, three cosines are used instead of four: slower changes count then.
const SAMPLES_FOR_THREE: usize = 200;

/// Standard errors added to the correlation of neighbours, below and from [`SAMPLES_FOR_SLOW`]
/// samples on: the correlation of dependent samples is estimated badly, and an interval that is too
/// narrow is worse than one that is somewhat too wide.
const ERRORS_ADDED: [f64; 2] = [0.5, 1.0];

/// The largest correlation of neighbours that is told from 1.
const CORRELATION_MAX: f64 = 0.999;

/// Standard deviations on each side of the middle 95 % of a normal distribution.
const NORMAL: f64 = 1.959_963_984_540_054;

/// The same of Student's t with 3 and with 4 degrees of freedom.
const STUDENT: [f64; 2] = [3.182_446_305_284_263, 2.776_445_105_197_793];

/// The interval of the median of values in the order in which they were taken.
///
/// # Panics
///
/// Where there are no values.
pub fn median_interval(values: &[f64]) -> Interval {
    let order = Order::of(values);
    let count = values.len();
    if count < SAMPLES_MIN {
        let confidence = 1.0 - 0.5f64.powi(count as i32 - 1);
        return order.range(confidence, count as f64);
    }
    let inflation = order.inflation_by_neighbours();
    let (ends, slow) = order.not_refused(inflation);
    let independent = count as f64 / inflation.max(slow).max(1.0);
    let known = count >= SAMPLES_FOR_SLOW || count as f64 / inflation >= INDEPENDENT_MIN;
    match ends.filter(|_| known) {
        Some((low, high)) => Interval {
            low: Seconds(low),
            high: Seconds(high),
            confidence: CONFIDENCE,
            independent: Some(independent),
        },
        // Nothing is known of how often the range of dependent samples holds the median.
        None => order.range(0.0, independent),
    }
}

/// The ends of the interval of `median(second) / median(first)`, both in the order in which they
/// were taken, and whether both have enough independent samples for it. Without, the ends go from
/// range to range.
///
/// # Panics
///
/// Where either is empty.
pub fn ratio_interval(first: &[f64], second: &[f64]) -> (f64, f64, bool) {
    let (below, above) = (median_interval(first), median_interval(second));
    if !below.is_known() || !above.is_known() {
        return (above.low / below.high, above.high / below.low, false);
    }
    let (a, b) = (quantile::median(first).ln(), quantile::median(second).ln());
    // Independent of each other, so that their distances add as squares do.
    let down = (b - above.low.0.ln()).hypot(below.high.0.ln() - a);
    let up = (above.high.0.ln() - b).hypot(a - below.low.0.ln());
    ((b - a - down).exp(), (b - a + up).exp(), true)
}

/// Values with their order.
struct Order<'v> {
    values: &'v [f64],
    /// Positions by rising value.
    positions: Vec<usize>,
}

impl Order<'_> {
    fn of(values: &[f64]) -> Order<'_> {
        let mut positions: Vec<usize> = (0..values.len()).collect();
        positions.sort_by(|&one, &other| values[one].total_cmp(&values[other]));
        Order { values, positions }
    }

    fn at(&self, rank: usize) -> f64 {
        self.values[self.positions[rank]]
    }

    fn range(&self, confidence: f64, independent: f64) -> Interval {
        let (low, high) = (self.at(0), self.at(self.values.len() - 1));
        let independent = Some(independent);
        Interval { low: Seconds(low), high: Seconds(high), confidence, independent }
    }

    /// By how much the variance of the share of samples above the median exceeds that of
    /// independent samples, from the rank correlation of neighbours.
    fn inflation_by_neighbours(&self) -> f64 {
        let count = self.values.len() as f64;
        let ranks = self.centred_ranks();
        let squares: f64 = ranks.iter().map(|rank| rank * rank).sum();
        if squares == 0.0 {
            return 1.0;
        }
        let products: f64 = ranks.windows(2).map(|pair| pair[0] * pair[1]).sum();
        // The correlation of a normal pair with this rank correlation (Pearson 1907).
        let seen = 2.0 * (PI / 6.0 * products / squares).sin();
        let unbiased = (count * seen + 1.0) / (count - 3.0);
        let unbiased = unbiased.clamp(-CORRELATION_MAX, CORRELATION_MAX);
        let error = ((1.0 - unbiased * unbiased) / count).sqrt();
        let errors = ERRORS_ADDED[usize::from(self.values.len() >= SAMPLES_FOR_SLOW)];
        inflation(unbiased + errors * error)
    }

    /// Ranks by position, their mean taken off; equal values share their mean rank.
    fn centred_ranks(&self) -> Vec<f64> {
        let count = self.values.len();
        let mut ranks = vec![0.0; count];
        let mut from = 0;
        while from < count {
            let mut to = from;
            while to + 1 < count && self.at(to + 1) == self.at(from) {
                to += 1;
            }
            let rank = (from + to) as f64 / 2.0 - (count - 1) as f64 / 2.0;
            self.positions[from..=to].iter().for_each(|&position| ranks[position] = rank);
            from = to + 1;
        }
        ranks
    }

    /// The ends of all values that are not refused as the median, given the least inflation of the
    /// variance; `None` where even a value beyond all samples is not refused. Then the inflation
    /// that slow changes show at the median.
    ///
    /// Between two neighbours in rank the signs of `sample - m` stay the same, so that it is enough
    /// to try one value of each gap.
    fn not_refused(&self, least: f64) -> (Option<(f64, f64)>, f64) {
        let count = self.values.len();
        let length = count as f64;
        let mut cosines = Cosines::new(count);
        let sorted: Vec<f64> = (0..count).map(|rank| self.at(rank)).collect();
        let median = quantile(&sorted, 0.5);
        let (mut low, mut high) = (median, median);
        let (mut bounded, mut at_median) = (true, 1.0);
        for below in 0..=count {
            if let Some(rank) = below.checked_sub(1) {
                cosines.turn(self.positions[rank]);
            }
            let slow = cosines.power();
            if below == count / 2 {
                at_median = slow;
            }
            let ends = (below > 0).then(|| sorted[below - 1]).zip(sorted.get(below).copied());
            // No value lies between equal ones.
            if ends.is_some_and(|(one, other)| one == other) {
                continue;
            }
            let surplus = length - 2.0 * below as f64;
            let allowed = (NORMAL * NORMAL * least).max(cosines.student.powi(2) * slow);
            if surplus * surplus / length >= allowed {
                continue;
            }
            match ends {
                Some((one, other)) => (low, high) = (low.min(one), high.max(other)),
                None => bounded = false,
            }
        }
        (bounded.then_some((low, high)), at_median)
    }
}

/// Power at the lowest frequencies of a series of signs, all of them + 1 at first.
struct Cosines {
    length: f64,
    amplitudes: Vec<f64>,
    /// The quantile of Student's t for this number of amplitudes.
    student: f64,
}

impl Cosines {
    fn new(count: usize) -> Cosines {
        let (frequencies, student) = if count < SAMPLES_FOR_SLOW {
            (0, 0.0)
        } else if count < SAMPLES_FOR_THREE {
            (4, STUDENT[1])
        } else {
            (3, STUDENT[0])
        };
        Cosines { length: count as f64, amplitudes: vec![0.0; frequencies], student }
    }

    /// Turns the sign at a position to - 1.
    fn turn(&mut self, position: usize) {
        let scale = 2.0 * (2.0 / self.length).sqrt();
        let phase = PI * (position as f64 + 0.5) / self.length;
        for (at, amplitude) in self.amplitudes.iter_mut().enumerate() {
            *amplitude -= scale * (phase * (at + 1) as f64).cos();
        }
    }

    /// Mean square of the amplitudes: 1 for independent signs.
    fn power(&self) -> f64 {
        let squares: f64 = self.amplitudes.iter().map(|amplitude| amplitude * amplitude).sum();
        squares / (self.amplitudes.len().max(1)) as f64
    }
}

/// Sum of all autocorrelations of the signs of a first-order autoregression with this correlation
/// of neighbours: signs of a normal pair with correlation r correlate by 2 / pi asin r (Sheppard
/// 1899).
fn inflation(correlation: f64) -> f64 {
    let correlation = correlation.min(CORRELATION_MAX);
    let (mut sum, mut power) = (1.0, correlation);
    while power > 1e-6 {
        sum += 4.0 / PI * power.asin();
        power *= correlation;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(random: &mut oorandom::Rand64) -> f64 {
        let (a, b) = (random.rand_float().max(1e-300), random.rand_float());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }

    #[test]
    fn fewer_samples_than_six_give_their_range_and_its_confidence() {
        let interval = median_interval(&[3.0, 1.0, 2.0]);
        assert_eq!((interval.low, interval.high), (Seconds(1.0), Seconds(3.0)));
        assert_eq!(interval.confidence, 0.75);
        assert_eq!(median_interval(&[1.0]).confidence, 0.0);
    }

    #[test]
    fn samples_that_only_rise_have_no_interval() {
        let rising: Vec<f64> = (0..300).map(f64::from).collect();
        for count in [6, 10, 30, 49, 50, 100, 300] {
            let interval = median_interval(&rising[..count]);
            assert!(!interval.is_known(), "{count}: {interval:?}");
            assert_eq!(interval.high, Seconds((count - 1) as f64));
        }
    }

    #[test]
    fn equal_samples_are_no_trend() {
        // A timer of coarse steps: equal values must not be ranked by the order they came in.
        let interval = median_interval(&[2.0; 40]);
        assert!(interval.is_known());
        assert_eq!((interval.low, interval.high), (Seconds(2.0), Seconds(2.0)));
        let mut random = oorandom::Rand64::new(3);
        let steps: Vec<f64> = (0..400).map(|_| (2.0 * normal(&mut random)).round()).collect();
        let independent = median_interval(&steps).independent.expect("enough");
        assert!(independent > 100.0, "{independent}");
    }

    #[test]
    fn the_effective_sample_size_is_that_of_the_process() {
        // Signs of an autoregression with r = 0.9 are worth a thirteenth of their number.
        let mut random = oorandom::Rand64::new(7);
        let (mut dependent, mut value) = (Vec::new(), 0.0);
        for _ in 0..20_000 {
            value = 0.9 * value + normal(&mut random);
            dependent.push(value);
        }
        let (runs, of) = (20, 1_000.0);
        let worth: Vec<f64> = dependent
            .chunks(1_000)
            .map(|run| median_interval(run).independent.expect("enough"))
            .collect();
        let typical = quantile::median(&worth);
        assert!(typical > of / 25.0 && typical < of / 10.0, "{typical} of {of} in {runs} runs");
        assert!((inflation(0.9) - 13.3).abs() < 0.3, "{}", inflation(0.9));
        assert_eq!(inflation(0.0), 1.0);
    }

    #[test]
    fn a_ratio_of_equal_samples_spans_one() {
        let values: Vec<f64> = (0..100).map(|at| 1.0 + f64::from(at * 37 % 101) / 1000.0).collect();
        let (low, high, known) = ratio_interval(&values, &values);
        assert!(known && low <= 1.0 && 1.0 <= high, "{low}..{high}");
        let slower: Vec<f64> = values.iter().map(|value| value * 1.1).collect();
        let (low, high, _) = ratio_interval(&values, &slower);
        assert!(low > 1.05 && high < 1.15, "{low}..{high}");
    }
}
