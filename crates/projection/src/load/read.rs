//! Results of clients: of this program, of `vllm bench serve` and of AIPerf, told apart by what is
//! in them.

use super::{
    aiperf,
    level::{Level, Limits},
    row::{Header, Line, Row, Sample, Stop, VERSION},
    vllm,
};
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};

/// The most bytes of a file of results.
pub const BYTES_MAX: u64 = 1 << 30;

/// No summary has more requests than this: above it a number is a mistake, and its sums overflow.
pub(super) const COUNT_MAX: f64 = 1e15;

/// The most levels of a file.
const LEVELS_MAX: usize = 10_000;

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
    if first.starts_with("{\"load\":") {
        return own(text, limits);
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = match values.next() {
        Some(Ok(value)) => value,
        Some(Err(error)) => return Err(format!("it is no JSON: {error}")),
        None => return Err("it is empty".into()),
    };
    let has = |key: &str| value.get(key).is_some();
    if has("metadata") && has("metrics") {
        return aiperf::records(text, limits);
    }
    if ["time_to_first_token", "request_latency"].iter().any(|key| value[key].get("unit").is_some())
    {
        return aiperf::summary(&value);
    }
    if has("completed") && has("duration") {
        let all = std::iter::once(Ok(value)).chain(values);
        let all = all.take(LEVELS_MAX).collect::<Result<Vec<_>, _>>();
        let all = all.map_err(|error| format!("it is no JSON to its end: {error}"))?;
        return vllm::results(&all, limits);
    }
    Err("it is of no client that is known: neither of `vllm bench serve --save-result`, nor \
         AIPerf's profile_export_aiperf.json or profile_export.jsonl, nor requests \
         one by one as docs/load.md has them"
        .into())
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
                plan.requests
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
        notes.push("its last line is torn and left out".into());
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

/// Numbers of a list; an element that is none is refused.
pub(super) fn finite_list(value: &Value) -> Option<Vec<f64>> {
    value.as_array()?.iter().map(finite).collect()
}
