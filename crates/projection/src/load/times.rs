//! Quantiles of the times of requests, with intervals that know that requests overlap.

use fizeau_domain::stats::{
    interval::{CONFIDENCE, median_interval},
    quantile,
};

/// The quantiles that reports show.
pub const SHARES: [f64; 6] = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999];

/// A quantile above the median is stated only where this many times 1 / (1 - share) values stand:
/// P99 of 60 values would be the largest of them by another name.
const VALUES_FOR_TAIL: f64 = 1.0;

/// The fewest values of which a quantile above the median is stated.
pub fn values_for(share: f64) -> u64 {
    (VALUES_FOR_TAIL / (1.0 - share) - 1e-6).ceil() as u64
}

/// Batches that the values are divided into, in the order in which they were taken, to see whether
/// those beyond a quantile come together.
const BATCHES: usize = 20;

/// From this many values on, batches are long enough to count in.
const VALUES_FOR_BATCHES: usize = 200;

/// Above this variance of a binomial count, its distribution is taken as normal.
const NORMAL_FROM: f64 = 100.0;

/// Standard deviations on each side of the middle 95 % of a normal distribution.
const NORMAL: f64 = 1.959_963_984_540_054;

/// The shortest time of a request or of a token that a client can have measured, seconds: no event
/// comes through a socket in less. Clients write 0 where they have measured nothing.
pub const TIME_MIN: f64 = 1e-6;

/// The longest, seconds: thirty years.
pub const TIME_MAX: f64 = 1e9;

/// Whether a number of seconds can be the measured time of a request or of a token. What a client
/// writes where it has measured nothing is none: 0, a negative number, no number.
pub fn is_time(seconds: f64) -> bool {
    (TIME_MIN..=TIME_MAX).contains(&seconds)
}

/// One quantile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantile {
    /// Which: 0.99 for P99.
    pub share: f64,
    /// Its value.
    pub value: f64,
    /// Lower end of its 95 % interval; none where there are too few independent values for one, or
    /// where only a summary is known.
    pub low: Option<f64>,
    /// Upper end; none also where the sample is too small to bound the quantile from above.
    pub high: Option<f64>,
}

/// Times of many requests in numbers, seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// Their mean; none where a summary does not state it.
    pub mean: Option<f64>,
    /// The smallest; none where only a summary is known.
    pub min: Option<f64>,
    /// The largest; none where only a summary is known.
    pub max: Option<f64>,
    /// By rising share: only those that the number of values allows.
    pub quantiles: Vec<Quantile>,
}

impl Times {
    /// Of values in the order in which their requests were scheduled; values that are not finite
    /// are left out. None where there are none.
    pub fn of(values: &[f64]) -> Option<Times> {
        let values: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        if values.is_empty() {
            return None;
        }
        let sorted = quantile::sorted(&values);
        let by_neighbours = inflation_of_median(&values);
        let is_stated = |share: f64| share <= 0.5 || values.len() as u64 >= values_for(share);
        let one = |share: f64| {
            let value = quantile::quantile(&sorted, share);
            let inflation = by_neighbours.max(inflation_of_tail(&values, value, share));
            let worth = values.len() as f64 / inflation;
            let (low, high) = ranks(worth, share);
            let at = |rank: f64| {
                let rank = (rank * inflation).round() as usize;
                sorted[rank.clamp(1, sorted.len()) - 1]
            };
            Quantile { share, value, low: low.map(at), high: high.map(at) }
        };
        Some(Times {
            count: values.len() as u64,
            mean: Some(values.iter().sum::<f64>() / values.len() as f64),
            min: sorted.first().copied(),
            max: sorted.last().copied(),
            quantiles: SHARES.into_iter().filter(|share| is_stated(*share)).map(one).collect(),
        })
    }

    /// Of what a client's summary states, seconds; what can be no time is left out. None where
    /// neither a mean nor a quantile is left.
    pub fn of_summary(
        count: u64,
        mean: Option<f64>,
        quantiles: impl IntoIterator<Item = (f64, Option<f64>)>,
    ) -> Option<Times> {
        let time = |seconds: Option<f64>| seconds.filter(|seconds| is_time(*seconds));
        let quantile = |(share, value): (f64, Option<f64>)| {
            Some(Quantile { share, value: time(value)?, low: None, high: None })
        };
        let quantiles: Vec<Quantile> = quantiles.into_iter().filter_map(quantile).collect();
        let mean = time(mean);
        (mean.is_some() || !quantiles.is_empty()).then_some(Times {
            count,
            mean,
            min: None,
            max: None,
            quantiles,
        })
    }

    /// Without quantiles that can be no time: of gaps between tokens that were read together. None
    /// where the mean can be none.
    pub fn above_nothing(mut self) -> Option<Times> {
        self.mean.filter(|mean| is_time(*mean))?;
        self.quantiles.retain(|one| is_time(one.value));
        self.min = self.min.filter(|least| is_time(*least));
        Some(self)
    }

    /// A quantile, where it is known.
    pub fn at(&self, share: f64) -> Option<Quantile> {
        self.quantiles.iter().copied().find(|one| (one.share - share).abs() < 1e-9)
    }

    /// The median, or the mean where no median is known.
    pub fn median(&self) -> Option<f64> {
        self.at(0.5).map(|one| one.value).or(self.mean)
    }
}

