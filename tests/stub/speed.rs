//! Slow and noisy stub devices, several of them as ranks: what is slow is found and named, each
//! number marked as a stub's.

use super::machine::{AMD, COPIES, Machine, NVIDIA};
use crate::program::{Said, say};
use serde_json::Value;
use std::{collections::BTreeMap, fs, os::unix::fs::symlink};

const SUITE: &str = r#"
[compute]
dtypes = ["f32"]
"#;

/// Two cases out of memory, one of arithmetic.
const CASES: [&str; 3] = ["stream/copy/2MiB/*", "stream/copy/4MiB/*", "compute/f32/*/vector"];

/// A machine with a library that connects its GPUs.
fn machine(libraries: &[&str], connects: &str) -> Machine {
    let machine = Machine::with(libraries);
    let library = machine.lib().join(libraries[0]);
    let driver = fs::canonicalize(library).expect("the stub driver");
    let nccl = driver.with_file_name("libfizeau_stub_nccl.so");
    symlink(nccl, machine.lib().join(connects)).expect("a link");
    patient(&machine);
    machine
}

/// The suite, with time for ten samples also where the machine is busy: one is as noisy as it is.
fn patient(machine: &Machine) {
    machine.suite(&format!("{COPIES}{SUITE}"));
    let path = machine.place.path("own.toml");
    let text = fs::read_to_string(&path).expect("the suite");
    assert!(text.contains("time_max = 0.005"), "{text}");
    fs::write(path, text.replace("time_max = 0.005", "time_max = 60.0")).expect("it is written");
}

/// A run of eight ranks on a machine with a script, and its report as JSON.
fn ranks(machine: &Machine, script: &str, launched: bool) -> (Said, Value) {
    let run = ["run", "--suite", "own.toml", "--out", "out"];
    let args = match launched {
        true => [&["launch", "-n", "8", "--"][..], &run, &CASES].concat(),
        false => [&run[..], &["--ranks", "8"], &CASES].concat(),
    };
    let mut command = machine.fizeau(script, &args);
    for variable in ["FIZEAU_RENDEZVOUS", "FIZEAU_TOKEN"] {
        command.env_remove(variable);
    }
    let said = say(&mut command).clean();
    let json = say(&mut machine.fizeau("", &["report", "out", "--format", "json"]));
    (said, serde_json::from_str(&json.out).expect("JSON"))
}

/// The rates of each rank in the cases of an operation. Each number is marked.
#[track_caller]
fn rates(report: &Value, operation: &str) -> BTreeMap<String, Vec<f64>> {
    let mut rates: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for row in report["tables"]["rank_times"].as_array().expect("rank times") {
        assert_eq!(row["of_median"]["stub"], true, "{row}");
        assert_eq!(row["rank_seconds"], "stub", "{row}");
        if row["case"].as_str().expect("a case").starts_with(operation) {
            let rank = row["rank"].as_str().expect("a rank").to_owned();
            let rate = row["of_median"]["value"].as_f64().expect("a rate");
            rates.entry(rank).or_default().push(rate);
        }
    }
    assert_eq!(rates.len(), 8, "{report}");
    rates
}

/// One rank has about this rate in an operation, all others have one.
#[track_caller]
fn assert_slow(report: &Value, operation: &str, slow: &str, expected: f64) {
    for (rank, rates) in rates(report, operation) {
        let expected = if rank == slow { expected } else { 1.0 };
        // Medians of ten samples and more, beside a median of ranks: 0.5 % of noise at 1 %.
        let near = |rate: &f64| (rate / expected - 1.0).abs() < 0.03;
        assert!(rates.iter().all(near), "{operation} on {rank}: {rates:?}, not {expected}");
    }
}

/// What a terminal shows, as one line.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

const SLOW: &str = "gpus=8,units=1,seed=7,noise=0.01,gpu3.hbm=0.85";

#[test]
fn one_slow_memory_of_eight_is_found_and_no_other() {
    let machine = machine(&NVIDIA, "libnccl.so.2");
    let (said, report) = ranks(&machine, SLOW, false);
    assert_slow(&report, "stream", "rank 3", 0.85);
    assert_slow(&report, "compute", "none", 1.0);
    let all: Vec<f64> = rates(&report, "stream").into_values().flatten().collect();
    assert!(all.iter().any(|rate| (rate - rate.round()).abs() > 1e-4), "no noise: {all:?}");
    let warnings = report["warnings"].as_array().expect("warnings");
    let slow: Vec<&str> = warnings.iter().filter_map(Value::as_str).collect();
    let slow: Vec<&&str> = slow.iter().filter(|line| line.contains("slower than")).collect();
    assert_eq!(slow.len(), 1, "{warnings:?}");
    let text = joined(&said.out);
    let begins = format!("! {}", slow[0].split(" at ").next().expect("its beginning"));
    assert!(slow[0].starts_with("rank 3 (") && slow[0].contains("cuda:3"), "{slow:?}");
    assert!(slow[0].contains("stream at 0.8") && slow[0].contains(" (stub) of their median"));
    assert!(text.contains(&begins), "{}", said.out);
    // Without its mark no number of a rank stands anywhere.
    let unmarked = |line: &&str| line.starts_with("rank ") && line.contains(" 0.");
    for line in said.out.lines().filter(unmarked) {
        assert_eq!(
            line.matches(" 0.").count() + line.matches(" 1.").count(),
            line.matches("(stub)").count(),
            "{line}"
        );
    }
    let csv = say(&mut machine.fizeau("", &["report", "out", "--format", "csv"]));
    assert!(csv.out.contains("rank 3") && csv.out.contains(" (stub)"), "{}", csv.out);
}

