//! Results of clients, and the join with what the hardware allows.

use fizeau::data::Catalogue;
use fizeau_domain::model::{Format, Model};
use fizeau_projection::{
    load::{self, Engine, Joined, Line, Row, Source, Times, capacity::Goal, level::Limits},
    project::Hardware,
};
use fizeau_report::{
    Block, Document, LoadJoin, LoadResults,
    format::{csv, html, terminal},
};
use serde_json::json;

const NONE: Limits = Limits { ttft: None, tpot: None, e2el: None };

/// What `vllm bench serve --save-result` writes, without its details.
fn vllm_summary() -> serde_json::Value {
    json!({
        "date": "20261120-101500", "endpoint_type": "vllm", "backend": "vllm", "label": "vllm",
        "model_id": "m", "tokenizer_id": "m", "num_prompts": 40, "request_rate": 4.0,
        "burstiness": 1.0, "max_concurrency": null, "duration": 10.0, "completed": 40,
        "failed": 0, "total_input_tokens": 40_000, "total_output_tokens": 4_000,
        "request_throughput": 4.0, "request_goodput": null, "output_throughput": 400.0,
        "total_token_throughput": 4400.0, "mean_ttft_ms": 50.0, "median_ttft_ms": 45.0,
        "std_ttft_ms": 5.0, "p99_ttft_ms": 90.0, "mean_tpot_ms": 10.0, "median_tpot_ms": 9.0,
        "std_tpot_ms": 1.0, "p99_tpot_ms": 12.0, "mean_itl_ms": 10.0, "median_itl_ms": 9.5,
        "std_itl_ms": 1.0, "p99_itl_ms": 30.0
    })
}

fn near(one: f64, other: f64) {
    assert!((one - other).abs() <= 1e-9 * one.abs().max(1e-9), "{one} and {other}");
}

#[test]
fn a_summary_of_vllm_is_read_with_its_units() {
    let source = load::read(&vllm_summary().to_string(), &NONE).expect("it is understood");
    assert_eq!((source.client, source.model.as_deref()), ("vllm bench serve", Some("m")));
    let level = &source.levels[0];
    assert_eq!(level.offered.describe(), "4 requests/s, open loop");
    near(level.ttft.as_ref().expect("times").mean.expect("known"), 0.05);
    near(level.tpot.as_ref().expect("times").median().expect("known"), 0.009);
    near(level.tpot.as_ref().and_then(|times| times.at(0.99)).expect("P99").value, 0.012);
    assert_eq!((level.input, level.output, level.answered), (1000.0, 100.0, 40));
    // Four requests a second, each 99 tokens of 10 ms in decode.
    near(level.decoding().expect("it follows"), 4.0 * 0.99);
}

#[test]
fn details_of_vllm_are_read_request_by_request() {
    let mut value = vllm_summary();
    let details = json!({
        "input_lens": [10, 10, 10], "output_lens": [3, 0, 4], "ttfts": [0.2, 0.0, 0.1],
        "itls": [[0.1, 0.3], [], [0.2, 0.2]], "start_times": [5.0, 4.0, 1.0],
        "errors": ["", "boom", ""], "generated_texts": ["a", "", "b"]
    });
    let object = value.as_object_mut().expect("an object");
    object.extend(details.as_object().expect("an object").clone());
    let source = load::read(&value.to_string(), &NONE).expect("it is understood");
    let level = &source.levels[0];
    assert_eq!((level.answered, level.failures(), level.chunked), (2, 1, 1));
    // (0.1 + 0.3) / 2 and, of 4 tokens in 3 chunks, 0.4 / 3.
    near(level.tpot.as_ref().expect("times").mean.expect("known"), (0.2 + 0.4 / 3.0) / 2.0);
    assert_eq!(level.itl.as_ref().expect("times").count, 2, "chunks of several tokens count not");
    near(level.e2el.as_ref().expect("times").mean.expect("known"), (0.6 + 0.5) / 2.0);
    // Two results one after the other, as --append-result writes them, are two levels.
    let twice = format!("{value}\n{}", vllm_summary());
    assert_eq!(load::read(&twice, &NONE).expect("both").levels.len(), 2);
    let limits = Limits { ttft: Some(0.15), ..NONE };
    let source = load::read(&value.to_string(), &limits).expect("it is understood");
    near(source.levels[0].goodput.expect("limits are given"), 1.0 / 10.0);
}

