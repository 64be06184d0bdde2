//! Files and words from others, and what stands in the way where files are written.

use crate::program::{Place, say};
use fizeau_domain::outcome::Outcome;
use fizeau_record::{
    Header, Record,
    store::{self, RecordError, Writer},
};
use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

/// A few cases.
const FEW: &str = "stream/read/{?,??}KiB/*";

const GOLDEN: &str = include_str!("../golden/v1.jsonl");

fn read(text: impl AsRef<[u8]>) -> Result<Record, RecordError> {
    store::parse_text(text.as_ref())
}

#[track_caller]
fn refusal(text: impl AsRef<[u8]>) -> String {
    read(text).expect_err("refused").to_string()
}

fn header() -> Header {
    read(GOLDEN).expect("the golden record").header
}

#[test]
fn a_byte_order_mark_is_passed_over_and_kept_by_a_resumed_run() {
    assert_eq!(read(format!("\u{feff}{GOLDEN}")).expect("reads"), read(GOLDEN).expect("reads"));
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join(store::FILE);
    let whole: String = GOLDEN.split_inclusive('\n').take(3).collect();
    fs::write(&path, format!("\u{feff}{whole}{{\"cut")).expect("written");
    drop(Writer::resume(directory.path(), &header()).expect("resumed"));
    let text = fs::read_to_string(&path).expect("read");
    assert!(text.starts_with(&format!("\u{feff}{whole}{{\"line\":\"header\"")), "{text:.200}");
}

#[test]
fn what_is_too_long_is_refused_with_its_line() {
    // Short as text, and gigabytes as values.
    let heavy =
        format!("{}\n{}\n", GOLDEN.lines().next().expect("a header"), "[[0],".repeat(1 << 22));
    let error = refusal(heavy);
    assert!(error.contains(":2: ") && error.contains("this line is 20 MiB long"), "{error}");
    let long = format!("{{\"line\":\"{}\"}}\n", "x".repeat(store::LINE_MAX));
    assert!(refusal(long).contains("at most 32 MiB are read"));
    // What is wrong is told in few words, however long what is wrong is.
    let error = refusal(format!("{{\"line\":\"{}\"}}\n", "x".repeat(1 << 20)));
    assert!(error.len() < 2_000, "{}", error.len());
    let sparse = tempfile::tempdir().expect("a temporary directory");
    let file = fs::File::create(sparse.path().join(store::FILE)).expect("made");
    file.set_len(store::RECORD_MAX + 1).expect("made longer");
    let error = store::read(sparse.path()).expect_err("too long").to_string();
    assert!(error.contains("it is longer than 512 MiB"), "{error}");
}

/// A FIFO was waited for without end.
fn fifo(path: &Path) {
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).expect("a FIFO");
}

#[test]
fn what_is_no_plain_file_is_refused_at_once_wherever_a_file_is_read() {
    let place = Place::new();
    fifo(&place.path("pipe.toml"));
    fs::create_dir_all(place.path("data/parts")).expect("made");
    fifo(&place.path("data/parts/own.toml"));
    for (args, code) in [
        (&["report", "pipe.toml"][..], 3),
        (&["report", "/dev/zero"], 3),
        (&["compare", "pipe.toml", "pipe.toml"], 3),
        (&["run", "--resume", "pipe.toml"], 3),
        (&["localise", "--from", "pipe.toml"], 3),
        (&["list", "--suite", "pipe.toml"], 2),
        (&["list", "--data", "data"], 2),
    ] {
        let said = say(&mut place.fizeau(args));
        assert_eq!(said.code, Some(code), "{args:?}: {}", said.err);
        assert!(said.err.contains("and not a plain file"), "{args:?}: {}", said.err);
    }
    // A library that a loader would wait for.
    fifo(&place.path("libcuda.so.1"));
    let said = say(&mut place.fizeau(["devices"]));
    let words: Vec<&str> = said.out.split_whitespace().collect();
    assert_eq!(said.code, Some(3), "a driver that does not work: {}", said.out);
    assert!(words.join(" ").contains("a FIFO and not a plain file"), "{}", said.out);
}

