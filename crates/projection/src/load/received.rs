//! What arrives of an answer: events of OpenAI's streaming interface (completions and chat), as
//! vLLM and llama.cpp send them, each with the moment at which its bytes were there.

use super::{
    row::{Ending, Row},
    sse::{Event, Events, TooLong},
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;
use std::borrow::Cow;

/// The longest message of a server that is kept, in characters. Whoever shows it shortens it more,
/// when the API key has been taken out: a part of it is not to stay.
const MESSAGE_MAX: usize = 1 << 16;

/// An answer with more events than this multiple of the tokens that were asked for has no end.
const BEYOND: u32 = 16;

/// Events that any answer may have.
const EVENTS_FREE: u32 = 1 << 16;

/// Bytes of events that any answer may have, and bytes for each token beyond: an event with the
/// probabilities of twenty alternatives has two thousand.
const BYTES_FREE: usize = 16 << 20;
const BYTES_OF_TOKEN: usize = 4 << 10;

/// Token events with one moment that are more than this share of an answer's, of four or more: they
/// were held back and came together, so that times between tokens are not the server's.
const TOGETHER: f64 = 0.5;

/// Bytes of an event that cannot be read that are shown.
const SHOWN: usize = 200;

/// The longest name of a kind of events that is kept, in characters.
const KIND_MAX: usize = 40;

/// One event's JSON. What is not here is not looked at.
#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    usage: Option<Usage>,
    /// llama.cpp's own times, in the last event.
    #[serde(default)]
    timings: Option<Timings>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    finish_reason: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    reasoning_content: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    reasoning: Option<Cow<'a, str>>,
    /// OpenRouter's form of reasoning.
    #[serde(default)]
    reasoning_details: Option<Vec<IgnoredAny>>,
    #[serde(borrow, default)]
    refusal: Option<Cow<'a, str>>,
    #[serde(default)]
    tool_calls: Option<Vec<IgnoredAny>>,
    /// The form of calls before `tool_calls`.
    #[serde(default)]
    function_call: Option<IgnoredAny>,
    #[serde(default)]
    role: Option<IgnoredAny>,
}

#[derive(Clone, Copy, Deserialize)]
struct Usage {
    #[serde(default, deserialize_with = "count")]
    prompt_tokens: Option<u32>,
    #[serde(default, deserialize_with = "count")]
    completion_tokens: Option<u32>,
    #[serde(default)]
    completion_tokens_details: Option<Details>,
}

/// What OpenAI's interface says of the tokens of an answer.
#[derive(Clone, Copy, Deserialize)]
struct Details {
    #[serde(default, deserialize_with = "count")]
    reasoning_tokens: Option<u32>,
}

/// A number of tokens, also where it is written with a point; what can be none is not known.
fn count<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let number = Option::<Value>::deserialize(from)?.and_then(|value| value.as_f64());
    let is_count = |number: &f64| number.fract() == 0.0 && (0.0..=1e9).contains(number);
    Ok(number.filter(is_count).map(|number| number as u32))
}

#[derive(Clone, Copy, Deserialize)]
struct Timings {
    #[serde(default)]
    prompt_ms: Option<f64>,
    #[serde(default)]
    predicted_ms: Option<f64>,
}

/// An answer as far as it has arrived. Moments are seconds since the level began.
#[derive(Clone, Debug, Default)]
pub struct Received {
    events: Events,
    parts: Parts,
}

#[derive(Clone, Debug, Default)]
struct Parts {
    first: Option<f64>,
    last: Option<f64>,
    chunks: u32,
    /// Events of any kind.
    events: u32,
    /// The most that are read.
    most: u32,
    /// Bytes of all events.
    bytes: usize,
    gaps: Vec<f32>,
    /// Events with a choice whose text is empty, and which announce nothing else.
    silent: Silent,
    /// Token events with the moment of the last one, and the most that had one moment.
    together: [u32; 2],
    /// Whether reasoning was streamed.
    has_reasoning: bool,
    input: Option<u32>,
    output: Option<u32>,
    /// Tokens of reasoning, as the server counts them.
    reasoning: Option<u32>,
    finish: Option<String>,
    /// Events that were not understood, and what the first of them was.
    skipped: u32,
    skipped_kind: Option<String>,
    server_prompt: Option<f64>,
    server_answer: Option<f64>,
    is_finished: bool,
    /// When the end of the stream was announced.
    done: Option<f64>,
    keeps_text: bool,
    text: String,
    message: Option<String>,
}

