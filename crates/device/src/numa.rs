//! Where the host's memory for transfers is: on the NUMA node that the GPU is attached to, as
//! nvbandwidth has it, or on a node that is asked for. Pages are on the node of the CPU that writes
//! or pins them first, so memory is allocated by a thread that is kept to the node's CPUs
//! meanwhile. Containers without the right to set a memory policy (Docker's filter of system calls
//! refuses it) allow that.

use super::{
    Buffer, DeviceError, Result,
    host::{
        affinity::{self, CpuMask},
        cpus::cpu_list,
    },
    pci::DEVICES,
};
use fizeau_domain::{case::MemoryNode, units::Bytes};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// Where the kernel describes NUMA nodes.
const NODES: &str = "/sys/devices/system/node";

/// Where the kernel says on which nodes the pages of each mapping of this process are.
const MAPS: &str = "/proc/self/numa_maps";

/// The kernel's files are looked for below this directory: `/` but in tests.
static ROOT: OnceLock<PathBuf> = OnceLock::new();

/// Looks for the kernel's files of NUMA nodes below a directory from now on: for tests. The first
/// call counts.
pub fn read_below(root: &Path) {
    // The same process is told once.
    let _ = ROOT.set(root.to_owned());
}

fn text(path: &str) -> Option<String> {
    let root = ROOT.get().map_or(Path::new("/"), PathBuf::as_path);
    fs::read_to_string(root.join(path.trim_start_matches('/'))).ok()
}

/// The node that a PCI device is attached to; none where the kernel knows none.
pub fn node_of(pci: &str) -> Option<u32> {
    numbered(&text(&format!("{DEVICES}/{pci}/numa_node"))?)
}

/// A node's number as the kernel writes it: -1 is none.
fn numbered(text: &str) -> Option<u32> {
    text.trim().parse().ok()
}

/// The nodes that have memory and CPUs, and whether this process may run there, by number. Nodes
/// without CPUs are not the host's own: GPUs show their memory as such, and expanders theirs.
fn of_host() -> Vec<(u32, bool)> {
    let list = |file: &str| text(&format!("{NODES}/{file}")).map(|text| cpu_list(&text));
    let (Some(with_memory), Some(with_cpus)) = (list("has_memory"), list("has_cpu")) else {
        return Vec::new();
    };
    let both = with_memory.intersection(&with_cpus);
    both.map(|&node| (node as u32, is_within_reach(node as u32))).collect()
}

/// The nodes of the host that memory can be bound to by this process, each with its distance from
/// the node that a device is attached to.
pub fn nodes_from(own: Option<u32>) -> Vec<MemoryNode> {
    let all = of_host();
    let distances = own.and_then(distances).unwrap_or_default();
    let distance = |number: u32| match all.len() {
        // There is nothing else to be near to.
        1 => Some(MemoryNode::LOCAL),
        _ => distances.get(&number).copied(),
    };
    let within = all.iter().filter(|(_, is_within_reach)| *is_within_reach);
    within.map(|&(number, _)| MemoryNode { number, distance: distance(number) }).collect()
}

/// The nodes of the host that this process may not run on, so that it binds no memory to them.
pub fn out_of_reach() -> Vec<u32> {
    let all = of_host().into_iter();
    all.filter(|(_, is_within_reach)| !is_within_reach).map(|(node, _)| node).collect()
}

/// How far each node is from one, by number: the kernel lists those that are online in order.
fn distances(from: u32) -> Option<BTreeMap<u32, u32>> {
    let online = cpu_list(&text(&format!("{NODES}/online"))?);
    let row = text(&format!("{NODES}/node{from}/distance"))?;
    let row: Vec<u32> = row.split_whitespace().map_while(|word| word.parse().ok()).collect();
    (row.len() == online.len())
        .then(|| online.into_iter().map(|node| node as u32).zip(row).collect())
}

/// The CPUs of a node that this thread may use; none where there are none.
fn cpus_of(node: u32) -> Option<CpuMask> {
    let allowed = affinity::allowed().ok()?;
    let list = text(&format!("{NODES}/node{node}/cpulist"))?;
    let cpus: Vec<usize> = cpu_list(&list).into_iter().filter(|&cpu| allowed.has(cpu)).collect();
    (!cpus.is_empty()).then(|| cpus.into_iter().collect())
}

/// Whether memory can be allocated on a node by this process.
pub fn is_within_reach(node: u32) -> bool {
    cpus_of(node).is_some()
}

/// Allocates on a node; wherever the system likes where there is none, or none within reach.
pub fn allocated_near<T>(node: Option<u32>, allocate: impl Fn() -> T) -> T {
    match node.map(|node| allocated_on(node, &allocate)) {
        Some(Ok(made)) => made,
        _ => allocate(),
    }
}

