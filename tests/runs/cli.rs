//! The command line: what it says, and its exit codes.

use crate::program::{self, Place, SMALL, Said, say};
use clap::CommandFactory as _;
use fizeau_domain::outcome::{Failure, Outcome};
use std::fs;

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
        "suites",
        "list",
        "explain",
        "run",
        "alias: localize",
        "FIZEAU_LIBRARY_PATH",
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

/// A line for each verb, and its exit code. The others: `doctor` finds more or less on a busy
/// machine (tests/stub/broken.rs has it), `launch` leaves all words to its ranks, `ab` takes long,
/// `keep-limits` waits for another process (tests/runs/frontier.rs), and `verify` needs a bundle
/// (tests/runs/evidence.rs).
const LINES: [(&[&str], i32); 27] = [
    (&[], 0),
    (&["--help"], 0),
    (&["devices"], 0),
    (&["suites", "--device", "fake:"], 0),
    (&["list", "--suite", "tiny.toml", "--device", "fake:"], 0),
    (&["list", "--suite", "tiny.toml", "--device", "fake:", "--json"], 0),
    (&["explain", "stream/read/16KiB/1u/*", "--suite", "tiny.toml", "--device", "fake:"], 0),
    (&["run", FEW, "--suite", "tiny.toml", "--device", "fake:wrong-result"], 1),
    (&["run", "--device", "fake:", "--resume", "a"], 0),
    (&["localise", "--from", "rates.csv"], 4),
    (&["report", "a"], 0),
    (&["compare", "a", "b"], 1),
    (&["compare", "a", "b", "--json"], 1),
    (&["accept", "--plan", "--device", "host"], 0),
    (&["profile", "show", "h200-sxm"], 0),
    (&["project", "llama-3.1-8b", "--on", "h200-sxm"], 0),
    (&["load", "report", "served.json", "--on", "h200-sxm", "--model", "llama-3.1-8b"], 0),
    (&["fleet", "simulate", "fleet.toml", "--gpus", "64", "--fleets", "1"], 0),
    (&["shapes", "llama-3.1-8b"], 0),
    (&["claim", "9.9 TB/s", "--on", "h200-sxm"], 0),
    (&["claim", "9.9 TB/s", "--on", "NVIDIA H200 SXM"], 0),
    (&["claim", "9.9 TB/s", "--on", "h200-sxm", "--fail-on", "impossible"], 1),
    (&["reproduce", "--list", "--device", "host"], 0),
    (&["discover", "--from", "a"], 0),
    (&["completions", "bash"], 0),
    (&["man"], 0),
    (&["schema"], 0),
];

#[test]
fn what_a_verb_found_does_not_depend_on_who_reads_it() {
    let place = Place::new();
    assert_eq!(say(&mut place.run("", FEW, "a")).code, Some(0));
    assert_eq!(say(&mut place.run("wrong-result", FEW, "b")).code, Some(1));
    fs::write(place.path("rates.csv"), "rank_a,rank_b,bytes_per_second\n0,1,1e9\n")
        .expect("written");
    fs::write(place.path("served.json"), super::load::SUMMARY).expect("written");
    fs::write(place.path("fleet.toml"), super::fleet::RECIPE).expect("written");
    for (args, code) in LINES {
        let read = say(&mut place.fizeau(args));
        assert_eq!(read.code, Some(code), "{args:?}: {}", read.err);
        assert!(!read.out.is_empty(), "{args:?}");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let unread = say(place.fizeau(args).stdout(writer));
        assert_eq!((unread.code, &unread.err), (Some(code), &read.err), "{args:?}");
        // A disk that takes nothing is no reader that went away.
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("the device");
        let lost = say(place.fizeau(args).stdout(full));
        assert_eq!(lost.code, Some(3), "{args:?}: {}", lost.err);
        let why = "fizeau: cannot write to standard output: the disk is full";
        assert!(lost.err.contains(why), "{args:?}: {}", lost.err);
    }
    let named = |verb: &str| LINES.iter().any(|(args, _)| args.first() == Some(&verb));
    for verb in fizeau::cmd::Cli::command().get_subcommands() {
        let verb = verb.get_name();
        let elsewhere = ["doctor", "launch", "ab", "contend", "keep-limits", "verify"];
        assert!(named(verb) || elsewhere.contains(&verb), "{verb} is not tried");
    }
}

