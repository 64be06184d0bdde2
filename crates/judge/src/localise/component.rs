//! Components that the operator has named: a leaf switch, a rail, a rack, and the path between two
//! of them.
//!
//! A component is slow where the exchanges that leave it are, those of nearly all of its ranks and
//! whoever the partner is. Of several the one that explains most slow exchanges is named first, and
//! its exchanges are taken out before the next is looked for: so a node of a slow leaf is not named
//! for the leaf's fault. A path is slow where exchanges between two components are, and both are
//! fast with others.

use super::{
    Exchange, Fit, Inside, Suspect,
    fit::{LINK_DEVIATIONS, LINK_EXCHANGES_MIN, LINK_SHARE_MIN, NAMED_FROM, SLOW_DEVIATIONS},
    group::{Group, GroupOf, SLOW_SHARE_MIN},
    odds::log_odds,
};
use fizeau_domain::{labels::Kind, stats::quantile::median};
use std::collections::{BTreeMap, BTreeSet};

/// The odds of a component are taken from this many of its exchanges at most; the time that they
/// take grows with the square.
const WEIGHED_MAX: usize = 200;

/// Fewest ranks of a component, on either side of a path, and of the partners of a component: of
/// one rank alone nobody knows that it is not the rank that is slow.
const RANKS_MIN: usize = 2;

/// The path between two components of a kind that is named: both are fast with others.
#[derive(Clone, Debug, PartialEq)]
pub struct SlowPath {
    /// The kind of the components that it joins: `leaf`.
    pub kind: String,
    /// Their names.
    pub names: [String; 2],
    /// Its slow exchanges.
    pub slow: u32,
    /// All of its exchanges.
    pub exchanges: u32,
    /// Median rate of the slow ones, as a share of the rate between healthy ranks.
    pub rate: f64,
    /// The ranks that these exchanges were between, ascending.
    pub ranks: Vec<u32>,
}

/// What the search has found so far.
#[derive(Default)]
pub struct Found {
    /// Components that are slow.
    pub groups: Vec<Group>,
    /// Paths that are slow.
    pub paths: Vec<SlowPath>,
    /// Of each exchange, whether one of these explains it.
    pub explained: Vec<bool>,
}

/// The components and paths that are slow. `kinds` has a component for each rank.
pub fn find(kinds: &[Kind], exchanges: &[Exchange], fit: &Fit) -> Found {
    let mut found = Found { explained: vec![false; exchanges.len()], ..Found::default() };
    if kinds.is_empty() {
        return found;
    }
    let search = Search { kinds, exchanges, fit, named: fit.suspects() };
    while let Some(group) = search.slowest_group(&found.explained) {
        for (at, exchange) in exchanges.iter().enumerate() {
            let touches = |rank| group.ranks.binary_search(&rank).is_ok();
            found.explained[at] |= touches(exchange.one) || touches(exchange.other);
        }
        found.groups.push(group);
    }
    while let Some((path, own)) = search.slowest_path(&found.explained) {
        own.into_iter().for_each(|at| found.explained[at] = true);
        found.paths.push(path);
    }
    found
}

impl Found {
    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.paths.is_empty()
    }
}

/// How much likelier these shares of the healthy rate are those of a slow rank than not, as a
/// logarithm.
fn odds_of(mut shares: Vec<f64>, fit: &Fit) -> f64 {
    shares.sort_by(f64::total_cmp);
    log_odds(&shares, fit.noise)
}

/// Whether one of `ranks` ranks is named too by the exchanges that nothing of `found` explains.
pub fn is_slow_besides(
    rank: u32,
    ranks: usize,
    exchanges: &[Exchange],
    fit: &Fit,
    found: &Found,
) -> bool {
    let all = exchanges.iter().zip(&fit.shares).zip(&found.explained);
    let own = all.filter(|((exchange, _), is_explained)| {
        !**is_explained && exchange.has(Suspect::Rank(rank))
    });
    let odds = odds_of(own.filter_map(|((_, share), _)| *share).collect(), fit);
    odds > (ranks as f64).ln() + NAMED_FROM
}

struct Search<'s> {
    kinds: &'s [Kind],
    exchanges: &'s [Exchange],
    fit: &'s Fit,
    named: BTreeSet<Suspect>,
}

/// The exchanges of one component.
#[derive(Default)]
struct Own {
    /// Those with ranks outside: the member, the partner, and the share of the healthy rate.
    leaving: Vec<(u32, u32, f64)>,
    /// Shares of those among members.
    within: Vec<f64>,
}

