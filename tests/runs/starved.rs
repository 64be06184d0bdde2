//! The program on machines that give it little: a control group with a tenth of a CPU and 108 MiB,
//! a clock that stands still, no `/proc`.

use crate::{
    gpus::Machine,
    program::{Place, Said, ended, planned, say},
    skipped,
};
use fizeau_domain::{
    outcome::{Measurement, Outcome, Taker},
    units::{Bytes, Seconds},
};
use fizeau_record::Record;
use std::{
    fs, io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
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
            thread::sleep(Duration::from_millis(10));
        }
        let said = crate::program::said(child.wait_with_output().expect("it ended"));
        assert_eq!(said.code, Some(3), "{args:?}: {}{}", said.out, said.err);
        assert!(said.err.contains("the monotonic clock"), "{args:?}: {}", said.err);
        assert!(!place.path("out").exists(), "{args:?}: nothing was measured");
    }
}

/// The program with file systems of its own, which a script mounts before it.
fn within(place: &Place, script: &str, command: &Command) -> Said {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--map-root-user", "sh", "-c", script, "sh"]);
    unshare.arg(command.get_program()).args(command.get_args()).current_dir(place.path(""));
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => unshare.env(name, value),
            None => unshare.env_remove(name),
        };
    }
    say(&mut unshare)
}

/// A `/dev` with what programs need, and without `/dev/shm`.
const NO_SHM: &str = r#"
mkdir dev && mount -t tmpfs none dev || exit 99
for file in null zero random urandom; do
    touch dev/$file && mount --bind /dev/$file dev/$file || exit 99
done
ln -s /proc/self/fd dev/fd && mount --rbind dev /dev && test ! -e /dev/shm || exit 99
"#;

#[test]
fn without_dev_shm_ranks_meet_elsewhere_or_say_what_is_wrong() {
    let machine = Machine::new();
    let place = &machine.place;
    let with = |out: &str, more: &str| {
        let script = format!("{NO_SHM}unset XDG_RUNTIME_DIR\n{more}\nexec \"$@\"");
        let run = ["launch", "-n", "2", "--", "run", "collective", "--suite", "ranks.toml"];
        let args = [&run[..], &["--out", out]].concat();
        let said = within(place, &script, &machine.fizeau("devices=2", "", &args));
        fs::remove_dir(place.path("dev")).expect("nothing is mounted here");
        said
    };
    let said = with("there", "");
    if said.code == Some(99) {
        return skipped::because("mount", "this system lets nobody hide /dev/shm for a test");
    }
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    let measured = |one: &Outcome| matches!(one, Outcome::Measured(_));
    let record = place.record("there");
    assert!(!record.outcomes.is_empty() && record.outcomes.iter().all(measured));
    // Nor anywhere else: what is wrong with each place is said, and nothing hangs.
    let said = with("nowhere", "export TMPDIR=/nowhere");
    assert_eq!(said.code, Some(3), "{}{}", said.out, said.err);
    assert!(said.err.contains("/nowhere") && said.err.contains("/dev/shm"), "{}", said.err);
    assert!(!place.path("nowhere").exists(), "nothing was measured");
    // Without ranks nothing is asked of it.
    let script = format!("{NO_SHM}exec \"$@\"");
    let run = ["run", "--suite", "tiny.toml", "--backend", "fake:", "--out", "one"];
    let one = within(place, &script, &machine.fizeau("", "", &run));
    assert_eq!(one.code, Some(0), "{}{}", one.out, one.err);
}

