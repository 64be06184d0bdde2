//! One level of load in numbers, whoever's client measured it.

use super::{
    over_time::OverTime,
    row::{Ending, Plan, Row, Sample},
    times::{Portion, Times},
};
use std::{collections::BTreeMap, sync::Arc};

/// What was offered to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Offered {
    /// Requests a second, sent whether or not earlier ones are answered (an open loop).
    pub rate: Option<f64>,
    /// Of gamma intervals, the shape: 1 is Poisson; none where it is not stated or constant.
    pub burstiness: Option<f64>,
    /// The most requests at once.
    pub concurrency: Option<u32>,
}

impl Offered {
    /// In words.
    pub fn describe(&self) -> String {
        match (self.rate, self.concurrency) {
            (Some(rate), None) => format!("{rate} requests/s, open loop"),
            (Some(rate), Some(most)) => {
                format!("{rate} requests/s with at most {most} at once: no open loop")
            }
            (None, Some(most)) => format!("{most} at once, closed loop"),
            (None, None) => "all at once".into(),
        }
    }
}

/// One answered request, whoever's client measured it. Seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// From the moment that the client counts from to the first token.
    pub ttft: Option<f64>,
    /// From the same moment to the last token.
    pub e2el: f64,
    /// From the scheduled moment to the sent one.
    pub lateness: Option<f64>,
    /// Tokens of the prompt.
    pub input: f64,
    /// Tokens of the answer.
    pub output: f64,
    /// Between tokens, or between chunks where these are one to one.
    pub gaps: Vec<f64>,
    /// Whether a chunk held other than one token, so that its gaps are not counted.
    pub is_chunked: bool,
    /// The server's own time to read the prompt.
    pub server_prompt: Option<f64>,
    /// The server's own time of one token more.
    pub server_token: Option<f64>,
}

impl Request {
    /// (E2EL - TTFT) / (N - 1); none for answers of one token.
    pub fn tpot(&self) -> Option<f64> {
        (self.output > 1.0).then(|| Some((self.e2el - self.ttft?) / (self.output - 1.0)))?
    }
}

/// One level of load.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// What was offered.
    pub offered: Offered,
    /// Requests that were answered whole.
    pub answered: u64,
    /// The others, by what became of them.
    pub failed: BTreeMap<String, u64>,
    /// From the first request that was sent to the end of the last one, seconds.
    pub duration: f64,
    /// Mean tokens of a prompt of an answered request.
    pub input: f64,
    /// Mean tokens of an answer.
    pub output: f64,
    /// To the first token.
    pub ttft: Option<Times>,
    /// Of one token more.
    pub tpot: Option<Times>,
    /// Between tokens.
    pub itl: Option<Times>,
    /// To the last token.
    pub e2el: Option<Times>,
    /// From the scheduled moment to the sent one; none where the client does not state it.
    pub lateness: Option<Times>,
    /// The server's own time to read a prompt.
    pub server_prompt: Option<Times>,
    /// The client's TPOT over the server's own time of a token, request by request; the median.
    pub over_server: Option<f64>,
    /// Requests in which a chunk held other than one token.
    pub chunked: u64,
    /// Requests a second that keep the limits; none where no limit is given or requests are not
    /// known one by one.
    pub goodput: Option<f64>,
    /// The share of all requests that keep the limits: what failed keeps none. None as `goodput`.
    pub kept: Option<Portion>,
    /// What changed while it lasted; none where the moments of requests are not known.
    pub over_time: Option<OverTime>,
    /// What the server said of itself meanwhile.
    pub server: Vec<Sample>,
    /// The answered requests in the order in which they were scheduled, where they are known.
    pub requests: Arc<[Request]>,
    /// What to know of it.
    pub notes: Vec<String>,
}

/// Limits of a request, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// To the first token.
    pub ttft: Option<f64>,
    /// Of one token more.
    pub tpot: Option<f64>,
    /// To the last token.
    pub e2el: Option<f64>,
}

impl Limits {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == Limits::default()
    }

    /// Whether a request keeps all. An answer of one token has no TPOT to keep.
    pub fn are_kept(&self, request: &Request) -> bool {
        let within = |most: Option<f64>, time: Option<f64>| {
            most.is_none_or(|most| time.is_some_and(|time| time <= most))
        };
        within(self.ttft, request.ttft)
            && (request.output <= 1.0 || within(self.tpot, request.tpot()))
            && within(self.e2el, Some(request.e2el))
    }
}

impl Level {
    /// Of requests in the order in which they were scheduled.
    pub fn of(
        offered: Offered,
        requests: &[Request],
        failed: BTreeMap<String, u64>,
        duration: f64,
        limits: &Limits,
    ) -> Level {
        let count = requests.len() as f64;
        let times = |of: &dyn Fn(&Request) -> Option<f64>| {
            Times::of(&requests.iter().filter_map(of).collect::<Vec<_>>())
        };
        let mean = |of: &dyn Fn(&Request) -> f64| {
            if requests.is_empty() { 0.0 } else { requests.iter().map(of).sum::<f64>() / count }
        };
        let unchunked = requests.iter().filter(|one| !one.is_chunked);
        let gaps: Vec<f64> = unchunked.flat_map(|one| one.gaps.iter().copied()).collect();
        let over = |one: &Request| Some(one.tpot()? / one.server_token.filter(|time| *time > 0.0)?);
        let answers: Vec<bool> = requests.iter().map(|one| limits.are_kept(one)).collect();
        let kept = answers.iter().filter(|is| **is).count() as f64;
        let missing = failed.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
        let has_limits = !limits.is_empty() && duration > 0.0;
        Level {
            offered,
            answered: requests.len() as u64,
            failed,
            duration,
            input: mean(&|one| one.input),
            output: mean(&|one| one.output),
            ttft: times(&|one| one.ttft),
            tpot: times(&Request::tpot),
            itl: Times::of(&gaps),
            e2el: times(&|one| Some(one.e2el)),
            lateness: times(&|one| one.lateness),
            server_prompt: times(&|one| one.server_prompt),
            over_server: times(&over).map(|times| times.median()),
            chunked: requests.iter().filter(|one| one.is_chunked).count() as u64,
            goodput: has_limits.then(|| kept / duration),
            // Where failures stood among the others, only the rows of this program's client tell.
            kept: Portion::of(&answers, missing).filter(|_| has_limits),
            over_time: None,
            server: Vec::new(),
            requests: requests.into(),
            notes: Vec::new(),
        }
    }

