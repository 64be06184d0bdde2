//! A ladder of power limits and clocks on a stub GPU, whose limits outlive the process that set
//! them as a driver's do: what was set is put back, however the program ends. And a claim that is
//! run on a stub: nothing is confirmed by one.

use super::machine::{Machine, NVIDIA, assert_shows_no_number};
use crate::{
    program::{self, said, say},
    skipped,
};
use serde_json::Value;
use std::{
    fs,
    process::Command,
    thread,
    time::{Duration, Instant},
};

const OPERATIONS: &str = r#"
[power]
caps = [1.0, 0.5]
clocks = [0.5]

[compute]
dtypes = ["f32"]
"#;

/// Milliwatts and locked MHz of the device, as the stub's driver keeps them.
fn limits(machine: &Machine) -> String {
    fs::read_to_string(machine.place.path("limits")).unwrap_or_default().trim().to_owned()
}

/// As the driver has it where nobody has set anything, or all was put back.
const FREE: [&str; 2] = ["", "0 2000 0"];

fn run(machine: &Machine, script: &str, more: &[&str]) -> Command {
    let args = ["run", "--suite", "own.toml", "--out", "out", "compute/f32/*/vector"];
    let mut command = machine.fizeau(script, &[&args[..], more].concat());
    command.env("FIZEAU_STUB_LIMITS", machine.place.path("limits"));
    command
}

fn machine() -> Option<Machine> {
    if !rustix::process::geteuid().is_root() {
        skipped::because("root", "limits are set by root alone");
        return None;
    }
    let machine = Machine::with(&NVIDIA);
    machine.suite(OPERATIONS);
    Some(machine)
}

#[test]
fn speed_and_energy_follow_the_limits_which_are_put_back() {
    let Some(machine) = machine() else { return };
    // A counter of energy counts real time, and a stub's time is made up: by power x time.
    let script = "units=1,nvmlDeviceGetTotalEnergyConsumption=3";
    say(&mut run(&machine, script, &["--set-limits"])).ended(0);
    assert!(FREE.contains(&limits(&machine).as_str()), "{}", limits(&machine));
    let json = say(&mut machine.fizeau("", &["report", "out", "--json"])).json();
    let rows = json["tables"]["frontier"].as_array().expect("a table");
    let values: Vec<[f64; 2]> = rows
        .iter()
        .map(|row| ["speed", "energy"].map(|key| row[key]["value"].as_f64().expect("a number")))
        .collect();
    // As it is, 2 W, 1 W, half the clock, as it is: the stub's clock goes with the third root of
    // its power, of which its sensor shows half.
    let third = 0.5f64.cbrt();
    let expected = [[1.0, 1.0], [1.0, 1.0], [third, 0.5 / third], [0.5, 2.0], [1.0, 1.0]];
    assert_eq!(values.len(), expected.len(), "{json:#}");
    for (value, expected) in values.iter().zip(expected) {
        let near = |at: usize| (value[at] / expected[at] - 1.0).abs() < 0.03;
        assert!(near(0) && near(1), "{values:?}");
    }
    assert!(rows.iter().all(|row| row["speed"]["stub"] == true), "{json:#}");
    assert!(rows.iter().all(|row| row["energy_by"] == "power x time"), "{json:#}");
    let text = say(&mut machine.fizeau("", &["report", "out", "--summary"]));
    let without_relative = text.out.lines().filter(|line| !line.contains("(stub)"));
    assert!(without_relative.clone().any(|line| line.contains("stub")), "{}", text.out);
}

#[test]
fn a_limit_that_the_driver_refuses_is_left_out_with_its_reason() {
    let Some(machine) = machine() else { return };
    let script = "units=1,nvmlDeviceSetPowerManagementLimit=4";
    let said = say(&mut run(&machine, script, &["--set-limits"])).ended(0);
    let words = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("was refused and is left out"), "{}", said.out);
    assert!(FREE.contains(&limits(&machine).as_str()), "{}", limits(&machine));
    // Clocks that somebody holds cannot be read, and so are not touched.
    let Some(held) = self::machine() else { return };
    let said = say(&mut run(&held, "units=1,reasons=2", &["--set-limits"])).ended(0);
    let words = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("no clock was set: a user has set clocks"), "{}", said.out);
}