#[test]
fn a_resumed_run_holds_the_records_suite_to_what_a_new_one_is_held_to() {
    let place = Place::new();
    assert_eq!(say(&mut place.run("", FEW, "out")).code, Some(0));
    let text = place.text("out");
    let without_end: Vec<&str> = text.lines().take(2).collect();
    for (old, new, words) in [
        ("deadline = 30.0", "deadline = -1.0", "deadline = -1: seconds, from 0"),
        ("deadline = 30.0", "deadline = nan", "deadline = NaN: seconds, from 0"),
        ("deadline = 30.0", "deadline = inf", "deadline = inf: seconds, from 0"),
        ("deadline = 30.0", "deadline = 0.0", "every case would count as hung"),
        ("samples_max = 30", "samples_max = 4294967295", "samples_max is 250000 at most"),
        ("sweep_points_per_octave = 4", "sweep_points_per_octave = 0", "from 1 to 64"),
    ] {
        assert!(text.contains(old), "{old}");
        let spoilt = without_end.join("\n").replace(old, new) + "\n";
        fs::write(place.file("out"), spoilt).expect("written");
        let said = say(&mut place.resume("out"));
        assert_eq!(said.code, Some(3), "{new}: {}", said.err);
        assert!(said.err.contains(words), "{new}: {}", said.err);
    }
}

#[test]
fn a_link_in_the_place_of_a_report_or_a_draft_is_not_followed() {
    let place = Place::new();
    let victim = place.path("victim");
    fs::write(&victim, "precious").expect("written");
    fs::create_dir(place.path("out")).expect("made");
    for name in ["out/report.html", "out/report.md", "out/.record.jsonl.draft", "r.csv"] {
        symlink(&victim, place.path(name)).expect("a link");
    }
    say(&mut place.run("", FEW, "out")).ended(0);
    assert_eq!(say(&mut place.fizeau(["report", "out", "--out", "r.csv"])).code, Some(0));
    assert_eq!(fs::read_to_string(&victim).expect("it is there"), "precious");
    for name in ["out/report.html", "r.csv"] {
        let file = fs::symlink_metadata(place.path(name)).expect("it is there");
        assert!(file.is_file() && file.len() > 100, "{name}");
    }
    // Nor is a record that is a link gone on with.
    fs::rename(place.file("out"), place.path("elsewhere")).expect("moved");
    symlink(place.path("elsewhere"), place.file("out")).expect("a link");
    let text = fs::read_to_string(place.path("elsewhere")).expect("a record");
    let cut: Vec<&str> = text.lines().take(2).collect();
    fs::write(place.path("elsewhere"), cut.join("\n") + "\n{").expect("cut");
    let said = say(&mut place.resume("out"));
    assert!(said.code == Some(3) && said.err.contains("a symbolic link"), "{}", said.err);
}

#[test]
fn a_format_is_not_guessed_from_a_name_that_says_none() {
    let place = Place::new();
    assert_eq!(say(&mut place.run("", FEW, "out")).code, Some(0));
    for name in ["x.pdf", "x"] {
        let said = say(&mut place.fizeau(["report", "out", "--out", name])).ended(2);
        assert!(said.err.contains(".html, .htm, .md, .csv, .json, .txt"), "{}", said.err);
        assert!(!place.path(name).exists());
        let said = say(&mut place.fizeau(["compare", "out", "out", "--out", name]));
        assert!(said.code == Some(2) && said.err.contains(".html"), "{}", said.err);
    }
    let args = ["report", "out", "--out", "x.pdf", "--format", "markdown"];
    assert_eq!(say(&mut place.fizeau(args)).code, Some(0));
    assert_eq!(say(&mut place.fizeau(["report", "out", "--out", "x.txt"])).code, Some(0));
    assert!(fs::read_to_string(place.path("x.pdf")).expect("text").starts_with("# "));
}

