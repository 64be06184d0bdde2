//! `scripts/gpu.sh` on stub drivers: its whole way, ended and gone on with, without a figure.

use super::machine::{AMD, Machine, NVIDIA};
use crate::{
    program::{Said, say},
    skipped,
};
use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, process::Command};

/// Whether there is a python3; a test without one is skipped.
pub fn python_is_missing() -> bool {
    let missing = Command::new("python3").arg("--version").output().is_err();
    if missing {
        skipped::because("python3", "no python3");
    }
    missing
}

/// `scripts/gpu.sh` with arguments on this machine, with a driver's script.
pub fn first_day(machine: &Machine, driver: &str, arguments: &[&str]) -> Said {
    say(command(machine, driver, arguments).stdin(std::process::Stdio::null()))
}

fn command(machine: &Machine, driver: &str, arguments: &[&str]) -> Command {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/gpu.sh");
    let command = machine.fizeau(driver, &[]);
    let program = command.get_program().to_owned();
    let mut shell = Command::new("bash");
    shell.arg(script).args(arguments);
    let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    shell.envs(variables).env("FIZEAU", program).env("PYTHONDONTWRITEBYTECODE", "1");
    shell.env("WORK", machine.place.path("work")).env("OUT", machine.place.path("files"));
    let path = std::env::var("PATH").unwrap_or_default();
    let tools = machine.place.path("tools");
    shell.env("PATH", format!("{}:{path}", tools.display())).env_remove("FIZEAU_DEVICE");
    shell
}

/// What it left where files are fetched from.
fn files(machine: &Machine) -> Vec<String> {
    let entries = fs::read_dir(machine.place.path("files")).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn figures_go_their_way_and_show_no_number_of_a_stub() {
    if python_is_missing() {
        return;
    }
    let machine = Machine::with(&AMD);
    // One of AMD's tools is there, and says something.
    let tool = machine.place.path("tools/TransferBench");
    fs::create_dir(machine.place.path("tools")).expect("a folder");
    fs::write(&tool, "#!/bin/sh\necho \"asked for $*\"\n").expect("the tool");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).expect("it can be run");
    let said = first_day(&machine, "gfx=gfx942", &["figures", "launch/*"]);
    assert_eq!(said.code, Some(0), "{} {}", said.out, said.err);
    assert_eq!(files(&machine), ["figures.md", "figures.tar.gz"]);
    let table = fs::read_to_string(machine.place.path("files/figures.md")).expect("a table");
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| launch/")).collect();
    assert!(rows.len() == 3 && rows.iter().all(|row| row.contains(" stub ")), "{table}");
    assert!(table.contains("rvs: not found") && !table.contains("TransferBench"), "{table}");
    let kept = machine.place.path("work/figures-1/tool-TransferBench.txt");
    assert_eq!(fs::read_to_string(kept).expect("what it said"), "asked for p2p 256M\n");
}

#[test]
fn without_a_driver_nothing_is_claimed() {
    let machine = Machine::with(&[]);
    let said = first_day(&machine, "", &["verify"]);
    assert_eq!((said.code, said.out.as_str()), (Some(3), ""), "{}", said.err);
    assert!(said.err.contains("nothing was run") && files(&machine).is_empty(), "{}", said.err);
}

/// The record of a pass of the first verification.
fn record(machine: &Machine, pass: u32) -> PathBuf {
    machine.place.path(&format!("work/verify-1/gpu-verify-{pass}/run/record.jsonl"))
}

#[test]
fn a_verification_that_was_killed_goes_on_where_it_stopped() {
    if python_is_missing() {
        return;
    }
    let machine = Machine::with(&NVIDIA);
    let verify = || first_day(&machine, "", &["verify", "launch/*", "latency/4KiB/*"]);
    let said = verify();
    assert_eq!(said.code, Some(0), "{} {}", said.out, said.err);
    assert!(said.out.contains("(stub)") && said.out.contains(" 0 not reached"), "{}", said.out);
    assert_eq!(files(&machine), ["verify.md", "verify.tar.gz"]);
    // As `kill -9` leaves it: in the middle of a line, and nobody has said how it ended.
    let text = fs::read_to_string(record(&machine, 1)).expect("a record");
    let whole: Vec<&str> = text.lines().filter(|line| line.contains("\"outcome\"")).collect();
    assert_eq!(whole.len(), 5, "{text}");
    let third = text.find(whole[2]).expect("the third outcome") + 100;
    fs::write(record(&machine, 1), &text[..third]).expect("it is cut");
    for left in ["finished", "gpu-verify-1/exit"] {
        fs::remove_file(machine.place.path("work/verify-1").join(left)).expect(left);
    }
    let said = verify();
    assert_eq!(said.code, Some(0), "{} {}", said.out, said.err);
    assert!(said.out.contains("going on with"), "{}", said.out);
    assert!(said.out.contains("5 cases planned: 5 measured"), "{}", said.out);
    let text = fs::read_to_string(record(&machine, 2)).expect("a record of what was left");
    assert_eq!(text.matches("\"line\":\"outcome\"").count(), 3, "{text}");
    // What has come to its end is not gone on with.
    assert!(!verify().out.contains("going on with"));
}

#[test]
fn a_case_that_breaks_the_device_costs_no_other_its_outcome() {
    if python_is_missing() {
        return;
    }
    let machine = Machine::with(&NVIDIA);
    // An illegal address at each process's first launch of a kernel by this function.
    let said = first_day(
        &machine,
        "cuLaunchKernelEx=700",
        &["verify", "launch/queued/*", "latency/4KiB/*"],
    );
    assert_eq!(said.code, Some(1), "{} {}", said.out, said.err);
    let text = fs::read_to_string(machine.place.path("files/verify.md")).expect("a summary");
    assert!(text.contains("2 cases planned: 0 measured, 0 skipped, 2 failed"), "{text}");
    assert_eq!(text.matches("- failed: ").count(), 2, "{text}");
    assert!(!text.contains("nothing more can run in this process"), "{text}");
}
