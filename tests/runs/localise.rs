//! Bad nodes are named from simulated rounds of pairs, and slow ranks of stub GPUs by the program.

use crate::gpus::Machine;
use crate::program::say;
use fizeau::localise::{Answer, Exchange, answer, pairs, suspects};
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

/// What so many rounds tell where a pair's rate is so.
fn told(nodes: u32, rounds: u64, rate: impl Fn(u32, u32) -> f64) -> Answer {
    let mut exchanges = Vec::new();
    for round in 0..rounds {
        for (one, other) in pairs(nodes, &exchanges, round) {
            let scatter = 1.0 + 0.01 * (f64::from(one * 7 + other * 3) + round as f64 * 5.0).sin();
            exchanges.push(Exchange { one, other, rate: 45e9 * scatter * rate(one, other) });
        }
    }
    answer(nodes, &exchanges)
}

fn named(answer: &Answer) -> Vec<u32> {
    let Answer::Named(suspects) = answer else { panic!("{answer:?}") };
    suspects.iter().map(|suspect| suspect.node).collect()
}

#[test]
fn one_bad_node_of_few_is_named_after_three_rounds() {
    for nodes in 3..=16 {
        for bad in 0..nodes {
            let rounds = if nodes < 5 { 3 } else { 4 };
            let rate = |one, other| if one == bad || other == bad { 0.5 } else { 1.0 };
            let found = told(nodes, rounds, rate);
            assert_eq!(named(&found), [bad], "of {nodes}: {found:?}");
        }
        assert_eq!(told(nodes, 4, |_, _| 1.0), Answer::Nobody, "{nodes}");
    }
    // Of four, two as well: one pair is left that is fast.
    let found = told(4, 3, |one, other| if one.max(other) < 2 { 1.0 } else { 0.3 });
    assert_eq!(named(&found), [2, 3]);
}

#[test]
fn what_few_nodes_cannot_tell_is_not_told() {
    let why = |answer: Answer| match answer {
        Answer::Undecided(why) => why,
        other => panic!("{other:?}"),
    };
    // Nobody else is there to compare with.
    assert!(why(told(1, 4, |_, _| 1.0)).contains("no pair"));
    assert!(why(told(2, 4, |_, _| 0.2)).contains("too few pairs with and without rank 0"));
    // Of three, after one round one has met nobody; after two, one has been in both.
    for rounds in [1, 2] {
        assert!(why(told(3, rounds, |_, _| 1.0)).contains("too few pairs"), "{rounds}");
    }
    // One round of four: either of the slow pair, or both.
    let rate = |one: u32, other: u32| if one == 0 || other == 0 { 0.5 } else { 1.0 };
    assert!(why(told(4, 1, rate)).contains("it may be any of ranks 0, "));
    // A link between two nodes which are fast with all others.
    let link = |one: u32, other: u32| if one + other == 1 { 0.5 } else { 1.0 };
    assert!(why(told(4, 3, link)).contains("a link, congestion"));
    assert!(why(told(3, 3, link)).contains("a link, congestion"));
    // Every rate another: nobody stands out.
    let all = |one: u32, other: u32| {
        let pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];
        let at = pairs.iter().position(|&pair| pair == (one.min(other), one.max(other)));
        0.94f64.powi(at.expect("a pair") as i32)
    };
    assert!(why(told(4, 3, all)).contains("scatter widely"));
    // One pair that is a little faster than the others makes no slow node of the third; nor does a
    // gap that is no wider than what lies on its sides.
    for others in [[0.85, 0.84], [0.75, 0.6]] {
        let rate = |one: u32, other: u32| match (one.min(other), one.max(other)) {
            (0, 1) => 1.0,
            (0, _) => others[0],
            _ => others[1],
        };
        assert!(why(told(3, 4, rate)).contains("scatter widely"), "{others:?}");
    }
}

#[test]
fn a_slow_rank_is_localised_whoever_it_exchanges_with() {
    let machine = Machine::new();
    let args = ["localise", "--ranks", "8", "--size", "64KiB"];
    let said = say(&mut machine.fizeau("devices=8", "5:slow=8", &args));
    assert_eq!(said.code, Some(1), "{} {}", said.out, said.err);
    let lines: Vec<&str> = said.out.lines().collect();
    assert_eq!(lines.len(), 1, "{}", said.out);
    let named = lines[0].starts_with("rank 5: ") && lines[0].contains("(stub GPU): 4 of 4 exch");
    assert!(named && lines[0].contains("at stub of the median"), "{}", said.out);
    let said =
        say(&mut machine.fizeau("devices=4", "", &["localise", "--ranks", "4", "--size", "1MiB"]));
    assert_eq!(said.code, Some(0), "{} {}", said.out, said.err);
    assert!(said.out.contains("4 ranks, 4 rounds of 1 MiB: nobody is slow"), "{}", said.out);
    let alone = say(&mut machine.fizeau("", "", &["localise", "--device", "host"]));
    assert_eq!(alone.code, Some(2), "{}", alone.err);
}

#[test]
fn ranks_too_few_to_tell_are_an_exit_code_of_their_own() {
    let machine = Machine::new();
    for ranks in ["1", "2"] {
        let args = ["localise", "--ranks", ranks, "--size", "64KiB"];
        let said = say(&mut machine.fizeau("devices=2", "", &args));
        assert_eq!(said.code, Some(4), "{} {}", said.out, said.err);
        assert!(said.out.contains("who is slow cannot be told: "), "{}", said.out);
    }
    let args = ["localise", "--ranks", "4", "--rounds", "3", "--size", "64KiB", "--json"];
    let said = say(&mut machine.fizeau("devices=4", "2:slow=8", &args));
    assert_eq!(said.code, Some(1), "{} {}", said.out, said.err);
    let found: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(found["suspects"][0]["rank"], 2, "{found}");
    assert_eq!(found["suspects"].as_array().map(Vec::len), Some(1), "{found}");
}
