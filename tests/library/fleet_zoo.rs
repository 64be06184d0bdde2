//! `fleet drift` and `fleet survey` on the zoo of noises: a few fleets of each row of the tables of
//! docs/appendix/fleet-rates.md. The limits are wider than that page's figures by what so few
//! fleets scatter.

use crate::zoo;

#[path = "../../crates/judge/examples/fleet_zoo/judges.rs"]
mod judges;

use judges::{Fault, World, drifts, surveys, worlds};
use zoo::Between;

const SEED: u64 = 7;

fn is_dips(world: &World) -> bool {
    matches!(world.between, Between::Dip { .. })
}

#[test]
fn drift_names_no_healthy_device_in_any_noise() {
    let all = worlds();
    let named: Vec<String> = { all.iter() }
        .filter_map(|world| {
            let said = drifts(world, Fault::Nothing, 1, SEED);
            (said.healthy > 0).then(|| format!("{}: {said:?}", world.name))
        })
        .collect();
    assert!(named.is_empty(), "{named:?}");
}

/// Eight stores tell nothing of names that are rare: the limit of the page, in 200 stores.
fn names_few_in_two_hundred_stores(is_it: impl Fn(&World) -> bool) {
    for world in worlds().iter().filter(|world| is_it(world)) {
        let said = drifts(world, Fault::Nothing, 200, SEED);
        println!("{}: {} healthy ones in {} stores", world.name, said.healthy, said.fleets);
        assert!(said.healthy <= 20, "{}: {said:?}", world.name);
    }
}

#[test]
#[ignore = "1,400 stores take a minute"]
fn drift_names_few_healthy_devices_whose_repeats_scatter() {
    names_few_in_two_hundred_stores(|world| world.between == Between::Nothing);
}

#[test]
#[ignore = "1,600 stores take a minute"]
fn drift_names_few_healthy_devices_whose_sessions_differ() {
    names_few_in_two_hundred_stores(|world| world.between != Between::Nothing);
}

#[test]
fn drift_finds_a_loss_of_three_least_effects_in_every_noise() {
    for world in worlds() {
        let said = drifts(&world, Fault::Step(3.0), 1, SEED);
        assert!(said.found >= 5, "{}: {said:?}", world.name);
        assert!(said.healthy <= 1, "{}: {said:?}", world.name);
    }
}

#[test]
fn drift_finds_half_a_least_effect_more_though_sessions_differ() {
    for world in worlds().iter().filter(|one| one.between == Between::Bias(0.3)) {
        let said = drifts(world, Fault::Step(1.5), 1, SEED);
        assert!(said.found >= 4, "{}: {said:?}", world.name);
    }
}

#[test]
fn a_survey_of_one_session_fails_no_healthy_device_where_sessions_differ() {
    // A device that something slows by 20 or 30 % for its whole only session is slow in it.
    for world in worlds().iter().filter(|one| !is_dips(one)) {
        let said = surveys(world, Fault::Nothing, 1, 1, SEED);
        assert!(said.healthy <= 1, "{}: {said:?}", world.name);
        let planted = surveys(world, Fault::Step(3.0), 1, 1, SEED);
        assert!(planted.found >= 6, "{}: {planted:?}", world.name);
    }
}

#[test]
fn earlier_sessions_tell_how_sessions_differ() {
    let of = |between| worlds().into_iter().find(|one| one.between == between).expect("a world");
    // With steady sessions in the store the assumed difference of sessions is gone.
    let steady = surveys(&of(Between::Nothing), Fault::Step(1.5), 3, 1, SEED);
    assert!(steady.found >= 7 && steady.healthy == 0, "{steady:?}");
    let biased = surveys(&of(Between::Bias(0.5)), Fault::Nothing, 3, 1, SEED);
    assert_eq!(biased.healthy, 0, "{biased:?}");
}

#[test]
fn drift_finds_a_decay_before_it_is_below_contract() {
    for world in worlds().iter().filter(|one| one.between == Between::Nothing).take(4) {
        let said = drifts(world, Fault::Decay(0.8), 1, SEED);
        assert!(said.found >= 4 && said.healthy == 0, "{}: {said:?}", world.name);
    }
}

/// A session in which a whole node is off hides no decay of one of its devices.
#[test]
fn drift_finds_a_decay_though_sessions_of_whole_nodes_differ() {
    let all = worlds();
    for world in all.iter().filter(|one| matches!(one.shared, judges::Shared::Node)) {
        if is_dips(world) {
            continue;
        }
        let said = drifts(world, Fault::Decay(0.8), 1, SEED);
        assert!(said.found >= 4 && said.healthy <= 1, "{}: {said:?}", world.name);
    }
}

/// The sessions next to a change tell it, where those far from it tell the walk.
#[test]
fn drift_finds_a_change_in_a_walk() {
    for world in worlds().iter().filter(|one| one.between == Between::Walk(0.2)) {
        let said = drifts(world, Fault::Step(1.5), 2, SEED);
        assert!(said.found >= 5 && said.healthy <= 1, "{}: {said:?}", world.name);
    }
}

/// Sessions that differ are no noise of repeats: three of them together find what one finds.
#[test]
fn sessions_taken_together_find_a_loss_though_they_differ() {
    for world in worlds().iter().filter(|one| one.between == Between::Bias(0.5)) {
        let said = surveys(world, Fault::Step(3.0), 3, 1, SEED);
        assert!(said.found >= 7 && said.healthy <= 1, "{}: {said:?}", world.name);
    }
}

/// What is of one device shows beside the other devices of its node, which share what their
/// session is off by.
#[test]
fn a_survey_finds_a_device_beside_its_neighbours_though_sessions_of_nodes_differ() {
    let is_it =
        |one: &&World| one.shared == judges::Shared::Node && one.between == Between::Bias(0.4);
    let all = worlds();
    let world = all.iter().find(is_it).expect("a world");
    let said = surveys(world, Fault::Step(1.5), 1, 3, SEED);
    assert!(said.found >= 8 && said.healthy == 0, "{said:?}");
    let just = surveys(world, Fault::Step(1.0), 1, 3, SEED);
    assert!(just.found <= 2 && just.healthy == 0, "{just:?}");
}

/// Sessions in one of two modes reach less far than a normal law with the same middle half.
#[test]
fn a_survey_finds_half_a_least_effect_more_in_two_modes() {
    for world in worlds().iter().filter(|one| one.noise == zoo::Noise::Modes) {
        let said = surveys(world, Fault::Step(1.5), 1, 3, SEED);
        assert!(said.found >= 7 && said.healthy == 0, "{said:?}");
        let just = surveys(world, Fault::Step(1.0), 1, 3, SEED);
        assert!(just.found <= 3, "{just:?}");
    }
}

/// What falls a little each time is named once it is below contract, too.
#[test]
fn drift_finds_a_decay_that_is_below_contract() {
    for world in worlds().iter().filter(|one| one.between == Between::Nothing).take(4) {
        let said = drifts(world, Fault::Decay(1.5), 1, SEED);
        assert!(said.found >= 5 && said.healthy == 0, "{}: {said:?}", world.name);
    }
}

/// A device that was always lower than others, by less than the least effect, does not decay.
#[test]
fn drift_names_no_device_that_was_low_from_the_beginning() {
    let all = worlds();
    let steady = |one: &&World| matches!(one.between, Between::Nothing | Between::Bias(_));
    for world in all.iter().filter(steady) {
        let said = drifts(world, Fault::Whole(0.8), 1, SEED);
        assert!(said.found == 0 && said.healthy == 0, "{}: {said:?}", world.name);
    }
}