#[test]
fn results_of_aiperf_are_read() {
    let record = |start: u64, ttft: f64| {
        json!({
            "metadata": {"request_start_ns": start, "request_end_ns": start + 1_000_000_000},
            "metrics": {
                "input_sequence_length": {"value": 550, "unit": "tokens"},
                "output_sequence_length": {"value": 3, "unit": "tokens"},
                "time_to_first_token": {"value": ttft, "unit": "ms"},
                "request_latency": {"value": 300.0, "unit": "ms"},
                "inter_chunk_latency": {"value": [20.0, 30.0], "unit": "ms"}
            },
            "error": null
        })
    };
    let failed = json!({
        "metadata": {"request_start_ns": 0, "request_end_ns": 5}, "metrics": null,
        "error": {"code": 499, "type": "RequestCancellationError", "message": "x"}
    });
    let text = format!("{}\n{failed}\n{}\n", record(0, 250.0), record(1_000_000_000, 200.0));
    let source = load::read(&text, &NONE).expect("it is understood");
    let level = &source.levels[0];
    assert_eq!((level.answered, level.failed["RequestCancellationError"]), (2, 1));
    near(level.ttft.as_ref().expect("times").mean.expect("known"), 0.225);
    near(level.tpot.as_ref().expect("times").mean.expect("known"), (0.025 + 0.05) / 2.0);
    near(level.duration, 2.0);
    let metric = |avg: f64, unit: &str| json!({"unit": unit, "avg": avg, "p50": avg, "p99": avg});
    let summary = json!({
        "request_count": metric(10.0, "requests"),
        "request_throughput": metric(2.0, "requests/sec"),
        "time_to_first_token": metric(50.0, "ms"), "inter_token_latency": metric(10.0, "ms"),
        "request_latency": metric(1040.0, "ms"), "input_sequence_length": metric(128.0, "tokens"),
        "output_sequence_length": metric(100.0, "tokens"),
        "input_config": {"loadgen": {"concurrency": 4}}
    });
    let level = &load::read(&summary.to_string(), &NONE).expect("it is understood").levels[0];
    assert_eq!(level.offered.describe(), "4 at once, closed loop");
    near(level.duration, 5.0);
    near(level.tpot.as_ref().expect("times").mean.expect("known"), 0.01);
}

#[test]
fn what_is_no_result_is_refused_in_words() {
    let mut bad = vllm_summary();
    bad["duration"] = json!("long");
    for (text, words) in [
        (String::new(), "empty"),
        ("{".into(), "no JSON"),
        ("{\"a\": 1}".into(), "no client that is known"),
        (bad.to_string(), "\"duration\" is no number"),
        ("{\"load\":{\"version\":99}}\n".into(), "line 1"),
        ("{\"completed\":1,\"duration\":1,\"ttfts\":[1],\"input_lens\":[]}".into(), "output_lens"),
    ] {
        let why = load::read(&text, &NONE).expect_err(&text);
        assert!(why.contains(words), "{text}: {why}");
    }
}

fn own(rows: &[Row], is_whole: bool) -> String {
    let plan = load::Plan { rate: Some(2.0), requests: 3, warmup: 1, ..load::Plan::default() };
    let header = load::Header {
        version: 1,
        model: "own".into(),
        levels: vec![plan],
        ..load::Header::default()
    };
    let mut lines = vec![Line::Load(header)];
    lines.extend(rows.iter().cloned().map(Line::Request));
    if is_whole {
        lines.push(Line::End(load::Stop::default()));
    }
    lines.iter().map(|line| serde_json::to_string(line).expect("JSON") + "\n").collect()
}

fn row(number: u64, scheduled: f64) -> Row {
    Row {
        number,
        is_warmup: number == 0,
        scheduled,
        sent: scheduled + 0.25,
        first: Some(scheduled + 0.5),
        last: Some(scheduled + 1.5),
        ended: scheduled + 1.5,
        asked_input: 100,
        asked_output: 5,
        input: Some(100),
        output: Some(5),
        chunks: 5,
        gaps: vec![0.25; 4],
        server_prompt: Some(0.125),
        server_answer: Some(1.0),
        ..Row::default()
    }
}

