//! Several nodes: what the rounds of [`crate::localise`] found between the ranks of a launcher, as
//! a check of the node that one of the ranks is on.
//!
//! A node fails where the rank itself is named, or all ranks of its host are. A link, or what joins
//! several hosts to the others, is at fault on no one node: all whom it may be are inconclusive.

use super::{Judged, cause::Cause};
use crate::localise::{
    Answer, GroupOf, LEAST_EFFECT, Named, power,
    raw::{self, Measured, RankPlace},
};
use fizeau_domain::verdict::Verdict;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The check's name.
pub const CHECK: &str = "localise between nodes";

/// Ranks below which nobody can be named: of one pair it cannot be told which of the two is slow.
pub const RANKS_MIN: u32 = 3;

/// All that the check was told: [`judge`] decides the same from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Told {
    /// The rank that is on this node.
    pub rank: u32,
    /// The exchanges of all ranks.
    pub measured: Measured,
}

impl Told {
    /// The names of all ranks' hosts.
    pub fn hosts(&self) -> BTreeSet<String> {
        self.measured.ranks.iter().filter_map(|place| place.host.clone()).collect()
    }

    /// The same without the names of hosts: numbers tell which ranks share one.
    pub fn without_names(mut self) -> Told {
        let numbers = raw::hosts(&self.measured.ranks);
        for (place, number) in self.measured.ranks.iter_mut().zip(numbers) {
            place.host = Some(format!("host of rank {number}"));
            place.labels.clear();
        }
        self
    }
}

/// Decides.
///
/// # Errors
/// In words, where it was told of a rank that there is not, or of too few.
pub fn judge(told: &Told) -> Result<Judged, String> {
    let Told { rank, measured } = told;
    let ranks = measured.ranks.len() as u32;
    let most = measured.exchanges.iter().map(|one| one.rank_a.max(one.rank_b)).max();
    if *rank >= ranks || most.is_none_or(|most| most >= ranks) || ranks < RANKS_MIN {
        return Err(format!("exchanges are told of {ranks} ranks, and of rank {rank} among them"));
    }
    let found = measured.judge().beyond(LEAST_EFFECT);
    let name = |rank: u32| measured.name(rank);
    let (verdict, cause, words) = match &found.answer {
        Answer::Nobody => {
            let seen = found.jitter.filter(|_| !measured.is_stub());
            let least = seen.and_then(|jitter| power::least_loss(ranks, measured.rounds(), jitter));
            let would = least.map_or(String::new(), |loss| {
                format!("; a rank slower by {:.0} % would have shown", loss * 100.0)
            });
            (Verdict::Pass, None, format!("nobody of {ranks} ranks is slow{would}"))
        }
        Answer::Undecided(why) => {
            (Verdict::Inconclusive, None, format!("who is slow cannot be told: {why}"))
        }
        Answer::Named(named) => of_named(*rank, &measured.ranks, named, &name),
    };
    let stub = measured.is_stub();
    let judged = Judged { stub, ..Judged::of_state(CHECK, "node", verdict, words) };
    Ok(match cause {
        Some(cause) => judged.because(cause),
        None => judged,
    })
}

