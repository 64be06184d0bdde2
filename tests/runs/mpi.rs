//! Ranks in processes of their own, by whatever MPI is installed: one with the standard ABI, or
//! Open MPI. Where none is, these tests say so and pass: `scripts/check_mpi.sh` brings three and
//! runs them under each.

use crate::skipped;
use fizeau_comm::mpi::abi::launcher;
use fizeau_domain::{
    case::Point,
    dtype::Dtype,
    outcome::{Failure, Outcome},
};
use fizeau_record::{Record, store};
use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

const SUITE: &str = r#"
name = "ranks"
description = "Every collective at odd counts"

[measure]
samples_min = SAMPLES
samples_max = SAMPLES
noise_max = 0.0
time_min = 0.0
time_max = TIME
warmup_max = 0.001
sample_min = 0.0001
deadline = DEADLINE

[collective]
collectives = ["all_reduce", "all_to_all", "all_gather", "reduce_scatter", "broadcast",
    "send_receive", "reduce", "gather", "scatter", "all_to_allv"]
dtypes = DTYPES
# Odd counts for 2, 3 and 4 ranks, whether of the message or of a part of it.
granule = 1
from = "188"
to = "LARGEST"
factor = 21
places = ["out_of_place", "in_place", "unaligned"]
"#;

/// Runs a test where there is an MPI.
fn with_launcher(name: &str, test: impl FnOnce(&Path)) {
    // One after the other: ranks wait by spinning, and would take each other's cores.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    match launcher() {
        Some(launcher) => test(&launcher),
        None => skipped::because(
            "mpi",
            format!(
                "{name} found no mpiexec with libmpi_abi.so.1 or libmpi.so.40 beside it; \
                 scripts/check_mpi.sh brings some"
            ),
        ),
    }
}

fn suite(directory: &Path, samples: u32, time: f64, deadline: f64, sweep: [&str; 2]) {
    let [dtypes, largest] = sweep;
    let text = SUITE
        .replace("DTYPES", dtypes)
        .replace("LARGEST", largest)
        .replace("SAMPLES", &samples.to_string())
        .replace("TIME", &time.to_string())
        .replace("DEADLINE", &deadline.to_string());
    fs::write(directory.join("ranks.toml"), text).expect("the suite is written");
}

