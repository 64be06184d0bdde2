//! `fizeau accept` on a node of stub GPUs: a slow device is found and named, and every line says
//! stub.

use super::machine::{COPIES, Machine, NVIDIA};
use crate::program::{Said, say};
use serde_json::Value;
use std::fs;

/// Caches of a stub are small: this is of its memory.
const PROFILE: &str = r#"
name = "stub"
description = "one check of memory"
kind = "derived"
suite = "own.toml"

[expected]
gpus = 4
held_clocks = true

[[check]]
name = "memory copy"
cases = ["stream/copy/2MiB/*"]
resource = "memory"
least_effect = 0.02
"#;

fn accept(script: &str, more: &[&str]) -> (Said, Option<Value>) {
    let machine = Machine::with(&NVIDIA);
    machine.suite(COPIES);
    fs::write(machine.place.path("profile.toml"), PROFILE).expect("written");
    fs::create_dir(machine.place.path("root")).expect("made");
    let args = ["accept", "--root", "root", "--profile", "profile.toml", "--out", "out"];
    let devices = ["--device", "cuda:0", "--device", "cuda:1", "--device", "cuda:2", "--device"];
    let all: Vec<&str> =
        args.iter().chain(&devices).chain(&["cuda:3"]).chain(more).copied().collect();
    let said = say(&mut machine.fizeau(script, &all));
    if machine.place.path("out/manifest.json").exists() {
        // Whatever was judged of stubs follows from their records, and says that they are stubs.
        let verified = say(&mut machine.fizeau("", &["verify", "out"]));
        assert_eq!(verified.code, Some(4), "{}{}", verified.out, verified.err);
        assert!(verified.out.contains("checks decided again"), "{}", verified.out);
        assert!(verified.out.lines().all(|line| line.ends_with("(stub)")), "{}", verified.out);
    }
    let text = fs::read_to_string(machine.place.path("out/verdict.json")).ok();
    (said, text.map(|text| serde_json::from_str(&text).expect("JSON")))
}

#[test]
fn a_slow_device_is_found_among_its_peers_and_named() {
    let script = "devices=4,gpu2.hbm=0.83,noise=0.002,seed=3";
    let (said, verdict) = accept(script, &["--budget", "10min"]);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert!(said.out.lines().all(|line| line.ends_with("(stub)")), "{}", said.out);
    let verdict = verdict.expect("a verdict");
    let checks = verdict["checks"].as_array().expect("checks");
    let of = |device: &str| {
        checks
            .iter()
            .find(|one| one["check"] == "memory copy" && one["device"] == device)
            .unwrap_or_else(|| panic!("{device}: {verdict}"))
    };
    let slow = of("cuda:2");
    assert_eq!((&slow["verdict"], &slow["cause"]), (&"fail".into(), &"memory_stack".into()));
    assert_eq!((&slow["stub"], &slow["value"]), (&true.into(), &Value::Null));
    assert!(slow["repeats"].as_u64() >= Some(12), "it was not measured anew: {slow}");
    for device in ["cuda:0", "cuda:1", "cuda:3"] {
        assert_eq!(of(device)["verdict"], "inconclusive", "peers pass nobody");
    }
    assert_eq!(verdict["action"], "RESET_GPU");
}

#[test]
fn a_device_that_is_missing_or_half_connected_fails_at_rest() {
    let (said, _) = accept("devices=4,lanes=8", &["--level", "passive"]);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert!(said.out.contains("x8 of x16"), "{}", said.out);
    assert!(said.out.lines().all(|line| line.ends_with("(stub)")), "{}", said.out);
    let (said, _) = accept("devices=4", &["--level", "passive"]);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
}

#[test]
fn what_other_jobs_do_fails_nothing_where_nodes_are_shared() {
    let at_rest = |script: &str, more: &[&str]| {
        let args = ["--level", "passive", "--one-line"];
        accept(script, &args.iter().chain(more).copied().collect::<Vec<_>>()).0
    };
    let said = at_rest("devices=4,processes=2", &[]);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert!(said.out.starts_with("FAIL cuda:0 processes: 2 processes use it"), "{}", said.out);
    let said = at_rest("devices=4,processes=2", &["--shared"]);
    assert_eq!((said.code, &said.out[..5]), (Some(0), "PASS "), "{}", said.err);
    let said = at_rest("devices=4,processes=2,lanes=8", &["--shared"]);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert!(said.out.ends_with("; 4 fail (stub)\n"), "{}", said.out);
    let said = at_rest("devices=4,ecc=0", &[]);
    assert_eq!(said.code, Some(4), "{}{}", said.out, said.err);
    assert!(said.out.starts_with("INCONCLUSIVE cuda:0 ECC: off"), "{}", said.out);
}

#[test]
fn serial_numbers_and_uuids_of_gpus_are_kept_and_go_where_they_are_redacted() {
    let machine = Machine::with(&NVIDIA);
    fs::create_dir_all(machine.place.path("root/proc/sys/kernel")).expect("made");
    let name = machine.place.path("root/proc/sys/kernel/hostname");
    fs::write(name, "rack-7_node\n").expect("written");
    let bundle = |out: &str, more: &[&str]| {
        let args = ["accept", "--root", "root", "--level", "passive", "--out", out];
        let all: Vec<&str> = args.iter().chain(more).copied().collect();
        let mut command = machine.fizeau("devices=2,serial=ZX81-9b7f", &all);
        say(command.env("FIZEAU_REDACT_KEY", "0123456789abcdef"));
        let mut text = String::new();
        for entry in fs::read_dir(machine.place.path(out)).expect("a bundle").flatten() {
            text += &fs::read_to_string(entry.path()).unwrap_or_default();
        }
        text.to_lowercase()
    };
    let whole = bundle("whole", &[]);
    let redacted = bundle("redacted", &["--redact", "names,serials"]);
    for known in ["rack-7_node", "gpu-zx81-9b7f-0", "zx81-9b7f1"] {
        assert!(whole.contains(known), "{known}: {whole}");
        assert!(!redacted.contains(known), "{known}: {redacted}");
    }
    assert!(!redacted.contains("zx81") && redacted.contains("serial_"), "{redacted}");
    // Places on the bus say nothing of who it is.
    assert!(redacted.contains("0000:01:00.0"), "{redacted}");
}
