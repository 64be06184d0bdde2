//! What the kernel's files say of a device: where it is, how it is partitioned, what it is made of.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The folder of a device of AMD's on the PCI bus; none where there is none at the place.
pub fn pci_folder(place: &str) -> Option<PathBuf> {
    let folder = Path::new("/sys/bus/pci/devices").join(place);
    (word(&folder, "vendor")? == "0x1002").then_some(folder)
}

/// The word in a file of a folder.
pub fn word(folder: &Path, file: &str) -> Option<String> {
    Some(fs::read_to_string(folder.join(file)).ok()?.trim().to_owned())
}

/// `1002:74a1`.
pub fn pci_id(folder: &Path) -> Option<String> {
    let number = |file| Some(word(folder, file)?.trim_start_matches("0x").to_owned());
    Some(format!("{}:{}", number("vendor")?, number("device")?))
}

/// The hive of devices that xGMI joins, as the kernel numbers it (`xgmi_hive_info/xgmi_hive_id` of
/// the kernel's amdgpu_xgmi.c); `None` where it makes no such file, as for devices without xGMI.
pub fn hive(folder: &Path) -> Option<String> {
    word(&folder.join("xgmi_hive_info"), "xgmi_hive_id").filter(|hive| !hive.is_empty())
}

/// How a device is divided: `SPX` shows all its dies as one device, `CPX` each as one; `NPS1` has
/// one domain of memory, `NPS4` four.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// Of the units.
    pub compute: Option<String>,
    /// Of the memory.
    pub memory: Option<String>,
}

impl Partition {
    /// As the kernel says.
    pub fn of(folder: &Path) -> Partition {
        Partition {
            compute: word(folder, "current_compute_partition"),
            memory: word(folder, "current_memory_partition"),
        }
    }

    /// Whether a device is all of its package's units.
    pub fn is_whole(&self) -> bool {
        self.compute.as_deref().is_none_or(|mode| mode == "SPX")
    }

    /// `CPX/NPS4`.
    pub fn spelled(&self) -> String {
        let modes = [&self.compute, &self.memory].into_iter().flatten();
        modes.map(String::as_str).collect::<Vec<_>>().join("/")
    }
}

/// What the compute driver's topology says of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Compute units.
    pub units: Option<u32>,
    /// Compute dies (XCD).
    pub dies: Option<u32>,
    /// Bytes of the last-level cache beyond L2, where there is one.
    pub infinity_cache: Option<u64>,
}

/// The node of a device at a place such as `0000:1b:00.0`, below a folder of nodes.
pub fn node(nodes: &Path, place: &str) -> Option<Node> {
    let wanted = location(place)?;
    fs::read_dir(nodes).ok()?.flatten().find_map(|entry| {
        let text = fs::read_to_string(entry.path().join("properties")).ok()?;
        let number = |name: &str| number(&text, name);
        let here = (number("domain").unwrap_or(0), number("location_id")?);
        // A partition beyond the first has its number in the function's place.
        (here.0 == wanted.0 && here.1 & !7 == wanted.1 & !7 && number("simd_count")? > 0)
            .then(|| read(&text, &entry.path().join("caches")))
    })
}

/// Where the compute driver keeps its nodes.
pub const NODES: &str = "/sys/class/kfd/kfd/topology/nodes";

fn read(text: &str, caches: &Path) -> Node {
    let small = |name: &str| number(text, name).and_then(|value| u32::try_from(value).ok());
    let units = small("simd_count").zip(small("simd_per_cu")).map(|(all, each)| all / each.max(1));
    let entries = fs::read_dir(caches).into_iter().flatten().flatten();
    let third = entries.filter_map(|entry| {
        let text = fs::read_to_string(entry.path().join("properties")).ok()?;
        (number(&text, "level")? == 3).then(|| number(&text, "size")).flatten()
    });
    // Sizes are in KiB.
    let infinity_cache = third.max().map(|kibibytes| kibibytes << 10);
    Node { units, dies: small("num_xcc").filter(|&dies| dies > 0), infinity_cache }
}

/// The number behind a name, one to a line.
fn number(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.split(' ').next() == Some(name))?;
    line.split(' ').nth(1)?.trim().parse().ok()
}

/// Domain, and bus, device and function as the topology packs them.
fn location(place: &str) -> Option<(u64, u64)> {
    let (domain, rest) = place.split_once(':')?;
    let (bus, rest) = rest.split_once(':')?;
    let (device, function) = rest.split_once('.')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    Some((hex(domain)?, hex(bus)? << 8 | hex(device)? << 3 | hex(function)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_found_by_its_place_and_says_what_it_is_made_of() {
        let folder = tempfile::tempdir().expect("a folder");
        let node_at = folder.path().join("3");
        let cache_at = node_at.join("caches/11");
        fs::create_dir_all(&cache_at).expect("made");
        let text = "cpu_cores_count 0\nsimd_count 1216\nsimd_per_cu 4\nnum_xcc 8\ndomain 0\n\
                    location_id 6912\n";
        fs::write(node_at.join("properties"), text).expect("written");
        fs::write(cache_at.join("properties"), "level 3\nsize 262144\n").expect("written");
        let found = node(folder.path(), "0000:1b:00.0");
        let wanted = Node { units: Some(304), dies: Some(8), infinity_cache: Some(256 << 20) };
        assert_eq!(found, Some(wanted));
        assert_eq!(node(folder.path(), "0000:1c:00.0"), None);
        assert_eq!(node(folder.path(), "0001:1b:00.0"), None);
    }

    #[test]
    fn partitions_are_told() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(Partition::of(folder.path()).is_whole());
        fs::write(folder.path().join("current_compute_partition"), "CPX\n").expect("written");
        fs::write(folder.path().join("current_memory_partition"), "NPS4\n").expect("written");
        let partition = Partition::of(folder.path());
        assert!(!partition.is_whole());
        assert_eq!(partition.spelled(), "CPX/NPS4");
    }
}