#[test]
fn without_proc_the_memory_is_unknown_and_not_nothing() {
    let place = Place::new();
    let hide = "mount -t tmpfs none /proc && exec \"$@\"";
    let within = |script: &str, args: &[&str]| {
        within(&place, script, place.fizeau(args).env("FIZEAU_LIBRARY_PATH", place.path("")))
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

/// A run of cases of arithmetic and products, whose threads are on all CPUs.
fn run_of_all_cpus(place: &Place, command: &mut Command) -> (Record, String) {
    let said = say(command);
    assert_eq!(said.code, Some(0), "{}\n{}", said.out, said.err);
    let record = place.record("out");
    assert!(record.outcomes.iter().filter(|one| one.measured().is_some()).count() >= 2);
    (record, said.out.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn measured(record: &Record) -> impl Iterator<Item = &Measurement> {
    record.outcomes.iter().filter_map(Outcome::measured)
}

const ON_ALL_CPUS: [&str; 8] =
    ["run", "--device", "host", "--suite", "little.toml", "--out", "out", "compute"];

#[test]
fn one_and_two_processes_for_each_cpu_disturb_every_case_and_none_disturbs_no_case() {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    for for_each in [0, 1, 2] {
        let place = Place::new();
        fs::write(place.path("little.toml"), SUITE).expect("the suite is written");
        let before = some_process_waited();
        let spinners = Spinners::new(cpus * for_each);
        let (record, report) = run_of_all_cpus(&place, &mut place.fizeau(ON_ALL_CPUS));
        drop(spinners);
        let words = "other processes took CPU time on the same cores";
        if for_each == 0 {
            // Whether this machine was quiet says the kernel's own count of the whole machine.
            let Some(others) =
                some_process_waited().zip(before).map(|(after, was)| Seconds(after.0 - was.0))
            else {
                return skipped::because("quiet", "no /proc/pressure/cpu");
            };
            if others.0 > 0.01 {
                println!("not quiet: some process waited for {others}");
                continue;
            }
            assert!(measured(&record).all(|one| !one.disturbed()), "{report}");
            assert!(!report.contains(words), "{report}");
            continue;
        }
        for one in measured(&record) {
            let waited = one.waited.expect("this kernel counts what threads wait");
            assert!(waited > 0.2, "{for_each} for each CPU, {}: {waited}", one.case);
            assert_eq!(one.taken_by(), Some(Taker::Processes), "{}", one.case);
        }
        assert!(report.contains(words), "{report}");
    }
}

/// How long some process of this machine waited for a CPU, since it started.
fn some_process_waited() -> Option<Seconds> {
    let text = fs::read_to_string("/proc/pressure/cpu").ok()?;
    let total = text.lines().next()?.rsplit_once("total=")?.1;
    Some(Seconds(total.parse::<f64>().ok()? * 1e-6))
}

/// A `/proc/stat` in which a hypervisor takes this share of each CPU for others: a thread writes it
/// anew while the program runs.
struct Stolen {
    is_over: Arc<AtomicBool>,
    writer: Option<thread::JoinHandle<()>>,
}

impl Stolen {
    fn begin(path: PathBuf, share: f64) -> Stolen {
        let cpus = fs::read_to_string("/proc/stat").expect("a kernel that counts");
        let cpus = cpus.lines().filter(|line| line.starts_with("cpu")).count() - 1;
        let (is_over, since) = (Arc::new(AtomicBool::new(false)), Instant::now());
        let text = move || {
            let ticks = (since.elapsed().as_secs_f64() * share * 100.0) as u64;
            let line = |name: String| format!("{name} 9 0 9 9 0 0 0 {ticks:010} 0 0\n");
            let all = std::iter::once("cpu ".to_owned());
            let each = (0..cpus).map(|cpu| format!("cpu{cpu}"));
            all.chain(each).map(line).collect::<String>()
        };
        fs::write(&path, text()).expect("written");
        let ends = Arc::clone(&is_over);
        let writer = thread::spawn(move || {
            let file = fs::OpenOptions::new().write(true).open(path).expect("it is there");
            while !ends.load(Ordering::Relaxed) {
                // Always as long: what is read is never half of it.
                file.write_all_at(text().as_bytes(), 0).expect("written");
                thread::sleep(Duration::from_millis(2));
            }
        });
        Stolen { is_over, writer: Some(writer) }
    }
}

impl Drop for Stolen {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(writer) = self.writer.take() {
            writer.join().expect("it wrote");
        }
    }
}

#[test]
fn time_that_a_hypervisor_takes_disturbs_every_case_and_is_named() {
    for share in [0.0, 0.5] {
        let place = Place::new();
        fs::write(place.path("little.toml"), SUITE).expect("the suite is written");
        let stat = place.path("stat");
        let stolen = Stolen::begin(stat.clone(), share);
        let program = place.fizeau(ON_ALL_CPUS);
        let mut within = Command::new("unshare");
        let script = "mount --bind \"$1\" /proc/stat && shift && exec \"$@\"";
        within.args(["--mount", "--map-root-user", "sh", "-c", script, "sh"]).arg(&stat);
        within.arg(program.get_program()).args(program.get_args()).current_dir(place.path(""));
        within.env("FIZEAU_LIBRARY_PATH", place.path(""));
        let mut attempt = Command::new("unshare");
        attempt.args(["--mount", "--map-root-user", "sh", "-c", script, "sh"]).arg(&stat);
        if say(attempt.arg("true")).code != Some(0) {
            return skipped::because("mount", "this system lets nobody replace /proc/stat");
        }
        let (record, report) = run_of_all_cpus(&place, &mut within);
        drop(stolen);
        for one in measured(&record) {
            let taken = one.stolen.expect("it is counted");
            match share > 0.0 {
                // One tick of each CPU is left out, of a case that lasts for some 15.
                true => assert!((0.3..0.6).contains(&taken), "{}: {taken}", one.case),
                false => assert!(taken < 0.01, "{}: {taken}", one.case),
            }
            assert!(share == 0.0 || one.disturbed(), "{}", one.case);
        }
        assert_eq!(report.contains("the hypervisor"), share > 0.0, "{report}");
    }
}
