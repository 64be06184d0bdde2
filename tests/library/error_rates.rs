//! Limits on how often judgements err: the modules that print docs/appendix/error-rates.md, with
//! few runs. The limits here are wider than that page's figures by what so few runs scatter.

#[path = "../../examples/error_rates/gates.rs"]
mod gates;
#[path = "../../examples/error_rates/intervals.rs"]
mod intervals;
#[path = "../../examples/error_rates/machine.rs"]
mod machine;
#[path = "../../examples/error_rates/random.rs"]
pub mod random;
#[path = "../../examples/error_rates/table.rs"]
mod table;

use fizeau_judge::ab::Fate;
use fizeau_record::store;
use intervals::{COUNTS, Process};
use machine::{Noise, Planted};
use std::fs;

const SEED: u64 = 7;

#[test]
fn intervals_cover_as_often_as_they_say() {
    for process in Process::ALL {
        for count in COUNTS.into_iter().filter(|&count| count >= process.enough()) {
            let runs = if count <= 100 { 2_000 } else { 300 };
            // Three standard errors of a share near 0.95.
            let slack = 3.0 * (0.95f64 * 0.05 / runs as f64).sqrt();
            let found = intervals::coverage(process, count, runs, SEED);
            let given = (runs - found.unknown) as f64;
            let share = found.covering as f64 / given;
            let place = format!("{}, {count} samples: {found:?}", process.name());
            assert!(share >= 0.93 - slack, "{place}");
            if process.is_independent() {
                assert!(found.width <= 1.65, "{place}");
                assert!(found.independent >= 0.6 * count as f64, "{place}");
            }
        }
    }
}

#[test]
fn what_cannot_be_known_is_said() {
    let runs = 300;
    for (process, count) in [
        (Process::Dependent(0.5), 10),
        (Process::Dependent(0.9), 10),
        (Process::Dependent(0.9), 30),
    ] {
        let found = intervals::coverage(process, count, runs, SEED);
        let right = (found.covering + found.unknown) as f64 / runs as f64;
        assert!(right >= 0.89, "{}, {count} samples: {found:?}", process.name());
    }
}

#[test]
fn halves_of_the_committed_record_agree() {
    let record = store::read("results/epyc-9005/2026-11-21-kvm-2-cores".as_ref()).expect("kept");
    let times = |one: &fizeau_domain::outcome::Outcome| -> Option<Vec<f64>> {
        Some(one.measured()?.samples.times.iter().map(|time| time.0).collect())
    };
    let cases: Vec<Vec<f64>> = record.outcomes.iter().filter_map(times).collect();
    let [long, known, holding] = intervals::halves(&cases);
    assert!(long >= 60 && known * 10 >= long * 9, "{known} of {long}");
    assert!(holding * 10 >= known * 9, "{holding} of {known}");
}

#[test]
fn compare_fails_no_machine_that_did_not_change() {
    let runs = 60;
    for noise in Noise::ALL.into_iter().chain([Noise::FamilyModes, Noise::Bursts]) {
        for sides in [[1, 1], [2, 2], [3, 3], [3, 1], [1, 3], [5, 1]] {
            let found = gates::compare(noise, Planted::Nothing, sides, runs, SEED);
            assert!(found.failed <= 8, "{}, {sides:?} runs: {found:?}", noise.name());
        }
    }
}

#[test]
fn compare_finds_what_was_planted() {
    let runs = 60;
    for planted in [Planted::OneCase(0.10), Planted::EverySecond(0.10), Planted::Family(0.10)] {
        let found = gates::compare(Noise::Normal(0.01), planted, [3, 3], runs, SEED);
        assert!(found.found >= 53, "{}: {found:?}", planted.name());
        // Two single runs say that something differs, and fail nothing.
        let single = gates::compare(Noise::Normal(0.01), planted, [1, 1], runs, SEED);
        assert!(single.failed <= 8 && single.differed >= 53, "{}: {single:?}", planted.name());
    }
}

#[test]
fn ab_keeps_its_error_rate_and_finds_what_was_planted() {
    for noise in Noise::ALL {
        let found = gates::ab(noise, Planted::Nothing, 20, SEED);
        assert!(found.failed <= 3, "{}: {found:?}", noise.name());
    }
    for planted in [
        Planted::OneCase(0.05),
        Planted::OneCase(0.10),
        Planted::EverySecond(0.10),
        Planted::Family(0.05),
    ] {
        let found = gates::ab(Noise::Normal(0.01), planted, 20, SEED);
        assert!(found.found >= 17, "{}: {found:?}", planted.name());
    }
    let beside = gates::ab(Noise::Neighbour, Planted::EverySecond(0.10), 20, SEED);
    assert!(beside.found >= 12, "{beside:?}");
}

#[test]
fn ab_never_clears_a_change_of_five_percent() {
    let cleared = Fate::ALL.iter().position(|fate| *fate == Fate::Cleared).expect("a fate");
    for noise in gates::FATE_NOISES {
        for by in [0.05, -0.05] {
            let rates = gates::ab(Noise::Normal(noise), Planted::Family(by), 20, SEED);
            assert_eq!(rates.fates[cleared], 0, "noise {noise}, {by}: {rates:?}");
        }
    }
}

/// The committed page is printed by the program in the repository: same titles and rows.
#[test]
fn the_committed_page_has_every_table() {
    let page = fs::read_to_string("docs/appendix/error-rates.md").expect("it is committed");
    let tables = [
        intervals::table(6, SEED),
        gates::compare_unchanged(2, SEED),
        gates::compare_planted(2, SEED),
        gates::ab_table(2, SEED),
        gates::ab_fates(10, SEED),
    ];
    for table in tables {
        for (at, line) in table.lines().enumerate() {
            let first = line.split(" | ").next().unwrap_or(line);
            let wanted = if at == 0 { line } else { first };
            assert!(page.contains(wanted), "error-rates.md lacks {wanted:?}: print it again");
        }
    }
}
