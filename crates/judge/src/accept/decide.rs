//! The three-way decision: a device is slower than a bar, it is not, or that cannot be told.
//!
//! A **series** is one metric of one device, measured several times in fresh processes. A **bar**
//! is the rate below which the device fails: a floor, or a reference less the least effect that
//! counts. All of it is done on logarithms of rates, so that shares add.
//!
//! - The series' place is its median. Its standard error is `sqrt(pi / 2) s / sqrt(n)`, where `s`
//!   is the noise of one repeat, pooled over the devices of the node. The bar's own error is added
//!   to it in squares: a reference that was learnt from few runs can fail nobody by its own bad
//!   luck. Where earlier runs tell how far a session of a device is off beside its neighbours, what
//!   they are above it by has to be more than that, too ([`Standing::beside`]).
//! - **Fail** tests H0: the rate is at least the bar's. With a bar that stands the least effect
//!   below the reference this is H0: loss <= delta, and not loss = 0. False discoveries are
//!   controlled over all series of the node (Benjamini and Hochberg 1995).
//! - **Pass** needs the mirror: the lower end of the rate's one-sided interval is above the bar.
//! - The rest is **inconclusive** and is measured again: 5, 9, then 15 repeats ([`LOOKS`]). Each
//!   look spends its share of the errors ([`SHARES`]).
//! - A series that fails is measured anew ([`RETEST`] fresh repeats) and has to fail by these
//!   alone: a noisy neighbour that went away fails nobody. Where another device of the node has
//!   passed in the same metric, it is measured in turn with the one that failed (A B, B A, ..), and
//!   the differences of these pairs have to be above the least effect too: what both see alike is
//!   no fault of one.
//! - A series that no number of repeats could decide is left **inconclusive** at once: its bar
//!   itself is too uncertain for where the series stands (a reference learnt from more runs helps),
//!   or no bar may pass it and it stands too far above those that may fail it.
//! - The **gate**: where the noise of one repeat is above a third of the least effect, a reference
//!   may fail nobody. A floor still can, since it is for what is grossly slow.
//!
//! docs/appendix/accept-rates.md has the error rates of these rules, simulated.

mod scatter;
mod standing;

pub use scatter::{is_too_noisy, noise, noise_of, sum};
pub use standing::{Others, Standing, error_of_median, pairs_differ};

use fizeau_domain::{
    stats::{
        quantile::median,
        student::{self, Variance},
    },
    verdict::Verdict,
};
use std::collections::BTreeMap;

/// Repeats after which is judged.
pub const LOOKS: [usize; 3] = [5, 9, 15];

/// The share of both error rates that each look spends: most of it where most is known, since what
/// is far from its bar is decided early all the same.
pub const SHARES: [f64; 3] = [0.1, 0.2, 0.7];

/// Fresh repeats by which a failure has to show again.
pub const RETEST: usize = 7;

/// Expected share of wrong ones among the series that fail, before they are measured anew.
pub const FALSE_DISCOVERIES: f64 = 0.01;

/// Probability that a series just at its bar passes.
pub const FALSE_PASS: f64 = 0.05;

/// Probability with which the fresh repeats of a series just at its bar confirm a failure.
pub const FALSE_CONFIRMATION: f64 = 0.01;

/// The noise of one repeat may be at most the least effect over this.
pub const GATE: f64 = 3.0;

/// Confidence of the intervals that are shown.
pub const CONFIDENCE: f64 = 0.95;

/// Variance of a median over that of a mean, of normal values: pi / 2.
pub const MEDIAN: f64 = std::f64::consts::FRAC_PI_2;

/// How many other devices of its kind a device needs to be set beside them.
pub const PEERS_MIN: usize = 3;

/// Where a bar comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Against {
    /// A floor: a share of the speed of light.
    Floor,
    /// What good machines reached, less the least effect.
    Reference,
    /// The median of the other devices of this node, less the least effect.
    Peers,
}

/// The rate below which a series fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    /// Where it comes from.
    pub against: Against,
    /// Logarithm of the rate.
    pub log: f64,
    /// Variance of `log`: what is not known of the reference, and how far one run of a device is
    /// from its next one.
    pub error: Variance,
    /// Whether a rate above it can pass: not where the bar is only for what is grossly slow.
    pub may_pass: bool,
    /// Whether a rate below it can fail.
    pub may_fail: bool,
}