impl Search<'_> {
    /// Exchanges that nothing explains yet, with their shares of the healthy rate.
    fn open<'o>(
        &'o self,
        explained: &'o [bool],
    ) -> impl Iterator<Item = (usize, &'o Exchange, f64)> {
        let all = self.exchanges.iter().zip(&self.fit.shares).zip(explained).enumerate();
        all.filter_map(|(at, ((exchange, share), is_explained))| {
            (!is_explained).then_some((at, exchange, (*share)?))
        })
    }

    fn is_named(&self, rank: u32) -> bool {
        self.named.contains(&Suspect::Rank(rank))
    }

    /// The component that explains most slow exchanges.
    fn slowest_group(&self, explained: &[bool]) -> Option<Group> {
        let all: Vec<(usize, u32, Own)> =
            (0..self.kinds.len()).flat_map(|kind| self.of_kind(kind, explained)).collect();
        let threshold = (all.len() as f64).ln() + NAMED_FROM;
        let mut best: Option<(usize, Group)> = None;
        for (kind, component, own) in &all {
            let Some((explains, group)) = self.group(*kind, *component, own, threshold) else {
                continue;
            };
            match &mut best {
                Some((_, known)) if known.ranks == group.ranks => {
                    if let (
                        GroupOf::Component { also, .. },
                        GroupOf::Component { kind, name, .. },
                    ) = (&mut known.of, &group.of)
                    {
                        also.push(format!("{kind} {name}"));
                    }
                }
                Some((most, _)) if *most >= explains => {}
                _ => best = Some((explains, group)),
            }
        }
        best.map(|(_, group)| group)
    }

    /// The exchanges of each component of a kind that has at least two ranks and is no more than a
    /// half of all: of a half nothing says that it is not the other one.
    fn of_kind(&self, kind: usize, explained: &[bool]) -> Vec<(usize, u32, Own)> {
        let Kind { names, of, .. } = &self.kinds[kind];
        let mut sizes = vec![0usize; names.len()];
        of.iter().flatten().for_each(|&component| sizes[component as usize] += 1);
        let mut all: Vec<Own> = names.iter().map(|_| Own::default()).collect();
        let component = |rank: u32| of.get(rank as usize).copied().flatten();
        for (_, exchange, share) in self.open(explained) {
            let (one, other) = exchange.pair();
            let ends = [component(one), component(other)];
            if let [Some(a), Some(b)] = ends
                && a == b
            {
                all[a as usize].within.push(share);
                continue;
            }
            for (rank, partner, end) in [(one, other, ends[0]), (other, one, ends[1])] {
                // A partner that is slow by itself tells nothing of the component.
                if let Some(end) = end
                    && !self.is_named_elsewhere(partner, of, end)
                {
                    all[end as usize].leaving.push((rank, partner, share));
                }
            }
        }
        let fits = |at: &usize| sizes[*at] >= RANKS_MIN && 2 * sizes[*at] <= of.len();
        let all = all.into_iter().enumerate().filter(|(at, _)| fits(at));
        all.map(|(at, own)| (kind, at as u32, own)).collect()
    }

    fn is_named_elsewhere(&self, rank: u32, of: &[Option<u32>], component: u32) -> bool {
        self.is_named(rank) && of.get(rank as usize).copied().flatten() != Some(component)
    }

    /// A component if it is slow, with the number of slow exchanges that it explains.
    fn group(
        &self,
        kind: usize,
        component: u32,
        own: &Own,
        threshold: f64,
    ) -> Option<(usize, Group)> {
        let jitter = self.fit.noise.jitter;
        let shares: Vec<f64> = own.leaving.iter().map(|(.., share)| *share).collect();
        if shares.len() < LINK_EXCHANGES_MIN {
            return None;
        }
        let rate = median(&shares);
        // What it slows is slower than half of the way to its own rate.
        let limit = (1.0 - LINK_DEVIATIONS * jitter).max((1.0 + rate) / 2.0);
        let slow = shares.iter().filter(|share| **share < limit).count();
        if rate >= limit || (slow as f64) < SLOW_SHARE_MIN * shares.len() as f64 {
            return None;
        }
        let mut by_member: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for &(member, _, share) in &own.leaving {
            by_member.entry(member).or_default().push(share);
        }
        let partners: BTreeSet<u32> = own.leaving.iter().map(|(_, partner, _)| *partner).collect();
        let slow_members = by_member.values().filter(|shares| median(shares) < limit).count();
        if slow_members < RANKS_MIN
            || partners.len() < RANKS_MIN
            || (slow_members as f64) < SLOW_SHARE_MIN * by_member.len() as f64
        {
            return None;
        }
        let step = shares.len().div_ceil(WEIGHED_MAX);
        let mut weighed: Vec<f64> = shares.iter().copied().step_by(step).collect();
        weighed.sort_by(f64::total_cmp);
        // The faster half has to be slow too: of a healthy leaf the exchanges with a slow one are.
        let faster = &weighed[weighed.len() / 2..];
        if log_odds(&weighed, self.fit.noise) <= threshold
            || log_odds(faster, self.fit.noise) <= 0.0
        {
            return None;
        }
        let inside = Inside::of(&own.within, rate);
        let within = own.within.iter().filter(|share| **share < limit).count();
        let Kind { name, names, of } = &self.kinds[kind];
        let of_it = |(rank, of): (u32, &Option<u32>)| (*of == Some(component)).then_some(rank);
        let group = Group {
            ranks: (0..).zip(of).filter_map(of_it).collect(),
            slow: slow_members as u32,
            of: GroupOf::Component {
                kind: name.clone(),
                name: names[component as usize].clone(),
                also: Vec::new(),
            },
            rate,
            inside,
        };
        Some((slow + within, group))
    }

    /// The likeliest path that is slow, with its exchanges.
    fn slowest_path(&self, explained: &[bool]) -> Option<(SlowPath, Vec<usize>)> {
        let mut all: BTreeMap<(usize, u32, u32), Vec<usize>> = BTreeMap::new();
        for (at, exchange, _) in self.open(explained) {
            for (kind, Kind { of, .. }) in self.kinds.iter().enumerate() {
                let component = |rank: u32| of.get(rank as usize).copied().flatten();
                if let (Some(a), Some(b)) = (component(exchange.one), component(exchange.other))
                    && a != b
                {
                    all.entry((kind, a.min(b), a.max(b))).or_default().push(at);
                }
            }
        }
        all.retain(|&(kind, a, b), own| {
            // A rank that is slow elsewhere too tells nothing of the path.
            let slow_elsewhere: BTreeSet<u32> = { own.iter() }
                .flat_map(|at| [self.exchanges[*at].one, self.exchanges[*at].other])
                .filter(|&rank| {
                    self.is_named(rank) && self.is_slow_off(rank, kind, [a, b], explained)
                })
                .collect();
            own.retain(|at| {
                let exchange = &self.exchanges[*at];
                ![exchange.one, exchange.other].iter().any(|rank| slow_elsewhere.contains(rank))
            });
            let of = &self.kinds[kind].of;
            let (mut ones, mut others) = (BTreeSet::new(), BTreeSet::new());
            for exchange in own.iter().map(|at| &self.exchanges[*at]) {
                let is_one = of[exchange.one as usize] == Some(a);
                let (one, other) = match is_one {
                    true => (exchange.one, exchange.other),
                    false => (exchange.other, exchange.one),
                };
                ones.insert(one);
                others.insert(other);
            }
            // Of one rank alone, or one pair, nobody knows that the path is to blame.
            own.len() >= LINK_EXCHANGES_MIN && ones.len().min(others.len()) >= RANKS_MIN
        });
        let threshold = (all.len() as f64).ln() + NAMED_FROM;
        let mut best: Option<(f64, SlowPath, Vec<usize>)> = None;
        for ((kind, a, b), own) in all {
            let Some((odds, path)) = self.path(kind, [a, b], &own) else { continue };
            if odds > threshold && best.as_ref().is_none_or(|(most, ..)| odds > *most) {
                best = Some((odds, path, own));
            }
        }
        best.map(|(_, path, own)| (path, own))
    }

    /// Whether a rank is named too by its exchanges beside those of a path.
    fn is_slow_off(&self, rank: u32, kind: usize, ends: [u32; 2], explained: &[bool]) -> bool {
        let of = &self.kinds[kind].of;
        let component = |rank: u32| of.get(rank as usize).copied().flatten();
        let is_on_path = |exchange: &Exchange| {
            let (one, other) = (component(exchange.one), component(exchange.other));
            let both = ends.map(Some);
            [one, other] == both || [other, one] == both
        };
        let own = self.open(explained).filter(|(_, exchange, _)| {
            (exchange.one == rank || exchange.other == rank) && !is_on_path(exchange)
        });
        let odds = odds_of(own.map(|(_, _, share)| share).collect(), self.fit);
        odds > (of.len() as f64).ln() + NAMED_FROM
    }

    fn path(&self, kind: usize, ends: [u32; 2], own: &[usize]) -> Option<(f64, SlowPath)> {
        let jitter = self.fit.noise.jitter;
        let mut shares: Vec<f64> = own.iter().filter_map(|at| self.fit.shares[*at]).collect();
        let slow_from = 1.0 - SLOW_DEVIATIONS * jitter;
        let slow = shares.iter().filter(|share| **share < slow_from).count();
        let lower = shares.iter().filter(|share| **share < 1.0 - LINK_DEVIATIONS * jitter).count();
        if slow < LINK_EXCHANGES_MIN || (lower as f64) < LINK_SHARE_MIN * shares.len() as f64 {
            return None;
        }
        shares.sort_by(f64::total_cmp);
        let step = shares.len().div_ceil(WEIGHED_MAX);
        let weighed: Vec<f64> = shares.iter().copied().step_by(step).collect();
        let odds = log_odds(&weighed, self.fit.noise);
        let ranks: BTreeSet<u32> = own
            .iter()
            .flat_map(|at| [self.exchanges[*at].one, self.exchanges[*at].other])
            .collect();
        let Kind { name, names, .. } = &self.kinds[kind];
        let path = SlowPath {
            kind: name.clone(),
            names: ends.map(|end| names[end as usize].clone()),
            slow: slow as u32,
            exchanges: shares.len() as u32,
            rate: median(&shares[..slow]),
            ranks: ranks.into_iter().collect(),
        };
        Some((odds, path))
    }
}
