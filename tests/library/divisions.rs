//! `fizeau compare` by all divisions of real runs of one machine: none of them is a change, though
//! the runs fall into modes. A product of `results/serving` takes 26 ms in one process and 34 ms in
//! another.

use crate::error_rates::random::Random;
use fizeau_domain::{outcome::Outcome, verdict::Verdict};
use fizeau_judge::compare::{
    Comparison, FALSE_DISCOVERIES, Fate, Options, THRESHOLD,
    judge::{self, Direction, Judgement, Observed, Rule},
};
use fizeau_record::{Record, store};
use std::collections::BTreeMap;

const PLACE: &str = "results/serving/2026-11-22-one-core";
const RUNS: usize = 5;

fn runs() -> Vec<Record> {
    let read = |round| store::read(format!("{PLACE}/round-{round}").as_ref()).expect("kept");
    (1..=RUNS).map(read).collect()
}

/// Every choice of runs for A and others for B, one at least for each.
fn divisions() -> Vec<[Vec<usize>; 2]> {
    let side = |division: usize, side: usize| -> Vec<usize> {
        (0..RUNS).filter(|&run| division / 3usize.pow(run as u32) % 3 == side).collect()
    };
    let both = (0..3usize.pow(RUNS as u32)).map(|division| [1, 2].map(|at| side(division, at)));
    both.filter(|sides| sides.iter().all(|side| !side.is_empty())).collect()
}

fn compared(records: &[Record], [a, b]: &[Vec<usize>; 2], change: fn(&mut Record)) -> Comparison {
    let [before, mut after] =
        [a, b].map(|side| side.iter().map(|&run| records[run].clone()).collect::<Vec<_>>());
    after.iter_mut().for_each(change);
    Comparison::of(&before, &after, &Options::default()).expect("one machine")
}

#[test]
fn no_division_of_real_runs_of_one_machine_fails() {
    let records = runs();
    let mut failed: BTreeMap<[usize; 2], [usize; 3]> = BTreeMap::new();
    for division in divisions() {
        let found = compared(&records, &division, |_| {});
        let [all, fails, differs] = failed.entry([0, 1].map(|at| division[at].len())).or_default();
        *all += 1;
        *fails += usize::from(found.verdict() == Verdict::Fail);
        *differs += usize::from(found.longer() > 0);
        if found.verdict() == Verdict::Fail {
            let slower = found.rows.iter().filter(|row| row.fate == Fate::Slower);
            let slower: Vec<String> = slower.map(|row| row.case.to_string()).collect();
            let groups: Vec<_> = found.slower_groups().collect();
            println!("{division:?}: {slower:?} {groups:?}");
        }
    }
    println!("runs of A and of B: divisions, failed, took longer: {failed:?}");
    assert_eq!(failed.values().map(|[all, ..]| all).sum::<usize>(), 180);
    assert!(failed.values().all(|[_, failed, _]| *failed == 0), "{failed:?}");
}

/// What many cases share is found in these records all the same.
#[test]
fn a_slower_family_is_found_among_real_runs() {
    let records = runs();
    let slower = |record: &mut Record| {
        for outcome in &mut record.outcomes {
            let is_planted = outcome.case().to_string().starts_with("gemm/");
            let Outcome::Measured(one) = outcome else { continue };
            if is_planted {
                one.summary.median.0 *= 1.3;
            }
        }
    };
    let (mut found, mut all) = (0, 0);
    for division in divisions().iter().filter(|sides| sides.iter().all(|side| side.len() > 1)) {
        all += 1;
        let comparison = compared(&records, division, slower);
        let named = comparison.slower_groups().any(|group| group.name.starts_with("gemm/"));
        found += usize::from(named && comparison.verdict() == Verdict::Fail);
    }
    println!("{found} of {all}");
    assert!(found * 10 >= all * 9, "{found} of {all}");
}

/// Runs of A and of B as a machine makes them that is the same in both.
fn judged(
    cases: usize,
    [of_a, of_b]: [usize; 2],
    mut time: impl FnMut(usize, usize) -> f64,
) -> Judgement {
    let observed = |case: usize| Observed {
        id: format!("gemm/bf16/{case}/avx512"),
        before: (0..of_a).map(|run| time(case, run)).collect(),
        after: (0..of_b).map(|run| time(case, of_a + run)).collect(),
        counts: true,
        ..Observed::default()
    };
    let observed: Vec<Observed> = (0..cases).map(observed).collect();
    let rule = Rule { threshold: THRESHOLD, false_discoveries: FALSE_DISCOVERIES };
    judge::judge(&observed, &rule)
}

fn fails(judged: &Judgement) -> bool {
    judged.cases.iter().any(|case| case.way == Direction::Slower)
        || judged.groups.iter().any(|group| group.way == Direction::Slower)
}

/// Two modes and three, of one case and of all, in plans of one case and of many.
#[test]
fn modes_of_any_number_of_cases_fail_no_gate() {
    const MACHINES: usize = 200;
    for sides in [[3, 3], [2, 5], [3, 4]] {
        for (cases, every) in [(1, 1), (3, 1), (12, 3), (47, 6), (47, 1), (168, 168)] {
            for modes in [2, 3] {
                let mut random = Random::new(17, (cases * every * modes + sides[0]) as u64);
                let mut failed = 0;
                for _ in 0..MACHINES {
                    let found = judged(cases, sides, |case, _| {
                        let mode = if case % every == 0 { random.below(modes) } else { 0 };
                        0.01 * random.normal() + 0.2 * mode as f64
                    });
                    failed += usize::from(fails(&found));
                }
                // 5 %, and three standard errors of so many.
                let place = format!("{sides:?} runs, {modes} modes of each {every}th of {cases}");
                println!("{place}: {failed} of {MACHINES}");
                assert!(failed <= MACHINES / 20 + 9, "{place}: {failed} of {MACHINES}");
            }
        }
    }
}

/// A plan of one case, and numbers that are none.
#[test]
fn one_case_is_judged_and_no_number_is_no_change() {
    let mut random = Random::new(4, 2);
    let (mut failed, mut found) = (0, 0);
    for _ in 0..100 {
        for planted in [0.0, 0.1] {
            let judged = judged(1, [3, 3], |_, run| {
                0.005 * random.normal() + if run < 3 { 0.0 } else { planted }
            });
            let count = if planted > 0.0 { &mut found } else { &mut failed };
            *count += usize::from(fails(&judged));
        }
    }
    assert!(failed <= 5 && found >= 90, "{failed} fail, {found} are found of 100");
    for strange in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for sides in [[2, 2], [3, 3], [4, 4]] {
            // In a run of A, of B, and in all of them.
            for at in [Some(0), Some(sides[0]), None] {
                let judged = judged(20, sides, |case, run| {
                    let is_strange = case == 3 && at.is_none_or(|at| at == run);
                    if is_strange { strange } else { 0.001 * ((case * 7 + run * 5) % 9) as f64 }
                });
                assert!(!fails(&judged), "{strange} in {at:?} of {sides:?}: {judged:?}");
                assert_ne!(judged.cases[3].way, Direction::Same, "{strange}");
            }
        }
    }
}