fn run(launcher: &Path, directory: &Path, ranks: u32) -> Command {
    let mut command = Command::new(launcher);
    command.args(["-n", &ranks.to_string(), env!("CARGO_BIN_EXE_fizeau"), "run", "collective"]);
    command.args(["--suite", "ranks.toml", "--out", "out"]).current_dir(directory);
    command.env("FIZEAU_PROGRESS", "off");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn text(output: &Output) -> String {
    let both = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8_lossy(&both).into_owned()
}

fn record(directory: &Path) -> Record {
    store::read(&directory.join("out")).expect("a record")
}

#[test]
fn collectives_of_processes_are_right() {
    with_launcher("collectives_of_processes_are_right", |launcher| {
        for ranks in [2, 3, 4] {
            let place = tempfile::tempdir().expect("a directory");
            // More ranks than cores take turns, and long.
            let (sweep, cases) = match ranks {
                2 => ([r#"["f32", "int8"]"#, "8KiB"], 4 * 27),
                _ => ([r#"["f32"]"#, "1KiB"], 27),
            };
            suite(place.path(), 3, 0.01, 60.0, sweep);
            let output = run(launcher, place.path(), ranks).output().expect("mpiexec starts");
            let record = record(place.path());
            assert_eq!(record.outcomes.len(), record.header.plan.len());
            assert_eq!(record.outcomes.len(), cases);
            for outcome in &record.outcomes {
                let id = outcome.case().to_string();
                assert!(id.ends_with(&"/mpi".to_owned()) && id.contains(&format!("/{ranks}r/")));
                match outcome {
                    // Right, whether or not its time can be believed where ranks take turns.
                    Outcome::Measured(measurement) | Outcome::Invalid { measurement, .. } => {
                        let check = measurement.check;
                        assert!(check.passed() && check.compared > 0, "{id}: {check:?}");
                        let Point::Collective(point) = measurement.case.point else {
                            panic!("{id}")
                        };
                        assert!(point.dtype != Dtype::F32 || point.count() % 2 == 1, "{id}");
                    }
                    Outcome::Skipped { reason, .. } => {
                        assert!(id.contains("reduce_scatter") && id.contains("in_place"), "{id}");
                        assert!(reason.contains("own part"), "{reason}");
                    }
                    _ => panic!("{outcome:?}"),
                }
            }
            let invalid = |outcome: &Outcome| matches!(outcome, Outcome::Invalid { .. });
            let code = i32::from(record.outcomes.iter().any(invalid));
            assert_eq!(output.status.code(), Some(code), "{ranks} ranks: {}", text(&output));
            let libraries = &record.header.environment.libraries;
            assert!(libraries.iter().any(|library| library.contains("MPI")), "{libraries:?}");
        }
    });
}

/// The process of a rank that was started in a directory.
fn process(directory: &Path, rank: u32) -> Option<u32> {
    let wanted = ["PMI_RANK", "OMPI_COMM_WORLD_RANK"].map(|name| format!("{name}={rank}"));
    let processes = fs::read_dir("/proc").ok()?;
    processes.flatten().find_map(|entry| {
        let process: u32 = entry.file_name().to_str()?.parse().ok()?;
        let is_fizeau = fs::read_to_string(entry.path().join("comm")).ok()?.trim() == "fizeau";
        let here = fs::read_link(entry.path().join("cwd")).ok()?;
        let variables = fs::read(entry.path().join("environ")).ok()?;
        let mut variables = variables.split(|&byte| byte == 0);
        let is_rank = variables.any(|variable| wanted.iter().any(|is| is.as_bytes() == variable));
        (is_fizeau && is_rank && here == directory).then_some(process)
    })
}

#[test]
fn a_rank_that_stops_is_named_and_the_record_kept() {
    with_launcher("a_rank_that_stops_is_named_and_the_record_kept", |launcher| {
        let place = tempfile::tempdir().expect("a directory");
        let directory = place.path().canonicalize().expect("a path");
        suite(&directory, 1_000_000, 60.0, 1.0, [r#"["f32"]"#, "128KiB"]);
        let child = run(launcher, &directory, 2).spawn().expect("mpiexec starts");
        let started = directory.join("out").join(store::FILE);
        let stopped = (0..200).find_map(|_| {
            thread::sleep(Duration::from_millis(100));
            let process = process(&directory, 1).filter(|_| started.exists())?;
            // Into the middle of the first case's samples.
            thread::sleep(Duration::from_millis(500));
            let kill = Command::new("kill").args(["-STOP", &process.to_string()]).status();
            kill.is_ok_and(|status| status.success()).then_some(process)
        });
        let output = child.wait_with_output().expect("mpiexec ends");
        let said = text(&output);
        let process = stopped.unwrap_or_else(|| panic!("rank 1 was never seen: {said}"));
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("no answer within 1.000 s: rank 0 on "), "{said}");
        assert!(said.contains(" B, iteration "), "{said}");
        let culprit = format!("process {process}) does not run any more");
        assert!(said.contains(&culprit) && said.contains("; rank 1 on "), "{said}");
        let record = record(&directory);
        assert!(record.footer.is_none());
        let Some(Outcome::Failed { failure: Failure::Hang, error, .. }) = record.outcomes.last()
        else {
            panic!("{:?}", record.outcomes.last())
        };
        assert!(error.contains(&culprit), "{error}");
    });
}

fn alone(variables: &[(&str, &str)]) -> Output {
    let place = tempfile::tempdir().expect("a directory");
    suite(place.path(), 5, 0.01, 10.0, [r#"["f32"]"#, "1KiB"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_fizeau"));
    command.args(["run", "--suite", "ranks.toml"]).current_dir(place.path());
    command.envs(variables.iter().copied()).output().expect("fizeau starts")
}

#[test]
fn singletons_are_an_error_and_no_result() {
    with_launcher("singletons_are_an_error_and_no_result", |_| {
        let output = alone(&[("SLURM_PROCID", "2"), ("SLURM_STEP_NUM_TASKS", "4")]);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("Slurm launched rank 2 of 4, but MPI sees rank 0 of 1"), "{said}");
    });
}

#[test]
fn a_missing_library_is_said_with_its_mend() {
    let world = [("PMI_RANK", "1"), ("PMI_SIZE", "2"), ("FIZEAU_MPI", "/nowhere/libmpi_abi.so.1")];
    let output = alone(&world);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("PMI launched this as rank 1: an MPI library not found: "), "{said}");
    assert!(said.contains("pip install mpich"), "{said}");
}
