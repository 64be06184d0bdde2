//! Processes that a verb starts end with it, by `kill -9` of it too: what is left behind would
//! disturb whatever the machine measures next.

use super::small_node;
use crate::gpus::Machine;
use crate::program::Place;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// How long processes may take to end: until the case that they measure has ended. Each would run
/// for much longer by itself.
const ENDS_WITHIN: Duration = Duration::from_secs(8);

/// Cases of a second each, and how many there are at least.
const SECOND: &str = "[measure]\nsamples_min = 10\nsamples_max = 100000\nnoise_max = 0.0\n\
                      time_min = 1.0\ntime_max = 1.0\nwarmup_max = 0.01\nsample_min = 0.001\n\
                      deadline = 30.0\n";

/// The processes that a process has started.
fn children(process: u32) -> Vec<u32> {
    let started = fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
    started.unwrap_or_default().split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// A process by its number and its start, which no other process has.
fn identity(process: u32) -> Option<(u32, String)> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    // Who has ended, and was not waited for, is in state Z.
    let state = fields.next()?;
    let started = fields.nth(18)?;
    (state != "Z").then(|| (process, started.to_owned()))
}

fn wait_until(limit: Duration, is_so: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !is_so() && start.elapsed() < limit {
        thread::sleep(Duration::from_millis(10));
    }
    is_so()
}

/// Starts a verb and strikes it once a child of it measures; the child has to end.
fn strike(command: &mut Command, signal: Signal, measures: impl Fn(u32) -> bool) {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut parent: Child = command.spawn().expect("it starts");
    let measuring = || children(parent.id()).into_iter().filter(|&one| measures(one));
    let is_started = wait_until(Duration::from_secs(30), || measuring().next().is_some());
    let started: BTreeSet<(u32, String)> = measuring().filter_map(identity).collect();
    let id = Pid::from_raw(parent.id().cast_signed()).expect("a process");
    kill_process(id, signal).expect("it runs");
    parent.wait().expect("it was struck");
    let left = || started.iter().filter(|one| identity(one.0).as_ref() == Some(one));
    let has_ended = wait_until(ENDS_WITHIN, || left().next().is_none());
    let left: Vec<u32> = left().map(|(process, _)| *process).collect();
    for process in &left {
        let _ = Pid::from_raw(process.cast_signed()).map(|id| kill_process(id, Signal::KILL));
    }
    assert!(is_started && !started.is_empty(), "{command:?} started no child that measures");
    assert!(has_ended, "{command:?} has left {left:?} behind");
}

/// Whether a process was called with this argument.
fn is_called_with(process: u32, argument: &str) -> bool {
    let arguments = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    arguments.split(|&byte| byte == 0).any(|one| one == argument.as_bytes())
}

/// The program that `ab` starts is any version of fizeau, or none: here one that ends by itself in
/// ten minutes.
#[test]
fn what_ab_has_started_ends_with_it() {
    for signal in [Signal::KILL, Signal::TERM] {
        let place = Place::new();
        let fizeau = env!("CARGO_BIN_EXE_fizeau");
        let text =
            format!("#!/bin/sh\n[ \"$1\" = list ] && exec {fizeau} \"$@\"\nexec sleep 600\n");
        let other = place.path("other");
        fs::write(&other, text).expect("a program");
        fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).expect("it can be run");
        let args = ["ab", "--suite", "tiny.toml", "--out", "trial", "--device", "fake:"];
        let programs = ["--program", "./other", "--program", "./other"];
        let mut command = place.fizeau(args.into_iter().chain(programs));
        strike(&mut command, signal, |process| is_called_with(process, "600"));
    }
}

#[test]
fn what_reproduce_has_started_ends_with_it() {
    let place = Place::new();
    let measure = SECOND.replace("[measure]", "[claim.run.suite.measure]");
    let text = format!(
        "[[claim]]\nid = \"own\"\nvalue = \"1 GB/s\"\nsource = \"a test\"\n\n[claim.run]\n\
         tolerance = 0.5\ncases = [\"stream/copy/*\"]\n\n{measure}\n[claim.run.suite.stream]\n\
         memory = []\nscaling = []\nsweep = [\"copy\"]\nsweep_units = [\"one\"]\n\
         sweep_points_per_octave = 4\n"
    );
    fs::write(place.path("claim.toml"), text).expect("written");
    let args = ["reproduce", "claim.toml", "--device", "host", "--rounds", "3", "--out", "out"];
    strike(&mut place.fizeau(args), Signal::KILL, |process| is_called_with(process, "run"));
}

#[test]
fn what_accept_has_started_ends_with_it() {
    let place = small_node::place();
    let shapes: Vec<String> = (1..20).map(|at| format!("[{0}, {0}, {0}]", 16 * at)).collect();
    let text = format!(
        "name = \"small\"\ndescription = \"products\"\n\n[gemm]\ndtypes = [\"f32\"]\nshapes = \
         [{}]\n\n{SECOND}",
        shapes.join(", ")
    );
    fs::write(place.path("small.toml"), text).expect("written");
    let profile = small_node::PROFILE.replace("gemm/f32/64x64x64/*", "gemm/*");
    fs::write(place.path("profile.toml"), profile).expect("written");
    let args = ["accept", "--root", "root", "--profile", "profile.toml", "--budget", "5min"];
    let mut command = place.fizeau(args.iter().chain(&["--out", "out"]));
    strike(&mut command, Signal::KILL, |process| is_called_with(process, "run"));
}

#[test]
fn ranks_end_with_their_launcher() {
    let machine = Machine::new();
    let out = ["--suite", "ranks.toml", "--out", "out"];
    let args = [&["launch", "-n", "2", "--", "run", "collective"][..], &out].concat();
    // A device hangs: the ranks would wait for it for the deadline of a minute.
    let mut command = machine.fizeau("devices=2", "1:hang@3", &args);
    strike(&mut command, Signal::KILL, |process| is_called_with(process, "run"));
}
