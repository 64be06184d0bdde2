//! `fizeau doctor`: what would spoil numbers here, and how to mend it.

use super::Global;
use crate::{
    device::{self, BACKENDS, Finding},
    measure,
    units::Seconds,
    world::choice,
};
use std::{fmt::Write as _, process::ExitCode};

/// A spin of 1 ms is to be measured this well.
const ERROR_MAX: f64 = 0.01;

/// Looks at the machine. Always exit code 0: a warning is no failure.
///
/// # Errors
/// Where the host cannot be opened.
pub fn run(global: &Global) -> anyhow::Result<ExitCode> {
    let mut findings = surroundings();
    findings.extend(timer()?);
    findings.extend(libraries());
    findings.extend(BACKENDS.iter().flat_map(|backend| backend.findings()));
    if global.json {
        return super::print_json(&findings);
    }
    let width = findings.iter().map(|finding| finding.what.len()).max().unwrap_or(0);
    let mut text = String::new();
    for Finding { good, what, found, mend } in &findings {
        let mark = if *good { "ok  " } else { "look" };
        writeln!(text, "{mark}  {what:<width$}  {found}")?;
        if !mend.is_empty() {
            writeln!(text, "      {:<width$}  -> {mend}", "")?;
        }
    }
    let open = findings.iter().filter(|finding| !finding.good).count();
    write!(text, "\n{open} of {} findings are worth a look", findings.len())?;
    let lines: Vec<String> = text.lines().map(crate::text::clean).collect();
    super::print(&lines.join("\n"))
}

fn finding(good: bool, what: &str, found: impl Into<String>, mend: &str) -> Finding {
    let mend = if good { String::new() } else { mend.into() };
    Finding { good, what: what.into(), found: found.into(), mend }
}

/// The machine around the program.
fn surroundings() -> Vec<Finding> {
    let environment = device::host::environment();
    let properties = BACKENDS[0].devices().ok().and_then(|devices| devices.into_iter().next());
    let virtualised = properties.and_then(|properties| properties.virtualised);
    let load = environment.load.unwrap_or(0.0);
    let governor = environment.governor.as_deref().unwrap_or("not shown");
    let huge = environment.huge_pages.as_str();
    vec![
        finding(
            virtualised.is_none(),
            "bare metal",
            virtualised.map_or("yes".into(), |kind| format!("no: under {kind}")),
            "neighbours share memory and clock unseen; for an acceptance use the bare machine",
        ),
        finding(
            load <= 0.5,
            "idle",
            format!("load average {load:.2}"),
            "stop what else runs, or wait until the load is below 0.5",
        ),
        finding(
            environment.pinned,
            "pinned threads",
            if environment.pinned { "possible" } else { "refused by the OS" },
            "allow sched_setaffinity to this user or container",
        ),
        finding(
            governor != "powersave",
            "frequency governor",
            governor,
            "cpupower frequency-set -g performance",
        ),
        finding(
            matches!(huge, "always" | "madvise"),
            "huge pages",
            huge,
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, as root",
        ),
    ]
}

/// The timer, and the harness on durations that are known.
fn timer() -> anyhow::Result<Vec<Finding>> {
    let device = choice::open("host")?;
    let timer = measure::calibrate_on(device.as_ref())?;
    let mut findings = vec![finding(
        timer.resolution <= Seconds(1e-6),
        "timer",
        format!("steps of {}, overhead {}", timer.resolution, timer.overhead),
        "use the TSC: cat /sys/devices/system/clocksource/clocksource0/current_clocksource",
    )];
    for test in measure::self_test(device.as_ref())? {
        let error = test.found.0 - test.known.0;
        if test.known.0 == 0.0 {
            let limit = timer.resolution + timer.overhead;
            let found = format!("measured as {}, timer's limit {limit}", test.found);
            findings.push(finding(test.found <= limit, "an empty case", found, BUSY));
        } else {
            let share = error / test.known.0;
            let what = format!("a case of {}", test.known);
            let found = format!("measured as {} ({:+.2} %)", test.found, 100.0 * share);
            // Shorter ones show the timer's own overhead, which is stated above.
            let good = test.known < Seconds(1e-3) || share.abs() <= ERROR_MAX;
            findings.push(finding(good, &what, found, BUSY));
        }
    }
    Ok(findings)
}

const BUSY: &str = "something interrupts this core: measure on an idle machine";

/// The host's vendor libraries.
fn libraries() -> Vec<Finding> {
    let versions = device::host::library_versions().into_iter();
    let mut findings: Vec<Finding> =
        versions.map(|version| finding(true, "library", version, "")).collect();
    findings.extend(device::host::libraries_missing().into_iter().map(|(name, mend)| Finding {
        good: true,
        what: "library".into(),
        found: format!("{name} not found: its rows are not planned"),
        mend: mend.into(),
    }));
    findings
}
