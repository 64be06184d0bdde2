//! `fizeau doctor`: what would spoil numbers here, and how to fix it.

use super::{document, exit, global::Global, gpu_state, output, plan, profiles};
use crate::{data::Catalogue, measure, world::choice};
use clap::Args;
use fizeau_device::{
    BACKENDS, Backend, Device, Finding,
    State::{self, Absent, Fail, Ok as Fine, Warn},
    host,
};
use fizeau_domain::{
    spec::{Properties, STUB},
    text::wrap,
    units::Seconds,
    verdict::Verdict,
};
use fizeau_judge::accept::{Judged, profile::Expected};
use fizeau_record::Environment;
use fizeau_report::unknown::Unknown;
use std::{fmt::Write as _, path::PathBuf, process::ExitCode};

/// A spin of 1 ms is to be measured this well.
const ERROR_MAX: f64 = 0.01;

/// Load averages above this show on few CPUs, and those above this share of the CPUs on any number.
const LOAD_MAX: f64 = 0.5;

/// Arguments of `doctor`.
#[derive(Args, Clone, Debug)]
pub struct DoctorArgs {
    /// What the GPUs should be made up of: a profile as `accept` takes it
    #[arg(long, value_name = "NAME|FILE")]
    pub profile: Option<String>,
    /// Read the kernel's files below this directory: for tests
    #[arg(long, hide = true, default_value = "/", value_name = "DIR")]
    pub root: PathBuf,
}

/// Looks at the machine. Exit code 3 where a GPU's driver is installed and does not work, or a GPU
/// cannot be opened; else 1 where something would spoil numbers, else 0: a warning is no failure.
///
/// # Errors
/// Where the host cannot be opened.
pub fn run(args: &DoctorArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let catalogue = plan::catalogue(global)?;
    let profile = args.profile.as_ref().map(|name| profiles::read(&catalogue, name)).transpose()?;
    let expected = profile.map_or_else(Expected::default, |profile| profile.expected);
    let mut findings = surroundings();
    findings.extend(timer()?);
    findings.extend(libraries());
    findings.extend(BACKENDS.iter().flat_map(|backend| backend.findings()));
    // Before this process itself is one that uses them.
    findings.extend(gpu_state::of_all(&args.root, &expected).iter().map(at_rest));
    let opened = gpus_opened();
    let cannot_open = opened.iter().any(|finding| finding.state == Fail);
    findings.extend(opened);
    findings.extend(unknowns(&catalogue));
    match global.json {
        true => output::print_json(&findings)?,
        false => {
            let text = text(&findings, document::window(global).width)?;
            let lines: Vec<String> = text.lines().map(fizeau_domain::text::clean).collect();
            output::print(&lines.join("\n"))?
        }
    };
    let is_broken = BACKENDS.iter().any(|backend| backend.broken().is_some());
    let spoils = findings.iter().any(|finding| finding.state == Fail);
    Ok(ExitCode::from(match (is_broken || cannot_open, spoils) {
        (true, _) => exit::COULD_NOT_RUN,
        (false, true) => exit::FAILED,
        (false, false) => 0,
    }))
}

/// How many there are; then a line for each finding, its state first, and below it what to do:
/// what is wrong before what is right. What is not installed and nobody misses is one line.
fn text(findings: &[Finding], window: Option<usize>) -> Result<String, std::fmt::Error> {
    let count = |state| findings.iter().filter(|finding| finding.state == state).count();
    let mut text = String::new();
    writeln!(
        text,
        "{} findings: {} FAIL, {} WARN, {} OK, {} absent\n",
        findings.len(),
        count(Fail),
        count(Warn),
        count(Fine),
        count(Absent)
    )?;
    let (missed, unmissed): (Vec<&Finding>, Vec<&Finding>) =
        findings.iter().partition(|finding| !is_unmissed(finding, findings));
    let order = [Fail, Warn, Absent, Fine];
    let place = |finding: &&Finding| order.iter().position(|state| *state == finding.state);
    let mut shown = missed;
    shown.sort_by_key(place);
    let width = shown.iter().map(|finding| finding.what.len()).max().unwrap_or(0);
    for Finding { state, what, found, remedy } in shown {
        let state = match state {
            Fine => "OK",
            Warn => "WARN",
            Fail => "FAIL",
            Absent => "absent",
        };
        writeln!(text, "{state:<6}  {what:<width$}  {}", wrap(found, window, width + 10))?;
        if !remedy.is_empty() {
            writeln!(text, "        {:<width$}  -> {}", "", wrap(remedy, window, width + 13))?;
        }
    }
    let names: Vec<&str> = unmissed.iter().map(|finding| short_name(finding)).collect();
    if !names.is_empty() {
        let words =
            format!("{}: what needs them is skipped; doctor --json says more", names.join(", "));
        writeln!(text, "absent  {}", wrap(&words, window, 8))?;
    }
    Ok(text.trim_end().to_owned())
}

