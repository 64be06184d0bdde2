//! Ranks of stub GPUs that die, hang or are stopped: the others end, and say who it was.

use crate::gpus::{LATER, Machine, TWO, ends};
use crate::program::{Said, said, say};
use fizeau_domain::outcome::{Failure, Outcome};
use std::{fs, process::Command, thread, time::Duration};

/// How two ranks end where something goes wrong with the second: both with exit code 3, the first
/// with these words in its one line, and as the last outcome of the record.
#[track_caller]
fn assert_ended(machine: &Machine, ended: &[Said], words: &[&str]) {
    let first = &ended[0];
    assert_eq!(first.code, Some(3), "{} {}", first.out, first.err);
    assert!(!first.err.contains("panicked"), "{}", first.err);
    for word in words {
        assert!(first.err.contains(word), "{word}: {}", first.err);
    }
    let record = machine.record();
    assert!(record.footer.is_none());
    let Some(Outcome::Failed { failure: Failure::Hang, error, .. }) = record.outcomes.last() else {
        panic!("{:?}", record.outcomes.last())
    };
    assert!(error.contains(words[0]), "{error}");
}

#[test]
fn a_rank_that_is_killed_is_named_within_the_deadline() {
    let machine = Machine::new();
    machine.suite("f32", 2.0);
    let ended = ends(machine.start(&TWO, &format!("1:kill@{LATER}")));
    let words = ["no answer within 2.000 s: rank 0 on ", "; rank 1 on ", "does not run any more"];
    assert_ended(&machine, &ended, &words);
    assert!(ended[0].err.contains("stub GPU, process "), "{}", ended[0].err);
    assert_eq!(ended[1].code, None, "by a signal");
}

/// Rank 1's device is at fault after both ranks have entered the collective: both end with exit
/// code 3, and what the first says and keeps has these words.
#[track_caller]
fn assert_device_at_fault(fault: &str, deadline: f64, culprit: Option<&str>) {
    let machine = Machine::new();
    machine.suite("f32", deadline);
    let ended = ends(machine.start(&TWO, &format!("1:{fault}@{LATER}")));
    assert_ended(&machine, &ended, &["rank 0 on ", " waited ", " B, iteration "]);
    assert_eq!(ended[1].code, Some(3), "{}", ended[1].err);
    let said = &ended[0].err;
    let record = machine.record();
    let Some(Outcome::Failed { error, .. }) = record.outcomes.last() else { panic!("{said}") };
    let after = |rank: &str| said.split("; ").skip(1).any(|part| part.starts_with(rank));
    assert_eq!(after("rank 1 on "), culprit.is_some(), "{said}");
    assert!(!after("rank 0 on "), "{said}");
    let words = culprit.unwrap_or("every device that could be asked answers and is in it");
    assert!(said.contains(words) && error.contains(words), "{words}: {said}");
    assert!(culprit.is_none() || said.contains("(stub GPU, process "), "{said}");
}

#[test]
fn a_device_that_hangs_is_named() {
    assert_device_at_fault("hang", 4.0, Some("has entered it, and its device does not answer"));
}

#[test]
fn a_device_that_does_not_end_what_the_others_have_ended_is_named() {
    // Seen at its events, or because the others have gone on.
    assert_device_at_fault("late", 2.0, Some("; rank 1 on "));
}

#[test]
fn nobody_is_named_where_every_device_answers_and_waits() {
    assert_device_at_fault("stuck", 4.0, None);
}

/// A whole job that is stopped, by Ctrl-Z, and goes on: nobody kept anybody waiting.
#[test]
fn a_job_that_was_paused_goes_on_and_nobody_is_named() {
    let machine = Machine::new();
    machine.suite("f32", 2.0);
    let start = |rank| machine.rank([rank, 2], "devices=2", "").spawn().expect("it starts");
    let ranks = [start(0), start(1)];
    let record = machine.place.file("out");
    let begun = || fs::read_to_string(&record).is_ok_and(|text| text.lines().count() > 1);
    for _ in 0..600 {
        thread::sleep(Duration::from_millis(50));
        if begun() {
            break;
        }
    }
    let ids: Vec<String> = ranks.iter().map(|rank| rank.id().to_string()).collect();
    for (signal, pause) in [("-STOP", 5.0), ("-CONT", 0.0)] {
        let sent = Command::new("kill").arg(signal).args(&ids).status();
        assert!(sent.expect("kill starts").success(), "all ended before {signal}");
        thread::sleep(Duration::from_secs_f64(pause));
    }
    for rank in ranks {
        said(rank.wait_with_output().expect("it ends")).ended(0);
    }
}

