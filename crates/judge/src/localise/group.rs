//! Slow ranks that have something in common: a host, or a block of neighbouring ranks. Components
//! that the operator has named are in `component`.
//!
//! Where a leaf switch is congested every rank below it is slow with all others. Naming each of
//! them would send an operator to sixteen healthy machines.

use super::{Exchange, Fit, Suspect};
use fizeau_domain::stats::quantile::median;
use std::collections::{BTreeMap, BTreeSet};

/// At least this share of a group's ranks is slow.
pub const SLOW_SHARE_MIN: f64 = 0.75;

/// Fewest slow ranks of a block of neighbours.
const BLOCK_MIN: usize = 3;

/// A block is a group if slow ranks drawn at random would make such a block less often than this.
const CHANCE_MAX: f64 = 0.001;

/// What exchanges within a group show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// As fast as between healthy ranks: what joins the group to the others is slow.
    Fast,
    /// Slow too.
    Slow,
    /// There were none.
    Unseen,
}

impl Inside {
    /// By the shares of exchanges within a group, of which those that leave are at `rate`.
    pub fn of(within: &[f64], rate: f64) -> Inside {
        match within {
            [] => Inside::Unseen,
            within if median(within) > (1.0 + rate) / 2.0 => Inside::Fast,
            _ => Inside::Slow,
        }
    }
}

/// What the ranks of a group have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupOf {
    /// They are the ranks of one host.
    Host,
    /// They follow each other, as below one switch.
    Neighbours,
    /// They belong to a component that the operator has named.
    Component {
        /// Its kind: `leaf`.
        kind: String,
        /// Its name.
        name: String,
        /// Components of other kinds with the same ranks, as `kind name`.
        also: Vec<String>,
    },
}

/// Ranks that are slow together.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// All ranks of it, ascending.
    pub ranks: Vec<u32>,
    /// How many of them are slow.
    pub slow: u32,
    /// What they have in common.
    pub of: GroupOf,
    /// Median rate of the slow ranks' exchanges with others, as a share of the healthy rate.
    pub rate: f64,
    /// What exchanges within the group show.
    pub inside: Inside,
}

/// The groups among slow ranks of an explanation: hosts, and blocks of neighbours unless components
/// are known by name.
pub fn groups(
    hosts: &[u32],
    exchanges: &[Exchange],
    fit: &Fit,
    mut slow: BTreeSet<u32>,
    are_named: bool,
) -> Vec<Group> {
    let mut by_host: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (rank, &host) in (0..).zip(hosts) {
        by_host.entry(host).or_default().push(rank);
    }
    let mut found = Vec::new();
    for ranks in by_host.into_values().filter(|ranks| 1 < ranks.len() && ranks.len() < hosts.len())
    {
        let count = ranks.iter().filter(|rank| slow.contains(rank)).count();
        if count > 1 && count as f64 >= SLOW_SHARE_MIN * ranks.len() as f64 {
            slow.retain(|rank| !ranks.contains(rank));
            found.push((ranks, GroupOf::Host));
        }
    }
    if !are_named {
        let blocks = blocks(hosts.len(), &slow).into_iter();
        found.extend(blocks.map(|ranks| (ranks, GroupOf::Neighbours)));
    }
    let slow = |rank: &u32| fit.named.iter().any(|(one, _)| *one == Suspect::Rank(*rank));
    found
        .into_iter()
        .map(|(ranks, of)| {
            let count = ranks.iter().filter(|rank| slow(rank)).count() as u32;
            let (rate, inside) = seen(&ranks, exchanges, fit);
            Group { ranks, slow: count, of, rate, inside }
        })
        .collect()
}

/// Runs of slow neighbours that are too long for chance. One rank within a run may not be slow.
fn blocks(ranks: usize, slow: &BTreeSet<u32>) -> Vec<Vec<u32>> {
    let mut runs: Vec<Vec<u32>> = Vec::new();
    for &rank in slow {
        match runs.last_mut() {
            Some(run) if run.last().is_some_and(|last| rank - last <= 2) => run.push(rank),
            _ => runs.push(vec![rank]),
        }
    }
    let is_group = |run: &Vec<u32>| {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return false };
        let (count, size) = (run.len(), (last - first + 1) as usize);
        let others = (slow.len() - count + 1) as f64 / (ranks - count + 1) as f64;
        let choices = (1..=size - count).map(|gap| (count + gap) as f64 / gap as f64);
        let ways = ranks as f64 * choices.product::<f64>();
        count >= BLOCK_MIN
            && count as f64 >= SLOW_SHARE_MIN * size as f64
            && 2 * size <= ranks
            && ways * others.powi(count as i32) < CHANCE_MAX
    };
    runs.retain(is_group);
    runs.into_iter().map(|run| (run[0]..=run[run.len() - 1]).collect()).collect()
}

/// The median rate of exchanges that leave the group, and what those within it show.
fn seen(ranks: &[u32], exchanges: &[Exchange], fit: &Fit) -> (f64, Inside) {
    let (mut leaving, mut within) = (Vec::new(), Vec::new());
    for (exchange, share) in exchanges.iter().zip(&fit.shares) {
        let ends = [exchange.one, exchange.other].map(|rank| ranks.contains(&rank));
        match (ends, share) {
            ([true, true], Some(share)) => within.push(*share),
            ([true, false] | [false, true], Some(share)) => leaving.push(*share),
            _ => {}
        }
    }
    let rate = if leaving.is_empty() { 1.0 } else { median(&leaving) };
    (rate, Inside::of(&within, rate))
}
