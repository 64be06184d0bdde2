//! Names slow ranks, groups of ranks and links from the rates between pairs: pure, from rates to
//! names.
//!
//! In a round every rank exchanges data with one other, all pairs at once ([`plan`]). A slow pair
//! blames two ranks, and congestion blames pairs of healthy ones now and then. [`judge`] weighs all
//! rounds together: `odds` weighs one suspect, `fit` finds the explanation of all rates, `chance`
//! drops suspects whose rates chance may have given them, `layout` finds groups behind switches,
//! `group`
//! says which slow ranks are neighbours, `component` which component that the operator has named is
//! slow, `faster` finds the healthy ranks where most
//! are slow, `few` tries every explanation of four ranks at most. [`raw`] reads and writes rates,
//! so that a verdict can be looked at again, and [`power`] says how many rounds a fault needs.

mod chance;
mod component;
mod faster;
mod few;
mod fit;
mod group;
mod layout;
mod marks;
mod matrix;
mod odds;
pub mod plan;
pub mod power;
pub mod raw;

pub use component::SlowPath;
pub use faster::Faster;
pub use group::{Group, GroupOf, Inside};
pub use layout::Layout;
pub use marks::Suspect;

use few::FEW_MAX;
use fit::{CONGESTION, DIFFER_MAX, Fit, Rates, SLOW_DEVIATIONS};
use fizeau_domain::{labels::Kind, stats::quantile::median, text::counted, verdict::Verdict};
use power::Fault;
use std::collections::BTreeSet;

/// One exchange between two ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exchange {
    /// The round it was in, from 0.
    pub round: u32,
    /// One rank.
    pub one: u32,
    /// The other.
    pub other: u32,
    /// The rate, in any unit that all exchanges share; no number where the exchange failed.
    pub rate: f64,
}

impl Exchange {
    /// Both ranks, the lower one first.
    pub fn pair(&self) -> (u32, u32) {
        (self.one.min(self.other), self.one.max(self.other))
    }

    /// The rate; 0 where the exchange failed.
    fn known_rate(&self) -> f64 {
        if self.rate.is_finite() { self.rate } else { 0.0 }
    }

    /// Whether both ranks are of one host.
    fn is_near(&self, hosts: &[u32]) -> bool {
        hosts[self.one as usize] == hosts[self.other as usize]
    }

    fn has(&self, suspect: Suspect) -> bool {
        match suspect {
            Suspect::Rank(rank) => self.one == rank || self.other == rank,
            Suspect::Link(one, other) => self.pair() == (one, other),
        }
    }

    fn suspects(&self) -> [Suspect; 3] {
        let (one, other) = self.pair();
        [Suspect::Rank(one), Suspect::Rank(other), Suspect::Link(one, other)]
    }

    fn touched_by(&self, named: &BTreeSet<Suspect>) -> bool {
        self.suspects().iter().any(|suspect| named.contains(suspect))
    }
}

/// A rank that is named.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowRank {
    /// The rank.
    pub rank: u32,
    /// How much likelier it is slow than not, before it is known how many ranks there are.
    pub odds: f64,
    /// Its slow exchanges.
    pub slow: u32,
    /// All of its exchanges.
    pub exchanges: u32,
    /// Median rate of the slow ones, as a share of the rate between healthy ranks.
    pub rate: f64,
}

/// A link that is named: its two ranks are fast with all others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowLink {
    /// Its ranks, the lower one first.
    pub ranks: (u32, u32),
    /// Its slow exchanges.
    pub slow: u32,
    /// All of its exchanges.
    pub exchanges: u32,
    /// Median rate of the slow ones, as a share of the rate between healthy ranks.
    pub rate: f64,
}

/// Everything that is slow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Named {
    /// Ranks that are slow, each by itself, most certain first.
    pub ranks: Vec<SlowRank>,
    /// Ranks that are slow together.
    pub groups: Vec<Group>,
    /// Slow links between ranks that are not slow.
    pub links: Vec<SlowLink>,
    /// Slow paths between components that are not slow.
    pub paths: Vec<SlowPath>,
}

/// What exchanges tell.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// These are slow.
    Named(Named),
    /// Nobody is: a slow rank would have shown.
    Nobody,
    /// It cannot be told who is, for this reason.
    Undecided(String),
}

impl Answer {
    /// The verdict on the ranks.
    pub fn verdict(&self) -> Verdict {
        match self {
            Answer::Named(_) => Verdict::Fail,
            Answer::Nobody => Verdict::Pass,
            Answer::Undecided(_) => Verdict::Inconclusive,
        }
    }
}