#[test]
fn ranks_that_are_processes_and_gpus_that_are_amds_tell_the_same() {
    let nvidia = machine(&NVIDIA, "libnccl.so.2");
    let (_, report) = ranks(&nvidia, "gpus=8,units=1,seed=7,noise=0.01,gpu5.clock=0.9", true);
    assert_slow(&report, "compute", "rank 5", 0.9);
    assert_slow(&report, "stream", "none", 1.0);
    let amd = machine(&AMD, "librccl.so.1");
    let (_, report) = ranks(&amd, SLOW, false);
    assert_slow(&report, "stream", "rank 3", 0.85);
}

#[test]
fn ranks_that_are_alike_are_said_to_be() {
    let machine = machine(&NVIDIA, "libnccl.so.2");
    let (said, _) = ranks(&machine, "gpus=8,units=1,seed=3,noise=0.01", false);
    let text = joined(&said.out);
    assert!(text.contains("No rank is slow beside the others"), "{}", said.out);
    assert!(!text.contains("slower than the other ranks"), "{}", said.out);
}

#[test]
fn two_runs_of_a_stub_compare_by_marked_ratios_alone() {
    let machine = Machine::with(&NVIDIA);
    patient(&machine);
    for (script, out) in [("", "before"), ("hbm=0.5", "after")] {
        let args = ["run", "--suite", "own.toml", "--out", out];
        say(machine.fizeau(script, &args).args(CASES)).ended(0);
    }
    let args = ["compare", "before", "after", "--format", "json"];
    let said = say(&mut machine.fizeau("", &args));
    assert_eq!((said.code, said.err.as_str()), (Some(4), ""), "{}", said.out);
    let report: Value = serde_json::from_str(&said.out).expect("JSON");
    let changed = report["tables"]["changed"].as_array().expect("what changed");
    assert_eq!(changed.len(), 2, "{report}");
    for row in changed {
        assert!(row["case"].as_str().expect("a case").starts_with("stream/copy/"), "{row}");
        let ratio = &row["ratio"];
        assert_eq!(
            (ratio["stub"].as_bool(), row["before_seconds"].as_str()),
            (Some(true), Some("stub"))
        );
        let ratio = ratio["value"].as_f64().expect("a ratio");
        assert!((ratio - 2.0).abs() < 0.02, "{row}");
    }
}

#[test]
fn a_word_that_no_script_has_ends_the_process_with_its_name() {
    let machine = Machine::with(&NVIDIA);
    for word in ["gpu3.hmb=0.85", "sulk", "cuMemAlloc=2", "gpu9.hbm=0.5"] {
        let said = say(&mut machine.fizeau(&format!("gpus=8,{word}"), &["devices"]));
        let name = word.split('.').next().expect("a word");
        assert_ne!(said.code, Some(0), "{word}: {}", said.out);
        assert!(said.err.contains("FIZEAU_STUB: ") && said.err.contains(name), "{}", said.err);
    }
}

/// The sizes that count between GPUs: no other suite has to be named for them.
#[test]
fn collectives_between_gpus_are_planned_from_32_kib_to_16_gib_by_doubling() {
    let machine = machine(&NVIDIA, "libnccl.so.2");
    let listed = |selectors: &[&str]| {
        let args = [&["list", "--ranks", "8"][..], selectors].concat();
        let said = say(&mut machine.fizeau("gpus=8", &args)).ended(0);
        said.out
    };
    let plan = listed(&["collective"]);
    let sizes = (5..20).map(|power| match power {
        0..10 => format!("{}KiB", 1 << power),
        _ => format!("{}MiB", 1 << (power - 10)),
    });
    let sizes: Vec<String> =
        sizes.chain((0..5).map(|power| format!("{}GiB", 1 << power))).collect();
    for collective in ["all_reduce", "all_to_all"] {
        let start = format!("collective/{collective}/");
        let planned: Vec<&str> = plan.lines().filter(|line| line.starts_with(&start)).collect();
        assert_eq!(planned.len(), sizes.len(), "{planned:#?}");
        for (line, size) in planned.iter().zip(&sizes) {
            assert!(line.contains(&format!("/{size}/")), "{line}: {size}");
        }
    }
    assert!(!plan.contains("collective/broadcast/"), "{plan}");
    // The suite of all collectives has the others.
    let others = listed(&["collective/broadcast", "--suite", "collectives"]);
    assert!(others.contains("collective/broadcast/f32/16MiB/"), "{others}");
}
