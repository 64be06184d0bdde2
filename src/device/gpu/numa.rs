//! Where the host's memory for transfers is: on the NUMA node that the GPU is attached to, as
//! nvbandwidth has it. Pages are on the node of the CPU that writes or pins them first, so memory
//! is allocated by a thread that is kept to the node's CPUs meanwhile.

use crate::device::{
    host::{
        affinity::{self, CpuMask},
        cpus::cpu_list,
    },
    pci::DEVICES,
};
use std::fs;

/// Where the kernel describes NUMA nodes.
const NODES: &str = "/sys/devices/system/node";

/// The node that a PCI device is attached to; none where the kernel knows none.
pub fn node_of(pci: &str) -> Option<u32> {
    numbered(&fs::read_to_string(format!("{DEVICES}/{pci}/numa_node")).ok()?)
}

/// A node's number as the kernel writes it: -1 is none.
fn numbered(text: &str) -> Option<u32> {
    text.trim().parse().ok()
}

/// The CPUs of a node that this thread may use; none where there are none.
fn cpus_of(node: u32) -> Option<CpuMask> {
    let allowed = affinity::allowed().ok()?;
    let list = fs::read_to_string(format!("{NODES}/node{node}/cpulist")).ok()?;
    let cpus: Vec<usize> = cpu_list(&list).into_iter().filter(|&cpu| allowed.has(cpu)).collect();
    (!cpus.is_empty()).then(|| cpus.into_iter().collect())
}

/// Whether memory can be allocated on a node by this process.
pub fn is_within_reach(node: u32) -> bool {
    cpus_of(node).is_some()
}

/// Allocates on a node; wherever the system likes where there is none, or none within reach.
pub fn allocated_on<T>(node: Option<u32>, allocate: impl FnOnce() -> T) -> T {
    let before = affinity::allowed().ok();
    let moved = node.and_then(cpus_of).is_some_and(|mask| affinity::keep_to(&mask).is_ok());
    let made = allocate();
    if let Some(before) = before.filter(|_| moved) {
        // What was allowed before is allowed still.
        let _ = affinity::keep_to(&before);
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_a_node_has_none() {
        assert_eq!([numbered("1\n"), numbered("-1\n"), numbered("")], [Some(1), None, None]);
        assert_eq!(node_of("no such device"), None);
    }

    #[test]
    fn only_while_it_allocates_is_a_thread_kept_to_the_node() {
        let cpus = || affinity::allowed().map(|mask| mask.cpus()).ok();
        let (before, node) = (cpus(), cpus_of(0).map(|mask| mask.cpus()));
        let meanwhile = allocated_on(Some(0), cpus);
        assert_eq!(meanwhile, node.or(before.clone()));
        assert_eq!(cpus(), before);
        assert!(!is_within_reach(9_999));
        assert_eq!(allocated_on(Some(9_999), cpus), before);
    }
}