#[test]
fn a_file_of_our_own_counts_from_the_scheduled_moment() {
    let refused =
        Row { ending: load::Ending::Refused, first: None, last: None, output: None, ..row(3, 2.0) };
    let rows = [row(2, 1.0), row(0, 0.0), row(1, 0.5), refused];
    let source = load::read(&own(&rows, true), &NONE).expect("it is understood");
    let level = &source.levels[0];
    assert_eq!((level.answered, level.failed["connection refused"]), (2, 1));
    near(level.ttft.as_ref().expect("times").mean.expect("known"), 0.5);
    near(level.lateness.as_ref().expect("times").mean.expect("known"), 0.25);
    near(level.tpot.as_ref().expect("times").mean.expect("known"), 0.25);
    near(level.over_server.expect("the server states it"), 1.0);
    assert!(source.notes.is_empty() && level.notes.is_empty(), "{source:?}");
}

#[test]
fn a_run_that_was_killed_keeps_what_had_ended() {
    let whole = own(&[row(0, 0.0), row(1, 0.5), row(2, 1.0)], false);
    let torn = &whole[..whole.len() - 20];
    let source = load::read(torn, &NONE).expect("it is understood");
    assert_eq!(source.levels[0].answered, 1);
    let notes = source.notes.join(" ");
    assert!(notes.contains("killed") && notes.contains("torn"), "{notes}");
    assert!(source.levels[0].notes[0].contains("1 of 3 requests"), "{:?}", source.levels[0].notes);
    // A line in the middle is no torn end.
    let broken = whole.replacen("\"scheduled\"", "\"sched", 1);
    assert!(load::read(&broken, &NONE).is_err());
}

#[test]
fn a_foreign_tokenizer_is_told() {
    let wrong = |number| Row { input: Some(362), ..row(number, number as f64) };
    let source = load::read(&own(&[wrong(1), wrong(2)], true), &NONE).expect("understood");
    let notes = source.levels[0].notes.join(" ");
    assert!(notes.contains("the server counted 362"), "{notes}");
}

#[test]
fn few_values_have_no_upper_bound_of_a_high_quantile() {
    let mut random = oorandom::Rand64::new(3);
    let mut values = |count: usize| -> Vec<f64> {
        (0..count).map(|_| -random.rand_float().max(1e-12).ln()).collect()
    };
    let times = Times::of(&values(60)).expect("values");
    assert!(times.at(0.99).is_none() && times.at(0.999).is_none(), "P99 of 60 values");
    let times = Times::of(&values(2_000)).expect("values");
    let p999 = times.at(0.999).expect("2,000 values");
    assert!(p999.low.is_some() && p999.high.is_none(), "{p999:?}");
    let p50 = times.at(0.5).expect("a median");
    assert!(p50.low < Some(p50.value) && Some(p50.value) < p50.high, "{p50:?}");
    let times = Times::of(&values(20_000)).expect("values");
    assert!(times.at(0.999).expect("many").high.is_some());
    assert_eq!(Times::of(&[f64::NAN]), None);
}

/// How often the intervals of quantiles hold the truth, for values in a first-order autoregression.
#[test]
fn intervals_of_quantiles_hold_the_truth_as_often_as_they_say() {
    let mut random = oorandom::Rand64::new(11);
    let mut normal = move || {
        let (a, b) = (random.rand_float().max(1e-300), random.rand_float());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    };
    let (runs, count) = (200, 1_000);
    for correlation in [0.0, 0.8] {
        let scale = f64::sqrt(1.0 - correlation * correlation);
        // Quantiles of the standard normal distribution.
        let truths = [(0.5, 0.0), (0.95, 1.644_853_627), (0.99, 2.326_347_874)];
        let mut held = [0; 3];
        for _ in 0..runs {
            let mut value = normal();
            let mut next = || {
                value = correlation * value + scale * normal();
                value
            };
            let values: Vec<f64> = (0..count).map(|_| next()).collect();
            let times = Times::of(&values).expect("values");
            for (held, (share, truth)) in held.iter_mut().zip(truths) {
                let one = times.at(share).expect("enough values");
                let low = one.low.is_none_or(|low| low <= truth);
                let high = one.high.is_none_or(|high| truth <= high);
                *held += i32::from(low && high);
            }
        }
        for (held, (share, _)) in held.iter().zip(truths) {
            let part = f64::from(*held) / f64::from(runs);
            assert!(part >= 0.90, "{part} of P{} at correlation {correlation}", share * 100.0);
        }
    }
}

struct Served {
    model: Model,
    hardware: Hardware,
}

fn served() -> Served {
    let catalogue = Catalogue::load(None).expect("built in");
    let part = catalogue.parts.iter().find(|part| part.id == "h200-sxm").expect("a part");
    Served {
        model: catalogue.model("llama-3.1-8b").expect("built in"),
        hardware: Hardware::of_part(part).expect("it is stated"),
    }
}

