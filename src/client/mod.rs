//! The client of `fizeau load`: requests to a server that speaks OpenAI's streaming interface,
//! each sent at its moment by a thread of its own; and a server of which the law is known.
//! docs/load.md explains how it counts time.

mod exchange;
pub mod http;
pub mod known;
pub mod level;
pub mod metrics;
pub mod tokenizer;

pub use exchange::{Outcome, Prepared};
pub use http::{Client, Connections, Deadlines, Header, Key};
pub use level::{Schedule, State, Watcher};
pub use metrics::Scraper;
pub use tokenizer::Tokenizer;
