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

/// A bench whose every pair of one case is disturbed, and which ends after some measurements.
struct Busy {
    measured: usize,
    ends_after: usize,
    repeats: Vec<usize>,
    disturbed: Option<usize>,
}

impl Pairs for Busy {
    type Error = Infallible;

    fn measure(&mut self, side: Arm, cases: &[usize]) -> Result<Vec<Found>, Infallible> {
        self.measured += 1;
        let slower = if side == Arm::B { 1.1 } else { 1.0 };
        let found = |&case: &usize| match self.disturbed == Some(case) && self.measured > 4 {
            true => Found::Disturbed("had 40 % of its cores".into()),
            false => Found::Time(Seconds(slower)),
        };
        Ok(cases.iter().map(found).collect())
    }

    fn repeat(&mut self, case: usize, why: &str) {
        assert!(why.contains("had 40 % of its cores"), "{why}");
        self.repeats.push(case);
    }

    fn ended(&self) -> Option<String> {
        (self.measured >= self.ends_after).then(|| "its budget of 10.00 s ended".into())
    }
}

impl Busy {
    fn trial(ends_after: usize, disturbed: Option<usize>) -> (ab::Trial, Busy) {
        let mut busy = Busy { measured: 0, ends_after, repeats: Vec::new(), disturbed };
        let ids = ["gemm/f32", "gemm/f64"].map(str::to_owned);
        let Ok(trial) = ab::run(&ids, Settings::default(), &mut busy);
        (trial, busy)
    }
}

#[test]
fn what_is_disturbed_is_repeated_and_the_repetitions_are_counted() {
    let (trial, busy) = Busy::trial(usize::MAX, Some(1));
    assert_eq!(busy.repeats.len(), 15 * (ab::ATTEMPTS as usize - 1), "{:?}", busy.repeats);
    assert!(busy.repeats.iter().all(|case| *case == 1));
    assert_eq!(trial.repeated as usize, busy.repeats.len());
    assert_eq!([trial.rows[0].fate, trial.rows[1].fate], [Fate::Slower, Fate::Unclear]);
    assert_eq!(trial.ended, None);
}

/// An end leaves what was decided, looks once at the pairs that there are, and never calls a case
/// decided that is not.
#[test]
fn a_trial_that_is_ended_says_what_is_decided_so_far() {
    for ends_after in 0..24 {
        let (trial, busy) = Busy::trial(ends_after, None);
        assert!(busy.measured <= ends_after, "nothing is measured after the end");
        let is_whole = ends_after >= 4 + 2 * 2 * 5;
        assert_eq!(trial.ended.is_none(), is_whole, "{ends_after}: {:?}", trial.ended);
        for row in &trial.rows {
            let is_decided = row.pairs >= 4;
            let expected = if is_decided { Fate::Slower } else { Fate::Unclear };
            assert_eq!(row.fate, expected, "{ends_after}: {row:?}");
            let note = row.note.as_deref().unwrap_or_default();
            assert_eq!(note.contains("the trial ended"), !is_decided, "{row:?}");
        }
        let document = fizeau_report::trial(&trial, &["a".into(), "b".into()], &[]);
        let is_said = format!("{document:?}").contains("The trial ended early: its budget of");
        assert_eq!(is_said, !is_whole);
    }
}
