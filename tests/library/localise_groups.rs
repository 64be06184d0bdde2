//! Machines whose ranks are in groups behind switches: nobody is named for what all ranks of a
//! group have in common, and names go with ranks, whatever their numbers.

use crate::localise::fabric::{self, Fabric, Topology, tally};
use crate::zoo::{NOISES, Noise};
use fizeau_judge::localise::{Answer, Exchange, Findings, GroupOf, judge, plan};
use oorandom::Rand64;
use std::collections::BTreeSet;

fn play(fabric: &Fabric, rounds: u32, seed: u64) -> (Vec<Exchange>, Findings) {
    fabric.play(rounds, &mut Rand64::new(u128::from(seed)))
}

/// What is named: ranks, all ranks of groups, and links.
fn named(found: &Findings) -> (BTreeSet<u32>, BTreeSet<(u32, u32)>) {
    let Answer::Named(named) = &found.answer else { return Default::default() };
    let groups = named.groups.iter().flat_map(|group| group.ranks.iter().copied());
    let ranks = named.ranks.iter().map(|slow| slow.rank).chain(groups).collect();
    (ranks, named.links.iter().map(|link| link.ranks).collect())
}

/// Eight cards behind two PCIe switches without direct access: pairs behind one switch reach
/// 12 GB/s and pairs across 20 GB/s. Five cards, three and two. Both also the other way round.
#[test]
fn cards_behind_two_switches_are_groups_and_nobody_is_slow() {
    for sizes in [&[4, 4][..], &[3, 2], &[5, 3], &[4, 4, 4], &[4, 4, 4, 4], &[6, 4, 3, 2]] {
        for (within, across) in [(12.0, 20.0), (20.0, 12.0)] {
            let topology = Topology::new(sizes, within, across);
            for (seed, meetings) in (0..20).zip([1, 1, 2, 3].into_iter().cycle()) {
                let fabric = Fabric::grouped(topology.clone(), 0.01, meetings);
                let (_, found) = play(&fabric, 0, seed);
                let place = format!("{sizes:?}, {within} within, seed {seed}: {found:?}");
                assert!(!matches!(found.answer, Answer::Named(_)), "{place}");
                let layout = found.layout.as_ref().expect(&place);
                let sizes_found: Vec<usize> = layout.groups.iter().map(Vec::len).collect();
                assert_eq!(sizes_found, sizes, "{place}");
                assert!(layout.groups.concat().is_sorted(), "{place}");
                assert_eq!(layout.is_faster_within(), Some(within > across), "{place}");
                let near = |found: f64, planted: f64| (found / 45e9 / planted - 1.0).abs() < 0.03;
                assert!(
                    near(layout.across[0], across) && near(layout.within[1], within),
                    "{place}"
                );
            }
        }
    }
    let words = |sizes| {
        let fabric = Fabric::grouped(Topology::new(sizes, 1.0, 0.6), 0.01, 2);
        play(&fabric, 0, 1).1.layout.expect("groups").words()
    };
    assert_eq!(words(&[4, 4]), "two groups of 4");
    assert_eq!(words(&[6, 4, 2]), "groups of 6, 4 and 2");
}

/// Somebody is named in this many of `runs` healthy machines of groups.
fn somebody_of_drawn(runs: u32) -> u32 {
    (0..runs)
        .filter(|&run| {
            let mut random = Rand64::new(u128::from(run) + 99);
            let jitter = [0.005, 0.01, 0.02, 0.03][run as usize % 4];
            let fabric = Fabric::grouped(Topology::drawn(&mut random), jitter, 1 + run / 4 % 3);
            let (_, found) = fabric.play(0, &mut random);
            if matches!(found.answer, Answer::Named(_)) {
                println!("{run}: {:?} {found:?}", fabric.topology);
            }
            matches!(found.answer, Answer::Named(_))
        })
        .count() as u32
}

#[test]
fn nobody_is_named_on_healthy_machines_of_any_groups() {
    assert!(somebody_of_drawn(120) <= 1);
}

