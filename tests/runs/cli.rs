//! The command line: what it says, and its exit codes.

use crate::program::{self, Place, SMALL, Said, say};
use fizeau::outcome::{Failure, Outcome};
use std::{fs, os::unix::fs::symlink, path::Path};

/// A few cases.
const FEW: &str = "stream/read/{?,??}KiB/*";

#[track_caller]
fn fizeau(args: &[&str]) -> Said {
    say(&mut Place::new().fizeau(args))
}

#[test]
fn bare_it_says_what_to_type_next() {
    let said = fizeau(&[]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    assert!(said.out.contains("fizeau run") && said.out.lines().count() <= 6, "{}", said.out);
}

#[test]
fn help_states_the_verbs_and_exit_codes() {
    let help = fizeau(&["--help"]);
    assert_eq!(help.code, Some(0));
    for word in [
        "devices",
        "doctor",
        "list",
        "run",
        "report",
        "compare",
        "completions",
        "man",
        "Exit codes",
        "130",
    ] {
        assert!(help.out.contains(word), "{word}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let said = fizeau(&["completions", shell]);
        assert!(said.code == Some(0) && said.out.contains("resume"), "{shell}");
    }
    assert!(fizeau(&["man"]).out.contains(".TH fizeau 1"));
    assert!(fizeau(&["schema"]).out.contains("\"footer\""));
}

#[test]
fn a_wrong_command_line_is_exit_code_2() {
    for (args, words) in [
        (&["walk"][..], "walk"),
        (&["run", "--ranks", "1"], "2 to 1024 ranks"),
        (&["run", "--suite", "quik"], "there are: "),
        (&["run", "--suite", "missing.toml"], "missing.toml"),
        (&["run", "--resume", "a", "--out", "b"], "cannot be used with"),
        (&["list", "["], "not a selector"),
        (&["list", "--backend", "cuda9"], "no backend is called"),
        (&["list", "--backend", "fake:hicc"], "hicc"),
        (&["compare", "a"], "--with"),
        (&["compare", "a", "b", "--threshold", "much"], "0.05 or 5%"),
        (&["compare", "a", "b", "--waive", "["], "is not a selector"),
        (&["launch", "-n", "2", "--", "run", "--devise=cuda"], "--device"),
    ] {
        let said = fizeau(args);
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.err);
        assert!(said.err.contains(words), "{args:?}: {}", said.err);
        assert_eq!(said.out, "", "{args:?}");
    }
}

#[test]
fn what_cannot_run_is_exit_code_3() {
    for args in [
        &["run", "--resume", "nowhere"][..],
        &["report", "nowhere"],
        &["report"],
        &["compare", "nowhere", "nowhere"],
    ] {
        let said = fizeau(args);
        assert_eq!(said.code, Some(3), "{args:?}: {}", said.err);
        assert!(said.err.starts_with("fizeau: "), "{}", said.err);
    }
}

#[test]
fn the_plan_can_be_seen() {
    let place = Place::new();
    let list = ["list", "stream/copy", "--suite", "tiny.toml", "--backend", "fake:"];
    let said = say(&mut place.fizeau(list));
    assert_eq!(said.code, Some(0), "{}", said.err);
    let last = said.out.lines().last().expect("a line");
    assert!(last.starts_with("suite tiny: ") && last.contains("of memory"), "{last}");
    let said = say(place.fizeau(list).arg("--json"));
    let listing: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    let cases = listing["cases"].as_array().expect("cases");
    assert!(cases.len() > 20);
    let total: f64 = cases.iter().filter_map(|row| row["estimated_seconds"].as_f64()).sum();
    let said = listing["estimated_seconds"].as_f64().expect("a total");
    assert!((total - said).abs() < 1e-6 && total > 0.0);
    let largest = cases.iter().filter_map(|row| row["memory_bytes"].as_u64()).max();
    assert_eq!(listing["memory_bytes"].as_u64(), largest);
    assert!(cases.iter().all(|row| row["id"].as_str().expect("an id").starts_with("stream/copy/")));
}

#[test]
fn a_selector_that_selects_nothing_names_what_is_near() {
    let place = Place::new();
    let list = ["list", "stream/raed/*", "--suite", "tiny.toml", "--backend", "fake:"];
    let said = say(&mut place.fizeau(list));
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("nearest: stream/read/"), "{}", said.err);
}

