//! What several levels of load say of a server: its knee, the highest rate that keeps limits, the
//! front of throughput and speed for a user, and how many servers a rate takes.

use super::level::{Level, Limits};

/// The share of requests that has to keep the limits, where the user names no other.
pub const SHARE_DEFAULT: f64 = 0.99;

/// A plan leaves this much room above the rate that is asked for: arrivals scatter, and a server
/// may be missing.
pub const HEADROOM: f64 = 0.2;

/// What a user asks of the server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// The limits that each request has to keep.
    pub limits: Limits,
    /// The share of requests that has to keep them.
    pub share: f64,
    /// Requests a second that all servers together have to answer, where a plan is asked for.
    pub target: Option<f64>,
    /// Devices of a server.
    pub devices: u32,
}

impl Default for Goal {
    fn default() -> Goal {
        Goal { limits: Limits::default(), share: SHARE_DEFAULT, target: None, devices: 1 }
    }
}

impl Goal {
    /// Whether a rate misses the limits in every level of it that there is, and the client was late
    /// in all of them: the goal is then not judged.
    pub fn is_missed_by_a_late_client(&self, levels: &[Level]) -> bool {
        let is_not_judged = |level: &&Level| level.is_not_judged(self.share);
        let is_same = |one: &Level, other: &Level| one.offered == other.offered;
        levels.iter().filter(is_not_judged).any(|one| {
            levels.iter().filter(|other| is_same(one, other)).all(|other| is_not_judged(&other))
        })
    }
}

/// How many servers a rate takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fleet {
    /// This many servers, [`HEADROOM`] included.
    Servers(u64),
    /// No number of servers: none of the levels keeps the limits, so that a server that is asked
    /// less than the lowest one would have to be shown to keep them first.
    CannotBeMet,
    /// Nobody knows: the client was late at the lowest level that might have said it.
    NotJudged,
}

/// What levels say. Numbers are places in the list of levels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Capacity {
    /// Levels of open loops, by rising rate.
    pub open: Vec<usize>,
    /// Levels of closed loops, by rising number of requests at once.
    pub closed: Vec<usize>,
    /// The open level with the greatest power, which is answered requests a second over their mean
    /// time: beyond it latency grows faster than throughput (Kleinrock, Power and deterministic
    /// rules of thumb for probabilistic problems in computer communications, ICC 1979). Of three
    /// levels or more.
    pub knee: Option<usize>,
    /// The lowest open level at which requests pile up.
    pub piles_up: Option<usize>,
    /// The highest open level that keeps the limits, as all below it do.
    pub highest: Option<usize>,
    /// The open level above it, which does not.
    pub missed: Option<usize>,
    /// The lowest open level above `highest`, where its client was late, so that it is not judged.
    pub not_judged: Option<usize>,
    /// Closed levels than which none has both more throughput and more speed for each user.
    pub front: Vec<usize>,
    /// Of the front, the level with the most throughput that keeps the limits; without limits, the
    /// one of the greatest power.
    pub operating: Option<usize>,
    /// How many servers the target takes; none where none is asked for.
    pub fleet: Option<Fleet>,
}

impl Level {
    /// Whether requests pile up at the server; not where the client sent them late.
    pub fn piles_up(&self) -> bool {
        self.late.is_none() && self.over_time.as_ref().is_some_and(|over| over.piles_up)
    }

    /// Whether the level keeps the limits: enough of its requests do, and none pile up. None where
    /// that is not known, and where it misses them while the client was late.
    pub fn keeps(&self, share: f64) -> Option<bool> {
        let keeps = self.kept.map(|kept| {
            let piles_up = self.over_time.as_ref().is_some_and(|over| over.piles_up);
            kept.share >= share && !piles_up
        });
        keeps.filter(|keeps| *keeps || self.late.is_none())
    }

    /// Whether the level misses the limits while its client was late: nobody knows whose fault that
    /// is, and it is judged in no way.
    pub fn is_not_judged(&self, share: f64) -> bool {
        self.late.is_some() && self.kept.is_some() && self.keeps(share).is_none()
    }

    /// Answered requests a second over the mean time of one: Kleinrock's power, 1/s^2.
    pub fn power(&self) -> Option<f64> {
        let mean = self.e2el.as_ref()?.mean?;
        (mean > 0.0).then(|| self.request_rate() / mean)
    }

