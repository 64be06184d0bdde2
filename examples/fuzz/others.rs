//! Further words of others that are read: tables of perftest, metrics and answers of servers, and
//! claims as people write them.

use super::{
    mutate::{Chance, change, change_bytes, change_lines},
    served::{NUMBER_MAX, check, harmless, longest_number},
};
use fizeau::{
    cmd::document::{ReportFormat, render},
    data::Catalogue,
};
use fizeau_judge::accept::network;
use fizeau_projection::{
    claim::{self, Claim, Named},
    load::{metrics, received::Received, row::Row},
};
use fizeau_report::format::terminal::{Colour, Terminal};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::LazyLock};

/// No port of a network is faster, in Gbit/s.
const GIGABITS_MAX: f64 = 1e5;

/// The most characters of a sentence about words of others.
const WORDS_MAX: usize = 4_000;

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| Catalogue::load(None).expect("the data"));

/// What `ib_write_bw --report_gbits` prints.
const PERFTEST: &str = "\
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             392.81             392.79               0.749
---------------------------------------------------------------------------------------
";

/// Tables of perftest with other numbers and lines.
pub fn perftest(chance: &mut Chance) -> Vec<u8> {
    change_lines(PERFTEST, PERFTEST, chance).into()
}

/// Reads the rate of a table.
pub fn read_perftest(input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    match network::parse(&text) {
        Err(why) => {
            assert!(why.len() < WORDS_MAX, "a message without an end");
            false
        }
        Ok(rate) => {
            assert!(rate > 0.0 && rate <= GIGABITS_MAX, "{rate} Gbit/s");
            true
        }
    }
}

/// What servers say of themselves under `/metrics`.
const METRICS: &str = "\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 12.0
vllm:num_requests_running{engine=\"1\",model_name=\"m\"} 3.0
vllm:num_requests_waiting{model_name=\"m\"} 4.0
vllm:gpu_cache_usage_perc{model_name=\"m\"} 0.25
vllm:generation_tokens_total{model_name=\"m\"} 1.5e+06
sglang:num_running_reqs{tp_rank=\"0\"} 7.0
sglang:token_usage 0.5
tgi_queue_size 3
";

/// Metrics with other numbers and lines.
pub fn metrics(chance: &mut Chance) -> Vec<u8> {
    // Now and then another program's words stand there.
    let text = if chance.one_in(6) { PERFTEST } else { METRICS };
    change_lines(text, METRICS, chance).into()
}

/// Reads metrics.
pub fn read_metrics(input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    let Some(sample) = metrics::read(&text, &BTreeMap::new()) else { return false };
    let kept = serde_json::to_value(&sample).expect("JSON");
    assert!(kept.is_object(), "{kept}");
    true
}

/// The stream of an answer, with other numbers, fields, events and bytes.
pub fn answer(chance: &mut Chance) -> Vec<u8> {
    let event = |number: usize| {
        json!({
            "id": "cmpl-1", "object": "text_completion", "model": "m",
            "choices": [{ "index": 0, "text": format!(" w{number}"), "finish_reason": Value::Null }]
        })
    };
    let mut events: Vec<Value> = (0..1 + chance.below(6)).map(event).collect();
    events.push(json!({ "choices": [{ "index": 0, "text": "", "finish_reason": "length" }] }));
    events.push(json!({ "choices": [], "usage": {
        "prompt_tokens": 9, "completion_tokens": 6, "total_tokens": 15
    }}));
    for _ in 0..chance.below(4) {
        let at = chance.below(events.len());
        change(&mut events[at], chance);
    }
    let lines = events.iter().map(|event| format!("data: {event}\n\n"));
    let mut text: String = lines.collect();
    text += if chance.one_in(4) { "" } else { "data: [DONE]\n\n" };
    let mut bytes = text.into_bytes();
    if chance.one_in(3) {
        change_bytes(&mut bytes, chance);
    }
    bytes
}

/// Takes an answer in pieces, and what it says of itself.
pub fn read_answer(input: &[u8]) -> bool {
    let mut received = Received::new(true, 6);
    let mut moment = 0.0;
    for piece in input.chunks(37) {
        moment += 0.01;
        if received.take(piece, moment).is_err() {
            break;
        }
    }
    let _ = received.ending();
    assert!(received.message().is_none_or(|words| words.len() < WORDS_MAX), "words without an end");
    let is_done = received.done().is_some();
    let mut row = Row::default();
    received.into_row(&mut row);
    serde_json::to_string(&row).expect("JSON");
    is_done
}

/// Claims as they are written.
const CLAIMS: [&str; 18] = [
    "154 tok/s/user",
    "6200 tok/s on 8 GPUs",
    "4.8 TB/s",
    "NVLink 900 GB/s bidirectional",
    "PCIe 5.0 x16: 63 GB/s each way",
    "InfiniBand NDR 400 Gb/s",
    "all_reduce busbw 475 GB/s, 8 GPUs",
    "nvbandwidth device_to_device_memcpy_read_ce 390 GB/s",
    "1979 TFLOPS FP8 dense",
    "3,958 TFLOPS fp8 with sparsity",
    "141 GB HBM3e",
    "700 W",
    "ib_write_bw 392 Gb/sec",
    "130 TB/s NVLink domain",
    "0.4 J per output token",
    "energy per token: 0.4-0.6 J",
    "2.5 million tokens per second per MW",
    "0.11 kWh per 1,000 tokens",
];

/// A claim with words and numbers of others.
pub fn claimed(chance: &mut Chance) -> Vec<u8> {
    let all = CLAIMS.join("\n");
    let mut words: Vec<&str> = chance.pick(&CLAIMS).split(' ').collect();
    for _ in 0..chance.below(4) {
        let at = chance.below(words.len() + 1);
        let other = *chance.pick(&all.split_whitespace().collect::<Vec<_>>());
        match chance.below(3) {
            0 => words.insert(at, other),
            1 if at < words.len() => words[at] = other,
            _ if at < words.len() && words.len() > 1 => drop(words.remove(at)),
            _ => {}
        }
    }
    let text = words.join(" ");
    let text = if chance.one_in(2) { change_lines(&text, &all, chance) } else { text };
    text.into()
}

/// Judges a claim about a part, and shows the verdict.
pub fn read_claim(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let part = CATALOGUE.parts.iter().find(|part| part.id == "h200-sxm");
    let claim = Claim { value: text.to_owned(), on: Some("h200-sxm".into()), ..Claim::default() };
    let named = Named { part, model: None, layout: None, links: &CATALOGUE.links };
    match claim::judge(&claim, &named) {
        Err(why) => {
            let most = WORDS_MAX + 4 * text.len();
            assert!(why.len() < most, "a message without an end");
            false
        }
        Ok(verdict) => {
            let shares = [verdict.of_light, verdict.of_serial];
            assert!(shares.into_iter().flatten().all(f64::is_finite), "{verdict:?}");
            let document = fizeau_report::verdicts(&[(claim, verdict)]);
            let terminal = Terminal { width: Some(100), colour: Colour::Never };
            harmless(&render(&document, ReportFormat::Terminal, terminal).expect("it renders"));
            // Who writes a long number is shown it.
            if longest_number(text) <= NUMBER_MAX {
                check(&document);
            }
            true
        }
    }
}