/// Whether something is absent that the machine does not need: a vendor's library on the host, and
/// what belongs to a driver that is absent too.
fn is_unmissed(finding: &Finding, all: &[Finding]) -> bool {
    let of_driver = [
        ("NVIDIA driver", &["NVML", "NVRTC", "cuBLASLt", "CUDA kernels"][..]),
        ("AMD driver", &["hipRTC", "hipBLASLt", "HIP kernels"]),
    ];
    let is_absent = |driver: &str| all.iter().any(|it| it.what == driver && it.state == Absent);
    let what = finding.what.as_str();
    let of_absent_driver =
        || of_driver.iter().any(|(driver, its)| its.contains(&what) && is_absent(driver));
    finding.state == Absent && (what == LIBRARY || of_absent_driver())
}

/// A name for a finding in a list.
fn short_name(finding: &Finding) -> &str {
    match finding.what.as_str() {
        LIBRARY => finding.found.split(' ').next().unwrap_or(LIBRARY),
        what => what,
    }
}

/// What findings of the host's vendor libraries are called.
const LIBRARY: &str = "library";

/// A finding; what to do about it is said unless it is as it should be.
fn finding(state: State, what: &str, found: impl Into<String>, remedy: &str) -> Finding {
    let remedy = if state == Fine { String::new() } else { remedy.into() };
    Finding { state, what: what.into(), found: found.into(), remedy }
}

fn either(is_fine: bool, otherwise: State) -> State {
    if is_fine { Fine } else { otherwise }
}

/// The machine around the program.
fn surroundings() -> Vec<Finding> {
    let environment = host::environment();
    let properties = BACKENDS[0].devices().ok().and_then(|devices| devices.into_iter().next());
    let virtualised = properties.as_ref().and_then(|properties| properties.virtualised.clone());
    let load = environment.load.unwrap_or(0.0);
    let busy = match load > LOAD_MAX * f64::from(environment.cpus.max(1)) {
        true => Fail,
        false => Warn,
    };
    let huge = environment.huge_pages.as_str();
    let is_debug = env!("FIZEAU_BUILD").ends_with("-debug");
    let mut findings = vec![
        finding(
            either(!is_debug, Warn),
            "build",
            if is_debug { "debug: host kernels may be three times slower" } else { "release" },
            "measure with a release build: cargo build --release",
        ),
        finding(
            either(virtualised.is_none(), Warn),
            "bare metal",
            virtualised.map_or("yes".into(), |kind| format!("no: under {kind}")),
            "other tenants of its host may affect results, unseen; accept machines on bare metal",
        ),
        finding(
            either(load <= LOAD_MAX, busy),
            "idle",
            format!("load average {load:.2} on {} CPUs", environment.cpus),
            "stop what else runs, or wait until the load is below 0.5",
        ),
        finding(
            either(environment.pinned, Fail),
            "pinned threads",
            if environment.pinned { "possible" } else { "refused by the OS" },
            "allow sched_setaffinity to this user or container",
        ),
        match environment.governor.as_deref() {
            Some(governor) => finding(
                either(governor != "powersave", Warn),
                "frequency governor",
                governor,
                "cpupower frequency-set -g performance",
            ),
            None => finding(
                Warn,
                "frequency governor",
                "unknown: the kernel does not show it",
                "a virtual machine's host sets the clock, unseen; elsewhere load a cpufreq driver",
            ),
        },
        finding(
            either(matches!(huge, "always" | "madvise"), Warn),
            "huge pages",
            huge,
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, as root",
        ),
    ];
    findings.extend(cpu_limits(&environment));
    let memory = properties.map(|properties| properties.memory).filter(|memory| memory.0 > 0);
    findings.push(match (environment.memory_limit, memory) {
        (Some(limit), _) => finding(
            Warn,
            "memory",
            format!("{limit} allowed by the control group (cgroup)"),
            "cases that need more are skipped: raise memory.max (version 1: \
             memory.limit_in_bytes), or the memory of the job or container",
        ),
        (None, Some(memory)) => finding(Fine, "memory", memory.to_string(), ""),
        (None, None) => finding(
            Warn,
            "memory",
            "unknown: /proc/meminfo cannot be read",
            "mount /proc: without it, nobody can tell which cases do not fit into memory",
        ),
    });
    findings
}

