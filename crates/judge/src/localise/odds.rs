//! How much likelier a set of rates is if one suspect slows them than if nothing does.
//!
//! All rates are shares of the rate between healthy ranks. Two stories are told of the rates of a
//! suspect (a rank, or a link between two), and [`log_odds`] is the logarithm of the ratio of their
//! likelihoods (a Bayes factor; Kass and Raftery 1995):
//!
//! - *Healthy*: a rate is 1 with normal jitter, or congestion made it any rate.
//! - *Slow*: in all exchanges, or in an unknown share of them, the suspect's rate is lower by a
//!   loss of its own, with the same jitter; or it is low without a rate of its own. The loss is
//!   unknown: its prior is uniform in its logarithm. Congestion happens to a slow suspect too.
//!
//! Which exchanges were slow is not known either. Of all ways to choose `k` of `n` the `k` slowest
//! are taken, and the number of ways is charged for.

use std::f64::consts::PI;

/// Least loss that counts as slow: a rank at 99 % of the others is not worth a name.
pub const LOSS_MIN: f64 = 0.01;

/// Prior probability that a slow suspect is slow in every exchange, and not in some of them.
const ALWAYS: f64 = 0.5;

/// Prior probability that the slow exchanges of a suspect are at one rate of its own.
const OWN_RATE: f64 = 0.8;

/// What healthy exchanges look like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// Standard deviation of a healthy exchange's rate, as a share of it.
    pub jitter: f64,
    /// Probability that congestion changes a rate.
    pub congestion: f64,
}

impl Noise {
    /// Logarithm of the probability density of a healthy exchange's rate.
    pub fn log_density(&self, share: f64) -> f64 {
        self.densities().log(share)
    }

    /// The same for many rates.
    pub fn densities(self) -> Densities {
        Densities {
            jitter: self.jitter,
            scale: 0.5 * (2.0 * PI).ln(),
            ln_jitter: self.jitter.ln(),
            ln_free: (-self.congestion).ln_1p(),
            ln_congested: (self.congestion / 2.0).ln(),
        }
    }
}

/// A noise with the logarithms that the density of each rate needs.
#[derive(Clone, Copy)]
pub struct Densities {
    jitter: f64,
    scale: f64,
    ln_jitter: f64,
    /// Of the probability that congestion does not change a rate, ...
    ln_free: f64,
    /// ... and that it makes one lower.
    ln_congested: f64,
}

impl Densities {
    /// Logarithm of the probability density of a healthy exchange's rate.
    pub fn log(&self, share: f64) -> f64 {
        let distance = (share - 1.0) / self.jitter;
        let normal = -0.5 * distance * distance - self.scale - self.ln_jitter;
        // Congestion's rates: half of them uniform below the healthy rate, the others the same
        // above it, where a rate and its inverse are as likely.
        let above = if share > 1.0 { 2.0 * share.ln() } else { 0.0 };
        log_sum(self.ln_free + normal, self.ln_congested - above)
    }
}

/// Logarithm of the odds that one suspect slows these exchanges, before anything else is known.
/// Shares are in ascending order; 0 is an exchange that failed.
pub fn log_odds(shares: &[f64], noise: Noise) -> f64 {
    let count = shares.len();
    let variance = noise.jitter * noise.jitter;
    let densities = noise.densities();
    let (ln_least, ln_scale) = ((1.0 / LOSS_MIN).ln(), (2.0 * PI * variance).ln());
    let (ln_own, ln_any) = (OWN_RATE.ln(), (1.0 - OWN_RATE).ln());
    // Sums over the slowest: of the shares, their squares, and the healthy story's densities.
    let mut sums = vec![[0.0; 3]];
    for &share in shares {
        let [sum, squares, healthy] = sums[sums.len() - 1];
        let healthy = healthy + densities.log(share);
        sums.push([sum + share, squares + share * share, healthy]);
    }
    let ln_counts: Vec<f64> = (0..=count).map(|slow| (slow as f64).ln()).collect();
    let mut total = f64::NEG_INFINITY;
    let priors = log_priors_of_counts(count);
    // The very slowest of a slow suspect's exchanges may be congestion.
    for congested in 0..=count / 3 {
        for (slow, &ln_slow) in ln_counts.iter().enumerate().take(count - congested + 1).skip(1) {
            let touched = congested + slow;
            let span = |at: usize| sums[touched][at] - sums[congested][at];
            let mean = span(0) / slow as f64;
            if mean > 1.0 - LOSS_MIN {
                break;
            }
            let spread = (span(1) - span(0) * mean).max(0.0);
            let slow = slow as f64;
            let own = slow * densities.ln_free
                - spread / (2.0 * variance)
                - (slow - 1.0) / 2.0 * ln_scale
                - ln_slow / 2.0
                - ((1.0 - mean) * ln_least).ln();
            // Without a rate of its own every rate below the healthy one is as likely.
            let any = congested == 0 && shares[touched - 1] < 1.0;
            let any = if any { 0.0 } else { f64::NEG_INFINITY };
            let story = log_sum(ln_own + own, ln_any + any);
            let lost = congested as f64 * densities.ln_congested;
            total = log_sum(total, priors[touched] + lost + story - sums[touched][2]);
        }
    }
    total
}

/// Logarithms of the prior probabilities that just these 0, 1, .. `count` of `count` exchanges are
/// slow: all of them, or any share of them, each share being as likely.
fn log_priors_of_counts(count: usize) -> Vec<f64> {
    // Logarithm of the number of ways to choose 0, 1, .. `count / 2` of `count`.
    let mut ways = vec![0.0];
    for step in 1..=count / 2 {
        ways.push(ways[step - 1] + ((count - step + 1) as f64 / step as f64).ln());
    }
    let prior = |slow: usize| {
        let some = (1.0 - ALWAYS).ln() - ways[slow.min(count - slow)] - (count as f64 + 1.0).ln();
        if slow == count { log_sum(ALWAYS.ln(), some) } else { some }
    };
    (0..=count).map(prior).collect()
}

/// `ln(exp(a) + exp(b))` without overflow.
fn log_sum(a: f64, b: f64) -> f64 {
    let (most, least) = if a > b { (a, b) } else { (b, a) };
    let apart = least - most;
    // The sum is then `most` to the last bit: `exp(-40)` is less than half of it.
    if least == f64::NEG_INFINITY || apart < -40.0 && most.abs() >= 1.0 {
        return most;
    }
    most + apart.exp().ln_1p()
}
