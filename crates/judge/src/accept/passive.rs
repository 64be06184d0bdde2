//! Passive checks: verdicts on a node at rest, from what the kernel and the drivers tell.

use super::{Action, Judged, Level, cause::Cause, profile::Expected, scale_up};
use fizeau_domain::{
    node_state::{Gpu, Hiding, Host, Interface, NodeState, mode},
    text::{agreed, counted},
    verdict::Verdict,
};
use std::collections::BTreeSet;

/// What the rows of the node itself are called.
const NODE: &str = "node";

/// GPU memory errors and faults of the driver's log after which a device is not fit for work until
/// something is done, by their numbers, after NVIDIA's Xid catalogue
/// (docs.nvidia.com/deploy/xid-errors). Numbers that programs cause themselves (13, 31, 43, 45) are
/// not among them.
const FAULTS: [(u32, &str, Action); 9] = [
    (48, "double-bit memory error", Action::ResetGpu),
    (64, "a row of memory could not be replaced", Action::ContactSupport),
    (74, "NVLink error", Action::ResetGpu),
    (79, "the GPU fell off the bus", Action::Restart),
    (95, "uncontained memory error", Action::ResetGpu),
    (119, "the GPU's system processor does not answer", Action::ResetGpu),
    (120, "error of the GPU's system processor", Action::ResetGpu),
    (140, "unrecovered memory error", Action::ResetGpu),
    (143, "the GPU could not be initialised", Action::ResetGpu),
];

/// The share of the CPUs above which others' work shows in measurements.
const BUSY: f64 = 0.10;

/// Load average for each CPU above which it does, where nothing better is told.
const LOADED: f64 = 0.75;

/// What one check found on one thing: in order, or what is wrong.
type Found = Result<String, (String, Cause)>;

/// All passive checks, and where something is to be measured what would spoil that. What is not
/// told is no verdict: it is among the state's `unread`.
pub fn judge(state: &NodeState, expected: &Expected, level: Level) -> Vec<Judged> {
    let mut all = presence(state, expected);
    all.extend(state.hidden.iter().map(|folder| {
        let words = format!("nothing of {folder} is to be seen: what it tells is not judged");
        Judged::of_state("kernel's files", NODE, Verdict::Inconclusive, words)
    }));
    all.extend(of_gpus(state, expected));
    for interface in &state.interfaces {
        all.extend(of_interface(interface, expected));
    }
    all.extend(fabric(state));
    all.extend(of_host(&state.host, expected));
    if level > Level::Passive {
        all.extend(quiet(&state.host));
    }
    all
}

/// Those of GPUs, of what joins them, and of the faults that the log has of them: what `doctor` and
/// `run` say too.
pub fn of_gpus(state: &NodeState, expected: &Expected) -> Vec<Judged> {
    let mut all = Vec::new();
    for gpu in &state.gpus {
        let its = hidden(gpu, state).map_or_else(|| of_gpu(gpu, expected), |one| vec![one]);
        all.extend(its.into_iter().map(|one| Judged { stub: gpu.stub, ..one }));
    }
    all.extend(equality(&state.gpus));
    all.extend(faults(state));
    all.extend(scale_up::judge(state, expected));
    all
}

/// The variables that hide GPUs of a vendor from their driver; those of every vendor where none is
/// given.
fn hiding(state: &NodeState, vendor: Option<&str>) -> Option<String> {
    let its = |one: &&Hiding| vendor.is_none_or(|vendor| one.vendor == vendor);
    let all: BTreeSet<&str> = state.hiding.iter().filter(its).map(|one| one.by.as_str()).collect();
    (!all.is_empty()).then(|| all.into_iter().collect::<Vec<_>>().join(" and "))
}

/// A GPU that the user hides from its driver: no fault, and not judged.
fn hidden(gpu: &Gpu, state: &NodeState) -> Option<Judged> {
    let vendor = gpu.pci_id.as_ref().and_then(|id| id.split(':').next());
    let by = hiding(state, vendor).filter(|_| !gpu.has_driver)?;
    let words = format!("{by} hides it from its driver: unset that to have it judged");
    let one = Judged::of_state("GPU presence", &gpu.name, Verdict::Inconclusive, words);
    Some(one.because(Cause::Settings))
}

