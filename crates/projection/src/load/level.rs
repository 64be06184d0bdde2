//! One level of load in numbers, whoever's client measured it.

use super::{
    late::Late,
    over_time::OverTime,
    row::{Ending, Plan, Row, Sample},
    times::{Portion, TIME_MAX, Times, is_time},
};
use fizeau_domain::text::{agreed, counted};
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
    /// Whether the client states that it sent all requests without waiting for any.
    pub is_all_at_once: bool,
}

/// The rates of requests that a client can offer, 1/s.
const RATES: std::ops::RangeInclusive<f64> = 1e-6..=1e9;

impl Offered {
    /// As a client states it: a rate that no client can offer is not known.
    pub fn stated(rate: Option<f64>, burstiness: Option<f64>, concurrency: Option<u32>) -> Offered {
        let rate = rate.filter(|rate| RATES.contains(rate));
        Offered { rate, burstiness, concurrency, is_all_at_once: false }
    }

    /// In words.
    pub fn describe(&self) -> String {
        // Six places are enough to tell two levels apart.
        let rate = self.rate.map(|rate| (rate * 1e6).round() / 1e6);
        match (rate, self.concurrency) {
            (Some(rate), None) => format!("{rate} requests/s, open loop"),
            (Some(rate), Some(most)) => {
                format!("{rate} requests/s with at most {most} at once: no open loop")
            }
            (None, Some(most)) => format!("{most} at once, closed loop"),
            (None, None) if self.is_all_at_once => "all at once".into(),
            (None, None) => "load not stated".into(),
        }
    }

    /// Whether a request was sent when an earlier one had ended.
    pub fn is_closed(&self) -> bool {
        self.rate.is_none() && self.concurrency.is_some()
    }
}

/// One answered request, whoever's client measured it. Seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// From the moment that the client counts from to the first token.
    pub ttft: Option<f64>,
    /// From the same moment to the last token.
    pub e2el: Option<f64>,
    /// From the first token to the last.
    pub decode: Option<f64>,
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
    /// The time from the first token to the last / (N - 1); none for answers of one token.
    pub fn tpot(&self) -> Option<f64> {
        (self.output > 1.0).then(|| Some(self.decode? / (self.output - 1.0)))?
    }

    /// Whether several tokens came without any time between them: the client did not stream, or
    /// the server sent them as one. When the first of them was made, nobody knows.
    pub fn is_at_once(&self) -> bool {
        self.tpot().is_some_and(|time| !is_time(time))
    }

    /// Without times that are no measurement ([`is_time`]).
    pub fn measured(mut self) -> Request {
        let time = |seconds: Option<f64>| seconds.filter(|seconds| is_time(*seconds));
        let is_at_once = self.is_at_once();
        // A gap of 0 is one between tokens that were read together.
        let has_gaps = self.gaps.iter().all(|gap| (0.0..=TIME_MAX).contains(gap));
        if !has_gaps {
            self.gaps = Vec::new();
        }
        Request {
            ttft: time(self.ttft).filter(|_| !is_at_once),
            e2el: time(self.e2el),
            decode: self.decode.filter(|_| !is_at_once),
            server_prompt: time(self.server_prompt),
            server_token: time(self.server_token),
            ..self
        }
    }
}

/// What was left out of the times of requests, in words.
fn left_out(requests: &[Request]) -> Vec<String> {
    let all = requests.len();
    let count = |is: &dyn Fn(&Request) -> bool| requests.iter().filter(|one| is(one)).count();
    let none = |seconds: Option<f64>| seconds.is_some_and(|seconds| !is_time(seconds));
    let mut words = Vec::new();
    let at_once = count(&|one| one.is_at_once());
    if at_once > 0 {
        words.push(format!(
            "TTFT, TPOT and ITL are not measured in {at_once} of {all} requests: several tokens \
             came with no time between the first and the last, as where a client does not stream"
        ));
    }
    for (name, count) in [
        ("TTFT is", count(&|one| none(one.ttft) && !one.is_at_once())),
        ("E2EL is", count(&|one| none(one.e2el))),
    ] {
        if count > 0 {
            words.push(format!(
                "{name} not measured in {count} of {all} requests: the file has 0 there, or no \
                 time that can be"
            ));
        }
    }
    words
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
    /// The client, where it was late itself: what it met is then not the server's doing alone.
    pub late: Option<Late>,
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
            && within(self.e2el, request.e2el)
    }

    /// Whether each limit is of a time that was measured: without that nobody knows which requests
    /// keep it.
    fn can_be_told(&self, level: &Level) -> bool {
        let told = |limit: Option<f64>, times: &Option<Times>| limit.is_none() || times.is_some();
        told(self.ttft, &level.ttft)
            && (level.output <= 1.0 || told(self.tpot, &level.tpot))
            && told(self.e2el, &level.e2el)
    }
}

