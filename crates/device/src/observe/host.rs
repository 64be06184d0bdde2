//! The host's memory, CPUs and their settings.

use super::{names, word};
use crate::{
    clock,
    host::{cgroup::Groups, cpus::cpu_list},
};
use fizeau_domain::{node_state::Host, units::Seconds};
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
        busy: None,
    }
}

/// How long CPUs are watched: thirty of the kernel's ticks.
const WATCHED: Seconds = Seconds(0.3);

/// How many CPUs are at work now, those that a hypervisor takes for others among them; `None` where
/// the kernel does not tell. Takes a third of a second.
pub fn busy(root: &Path) -> Option<f64> {
    let times = || times(&word(&root.join("proc/stat"))?);
    let [idle, all, cpus] = times()?;
    clock::rest(WATCHED);
    let [idle_after, all_after, _] = times()?;
    let passed = all_after - all;
    (passed > 0.0).then(|| cpus * (1.0 - (idle_after - idle) / passed).clamp(0.0, 1.0))
}

/// Ticks of all CPUs together: idle ones and all, and how many CPUs there are.
fn times(stat: &str) -> Option<[f64; 3]> {
    let line = stat.lines().find(|line| line.starts_with("cpu "))?;
    // user nice system idle iowait irq softirq steal; what guests take is within user and nice.
    let ticks = line.split_whitespace().skip(1).take(8).map(str::parse::<f64>);
    let ticks: Vec<f64> = ticks.collect::<Result<_, _>>().ok()?;
    let &[_, _, _, idle, waiting, ..] = ticks.as_slice() else { return None };
    let is_cpu = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
    let cpus = stat.lines().filter(is_cpu).count();
    Some([idle + waiting, ticks.iter().sum(), cpus as f64])
}

/// `MemTotal` of a `meminfo` in GiB, with or without the node's name before it.
fn total(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.contains("MemTotal:"))?;
    let size: f64 = line.split_once("MemTotal:")?.1.split_whitespace().next()?.parse().ok()?;
    Some(size / KIB_IN_GIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_read_with_those_that_a_hypervisor_takes() {
        let stat = "cpu  10 0 20 60 5 0 1 4 9 0\ncpu0 5 0 10 30 0 0 0 4 9 0\n\
                    cpu1 5 0 10 30 5 0 1 0\nintr 5\n";
        assert_eq!(times(stat), Some([65.0, 100.0, 2.0]));
        assert_eq!(times("cpu  a b\n"), None);
        assert_eq!(times("cpu  1 2\n"), None);
    }
}
