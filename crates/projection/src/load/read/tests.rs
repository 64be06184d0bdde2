//! Files of every client, whole and with numbers that are none. The files are made up, in the forms
//! that the clients' own sources write.

use super::*;
use crate::load::times::Times;

const NONE: Limits = Limits { ttft: None, tpot: None, e2el: None };

/// Every file, with the client that wrote it.
const FILES: [(&str, &str); 16] = [
    ("vllm bench serve", include_str!("../../../../../tests/served/vllm-summary.json")),
    ("vllm bench serve", include_str!("../../../../../tests/served/vllm-goodput-colon.json")),
    ("vllm bench serve", include_str!("../../../../../tests/served/vllm-nan.json")),
    ("vllm bench serve", include_str!("../../../../../tests/served/vllm-detailed-ttft0.json")),
    ("vllm bench serve", include_str!("../../../../../tests/served/detailed-not-streamed.json")),
    ("sglang.bench_serving", include_str!("../../../../../tests/served/sglang-infinity.jsonl")),
    ("sglang.bench_serving", include_str!("../../../../../tests/served/ttft-zero-summary.jsonl")),
    ("AIPerf", include_str!("../../../../../tests/served/aiperf-unknown-load.jsonl")),
    ("AIPerf", include_str!("../../../../../tests/served/aiperf-warmup-record.jsonl")),
    ("AIPerf", include_str!("../../../../../tests/served/aiperf-summary.json")),
    ("genai-perf", include_str!("../../../../../tests/served/genai-perf-summary.json")),
    ("guidellm", include_str!("../../../../../tests/served/guidellm.json")),
    ("llmperf", include_str!("../../../../../tests/served/llmperf-summary.json")),
    (
        "inference-benchmarker",
        include_str!("../../../../../tests/served/inference-benchmarker.json"),
    ),
    ("inference-perf", include_str!("../../../../../tests/served/inference-perf-stage.json")),
    ("trtllm-bench", include_str!("../../../../../tests/served/trtllm-bench.json")),
];

fn file(place: usize) -> &'static str {
    FILES[place].1
}

fn of(text: &str) -> Source {
    read(text, &NONE).unwrap_or_else(|why| panic!("{why}: {text}"))
}

fn mean(times: &Option<Times>) -> Option<f64> {
    times.as_ref().and_then(|times| times.mean)
}

#[track_caller]
fn near(one: Option<f64>, other: f64) {
    let is_near = one.is_some_and(|one| (one / other - 1.0).abs() < 1e-9);
    assert!(is_near, "{one:?} and {other}");
}

fn notes(source: &Source) -> String {
    let levels = source.levels.iter().flat_map(|level| level.notes.iter());
    source.notes.iter().chain(levels).map(|note| format!("{note}\n")).collect()
}

#[test]
fn each_file_is_of_the_client_that_wrote_it() {
    for (client, text) in FILES {
        assert_eq!(of(text).client, client, "{text}");
    }
    // What all of its copies write is nobody's mark.
    let bare = r#"{"completed": 4, "duration": 4.0, "total_input_tokens": 4096,
        "total_output_tokens": 512, "mean_ttft_ms": 100.0, "mean_tpot_ms": 10.0}"#;
    assert!(of(bare).client.contains("not known"), "{}", of(bare).client);
    let either = file(9).replace("benchmark_duration", "x").replace("was_cancelled", "y");
    let either = either.replace("error_summary", "z").replace("loadgen", "w");
    assert!(of(&either).client.contains("AIPerf or genai-perf"), "{}", of(&either).client);
    // Keys that look like a client's, in files that are of none.
    for other in [
        r#"{"benchmarks": [{"name": "BM_copy", "real_time": 1.0}]}"#,
        r#"{"results": [{"time": 1.0}], "config": {}}"#,
        r#"{"engine": {"model": "m"}, "performance": {}}"#,
        r#"{"successes": 3, "failures": 0}"#,
        r#"{"completed": 4}"#,
        "[]",
        "[1, 2]",
        "null",
    ] {
        let why = read(other, &NONE).expect_err(other);
        assert!(why.contains("no client that is known"), "{other}: {why}");
    }
}

