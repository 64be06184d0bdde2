//! What a server says of itself at `/metrics` (Prometheus text), by the names that servers use.

use super::row::Sample;
use std::{cmp::Ordering, collections::BTreeMap};

/// A quantity that servers state under names of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// [`Sample::running`].
    Running,
    /// [`Sample::waiting`].
    Waiting,
    /// [`Sample::kv_used`].
    KvUsed,
    /// [`Sample::preempted`].
    Preempted,
    /// [`Sample::prefix_asked`].
    PrefixAsked,
    /// [`Sample::prefix_found`].
    PrefixFound,
}

use Quantity::{KvUsed, Preempted, PrefixAsked, PrefixFound, Running, Waiting};

/// Names of metrics, the newest of a server first: vLLM (vllm/v1/metrics/loggers.py of 0.32, and of
/// 0.6 to 0.8 with `gpu_`), llama.cpp (tools/server/README.md), SGLang
/// (python/sglang/srt/metrics/collector.py), Text Generation Inference
/// (docs/source/reference/metrics.md).
const NAMES: &[(&str, Quantity)] = &[
    ("vllm:num_requests_running", Running),
    ("vllm:num_requests_waiting", Waiting),
    ("vllm:kv_cache_usage_perc", KvUsed),
    ("vllm:gpu_cache_usage_perc", KvUsed),
    ("vllm:num_preemptions_total", Preempted),
    ("vllm:prefix_cache_queries_total", PrefixAsked),
    ("vllm:gpu_prefix_cache_queries_total", PrefixAsked),
    ("vllm:prefix_cache_hits_total", PrefixFound),
    ("vllm:gpu_prefix_cache_hits_total", PrefixFound),
    ("llamacpp:requests_processing", Running),
    ("llamacpp:requests_deferred", Waiting),
    ("llamacpp:kv_cache_usage_ratio", KvUsed),
    ("sglang:num_running_reqs", Running),
    ("sglang:num_queue_reqs", Waiting),
    ("sglang:token_usage", KvUsed),
    ("tgi_batch_current_size", Running),
    ("tgi_queue_size", Waiting),
];

/// Reads the text of `/metrics`; `others` are names that the user gives, which come before the
/// known ones. Series of one name (several engines) are added up, shares of KV caches averaged.
/// None where no name is known.
pub fn read(text: &str, others: &BTreeMap<String, Quantity>) -> Option<Sample> {
    let mut found: BTreeMap<Quantity, (usize, f64, f64)> = BTreeMap::new();
    for line in text.lines() {
        let Some((name, value)) = series(line) else { continue };
        let known = match others.get(name) {
            Some(quantity) => Some((0, *quantity)),
            None => NAMES.iter().position(|one| one.0 == name).map(|at| (at + 1, NAMES[at].1)),
        };
        let Some((rank, quantity)) = known else { continue };
        let entry = found.entry(quantity).or_insert((rank, 0.0, 0.0));
        match entry.0.cmp(&rank) {
            Ordering::Greater => *entry = (rank, value, 1.0),
            Ordering::Equal => *entry = (rank, entry.1 + value, entry.2 + 1.0),
            Ordering::Less => {}
        }
    }
    let sum = |quantity: Quantity| found.get(&quantity).map(|(_, sum, _)| *sum);
    let share = |quantity: Quantity| {
        let mean = found.get(&quantity).map(|(_, sum, count)| sum / count);
        mean.filter(|share| *share <= 1.0)
    };
    (!found.is_empty()).then(|| Sample {
        running: sum(Running),
        waiting: sum(Waiting),
        kv_used: share(KvUsed),
        preempted: sum(Preempted),
        prefix_asked: sum(PrefixAsked),
        prefix_found: sum(PrefixFound),
        ..Sample::default()
    })
}

/// A quantity by the name that `--metric` gives it.
///
/// # Errors
/// In words: where there is none of the name.
pub fn quantity(name: &str) -> Result<Quantity, String> {
    Ok(match name {
        "running" => Running,
        "waiting" => Waiting,
        "kv-used" => KvUsed,
        "preempted" => Preempted,
        "prefix-asked" => PrefixAsked,
        "prefix-found" => PrefixFound,
        _ => {
            return Err(format!(
                "{name:?}: the quantities are running, waiting, kv-used, preempted, prefix-asked \
                 and prefix-found"
            ));
        }
    })
}

/// Name and value of a line of Prometheus' text format 0.0.4: `name{labels} value [timestamp]`.
fn series(line: &str) -> Option<(&str, f64)> {
    let line = line.trim();
    let end = line.find(|c: char| c == '{' || c.is_whitespace())?;
    let (name, rest) = line.split_at(end);
    if name.is_empty() || name.starts_with('#') {
        return None;
    }
    let values = match rest.strip_prefix('{') {
        Some(labels) => &labels[end_of_labels(labels)?..],
        None => rest,
    };
    let value: f64 = values.split_whitespace().next()?.parse().ok()?;
    // No server has that many requests; what is beyond it, or below 0, is no count.
    (0.0..=VALUE_MAX).contains(&value).then_some((name, value))
}

/// The largest value that is read.
const VALUE_MAX: f64 = 1e15;

/// Where labels end: behind the brace that stands in no quoted value.
fn end_of_labels(labels: &str) -> Option<usize> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, c) in labels.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            '}' if !is_quoted => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vllm_is_read_and_engines_are_added() {
        let text = "# HELP vllm:num_requests_running Number of requests\n\
                    # TYPE vllm:num_requests_running gauge\n\
                    vllm:num_requests_running{engine=\"0\",model_name=\"a } \\\" b\"} 3.0\n\
                    vllm:num_requests_running{engine=\"1\",model_name=\"a\"} 4.0 1700000000000\n\
                    vllm:kv_cache_usage_perc{engine=\"0\"} 0.5\n\
                    vllm:kv_cache_usage_perc{engine=\"1\"} 0.25\n\
                    vllm:gpu_cache_usage_perc{engine=\"0\"} 0.9\n\
                    vllm:num_preemptions_total{engine=\"0\"} 1.2e1\n";
        let sample = read(text, &BTreeMap::new()).expect("known names");
        assert_eq!((sample.running, sample.waiting), (Some(7.0), None));
        assert_eq!((sample.kv_used, sample.preempted), (Some(0.375), Some(12.0)));
    }

    #[test]
    fn llama_and_names_of_users_are_read() {
        let text = "llamacpp:requests_processing 2\nllamacpp:requests_deferred 5\nmine 9\n";
        let sample = read(text, &BTreeMap::new()).expect("known names");
        assert_eq!((sample.running, sample.waiting), (Some(2.0), Some(5.0)));
        let others = BTreeMap::from([("mine".to_owned(), Waiting)]);
        assert_eq!(read(text, &others).and_then(|sample| sample.waiting), Some(9.0));
    }

    #[test]
    fn what_is_no_metric_is_left_out() {
        let none = BTreeMap::new();
        for text in ["", "{", "a{b=\"", "vllm:num_requests_running NaN", "<html>", "\u{1b}[2J 1"] {
            assert_eq!(read(text, &none), None, "{text}");
        }
    }
}