/// What is said of a rank where some are named.
fn of_named(
    rank: u32,
    places: &[RankPlace],
    named: &Named,
    name: &dyn Fn(u32) -> String,
) -> (Verdict, Option<Cause>, String) {
    let hosts: BTreeSet<_> = places.iter().map(|place| &place.host).collect();
    // Between GPUs of one host there is no network.
    let own = if hosts.len() > 1 { Cause::NetworkInterface } else { Cause::PeerLink };
    if let Some(slow) = named.ranks.iter().find(|slow| slow.rank == rank) {
        let (count, all) = (slow.slow, slow.exchanges);
        let words = format!("{}: slow in {count} of {all} exchanges", name(rank));
        return (Verdict::Fail, Some(own), words);
    }
    if let Some(group) = named.groups.iter().find(|group| group.ranks.contains(&rank)) {
        let ranks = group.ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let slow = group.slow;
        return match &group.of {
            GroupOf::Host => {
                let words = format!("{slow} of this host's ranks ({ranks}) are slow");
                (Verdict::Fail, Some(own), words)
            }
            GroupOf::Neighbours | GroupOf::Component { .. } => {
                let words = format!(
                    "ranks {ranks} are slow together: a switch, an uplink or a cable that joins \
                     them to the others"
                );
                (Verdict::Inconclusive, Some(Cause::Fabric), words)
            }
        };
    }
    let is_own = |ranks: (u32, u32)| ranks.0 == rank || ranks.1 == rank;
    if let Some(link) = named.links.iter().find(|link| is_own(link.ranks)) {
        let (one, other) = (name(link.ranks.0), name(link.ranks.1));
        let words = format!(
            "the link between {one} and {other} is slow in {} of {} exchanges; both are fast with \
             others",
            link.slow, link.exchanges
        );
        return (Verdict::Inconclusive, Some(Cause::Fabric), words);
    }
    let mut others: Vec<String> = named.ranks.iter().map(|slow| name(slow.rank)).collect();
    others.extend(named.groups.iter().map(|group| {
        format!("ranks {}", group.ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(", "))
    }));
    others.extend(named.links.iter().map(|link| {
        let (one, other) = link.ranks;
        format!("the link between ranks {one} and {other}")
    }));
    (Verdict::Pass, None, format!("this rank is fast; slow is {}", others.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::localise::{plan, raw::RawExchange};

    /// Ranks on hosts of their own that exchange data for some rounds; `rate` is that of a pair.
    fn told(rank: u32, ranks: u32, rounds: u32, rate: impl Fn(u32, u32) -> f64) -> Told {
        let place = |rank| RankPlace { host: Some(format!("n{rank}")), ..RankPlace::default() };
        let mut exchanges = Vec::new();
        let mut random = oorandom::Rand64::new(7);
        for round in 0..rounds {
            for (one, other) in plan::round(ranks, round) {
                let jitter = 0.02 * random.rand_float();
                exchanges.push(RawExchange {
                    round: Some(round),
                    rank_a: one,
                    rank_b: other,
                    bytes_per_second: Some(rate(one, other) * (1.0 + jitter)),
                    mark: None,
                });
            }
        }
        let ranks = (0..ranks).map(place).collect();
        Told { rank, measured: Measured { ranks, exchanges, ..Measured::default() } }
    }

    fn judged(told: &Told) -> Judged {
        judge(told).expect("ranks that there are")
    }

    #[test]
    fn the_named_node_fails_and_the_others_pass() {
        let rate = |one: u32, other: u32| if one == 5 || other == 5 { 1e9 } else { 4e9 };
        let slow = judged(&told(5, 12, 10, rate));
        assert_eq!((slow.verdict, slow.cause), (Verdict::Fail, Some(Cause::NetworkInterface)));
        assert!(slow.words.starts_with("rank 5: n5: "), "{}", slow.words);
        let fast = judged(&told(2, 12, 10, rate));
        assert_eq!((fast.verdict, fast.cause), (Verdict::Pass, None));
        assert!(fast.words.contains("slow is rank 5: n5"), "{}", fast.words);
        let alike = judged(&told(2, 12, 10, |_, _| 4e9));
        assert_eq!(alike.verdict, Verdict::Pass);
        assert!(alike.words.starts_with("nobody of 12 ranks is slow; a rank "), "{}", alike.words);
    }

    #[test]
    fn a_link_is_no_one_nodes_fault_and_doubt_passes_nobody() {
        let rate = |one: u32, other: u32| if [one, other] == [2, 3] { 1e9 } else { 4e9 };
        // All pairs, four times each.
        let mut all = told(2, 8, 0, rate);
        let mut random = oorandom::Rand64::new(7);
        for _ in 0..4 {
            for (one, other) in (0..8).flat_map(|one| (one + 1..8).map(move |other| (one, other))) {
                let jitter = 0.02 * random.rand_float();
                all.measured.exchanges.push(RawExchange {
                    round: None,
                    rank_a: one,
                    rank_b: other,
                    bytes_per_second: Some(rate(one, other) * (1.0 + jitter)),
                    mark: None,
                });
            }
        }
        let link = judged(&all);
        assert_eq!((link.verdict, link.cause), (Verdict::Inconclusive, Some(Cause::Fabric)));
        let other = judged(&Told { rank: 6, ..all.clone() });
        assert_eq!(other.verdict, Verdict::Pass, "{}", other.words);
        assert!(other.words.contains("the link between ranks 2 and 3"), "{}", other.words);
        let failed = judged(&told(0, 4, 3, |_, _| 0.0));
        assert_eq!(failed.verdict, Verdict::Inconclusive, "{}", failed.words);
        for wrong in [told(4, 4, 3, rate), told(0, 2, 3, rate), told(0, 4, 0, rate)] {
            assert!(judge(&wrong).is_err());
        }
    }

    #[test]
    fn without_names_it_says_the_same() {
        let rate = |one: u32, other: u32| if one == 5 || other == 5 { 1e9 } else { 4e9 };
        let named = told(5, 12, 10, rate);
        assert_eq!(named.hosts().len(), 12);
        let without = named.clone().without_names();
        assert!(without.hosts().iter().all(|host| !named.hosts().contains(host)));
        assert_eq!(judged(&without).verdict, Verdict::Fail);
    }
}
