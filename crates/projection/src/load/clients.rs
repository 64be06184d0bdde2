//! Summaries of further clients, each by the keys that its own source writes:
//!
//! | client | its source |
//! | --- | --- |
//! | guidellm | src/guidellm/benchmark/schemas/generative/{benchmark,metrics}.py |
//! | llmperf | token_benchmark_ray.py and src/llmperf/{utils,common_metrics}.py |
//! | inference-benchmarker | src/writers.rs and src/executors.rs |
//! | inference-perf | inference_perf/reportgen/base.py |
//! | trtllm-bench | tensorrt_llm/bench/dataclasses/reporting.py |

use super::{
    level::{Level, Offered},
    read::{FROM_SENDING, Source, finite},
    summary::{self, QUANTILES, Summary, Time},
};
use serde_json::Value;

/// A client: its name, how its files are known, and what a value holds.
struct Client {
    name: &'static str,
    is: fn(&Value) -> bool,
    read: fn(&Value) -> Result<Vec<Level>, String>,
    model: fn(&Value) -> Option<&str>,
    notes: &'static [&'static str],
}

const CLIENTS: [Client; 5] = [
    Client {
        name: "guidellm",
        is: |value| totals(&value["benchmarks"][0]).is_some(),
        read: |value| levels(&value["benchmarks"], guidellm),
        model: |value| {
            let one = &value["benchmarks"][0];
            let model = one["config"]["backend"]["model"].as_str();
            model.or_else(|| one["worker"]["backend_model"].as_str())
        },
        notes: &["its inter_token_latency_ms, one number for a request, is TPOT here"],
    },
    Client {
        name: "llmperf",
        is: |value| value.get("results_num_completed_requests").is_some(),
        read: |value| Ok(vec![llmperf(value)?]),
        model: |value| value["model"].as_str(),
        notes: &[
            "its inter-token latency counts the time to the first token too, so that TPOT is \
                  not known",
        ],
    },
    Client {
        name: "inference-benchmarker",
        is: |value| value["results"][0].get("executor_type").is_some(),
        read: |value| levels(&value["results"], inference_benchmarker),
        model: |value| value["config"]["model_name"].as_str(),
        notes: &["its warm-up is left out"],
    },
    Client {
        name: "inference-perf",
        is: |value| {
            ["load_summary", "successes", "failures"].iter().all(|key| value.get(key).is_some())
        },
        read: |value| Ok(vec![inference_perf(value)?]),
        model: |_| None,
        notes: &[],
    },
    Client {
        name: "trtllm-bench",
        is: |value| {
            ["engine", "request_info", "performance"].iter().all(|key| value.get(key).is_some())
        },
        read: |value| Ok(vec![trtllm(value)?]),
        model: |value| value["engine"]["model"].as_str(),
        notes: &["no server was asked: the client called the engine itself"],
    },
];

/// Files of known programs that hold no level of load, by what is in them, and what to give in
/// their place.
type Other = (fn(&Value) -> bool, &'static str);

const OTHERS: [Other; 6] = [
    (
        |value| value.get("end_to_end_latency_s").is_some() && value.get("ttft_s").is_some(),
        "it is llmperf's list of answers, which does not say how long the load lasted: give its \
         summary, whose name ends in _summary.json",
    ),
    (
        |value| value["info"].get("output_token_times").is_some(),
        "it is inference-perf's list of requests: give summary_lifecycle_metrics.json or that of a \
         stage",
    ),
    (
        |value| value["experiments"][0].get("requests").is_some(),
        "it is the raw export of perf_analyzer: give profile_export_genai_perf.json, which \
         genai-perf writes beside it",
    ),
    (
        |value| value.get("elapsed_time").is_some() && value.get("tokens_per_second").is_some(),
        "it is of `vllm bench throughput`, which asks no server and has no times of requests: \
         `vllm bench serve --save-result` writes those",
    ),
    (
        |value| value.get("avg_latency").is_some() && value.get("latencies").is_some(),
        "it is of `vllm bench latency`, which asks no server: `vllm bench serve --save-result` \
         writes the times of requests",
    ),
    (
        |value| value.get("n_prompt").is_some() && value.get("avg_ts").is_some(),
        "it is of llama-bench, which asks no server and has no times of requests",
    ),
];

/// What a file is that no level of load can be read of, where that is known.
pub fn other(first: &Value) -> Option<&'static str> {
    OTHERS.iter().find(|(is, _)| is(first)).map(|(_, words)| *words)
}

