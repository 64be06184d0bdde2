//! Whether the client of a level was itself late.
//!
//! Times count from the scheduled moment, so that a server that stands still is seen. What the
//! client adds by sending late is within them: a client that is starved of CPU, or stopped, makes
//! an innocent server miss its limits. A level that misses them while its client was late is not
//! judged. One that keeps them all the same is judged: the client made it harder, never easier.

use super::{
    level::{Limits, Request},
    times::{Portion, Times},
};
use fizeau_domain::{stats::quantile, units::Seconds};

/// A client is late where this share of the time to the first token, each by its P99, is its own.
pub const OF_TTFT: f64 = 0.1;

/// Below this lateness a client is late only where it changes which requests keep the limits,
/// seconds: a scheduler with more to run than it has cores may take as long.
pub const LATENESS_MIN: f64 = 10e-3;

/// The quantiles at which lateness is set beside the time to the first token: the highest that the
/// number of requests allows, as reports show it.
const TAILS: [f64; 4] = [0.99, 0.95, 0.9, 0.75];

/// A client that was late.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Late {
    /// Which quantile is stated: 0.99, or a lower one of fewer than 100 requests.
    pub share: f64,
    /// That quantile of its lateness, seconds.
    pub lateness: f64,
    /// The same of the time to the first token, or of the whole answer where that is not known.
    pub first: f64,
    /// The shares of all requests that keep the limits, counted from the scheduled moment and from
    /// the moment of sending; none where there are no limits.
    pub kept: Option<[f64; 2]>,
}

impl Late {
    /// Of answered requests, whose times count from the scheduled moment; `kept` is the share of
    /// all requests that keep the limits, and `all` their number. None where the client states no
    /// lateness or was on time.
    pub fn of(
        requests: &[Request],
        limits: &Limits,
        kept: Option<Portion>,
        all: u64,
    ) -> Option<Late> {
        let share = tail(requests.len())?;
        let at = |of: &dyn Fn(&Request) -> Option<f64>| {
            let values: Vec<f64> = requests.iter().filter_map(of).collect();
            (!values.is_empty()).then(|| quantile::quantile(&quantile::sorted(&values), share))
        };
        let lateness = at(&|one| one.lateness)?;
        let first = at(&|one| one.ttft.or(one.e2el))?;
        let since_sending = kept.map(|_| {
            let kept = requests.iter().filter(|one| limits.are_kept(&one.since_sending())).count();
            kept as f64 / all.max(1) as f64
        });
        let shares = kept.zip(since_sending);
        let decides = shares.is_some_and(|(kept, sent)| sent > kept.high);
        let is_much = lateness >= LATENESS_MIN && lateness > OF_TTFT * first;
        (decides || is_much).then_some(Late {
            share,
            lateness,
            first,
            kept: shares.map(|(kept, sent)| [kept.share, sent]),
        })
    }

    /// What to know of it; `is_judged` says whether the level keeps its limits all the same.
    pub fn words(&self, is_judged: bool) -> String {
        let mut words = format!(
            "the client itself was late: it sent {} after the scheduled moment at P{:.0}. The time \
             to the first token, {}, includes this delay",
            Seconds(self.lateness).human(),
            100.0 * self.share,
            Seconds(self.first).human()
        );
        let percent = |share: f64| (share * 1e4).round() / 1e2;
        if let Some([scheduled, sent]) = self.kept.filter(|[one, other]| one != other) {
            words += &format!(
                ". {} % of the requests keep the limits as users wait, and {} % from the moment \
                 that they were sent",
                percent(scheduled),
                percent(sent)
            );
        }
        words += match is_judged {
            true => ". So the server was faster than these times",
            false => {
                ". This level does not judge the server: its client had too little CPU time, or \
                 was stopped. Repeat it from a machine with free cores (`fizeau load self-test`)"
            }
        };
        words
    }
}

impl Request {
    /// The same with its times counted from the moment of sending.
    fn since_sending(&self) -> Request {
        let late = self.lateness.unwrap_or(0.0);
        let less = |time: Option<f64>| time.map(|time| (time - late).max(0.0));
        Request { ttft: less(self.ttft), e2el: less(self.e2el), ..self.clone() }
    }
}

/// The highest of [`TAILS`] beyond which one of this many requests at least lies.
fn tail(requests: usize) -> Option<f64> {
    TAILS.into_iter().find(|share| requests as f64 * (1.0 - share) >= 1.0 - 1e-9)
}