/// A sentence that names one part of the catalogue is judged for it, which is said; one that names
/// several, or a part that may be several, is answered with the command to write.
#[test]
fn a_claim_takes_its_part_from_the_sentence() {
    let place = Place::new();
    for (sentence, words) in [
        ("H200 has 4.8 TB/s of memory bandwidth", "the text names H200: --on h200-sxm taken"),
        ("H100 reaches 1979 TFLOPS FP16", "possible only with structured sparsity"),
        ("all_reduce busbw 480 GB/s on 8 x H100", "--on h100-sxm --gpus 8 taken"),
    ] {
        let said = say(&mut place.fizeau(["claim", sentence])).ended(0);
        assert!(said.out.contains(words), "{sentence}: {}", said.out);
    }
    let picked = say(&mut place.fizeau(["claim", "4.8 TB/s", "--on", "h200"])).ended(0);
    assert!(picked.out.contains("h200 may be h200-nvl, h200-sxm: h200-sxm is used"));
    let open = say(&mut place.fizeau(["claim", "MI300 has 5.3 TB/s"])).ended(2);
    assert!(
        open.err.contains("write fizeau claim \"MI300 has 5.3 TB/s\" --on PART"),
        "{}",
        open.err
    );
}

#[test]
fn a_wrong_command_line_is_exit_code_2() {
    for (args, words) in [
        (&["walk"][..], "walk"),
        (&["run", "--ranks", "1"], "2 to 1024 ranks"),
        (&["run", "--suite", "quik"], "there are: "),
        (&["run", "--resume", "a", "--out", "b"], "cannot be used with"),
        (&["list", "["], "not a selector"),
        (&["list", "--backend", "cuda9"], "(nearest: cuda); there are"),
        (&["list", "--backend", "fake:hicc"], "hicc"),
        (&["compare", "a"], "--vs"),
        (&["compare", "a", "b", "--least-effect", "much"], "0.05 or 5%"),
        (&["compare", "a", "b", "--waive", "["], "is not a selector"),
        (&["launch", "-n", "2", "--", "run", "--devise=cuda"], "--device"),
        (&["run", "--set-limits", "--device", "host"], "power-frontier"),
        (&["reproduce", "no-such-claim"], "no-such-claim"),
        (&["reproduce"], "CLAIM"),
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
    let said = say(&mut place.fizeau(list)).ended(0);
    let sum = said.out.lines().find(|line| line.starts_with("suite tiny: ")).expect("a sum");
    assert!(sum.contains("of memory"), "{sum}");
    // No table names a fake device, which is told below the plan.
    let last = said.out.lines().last().expect("a line");
    assert!(last.starts_with("- No table names this device"), "{last}");
    let listing = say(place.fizeau(list).arg("--json")).json();
    let cases = listing["cases"].as_array().expect("cases");
    assert!(cases.len() > 20);
    // The suite has reads, writes and triads too.
    let all = listing["suite_cases"].as_u64().expect("a number");
    assert!(all > cases.len() as u64, "{all}");
    let part = format!("suite tiny: {} of {all} cases, ", cases.len());
    assert!(sum.starts_with(&part), "{part}: {sum}");
    let total: f64 = cases.iter().filter_map(|row| row["estimated_seconds"].as_f64()).sum();
    let said = listing["estimated_seconds"].as_f64().expect("a total");
    assert!((total - said).abs() < 1e-6 && total > 0.0);
    let largest = cases.iter().filter_map(|row| row["memory_bytes"].as_u64()).max();
    assert_eq!(listing["memory_bytes"].as_u64(), largest);
    assert!(cases.iter().all(|row| row["id"].as_str().expect("an id").starts_with("stream/copy/")));
}

#[test]
fn suites_are_listed_with_what_they_plan_here() {
    let said = fizeau(&["suites", "--device", "fake:"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    for name in ["quick", "full", "gpu-quick", "llm-decode"] {
        let named = said.out.lines().any(|line| line.split(' ').next() == Some(name));
        assert!(named, "{name}: {}", said.out);
    }
    let json = fizeau(&["suites", "--device", "fake:", "--json"]);
    let all: serde_json::Value = serde_json::from_str(&json.out).expect("JSON");
    let all = all.as_array().expect("a list");
    assert!(all.iter().all(|suite| suite["estimated_seconds"].is_number()), "{all:?}");
}

#[test]
fn a_case_is_explained_with_a_line_that_repeats_it() {
    let place = Place::new();
    let suite = ["--suite", "tiny.toml", "--device", "fake:"];
    let explain = |case| say(&mut place.fizeau(["explain", case].into_iter().chain(suite)));
    let list = say(place.fizeau(["list", "--json"]).args(suite));
    let plan: serde_json::Value = serde_json::from_str(&list.out).expect("JSON");
    let id = plan["cases"][0]["id"].as_str().expect("an id").to_owned();
    let said = explain(&id);
    assert_eq!(said.code, Some(0), "{}", said.err);
    for words in ["Measures:", "Work of one iteration:", "Check:", "Kernel:", "Limits", "In suites"]
    {
        assert!(said.out.contains(words), "{words}: {}", said.out);
    }
    // The line, as it stands, plans that case and no other.
    let (_, line) = said.out.split_once("Reproduce: fizeau run ").expect("a line");
    let words: Vec<&str> = line.split_whitespace().map(|word| word.trim_matches('\'')).collect();
    let listed = say(place.fizeau(["list", "--json"]).args(words)).json();
    assert_eq!(listed["cases"].as_array().map(Vec::len), Some(1));
    assert_eq!(listed["cases"][0]["id"], id);
    let several = explain("stream/read");
    assert_eq!(several.code, Some(2));
    assert!(several.err.contains("explain takes one case, and"), "{}", several.err);
    assert!(explain("stream/raed/1KiB").err.contains("did you mean stream/read?"));
}

#[test]
fn a_run_ends_with_a_page_and_not_with_its_tables() {
    let place = Place::new();
    let brief = say(&mut place.run("", FEW, "a"));
    let lines: Vec<&str> = brief.out.lines().collect();
    assert!(lines.len() <= 25, "{}", brief.out);
    assert!(brief.out.contains("Complete: "), "{}", brief.out);
    let header = place.record("a").header;
    let all = header.suite_cases.expect("it is kept");
    let part = format!("{} of {all} cases of suite tiny (", header.plan.len());
    assert!(all > header.plan.len() as u64 && brief.out.contains(&part), "{part}: {}", brief.out);
    assert!(brief.out.contains("tables: fizeau report a"), "{}", brief.out);
    let full = say(place.run("", FEW, "b").arg("--full"));
    assert!(full.out.contains("Every measured case") && full.out.lines().count() > lines.len());
    let failed = say(&mut place.run("wrong-result", FEW, "c"));
    assert!(failed.out.contains("Failed: 0 of "), "{}", failed.out);
    assert!(failed.out.contains("FAILED stream/") && failed.out.contains("more, in the report"));
    assert!(failed.out.lines().count() <= 30, "{}", failed.out);
}

#[test]
fn without_a_terminal_progress_is_plain_lines() {
    let place = Place::new();
    let said = say(place.run("", FEW, "out").env("FIZEAU_PROGRESS", "auto"));
    let cases = place.record("out").header.plan.len();
    let lines: Vec<&str> = said.err.lines().collect();
    let [first, .., last] = lines.as_slice() else { panic!("{}", said.err) };
    assert!(first.contains(&format!("{cases} cases of suite tiny")), "{first}");
    assert!(last.starts_with(&format!("{cases}/{cases}, done  stream/")), "{last}");
    assert!(last.contains("B/s"), "a rate: {last}");
    // At most one a second, the last one aside: the run takes a fraction of one.
    assert!(lines.len() <= 4 && !said.err.contains('\x1b'), "{}", said.err);
}

#[test]
fn ids_are_whole_in_a_pipe() {
    let place = Place::new();
    assert_eq!(say(&mut place.run("", FEW, "out")).code, Some(0));
    let report = say(&mut place.fizeau(["report", "out"])).out;
    for case in &place.record("out").header.plan {
        let id = case.to_string();
        assert!(report.lines().any(|line| line.starts_with(&format!("{id} "))), "{id}: {report}");
    }
    assert!(!report.contains('\u{2026}'), "{report}");
}

#[test]
fn json_has_run_counts_and_verdict_as_fields() {
    let place = Place::new();
    assert_eq!(say(place.run("", FEW, "a").args(["--label", "one"])).code, Some(0));
    assert_eq!(say(&mut place.run("wrong-result", FEW, "b")).code, Some(1));
    let json = |args: &[&str]| -> serde_json::Value {
        serde_json::from_str(&say(&mut place.fizeau(args)).out).expect("JSON")
    };
    let record = place.record("a");
    let report = json(&["report", "a", "--json"]);
    assert_eq!(report["run"]["id"], record.header.run);
    assert_eq!((&report["run"]["suite"], &report["run"]["label"]), (&"tiny".into(), &"one".into()));
    assert_eq!(report["counts"]["measured"], record.outcomes.len());
    assert_eq!(report["verdict"], "complete");
    assert_eq!(json(&["report", "b", "--format", "json"])["verdict"], "failed");
    let compared = json(&["compare", "a", "b", "--json"]);
    assert_eq!((&compared["verdict"], &compared["runs"][1]["role"]), (&"fail".into(), &"B".into()));
    assert_eq!(compared["counts"]["broken"], record.outcomes.len());
}

#[test]
fn a_selector_that_selects_nothing_names_what_is_near() {
    let place = Place::new();
    let list = ["list", "stream/raed/*", "--suite", "tiny.toml", "--backend", "fake:"];
    let said = say(&mut place.fizeau(list)).ended(2);
    assert!(said.err.contains("did you mean stream/read?"), "{}", said.err);
}

#[test]
fn a_run_leaves_a_record_and_reports_and_is_quiet_when_piped() {
    let place = Place::new();
    let mut run = place.run("", FEW, "out");
    let said = say(run.args(["--label", "first light"])).clean();
    assert!(said.out.contains("record: out/record.jsonl"), "{}", said.out);
    assert!(said.out.contains("report: out/report.html"), "{}", said.out);
    assert!(!said.out.contains('\x1b'), "no colours when piped");
    assert!(place.path("out/report.html").exists() && place.path("out/report.md").exists());
    assert_eq!(place.record("out").header.label.as_deref(), Some("first light"));

    let again = say(&mut place.run("", FEW, "out")).ended(3);
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
    let said = say(&mut place.fizeau(["run", "--resume", "out"])).ended(3);
    assert!(said.err.contains("its device is \"fake device\", here it is"), "{}", said.err);
    let said = say(place.resume("out").args(["--suite", "quick"])).ended(3);
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
    let said = say(&mut place.run("", FEW, "out")).ended(3);
    assert!(said.err.contains("is whole, but its reports"), "{}", said.err);
    assert!(place.record("out").footer.is_some());
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
    let same = say(&mut place.fizeau(["compare", "a", "b"])).ended(0);
    let words = same.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(" in a of ") && words.contains(" in b of "), "{words}");
    say(&mut place.fizeau(["compare", "a", "b", "--format", "nccl-tests"])).ended(2);
    let none = say(&mut place.fizeau(["report", "."]));
    assert!(none.code == Some(3) && none.err.contains("there is no record at ."), "{}", none.err);
    #[cfg(feature = "png")]
    {
        say(&mut place.fizeau(["report", "a", "--png", "pictures"])).ended(0);
        assert!(place.path("pictures/bandwidth_1u.png").exists());
        say(&mut place.run("", "stream/read/32KiB", "one")).ended(0);
        // One size has no curve: its kernels are bars, and the tables are not printed beside them.
        let one = say(&mut place.fizeau(["report", "one", "--png", "bars"])).ended(0);
        assert!(place.path("bars/stream_read.png").exists(), "{}", one.err);
        assert!(one.err.contains("wrote 1 picture:") && one.err.contains("stream_read.png"));
        assert!(one.out.is_empty(), "{}", one.out);
        let both = ["report", "one", "--png", "bars", "--format", "csv"];
        assert!(say(&mut place.fizeau(both)).ended(0).out.contains("stream/read/32KiB"));
    }
    let done = say(&mut place.resume("a"));
    assert!(done.err.contains("nothing is left to measure"), "{}", done.err);
    let differs = say(&mut place.fizeau(["compare", "a", "c"])).ended(4);
    assert!(differs.out.contains("differs"));
    let with = |more: &[&str]| {
        let given = ["compare", "a", "a2", "--vs", "c", "c2"];
        say(&mut place.fizeau(given.into_iter().chain(more.iter().copied())))
    };
    say(&mut place.fizeau(["compare", "a", "a2", "--vs", "b", "b2"])).ended(0);
    let slower = with(&[]);
    assert_eq!(slower.code, Some(1), "{}{}", slower.out, slower.err);
    assert!(slower.out.contains("slower"));
    let waived = with(&["--waive", "stream=an old disk"]);
    assert_eq!(waived.code, Some(0), "{}{}", waived.out, waived.err);
    assert!(waived.out.contains("Only waived cases got worse"), "{}", waived.out);
    let missed = with(&["--waive", "gemm"]);
    assert_eq!(missed.code, Some(1), "{}{}", missed.out, missed.err);
    assert!(missed.out.contains("knows no case"), "{}", missed.out);
    let lenient = with(&["--least-effect", "20%"]);
    assert_eq!(lenient.code, Some(0), "{}", lenient.err);
    let json = say(&mut place.fizeau(["compare", "a", "c", "--json"]));
    serde_json::from_str::<serde_json::Value>(&json.out).expect("JSON");
}