/// One metric of one device.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Which metric: series with the same number are set beside each other.
    pub metric: usize,
    /// The least relative loss that counts.
    pub least_effect: f64,
    /// Logarithms of the rates of its repeats, in order.
    pub values: Vec<f64>,
    /// What it is set against, besides its peers.
    pub bars: Vec<Bar>,
    /// Whether the node's other devices may fail it. They never pass it, since all may be slow.
    pub has_peers: bool,
    /// Variance of what a session of a healthy device is off by beside the other devices of its
    /// node, beyond its repeats. `None` where no earlier session tells it.
    pub session: Option<Variance>,
}

/// Why a decision is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Above every bar, or below one of them, as sure as was asked for.
    Decided,
    /// No bar may pass it, and it is below none that may fail it.
    NoBar,
    /// Its repeats scatter by more than a third of the least effect.
    TooNoisy,
    /// It is too near to its bar, or was measured too seldom.
    TooClose,
    /// What it is set against is itself so uncertain that no number of repeats decides.
    BarUnsure,
    /// It failed and did not fail again when it was measured anew.
    NotRepeated,
    /// It failed again when it was measured anew, and so did the device beside it.
    PartnerToo,
    /// It failed, and could not be measured anew: the budget ended, or the device was lost.
    NotConfirmed,
}

/// What became of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// Pass, fail or inconclusive.
    pub verdict: Verdict,
    /// Why.
    pub reason: Reason,
    /// The bar that decided, or the nearest one.
    pub bar: Option<Bar>,
    /// Logarithm of the median rate.
    pub log: f64,
    /// Logarithms of the ends of its interval, of [`CONFIDENCE`].
    pub interval: [f64; 2],
    /// One less the probability of so extreme a rate if it were just at the bar.
    pub confidence: f64,
    /// Noise of one repeat, as a share.
    pub noise: f64,
    /// Repeats.
    pub repeats: usize,
}

/// Whether repeats without end could put a series above (`side` 1) or below (-1) a bar: its place
/// may still move by [`REACH`] standard errors, and its own error then goes to nothing, while the
/// bar's stays.
fn is_in_reach(side: f64, centre: f64, own: Variance, bar: &Bar) -> bool {
    let farthest = side * (centre - bar.log) + REACH * own.value.sqrt();
    let needed = student::exceeded_with(FALSE_PASS, bar.error.freedom.max(1.0));
    farthest >= needed * bar.error.value.sqrt()
}

/// Standard errors by which the median of a series may still move. A node has a hundred series, and
/// passes only if none of them is given up too early: two standard errors would be too few.
const REACH: f64 = 4.0;

/// A series with what was computed of it.
struct Judged {
    centre: f64,
    error: Variance,
    noise: Variance,
    standings: Vec<Standing>,
    is_gated: bool,
    /// Whether more repeats may make it pass or fail.
    may_be_decided: bool,
}

impl Judged {
    fn of(series: &Series, values: &[f64], pooled: Variance, peers: Option<Bar>) -> Judged {
        let noise = noise_of(values, pooled);
        let centre = median(values);
        let error = error_of_median(noise, values.len());
        let stand = |bar: &Bar| Standing::of(centre, error, bar);
        let Series { session, least_effect, .. } = series;
        let beside = |bar| Standing::beside((centre, error), bar, *session, *least_effect);
        let standings: Vec<Standing> =
            series.bars.iter().map(stand).chain(peers.as_ref().map(beside)).collect();
        let is_gated = is_too_noisy(noise, series.least_effect);
        let mut judged =
            Judged { centre, error, noise, standings, is_gated, may_be_decided: false };
        // It passes by all that may pass it, and fails by one that may fail it.
        let reaches = |side: f64, one: &Standing| is_in_reach(side, centre, error, &one.bar);
        let may_pass = judged.has_bar() && judged.passing().all(|one| reaches(1.0, one));
        let may_fail = judged.failing().any(|one| reaches(-1.0, one));
        // The noise is an estimate: more repeats may find it below the gate.
        let may_pass_the_gate = is_gated && judged.has_bar();
        judged.may_be_decided = may_pass || may_fail || may_pass_the_gate;
        judged
    }

    /// Bars that may pass it.
    fn passing(&self) -> impl Iterator<Item = &Standing> {
        self.standings.iter().filter(|one| one.bar.may_pass)
    }

    /// Whether any bar may pass it.
    fn has_bar(&self) -> bool {
        self.passing().next().is_some()
    }

