//! The server itself: a thread for each connection.

use super::{
    FaultKind,
    laws::{Laws, Stamp, tokens_of},
    request::{self, Request},
};
use crate::client::tokenizer::Dialect;
use fizeau_device::clock::{self, Moment};
use fizeau_domain::units::Seconds;
use fizeau_projection::load::queue::{Served, Slots};
use serde_json::{Value, json};
use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    num::NonZeroU64,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

/// A server that runs, until the process ends.
#[derive(Clone, Debug)]
pub struct Server {
    address: SocketAddr,
}

struct Shared {
    laws: Laws,
    start: Moment,
    queue: Mutex<Queue>,
}

struct Queue {
    slots: Slots,
    /// The moment of the first request.
    first: Option<f64>,
    arrivals: u64,
    /// Requests that have not ended, by their laws.
    there: Vec<Served>,
    stamps: Vec<Stamp>,
}

/// The most stamps that are kept.
const STAMPS_MAX: usize = 1_000_000;

/// Address space of a connection's thread.
const STACK: usize = 1 << 20;

impl Server {
    /// Listens at an address, and serves by these laws.
    ///
    /// # Errors
    /// Where the address cannot be had, or there is no thread.
    pub fn begin(address: SocketAddr, laws: Laws) -> io::Result<Server> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let slots = Slots::new(laws.slots);
        let (there, stamps) = (Vec::new(), Vec::new());
        let queue = Queue { slots, first: None, arrivals: 0, there, stamps };
        let shared = Arc::new(Shared { laws, start: clock::now(), queue: Mutex::new(queue) });
        let accept = move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else {
                    // No file is left for it: others will end.
                    clock::rest(Seconds(0.01));
                    continue;
                };
                let shared = Arc::clone(&shared);
                let named = thread::Builder::new().name("connection".into()).stack_size(STACK);
                // Where there is no thread, the connection is closed.
                let _ = named.spawn(move || shared.attend(stream));
            }
        };
        thread::Builder::new().name("known server".into()).spawn(accept)?;
        Ok(Server { address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attend(&self, mut stream: TcpStream) {
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let _ = stream.set_nodelay(true);
        let mut rest = Vec::new();
        while let Ok(Some(request)) = request::read(&mut stream, &mut rest) {
            if !self.answer(&mut stream, &request).is_ok_and(|stays| stays) {
                return;
            }
        }
    }

    /// Answers; whether the connection stays open.
    fn answer(&self, stream: &mut TcpStream, request: &Request) -> io::Result<bool> {
        let wanted = self.laws.key.as_ref().map(|key| format!("Bearer {key}"));
        if wanted.is_some() && wanted != request.authorization {
            let given = request.authorization.as_deref().unwrap_or("nothing");
            let error = json!({"error": {"message": format!("wrong key: {given}")}});
            return plain(stream, "401 Unauthorized", "", &error);
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
        match request.line.as_str() {
            "GET /health" => plain(stream, "200 OK", "", &json!({"status": "ok"})),
            "GET /v1/models" => plain(stream, "200 OK", "", &models()),
            "GET /metrics" => {
                let (running, waiting) = self.there();
                let text = format!(
                    "vllm:num_requests_running {running}\nvllm:num_requests_waiting {waiting}\n"
                );
                whole(stream, "200 OK", "text/plain; version=0.0.4", "", &text)
            }
            "GET /stamps" => {
                let stamps = serde_json::to_value(&self.queue().stamps)?;
                plain(stream, "200 OK", "", &stamps)
            }
            "POST /tokenize" if self.laws.dialect.is_some() => {
                plain(stream, "200 OK", "", &self.tokenized(&body))
            }
            "POST /apply-template" if self.laws.dialect == Some(Dialect::LlamaCpp) => {
                let prompt = format!("User: {}", message(&body));
                plain(stream, "200 OK", "", &json!({"prompt": prompt}))
            }
            "POST /v1/completions" | "POST /v1/chat/completions" => {
                self.complete(stream, request, &body)
            }
            _ => {
                let error = json!({"error": {"message": "no such path"}});
                plain(stream, "404 Not Found", "", &error)
            }
        }
    }

    fn tokenized(&self, body: &Value) -> Value {
        match self.laws.dialect {
            Some(Dialect::LlamaCpp) => {
                let count = body["content"].as_str().map_or(0, tokens_of);
                json!({"tokens": vec![1; count as usize]})
            }
            _ => match (body["prompt"].as_str(), body.get("messages")) {
                (Some(prompt), _) => json!({"count": tokens_of(prompt)}),
                (None, Some(_)) => json!({"count": tokens_of(&format!("User: {}", message(body)))}),
                (None, None) => json!({"object": "error"}),
            },
        }
    }

    /// Requests that are served now, and that wait.
    fn there(&self) -> (usize, usize) {
        let queue = self.queue();
        let now = self.start.elapsed().0;
        let there = || queue.there.iter().filter(|one| one.end > now);
        let running = there().filter(|one| one.begin <= now).count();
        (running, there().count() - running)
    }

    /// When a request is served that is there now, and how it is counted.
    fn admit(&self, request: &Request, tokens: u32) -> (f64, Served, u64, u64) {
        let mut queue = self.queue();
        let arrived = self.start.elapsed().0;
        if queue.first.is_none() {
            queue.first = Some(arrived);
            if let Some((after, long)) = self.laws.pause {
                queue.slots.pause(arrived + after.0, arrived + after.0 + long.0);
            }
        }
        let (level, number) = request.number.unwrap_or((0, queue.arrivals));
        queue.arrivals += 1;
        let served = queue.slots.serve(arrived, self.laws.time(level, number, tokens));
        queue.there.retain(|one| one.end > arrived);
        queue.there.push(served);
        (arrived, served, level, number)
    }

    fn complete(
        &self,
        stream: &mut TcpStream,
        request: &Request,
        body: &Value,
    ) -> io::Result<bool> {
        let tokens = asked_tokens(body);
        let fault = self.fault_of(request);
        if let Some(stays) = fault_before_answer(stream, fault)? {
            return Ok(stays);
        }
        let is_chat = request.line.ends_with("/chat/completions");
        let prompt = match is_chat {
            true => format!("User: {}", message(body)),
            false => text_of(&body["prompt"]),
        };
        let usage = json!({
            "prompt_tokens": tokens_of(&prompt),
            "completion_tokens": tokens,
            "total_tokens": tokens_of(&prompt) + tokens,
        });
        if body["stream"] != true {
            let text = self.whole_text(request, tokens);
            return plain(stream, "200 OK", "", &whole_answer(is_chat, &text, &usage));
        }
        let (arrived, served, level, number) = self.admit(request, tokens);
        let mut out = Out { stream, piece: self.laws.piece, buffer: Vec::new() };
        out.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\
              Transfer-Encoding: chunked\r\n\r\n",
        )?;
        if fault == Some(FaultKind::NoFirstToken) {
            return out.hold();
        }
        if is_chat {
            let role = json!({"role": "assistant", "content": ""});
            out.event(&event(true, &choice(true, &role, false)))?;
        }
        let chunks = tokens.div_ceil(self.laws.chunk.max(1));
        let mut stamps = (0.0, 0.0);
        for chunk in 0..chunks {
            let due = served.begin
                + (served.end - served.begin) * f64::from(chunk + 1) / f64::from(chunks);
            let left = due - self.start.elapsed().0;
            if left > 0.0 {
                clock::rest(Seconds(left));
            }
            let text = self.text(chunk, tokens);
            if chunk == chunks / 2
                && let Some(stays) = out.fault_within_answer(fault)?
            {
                return Ok(stays);
            }
            if fault != Some(FaultKind::Empty) {
                let delta = if is_chat { json!({"content": text}) } else { json!(text) };
                out.event(&event(is_chat, &choice(is_chat, &delta, chunk + 1 == chunks)))?;
            }
            let now = self.start.elapsed().0;
            stamps = (if chunk == 0 { now } else { stamps.0 }, now);
        }
        let (first, last) = stamps;
        let (begins, ends) = (served.begin, served.end);
        self.keep(Stamp { level, number, arrived, begins, ends, first, last });
        let timings = json!({
            "prompt_ms": (first - served.begin) * 1e3, "predicted_ms": (last - first) * 1e3,
        });
        if body["stream_options"]["include_usage"] == true {
            let mut last = json!({"choices": [], "usage": usage, "timings": timings});
            of_kind(is_chat, true, &mut last);
            out.event(&last.to_string())?;
        }
        out.event("[DONE]")?;
        out.write(b"0\r\n\r\n")?;
        Ok(true)
    }

    /// The fault that a request meets. Of another client's the order of arrival is the number.
    fn fault_of(&self, request: &Request) -> Option<FaultKind> {
        let arrivals = (!request.is_ours).then(|| self.queue().arrivals);
        let number = request.number.map(|(_, number)| number).or(arrivals)?;
        self.laws.faults.iter().find(|fault| fault.meets(number)).map(|fault| fault.kind)
    }

    /// The text of an answer that is no stream, when it is served.
    fn whole_text(&self, request: &Request, tokens: u32) -> String {
        let (_, served, ..) = self.admit(request, tokens);
        clock::rest(Seconds((served.end - self.start.elapsed().0).max(0.0)));
        let chunks = tokens.div_ceil(self.laws.chunk.max(1));
        (0..chunks).map(|chunk| self.text(chunk, tokens)).collect()
    }

    /// The text of a chunk.
    fn text(&self, chunk: u32, tokens: u32) -> String {
        let each = self.laws.chunk.max(1);
        let first = chunk * each;
        let texts = &self.laws.texts;
        let one = |token: u32| texts.get(token as usize % texts.len().max(1)).cloned();
        (first..(first + each).min(tokens)).filter_map(one).collect()
    }

    fn keep(&self, stamp: Stamp) {
        let mut queue = self.queue();
        if queue.stamps.len() < STAMPS_MAX {
            queue.stamps.push(stamp);
        }
    }
}

/// The tokens that a request asks for, 16 where it does not say.
fn asked_tokens(body: &Value) -> u32 {
    let asked = ["max_completion_tokens", "max_tokens"].iter().find_map(|key| body[*key].as_u64());
    asked.unwrap_or(16).clamp(1, 1 << 20) as u32
}

/// The list of models, with the only one there is.
fn models() -> Value {
    let one = json!({"id": "known", "object": "model", "created": 0, "owned_by": "fizeau"});
    json!({"object": "list", "data": [one]})
}

/// The text of a chat's messages, one after the other.
fn message(body: &Value) -> String {
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<String> = messages.iter().map(|one| text_of(&one["content"])).collect();
    texts.join(" ")
}

/// A text, which may come as a list of texts or of parts.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(text_of).collect::<Vec<_>>().join(" "),
        part => part["text"].as_str().unwrap_or_default().to_owned(),
    }
}