#[test]
fn kill_9_while_a_limit_is_set_puts_it_back() {
    let Some(machine) = machine() else { return };
    let text = fs::read_to_string(machine.place.path("own.toml")).expect("the suite");
    let slow = text.replace("time_max = 0.005", "time_max = 1.0");
    let slow = slow.replace("time_min = 0.0\n", "time_min = 1.0\n");
    let slow = slow.replace("samples_max = 12", "samples_max = 200000");
    assert!(slow.contains("time_min = 1.0") && slow.contains("samples_max = 200000"), "{slow}");
    let mut run = program::ignoring_nothing(&run(&machine, "units=1", &["--set-limits"]));
    let mut child = run.spawn().expect("the program starts");
    let until = |what: &str, holds: &dyn Fn() -> bool| {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !holds() {
            assert!(Instant::now() < deadline, "{what}: {}", limits(&machine));
            thread::sleep(Duration::from_millis(5));
        }
    };
    until("no first rung", &|| machine.place.path("out/step-00-as-is/record.jsonl").exists());
    fs::write(machine.place.path("own.toml"), slow).expect("written");
    until("no limit was set", &|| limits(&machine).starts_with("0 1000"));
    child.kill().expect("SIGKILL");
    let said = said(child.wait_with_output().expect("it ended"));
    assert_eq!(said.code, None, "it ended by itself: {}{}", said.out, said.err);
    until("the limit stays", &|| FREE.contains(&limits(&machine).as_str()));
}

#[test]
fn nothing_is_confirmed_by_a_stub() {
    let machine = Machine::with(&NVIDIA);
    let claim = "[[claim]]\nid = \"own\"\nvalue = \"1 GFLOP/s f32\"\n[claim.run.suite.compute]\n\
                 dtypes = [\"f32\"]\n[claim.run.suite.measure]\nsamples_min = 10\n\
                 samples_max = 12\nnoise_max = 0.01\ntime_min = 0.0\ntime_max = 0.005\n\
                 warmup_max = 0.001\nsample_min = 0.0001\ndeadline = 20.0\n[claim.run.conditions]\n\
                 clock_mhz = 1000.0\npower_limit_w = 700.0\n";
    fs::write(machine.place.path("claim.toml"), claim).expect("written");
    let args = ["reproduce", "claim.toml", "--rounds", "2", "--out", "out"];
    let said = say(&mut machine.fizeau("units=1", &args)).ended(4);
    assert!(said.out.contains("stub driver stands in"), "{}", said.out);
    let answer = machine.place.json("out/reproduction.json");
    assert_eq!((&answer["share"], &answer["stub"]), (&Value::Null, &true.into()));
    // 2 W are no 700 W, and the record says so.
    let conditions = answer["conditions"].as_array().expect("conditions");
    let power = conditions.iter().find(|one| one["name"] == "power limit").expect("stated");
    assert_eq!(power["met"], "NOT met");
    if rustix::process::geteuid().is_root() {
        // Set as the claim states them, they are met, and put back.
        let claim = claim.replace("1000.0", "500.0").replace("700.0", "1.0");
        fs::write(machine.place.path("claim.toml"), claim).expect("written");
        let args = ["reproduce", "claim.toml", "--rounds", "2", "--out", "set", "--set-limits"];
        let mut command = machine.fizeau("units=1", &args);
        say(command.env("FIZEAU_STUB_LIMITS", machine.place.path("limits"))).ended(4);
        let answer = machine.place.json("set/reproduction.json");
        let conditions = answer["conditions"].as_array().expect("conditions");
        assert!(conditions.iter().all(|one| one["met"] == "met"), "{answer:#}");
        assert!(FREE.contains(&limits(&machine).as_str()), "{}", limits(&machine));
    }
    let shown: Vec<&str> = said.out.lines().filter(|line| !line.starts_with("page: ")).collect();
    // The claim is what its file says, and nothing that was measured.
    assert_shows_no_number(&shown.join("\n").replace("\"1 GFLOP/s f32\"", "it"));
}
