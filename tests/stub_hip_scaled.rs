//! Products of elements that share scales on a stub of AMD's driver: the program's real way, with
//! no GPU.

#[expect(dead_code, reason = "a fake device's part of it is for other tests")]
mod program;

use fizeau::outcome::Outcome;
use program::{Place, say};
use std::{fs, os::unix::fs::symlink, process::Command};

const SUITE: &str = r#"
name = "scaled"
description = "Products of elements that share scales"

[measure]
samples_min = 10
samples_max = 12
noise_max = 0.01
time_min = 0.0
time_max = 0.005
warmup_max = 0.001
sample_min = 0.0001
deadline = 20.0

[gemm]
dtypes = ["mxfp8", "mxfp4"]
shapes = [[64, 48, 96], [5, 16, 160]]
"#;

fn place() -> Place {
    let place = Place::new();
    let test = std::env::current_exe().expect("a test knows where it is");
    for name in ["libamdhip64.so.7", "libhiprtc.so.7"] {
        let stub = test.with_file_name("libfizeau_stub_driver.so");
        symlink(stub, place.path(name)).expect("a link");
    }
    fs::write(place.path("scaled.toml"), SUITE).expect("the suite is written");
    place
}

fn fizeau(place: &Place, script: &str, args: &[&str]) -> Command {
    let mut command = place.fizeau(args);
    command.env("FIZEAU_STUB", script).env("FIZEAU_STUB_LOG", place.path("log"));
    command.env("XDG_CACHE_HOME", place.path("cache"));
    command
}

#[test]
fn elements_that_share_scales_are_multiplied_by_matrix_units_of_cdna_4() {
    let place = place();
    let run = ["run", "--suite", "scaled.toml", "--out", "out", "gemm/*/*/cdna4_mfma"];
    let said = say(&mut fizeau(&place, "gfx=gfx950,units=6", &run));
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    let record = place.record("out");
    assert_eq!(record.outcomes.iter().filter_map(Outcome::measured).count(), 4);
    let log = fs::read_to_string(place.path("log")).expect("a log");
    for entry in ["gemm_mxfp8_cdna4", "gemm_mxfp4_cdna4"] {
        let start = format!("launch {entry} grid=[6, 1, 1] block=[512, 1, 1] shared=0 params=");
        let launch = log.lines().find_map(|line| line.strip_prefix(&start)).expect("a launch");
        // Three operands, three lengths, a type, and where both operands' scales stand.
        let words: Vec<u64> = (0..7)
            .map(|at| u64::from_str_radix(&launch[16 * at..16 * at + 16], 16).expect("digits"))
            .map(u64::swap_bytes)
            .collect();
        assert_eq!(launch.len(), 2 * 56, "{launch}");
        assert!(words[5] != 0 && words[6] != 0 && words[5].is_multiple_of(256), "{words:x?}");
    }
}

#[test]
fn elsewhere_the_portable_kernel_multiplies_them() {
    let place = place();
    for gfx in ["gfx90a", "gfx942", "gfx1100", "gfx1201"] {
        let list = ["list", "--suite", "scaled.toml"];
        let said = say(&mut fizeau(&place, &format!("gfx={gfx}"), &list));
        assert_eq!(said.code, Some(0), "{}", said.err);
        assert!(said.out.contains("gemm/mxfp4/64x48x96/portable"), "{}", said.out);
        assert!(!said.out.contains("cdna4"), "{}", said.out);
    }
}
