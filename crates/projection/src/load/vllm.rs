//! Results of `vllm bench serve --save-result`, with `--save-detailed` request by request, and of
//! `sglang.bench_serving --output-file`, which began as a copy of it.
//!
//! Keys as of vllm/benchmarks/serve.py of vLLM 0.32, and of python/sglang/bench_serving.py of
//! SGLang. Times of requests are in seconds and count from the moment of sending, summaries are in
//! milliseconds.

use super::{
    compact::Compact,
    level::{Level, Limits, Offered, Request},
    read::{Source, finite},
    summary::{self, Summary, Time},
    times::is_time,
};
use fizeau_domain::stats::quantile;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Keys that only SGLang's client writes.
const SGLANGS: [&str; 3] =
    ["total_output_tokens_retokenized", "mean_e2e_latency_ms", "sharegpt_output_len"];

/// A key that both have written: it decides where there is no other.
const SPECULATION: &str = "accept_length";

/// Keys that vLLM's client writes.
const VLLMS: [&str; 6] = [
    "endpoint_type",
    "tokenizer_id",
    "model_id",
    "burstiness",
    "total_token_throughput",
    "max_concurrent_requests",
];

/// Whose client wrote a result, by keys that no other writes.
fn client(value: &Value) -> &'static str {
    let has = |keys: &[&str]| keys.iter().any(|key| value.get(key).is_some());
    match (has(&SGLANGS), has(&VLLMS)) {
        (true, _) => "sglang.bench_serving",
        (false, true) => "vllm bench serve",
        (false, false) if has(&[SPECULATION]) => "sglang.bench_serving",
        (false, false) => "a client that is not known, which writes keys as vllm bench serve does",
    }
}

/// Every result of a file (`--append-result` writes one after the other).
pub fn results(mut all: Vec<Compact>, limits: &Limits) -> Result<Source, String> {
    let levels = all.iter_mut().map(|one| level(one, limits)).collect::<Result<Vec<_>, _>>()?;
    let all: Vec<Value> = all.into_iter().map(|one| one.value).collect();
    let text = |key: &str| all.first().and_then(|value| value[key].as_str()).map(str::to_owned);
    let client = all.first().map_or("no client", client);
    let mut notes = vec![super::read::FROM_SENDING.to_owned()];
    if all.iter().any(|one| self::client(one) != client) {
        notes.push("its results are of several clients: the first is named".into());
    }
    let speculates = |value: &Value| {
        ["spec_decode_acceptance_length", SPECULATION]
            .iter()
            .any(|key| finite(&value[*key]).is_some_and(|length| length > 1.0))
    };
    if all.iter().any(speculates) {
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
        client,
        model: text("model_id"),
        date: text("date"),
        about: text("backend").map(|backend| format!("backend {backend}")),
        cpu_seconds: None,
        levels,
        notes,
    })
}

fn offered(value: &Value) -> Offered {
    let rate = &value["request_rate"];
    let offered = Offered::stated(
        finite(rate),
        finite(&value["burstiness"]),
        summary::places(&value["max_concurrency"]),
    );
    let is_all_at_once = rate.as_str() == Some("inf") && offered.concurrency.is_none();
    Offered { is_all_at_once, ..offered }
}

