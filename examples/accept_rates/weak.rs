//! A host whose floors are all weak: they fail what is grossly slow, and pass nothing.

use super::random::Random;
use fizeau_domain::{stats::student::Variance, verdict::Verdict};
use fizeau_judge::accept::decide::{Against, Bar, LOOKS, RETEST, Sequence, Series};

/// Checks of the host; one of them is planted.
const CHECKS: usize = 14;

/// How far the others stand above their floors.
const HEALTHY: f64 = 0.25;

/// True rates of the planted check over its floor.
pub const RATES: [(&str, f64); 5] = [
    ("healthy, 25 % above its floor", 1.25),
    ("at its floor", 1.0),
    ("6 % below it", 0.94),
    ("12 % below it", 0.88),
    ("50 % below it", 0.5),
];

/// Standard deviations of one repeat, as shares.
pub const NOISES: [f64; 3] = [0.01, 0.04, 0.08];

/// What became of the planted check of simulated hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Simulated hosts.
    pub hosts: usize,
    /// In which it failed.
    pub failed: usize,
    /// In which it failed by the first look.
    pub failed_at_first: usize,
    /// In which a healthy check failed.
    pub wrong: usize,
    /// Repeats of it, in all.
    pub repeats: usize,
}

/// Sends hosts through the whole procedure; `rate` is the planted check's over its floor, `noise`
/// the standard deviation of one repeat as a share.
pub fn simulate(rate: f64, noise: f64, hosts: usize, seed: u64) -> Rates {
    let mut random =
        Random::new(seed, 1 << 32 | (rate * 1e3) as u64 | ((noise * 1e3) as u64) << 16);
    let mut rates = Rates { hosts, ..Rates::default() };
    for _ in 0..hosts {
        let mut sequence = Sequence::new((0..CHECKS).map(series).collect());
        while !sequence.is_over() {
            for (check, count) in sequence.wanted() {
                let place = if check == 0 { rate } else { 1.0 + HEALTHY };
                (0..count).for_each(|_| sequence.take(check, place.ln() + noise * random.normal()));
            }
            sequence.judge();
        }
        let of = |check| {
            sequence.decision(check).map_or((None, 0), |one| (Some(one.verdict), one.repeats))
        };
        let is_failed = |check| of(check).0 == Some(Verdict::Fail);
        let repeats = of(0).1;
        rates.failed += usize::from(is_failed(0));
        rates.failed_at_first += usize::from(is_failed(0) && repeats == LOOKS[0] + RETEST);
        rates.wrong += usize::from((1..CHECKS).any(is_failed));
        rates.repeats += repeats;
    }
    rates
}

fn series(metric: usize) -> Series {
    let floor = Bar {
        against: Against::Floor,
        log: 0.0,
        error: Variance { value: 0.0, freedom: f64::INFINITY },
        may_pass: false,
        may_fail: true,
    };
    Series {
        metric,
        least_effect: 0.06,
        values: Vec::new(),
        bars: vec![floor],
        has_peers: true,
        session: None,
    }
}