/// The results of one of these clients; none where they are of none.
pub fn read(values: &[Value]) -> Option<Result<Source, String>> {
    let first = values.first()?;
    let client = CLIENTS.iter().find(|client| (client.is)(first))?;
    let levels: Result<Vec<Vec<Level>>, String> = values.iter().map(client.read).collect();
    let notes = std::iter::once(&FROM_SENDING).chain(client.notes);
    Some(levels.map(|levels| Source {
        client: client.name,
        model: (client.model)(first).map(str::to_owned),
        date: None,
        about: Some("a summary: there are no requests to look at one by one".into()),
        cpu_seconds: None,
        levels: levels.into_iter().flatten().collect(),
        notes: notes.map(|note| (*note).to_owned()).collect(),
    }))
}

fn levels(
    list: &Value,
    one: fn(&Value) -> Result<Option<Level>, String>,
) -> Result<Vec<Level>, String> {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    let levels = list.iter().map(one).collect::<Result<Vec<_>, _>>()?;
    let levels: Vec<Level> = levels.into_iter().flatten().collect();
    if levels.is_empty() { Err("it has no level of load".into()) } else { Ok(levels) }
}

/// How many requests of a benchmark of guidellm ended in which way. Versions before 0.4 have them
/// beside the metrics, and before 0.3 in the statistics of the run.
fn totals(one: &Value) -> Option<&Value> {
    let metrics = &one["metrics"];
    metrics.get("time_to_first_token_ms").or_else(|| metrics.get("request_latency"))?;
    let places =
        [&metrics["request_totals"], &one["request_totals"], &one["run_stats"]["requests_made"]];
    places.into_iter().find(|totals| totals.is_object())
}

/// One benchmark. Its metrics are of the time between warm-up and cool-down.
fn guidellm(one: &Value) -> Result<Option<Level>, String> {
    let metrics = &one["metrics"];
    let of = |name: &str| &metrics[name]["successful"];
    let totals = totals(one).ok_or("it has no \"request_totals\"")?;
    let answered = summary::count(&totals["successful"], "request_totals.successful")?;
    let failed =
        ["errored", "incomplete"].map(|key| summary::count(&totals[key], key).unwrap_or(0));
    let moment = |key: &str| finite(&one[key]);
    let duration = moment("duration").or_else(|| Some(moment("end_time")? - moment("start_time")?));
    let duration = duration.ok_or("it has no \"duration\"")?;
    let strategy = &one["config"]["strategy"];
    let strategy = if strategy.is_null() { &one["args"]["strategy"] } else { strategy };
    let most = summary::places(&strategy["max_concurrency"]);
    let kind = strategy["type_"].as_str().unwrap_or_default();
    let offered = match kind {
        "synchronous" => Offered::stated(None, None, Some(1)),
        "concurrent" => Offered::stated(None, None, summary::places(&strategy["streams"]).or(most)),
        "throughput" => {
            Offered { is_all_at_once: most.is_none(), ..Offered::stated(None, None, most) }
        }
        "constant" | "poisson" => {
            let shape = (kind == "poisson").then_some(1.0);
            Offered::stated(finite(&strategy["rate"]), shape, most)
        }
        _ => Offered::default(),
    };
    let mean = |name: &str| finite(&of(name)["mean"]);
    let lengths = [
        summary::tokens(mean("prompt_token_count"), "prompt_token_count")?,
        summary::tokens(mean("output_token_count"), "output_token_count")?,
    ];
    let failed = failed[0].saturating_add(failed[1]);
    let mut made = Summary::new(offered, [answered, failed], duration, lengths);
    for (time, name, scale) in [
        (Time::Ttft, "time_to_first_token_ms", 1e-3),
        (Time::Tpot, "inter_token_latency_ms", 1e-3),
        (Time::E2el, "request_latency", 1.0),
    ] {
        let mean = mean(name).map(|mean| mean * scale);
        let mut list = summary::quantiles(&of(name)["percentiles"], QUANTILES, scale);
        if list[0].1.is_none() {
            list[0].1 = finite(&of(name)["median"]).map(|median| median * scale);
        }
        list[5].1 = finite(&of(name)["percentiles"]["p999"]).map(|value| value * scale);
        made.time(time, mean, list);
    }
    made.rates_beside(mean("requests_per_second"), mean("output_tokens_per_second"));
    Ok(Some(made.level()))
}