/// Events without text that may be tokens: pieces of a character, special tokens. Whether they are
/// is known at the end, when the server's count is there.
#[derive(Clone, Debug, Default)]
struct Silent {
    count: u32,
    first: Option<f64>,
    last: Option<f64>,
    /// The gaps between all events, these ones included.
    gaps: Vec<f32>,
}

impl From<TooLong> for Ending {
    fn from(_: TooLong) -> Ending {
        Ending::TooLong
    }
}

impl Received {
    /// Nothing yet of an answer to a request for `asked` tokens.
    pub fn new(keeps_text: bool, asked: u32) -> Received {
        let most = asked.saturating_mul(BEYOND).max(EVENTS_FREE);
        Received { parts: Parts { keeps_text, most, ..Parts::default() }, ..Received::default() }
    }

    /// Takes bytes that were there at a moment.
    ///
    /// # Errors
    /// How the request ends by them: not JSON, an error in the stream, too long.
    pub fn take(&mut self, bytes: &[u8], now: f64) -> Result<(), Ending> {
        let parts = &mut self.parts;
        self.events.take(bytes, |event| parts.take(event, now))
    }

    /// How a request ends whose answer has ended without an error of the connection.
    pub fn ending(&self) -> Ending {
        let parts = &self.parts;
        match parts.done.is_some() || parts.is_finished {
            true if parts.chunks == 0 => Ending::Empty,
            true => Ending::Answered,
            false if parts.chunks == 0 => Ending::Empty,
            false => Ending::Cut,
        }
    }

    /// When the end of the stream was announced: what becomes of the connection after it is no
    /// matter of this answer.
    pub fn done(&self) -> Option<f64> {
        self.parts.done
    }

    /// Whether a token is there.
    pub fn has_token(&self) -> bool {
        self.parts.first.is_some()
    }

    /// What the server said of an error in the stream.
    pub fn message(&self) -> Option<&str> {
        self.parts.message.as_deref()
    }

    /// Puts all of it into a row.
    pub fn into_row(self, row: &mut Row) {
        let mut parts = self.parts;
        parts.count_silent_tokens();
        row.first = parts.first;
        row.last = parts.last;
        row.chunks = parts.chunks;
        row.gaps = parts.gaps;
        let most = f64::from(parts.together[1]);
        row.is_held_back = parts.chunks >= 4 && most > TOGETHER * f64::from(parts.chunks);
        let hidden = parts.reasoning.filter(|_| !parts.has_reasoning);
        // Where more came than that leaves, reasoning was streamed as text.
        let left = |hidden: u32| parts.output.and_then(|output| output.checked_sub(hidden));
        row.hidden = hidden
            .filter(|&hidden| hidden > 0 && left(hidden).is_some_and(|left| parts.chunks <= left));
        row.finish = parts.finish;
        row.skipped = parts.skipped;
        row.skipped_kind = parts.skipped_kind;
        row.input = parts.input;
        row.output = parts.output;
        row.server_prompt = parts.server_prompt;
        row.server_answer = parts.server_answer;
        row.answer = parts.keeps_text.then_some(parts.text);
    }
}

