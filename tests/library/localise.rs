//! Slow ranks, groups of ranks and links are named from simulated rounds of pairs. The rates of
//! many more runs are in docs/appendix/localise-rates.md, which `examples/localise_rates.rs`
//! prints.

#[path = "../fabric/mod.rs"]
pub(crate) mod fabric;

use fabric::{Fabric, SlowComponent, Tally, tally};
use fizeau_domain::labels::Kind;
use fizeau_judge::localise::{
    Answer, Exchange, GroupOf, Inside, judge, plan,
    power::{Fault, least_loss, rounds_needed},
    raw::{self, Measured, RawError},
};
use std::collections::BTreeSet;

/// Worlds of each kind that a test plays.
const RUNS: u32 = 12;

fn play(rounds: u32, fabric: impl Fn(&mut oorandom::Rand64) -> Fabric + Sync) -> Tally {
    tally(RUNS, 7, rounds, fabric)
}

/// All slow ranks but one are found, and one name at most is wrong.
#[track_caller]
fn all_are_found(tally: Tally) {
    assert!(tally.found + 1 >= tally.planted, "{tally:?}");
    assert!(tally.wrong <= 1, "{tally:?}");
}

#[test]
fn a_fault_does_not_move_the_threshold_that_it_is_judged_by() {
    // Of 8 ranks one makes a quarter of all rates slow, of 64 a quarter makes seven sixteenths
    // slow. Where two fifths are slow most rates are.
    for (ranks, slow, rate, jitter, rounds) in [
        (8, 1, 0.8, 0.05, 4),
        (64, 1, 0.8, 0.05, 4),
        (64, 16, 0.5, 0.1, 4),
        (64, 25, 0.5, 0.05, 16),
        (64, 16, 0.8, 0.1, 16),
        (64, 2, 0.8, 0.1, 10),
    ] {
        let world = |random: &mut _| Fabric::healthy(ranks, jitter).with_slow(slow, rate, random);
        all_are_found(play(rounds, world));
    }
}

#[test]
fn faults_of_half_the_time_are_named_after_sixteen_rounds() {
    for rate in [0.8, 0.5] {
        all_are_found(play(16, |random| Fabric {
            presence: 0.5,
            ..Fabric::healthy(64, 0.05).with_slow(2, rate, random)
        }));
    }
}

/// Four exchanges of a slow rank are a quarter of all: the jitter that is estimated has them in it.
#[test]
fn of_eight_ranks_one_is_seen_that_is_slower_by_three_times_the_jitter() {
    let tally = tally(600, 77, 4, |random| Fabric::healthy(8, 0.01).with_slow(1, 0.97, random));
    assert!(tally.nobody <= 18, "{tally:?}");
    assert!(tally.wrong <= 12 && tally.undecided == 0, "{tally:?}");
}

#[test]
fn in_a_healthy_world_nobody_is_named() {
    for (ranks, runs) in [(8, 60), (64, 20), (256, 5)] {
        for jitter in [0.01, 0.1] {
            let tally = tally(runs, 3, 4, |_| Fabric::healthy(ranks, jitter));
            assert_eq!(tally.nobody, runs, "{ranks} ranks: {tally:?}");
        }
    }
}

#[test]
fn a_fault_is_found_by_the_rounds_that_it_is_said_to_need() {
    let (loss, presence, jitter) = (0.2, 0.5, 0.05);
    let rounds = rounds_needed(64, jitter, Fault { loss, presence }).expect("some rounds do");
    let world = |random: &mut _| Fabric {
        presence,
        ..Fabric::healthy(64, jitter).with_slow(1, 1.0 - loss, random)
    };
    all_are_found(play(rounds, world));
    // Four rounds find a constant fault of the size that is said to be the least.
    let loss = least_loss(64, 4, jitter).expect("some loss shows");
    all_are_found(play(4, |random| Fabric::healthy(64, jitter).with_slow(1, 1.0 - loss, random)));
}

