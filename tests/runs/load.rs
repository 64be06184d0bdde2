//! `fizeau load`: results of clients joined to hardware, and servers under load.

use crate::program::{Place, say};
use std::fs;

/// What `vllm bench serve --save-result` leaves, shortened to what is read.
pub const SUMMARY: &str = r#"{"date": "20261120-101500", "backend": "vllm", "model_id": "m",
"request_rate": 4.0, "burstiness": 1.0, "max_concurrency": null, "duration": 10.0,
"completed": 40, "failed": 0, "total_input_tokens": 40000, "total_output_tokens": 4000,
"mean_ttft_ms": 50.0, "median_ttft_ms": 45.0, "p99_ttft_ms": 90.0, "mean_tpot_ms": 10.0,
"median_tpot_ms": 9.0, "p99_tpot_ms": 12.0}"#;

const ON: [&str; 4] = ["--on", "h200-sxm", "--model", "llama-3.1-8b"];

#[test]
fn results_are_joined_in_every_format() {
    let place = Place::new();
    fs::write(place.path("served.json"), SUMMARY).expect("written");
    let report = ["load", "report", "served.json"];
    for (name, words) in [
        ("a.txt", "not explained"),
        ("a.html", "<table"),
        ("a.csv", "light_share"),
        ("a.json", "\"joined\""),
        ("a.md", "| "),
    ] {
        let out = ["--out", name];
        let args = report.iter().chain(&ON).chain(&out);
        let said = say(&mut place.fizeau(args));
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{name}");
        let text = fs::read_to_string(place.path(name)).expect("it was written");
        assert!(text.contains(words), "{name}: {text}");
    }
    let value = say(&mut place.fizeau(report.iter().chain(&["--json"]))).json();
    assert!(value.to_string().contains("tpot_p50_seconds"), "{value}");
}

#[test]
fn what_is_faster_than_light_cannot_be_concluded_from() {
    let place = Place::new();
    let text = SUMMARY.replace("\"mean_tpot_ms\": 10.0", "\"mean_tpot_ms\": 0.5");
    fs::write(place.path("served.json"), text).expect("written");
    let args = ["load", "report", "served.json"];
    let said = say(&mut place.fizeau(args.iter().chain(&ON))).ended(4);
    assert!(said.out.contains("below L0"), "{}", said.out);
}

#[test]
fn a_time_of_nothing_is_in_no_format_a_number() {
    let place = Place::new();
    for (name, code, words) in [
        ("ttft-zero-summary.jsonl", 4, "TTFT is not measured"),
        ("vllm-detailed-ttft0.json", 0, "not measured in 4 of 4 requests"),
        ("detailed-not-streamed.json", 0, "does not stream"),
    ] {
        let file = format!("{}/tests/served/{name}", env!("CARGO_MANIFEST_DIR"));
        let report = ["load", "report", file.as_str()];
        let said = say(&mut place.fizeau(report.iter().chain(&ON))).ended(code);
        assert!(said.out.contains(words), "{name}: {}", said.out);
        let has_none = |word: &str| ["0.000", "inf", "NaN"].contains(&word);
        assert!(!said.out.split_whitespace().any(has_none), "{name}: {}", said.out);
        let value = say(&mut place.fizeau(report.iter().chain(&ON).chain(&["--json"]))).out;
        assert!(!value.contains("e+30") && !value.contains("e305"), "{name}: {value}");
    }
}

#[test]
fn what_is_no_result_is_told_by_its_name() {
    let place = Place::new();
    fs::write(place.path("other.json"), "{\"a\": 1}").expect("written");
    for (args, code, words) in [
        (&["other.json"][..], 3, "other.json: it is of no client that is known"),
        (&["missing.json"], 3, "missing.json"),
        (&["other.json", "--on", "h200"], 2, "--model"),
        (&["other.json", "--slo", "ttft=1"], 2, "--slo"),
        (&["other.json", "--out", "other.json", "--format", "json"], 2, "write over results"),
    ] {
        let said = say(&mut place.fizeau(["load", "report"].iter().chain(args)));
        assert_eq!(said.code, Some(code), "{args:?}: {}", said.err);
        assert!(said.err.contains(words), "{args:?}: {}", said.err);
    }
}

#[test]
fn a_plan_says_what_a_trace_was_read_as_and_what_was_left_out() {
    let place = Place::new();
    let trace = |name: &str| {
        let text =
            fs::read_to_string(format!("{}/tests/served/{name}", env!("CARGO_MANIFEST_DIR")));
        fs::write(place.path(name), text.expect("a fixture")).expect("written");
        let args = ["load", "http://127.0.0.1:9", "--model", "m", "--plan", "--trace", name];
        args.map(str::to_owned)
    };
    let seconds = trace("trace-seconds.jsonl");
    let refused = say(&mut place.fizeau(&seconds)).ended(3);
    assert!(refused.err.contains("--trace-unit s, ms, us or ns"), "{}", refused.err);
    let stated = ["--trace-unit".to_owned(), "s".to_owned()];
    let told = say(&mut place.fizeau(seconds.iter().chain(&stated))).clean();
    for words in [
        "trace: 2 requests in 1 s, 1 requests/s on average; timestamps read as seconds",
        "hash_ids are not followed",
        "the first 50 are not measured: choose a smaller --warmup",
        "0 requests measured after 2 to warm up, about 1 s",
    ] {
        assert!(told.out.contains(words), "{words}: {}", told.out);
    }
    let told = say(&mut place.fizeau(trace("trace-zero-output.jsonl"))).clean();
    assert!(
        told.out.contains("left out of the trace: 1 request without an answer"),
        "{}",
        told.out
    );
    // Without --plan nothing would be measured.
    let sent = ["load", "http://127.0.0.1:9", "--trace", "trace-zero-output.jsonl"];
    assert!(say(&mut place.fizeau(sent)).ended(2).err.contains("--warmup"));
}
