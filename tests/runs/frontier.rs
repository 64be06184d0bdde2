//! A ladder of clocks on a host whose files of limits stand in a directory: what was set is put
//! back, however the program ends.

use crate::{
    program::{self, Place, Said, say},
    skipped,
};
use std::{
    fs,
    process::Command,
    thread,
    time::{Duration, Instant},
};

const SUITE: &str = r#"
name = "ladder"
description = "One case at two clocks"
kernels = "best"

[measure]
samples_min = 10
samples_max = 20
noise_max = 0.05
time_min = 0.01
time_max = 0.02
warmup_max = 0.01
sample_min = 0.001
deadline = 30.0

[power]
caps = [0.5]
clocks = [1.0, 0.5]

[gemm]
dtypes = ["f32"]
shapes = [[64, 64, 64]]
"#;

const MOST: &str = "3600000";

/// A host with files for two CPUs.
fn place(suite: &str) -> Place {
    let place = Place::new();
    fs::write(place.path("ladder.toml"), suite).expect("written");
    for cpu in ["cpu0", "cpu1"] {
        let folder = place.path("root/sys/devices/system/cpu").join(cpu).join("cpufreq");
        fs::create_dir_all(&folder).expect("made");
        for (file, text) in [
            ("scaling_max_freq", "3000000"),
            ("cpuinfo_max_freq", MOST),
            ("cpuinfo_min_freq", "800000"),
        ] {
            fs::write(folder.join(file), text).expect("written");
        }
    }
    place
}

fn limit(place: &Place, cpu: &str) -> String {
    let file = place.path("root/sys/devices/system/cpu").join(cpu).join("cpufreq/scaling_max_freq");
    fs::read_to_string(file).expect("there").trim().to_owned()
}

fn run(place: &Place, more: &[&str]) -> Command {
    let args =
        ["run", "--suite", "ladder.toml", "--device", "host", "--out", "out", "--root", "root"];
    place.fizeau([&args[..], more].concat())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn a_ladder_of_clocks_is_measured_and_the_clock_is_put_back() {
    if !is_root() {
        let place = place(SUITE);
        let said = say(&mut run(&place, &["--set-limits"])).ended(3);
        assert!(said.err.contains("needs root"), "{}", said.err);
        return skipped::because("root", "limits are set by root alone");
    }
    let place = place(SUITE);
    let said = say(&mut run(&place, &["--set-limits"])).ended(0);
    assert_eq!([limit(&place, "cpu0"), limit(&place, "cpu1")], ["3000000", "3000000"]);
    let kept = place.json("out/frontier.json");
    let settings: Vec<&str> = kept["rungs"]
        .as_array()
        .expect("rungs")
        .iter()
        .filter_map(|rung| rung["setting"].as_str())
        .collect();
    let expected = ["as it is set", "clock 3600 MHz", "clock 1800 MHz", "as it is set, again"];
    assert_eq!(settings, expected);
    assert_eq!(kept["restored"], true);
    assert!(said.out.contains("no power limit was set"), "{}", said.out);
    // Made again from the records alone, it is the same report.
    let again = say(&mut place.fizeau(["report", "out"])).ended(0);
    assert!(said.out.starts_with(&again.out), "{}\n---\n{}", said.out, again.out);
    let json = say(&mut place.fizeau(["report", "out", "--json"])).json();
    // Four rungs of each kernel: the best one, and vendors' libraries where there are some.
    let rows = json["tables"]["frontier"].as_array().expect("a table");
    assert!(!rows.is_empty() && rows.len().is_multiple_of(4), "{json:#}");
    assert_eq!(rows[0]["speed"], 1.0);
}

#[test]
fn without_leave_nothing_is_set_and_the_report_says_so() {
    let place = place(SUITE);
    let said = say(&mut run(&place, &[])).ended(0);
    assert!(said.out.contains("no limit was set: with --set-limits"), "{}", said.out);
    assert_eq!(limit(&place, "cpu0"), "3000000");
    if !is_root() {
        return skipped::because("root", "limits are set by root alone");
    }
    // A host without such files is measured as it is, with the reason.
    fs::remove_dir_all(place.path("root")).expect("removed");
    fs::remove_dir_all(place.path("out")).expect("removed");
    let said = say(&mut run(&place, &["--set-limits"])).ended(0);
    let words = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("no clock was set: no CPU below"), "{}", said.out);
}

/// Waits until a condition holds.
#[track_caller]
fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A run whose second rung takes long, ended by a signal while it is measured.
fn ended_by(signal: &str) -> (Place, Said) {
    let slow = SUITE.replace("time_min = 0.01\ntime_max = 0.02", "time_min = 1.5\ntime_max = 1.5");
    let slow = slow.replace("samples_max = 20", "samples_max = 200000");
    let place = place(SUITE);
    let mut run = program::ignoring_nothing(&run(&place, &["--set-limits"]));
    let child = run.spawn().expect("the program starts");
    // The first rung has read its suite when its record begins; the next one reads this.
    until("no first rung", || place.path("out/step-00-as-is/record.jsonl").exists());
    fs::write(place.path("ladder.toml"), slow).expect("written");
    until("no clock was set", || limit(&place, "cpu0") != "3000000");
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
    let said = program::said(child.wait_with_output().expect("it ended"));
    (place, said)
}

#[test]
fn killed_or_interrupted_while_a_limit_is_set_it_is_put_back() {
    if !is_root() {
        return skipped::because("root", "limits are set by root alone");
    }
    for (signal, code) in [("-KILL", None), ("-INT", Some(130)), ("-TERM", Some(130))] {
        let (place, said) = ended_by(signal);
        assert_eq!(said.code, code, "{signal}: {}{}", said.out, said.err);
        let put_back = || [limit(&place, "cpu0"), limit(&place, "cpu1")] == ["3000000", "3000000"];
        until(&format!("{signal}: the clock stays at {}", limit(&place, "cpu0")), put_back);
    }
}

#[test]
fn a_panic_while_a_limit_is_set_puts_it_back() {
    if !is_root() {
        return skipped::because("root", "limits are set by root alone");
    }
    let place = place(SUITE);
    let said = say(run(&place, &["--set-limits"]).env("FIZEAU_PLANT", "frontier=panic")).ended(101);
    assert!(said.err.contains("planted"), "{}", said.err);
    assert_eq!([limit(&place, "cpu0"), limit(&place, "cpu1")], ["3000000", "3000000"]);
}
