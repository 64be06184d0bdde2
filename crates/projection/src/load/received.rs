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
    #[serde(default)]
    tool_calls: Option<Vec<IgnoredAny>>,
}

#[derive(Clone, Copy, Deserialize)]
struct Usage {
    #[serde(default)]
    prompt_tokens: Option<u32>,
    #[serde(default)]
    completion_tokens: Option<u32>,
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
    input: Option<u32>,
    output: Option<u32>,
    server_prompt: Option<f64>,
    server_answer: Option<f64>,
    is_finished: bool,
    /// When the end of the stream was announced.
    done: Option<f64>,
    keeps_text: bool,
    text: String,
    message: Option<String>,
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
        let parts = self.parts;
        row.first = parts.first;
        row.last = parts.last;
        row.chunks = parts.chunks;
        row.gaps = parts.gaps;
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
        let chunk: Chunk<'_> = serde_json::from_slice(data).map_err(|_| Ending::Malformed)?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            self.message = Some(message_of(&error));
            return Err(Ending::StreamError);
        }
        if chunk.choices.is_none() && chunk.usage.is_none() && chunk.timings.is_none() {
            return Err(Ending::Malformed);
        }
        let mut has_text = false;
        for choice in chunk.choices.iter().flatten() {
            match choice.finish_reason.as_deref() {
                None | Some("") => {}
                Some(reason @ ("abort" | "error")) => {
                    self.message = Some(format!("finish_reason {reason}"));
                    return Err(Ending::StreamError);
                }
                Some(_) => self.is_finished = true,
            }
            let delta = choice.delta.as_ref();
            let texts = [
                choice.text.as_deref(),
                delta.and_then(|delta| delta.reasoning_content.as_deref()),
                delta.and_then(|delta| delta.reasoning.as_deref()),
                delta.and_then(|delta| delta.content.as_deref()),
            ];
            has_text |= texts.iter().flatten().any(|text| !text.is_empty());
            let calls = delta.and_then(|delta| delta.tool_calls.as_ref());
            has_text |= calls.is_some_and(|calls| !calls.is_empty());
            if self.keeps_text {
                self.text.extend(texts.into_iter().flatten());
            }
        }
        if has_text {
            self.gaps.extend(self.last.map(|last| (now - last) as f32));
            self.first.get_or_insert(now);
            self.last = Some(now);
            self.chunks += 1;
        }
        if let Some(usage) = chunk.usage {
            self.input = usage.prompt_tokens.or(self.input);
            self.output = usage.completion_tokens.or(self.output);
        }
        if let Some(timings) = chunk.timings {
            let seconds = |time: Option<f64>| time.filter(|time| *time >= 0.0).map(|ms| ms * 1e-3);
            self.server_prompt = seconds(timings.prompt_ms).or(self.server_prompt);
            self.server_answer = seconds(timings.predicted_ms).or(self.server_answer);
        }
        Ok(())
    }
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
mod tests {
    use super::*;

    fn row(pieces: &[(&str, f64)]) -> (Result<(), Ending>, Row) {
        let mut received = Received::new(true, 4);
        let mut taken = Ok(());
        for (piece, now) in pieces {
            taken = taken.and_then(|()| received.take(piece.as_bytes(), *now));
        }
        let mut row = Row { ending: received.ending(), ..Row::default() };
        received.into_row(&mut row);
        (taken, row)
    }

    #[test]
    fn tokens_are_stamped_and_counted_by_the_server() {
        let (taken, row) = row(&[
            (
                "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
                0.5,
            ),
            ("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n", 0.9),
            ("\n", 1.0),
            ("data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"b\"}}]}\n\n", 1.5),
            ("data: {\"choices\":[{\"text\":\"c\",\"finish_reason\":\"length\"}]}\n\n", 1.75),
            ("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":4},", 2.0),
            ("\"timings\":{\"prompt_ms\":125.0,\"predicted_ms\":750.0}}\n\ndata: [DONE]\n\n", 2.0),
        ]);
        assert_eq!((taken, row.ending), (Ok(()), Ending::Answered));
        assert_eq!((row.first, row.last, row.chunks), (Some(1.0), Some(1.75), 3));
        assert_eq!((row.gaps.as_slice(), row.is_chunked()), (&[0.5, 0.25][..], true));
        assert_eq!((row.input, row.output), (Some(7), Some(4)));
        assert_eq!((row.server_prompt, row.server_answer), (Some(0.125), Some(0.75)));
        assert_eq!(row.answer.as_deref(), Some("abc"));
    }

    #[test]
    fn an_answer_ends_far_beyond_what_was_asked_for() {
        let token = b"data: {\"choices\":[{\"text\":\"a\"}]}\n\n";
        for (asked, most) in [(5, EVENTS_FREE), (10_000, 160_000)] {
            let mut received = Received::new(false, asked);
            for _ in 0..most {
                assert_eq!(received.take(token, 0.0), Ok(()));
            }
            assert_eq!(received.take(token, 0.0), Err(Ending::Endless), "{asked}");
        }
        let text = "a".repeat(1 << 19);
        let long = format!("data: {{\"choices\":[{{\"text\":\"{text}\"}}]}}\n\n");
        let mut received = Received::new(true, 8);
        let taken = (0..40).map(|_| received.take(long.as_bytes(), 0.0));
        let taken: Vec<_> = taken.collect();
        assert_eq!(taken.iter().position(Result::is_err), Some(31), "16 MiB, for 8 tokens");
    }

    #[test]
    fn each_fault_of_a_stream_has_its_name() {
        let token = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n";
        let taken = |text: &str| row(&[(text, 0.0)]);
        assert_eq!(taken(token).1.ending, Ending::Cut);
        assert_eq!(taken("").1.ending, Ending::Empty);
        assert_eq!(taken("data: [DONE]\n\n").1.ending, Ending::Empty);
        for (text, ending) in [
            ("data: {\"choices\n\n", Ending::Malformed),
            ("data: {\"id\": 3}\n\n", Ending::Malformed),
            ("data: 7\n\n", Ending::Malformed),
            ("data: {\"choices\": 3}\n\n", Ending::Malformed),
            ("data: {\"error\": {\"message\": \"boom\", \"code\": 500}}\n\n", Ending::StreamError),
            ("error: {\"message\": \"boom\"}\n\n", Ending::StreamError),
            (
                "data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"abort\"}]}\n\n",
                Ending::StreamError,
            ),
        ] {
            assert_eq!(taken(text).0, Err(ending), "{text}");
        }
        let unfinished = "data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"\"}]}\n\n";
        assert_eq!(taken(unfinished).1.ending, Ending::Cut);
        let empty = "data: {\"choices\":[{\"delta\":{\"content\":\"\",\"tool_calls\":[]}}]}\n\n";
        assert_eq!(taken(empty).1.first, None, "an empty list of calls is no token");
        let after = row(&[(token, 1.0), ("data: [DONE]\n\n", 2.0), (token, 3.0)]).1;
        assert_eq!((after.last, after.chunks, after.ending), (Some(1.0), 1, Ending::Answered));
        let mut received = Received::new(false, 4);
        let told = received.take(b"data: {\"error\": {\"message\": \"bo\x1bom\"}}\n\n", 0.0);
        assert_eq!(told, Err(Ending::Malformed), "a control character within a string");
        let told = received.take(b"data: {\"error\": \"bo\\u001bom\"}\n\n", 0.0);
        assert_eq!((told, received.message()), (Err(Ending::StreamError), Some("bo\u{fffd}om")));
    }
}