/// What keeps this process from CPUs that the machine has.
fn cpu_limits(environment: &Environment) -> Vec<Finding> {
    let is_known = host::groups().hidden().next().is_none();
    let quota = match host::quota_words(environment.cpu_quota, environment.cpus) {
        None if !is_known => finding(Warn, "CPU quota", "unknown", "see control groups below"),
        None => finding(Fine, "CPU quota", "none that limits", ""),
        Some(words) => finding(
            if environment.cpu_quota.is_some_and(|quota| quota < 1.0) { Fail } else { Warn },
            "CPU quota",
            words,
            "raise cpu.max (version 1: cpu.cfs_quota_us), or the CPU limit of the container",
        ),
    };
    let hidden = host::groups().hidden().map(|mount| {
        finding(
            Warn,
            "control groups",
            format!("this process's own group is not below {}", mount.display()),
            "limits on memory and CPU time may be set unseen: mount the cgroup file system anew",
        )
    });
    let cpuset = host::groups().cpus().map(|cpus| cpus.len());
    let cpus = cpus(environment.cpus as usize, cpuset, host::cpus::online());
    [cpus, quota].into_iter().chain(hidden).collect()
}

/// The CPUs that this process may use, of those that a control group leaves to it and of those that
/// are online.
fn cpus(allowed: usize, cpuset: Option<usize>, online: Option<usize>) -> Finding {
    let Some(online) = online.filter(|&online| allowed < online) else {
        return finding(Fine, "CPUs", format!("{allowed}, as many as there are"), "");
    };
    let by = match cpuset.is_some_and(|cpuset| cpuset < online) {
        true => "a control group's cpuset",
        false => "the CPU affinity of this process (taskset, numactl, a launcher)",
    };
    finding(
        Warn,
        "CPUs",
        format!("{allowed} of {online}, by {by}"),
        "figures are of these CPUs alone; datasheet peaks of memory are of whole sockets",
    )
}

/// The timer, and the harness on durations that are known.
fn timer() -> anyhow::Result<Vec<Finding>> {
    let device = choice::open("host")?;
    let timer = measure::calibrate_on(device.as_ref())?;
    let mut findings = vec![finding(
        either(timer.resolution <= Seconds(1e-6), Fail),
        "timer",
        format!("steps of {}, overhead {}", timer.resolution, timer.overhead),
        "use the TSC: cat /sys/devices/system/clocksource/clocksource0/current_clocksource",
    )];
    for test in measure::self_test(device.as_ref())? {
        let error = test.found.0 - test.known.0;
        if test.known.0 == 0.0 {
            // A step more or less is the timer's own.
            let limit = (timer.resolution + timer.overhead) * 2.0;
            let found = format!("measured as {}, at most {limit} is the timer's own", test.found);
            let state = either(test.found <= limit, Fail);
            findings.push(finding(state, "an empty case", found, BUSY));
        } else {
            let share = error / test.known.0;
            let what = format!("a case of {}", test.known);
            let found = format!("measured as {} ({:+.2} %)", test.found, 100.0 * share);
            // Shorter ones show the timer's own overhead, which is stated above.
            let good = test.known < Seconds(1e-3) || share.abs() <= ERROR_MAX;
            findings.push(finding(either(good, Fail), &what, found, BUSY));
        }
    }
    Ok(findings)
}

const BUSY: &str = "something interrupts this core: measure on an idle machine";

/// Each GPU, opened as a run opens it: a driver that lists a GPU may still refuse it a context.
/// Drivers that list none have said why.
fn gpus_opened() -> Vec<Finding> {
    let listed =
        choice::gpu_backends().filter_map(|backend| Some((backend, backend.devices().ok()?)));
    let all =
        listed.flat_map(|(backend, devices)| devices.into_iter().map(move |one| (backend, one)));
    let open = |(backend, properties): (&dyn Backend, Properties)| {
        let what = format!("{}:{} opens", backend.name(), properties.ordinal);
        match backend.open(properties.ordinal) {
            Ok(_) if properties.is_stub() => Finding::ok(&what, STUB),
            Ok(_) => Finding::ok(&what, "yes"),
            Err(error) => {
                let found = format!("no: {error}");
                let remedy = "see which processes hold it (nvidia-smi, amd-smi), and what the \
                              kernel's log says of it (dmesg)";
                Finding { state: Fail, what, found, remedy: remedy.into() }
            }
        }
    };
    all.map(open).collect()
}

