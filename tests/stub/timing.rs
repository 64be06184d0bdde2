//! What keeps times honest on a GPU: the gate, and the eviction of caches.

use super::machine::{Machine, NVIDIA};
use crate::program::say;
use fizeau_domain::outcome::Outcome;
use fizeau_record::Record;

const LAUNCHES: &str = r#"
[launch]
ways = ["queued"]
graph = []
"#;

/// A run of what `own.toml` has, whatever comes of it.
fn run(machine: &Machine, script: &str) -> Record {
    say(&mut machine.fizeau(script, &["run", "--suite", "own.toml", "--out", "out"]));
    let record = machine.place.record("out");
    assert!(!record.outcomes.is_empty());
    record
}

#[test]
fn a_sample_whose_gate_gave_up_is_taken_again_and_not_for_ever() {
    for script in ["late=4@1", "late=4@5"] {
        let machine = Machine::with(&NVIDIA);
        machine.suite(LAUNCHES);
        let outcomes = run(&machine, script).outcomes;
        assert!(outcomes.iter().all(|one| matches!(one, Outcome::Measured(_))), "{outcomes:?}");
    }
    let machine = Machine::with(&NVIDIA);
    machine.suite(LAUNCHES);
    for outcome in run(&machine, "late=1000000@5").outcomes {
        let Outcome::Failed { error, .. } = &outcome else { panic!("{outcome:?}") };
        assert!(error.starts_with("the host was too slow to enqueue"), "{error}");
    }
}

/// The stub's driver waits for copies of pageable memory, as NVIDIA's does: a gate before one would
/// give up each time, and no case of it would be measured.
#[test]
fn no_gate_holds_what_the_host_waits_for() {
    let machine = Machine::with(&NVIDIA);
    machine.suite(
        r#"
[transfer]
transfers = ["host_to_device_memcpy", "device_to_host_memcpy"]
sizes = [64]
host = ["pageable"]
"#,
    );
    let ended = machine.run_own("", &[]);
    assert_eq!(ended.len(), 2, "{ended:?}");
    assert!(ended.iter().all(|(_, ended)| ended.is_ok()), "{ended:?}");
}

/// Only eviction compares anything in a run of attention, whose results the host checks.
#[test]
fn evicting_caches_ends_with_reading_what_is_clean() {
    let machine = Machine::with(&NVIDIA);
    machine.suite(
        r#"
[[attention]]
attention = "prefill"
dtype = "f32"
batch = 1
heads = 1
kv_heads = 1
queries = 3
keys = 5
dim_qk = 8
dim_v = 8
mask = "full"
"#,
    );
    assert!(machine.run_own("", &[]).iter().all(|(_, ended)| ended.is_ok()));
    let log = machine.log();
    let launched =
        |entry: &str| log.iter().any(|line| line.starts_with(&format!("launch {entry} ")));
    assert!(launched("util_compare"), "{log:#?}");
    assert!(!launched("util_fill"), "{log:#?}");
}

/// What laying a chain left in caches is evicted, and the whole chain of 32 cells is walked twice,
/// before anything of it is timed.
#[test]
fn a_chain_is_evicted_and_walked_before_it_is_timed() {
    let machine = Machine::with(&NVIDIA);
    machine.suite("[latency]\npoints_per_octave = 1\n");
    let ended = machine.run_own("", &["latency/4KiB/portable"]);
    assert!(ended.len() == 1 && ended[0].1.is_ok(), "{ended:?}");
    let log = machine.log();
    let launches = |entry: &str| {
        let start = format!("launch {entry} ");
        let named = log.iter().enumerate().filter(move |(_, line)| line.starts_with(&start));
        named.map(|(place, line)| (place, line.as_str())).collect::<Vec<_>>()
    };
    let (evicted, walked) = (launches("util_compare"), launches("latency_chase"));
    // Nothing else of a chain is compared on the device; how many loads comes last.
    let whole = walked.first().filter(|(_, line)| line.ends_with("40000000"));
    let first = evicted.last().zip(whole).is_some_and(|(evicted, whole)| evicted.0 < whole.0);
    assert!(first, "{log:#?}");
}
