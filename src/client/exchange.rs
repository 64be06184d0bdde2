//! One request: sent, its answer received token by token, and what became of it.

use super::http::{Client, Connections, is_closed, unwrapped};
use fizeau_device::clock::Moment;
use fizeau_domain::{text::shorten, units::Seconds};
use fizeau_projection::load::{
    received::{self, Received},
    row::{Ending, Row},
};
use std::io::{self, Read};
use ureq::{Agent, Body, Error, Timeout, http::Response};

/// A request that was made before the clock started.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Its body.
    pub body: Vec<u8>,
    /// Tokens of its prompt.
    pub input: u32,
    /// Tokens of the answer that it asks for.
    pub output: u32,
    /// The prompt, where rows keep it.
    pub prompt: Option<String>,
}

/// What became of a request.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its row.
    pub row: Row,
    /// What the server or the system said of a failure. It may quote the prompt: it is shown, and
    /// kept nowhere.
    pub message: Option<String>,
}

/// The most bytes of an error's text.
const ERROR_MAX: u64 = 16 << 10;

/// A connection that the server had closed already is found out sooner than this; what is closed
/// later was closed by a server that had the request.
const STALE: Seconds = Seconds(1.0);

/// The longest message that is shown, in characters.
const SHOWN_MAX: usize = 300;

/// Bytes of an answer that are read at once.
const PIECE: usize = 16 << 10;

impl Client {
    /// Sends a request and receives its answer. `row` has what is known of it before; moments count
    /// from `start`.
    pub fn exchange(
        &self,
        connections: &Connections,
        request: &Prepared,
        id: &str,
        start: Moment,
        mut row: Row,
    ) -> Outcome {
        row.asked_input = request.input;
        row.asked_output = request.output;
        row.sent = start.elapsed().0;
        let mut received = Received::new(request.prompt.is_some(), request.output);
        let mut sent = self.send(&connections.kept, request, id);
        let is_stale = start.elapsed().0 - row.sent < STALE.0;
        if is_stale && matches!(sent, Err((Ending::Closed, _))) {
            row.is_resent = true;
            sent = self.send(&connections.fresh, request, id);
        }
        let ended = sent.and_then(|response| {
            row.headers = Some(start.elapsed().0);
            receive(response, &mut row, &mut received, start)
        });
        row.ended = received.done().unwrap_or_else(|| start.elapsed().0);
        let message = match ended {
            Ok(()) => {
                row.ending = received.ending();
                None
            }
            Err((ending, message)) => {
                row.ending = ending;
                received.message().map(str::to_owned).or(message)
            }
        };
        received.into_row(&mut row);
        row.prompt = request.prompt.clone();
        // A server may send back what it was sent, the key included.
        row.texts().for_each(|text| *text = self.harmless(text));
        Outcome { row, message: message.map(|text| shorten(&self.harmless(&text), SHOWN_MAX)) }
    }

    fn send(
        &self,
        connections: &Agent,
        request: &Prepared,
        id: &str,
    ) -> Result<Response<Body>, Failure> {
        let mut post = connections
            .post(self.target.url())
            .content_type("application/json")
            .header("Accept", "text/event-stream")
            .header("X-Request-Id", id);
        for (name, value) in self.own_headers() {
            post = post.header(name, value);
        }
        post.send(&request.body[..]).map_err(|error| {
            let ending = before_headers(&error);
            (ending, Some(error.to_string()))
        })
    }
}

type Failure = (Ending, Option<String>);

fn receive(
    mut response: Response<Body>,
    row: &mut Row,
    received: &mut Received,
    start: Moment,
) -> Result<(), Failure> {
    let status = response.status().as_u16();
    if status != 200 {
        row.status = Some(status);
        let header = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
        row.retry_after = header
            .and_then(|text| text.trim().parse::<f64>().ok())
            .filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
        let ending = match status {
            429 => Ending::TooMany,
            400..=499 => Ending::ClientError,
            500..=599 => Ending::ServerError,
            _ => Ending::OtherStatus,
        };
        let text = response.body_mut().with_config().limit(ERROR_MAX).read_to_vec();
        let text = text.map(|text| received::message(&text)).unwrap_or_default();
        return Err((ending, Some(format!("status {status}: {text}"))));
    }
    let kind = response.headers().get("content-type").and_then(|value| value.to_str().ok());
    if !kind.is_some_and(|kind| kind.trim_start().starts_with("text/event-stream")) {
        let kind = kind.unwrap_or("nothing").to_owned();
        let text = response.body_mut().with_config().limit(ERROR_MAX).read_to_vec();
        let text = text.map(|text| received::message(&text)).unwrap_or_default();
        let message =
            format!("the answer is no stream of events (text/event-stream), but {kind}: {text}");
        return Err((Ending::Malformed, Some(message)));
    }
    let mut reader = response.body_mut().as_reader();
    let mut piece = [0; PIECE];
    loop {
        match reader.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                let now = start.elapsed().0;
                received.take(&piece[..count], now).map_err(|ending| (ending, None))?;
                // Its end is read, so that the connection can be used again, but not waited for.
                if received.done().is_some_and(|done| now - done > STALE.0) {
                    return Ok(());
                }
            }
            // All that belongs to the answer was there.
            Err(_) if received.done().is_some() => return Ok(()),
            Err(error) => {
                let error = unwrapped(error);
                let ending = within_answer(&error, received.has_token());
                return Err((ending, Some(error.to_string())));
            }
        }
    }
}

/// How a request ends that has got no headers.
fn before_headers(error: &Error) -> Ending {
    match error {
        Error::Timeout(Timeout::Resolve | Timeout::Connect) | Error::HostNotFound => {
            Ending::NotConnected
        }
        Error::Timeout(_) => Ending::SlowHeaders,
        closed if is_closed(closed) => Ending::Closed,
        Error::Io(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused => Ending::Refused,
            _ if is_own(error) => Ending::ClientFailed,
            _ => Ending::NotConnected,
        },
        Error::Tls(_) | Error::Rustls(_) | Error::ConnectionFailed | Error::TlsRequired => {
            Ending::NotConnected
        }
        Error::Protocol(_) | Error::Http(_) | Error::LargeResponseHeader(..) => Ending::Malformed,
        _ => Ending::ClientFailed,
    }
}

/// Whether this machine lacks what a connection needs: files, ports, memory.
fn is_own(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let own = [Errno::MFILE, Errno::NFILE, Errno::ADDRNOTAVAIL, Errno::NOBUFS, Errno::NOMEM];
    own.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// How a request ends within its answer.
fn within_answer(error: &Error, has_token: bool) -> Ending {
    match error {
        Error::Timeout(Timeout::PerRead) if has_token => Ending::Stalled,
        Error::Timeout(_) if has_token => Ending::TooSlow,
        Error::Timeout(_) => Ending::NoFirstToken,
        Error::Protocol(_) | Error::Http(_) => Ending::Malformed,
        _ => Ending::Cut,
    }
}