/// A judgement on all exchanges.
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    /// Who is slow.
    pub answer: Answer,
    /// Standard deviation of a healthy exchange's rate, as a share of it; none where it is not
    /// known.
    pub jitter: Option<f64>,
    /// Pairs that were slow and that nothing named explains: congestion, or a link that is seen
    /// again when they meet again.
    pub unexplained: Vec<(u32, u32)>,
    /// Pairs that were faster than jitter explains.
    pub fast: Vec<(u32, u32)>,
    /// Ranks that are fast with each other and with nobody else: more of the others may be slow
    /// than are named.
    pub faster: Option<Faster>,
    /// Groups of ranks whose pairs have rates of their own, as behind the switches of a machine:
    /// ranks were compared within these, and all other shares are of the usual rate between the
    /// groups of a pair.
    pub layout: Option<Layout>,
    /// What is slow for certain, and by less than the least effect that counts: a rank, the ranks
    /// of a group or those of a link, with their rate as a share of the healthy rate.
    pub slight: Vec<(Vec<u32>, f64)>,
    /// Whether more rounds could change the answer.
    pub doubt: bool,
}

/// A rank that is slower by this many times the jitter in all of its exchanges has to show.
const SHOWN_DEVIATIONS: f64 = 3.0;

/// ... or by this share, where rates scatter that widely.
const SHOWN_MAX: f64 = 0.9;

/// Where some rank had fewer exchanges than these, what would have shown is asked also where they
/// leave no doubt: of few ranks a slow one makes a good part of the jitter by which it is doubted.
const EXCHANGES_SURE: u32 = 3;

/// This many exchanges more than those by which a slow rank is named clear all others, where what
/// was seen leaves doubt: a rank that hides among few others has had luck in those.
const EXCHANGES_BEYOND_DOUBT: u32 = 4;

/// A pair that is below this share of the usual rate is not ignored, even if it met once.
const HALVED: f64 = 0.5;

/// Up to this many pairs are named in words.
const PAIRS_SHOWN: usize = 8;

/// The least effect that counts, as a share of the healthy rate, unless told otherwise. Healthy
/// ranks differ by a percent or so, and with little jitter that is certain after a few rounds.
pub const LEAST_EFFECT: f64 = 0.02;

impl Findings {
    /// The same with what is slower by less than this share of the healthy rate set apart as
    /// [`slight`](Findings::slight): it is named no more.
    pub fn beyond(mut self, least_effect: f64) -> Findings {
        let Answer::Named(all) = &mut self.answer else { return self };
        let is_slight = |rate: f64| 1.0 - rate < least_effect;
        let ranks = all.ranks.extract_if(.., |slow| is_slight(slow.rate));
        self.slight.extend(ranks.map(|slow| (vec![slow.rank], slow.rate)));
        let groups = all.groups.extract_if(.., |slow| is_slight(slow.rate));
        self.slight.extend(groups.map(|slow| (slow.ranks, slow.rate)));
        let links = all.links.extract_if(.., |slow| is_slight(slow.rate));
        self.slight.extend(links.map(|slow| (vec![slow.ranks.0, slow.ranks.1], slow.rate)));
        let paths = all.paths.extract_if(.., |slow| is_slight(slow.rate));
        self.slight.extend(paths.map(|slow| (slow.ranks, slow.rate)));
        if *all == Named::default() {
            self.answer = match &self.faster {
                Some(faster) => Answer::Undecided(faster.words()),
                None => Answer::Nobody,
            };
        }
        self
    }
}

/// Judges exchanges between ranks of these hosts (a number for each rank's host). Rates within a
/// host and between hosts are compared among themselves.
///
/// # Panics
/// Where an exchange is of a rank that `hosts` does not have.
pub fn judge(hosts: &[u32], exchanges: &[Exchange]) -> Findings {
    judge_with(hosts, &[], exchanges)
}

/// The same where it is known which leaf, rail or rack each rank belongs to: slow ones, and slow
/// paths between two, are named in the place of their ranks.
///
/// # Panics
/// As [`judge`].
pub fn judge_with(hosts: &[u32], kinds: &[Kind], exchanges: &[Exchange]) -> Findings {
    judge_at(hosts, kinds, exchanges, true)
}

