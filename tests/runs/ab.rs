//! Two settings in fresh pairs: the whole way from the command line to the exit code, on fake
//! devices.

use crate::program::{Place, Said, say};
use fizeau_record::store;
use rustix::process::{Pid, Signal, kill_process};
use std::{fs, os::unix::fs::PermissionsExt, process::Stdio, thread, time::Duration};

/// A few cases.
const FEW: &str = "stream/{read,copy}/{16,32}KiB/*";

#[track_caller]
fn ab(place: &Place, a: &str, b: &str, more: &[&str]) -> Said {
    let devices = [format!("fake:{a}"), format!("fake:{b}")];
    let given = ["ab", FEW, "--suite", "tiny.toml", "--out", "trial", "--seed", "1"];
    let devices = devices.iter().flat_map(|device| ["--device", device]);
    let mut command = place.fizeau(given.into_iter().chain(devices).chain(more.iter().copied()));
    say(command.env("FIZEAU_PROGRESS", "plain"))
}

/// A comparison without a second side measures nothing, and says what it lacks.
#[test]
fn without_a_second_side_it_asks_for_one() {
    let place = Place::new();
    for more in [&[][..], &["--device", "fake:seed=1"]] {
        let given = ["ab", FEW, "--suite", "tiny.toml", "--out", "trial"];
        let said = say(&mut place.fizeau(given.iter().chain(more).copied()));
        assert_eq!(said.code, Some(2), "{}{}", said.out, said.err);
        for words in ["B is not given", "--program PATH", "--env-b"] {
            assert!(said.err.contains(words), "{words}: {}", said.err);
        }
        assert!(!place.path("trial").exists(), "{more:?}");
    }
}

#[test]
fn the_same_twice_passes_and_keeps_every_record() {
    let place = Place::new();
    let said = ab(&place, "seed=1", "seed=2", &[]);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert!(said.out.contains("B is slower in no case"), "{}", said.out);
    let measured: Vec<_> = fs::read_dir(place.path("trial")).expect("kept").collect();
    assert!(measured.len() >= 4, "A, B, B, A: {measured:?}");
    for directory in measured {
        let directory = directory.expect("it is there").path();
        assert!(store::read(&directory).expect("a record").footer.is_some());
        assert_eq!(fs::read_dir(&directory).expect("kept").count(), 1, "nothing but the record");
    }
}

#[test]
fn what_got_slower_fails_and_what_got_faster_does_not() {
    let place = Place::new();
    let slower = ab(&place, "seed=1", "slow=1.1,seed=2", &["--json"]);
    assert_eq!(slower.code, Some(1), "{}{}", slower.out, slower.err);
    let report: serde_json::Value = serde_json::from_str(&slower.out).expect("JSON");
    let cases = report["tables"]["cases"].as_array().expect("a table");
    assert!(!cases.is_empty());
    for case in cases {
        assert_eq!(case["verdict"].as_str(), Some("slower"), "{case}");
        let ratio = case["ratio"].as_f64().expect("a ratio");
        assert!((ratio - 1.1).abs() < 0.02, "{case}");
    }
    assert!(slower.err.contains("pair 5 of at most 15"), "{}", slower.err);
    let place = Place::new();
    let faster = ab(&place, "slow=1.1,seed=1", "seed=2", &[]);
    assert_eq!(faster.code, Some(0), "{}{}", faster.out, faster.err);
    assert!(faster.out.contains("faster"), "{}", faster.out);
}

/// The end that was asked for comes, with what is decided so far; and so does that of Ctrl-C, which
/// says where the records are and that the trial cannot be continued.
#[test]
fn a_budget_or_an_interruption_ends_it_with_what_is_decided() {
    let place = Place::new();
    let said = ab(&place, "seed=1", "slow=1.1,seed=2", &["--budget", "1ms"]);
    assert_eq!(said.code, Some(4), "{}{}", said.out, said.err);
    let words = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("The trial ended early: its budget of 1.000 ms ended"), "{words}");
    assert!(said.err.contains("It ends after"), "{}", said.err);
    say(&mut place.fizeau(["ab", FEW, "--program", "x", "--budget", "1"])).ended(2);

    let place = Place::new();
    let devices = ["--device", "fake:seed=1", "--device", "fake:slow=1.1,seed=2"];
    let given = ["ab", FEW, "--suite", "tiny.toml", "--out", "trial"];
    let mut command = place.fizeau(given.into_iter().chain(devices));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("it starts");
    while !place.path("trial/00003-b").exists() {
        thread::sleep(Duration::from_millis(5));
    }
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a process");
    kill_process(pid, Signal::INT).expect("it is asked to end");
    let ended = child.wait_with_output().expect("it ends");
    let [out, err] = [&ended.stdout, &ended.stderr].map(|text| String::from_utf8_lossy(text));
    assert_eq!(ended.status.code(), Some(130), "{out}{err}");
    assert!(out.contains("it was interrupted") && out.contains("records of "), "{out}");
    assert!(err.contains("it cannot be continued") && err.contains("--budget"), "{err}");
}

#[test]
fn a_least_effect_is_not_counted() {
    let place = Place::new();
    let said = ab(&place, "seed=1", "slow=1.1,seed=2", &["--least-effect", "15%"]);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
}

#[test]
fn what_breaks_in_b_fails() {
    let place = Place::new();
    let said = ab(&place, "seed=1", "wrong-result", &[]);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert!(said.out.contains("broken"), "{}", said.out);
    // In A there is nothing to compare with.
    let place = Place::new();
    let said = ab(&place, "wrong-result", "seed=1", &[]);
    assert_eq!(said.code, Some(4), "{}{}", said.out, said.err);
}

#[test]
fn another_state_of_the_caches_is_not_compared() {
    let place = Place::new();
    // Another version of the program, whose records say cold where this one's say hot.
    let text = format!(
        "#!/bin/sh\n{} \"$@\" || exit\n[ \"$1\" = list ] || sed -i \
         's/\"cache\":\"hot\"/\"cache\":\"cold\"/' trial/*-b/record.jsonl\n",
        env!("CARGO_BIN_EXE_fizeau")
    );
    let other = place.path("other");
    fs::write(&other, text).expect("a program");
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).expect("it can be run");
    let said = say(&mut place.fizeau([
        "ab",
        FEW,
        "--suite",
        "tiny.toml",
        "--out",
        "trial",
        "--device",
        "fake:",
        "--program",
        "./other",
    ]))
    .ended(4);
    assert!(said.out.contains("caches: hot in A, cold in B"), "{}", said.out);
}

#[test]
fn what_cannot_be_measured_is_an_error_that_says_so() {
    let place = Place::new();
    for (args, code, words) in [
        (&["ab", "--kernel", "one"][..], 2, "given twice"),
        (&["ab", "--least-effect", "2"], 2, "between 0 and 1"),
        (&["ab", "--env-b", "=1"], 2, "NAME=VALUE"),
        (&["ab", "--program", "./missing", "--device", "fake:"], 3, "cannot start ./missing"),
        (&["ab", "--program", "/bin/false", "--device", "fake:"], 3, "/bin/false list ended with"),
    ] {
        let said = say(&mut place.fizeau(args));
        assert_eq!(said.code, Some(code), "{args:?}: {}", said.err);
        assert!(said.err.contains(words), "{args:?}: {}", said.err);
    }
}