/// By how much dependence between neighbours inflates the variance of a share of values.
fn inflation_of_median(values: &[f64]) -> f64 {
    let independent = median_interval(values).independent.unwrap_or(values.len() as f64);
    (values.len() as f64 / independent.max(1.0)).max(1.0)
}

/// The same of the values beyond a quantile, from their counts in batches: slow requests come
/// together where a queue forms. 1 where there are too few values to tell.
fn inflation_of_tail(values: &[f64], above: f64, share: f64) -> f64 {
    if values.len() < VALUES_FOR_BATCHES {
        return 1.0;
    }
    inflation_of_share(values.iter().map(|value| *value > above), values.len(), share)
}

/// By how much the counts of `count` answers, yes or no, in batches scatter more than independent
/// answers with a share of yes would.
fn inflation_of_share(answers: impl Iterator<Item = bool>, count: usize, share: f64) -> f64 {
    let length = count / BATCHES;
    let answers: Vec<bool> = answers.collect();
    let counts: Vec<f64> = answers
        .chunks_exact(length)
        .take(BATCHES)
        .map(|batch| batch.iter().filter(|is| **is).count() as f64)
        .collect();
    let mean = counts.iter().sum::<f64>() / counts.len() as f64;
    let squares: f64 = counts.iter().map(|count| (count - mean).powi(2)).sum();
    let expected = length as f64 * share * (1.0 - share);
    (squares / (counts.len() - 1) as f64 / expected.max(f64::MIN_POSITIVE)).max(1.0)
}

/// A share of requests, with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Portion {
    /// The share, from 0 to 1.
    pub share: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Portion {
    /// The share of yes among answers in the order in which their requests were scheduled: the
    /// score interval of Wilson (Journal of the American Statistical Association 22, 1927), of as
    /// many independent answers as these are worth; `others` more are no, and stood anywhere. None
    /// where there are no answers.
    pub fn of(answers: &[bool], others: u64) -> Option<Portion> {
        let all = answers.len() as f64 + others as f64;
        let yes = answers.iter().filter(|is| **is).count();
        let share = yes as f64 / all;
        (all > 0.0).then_some(())?;
        let few = answers.len() < VALUES_FOR_BATCHES || yes == 0 || yes == answers.len();
        let inflation = match few {
            true => 1.0,
            false => {
                let among = yes as f64 / answers.len() as f64;
                inflation_of_share(answers.iter().copied(), answers.len(), among)
            }
        };
        let worth = all / inflation;
        let square = NORMAL * NORMAL / worth;
        let middle = (share + square / 2.0) / (1.0 + square);
        let variance = share * (1.0 - share) / worth + square / worth / 4.0;
        let reach = NORMAL * variance.sqrt() / (1.0 + square);
        let (low, high) = ((middle - reach).max(0.0), (middle + reach).min(1.0));
        Some(Portion { share, low: low.min(share), high: high.max(share) })
    }
}

/// Ranks, from 1, of the order statistics of n independent values that bound a quantile at 95 %,
/// 2.5 % on each side (the number of values below a quantile is binomial). None at an end where no
/// rank does: for P99.9 from above with fewer than 3,688 values.
fn ranks(n: f64, share: f64) -> (Option<f64>, Option<f64>) {
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let variance = n * share * (1.0 - share);
    let (low, high) = if variance > NORMAL_FROM {
        let reach = NORMAL * variance.sqrt();
        ((n * share - reach).floor(), (n * share + reach).ceil() + 1.0)
    } else {
        let n = n.floor();
        // From the side on which the probabilities do not vanish: counts of values above.
        let below = binomial_reach(n, 1.0 - share, tail);
        let above = binomial_reach(n, share, tail);
        (n - below.map_or(n, |count| count), above.map_or(n + 1.0, |count| count + 1.0))
    };
    ((low >= 1.0).then_some(low), (high <= n).then_some(high))
}

/// The smallest k with P(X > k) <= tail, X binomial of n trials with a probability.
fn binomial_reach(n: f64, probability: f64, tail: f64) -> Option<f64> {
    if !(0.0..1.0).contains(&probability) || n < 1.0 {
        return None;
    }
    // P(X = 0) may be too small for a number where both are large; logarithms are not.
    let odds = probability.ln() - (1.0 - probability).ln();
    let (mut log, mut sum) = (n * (1.0 - probability).ln(), 0.0);
    let mut at = 0.0;
    while at <= n {
        sum += f64::exp(log);
        if 1.0 - sum <= tail {
            return Some(at);
        }
        log += (n - at).ln() - (at + 1.0f64).ln() + odds;
        at += 1.0;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_tables() {
        // Conover, Practical Nonparametric Statistics: of 20 values, the 6th and the 15th.
        assert_eq!(ranks(20.0, 0.5), (Some(6.0), Some(15.0)));
        assert_eq!(ranks(5.0, 0.5), (None, None));
        // 0.5^6 is below 2.5 %.
        assert_eq!(ranks(6.0, 0.5), (Some(1.0), Some(6.0)));
        assert_eq!((ranks(367.0, 0.99).1, ranks(368.0, 0.99).1), (None, Some(368.0)));
        assert_eq!((ranks(3_687.0, 0.999).1, ranks(3_688.0, 0.999).1), (None, Some(3_688.0)));
        let (low, high) = ranks(100_000.0, 0.5);
        assert!(low.is_some_and(|at| (49_680.0..49_700.0).contains(&at)), "{low:?}");
        assert!(high.is_some_and(|at| (50_300.0..50_320.0).contains(&at)), "{high:?}");
    }
}