/// P99 of a client's lateness where the client counts from sending, so that it is in none of its
/// times, and P99 of the time to the first token; none where the client was on time.
pub fn beside(lateness: &Times, first: &Times) -> Option<[f64; 2]> {
    let share = tail(lateness.count as usize)?;
    let (lateness, first) = (lateness.at(share)?.value, first.at(share)?.value);
    (lateness >= LATENESS_MIN && lateness > OF_TTFT * first).then_some([lateness, first])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{
        capacity::{Capacity, Fleet, Goal},
        level::{Level, Offered},
    };
    use std::collections::BTreeMap;

    const LIMITS: Limits = Limits { ttft: Some(0.5), tpot: None, e2el: None };

    /// A level of 200 requests that a server answers in 20 ms, `late` of which were sent 1.5 s
    /// after their moments.
    fn level(rate: f64, late: usize, served: f64) -> Level {
        let request = |at: usize| {
            let lateness = if at < late { 1.5 } else { 0.0 };
            Request {
                ttft: Some(served + lateness),
                e2el: Some(served + lateness + 0.1),
                decode: Some(0.1),
                lateness: Some(lateness),
                input: 10.0,
                output: 11.0,
                ..Request::default()
            }
        };
        let requests: Vec<Request> = (0..200).map(request).collect();
        let offered = Offered { rate: Some(rate), ..Offered::default() };
        let mut level = Level::of(offered, requests, BTreeMap::new(), 200.0 / rate, &LIMITS);
        level.late = Late::of(&level.requests, &LIMITS, level.kept, level.answered);
        level
    }

    #[test]
    fn a_level_that_its_own_client_spoilt_is_not_judged() {
        let goal = Goal { limits: LIMITS, target: Some(100.0), ..Goal::default() };
        let capacity = |levels: &[Level]| {
            let found = Capacity::of(&levels.iter().collect::<Vec<_>>(), &goal);
            (found.highest, found.missed, found.not_judged, found.fleet)
        };
        // A stop of 1.5 s: seven in a hundred miss the limit, none by the server.
        let spoilt = level(20.0, 14, 0.02);
        assert_eq!(spoilt.keeps(0.99), None);
        let words = spoilt.late.expect("late").words(false);
        assert!(words.contains("93 % of the requests keep the limits as users wait"), "{words}");
        assert!(words.contains("100 % from the moment"), "{words}");
        assert_eq!(
            capacity(std::slice::from_ref(&spoilt)),
            (None, None, Some(0), Some(Fleet::NotJudged))
        );
        // Below it a level that was judged stands, and one that was sent again.
        let good = [level(10.0, 0, 0.02), level(20.0, 14, 0.02)];
        let (highest, missed, not_judged, fleet) = capacity(&good);
        assert_eq!((highest, missed, not_judged), (Some(0), None, Some(1)));
        assert_eq!(fleet, Some(Fleet::Servers(12)));
        let again = [level(20.0, 14, 0.02), level(20.0, 0, 0.02)];
        assert_eq!(capacity(&again).0, Some(1));
        let missed = [level(20.0, 14, 0.02), level(20.0, 0, 0.9)];
        assert_eq!(capacity(&missed), (None, Some(1), None, Some(Fleet::CannotBeMet)));
        // A server that is slow by itself is named, whoever else is on time.
        assert_eq!(level(20.0, 0, 0.9).keeps(0.99), Some(false));
        assert_eq!(level(20.0, 0, 0.9).late, None);
        // One late request in a thousand keeps them all the same.
        assert_eq!(level(20.0, 1, 0.02).keeps(0.99), Some(true));
    }

    #[test]
    fn lateness_of_few_requests_and_small_one_is_no_fault() {
        let of = |count: usize, lateness: f64| {
            let request = Request {
                ttft: Some(0.02 + lateness),
                lateness: Some(lateness),
                ..Request::default()
            };
            Late::of(&vec![request; count], &Limits::default(), None, count as u64)
        };
        assert_eq!(of(100, 0.009), None);
        assert_eq!(of(100, 0.011).map(|late| late.share), Some(0.99));
        assert_eq!(of(20, 0.011).map(|late| late.share), Some(0.95));
        assert_eq!(of(3, 1.0), None, "no quantile is known of three");
    }
}