/// The kernel lets nobody make a folder there.
#[test]
fn where_nobody_may_write_another_place_is_suggested() {
    let place = Place::new();
    let said = say(&mut place.run("", FEW, "/sys/fizeau")).ended(3);
    assert!(said.err.contains("/sys/fizeau") && said.err.contains("by --out DIR"), "{}", said.err);
    assert_eq!(say(&mut place.run("", FEW, "out")).code, Some(0));
    let said = say(&mut place.fizeau(["report", "out", "--out", "/sys/x.csv"]));
    assert!(said.code == Some(3) && said.err.contains("by --out FILE"), "{}", said.err);
}

#[test]
fn no_path_and_no_word_of_the_command_line_acts_on_the_terminal() {
    let place = Place::new();
    let name = "a\x1b[2J\u{202e}\u{9b}b";
    let said = say(&mut place.run("", FEW, name)).ended(0);
    assert!(said.out.contains("report: a\u{fffd}[2J"), "{}", said.out);
    let mut all = said.out;
    for args in [
        &["report", "no\x1b[2J\u{9b}"][..],
        &["report", name, "--out", "x.\x1b[31m"],
        &["list", "--suite", "\x1b[2J"],
        &["list", "\x1b[2J", "--suite", "tiny.toml"],
        &["list", "--device", "\x1b[2J"],
        &["run", "--resume", "\x1b[2J"],
        &["\x1b[2Jwalk"],
        &["run", "--ranks", "\x1b[2J"],
        &["launch", "-n", "2", "--", "\x1b[2J"],
        &["localise", "--from", "\x1b[2J"],
        &["compare", name, "\x1b[2J"],
    ] {
        let said = say(&mut place.fizeau(args));
        assert!(said.code != Some(0), "{args:?}");
        all += &said.err;
        all += &said.out;
    }
    let bad = all.chars().find(|&c| c != '\n' && fizeau_domain::text::is_hidden(c));
    assert_eq!(bad, None, "{all:?}");
}

/// A record cannot be made again: no report takes its place, by whatever name it is called.
#[test]
fn no_report_is_written_over_a_record() {
    let place = Place::new();
    for out in ["a", "b"] {
        assert_eq!(say(&mut place.run("", FEW, out)).code, Some(0));
    }
    fs::hard_link(place.file("a"), place.path("linked.csv")).expect("a link");
    symlink(place.file("a"), place.path("points.csv")).expect("a link");
    let before = ["a", "b"].map(|out| place.text(out));
    for args in [
        &["report", "a", "--json", "--out", "a/record.jsonl"][..],
        &["report", "a/record.jsonl", "--format", "csv", "--out", "a/../a/record.jsonl"],
        &["report", "a", "--out", "linked.csv"],
        &["report", "a", "--out", "points.csv"],
        &["report", "linked.csv", "--format", "csv", "--out", "a/record.jsonl"],
        &["report", "a", "--format", "csv", "--out", "b/record.jsonl"],
        &["report", "a", "--format", "csv", "--out", "record.jsonl"],
        &["compare", "a", "b", "--format", "csv", "--out", "b/record.jsonl"],
        &["compare", "b", "a", "--out", "linked.csv"],
        &["compare", "b", "--vs", "a", "--out", "points.csv"],
    ] {
        let said = say(&mut place.fizeau(args));
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.err);
        assert!(said.err.contains("would write over a record"), "{args:?}: {}", said.err);
        assert_eq!(["a", "b"].map(|out| place.text(out)), before, "{args:?}");
    }
    assert!(fs::symlink_metadata(place.path("points.csv")).expect("it is there").is_symlink());
    assert_eq!(say(&mut place.fizeau(["report", "a", "--out", "other.csv"])).code, Some(0));
}

