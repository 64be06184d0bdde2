//! Ranks of `fizeau launch` that are stopped or killed at any moment, while they start, meet, join
//! or measure: the launch ends soon, names who it was and nobody else, and leaves nothing behind.

use crate::gpus::Machine;
use crate::program::{Said, said, say};
use rustix::{
    fs::{FlockOperation, flock},
    process::{Pid, Signal, geteuid, kill_process},
};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// How long ranks wait for each other, in seconds.
const DEADLINE: f64 = 3.0;
const RANKS: u32 = 4;
/// A whole launch takes about this long, in seconds; a good part of it passes before ranks have
/// joined.
const LAUNCH: f64 = 2.0;

/// Whom a signal hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Rank(u32),
    Launcher,
}

/// What happens in one launch, and when, in seconds from its start.
#[derive(Clone, Copy, Debug)]
struct Blow {
    victim: Victim,
    signal: Signal,
    after: f64,
}

/// How a launch ended.
struct Round {
    blow: Blow,
    /// None where the launch had ended before.
    waited: Option<f64>,
}

/// Moments and victims that a seed gives. Every third launch is hit within its first quarter.
fn blows(seed: u64, count: usize) -> Vec<Blow> {
    let mut random = oorandom::Rand64::new(seed.into());
    let mut blow = |at: usize| {
        let span = if at.is_multiple_of(3) { LAUNCH / 4.0 } else { LAUNCH };
        let victim = match random.rand_range(0..u64::from(RANKS) + 1) as u32 {
            RANKS => Victim::Launcher,
            rank => Victim::Rank(rank),
        };
        // A stopped launcher ends nobody: whoever stops it can have it go on.
        let stops = victim != Victim::Launcher && random.rand_float() < 0.5;
        let signal = if stops { Signal::STOP } else { Signal::KILL };
        Blow { victim, signal, after: random.rand_float() * span }
    };
    (0..count).map(&mut blow).collect()
}

/// Processes that a process has started: their numbers by rank.
fn ranks_of(launcher: u32) -> Vec<(u32, u32)> {
    let started = fs::read_to_string(format!("/proc/{launcher}/task/{launcher}/children"));
    let started = started.unwrap_or_default();
    let processes = started.split_whitespace().filter_map(|word| word.parse().ok());
    let rank = |process: u32| {
        let variables = fs::read(format!("/proc/{process}/environ")).ok()?;
        let mut variables = variables.split(|&byte| byte == 0);
        let text = variables.find_map(|one| one.strip_prefix(b"LOCAL_RANK="))?;
        Some((std::str::from_utf8(text).ok()?.parse().ok()?, process))
    };
    processes.filter_map(rank).collect()
}

