//! Faults on demand.

use std::str::FromStr;

/// What goes wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Status 429, with `Retry-After: 2`.
    TooMany,
    /// Status 400.
    ClientError,
    /// Status 500.
    ServerError,
    /// Status 302.
    Redirect,
    /// The connection is closed without a word.
    Close,
    /// The connection is closed in the middle of the answer.
    Cut,
    /// Nothing comes any more, in the middle of the answer.
    Stall,
    /// The headers never come.
    SlowHeaders,
    /// The headers come, and nothing else.
    NoFirstToken,
    /// An event that is no JSON.
    WrongJson,
    /// What comes is no HTTP.
    NotHttp,
    /// JSON and no stream of events.
    NoStream,
    /// A token of 10^6 bytes.
    BigChunk,
    /// A token of 2 x 10^6 bytes.
    HugeChunk,
    /// An error in the stream.
    StreamError,
    /// A whole answer without a token.
    Empty,
}

const KINDS: [(&str, FaultKind); 16] = [
    ("429", FaultKind::TooMany),
    ("400", FaultKind::ClientError),
    ("500", FaultKind::ServerError),
    ("302", FaultKind::Redirect),
    ("close", FaultKind::Close),
    ("cut", FaultKind::Cut),
    ("stall", FaultKind::Stall),
    ("slow-headers", FaultKind::SlowHeaders),
    ("no-first-token", FaultKind::NoFirstToken),
    ("wrong-json", FaultKind::WrongJson),
    ("not-http", FaultKind::NotHttp),
    ("no-stream", FaultKind::NoStream),
    ("big-chunk", FaultKind::BigChunk),
    ("huge-chunk", FaultKind::HugeChunk),
    ("stream-error", FaultKind::StreamError),
    ("empty", FaultKind::Empty),
];

/// A fault and the requests that it meets, by their number in the level, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What goes wrong.
    pub kind: FaultKind,
    number: u64,
    is_repeated: bool,
}

impl Fault {
    /// Whether it meets the request of a number.
    pub fn meets(&self, number: u64) -> bool {
        match self.is_repeated {
            true => (number + 1).is_multiple_of(self.number.max(1)),
            false => number == self.number,
        }
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Fault, String> {
        let names: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
        let refuse = || {
            format!(
                "{text:?}: write KIND@NUMBER for one request (429@3) or KIND/NUMBER for every \
                 NUMBER-th (429/10); kinds: {}",
                names.join(", ")
            )
        };
        let (name, number, is_repeated) = match (text.split_once('@'), text.split_once('/')) {
            (Some((name, number)), None) => (name, number, false),
            (None, Some((name, number))) => (name, number, true),
            _ => return Err(refuse()),
        };
        let kind = KINDS.iter().find(|(known, _)| *known == name).ok_or_else(refuse)?.1;
        let number = number.parse().map_err(|_| refuse())?;
        Ok(Fault { kind, number, is_repeated })
    }
}