#[test]
fn times_rates_and_loads_of_every_client_have_their_units() {
    // All were made of requests of 1024 and 128 tokens that take 0.1 s and then 10 ms each token.
    for (place, load) in [
        (9, "4 at once, closed loop"),
        (10, "4 at once, closed loop"),
        (12, "4 at once, closed loop"),
        (14, "4 requests/s, open loop"),
        (15, "load not stated"),
    ] {
        let source = of(file(place));
        let level = &source.levels[0];
        assert_eq!(level.offered.describe(), load, "{}", source.client);
        near(mean(&level.ttft), 0.1);
        near(mean(&level.e2el), 1.37);
        assert_eq!((level.answered, level.input, level.output), (200, 1024.0, 128.0));
        match source.client {
            "llmperf" => assert_eq!(level.tpot, None, "it counts the first token"),
            _ => near(mean(&level.tpot), 0.01),
        }
        assert_eq!(level.notes, [""; 0], "{}", source.client);
    }
    let loads = |place: usize| -> Vec<String> {
        of(file(place)).levels.iter().map(|level| level.offered.describe()).collect()
    };
    assert_eq!(
        loads(11),
        [
            "1 at once, closed loop",
            "8 at once, closed loop",
            "4 requests/s, open loop",
            "all at once"
        ]
    );
    assert_eq!(
        loads(13),
        ["128 at once, closed loop", "4 requests/s with at most 128 at once: no open loop"]
    );
    for (place, duration, failures) in [(11, 274.0, 5), (13, 50.0, 3), (14, 50.0, 3)] {
        let level = &of(file(place)).levels[0];
        near(Some(level.duration), duration);
        assert_eq!((level.failures(), level.notes.as_slice()), (failures, &[][..]));
        near(Some(level.token_rate()), 200.0 * 128.0 / duration);
    }
}