fn level(one: &mut Compact, limits: &Limits) -> Result<Level, String> {
    let requests = detailed(one);
    let value = &one.value;
    let number = |key: &str| finite(&value[key]);
    let duration = number("duration").ok_or("\"duration\" is no number")?;
    let offered = offered(value);
    let answered = summary::count(&value["completed"], "completed")?;
    let (failed, unknown) = failures(value, answered);
    let each = |key: &str| {
        let sum = number(key).map(|sum| sum / answered.max(1) as f64);
        summary::tokens(sum, key)
    };
    if let Some((requests, failed)) = requests? {
        let mut level = Level::of(offered, requests, failed, duration, limits);
        let sum = |mean: f64| mean * level.answered as f64;
        let sums = [
            ("the sum of prompts' tokens", number("total_input_tokens"), sum(level.input)),
            ("the sum of answers' tokens", number("total_output_tokens"), sum(level.output)),
            ("the number of answered requests", number("completed"), level.answered as f64),
        ];
        let words = sums.into_iter().filter_map(|(name, all, sum)| summary::beside(name, all, sum));
        level.notes.extend(words);
        level.notes.extend(unknown);
        return Ok(level);
    }
    let lengths = [each("total_input_tokens")?, each("total_output_tokens")?];
    let mut made = Summary::new(offered, [answered, failed], duration, lengths);
    for (time, name) in
        [(Time::Ttft, "ttft"), (Time::Tpot, "tpot"), (Time::Itl, "itl"), (Time::E2el, "e2el")]
    {
        // SGLang's name for the time to the last token.
        let name = if time == Time::E2el && value.get("mean_e2e_latency_ms").is_some() {
            "e2e_latency"
        } else {
            name
        };
        let at = |what: &str| finite(&value[format!("{what}_{name}_ms")]).map(|time| time / 1e3);
        let median = [(0.5, at("median").or_else(|| at("p50")))];
        let others = summary::QUANTILES[1..].iter().map(|(share, key)| (*share, at(key)));
        made.time(time, at("mean"), median.into_iter().chain(others).collect());
    }
    // Some of its versions wrote the key with a colon.
    made.goodput(number("request_goodput").or_else(|| number("request_goodput:")));
    made.rates_beside(number("request_throughput"), number("output_throughput"));
    if let Some(prompts) = number("num_prompts").filter(|_| value.get("failed").is_some()) {
        made.beside("the number of requests", Some(prompts), (answered + failed) as f64);
    }
    let again = number("total_output_tokens_retokenized");
    if again.is_some_and(|again| again < lengths[1] * answered as f64 / 2.0) {
        made.note(
            "the text that came back has fewer than half of the tokens that the server is said to \
             have made: little or nothing was answered",
        );
    }
    unknown.into_iter().for_each(|words| made.note(words));
    made.note("without --save-detailed there are no requests to look at one by one");
    Ok(made.level())
}

/// How many requests failed, and what to say where the file has no number of them: the others of
/// those that were sent are not known to be answered.
fn failures(value: &Value, answered: u64) -> (u64, Option<String>) {
    if let Ok(failed) = summary::count(&value["failed"], "failed") {
        return (failed, None);
    }
    let sent = summary::count(&value["num_prompts"], "num_prompts").ok();
    let rest = sent.and_then(|sent| sent.checked_sub(answered));
    let words = match (value.get("failed"), rest) {
        // SGLang's client and early ones of vLLM write none.
        (None, _) => return (rest.unwrap_or(0), None),
        (Some(_), Some(rest)) => format!(
            "\"failed\" is no number in the file: {rest} of the requests that were sent are not \
             known to be answered, and count as failed"
        ),
        (Some(_), None) => {
            "\"failed\" is no number in the file: how many requests failed is not known".into()
        }
    };
    (rest.unwrap_or(0), Some(words))
}

type Detailed = (Vec<Request>, BTreeMap<String, u64>);

/// Request by request, where the file has that.
fn detailed(one: &mut Compact) -> Result<Option<Detailed>, String> {
    if one.value.get("ttfts").is_none() {
        return Ok(None);
    }
    let mut list =
        |key: &str| one.take_numbers(key).ok_or_else(|| format!("{key:?} is no list of numbers"));
    let firsts = list("ttfts")?;
    let (inputs, outputs) = (list("input_lens")?, list("output_lens")?);
    let mut gaps = one.take_lists("itls").ok_or("\"itls\" is no list of lists of numbers")?;
    let starts = one.take_numbers("start_times");
    let errors = one.value["errors"].as_array();
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
        let gaps = std::mem::take(&mut gaps[at]);
        let decode = gaps.iter().sum::<f64>();
        let ttft = Some(firsts[at]).filter(|first| first.is_finite());
        // Without the time of its first token nobody knows how long the whole took: nothing, which
        // is left out and said.
        let whole = ttft.map(|first| if is_time(first) { first + decode } else { 0.0 });
        requests.push(Request {
            ttft,
            e2el: whole.filter(|whole| whole.is_finite()),
            decode: Some(decode).filter(|decode| decode.is_finite()),
            lateness: None,
            input: summary::tokens(Some(inputs[at]), "input_lens")?,
            output: summary::tokens(Some(outputs[at]), "output_lens")?,
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
    let is_stated = level.offered.is_closed() || level.offered.is_all_at_once;
    let asked = match level.offered.rate {
        Some(rate) => json!(rate),
        None if is_stated => json!("inf"),
        None => Value::Null,
    };
    put("request_rate", asked);
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
        ("e2el", requests.iter().filter_map(|one| one.e2el).collect()),
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
        put("ttfts", list(&|one| json!(one.ttft.or(one.e2el).unwrap_or(0.0))));
        put("itls", list(&|one| json!(one.gaps)));
        put("errors", list(&|_| json!("")));
    }
    let from = if level.lateness.is_some() { "scheduled" } else { "sent" };
    put("fizeau", json!({ "counted_from": from, "failures": level.failed, "notes": level.notes }));
    Value::Object(map)
}
