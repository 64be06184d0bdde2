//! Student's t distribution, and the variance of few values judged beside that of many others.

use super::quantile;

/// More degrees of freedom are taken for as many: tails at five deviations differ from those of the
/// normal distribution by less than a fifth of a percent of themselves.
const FREEDOM_MAX: f64 = 1e5;

/// The probability that Student's t with `freedom` degrees of freedom (any positive number) exceeds
/// `t`.
pub fn upper_tail(t: f64, freedom: f64) -> f64 {
    let freedom = freedom.min(FREEDOM_MAX);
    let outside = incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5) / 2.0;
    if t > 0.0 { outside } else { 1.0 - outside }
}

/// The t that is exceeded with probability `tail`, 0 < tail < 1/2.
pub fn exceeded_with(tail: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while upper_tail(high, freedom) > tail && high < 1e12 {
        high *= 2.0;
    }
    while high - low > 1e-9 * high {
        let middle = (low + high) / 2.0;
        if upper_tail(middle, freedom) > tail { low = middle } else { high = middle }
    }
    high
}

/// The regularised incomplete beta function, by its continued fraction (DLMF 8.17.22) with
/// Lentz's method.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges fast below this mean of the distribution.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p();
    let away_from_zero = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for step in 1..500 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + term * d);
            c = away_from_zero(1.0 + term / c);
            change = c * d;
            fraction *= change;
        }
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    front.exp() * fraction / a
}

/// Logarithm of the gamma function, by Stirling's series (DLMF 5.11.1) above 10.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 10.0 {
        shift -= x.ln();
        x += 1.0;
    }
    let square = x * x;
    let series =
        (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - 1.0 / 1680.0 / square) / square) / square) / x;
    shift + (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series
}

/// Derivative of [`ln_gamma`] (DLMF 5.11.2).
fn digamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 10.0 {
        shift -= 1.0 / x;
        x += 1.0;
    }
    let square = x * x;
    let series = (1.0 / 12.0
        - (1.0 / 120.0 - (1.0 / 252.0 - 1.0 / 240.0 / square) / square) / square)
        / square;
    shift + x.ln() - 0.5 / x - series
}

/// Derivative of [`digamma`] (DLMF 5.15.8).
fn trigamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 10.0 {
        shift += 1.0 / (x * x);
        x += 1.0;
    }
    let square = x * x;
    let series = (1.0 / 6.0 - (1.0 / 30.0 - (1.0 / 42.0 - 1.0 / 30.0 / square) / square) / square)
        / (square * x);
    shift + 1.0 / x + 0.5 / square + series
}

/// Variance, with its degrees of freedom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variance {
    /// Its estimate.
    pub value: f64,
    /// How many degrees of freedom it was estimated with.
    pub freedom: f64,
}

/// Fewer variances than these say nothing of each other.
const SHARED_MIN: usize = 10;

/// Two measurements never agree better than this, as a variance of logarithms: timers have steps.
pub const VARIANCE_MIN: f64 = 1e-10;

impl Variance {
    /// The same, drawn to what is typical of many variances ([`typical`]), the more the more alike
    /// these are; at least [`VARIANCE_MIN`].
    pub fn drawn_to(self, typical: Option<Variance>) -> Variance {
        let value = self.value.max(VARIANCE_MIN);
        match typical {
            None => Variance { value, ..self },
            Some(prior) => Variance {
                value: (prior.freedom * prior.value + self.freedom * value)
                    / (prior.freedom + self.freedom),
                freedom: prior.freedom + self.freedom,
            },
        }
    }
}

/// What is typical of many variances that were each estimated from few values, and how many degrees
/// of freedom that is worth: the more the more alike they all are (Smyth, Statistical Applications
/// in Genetics and Molecular Biology 3, 2004). Where they differ by more than chance explains, as
/// with heavy tails, it is worth little. `None` where there are too few of them.
pub fn typical(variances: &[Variance]) -> Option<Variance> {
    let known = variances.iter().filter(|one| one.freedom > 0.0);
    let known: Vec<Variance> = known.map(|one| one.drawn_to(None)).collect();
    if known.len() < SHARED_MIN {
        return None;
    }
    let count = known.len() as f64;
    let unbiased = |one: &Variance| {
        let half = one.freedom / 2.0;
        one.value.ln() - digamma(half) + half.ln()
    };
    let logs: Vec<f64> = known.iter().map(unbiased).collect();
    let mean = logs.iter().sum::<f64>() / count;
    let spread = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let by_chance = known.iter().map(|one| trigamma(one.freedom / 2.0)).sum::<f64>() / count;
    Some(match spread - by_chance {
        excess if excess > 0.0 => {
            let half = trigamma_inverse(excess);
            Variance { value: (mean + digamma(half) - half.ln()).exp(), freedom: 2.0 * half }
        }
        _ => Variance { value: mean.exp(), freedom: FREEDOM_MAX },
    })
}

/// The x whose trigamma is `value`: it falls with x.
fn trigamma_inverse(value: f64) -> f64 {
    let (mut low, mut high) = (1e-6f64, FREEDOM_MAX);
    for _ in 0..200 {
        let middle = (low * high).sqrt();
        if trigamma(middle) > value { low = middle } else { high = middle }
    }
    high
}