fn is_there(process: u32) -> bool {
    let state = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // Who has ended, and was not waited for, is in state Z.
    state.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// The ranks that are said to be at fault.
fn named(said: &str) -> BTreeSet<u32> {
    let parts = said.split([';', '\n']).filter(|part| {
        ["does not run any more", "was ended (", "has been stopped", "did not come"]
            .iter()
            .any(|words| part.contains(words))
    });
    // "fizeau: no answer within 2 s: rank 0 on A waited .." comes in a part of its own.
    let number = |part: &str| {
        let digits = part.split("rank ").nth(1)?;
        digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    parts.filter_map(number).collect()
}

/// Hits a launch; it has to end as it should.
fn hit(machine: &Machine, blow: Blow, number: usize) -> Round {
    let out = format!("out{number}");
    let ranks = RANKS.to_string();
    let args = ["launch", "-n", &ranks, "--", "run", "collective", "--suite", "ranks.toml"];
    let mut command = machine.fizeau("devices=4", "", &[&args[..], &["--out", &out]].concat());
    command.env("TMPDIR", machine.place.path("tmp")).env_remove("XDG_RUNTIME_DIR");
    let mut launcher = command.spawn().expect("it starts");
    let start = Instant::now();
    thread::sleep(Duration::from_secs_f64(blow.after));
    let process = |started: &[(u32, u32)]| match blow.victim {
        Victim::Launcher => (started.len() == RANKS as usize).then(|| launcher.id()),
        Victim::Rank(rank) => started.iter().find(|(at, _)| *at == rank).map(|(_, id)| *id),
    };
    let mut started = ranks_of(launcher.id());
    // Ranks start one after the other.
    while process(&started).is_none() && start.elapsed().as_secs_f64() < 1.0 {
        thread::sleep(Duration::from_millis(2));
        started = ranks_of(launcher.id());
    }
    let struck = process(&started).filter(|id| is_there(*id)).and_then(|id| {
        let id = Pid::from_raw(id.cast_signed())?;
        kill_process(id, blow.signal).ok()
    });
    let since = Instant::now();
    // A rank that does not end when the launcher asks it to is killed after five seconds.
    let limit = Duration::from_secs_f64(DEADLINE + 7.0);
    let is_over = |launcher: &mut std::process::Child| {
        launcher.try_wait().expect("a child").is_some()
            && !started.iter().any(|(_, process)| is_there(*process))
    };
    while !is_over(&mut launcher) && since.elapsed() < limit {
        thread::sleep(Duration::from_millis(10));
    }
    let waited = since.elapsed().as_secs_f64();
    if !is_over(&mut launcher) {
        let state = |process| fs::read_to_string(format!("/proc/{process}/stat"));
        let states: Vec<_> = started.iter().map(|(_, process)| state(process)).collect();
        // What it has started holds its ends of the pipes.
        for process in started.iter().map(|(_, process)| *process).chain([launcher.id()]) {
            let _ = Pid::from_raw(process.cast_signed()).map(|id| kill_process(id, Signal::KILL));
        }
        let said = said(launcher.wait_with_output().expect("it ends"));
        panic!("{blow:?}: it still runs after {waited} s: {states:?} {}", said.err);
    }
    let ended = said(launcher.wait_with_output().expect("it has ended"));
    // A rank may have been at its end.
    let is_late = struck.is_none() || ended.code == Some(0);
    if !is_late {
        assert_names(&ended, blow);
    }
    Round { blow, waited: (!is_late).then_some(waited) }
}

/// Who was hit is named, and nobody else.
fn assert_names(ended: &Said, blow: Blow) {
    assert!(!ended.err.contains("panicked"), "{blow:?}: {}", ended.err);
    let right = match blow.victim {
        Victim::Rank(rank) => BTreeSet::from([rank]),
        // It was ended itself, and its ranks say that it is gone.
        Victim::Launcher => BTreeSet::new(),
    };
    assert_eq!(named(&ended.err), right, "{blow:?}: {}", ended.err);
}

/// What lies in private directories of this user and is used by nobody.
fn abandoned(parent: &Path) -> Vec<PathBuf> {
    let directory = parent.join(format!("fizeau-{}", geteuid().as_raw()));
    let found = fs::read_dir(directory).into_iter().flatten().flatten().map(|one| one.path());
    let is_free = |path: &PathBuf| {
        let free = |file: fs::File| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        fs::File::open(path).is_ok_and(free)
    };
    found.filter(is_free).collect()
}

/// Nothing is left of any of the launches once another run has been, which ends well.
fn assert_nothing_left(machine: &Machine) {
    let args = ["launch", "-n", "2", "--", "run", "collective", "--suite", "ranks.toml"];
    let mut command = machine.fizeau("devices=2", "", &[&args[..], &["--out", "last"]].concat());
    command.env("TMPDIR", machine.place.path("tmp")).env_remove("XDG_RUNTIME_DIR");
    say(&mut command).ended(0);
    let kept: Vec<_> = fs::read_dir(machine.place.path("tmp")).expect("it is there").collect();
    assert!(kept.is_empty(), "{kept:?}");
    // Other runs may be making theirs: what nobody uses a second later was left.
    let before = abandoned(Path::new("/dev/shm"));
    thread::sleep(Duration::from_secs(1));
    let after = abandoned(Path::new("/dev/shm"));
    let left: Vec<_> = before.iter().filter(|path| after.contains(path)).collect();
    assert!(left.is_empty(), "{left:?}");
}

fn rounds(seed: u64, count: usize) {
    let machine = Machine::new();
    machine.suite("f32", DEADLINE);
    fs::create_dir(machine.place.path("tmp")).expect("a folder");
    let blows = blows(seed, count).into_iter().enumerate();
    let rounds: Vec<Round> = blows.map(|(at, blow)| hit(&machine, blow, at)).collect();
    assert_nothing_left(&machine);
    let mut waited: Vec<f64> = rounds.iter().filter_map(|round| round.waited).collect();
    waited.sort_by(f64::total_cmp);
    for Round { blow, waited } in &rounds {
        let waited = waited.map_or("it had ended".into(), |waited| format!("{waited:.2} s"));
        println!("{:?} {:?} after {:.3} s: {waited}", blow.victim, blow.signal, blow.after);
    }
    assert!(waited.len() * 2 > rounds.len(), "most launches ended before they were hit");
    let median = waited[waited.len() / 2];
    println!("{} of {count} launches hit, median {median:.2} s", waited.len());
    // Half of a few launches may be hit before their ranks have met, which takes longer to tell.
    let typical = if count < 20 { waited[0] } else { median };
    assert!(typical < DEADLINE + 2.0, "{typical} s");
}

#[test]
fn who_is_stopped_or_killed_at_any_moment_is_named() {
    rounds(1, 4);
}

#[test]
#[ignore = "minutes: scripts/check_long.sh"]
fn of_sixty_stops_and_kills_each_is_named() {
    rounds(2, 60);
}
