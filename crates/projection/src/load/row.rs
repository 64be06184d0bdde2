//! Requests one by one, in a form that any client can write: JSON Lines, a header, a line for each
//! request as soon as it has ended, and a last line. Where that is missing, the client was killed,
//! and the requests that were under way are lost.

use serde::{Deserialize, Serialize};

/// The newest version of the format that this program reads.
pub const VERSION: u32 = 1;

/// One line of a file of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The first.
    Load(Header),
    /// A level that was decided upon after the header was written: it follows those before it.
    Level(Plan),
    /// A request that has ended.
    Request(Row),
    /// What the server said of itself.
    Server(Sample),
    /// The last; missing where the run was killed.
    End(Stop),
}

/// What was asked of whom.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`VERSION`] of the file.
    pub version: u32,
    /// The name and version of the client.
    pub program: String,
    /// When measuring began, UTC.
    pub date: String,
    /// The server's address, without names, passwords and query.
    pub url: String,
    /// The model's name, as the server knows it.
    pub model: String,
    /// `completions` or `chat`.
    pub endpoint: String,
    /// Lengths of prompts and answers in words.
    pub workload: String,
    /// Where the length of prompts comes from: the server's own tokenizer, or words.
    pub prompts: String,
    /// The seed of arrivals, lengths and prompts.
    pub seed: u64,
    /// The levels of load, in order.
    pub levels: Vec<Plan>,
}

/// One level of load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Requests a second in an open loop; none in a closed one.
    pub rate: Option<f64>,
    /// Requests at once in a closed loop; none in an open one.
    pub concurrency: Option<u32>,
    /// Of gamma intervals in an open loop, the shape: 1 is Poisson, infinity constant (written as
    /// none).
    pub burstiness: Option<f64>,
    /// Requests that are measured.
    pub requests: u64,
    /// Requests before them, which are not.
    pub warmup: u64,
    /// Of a closed loop: seconds after which no more requests are sent, however many were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

/// For fields that are left out where they are 0.
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// No level lasts longer, in seconds: thirty years.
const MOMENT_MAX: f64 = 1e9;

/// What became of a request.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Answered whole.
    #[default]
    Answered,
    /// No connection: nothing listens there.
    Refused,
    /// No connection for another reason: no such host, no route, TLS, none in time.
    NotConnected,
    /// Status 429: too many requests.
    TooMany,
    /// Another status of 400 to 499: the request is at fault.
    ClientError,
    /// A status of 500 to 599: the server is at fault.
    ServerError,
    /// Another status that is no answer.
    OtherStatus,
    /// The connection ended before the headers of the answer.
    Closed,
    /// No headers within the time-out.
    SlowHeaders,
    /// Headers, and no first token within the time-out.
    NoFirstToken,
    /// Tokens, and then none within the time-out.
    Stalled,
    /// Tokens, and more of them when the time for the whole request was over.
    TooSlow,
    /// The connection ended in the middle of the answer.
    Cut,
    /// The server sent what is no JSON, or no HTTP.
    Malformed,
    /// The stream held an error.
    StreamError,
    /// Ended well, without a token.
    Empty,
    /// More than the client reads of one event.
    TooLong,
    /// The answer has far more parts than tokens were asked for, and no end.
    Endless,
    /// The run ended before the request did.
    Abandoned,
    /// The client itself failed: no thread for the request.
    ClientFailed,
}

impl Ending {
    /// In words, for reports.
    pub fn name(self) -> &'static str {
        match self {
            Ending::Answered => "answered",
            Ending::Refused => "connection refused",
            Ending::NotConnected => "no connection",
            Ending::TooMany => "429 too many requests",
            Ending::ClientError => "status 4xx",
            Ending::ServerError => "status 5xx",
            Ending::OtherStatus => "another status",
            Ending::Closed => "closed before the answer",
            Ending::SlowHeaders => "no headers in time",
            Ending::NoFirstToken => "no first token in time",
            Ending::Stalled => "stalled in the answer",
            Ending::TooSlow => "not whole in time",
            Ending::Cut => "cut in the answer",
            Ending::Malformed => "not JSON or not HTTP",
            Ending::StreamError => "error in the stream",
            Ending::Empty => "no token in the answer",
            Ending::TooLong => "an event too long to read",
            Ending::Endless => "far more than was asked for",
            Ending::Abandoned => "abandoned at the end of the run",
            Ending::ClientFailed => "failed in the client",
        }
    }
}

