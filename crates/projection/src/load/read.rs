//! Results of clients: of this program and of others, told apart by what is in them.

use super::{
    aiperf, clients,
    compact::Compact,
    level::{Level, Limits},
    possible,
    row::{Header, Line, Row, Sample, Stop, VERSION},
    vllm,
};
use fizeau_domain::{number::brief, python};
use serde_json::Value;
use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
};

/// The most bytes of a file of results.
pub const BYTES_MAX: u64 = 1 << 30;

/// The most levels of a file.
const LEVELS_MAX: usize = 10_000;

/// What is to know of clients that count from the moment of sending.
pub(super) const FROM_SENDING: &str = concat!(
    "TTFT and E2EL of this client count from the moment of sending: what the client itself was ",
    "late by is in none of its numbers"
);

/// What a file of results holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Whose client wrote it.
    pub client: &'static str,
    /// The model's name, as the client states it.
    pub model: Option<String>,
    /// When it was made, as the client states it.
    pub date: Option<String>,
    /// What else the client states, in words.
    pub about: Option<String>,
    /// CPU time of the client, seconds, where it states it.
    pub cpu_seconds: Option<f64>,
    /// The levels of load, in the order of the file.
    pub levels: Vec<Level>,
    /// What to know of it.
    pub notes: Vec<String>,
}

/// Reads the text of a file of results.
///
/// # Errors
/// In words: where it is of no known client, or lacks what is needed.
pub fn read(text: &str, limits: &Limits) -> Result<Source, String> {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let is_own = first.starts_with("{\"load\":");
    let json = if is_own { Cow::Borrowed(text) } else { python::json(text) };
    let mut source = if is_own { own(text, limits)? } else { foreign(&json, limits)? };
    source.date = source.date.filter(|date| is_date(date));
    if json != text {
        source.notes.push(
            "NaN and Infinity, which Python writes and JSON does not have, are taken as not known"
                .into(),
        );
    }
    Ok(source)
}

/// Whether a text of a file can be a date: short, and without a number that no date has. The
/// longest is that of a day and a second, 20261120101500.
fn is_date(text: &str) -> bool {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit());
    text.len() <= 40 && numbers.all(|number| number.len() <= 14)
}

fn foreign(text: &str, limits: &Limits) -> Result<Source, String> {
    let mut all = serde_json::Deserializer::from_str(text).into_iter::<Compact>();
    let is_record = |one: &Value| one.get("metadata").is_some() && one.get("metrics").is_some();
    let list = match all.next() {
        Some(Ok(Compact { items: Some(items), .. })) => items,
        // Records are read line by line: a file has millions.
        Some(Ok(first)) if is_record(&first.value) => return aiperf::records(text, limits),
        Some(Ok(value)) => vec![value],
        Some(Err(_)) if text.contains(CONSOLE) => return Err(CONSOLE_REMEDY.into()),
        Some(Err(error)) => return Err(format!("it is no JSON: {error}")),
        None => return Err("it is empty".into()),
    };
    let (all, is_torn) = values(list, all)?;
    let first = all.first().map_or(&Value::Null, |one| &one.value);
    let has = |keys: &[&str]| keys.iter().all(|key| first.get(key).is_some());
    let mut source = if aiperf::is_summary(first) {
        match all.len() {
            1 => aiperf::summary(first),
            more => Err(format!(
                "it has {more} results, and one of AIPerf is one level: give each \
                                 as a file of its own"
            )),
        }
    } else if has(&["completed", "duration"]) {
        vllm::results(all, limits)
    } else {
        let none = Err(clients::other(first).unwrap_or(UNKNOWN).into());
        let values: Vec<Value> = all.into_iter().map(|one| one.value).collect();
        clients::read(&values).unwrap_or(none)
    }?;
    for level in &mut source.levels {
        level.notes.extend(possible::contradictions(level));
    }
    if is_torn {
        source.notes.push(TORN.into());
    }
    Ok(source)
}

const UNKNOWN: &str = "it is of no client that is known: neither of `vllm bench serve \
    --save-result` or sglang.bench_serving, nor of AIPerf (profile_export_aiperf.json or \
    profile_export.jsonl), genai-perf, guidellm, llmperf, inference-benchmarker, inference-perf \
    or trtllm-bench, nor requests one by one as docs/load.md has them";

/// What vllm bench serve and sglang.bench_serving print, as the words of their heading.
const CONSOLE: &str = "Serving Benchmark Result";

const CONSOLE_REMEDY: &str = "it is what the client printed: give the file that \
    `vllm bench serve --save-result` or `sglang.bench_serving --output-file` writes";

/// What is said of a file whose writer was killed.
pub(super) const TORN: &str = "its last line is torn and left out";

/// Values that follow others, and whether the last one is torn.
fn values(
    mut list: Vec<Compact>,
    others: impl Iterator<Item = serde_json::Result<Compact>>,
) -> Result<(Vec<Compact>, bool), String> {
    for value in others.take(LEVELS_MAX) {
        match value {
            Ok(value) => list.push(value),
            Err(error) if error.is_eof() && !list.is_empty() => return Ok((list, true)),
            Err(error) => return Err(format!("it is no JSON to its end: {error}")),
        }
    }
    list.truncate(LEVELS_MAX);
    Ok((list, false))
}