fn judged(check: &str, device: &str, found: Found) -> Judged {
    match found {
        Ok(words) => Judged::of_state(check, device, Verdict::Pass, words),
        Err((words, cause)) => Judged::of_state(check, device, Verdict::Fail, words).because(cause),
    }
}

fn either(is_fine: bool, words: String, cause: Cause) -> Found {
    if is_fine { Ok(words) } else { Err((words, cause)) }
}

fn presence(state: &NodeState, expected: &Expected) -> Vec<Judged> {
    let mut all = Vec::new();
    let stub = state.gpus.iter().any(|gpu| gpu.stub);
    let shown = state.gpus.iter().filter(|gpu| gpu.has_driver).count();
    if let Some(wanted) = expected.gpus {
        let words = format!("{shown} of {wanted} GPUs");
        let one = match hiding(state, None).filter(|_| shown < wanted) {
            Some(by) => {
                let words = format!("{words}: {by} hides others");
                Judged::of_state("GPU count", NODE, Verdict::Inconclusive, words)
                    .because(Cause::Settings)
            }
            None => judged("GPU count", NODE, either(shown == wanted, words, Cause::Missing)),
        };
        all.push(Judged { stub, ..one });
    } else if shown > 0 {
        let words =
            format!("{}; the profile does not say how many there should be", counted(shown, "GPU"));
        all.push(Judged { stub, ..judged("GPU count", NODE, Ok(words)) });
    }
    let up = state.interfaces.iter().filter(|one| one.is_up()).count();
    if let Some(wanted) = expected.interfaces {
        let words = format!("{up} of {wanted} network interfaces are up");
        all.push(judged("network count", NODE, either(up >= wanted, words, Cause::Missing)));
    }
    all
}

fn of_gpu(gpu: &Gpu, expected: &Expected) -> Vec<Judged> {
    let all = [links(gpu, expected), memory(gpu), settings(gpu, expected)].concat();
    let told = all.into_iter().filter_map(|(check, found)| Some((check, found?)));
    let one = |(check, found): (&str, Found)| {
        let one = judged(check, &gpu.name, found);
        // A reset is what a pending remap waits for.
        let waits = gpu.remap_failed != Some(true) && gpu.remap_pending == Some(true);
        let is_unclear = one.verdict == Verdict::Fail && is_unclear(gpu, check);
        match check == "row remaps" && waits {
            true => Judged { action: Some(Action::ResetGpu), ..one },
            false if is_unclear => Judged { verdict: Verdict::Inconclusive, ..one },
            false => one,
        }
    };
    told.map(one).chain(error_correction(gpu, expected)).collect()
}

/// Whether what looks like a fault may be as it was meant: clocks that a user holds where no
/// profile says whether they may be, and the link that a hypervisor shows of a GPU that it divides.
fn is_unclear(gpu: &Gpu, check: &str) -> bool {
    let is_vgpu = gpu.modes.iter().any(|one| one == mode::VGPU);
    check == "clocks" || is_vgpu && check.starts_with("PCI Express")
}

/// Whether memory is protected, which some parts are sold without.
fn error_correction(gpu: &Gpu, expected: &Expected) -> Option<Judged> {
    let on = gpu.ecc?;
    let words = if on { "on" } else { "off" }.to_owned();
    Some(match expected.ecc {
        Some(wanted) => judged("ECC", &gpu.name, either(on == wanted, words, Cause::Settings)),
        None if on => judged("ECC", &gpu.name, Ok(words)),
        None => {
            let words = "off, and the profile does not say whether it should be on".into();
            Judged::of_state("ECC", &gpu.name, Verdict::Inconclusive, words)
                .because(Cause::Settings)
        }
    })
}

