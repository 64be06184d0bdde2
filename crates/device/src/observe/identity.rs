//! Who this node is: what the kernel's files and the drivers tell of machine, GPUs and interfaces.

use super::{names, pci, word};
use crate::BACKENDS;
use fizeau_record::{
    file,
    identity::{Gpu, Identity, Interface, Machine, vital_product_data},
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Longest file of vital product data that is read, in bytes (its addresses have 15 bits).
const PRODUCT_DATA_MAX: u64 = 32 << 10;

/// Who the node is, as far as the kernel's files below a root and the drivers tell.
pub fn identity(root: &Path) -> Identity {
    Identity {
        host: told(&root.join("proc/sys/kernel/hostname")),
        kernel: told(&root.join("proc/sys/kernel/osrelease")),
        machine: machine(&root.join("sys/class/dmi/id")),
        gpus: gpus(root),
        interfaces: interfaces(root),
    }
}

/// A file's text, where it has any.
fn told(path: &Path) -> Option<String> {
    word(path).filter(|word| !word.is_empty())
}

fn machine(folder: &Path) -> Machine {
    let of = |file: &str| told(&folder.join(file));
    Machine {
        vendor: of("sys_vendor"),
        product: of("product_name"),
        serial: of("product_serial"),
        uuid: of("product_uuid"),
        board: of("board_name"),
        board_serial: of("board_serial"),
        chassis_serial: of("chassis_serial"),
        asset_tag: of("chassis_asset_tag"),
        bios: of("bios_version"),
        bios_date: of("bios_date"),
    }
}

/// The GPUs that drivers show, and those on the bus that none shows.
fn gpus(root: &Path) -> Vec<Gpu> {
    let mut all: Vec<Gpu> = BACKENDS.iter().flat_map(|backend| backend.identities()).collect();
    for gpu in pci::gpus(root) {
        let place = |pci: &Option<String>| pci.as_ref().map(|pci| pci.to_lowercase());
        if !all.iter().any(|one| place(&one.pci) == place(&gpu.pci)) {
            all.push(Gpu { device: gpu.name, pci: gpu.pci, ..Gpu::default() });
        }
    }
    let slots = root.join("sys/bus/pci/slots");
    // A slot's address has no function: `0000:1a:00`.
    let addresses: Vec<(String, String)> = names(&slots)
        .into_iter()
        .filter_map(|slot| Some((told(&slots.join(&slot).join("address"))?, slot)))
        .collect();
    for gpu in &mut all {
        let Some(place) = gpu.pci.as_ref().map(|pci| pci.to_lowercase()) else { continue };
        let its = addresses.iter().find(|(address, _)| place.starts_with(address.as_str()));
        gpu.slot = its.map(|(_, slot)| slot.clone());
    }
    all
}

fn interfaces(root: &Path) -> Vec<Interface> {
    let (devices, ports) = (root.join("sys/class/infiniband"), root.join("sys/class/net"));
    let mut all = Vec::new();
    let mut known = Vec::new();
    for name in names(&devices) {
        let folder = devices.join(&name);
        let of = |file: &str| told(&folder.join(file));
        let ethernet = names(&folder.join("device/net"));
        let macs = ethernet.iter().filter_map(|port| told(&ports.join(port).join("address")));
        let macs: Vec<String> = macs.filter(|mac| is_address(mac)).collect();
        known.extend(ethernet);
        let [part_number, serial] = product_data(&folder);
        all.push(Interface {
            pci: place(&folder),
            model: of("hca_type"),
            board: of("board_id"),
            firmware: of("fw_ver"),
            guid: of("node_guid").filter(|guid| is_address(guid)),
            macs,
            part_number,
            serial,
            name,
        });
    }
    // Of the others those that are devices; bridges and tunnels are none.
    for name in names(&ports).into_iter().filter(|name| !known.contains(name)) {
        let folder = ports.join(&name);
        if !folder.join("device").exists() {
            continue;
        }
        let macs = told(&folder.join("address")).filter(|mac| is_address(mac));
        let [part_number, serial] = product_data(&folder);
        let (pci, macs) = (place(&folder), macs.into_iter().collect());
        all.push(Interface { name, pci, macs, part_number, serial, ..Interface::default() });
    }
    all
}

/// Where a class's device is on the PCI bus: what its link `device` leads to.
fn place(folder: &Path) -> Option<String> {
    let target: PathBuf = fs::read_link(folder.join("device")).ok()?;
    let name = target.file_name()?.to_str()?.to_owned();
    // A device of another bus (virtio, USB) has another form.
    name.contains(':').then_some(name)
}

fn product_data(folder: &Path) -> [Option<String>; 2] {
    let data = file::read(&folder.join("device/vpd"), PRODUCT_DATA_MAX);
    vital_product_data(&data.unwrap_or_default())
}

/// Whether an address is one: those of devices without any are all zeros.
fn is_address(text: &str) -> bool {
    text.chars().any(|c| c.is_ascii_hexdigit() && c != '0')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_node_is_told_by_its_files() {
        let root = tempfile::tempdir().expect("a folder");
        let plant = |name: &str, bytes: &[u8]| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, bytes).expect("written");
        };
        plant("proc/sys/kernel/hostname", b"gpu-17\n");
        plant("sys/class/dmi/id/product_serial", b"S-1\n");
        plant("sys/class/dmi/id/board_name", b"\n");
        plant("sys/bus/pci/devices/0000:1a:00.0/class", b"0x030200\n");
        plant("sys/bus/pci/devices/0000:1a:00.0/vendor", b"0x10de\n");
        plant("sys/bus/pci/devices/0000:1a:00.0/device", b"0x2335\n");
        plant("sys/bus/pci/slots/7/address", b"0000:1a:00\n");
        plant("sys/devices/0000:5e:00.0/net/ibs1/address", b"");
        plant("sys/devices/0000:5e:00.0/vpd", b"\x90\x07\0SN\x04MT17\x78");
        plant("sys/class/infiniband/mlx5_0/node_guid", b"a088:c203:00aa:bbcc\n");
        plant("sys/class/infiniband/mlx5_0/fw_ver", b"28.41\n");
        plant("sys/class/net/ibs1/address", b"a0:88:c2:aa:bb:cc\n");
        plant("sys/class/net/lo/address", b"00:00:00:00:00:00\n");
        let device = root.path().join("sys/class/infiniband/mlx5_0/device");
        symlink(root.path().join("sys/devices/0000:5e:00.0"), device).expect("a link");
        let found = identity(root.path());
        assert_eq!(found.host.as_deref(), Some("gpu-17"));
        assert_eq!(found.machine, Machine { serial: Some("S-1".into()), ..Machine::default() });
        let gpu = found.gpus.iter().find(|gpu| gpu.pci.as_deref() == Some("0000:1a:00.0"));
        assert_eq!(gpu.expect("the GPU on the bus").slot.as_deref(), Some("7"));
        let [interface] = &found.interfaces[..] else { panic!("{:?}", found.interfaces) };
        assert_eq!(interface.pci.as_deref(), Some("0000:5e:00.0"));
        assert_eq!(interface.serial.as_deref(), Some("MT17"));
        assert_eq!(interface.macs, ["a0:88:c2:aa:bb:cc"]);
        assert_eq!(interface.guid.as_deref(), Some("a088:c203:00aa:bbcc"));
    }
}