/// The same, where it is known whether all ranks may be on one machine.
fn judge_at(hosts: &[u32], kinds: &[Kind], exchanges: &[Exchange], one_machine: bool) -> Findings {
    let plain = weighed(hosts, kinds, exchanges);
    let is_near = |one: &Exchange| one.is_near(hosts) == exchanges[0].is_near(hosts);
    if hosts.len() <= FEW_MAX || !kinds.is_empty() || !exchanges.iter().all(is_near) {
        return plain;
    }
    let Some(found) = layout::find(hosts.len(), exchanges, one_machine) else { return plain };
    let within = weighed(hosts, kinds, &found.shares(exchanges));
    Findings { layout: Some(found.layout), ..within }
}

fn weighed(hosts: &[u32], kinds: &[Kind], exchanges: &[Exchange]) -> Findings {
    let without_weighing = |answer| Findings {
        answer,
        jitter: None,
        unexplained: Vec::new(),
        fast: Vec::new(),
        faster: None,
        layout: None,
        slight: Vec::new(),
        doubt: false,
    };
    if !exchanges.is_empty() && exchanges.iter().all(|one| one.known_rate() <= 0.0) {
        return without_weighing(Answer::Undecided("no exchange succeeded".into()));
    }
    if hosts.len() <= FEW_MAX || exchanges.is_empty() {
        return without_weighing(few::answer(hosts.len(), exchanges));
    }
    let rates = Rates::new(hosts, exchanges);
    let Some(fit) = rates.explain() else {
        let why = "about as many ranks look slow as not, and nothing says which of them are as \
                   they should be";
        return without_weighing(Answer::Undecided(why.into()));
    };
    let suspects = fit.suspects();
    let components = component::find(kinds, exchanges, &fit);
    let limit = 1.0 - SLOW_DEVIATIONS * fit.noise.jitter;
    let untouched = exchanges.iter().zip(&fit.shares).zip(&components.explained);
    let untouched = untouched
        .filter(|((exchange, _), is_explained)| !**is_explained && !exchange.touched_by(&suspects));
    let untouched = untouched.map(|(exchange, _)| exchange);
    let untouched: Vec<(&Exchange, f64)> =
        untouched.filter_map(|(exchange, share)| Some((exchange, (*share)?))).collect();
    let pairs = |is_so: &dyn Fn(f64) -> bool| -> Vec<(u32, u32)> {
        let so = untouched.iter().filter(|(_, share)| is_so(*share));
        so.map(|(exchange, _)| exchange.pair()).collect()
    };
    let unexplained = pairs(&|share| share < limit);
    let fast = pairs(&|share| share > 2.0 - limit);
    let faster = [false, true].into_iter().find_map(|kind| {
        let of_kind = |(exchange, share): &(&Exchange, f64)| {
            (exchange.is_near(hosts) == kind).then_some((exchange.pair(), *share))
        };
        let shares: Vec<faster::Share> = untouched.iter().filter_map(of_kind).collect();
        faster::faster(hosts.len(), &shares, fit.noise)
    });
    let answer = match &faster {
        _ if !suspects.is_empty() || !components.is_empty() => {
            Answer::Named(named(hosts, exchanges, &fit, components, !kinds.is_empty()))
        }
        Some(faster) => Answer::Undecided(faster.words()),
        None => unnamed(hosts.len(), exchanges, &fit, &unexplained),
    };
    let once = |pairs: Vec<(u32, u32)>| -> Vec<(u32, u32)> {
        pairs.into_iter().collect::<BTreeSet<_>>().into_iter().collect()
    };
    let (unexplained, fast) = (once(unexplained), once(fast));
    let is_open = matches!(answer, Answer::Undecided(_));
    let doubt = fit.doubt || is_open || !unexplained.is_empty() || !fast.is_empty();
    let (jitter, layout, slight) = (Some(fit.noise.jitter), None, Vec::new());
    Findings { answer, jitter, unexplained, fast, faster, layout, slight, doubt }
}