/// What a passive check of an acceptance says of a GPU: what it would fail spoils figures.
fn at_rest(one: &Judged) -> Finding {
    let stub = if one.stub { format!(" ({STUB})") } else { String::new() };
    let action = one.action.map_or_else(String::new, |action| action.to_string());
    let cause = one.cause.map_or_else(String::new, |cause| format!(": {cause}"));
    Finding {
        state: if one.verdict == Verdict::Fail { Fail } else { Warn },
        what: one.device.clone(),
        found: format!("{}: {}{stub}", one.check, one.words),
        remedy: format!("{action}{cause}"),
    }
}

/// What no table has of the host and of each GPU that opens. Nothing of it spoils a measurement.
fn unknowns(catalogue: &Catalogue) -> Vec<Finding> {
    let devices = BACKENDS.iter().flat_map(|backend| {
        let all = backend.devices().unwrap_or_default().into_iter();
        all.filter_map(|one| backend.open(one.ordinal).ok())
    });
    let of_device = |device: Box<dyn Device>| {
        let mut environment = Environment::default();
        device.describe(&mut environment);
        let properties = device.properties();
        let what = match properties.backend.as_str() {
            "host" => "host".into(),
            backend => format!("{backend}:{}", properties.ordinal),
        };
        let finding = |Unknown { what: found, remedy }| Finding {
            state: Absent,
            what: what.clone(),
            found,
            remedy,
        };
        let unknowns = plan::unknowns(properties, catalogue, &environment);
        unknowns.into_iter().map(finding).collect::<Vec<_>>()
    };
    devices.flat_map(of_device).collect()
}

/// The host's vendor libraries.
fn libraries() -> Vec<Finding> {
    let versions = host::library_versions().into_iter();
    let mut findings: Vec<Finding> =
        versions.map(|version| finding(Fine, LIBRARY, version, "")).collect();
    findings.extend(host::libraries_missing().iter().map(|missing| Finding {
        state: if missing.refused.is_some() { Warn } else { Absent },
        what: LIBRARY.into(),
        found: match &missing.refused {
            Some(words) => format!("{} cannot be loaded ({words})", missing.name),
            None => format!("{} not found: comparison skipped", missing.name),
        },
        remedy: missing.remedy.into(),
    }));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_comes_first_and_what_nobody_misses_is_one_line() {
        let of = |state, what: &str, found: &str| Finding {
            state,
            what: what.into(),
            found: found.into(),
            remedy: String::new(),
        };
        let findings = [
            of(Fine, "idle", "yes"),
            of(Absent, LIBRARY, "blis not found"),
            of(Absent, "NVRTC", "not found"),
            of(Absent, "NVIDIA driver", "not found"),
            of(Warn, "hipRTC", "does not work"),
            of(Fail, "CPU quota", "half a CPU"),
        ];
        let text = text(&findings, None).expect("it is told");
        let starts: Vec<&str> = text.lines().filter_map(|line| line.split("  ").next()).collect();
        let first = "6 findings: 1 FAIL, 1 WARN, 1 OK, 3 absent";
        assert_eq!(starts, [first, "", "FAIL", "WARN", "absent", "OK", "absent"], "{text}");
        assert!(text.contains("\nabsent  blis, NVRTC: "), "{text}");
    }

    #[test]
    fn what_keeps_a_process_from_cpus_is_told() {
        for (allowed, cpuset, online, words) in [
            (8, Some(8), Some(8), "8, as many"),
            (8, None, None, "8, as many"),
            (2, Some(2), Some(8), "2 of 8, by a control group"),
            (1, Some(8), Some(8), "1 of 8, by the CPU affinity"),
            (1, None, Some(8), "1 of 8, by the CPU affinity"),
        ] {
            let told = cpus(allowed, cpuset, online);
            assert!(told.found.starts_with(words), "{told:?}");
            assert_eq!(told.state == Fine, words.contains("as many"), "{told:?}");
        }
    }
}
