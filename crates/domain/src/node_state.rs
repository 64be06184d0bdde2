//! What was observed of a node without putting load on it. `None` means that it was not told.

mod fabric;

pub use fabric::{Domain, Fabric, FabricFault, FabricHealth, FabricState, Hiding};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A node at rest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeState {
    /// GPUs, by what the PCI bus shows and by what their driver adds.
    pub gpus: Vec<Gpu>,
    /// Network interfaces for messages (InfiniBand, RoCE), one for each port.
    pub interfaces: Vec<Interface>,
    /// Bridges of the PCI bus that send what devices exchange by way of the root (ACS).
    pub redirecting_bridges: Option<Vec<String>>,
    /// Whether the IOMMU translates what devices send: the kernel's groups are not passed through.
    pub iommu: Option<String>,
    /// NVLink's switches and the services that manage them.
    #[serde(skip_serializing_if = "Domain::is_empty")]
    pub domain: Domain,
    /// Variables that hide GPUs from their drivers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hiding: Vec<Hiding>,
    /// The host.
    pub host: Host,
    /// Faults of GPUs that the kernel's log of this boot holds.
    pub faults: Option<Vec<Fault>>,
    /// What could not be read, each with the reason.
    pub unread: Vec<String>,
    /// The kernel's file systems of which nothing is to be seen, `/proc` or `/sys`: of such a node
    /// nothing can be told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
}

/// A GPU at rest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gpu {
    /// As `fizeau devices` names it; its place on the PCI bus where no driver shows it.
    pub name: String,
    /// Its place on the PCI bus, `0000:1a:00.0`.
    pub pci: Option<String>,
    /// The driver's own number for it, of a slice where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// PCI vendor and device, `10de:2335`.
    pub pci_id: Option<String>,
    /// Whether its driver shows it.
    pub has_driver: bool,
    /// The driver's version.
    pub driver: Option<String>,
    /// Version of its firmware (VBIOS).
    pub firmware: Option<String>,
    /// Lanes to the host: in use, and the most that the device has.
    pub lanes: Option<[u32; 2]>,
    /// PCI Express's generation: now (lower at rest, to save power), and the most.
    pub generation: Option<[u32; 2]>,
    /// Whether memory is protected by error correction.
    pub ecc: Option<bool>,
    /// Memory errors since the driver was loaded that were not corrected.
    pub ecc_uncorrected: Option<u64>,
    /// Rows that are to be replaced at the next reset.
    pub remap_pending: Option<bool>,
    /// Whether a row could not be replaced.
    pub remap_failed: Option<bool>,
    /// Pages that the driver does not use any more (AMD).
    pub bad_pages: Option<u64>,
    /// Links to other devices that are up.
    pub peer_links: Option<u32>,
    /// Its place in an NVLink domain (NVIDIA).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fabric: Option<Fabric>,
    /// The hive of GPUs that xGMI joins, as the kernel numbers it; `0` where it is in none (AMD).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hive: Option<String>,
    /// Errors of its xGMI links that were not corrected, since the driver was loaded (AMD).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_errors: Option<u64>,
    /// How it is partitioned: `whole`, `MIG 1g.18gb` for a slice, `MIG` for a GPU whose slices are
    /// not shown; AMD's `SPX/NPS1`, `CPX/NPS4`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// Modes that make it slower by design: see [`mode`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<String>,
    /// Power limit in force, watts.
    pub power_limit: Option<f64>,
    /// The part's own power limit, watts.
    pub power_default: Option<f64>,
    /// What clocks are held to.
    pub clock_locks: Option<String>,
    /// What holds the clock now.
    pub held_by: Option<Vec<String>>,
    /// Processes that use it.
    pub processes: Option<u32>,
    /// Whether a stub driver stands in for it.
    pub stub: bool,
}

/// What [`Gpu::modes`] are called.
pub mod mode {
    /// What goes between the host and the GPU is encrypted (NVIDIA's confidential computing).
    pub const CONFIDENTIAL: &str = "confidential computing";
    /// The GPU is a share of one that a hypervisor divides in time.
    pub const VGPU: &str = "vGPU";
}

/// Which board a GPU is, so that a person can find it in the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Board {
    /// The driver's own number for it, of a slice where it is one; whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Its place on the PCI bus, `0000:1a:00.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci: Option<String>,
}

impl Board {
    /// A board; none where nothing is told of it.
    pub fn of(uuid: Option<String>, pci: Option<String>) -> Option<Board> {
        (uuid.is_some() || pci.is_some()).then_some(Board { uuid, pci })
    }

    /// As a report names it: `GPU-8f1c2d3e, 0000:1a:00.0`.
    pub fn words(&self) -> String {
        let uuid = self.uuid.as_deref().map(short_uuid);
        uuid.into_iter().chain(self.pci.clone()).collect::<Vec<_>>().join(", ")
    }
}

