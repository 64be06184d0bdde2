//! How many rounds a fault needs to be named: the evidence that a slow rank gives, against the
//! threshold that it has to reach.
//!
//! The fault is given a bad day: of its exchanges only as many are slow as in the worst twentieth
//! of all cases, and their mean is off towards the healthy rate by as much.
//! docs/appendix/localise-rates.md sets these numbers beside simulations.

use super::{
    chance,
    fit::NAMED_FROM,
    odds::{LOSS_MIN, Noise, log_odds},
};

/// A fault of one rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// Share of the healthy rate that is lost in a slow exchange: 0.2 leaves 80 %.
    pub loss: f64,
    /// Share of the rank's exchanges that are slow.
    pub presence: f64,
}

/// More rounds than this are not looked for.
const ROUNDS_MAX: u32 = 100;

/// Quantile of a standard normal distribution that 95 % lie below.
const ONE_SIDED: f64 = 1.645;

/// The rounds after which a fault is named in 95 % of cases, among `ranks` healthy ranks whose
/// exchanges have this jitter (relative standard deviation). None if 100 rounds do not do.
pub fn rounds_needed(ranks: u32, jitter: f64, fault: Fault) -> Option<u32> {
    (2..=ROUNDS_MAX).find(|&rounds| is_named(ranks, rounds, jitter, fault))
}

/// The least loss, in whole percent, of a rank that is always slow and that `rounds` rounds name in
/// 95 % of cases, as a share.
pub fn least_loss(ranks: u32, rounds: u32, jitter: f64) -> Option<f64> {
    let losses = (1..100).map(|percent| f64::from(percent) / 100.0).filter(|loss| *loss > LOSS_MIN);
    let named = |loss: &f64| is_named(ranks, rounds, jitter, Fault { loss: *loss, presence: 1.0 });
    losses.into_iter().find(named)
}

fn is_named(ranks: u32, rounds: u32, jitter: f64, fault: Fault) -> bool {
    // The jitter is itself known from these exchanges alone.
    let jitter = jitter * (1.0 + 1.0 / (f64::from(ranks) * f64::from(rounds)).sqrt());
    let noise = Noise { jitter, congestion: super::CONGESTION[0] };
    let slow = slow_at_least(rounds, fault.presence);
    let off = ONE_SIDED * jitter / f64::from(slow.max(1)).sqrt();
    let rate = 1.0 - fault.loss + off;
    let shares = |slow: u32, rounds: u32| -> Vec<f64> {
        (0..rounds).map(|at| if at < slow { rate } else { 1.0 }).collect()
    };
    let threshold = f64::from(ranks).ln() + NAMED_FROM;
    let all = ranks as usize * rounds as usize / 2;
    let own = [rounds as usize, slow as usize];
    slow > 1
        && chance::p_of_count(ranks as usize, all, slow as usize, own) < chance::CHANCE_MAX
        && rate < 1.0 - LOSS_MIN
        && log_odds(&shares(slow, rounds), noise) > threshold
        && log_odds(&shares(slow - 1, rounds - 1), noise) > 0.0
}

/// How many of these rounds are slow in all but the worst twentieth of cases: a quantile of the
/// binomial distribution.
fn slow_at_least(rounds: u32, presence: f64) -> u32 {
    if presence >= 1.0 {
        return rounds;
    }
    let mut probability = (1.0 - presence).powi(rounds as i32);
    let mut below = probability;
    let mut slow = 0;
    while below < 0.05 && slow < rounds {
        slow += 1;
        probability *= f64::from(rounds - slow + 1) / f64::from(slow) * presence / (1.0 - presence);
        below += probability;
    }
    slow
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weaker_rarer_and_noisier_faults_need_more_rounds() {
        let rounds = |jitter, loss, presence| {
            rounds_needed(64, jitter, Fault { loss, presence }).expect("some rounds do")
        };
        assert!(rounds(0.05, 0.2, 1.0) <= 4);
        assert!(rounds(0.05, 0.1, 1.0) > rounds(0.05, 0.2, 1.0));
        assert!(rounds(0.05, 0.2, 0.5) > rounds(0.05, 0.2, 1.0));
        assert!(rounds(0.1, 0.2, 1.0) > rounds(0.05, 0.2, 1.0));
        assert_eq!(rounds_needed(64, 0.3, Fault { loss: 0.02, presence: 1.0 }), None);
        assert_eq!(rounds_needed(64, 0.05, Fault { loss: 0.2, presence: 0.0 }), None);
    }

    #[test]
    fn a_binomial_quantile_is_as_counted() {
        // Of 4 at one half: 1/16 have none, 5/16 at most one.
        assert_eq!(slow_at_least(4, 0.5), 0);
        // Of 5: 1/32 have none.
        assert_eq!(slow_at_least(5, 0.5), 1);
        assert_eq!(slow_at_least(7, 1.0), 7);
    }
}