fn joined(served: &Served, source: &Source) -> Vec<Joined> {
    let engine = engine(served);
    let join = |level: &load::Level| load::join(level.clone(), &engine).expect("all is known");
    source.levels.iter().map(join).collect()
}

fn engine(served: &Served) -> Engine<'_> {
    Engine {
        model: &served.model,
        hardware: &served.hardware,
        layout: "tp1".parse().expect("a layout"),
        kv: Format::Bf16,
        prefix: 0.0,
    }
}

#[test]
fn the_join_adds_up() {
    let served = served();
    let source = load::read(&vllm_summary().to_string(), &NONE).expect("it is understood");
    let one = &joined(&served, &source)[0];
    near(one.sequences, 3.96);
    let token = one.tpot.expect("TPOT is known");
    // 8.03 x 10^9 weights of 2 bytes, less the embedding's gather, at 4.8 TB/s: 3.1 to 3.5 ms.
    assert!((3.0e-3..3.5e-3).contains(&token.tiers.light), "{}", token.tiers.light);
    assert!(token.tiers.light <= token.tiers.serial);
    near(token.of_light(), token.tiers.light / 0.01);
    let sum: f64 = one.explained.iter().map(|part| part.seconds).sum();
    near(sum, 0.01);
    assert_eq!(one.explained.last().map(|last| last.name.as_str()), Some("not explained"));
    let parts = one.parts.expect("TTFT and TPOT are known");
    near(parts.whole, 0.05 + 99.0 * 0.01);
    near(parts.client + parts.queue + parts.prefill + parts.decode, parts.whole);
    assert!(one.beyond_light().is_empty());
}

#[test]
fn one_request_at_once_meets_no_prompts_of_others() {
    let served = served();
    let with = |most: serde_json::Value| {
        let mut value = vllm_summary();
        value["max_concurrency"] = most;
        let source = load::read(&value.to_string(), &NONE).expect("it is understood");
        let one = joined(&served, &source).remove(0);
        let of_others = one.explained.iter().find(|part| part.name.starts_with("prompts"));
        of_others.map(|part| part.seconds)
    };
    let (open, eight) = (with(json!(null)), with(json!(8)));
    assert!(open > eight && eight > Some(0.0), "{open:?} {eight:?}");
    assert_eq!(with(json!(1)), None);
}

#[test]
fn what_is_faster_than_light_is_said() {
    let served = served();
    let mut value = vllm_summary();
    value["mean_tpot_ms"] = json!(1.0);
    let source = load::read(&value.to_string(), &NONE).expect("it is understood");
    let levels = joined(&served, &source);
    assert_eq!(levels[0].beyond_light(), ["TPOT"]);
    let document = document(&served, source, levels);
    let failures = document.blocks.iter().filter(|block| matches!(block, Block::Failure(_)));
    assert_eq!(failures.count(), 1);
}

fn document(served: &Served, source: Source, levels: Vec<Joined>) -> Document {
    let results = [LoadResults { file: "a.json".into(), source }];
    fizeau_report::load(
        &results,
        Some(&LoadJoin { engine: engine(served), levels }),
        &Goal::default(),
    )
}

/// Figures of a load mean nothing without the server, the settings and the date.
#[test]
fn the_page_begins_with_what_was_sent_and_when() {
    let served = served();
    let source = load::read(&vllm_summary().to_string(), &NONE).expect("a summary");
    let levels = joined(&served, &source);
    let date = source.date.clone().expect("the client states it");
    let document = document(&served, source, levels);
    let first = document.blocks.first();
    assert!(matches!(first, Some(Block::Text(words)) if words.contains(&date)), "{first:?}");
}

/// A dash for a P99 never stands without its reason, on the page and at the end of `load`.
#[test]
fn a_missing_tail_has_its_reason() {
    let of_rows = |count: u64| {
        let rows: Vec<Row> = (0..count).map(|at| row(at, at as f64 * 0.5)).collect();
        load::read(&own(&rows, true), &NONE).expect("it is understood")
    };
    let mut summary = vllm_summary();
    summary["p99_ttft_ms"].take();
    let stated_none = load::read(&summary.to_string(), &NONE).expect("a summary");
    for (source, words) in [
        (of_rows(60), Some("A dash for P99: it needs 100 answered requests")),
        (of_rows(140), None),
        (stated_none, Some("its file states none")),
    ] {
        let results = [LoadResults { file: "a.json".into(), source }];
        let page = fizeau_report::load(&results, None, &Goal::default());
        let screen = fizeau_report::load_summary(&results, &Goal::default());
        for document in [page, screen] {
            let note = document.blocks.iter().find_map(|block| match block {
                Block::Note(note) if note.contains("P99") => Some(note),
                _ => None,
            });
            match words {
                Some(words) => assert!(note.is_some_and(|note| note.contains(words)), "{note:?}"),
                None => assert_eq!(note, None),
            }
        }
    }
}

