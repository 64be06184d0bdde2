//! Who exchanges with whom: known before the first round, and the same each time.
//!
//! Every rank meets a new partner in every round until it has met all (a round robin by the circle
//! method), in an order that is drawn once, so that neighbours in a rack are no neighbours in the
//! plan. With an odd number of ranks one waits in each round, a different one each time. Where the
//! components of a network are known, rounds can keep them apart ([`Plan::apart`]).

use super::Findings;
use fizeau_domain::labels::Kind;
use std::collections::{BTreeMap, BTreeSet};

/// Rounds after those planned, where they leave doubt.
pub const FURTHER: u32 = 6;

/// Seed of the order in which ranks stand in the circle.
const SEED: u128 = 1;

/// Pairs of ranks that exchange data at once; no rank is in two of them.
pub type Round = Vec<(u32, u32)>;

/// The pairs of round number `round` (from 0) among `ranks` ranks.
pub fn round(ranks: u32, round: u32) -> Round {
    // With an odd number one place is empty, and who would meet it waits.
    let places = ranks + ranks % 2;
    if places < 2 {
        return Vec::new();
    }
    let order = order(ranks);
    let circle = places - 1;
    let turn = turn(circle, round);
    let place = |step: u32| (turn + step) % circle;
    let pairs = (0..places / 2).map(|at| match at {
        0 => (circle, turn),
        at => (place(at), place(circle - at)),
    });
    let rank = |place: u32| order.get(place as usize).copied();
    pairs.filter_map(|(one, other)| Some((rank(one)?, rank(other)?))).collect()
}

/// Ranks in the order of their places.
fn order(ranks: u32) -> Vec<u32> {
    let mut order: Vec<u32> = (0..ranks).collect();
    let mut random = oorandom::Rand64::new(SEED);
    for last in (1..order.len()).rev() {
        order.swap(last, random.rand_range(0..last as u64 + 1) as usize);
    }
    order
}

/// How far the circle is turned in a round: rounds that follow one another are far apart in it.
fn turn(circle: u32, round: u32) -> u32 {
    let step = (1..=circle).rev().find(|step| {
        let far = u64::from(*step) * 1000 <= u64::from(circle) * 618;
        far && coprime(*step, circle)
    });
    (u64::from(step.unwrap_or(1)) * u64::from(round) % u64::from(circle)) as u32
}

fn coprime(mut a: u32, mut b: u32) -> bool {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a == 1
}

/// The rounds of some ranks.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'k> {
    /// How many ranks there are.
    pub ranks: u32,
    /// Components that the rounds keep apart: in a round one exchange at most leaves each of them,
    /// so that no two exchanges share what joins it to the others.
    pub apart: Option<&'k Kind>,
}

impl Plan<'_> {
    /// The pairs of round number `round`, from 0.
    pub fn round(&self, number: u32) -> Round {
        match self.apart {
            None => round(self.ranks, number),
            Some(_) => self.round_apart(number),
        }
    }

    /// One rank of each component meets one of another component, the same components never twice
    /// until all have met; all other ranks meet within their components. A rank of no component is
    /// taken for one of its own.
    fn round_apart(&self, number: u32) -> Round {
        let components = self.components();
        let chosen = |component: &Vec<u32>, by: usize| {
            let at = (number as usize + by) % component.len();
            component[at]
        };
        let mut pairs = Round::new();
        let mut taken = BTreeSet::new();
        for (a, b) in round(components.len() as u32, number) {
            let one = chosen(&components[a as usize], 0);
            let other = chosen(&components[b as usize], a as usize);
            taken.extend([one, other]);
            pairs.push((one, other));
        }
        for component in &components {
            let rank = |at: u32| component[at as usize];
            let within = round(component.len() as u32, number).into_iter();
            let within = within.map(|(one, other)| (rank(one), rank(other)));
            pairs.extend(
                within.filter(|(one, other)| !taken.contains(one) && !taken.contains(other)),
            );
        }
        pairs
    }

    /// The ranks of each component that is kept apart.
    fn components(&self) -> Vec<Vec<u32>> {
        let mut components: BTreeMap<(bool, u32), Vec<u32>> = BTreeMap::new();
        for rank in 0..self.ranks {
            components.entry(self.component(rank)).or_default().push(rank);
        }
        components.into_values().collect()
    }

    /// Where ranks are not kept apart each is a component of its own.
    fn component(&self, rank: u32) -> (bool, u32) {
        let known = self.apart.and_then(|kind| kind.of.get(rank as usize).copied().flatten());
        known.map_or((false, rank), |component| (true, component))
    }

    /// The rounds that follow those planned, if what these found leaves doubt; else none.
    pub fn further(&self, planned: u32, found: &Findings) -> Vec<Round> {
        let strange: Vec<_> = found.unexplained.iter().chain(&found.fast).copied().collect();
        let more = if found.doubt { FURTHER } else { 0 };
        let round = |number| self.again(planned, number, &strange);
        (planned..planned + more).map(round).collect()
    }

    /// The pairs of a round after `planned` rounds that left doubt. In every other of them pairs
    /// that were slow or fast beyond explanation meet again, as many as can at once; the others
    /// continue as planned, and those whose partner is taken meet each other. In the rounds between
    /// all meet the partners that come next.
    fn again(&self, planned: u32, number: u32, slow: &[(u32, u32)]) -> Round {
        let mut taken = BTreeSet::new();
        let mut left_by = BTreeSet::new();
        let mut pairs = Round::new();
        let mut add = |(one, other): (u32, u32), taken: &mut BTreeSet<u32>| {
            if one == other || taken.contains(&one) || taken.contains(&other) {
                return;
            }
            let ends = [one, other].map(|rank| self.component(rank));
            if ends[0] != ends[1] {
                if ends.iter().any(|end| left_by.contains(end)) {
                    return;
                }
                left_by.extend(ends);
            }
            taken.extend([one, other]);
            pairs.push((one, other));
        };
        if (number - planned).is_multiple_of(2) {
            for &pair in slow {
                add(pair, &mut taken);
            }
        }
        for pair in self.round(number) {
            add(pair, &mut taken);
        }
        let order = order(self.ranks).into_iter();
        let left: Vec<u32> = order.filter(|rank| !taken.contains(rank)).collect();
        for pair in left.chunks_exact(2) {
            add((pair[0], pair[1]), &mut taken);
        }
        pairs
    }
}

/// The rounds that follow those planned among `ranks` ranks that nothing keeps apart.
pub fn further(ranks: u32, planned: u32, found: &Findings) -> Vec<Round> {
    Plan { ranks, apart: None }.further(planned, found)
}