/// One file of a summary, which llmperf flattens: `results_ttft_s_quantiles_p50`.
fn llmperf(value: &Value) -> Result<Level, String> {
    let number = |key: &str| finite(&value[format!("results_{key}")]);
    let answered =
        summary::count(&value["results_num_completed_requests"], "num_completed_requests")?;
    let failed = summary::count(&value["results_number_errors"], "").unwrap_or(0);
    let per_minute = number("num_completed_requests_per_min").filter(|rate| *rate > 0.0);
    let duration = per_minute.map_or(0.0, |rate| answered as f64 / rate * 60.0);
    let places = summary::places(&value["num_concurrent_requests"]);
    let offered = Offered::stated(None, None, places);
    let lengths = ["number_input_tokens", "number_output_tokens"];
    let [input, output] =
        lengths.map(|name| summary::tokens(number(&format!("{name}_mean")), name));
    let mut made = Summary::new(offered, [answered, failed], duration, [input?, output?]);
    for (time, name) in [(Time::Ttft, "ttft_s"), (Time::E2el, "end_to_end_latency_s")] {
        let quantiles = QUANTILES
            .map(|(share, key)| (share, number(&format!("{name}_quantiles_{key}"))))
            .to_vec();
        made.time(time, number(&format!("{name}_mean")), quantiles);
    }
    made.rates_beside(None, number("mean_output_throughput_token_per_s"));
    Ok(made.level())
}

/// One of its results; none for the warm-up.
fn inference_benchmarker(one: &Value) -> Result<Option<Level>, String> {
    if one["id"].as_str() == Some("warmup") {
        return Ok(None);
    }
    let number = |key: &str| finite(&one[key]);
    let answered = summary::count(&one["successful_requests"], "successful_requests")?;
    let failed = summary::count(&one["failed_requests"], "").unwrap_or(0);
    let duration = number("duration_ms").ok_or("it has no \"duration_ms\"")? * 1e-3;
    let config = &one["config"];
    let offered = match one["executor_type"].as_str() {
        // It stops at its most requests at once.
        Some("ConstantArrivalRate") => {
            Offered::stated(finite(&config["rate"]), None, summary::places(&config["max_vus"]))
        }
        Some("ConstantVUs") => Offered::stated(None, None, summary::places(&config["max_vus"])),
        _ => Offered::default(),
    };
    let each =
        |key: &str| summary::tokens(number(key).map(|sum| sum / answered.max(1) as f64), key);
    let lengths = [each("total_tokens_sent")?, each("total_tokens")?];
    let mut made = Summary::new(offered, [answered, failed], duration, lengths);
    for (time, name) in [
        (Time::Ttft, "time_to_first_token_ms"),
        (Time::Itl, "inter_token_latency_ms"),
        (Time::E2el, "e2e_latency_ms"),
    ] {
        let mean = finite(&one[name]["avg"]).map(|mean| mean * 1e-3);
        made.time(time, mean, summary::quantiles(&one[name], QUANTILES, 1e-3));
    }
    made.rates_beside(number("request_rate"), number("token_throughput_secs"));
    Ok(Some(made.level()))
}