    /// Tokens a second that a user gets in decode: 1 / median TPOT.
    pub fn user_speed(&self) -> Option<f64> {
        let token = self.tpot.as_ref()?.median()?;
        (token > 0.0).then(|| 1.0 / token)
    }
}

impl Capacity {
    /// Of levels of one server.
    pub fn of(levels: &[&Level], goal: &Goal) -> Capacity {
        let has_limits = !goal.limits.is_empty();
        let places = |is: &dyn Fn(&Level) -> bool| -> Vec<usize> {
            (0..levels.len()).filter(|at| is(levels[*at])).collect()
        };
        let rate = |at: &usize| levels[*at].offered.rate.unwrap_or_default();
        let mut open =
            places(&|level| level.offered.rate.is_some() && level.offered.concurrency.is_none());
        open.sort_by(|one, other| rate(one).total_cmp(&rate(other)));
        let mut closed =
            places(&|level| level.offered.rate.is_none() && level.offered.concurrency.is_some());
        closed.sort_by_key(|at| levels[*at].offered.concurrency);
        let is_missed = |at: &usize| levels[*at].keeps(goal.share) == Some(false);
        let is_kept = |at: &usize| levels[*at].keeps(goal.share) == Some(true);
        let is_not_judged = |at: &usize| levels[*at].is_not_judged(goal.share);
        // A rate that was measured several times keeps the limits where all of its levels do that
        // can be judged.
        let judged = |at: &usize| -> Vec<usize> {
            let same = open.iter().filter(|other| rate(other) == rate(at));
            same.copied().filter(|one| !is_not_judged(one)).collect()
        };
        let is_rate_kept = |at: &usize| {
            let judged = judged(at);
            !judged.is_empty() && judged.iter().all(is_kept)
        };
        let kept = open.iter().take_while(|at| is_rate_kept(at)).count();
        let highest = open[..kept].iter().rev().find(|at| has_limits && is_kept(at)).copied();
        let missed = open[kept..].iter().find(|at| has_limits && is_missed(at)).copied();
        let not_judged = open.get(kept).copied().filter(|at| judged(at).is_empty());
        let front = front(levels, &closed);
        let operating = if has_limits {
            let kept = front.iter().copied().filter(is_kept);
            kept.max_by(|one, other| {
                levels[*one].token_rate().total_cmp(&levels[*other].token_rate())
            })
        } else {
            most_power(levels, &front)
        };
        let piles_up = |at: &&usize| levels[**at].piles_up();
        let no_level = match not_judged {
            Some(_) => Fleet::NotJudged,
            None => Fleet::CannotBeMet,
        };
        Capacity {
            knee: most_power(levels, &open),
            piles_up: open.iter().find(piles_up).copied(),
            fleet: goal.target.filter(|_| has_limits && !open.is_empty()).map(|target| {
                highest.map_or(no_level, |at| {
                    Fleet::Servers((target * (1.0 + HEADROOM) / rate(&at)).ceil() as u64)
                })
            }),
            open,
            closed,
            highest,
            missed,
            not_judged,
            front,
            operating,
        }
    }
}

/// The level with the greatest power of three or more.
fn most_power(levels: &[&Level], places: &[usize]) -> Option<usize> {
    let powers: Vec<(usize, f64)> =
        places.iter().filter_map(|at| Some((*at, levels[*at].power()?))).collect();
    let most = powers.iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
    (powers.len() >= 3).then_some(most.0)
}

