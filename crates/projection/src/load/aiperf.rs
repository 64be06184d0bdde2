//! Results of AIPerf: `profile_export.jsonl`, request by request, and `profile_export_aiperf.json`,
//! the summary, whose form genai-perf's `profile_export_genai_perf.json` has too. Keys as of AIPerf
//! 0.13 (its JSON export schema) and of genai_perf/export_data/json_exporter.py. What both call
//! `inter_token_latency` is one number for a request, which is TPOT here.

use super::{
    late,
    level::{Level, Limits, Offered, Request},
    read::{FROM_SENDING, Source, TORN, finite, numbers},
    summary::{self, Summary, Time},
    times::TIME_MAX,
};
use fizeau_domain::units::Seconds;
use serde_json::Value;
use std::collections::BTreeMap;

fn source(client: &'static str, about: &str, level: Level, model: Option<String>) -> Source {
    Source {
        client,
        model,
        date: None,
        about: Some(about.into()),
        cpu_seconds: None,
        levels: vec![level],
        notes: vec![FROM_SENDING.into()],
    }
}

/// Seconds in one of a unit.
fn scale(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" | "sec" | "seconds" => 1.0,
        _ => return None,
    })
}

/// A time of a record, in seconds.
fn seconds(metrics: &Value, name: &str) -> Option<f64> {
    let metric = &metrics[name];
    Some(finite(&metric["value"])? * scale(metric["unit"].as_str()?)?)
}

/// `profile_export.jsonl`.
///
/// # Errors
/// In words: where a line is none of its records, or no request was answered.
pub fn records(text: &str, limits: &Limits) -> Result<Source, String> {
    let (mut requests, mut failed) = (Vec::new(), BTreeMap::new());
    let (mut start, mut end) = (f64::INFINITY, f64::NEG_INFINITY);
    let (mut warmup, mut is_torn) = (0, false);
    let lines: Vec<(usize, &str)> =
        (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()).collect();
    for (place, (at, line)) in lines.iter().enumerate() {
        let value: Value = match serde_json::from_str(line) {
            Ok(value) => value,
            Err(error) if error.is_eof() && place > 0 && place + 1 == lines.len() => {
                is_torn = true;
                break;
            }
            Err(error) => return Err(format!("line {at}: {error}")),
        };
        let metadata = &value["metadata"];
        let phase = metadata["benchmark_phase"].as_str().unwrap_or("profiling");
        if !phase.eq_ignore_ascii_case("profiling") || metadata["was_cancelled"] == true {
            warmup += 1;
            continue;
        }
        let moment = |key: &str| finite(&metadata[key]).map(|moment| moment * 1e-9);
        let (Some(sent), Some(ended)) = (moment("request_start_ns"), moment("request_end_ns"))
        else {
            return Err(format!("line {at}: it lacks request_start_ns or request_end_ns"));
        };
        (start, end) = (start.min(sent), end.max(ended));
        let error = &value["error"];
        if !error.is_null() {
            let kind = error["type"].as_str().unwrap_or("not stated");
            *failed.entry(kind.to_owned()).or_insert(0) += 1;
            continue;
        }
        let request = request(&value["metrics"]).map_err(|why| format!("line {at}: {why}"))?;
        let due = moment("credit_issued_ns");
        let lateness = due.map(|due| sent - due).filter(|late| (0.0..=TIME_MAX).contains(late));
        requests.push((sent, Request { lateness, ..request }));
    }
    if requests.is_empty() {
        return Err("no request in it was answered".into());
    }
    requests.sort_by(|one, other| one.0.total_cmp(&other.0));
    let requests: Vec<Request> = requests.into_iter().map(|(_, request)| request).collect();
    let mut level = Level::of(Offered::default(), requests, failed, end - start, limits);
    let tails = level.lateness.as_ref().zip(level.ttft.as_ref());
    if let Some([late, first]) = tails.and_then(|(late, first)| late::beside(late, first)) {
        (level.goodput, level.kept) = (None, None);
        level.notes.push(format!(
            "the client itself was late: at P99 it sent a request {} after it was due \
             (credit_issued_ns), and no time includes this delay; the first token took {}. So the \
             file does not show which requests kept the limits for users",
            Seconds(late).human(),
            Seconds(first).human()
        ));
    }
    let about = "request by request; what was offered is not in this file";
    let mut source = source("AIPerf", about, level, None);
    if warmup > 0 {
        let words = format!(
            "{warmup} of its records are of the warm-up or a cool-down, or were cancelled, and \
             left out"
        );
        source.notes.push(words);
    }
    if is_torn {
        source.notes.push(TORN.into());
    }
    Ok(source)
}

