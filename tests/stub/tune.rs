//! `scripts/gpu.sh tune` on stub drivers with a regulator of power: what is planted is found, a
//! command that was killed goes on, and both harnesses agree.

use super::{
    first_day::{first_day, python_is_missing},
    machine::{Machine, NVIDIA},
};
use crate::program::say;
use std::{
    fs,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Noise and a regulator, by the measured steps.
const DRIVER: &str = "units=4,capability=90,noise=0.002,regulator=3";

const POINTS: &str = r#"
[compute]
dtypes = ["f32"]
"#;

/// An experiment whose variants are the same, faster and slower by 3 %, and half as fast.
const EXPERIMENT: &str = r#"
question = "Is what is planted found?"

[[point]]
case = "compute/f32/4u"
kernel = "vector"
variants = ["same", "faster", "slower", "sleeping"]
predicted = { same = 1.0, faster = 1.03 }
"#;

/// The variants: the driver's script of each makes it what its name says.
fn variants() -> String {
    let of = |name: &str, script: &str| {
        format!(
            "[variant.{name}]\npatches = []\nvariables = {{ FIZEAU_STUB = \"{DRIVER}{script}\" }}\n"
        )
    };
    [
        ("same", ""),
        ("faster", ",compute=1.03"),
        ("slower", ",compute=0.97"),
        ("sleeping", ",compute=0.5"),
    ]
    .map(|(name, script)| of(name, script))
    .concat()
}

/// A machine with nine experiments.
fn machine() -> Machine {
    let machine = Machine::with(&NVIDIA);
    machine.suite(POINTS);
    let folder = machine.place.path("experiments");
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join("variants.toml"), variants()).expect("the variants");
    for number in 1..=9 {
        let path = folder.join(format!("{number}-planted{number}.toml"));
        fs::write(path, EXPERIMENT).expect("an experiment");
    }
    machine
}

fn arguments(machine: &Machine) -> Vec<String> {
    let path = |name| machine.place.path(name).display().to_string();
    let options = [
        ("--experiments", path("experiments")),
        ("--suite", path("own.toml")),
        ("--out", path("tuned")),
        ("--rounds", "12".into()),
    ];
    let options = options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
    std::iter::once("tune".to_owned()).chain(options).collect()
}

/// Points that are done.
fn done(machine: &Machine) -> usize {
    let text = fs::read_to_string(machine.place.path("tuned/tune.jsonl")).unwrap_or_default();
    text.matches('\n').count()
}

/// Starts the script as `scripts/gpu.sh` does, and kills it when some points are done.
fn started_and_killed(machine: &Machine, points: usize) {
    let program = machine.fizeau(DRIVER, &[]);
    let mut command = Command::new("python3");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/tune.py"));
    command.args(arguments(machine).into_iter().skip(1));
    command.args([
        "--device",
        "cuda:0",
        "--work",
        "unused",
        "--default-out",
        "unused",
        "--program",
    ]);
    command.arg(program.get_program());
    let variables = program.get_envs().filter_map(|(name, value)| Some((name, value?)));
    command.envs(variables).env("PYTHONDONTWRITEBYTECODE", "1");
    let mut child: Child =
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("python3");
    let start = Instant::now();
    while done(machine) < points {
        assert!(start.elapsed() < Duration::from_secs(120), "no point within two minutes");
        assert!(child.try_wait().expect("a child").is_none(), "it ended by itself");
        thread::sleep(Duration::from_millis(50));
    }
    child.kill().expect("it is killed");
    child.wait().expect("it ended");
}

#[test]
fn planted_winners_and_losers_are_named_also_when_it_was_killed() {
    if python_is_missing() {
        return;
    }
    let machine = machine();
    started_and_killed(&machine, 2);
    let before = done(&machine);
    assert!((2..9).contains(&before), "{before}");
    let arguments = arguments(&machine);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let said = first_day(&machine, DRIVER, &arguments);
    assert_eq!(said.code, Some(0), "{} {}", said.out, said.err);
    assert_eq!(done(&machine), 9, "what was done is not measured again");
    assert!(said.out.len() <= 11 << 10, "{} bytes", said.out.len());
    let table = fs::read_to_string(machine.place.path("tuned/tune.md")).expect("a table");
    assert!(table.contains("stub driver: times mean nothing"), "{table}");
    let verdicts = |name: &str, verdict: &str| {
        let lines = table.lines().filter(|line| line.trim_start().starts_with(name));
        lines.filter(|line| line.ends_with(verdict)).count()
    };
    for (name, verdict) in [
        ("same", "stub: no number same"),
        ("faster", "stub: no number faster"),
        ("slower", "stub: no number slower"),
        ("sleeping", "not at its best: no ratio"),
    ] {
        assert_eq!(verdicts(name, verdict), 9, "{name} is not found to be so: {table}");
    }
}

/// The experiments of the repository: their cases are planned on an H100 or H200, and their
/// variants can be made of the kernels as they are.
#[test]
fn the_experiments_can_be_run() {
    if python_is_missing() {
        return;
    }
    let machine = Machine::with(&NVIDIA);
    let variants = machine.place.path("variants").display().to_string();
    let arguments = ["tune", "--check", "--variants", &variants];
    let driver = "units=132,capability=90,memory=85899345920";
    let said = first_day(&machine, driver, &arguments);
    assert_eq!(said.code, Some(0), "{} {}", said.out, said.err);
    assert_eq!(said.out, "9 experiments can be run\n");
    assert!(machine.place.path("variants/before/kernels.toml").exists());
}

#[test]
fn both_harnesses_agree_in_each_regime() {
    if python_is_missing() {
        return;
    }
    let machine = Machine::with(&NVIDIA);
    let program = machine.fizeau("", &[]);
    let mut command = Command::new("python3");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/check_regimes.py"));
    command.arg(program.get_program());
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let said = say(command.stdin(Stdio::null()));
    assert_eq!(said.code, Some(0), "{} {}", said.out, said.err);
    println!("{}", said.out);
}

/// The observed clock is that of the units while samples ran. Between samples the regulator has let
/// go: a look then shows the clock of a rest.
#[test]
fn the_clock_is_that_of_the_work() {
    let machine = Machine::with(&NVIDIA);
    for (regime, clock) in [("burst", 1_000.0), ("settled", 1_000.0 / 1.21)] {
        machine.suite(POINTS);
        let path = machine.place.path("own.toml");
        let text = fs::read_to_string(&path).expect("the suite");
        let text = text.replace("deadline =", &format!("regime = \"{regime}\"\ndeadline ="));
        fs::write(&path, text).expect("the suite");
        let args = ["run", "--suite", "own.toml", "--device", "cuda:0", "--out", regime];
        say(&mut machine.fizeau("units=4,capability=90,regulator=3", &args)).clean();
        let record = machine.place.record(regime);
        let found = record.outcomes[0].measured().expect("measured").clock.expect("a clock").0;
        assert!((found / clock - 1.0).abs() < 0.01, "{regime}: {found} MHz");
    }
}