/// What every object of the interface says of itself.
fn of_kind(is_chat: bool, is_part: bool, object: &mut Value) {
    let kind = match (is_chat, is_part) {
        (true, true) => "chat.completion.chunk",
        (true, false) => "chat.completion",
        (false, _) => "text_completion",
    };
    object["id"] = json!(if is_chat { "chatcmpl-known" } else { "cmpl-known" });
    object["object"] = json!(kind);
    object["created"] = json!(0);
    object["model"] = json!("known");
}

/// A choice with what an event adds: a text, or the delta of a chat.
fn choice(is_chat: bool, adds: &Value, is_last: bool) -> Value {
    let reason = if is_last { json!("length") } else { Value::Null };
    let key = if is_chat { "delta" } else { "text" };
    json!({"index": 0, key: adds, "finish_reason": reason, "logprobs": null})
}

/// The data of an event with a choice.
fn event(is_chat: bool, choice: &Value) -> String {
    let mut event = json!({"choices": [choice]});
    of_kind(is_chat, true, &mut event);
    event.to_string()
}

/// An answer that is no stream.
fn whole_answer(is_chat: bool, text: &str, usage: &Value) -> Value {
    let mut choice = json!({"index": 0, "finish_reason": "length", "logprobs": null});
    match is_chat {
        true => choice["message"] = json!({"role": "assistant", "content": text}),
        false => choice["text"] = json!(text),
    }
    let mut answer = json!({"choices": [choice], "usage": usage});
    of_kind(is_chat, false, &mut answer);
    answer
}

