//! Whether samples are of one state of the machine, or of two.
//!
//! A median is a property of a machine only where the machine stayed in one state. Under a
//! regulator of power, or where a part of a chain lies in a cache, samples fall into two groups,
//! and the median is that of the larger group: a longer or a shorter run would report another
//! number. The median absolute deviation does not see a second state of up to half of the samples.
//!
//! Two tests find them. Either is enough:
//!
//! - **In time**: the level changes once. The place is that of Pettitt's statistic (Applied
//!   Statistics 28, 1979), which compares ranks and assumes no distribution.
//! - **In value**: the samples fall into two clusters, whatever their order. The cut is the one
//!   that leaves the least variance within its sides (Otsu, IEEE Transactions on Systems, Man, and
//!   Cybernetics 9, 1979). It explains 64 % of the variance of a normal distribution and 75 % of a
//!   uniform one, so that two clusters are said where it explains clearly more.

use super::quantile::{median, sorted};
use crate::units::Seconds;

/// Fewer samples than these show no states.
const SAMPLES_MIN: usize = 10;

/// A state has at least this share of the samples, below and from [`SAMPLES_MANY`] on, and
/// [`COUNT_MIN`] of them: less is an outlier.
const SHARE_MIN: [f64; 2] = [0.13, 0.1];

/// See [`SHARE_MIN`].
const SAMPLES_MANY: usize = 50;

/// See [`SHARE_MIN`].
const COUNT_MIN: usize = 2;

/// A change of level in time counts from this ratio of the levels on, less one.
const STEP_MIN: f64 = 0.03;

/// Probability of so large a statistic of Pettitt's where nothing changes, below which a change of
/// level counts.
const STEP_PROBABILITY: f64 = 1e-3;

/// Two clusters count from this ratio of their medians on, less one.
const APART_MIN: f64 = 0.08;

/// Share of the variance that a cut between two clusters explains, in the limit of many samples. A
/// cut of few samples explains more by chance: 1.3 / n is added.
const EXPLAINED_MIN: f64 = 0.8;

/// One of two states.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// Median time of its samples.
    pub time: Seconds,
    /// Share of the samples that are of this state, 0..1.
    pub share: f64,
}

/// Two states between which samples of one case change: the one that most samples are of first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoStates {
    /// The state of most samples.
    pub most: State,
    /// The other one.
    pub other: State,
    /// Whether the one came after the other. Otherwise they alternate.
    pub is_step: bool,
}

impl TwoStates {
    /// The states of samples, in the order in which they were taken; none where they are of one
    /// state, or too few to tell.
    pub fn of(times: &[Seconds]) -> Option<TwoStates> {
        let values: Vec<f64> = times.iter().map(|time| time.0).collect();
        let is_usable = values.iter().all(|time| time.is_finite() && *time > 0.0);
        if values.len() < SAMPLES_MIN || !is_usable {
            return None;
        }
        let logs: Vec<f64> = values.iter().map(|time| time.ln()).collect();
        in_value(&logs).or_else(|| in_time(&logs))
    }

    /// The time of the slower state over that of the faster one, less one.
    pub fn apart(&self) -> f64 {
        let (one, other) = (self.most.time.0, self.other.time.0);
        one.max(other) / one.min(other) - 1.0
    }

    /// Of two groups of logarithms.
    fn new(one: &[f64], other: &[f64], is_step: bool) -> TwoStates {
        let all = (one.len() + other.len()) as f64;
        let state = |logs: &[f64]| State {
            time: Seconds(median(logs).exp()),
            share: logs.len() as f64 / all,
        };
        let (one, other) = (state(one), state(other));
        match one.share >= other.share {
            true => TwoStates { most: one, other, is_step },
            false => TwoStates { most: other, other: one, is_step },
        }
    }
}

/// Whether both sides of a cut are large enough for states.
fn is_fair(at: usize, count: usize) -> bool {
    let least = at.min(count - at);
    let share = SHARE_MIN[usize::from(count >= SAMPLES_MANY)];
    least >= COUNT_MIN && least as f64 >= share * count as f64
}

/// A change of level in the course of time.
fn in_time(logs: &[f64]) -> Option<TwoStates> {
    let count = logs.len();
    let n = count as f64;
    let ranks = mid_ranks(logs);
    let mut sum = 0.0;
    let statistics = (1..count).zip(ranks).map(|(at, rank)| {
        sum += rank;
        (at, (2.0 * sum - at as f64 * (n + 1.0)).abs())
    });
    let (at, most) = statistics.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let probability = 2.0 * (-6.0 * most * most / (n.powi(3) + n * n)).exp();
    let (before, after) = logs.split_at(at);
    let step = (median(after) - median(before)).abs();
    let is_step = probability < STEP_PROBABILITY && step > STEP_MIN.ln_1p() && is_fair(at, count);
    is_step.then(|| TwoStates::new(before, after, true))
}

/// Ranks from 1; those that are equal share the mean of theirs.
fn mid_ranks(values: &[f64]) -> Vec<f64> {
    let sorted = sorted(values);
    let rank = |value: &f64| {
        let below = sorted.partition_point(|other| other < value);
        let to = sorted.partition_point(|other| other <= value);
        (below + to + 1) as f64 / 2.0
    };
    values.iter().map(rank).collect()
}

