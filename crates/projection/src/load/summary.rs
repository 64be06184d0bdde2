//! What a client's summary of a level states, and what of it can be believed: times that can be
//! none are no measurement, and a sum that differs from its parts is said.

use super::{
    level::{Level, Limits, Offered},
    read::finite,
    times::{Times, is_time},
};
use fizeau_domain::number::brief;
use serde_json::Value;

/// No summary has more requests than this: above it a number is a mistake.
const COUNT_MAX: f64 = 1e12;

/// No request has more tokens than this.
const TOKENS_MAX: f64 = 1e9;

/// A sum may differ from its parts by this share: by what is rounded, and by a rate that counts to
/// another moment.
const TOLERANCE: f64 = 0.02;

/// Quantiles as most clients name them.
pub const QUANTILES: [(f64, &str); 6] =
    [(0.5, "p50"), (0.75, "p75"), (0.9, "p90"), (0.95, "p95"), (0.99, "p99"), (0.999, "p99.9")];

/// Which time of a request a summary has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// To the first token.
    Ttft,
    /// Of one token more.
    Tpot,
    /// Between tokens.
    Itl,
    /// To the last token.
    E2el,
}

impl Time {
    const fn name(self) -> &'static str {
        match self {
            Time::Ttft => "TTFT",
            Time::Tpot => "TPOT",
            Time::Itl => "ITL",
            Time::E2el => "E2EL",
        }
    }
}

/// A level in the making.
#[derive(Clone, Debug)]
pub struct Summary {
    level: Level,
    /// Whether the file has a time to the first token that can be none.
    first_is_nothing: bool,
    /// Whether the file has a time to the first token.
    has_first: bool,
}

/// A count of requests.
///
/// # Errors
/// In words: where it is none.
pub fn count(value: &Value, name: &str) -> Result<u64, String> {
    let count = finite(value).filter(|count| (0.0..=COUNT_MAX).contains(count));
    count.map(|count| count as u64).ok_or_else(|| format!("{name:?} is no number of requests"))
}

/// A mean number of tokens of a request.
///
/// # Errors
/// In words: where it is none.
pub fn tokens(number: Option<f64>, name: &str) -> Result<f64, String> {
    let tokens = number.filter(|tokens| (0.0..=TOKENS_MAX).contains(tokens));
    tokens.ok_or_else(|| format!("{name:?} is no number of tokens"))
}

/// A number of requests at once; 0 is none.
pub fn places(value: &Value) -> Option<u32> {
    let most = finite(value).filter(|most| *most >= 1.0 && *most <= f64::from(u32::MAX));
    most.map(|most| most as u32)
}

/// The quantiles of an object that names them so, each times a scale.
pub fn quantiles<const N: usize>(
    of: &Value,
    names: [(f64, &str); N],
    scale: f64,
) -> Vec<(f64, Option<f64>)> {
    let one = |(share, name): (f64, &str)| (share, finite(&of[name]).map(|value| value * scale));
    names.into_iter().map(one).collect()
}

/// What is to be said where a rate or sum that a file states is not what its parts come to.
pub fn beside(name: &str, stated: Option<f64>, parts: f64) -> Option<String> {
    let stated = stated.filter(|_| parts.is_finite())?;
    let is_apart = (stated - parts).abs() > TOLERANCE * stated.abs().max(parts.abs());
    is_apart.then(|| {
        format!(
            "{name} is {} in the file, and its parts come to {}: one of them is wrong",
            brief(stated),
            brief(parts)
        )
    })
}

/// The first two quantiles, in percent, of which the lower one is longer.
fn out_of_order(quantiles: &[(f64, Option<f64>)]) -> Option<[f64; 2]> {
    let mut known: Vec<(f64, f64)> =
        quantiles.iter().filter_map(|(share, time)| Some((*share, (*time)?))).collect();
    known.sort_by(|one, other| one.0.total_cmp(&other.0));
    let pair = known.windows(2).find(|pair| pair[0].1 > pair[1].1 * (1.0 + TOLERANCE))?;
    // 0.999 times 100 is a little more than 99.9.
    Some([pair[0].0, pair[1].0].map(|share| (share * 1e3).round() / 10.0))
}