/// A check, and what it found; `None` where it was not told.
type Looked = Vec<(&'static str, Option<Found>)>;

fn links(gpu: &Gpu, expected: &Expected) -> Looked {
    let place = || gpu.pci.clone().unwrap_or_default();
    let missing = (!gpu.has_driver).then(|| {
        let words = format!("the PCI bus shows a GPU at {}, and no driver does", place());
        Err((words, Cause::Missing))
    });
    let lanes = gpu.lanes.map(|[now, most]| {
        let wanted = expected.pcie_lanes.unwrap_or(most);
        either(now >= wanted, format!("x{now} of x{wanted}"), Cause::HalfWidth)
    });
    // At rest a link runs slower, to save power: what counts is what both ends can do.
    let generation = gpu.generation.zip(expected.pcie_generation).map(|([_, most], wanted)| {
        let words = format!("generation {most} of {wanted} at most");
        either(most >= wanted, words, Cause::HalfWidth)
    });
    let peers = gpu
        .peer_links
        .zip(expected.peer_links)
        .map(|(up, wanted)| either(up >= wanted, format!("{up} of {wanted} up"), Cause::PeerLink));
    vec![
        ("GPU presence", missing),
        ("PCI Express lanes", lanes),
        ("PCI Express generation", generation),
        ("links to other GPUs", peers),
    ]
}

fn memory(gpu: &Gpu) -> Looked {
    let errors = gpu.ecc_uncorrected.map(|count| {
        let words = format!("{count} not corrected since the driver was loaded");
        either(count == 0, words, Cause::Faults)
    });
    let remaps = gpu.remap_pending.map(|is_pending| match gpu.remap_failed {
        Some(true) => Err(("a row could not be replaced".into(), Cause::Faults)),
        _ if is_pending => Err(("a row waits for a reset to be replaced".into(), Cause::Faults)),
        _ => Ok("none pending, none failed".into()),
    });
    let pages = gpu.bad_pages.map(|count| {
        either(count == 0, format!("{count} pages are not used any more"), Cause::Faults)
    });
    vec![("memory errors", errors), ("row remaps", remaps), ("bad pages", pages)]
}

fn settings(gpu: &Gpu, expected: &Expected) -> Looked {
    let driver = gpu.driver.clone().zip(expected.driver.clone()).map(|(is, wanted)| {
        either(is == wanted, format!("{is}, the profile wants {wanted}"), Cause::Settings)
    });
    let power = gpu.power_limit.zip(gpu.power_default).map(|(now, default)| {
        let words = format!("{now:.0} W of {default:.0} W");
        either(now >= 0.99 * default, words, Cause::PowerCap)
    });
    let clocks = gpu.clock_locks.clone().map(|words| {
        // AMD's level at rest is `auto`; any other word holds the clocks.
        let is_fine = words == "auto" || expected.held_clocks;
        let words = match is_fine {
            true => format!("held: {words}"),
            false => format!(
                "held: {words}; the profile says whether they may be, by held_clocks = true"
            ),
        };
        either(is_fine, words, Cause::Settings)
    });
    let reasons = gpu.held_by.as_ref().map(|held| {
        let slow = |word: &&String| word.contains("slowdown") || word.contains("brake");
        match held.iter().find(slow) {
            Some(word) => Err((format!("at rest, and held by: {word}"), Cause::Thermal)),
            None => Ok("nothing holds its clock".into()),
        }
    });
    let partition = gpu.partition.clone().zip(expected.partition.clone()).map(|(is, wanted)| {
        // Where the kernel tells of the units alone, nothing is known of the memory.
        let is_it = is == wanted || wanted.starts_with(&format!("{is}/"));
        either(is_it, format!("{is}, the profile wants {wanted}"), Cause::Settings)
    });
    let processes = gpu.processes.map(|count| {
        let words = match count {
            1 => "1 process uses it".to_owned(),
            count => format!("{count} processes use it"),
        };
        either(count == 0, words, Cause::BusyDevice)
    });
    vec![
        ("driver", driver),
        ("power limit", power),
        ("clocks", clocks),
        ("clock reasons", reasons),
        ("processes", processes),
        ("partition", partition),
    ]
}

/// Drivers, firmware and parts that differ among the GPUs of a node.
fn equality(gpus: &[Gpu]) -> Vec<Judged> {
    let shown: Vec<&Gpu> = gpus.iter().filter(|gpu| gpu.has_driver).collect();
    if shown.len() < 2 {
        return Vec::new();
    }
    let stub = shown.iter().any(|gpu| gpu.stub);
    let one = |check: &str, of: fn(&Gpu) -> &Option<String>| {
        let all: BTreeSet<&String> = shown.iter().filter_map(|gpu| of(gpu).as_ref()).collect();
        let words = all.iter().map(|word| word.as_str()).collect::<Vec<_>>().join(", ");
        let found = match all.len() {
            0 => return None,
            1 => Ok(format!("the same on all: {words}")),
            _ => Err((format!("not the same on all: {words}"), Cause::Settings)),
        };
        Some(Judged { stub, ..judged(check, NODE, found) })
    };
    [
        one("same driver", |gpu| &gpu.driver),
        one("same firmware", |gpu| &gpu.firmware),
        one("same part", |gpu| &gpu.pci_id),
        one("same partition", |gpu| &gpu.partition).filter(|_| !shown.iter().any(is_divided)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Whether a GPU is divided by MIG, whose slices may differ on purpose.
fn is_divided(gpu: &&Gpu) -> bool {
    gpu.partition.as_ref().is_some_and(|partition| partition.starts_with("MIG"))
}

/// A fault that asks for something to be done: its number, what it is, and what to do.
pub fn fault(number: u32) -> Option<(u32, &'static str, Action)> {
    FAULTS.iter().find(|(of, ..)| *of == number).copied()
}

/// Faults of this boot.
fn faults(state: &NodeState) -> Vec<Judged> {
    let Some(faults) = &state.faults else { return Vec::new() };
    let mut all = Vec::new();
    let mut seen = BTreeSet::new();
    for fault in faults {
        let Some((number, words, action)) = self::fault(fault.number) else { continue };
        if !seen.insert((fault.pci.clone(), fault.number)) {
            continue;
        }
        let is_its = |gpu: &&Gpu| {
            gpu.pci.as_ref().is_some_and(|pci| pci.to_lowercase().starts_with(&fault.pci))
        };
        let gpu = state.gpus.iter().find(is_its);
        let device = gpu.map_or(fault.pci.as_str(), |gpu| gpu.name.as_str());
        let stub = gpu.is_some_and(|gpu| gpu.stub);
        let words = format!("Xid {number} since boot: {words}");
        let one = judged("faults in the log", device, Err((words, Cause::Faults)));
        all.push(Judged { action: Some(action), stub, ..one });
    }
    if all.is_empty() {
        let others = faults.len();
        let words = match others {
            0 => "no Xid since boot".into(),
            _ => format!("{others} Xids since boot, none that asks for more than a new start"),
        };
        all.push(judged("faults in the log", NODE, Ok(words)));
    }
    all
}

fn of_interface(interface: &Interface, expected: &Expected) -> Vec<Judged> {
    let name = &interface.name;
    let mut all = Vec::new();
    // A port without a cable is no fault unless the profile counts on it.
    if !interface.is_up() {
        return all;
    }
    if let Some((rate, wanted)) = interface.gigabits.zip(expected.interface_gigabits) {
        let words = format!("{rate:.0} of {wanted:.0} Gbit/s");
        let found = either(rate >= 0.99 * wanted, words, Cause::NetworkInterface);
        all.push(judged("network rate", name, found));
    }
    let counts: Vec<String> =
        interface.errors.iter().map(|(counter, count)| format!("{counter} {count}")).collect();
    // Counters are of all time: they tell that something was, and not that it is.
    let words = match counts.is_empty() {
        true => "no errors counted".into(),
        false => format!("errors counted since they were last cleared: {}", counts.join(", ")),
    };
    all.push(judged("network errors", name, Ok(words)));
    all
}

/// What lies between devices.
fn fabric(state: &NodeState) -> Vec<Judged> {
    let has_pair = state.gpus.len() + state.interfaces.len() > 1 && !state.gpus.is_empty();
    let mut all = Vec::new();
    if let (Some(bridges), true) = (&state.redirecting_bridges, has_pair) {
        let words = match bridges.len() {
            0 => "no bridge redirects what devices exchange".into(),
            count => format!(
                "{} {} what devices exchange ({}): copies between devices go by way of the root, \
                 unless this is a virtual machine's host",
                counted(count, "bridge"),
                agreed(count, "redirects", "redirect"),
                bridges[0]
            ),
        };
        all.push(judged("PCI ACS", NODE, either(bridges.is_empty(), words, Cause::Settings)));
    }
    if let (Some(kind), true) = (&state.iommu, has_pair) {
        let translates = kind.contains("DMA");
        let words = format!("the IOMMU's domains are {kind}");
        let one = match translates {
            false => judged("IOMMU", NODE, Ok(words)),
            // Some machines need it: it costs bandwidth and fails nothing.
            true => Judged::of_state(
                "IOMMU",
                NODE,
                Verdict::Pass,
                format!(
                    "{words}, which slows \
                 copies between devices: boot with iommu=pt where nothing else needs it"
                ),
            ),
        };
        all.push(one);
    }
    all
}

fn of_host(host: &Host, expected: &Expected) -> Vec<Judged> {
    let mut all = Vec::new();
    let mut add = |check: &str, found: Option<Found>| {
        all.extend(found.map(|found| judged(check, "host", found)));
    };
    add(
        "memory size",
        host.memory_gib.map(|size| match expected.memory_gib {
            Some(wanted) => {
                either(size >= wanted, format!("{size:.1} of {wanted:.1} GiB"), Cause::Missing)
            }
            None => Ok(format!("{size:.1} GiB; the profile does not say how much there should be")),
        }),
    );
    add(
        "memory of NUMA nodes",
        (host.nodes_gib.len() > 1).then(|| {
            let least = host.nodes_gib.iter().copied().fold(f64::INFINITY, f64::min);
            let most = host.nodes_gib.iter().copied().fold(0.0, f64::max);
            let words = format!("from {least:.0} to {most:.0} GiB");
            // A module that is missing is a sixteenth of a node's at the least.
            either(least >= 0.95 * most, words, Cause::Missing)
        }),
    );
    add(
        "CPUs",
        host.cpus.map(|[present, online]| match expected.cpus {
            Some(wanted) => {
                either(online >= wanted, format!("{online} online of {wanted}"), Cause::Missing)
            }
            // Hardware threads that were switched off are offline too.
            None => Ok(format!("{online} online of {present}")),
        }),
    );
    add(
        "memory errors",
        host.ecc_uncorrected.map(|count| {
            either(count == 0, format!("{count} not corrected since boot"), Cause::Faults)
        }),
    );
    add(
        "frequency governor",
        (!host.governors.is_empty()).then(|| {
            let is_fine = !host.governors.iter().any(|governor| governor == "powersave");
            // intel_pstate's own `powersave` clocks up under load.
            Ok(match is_fine {
                true => host.governors.join(", "),
                false => format!("{}: `performance` is steadier", host.governors.join(", ")),
            })
        }),
    );
    all
}

/// Whether others were at work on a host's CPUs before anything was measured.
pub fn is_busy(host: &Host) -> bool {
    let share = host.busy.zip(host.cpus).map(|(busy, [_, online])| busy / online.max(1) as f64);
    share.is_some_and(|share| share > BUSY)
}

/// What would spoil measurements: others' work, and limits of the control group. Neither is a fault
/// of the machine.
fn quiet(host: &Host) -> Vec<Judged> {
    let Some([_, online]) = host.cpus else { return Vec::new() };
    let one = |check: &str, is_fine: bool, words: String, cause: Cause| match is_fine {
        true => judged(check, "host", Ok(words)),
        false => Judged::of_state(check, "host", Verdict::Inconclusive, words).because(cause),
    };
    let mut all = Vec::new();
    let quota = host.cpu_quota;
    let words = quota.map_or("none".into(), |quota| {
        format!("{quota:.2} of {online} CPUs: raise cpu.max of this control group")
    });
    let is_enough = quota.is_none_or(|quota| quota >= online as f64);
    all.push(one("CPU quota", is_enough, words, Cause::CpuQuota));
    if let Some(busy) = host.busy {
        let words = format!("{busy:.2} of {online} CPUs at work before anything was measured");
        all.push(one("idle", !is_busy(host), words, Cause::BusyHost));
    } else if let Some(load) = host.load {
        let words = format!("load average {load:.2} on {online} CPUs");
        all.push(one("idle", load <= LOADED * online as f64, words, Cause::BusyHost));
    }
    all
}

#[cfg(test)]
mod tests;
