//! The program on machines that give it little: a control group with a tenth of a CPU and 108 MiB,
//! a clock that stands still, no `/proc`.

use crate::{
    program::{Place, ended, planned, say},
    skipped,
};
use fizeau_domain::{outcome::Outcome, units::Bytes};
use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

const SUITE: &str = r#"
name = "little"
description = "A dozen small cases, and some that do not fit into 108 MiB"

[measure]
samples_min = 5
samples_max = 20
noise_max = 0.05
# A case lasts for more than a period of the quota, of 0.1 s: the quota stops every one.
time_min = 0.15
time_max = 0.3
warmup_max = 0.005
sample_min = 0.01
deadline = 60.0

[compute]
dtypes = ["f64"]

[stream]
memory = []
scaling = []
sweep = ["read"]
sweep_units = ["one"]
sweep_points_per_octave = 1

[latency]
points_per_octave = 1

[gemm]
dtypes = ["f32"]
shapes = [[64, 64, 64]]
"#;

/// A control group and one within it, which go away.
struct Group {
    /// The outer group, once for each hierarchy that has to do with it.
    folders: Vec<PathBuf>,
}

const QUOTA: f64 = 0.1;
const LIMIT: Bytes = Bytes(108 << 20);

impl Group {
    /// With [`QUOTA`] and [`LIMIT`], in version 1 or 2, whichever this system has.
    fn new() -> io::Result<Group> {
        let name = format!("fizeau-test-{}", std::process::id());
        let root = Path::new("/sys/fs/cgroup");
        let group = |folder: &str| root.join(folder).join(&name);
        let settings: &[(&str, &str, String)] = match root.join("memory").is_dir() {
            true => &[
                ("memory", "memory.limit_in_bytes", LIMIT.0.to_string()),
                ("cpu", "cpu.cfs_quota_us", "10000".into()),
                ("cpu", "cpu.cfs_period_us", "100000".into()),
            ],
            false => {
                &[("", "memory.max", LIMIT.0.to_string()), ("", "cpu.max", "10000 100000".into())]
            }
        };
        if root.join("cgroup.subtree_control").is_file() {
            fs::write(root.join("cgroup.subtree_control"), "+memory +cpu")?;
        }
        let mut made = Group { folders: Vec::new() };
        for (folder, file, value) in settings {
            let folder = group(folder);
            if !made.folders.contains(&folder) {
                fs::create_dir(&folder)?;
                made.folders.push(folder.clone());
                fs::create_dir(folder.join("step_0"))?;
            }
            fs::write(folder.join(file), value)?;
        }
        Ok(made)
    }

    /// Another quota.
    fn allow_cpus(&self, cpus: f64) {
        let quota = (cpus * 100_000.0) as u64;
        for folder in &self.folders {
            let (one, two) = (folder.join("cpu.cfs_quota_us"), folder.join("cpu.max"));
            if one.exists() {
                fs::write(one, quota.to_string()).expect("the quota is written");
            } else if two.exists() {
                fs::write(two, format!("{quota} 100000")).expect("the quota is written");
            }
        }
    }

    /// The same command, in the group below: as Slurm has limits on a job and processes in a step.
    fn within(&self, place: &Place, command: &Command) -> Command {
        let mut script = String::new();
        for folder in &self.folders {
            script += &format!("echo $$ > '{}/step_0/cgroup.procs' && ", folder.display());
        }
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{script} exec \"$@\""), "sh"]);
        shell.arg(command.get_program()).args(command.get_args()).current_dir(place.path(""));
        shell.env("FIZEAU_LIBRARY_PATH", place.path(""));
        shell
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for folder in &self.folders {
            let _ = fs::remove_dir(folder.join("step_0"));
            let _ = fs::remove_dir(folder);
        }
    }
}

