//! `fizeau fleet` as a program: planted fleets.

use crate::program::{Place, say};
use serde_json::Value;
use std::fs;

/// Fleets to plant.
pub const RECIPE: &str = include_str!("../../examples/fleet/recipe.toml");

#[test]
fn a_planted_fleet_is_scored_and_the_same_seed_gives_the_same() {
    let place = Place::new();
    fs::write(place.path("fleet.toml"), RECIPE).expect("written");
    let simulate = |more: &[&str]| {
        let args = ["fleet", "simulate", "fleet.toml", "--gpus", "400", "--fleets", "2"];
        say(&mut place.fizeau(args.iter().chain(more)))
    };
    let table = simulate(&[]);
    assert_eq!(table.code, Some(0), "{}", table.err);
    assert!(table.out.starts_with("2 fleets of 400 GPUs, 6 metrics"), "{}", table.out);
    assert_eq!(table.out.lines().filter(|line| line.starts_with("| ")).count(), 12);
    assert_eq!(simulate(&[]).out, table.out);
    assert_ne!(simulate(&["--seed", "9"]).out, table.out);
    let json = simulate(&["--json", "--set", "faulty=0"]);
    let scores: Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(scores["rules"]["**fleet**, after the retest"]["failed"], 0, "{}", json.out);
}

#[test]
fn a_recipe_that_is_wrong_is_a_wrong_command_line() {
    let place = Place::new();
    fs::write(place.path("fleet.toml"), RECIPE).expect("written");
    let simulate = |more: &[&str]| {
        let said = say(&mut place.fizeau(["fleet", "simulate"].iter().chain(more)));
        (said.code, said.err)
    };
    let (code, words) = simulate(&["fleet.toml", "--set", "faulty=2"]);
    assert!(code == Some(2) && words.contains("faulty is 2: it has to be from 0 to 1"), "{words}");
    let (code, words) = simulate(&["fleet.toml", "--set", "noise.shape=round"]);
    assert!(code == Some(2) && words.contains("round"), "{words}");
    let (code, words) = simulate(&["fleet.toml", "--set", "none.at.all=1"]);
    assert!(code == Some(2) && words.contains("no table \"none\""), "{words}");
    let (code, words) = simulate(&["fleet.toml", "--gpus", "10000000"]);
    assert!(code == Some(2) && words.contains("--gpus 10000000"), "{words}");
    let (code, words) = simulate(&["missing.toml"]);
    assert!(code == Some(3) && words.contains("missing.toml"), "{words}");
}
