//! Kernels that try their candidates: what a script made fastest is chosen, a record can give its
//! choices to the next run, and a comparison names another choice.

use super::machine::{Machine, NVIDIA};
use crate::{program::say, skipped};
use fizeau_domain::{
    outcome::{Measurement, Outcome},
    tuning::{ChosenBy, Tuning},
};
use fizeau_record::Record;
use std::fs;

/// Products of 16 rows, for which compute capability 9.0 has several kernels; its memory and its
/// units take less time than a launch, so that a kernel's own share of speed is all that differs.
const PRODUCTS: &str = r#"
[gemm]
dtypes = ["bf16"]
shapes = [[16, 256, 256]]
"#;

const CASE: &str = "gemm/bf16/16x256x256/tuned";
const DRIVER: &str = "units=4,capability=90,noise=0.02";

fn machine() -> Machine {
    let machine = Machine::with(&NVIDIA);
    machine.suite(PRODUCTS);
    begin_suite(&machine, "kernels = \"best\"");
    machine
}

/// Puts lines before the first table of the suite.
fn begin_suite(machine: &Machine, lines: &str) {
    let path = machine.place.path("own.toml");
    let suite = fs::read_to_string(&path).expect("the suite");
    let suite = suite.replacen("[measure]", &format!("{lines}\n\n[measure]"), 1);
    fs::write(path, suite).expect("the suite is written");
}

/// A run on a driver where the kernel of an entry is by a twentieth faster than all others.
fn run(machine: &Machine, fast: &str, words: &[&str], out: &str) -> Record {
    let script = format!("{DRIVER},seed=5,entry.{fast}=1.05");
    let args = ["run", "--suite", "own.toml", "--out", out];
    say(machine.fizeau(&script, &args).args(words)).clean();
    machine.place.record(out)
}

fn measured<'r>(record: &'r Record, id: &str) -> &'r Measurement {
    let outcome = record.outcomes.iter().find(|one| one.case().to_string() == id);
    match outcome {
        Some(Outcome::Measured(one)) => one,
        other => panic!("{id}: {other:?}"),
    }
}

fn tuning<'r>(record: &'r Record, id: &str) -> &'r Tuning {
    measured(record, id).tuning.as_deref().unwrap_or_else(|| panic!("{id} was not tuned"))
}

#[test]
fn the_fastest_candidate_is_chosen_kept_and_given_again() {
    let machine = machine();
    let first = run(&machine, "gemm_bf16_wgmma_split_16", &[], "first");
    let planned: Vec<String> = first.header.plan.iter().map(|case| case.to_string()).collect();
    assert_eq!(planned, [CASE, "gemm/bf16/16x256x256/cublaslt"]);
    let seen = tuning(&first, CASE);
    assert_eq!((seen.chosen.as_str(), seen.by), ("sm90_wgmma_split_16", ChosenBy::Tried));
    let names: Vec<&str> = seen.candidates.iter().map(|one| one.name.as_str()).collect();
    for name in ["sm90_wgmma", "sm90_wgmma_few", "sm90_wgmma_split_16", "sm80_mma_skinny"] {
        assert!(names.contains(&name), "{names:?}");
    }
    // Made for other numbers of rows.
    assert!(!names.contains(&"sm90_wgmma_split_64"), "{names:?}");
    assert_eq!(measured(&first, CASE).code.len(), 1, "the code of the chosen one alone");

    // The library's candidates get the same procedure; its best guess refuses the work.
    let library = tuning(&first, "gemm/bf16/16x256x256/cublaslt");
    assert_eq!(library.chosen, "guess_2");
    assert!(library.candidates[0].refused.is_some(), "{library:?}");

    // Replayed on a machine where another one is faster, nothing is tried.
    let given = ["--choices", "first"];
    let again = run(&machine, "gemm_bf16_wgmma_few", &given, "again");
    let seen = tuning(&again, CASE);
    assert_eq!((seen.chosen.as_str(), seen.by), ("sm90_wgmma_split_16", ChosenBy::Given));
    assert!(seen.candidates.is_empty());

    let other = run(&machine, "gemm_bf16_wgmma_few", &[], "other");
    assert_eq!(tuning(&other, CASE).chosen, "sm90_wgmma_few");
    let said = say(&mut machine.fizeau("", &["compare", "first", "other"]));
    let words = "another kernel was chosen: sm90_wgmma_split_16 in A, sm90_wgmma_few in B";
    assert!(said.out.contains(words), "{}\n{}", said.out, said.err);
}

#[test]
fn a_record_without_choices_and_a_choice_that_is_not_there_are_named() {
    let machine = machine();
    let args = ["run", "stream/read", "--suite", "stub.toml", "--out", "streams"];
    say(&mut machine.fizeau(DRIVER, &args)).clean();
    let args = ["run", "--suite", "own.toml", "--out", "none", "--choices", "streams"];
    let said = say(&mut machine.fizeau(DRIVER, &args));
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains("none of its cases tried candidates"), "{}", said.err);

    run(&machine, "gemm_bf16_wgmma_split_16", &[], "first");
    let path = machine.place.path("first/record.jsonl");
    let text = fs::read_to_string(&path).expect("a record");
    let text = text.replace(r#""chosen":"sm90_wgmma_split_16""#, r#""chosen":"sm90_gone""#);
    fs::write(&path, text).expect("it is written");
    let args = ["run", "--suite", "own.toml", "--out", "gone", "--choices", "first"];
    say(&mut machine.fizeau(DRIVER, &args));
    let record = machine.place.record("gone");
    let outcome = record.outcomes.iter().find(|one| one.case().to_string() == CASE);
    let Some(Outcome::Skipped { reason, .. }) = outcome else { panic!("{outcome:?}") };
    assert!(reason.contains("sm90_gone") && reason.contains("sm90_wgmma_few"), "{reason}");
}

/// Another kernel at another rung of a ladder would be taken for an effect of the limit.
#[test]
fn all_rungs_of_a_ladder_run_the_kernel_of_the_first() {
    if !rustix::process::geteuid().is_root() {
        return skipped::because("root", "limits are set by root alone");
    }
    let machine = machine();
    begin_suite(&machine, "[power]\nclocks = [0.5]");
    let script = format!("{DRIVER},seed=5,entry.gemm_bf16_wgmma_few=1.05");
    let args = ["run", CASE, "--suite", "own.toml", "--out", "out", "--set-limits"];
    let mut command = machine.fizeau(&script, &args);
    say(command.env("FIZEAU_STUB_LIMITS", machine.place.path("limits"))).ended(0);
    let steps = fs::read_dir(machine.place.path("out")).expect("rungs");
    let mut names: Vec<String> = steps
        .map(|step| step.expect("a rung").file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("step-"))
        .collect();
    names.sort();
    assert_eq!(names.len(), 3, "{names:?}");
    let told = |name: &String| {
        let record = machine.place.record(&format!("out/{name}"));
        let seen = tuning(&record, CASE);
        (seen.chosen.clone(), seen.by)
    };
    let all: Vec<_> = names.iter().map(told).collect();
    let of = |by| ("sm90_wgmma_few".to_owned(), by);
    assert_eq!(all, [of(ChosenBy::Tried), of(ChosenBy::Given), of(ChosenBy::Given)]);
}
