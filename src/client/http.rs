//! HTTP and TLS by ureq, with everything off that would change a measurement in silence: limits on
//! connections, retries, redirects, proxies, lookups of names while requests are sent.

use fizeau_domain::units::Seconds;
use fizeau_projection::load::target::Target;
use rustls::crypto::ring;
use serde_json::Value;
use std::{
    fmt, io,
    net::{SocketAddr, ToSocketAddrs},
    sync::Arc,
    time::Duration,
};
use ureq::{
    Agent, Error,
    config::Config,
    http::Uri,
    tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem},
    unversioned::{
        resolver::{ResolvedSocketAddrs, Resolver},
        transport::{DefaultConnector, NextTimeout},
    },
};

/// How long a request waits for what. None hangs the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deadlines {
    /// For a connection, TLS included.
    pub connect: Seconds,
    /// For anything from the server: the headers, the first token, the next one.
    pub silence: Seconds,
    /// For the whole request.
    pub request: Seconds,
    /// For all requests that are under way when no more are sent.
    pub drain: Seconds,
}

impl Default for Deadlines {
    fn default() -> Deadlines {
        Deadlines {
            connect: Seconds(10.0),
            silence: Seconds(120.0),
            request: Seconds(600.0),
            drain: Seconds(120.0),
        }
    }
}

/// An API key. It is shown nowhere.
#[derive(Clone)]
pub struct Key(String);

impl Key {
    /// A key as it stands in a file or a variable; white space around it is left out.
    ///
    /// # Errors
    /// In words: where it cannot stand in a header. The words do not hold it.
    pub fn new(text: &str) -> Result<Key, String> {
        let text = text.trim();
        match text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Err("it is empty, or has characters that no API key has".into()),
            false => Ok(Key(text.to_owned())),
        }
    }

    /// A text without the key in it, in whatever letter case or form a server may show it.
    pub fn hidden_in(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for form in self.forms().iter().map(|form| form.to_ascii_lowercase()) {
            // ASCII alone is changed, so that places in both texts are the same.
            let lower = text.to_ascii_lowercase();
            if !lower.contains(&form) {
                continue;
            }
            let mut clean = String::new();
            let mut end = 0;
            for (at, found) in lower.match_indices(&form) {
                clean.push_str(&text[end..at]);
                clean.push_str("[API key]");
                end = at + found.len();
            }
            clean.push_str(&text[end..]);
            text = clean;
        }
        text
    }

    /// The key as texts may have it: as it is, as a string within JSON, in a URL, in base64.
    fn forms(&self) -> Vec<String> {
        let quoted = serde_json::Value::from(self.0.as_str()).to_string();
        let escaped = self.0.bytes().map(|byte| match byte {
            b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
            _ if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        });
        let mut all =
            vec![self.0.clone(), quoted[1..quoted.len() - 1].to_owned(), escaped.collect()];
        if self.0.len() >= BASE64_MIN {
            for before in 0..3 {
                let digits = in_base64(self.0.as_bytes(), before);
                all.push(digits.replace('+', "-").replace('/', "_"));
                all.push(digits);
            }
        }
        all
    }
}

/// The shortest key that is looked for in base64, in bytes: the digits of a shorter one stand in
/// texts by chance.
const BASE64_MIN: usize = 8;

/// The digits in base64 that are of a key alone, where a number of bytes of a text stand before it.
fn in_base64(key: &[u8], before: usize) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bit = |at: usize| usize::from(key[at / 8 - before] >> (7 - at % 8) & 1);
    let (first, end) = ((before * 8).div_ceil(6), (before + key.len()) * 8 / 6);
    let digit = |number: usize| (0..6).fold(0, |value, at| value << 1 | bit(number * 6 + at));
    (first..end).map(|number| char::from(DIGITS[digit(number)])).collect()
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[API key]")
    }
}

/// A header of every request that the user names. Its value is shown nowhere.
#[derive(Clone, Debug)]
pub struct Header {
    name: String,
    value: Key,
}

/// The shortest value of a header or query that is taken out of texts: shorter ones stand in texts
/// by chance, and are no secret.
const SECRET_MIN: usize = 8;

/// Headers that the client itself decides about.
const TAKEN: [&str; 7] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
    "x-request-id",
];

impl Header {
    /// A header with a value, around which white space is left out.
    ///
    /// # Errors
    /// In words, without the value: where it can be no header, or the client decides about it.
    pub fn new(name: &str, value: &str) -> Result<Header, String> {
        let is_name = |c: u8| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c);
        if name.is_empty() || !name.bytes().all(is_name) {
            return Err("its name has characters that no header has".into());
        }
        if TAKEN.iter().any(|taken| name.eq_ignore_ascii_case(taken)) {
            return Err(format!("the client itself decides about {name}"));
        }
        let value = value.trim();
        if value.is_empty() || !value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            return Err("its value is empty, or has characters that no header has".into());
        }
        Ok(Header { name: name.to_owned(), value: Key(value.to_owned()) })
    }

    /// Whether its name says that its value is a secret.
    pub fn is_secret(name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        ["auth", "key", "token", "secret", "cookie", "password"]
            .iter()
            .any(|one| name.contains(one))
    }
}