#[test]
fn a_run_leaves_a_record_and_reports_and_is_quiet_when_piped() {
    let place = Place::new();
    let mut run = place.run("", FEW, "out");
    let said = say(run.args(["--label", "first light"]));
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    assert!(said.out.contains("record: out/record.jsonl"), "{}", said.out);
    assert!(said.out.contains("report: out/report.html"), "{}", said.out);
    assert!(!said.out.contains('\x1b'), "no colours when piped");
    assert!(place.path("out/report.html").exists() && place.path("out/report.md").exists());
    assert_eq!(place.record("out").header.label.as_deref(), Some("first light"));

    let again = say(&mut place.run("", FEW, "out"));
    assert_eq!(again.code, Some(3));
    assert!(again.err.contains("exists"), "{}", again.err);

    let json = say(place.run("", FEW, "json").arg("--json"));
    serde_json::from_str::<serde_json::Value>(&json.out).expect("JSON and nothing else");
    let coloured = say(place.run("", FEW, "red").args(["--color", "always"]));
    assert!(coloured.out.contains('\x1b'));
}

#[test]
fn without_a_place_named_runs_go_to_results() {
    let place = Place::new();
    let run = ["run", FEW, "--suite", "tiny.toml", "--backend", "fake:"];
    for _ in 0..2 {
        assert_eq!(say(&mut place.fizeau(run)).code, Some(0));
    }
    let local = fs::read_dir(place.path("results/local")).expect("results/local");
    let names: Vec<_> = local.map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let named = |name: &std::ffi::OsString| {
        let name = name.to_string_lossy();
        name.starts_with("20") && name.contains("-tiny") && !name.contains(':')
    };
    assert!(names.iter().all(named), "{names:?}");
}

#[test]
fn faults_are_exit_code_1_and_every_case_has_its_outcome() {
    for (script, wanted) in [
        ("wrong-result", Some(Failure::WrongResult)),
        ("launch-error", Some(Failure::Launch)),
        ("allocation-failure", Some(Failure::Allocation)),
        ("hang", Some(Failure::Hang)),
        ("panic", Some(Failure::Other)),
        ("device-lost", Some(Failure::DeviceLost)),
        ("throttling", None),
        ("frozen-timer", None),
    ] {
        let place = Place::new();
        let said = say(&mut place.run(script, FEW, "out"));
        assert_eq!(said.code, Some(1), "{script}: {}", said.err);
        let record = place.record("out");
        assert_eq!(program::planned(&record), program::ended(&record), "{script}");
        assert!(record.outcomes.len() > 1, "{script}");
        for outcome in &record.outcomes {
            match (outcome, wanted) {
                (Outcome::Failed { failure, .. }, Some(wanted)) => assert_eq!(*failure, wanted),
                (Outcome::Invalid { .. }, None) => (),
                _ => panic!("{script}: {outcome:?}"),
            }
        }
        assert!(record.footer.is_some(), "{script}: it came to its end");
    }
}

#[test]
fn only_the_same_run_goes_on() {
    let place = Place::new();
    assert_eq!(say(&mut place.run("", FEW, "out")).code, Some(0));
    let before = place.text("out");
    let said = say(&mut place.fizeau(["run", "--resume", "out"]));
    assert_eq!(said.code, Some(3));
    assert!(said.err.contains("its device is \"fake device\", here it is"), "{}", said.err);
    let said = say(place.resume("out").args(["--suite", "quick"]));
    assert_eq!(said.code, Some(3));
    assert!(said.err.contains("its suite is \"tiny\", here it is \"quick\""), "{}", said.err);
    // Over, there is nothing to go on with but its report.
    let said = say(&mut place.resume("out"));
    assert!(said.code == Some(0) && said.out.contains("record: "), "{}", said.err);
    assert_eq!(place.text("out"), before);
}

