//! `ab` on every noise of the zoo: what it says of a case agrees with the interval that it prints,
//! and nothing that changed is cleared.

use crate::zoo;
use fizeau_domain::units::Seconds;
use fizeau_judge::ab::{self, Arm, Fate, Found, JudgedCase, Pairs, Settings};
use std::convert::Infallible;
use zoo::{Between, NOISES, Noise, Zoo};

/// Cases of a trial, and trials of each noise.
const CASES: usize = 20;
const TRIALS: u64 = 3;

/// Measurements of a case that a trial may take at most: four of the screening, 15 pairs.
const MEASUREMENTS: usize = 34;

/// What sessions have in common.
const BETWEEN: [Between; 4] = [
    Between::Nothing,
    Between::Bias(0.02),
    Between::Dip { probability: 0.1, depth: 0.2 },
    Between::Walk(0.01),
];

/// Times of each case, one after the other, and what B takes longer by.
struct Bench {
    times: Vec<Vec<f64>>,
    planted: f64,
}

impl Bench {
    fn new(noise: Noise, between: Between, scale: f64, planted: f64, seed: u64) -> Bench {
        let mut zoo = Zoo::new(seed);
        let mut times = || -> Vec<f64> {
            let own = zoo.times(noise, MEASUREMENTS, scale);
            let shared = zoo.sessions(between, MEASUREMENTS);
            own.iter().zip(shared).map(|(own, shared)| own * shared).collect()
        };
        Bench { times: (0..CASES).map(|_| times()).collect(), planted }
    }
}

impl Pairs for Bench {
    type Error = Infallible;

    fn measure(&mut self, side: Arm, cases: &[usize]) -> Result<Vec<Found>, Infallible> {
        let change = if side == Arm::B { 1.0 + self.planted } else { 1.0 };
        let mut next = |&case: &usize| {
            Found::Time(Seconds(self.times[case].pop().expect("no more than that") * change))
        };
        Ok(cases.iter().map(&mut next).collect())
    }
}

/// Every case of the zoo, judged, where B takes longer by `planted`.
fn rows(scale: f64, planted: f64) -> Vec<JudgedCase> {
    let ids: Vec<String> = (0..CASES).map(|case| format!("stream/read/{case}")).collect();
    let mut rows = Vec::new();
    for noise in NOISES {
        for between in BETWEEN {
            for seed in 0..TRIALS {
                let mut bench = Bench::new(noise, between, scale, planted, seed);
                let Ok(trial) = ab::run(&ids, Settings { seed, ..Settings::default() }, &mut bench);
                rows.extend(trial.rows);
            }
        }
    }
    rows
}

#[test]
fn cleared_says_that_the_whole_interval_lies_within_the_least_effect() {
    let most = 1.0 + ab::LEAST_EFFECT;
    let mut cleared = 0;
    for planted in [0.0, 0.01, -0.01, 0.05, -0.05] {
        for scale in [0.003, 0.01, 0.05] {
            for row in rows(scale, planted) {
                let ratio = row.ratio.expect("all were measured");
                match (row.fate, row.interval) {
                    (Fate::Cleared, Some([low, high])) => {
                        assert!(1.0 / most < low && high < most, "{row:?}");
                        cleared += 1;
                    }
                    (Fate::Cleared, None) => panic!("cleared without an interval: {row:?}"),
                    (Fate::Slower, _) => assert!(ratio > most, "{row:?}"),
                    (Fate::Faster, _) => assert!(ratio < 1.0 / most, "{row:?}"),
                    _ => {}
                }
            }
        }
    }
    assert!(cleared > 100, "{cleared} cases were cleared: the test tries little");
}

#[test]
fn no_change_of_five_percent_is_cleared_or_found_the_other_way_round() {
    for scale in [0.05, 0.10] {
        for (planted, wrong) in [(0.05, Fate::Faster), (-0.05, Fate::Slower)] {
            for row in rows(scale, planted) {
                assert!(row.fate != Fate::Cleared && row.fate != wrong, "{planted}: {row:?}");
            }
        }
    }
}

#[test]
fn all_pairs_slower_is_not_cleared_by_a_screening_that_went_the_other_way() {
    // A: 1 throughout. B: faster in the two pairs of the screening, slower in all that follow.
    struct Turned(usize);
    impl Pairs for Turned {
        type Error = Infallible;
        fn measure(&mut self, side: Arm, _: &[usize]) -> Result<Vec<Found>, Infallible> {
            const FRESH: [f64; 5] = [2.98, 1.31, 2.19, 1.06, 1.15];
            self.0 += 1;
            let time = match (side, self.0) {
                (Arm::A, _) => 1.0,
                (Arm::B, ..=4) => 0.95,
                (Arm::B, count) => FRESH[(count - 5) / 2 % FRESH.len()],
            };
            Ok(vec![Found::Time(Seconds(time))])
        }
    }
    let Ok(trial) = ab::run(&["gemm/f32".to_owned()], Settings::default(), &mut Turned(0));
    let row = &trial.rows[0];
    assert!(matches!(row.fate, Fate::Unclear | Fate::Slower), "{row:?}");
    assert!(row.ratio.is_some_and(|ratio| ratio > 1.2), "{row:?}");
}