    /// Bars that may fail it.
    fn failing(&self) -> impl Iterator<Item = &Standing> {
        let counts = |one: &&Standing| {
            one.bar.may_fail && (one.bar.against == Against::Floor || !self.is_gated)
        };
        self.standings.iter().filter(counts)
    }

    /// The least probability under any bar that may fail it, times the number of such bars, since
    /// each is one more chance to fail by accident (Bonferroni); 1 where none may.
    fn probability(&self) -> f64 {
        let bars = self.failing().count() as f64;
        self.failing().map(|one| one.below() * bars).fold(1.0, f64::min)
    }

    fn decision(&self, fails: bool, pass_error: f64, repeats: usize) -> Decision {
        let lowest = |all: &mut dyn Iterator<Item = &Standing>| {
            all.copied().min_by(|a, b| a.t.total_cmp(&b.t))
        };
        let has_bar = self.has_bar();
        let passes = has_bar && self.passing().all(|one| one.passes(pass_error));
        let least = lowest(&mut self.passing()).or_else(|| lowest(&mut self.standings.iter()));
        let is_below = self.failing().any(|one| one.t < 0.0);
        let (verdict, reason, standing) = if fails {
            let below = |a: &&Standing, b: &&Standing| a.below().total_cmp(&b.below());
            (Verdict::Fail, Reason::Decided, self.failing().min_by(below).copied())
        } else if passes {
            (Verdict::Pass, Reason::Decided, least)
        } else if !has_bar && !is_below {
            (Verdict::Inconclusive, Reason::NoBar, least)
        } else if has_bar && self.is_gated {
            (Verdict::Inconclusive, Reason::TooNoisy, least)
        } else if !self.may_be_decided {
            (Verdict::Inconclusive, Reason::BarUnsure, least)
        } else {
            (Verdict::Inconclusive, Reason::TooClose, least)
        };
        let confidence = standing.map_or(0.0, |one| match verdict {
            Verdict::Fail => 1.0 - one.below(),
            _ => 1.0 - student::upper_tail(one.t, one.freedom),
        });
        let half = student::exceeded_with((1.0 - CONFIDENCE) / 2.0, self.error.freedom.max(1.0))
            * self.error.value.sqrt();
        Decision {
            verdict,
            reason,
            bar: standing.map(|one| one.bar),
            log: self.centre,
            interval: [self.centre - half, self.centre + half],
            confidence,
            noise: self.noise.value.sqrt(),
            repeats,
        }
    }
}

/// The bar that the other devices of a metric make, and how sure it is.
fn peers(series: &[Series], at: usize, pooled: Variance) -> Option<Bar> {
    let own = &series[at];
    let others = series
        .iter()
        .enumerate()
        .filter(|(other, one)| *other != at && one.metric == own.metric && !one.values.is_empty());
    let medians: Vec<(f64, usize)> =
        others.map(|(_, one)| (median(&one.values), one.values.len())).collect();
    if !own.has_peers || medians.len() < PEERS_MIN {
        return None;
    }
    let centres: Vec<f64> = medians.iter().map(|(centre, _)| *centre).collect();
    let repeats = medians.iter().map(|(_, count)| *count).min().unwrap_or(1);
    Some(Others::of(&centres, repeats).bar(pooled, own.least_effect))
}

/// Whether a device that failed differs from its partner ([`pairs_differ`]). What is below a floor
/// may be a whole lot, and needs no partner.
fn is_slower_than_partner(
    series: &Series,
    first: &Decision,
    pairs: [&[f64]; 2],
    noises: [Variance; 2],
) -> bool {
    let is_floor = first.bar.is_some_and(|bar| bar.against == Against::Floor);
    is_floor || pairs_differ(pairs, sum(&noises), series.least_effect).unwrap_or(true)
}

/// How far a series is.
#[derive(Clone, Debug, PartialEq)]
enum State {
    /// To be measured until the next look.
    Open,
    /// It failed: to be measured anew, with what was measured anew so far, of itself and of its
    /// partner in turn.
    Suspect { first: Decision, fresh: Vec<f64>, beside: Vec<f64> },
    /// Decided.
    Done(Decision),
    /// It cannot be measured.
    Lost,
}

/// The whole procedure on the series of one node: which to measure next, and what became of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sequence {
    series: Vec<Series>,
    states: Vec<State>,
    /// Looks that are over.
    looks: usize,
    failed_at_first: Vec<usize>,
}