#[test]
fn a_slow_link_is_named_as_a_link() {
    let (one, other) = plan::round(64, 1)[5];
    let link = (one.min(other), one.max(other));
    let world = Fabric { links: vec![(link, 0.5)], ..Fabric::healthy(64, 0.03) };
    let (_, found) = world.play(4, &mut oorandom::Rand64::new(5));
    let Answer::Named(named) = found.answer else { panic!("{found:?}") };
    assert!(named.ranks.is_empty() && named.groups.is_empty(), "{named:?}");
    assert_eq!(named.links.iter().map(|link| link.ranks).collect::<Vec<_>>(), [link]);
    assert!((named.links[0].rate - 0.5).abs() < 0.05, "{named:?}");
}

#[test]
fn a_congested_switch_is_named_and_not_the_ranks_below_it() {
    let world = Fabric { leaf: Some((32..48, 0.6)), ..Fabric::healthy(256, 0.05) };
    let (_, found) = world.play(10, &mut oorandom::Rand64::new(2));
    let Answer::Named(named) = found.answer else { panic!("{found:?}") };
    assert!(named.ranks.is_empty() && named.links.is_empty(), "{named:?}");
    let [group] = named.groups.as_slice() else { panic!("{named:?}") };
    assert_eq!(group.ranks, (32..48).collect::<Vec<u32>>());
    assert_eq!((&group.of, group.inside), (&GroupOf::Neighbours, Inside::Fast));
}

#[test]
fn rates_within_a_host_are_not_compared_with_those_between_hosts() {
    let hosts = |ranks: u32| Fabric {
        hosts: (0..ranks).map(|rank| rank / 8).collect(),
        near: 8.0,
        ..Fabric::healthy(ranks, 0.05)
    };
    // Of 16 ranks on two hosts about half of all pairs are within one.
    for ranks in [16, 64] {
        let tally = play(6, |_| hosts(ranks));
        assert_eq!(tally.nobody, RUNS, "{tally:?}");
        all_are_found(play(6, |random| hosts(ranks).with_slow(1, 0.7, random)));
    }
    let host = Fabric { leaf: Some((16..24, 0.6)), ..hosts(64) };
    let (_, found) = host.play(4, &mut oorandom::Rand64::new(2));
    let Answer::Named(named) = found.answer else { panic!("{found:?}") };
    assert!(named.ranks.is_empty() && named.groups.len() == 1, "{named:?}");
    assert!(named.groups[0].of == GroupOf::Host && named.groups[0].ranks[0] == 16, "{named:?}");
}

#[test]
fn a_round_has_every_rank_once_and_each_partner_is_new() {
    for ranks in [2, 3, 7, 8, 64, 101] {
        let mut met = BTreeSet::new();
        let rounds = ranks - 1 + ranks % 2;
        for round in 0..rounds {
            let plan = plan::round(ranks, round);
            assert_eq!(plan.len() as u32, ranks / 2);
            let all: BTreeSet<u32> = plan.iter().flat_map(|&(one, other)| [one, other]).collect();
            assert_eq!(all.len(), plan.len() * 2);
            for (one, other) in plan {
                assert!(met.insert((one.min(other), one.max(other))), "{one} and {other} again");
            }
        }
        // By then everybody has met everybody.
        assert_eq!(met.len() as u32, ranks * (ranks - 1) / 2);
    }
    assert_eq!(plan::round(1, 0), []);
}

/// What these rounds tell where a pair's rate is so.
fn told(ranks: u32, rounds: u32, rate: impl Fn(u32, u32) -> f64) -> Answer {
    let mut exchanges = Vec::new();
    for round in 0..rounds {
        for (one, other) in plan::round(ranks, round) {
            let scatter =
                1.0 + 0.01 * (f64::from(one * 7 + other * 3) + f64::from(round * 5)).sin();
            exchanges.push(Exchange { round, one, other, rate: 45e9 * scatter * rate(one, other) });
        }
    }
    judge(&(0..ranks).collect::<Vec<u32>>(), &exchanges).answer
}

#[track_caller]
fn named(answer: &Answer) -> Vec<u32> {
    let Answer::Named(named) = answer else { panic!("{answer:?}") };
    named.ranks.iter().map(|slow| slow.rank).collect()
}

#[test]
fn an_exchange_that_failed_blames_too() {
    let found = told(64, 3, |one, other| if one == 9 || other == 9 { f64::NAN } else { 1.0 });
    assert_eq!(named(&found), [9]);
}