fn request(metrics: &Value) -> Result<Request, String> {
    let count = |name: &str| finite(&metrics[name]["value"]);
    let input = count("input_sequence_length");
    let output = count("output_sequence_length").or_else(|| count("output_token_count"));
    let chunks = &metrics["inter_chunk_latency"];
    let unit = chunks["unit"].as_str().and_then(scale).unwrap_or(1e-3);
    let gaps: Vec<f64> = numbers(&chunks["value"]).unwrap_or_default();
    let output = summary::tokens(output, "output_sequence_length")?;
    let (ttft, e2el) =
        (seconds(metrics, "time_to_first_token"), seconds(metrics, "request_latency"));
    Ok(Request {
        ttft,
        e2el: Some(e2el.ok_or("it lacks request_latency")?),
        // Without the time of the first token the one of a token says how long the others took.
        decode: match ttft.filter(|first| *first > 0.0).zip(e2el) {
            Some((first, whole)) => Some(whole - first),
            None => seconds(metrics, "inter_token_latency")
                .filter(|_| ttft.is_none())
                .map(|token| token * (output - 1.0)),
        },
        input: summary::tokens(input, "input_sequence_length")?,
        output,
        is_chunked: gaps.len() as f64 + 1.0 != output,
        gaps: gaps.into_iter().map(|gap| gap * unit).collect(),
        ..Request::default()
    })
}

/// Whether it is a summary of AIPerf or of genai-perf: metrics with their units.
pub fn is_summary(value: &Value) -> bool {
    ["time_to_first_token", "request_latency"].iter().any(|key| value[key].get("unit").is_some())
}

/// Which of the two wrote a summary, by what the other does not write.
fn client(value: &Value) -> &'static str {
    let config = &value["input_config"];
    let has = |value: &Value, keys: &[&str]| keys.iter().any(|key| value.get(key).is_some());
    let aiperfs = ["aiperf_version", "benchmark_duration", "was_cancelled", "error_summary"];
    if has(value, &aiperfs) || has(config, &["loadgen", "cli_command"]) {
        "AIPerf"
    } else if has(config, &["profile_export_file", "extra_inputs"]) {
        "genai-perf"
    } else {
        "AIPerf or genai-perf, which write the same form"
    }
}

/// `profile_export_aiperf.json` or `profile_export_genai_perf.json`.
///
/// # Errors
/// In words: which number it lacks.
pub fn summary(value: &Value) -> Result<Source, String> {
    let mean = |name: &str| finite(&value[name]["avg"]);
    let needed = |name: &str| mean(name).ok_or_else(|| format!("it has no {name:?} with \"avg\""));
    needed("request_count")?;
    let answered = summary::count(&value["request_count"]["avg"], "request_count")?;
    let rate = needed("request_throughput")?;
    let failed = summary::count(&value["error_request_count"]["avg"], "").unwrap_or(0);
    let config = &value["input_config"];
    let of_config = |key: &str| {
        let of_load = &config["loadgen"][key];
        if of_load.is_null() { &config[key] } else { of_load }
    };
    let offered = Offered::stated(
        finite(of_config("request_rate")),
        None,
        summary::places(of_config("concurrency")),
    );
    let duration = if rate > 0.0 { answered as f64 / rate } else { 0.0 };
    let lengths = [
        summary::tokens(mean("input_sequence_length"), "input_sequence_length")?,
        summary::tokens(
            mean("output_sequence_length").or_else(|| mean("output_token_count")),
            "output_sequence_length",
        )?,
    ];
    let mut made = Summary::new(offered, [answered, failed], duration, lengths);
    for (time, name) in [
        (Time::Ttft, "time_to_first_token"),
        (Time::Tpot, "inter_token_latency"),
        (Time::E2el, "request_latency"),
    ] {
        let metric = &value[name];
        let Some(scale) = metric["unit"].as_str().and_then(scale) else { continue };
        let mean = finite(&metric["avg"]).map(|mean| mean * scale);
        made.time(time, mean, summary::quantiles(metric, summary::QUANTILES, scale));
    }
    made.goodput(mean("goodput"));
    made.rates_beside(None, mean("output_token_throughput"));
    let unit = value["benchmark_duration"]["unit"].as_str().and_then(scale);
    let stated = mean("benchmark_duration").zip(unit).map(|(time, scale)| time * scale);
    made.beside("the time that it lasted, in seconds,", stated, duration);
    let tokens = lengths.map(|mean| mean * answered as f64);
    made.beside("the sum of prompts' tokens", mean("total_isl"), tokens[0]);
    made.beside("the sum of answers' tokens", mean("total_osl"), tokens[1]);
    let model = [&config["endpoint"]["model_names"][0], &config["model"][0], &config["model"]];
    let model = model.into_iter().find_map(Value::as_str).map(str::to_owned);
    if value["was_cancelled"] == true {
        made.note("the client says that its run was cancelled: it ended before its time");
    }
    let about = "a summary: there are no requests to look at one by one";
    Ok(source(client(value), about, made.level(), model))
}