/// An answer that is no stream; the connection stays open.
fn plain(stream: &mut TcpStream, status: &str, more: &str, body: &Value) -> io::Result<bool> {
    whole(stream, status, "application/json", more, &body.to_string())
}

/// The same of any text.
fn whole(
    stream: &mut TcpStream,
    status: &str,
    kind: &str,
    more: &str,
    body: &str,
) -> io::Result<bool> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{more}\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes())?;
    Ok(true)
}

/// Faults that come in place of an answer; whether the connection stays open.
fn fault_before_answer(
    stream: &mut TcpStream,
    fault: Option<FaultKind>,
) -> io::Result<Option<bool>> {
    let error = |text: &str| json!({"error": {"message": text}});
    let stays = match fault {
        Some(FaultKind::TooMany) => {
            plain(stream, "429 Too Many Requests", "Retry-After: 2\r\n", &error("too many"))?
        }
        Some(FaultKind::ClientError) => plain(stream, "400 Bad Request", "", &error("planted"))?,
        Some(FaultKind::ServerError) => {
            plain(stream, "500 Internal Server Error", "", &error("planted"))?
        }
        Some(FaultKind::Redirect) => {
            plain(stream, "302 Found", "Location: http://127.0.0.1:9/\r\n", &Value::Null)?
        }
        Some(FaultKind::NoStream) => {
            plain(stream, "200 OK", "", &json!({"choices": [{"text": "whole"}]}))?
        }
        Some(FaultKind::Close) => false,
        Some(FaultKind::NotHttp) => {
            stream.write_all(b"SSH-2.0-planted\r\n\r\n")?;
            false
        }
        Some(FaultKind::SlowHeaders) => {
            let mut out = Out { stream, piece: None, buffer: Vec::new() };
            out.hold()?
        }
        _ => return Ok(None),
    };
    Ok(Some(stays))
}

