//! `fizeau discover` on a stub: what the driver says of it, and no number that was measured.

use super::machine::{Machine, NVIDIA};
use crate::program::say;
use std::fs;

/// Few sizes: a stub runs kernels on this machine.
const AXES: &str = r#"
[compute]
dtypes = ["f32"]

[stream]
memory = []
scaling = []
sweep = ["read"]
sweep_units = ["all"]
sweep_points_per_octave = 1

[instruction]
instructions = ["fma", "integer_add", "exp", "shuffle", "shared_load", "matrix"]
dtypes = ["f32", "bf16"]

[launch]
ways = ["queued"]
graph = []
"#;

#[test]
fn a_discovery_of_a_stub_says_so_on_every_line() {
    let machine = Machine::with(&NVIDIA);
    machine.suite(AXES);
    let args = ["discover", "--suite", "own.toml", "--out", "out", "--draft", "drafts"];
    let said = say(&mut machine.fizeau("units=1", &args)).clean();
    // Tables hold words, cases and the word `stub`; the rest of a row is nothing.
    let tables: Vec<&str> =
        said.out.lines().filter(|line| line.contains("launch/") || line.contains("f32")).collect();
    assert!(tables.len() >= 2, "{}", said.out);
    assert!(tables.iter().all(|line| line.contains("stub")), "{}", said.out);
    assert!(said.out.contains("this is a stub driver for tests"), "{}", said.out);
    // Instructions on 32-bit words have no type.
    for row in ["fma f32 portable", "exp f32", "integer_add – portable", "matrix bf16 sm80_mma"] {
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.out.lines().any(|line| words(line).starts_with(row)), "{row}: {}", said.out);
    }
    let draft = fs::read_to_string(machine.place.path("drafts/parts/h200-sxm.toml")).expect("it");
    let mut lines = draft.lines().filter(|line| !line.is_empty());
    assert!(lines.all(|line| line.ends_with("# stub")), "{draft}");
    // The record is one as any other, and tells the same again.
    say(&mut machine.fizeau("units=1", &["report", "out", "--summary"])).ended(0);
    let again = say(&mut machine.fizeau("units=1", &["discover", "--from", "out"])).ended(0);
    assert!(said.out.starts_with(again.out.trim_end()), "{}\n{}", said.out, again.out);
    // The catalogue takes the draft.
    say(&mut machine.fizeau("units=1", &["--data", "drafts", "devices"])).clean();
}
