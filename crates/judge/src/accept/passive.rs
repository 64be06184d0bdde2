//! Passive checks: verdicts on a node at rest, from what the kernel and the drivers tell.

use super::{Action, Judged, Level, cause::Cause, profile::Expected};
use fizeau_domain::{
    node_state::{Gpu, Host, Interface, NodeState},
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
    for gpu in &state.gpus {
        all.extend(of_gpu(gpu, expected).into_iter().map(|one| Judged { stub: gpu.stub, ..one }));
    }
    all.extend(equality(&state.gpus));
    all.extend(faults(state));
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
        let found = either(shown == wanted, words, Cause::Missing);
        all.push(Judged { stub, ..judged("GPU count", NODE, found) });
    } else if shown > 0 {
        let words = format!("{shown} GPUs; the profile does not say how many there should be");
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
        match check == "row remaps" && waits {
            true => Judged { action: Some(Action::ResetGpu), ..one },
            false => one,
        }
    };
    told.map(one).chain(error_correction(gpu, expected)).collect()
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
        either(is_fine, format!("held: {words}"), Cause::Settings)
    });
    let reasons = gpu.held_by.as_ref().map(|held| {
        let slow = |word: &&String| word.contains("slowdown") || word.contains("brake");
        match held.iter().find(slow) {
            Some(word) => Err((format!("at rest, and held by: {word}"), Cause::Thermal)),
            None => Ok("nothing holds its clock".into()),
        }
    });
    let processes = gpu
        .processes
        .map(|count| either(count == 0, format!("{count} processes use it"), Cause::BusyDevice));
    vec![
        ("driver", driver),
        ("power limit", power),
        ("clocks", clocks),
        ("clock reasons", reasons),
        ("processes", processes),
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
    ]
    .into_iter()
    .flatten()
    .collect()
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
                "{count} bridges redirect what devices exchange ({}): copies between devices go by \
                 way of the root, unless this is a virtual machine's host",
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
mod tests {
    use super::*;
    use fizeau_domain::node_state::Fault;

    /// A node of two GPUs at which nothing is wrong.
    fn healthy() -> NodeState {
        let gpu = |at: u32| Gpu {
            name: format!("cuda:{at}"),
            pci: Some(format!("0000:{:02x}:00.0", at + 1)),
            has_driver: true,
            driver: Some("580.1".into()),
            firmware: Some("96".into()),
            lanes: Some([16, 16]),
            generation: Some([1, 5]),
            ecc: Some(true),
            ecc_uncorrected: Some(0),
            remap_pending: Some(false),
            remap_failed: Some(false),
            peer_links: Some(18),
            power_limit: Some(700.0),
            power_default: Some(700.0),
            held_by: Some(Vec::new()),
            processes: Some(0),
            ..Gpu::default()
        };
        let interface = Interface {
            name: "mlx5_0/1".into(),
            state: Some("4: ACTIVE".into()),
            gigabits: Some(400.0),
            ..Interface::default()
        };
        NodeState {
            gpus: vec![gpu(0), gpu(1)],
            interfaces: vec![interface],
            redirecting_bridges: Some(Vec::new()),
            faults: Some(Vec::new()),
            host: Host {
                memory_gib: Some(2_000.0),
                nodes_gib: vec![1_000.0, 1_000.0],
                cpus: Some([192, 192]),
                governors: vec!["performance".into()],
                ecc_uncorrected: Some(0),
                load: Some(0.1),
                ..Host::default()
            },
            ..NodeState::default()
        }
    }

    fn expected() -> Expected {
        Expected {
            gpus: Some(2),
            pcie_lanes: Some(16),
            pcie_generation: Some(5),
            peer_links: Some(18),
            ecc: Some(true),
            driver: Some("580.1".into()),
            interfaces: Some(1),
            interface_gigabits: Some(400.0),
            memory_gib: Some(1_900.0),
            cpus: Some(192),
            ..Expected::default()
        }
    }

    /// The checks that are not passed, with device, verdict and cause.
    fn amiss(state: &NodeState, expected: &Expected) -> Vec<(String, String, Option<Cause>)> {
        let all = judge(state, expected, Level::Quick);
        let amiss = all.into_iter().filter(|one| one.verdict != Verdict::Pass);
        amiss.map(|one| (one.check, one.device, one.cause)).collect()
    }

    #[test]
    fn a_node_of_which_nothing_is_to_be_seen_does_not_pass() {
        let hidden = NodeState { hidden: vec!["/sys".into()], ..healthy() };
        let all = judge(&hidden, &expected(), Level::Passive);
        let open: Vec<&Judged> =
            all.iter().filter(|one| one.verdict == Verdict::Inconclusive).collect();
        assert_eq!(open.len(), 1, "{open:?}");
        assert!(open[0].words.contains("nothing of /sys is to be seen"), "{open:?}");
    }

