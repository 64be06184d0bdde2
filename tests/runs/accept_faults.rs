//! What is left of an acceptance whose disk becomes full: the verdicts so far, and a way to go on.

use super::{
    evidence::{all_follow, verify},
    small_node::place,
};
use crate::{program::say, skipped};
use serde_json::Value;
use std::process::Command;

/// Runs the program on a disk of its own that is filled as soon as the second round has begun, and
/// copies what is left out of it, since the disk goes away with the program.
const FILLED: &str = r#"
mkdir disk && mount -t tmpfs -o size=8m none disk && cp -r *.toml root disk && cd disk || exit 99
"$@" & pid=$!
for _ in $(seq 2000); do [ -e out/rounds/0002-host ] && break; sleep 0.01; done
cat /dev/zero > fill 2> errors
wait $pid; code=$?
cp -r out ../out
exit $code
"#;

#[test]
fn a_full_disk_keeps_the_verdicts_so_far_and_it_can_go_on() {
    let probe = Command::new("unshare").args(["--mount", "--map-root-user", "true"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        return skipped::because("mount", "this system lets nobody mount a small disk for a test");
    }
    let place = place();
    let args =
        ["accept", "--root", "root", "--profile", "profile.toml", "--device", "host", "--out"];
    let accept = place.fizeau(args.iter().chain(&["out"]));
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", FILLED, "sh"]);
    command.arg(accept.get_program()).args(accept.get_args()).current_dir(place.path(""));
    for (name, value) in accept.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let said = say(&mut command).ended(3);
    assert!(said.err.contains("the disk is full"), "{}", said.err);
    let verdict = || -> Value { place.json("out/verdict.json") };
    let kept = verdict();
    assert_eq!((&kept["complete"], &kept["verdict"]), (&false.into(), &"inconclusive".into()));
    let product = |verdict: &Value| {
        let checks = verdict["checks"].as_array().expect("checks");
        checks.iter().find(|one| one["check"] == "product").cloned().unwrap_or_default()
    };
    assert_eq!(product(&kept)["verdict"], "inconclusive", "{kept}");
    let resume = ["accept", "--root", "root", "--profile", "profile.toml", "--device", "host"];
    say(&mut place.fizeau(resume.iter().chain(&["--resume", "out"]))).ended(4);
    let whole = verdict();
    assert_eq!(whole["complete"], true);
    all_follow(&place, &verify(&place, &[]));
    let product = product(&whole);
    // Repeats that other tests on this machine disturb count for nothing.
    assert!(product["cause"] == "busy_host" || product["repeats"].as_u64() >= Some(5), "{whole}");
}
