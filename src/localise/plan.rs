//! Who exchanges with whom: known before the first round, and the same each time.
//!
//! Every rank meets a new partner in every round until it has met all (a round robin by the circle
//! method), in an order that is drawn once, so that neighbours in a rack are no neighbours in the
//! plan. With an odd number of ranks one waits in each round, a different one each time.

use super::Findings;
use std::collections::BTreeSet;

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

/// The rounds that follow those planned, if what these found leaves doubt; else none.
pub fn further(ranks: u32, planned: u32, found: &Findings) -> Vec<Round> {
    let strange: Vec<_> = found.unexplained.iter().chain(&found.fast).copied().collect();
    let more = if found.doubt { FURTHER } else { 0 };
    let round = |number| again(ranks, planned, number, &strange);
    (planned..planned + more).map(round).collect()
}

/// The pairs of a round after `planned` rounds that left doubt. In every other of them pairs that
/// were slow or fast beyond explanation meet again, as many as can at once; the others continue
/// as planned, and those whose partner is taken meet each other. In the rounds between all meet the
/// partners that come next.
fn again(ranks: u32, planned: u32, number: u32, slow: &[(u32, u32)]) -> Round {
    let mut taken = BTreeSet::new();
    let mut pairs = Round::new();
    let mut add = |(one, other): (u32, u32), taken: &mut BTreeSet<u32>| {
        if one != other && !taken.contains(&one) && !taken.contains(&other) {
            taken.extend([one, other]);
            pairs.push((one, other));
        }
    };
    if (number - planned).is_multiple_of(2) {
        for &pair in slow {
            add(pair, &mut taken);
        }
    }
    for pair in round(ranks, number) {
        add(pair, &mut taken);
    }
    let left: Vec<u32> = order(ranks).into_iter().filter(|rank| !taken.contains(rank)).collect();
    for pair in left.chunks_exact(2) {
        add((pair[0], pair[1]), &mut taken);
    }
    pairs
}