/// `summary_lifecycle_metrics.json`, or that of a stage.
fn inference_perf(value: &Value) -> Result<Level, String> {
    let (load, answers) = (&value["load_summary"], &value["successes"]);
    let answered = summary::count(&answers["count"], "successes.count")?;
    let failed = summary::count(&value["failures"]["count"], "failures.count")?;
    let rates = &answers["throughput"];
    let rate = finite(&rates["requests_per_sec"]).filter(|rate| *rate > 0.0);
    let duration = finite(&value["benchmark_time_seconds"]);
    let duration = duration.or_else(|| Some(answered as f64 / rate?)).unwrap_or(0.0);
    let places = summary::places(&load["concurrency"]);
    // Where a stage has a number of requests at once, its rate follows from it.
    let asked = finite(&load["requested_rate"]).filter(|_| places.is_none());
    let mean = |keys: &[&str]| keys.iter().find_map(|key| finite(&answers[*key]["mean"]));
    let lengths = [
        summary::tokens(mean(&["prompt_tokens", "prompt_len"]), "prompt_tokens")?,
        summary::tokens(mean(&["output_tokens", "output_len"]), "output_tokens")?,
    ];
    let offered = Offered::stated(asked, None, places);
    let mut made = Summary::new(offered, [answered, failed], duration, lengths);
    for (time, name) in [
        (Time::Ttft, "time_to_first_token"),
        (Time::Tpot, "time_per_output_token"),
        (Time::Itl, "inter_token_latency"),
        (Time::E2el, "request_latency"),
    ] {
        let times = &answers["latency"][name];
        let names =
            QUANTILES.map(|(share, key)| (share, if share == 0.5 { "median" } else { key }));
        made.time(time, finite(&times["mean"]), summary::quantiles(times, names, 1.0));
    }
    made.goodput(finite(&answers["goodput_metrics"]["request_goodput"]));
    made.rates_beside(rate, finite(&rates["output_tokens_per_sec"]));
    Ok(made.level())
}

/// The report of `--report_json`.
fn trtllm(value: &Value) -> Result<Level, String> {
    let (asked, met) = (&value["request_info"], &value["performance"]);
    let answered = summary::count(&asked["num_requests"], "num_requests")?;
    let duration = finite(&met["total_latency_ms"]).ok_or("it has no \"total_latency_ms\"")? * 1e-3;
    let lengths = [
        summary::tokens(finite(&asked["avg_input_length"]), "avg_input_length")?,
        summary::tokens(finite(&asked["avg_output_length"]), "avg_output_length")?,
    ];
    // It states how many requests were under way on average, and not what was offered.
    let mut made = Summary::new(Offered::default(), [answered, 0], duration, lengths);
    let streamed = &value["streaming_metrics"];
    for (time, times, mean) in [
        (Time::Ttft, &streamed["ttft_percentiles"], &streamed["avg_ttft_ms"]),
        (Time::Tpot, &streamed["tpot_percentiles"], &streamed["avg_tpot_ms"]),
        (Time::E2el, &met["request_latency_percentiles_ms"], &met["avg_request_latency_ms"]),
    ] {
        let mean = finite(mean).map(|mean| mean * 1e-3);
        made.time(time, mean, summary::quantiles(times, QUANTILES, 1e-3));
    }
    let rates = ["request_throughput_req_s", "system_output_throughput_tok_s"];
    let [requests, tokens] = rates.map(|key| finite(&met[key]));
    made.rates_beside(requests, tokens);
    Ok(made.level())
}