/// Allocates on a node and on no other.
///
/// # Errors
/// [`DeviceError::Unsupported`] where this process may not run on the node's CPUs.
pub fn allocated_on<T>(node: u32, allocate: impl FnOnce() -> T) -> Result<T> {
    let before = affinity::allowed().ok();
    let moved = cpus_of(node).is_some_and(|mask| affinity::keep_to(&mask).is_ok());
    let Some(before) = before.filter(|_| moved) else {
        let needs = format!("CPUs of NUMA node {node}, for memory on it: allow this process there");
        return Err(DeviceError::Unsupported { kernel: "copy".into(), needs });
    };
    let made = allocate();
    // What was allowed before is allowed still.
    let _ = affinity::keep_to(&before);
    Ok(made)
}

/// Refuses memory that the kernel says is on other nodes than the one that was asked for: a node
/// that is full leaves it to the next. Of memory that a driver maps by itself the kernel may say
/// nothing.
///
/// # Errors
/// [`DeviceError::Driver`] with the nodes where it is.
pub fn prove(node: u32, buffer: &Buffer) -> Result<()> {
    let Some(maps) = text(MAPS) else { return Ok(()) };
    match elsewhere(&maps, buffer.address, buffer.size, node) {
        None => Ok(()),
        Some(nodes) => Err(DeviceError::Driver(format!(
            "host memory was to be on NUMA node {node}, and the kernel put it on node {nodes}: is \
             the node's memory full?"
        ))),
    }
}

/// The other nodes on which most of a buffer is, by the text of `numa_maps` (proc(5)); none where
/// most of it is on the right one, or nothing is told of it. Mappings that touch each other may
/// stand in one line, so that the line can have more pages than the buffer.
fn elsewhere(maps: &str, address: u64, size: Bytes, node: u32) -> Option<String> {
    let start = |line: &&str| u64::from_str_radix(line.split(' ').next()?, 16).ok();
    let before = maps.lines().filter(|line| start(line).is_some_and(|start| start <= address));
    let line = before.max_by_key(|line| start(line))?;
    let page: u64 = line.split(' ').find_map(|word| {
        let kib: u64 = word.strip_prefix("kernelpagesize_kB=")?.parse().ok()?;
        Some(kib << 10)
    })?;
    let pages = line.split(' ').filter_map(|word| {
        let (number, count) = word.strip_prefix('N')?.split_once('=')?;
        Some((number.parse::<u32>().ok()?, count.parse::<u64>().ok()?.saturating_mul(page)))
    });
    let on: BTreeMap<u32, u64> = pages.collect();
    let half = size.0 / 2;
    let right = on.get(&node).copied().unwrap_or(0);
    let others: Vec<(&u32, &u64)> = on.iter().filter(|(of, _)| **of != node).collect();
    let is_wrong = right < half && others.iter().map(|(_, bytes)| **bytes).sum::<u64>() > half;
    let names = others.iter().map(|(of, _)| of.to_string()).collect::<Vec<_>>().join(", ");
    is_wrong.then_some(names)
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
        let meanwhile = allocated_near(Some(0), cpus);
        assert_eq!(meanwhile, node.or(before.clone()));
        assert_eq!(cpus(), before);
        assert!(!is_within_reach(9_999));
        assert_eq!(allocated_near(Some(9_999), cpus), before);
        let refused = allocated_on(9_999, cpus);
        assert!(matches!(refused, Err(DeviceError::Unsupported { .. })), "{refused:?}");
    }

    #[test]
    fn memory_on_another_node_is_told_from_the_kernels_list() {
        let maps = "7f0000000000 default anon=4 dirty=4 active=0 N1=4 kernelpagesize_kB=4\n\
                    7f0000100000 default anon=256 dirty=256 N0=200 N1=56 kernelpagesize_kB=4\n\
                    7f0000200000 default\n";
        let of = |address, pages: u64, node| elsewhere(maps, address, Bytes(pages << 12), node);
        assert_eq!(of(0x7f00_0000_0000, 4, 1), None);
        assert_eq!(of(0x7f00_0000_0000, 4, 0).as_deref(), Some("1"));
        // One of two buffers in a line: either node has enough pages for it.
        assert_eq!([of(0x7f00_0010_0000, 56, 1), of(0x7f00_0010_0000, 200, 0)], [None, None]);
        assert_eq!(of(0x7f00_0010_0000, 256, 1).as_deref(), Some("0"));
        // Of what a driver maps nothing is told.
        assert_eq!([of(0x7f00_0020_0000, 64, 0), of(0x10, 1, 0)], [None, None]);
    }
}