#[test]
fn reports_that_cannot_be_written_do_not_cost_the_record() {
    let place = Place::new();
    fs::create_dir_all(place.path("out/report.html")).expect("in the report's way");
    let said = say(&mut place.run("", FEW, "out"));
    assert_eq!(said.code, Some(3));
    assert!(said.err.contains("is whole, but its reports"), "{}", said.err);
    assert!(place.record("out").footer.is_some());
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
    assert!(said.out.contains("a FIFO and not a plain file"), "{}", said.out);
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
    let said = say(&mut place.run("", FEW, "out"));
    assert_eq!(said.code, Some(0), "{}", said.err);
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
        let said = say(&mut place.fizeau(["report", "out", "--out", name]));
        assert_eq!(said.code, Some(2), "{}", said.err);
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
    let said = say(&mut place.run("", FEW, "/sys/fizeau"));
    assert_eq!(said.code, Some(3), "{}", said.err);
    assert!(said.err.contains("/sys/fizeau") && said.err.contains("by --out DIR"), "{}", said.err);
    assert_eq!(say(&mut place.run("", FEW, "out")).code, Some(0));
    let said = say(&mut place.fizeau(["report", "out", "--out", "/sys/x.csv"]));
    assert!(said.code == Some(3) && said.err.contains("by --out FILE"), "{}", said.err);
}

#[test]
fn no_path_and_no_word_of_the_command_line_acts_on_the_terminal() {
    let place = Place::new();
    let name = "a\x1b[2J\u{202e}\u{9b}b";
    let said = say(&mut place.run("", FEW, name));
    assert_eq!(said.code, Some(0), "{}", said.err);
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
    let bad = all.chars().find(|&c| c != '\n' && fizeau::text::is_hidden(c));
    assert_eq!(bad, None, "{all:?}");
}

#[test]
fn a_slower_run_is_a_regression() {
    let place = Place::new();
    let runs = [
        ("", "a"),
        ("seed=1", "b"),
        ("seed=2", "a2"),
        ("seed=3", "b2"),
        ("slow=1.1", "c"),
        ("slow=1.1,seed=4", "c2"),
    ];
    for (script, out) in runs {
        assert_eq!(say(&mut place.run(script, SMALL, out)).code, Some(0));
    }
    let same = say(&mut place.fizeau(["compare", "a", "b"]));
    assert_eq!(same.code, Some(0), "{}{}", same.out, same.err);
    let differs = say(&mut place.fizeau(["compare", "a", "c"]));
    assert_eq!(differs.code, Some(4), "{}{}", differs.out, differs.err);
    assert!(differs.out.contains("differs"));
    let with = |more: &[&str]| {
        let given = ["compare", "a", "a2", "--with", "c", "c2"];
        say(&mut place.fizeau(given.into_iter().chain(more.iter().copied())))
    };
    let same = say(&mut place.fizeau(["compare", "a", "a2", "--with", "b", "b2"]));
    assert_eq!(same.code, Some(0), "{}{}", same.out, same.err);
    let slower = with(&[]);
    assert_eq!(slower.code, Some(1), "{}{}", slower.out, slower.err);
    assert!(slower.out.contains("slower"));
    let waived = with(&["--waive", "stream=an old disk"]);
    assert_eq!(waived.code, Some(0), "{}{}", waived.out, waived.err);
    assert!(waived.out.contains("Only waived cases got worse"), "{}", waived.out);
    let missed = with(&["--waive", "gemm"]);
    assert_eq!(missed.code, Some(1), "{}{}", missed.out, missed.err);
    assert!(missed.out.contains("knows no case"), "{}", missed.out);
    let lenient = with(&["--threshold", "20%"]);
    assert_eq!(lenient.code, Some(0), "{}", lenient.err);
    let json = say(&mut place.fizeau(["compare", "a", "c", "--json"]));
    serde_json::from_str::<serde_json::Value>(&json.out).expect("JSON");
}
