//! Results of `vllm bench serve --save-result`, with `--save-detailed` request by request.
//!
//! Keys as of vllm/benchmarks/serve.py of vLLM 0.32. Times of requests are in seconds and count
//! from the moment of sending, summaries are in milliseconds.

use super::{
    level::{Level, Limits, Offered, Request},
    read::{COUNT_MAX, Source, finite, finite_list},
    times::{Quantile, Times},
};
use fizeau_domain::stats::quantile;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Every result of a file (`--append-result` writes one after the other).
pub fn results(all: &[Value], limits: &Limits) -> Result<Source, String> {
    let levels = all.iter().map(|value| level(value, limits)).collect::<Result<Vec<_>, _>>()?;
    let text = |key: &str| all.first().and_then(|value| value[key].as_str()).map(str::to_owned);
    let mut notes = vec![
        "TTFT and E2EL of this client count from the moment of sending: what the client itself was \
         late by is in none of its numbers"
            .to_owned(),
    ];
    if all.iter().any(|value| value.get("spec_decode_acceptance_length").is_some()) {
        notes.push(
            "the server decodes speculatively: a step makes more than one token of a sequence, and \
             tokens may come faster than one step each"
                .into(),
        );
    }
    if all.iter().any(|value| value["burstiness"].as_f64().is_some_and(|shape| shape != 1.0)) {
        notes.push("arrivals are gamma with a burstiness other than 1: no Poisson process".into());
    }
    Ok(Source {
        client: "vllm bench serve",
        model: text("model_id"),
        date: text("date"),
        about: text("backend").map(|backend| format!("backend {backend}")),
        cpu_seconds: None,
        levels,
        notes,
    })
}

fn level(value: &Value, limits: &Limits) -> Result<Level, String> {
    let number = |key: &str| {
        let number = finite(&value[key]).filter(|number| *number >= 0.0);
        number.ok_or_else(|| format!("{key:?} is no number of 0 or more"))
    };
    let duration = number("duration")?;
    let most = value["max_concurrency"].as_u64().and_then(|most| u32::try_from(most).ok());
    let rate = finite(&value["request_rate"]).filter(|rate| *rate > 0.0);
    let burstiness = finite(&value["burstiness"]);
    let offered = Offered { rate, burstiness, concurrency: most };
    if let Some(detailed) = detailed(value)? {
        let (requests, failed) = detailed;
        return Ok(Level::of(offered, &requests, failed, duration, limits));
    }
    let answered = number("completed")?.min(COUNT_MAX);
    let each = |key: &str| Ok::<_, String>(number(key)? / answered.max(1.0));
    let failed = finite(&value["failed"]).unwrap_or(0.0).clamp(0.0, COUNT_MAX) as u64;
    let failed = (failed > 0).then(|| ("not stated".to_owned(), failed)).into_iter().collect();
    let times = |name: &str| summary(value, name, answered as u64);
    let mut level = Level::of(offered, &[], failed, duration, &Limits::default());
    level.answered = answered as u64;
    (level.input, level.output) = (each("total_input_tokens")?, each("total_output_tokens")?);
    (level.ttft, level.tpot) = (times("ttft"), times("tpot"));
    (level.itl, level.e2el) = (times("itl"), times("e2el"));
    level.goodput = finite(&value["request_goodput"]);
    level.notes.push("without --save-detailed there are no requests to look at one by one".into());
    Ok(level)
}

fn summary(value: &Value, name: &str, count: u64) -> Option<Times> {
    let time = |what: &str| finite(&value[format!("{what}_{name}_ms")]).map(|time| time / 1e3);
    let shares = [(0.5, "median"), (0.75, "p75"), (0.9, "p90"), (0.95, "p95"), (0.99, "p99")];
    let shares = shares.into_iter().chain([(0.999, "p99.9")]);
    let quantile = |(share, key): (f64, &str)| {
        Some(Quantile { share, value: time(key)?, low: None, high: None })
    };
    let quantiles = shares.filter_map(quantile).collect();
    (count > 0).then_some(())?;
    Some(Times { count, mean: time("mean")?, min: None, max: None, quantiles })
}

type Detailed = (Vec<Request>, BTreeMap<String, u64>);