/// Names are looked up once, before the first request.
#[derive(Clone, Debug)]
struct Known(Vec<SocketAddr>);

impl Resolver for Known {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let mut found = self.empty();
        self.0.iter().take(ADDRESSES_MAX).for_each(|address| found.push(*address));
        match found.is_empty() {
            true => Err(Error::HostNotFound),
            false => Ok(found),
        }
    }
}

/// ureq's own limit.
const ADDRESSES_MAX: usize = 16;

/// Bytes of a connection's buffers: a token takes some 300.
const BUFFER: usize = 16 << 10;

/// Idle connections are closed by servers after 5 s (uvicorn, cpp-httplib) or more: one that is
/// used shortly before would fail.
const IDLE_MAX: Duration = Duration::from_secs(3);

/// The most bytes of an answer that is no stream.
const ANSWER_MAX: u64 = 64 << 20;

/// Connections to a server.
#[derive(Clone, Debug)]
pub struct Connections {
    /// Kept open for the next request.
    pub(super) kept: Agent,
    /// Each new, and closed after its request: for what a kept one failed at.
    pub(super) fresh: Agent,
}

impl Connections {
    /// Ends all that is under way.
    pub fn shut_down(&self) {
        self.kept.clone().shutdown();
        self.fresh.clone().shutdown();
    }
}

/// A server and how it is spoken to.
#[derive(Clone, Debug)]
pub struct Client {
    /// The server.
    pub target: Target,
    /// How long is waited.
    pub deadlines: Deadlines,
    /// Further headers of every request.
    pub headers: Vec<Header>,
    key: Option<Key>,
    addresses: Known,
    tls: TlsConfig,
}

impl Client {
    /// Looks the server's name up, and reads certificates where TLS needs them: the system's, and
    /// those of `authorities` (PEM) besides.
    ///
    /// # Errors
    /// In words: where the name is unknown, or there is no certificate.
    pub fn new(
        target: Target,
        deadlines: Deadlines,
        key: Option<Key>,
        authorities: Option<&[u8]>,
    ) -> Result<Client, String> {
        let found = (target.host.as_str(), target.port).to_socket_addrs();
        let found = found.map_err(|error| format!("{}: {error}", target.host))?;
        let addresses = Known(found.collect());
        let tls = if target.is_tls { tls(authorities)? } else { TlsConfig::default() };
        Ok(Client { target, deadlines, headers: Vec::new(), key, addresses, tls })
    }

