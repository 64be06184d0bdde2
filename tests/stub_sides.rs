//! Near and far parts of the last cache, on a stub driver whose every second 256 bytes are far.

#[expect(dead_code, reason = "a fake device's part of it is for other tests")]
mod program;

use fizeau::outcome::Outcome;
use program::{Place, say};
use std::{fs, os::unix::fs::symlink};

const SUITE: &str = r#"
name = "sides"
description = "Parts of the last cache"

[measure]
samples_min = 10
samples_max = 12
noise_max = 0.01
time_min = 0.0
time_max = 0.005
warmup_max = 0.001
sample_min = 0.0001
deadline = 20.0

[latency]
points_per_octave = 1
sides = ["near", "far"]
"#;

#[test]
fn a_chain_goes_through_lines_of_one_side() {
    let place = Place::new();
    let test = std::env::current_exe().expect("a test knows where it is");
    fs::create_dir(place.path("lib")).expect("a folder");
    for name in ["libcuda.so.1", "libnvidia-ml.so.1", "libnvrtc.so.13"] {
        let library = test.with_file_name("libfizeau_stub_driver.so");
        symlink(library, place.path("lib").join(name)).expect("a link");
    }
    fs::write(place.path("sides.toml"), SUITE).expect("the suite is written");
    let said = say(place
        .fizeau(["run", "--suite", "sides.toml", "--out", "out", "latency/2MiB-*"])
        .env("FIZEAU_LIBRARY_PATH", place.path("lib"))
        .env("FIZEAU_STUB", "")
        .env("FIZEAU_STUB_LOG", place.path("log"))
        .env("XDG_CACHE_HOME", place.path("cache")));
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    let record = place.record("out");
    let median = |id: &str| {
        let found = record.outcomes.iter().find(|outcome| outcome.case().to_string() == id);
        match found {
            Some(Outcome::Measured(measurement)) => measurement.summary.median.0 * 1e9,
            other => panic!("{id}: {other:?}"),
        }
    };
    let (near, far) = (median("latency/2MiB-near/portable"), median("latency/2MiB-far/portable"));
    assert!((near - 200.0).abs() < 20.0 && (far - 300.0).abs() < 20.0, "{near} {far}");
    let log = fs::read_to_string(place.path("log")).expect("a log");
    let shape = "launch latency_probe grid=[1, 1, 1] block=[32, 1, 1] shared=0 params=";
    let probe = log.lines().find_map(|line| line.strip_prefix(shape)).expect("it is probed");
    assert_eq!(probe.len(), 2 * 32);
    let shape = "launch latency_side grid=[1, 1, 1] block=[32, 1, 1] shared=0 params=";
    let side = log.lines().find_map(|line| line.strip_prefix(shape)).expect("it is walked");
    assert_eq!(side.len(), 2 * 12);
}