/// Request by request, where the file has that.
fn detailed(value: &Value) -> Result<Option<Detailed>, String> {
    let Some(firsts) = value.get("ttfts") else { return Ok(None) };
    let list = |key: &str| {
        finite_list(&value[key]).ok_or_else(|| format!("{key:?} is no list of numbers"))
    };
    let firsts = finite_list(firsts).ok_or("\"ttfts\" is no list of numbers")?;
    let (inputs, outputs) = (list("input_lens")?, list("output_lens")?);
    let gaps = value["itls"].as_array().ok_or("\"itls\" is no list")?;
    let starts = value.get("start_times").and_then(finite_list);
    let errors = value["errors"].as_array();
    if [inputs.len(), outputs.len(), gaps.len()].iter().any(|length| *length != firsts.len()) {
        return Err("its lists are not of one length".into());
    }
    let mut order: Vec<usize> = (0..firsts.len()).collect();
    if let Some(starts) = starts.filter(|starts| starts.len() == firsts.len()) {
        order.sort_by(|one, other| starts[*one].total_cmp(&starts[*other]));
    }
    let (mut requests, mut failed) = (Vec::new(), BTreeMap::new());
    for at in order {
        let error = errors.and_then(|errors| errors.get(at)).and_then(Value::as_str);
        // A request that failed has no tokens, and its times are zeros.
        if error.is_some_and(|error| !error.is_empty()) || outputs[at] < 1.0 {
            *failed.entry("error of the client or server".to_owned()).or_insert(0) += 1;
            continue;
        }
        let gaps = finite_list(&gaps[at]).ok_or("\"itls\" is no list of lists of numbers")?;
        requests.push(Request {
            ttft: Some(firsts[at]),
            e2el: firsts[at] + gaps.iter().sum::<f64>(),
            lateness: None,
            input: inputs[at],
            output: outputs[at],
            is_chunked: gaps.len() as f64 + 1.0 != outputs[at],
            gaps,
            ..Request::default()
        });
    }
    Ok(Some((requests, failed)))
}

/// Quantiles that `vllm bench serve` may be asked for (--metric-percentiles), as its keys say.
const PERCENTILES: [(f64, &str); 6] =
    [(0.5, "p50"), (0.75, "p75"), (0.9, "p90"), (0.95, "p95"), (0.99, "p99"), (0.999, "p99.9")];

/// A level under the keys of `vllm bench serve --save-result --save-detailed`, for whatever reads
/// those. Times of requests are seconds, summaries milliseconds. What no such file can say stands
/// under `fizeau`: this program's client counts from the scheduled moment.
pub fn written(source: &Source, level: &Level) -> Value {
    let mut map = Map::new();
    let mut put = |key: &str, value: Value| map.insert(key.to_owned(), value);
    let requests = &level.requests;
    let tokens = |of: fn(&Request) -> f64| requests.iter().map(of).sum::<f64>();
    let (input, output) = match requests.is_empty() {
        true => (level.input * level.answered as f64, level.output * level.answered as f64),
        false => (tokens(|one| one.input), tokens(|one| one.output)),
    };
    let rate = |count: f64| if level.duration > 0.0 { count / level.duration } else { 0.0 };
    put("date", json!(source.date));
    put("backend", json!("fizeau"));
    put("endpoint_type", json!("fizeau"));
    put("label", Value::Null);
    put("model_id", json!(source.model));
    put("tokenizer_id", json!(source.model));
    put("num_prompts", json!(level.answered + level.failures()));
    put("request_rate", level.offered.rate.map_or_else(|| json!("inf"), |rate| json!(rate)));
    put("burstiness", json!(level.offered.burstiness));
    put("max_concurrency", json!(level.offered.concurrency));
    put("duration", json!(level.duration));
    put("completed", json!(level.answered));
    put("failed", json!(level.failures()));
    put("total_input_tokens", json!(input));
    put("total_output_tokens", json!(output));
    put("request_throughput", json!(rate(level.answered as f64)));
    put("request_goodput", json!(level.goodput));
    put("output_throughput", json!(rate(output)));
    put("total_token_throughput", json!(rate(input + output)));
    let gaps = || requests.iter().flat_map(|one| one.gaps.iter().copied());
    let all: [(&str, Vec<f64>); 4] = [
        ("ttft", requests.iter().filter_map(|one| one.ttft).collect()),
        ("tpot", requests.iter().filter_map(Request::tpot).collect()),
        ("itl", gaps().collect()),
        ("e2el", requests.iter().map(|one| one.e2el).collect()),
    ];
    for (name, values) in all {
        let finite: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        let sorted = quantile::sorted(&finite);
        if sorted.is_empty() {
            continue;
        }
        let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
        let squares = sorted.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        put(&format!("mean_{name}_ms"), json!(mean * 1e3));
        put(&format!("median_{name}_ms"), json!(quantile::quantile(&sorted, 0.5) * 1e3));
        put(&format!("std_{name}_ms"), json!((squares / sorted.len() as f64).sqrt() * 1e3));
        for (share, key) in PERCENTILES {
            put(&format!("{key}_{name}_ms"), json!(quantile::quantile(&sorted, share) * 1e3));
        }
    }
    if !requests.is_empty() {
        let list = |of: &dyn Fn(&Request) -> Value| requests.iter().map(of).collect::<Value>();
        put("input_lens", list(&|one| json!(one.input)));
        put("output_lens", list(&|one| json!(one.output)));
        put("ttfts", list(&|one| json!(one.ttft.unwrap_or(one.e2el))));
        put("itls", list(&|one| json!(one.gaps)));
        put("errors", list(&|_| json!("")));
    }
    let from = if level.lateness.is_some() { "scheduled" } else { "sent" };
    put("fizeau", json!({ "counted_from": from, "failures": level.failed, "notes": level.notes }));
    Value::Object(map)
}