impl Sequence {
    /// Begins with series that may have values already.
    pub fn new(series: Vec<Series>) -> Sequence {
        let states = vec![State::Open; series.len()];
        Sequence { series, states, looks: 0, failed_at_first: Vec::new() }
    }

    /// Adds a series; its number.
    pub fn push(&mut self, series: Series) -> usize {
        self.series.push(series);
        self.states.push(State::Open);
        self.series.len() - 1
    }

    /// The series.
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    /// Repeats still wanted before the next judgement, of each series that needs any. What failed
    /// is measured anew once nothing else is open, beside its partner.
    pub fn wanted(&self) -> Vec<(usize, usize)> {
        let all = || (0..self.series.len()).map(|at| (at, self.missing(at)));
        let is_open = |at: &usize| self.states[*at] == State::Open;
        let open = |one: &(usize, usize)| is_open(&one.0) && one.1 > 0;
        if (0..self.series.len()).any(|at| is_open(&at)) {
            return all().filter(open).collect();
        }
        let mut wanted: BTreeMap<usize, usize> = BTreeMap::new();
        for (at, count) in all().filter(|one| one.1 > 0) {
            for of in [Some(at), self.partner(at)].into_iter().flatten() {
                let known = wanted.entry(of).or_default();
                *known = count.max(*known);
            }
        }
        wanted.into_iter().collect()
    }

    /// Repeats that a series alone still needs.
    fn missing(&self, at: usize) -> usize {
        match &self.states[at] {
            State::Open => {
                let look = LOOKS.get(self.looks).copied().unwrap_or(0);
                look.saturating_sub(self.series[at].values.len())
            }
            State::Suspect { fresh, .. } => RETEST.saturating_sub(fresh.len()),
            State::Done(_) | State::Lost => 0,
        }
    }

    /// Whether nothing is wanted but repeats that confirm failures: to be measured one after
    /// another.
    pub fn is_retest(&self) -> bool {
        let is_suspect = |state: &State| matches!(state, State::Suspect { .. });
        self.states.iter().any(is_suspect) && !self.states.contains(&State::Open)
    }

    /// The device that a failed series is set beside in pairs: of those that passed in the same
    /// metric, the one nearest to their median. None where none did.
    fn partner(&self, at: usize) -> Option<usize> {
        let passed = |other: &usize| {
            let is_same = self.series[*other].metric == self.series[at].metric;
            is_same
                && matches!(&self.states[*other], State::Done(one) if one.verdict == Verdict::Pass)
        };
        let candidates: Vec<usize> = (0..self.series.len()).filter(passed).collect();
        if candidates.is_empty() {
            return None;
        }
        let place = |other: &usize| median(&self.series[*other].values);
        let centre = median(&candidates.iter().map(place).collect::<Vec<_>>());
        let away = |other: &usize| (place(other) - centre).abs();
        candidates.into_iter().min_by(|a, b| away(a).total_cmp(&away(b)))
    }

    /// Whether every series is decided or lost.
    pub fn is_over(&self) -> bool {
        !self.states.iter().any(|state| matches!(state, State::Open | State::Suspect { .. }))
    }

    /// Takes the logarithm of a rate that was measured.
    pub fn take(&mut self, at: usize, value: f64) {
        match &mut self.states[at] {
            State::Suspect { fresh, .. } => fresh.push(value),
            State::Open => self.series[at].values.push(value),
            State::Done(_) => self.take_beside(at, value),
            State::Lost => {}
        }
    }

    /// Takes a repeat of a device as the partner of those that failed.
    fn take_beside(&mut self, at: usize, value: f64) {
        let is_its = |one: &usize| {
            matches!(self.states[*one], State::Suspect { .. }) && self.partner(*one) == Some(at)
        };
        let suspects: Vec<usize> = (0..self.series.len()).filter(is_its).collect();
        for one in suspects {
            if let State::Suspect { beside, .. } = &mut self.states[one] {
                beside.push(value);
            }
        }
    }

    /// Gives up a series that cannot be measured any more.
    pub fn lose(&mut self, at: usize) {
        match &self.states[at] {
            // It failed, and nothing says otherwise; but that was not confirmed.
            State::Suspect { first, .. } => {
                let reason = Reason::NotConfirmed;
                let decision = Decision { verdict: Verdict::Inconclusive, reason, ..*first };
                self.states[at] = State::Done(decision);
            }
            State::Open => self.states[at] = State::Lost,
            State::Done(_) | State::Lost => {}
        }
    }

