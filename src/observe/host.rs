//! The host's memory, CPUs and their settings.

use super::{names, word};
use crate::{device::host::cgroup::Groups, device::host::cpus::cpu_list, node_state::Host};
use std::{collections::BTreeSet, path::Path};

const KIB_IN_GIB: f64 = (1u64 << 20) as f64;

/// What its files tell.
pub fn host(root: &Path) -> Host {
    let nodes = root.join("sys/devices/system/node");
    let is_node =
        |name: &String| name.strip_prefix("node").is_some_and(|rest| rest.parse::<u32>().is_ok());
    let nodes_gib = names(&nodes).into_iter().filter(is_node).filter_map(|name| {
        // A node without memory is one of CPUs or devices alone.
        total(&word(&nodes.join(name).join("meminfo"))?).filter(|size| *size > 0.0)
    });
    let cpus = root.join("sys/devices/system/cpu");
    let count = |file: &str| Some(cpu_list(&word(&cpus.join(file))?).len());
    let governors: BTreeSet<String> = names(&cpus)
        .into_iter()
        .filter_map(|name| word(&cpus.join(name).join("cpufreq/scaling_governor")))
        .collect();
    let controllers = root.join("sys/devices/system/edac/mc");
    let errors = names(&controllers)
        .into_iter()
        .filter_map(|name| word(&controllers.join(name).join("ue_count"))?.parse::<u64>().ok());
    let load = word(&root.join("proc/loadavg"));
    Host {
        memory_gib: word(&root.join("proc/meminfo")).and_then(|text| total(&text)),
        nodes_gib: nodes_gib.collect(),
        cpus: count("present").zip(count("online")).map(|(present, online)| [present, online]),
        governors: governors.into_iter().collect(),
        cpu_quota: Groups::of(root).cpu_quota(),
        ecc_uncorrected: errors.reduce(|all, one| all.saturating_add(one)),
        load: load.and_then(|load| load.split_whitespace().next()?.parse().ok()),
    }
}

/// `MemTotal` of a `meminfo` in GiB, with or without the node's name before it.
fn total(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.contains("MemTotal:"))?;
    let size: f64 = line.split_once("MemTotal:")?.1.split_whitespace().next()?.parse().ok()?;
    Some(size / KIB_IN_GIB)
}