/// Where nobody is named: nobody is slow, if a slow rank would have shown.
fn unnamed(ranks: usize, exchanges: &[Exchange], fit: &Fit, slow: &[(u32, u32)]) -> Answer {
    let blamed = |rank: u32| slow.iter().any(|&(one, other)| one == rank || other == rank);
    let whom = Met::of(ranks, exchanges, fit);
    for (rank, partners) in (0..).zip(&whom.partners) {
        match partners[..] {
            [] => return Answer::Undecided(format!("rank {rank} exchanged data with nobody")),
            [other] if blamed(rank) => {
                return Answer::Undecided(format!(
                    "rank {rank} was slow with rank {other}, and met nobody else: more rounds \
                     tell which; {}",
                    needed(ranks, fit)
                ));
            }
            [other] => {
                return Answer::Undecided(format!(
                    "rank {rank} met nobody but rank {other}, and a rank is known to be slow when \
                     it is slow with several; {}",
                    needed(ranks, fit)
                ));
            }
            _ => {}
        }
    }
    if let Some(why) = halved(exchanges, fit, slow) {
        return Answer::Undecided(why);
    }
    let all = fit.shares.iter().flatten().count();
    if slow.len() as f64 > CONGESTION[1] * all as f64 {
        let slow = slow.len();
        let why = format!("{slow} of {all} exchanges were slow, and no rank or link explains them");
        return Answer::Undecided(why);
    }
    if fit.differ > DIFFER_MAX {
        let why = "ranks differ by more than the jitter of their exchanges, and none stands out \
                   from the others";
        return Answer::Undecided(why.into());
    }
    let is_open = fit.doubt || whom.fewest < EXCHANGES_SURE;
    if is_open && rounds_needed(ranks, fit).is_none_or(|needed| whom.fewest < needed) {
        let fewest = whom.fewest;
        return Answer::Undecided(format!(
            "a slow rank might not have shown, since some rank had {fewest} exchanges; {}",
            needed(ranks, fit)
        ));
    }
    // Two exchanges are too few to name a link, and congestion seldom meets a pair each time.
    let met = |pair: (u32, u32)| exchanges.iter().filter(|one| one.pair() == pair).count();
    let slow_with = |pair: (u32, u32)| slow.iter().filter(|one| **one == pair).count();
    let always = slow.iter().find(|&&pair| slow_with(pair) > 1 && slow_with(pair) == met(pair));
    if let Some(&(one, other)) = always {
        return Answer::Undecided(format!(
            "ranks {one} and {other} were slow in all {} exchanges with each other, and not with \
             others: the link between them may be slow, and more rounds tell",
            met((one, other))
        ));
    }
    Answer::Nobody
}

/// Pairs that lost more than half of the usual rate whenever they met, and that no rank explains.
fn halved(exchanges: &[Exchange], fit: &Fit, slow: &[(u32, u32)]) -> Option<String> {
    let is_halved = |pair: &(u32, u32)| {
        let own = exchanges.iter().zip(&fit.shares).filter(|(one, _)| one.pair() == *pair);
        own.filter_map(|(_, share)| *share).all(|share| share < HALVED)
    };
    let pairs: BTreeSet<(u32, u32)> = slow.iter().copied().filter(is_halved).collect();
    let words: Vec<String> =
        pairs.iter().take(PAIRS_SHOWN).map(|(one, other)| format!("{one}-{other}")).collect();
    let more = match pairs.len() - words.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (pairs, was) = match pairs.len() {
        0 => return None,
        1 => ("pair", "was"),
        _ => ("pairs", "were"),
    };
    Some(format!(
        "the {pairs} {}{more} {was} below half of the usual rate whenever the two ranks met, and \
         both ranks are faster with others: the link may be slow, or other traffic was in the way; \
         let them meet three times",
        words.join(", ")
    ))
}

/// Whom each rank has met, in exchanges that are compared with others.
struct Met {
    /// The partners of each rank, ascending.
    partners: Vec<Vec<u32>>,
    /// The fewest exchanges that a rank had.
    fewest: u32,
}

impl Met {
    fn of(ranks: usize, exchanges: &[Exchange], fit: &Fit) -> Met {
        let mut partners = vec![BTreeSet::new(); ranks];
        let mut counts = vec![0; ranks];
        for (one, _) in exchanges.iter().zip(&fit.shares).filter(|(_, share)| share.is_some()) {
            partners[one.one as usize].insert(one.other);
            partners[one.other as usize].insert(one.one);
            counts[one.one as usize] += 1;
            counts[one.other as usize] += 1;
        }
        let partners = partners.into_iter().map(|of| of.into_iter().collect()).collect();
        Met { partners, fewest: counts.into_iter().min().unwrap_or(0) }
    }
}

/// What a rank loses in each exchange that has to show: three times the jitter, and no less
/// than the least effect that counts.
fn loss_shown(fit: &Fit) -> f64 {
    (SHOWN_DEVIATIONS * fit.noise.jitter).clamp(LEAST_EFFECT, SHOWN_MAX)
}