impl Level {
    /// Of requests in the order in which they were scheduled.
    pub fn of(
        offered: Offered,
        requests: Vec<Request>,
        failed: BTreeMap<String, u64>,
        duration: f64,
        limits: &Limits,
    ) -> Level {
        let words = left_out(&requests);
        let duration = if is_time(duration) { duration } else { 0.0 };
        let requests: Vec<Request> = requests.into_iter().map(Request::measured).collect();
        let count = requests.len() as f64;
        let times = |of: &dyn Fn(&Request) -> Option<f64>| {
            Times::of(&requests.iter().filter_map(of).collect::<Vec<_>>())
        };
        let mean = |of: &dyn Fn(&Request) -> f64| {
            if requests.is_empty() { 0.0 } else { requests.iter().map(of).sum::<f64>() / count }
        };
        let unchunked = requests.iter().filter(|one| !one.is_chunked);
        let mut gaps: Vec<f64> =
            Vec::with_capacity(unchunked.clone().map(|one| one.gaps.len()).sum());
        unchunked.for_each(|one| gaps.extend(&one.gaps));
        let over = |one: &Request| Some(one.tpot()? / one.server_token?);
        let answers: Vec<bool> = requests.iter().map(|one| limits.are_kept(one)).collect();
        let kept = answers.iter().filter(|is| **is).count() as f64;
        let missing = failed.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
        let has_limits = !limits.is_empty() && duration > 0.0;
        let mut level = Level {
            offered,
            answered: requests.len() as u64,
            failed,
            duration,
            input: mean(&|one| one.input),
            output: mean(&|one| one.output),
            ttft: times(&|one| one.ttft),
            tpot: times(&Request::tpot),
            itl: Times::of(&gaps).and_then(Times::above_nothing),
            e2el: times(&|one| one.e2el),
            lateness: times(&|one| one.lateness),
            server_prompt: times(&|one| one.server_prompt),
            over_server: times(&over).and_then(|times| times.median()),
            chunked: requests.iter().filter(|one| one.is_chunked).count() as u64,
            goodput: has_limits.then(|| kept / duration),
            // Where failures stood among the others, only the rows of this program's client tell.
            kept: Portion::of(&answers, missing).filter(|_| has_limits),
            late: None,
            over_time: None,
            server: Vec::new(),
            requests: requests.into(),
            notes: words,
        };
        if level.answered > 0 && !limits.can_be_told(&level) {
            (level.goodput, level.kept) = (None, None);
            level.notes.push(
                "which requests keep the limits is not known: a limit is of a time that was not \
                 measured"
                    .into(),
            );
        }
        level
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
            requests.push(request(row));
        }
        let start = rows.iter().map(|row| row.scheduled).fold(f64::INFINITY, f64::min);
        let end = rows.iter().map(|row| row.ended).fold(f64::NEG_INFINITY, f64::max);
        let offered = Offered::stated(plan.rate, plan.burstiness, plan.concurrency);
        let duration = (end - start).max(0.0);
        let count = requests.len() as f64;
        let mut level = Level::of(offered, requests, failed, duration, limits);
        level.over_time = OverTime::of(&rows, plan.rate.is_some());
        if let (Some(_), false) = (level.kept, limits.is_empty()) {
            let answers: Vec<bool> = rows
                .iter()
                .map(|row| {
                    row.ending == Ending::Answered && limits.are_kept(&request(row).measured())
                })
                .collect();
            level.kept = Portion::of(&answers, 0);
        }
        let all = level.answered.saturating_add(level.failures());
        level.late = Late::of(&level.requests, limits, level.kept, all);
        if came < wanted * (1.0 - TOKENS_OFF) {
            level.notes.push(format!(
                "answers of {:.0} tokens were asked for on average, and {:.0} came: the server \
                 ends them earlier, so that this is a lighter load than was asked for",
                wanted / count,
                came / count
            ));
        }
        level.notes.extend(of_streams(&rows));
        let resent = rows.iter().filter(|row| row.is_resent).count();
        if resent > 0 {
            level.notes.push(format!(
                "{} {} sent again on a new connection, since the server had closed the one that \
                 was kept open, before any answer; times count from the first attempt",
                counted(resent, "request"),
                agreed(resent, "was", "were")
            ));
        }
        if asked > 0.0 && (arrived / asked - 1.0).abs() > TOKENS_OFF {
            level.notes.push(format!(
                "prompts of {:.0} tokens were asked for on average, and the server counted {:.0}: \
                 its tokenizer is not the one that the prompts were made by",
                asked / count,
                arrived / count
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
        Some(self.request_rate() * self.decode_time()?)
    }

    /// Mean time from the first token to the last, seconds; none where it is not known.
    pub fn decode_time(&self) -> Option<f64> {
        let mean = |times: &Option<Times>| times.as_ref().and_then(|times| times.mean);
        match (mean(&self.e2el), mean(&self.ttft)) {
            (Some(whole), Some(first)) => Some((whole - first).max(0.0)),
            _ => Some(mean(&self.tpot)? * (self.output - 1.0).max(0.0)),
        }
    }
}

/// A prompt may be longer by a mark at its beginning; by more than this share it is another
/// tokenizer's.
const TOKENS_OFF: f64 = 0.02;

/// What to know of the streams of answers: what the server counted and did not send, held back, cut
/// or sent in a form that is not known.
fn of_streams(rows: &[&Row]) -> Vec<String> {
    let answered: Vec<&&Row> = rows.iter().filter(|row| row.ending == Ending::Answered).collect();
    let all = answered.len();
    let count = |is: &dyn Fn(&Row) -> bool| answered.iter().filter(|row| is(row)).count();
    let mut notes = Vec::new();
    let hidden = count(&|row| row.hidden.is_some());
    if hidden > 0 {
        let tokens: f64 = answered.iter().filter_map(|row| row.hidden).map(f64::from).sum();
        notes.push(format!(
            "the server counts {:.0} tokens on average in {hidden} of {all} answers that it did \
             not send: hidden reasoning. They are in the time to the first token, and not in TPOT \
             or in tokens a second",
            tokens / hidden as f64
        ));
    }
    let held_back = count(&|row| row.is_held_back);
    if held_back > 0 {
        notes.push(format!(
            "TPOT and ITL are not measured in {held_back} of {all} requests: more than half of the \
             answer came at one moment, as where a proxy holds a stream back"
        ));
    }
    let filtered = count(&|row| row.finish.as_deref() == Some("content_filter"));
    if filtered > 0 {
        notes
            .push(format!("{filtered} of {all} answers were ended by the server's content filter"));
    }
    let skipped = rows.iter().filter(|row| row.skipped > 0).count();
    if let Some(kind) = rows.iter().find_map(|row| row.skipped_kind.as_deref()) {
        let events: u64 = rows.iter().map(|row| u64::from(row.skipped)).sum();
        notes.push(format!(
            "{} in {}, of no known kind (the first: {kind}), {} left out",
            counted(events as usize, "event"),
            counted(skipped, "request"),
            agreed(events as usize, "was", "were")
        ));
    }
    notes
}

/// A row as any client's request.
pub(super) fn request(row: &Row) -> Request {
    let tokens = f64::from(row.tokens());
    let after_first = tokens - 1.0;
    Request {
        ttft: row.ttft(),
        e2el: row.e2el(),
        decode: row
            .last
            .zip(row.first)
            .map(|(last, first)| last - first)
            .filter(|_| !row.is_held_back),
        lateness: Some(row.sent - row.scheduled),
        input: f64::from(row.input.unwrap_or(row.asked_input)),
        output: tokens,
        gaps: row.gaps.iter().filter(|_| !row.is_held_back).map(|gap| f64::from(*gap)).collect(),
        is_chunked: row.is_chunked(),
        server_prompt: row.server_prompt,
        server_token: row
            .server_answer
            .filter(|_| after_first > 0.0)
            .map(|time| time / after_first),
    }
}