#[test]
fn with_a_tenth_of_a_cpu_and_little_memory_nothing_is_lost_and_the_limits_are_told() {
    let group = match Group::new() {
        Ok(group) => group,
        Err(error) => {
            return skipped::because("cgroup", format!("no control group can be made: {error}"));
        }
    };
    let place = Place::new();
    fs::write(place.path("little.toml"), SUITE).expect("the suite is written");
    let listed = |args: &[&str]| {
        let command = place.fizeau(args);
        say(&mut group.within(&place, &command))
    };
    let list = ["list", "--device", "host", "--suite", "little.toml", "--json"];
    let listing: serde_json::Value = serde_json::from_str(&listed(&list).out).expect("JSON");
    let rows = listing["cases"].as_array().expect("cases");
    // Eight of the smallest, the largest that fits, and four that do not.
    let size = |row: &&serde_json::Value| row["memory_bytes"].as_u64().expect("a size");
    let (mut fits, mut not): (Vec<_>, Vec<_>) = rows.iter().partition(|r| r["skipped"].is_null());
    fits.sort_by_key(size);
    not.sort_by_key(size);
    let largest = fits.pop();
    let chosen = fits.into_iter().take(8).chain(largest).chain(not.into_iter().take(4));
    let chosen: Vec<&str> = chosen.map(|row| row["id"].as_str().expect("an id")).collect();
    assert_eq!(chosen.len(), 13, "{listing}");

    let run = ["run", "--full", "--device", "host", "--suite", "little.toml", "--out", "out"];
    let said = listed(&[&run[..], &chosen].concat());
    assert_eq!(said.code, Some(0), "{}\n{}", said.out, said.err);
    let record = place.record("out");
    assert_eq!(ended(&record), planned(&record));
    let environment = &record.header.environment;
    assert_eq!((environment.cpu_quota, environment.memory_limit), (Some(QUOTA), Some(LIMIT)));
    assert_eq!(record.header.device.units, 1, "no more threads than the quota pays for");
    assert!(environment.memory_free < Some(LIMIT), "{:?}", environment.memory_free);
    let (mut measured, mut skipped, mut held) = (0, 0, 0);
    for outcome in &record.outcomes {
        match outcome {
            Outcome::Measured(one) => {
                measured += 1;
                assert!(one.stopped_by_quota.is_some(), "{one:?}");
                held += usize::from(one.held_by_quota());
            }
            Outcome::Skipped { reason, .. } => {
                skipped += 1;
                assert!(reason.contains("of memory, and "), "{reason}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((measured, skipped), (9, 4), "{}", said.out);
    assert!(held >= 1, "the largest takes longer than a quota lasts: {}", said.out);
    for words in ["a CPU quota of 0.10 CPUs", "A CPU quota of 0.10 CPUs stopped the program while"]
    {
        let report = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(report.contains(words), "{words}: {}", said.out);
    }
    assert!(said.out.contains("a limit of 108 MiB on memory"), "{}", said.out);

    let doctor = listed(&["doctor"]);
    assert_eq!(doctor.code, Some(1), "{}", doctor.out);
    group.allow_cpus(1.5);
    let args = ["run", "--device", "host", "--suite", "little.toml", "--out", "more", chosen[0]];
    let more = listed(&args);
    assert_eq!(more.code, Some(0), "{}", more.err);
    let header = place.record("more").header;
    assert_eq!((header.environment.cpu_quota, header.device.units), (Some(1.5), 1));
    if header.environment.cpus > 1 {
        let words = format!("may use {} CPUs: no more than 1 of its", header.environment.cpus);
        let told = header.environment.warnings.iter().any(|warning| warning.contains(&words));
        assert!(told, "{:?}", header.environment.warnings);
    }
    let line = |start: &str| doctor.out.lines().any(|line| line.starts_with(start));
    assert!(line("FAIL    CPU quota") && line("WARN    memory"), "{}", doctor.out);
    assert!(doctor.out.contains("108 MiB allowed by the control group"), "{}", doctor.out);
}

/// A library that is loaded before the C library's, in which the monotonic clock stands still.
const FROZEN: &str = r#"
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *time) {
    if (clock == CLOCK_MONOTONIC) {
        time->tv_sec = 1000;
        time->tv_nsec = 0;
        return 0;
    }
    return (int)syscall(SYS_clock_gettime, clock, time);
}
"#;

#[test]
fn a_clock_that_stands_still_is_an_error_and_no_endless_wait() {
    let place = Place::new();
    fs::write(place.path("frozen.c"), FROZEN).expect("written");
    let library = place.path("frozen.so");
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(place.path("frozen.c"));
    if !compile.status().is_ok_and(|status| status.success()) {
        return skipped::because("cc", "no C compiler makes the library that stops the clock");
    }
    for args in [
        &["run", "--device", "host", "--out", "out", "stream/*/4?KiB/*"][..],
        &["run", "--suite", "tiny.toml", "--backend", "fake:", "--out", "out"],
        &["doctor"],
    ] {
        let mut child =
            place.fizeau(args).env("LD_PRELOAD", &library).spawn().expect("the program starts");
        let end = Instant::now() + Duration::from_secs(60);
        while child.try_wait().expect("it can be asked").is_none() {
            if Instant::now() > end {
                child.kill().expect("it is there");
                panic!("{args:?} does not end");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let said = crate::program::said(child.wait_with_output().expect("it ended"));
        assert_eq!(said.code, Some(3), "{args:?}: {}{}", said.out, said.err);
        assert!(said.err.contains("the monotonic clock"), "{args:?}: {}", said.err);
        assert!(!place.path("out").exists(), "{args:?}: nothing was measured");
    }
}

#[test]
fn without_proc_the_memory_is_unknown_and_not_nothing() {
    let place = Place::new();
    let hide = "mount -t tmpfs none /proc && exec \"$@\"";
    let within = |script: &str, args: &[&str]| {
        let command = place.fizeau(args);
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--map-root-user", "sh", "-c", script, "sh"]);
        unshare.arg(command.get_program()).args(command.get_args()).current_dir(place.path(""));
        unshare.env("FIZEAU_LIBRARY_PATH", place.path(""));
        say(&mut unshare)
    };
    if within(&hide.replace("\"$@\"", "true"), &[]).code != Some(0) {
        return skipped::because("mount", "this system lets nobody hide /proc for a test");
    }
    let devices = within(hide, &["devices"]);
    assert_eq!(devices.code, Some(0), "{}", devices.err);
    assert!(devices.out.contains("an unknown amount of memory"), "{}", devices.out);
    assert!(!devices.out.contains("0 B"), "{}", devices.out);
    let doctor = within(hide, &["doctor"]);
    assert!(doctor.out.contains("unknown: /proc/meminfo cannot be read"), "{}", doctor.out);
}

/// Processes that take the CPUs, and go away.
struct Spinners(Vec<std::process::Child>);

impl Spinners {
    fn new(count: usize) -> Spinners {
        let spin = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn();
        Spinners((0..count).map(|_| spin().expect("a shell")).collect())
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn other_processes_that_take_the_cpus_are_counted_within_each_case() {
    let place = Place::new();
    fs::write(place.path("little.toml"), SUITE).expect("the suite is written");
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let spinners = Spinners::new(cpus);
    let args =
        ["run", "--device", "host", "--suite", "little.toml", "--out", "out", "compute", "gemm"];
    let said = say(&mut place.fizeau(args));
    drop(spinners);
    assert_eq!(said.code, Some(0), "{}\n{}", said.out, said.err);
    let record = place.record("out");
    let measured: Vec<_> = record.outcomes.iter().filter_map(|one| one.measured()).collect();
    assert!(measured.len() >= 2, "{}", said.out);
    for one in measured {
        let waited = one.waited.expect("this kernel counts what threads wait");
        assert!(waited > 0.2, "{}: {waited}", one.case);
        assert!(one.disturbed(), "{}: {:?} of its CPUs left", one.case, one.share_left());
    }
}
