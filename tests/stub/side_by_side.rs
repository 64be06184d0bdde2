//! `run --device all` on a node of stub GPUs: the slow one is named, what GPUs share is measured on
//! one after another, and what a dying process has measured is kept.

use super::machine::{COPIES, Machine, NVIDIA};
use crate::program::{Said, ended, planned, said, say};
use fizeau_domain::outcome::Outcome;
use fizeau_record::Record;
use serde_json::Value;
use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const SUITE: &str = r#"
[transfer]
transfers = ["host_to_device_memcpy", "device_to_device_memcpy_write"]
sizes = [1048576]
host = ["pinned"]

[launch]
ways = ["queued"]
graph = []
"#;

const CASES: [&str; 4] = ["stream/copy/2MiB/*", "stream/copy/4MiB/*", "transfer/*/ce", "launch"];

const SLOW: &str = "gpus=8,units=1,seed=7,noise=0.002,gpu3.hbm=0.9";

fn machine() -> Machine {
    let machine = Machine::with(&NVIDIA);
    machine.suite(&format!("{COPIES}{SUITE}"));
    machine
}

fn command(machine: &Machine, script: &str, args: &[&str]) -> Command {
    machine.fizeau(script, &[&["run"], args].concat())
}

fn record(machine: &Machine, gpu: u32) -> Record {
    machine.place.record(&format!("out/cuda-{gpu}"))
}

fn report(machine: &Machine) -> Value {
    let json = say(&mut machine.fizeau("", &["report", "out", "--format", "json"]));
    serde_json::from_str(&json.out).unwrap_or_else(|error| panic!("{error}: {}", json.err))
}

/// When the cases of a record began: those that a GPU has for itself, and those that it shares.
fn begun(record: &Record) -> [Vec<String>; 2] {
    let times = |is_shared: bool| {
        let of = record.outcomes.iter().filter_map(Outcome::measured);
        let of = of.filter(|one| one.case.point.is_shared_by_gpus() == is_shared);
        of.filter_map(|one| one.started.clone()).collect()
    };
    [times(false), times(true)]
}

#[test]
fn the_slow_one_of_eight_gpus_is_named() {
    let machine = machine();
    let args = ["--device", "all", "--suite", "own.toml", "--out", "out"];
    let said = say(command(&machine, SLOW, &args).args(CASES)).ended(0);
    let lines: Vec<&str> = said.out.lines().collect();
    let last = lines[lines.len().saturating_sub(20)..].join(" ");
    let last = last.split_whitespace().collect::<Vec<_>>().join(" ");
    // The row and the sentence say which board it is.
    let board = "GPU-5a5a5a5a, 0000:04:00.0";
    let slow = format!("cuda:3 ({board}) is slow beside the other GPUs: ");
    assert!(last.contains(&slow), "{}", said.out);
    let row = lines.iter().find(|line| line.starts_with("cuda:3 ") && line.contains("SLOW in"));
    assert!(row.is_some_and(|row| row.contains(board)), "{}", said.out);
    assert!(last.contains("% below (stub)") && last.contains("A GPU is slow where"), "{last}");
    assert_eq!(last.matches(" is slow beside").count(), 1, "no other: {last}");

    let report = report(&machine);
    for row in report["tables"]["gpu_times"].as_array().expect("a row for each case and GPU") {
        assert!(row["median_seconds"] == "stub" && row["of_others"]["stub"] == true, "{row}");
        let is_slow = row["gpu"] == "cuda:3" && row["case"].to_string().contains("stream");
        let expected = if is_slow { 0.9 } else { 1.0 };
        let relative = row["of_others"]["value"].as_f64().expect("a rate");
        assert!((relative - expected).abs() < 0.02, "{row}");
    }
    let pairs = report["heat_maps"]["transfer_device_to_device_memcpy_write_relative"].as_array();
    let known = |pair: &&Value| pair["value"].is_number();
    let pairs = pairs.expect("a matrix");
    assert_eq!((pairs.len(), pairs.iter().filter(known).count()), (64, 56));

    let records: Vec<Record> = (0..8).map(|gpu| record(&machine, gpu)).collect();
    for (gpu, record) in records.iter().enumerate() {
        assert_eq!(record.header.device.ordinal as usize, gpu);
        let others = &record.header.environment.side_by_side;
        assert!(others.len() == 7 && !others.contains(&format!("cuda:{gpu}")), "{others:?}");
        let others_links = planned(record);
        let others_links = others_links.iter().filter(|id| id.contains("/of"));
        assert_eq!(others_links.count(), 0, "host links of other GPUs are theirs to measure");
    }
    let begun: Vec<[Vec<String>; 2]> = records.iter().map(begun).collect();
    let own = begun.iter().flat_map(|[own, _]| own).max().expect("its own");
    let shared = begun.iter().flat_map(|[_, shared]| shared).min().expect("shared");
    assert!(own <= shared, "a GPU used what they share while another measured: {own} {shared}");
    for (gpu, pair) in begun.windows(2).enumerate() {
        let (before, after) = (pair[0][1].iter().max(), pair[1][1].iter().min());
        assert!(before <= after, "GPU {gpu} and the next one used links at once");
    }
    assert_compared_gpu_by_gpu(&machine);
}

