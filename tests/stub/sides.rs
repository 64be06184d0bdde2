//! Near and far parts of the last cache, on a stub driver whose every second 256 bytes are far.

use super::machine::{Machine, NVIDIA};
use fizeau_domain::outcome::Outcome;

const SUITE: &str = r#"
[latency]
points_per_octave = 1
sides = ["near", "far"]
"#;

#[test]
fn a_chain_goes_through_lines_of_one_side() {
    let machine = Machine::with(&NVIDIA);
    machine.suite(SUITE);
    machine.run_own("", &["latency/2MiB-*"]);
    let record = machine.place.record("out");
    let median = |id: &str| {
        let found = record.outcomes.iter().find(|outcome| outcome.case().to_string() == id);
        match found {
            Some(Outcome::Measured(measurement)) => measurement.summary.median.0 * 1e9,
            other => panic!("{id}: {other:?}"),
        }
    };
    let (near, far) = (median("latency/2MiB-near/portable"), median("latency/2MiB-far/portable"));
    assert!((near - 200.0).abs() < 20.0 && (far - 300.0).abs() < 20.0, "{near} {far}");
    let log = machine.log();
    let shape = "launch latency_probe grid=[1, 1, 1] block=[32, 1, 1] shared=0 params=";
    let probe = log.iter().find_map(|line| line.strip_prefix(shape)).expect("it is probed");
    assert_eq!(probe.len(), 2 * 32);
    let shape = "launch latency_side grid=[1, 1, 1] block=[32, 1, 1] shared=0 params=";
    let side = log.iter().find_map(|line| line.strip_prefix(shape)).expect("it is walked");
    assert_eq!(side.len(), 2 * 12);
}
