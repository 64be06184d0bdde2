//! Where requests go, and what stands in them.

use serde_json::{Map, Value, json};
use std::fmt;

/// Ends of the paths of a server's other interfaces, which people copy from its documentation.
const OTHER_INTERFACES: [&str; 8] = [
    "/embeddings",
    "/responses",
    "/models",
    "/messages",
    "/generate",
    "/rerank",
    "/tokenize",
    "/health",
];

/// Which of OpenAI's interfaces is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Endpoint {
    /// `/v1/completions`: a prompt.
    #[default]
    Completions,
    /// `/v1/chat/completions`: a message of a user, which the server puts into its template.
    Chat,
}

impl Endpoint {
    /// As `--endpoint` takes it and a file has it.
    pub fn name(self) -> &'static str {
        match self {
            Endpoint::Completions => "completions",
            Endpoint::Chat => "chat",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Endpoint::Completions => "completions",
            Endpoint::Chat => "chat/completions",
        }
    }
}

/// A server's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `http://host:port` and the path above `/v1`, without a slash at its end.
    pub root: String,
    /// Whether `/v1` stands between the root and the interface: not where the whole path was named
    /// without it, as gateways and Azure have it.
    pub has_version: bool,
    /// What follows the path, without the question mark. Its values may be secrets.
    pub query: Option<String>,
    /// Host without port; an IPv6 address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Whether it is spoken to by TLS.
    pub is_tls: bool,
    /// Which interface.
    pub endpoint: Endpoint,
}

impl Target {
    /// Reads a URL: `http://host:8000`, with `/v1` or the whole path behind it, and a query. A path
    /// that names an interface decides `endpoint`, unless it is given.
    ///
    /// # Errors
    /// In words: where it is no such URL, or holds a name, a password or a fragment.
    pub fn parse(url: &str, endpoint: Option<Endpoint>) -> Result<Target, String> {
        let refuse = |why: &str| format!("{:?}: {why}", shown(url));
        let (is_tls, rest) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err(refuse("a URL begins with http:// or https://")),
        };
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(refuse(
                "a name or password in a URL would be kept in histories and logs; give an API key \
                 by FIZEAU_API_KEY or --api-key-file",
            ));
        }
        if path.contains('#') {
            return Err(refuse("leave out what follows the #, which no server sees"));
        }
        let (path, query) = match path.split_once('?') {
            Some((path, query)) => (path, Some(query).filter(|query| !query.is_empty())),
            None => (path, None),
        };
        if query.is_some_and(|query| !query.chars().all(|c| c.is_ascii_graphic())) {
            return Err(refuse("its query has characters that a URL cannot have"));
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']').ok_or_else(|| refuse("a [ without ]"))?;
                (host, rest.strip_prefix(':'))
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_:%".contains(c);
        if host.is_empty() || !host.chars().all(is_plain) {
            return Err(refuse("there is no host in it"));
        }
        let port = match port {
            Some(port) => port.parse().map_err(|_| refuse("its port is no number up to 65535"))?,
            None if is_tls => 443,
            None => 80,
        };
        if !path.chars().all(|c| c.is_ascii_graphic()) {
            return Err(refuse("its path has characters that a URL cannot have"));
        }
        let path = path.trim_end_matches('/');
        let (path, named) = match path.strip_suffix("/chat/completions") {
            Some(path) => (path, Some(Endpoint::Chat)),
            None => match path.strip_suffix("/completions") {
                Some(path) => (path, Some(Endpoint::Completions)),
                None => (path, None),
            },
        };
        if OTHER_INTERFACES.iter().any(|other| path.ends_with(other)) {
            return Err(refuse(
                "requests go to /v1/completions or /v1/chat/completions alone: leave out the path",
            ));
        }
        let above = path.strip_suffix("/v1");
        let has_version = named.is_none() || above.is_some();
        let path = above.unwrap_or(path);
        let endpoint = match (named, endpoint) {
            (Some(named), Some(given)) if named != given => {
                return Err(refuse("its path and --endpoint name different interfaces"));
            }
            (named, given) => named.or(given).unwrap_or_default(),
        };
        let scheme = if is_tls { "https" } else { "http" };
        let root = format!("{scheme}://{authority}{path}");
        let (host, query) = (host.to_owned(), query.map(str::to_owned));
        Ok(Target { root, has_version, query, host, port, is_tls, endpoint })
    }

    /// Where requests are sent, with what may be secret in its query.
    pub fn url(&self) -> String {
        let version = if self.has_version { "/v1" } else { "" };
        self.with_query(&format!("{version}/{}", self.endpoint.path()))
    }

    /// The URL of another path of the server, with the same query.
    pub fn with_query(&self, path: &str) -> String {
        let query = self.query.as_ref().map_or_else(String::new, |query| format!("?{query}"));
        format!("{}{path}{query}", self.root)
    }

    /// The values in the query.
    pub fn query_values(&self) -> impl Iterator<Item = &str> {
        let pairs = self.query.iter().flat_map(|query| query.split('&'));
        pairs.filter_map(|pair| pair.split_once('=').map(|(_, value)| value))
    }

    /// Whether the address is this machine by its name.
    pub fn is_this_machine(&self) -> bool {
        self.host == "localhost" || self.host == "::1" || self.host.starts_with("127.")
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.url();
        let (path, query) = url.split_once('?').map_or((url.as_str(), None), |(a, b)| (a, Some(b)));
        f.write_str(path)?;
        let Some(query) = query else { return Ok(()) };
        let names = query.split('&').map(|pair| pair.split('=').next().unwrap_or_default());
        write!(f, "?{}=..", names.collect::<Vec<_>>().join("=..&"))
    }
}