#[test]
fn a_time_of_nothing_is_no_measurement() {
    // The client says 0 for the first token of prompts of 250,000 tokens.
    let zero = of(file(6));
    let level = &zero.levels[0];
    assert_eq!((&level.ttft, &level.tpot, &level.itl), (&None, &None, &None), "{level:?}");
    near(mean(&level.e2el), 0.332_928_415_489_732_3);
    let said = notes(&zero);
    for words in ["TTFT is not measured", "TPOT is not measured", "ITL is not measured", "little"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let detailed = of(file(3));
    let level = &detailed.levels[0];
    assert_eq!((&level.ttft, &level.tpot, &level.e2el), (&None, &None, &None), "{level:?}");
    assert!(notes(&detailed).contains("in 4 of 4 requests"), "{}", notes(&detailed));
    assert_eq!(level.decoding(), None);
    // A client that does not stream: its first token is its last one.
    let whole = of(file(4));
    let level = &whole.levels[0];
    assert_eq!((&level.ttft, &level.tpot), (&None, &None), "{level:?}");
    near(mean(&level.e2el), 1.37);
    assert!(notes(&whole).contains("does not stream"), "{}", notes(&whole));
    // Of limits of what was not measured nobody knows whether they are kept.
    let limits = Limits { ttft: Some(2.0), ..NONE };
    let level = &read(file(4), &limits).expect("read").levels[0];
    assert_eq!((level.goodput, level.kept), (None, None));
    let limits = Limits { e2el: Some(2.0), ..NONE };
    near(read(file(4), &limits).expect("read").levels[0].goodput, 1.0);
}

#[test]
fn pythons_words_are_unknown() {
    let infinity = of(file(5));
    let level = &infinity.levels[0];
    assert_eq!(level.offered.describe(), "32 at once, closed loop");
    near(mean(&level.e2el), 65.087_597_850_516_9);
    near(level.e2el.as_ref().and_then(Times::median), 66.175_122_361_513_79);
    assert!(notes(&infinity).contains("Infinity"), "{}", notes(&infinity));
    let level = &of(file(2)).levels[0];
    let tpot = level.tpot.as_ref().expect("its median is known");
    assert_eq!((tpot.mean, tpot.at(0.99)), (None, None));
    near(tpot.median(), 0.01);
    let nowhere = file(0).replace("512", "NaN");
    assert!(read(&nowhere, &NONE).expect_err("needed").contains("total_output_tokens"));
}

#[test]
fn warm_up_goodput_and_sums_are_as_the_file_has_them() {
    let unknown = of(file(7));
    assert_eq!(unknown.levels[0].offered.describe(), "load not stated");
    let warmed = of(file(8));
    let level = &warmed.levels[0];
    near(mean(&level.ttft), 0.1);
    assert_eq!(level.answered, 3);
    near(Some(level.duration), 3.37);
    assert!(notes(&warmed).contains("1 of its records are of the warm-up"), "{}", notes(&warmed));
    near(of(file(0)).levels[0].goodput, 0.8);
    near(of(file(1)).levels[0].goodput, 0.8);
    let at = |rate: &str| file(0).replace("\"output_throughput\": 128.0", rate);
    assert!(!notes(&of(file(0))).contains("wrong"), "{}", notes(&of(file(0))));
    let wrong = of(&at("\"output_throughput\": 9999.0"));
    assert!(notes(&wrong).contains("output tokens is 9999 in the file"), "{}", notes(&wrong));
    let wrong =
        of(&file(4).replace("\"total_output_tokens\": 512", "\"total_output_tokens\": 5120"));
    assert!(notes(&wrong).contains("answers' tokens is 5120"), "{}", notes(&wrong));
    let swapped = file(9).replace("1370.0", "50.0");
    assert!(notes(&of(&swapped)).contains("longer than the mean of the whole"));
}

#[test]
fn a_torn_last_line_is_the_last_line_torn() {
    for place in [5, 7] {
        let (text, line) = (file(place), file(place).lines().next().expect("a line"));
        let twice = format!("{line}\n{line}\n");
        let count = |text: &str| of(text).levels.iter().map(|level| level.answered).sum::<u64>();
        for cut in [1, 20, line.len() / 2, line.len() - 1] {
            let torn = format!("{twice}{}", &line[..cut]);
            assert_eq!(count(&torn), count(&twice), "{torn}");
            assert!(notes(&of(&torn)).contains("torn"), "{torn}");
        }
        // In the middle it is a fault, and so is a file of nothing else.
        let middle = format!("{line}\n{}\n{line}\n", &line[..30]);
        assert!(read(&middle, &NONE).is_err(), "{middle}");
        assert!(read(&line[..30], &NONE).is_err());
        assert!(!notes(&of(text)).contains("torn"));
    }
}

/// A summary as `vllm bench serve --save-result` writes it, with other fields.
fn summary(change: &dyn Fn(&mut serde_json::Value)) -> Source {
    let mut value = serde_json::json!({
        "endpoint_type": "openai", "model_id": "m", "num_prompts": 10, "completed": 8, "failed": 2,
        "duration": 4.0, "request_rate": "inf", "max_concurrency": 4, "request_throughput": 2.0,
        "request_goodput": 1.5, "output_throughput": 20.0,
        "total_input_tokens": 80, "total_output_tokens": 80,
        "mean_ttft_ms": 20.0, "median_ttft_ms": 19.0, "p99_ttft_ms": 40.0,
    });
    change(&mut value);
    read(&value.to_string(), &Limits::default()).expect("a summary")
}

#[test]
fn failures_that_are_no_number_are_not_none() {
    let level = |failed: serde_json::Value| {
        let source = summary(&|one| one["failed"] = failed.clone());
        (source.levels[0].failures(), source.levels[0].notes.join("\n"))
    };
    let (failed, notes) = level(2.into());
    assert!(failed == 2 && !notes.contains("no number"), "{notes}");
    for other in [serde_json::json!("3"), serde_json::Value::Null] {
        let (failed, notes) = level(other);
        assert!(failed == 2 && notes.contains("count as failed"), "{failed} {notes}");
    }
    let source = summary(&|one| {
        one["failed"] = "3".into();
        one.as_object_mut().expect("an object").remove("num_prompts");
    });
    assert!(source.levels[0].notes.join("\n").contains("failed is not known"));
}

#[test]
fn a_summary_that_contradicts_itself_is_not_believed() {
    let whole = summary(&|_| {}).levels.remove(0);
    assert!(whole.goodput == Some(1.5) && whole.ttft.is_some(), "{whole:?}");
    let level = |key: &'static str, value: serde_json::Value| {
        let level = summary(&|one| one[key] = value.clone()).levels.remove(0);
        let notes = level.notes.join("\n");
        (level, notes)
    };
    let (more, notes) = level("request_goodput", 3.0.into());
    assert!(more.goodput.is_none() && notes.contains("goodput is not measured"), "{notes}");
    let (order, notes) = level("p99_ttft_ms", 10.0.into());
    assert!(order.ttft.is_none() && notes.contains("P50 of it is longer than P99"), "{notes}");
    let (none, notes) = level("completed", 0.into());
    assert!(none.goodput.is_none() && none.ttft.is_none(), "{none:?}");
    assert!(notes.contains("the rate of answered requests is 2"), "{notes}");
    let (endless, notes) = level("duration", 0.0.into());
    assert!(endless.goodput.is_none() && notes.contains("how long it lasted"), "{notes}");
}