#[test]
#[ignore = "1,000 machines take half a minute"]
fn nobody_is_named_on_a_thousand_healthy_machines_of_any_groups() {
    let somebody = somebody_of_drawn(1000);
    println!("somebody in {somebody} of 1,000");
    assert!(somebody <= 5, "{somebody}");
}

#[test]
fn a_rank_that_is_slow_within_its_group_is_named() {
    for sizes in [&[4, 4][..], &[5, 3], &[4, 4, 4], &[6, 4, 3]] {
        for (within, across) in [(1.0, 0.6), (0.6, 1.0)] {
            let topology = Topology::new(sizes, within, across);
            let found = tally(40, 5, 0, |random| {
                Fabric::grouped(topology.clone(), 0.01, 2).with_slow(1, 0.8, random)
            });
            let place = format!("{sizes:?}, {within} within: {found:?}");
            assert!(found.found >= 36 && found.wrong <= 2, "{place}");
        }
    }
}

/// The share of machines of drawn groups on which the rank that is at 80 % is named.
fn found_of_drawn(runs: u32) -> f64 {
    let found = (0..runs).filter(|&run| {
        let mut random = Rand64::new(u128::from(run) + 4_099);
        let jitter = [0.005, 0.01, 0.02, 0.03][run as usize % 4];
        let grouped = Fabric::grouped(Topology::drawn(&mut random), jitter, 2);
        let fabric = grouped.with_slow(1, 0.8, &mut random);
        let (slow, _) = fabric.slow[0];
        let (_, found) = fabric.play(0, &mut random);
        let is_found = named(&found).0.contains(&slow);
        if !is_found {
            println!("{run}: rank {slow} of {:?}, {jitter}: {found:?}", fabric.topology);
        }
        is_found
    });
    found.count() as f64 / f64::from(runs)
}

#[test]
fn a_slow_rank_is_named_on_machines_of_any_groups() {
    assert!(found_of_drawn(100) >= 0.85);
}

#[test]
#[ignore = "1,000 machines take half a minute"]
fn a_slow_rank_is_named_on_a_thousand_machines_of_any_groups() {
    let share = found_of_drawn(1000);
    println!("named on {share} of 1,000");
    assert!(share >= 0.9, "{share}");
}

/// A world of any kind, with or without a fault.
fn any_world(random: &mut Rand64) -> (Fabric, u32) {
    let below = |random: &mut Rand64, end: u64| random.rand_range(0..end);
    let jitter = [0.005, 0.01, 0.03][below(random, 3) as usize];
    let meetings = 1 + below(random, 3) as u32;
    let ranks = 5 + below(random, 12) as u32;
    let slow = below(random, 3) as usize;
    let plain = Fabric::healthy(ranks, jitter).read_back();
    let fabric = match below(random, 4) {
        0 => Fabric::grouped(Topology::drawn(random), jitter, meetings),
        1 => {
            let grouped = Fabric::grouped(Topology::drawn(random), jitter, meetings);
            grouped.with_slow(1, 0.8, random)
        }
        2 => Fabric { noise: NOISES[below(random, 7) as usize], ..plain },
        _ => Fabric { links: vec![((0, 1), 0.2)], ..plain },
    };
    let fabric = if slow > 0 && fabric.slow.is_empty() && fabric.hosts.len() > 4 {
        fabric.with_slow(slow, 0.7, random)
    } else {
        fabric
    };
    (fabric, 2 + below(random, 9) as u32)
}

/// Whether a group is named whose ranks have only successive numbers in common.
fn names_neighbours(found: &Findings) -> bool {
    let Answer::Named(all) = &found.answer else { return false };
    all.groups.iter().any(|group| group.of == GroupOf::Neighbours)
}