/// A URL without what may be a secret, for messages.
fn shown(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match (url.find("://"), url.rfind('@')) {
        (Some(start), Some(end)) if start < end => {
            format!("{}...{}", &url[..start + 3], &url[end..])
        }
        _ => url.to_owned(),
    }
}

/// What is the same in all requests of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The model's name, as the server knows it.
    pub model: String,
    /// Which interface.
    pub endpoint: Endpoint,
    /// Whether the answer ends at the asked length alone, and not at the model's end mark.
    pub ignore_eos: bool,
    /// The field that has the asked length of the answer: `max_tokens`, or what a server knows in
    /// its place.
    pub length_field: String,
    /// Whether `min_tokens` has that length too, for servers that do not know `ignore_eos`.
    pub has_min: bool,
    /// Further fields of every request, null for those that are left out: sampling parameters,
    /// what an engine knows.
    pub fields: Map<String, Value>,
}

impl Asked {
    /// The body of a request.
    pub fn body(&self, prompt: &str, tokens: u32) -> Vec<u8> {
        let mut body = json!({
            "model": self.model,
            "stream": true,
            "stream_options": {"include_usage": true},
        });
        if let Value::Object(fields) = &mut body {
            match self.endpoint {
                Endpoint::Completions => fields.insert("prompt".into(), prompt.into()),
                Endpoint::Chat => {
                    fields.insert("messages".into(), json!([{"role": "user", "content": prompt}]))
                }
            };
            fields.insert(self.length_field.clone(), tokens.into());
            if self.has_min {
                fields.insert("min_tokens".into(), tokens.into());
            }
            if self.ignore_eos {
                fields.insert("ignore_eos".into(), true.into());
            }
            for (key, value) in &self.fields {
                match value {
                    Value::Null => fields.remove(key),
                    value => fields.insert(key.clone(), value.clone()),
                };
            }
        }
        body.to_string().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_as_people_write_them() {
        let url = |text: &str| Target::parse(text, None).map(|target| target.url());
        for (text, meant) in [
            ("http://a:80", "http://a:80/v1/completions"),
            ("http://a/", "http://a/v1/completions"),
            ("https://a.b/v1/", "https://a.b/v1/completions"),
            ("http://a/x/v1/chat/completions", "http://a/x/v1/chat/completions"),
            ("http://[::1]:8000", "http://[::1]:8000/v1/completions"),
        ] {
            assert_eq!(url(text).as_deref(), Ok(meant));
        }
        let one = Target::parse("https://[::1]/v1", Some(Endpoint::Chat)).expect("a URL");
        assert_eq!((one.host.as_str(), one.port, one.is_tls), ("::1", 443, true));
        assert!(one.is_this_machine());
        for text in ["a:80", "http://", "http://a:x", "http://a b", "ftp://a", "http://a/v1#k"] {
            assert!(url(text).is_err(), "{text}");
        }
        // The whole path is taken as it stands, and the values of a query are not shown.
        let azure = "https://x.example/openai/deployments/d/chat/completions?api-version=7&sig=abc";
        let azure = Target::parse(azure, None).expect("a URL");
        assert_eq!(
            azure.url(),
            "https://x.example/openai/deployments/d/chat/completions?api-version=7&sig=abc"
        );
        let shown = "https://x.example/openai/deployments/d/chat/completions?api-version=..&sig=..";
        assert_eq!((azure.to_string().as_str(), azure.endpoint), (shown, Endpoint::Chat));
        assert_eq!(azure.query_values().collect::<Vec<_>>(), ["7", "abc"]);
        let why = url("http://user:secret@a").expect_err("a password");
        assert!(why.contains("FIZEAU_API_KEY") && !why.contains("secret"), "{why}");
        let named = Target::parse("http://a/v1/completions", Some(Endpoint::Chat));
        assert!(named.is_err());
    }

    #[test]
    fn fields_of_the_user_come_last() {
        let fields = json!({"temperature": 0, "stream": true, "max_tokens": 3});
        let fields = fields.as_object().expect("an object").clone();
        let mut asked = Asked {
            model: "m".into(),
            endpoint: Endpoint::Chat,
            ignore_eos: true,
            length_field: "max_tokens".into(),
            has_min: false,
            fields,
        };
        let body: Value = serde_json::from_slice(&asked.body("p", 9)).expect("JSON");
        assert_eq!(body["messages"][0]["content"], "p");
        assert_eq!((&body["max_tokens"], &body["ignore_eos"]), (&json!(3), &json!(true)));
        asked.ignore_eos = false;
        asked.endpoint = Endpoint::Completions;
        let body: Value = serde_json::from_slice(&asked.body("p", 9)).expect("JSON");
        assert_eq!((&body["prompt"], body.get("ignore_eos")), (&json!("p"), None));
        asked.fields = json!({"stream_options": null}).as_object().expect("an object").clone();
        (asked.length_field, asked.has_min) = ("max_completion_tokens".into(), true);
        let body: Value = serde_json::from_slice(&asked.body("p", 9)).expect("JSON");
        assert_eq!((body.get("max_tokens"), body.get("stream_options")), (None, None));
        assert_eq!((&body["max_completion_tokens"], &body["min_tokens"]), (&json!(9), &json!(9)));
    }
}
