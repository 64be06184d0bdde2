//! Silent corruption of all_reduce: a bit that is wrong in what one rank receives is found on host
//! ranks, and the rank is named.

use crate::program::{Place, Said, say};
use fizeau_domain::outcome::{Failure, Integrity, Outcome};
use fizeau_record::Record;
use std::fs;

const SUITE: &str = r#"
name = "own"
description = "What one test measures"

[measure]
samples_min = 3
samples_max = 4
noise_max = 0.0
time_min = 0.0
time_max = 0.01
warmup_max = 0.0001
sample_min = 0.00001
deadline = 60.0

[sdc]
reduced = ["int8", "bf16"]
all_reduces = [80016]
rounds = 5
"#;

const RUN: [&str; 6] = ["run", "sdc/all_reduce", "--suite", "own.toml", "--out", "out"];

/// What was found of each case, and the words of those that failed.
fn found(record: &Record) -> Vec<(Integrity, Option<String>)> {
    assert_eq!(record.outcomes.len(), 2, "{:?}", record.outcomes);
    let one = |outcome: &Outcome| match outcome {
        Outcome::Measured(one) => (one.integrity.clone(), None),
        Outcome::Failed { failure: Failure::WrongResult, integrity, error, .. } => {
            (integrity.clone(), Some(error.clone()))
        }
        other => panic!("{other:?}"),
    };
    let all = record.outcomes.iter().map(one);
    all.map(|(found, error)| (*found.expect("bits were compared"), error)).collect()
}

#[track_caller]
fn assert_clean(said: &Said, record: &Record, ranks: u64) {
    assert_eq!(said.code, Some(0), "{} {}", said.out, said.err);
    for (found, error) in found(record) {
        assert_eq!((found.mismatches, found.wrong.len(), error), (0, 0, None));
        // What each rank receives counts, in whole iterations.
        assert!(found.compared > 0 && found.compared.is_multiple_of(5 * ranks), "{found:?}");
        assert!(found.hash.is_some() && found.words().starts_with("clean to p < "), "{found:?}");
    }
}

#[test]
fn on_host_ranks_every_sum_is_compared_and_a_flipped_bit_found() {
    let run = |flip: Option<&str>| {
        let place = Place::new();
        fs::write(place.path("own.toml"), SUITE).expect("written");
        let mut command = place.fizeau(RUN);
        command.args(["--device", "host", "--ranks", "3"]);
        if let Some(flip) = flip {
            command.env("FIZEAU_FLIP", flip);
        }
        let said = say(&mut command);
        (said, place.record("out"))
    };
    let (said, record) = run(None);
    assert_clean(&said, &record, 3);
    for seed in ["1", "2"] {
        let (said, record) = run(Some(&format!("received/7,seed={seed}")));
        assert_eq!(said.code, Some(1), "{} {}", said.out, said.err);
        for (found, error) in found(&record) {
            let error = error.expect("a bit is wrong");
            assert!(found.mismatches > 0 && found.mismatches < found.compared, "{found:?}");
            assert!(error.contains("all_reduces differ in their bits; the first: "), "{error}");
            let ranks = [0, 1, 2].map(|rank| format!("what rank {rank} received"));
            for word in &found.wrong {
                assert!(ranks.contains(&word.of), "{word:?}");
                let [got, wanted] = [&word.found, &word.expected]
                    .map(|digits| u64::from_str_radix(digits, 16).expect("digits"));
                assert_eq!((got ^ wanted).count_ones(), 1, "{word:?}");
            }
        }
    }
}