/// What is written of an answer.
struct Out<'s> {
    stream: &'s mut TcpStream,
    piece: Option<usize>,
    buffer: Vec<u8>,
}

impl Out<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.piece {
            None => self.stream.write_all(bytes),
            Some(piece) => {
                bytes.chunks(piece.max(1)).try_for_each(|bytes| self.stream.write_all(bytes))
            }
        }
    }

    /// One event, as one chunk of the transfer encoding.
    fn event(&mut self, data: &str) -> io::Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let length = data.len() + "data: \n\n".len();
        write!(buffer, "{length:x}\r\ndata: {data}\n\n\r\n")?;
        let written = self.write(&buffer);
        self.buffer = buffer;
        written
    }

    /// Sends nothing more, until the client goes away.
    fn hold(&mut self) -> io::Result<bool> {
        let mut byte = [0];
        let _ = self.stream.read(&mut byte);
        Ok(false)
    }

    /// Faults in the middle of an answer; whether the connection stays open.
    fn fault_within_answer(&mut self, fault: Option<FaultKind>) -> io::Result<Option<bool>> {
        let stays = match fault {
            Some(FaultKind::Cut) => false,
            Some(FaultKind::Stall) => self.hold()?,
            Some(FaultKind::WrongJson) => {
                self.event("{\"choices\": [")?;
                self.hold()?
            }
            Some(FaultKind::StreamError) => {
                self.event("{\"error\": {\"message\": \"planted\", \"code\": 500}}")?;
                self.hold()?
            }
            Some(kind @ (FaultKind::BigChunk | FaultKind::HugeChunk)) => {
                let size = if kind == FaultKind::BigChunk { 1_000_000 } else { 2_000_000 };
                self.event(&event(false, &choice(false, &json!("x".repeat(size)), false)))?;
                return Ok(None);
            }
            _ => return Ok(None),
        };
        Ok(Some(stays))
    }
}