/// A GPU's UUID up to its first eight digits, where it has the usual form, else whole. Eight digits
/// tell the boards of a node apart, and CUDA_VISIBLE_DEVICES takes them too ("the first few
/// characters of the UUID (including GPU-)": NVIDIA, Multi-Process Service, CUDA_VISIBLE_DEVICES).
pub fn short_uuid(uuid: &str) -> String {
    let (kind, digits) = match uuid.split_once('-') {
        Some((kind @ ("GPU" | "MIG"), digits)) => (kind, digits),
        _ => ("GPU", uuid),
    };
    match digits.split_once('-') {
        Some((first, _))
            if first.len() == 8 && first.bytes().all(|one| one.is_ascii_hexdigit()) =>
        {
            format!("{kind}-{first}")
        }
        _ => uuid.to_owned(),
    }
}

impl NodeState {
    /// The board of each GPU that its driver shows, by the GPU's name.
    pub fn boards(&self) -> BTreeMap<String, Board> {
        let shown = self.gpus.iter().filter(|gpu| gpu.has_driver);
        let board =
            |gpu: &Gpu| Some((gpu.name.clone(), Board::of(gpu.uuid.clone(), gpu.pci.clone())?));
        shown.filter_map(board).collect()
    }
}

/// A port of a network interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Interface {
    /// Device and port, `mlx5_0/1`.
    pub name: String,
    /// `ACTIVE`, `DOWN`, ...
    pub state: Option<String>,
    /// `LinkUp`, `Polling`, `Disabled`, ...
    pub physical: Option<String>,
    /// Gbit/s.
    pub gigabits: Option<f64>,
    /// Firmware.
    pub firmware: Option<String>,
    /// Counters that are not 0 and should be: name and count.
    pub errors: Vec<(String, u64)>,
}

impl Interface {
    /// Whether it carries messages.
    pub fn is_up(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.contains("ACTIVE"))
    }
}

/// The host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Memory in GiB.
    pub memory_gib: Option<f64>,
    /// Memory of each NUMA node in GiB.
    pub nodes_gib: Vec<f64>,
    /// CPUs that are there, and that are online.
    pub cpus: Option<[usize; 2]>,
    /// Frequency governors that are in use.
    pub governors: Vec<String>,
    /// CPU time that the control group allows each second, in CPUs; absent without a quota.
    pub cpu_quota: Option<f64>,
    /// Memory errors that were not corrected, since boot (EDAC).
    pub ecc_uncorrected: Option<u64>,
    /// Load average of one minute.
    pub load: Option<f64>,
    /// How many CPUs were at work, or taken by a hypervisor for others, while this was observed;
    /// absent where nothing is to be measured, since it takes a moment to see.
    pub busy: Option<f64>,
}

/// A fault of a GPU in the kernel's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The device's place on the PCI bus, as the line has it.
    pub pci: String,
    /// Its number (NVIDIA: Xid).
    pub number: u32,
    /// The line.
    pub line: String,
}

/// The faults in a kernel's log: lines such as
/// `NVRM: Xid (PCI:0000:1a:00): 79, pid=1234, GPU has fallen off the bus.`
pub fn faults(log: &str) -> Vec<Fault> {
    let fault = |line: &str| {
        let rest = line.split_once("NVRM: Xid (")?.1;
        let (place, rest) = rest.split_once("):")?;
        let number = rest.trim_start().split([',', ' ']).next()?.parse().ok()?;
        let line = line.split_once("NVRM: ")?.1.trim_end().to_owned();
        Some(Fault { pci: place.trim_start_matches("PCI:").to_owned(), number, line })
    };
    log.lines().filter_map(fault).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boards_are_named_by_what_tells_them_apart() {
        for (uuid, short) in [
            ("GPU-8f1c2d3e-0a1b-2c3d-4e5f-60718293a4b5", "GPU-8f1c2d3e"),
            ("MIG-8f1c2d3e-0a1b-2c3d-4e5f-60718293a4b5", "MIG-8f1c2d3e"),
            ("8f1c2d3e-0a1b-2c3d-4e5f-60718293a4b5", "GPU-8f1c2d3e"),
            ("8f1c2d3e0a1b2c3d", "8f1c2d3e0a1b2c3d"),
            ("GPU-X9-3", "GPU-X9-3"),
        ] {
            assert_eq!(short_uuid(uuid), short);
        }
        let words = |uuid: Option<&str>, pci: Option<&str>| {
            Board::of(uuid.map(str::to_owned), pci.map(str::to_owned)).map(|board| board.words())
        };
        let both = words(Some("GPU-8f1c2d3e-0a1b"), Some("0000:1a:00.0"));
        assert_eq!(both.as_deref(), Some("GPU-8f1c2d3e, 0000:1a:00.0"));
        assert_eq!(words(None, Some("0000:1a:00.0")).as_deref(), Some("0000:1a:00.0"));
        assert_eq!(words(None, None), None);
    }

    #[test]
    fn faults_are_read_from_either_form_of_the_log() {
        let log = "\
6,1234,5678,-;NVRM: Xid (PCI:0000:1a:00): 79, pid=1234, GPU has fallen off the bus.
[   12.5] NVRM: Xid (0000:03:00): 14, Channel 00000001
[   12.6] NVRM: Xid (PCI:0000:03:00): many
[   12.7] something else about Xid 79
";
        let found: Vec<(String, u32)> =
            faults(log).into_iter().map(|fault| (fault.pci, fault.number)).collect();
        assert_eq!(found, [("0000:1a:00".into(), 79), ("0000:03:00".into(), 14)]);
    }
}
