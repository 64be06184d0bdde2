//! A node at rest, observed: the kernel's files below a root, and what drivers tell of their GPUs.
//! Nothing here puts load on anything.

mod domain;
mod host;
mod identity;
mod log;
mod network;
mod pci;
mod ring;

pub use identity::identity;

use crate::{
    BACKENDS, Backend,
    pci::{self as bus, OnTheBus},
};
use fizeau_domain::node_state::{Gpu, Hiding, NodeState};
use fizeau_record::file;
pub use host::busy;
use std::{fs, path::Path};

/// Longest of the kernel's files that is read, in bytes.
const FILE_MAX: u64 = 1 << 20;

/// What the kernel's files below a root tell: `/` but in tests.
pub fn kernel(root: &Path) -> NodeState {
    let mut state = NodeState {
        gpus: pci::gpus(root),
        interfaces: network::interfaces(root),
        host: host::host(root),
        domain: domain::domain(root),
        ..NodeState::default()
    };
    for (folder, name) in [("proc", "/proc"), ("sys", "/sys")] {
        let place = root.join(folder);
        // A tree that was made up for a test may leave either out.
        let is_expected = place.exists() || root == Path::new("/");
        if is_expected && names(&place).is_empty() {
            state.hidden.push(name.into());
        }
    }
    match pci::redirecting_bridges(root) {
        Ok(bridges) => state.redirecting_bridges = Some(bridges),
        Err(why) => state.unread.push(format!("PCI ACS: {why}")),
    }
    state.iommu = pci::iommu(root);
    if state.domain.has_switch() && !state.domain.sees_processes {
        let why = "only the processes of a container are to be seen, not the system's";
        state.unread.push(format!("NVLink's services (fabric manager, NVLSM): {why}"));
    }
    let of_ring = |why: String| match root == Path::new("/") {
        true => ring::text().map_err(|error| format!("{why}; by syslog(2): {error}")),
        false => Err(why),
    };
    match log::text(&root.join("dev/kmsg")).or_else(of_ring) {
        Ok(text) => state.faults = Some(fizeau_domain::node_state::faults(&text)),
        Err(why) => state.unread.push(format!("faults of this boot (/dev/kmsg): {why}")),
    }
    state
}

/// Adds what drivers tell of their GPUs; errors of drivers that are installed and do not work.
pub fn add_drivers(state: &mut NodeState) -> Drivers {
    let told: Vec<Gpu> = BACKENDS.iter().flat_map(|backend| backend.at_rest()).collect();
    for gpu in told {
        let place = |one: &Gpu| one.pci.as_ref().map(|pci| pci.to_lowercase());
        // Slices and partitions of a GPU are all at its place on the bus.
        let is_its =
            |one: &Gpu| place(one) == place(&gpu) && place(one).is_some() && !one.has_driver;
        match state.gpus.iter_mut().find(|one| is_its(one)) {
            Some(known) => merge(known, gpu),
            None => state.gpus.push(gpu),
        }
    }
    state.hiding = hiding();
    let broken = BACKENDS.iter().filter_map(|backend| backend.broken());
    let sensors = BACKENDS.iter().filter_map(|backend| backend.broken_sensors());
    Drivers {
        broken_sensors: sensors.map(|error| error.to_string()).collect(),
        broken: broken.map(|error| error.to_string()).collect(),
        without_devices: silent(true).filter_map(|one| one.without_devices()).collect(),
        without_gpus: silent(false).filter_map(without_gpus).collect(),
    }
}

/// Backends whose driver shows no device: those where that is a question, or those where it is not,
/// since the user hides nothing and the PCI bus has no such GPU.
fn silent(is_question: bool) -> impl Iterator<Item = &'static dyn Backend> {
    let is_open = |one: &'static dyn Backend| match vendor(one) {
        // A Jetson's GPU is on no PCI bus.
        Some((on_the_bus, _)) if !(cfg!(target_arch = "aarch64") && one.name() == "cuda") => {
            let devices = Path::new(bus::DEVICES);
            one.hiding().is_some() || !bus::is_without(devices, on_the_bus)
        }
        _ => true,
    };
    BACKENDS.iter().copied().filter(move |one| is_open(*one) == is_question)
}

/// Whose GPUs a backend measures.
fn vendor(backend: &'static dyn Backend) -> Option<(OnTheBus, &'static str)> {
    match backend.name() {
        "cuda" => Some((bus::NVIDIA, "NVIDIA")),
        "hip" => Some((bus::AMD, "AMD")),
        _ => None,
    }
}

/// What is said of a driver that is installed where no GPU for it is.
fn without_gpus(backend: &'static dyn Backend) -> Option<String> {
    backend.without_devices()?;
    let (_, maker) = vendor(backend)?;
    Some(format!(
        "a driver of {maker} is installed, and the PCI bus has no such GPU: nothing to judge, \
         unless a profile says how many there should be (gpus = N)"
    ))
}