/// Two clusters of values.
fn in_value(logs: &[f64]) -> Option<TwoStates> {
    let sorted = sorted(logs);
    let count = sorted.len();
    let n = count as f64;
    let mean = sorted.iter().sum::<f64>() / n;
    let variance = sorted.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / n;
    let mut below = 0.0;
    let mut best = (0, 0.0);
    for (at, log) in (1..count).zip(&sorted) {
        below += log - mean;
        // Means of both sides about the mean of all: below / at, and -below / (n - at).
        let between = below * below / (at as f64 * (n - at as f64));
        if between > best.1 {
            best = (at, between);
        }
    }
    let (at, between) = best;
    let is_clear = between > (EXPLAINED_MIN + 1.3 / n) * variance && is_fair(at, count);
    let (low, high) = sorted.split_at(at);
    let states = is_clear.then(|| TwoStates::new(low, high, false))?;
    // The order tells whether the one came after the other: a cut in time that leaves nearly all
    // samples of each state on its own side.
    let limit = (low[low.len() - 1] + high[0]) / 2.0;
    let is_high: Vec<bool> = logs.iter().map(|log| *log > limit).collect();
    let changes = is_high.windows(2).filter(|two| two[0] != two[1]).count();
    let is_step = changes as f64 <= 1.0 + 0.1 * n * states.other.share;
    (states.apart() > APART_MIN).then_some(TwoStates { is_step, ..states })
}

#[cfg(test)]
mod tests {
    use super::*;
    use oorandom::Rand64;

    fn seconds(values: impl IntoIterator<Item = f64>) -> Vec<Seconds> {
        values.into_iter().map(Seconds).collect()
    }

    fn normal(random: &mut Rand64) -> f64 {
        let radius = (-2.0 * (1.0 - random.rand_float()).ln()).sqrt();
        radius * (std::f64::consts::TAU * random.rand_float()).cos()
    }

    /// The share of series in which states are found.
    fn found(count: usize, draw: impl Fn(&mut Rand64, usize) -> f64) -> f64 {
        const SERIES: u32 = 400;
        let mut random = Rand64::new(1849 + count as u128);
        let mut found = 0;
        for _ in 0..SERIES {
            let times = seconds((0..count).map(|at| draw(&mut random, at).max(0.01)));
            found += u32::from(TwoStates::of(&times).is_some());
        }
        f64::from(found) / f64::from(SERIES)
    }

    #[test]
    fn noise_of_one_state_is_no_second_state() {
        type Draw = fn(&mut Rand64) -> f64;
        let noises: [(&str, Draw); 4] = [
            ("normal", normal),
            ("log-normal", |random| normal(random).exp()),
            ("exponential", |random| -(1.0 - random.rand_float()).ln()),
            ("Student's t, 3", |random| {
                let squares: f64 = (0..3).map(|_| normal(random).powi(2)).sum();
                normal(random) / (squares / 3.0).sqrt()
            }),
        ];
        for count in [10, 16, 30, 100, 500] {
            for scale in [0.005, 0.02, 0.05] {
                for (name, draw) in noises {
                    let share = found(count, |random, _| 1.0 + scale * draw(random));
                    assert!(share <= 0.05, "{name}, n = {count}, {scale}: {share}");
                }
            }
        }
    }

    #[test]
    fn a_step_of_a_regulator_is_found_wherever_it_falls() {
        for count in [16, 35, 130, 500] {
            for place in [0.2, 0.5, 0.8] {
                // Few samples are not enough for a test in time, and clusters have to be far apart.
                for step in if count < 100 { [1.1, 1.2] } else { [1.06, 1.1] } {
                    let draw = |random: &mut Rand64, at: usize| {
                        let is_after = at as f64 >= place * count as f64;
                        (1.0 + 0.004 * normal(random)) * if is_after { step } else { 1.0 }
                    };
                    let share = found(count, draw);
                    assert!(share >= 0.95, "n = {count}, {step} at {place}: {share}");
                }
            }
        }
    }

    #[test]
    fn states_are_named_by_their_times_and_shares() {
        let times = seconds((0..100).map(|at| if at % 5 == 4 { 1.5 } else { 1.0 }));
        let states = TwoStates::of(&times).expect("two states");
        let State { time, share } = states.most;
        assert!((time.0 - 1.0).abs() < 1e-9 && (share - 0.8).abs() < 1e-9, "{states:?}");
        assert!((states.other.time.0 - 1.5).abs() < 1e-9, "{states:?}");
        assert!((states.apart() - 0.5).abs() < 1e-9 && !states.is_step, "{states:?}");
        let times = seconds((0..100).map(|at| if at < 30 { 1.5 } else { 1.0 }));
        assert!(TwoStates::of(&times).is_some_and(|states| states.is_step));
    }

    #[test]
    fn single_outliers_and_equal_times_are_one_state() {
        let outlier = seconds((0..30).map(|at| if at == 7 { 3.0 } else { 1.0 }));
        assert_eq!(TwoStates::of(&outlier), None);
        assert_eq!(TwoStates::of(&seconds(vec![1.0; 30])), None);
        assert_eq!(TwoStates::of(&seconds([1.0, 2.0, 1.0, 2.0])), None, "too few");
    }
}
