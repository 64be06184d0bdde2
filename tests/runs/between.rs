//! `fizeau accept` on several nodes that a launcher has started together: the rounds of
//! `fizeau localise` name the slow one, which fails, and the others pass.

use crate::{
    gpus::{Machine, ends},
    program::say,
};
use serde_json::Value;
use std::{fs, path::Path};

const SUITE: &str = r#"
name = "own"
description = "What one test measures"

[measure]
samples_min = 3
samples_max = 4
noise_max = 1.0
time_min = 0.0
time_max = 0.01
warmup_max = 0.0001
sample_min = 0.00001
deadline = 60.0

[stream]
memory = []
scaling = []
sweep = ["copy"]
sweep_units = ["all"]
sweep_points_per_octave = 1
"#;

const PROFILE: &str = r#"
name = "stub"
description = "one check of memory"
kind = "derived"
suite = "own.toml"

[expected]
held_clocks = true

[[check]]
name = "memory copy"
cases = ["stream/copy/2MiB/*"]
resource = "memory"
least_effect = 0.02
"#;

/// What is measured besides ends with its first round.
const ARGS: [&str; 14] = [
    "accept",
    "--root",
    "root",
    "--profile",
    "profile.toml",
    "--device",
    "cuda:0",
    "--level",
    "full",
    "--budget",
    "1s",
    "--exchange",
    "64KiB",
    "--out",
];

const CHECK: &str = "localise between nodes";

fn machine() -> Machine {
    let machine = Machine::new();
    fs::write(machine.place.path("own.toml"), SUITE).expect("written");
    fs::write(machine.place.path("profile.toml"), PROFILE).expect("written");
    fs::create_dir(machine.place.path("root")).expect("made");
    machine
}

fn verdict(out: &Path) -> Value {
    let text = fs::read_to_string(out.join("verdict.json")).expect("a verdict");
    serde_json::from_str(&text).expect("JSON")
}

fn row(verdict: &Value) -> Option<&Value> {
    verdict["checks"].as_array().expect("checks").iter().find(|one| one["check"] == CHECK)
}

#[test]
fn the_slow_node_of_four_fails_and_the_others_name_it() {
    let machine = machine();
    let args = [&ARGS[..], &["out"]].concat();
    let start = |rank: u32| {
        let mut command = machine.rank_of(&args, [rank, 4], "devices=4", "2:slow=8");
        command.spawn().expect("it starts")
    };
    for (rank, said) in ends((0..4).map(start).collect()).into_iter().enumerate() {
        let out = machine.place.path(&format!("out/rank{rank}"));
        let verdict = verdict(&out);
        let row = row(&verdict).unwrap_or_else(|| panic!("{verdict:#} {}", said.err));
        let words = row["words"].as_str().expect("words");
        let (expected, code) = if rank == 2 { ("fail", 1) } else { ("pass", 4) };
        assert_eq!((&row["verdict"], said.code), (&expected.into(), Some(code)), "{row}");
        assert!(words.contains("rank 2: ") && row["stub"] == true, "{row}");
        // All ranks are on one host: what is slow is no network interface.
        let cause = if rank == 2 { "peer_link".into() } else { Value::Null };
        assert_eq!(row["cause"], cause, "{row}");
        // Decided again from the rates that were kept.
        let count = verdict["checks"].as_array().map_or(0, Vec::len);
        let place = format!("out/rank{rank}");
        let again = say(&mut machine.fizeau("", "", &["verify", &place]));
        let all = format!("{count} checks decided again, all with the same result");
        assert!(again.out.contains(&all), "{}{}", again.out, again.err);
    }
    // One that is continued alone judges what was measured together.
    let args = [&ARGS[..ARGS.len() - 1], &["--resume", "out"]].concat();
    say(&mut machine.rank_of(&args, [2, 4], "devices=4", "")).ended(1);
    let resumed = verdict(&machine.place.path("out/rank2"));
    assert_eq!(row(&resumed).map(|row| &row["verdict"]), Some(&"fail".into()), "{resumed}");
}

#[test]
fn with_too_few_ranks_it_is_not_applicable_and_never_passes() {
    for (world, why) in [(None, "no launcher has started ranks"), (Some([0, 2]), "there are 2")] {
        let machine = machine();
        let args = [&ARGS[..], &["out"]].concat();
        let mut command = match world {
            Some(place) => machine.rank_of(&args, place, "devices=4", ""),
            None => machine.fizeau("devices=4", "", &args),
        };
        let said = say(&mut command);
        let out = machine.place.path(if world.is_some() { "out/rank0" } else { "out" });
        let verdict = verdict(&out);
        assert!(row(&verdict).is_none(), "{verdict:#}");
        let notes = verdict["notes"].as_array().expect("notes").iter();
        let notes: Vec<&str> = notes.filter_map(Value::as_str).collect();
        let is_it = |note: &&str| note.starts_with(CHECK) && note.contains(why);
        assert!(notes.iter().any(is_it), "{notes:?} {}", said.err);
    }
}