    #[test]
    fn a_healthy_node_passes() {
        assert_eq!(amiss(&healthy(), &expected()), []);
        assert!(judge(&healthy(), &expected(), Level::Quick).len() > 20);
        assert_eq!(amiss(&healthy(), &Expected::default()), []);
        assert_eq!(amiss(&NodeState::default(), &Expected::default()), []);
    }

    #[test]
    fn each_planted_fault_is_found_and_no_other() {
        type Plant = fn(&mut NodeState);
        let plants: [(Plant, &str, &str, Cause); 19] = [
            (
                |s| {
                    s.gpus.pop();
                },
                "GPU count",
                "node",
                Cause::Missing,
            ),
            (|s| s.gpus[1].lanes = Some([8, 16]), "PCI Express lanes", "cuda:1", Cause::HalfWidth),
            (
                |s| s.gpus[1].generation = Some([1, 4]),
                "PCI Express generation",
                "cuda:1",
                Cause::HalfWidth,
            ),
            (|s| s.gpus[0].ecc = Some(false), "ECC", "cuda:0", Cause::Settings),
            (|s| s.gpus[0].ecc_uncorrected = Some(1), "memory errors", "cuda:0", Cause::Faults),
            (|s| s.gpus[0].remap_pending = Some(true), "row remaps", "cuda:0", Cause::Faults),
            (|s| s.gpus[0].remap_failed = Some(true), "row remaps", "cuda:0", Cause::Faults),
            (|s| s.gpus[0].bad_pages = Some(3), "bad pages", "cuda:0", Cause::Faults),
            (|s| s.gpus[0].peer_links = Some(17), "links to other GPUs", "cuda:0", Cause::PeerLink),
            (|s| s.gpus[0].power_limit = Some(500.0), "power limit", "cuda:0", Cause::PowerCap),
            (
                |s| s.gpus[0].clock_locks = Some("manual".into()),
                "clocks",
                "cuda:0",
                Cause::Settings,
            ),
            (
                |s| s.gpus[0].held_by = Some(vec!["hardware slowdown".into()]),
                "clock reasons",
                "cuda:0",
                Cause::Thermal,
            ),
            (|s| s.gpus[0].processes = Some(1), "processes", "cuda:0", Cause::BusyDevice),
            (|s| s.gpus[0].firmware = Some("97".into()), "same firmware", "node", Cause::Settings),
            (
                |s| s.interfaces[0].gigabits = Some(200.0),
                "network rate",
                "mlx5_0/1",
                Cause::NetworkInterface,
            ),
            (|s| s.host.nodes_gib[1] = 900.0, "memory of NUMA nodes", "host", Cause::Missing),
            (|s| s.host.cpu_quota = Some(1.0), "CPU quota", "host", Cause::CpuQuota),
            (|s| s.host.load = Some(190.0), "idle", "host", Cause::BusyHost),
            (|s| s.host.busy = Some(40.0), "idle", "host", Cause::BusyHost),
        ];
        for (plant, check, device, cause) in plants {
            let mut state = healthy();
            plant(&mut state);
            let found = amiss(&state, &expected());
            assert_eq!(found, [(check.to_owned(), device.to_owned(), Some(cause))]);
        }
    }

    #[test]
    fn what_spoils_measurements_counts_only_where_something_is_measured() {
        let mut state = healthy();
        state.host.load = Some(190.0);
        state.host.cpu_quota = Some(1.0);
        let of = |level| -> Vec<Verdict> {
            judge(&state, &expected(), level).iter().map(|one| one.verdict).collect()
        };
        assert!(of(Level::Passive).iter().all(|one| *one == Verdict::Pass));
        let unclear = of(Level::Quick).into_iter().filter(|one| *one == Verdict::Inconclusive);
        assert_eq!(unclear.count(), 2);
    }

    #[test]
    fn faults_of_the_log_name_their_device_once_and_those_of_programs_none() {
        let mut state = healthy();
        let fault = |number| Fault { pci: "0000:02:00".into(), number, line: String::new() };
        state.faults = Some(vec![fault(31), fault(79), fault(79)]);
        let all = judge(&state, &expected(), Level::Passive);
        let failed: Vec<_> = all.iter().filter(|one| one.verdict == Verdict::Fail).collect();
        assert_eq!(failed.len(), 1, "{failed:?}");
        assert_eq!(
            (failed[0].device.as_str(), failed[0].action),
            ("cuda:1", Some(Action::Restart))
        );
        state.faults = Some(vec![fault(31)]);
        assert_eq!(amiss(&state, &expected()), []);
    }

    #[test]
    fn a_gpu_without_a_driver_is_missing() {
        let mut state = healthy();
        state.gpus[1].has_driver = false;
        let found = amiss(&state, &expected());
        assert!(found.iter().any(|one| one.0 == "GPU presence"), "{found:?}");
        assert!(found.iter().any(|one| one.0 == "GPU count"), "{found:?}");
    }
}
