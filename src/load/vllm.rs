//! Results of `vllm bench serve --save-result`, with `--save-detailed` request by request.
//!
//! Keys as of vllm/benchmarks/serve.py of vLLM 0.32. Times of requests are in seconds and count
//! from the moment of sending, summaries are in milliseconds.

use super::{
    level::{Level, Limits, Offered, Request},
    read::{Source, finite, finite_list},
    times::{Quantile, Times},
};
use serde_json::Value;
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
    let answered = number("completed")?;
    let each = |key: &str| Ok::<_, String>(number(key)? / answered.max(1.0));
    let failed = finite(&value["failed"]).unwrap_or(0.0) as u64;
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