/// Of levels, those than which none is better in one of throughput and speed for a user, and as
/// good in the other.
fn front(levels: &[&Level], places: &[usize]) -> Vec<usize> {
    let point = |at: usize| Some((levels[at].token_rate(), levels[at].user_speed()?));
    let points: Vec<(usize, (f64, f64))> =
        places.iter().filter_map(|at| Some((*at, point(*at)?))).collect();
    let is_beaten = |one: (f64, f64)| {
        let beats = |other: (f64, f64)| other.0 >= one.0 && other.1 >= one.1 && other != one;
        points.iter().any(|(_, other)| beats(*other))
    };
    points.iter().filter(|(_, point)| !is_beaten(*point)).map(|(at, _)| *at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{
        level::{Offered, Request},
        queue::mmc,
    };
    use std::collections::BTreeMap;

    fn level(offered: Offered, e2el: f64, tpot: f64, rate: f64, limits: &Limits) -> Level {
        let request = Request {
            ttft: Some(e2el - 9.0 * tpot),
            e2el: Some(e2el),
            decode: Some(9.0 * tpot),
            input: 10.0,
            output: 10.0,
            ..Request::default()
        };
        let requests = vec![request; 400];
        Level::of(offered, requests, BTreeMap::new(), 400.0 / rate, limits)
    }

    /// A server of four slots with exponential service of 1 s, by its closed form.
    fn sweep(rates: &[f64], limits: &Limits) -> Vec<Level> {
        let one = |rate: &f64| {
            let wait = mmc(4, *rate, 1.0).expect("stable").mean_wait;
            let offered = Offered { rate: Some(*rate), ..Offered::default() };
            level(offered, 1.0 + wait, 0.05, *rate, limits)
        };
        rates.iter().map(one).collect()
    }

    #[test]
    fn the_knee_is_where_a_queue_begins_to_form() {
        let levels = sweep(&[3.9, 1.0, 2.0, 3.0, 3.5], &Limits::default());
        let capacity = Capacity::of(&levels.iter().collect::<Vec<_>>(), &Goal::default());
        // Power of M/M/4 is greatest at a load of about 0.75.
        assert_eq!(capacity.knee, Some(3), "{capacity:?}");
        assert_eq!(capacity.open, [1, 2, 3, 4, 0]);
        assert_eq!((capacity.highest, capacity.fleet), (None, None), "no limits are asked for");
    }

    #[test]
    fn the_highest_rate_keeps_limits_with_all_below_it() {
        let limits = Limits { e2el: Some(1.6), ..Limits::default() };
        let levels = sweep(&[1.0, 2.0, 3.0, 3.9], &limits);
        let goal = Goal { limits, target: Some(10.0), ..Goal::default() };
        let all: Vec<&Level> = levels.iter().collect();
        let capacity = Capacity::of(&all, &goal);
        assert_eq!((capacity.highest, capacity.missed), (Some(2), Some(3)), "{capacity:?}");
        // 10 / s with a fifth of headroom over 3 / s.
        assert_eq!(capacity.fleet, Some(Fleet::Servers(4)));
        let capacity = Capacity::of(&all[3..], &goal);
        assert_eq!((capacity.highest, capacity.fleet), (None, Some(Fleet::CannotBeMet)));
    }

    #[test]
    fn levels_that_fail_and_rates_that_are_measured_twice_count() {
        let limits = Limits { e2el: Some(1.6), ..Limits::default() };
        let goal = Goal { limits, target: Some(10.0), ..Goal::default() };
        let failed = |rate: f64| {
            let offered = Offered { rate: Some(rate), ..Offered::default() };
            let failed = BTreeMap::from([("429 too many requests".to_owned(), 40)]);
            Level::of(offered, Vec::new(), failed, 10.0, &limits)
        };
        let good = sweep(&[1.0, 2.0, 3.0], &limits);
        let of = |levels: &[&Level]| {
            let found = Capacity::of(levels, &goal);
            (found.highest, found.missed, found.fleet)
        };
        let none = (None, Some(0), Some(Fleet::CannotBeMet));
        assert_eq!(of(&[&failed(1.0), &good[1], &good[2]]), none);
        assert_eq!(of(&[&failed(1.0)]), none);
        let three = Some(Fleet::Servers(6));
        assert_eq!(of(&[&good[1], &failed(3.0), &good[2]]), (Some(0), Some(1), three));
        assert_eq!(of(&[&good[1], &good[2], &failed(3.0)]), (Some(0), Some(2), three));
    }

    #[test]
    fn the_front_leaves_out_what_is_worse_in_both() {
        let limits = Limits { tpot: Some(0.03), ..Limits::default() };
        let closed = |count, tpot: f64, rate| {
            let offered = Offered { concurrency: Some(count), ..Offered::default() };
            level(offered, 10.0 * tpot, tpot, rate, &limits)
        };
        let levels = [
            closed(1, 0.01, 10.0),
            closed(8, 0.02, 40.0),
            closed(16, 0.04, 39.0),
            closed(32, 0.05, 60.0),
        ];
        let goal = Goal { limits, ..Goal::default() };
        let capacity = Capacity::of(&levels.iter().collect::<Vec<_>>(), &goal);
        assert_eq!((capacity.front, capacity.operating), (vec![0, 1, 3], Some(1)));
    }
}