#[test]
fn a_process_that_stops_is_named() {
    let machine = Machine::new();
    machine.suite("f32", 2.0);
    let mut first = machine.rank([0, 2], "devices=2", "").spawn().expect("it starts");
    let second = machine.rank([1, 2], "devices=2", "").spawn();
    let mut second = second.expect("it starts");
    let record = machine.place.file("out");
    for _ in 0..600 {
        thread::sleep(Duration::from_millis(50));
        if record.exists() || first.try_wait().expect("a child").is_some() {
            break;
        }
    }
    let signal = |name: &str| {
        let id = second.id().to_string();
        Command::new("kill").args([name, &id]).status().expect("kill starts")
    };
    signal("-STOP");
    let ended = said(first.wait_with_output().expect("it ends"));
    signal("-KILL");
    let process = second.id();
    second.wait().expect("it ends");
    assert_eq!(ended.code, Some(3), "{} {}", ended.out, ended.err);
    let culprit = format!("process {process}) does not run any more");
    assert!(ended.err.contains(&culprit), "{}", ended.err);
}

#[test]
fn an_error_in_the_background_ends_all_ranks_with_the_librarys_words() {
    let machine = Machine::new();
    let ended = ends(machine.start(&TWO, &format!("1:async=6@{LATER}")));
    let words = ["another rank of this node has given up: rank 0 on "];
    assert_ended(&machine, &ended, &words);
    let said = &ended[1];
    assert_eq!(said.code, Some(3), "{}", said.err);
    assert!(said.err.contains("ncclCommGetAsyncError: remote process exited"), "{}", said.err);
    assert!(said.err.contains(": rank 1 on "), "{}", said.err);
    for said in &ended {
        assert!(!said.err.contains("look at"), "the library has said what it is: {}", said.err);
    }
}

/// Who is named, in the parts after what the first rank says of itself.
fn named(said: &str) -> Vec<&str> {
    said.split("; ").skip(1).filter(|part| part.starts_with("rank ")).collect()
}

#[test]
fn a_rank_that_dies_before_the_first_collective_is_named() {
    // In the first exchanges after all have joined.
    for operation in [1, 3] {
        let machine = Machine::new();
        let ended = ends(machine.start(&TWO, &format!("1:kill@{operation}")));
        let said = &ended[0].err;
        assert_eq!(ended[0].code, Some(3), "{said}");
        // Long before the deadline of 60 s: who is dead does not come back.
        assert!(said.contains("no answer within 2.000 s: rank 0 on "), "{operation}: {said}");
        let named = named(said);
        assert!(named.len() == 1 && named[0].starts_with("rank 1 on "), "{operation}: {said}");
        assert!(named[0].contains("does not run any more"), "{operation}: {said}");
    }
}

#[test]
fn a_device_that_hangs_in_an_exchange_is_named_within_one_deadline() {
    for operation in [2, 4] {
        let machine = Machine::new();
        machine.suite("f32", 4.0);
        let ended = ends(machine.start(&TWO, &format!("1:hang@{operation}")));
        for said in &ended {
            assert_eq!(said.code, Some(3), "{}", said.err);
        }
        let said = &ended[0].err;
        assert!(said.contains("rank 0 on ") && said.contains(" in the first exchange"), "{said}");
        let named = named(said);
        assert!(named.len() == 1 && named[0].starts_with("rank 1 on "), "{operation}: {said}");
        assert!(named[0].contains("its device does not answer"), "{operation}: {said}");
        let waited = said.split(" waited ").nth(1).and_then(|text| text.split(' ').next());
        let waited: f64 = waited.and_then(|text| text.parse().ok()).expect("seconds");
        // Ten deadlines are 40 s.
        assert!((2.0..35.0).contains(&waited), "{said}");
    }
}

#[test]
fn what_ends_the_first_rank_is_one_line_of_it_alone() {
    let machine = Machine::new();
    machine.sweep("f32", 60.0, ["256", ""]);
    for said in ends(machine.start(&TWO, "")) {
        assert_eq!(said.code, Some(0), "{}", said.err);
    }
    // The record of the first run is in its way.
    let ended = ends(machine.start(&TWO, ""));
    assert_eq!((ended[0].code, ended[1].code), (Some(3), Some(3)));
    let said = &ended[0].err;
    assert!(said.contains("exists") && said.lines().count() == 1, "{said}");
    assert_eq!(ended[1].err, "", "the first rank has said it");
}

#[test]
fn of_threads_the_one_whose_device_hangs_is_named() {
    let machine = Machine::new();
    machine.suite("f32", 4.0);
    let args = ["run", "collective", "--suite", "ranks.toml", "--out", "out", "--ranks", "2"];
    let said = say(&mut machine.fizeau("devices=2", &format!("1:hang@{LATER}"), &args)).ended(3);
    let named = named(&said.err);
    assert!(named[0].starts_with("rank 1 on "), "{}", said.err);
    assert!(!named.iter().any(|part| part.starts_with("rank 0 on ")), "{}", said.err);
}
