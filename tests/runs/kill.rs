//! Real runs that are killed at random moments or run out of disk: every record can be read, no
//! completed case is lost, and going on completes the plan. `FIZEAU_KILLS=50` kills more often.

use crate::program::{self, Place, SMALL, ended, planned, say};
use crate::skipped;
use fizeau_record::{CURRENT, Line};
use std::{
    collections::BTreeSet,
    env, fs,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Ids of the cases whose lines are whole in a record that may be written to right now.
fn on_disk(text: &str) -> BTreeSet<String> {
    let whole = &text[..text.rfind('\n').map_or(0, |at| at + 1)];
    let lines = whole.lines().map(|line| serde_json::from_str(line).expect("a whole line"));
    let lines = lines.map(|line| CURRENT.read(line).expect("a line of a record"));
    let outcomes = lines.filter_map(|line| match line {
        Line::Outcome(outcome) => Some(outcome.case().to_string()),
        _ => None,
    });
    outcomes.collect()
}

#[test]
fn killed_at_random_moments_no_completed_case_is_lost() {
    let kills = env::var("FIZEAU_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let place = Place::new();
    let start = Instant::now();
    assert_eq!(say(&mut place.run("", SMALL, "whole")).code, Some(0));
    let total = start.elapsed();
    let plan = planned(&place.record("whole"));

    let mut random = oorandom::Rand64::new(u128::from(std::process::id()));
    let (mut killed, mut runs, mut inside) = (0, 0, 0);
    let mut fresh = true;
    while killed < kills {
        if fresh {
            runs += 1;
        }
        let out = format!("out{runs}");
        // A run killed before its first line was whole has left nothing to go on with.
        let there = place.file(&out).exists();
        let mut run = if there { place.resume(&out) } else { place.run("", SMALL, &out) };
        let mut child = run.stdout(Stdio::null()).spawn().expect("the program starts");
        thread::sleep(total.mul_f64(random.rand_float()));
        let before = fs::read_to_string(place.file(&out)).unwrap_or_default();
        child.kill().expect("SIGKILL");
        let status = child.wait().expect("it ended");
        if status.code().is_none() {
            killed += 1;
        }
        fresh = status.code().is_some();
        if !place.file(&out).exists() {
            assert_eq!(before, "");
            continue;
        }
        let record = place.record(&out);
        let kept = ended(&record);
        assert!(kept.is_superset(&on_disk(&before)), "a case was lost");
        assert!(place.text(&out).starts_with(&before[..before.rfind('\n').map_or(0, |at| at + 1)]));
        assert_eq!(planned(&record), plan);
        inside += usize::from(!kept.is_empty() && kept.len() < plan.len());
    }
    for run in 1..=runs {
        let out = format!("out{run}");
        let there = place.file(&out).exists();
        say(&mut if there { place.resume(&out) } else { place.run("", SMALL, &out) }).ended(0);
        let record = place.record(&out);
        assert_eq!(ended(&record), plan);
        assert!(record.footer.is_some_and(|footer| !footer.interrupted));
    }
    println!("{killed} kills in {runs} runs, {inside} of them amid the cases");
}

#[test]
fn a_limit_on_file_size_ends_the_run_with_its_record_whole() {
    let place = Place::new();
    // Of the shell's own blocks of 512 bytes or 1 KiB: less than the record, more than its header.
    let script = "ulimit -f 80 && exec \"$@\"";
    let run = place.run("", SMALL, "out");
    std::fs::create_dir(place.path("suites")).expect("a folder of data");
    let said = say(shell(&place, script, &run).env("FIZEAU_DATA", place.path("")));
    assert_full(&place, &said, "a file may be no longer here");
    let text = place.text("out");
    assert!(text.ends_with('\n'), "the line that did not fit is gone");
    goes_on(&place);
}

#[test]
fn a_full_disk_ends_the_run_with_its_record_whole() {
    let place = Place::new();
    let probe = Command::new("unshare").args(["--mount", "--map-root-user", "true"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        return skipped::because("mount", "this system lets nobody mount a small disk for a test");
    }
    // The disk goes away with the program, so the record is copied out of it.
    let script = "mkdir disk out && mount -t tmpfs -o size=64k none disk && cd disk && \
                  cp ../tiny.toml . && \
                  { \"$@\"; code=$?; cp out/record.jsonl ../out; exit $code; }";
    let run = place.run("", SMALL, "out");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", script, "sh"]);
    command.arg(run.get_program()).args(run.get_args()).current_dir(place.path(""));
    let said = say(&mut command);
    assert_full(&place, &said, "disk full");
    goes_on(&place);
}

#[test]
fn a_limit_on_memory_skips_what_does_not_fit() {
    let place = Place::new();
    // Memory's working set depends on the machine's last cache: the first that is listed.
    let listed = say(&mut place.fizeau(["list", "stream/read", "--device", "host"])).out;
    let memory = listed.lines().find(|line| line.starts_with("stream/read/"));
    let memory = memory.and_then(|line| line.split(' ').next()).expect("streams are listed");
    let selectors = ["latency/4KiB", memory, "gemm/f32/16x4096x4096"];
    let run = place.fizeau(["run", "--device", "host", "--out", "out"].iter().chain(&selectors));
    // KiB: room for the program and its threads, not for these cases' memory.
    let said = say(&mut shell(&place, "ulimit -v 250000 && exec \"$@\"", &run));
    assert!(said.code.is_some_and(|code| code < 4), "{:?}: {}", said.code, said.err);
    let record = place.record("out");
    assert_eq!(ended(&record), planned(&record));
    let [.., last] = &record.outcomes[..] else { panic!("no outcome") };
    assert!(last.measured().is_none(), "{last:?}");
}

/// A shell that does something before it runs a command.
fn shell(place: &Place, script: &str, run: &Command) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(run.get_program()).args(run.get_args());
    command.current_dir(place.path(""));
    command
}

#[track_caller]
fn assert_full(place: &Place, said: &program::Said, why: &str) {
    assert_eq!(said.code, Some(3), "{}", said.err);
    let record = place.record("out");
    let (kept, planned) = (record.outcomes.len(), record.header.plan.len());
    assert!(0 < kept && kept < planned, "{kept} of {planned}");
    for words in [why, &format!("{kept} of {planned} cases are kept"), "--resume"] {
        assert!(said.err.contains(words), "{}", said.err);
    }
    assert!(record.notes.is_empty(), "{:?}", record.notes);
}

/// With room again the plan is completed.
#[track_caller]
fn goes_on(place: &Place) {
    say(&mut place.resume("out")).ended(0);
    let record = place.record("out");
    assert_eq!(ended(&record), planned(&record));
}

/// By Ctrl-C, by a terminal that is closed, and by `timeout` or `scancel`, which signal a process
/// and its group: two signals at once are one request.
#[test]
fn asked_to_end_it_ends_in_order_and_goes_on() {
    for signals in ["kill -INT $1", "kill -HUP $1", "kill -TERM $1; kill -TERM $1"] {
        ends_in_order_and_goes_on(signals);
    }
}

fn ends_in_order_and_goes_on(signals: &str) {
    let place = Place::new();
    let mut run = program::ignoring_nothing(&place.run("", "stream/copy", "out"));
    let child = run.spawn().expect("the program starts");
    let deadline = Instant::now() + Duration::from_secs(20);
    let begun = || fs::read_to_string(place.file("out")).is_ok_and(|text| text.lines().count() > 2);
    while !begun() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(5));
    }
    let pid = child.id().to_string();
    let sent = Command::new("sh").args(["-c", signals, "sh", &pid]).status();
    assert!(sent.is_ok_and(|status| status.success()));
    let said = program::said(child.wait_with_output().expect("it ended"));
    assert_eq!(said.code, Some(130), "{signals}: {}", said.err);
    assert!(said.err.contains("interrupted") && said.err.contains("--resume out"), "{}", said.err);
    assert!(said.out.contains("record: "), "the report of what there is");
    let record = place.record("out");
    assert!(record.footer.as_ref().is_some_and(|footer| footer.interrupted));
    assert!(!record.outcomes.is_empty() && record.outcomes.len() < record.header.plan.len());
    goes_on(&place);
    assert!(place.record("out").footer.is_some_and(|footer| !footer.interrupted));
}
