//! Silent corruption of all_reduce: a bit that is wrong in what one rank receives is found, on host
//! ranks and through a stub NCCL, and the rank is named.

use crate::{
    gpus::{Machine, ends},
    program::{Place, Said, say},
};
use fizeau::{
    outcome::{Failure, Integrity, Outcome},
    record::Record,
};
use serde_json::Value;
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

/// Operations of NCCL up to here are those by which ranks agree, and the first all_reduces.
const LATER: u32 = 30;

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
        let mut command = place.fizeau(&RUN);
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

#[test]
fn through_nccl_the_rank_that_receives_wrong_bits_is_named() {
    let run = |nccl: &str| {
        let machine = Machine::new();
        fs::write(machine.place.path("own.toml"), SUITE).expect("written");
        let args = [&RUN[..], &["--ranks", "3"]].concat();
        let said = say(&mut machine.fizeau("devices=3", nccl, &args));
        assert!(said.out.contains("stub"), "{}", said.out);
        (said, machine.record())
    };
    let (said, record) = run("");
    assert_clean(&said, &record, 3);
    let (said, record) = run(&format!("2:wrong@{LATER}"));
    assert_eq!(said.code, Some(1), "{} {}", said.out, said.err);
    for (found, error) in found(&record) {
        let error = error.expect("rank 2 receives wrong bits");
        assert!(error.contains(" of what rank 2 received, "), "{error}");
        assert!(!error.contains("; of ranks "), "{error}");
        assert!(found.wrong.iter().all(|word| word.of == "what rank 2 received"), "{found:?}");
        assert!(3 * found.mismatches <= found.compared, "{found:?}");
    }
}

#[test]
fn processes_with_a_gpu_each_name_the_rank_too() {
    let machine = Machine::new();
    fs::write(machine.place.path("own.toml"), SUITE).expect("written");
    let start = |rank: u32| {
        let nccl = format!("1:wrong@{LATER}");
        machine.rank_of(&RUN, [rank, 2], "devices=2", &nccl).spawn().expect("it starts")
    };
    for said in ends(vec![start(0), start(1)]) {
        assert_eq!(said.code, Some(1), "{} {}", said.out, said.err);
    }
    for (found, error) in found(&machine.record()) {
        assert!(error.expect("rank 1").contains(" of what rank 1 received, "), "{found:?}");
    }
}

const PROFILE: &str = r#"
name = "stub"
description = "one check of bits between ranks"
kind = "derived"
suite = "own.toml"

[expected]
gpus = 3
held_clocks = true

[[check]]
name = "silent corruption in all_reduce"
cases = ["sdc/all_reduce/*"]
resource = "results"
"#;

#[test]
fn a_node_whose_ranks_receive_wrong_bits_fails_with_the_ranks_name() {
    let judged = |nccl: &str| {
        let machine = Machine::new();
        fs::write(machine.place.path("own.toml"), SUITE).expect("written");
        fs::write(machine.place.path("profile.toml"), PROFILE).expect("written");
        fs::create_dir(machine.place.path("root")).expect("made");
        let mut args = vec!["accept", "--root", "root", "--profile", "profile.toml", "--out"];
        args.extend(["out", "--budget", "10min"]);
        for device in ["cuda:0", "cuda:1", "cuda:2"] {
            args.extend(["--device", device]);
        }
        let said = say(&mut machine.fizeau("devices=3", nccl, &args));
        assert!(said.out.lines().all(|line| line.ends_with("(stub)")), "{}", said.out);
        let text = fs::read_to_string(machine.place.path("out/verdict.json")).expect("a verdict");
        let verdict: Value = serde_json::from_str(&text).expect("JSON");
        let all = verdict["checks"].as_array().expect("checks").clone();
        let of = |one: &Value| one["check"] == "silent corruption in all_reduce";
        (said, all.into_iter().filter(of).collect::<Vec<Value>>())
    };
    let (said, rows) = judged("");
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert_eq!(rows.len(), 2, "a row for each element type: {rows:?}");
    for row in rows {
        assert_eq!((&row["verdict"], &row["device"]), (&"pass".into(), &"cuda:all".into()));
    }
    let (said, rows) = judged(&format!("1:wrong@{LATER}"));
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    for row in rows {
        assert_eq!((&row["verdict"], &row["cause"]), (&"fail".into(), &"wrong_result".into()));
        let words = row["words"].as_str().expect("words");
        assert!(words.contains(" of what rank 1 received, "), "{words}");
    }
}
