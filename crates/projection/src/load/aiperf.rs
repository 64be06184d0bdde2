//! Results of AIPerf: `profile_export.jsonl`, request by request, and `profile_export_aiperf.json`,
//! the summary. Keys as of AIPerf 0.13 (its JSON export schema). What AIPerf calls
//! `inter_token_latency` is one number for a request, which is TPOT here.

use super::{
    level::{Level, Limits, Offered, Request},
    read::{COUNT_MAX, Source, finite, finite_list},
    times::{Quantile, Times},
};
use serde_json::Value;
use std::collections::BTreeMap;

fn source(about: &str, level: Level, model: Option<String>) -> Source {
    Source {
        client: "AIPerf",
        model,
        date: None,
        about: Some(about.into()),
        cpu_seconds: None,
        levels: vec![level],
        notes: vec![
            "TTFT and E2EL of this client count from the moment of sending: what the client itself \
             was late by is in none of its numbers"
                .into(),
        ],
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
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let value: Value =
            serde_json::from_str(line).map_err(|error| format!("line {}: {error}", at + 1))?;
        let moment = |key: &str| finite(&value["metadata"][key]).map(|moment| moment * 1e-9);
        let (Some(sent), Some(ended)) = (moment("request_start_ns"), moment("request_end_ns"))
        else {
            return Err(format!("line {}: it lacks request_start_ns or request_end_ns", at + 1));
        };
        (start, end) = (start.min(sent), end.max(ended));
        let error = &value["error"];
        if !error.is_null() {
            let kind = error["type"].as_str().unwrap_or("not stated");
            *failed.entry(kind.to_owned()).or_insert(0) += 1;
            continue;
        }
        requests.push((
            sent,
            request(&value["metrics"]).ok_or_else(|| {
                format!("line {}: it lacks request_latency or a sequence length", at + 1)
            })?,
        ));
    }
    if requests.is_empty() {
        return Err("no request in it was answered".into());
    }
    requests.sort_by(|one, other| one.0.total_cmp(&other.0));
    let requests: Vec<Request> = requests.into_iter().map(|(_, request)| request).collect();
    let level = Level::of(Offered::default(), &requests, failed, end - start, limits);
    Ok(source("request by request; what was offered is not in this file", level, None))
}

fn request(metrics: &Value) -> Option<Request> {
    let count = |name: &str| finite(&metrics[name]["value"]);
    let output = count("output_sequence_length").or_else(|| count("output_token_count"))?;
    let chunks = &metrics["inter_chunk_latency"];
    let unit = chunks["unit"].as_str().and_then(scale).unwrap_or(1e-3);
    let gaps: Vec<f64> = finite_list(&chunks["value"]).unwrap_or_default();
    Some(Request {
        ttft: seconds(metrics, "time_to_first_token"),
        e2el: seconds(metrics, "request_latency")?,
        input: count("input_sequence_length")?,
        output,
        is_chunked: gaps.len() as f64 + 1.0 != output,
        gaps: gaps.into_iter().map(|gap| gap * unit).collect(),
        ..Request::default()
    })
}

/// `profile_export_aiperf.json`.
///
/// # Errors
/// In words: which number it lacks.
pub fn summary(value: &Value) -> Result<Source, String> {
    let mean = |name: &str| finite(&value[name]["avg"]);
    let needed = |name: &str| mean(name).ok_or_else(|| format!("it has no {name:?} with \"avg\""));
    let answered = needed("request_count")?;
    let rate = needed("request_throughput")?;
    let times = |name: &str| times(&value[name], answered as u64);
    let failed = mean("error_request_count").filter(|count| *count > 0.0);
    let failed = failed.map(|count| ("not stated".to_owned(), count.clamp(0.0, COUNT_MAX) as u64));
    let config = &value["input_config"];
    let of_config = |key: &str| {
        let of_load = finite(&config["loadgen"][key]);
        of_load.or_else(|| finite(&config[key])).filter(|number| *number > 0.0)
    };
    let offered = Offered {
        rate: of_config("request_rate"),
        burstiness: None,
        concurrency: of_config("concurrency").map(|most| most as u32),
    };
    let duration = if rate > 0.0 { answered / rate } else { 0.0 };
    let failed = failed.into_iter().collect();
    let mut level = Level::of(offered, &[], failed, duration, &Limits::default());
    level.answered = answered as u64;
    level.input = needed("input_sequence_length")?;
    level.output =
        mean("output_sequence_length").map_or_else(|| needed("output_token_count"), Ok)?;
    level.ttft = times("time_to_first_token");
    level.tpot = times("inter_token_latency");
    level.e2el = times("request_latency");
    level.goodput = mean("goodput");
    let model = config["endpoint"]["model_names"][0].as_str().map(str::to_owned);
    Ok(source("a summary: there are no requests to look at one by one", level, model))
}

fn times(metric: &Value, count: u64) -> Option<Times> {
    let scale = scale(metric["unit"].as_str()?)?;
    let time = |key: &str| finite(&metric[key]).map(|time| time * scale);
    let shares = [(0.5, "p50"), (0.75, "p75"), (0.9, "p90"), (0.95, "p95"), (0.99, "p99")];
    let quantile = |(share, key): (f64, &str)| {
        Some(Quantile { share, value: time(key)?, low: None, high: None })
    };
    let quantiles = shares.into_iter().filter_map(quantile).collect();
    Some(Times { count, mean: time("avg")?, min: time("min"), max: time("max"), quantiles })
}