    /// Judges what was measured since the last look. Call it once nothing is
    /// [`wanted`](Self::wanted).
    pub fn judge(&mut self) {
        let share = SHARES.get(self.looks).copied().unwrap_or(0.0);
        let judged = self.judged();
        self.confirm();
        let probabilities: Vec<f64> =
            judged.iter().map(|one| one.as_ref().map_or(1.0, Judged::probability)).collect();
        let failed = student::false_discovery(&probabilities, FALSE_DISCOVERIES * share);
        let is_last = self.looks + 1 >= LOOKS.len();
        for (at, one) in judged.iter().enumerate() {
            let Some(one) = one.as_ref().filter(|_| self.states[at] == State::Open) else {
                continue;
            };
            // An error of 0 would let the looks after the last one fail nobody.
            let fails = failed[at] && share > 0.0;
            let decision = one.decision(fails, FALSE_PASS * share, self.series[at].values.len());
            self.states[at] = match decision.verdict {
                Verdict::Fail => {
                    self.failed_at_first.push(at);
                    State::Suspect { first: decision, fresh: Vec::new(), beside: Vec::new() }
                }
                Verdict::Pass => State::Done(decision),
                // More repeats help neither where no decision is in reach, nor after the last look.
                _ if is_last || !one.may_be_decided => State::Done(decision),
                _ => State::Open,
            };
        }
        self.looks += 1;
    }

    /// Every series that has values, judged by these alone.
    fn judged(&self) -> Vec<Option<Judged>> {
        let pooled: Vec<Variance> =
            (0..self.series.len()).map(|at| self.pooled(self.series[at].metric)).collect();
        let of = |(at, series): (usize, &Series)| {
            (!series.values.is_empty()).then(|| {
                let bar = peers(&self.series, at, pooled[at]);
                Judged::of(series, &series.values, pooled[at], bar)
            })
        };
        self.series.iter().enumerate().map(of).collect()
    }

    /// The noise of one repeat of a metric, over all devices.
    fn pooled(&self, metric: usize) -> Variance {
        let same = self.series.iter().filter(|one| one.metric == metric);
        noise(&same.map(|one| one.values.as_slice()).collect::<Vec<_>>())
    }

    /// Ends the retest of series whose fresh repeats are there.
    fn confirm(&mut self) {
        for at in 0..self.series.len() {
            let State::Suspect { first, fresh, beside } = &self.states[at] else { continue };
            if fresh.len() < RETEST {
                continue;
            }
            let series = &self.series[at];
            let pooled = self.pooled(series.metric);
            let bar = peers(&self.series, at, pooled);
            let anew = Judged::of(series, fresh, pooled, bar);
            let noises = [anew.noise, pooled];
            let differs = is_slower_than_partner(series, first, [fresh, beside], noises);
            let fails_again = anew.probability() <= FALSE_CONFIRMATION;
            let repeats = first.repeats + fresh.len();
            let decision = match (fails_again, differs) {
                (true, true) => Decision { repeats, ..*first },
                _ => Decision {
                    reason: if fails_again { Reason::PartnerToo } else { Reason::NotRepeated },
                    repeats,
                    ..anew.decision(false, 0.0, fresh.len())
                },
            };
            self.states[at] = State::Done(decision);
        }
    }

    /// Ends the procedure where it stands, because the budget did. What is open is inconclusive.
    pub fn end(&mut self) {
        let judged = self.judged();
        for (at, one) in judged.iter().enumerate() {
            match (&self.states[at], one) {
                (State::Open, Some(one)) => {
                    let decision = one.decision(false, 0.0, self.series[at].values.len());
                    self.states[at] = State::Done(decision);
                }
                (State::Open, None) => self.states[at] = State::Lost,
                (State::Suspect { .. }, _) => self.lose(at),
                (State::Done(_) | State::Lost, _) => {}
            }
        }
    }

    /// What became of a series; `None` where nothing could be measured, or nothing is decided yet.
    pub fn decision(&self, at: usize) -> Option<Decision> {
        match &self.states[at] {
            State::Done(decision) => Some(*decision),
            State::Suspect { .. } | State::Open | State::Lost => None,
        }
    }

    /// Series that failed before they were measured anew.
    pub fn failed_at_first(&self) -> &[usize] {
        &self.failed_at_first
    }
}

#[cfg(test)]
mod tests;
