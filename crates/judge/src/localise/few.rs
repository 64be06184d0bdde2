//! Two, three and four ranks, of which there are too few pairs to weigh evidence.
//!
//! Of four ranks a slow one makes half of all pairs slow, so that no median says what is healthy.
//! The pairs are cut in two at the widest gap between their rates, and the set of ranks that would
//! make just the slower pairs slow is named, if there is one alone. Three rounds tell any one rank
//! of three or of four. Of two nothing can be told: there is no pair without either.

use super::{Answer, Exchange, Named, SlowRank, slow_rank};
use fizeau_domain::stats::quantile::median;
use std::collections::BTreeMap;

/// Up to this many ranks every explanation is tried.
pub const FEW_MAX: usize = 4;

/// Slower than this share of the fastest pair is slow.
const SLOW: f64 = 0.90;

/// What a pair has to lose for it to be a rank's fault: more than one healthy exchange loses
/// against another, and at least twice what the other pairs scatter.
const GAP_MIN: f64 = 0.2;

/// The pairs' median rates, each pair once.
fn pairs(exchanges: &[Exchange]) -> Vec<((u32, u32), f64)> {
    let mut rates: BTreeMap<(u32, u32), Vec<f64>> = BTreeMap::new();
    for exchange in exchanges {
        rates.entry(exchange.pair()).or_default().push(exchange.known_rate());
    }
    rates.into_iter().map(|(pair, rates)| (pair, median(&rates))).collect()
}

/// Names the one set of ranks, half of all at most, that makes slow just what is.
pub fn answer(ranks: usize, exchanges: &[Exchange]) -> Answer {
    let pairs = pairs(exchanges);
    let mut rates: Vec<f64> = pairs.iter().map(|(_, rate)| *rate).collect();
    rates.sort_by(f64::total_cmp);
    let (Some(&least), Some(&most)) = (rates.first(), rates.last()) else {
        return Answer::Undecided("there is no pair to compare".into());
    };
    if pairs.len() == 1 {
        let why = "there is one pair alone, and no other to compare it with: start three ranks or \
                   more";
        return Answer::Undecided(why.into());
    }
    if least >= SLOW * most {
        return match hidden(ranks, &pairs) {
            None => Answer::Nobody,
            Some(rank) => Answer::Undecided(format!(
                "there are too few pairs with and without rank {rank} to compare it with others"
            )),
        };
    }
    // What is lost from the faster of two rates to the slower.
    let lost = |slower: f64, faster: f64| if faster > 0.0 { 1.0 - slower / faster } else { 0.0 };
    let gap = |at: usize| lost(rates[at - 1], rates[at]);
    let widest = (1..rates.len()).max_by(|&a, &b| gap(a).total_cmp(&gap(b)));
    let stands_out = |&at: &usize| {
        let scatter = lost(rates[0], rates[at - 1]).max(lost(rates[at], most));
        gap(at) >= GAP_MIN && gap(at) >= 2.0 * scatter
    };
    let Some(at) = widest.filter(stands_out) else {
        let why = "rates scatter widely, and none stands out from the others";
        return Answer::Undecided(why.into());
    };
    let has = |slow: u32, rank: u32| slow >> rank & 1 == 1;
    let explains = |slow: &u32| {
        let touched = |(one, other): (u32, u32)| has(*slow, one) || has(*slow, other);
        slow.count_ones() as usize <= ranks / 2
            && pairs.iter().all(|&(pair, rate)| touched(pair) == (rate < rates[at]))
    };
    let sets: Vec<u32> = (0..1 << ranks).filter(explains).collect();
    let of_set = |set: u32| (0..ranks as u32).filter(move |&rank| has(set, rank));
    match sets.as_slice() {
        [] => Answer::Undecided(
            "some exchanges were slow, and not all those of any rank: it may be a link, \
             congestion, or a fault that comes and goes"
                .into(),
        ),
        [set] => {
            let shares = |exchange: &Exchange| exchange.known_rate() / most;
            let shares: Vec<Option<f64>> = exchanges.iter().map(|one| Some(shares(one))).collect();
            let limit = rates[at] / most;
            let slow = |rank| slow_rank(rank, f64::INFINITY, exchanges, &shares, limit);
            let ranks: Vec<SlowRank> = of_set(*set).map(slow).collect();
            Answer::Named(Named { ranks, ..Named::default() })
        }
        several => {
            let any = several.iter().fold(0, |any, set| any | set);
            let ranks: Vec<String> = of_set(any).map(|rank| rank.to_string()).collect();
            let why = format!("it may be any of ranks {}: more rounds may tell", ranks.join(", "));
            Answer::Undecided(why)
        }
    }
}

/// A rank that could be slow and not be seen: it was in no pair, or in every one.
fn hidden(ranks: usize, pairs: &[((u32, u32), f64)]) -> Option<u32> {
    let count =
        |rank: u32| pairs.iter().filter(|((one, other), _)| *one == rank || *other == rank).count();
    (0..ranks as u32).find(|&rank| count(rank) == 0 || count(rank) == pairs.len())
}
