//! What two records must have in common to be compared, and what they should.

use fizeau_domain::{outcome::Code, text::counted};
use fizeau_record::{Header, Record};
use std::collections::HashMap;

/// A trait of a run that its times depend on.
struct Trait {
    name: &'static str,
    /// Whether runs that differ in it were made on different machines.
    is_machine: bool,
    /// Its value, where the record has it.
    value: fn(&Header) -> Option<String>,
}

const fn machine(name: &'static str, value: fn(&Header) -> Option<String>) -> Trait {
    Trait { name, is_machine: true, value }
}

const fn setting(name: &'static str, value: fn(&Header) -> Option<String>) -> Trait {
    Trait { name, is_machine: false, value }
}

/// Everything that is compared before times are. A field of the record that can explain a change
/// belongs here, and nowhere else.
const TRAITS: &[Trait] = &[
    machine("part", |run| run.part.clone()),
    machine("device", |run| {
        Some(format!(
            "{} ({}, {})",
            run.device.name,
            run.device.backend,
            counted(run.device.units as usize, "unit")
        ))
    }),
    machine("PCI device", |run| run.device.pci_id.clone()),
    machine("CPU", |run| some(&run.environment.cpu)),
    machine("CPU family", |run| {
        run.device.cpu.map(|cpu| format!("{}.{}.{}", cpu.family, cpu.model, cpu.stepping))
    }),
    // Kernels keep a few megabytes more or less to themselves.
    machine("memory", |run| {
        let memory = Some(run.device.memory.0).filter(|&memory| memory > 0)?;
        Some(format!("{:.0} GiB", memory as f64 / GIB))
    }),
    machine("memory clock", |run| run.device.memory_mts.map(|rate| format!("{rate} MT/s"))),
    machine("memory bus", |run| run.device.memory_bus_bits.map(|bits| format!("{bits} bit"))),
    machine("caches", |run| {
        let sizes = run.device.caches.iter().map(|cache| format!("{}", cache.size));
        some(&sizes.collect::<Vec<_>>().join(", "))
    }),
    machine("stated clock", |run| run.device.clock.map(|clock| format!("{clock}"))),
    machine("PCI Express", |run| {
        run.device.pcie.map(|[generation, lanes]| format!("generation {generation} x{lanes}"))
    }),
    machine("sockets", |run| Some(run.device.sockets.to_string())),
    machine("hypervisor", |run| or_none(run.device.virtualised.clone())),
    machine("host", |run| run.environment.host.clone()),
    setting("Fizeau", |run| Some(run.fizeau.clone())),
    setting("build", |run| run.build.clone()),
    setting("suite", |run| Some(run.suite.clone())),
    setting("suite's text", |run| some(&run.suite_text)),
    setting("libraries and drivers", |run| or_none(some(&run.environment.libraries.join(", ")))),
    setting("operating system", |run| some(&run.environment.os)),
    setting("instruction sets and features", |run| some(&run.device.features.join(" "))),
    setting("CPUs allowed", |run| Some(run.environment.cpus.to_string())),
    setting("CPU quota", |run| {
        or_none(run.environment.cpu_quota.map(|quota| format!("{quota:.2} CPUs")))
    }),
    setting("memory limit", |run| {
        or_none(run.environment.memory_limit.map(|limit| limit.to_string()))
    }),
    setting("pinned threads", |run| Some(run.environment.pinned.to_string())),
    setting("huge pages", |run| some(&run.environment.huge_pages)),
    setting("frequency governor", |run| run.environment.governor.clone()),
    setting("CPU boost", |run| run.environment.boost.map(|boost| boost.to_string())),
    setting("microcode", |run| run.environment.microcode.clone()),
    setting("power limit", |run| {
        run.environment.settings.as_ref()?.power_limit.map(|limit| limit.to_string())
    }),
    setting("error correction of memory", |run| {
        run.environment.settings.as_ref()?.ecc.map(|ecc| ecc.to_string())
    }),
    setting("held clocks", |run| or_none(run.environment.settings.as_ref()?.clock_locks.clone())),
    setting("GPU firmware", |run| run.environment.settings.as_ref()?.vbios.clone()),
    setting("NUMA node of host memory", |run| {
        run.environment.host_memory_node.map(|node| node.to_string())
    }),
    setting("cache set aside", |run| {
        or_none(run.device.cache_set_aside.filter(|size| size.0 > 0).map(|size| size.to_string()))
    }),
    setting("network", |run| {
        or_none(run.environment.network.map(|network| {
            let (nodes, gigabits) = (network.nodes, network.gigabits);
            let nodes = counted(nodes as usize, "node");
            let interfaces = counted(network.interfaces as usize, "interface");
            format!("{nodes}, {interfaces}, {gigabits} Gbit/s")
        }))
    }),
];

const GIB: f64 = (1u64 << 30) as f64;

/// Longer values are not printed: a suite's text fills pages.
const VALUE_MAX: usize = 120;

/// The value of a trait of which a run may have none, and a record without it says so: a CPU
/// without a hypervisor, a process without a quota. The other traits are unknown where absent.
fn or_none(value: Option<String>) -> Option<String> {
    Some(value.unwrap_or_else(|| "none".to_owned()))
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// A trait in which two runs differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// In words, with both values.
    pub words: String,
    /// Whether it makes them different machines.
    pub is_machine: bool,
}

/// Every recorded trait in which two runs differ. Where none is a value (hypervisor, quota, limit,
/// held clocks, cache set aside, network) it differs from any other. What else only one of them has
/// recorded is no difference: the other may be older, or have left out the host's name.
pub fn differences(names: [&str; 2], before: &Header, after: &Header) -> Vec<Difference> {
    let differs = |one: &Trait| {
        let (a, b) = ((one.value)(before)?, (one.value)(after)?);
        if a == b {
            return None;
        }
        let words = if a.len().max(b.len()) > VALUE_MAX || a.contains('\n') || b.contains('\n') {
            format!("{} differs", one.name)
        } else {
            format!("{}: {a} in {}, {b} in {}", one.name, names[0], names[1])
        };
        Some(Difference { words, is_machine: one.is_machine })
    };
    TRAITS.iter().filter_map(differs).collect()
}

/// How many cases ran other code in two runs (another image of a kernel, another version of a
/// library), in words; `None` where none did, or the records do not tell.
pub fn other_code(names: [&str; 2], before: &Record, after: &Record) -> Option<Difference> {
    let measured = |record: &'_ Record| -> HashMap<String, Vec<Code>> {
        let measured = record.outcomes.iter().filter_map(|outcome| outcome.measured());
        let told = measured.filter(|one| !one.code.is_empty());
        told.map(|one| (one.case.to_string(), one.code.clone())).collect()
    };
    let (a, b) = (measured(before), measured(after));
    let differs = |(id, code): &(&String, &Vec<Code>)| b.get(*id).is_some_and(|of| of != *code);
    let count = a.iter().filter(differs).count();
    let words = format!(
        "other code (images of kernels, libraries) in {} than in {}: {}",
        names[1],
        names[0],
        counted(count, "case")
    );
    (count > 0).then_some(Difference { words, is_machine: false })
}
