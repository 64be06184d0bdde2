//! Bad nodes are named from simulated rounds of pairs.

use fizeau::localise::{Exchange, pairs, suspects};
use std::collections::HashSet;

const NODES: u32 = 1024;
const BAD: usize = 10;
/// Of pairs in a round.
const CONGESTED: f64 = 0.01;
/// Standard deviation of a healthy pair's rate.
const SCATTER: f64 = 0.01;

/// A fabric with bad nodes.
struct Fabric {
    random: oorandom::Rand64,
    /// Rate of each node, as a share; healthy ones have 1.
    rates: Vec<f64>,
    /// Share of rounds in which a bad node is bad.
    presence: f64,
}

impl Fabric {
    fn new(seed: u64, presence: f64) -> Fabric {
        let mut random = oorandom::Rand64::new(seed.into());
        let mut rates = vec![1.0; NODES as usize];
        while rates.iter().filter(|rate| **rate < 1.0).count() < BAD {
            // From nearly dead to a link at four fifths.
            rates[random.rand_range(0..u64::from(NODES)) as usize] =
                0.05 + 0.75 * random.rand_float();
        }
        Fabric { random, rates, presence }
    }

    fn bad(&self) -> HashSet<u32> {
        let bad = self.rates.iter().enumerate().filter(|(_, rate)| **rate < 1.0);
        bad.map(|(node, _)| node as u32).collect()
    }

    /// The sum of twelve uniform numbers is nearly normal.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.random.rand_float()).sum::<f64>() - 6.0
    }

    fn exchange(&mut self, (one, other): (u32, u32)) -> Exchange {
        let mut rate = 1.0f64;
        for node in [one, other] {
            let bad = self.random.rand_float() < self.presence;
            rate = rate.min(if bad { self.rates[node as usize] } else { 1.0 });
        }
        if self.random.rand_float() < CONGESTED {
            rate *= 0.1 + 0.8 * self.random.rand_float();
        }
        let scatter = 1.0 + SCATTER * self.normal();
        Exchange { one, other, rate: 45e9 * rate * scatter }
    }

    fn rounds(&mut self, count: u64) -> Vec<Exchange> {
        let mut exchanges = Vec::new();
        for round in 0..count {
            let plan = pairs(NODES, &exchanges, round);
            for pair in plan {
                let exchange = self.exchange(pair);
                exchanges.push(exchange);
            }
        }
        exchanges
    }
}

/// Precision and recall over many fabrics.
fn quality(presence: f64, rounds: u64, fabrics: u64) -> (f64, f64) {
    let (mut right, mut named, mut bad) = (0, 0, 0);
    for seed in 0..fabrics {
        let mut fabric = Fabric::new(seed, presence);
        let exchanges = fabric.rounds(rounds);
        let suspects: HashSet<u32> =
            suspects(NODES, &exchanges).iter().map(|suspect| suspect.node).collect();
        right += suspects.intersection(&fabric.bad()).count();
        named += suspects.len();
        bad += BAD;
    }
    (right as f64 / named as f64, right as f64 / bad as f64)
}

#[test]
fn hard_faults_are_named_after_two_rounds() {
    let (precision, recall) = quality(1.0, 2, 150);
    println!("hard: precision {precision:.4}, recall {recall:.4}");
    assert!(precision >= 0.98, "{precision}");
    assert!(recall >= 0.95, "{recall}");
}

#[test]
fn faults_of_half_the_time_are_named_after_ten_rounds() {
    let (precision, recall) = quality(0.5, 10, 150);
    println!("intermittent: precision {precision:.4}, recall {recall:.4}");
    assert!(precision >= 0.98, "{precision}");
    assert!(recall >= 0.95, "{recall}");
}

#[test]
fn a_clean_fabric_names_nobody() {
    let mut fabric = Fabric::new(7, 0.0);
    let exchanges = fabric.rounds(4);
    assert!(suspects(NODES, &exchanges).len() <= 1, "{:?}", suspects(NODES, &exchanges));
}

#[test]
fn a_round_has_every_node_once_and_nobody_twice() {
    for nodes in [2, 3, 7, 64] {
        let mut exchanges = Vec::new();
        let mut met = HashSet::new();
        for round in 0..u64::from(nodes / 2) {
            let plan = pairs(nodes, &exchanges, round);
            assert_eq!(plan.len() as u32, nodes / 2);
            let all: HashSet<u32> = plan.iter().flat_map(|&(one, other)| [one, other]).collect();
            assert_eq!(all.len(), plan.len() * 2);
            for (one, other) in plan {
                let new = met.insert((one.min(other), one.max(other)));
                // Without blame the last of few nodes may have to meet again.
                assert!(new || round > 1, "{one} and {other} meet again in round {round}");
                exchanges.push(Exchange { one, other, rate: 1.0 });
            }
        }
    }
}

#[test]
fn an_exchange_that_failed_blames_too() {
    let mut exchanges = Vec::new();
    for round in 0..3 {
        for (one, other) in pairs(64, &exchanges, round) {
            let rate = if one == 9 || other == 9 { f64::NAN } else { 1.0 };
            exchanges.push(Exchange { one, other, rate });
        }
    }
    let named = suspects(64, &exchanges);
    assert_eq!(named.iter().map(|suspect| suspect.node).collect::<Vec<_>>(), [9]);
    assert_eq!((named[0].slow, named[0].exchanges), (3, 3));
}