/// Cuts a record down to its header, for a run that has begun.
fn cut_to_header(place: &Place, change: impl Fn(&str) -> String) {
    let text = place.text("out");
    let header = text.lines().next().expect("a header");
    fs::write(place.file("out"), change(header) + "\n").expect("written");
}

#[test]
fn a_case_of_more_units_than_there_are_is_skipped() {
    let place = Place::new();
    assert_eq!(say(&mut place.run("", FEW, "out")).code, Some(0));
    cut_to_header(&place, |header| {
        let changed = header.replace("\"units\":1}", "\"units\":20000}");
        assert_ne!(changed, header);
        changed
    });
    say(&mut place.resume("out")).ended(0);
    let outcomes = place.record("out").outcomes;
    assert!(!outcomes.is_empty());
    for outcome in &outcomes {
        let Outcome::Skipped { reason, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!(reason, "needs 20000 units, and the device has 2");
    }
}

#[test]
fn a_run_that_cannot_be_begun_says_why_and_leaves_nothing() {
    let place = Place::new();
    fs::write(place.path("file"), "").expect("written");
    let said = say(&mut place.run("", FEW, "file")).ended(3);
    assert!(said.err.contains("file is no directory"), "{}", said.err);
    assert!(!said.err.contains("--resume"), "{}", said.err);
    // Less than the header takes.
    let run = place.run("", "stream", "out");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 1 && exec \"$@\"", "sh"]).arg(run.get_program());
    let said = say(command.args(run.get_args()).current_dir(place.path(""))).ended(3);
    let words = ["a file may be no longer here", "no record could be begun", "ulimit -f"];
    assert!(words.iter().all(|words| said.err.contains(words)), "{}", said.err);
    assert!(!said.err.contains("--resume") && !said.err.contains("disk full"), "{}", said.err);
    assert_eq!(fs::read_dir(place.path("out")).expect("a directory").count(), 0);
}

#[test]
fn a_run_is_continued_by_its_directory_or_its_record() {
    let place = Place::new();
    assert_eq!(say(&mut place.run("", FEW, "out")).code, Some(0));
    cut_to_header(&place, str::to_owned);
    let said = say(&mut place.resume("out/record.jsonl")).ended(0);
    assert!(said.out.contains("record: out/record.jsonl\n"), "{}", said.out);
    assert!(place.record("out").footer.is_some());
    fs::copy(place.file("out"), place.path("copy.jsonl")).expect("copied");
    let said = say(&mut place.resume("copy.jsonl")).ended(2);
    assert!(said.err.contains("name the directory of the run"), "{}", said.err);
}

/// As a script's shell has it for `fizeau run &`.
#[test]
fn an_interruption_that_was_ignored_at_the_start_stays_ignored() {
    for (ignored, code) in [("INT", 0), ("HUP", 0), ("TERM", 130)] {
        let place = Place::new();
        let run = place.run("", "stream/copy", "out");
        let mut command = Command::new("sh");
        let script = format!("trap '' {ignored} && exec \"$@\"");
        command.args(["-c", &script, "sh"]).arg(run.get_program()).args(run.get_args());
        command.current_dir(place.path("")).stdout(Stdio::null()).stderr(Stdio::null());
        command.env("FIZEAU_LIBRARY_PATH", place.path(""));
        let mut child = command.spawn().expect("it starts");
        let begun = || {
            let text = fs::read_to_string(place.file("out"));
            text.is_ok_and(|text| text.lines().count() > 2)
        };
        while !begun() && child.try_wait().expect("a child").is_none() {
            thread::sleep(Duration::from_millis(5));
        }
        assert!(child.try_wait().expect("a child").is_none(), "it was over too soon");
        let sent = Command::new("kill").args(["-s", ignored, &child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()));
        assert_eq!(child.wait().expect("it ends").code(), Some(code), "{ignored}");
    }
}