    /// Of rows of the client of this program, warm-up left out.
    pub fn of_rows(plan: &Plan, rows: &[&Row], limits: &Limits) -> Level {
        let mut rows: Vec<&Row> = rows.iter().copied().filter(|row| !row.is_warmup).collect();
        rows.sort_by_key(|row| row.number);
        let mut failed = BTreeMap::new();
        let mut requests = Vec::new();
        let (mut asked, mut arrived) = (0.0, 0.0);
        let (mut wanted, mut came) = (0.0, 0.0);
        for row in &rows {
            if row.ending != Ending::Answered {
                *failed.entry(row.ending.name().to_owned()).or_insert(0) += 1;
                continue;
            }
            asked += f64::from(row.asked_input);
            arrived += f64::from(row.input.unwrap_or(row.asked_input));
            wanted += f64::from(row.asked_output);
            came += f64::from(row.tokens());
            requests.extend(request(row));
        }
        let start = rows.iter().map(|row| row.scheduled).fold(f64::INFINITY, f64::min);
        let end = rows.iter().map(|row| row.ended).fold(f64::NEG_INFINITY, f64::max);
        let Plan { rate, concurrency, burstiness, .. } = *plan;
        let offered = Offered { rate, burstiness, concurrency };
        let duration = (end - start).max(0.0);
        let mut level = Level::of(offered, &requests, failed, duration, limits);
        level.over_time = OverTime::of(&rows, plan.rate.is_some());
        if let (Some(_), false) = (level.kept, limits.is_empty()) {
            let answers: Vec<bool> = rows
                .iter()
                .map(|row| {
                    let request = (row.ending == Ending::Answered).then(|| request(row)).flatten();
                    request.is_some_and(|request| limits.are_kept(&request))
                })
                .collect();
            level.kept = Portion::of(&answers, 0);
        }
        if came < wanted * (1.0 - TOKENS_OFF) {
            level.notes.push(format!(
                "answers of {:.0} tokens were asked for on average, and {:.0} came: the server \
                 ends them earlier, so that this is a lighter load than was asked for",
                wanted / requests.len() as f64,
                came / requests.len() as f64
            ));
        }
        let resent = rows.iter().filter(|row| row.is_resent).count();
        if resent > 0 {
            level.notes.push(format!(
                "{} sent again on a new connection, since the server had closed the one that was \
                 kept open, before any answer; times count from the first attempt",
                match resent {
                    1 => "1 request was".into(),
                    count => format!("{count} requests were"),
                }
            ));
        }
        if asked > 0.0 && (arrived / asked - 1.0).abs() > TOKENS_OFF {
            level.notes.push(format!(
                "prompts of {:.0} tokens were asked for on average, and the server counted {:.0}: \
                 its tokenizer is not the one that the prompts were made by",
                asked / requests.len() as f64,
                arrived / requests.len() as f64
            ));
        }
        level
    }

    /// Requests that were not answered whole.
    pub fn failures(&self) -> u64 {
        self.failed.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Answered requests a second.
    pub fn request_rate(&self) -> f64 {
        if self.duration > 0.0 { self.answered as f64 / self.duration } else { 0.0 }
    }

    /// Output tokens a second of all requests.
    pub fn token_rate(&self) -> f64 {
        self.request_rate() * self.output
    }

    /// Requests that are in decode at once on average, by Little's law: their rate times the time
    /// from the first to the last token. Requests that the file does not have are not counted.
    pub fn decoding(&self) -> Option<f64> {
        let (ttft, e2el) = (self.ttft.as_ref()?, self.e2el.as_ref());
        let time = match e2el {
            Some(e2el) => e2el.mean - ttft.mean,
            None => self.tpot.as_ref()?.mean * (self.output - 1.0).max(0.0),
        };
        Some((self.request_rate() * time).max(0.0))
    }
}

/// A prompt may be longer by a mark at its beginning; by more than this share it is another
/// tokenizer's.
const TOKENS_OFF: f64 = 0.02;

/// A row as any client's request.
fn request(row: &Row) -> Option<Request> {
    let tokens = f64::from(row.tokens());
    let after_first = tokens - 1.0;
    Some(Request {
        ttft: row.ttft(),
        e2el: row.e2el()?,
        lateness: Some(row.sent - row.scheduled),
        input: f64::from(row.input.unwrap_or(row.asked_input)),
        output: tokens,
        gaps: row.gaps.iter().map(|gap| f64::from(*gap)).collect(),
        is_chunked: row.is_chunked(),
        server_prompt: row.server_prompt,
        server_token: row
            .server_answer
            .filter(|_| after_first > 0.0)
            .map(|time| time / after_first),
    })
}