/// Adds what a driver tells of one of its GPUs alone; nothing where there is no such driver or GPU.
pub fn add_gpu(state: &mut NodeState, backend: &str, ordinal: u32) {
    let told = BACKENDS.iter().find(|one| one.name() == backend);
    let Some(gpu) = told.and_then(|one| one.at_rest_of(ordinal)) else { return };
    let place = gpu.pci.as_ref().map(|pci| pci.to_lowercase());
    state.gpus.retain(|one| one.pci.as_ref().map(|pci| pci.to_lowercase()) == place);
    match state.gpus.first_mut() {
        Some(known) => merge(known, gpu),
        None => state.gpus.push(gpu),
    }
}

/// The variables by which a user hides GPUs, of each vendor whose driver shows any or is hidden
/// from.
fn hiding() -> Vec<Hiding> {
    let vendors = [("cuda", "10de"), ("hip", "1002")];
    let one = |(name, vendor): (&str, &str)| {
        let backend = BACKENDS.iter().find(|one| one.name() == name)?;
        Some(Hiding { vendor: vendor.into(), by: backend.hiding()? })
    };
    vendors.into_iter().filter_map(one).collect()
}

/// What drivers that are installed say where their devices cannot be measured.
#[derive(Clone, Debug, Default)]
pub struct Drivers {
    /// Of those that do not work.
    pub broken: Vec<String>,
    /// Of those that work and show no device, where there may be one.
    pub without_devices: Vec<String>,
    /// Of those that work and show no device, where the PCI bus has none.
    pub without_gpus: Vec<String>,
    /// Of those that work, while what reads the sensors of their devices does not.
    pub broken_sensors: Vec<String>,
}

/// Adds a driver's words to those of the PCI bus, which go first where both tell.
fn merge(known: &mut Gpu, told: Gpu) {
    // The kernel tells what AMD's driver does not.
    let bus = std::mem::take(known);
    *known = Gpu {
        lanes: bus.lanes.or(told.lanes),
        generation: bus.generation.or(told.generation),
        pci_id: bus.pci_id.or(told.pci_id),
        pci: bus.pci,
        firmware: told.firmware.or(bus.firmware),
        ecc: told.ecc.or(bus.ecc),
        ecc_uncorrected: told.ecc_uncorrected.or(bus.ecc_uncorrected),
        bad_pages: told.bad_pages.or(bus.bad_pages),
        peer_links: told.peer_links.or(bus.peer_links),
        hive: told.hive.or(bus.hive),
        link_errors: told.link_errors.or(bus.link_errors),
        partition: told.partition.or(bus.partition),
        power_limit: told.power_limit.or(bus.power_limit),
        power_default: told.power_default.or(bus.power_default),
        clock_locks: told.clock_locks.or(bus.clock_locks),
        held_by: told.held_by.or(bus.held_by),
        processes: told.processes.or(bus.processes),
        ..told
    };
}

/// A file's text without the line's end; `None` where it cannot be read.
fn word(path: &Path) -> Option<String> {
    Some(file::read_text(path, FILE_MAX).ok()?.trim().to_owned())
}