impl Parts {
    fn take(&mut self, event: Event<'_>, now: f64) -> Result<(), Ending> {
        let data = match event {
            // What follows the end belongs to no answer.
            _ if self.done.is_some() => return Ok(()),
            Event::Data(data) => data,
            Event::Error(data) => {
                self.message = Some(message(data));
                return Err(Ending::StreamError);
            }
        };
        if data.trim_ascii() == b"[DONE]" {
            self.done = Some(now);
            return Ok(());
        }
        self.events += 1;
        self.bytes += data.len();
        let asked = self.most.max(EVENTS_FREE) as usize - EVENTS_FREE as usize;
        if self.events > self.most || self.bytes > BYTES_FREE + asked * BYTES_OF_TOKEN {
            return Err(Ending::Endless);
        }
        if data.trim_ascii().is_empty() {
            self.skip("an event without data");
            return Ok(());
        }
        let Ok(chunk) = serde_json::from_slice::<Chunk<'_>>(data) else {
            return self.take_other(data, now);
        };
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            self.message = Some(message_of(&error));
            return Err(Ending::StreamError);
        }
        if chunk.choices.is_none() && chunk.usage.is_none() && chunk.timings.is_none() {
            let kind = serde_json::from_slice(data).map(|value: Value| kind_of(&value));
            self.skip(&kind.unwrap_or_default());
            return Ok(());
        }
        let (mut has_text, mut is_silent) = (false, false);
        for choice in chunk.choices.iter().flatten() {
            self.finishes(choice.finish_reason.as_deref())?;
            let delta = choice.delta.as_ref();
            let texts = [
                choice.text.as_deref(),
                delta.and_then(|delta| delta.reasoning_content.as_deref()),
                delta.and_then(|delta| delta.reasoning.as_deref()),
                delta.and_then(|delta| delta.content.as_deref()),
            ];
            let has = |texts: &[Option<&str>]| texts.iter().flatten().any(|text| !text.is_empty());
            has_text |= has(&texts);
            self.has_reasoning |= has(&texts[1..3]);
            if let Some(delta) = delta {
                let is_listed = |list: &Option<Vec<IgnoredAny>>| {
                    list.as_ref().is_some_and(|one| !one.is_empty())
                };
                self.has_reasoning |= is_listed(&delta.reasoning_details);
                has_text |= is_listed(&delta.tool_calls) || is_listed(&delta.reasoning_details);
                has_text |= delta.function_call.is_some();
                has_text |= delta.refusal.as_deref().is_some_and(|text| !text.is_empty());
            }
            let is_plain = choice.finish_reason.as_deref().unwrap_or_default().is_empty()
                && delta.is_none_or(|delta| delta.role.is_none());
            is_silent |= is_plain && texts.iter().any(Option::is_some);
            if self.keeps_text {
                self.text.extend(texts.into_iter().flatten());
            }
        }
        if has_text {
            self.token(now);
        } else if is_silent {
            self.silent_token(now);
        }
        if let Some(usage) = chunk.usage {
            self.uses(usage);
        }
        if let Some(timings) = chunk.timings {
            let seconds = |time: Option<f64>| time.filter(|time| *time >= 0.0).map(|ms| ms * 1e-3);
            self.server_prompt = seconds(timings.prompt_ms).or(self.server_prompt);
            self.server_answer = seconds(timings.predicted_ms).or(self.server_answer);
        }
        Ok(())
    }
}

impl Parts {
    /// An event of a token, or of several.
    fn token(&mut self, now: f64) {
        let is_first = self.silent.count == 0;
        self.gaps.extend(self.last.map(|last| (now - last) as f32));
        if !is_first {
            let last = later(self.silent.last, self.last);
            self.silent.gaps.extend(last.map(|last| (now - last) as f32));
        }
        let same = if self.last == Some(now) { self.together[0] + 1 } else { 1 };
        self.together = [same, self.together[1].max(same)];
        self.first.get_or_insert(now);
        self.last = Some(now);
        self.chunks += 1;
    }

    /// An event that may be a token without text.
    fn silent_token(&mut self, now: f64) {
        let silent = &mut self.silent;
        if silent.count == 0 {
            silent.gaps.clone_from(&self.gaps);
        }
        let last = later(silent.last, self.last);
        silent.gaps.extend(last.map(|last| (now - last) as f32));
        silent.first.get_or_insert(now);
        silent.last = Some(now);
        silent.count += 1;
    }

    /// Counts events without text as tokens where the server's count says that they are.
    fn count_silent_tokens(&mut self) {
        let silent = &mut self.silent;
        let visible = |output: u32| match self.has_reasoning {
            true => output,
            false => output.saturating_sub(self.reasoning.unwrap_or(0)),
        };
        let all = self.chunks + silent.count;
        if silent.count == 0 || self.chunks == 0 || self.output.map(visible) != Some(all) {
            return;
        }
        self.first = [self.first, silent.first].into_iter().flatten().reduce(f64::min);
        self.last = later(self.last, silent.last);
        self.gaps = std::mem::take(&mut silent.gaps);
        self.chunks = all;
    }