#[test]
fn one_slow_rank_of_few_is_named() {
    for ranks in 3..=16 {
        for slow in 0..ranks {
            let rounds = if ranks < 5 { 3 } else { 5 };
            let rate = |one, other| if one == slow || other == slow { 0.5 } else { 1.0 };
            let found = told(ranks, rounds, rate);
            assert_eq!(named(&found), [slow], "of {ranks}: {found:?}");
        }
        assert_eq!(told(ranks, 4, |_, _| 1.0), Answer::Nobody, "{ranks}");
    }
    // Of four, two as well: one pair is left that is fast.
    let found = told(4, 3, |one, other| if one.max(other) < 2 { 1.0 } else { 0.3 });
    assert_eq!(named(&found), [2, 3]);
}

#[test]
fn what_cannot_be_told_is_not_told() {
    let why = |answer: Answer| match answer {
        Answer::Undecided(why) => why,
        other => panic!("{other:?}"),
    };
    // Nobody else is there to compare with.
    assert!(why(told(1, 4, |_, _| 1.0)).contains("no pair"));
    assert!(why(told(2, 4, |_, _| 0.2)).contains("one pair alone"));
    // Exchanges that all failed are no healthy world.
    for ranks in [4, 8] {
        assert!(why(told(ranks, 3, |_, _| f64::NAN)).contains("no exchange succeeded"));
    }
    // Of three, after one round one has met nobody; after two, one has been in both.
    assert!(why(told(3, 1, |_, _| 1.0)).contains("one pair alone"));
    assert!(why(told(3, 2, |_, _| 1.0)).contains("too few pairs"));
    // One round of four: either of the slow pair, or both.
    let rate = |one: u32, other: u32| if one == 0 || other == 0 { 0.5 } else { 1.0 };
    assert!(why(told(4, 1, rate)).contains("it may be any of ranks 0, "));
    // One round of many: either.
    assert!(why(told(64, 1, rate)).contains("more rounds tell which"));
    // A link between two which are fast with all others, and too few rounds to see it again.
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
    // A gap that is no wider than what lies on its sides makes no slow rank of the third.
    for others in [[0.85, 0.84], [0.75, 0.6]] {
        let rate = |one: u32, other: u32| match (one.min(other), one.max(other)) {
            (0, 1) => 1.0,
            (0, _) => others[0],
            _ => others[1],
        };
        assert!(why(told(3, 4, rate)).contains("scatter widely"), "{others:?}");
    }
}

/// An exchange as it stands in a file of rates.
fn written(one: &Exchange) -> raw::RawExchange {
    let (round, bytes_per_second) = (Some(one.round), Some(one.rate));
    raw::RawExchange { round, rank_a: one.one, rank_b: one.other, bytes_per_second, mark: None }
}

#[test]
fn rates_give_the_same_verdict_again_from_json_and_csv() {
    for seed in 0..RUNS {
        let mut random = oorandom::Rand64::new(u128::from(seed));
        let world = Fabric {
            hosts: (0..16).map(|rank| rank / 2).collect(),
            ..Fabric::healthy(16, 0.05).with_slow(1, 0.85, &mut random)
        };
        let (exchanges, found) = world.play(4, &mut random);
        let place = |host: &u32| raw::RankPlace {
            host: Some(format!("node{host}")),
            ..raw::RankPlace::default()
        };
        let measured = Measured {
            ranks: world.hosts.iter().map(place).collect(),
            exchanges: exchanges.iter().map(written).collect(),
            ..Measured::default()
        };
        for text in [measured.to_json().expect("JSON"), measured.to_csv().expect("CSV")] {
            let again = Measured::parse(&text).expect("what was written");
            assert_eq!(again, measured);
            assert_eq!(judge(&raw::hosts(&again.ranks), &again.exchanges()), found);
        }
    }
}

