//! How GPUs stand beside each other in a rate: relative to the median of the others, and whether
//! one is slow.

use super::rank::{DEVIATION_OF_MAD, DEVIATIONS, RANKS_MIN};
use fizeau_domain::stats::quantile;

/// A GPU is slow in a metric below this share of the others' median, and only where it is off by
/// more than [`DEVIATIONS`] of their scatter too. It is compared in some ten metrics: with a nearer
/// limit, healthy GPUs whose rates scatter by 1 % would be called slow in one run of ten (a test
/// simulates it).
pub const SLOW: f64 = 0.95;

/// How a GPU stands in a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// Its rate / the median of the others'.
    pub relative: f64,
    /// Whether it is slow there.
    pub is_slow: bool,
}

/// How a rate relative to others is shaded, 0..1: what matters is between 0.8 and 1.
pub fn shade(relative: f64) -> f64 {
    ((relative - 0.8) / 0.2).clamp(0.0, 1.0)
}

/// How each GPU stands beside the others of its kind; none where there are no others.
pub fn standings(rates: &[Option<f64>], kinds: &[Option<usize>]) -> Vec<Option<Standing>> {
    let standing = |place: usize| {
        let rate = rates[place]?;
        let others = rates.iter().zip(kinds).enumerate();
        let others = others.filter(|(other, (_, kind))| *other != place && **kind == kinds[place]);
        let others: Vec<f64> = others.filter_map(|(_, (rate, _))| *rate).collect();
        if others.is_empty() {
            return None;
        }
        let median = quantile::median(&others);
        let scatter = DEVIATION_OF_MAD * quantile::median_absolute_deviation(&others) / median;
        let relative = rate / median;
        let limit = SLOW.min(1.0 - DEVIATIONS * scatter);
        let is_slow = others.len() + 1 >= RANKS_MIN && relative < limit;
        Some(Standing { relative, is_slow })
    };
    (0..rates.len()).map(standing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_slow_where_it_stands_out_of_the_others() {
        let of = |rates: &[f64]| {
            let rates: Vec<Option<f64>> = rates.iter().map(|&rate| Some(rate)).collect();
            let kinds = vec![Some(0); rates.len()];
            let all = standings(&rates, &kinds);
            let slow = all.iter().enumerate().filter(|(_, of)| of.is_some_and(|of| of.is_slow));
            slow.map(|(place, _)| place).collect::<Vec<_>>()
        };
        let none: [usize; 0] = [];
        let quiet = [1.001, 0.999, 1.004, 0.9, 1.0, 0.997];
        assert_eq!(of(&quiet), [3]);
        assert_eq!(of(&[100.1, 99.9, 90.0]), [2], "two others are enough");
        assert_eq!(of(&[1.0, 0.9]), none, "which of two is slow cannot be told");
        assert_eq!(of(&[1.0, 0.96, 1.0, 1.0]), none, "within what counts as alike");
        assert_eq!(of(&[1.1, 0.9, 1.2, 0.85, 1.0]), none, "within the scatter of the others");
    }

    /// The share of simulated runs in which a healthy GPU is called slow, and in which the first
    /// one is, which is slower than the others by a share in one metric of ten.
    fn called_slow(gpus: usize, scatter: f64, behind: f64) -> [f64; 2] {
        const RUNS: u32 = 300;
        let mut random = oorandom::Rand64::new(11);
        let mut normal = || {
            let (a, b) = (1.0 - random.rand_float(), random.rand_float());
            (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
        };
        let mut found = [0.0; 2];
        for _ in 0..RUNS {
            let mut is_found = [false; 2];
            for metric in 0..10 {
                let mut rates: Vec<Option<f64>> =
                    (0..gpus).map(|_| Some(1.0 + scatter * normal())).collect();
                if metric == 0 {
                    rates[0] = rates[0].map(|rate| rate * (1.0 - behind));
                }
                let all = standings(&rates, &vec![Some(0); gpus]);
                let slow = |place: usize| all[place].is_some_and(|of| of.is_slow);
                let is_meant = |place: usize| metric == 0 && place == 0 && behind > 0.0;
                is_found[0] |= (0..gpus).any(|place| slow(place) && !is_meant(place));
                is_found[1] |= is_meant(0) && slow(0);
            }
            found[0] += f64::from(u8::from(is_found[0])) / f64::from(RUNS);
            found[1] += f64::from(u8::from(is_found[1])) / f64::from(RUNS);
        }
        found
    }

    #[test]
    fn healthy_gpus_are_seldom_called_slow_and_slow_ones_are_found() {
        for (scatter, wrongly_most, found_least) in
            [(0.003, 0.0, 1.0), (0.01, 0.01, 0.9), (0.02, 0.35, 0.5)]
        {
            let [wrongly, found] = called_slow(8, scatter, 0.1);
            let told = format!("scatter {scatter}: {wrongly} wrongly, {found} found");
            println!("{told}");
            assert!(wrongly <= wrongly_most && found >= found_least - 1e-9, "{told}");
        }
    }

    #[test]
    fn a_gpu_is_compared_with_others_of_its_kind_alone() {
        let rates = [1.0, 1.0, 1.0, 2.0].map(Some);
        let kinds = [Some(0), Some(0), Some(0), Some(1)];
        let relative = |of: &Option<Standing>| of.map(|of| of.relative);
        let all: Vec<_> = standings(&rates, &kinds).iter().map(relative).collect();
        assert_eq!(all, [Some(1.0), Some(1.0), Some(1.0), None]);
    }
}