#[test]
fn a_key_that_both_clients_write_names_neither() {
    assert_eq!(summary(&|one| one["accept_length"] = 2.5.into()).client, "vllm bench serve");
    let of_neither = summary(&|one| {
        one["accept_length"] = 2.5.into();
        for key in ["endpoint_type", "model_id"] {
            one.as_object_mut().expect("it").remove(key);
        }
    });
    assert_eq!(of_neither.client, "sglang.bench_serving");
}

/// A file's first value with other fields.
fn with(text: &str, change: impl Fn(&mut Value)) -> String {
    let mut value: Value = serde_json::from_str(&python::json(text)).expect("JSON");
    change(&mut value);
    value.to_string()
}

#[test]
fn guidellm_is_read_in_the_forms_of_its_earlier_versions() {
    let (now, text) = (of(file(11)), file(11));
    for place in ["beside", "of the run"] {
        let older = with(text, |value| {
            for one in value["benchmarks"].as_array_mut().expect("a list") {
                let totals = one["metrics"]["request_totals"].take();
                one["metrics"].as_object_mut().expect("a map").remove("request_totals");
                match place {
                    "beside" => one["request_totals"] = totals,
                    _ => one["run_stats"] = serde_json::json!({ "requests_made": totals }),
                }
                one["worker"] = serde_json::json!({ "backend_model": "m" });
                one["args"] = serde_json::json!({ "strategy": one["config"]["strategy"] });
                one.as_object_mut().expect("a map").remove("config");
            }
        });
        let older = of(&older);
        assert_eq!((older.client, older.model.as_deref()), ("guidellm", Some("m")), "{place}");
        assert_eq!(older.levels, now.levels, "{place}");
    }
}

#[test]
fn a_file_of_a_known_program_that_holds_no_level_says_which_one_to_give() {
    for (text, words) in [
        (r#"[{"error_code": null, "ttft_s": 0.1, "end_to_end_latency_s": 1.3}]"#, "_summary.json"),
        (r#"[{"start_time": 1, "info": {"output_token_times": [1.1]}}]"#, "summary_lifecycle"),
        (r#"{"experiments": [{"requests": []}], "version": "2"}"#, "profile_export_genai_perf"),
        (r#"{"elapsed_time": 50.0, "num_requests": 2, "tokens_per_second": 9.0}"#, "bench serve"),
        (r#"{"avg_latency": 1.3, "latencies": [1.3]}"#, "vllm bench latency"),
        (r#"[{"n_prompt": 512, "avg_ts": 1234.5}]"#, "llama-bench"),
        ("====== Serving Benchmark Result ======\nMean TTFT (ms): 3.1\n", "--save-result"),
    ] {
        let why = read(text, &NONE).expect_err(text);
        assert!(why.contains(words) && !why.contains("no client"), "{text}: {why}");
    }
}

#[test]
fn what_a_client_states_is_set_beside_what_it_measured() {
    // 200 answers of 1.4 s in 50 s are more than one at once.
    let vllm = "vllm bench serve";
    let (place, _) = FILES.iter().enumerate().find(|(_, (of, _))| *of == vllm).expect("one");
    let one = with(file(place), |value| {
        value["max_concurrency"] = 1.into();
        value["mean_e2el_ms"] = 1e4.into();
        value["completed"] = 100.into();
        value["duration"] = 50.0.into();
    });
    assert!(notes(&of(&one)).contains("requests under way on average"), "{}", notes(&of(&one)));
    // No file of a client contradicts itself.
    for (client, text) in FILES {
        let notes = notes(&of(text));
        assert!(!notes.contains("one of these is wrong"), "{client}: {notes}");
    }
    let aiperf = file(9);
    let cancelled = with(aiperf, |value| value["was_cancelled"] = true.into());
    assert!(notes(&of(&cancelled)).contains("was cancelled"));
    assert!(!notes(&of(aiperf)).contains("was cancelled"));
    let at_once = with(aiperf, |value| {
        let fields = value.as_object_mut().expect("a map");
        fields.remove("time_to_first_token");
        fields.remove("inter_token_latency");
    });
    assert!(notes(&of(&at_once)).contains("TTFT is not measured: the file has none"));
    assert!(!notes(&of(aiperf)).contains("not measured"), "{}", notes(&of(aiperf)));
}