impl Summary {
    /// Of requests that were answered and that were not, in seconds, with mean tokens of a prompt
    /// and of an answer.
    pub fn new(
        offered: Offered,
        [answered, failed]: [u64; 2],
        duration: f64,
        [input, output]: [f64; 2],
    ) -> Summary {
        let failed = (failed > 0).then(|| ("not stated".to_owned(), failed)).into_iter().collect();
        let mut level = Level::of(offered, Vec::new(), failed, duration, &Limits::default());
        (level.answered, level.input, level.output) = (answered, input, output);
        if !is_time(duration) {
            level.notes.push(
                "how long it lasted is not known, and neither are rates: the file has 0 there, or \
                 no time that can be"
                    .into(),
            );
        }
        Summary { level, first_is_nothing: false, has_first: false }
    }

    /// Takes a time, seconds. Where the file has 0 for a part of it, or no time that can be, all of
    /// it is left out: some of its requests then were not measured, and are in its mean. Only
    /// between tokens that were read together 0 can be.
    pub fn time(&mut self, time: Time, mean: Option<f64>, quantiles: Vec<(f64, Option<f64>)>) {
        let stated = || mean.into_iter().chain(quantiles.iter().filter_map(|one| one.1));
        let is_none = |time: &f64| !is_time(*time);
        let is_nothing = match time {
            Time::Itl if stated().any(is_time) => {
                mean.iter().any(is_none) || stated().any(|time| time != 0.0 && is_none(&time))
            }
            _ => stated().any(|time| is_none(&time)),
        };
        if time == Time::Ttft {
            self.first_is_nothing |= is_nothing;
            self.has_first |= stated().next().is_some();
        }
        if is_nothing {
            let words = format!(
                "{} is not measured: the file has 0 there, or no time that can be",
                time.name()
            );
            self.level.notes.push(words);
            return;
        }
        if let Some([less, more]) = out_of_order(&quantiles) {
            self.level.notes.push(format!(
                "{} is not measured: in the file P{less} of it is longer than P{more}",
                time.name()
            ));
            self.first_is_nothing |= time == Time::Ttft;
            return;
        }
        let times = Times::of_summary(self.level.answered, mean, quantiles);
        *match time {
            Time::Ttft => &mut self.level.ttft,
            Time::Tpot => &mut self.level.tpot,
            Time::Itl => &mut self.level.itl,
            Time::E2el => &mut self.level.e2el,
        } = times.filter(|_| self.level.answered > 0);
    }

    /// Takes a rate of requests that keep limits, 1/s. These are some of the requests that were
    /// answered, so that a rate above that of all of them is left out.
    pub fn goodput(&mut self, rate: Option<f64>) {
        let Some(rate) = rate.filter(|rate| (0.0..=1e9).contains(rate)) else { return };
        let all = match is_time(self.level.duration) {
            true => self.level.request_rate(),
            false => return,
        };
        if rate > all * (1.0 + TOLERANCE) {
            self.level.notes.push(format!(
                "goodput is not measured: it is {} requests/s in the file, and {} requests/s were \
                 answered in all",
                brief(rate),
                brief(all)
            ));
            return;
        }
        self.level.goodput = Some(rate);
    }

    /// Sets a rate or sum that the file states [`beside`] what its parts come to.
    pub fn beside(&mut self, name: &str, stated: Option<f64>, parts: f64) {
        self.level.notes.extend(beside(name, stated, parts));
    }

    /// Sets rates of answered requests and of their tokens beside what the file states, 1/s.
    pub fn rates_beside(&mut self, requests: Option<f64>, tokens: Option<f64>) {
        if is_time(self.level.duration) {
            self.beside("the rate of answered requests", requests, self.level.request_rate());
            self.beside("the rate of output tokens", tokens, self.level.token_rate());
        }
    }

    /// Adds what to know of it.
    pub fn note(&mut self, words: impl Into<String>) {
        self.level.notes.push(words.into());
    }

    /// The level. TPOT is the time after the first token over the tokens after it: where the first
    /// one's time is nothing, so is TPOT.
    pub fn level(mut self) -> Level {
        if self.first_is_nothing && self.level.tpot.take().is_some() {
            self.level.notes.push(
                "TPOT is not measured: it counts from the first token, whose time is not known"
                    .into(),
            );
        }
        if !self.has_first && self.level.answered > 0 {
            self.level.notes.push(
                "TTFT is not measured: the file has none, as where a client does not stream".into(),
            );
        }
        let mean = |times: &Option<Times>| times.as_ref().and_then(|times| times.mean);
        if let (Some(first), Some(whole)) = (mean(&self.level.ttft), mean(&self.level.e2el))
            && whole < first * (1.0 - TOLERANCE)
        {
            self.level.notes.push(format!(
                "the mean time to the first token ({} s) is longer than the mean of the whole \
                 request ({} s): one of them is wrong",
                brief(first),
                brief(whole)
            ));
        }
        self.level
    }
}