    /// What a choice says of its end.
    fn finishes(&mut self, reason: Option<&str>) -> Result<(), Ending> {
        match reason {
            None | Some("") => {}
            Some(reason @ ("abort" | "error")) => {
                self.message = Some(format!("finish_reason {reason}"));
                return Err(Ending::StreamError);
            }
            Some(reason) => {
                self.is_finished = true;
                self.finish = Some(named(reason));
            }
        }
        Ok(())
    }

    fn uses(&mut self, usage: Usage) {
        self.input = usage.prompt_tokens.or(self.input);
        self.output = usage.completion_tokens.or(self.output);
        let details = usage.completion_tokens_details;
        self.reasoning = details.and_then(|one| one.reasoning_tokens).or(self.reasoning);
    }

    /// Counts an event that need not be understood.
    fn skip(&mut self, kind: &str) {
        self.skipped += 1;
        self.skipped_kind.get_or_insert_with(|| named(kind));
    }

    /// An event in another form than that of most servers: its parts that are understood are taken,
    /// and what is left is counted.
    ///
    /// # Errors
    /// Where it is no JSON, or says that the answer failed.
    fn take_other(&mut self, data: &[u8], now: f64) -> Result<(), Ending> {
        let value: Value = serde_json::from_slice(data).map_err(|error| {
            let start = String::from_utf8_lossy(&data[..data.len().min(SHOWN)]);
            self.message = Some(shortened(&format!("an event is no JSON ({error}): {start}")));
            Ending::Malformed
        })?;
        let error = &value["error"];
        if !error.is_null() {
            self.message = Some(message_of(error));
            return Err(Ending::StreamError);
        }
        let usage = Usage::deserialize(&value["usage"]).ok();
        let choices = value["choices"].as_array();
        let mut has_text = false;
        for choice in choices.into_iter().flatten() {
            self.finishes(choice["finish_reason"].as_str())?;
            let delta = &choice["delta"];
            let reasoning = ["reasoning_content", "reasoning", "reasoning_details"];
            self.has_reasoning |= reasoning.iter().any(|key| says_something(&delta[*key]));
            let keys = ["content", "refusal", "tool_calls", "function_call"];
            has_text |= reasoning.iter().chain(&keys).any(|key| says_something(&delta[*key]));
            has_text |= says_something(&choice["text"]);
        }
        if has_text {
            self.token(now);
        }
        match (usage, choices) {
            (Some(usage), _) => self.uses(usage),
            (None, Some(_)) => {}
            (None, None) => self.skip(&kind_of(&value)),
        }
        Ok(())
    }
}

/// The later of two moments.
fn later(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    [one, other].into_iter().flatten().reduce(f64::max)
}

/// Whether a value holds any text, however deep.
fn says_something(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.is_empty(),
        // The kind of a part is no text of the answer.
        Value::Object(fields) => {
            fields.iter().any(|(key, value)| key != "type" && says_something(value))
        }
        Value::Array(list) => list.iter().any(says_something),
        _ => false,
    }
}

/// What an event is by its own words, else by its first key.
fn kind_of(value: &Value) -> String {
    let stated = ["type", "object", "event", "status"].iter().find_map(|key| value[*key].as_str());
    let key = || value.as_object().and_then(|fields| fields.keys().next()).map(String::as_str);
    stated.or_else(key).unwrap_or("no object").to_owned()
}

/// A short word of a server, harmless to show.
fn named(text: &str) -> String {
    fizeau_domain::text::shorten(&fizeau_domain::text::clean(text), KIND_MAX)
}

/// What the text of an error says, to be shown: its `message` where it is JSON that has one.
pub fn message(text: &[u8]) -> String {
    match serde_json::from_slice::<Value>(text) {
        Ok(value) => message_of(value.get("error").unwrap_or(&value)),
        Err(_) => shortened(&String::from_utf8_lossy(text)),
    }
}

fn message_of(error: &Value) -> String {
    let text = ["message", "detail"].iter().find_map(|key| error[*key].as_str());
    match text.or_else(|| error.as_str()) {
        Some(text) => shortened(text),
        None => shortened(&error.to_string()),
    }
}

fn shortened(text: &str) -> String {
    fizeau_domain::text::shorten(&fizeau_domain::text::clean(text), MESSAGE_MAX)
}

#[cfg(test)]
mod tests;