/// The lines of a file of requests one by one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lines {
    /// Its header, with the levels that were decided upon later.
    pub header: Header,
    /// Requests, in the order in which they ended.
    pub rows: Vec<Row>,
    /// What the server said of itself.
    pub samples: Vec<Sample>,
    /// The last line; none where the run was killed.
    pub stop: Option<Stop>,
    /// Whether the last line is torn.
    pub is_torn: bool,
}

/// Requests one by one, as [`super::row`] has them.
///
/// # Errors
/// In words: where it is of a newer format, or a line other than the last one is torn.
pub fn lines(text: &str) -> Result<Lines, String> {
    let mut header: Option<Header> = None;
    let mut known = HashSet::new();
    let (mut rows, mut samples, mut stop, mut is_torn) = (Vec::new(), Vec::new(), None, false);
    let all: Vec<&str> = text.lines().collect();
    for (at, line) in all.iter().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match serde_json::from_str::<Line>(line) {
            Ok(Line::Load(found)) if header.is_none() => header = Some(found),
            Ok(Line::Load(_)) => return Err(format!("line {}: a second header", at + 1)),
            Ok(Line::Level(plan)) => match &mut header {
                Some(header) => header.levels.push(plan),
                None => return Err(format!("line {}: a level before the header", at + 1)),
            },
            Ok(Line::Request(row)) => {
                row.check().map_err(|why| format!("line {}: {why}", at + 1))?;
                if !known.insert((row.level, row.number)) {
                    return Err(format!(
                        "line {}: request {} of level {} stands in the file twice",
                        at + 1,
                        row.number,
                        row.level
                    ));
                }
                rows.push(row);
            }
            Ok(Line::Server(sample)) => samples.push(sample),
            Ok(Line::End(found)) => stop = Some(found),
            Err(_) if at + 1 == all.len() && !text.ends_with('\n') => is_torn = true,
            Err(error) => return Err(format!("line {}: {error}", at + 1)),
        }
    }
    let header: Header = header.ok_or("its first line is no header")?;
    if header.version > VERSION {
        return Err(format!(
            "its format is version {}, and this program reads up to {VERSION}",
            header.version
        ));
    }
    Ok(Lines { header, rows, samples, stop, is_torn })
}

fn own(text: &str, limits: &Limits) -> Result<Source, String> {
    let Lines { header, rows, samples, stop, is_torn } = lines(text)?;
    let mut levels = Vec::new();
    let mut by_level: BTreeMap<usize, (Vec<&Row>, Vec<&Sample>)> = BTreeMap::new();
    rows.iter().for_each(|row| by_level.entry(row.level).or_default().0.push(row));
    samples.iter().for_each(|sample| by_level.entry(sample.level).or_default().1.push(sample));
    for (at, plan) in header.levels.iter().enumerate().take(LEVELS_MAX) {
        let Some((of_level, samples)) = by_level.remove(&at) else { continue };
        if of_level.is_empty() {
            continue;
        }
        let mut level = Level::of_rows(plan, &of_level, limits);
        level.server = samples.into_iter().cloned().collect();
        let measured = level.answered + level.failures();
        // A closed loop ends by its time too.
        let is_over = plan.seconds.is_some() && stop.as_ref().is_some_and(|stop| !stop.interrupted);
        if measured < plan.requests && !is_over {
            level.notes.push(format!(
                "{measured} of {} requests are in the file: the run ended before the others did",
                brief(plan.requests as f64)
            ));
        }
        levels.push(level);
    }
    let mut notes = Vec::new();
    match &stop {
        None => notes.push("the run was killed: requests that were under way are lost".into()),
        Some(stop) if stop.interrupted => notes.push("the run was interrupted".into()),
        Some(_) => {}
    }
    if is_torn {
        notes.push(TORN.into());
    }
    Ok(Source {
        client: "requests one by one",
        model: Some(header.model),
        date: Some(header.date),
        about: Some(format!(
            "{} at {}; {}; prompts {}; seed {}; client {}",
            header.endpoint,
            header.url,
            header.workload,
            header.prompts,
            header.seed,
            header.program
        )),
        cpu_seconds: stop.map(|stop| stop.cpu_seconds),
        levels,
        notes,
    })
}

/// A number, where a value is one that is finite.
pub(super) fn finite(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.is_finite())
}

/// Numbers of a list. What Python writes for one that is none is NaN; another element is refused.
pub(super) fn numbers(value: &Value) -> Option<Vec<f64>> {
    let number = |value: &Value| match value {
        Value::Null => Some(f64::NAN),
        Value::String(text) if text == "inf" => Some(f64::NAN),
        _ => value.as_f64(),
    };
    value.as_array()?.iter().map(number).collect()
}

#[cfg(test)]
mod tests;