/// The names in a folder, sorted; none where there is no such folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A made-up tree.
    fn tree(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, bytes) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, bytes).expect("written");
        }
        folder
    }

    /// A bridge's configuration space with access control services, and their control register.
    fn bridge(control: u8) -> Vec<u8> {
        let mut space = vec![0; 4096];
        // An error-reporting capability first, and then access control services at 0x148.
        space[0x100..0x104].copy_from_slice(&0x1482_0001u32.to_le_bytes());
        space[0x148..0x14c].copy_from_slice(&0x0001_000du32.to_le_bytes());
        space[0x14e] = control;
        space
    }

    #[test]
    fn an_empty_file_system_of_the_kernel_is_named() {
        let root = tempfile::tempdir().expect("a folder");
        assert!(kernel(root.path()).hidden.is_empty(), "a made-up tree may leave it out");
        fs::create_dir(root.path().join("sys")).expect("made");
        assert_eq!(kernel(root.path()).hidden, ["/sys"]);
        assert!(kernel(Path::new("/")).hidden.is_empty());
    }

    #[test]
    fn gpus_are_found_on_the_bus_with_their_links() {
        let root = tree(&[
            ("sys/bus/pci/devices/0000:1a:00.0/class", b"0x030200\n"),
            ("sys/bus/pci/devices/0000:1a:00.0/vendor", b"0x10de\n"),
            ("sys/bus/pci/devices/0000:1a:00.0/device", b"0x2335\n"),
            ("sys/bus/pci/devices/0000:1a:00.0/current_link_width", b"8\n"),
            ("sys/bus/pci/devices/0000:1a:00.0/max_link_width", b"16\n"),
            ("sys/bus/pci/devices/0000:1a:00.0/current_link_speed", b"2.5 GT/s PCIe\n"),
            ("sys/bus/pci/devices/0000:1a:00.0/max_link_speed", b"32.0 GT/s PCIe\n"),
            ("sys/bus/pci/devices/0000:02:00.0/class", b"0x030000\n"),
            ("sys/bus/pci/devices/0000:02:00.0/vendor", b"0x1a03\n"),
        ]);
        let state = kernel(root.path());
        let [gpu] = &state.gpus[..] else { panic!("{:?}", state.gpus) };
        assert_eq!(gpu.pci_id.as_deref(), Some("10de:2335"));
        assert_eq!((gpu.lanes, gpu.generation), (Some([8, 16]), Some([1, 5])));
        assert!(!gpu.has_driver);
        // What is not there was not read, and is said.
        assert!(state.unread.iter().any(|words| words.contains("/dev/kmsg")), "{:?}", state.unread);
        assert_eq!(state.faults, None);
    }

    #[test]
    fn bridges_that_redirect_are_named_and_short_files_are_not_taken_for_clean_ones() {
        let class = ("sys/bus/pci/devices/0000:00:01.0/class", &b"0x060400\n"[..]);
        let config = "sys/bus/pci/devices/0000:00:01.0/config";
        for (space, found) in [
            (bridge(0x1d), Some(vec!["0000:00:01.0".to_owned()])),
            (bridge(0x11), Some(Vec::new())),
            (vec![0; 4096], Some(Vec::new())),
            (vec![0; 64], None),
        ] {
            let root = tree(&[class, (config, &space)]);
            let state = kernel(root.path());
            assert_eq!(state.redirecting_bridges, found);
            let is_said = state.unread.iter().any(|words| words.contains("ACS"));
            assert_eq!(is_said, found.is_none());
        }
    }

    #[test]
    fn interfaces_host_and_log_are_read() {
        let root = tree(&[
            ("sys/class/infiniband/mlx5_0/fw_ver", b"28.41\n"),
            ("sys/class/infiniband/mlx5_0/ports/1/state", b"4: ACTIVE\n"),
            ("sys/class/infiniband/mlx5_0/ports/1/phys_state", b"5: LinkUp\n"),
            ("sys/class/infiniband/mlx5_0/ports/1/rate", b"400 Gb/sec (4X NDR)\n"),
            ("sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error", b"12\n"),
            ("sys/class/infiniband/mlx5_0/ports/1/counters/link_downed", b"0\n"),
            ("sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", b"99\n"),
            ("sys/kernel/iommu_groups/0/type", b"DMA-FQ\n"),
            ("proc/meminfo", b"MemTotal:       1048576 kB\n"),
            ("proc/loadavg", b"0.50 0.1 0.1 1/100 5\n"),
            ("sys/devices/system/node/node0/meminfo", b"Node 0 MemTotal:    524288 kB\n"),
            ("sys/devices/system/node/node1/meminfo", b"Node 1 MemTotal:    524288 kB\n"),
            ("sys/devices/system/cpu/present", b"0-3\n"),
            ("sys/devices/system/cpu/online", b"0-2\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", b"powersave\n"),
            ("sys/devices/system/edac/mc/mc0/ue_count", b"2\n"),
            ("sys/devices/system/edac/mc/mc1/ue_count", b"1\n"),
            ("dev/kmsg", b"6,1,2,-;NVRM: Xid (PCI:0000:1a:00): 79, gone\n"),
        ]);
        let state = kernel(root.path());
        let [port] = &state.interfaces[..] else { panic!("{:?}", state.interfaces) };
        assert_eq!((port.name.as_str(), port.gigabits), ("mlx5_0/1", Some(400.0)));
        assert!(port.is_up());
        assert_eq!(port.errors, [("symbol_error".to_owned(), 12)]);
        assert_eq!(state.iommu.as_deref(), Some("DMA-FQ"));
        assert_eq!(state.host.memory_gib, Some(1.0));
        assert_eq!(state.host.nodes_gib, [0.5, 0.5]);
        assert_eq!(state.host.cpus, Some([4, 3]));
        assert_eq!(state.host.governors, ["powersave"]);
        assert_eq!((state.host.ecc_uncorrected, state.host.load), (Some(3), Some(0.5)));
        assert_eq!(state.faults.map(|faults| faults[0].number), Some(79));
    }

    #[test]
    fn an_empty_tree_tells_nothing_and_fails_nothing() {
        let root = tree(&[]);
        let state = kernel(root.path());
        assert!(state.gpus.is_empty() && state.interfaces.is_empty());
        assert_eq!((state.host.memory_gib, state.host.cpus), (None, None));
    }
}
