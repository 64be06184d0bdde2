//! The laws of the server, and its stamps.

use super::Fault;
use crate::client::tokenizer::Dialect;
use fizeau_domain::units::Seconds;
use fizeau_projection::load::random::{Purpose, Random};
use serde::{Deserialize, Serialize};

/// How long a request takes once a slot serves it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Service {
    /// Always this long.
    Fixed(Seconds),
    /// Exponential with this mean, by the seed and the number of the request.
    Exponential(Seconds),
    /// This long for each token of the answer.
    Token(Seconds),
}

/// The laws.
#[derive(Clone, Debug)]
pub struct Laws {
    /// Requests that are served at once.
    pub slots: u32,
    /// How long one takes.
    pub service: Service,
    /// The seed of exponential times.
    pub seed: u64,
    /// Tokens of a chunk.
    pub chunk: u32,
    /// The answer is written in pieces of this many bytes, wherever that cuts it.
    pub piece: Option<usize>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// From this moment after the first request, nothing is served for so long.
    pub pause: Option<(Seconds, Seconds)>,
    /// The texts of tokens, in turn.
    pub texts: Vec<String>,
    /// The API key that is asked for.
    pub key: Option<String>,
    /// Whose `/tokenize` it has.
    pub dialect: Option<Dialect>,
}

impl Default for Laws {
    fn default() -> Laws {
        Laws {
            slots: 1,
            service: Service::Fixed(Seconds(0.01)),
            seed: 1,
            chunk: 1,
            piece: None,
            faults: Vec::new(),
            pause: None,
            texts: vec![" word".into()],
            key: None,
            dialect: Some(Dialect::Vllm),
        }
    }
}

impl Laws {
    /// How long the slot is taken by a request of a level, in seconds.
    pub fn time(&self, level: u64, number: u64, tokens: u32) -> f64 {
        match self.service {
            Service::Fixed(time) => time.0,
            Service::Exponential(mean) => {
                let key = level << 40 | number;
                mean.0 * Random::new(self.seed, key, Purpose::Service).exponential()
            }
            Service::Token(time) => time.0 * f64::from(tokens),
        }
    }
}

/// What the server knows of a request. Moments are seconds since the server began.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stamp {
    /// Its level, as the client names it.
    pub level: u64,
    /// Its number in that level.
    pub number: u64,
    /// It was read whole.
    pub arrived: f64,
    /// A slot begins it, by the law.
    pub begins: f64,
    /// Its last token is due, by the law.
    pub ends: f64,
    /// Its first token was written.
    pub first: f64,
    /// Its last token was written.
    pub last: f64,
}

/// Letters of a piece of a word that is one token.
const LETTERS: usize = 5;

/// The tokens of a prompt: a mark at its beginning, and each word in pieces of five letters.
pub fn tokens_of(prompt: &str) -> u32 {
    let words = prompt.split_whitespace().map(|word| word.chars().count().div_ceil(LETTERS));
    1 + words.sum::<usize>() as u32
}