#[test]
fn rates_that_cannot_be_are_refused_in_words() {
    let why = |text: &str| Measured::parse(text).expect_err(text).to_string();
    let csv = |line: &str| format!("rank_a,rank_b,bytes_per_second\n0,1,5e9\n{line}\n");
    assert!(why("").contains("no column rank_a"));
    assert!(why("rank_a,rank_b\n0,1\n").contains("no column bytes_per_second"));
    assert_eq!(why("rank_a,rank_b,bytes_per_second\n"), RawError::Empty.to_string());
    assert!(why(&csv("3,3,1")).contains("exchange 2: rank 3 cannot exchange with itself"));
    assert!(why(&csv("0,1,-1")).contains("cannot be"));
    assert!(why(&csv("0,1,0")).contains("a rate of 0 B/s cannot be"));
    for fast in ["1e308", "1.1e15"] {
        assert!(why(&csv(&format!("0,1,{fast}"))).contains("no link has a rate of"), "{fast}");
    }
    // A cell that is no number is named with its line.
    for (cell, words) in [("inf", "is no number"), ("nan", "is no number"), ("\"3,36\"", "3.36")] {
        let said = why(&csv(&format!("0,1,{cell}")));
        assert!(said.contains(words) && said.contains("line: 3"), "{said}");
    }
    assert!(why(&csv("0,1,3,36")).contains("line 3 has 4 cells"), "{}", why(&csv("0,1,3,36")));
    let semicolons = "rank_a;rank_b;bytes_per_second\n0;1;5e9\n";
    assert!(why(semicolons).contains("separated by `;`"), "{}", why(semicolons));
    assert!(why(&csv("0,4000000000,1")).contains("is not below"));
    assert!(why(&csv(",1,1")).contains("a rank is missing"));
    assert!(why(&csv("x,1,1")).contains("not CSV"));
    assert!(why("{").contains("not JSON"));
    assert!(why(r#"{"exchanges": [{"rank_a": 0, "rank_b": 1}]}"#).contains("bytes_per_second"));
    assert!(why("{\"exchanges\": []}").contains("no exchange"));
    let moved = "rank_a,host_a,rank_b,bytes_per_second\n0,a,1,1\n0,b,1,1\n";
    assert!(why(moved).contains("rank 0 is in another place"));
    // An empty rate is an exchange that failed; a byte-order mark and other columns are no harm.
    let text = "\u{feff}rank_a,rank_b,note,bytes_per_second\n0,1,x,\n";
    let measured = Measured::parse(text).expect("one exchange");
    assert!(measured.exchanges()[0].rate.is_nan());
    assert_eq!((measured.ranks.len(), measured.rounds()), (2, 1));
}

#[test]
fn any_rates_are_judged() {
    let mut random = oorandom::Rand64::new(5);
    for world in 0..400 {
        let ranks = 1 + random.rand_range(0..14) as u32;
        let mut exchanges = Vec::new();
        for round in 0..random.rand_range(0..60) as u32 {
            let mut rank = || random.rand_range(0..u64::from(ranks)) as u32;
            let (one, other) = (rank(), rank());
            let rate = match random.rand_range(0..6) {
                0 => f64::NAN,
                1 => 0.0,
                2 if world % 3 == 0 => 1e308,
                3 if world % 3 == 0 => 1e-320,
                times => times as f64 * 1e9,
            };
            if one != other {
                exchanges.push(Exchange { round, one, other, rate });
            }
        }
        let hosts: Vec<u32> = (0..ranks).map(|rank| rank / (1 + world % 2)).collect();
        let found = judge(&hosts, &exchanges);
        assert!(found.jitter.is_none_or(|jitter| jitter > 0.0 && jitter.is_finite()), "{found:?}");
        if exchanges.iter().all(|one| one.rate.is_nan() || one.rate <= 0.0) {
            assert!(matches!(found.answer, Answer::Undecided(_)), "{found:?}");
        }
    }
}

/// The rate of most exchanges is that of slow ranks; those between healthy ones are faster.
#[test]
fn where_half_of_the_ranks_and_more_are_slow_it_cannot_be_told() {
    for (ranks, slow, rate) in
        [(8, 4, 0.5), (8, 5, 0.5), (16, 12, 0.5), (64, 32, 0.5), (64, 48, 0.5), (64, 32, 0.8)]
    {
        let found = play(10, |random| Fabric::healthy(ranks, 0.05).with_slow(slow, rate, random));
        assert!(found.nobody == 0 && found.wrong <= 1, "{slow} of {ranks} at {rate}: {found:?}");
    }
    let mut random = oorandom::Rand64::new(4);
    let world = Fabric::healthy(16, 0.05).with_slow(10, 0.5, &mut random);
    let (_, found) = world.play(10, &mut random);
    let Answer::Undecided(why) = &found.answer else { panic!("{found:?}") };
    let faster = found.faster.as_ref().expect("those that are not slow");
    let is_healthy = |rank: &u32| world.slow.iter().all(|(slow, _)| slow != rank);
    let healthy: Vec<u32> = (0..16).filter(is_healthy).collect();
    assert_eq!((&faster.ranks, faster.others), (&healthy, 10));
    assert!((faster.gain - 1.0).abs() < 0.1, "{faster:?}");
    assert!(why.contains("faster with each other") && why.ends_with("all 10 of them"), "{why}");
    // Two of four hosts.
    let hosts = |ranks: u32| Fabric {
        hosts: (0..ranks).map(|rank| rank / 8).collect(),
        near: 8.0,
        ..Fabric::healthy(ranks, 0.05)
    };
    let found = play(10, |_| Fabric { slow_hosts: Some((1..3, 0.5)), ..hosts(32) });
    assert!(found.nobody == 0 && found.wrong == 0, "{found:?}");
}

/// Hosts and switches that nobody has named make ranks fast among themselves, all of them.
#[test]
fn a_fabric_of_several_fast_groups_is_no_fault() {
    for (size, far) in [(8, 0.125), (32, 0.7)] {
        let rate = |one: u32, other: u32| if one / size == other / size { 1.0 } else { far };
        let mut exchanges = Vec::new();
        let mut random = oorandom::Rand64::new(3);
        for round in 0..10 {
            for (one, other) in plan::round(64, round) {
                let jitter = 1.0 + 0.03 * fabric::normal(&mut random);
                exchanges.push(Exchange { round, one, other, rate: jitter * rate(one, other) });
            }
        }
        let found = judge(&(0..64).collect::<Vec<u32>>(), &exchanges);
        assert_eq!(found.faster, None, "{size}");
        assert!(!matches!(found.answer, Answer::Undecided(_)), "{size}: {found:?}");
    }
}

/// A file has the rounds that it has: none follow on doubt.
#[test]
fn too_few_rounds_of_a_file_are_no_all_clear() {
    for ranks in [5, 6, 8, 16, 64] {
        for rounds in 1..=4 {
            for rate in [0.5, 0.85] {
                let world = |random: &mut _| {
                    Fabric::healthy(ranks, 0.05).with_slow(1, rate, random).read_back()
                };
                let found = tally(100, 13, rounds, world);
                let place = format!("{ranks} ranks, {rounds} rounds, at {rate}: {found:?}");
                assert!(found.nobody <= 10 && found.wrong <= 15, "{place}");
                assert!(rounds > 1 || found.undecided == 100, "{place}");
            }
        }
    }
    let why = |answer: Answer| match answer {
        Answer::Undecided(why) => why,
        other => panic!("{other:?}"),
    };
    let said = why(told(64, 1, |_, _| 1.0));
    assert!(said.contains("met nobody but rank ") && said.contains(" rounds would show"), "{said}");
    assert_eq!(told(64, 4, |_, _| 1.0), Answer::Nobody);
}

/// One slow exchange elsewhere is congestion, and does not take a slow link's name away.
#[test]
fn a_slow_link_is_named_beside_congestion_and_its_ranks_are_not() {
    let tally = tally(40, 11, 45, |random| {
        let one = random.rand_range(0..16) as u32;
        let other = (one + 1 + random.rand_range(0..15) as u32) % 16;
        let links = vec![((one.min(other), one.max(other)), 0.5)];
        Fabric { links, congestion: 0.01, ..Fabric::healthy(16, 0.05) }
    });
    assert!(tally.links >= 38 && tally.wrong <= 2, "{tally:?}");
}

#[test]
fn a_pair_that_was_slow_both_times_is_not_passed_over() {
    // Of 8 ranks two meet again after 7 rounds.
    let slow = plan::round(8, 3)[1];
    let rate = |one, other| if (one, other) == slow { 0.5 } else { 1.0 };
    let why = match told(8, 14, rate) {
        Answer::Undecided(why) => why,
        other => panic!("{other:?}"),
    };
    assert!(why.contains("in all 2 exchanges with each other"), "{why}");
}

/// With little jitter a difference that is of no consequence is certain all the same.
#[test]
fn who_is_slower_by_less_than_the_least_effect_is_not_named() {
    let slow = |rate: f64| {
        let mut random = oorandom::Rand64::new(6);
        let mut fabric = Fabric::healthy(64, 0.002);
        fabric.slow = vec![(9, rate)];
        let exchanges = fabric.play(8, &mut random).0;
        judge(&(0..64).collect::<Vec<u32>>(), &exchanges)
    };
    let slight = slow(0.985);
    assert!(matches!(slight.answer, Answer::Named(_)), "{slight:?}");
    let beyond = slight.clone().beyond(0.02);
    assert_eq!(beyond.answer, Answer::Nobody);
    let [(ranks, rate)] = &beyond.slight[..] else { panic!("{beyond:?}") };
    assert!(ranks == &[9] && (rate - 0.985).abs() < 0.003, "{beyond:?}");
    assert!(matches!(slight.beyond(0.01).answer, Answer::Named(_)));
    assert!(matches!(slow(0.97).beyond(0.02).answer, Answer::Named(_)));
}

/// Leaves and rails whose names are known, and what is planted in them.
#[test]
fn components_that_have_a_name_are_named_in_the_place_of_their_ranks() {
    let named = |ranks| Fabric {
        kinds: fabric::leaves_and_rails(ranks, 16, 8),
        ..Fabric::healthy(ranks, 0.05)
    };
    let planted = [
        (64, 4, SlowComponent::Uplink(0, 2, 0.6), None),
        (256, 4, SlowComponent::Uplink(0, 9, 0.8), None),
        (256, 4, SlowComponent::Whole(1, 3, 0.7), None),
        (256, 8, SlowComponent::Path(0, [3, 11], 0.5), None),
        (64, 8, SlowComponent::Uplink(0, 1, 0.5), Some(0)),
    ];
    for (ranks, rounds, slow, apart) in planted {
        let world = |_: &mut _| Fabric { slow_component: Some(slow), apart, ..named(ranks) };
        let found = tally(20, 21, rounds, world);
        assert!(found.components >= 19 && found.wrong <= 2, "{ranks} ranks, {slow:?}: {found:?}");
    }
    for (ranks, rounds, apart) in [(64, 4, None), (256, 4, None), (64, 8, Some(0))] {
        let found = tally(40, 22, rounds, |_: &mut _| Fabric { apart, ..named(ranks) });
        assert_eq!((found.somebody, found.undecided), (0, 0), "{ranks} ranks: {found:?}");
    }
    // A rank that is slow is no leaf.
    let found = tally(20, 23, 4, |random: &mut _| named(64).with_slow(1, 0.6, random));
    assert!(found.found >= 19 && found.wrong <= 1, "{found:?}");
}

/// So that no two exchanges share an uplink, a spine or a core switch.
#[test]
fn rounds_that_keep_components_apart_have_one_exchange_that_leaves_each() {
    for (ranks, leaf) in [(64, 16), (60, 7), (1024, 16), (9, 2)] {
        let kind = &fabric::leaves_and_rails(ranks, leaf, 8)[0];
        let of = |rank: u32| kind.of[rank as usize];
        let plan = plan::Plan { ranks, apart: Some(kind) };
        let mut met = BTreeSet::new();
        for number in 0..64 {
            let (mut busy, mut left) = (BTreeSet::new(), BTreeSet::new());
            for (one, other) in plan.round(number) {
                assert!(busy.insert(one) && busy.insert(other), "round {number} of {ranks}");
                if of(one) != of(other) {
                    assert!(left.insert(of(one)) && left.insert(of(other)), "round {number}");
                    met.insert((of(one).min(of(other)), of(one).max(of(other))));
                }
            }
            // One rank of each may wait, or two where their number is odd.
            assert!(busy.len() + 2 * kind.names.len() >= ranks as usize, "round {number}");
        }
        let leaves = kind.names.len();
        assert_eq!(met.len(), leaves * (leaves - 1) / 2, "all leaves meet, of {ranks} ranks");
    }
    // A rank that no label names is kept apart as one of its own.
    let kind = Kind { of: vec![Some(0), Some(0), None, Some(0)], ..Kind::default() };
    let plan = plan::Plan { ranks: 4, apart: Some(&kind) };
    assert!((0..8).all(|number| !plan.round(number).is_empty()));
}

#[test]
fn labels_are_kept_with_rates_in_both_formats() {
    let place = |rank: u32| raw::RankPlace {
        host: Some(format!("n{rank}")),
        labels: [("leaf".to_owned(), format!("l{}", rank / 16))].into(),
        ..raw::RankPlace::default()
    };
    let mut random = oorandom::Rand64::new(8);
    let fabric = Fabric {
        kinds: fabric::leaves_and_rails(64, 16, 8)[..1].to_vec(),
        slow_component: Some(SlowComponent::Uplink(0, 2, 0.6)),
        ..Fabric::healthy(64, 0.05)
    };
    let (exchanges, _) = fabric.play(4, &mut random);
    let measured = Measured {
        ranks: (0..64).map(place).collect(),
        exchanges: exchanges.iter().map(written).collect(),
        ..Measured::default()
    };
    let found = measured.judge();
    let Answer::Named(named) = &found.answer else { panic!("{found:?}") };
    let [group] = &named.groups[..] else { panic!("{named:?}") };
    let leaf = GroupOf::Component { kind: "leaf".into(), name: "l2".into(), also: Vec::new() };
    assert_eq!((&group.of, group.slow, group.inside), (&leaf, 16, Inside::Fast));
    assert!(named.ranks.is_empty() && named.links.is_empty(), "{named:?}");
    for text in [measured.to_json().unwrap(), measured.to_csv().unwrap()] {
        assert_eq!(Measured::parse(&text).unwrap().judge(), found);
    }
}

/// The matrices that p2pBandwidthLatencyTest and nvbandwidth print are read as they are.
#[test]
fn matrices_of_other_programs_are_read() {
    let rows = |slow: f64| -> String {
        let cell = |row: usize, column: usize| match (row == column, row == 3 || column == 3) {
            (true, _) => "N/A".to_owned(),
            (_, is_slow) => {
                format!("{:.2}", if is_slow { slow } else { 391.5 } + row as f64 / 10.0)
            }
        };
        let row = |row: usize| {
            let cells: Vec<String> = (0..8).map(|column| cell(row, column)).collect();
            format!("{row:>6} {}\n", cells.join("   "))
        };
        (0..8).map(row).collect()
    };
    let columns = "   0   1   2   3   4   5   6   7\n";
    let heading = "memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)";
    let text = |slow| format!("{heading}\n{columns}{}\nSUM 1234.5\n", rows(slow));
    let measured = Measured::parse(&text(391.5)).expect("a matrix");
    assert_eq!(measured.exchanges.len(), 56);
    let one = &measured.exchanges[0];
    assert_eq!((one.rank_a, one.rank_b, one.bytes_per_second), (0, 1, Some(391.5e9)));
    assert_eq!(measured.judge().answer, Answer::Nobody);
    let Answer::Named(named) = Measured::parse(&text(200.0)).expect("a matrix").judge().answer
    else {
        panic!("nobody is named")
    };
    assert_eq!(named.ranks.iter().map(|slow| slow.rank).collect::<Vec<_>>(), [3]);
    let cuda = |title: &str| format!("{title}\n   D\\D  {columns}{}", rows(391.5));
    let p2p = "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)";
    let latency = cuda("P2P=Enabled Latency Matrix (us)");
    let whole = format!("{}\n{latency}", cuda(p2p));
    assert_eq!(Measured::parse(&whole).expect("one of rates").exchanges.len(), 56);
    for (text, words) in [
        (latency, "does not end in (GB/s)"),
        (format!("{}\n{}", cuda(p2p), cuda("Bidirectional Bandwidth Matrix (GB/s)")), "2 matrices"),
        ("0 1 45.2\n0 2 45.1\n".to_owned(), "p2pBandwidthLatencyTest"),
    ] {
        let why = Measured::parse(&text).expect_err("refused").to_string();
        assert!(why.contains(words), "{words}: {why}");
    }
}