/// Runs of several GPUs are compared with each other, and not with the record of one.
fn assert_compared_gpu_by_gpu(machine: &Machine) {
    let compare = |args: &[&str]| say(&mut machine.fizeau("", &[&["compare"], args].concat()));
    let said = compare(&["out", "out", "--format", "json"]);
    let report: Value = serde_json::from_str(&said.out).expect("JSON");
    let tables = report["tables"].as_object().expect("tables");
    let gpus: Vec<&str> = tables.keys().map(|name| name.split(' ').next().unwrap()).collect();
    assert!((0..8).all(|gpu| gpus.contains(&format!("cuda:{gpu}").as_str())), "{gpus:?}");
    assert_eq!(report["verdict"], "pass", "{}", said.out);
    let said = compare(&["out", "out/cuda-3"]);
    assert!(said.code != Some(0) && said.err.contains("GPU by GPU"), "{}", said.err);
}

#[test]
fn devices_that_cannot_be_measured_together_are_refused() {
    let machine = machine();
    for (device, words) in [
        ("cuda:0,cuda:9", "is not there: cuda has 2"),
        ("cuda:0,host", "is no GPU"),
        ("cuda:1,cuda:1", "is there twice"),
    ] {
        let said = say(&mut command(&machine, "gpus=2", &["--device", device]));
        assert!(said.code == Some(2) && said.err.contains(words), "{device}: {}", said.err);
    }
    let args = ["--device", "all", "--ranks", "2"];
    let said = say(&mut command(&machine, "gpus=2", &args));
    assert!(said.code == Some(2) && said.err.contains("without ranks"), "{}", said.err);
    let said = say(&mut machine.fizeau("gpus=2", &["list", "--device", "all"]));
    assert!(said.code == Some(2) && said.err.contains("only `fizeau run`"), "{}", said.err);
    let none = Machine::with(&[]);
    let said = say(&mut command(&none, "", &["--device", "all"]));
    assert!(said.code == Some(2) && said.err.contains("there is no GPU"), "{}", said.err);
}

/// Longest wait for a process to get somewhere.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a file has some lines.
fn await_lines(path: PathBuf, lines: usize) {
    let begun = Instant::now();
    let count = || fs::read_to_string(&path).map_or(0, |text| text.lines().count());
    while count() < lines {
        assert!(begun.elapsed() < PATIENCE, "{} does not grow", path.display());
        thread::sleep(Duration::from_millis(2));
    }
}

/// The processes that a process has started.
fn children(process: u32) -> Vec<u32> {
    let path = format!("/proc/{process}/task/{process}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

fn signal(name: &str, process: u32) {
    let sent = Command::new("kill").args([format!("-{name}"), process.to_string()]).status();
    assert!(sent.expect("kill starts").success());
}

/// Starts a run of two GPUs, waits until the second has measured a case, does something to it, and
/// waits for its end.
fn disturbed(machine: &Machine, disturb: impl FnOnce(u32, &[u32])) -> Said {
    let args = ["--device", "cuda:0,cuda:1", "--suite", "own.toml", "--out", "out", "stream"];
    let mut run = command(machine, "gpus=2,units=1", &args);
    let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    await_lines(machine.place.path("out/cuda-1/record.jsonl"), 2);
    disturb(run.id(), &children(run.id()));
    said(run.wait_with_output().expect("its end"))
}

/// Continues what was disturbed: then every planned case of both GPUs has its outcome.
#[track_caller]
fn assert_completed(machine: &Machine) {
    say(&mut command(machine, "gpus=2,units=1", &["--resume", "out"])).ended(0);
    for gpu in 0..2 {
        let record = record(machine, gpu);
        assert_eq!(ended(&record), planned(&record), "GPU {gpu}");
    }
    assert!(
        report(machine)["warnings"]
            .as_array()
            .is_some_and(|all| { all.iter().all(|one| !one.to_string().contains("ended early")) })
    );
}

#[test]
fn a_process_that_is_killed_loses_no_other_gpus_cases() {
    let machine = machine();
    let said = disturbed(&machine, |_, children| {
        let of_gpu = |process: &&u32| {
            let line = fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default();
            line.contains("cuda-1")
        };
        signal("KILL", *children.iter().find(of_gpu).expect("the process of cuda:1"));
    });
    assert_eq!(said.code, Some(3), "{}{}", said.out, said.err);
    let record = record(&machine, 0);
    assert_eq!(ended(&record), planned(&record), "the other GPU's");
    assert!(
        said.out.contains("cuda:1: it ended early") && said.out.contains("signal"),
        "{}",
        said.out
    );
    assert_completed(&machine);
}

#[test]
fn an_interrupted_run_of_gpus_is_continued() {
    let machine = machine();
    let said = disturbed(&machine, |parent, _| signal("TERM", parent));
    assert_eq!(said.code, Some(130), "{}{}", said.out, said.err);
    assert!(said.err.contains("--resume out"), "{}", said.err);
    assert_completed(&machine);
}
