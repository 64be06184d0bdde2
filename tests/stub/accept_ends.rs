//! An acceptance that is asked to end while a driver hangs ends within a moment, keeps what was
//! judged, and can be continued; the states that it had observed stay.

use super::{accept, machine::Machine};
use crate::program::{Said, said, say};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    fs,
    path::Path,
    process::Child,
    thread,
    time::{Duration, Instant},
};

/// Far longer than an end may take, also where the machine is busy, and far shorter than the driver
/// hangs.
const SOON: Duration = Duration::from_secs(5);

const ARGS: [&str; 7] =
    ["accept", "--root", "root", "--profile", "profile.toml", "--device", "cuda:0"];

fn start(machine: &Machine, script: &str) -> Child {
    let args = [&ARGS[..], &["--out", "out"]].concat();
    machine.fizeau(script, &args).spawn().expect("it starts")
}

/// Waits until something is so.
#[track_caller]
fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process catches SIGTERM.
fn catches(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (Signal::TERM.as_raw() - 1) & 1 == 1
}

/// Asks it to end, and how it does.
#[track_caller]
fn ends_soon(child: Child) -> Said {
    let began = Instant::now();
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it is there");
    let said = said(child.wait_with_output().expect("it ends"));
    assert!(began.elapsed() < SOON, "{:?}: {}{}", began.elapsed(), said.out, said.err);
    assert_eq!(said.code, Some(130), "{}{}", said.out, said.err);
    said
}

fn verdict(out: &Path) -> Value {
    let text = fs::read_to_string(out.join("verdict.json")).expect("a verdict");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn a_driver_that_does_not_start_keeps_nobody_from_ending() {
    let machine = accept::machine("", "");
    let child = start(&machine, "devices=4,stuck=60");
    until("it listens", || catches(child.id()));
    ends_soon(child);
}

#[test]
fn a_hung_device_leaves_the_verdicts_and_states_so_far() {
    let machine = accept::machine("", "");
    let suite = machine.place.path("own.toml");
    let text = fs::read_to_string(&suite).expect("the suite");
    fs::write(&suite, text.replace("deadline = 2.0", "deadline = 60.0")).expect("written");
    let script = "devices=4,noise=0.002,seed=3/run";
    let child = start(&machine, &format!("{script},gpu0.hang@9"));
    let out = machine.place.path("out");
    until("it measures", || out.join("rounds/0001-cuda0/record.jsonl").exists());
    thread::sleep(Duration::from_millis(300));
    ends_soon(child);
    let left = verdict(&out);
    assert_eq!((&left["complete"], &left["verdict"]), (&false.into(), &"inconclusive".into()));
    let checks = left["checks"].as_array().expect("checks");
    assert!(checks.iter().any(|one| one["verdict"] == "pass"), "the state was judged: {left}");
    let state = fs::read(out.join("state.json")).expect("a state");
    // What is observed now differs from what was.
    let resume = [&ARGS[..], &["--resume", "out"]].concat();
    let said = say(&mut machine.fizeau(&format!("{script},processes=0"), &resume));
    assert_eq!(said.code, Some(4), "what has no floor passes nothing: {}{}", said.out, said.err);
    assert_eq!(verdict(&out)["complete"], true);
    assert_eq!(fs::read(out.join("earlier/1/state.json")).expect("it is kept"), state);
    assert_ne!(fs::read(out.join("state.json")).expect("a state"), state);
    assert_eq!(verdict(&out.join("earlier/1")), left);
    accept::follows(&machine);
    // And once more: nothing is left to measure.
    say(&mut machine.fizeau(script, &resume)).ended(4);
    for file in ["state.json", "state-after.json", "verdict.json"] {
        assert!(out.join("earlier/2").join(file).exists(), "{file}");
    }
    assert_eq!(fs::read(out.join("earlier/1/state.json")).expect("it is kept"), state);
    accept::follows(&machine);
}