/// Judges worlds again with other numbers of ranks and another order of rows: the same is named.
/// In how many of them the verdict is another, since the search for groups may end elsewhere.
fn names_are_carried_along(seeds: std::ops::Range<u64>) -> usize {
    let other_verdict = |seed: &u64| {
        let seed = *seed;
        let mut random = Rand64::new(u128::from(seed));
        let (fabric, rounds) = any_world(&mut random);
        let (exchanges, found) = fabric.play(rounds, &mut random);
        let ranks = fabric.hosts.len();
        let shuffled = |random: &mut Rand64, count: usize| {
            let mut order: Vec<usize> = (0..count).collect();
            for last in (1..count).rev() {
                order.swap(last, random.rand_range(0..last as u64 + 1) as usize);
            }
            order
        };
        let label = shuffled(&mut random, ranks);
        let to = |rank: u32| label[rank as usize] as u32;
        let rows = shuffled(&mut random, exchanges.len()).into_iter().map(|at| exchanges[at]);
        let rows: Vec<Exchange> =
            rows.map(|row| Exchange { one: to(row.one), other: to(row.other), ..row }).collect();
        let again = judge(&(0..ranks as u32).collect::<Vec<u32>>(), &rows);
        let (were, links) = named(&found);
        let carried: BTreeSet<u32> = were.into_iter().map(to).collect();
        let pair = |(one, other)| (to(one).min(to(other)), to(one).max(to(other)));
        let carried = (carried, links.into_iter().map(pair).collect());
        let again = again.beyond(fizeau_judge::localise::LEAST_EFFECT);
        if [&found, &again].into_iter().any(names_neighbours) {
            // Ranks with successive numbers: another numbering has other neighbours.
            return false;
        }
        assert_eq!(named(&again), carried, "seed {seed}: {found:?}\n{again:?}");
        again.answer.verdict() != found.answer.verdict()
    };
    seeds.filter(other_verdict).count()
}

#[test]
fn other_numbers_of_ranks_and_another_order_of_rows_name_the_same() {
    assert!(names_are_carried_along(0..200) <= 2);
}

#[test]
#[ignore = "10,000 worlds take minutes"]
fn other_numbers_of_ranks_name_the_same_in_ten_thousand_worlds() {
    assert!(names_are_carried_along(0..10_000) <= 100);
}

/// One value for each pair, of which one is far below the others: neither rank is slow with others.
#[test]
fn a_pair_far_below_the_others_is_no_all_clear() {
    for ranks in [5, 6, 8, 12] {
        let slow = (2, ranks - 2);
        let mut random = Rand64::new(8);
        let mut exchanges = Vec::new();
        for round in 0..ranks - 1 + ranks % 2 {
            for (one, other) in plan::round(ranks, round) {
                let is_slow = (one.min(other), one.max(other)) == slow;
                let rate = if is_slow { 0.22 } else { 1.0 } + 0.01 * fabric::normal(&mut random);
                exchanges.push(Exchange { round, one, other, rate: 24e9 * rate });
            }
        }
        let found = judge(&(0..ranks).collect::<Vec<u32>>(), &exchanges);
        let Answer::Undecided(why) = &found.answer else { panic!("{ranks}: {found:?}") };
        assert!(why.contains(&format!("the pair 2-{} was below half", slow.1)), "{why}");
        assert_eq!(found.answer.verdict().exit_code(), 4);
    }
}

/// Rates of real networks have a longer tail to the slow side.
#[test]
fn a_tail_to_the_slow_side_names_nobody_and_hides_nobody() {
    for ranks in [8, 64] {
        for noise in [Noise::SlowTail, Noise::Gamma] {
            let world = || Fabric { noise, ..Fabric::healthy(ranks, 0.02) };
            let healthy = tally(20, 31, 10, |_| world());
            assert!(healthy.wrong <= 3, "{ranks} ranks, {noise:?}: {healthy:?}");
            let slow = tally(20, 32, 10, |random| world().with_slow(1, 0.8, random));
            assert!(slow.found >= 19 && slow.wrong <= 3, "{ranks} ranks, {noise:?}: {slow:?}");
        }
    }
    let detours = tally(20, 33, 10, |_| Fabric {
        detour: (0.25, 0.92),
        ..Fabric::healthy(64, 0.01).read_back()
    });
    assert!(detours.wrong <= 3, "{detours:?}");
}