#[test]
fn the_servers_own_clock_splits_the_first_token() {
    let served = served();
    let source = load::read(&own(&[row(1, 0.0), row(2, 1.0)], true), &NONE).expect("understood");
    let one = &joined(&served, &source)[0];
    let parts = one.parts.expect("all is known");
    assert_eq!(parts.basis, load::Basis::Server);
    near(parts.client, 0.25);
    near(parts.prefill, 0.125);
    near(parts.queue, 0.125);
}

#[test]
fn hostile_names_are_harmless_in_every_format() {
    let served = served();
    let mut value = vllm_summary();
    let hostile = "=cmd|' /C calc'!A0\u{1b}[31m<script>alert(1)</script>\u{202e}";
    value["model_id"] = json!(hostile);
    value["backend"] = json!(hostile);
    let source = load::read(&value.to_string(), &NONE).expect("it is understood");
    let levels = joined(&served, &source);
    let results = [LoadResults { file: hostile.into(), source }];
    let join = LoadJoin { engine: engine(&served), levels };
    let document = fizeau_report::load(&results, Some(&join), &Goal::default());
    let window = terminal::Terminal { width: None, colour: terminal::Colour::Never };
    let plain = terminal::render(&document, window);
    assert!(!plain.contains('\u{1b}') && !plain.contains('\u{202e}'), "{plain}");
    let page = html::render(&document).expect("charts can be drawn");
    assert!(!page.contains("<script>alert"), "a script in the page");
    let table = csv::of_tables(&document, &["levels"]).expect("it can be written");
    assert!(table.lines().skip(1).all(|line| !line.starts_with('=')), "{table}");
}

#[test]
fn what_is_written_for_vllm_is_read_as_the_same() {
    let row = |number: u64| {
        let scheduled = number as f64 * 0.25;
        let first = scheduled + 0.05 + 0.001 * (number % 7) as f64;
        Row {
            number,
            scheduled,
            sent: scheduled,
            first: Some(first),
            last: Some(first + 0.03),
            ended: first + 0.03,
            asked_input: 10,
            asked_output: 4,
            output: Some(4),
            chunks: 4,
            gaps: vec![0.01; 3],
            ..Row::default()
        }
    };
    let plan = load::Plan { rate: Some(4.0), requests: 40, ..load::Plan::default() };
    let rows: Vec<Row> = (0..40).map(row).collect();
    let level = load::Level::of_rows(&plan, &rows.iter().collect::<Vec<_>>(), &NONE);
    let header = Line::Load(load::Header {
        version: 1,
        model: "m".into(),
        levels: vec![plan],
        ..load::Header::default()
    });
    let mut text = serde_json::to_string(&header).expect("JSON") + "\n";
    for row in rows {
        text += &(serde_json::to_string(&Line::Request(row)).expect("JSON") + "\n");
    }
    let source = load::read(&text, &NONE).expect("read");
    let written = load::vllm::written(&source, &source.levels[0]).to_string();
    let again = load::read(&written, &NONE).expect("read again");
    assert_eq!((again.client, again.model.as_deref()), ("vllm bench serve", Some("m")));
    let again = &again.levels[0];
    let near = |one: &Option<Times>, other: &Option<Times>| {
        let (one, other) = (one.as_ref().expect("times"), other.as_ref().expect("times"));
        assert!(
            (one.mean.expect("known") / other.mean.expect("known") - 1.0).abs() < 1e-6,
            "{one:?} {other:?}"
        );
        let medians = one.median().zip(other.median()).expect("known");
        assert!((medians.0 / medians.1 - 1.0).abs() < 1e-6, "{one:?} {other:?}");
    };
    near(&again.ttft, &level.ttft);
    near(&again.tpot, &level.tpot);
    near(&again.itl, &level.itl);
    near(&again.e2el, &level.e2el);
    assert_eq!((again.answered, again.offered), (40, level.offered));
}