/// The rounds by which such a rank is named; more where these exchanges leave doubt.
fn rounds_needed(ranks: usize, fit: &Fit) -> Option<u32> {
    let fault = Fault { loss: loss_shown(fit), presence: 1.0 };
    let rounds = power::rounds_needed(ranks as u32, fit.noise.jitter, fault)?;
    Some(if fit.doubt { rounds + EXCHANGES_BEYOND_DOUBT } else { rounds })
}

/// The same in words, without figures of what was measured.
fn needed(ranks: usize, fit: &Fit) -> String {
    let loss = loss_shown(fit);
    let by = if loss <= LEAST_EFFECT {
        "2 %"
    } else if loss >= SHOWN_MAX {
        "90 %"
    } else {
        "three times what rates scatter by"
    };
    match rounds_needed(ranks, fit) {
        Some(rounds) => {
            let rounds = counted(rounds as usize, "round");
            format!("{rounds} would show a rank that is slower by {by}")
        }
        None => "100 rounds would not do, as these rates scatter".into(),
    }
}

fn named(
    hosts: &[u32],
    exchanges: &[Exchange],
    fit: &Fit,
    components: component::Found,
    are_named: bool,
) -> Named {
    // What a suspect slows is slower than half of the way to its own rate.
    let limit = |suspect: Suspect| {
        let own = |at: &usize| exchanges[*at].has(suspect);
        let mut shares: Vec<f64> =
            (0..exchanges.len()).filter(own).filter_map(|at| fit.shares[at]).collect();
        shares.sort_by(f64::total_cmp);
        let low = shares.get(shares.len() / 4).copied().unwrap_or(0.0);
        (1.0 - 2.0 * fit.noise.jitter).max((1.0 + low) / 2.0)
    };
    let mut all = Named::default();
    for &(suspect, odds) in &fit.named {
        let limit = limit(suspect);
        match suspect {
            Suspect::Rank(rank) => {
                all.ranks.push(slow_rank(rank, odds.exp(), exchanges, &fit.shares, limit));
            }
            Suspect::Link(one, other) => {
                let (slow, exchanges, rate) = seen(suspect, exchanges, &fit.shares, limit);
                all.links.push(SlowLink { ranks: (one, other), slow, exchanges, rate });
            }
        }
    }
    // One that is slower than its component is has a fault of its own.
    let margin = SLOW_DEVIATIONS * fit.noise.jitter;
    let is_explained = |slow: &SlowRank| {
        let own = components.groups.iter().find(|group| group.ranks.contains(&slow.rank));
        own.is_some_and(|group| slow.rate > group.rate - margin)
    };
    let on_path = |rank: u32| components.paths.iter().any(|path| path.ranks.contains(&rank));
    all.ranks.retain(|slow| {
        let ranks = hosts.len();
        let is_besides =
            || component::is_slow_besides(slow.rank, ranks, exchanges, fit, &components);
        !is_explained(slow) && (!on_path(slow.rank) || is_besides())
    });
    let slow = all.ranks.iter().map(|slow| slow.rank).collect();
    let groups = group::groups(hosts, exchanges, fit, slow, are_named);
    all.ranks.retain(|slow| !groups.iter().any(|group| group.ranks.contains(&slow.rank)));
    let is_explained = |link: &SlowLink| {
        let own = exchanges.iter().zip(&components.explained);
        own.filter(|(exchange, _)| exchange.pair() == link.ranks).all(|(_, explained)| *explained)
    };
    all.links.retain(|link| !is_explained(link));
    all.groups = [components.groups, groups].concat();
    all.paths = components.paths;
    all
}

fn slow_rank(
    rank: u32,
    odds: f64,
    exchanges: &[Exchange],
    shares: &[Option<f64>],
    limit: f64,
) -> SlowRank {
    let (slow, exchanges, rate) = seen(Suspect::Rank(rank), exchanges, shares, limit);
    SlowRank { rank, odds, slow, exchanges, rate }
}

/// A suspect's slow exchanges, all of them, and the median rate of the slow ones.
fn seen(
    suspect: Suspect,
    exchanges: &[Exchange],
    shares: &[Option<f64>],
    limit: f64,
) -> (u32, u32, f64) {
    let own = exchanges.iter().zip(shares).filter(|(exchange, _)| exchange.has(suspect));
    let own: Vec<f64> = own.filter_map(|(_, share)| *share).collect();
    let slow: Vec<f64> = own.iter().copied().filter(|share| *share < limit).collect();
    let rate = if slow.is_empty() { 1.0 } else { median(&slow) };
    (slow.len() as u32, own.len() as u32, rate)
}
