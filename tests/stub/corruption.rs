//! Silent corruption on stub GPUs: bits that the driver flips in products are what `fizeau run`
//! finds, and what `fizeau accept` fails one device of a node for.

use super::machine::{AMD, Machine, NVIDIA};
use crate::program::say;
use fizeau_domain::outcome::{Failure, Integrity, Outcome};
use std::fs;

const SUITE: &str = r#"
[sdc]
dtypes = ["f32"]
shapes = [[24, 32, 40]]
products = 20
patterns = ["walking", "moving"]
memory = [80016]
copies = [80016]
"#;

/// What was found of the only case, and its outcome.
fn run(libraries: &[&str], script: &str, cases: &str) -> (Outcome, Integrity, Vec<String>) {
    let machine = Machine::with(libraries);
    machine.suite(SUITE);
    let args = ["run", cases, "--suite", "own.toml", "--out", "out"];
    let said = say(&mut machine.fizeau(script, &args));
    assert!(matches!(said.code, Some(0 | 1)), "{} {}", said.out, said.err);
    let outcome = machine.place.record("out").outcomes.remove(0);
    let found = match &outcome {
        Outcome::Measured(one) => one.integrity.clone(),
        Outcome::Failed { integrity, .. } => integrity.clone(),
        other => panic!("{other:?}"),
    };
    (outcome, *found.expect("bits were compared"), machine.log())
}

#[test]
fn bits_that_a_device_flips_are_counted_and_placed() {
    let product = "sdc/product/f32/*/portable";
    for (libraries, amd) in [(&NVIDIA[..], ""), (&AMD[..], ",gfx=gfx90a")] {
        let (outcome, clean, _) = run(libraries, &format!("units=2{amd}"), product);
        assert!(matches!(outcome, Outcome::Measured(_)), "{outcome:?}");
        assert_eq!(clean.mismatches, 0);
        let hash = clean.hash.expect("a hash");
        for site in ["operand", "sum", "output"] {
            let script = format!("units=2,flip={site}/20,seed=5{amd}");
            let (outcome, found, log) = run(libraries, &script, product);
            let Outcome::Failed { failure: Failure::WrongResult, error, .. } = &outcome else {
                panic!("{site}: {outcome:?}");
            };
            assert!(error.contains("differ in their bits; the first: row "), "{error}");
            let flipped = log.iter().filter(|line| line.starts_with("flip ")).count();
            let shown = log.iter().filter(|line| line.ends_with(": shows")).count();
            assert!(flipped > 0 && found.mismatches == shown as u64, "{found:?} {log:?}");
            assert_eq!(found.hash.as_deref(), Some(&*hash), "{site}: most are right");
            assert!(!found.wrong.is_empty() && found.operands.len() == 2, "{found:?}");
        }
    }
}

#[test]
fn memory_and_copies_are_compared_by_the_device() {
    for (case, words) in [("sdc/memory/moving", 3), ("sdc/memory/walking", 1), ("sdc/copy", 0)] {
        let (outcome, found, _) = run(&NVIDIA, "units=2", case);
        assert!(matches!(outcome, Outcome::Measured(_)), "{outcome:?}");
        assert_eq!((found.mismatches, found.compared % 2), (0, 0), "{found:?}");
        if words > 0 {
            assert!(found.compared.is_multiple_of(words * 80016 / 8), "{found:?}");
        }
    }
}

/// Of four devices of a node.
const PROFILE: &str = r#"
name = "stub"
description = "one check of bits"
kind = "derived"
suite = "own.toml"

[expected]
gpus = 4
held_clocks = true

[[check]]
name = "silent corruption"
cases = ["sdc/product/*/portable"]
resource = "results"
"#;

#[test]
fn one_device_that_flips_bits_fails_its_node() {
    let machine = Machine::with(&NVIDIA);
    machine.suite(SUITE);
    fs::write(machine.place.path("profile.toml"), PROFILE).expect("written");
    fs::create_dir(machine.place.path("root")).expect("made");
    let mut args =
        vec!["accept", "--root", "root", "--profile", "profile.toml", "--out", "out", "--budget"];
    args.push("10min");
    for device in ["cuda:0", "cuda:1", "cuda:2", "cuda:3"] {
        args.extend(["--device", device]);
    }
    let said =
        say(&mut machine.fizeau("units=2,devices=4,gpu2.flip=output/20,seed=3", &args)).ended(1);
    assert!(said.out.lines().all(|line| line.ends_with("(stub)")), "{}", said.out);
    super::accept::follows(&machine);
    let verdict = machine.place.json("out/verdict.json");
    let checks = verdict["checks"].as_array().expect("checks");
    for device in ["cuda:0", "cuda:1", "cuda:2", "cuda:3"] {
        let one = checks
            .iter()
            .find(|one| one["check"] == "silent corruption" && one["device"] == device)
            .unwrap_or_else(|| panic!("{device}: {verdict}"));
        let words = one["words"].as_str().expect("words");
        if device == "cuda:2" {
            assert_eq!((&one["verdict"], &one["cause"]), (&"fail".into(), &"wrong_result".into()));
            assert!(words.contains("differ in their bits") && words.contains("looks"), "{words}");
            assert!(one["repeats"].as_u64() >= Some(2), "{one}");
        } else {
            assert_eq!(one["verdict"], "pass", "{one}");
            assert!(words.contains("clean to p < ") && words.contains("95 %"), "{words}");
        }
    }
    assert_eq!(verdict["action"], "RESET_GPU");
}