/// Mean and unbiased variance.
///
/// # Panics
///
/// Where there are no values.
pub fn mean_and_variance(values: &[f64]) -> (f64, Variance) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let freedom = count - 1.0;
    (mean, Variance { value: if freedom > 0.0 { squares / freedom } else { 0.0 }, freedom })
}

/// Which of many p-values are refused with a false discovery rate of at most `rate` (Benjamini and
/// Hochberg, Journal of the Royal Statistical Society B 57, 1995).
pub fn false_discovery(p_values: &[f64], rate: f64) -> Vec<bool> {
    let last = false_discovery_limit(p_values, rate);
    p_values.iter().map(|p| last.is_some_and(|last| *p <= last)).collect()
}

/// The largest p-value that [`false_discovery`] refuses; `None` where it refuses none.
pub fn false_discovery_limit(p_values: &[f64], rate: f64) -> Option<f64> {
    // What is above the rate is never refused, and need not be sorted.
    let small: Vec<f64> = p_values.iter().copied().filter(|p| *p <= rate).collect();
    let count = p_values.len() as f64;
    let passes = |(at, p): &(usize, &f64)| **p <= rate * (at + 1) as f64 / count;
    let sorted = quantile::sorted(&small);
    sorted.iter().enumerate().rev().find(passes).map(|(_, p)| *p)
}

/// Which of many p-values are refused with a probability of at most `rate` that any of them is
/// refused wrongly (Holm, Scandinavian Journal of Statistics 6, 1979).
pub fn family_wise(p_values: &[f64], rate: f64) -> Vec<bool> {
    let sorted = quantile::sorted(p_values);
    let count = sorted.len();
    let passed =
        sorted.iter().enumerate().take_while(|(at, p)| **p <= rate / (count - at) as f64).count();
    p_values.iter().map(|p| passed > 0 && *p <= sorted[passed - 1]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_are_those_of_scipy() {
        // scipy.stats.t.sf(t, df) of SciPy 1.17.1.
        for (t, freedom, tail) in [
            (0.0, 3.0, 0.5),
            (2.776445105197793, 4.0, 0.025),
            (-2.776445105197793, 4.0, 0.975),
            (12.706204736432095, 1.0, 0.025),
            (1.9599877075319747, 1e5, 0.025),
            (6.0, 4.0, 0.001941292674463428),
        ] {
            let found = upper_tail(t, freedom);
            assert!((found - tail).abs() < 1e-7, "{t}, {freedom}: {found} for {tail}");
        }
        assert!((exceeded_with(0.025, 4.0) - 2.776445105197793).abs() < 1e-6);
        // Closed form of one degree of freedom, of two.
        for t in [0.3, 1.7, 40.0f64] {
            let one = 0.5 - t.atan() / std::f64::consts::PI;
            let two = 0.5 - t / (2.0 * (2.0 + t * t).sqrt());
            assert!((upper_tail(t, 1.0) / one - 1.0).abs() < 1e-9);
            assert!((upper_tail(t, 2.0) / two - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn gamma_and_its_derivatives_have_their_known_values() {
        let near = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-9, "{found}");
        near(ln_gamma(5.0), 24f64.ln());
        near(ln_gamma(0.5), std::f64::consts::PI.sqrt().ln());
        near(digamma(1.0), -0.577_215_664_901_532_9);
        near(trigamma(1.0), std::f64::consts::PI.powi(2) / 6.0);
        near(trigamma_inverse(trigamma(3.25)), 3.25);
    }

    #[test]
    fn like_variances_are_pooled_and_unlike_ones_are_not() {
        let of = |value| Variance { value, freedom: 4.0 };
        let alike: Vec<Variance> = (0..40).map(|at| of(1.0 + f64::from(at % 5) / 10.0)).collect();
        let pooled = typical(&alike).expect("enough");
        assert!(pooled.freedom > 1e4, "{pooled:?}");
        assert!((of(9.0).drawn_to(Some(pooled)).value / pooled.value - 1.0).abs() < 0.01);
        let unlike: Vec<Variance> = (0..40).map(|at| of(10f64.powi(at % 9))).collect();
        let kept = typical(&unlike).expect("enough");
        assert!(kept.freedom < 2.0, "{kept:?}");
        assert_eq!(typical(&unlike[..9]), None);
        assert_eq!(of(9.0).drawn_to(None), of(9.0));
    }

    #[test]
    fn the_procedures_refuse_what_their_authors_do() {
        // The 15 p-values of Benjamini and Hochberg's section 4: 4 are refused at 0.05; by
        // Bonferroni, and by Holm, 3.
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0,
        ];
        let count = |refused: Vec<bool>| refused.iter().filter(|one| **one).count();
        assert_eq!(count(false_discovery(&p, 0.05)), 4);
        assert_eq!(count(family_wise(&p, 0.05)), 3);
        assert_eq!(count(family_wise(&[], 0.05)), 0);
        assert_eq!(false_discovery(&[0.9, 0.001], 0.05), [false, true]);
    }
}