    /// The addresses that the server's name stands for, the first being asked first.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses.0
    }

    /// The API key, where there is one.
    pub fn key(&self) -> Option<&Key> {
        self.key.as_ref()
    }

    /// A set of connections, none open yet.
    pub fn connections(&self) -> Connections {
        Connections { kept: self.agent(usize::MAX), fresh: self.agent(0) }
    }

    /// An agent that keeps this many idle connections.
    fn agent(&self, idle: usize) -> Agent {
        let time = |seconds: Seconds| Some(Duration::from_secs_f64(seconds.0));
        let Deadlines { connect, silence, request, .. } = self.deadlines;
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .user_agent(concat!("fizeau/", env!("CARGO_PKG_VERSION")))
            .input_buffer_size(BUFFER)
            .output_buffer_size(BUFFER)
            .max_idle_connections(idle)
            .max_idle_connections_per_host(idle)
            .max_idle_age(IDLE_MAX)
            .timeout_connect(time(connect))
            .timeout_per_read(time(silence))
            .timeout_recv_response(time(silence))
            .timeout_per_write(time(silence))
            .timeout_per_call(time(request))
            .tls_config(self.tls.clone())
            .build();
        Agent::with_parts(config, DefaultConnector::new(), self.addresses.clone())
    }

    /// The headers that say who asks: the key, and those of the user.
    pub(super) fn own_headers(&self) -> Vec<(&str, String)> {
        let own = self.headers.iter().map(|one| (one.name.as_str(), one.value.0.clone()));
        let is_given = |one: &Header| one.name.eq_ignore_ascii_case("authorization");
        let key = self.key.as_ref().filter(|_| !self.headers.iter().any(is_given));
        let key = key.map(|key| ("Authorization", format!("Bearer {}", key.0)));
        key.into_iter().chain(own).collect()
    }

    /// A text of the server without the key in it, and without the values of the user's headers and
    /// of the URL's query.
    pub fn harmless(&self, text: &str) -> String {
        let hide = |text: String, secret: &Key| secret.hidden_in(&text);
        let query = self.target.query_values().filter_map(|value| Key::new(value).ok());
        let long = self.headers.iter().map(|one| one.value.clone()).chain(query);
        let long = long.filter(|secret| secret.0.len() >= SECRET_MIN);
        let key = self.key.clone().into_iter();
        key.chain(long).fold(text.to_owned(), |text, secret| hide(text, &secret))
    }

    /// Asks for a JSON value beside the load: status and value, null where it is no JSON.
    ///
    /// # Errors
    /// In words: where there is no answer.
    pub fn ask(
        &self,
        connections: &Connections,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(u16, Value), String> {
        let (status, text) = self.answer(connections, path, body)?;
        Ok((status, serde_json::from_slice(&text).unwrap_or(Value::Null)))
    }

    /// Asks for a text beside the load.
    ///
    /// # Errors
    /// In words: where there is no answer of status 200.
    pub fn ask_text(&self, connections: &Connections, path: &str) -> Result<String, String> {
        match self.answer(connections, path, None)? {
            (200, text) => Ok(String::from_utf8_lossy(&text).into_owned()),
            (status, _) => Err(format!("{path}: status {status}")),
        }
    }

    fn answer(
        &self,
        connections: &Connections,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(u16, Vec<u8>), String> {
        let url = self.target.with_query(path);
        let own = self.own_headers();
        let send = |agent: &Agent| match body {
            None => {
                let mut request = agent.get(&url);
                for (name, value) in &own {
                    request = request.header(*name, value);
                }
                request.call()
            }
            Some(body) => {
                let mut request = agent.post(&url).content_type("application/json");
                for (name, value) in &own {
                    request = request.header(*name, value);
                }
                request.send(body.to_string())
            }
        };
        let answer = match send(&connections.kept) {
            Err(error) if is_closed(&error) => send(&connections.fresh),
            answer => answer,
        };
        let why = |error: ureq::Error| {
            let words = error.to_string();
            self.harmless(words.strip_prefix("io: ").unwrap_or(&words))
        };
        let mut answer = answer.map_err(why)?;
        let status = answer.status().as_u16();
        let text = answer.body_mut().with_config().limit(ANSWER_MAX).read_to_vec();
        Ok((status, text.map_err(|error| error.to_string())?))
    }
}

/// Whether the connection ended before there was any answer. A server may close a connection that
/// is kept open just when the next request is on its way, or without having said that it would
/// (llama.cpp after each stream): this is no failure of the request.
pub(super) fn is_closed(error: &Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    let kinds = [ConnectionReset, ConnectionAborted, BrokenPipe, UnexpectedEof];
    matches!(error, Error::Io(error) if kinds.contains(&error.kind()))
}

fn tls(authorities: Option<&[u8]>) -> Result<TlsConfig, String> {
    let own = rustls_native_certs::load_native_certs();
    let mut certificates: Vec<Certificate<'static>> =
        own.certs.iter().map(|one| Certificate::from_der(one.as_ref()).to_owned()).collect();
    if let Some(pem) = authorities {
        let before = certificates.len();
        for item in parse_pem(pem) {
            if let PemItem::Certificate(one) = item.map_err(|error| error.to_string())? {
                certificates.push(one);
            }
        }
        if certificates.len() == before {
            return Err("--ca: no certificate is in this file: a PEM file has lines with BEGIN \
                        CERTIFICATE"
                .into());
        }
    }
    if certificates.is_empty() {
        return Err("this system has no certificates of authorities (ca-certificates): install \
                    them, or name a file by --ca"
            .into());
    }
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(RootCerts::from(certificates))
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .build())
}

/// ureq's error, also where a reader of a body wrapped it.
pub(super) fn unwrapped(error: io::Error) -> Error {
    Error::from(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_hidden_in_every_form() {
        let key = Key::new("sk-Secret+9f8e/7d6c").expect("a key");
        for text in [
            "it is sk-Secret+9f8e/7d6c!",
            "it is SK-SECRET+9F8E/7D6C!",
            "it is sk-secret%2b9f8e%2F7d6c!",
            // "Bearer sk-Secret+9f8e/7d6c", "x:.." and the key alone in base64.
            "it is QmVhcmVyIHNrLVNlY3JldCs5ZjhlLzdkNmM=!",
            "it is eDpzay1TZWNyZXQrOWY4ZS83ZDZj!",
            "it is c2stU2VjcmV0KzlmOGUvN2Q2Yw==!",
        ] {
            let said = key.hidden_in(text);
            assert!(said.starts_with("it is ") && said.ends_with('!'), "{text}: {said}");
            assert!(said.contains("[API key]"), "{text}: {said}");
        }
        let other = "\u{e9}\u{130} Secret 9f8e";
        assert_eq!(key.hidden_in(other), other);
        let twice = key.hidden_in("\u{130}sk-secret+9f8e/7d6c,sk-Secret+9f8e/7d6c\u{130}");
        assert_eq!(twice, "\u{130}[API key],[API key]\u{130}");
    }
}