/// One request. Moments are seconds since the level began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Which level of the header.
    pub level: usize,
    /// Its number in the level, from 0, warm-up included.
    pub number: u64,
    /// Whether it is of the warm-up, and not measured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_warmup: bool,
    /// Whether it was sent a second time, on a connection of its own, since the server had closed
    /// the first one before any answer. Times count from the first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_resent: bool,
    /// When it should be sent: in a closed loop, when its place was free.
    pub scheduled: f64,
    /// When it was sent.
    pub sent: f64,
    /// When the headers of the answer were there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<f64>,
    /// When the first token was there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<f64>,
    /// When the last token was there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<f64>,
    /// When it ended, however.
    pub ended: f64,
    /// What became of it.
    pub ending: Ending,
    /// The HTTP status, where it is not 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Seconds after which the server asks to come again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<f64>,
    /// Tokens of the prompt that were asked for.
    pub asked_input: u32,
    /// Tokens of the answer that were asked for.
    pub asked_output: u32,
    /// Tokens of the prompt as the server counted them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<u32>,
    /// Tokens of the answer as the server counted them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<u32>,
    /// Chunks of the answer that held text.
    pub chunks: u32,
    /// Tokens that the server counts as the answer's and did not stream: hidden reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<u32>,
    /// Whether most of the answer came at one moment: something between held it back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_held_back: bool,
    /// Why the answer ended, in the server's word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<String>,
    /// Events that were not understood, and left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skipped: u32,
    /// What the first of these was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped_kind: Option<String>,
    /// Seconds between one such chunk and the next.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<f32>,
    /// The server's own time to read the prompt, seconds (llama.cpp's `timings`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_prompt: Option<f64>,
    /// The server's own time of the answer, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_answer: Option<f64>,
    /// The prompt, where it is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The answer, where it is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

/// What the server said of itself at one moment, at its path `/metrics`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Which level of the header.
    pub level: usize,
    /// Seconds since the level began.
    pub moment: f64,
    /// Requests that it works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<f64>,
    /// Requests that wait for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<f64>,
    /// The share of the KV cache that is in use, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_used: Option<f64>,
    /// Requests that it put aside for lack of KV cache, since it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preempted: Option<f64>,
    /// Tokens or blocks of prompts that were looked up in the prefix cache, since it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix_asked: Option<f64>,
    /// Of these, those that were found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix_found: Option<f64>,
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stop {
    /// Whether it was interrupted.
    pub interrupted: bool,
    /// CPU time of the client, seconds, all levels together.
    pub cpu_seconds: f64,
}

impl Row {
    /// Every text in it, each of which a server or a prompt may have put there.
    pub fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        [&mut self.prompt, &mut self.answer, &mut self.finish, &mut self.skipped_kind]
            .into_iter()
            .flatten()
    }

    /// Whether its moments can be those of a request: numbers that do not run backwards.
    ///
    /// # Errors
    /// In words: which of them cannot.
    pub fn check(&self) -> Result<(), String> {
        let moments = [
            ("scheduled", Some(self.scheduled)),
            ("sent", Some(self.sent)),
            ("headers", self.headers),
            ("first", self.first),
            ("last", self.last),
            ("ended", Some(self.ended)),
        ];
        let mut before = ("the beginning of the level", 0.0);
        for (name, moment) in moments {
            let Some(moment) = moment else { continue };
            if !(0.0..=MOMENT_MAX).contains(&moment) {
                return Err(format!("request {}: {name} is no moment of a level", self.number));
            }
            // Moments are written to the microsecond by some clients.
            if moment < before.1 - 1e-6 {
                return Err(format!("request {}: {name} is before {}", self.number, before.0));
            }
            before = (name, moment);
        }
        match self.ending == Ending::Answered && self.last.is_none() {
            true => Err(format!("request {}: answered, and without a last token", self.number)),
            false => Ok(()),
        }
    }

    /// From the scheduled moment to the first token, seconds.
    pub fn ttft(&self) -> Option<f64> {
        Some(self.first? - self.scheduled)
    }

    /// From the scheduled moment to the last token, seconds.
    pub fn e2el(&self) -> Option<f64> {
        Some(self.last? - self.scheduled)
    }

    /// Tokens of the answer that were streamed: the server's count without what it hid, or else the
    /// chunks that held text.
    pub fn tokens(&self) -> u32 {
        self.output.map_or(self.chunks, |output| output.saturating_sub(self.hidden.unwrap_or(0)))
    }

    /// Whether chunks and tokens are not one to one: times between chunks are then not times
    /// between tokens.
    pub fn is_chunked(&self) -> bool {
        self.output.is_some() && self.tokens() != self.chunks
    }
}
