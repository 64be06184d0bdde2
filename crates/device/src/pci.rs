//! GPUs that the PCI bus has, whatever their driver says: one that has fallen out of its driver's
//! hands is still there.

use super::DeviceError;
use std::{fs, path::Path};

/// Where the kernel describes PCI devices.
pub const DEVICES: &str = "/sys/bus/pci/devices";

/// NVIDIA's: controllers of displays, with an output (VGA) and without one (3D).
pub const NVIDIA: OnTheBus = OnTheBus { vendor: 0x10de, classes: &[0x0300, 0x0302] };

/// AMD's: accelerators, and controllers of displays without an output. Those with one are left
/// out: they may be in a CPU, which ROCm measures or not.
pub const AMD: OnTheBus = OnTheBus { vendor: 0x1002, classes: &[0x0380, 0x1200] };

/// How one vendor's GPUs are told on the bus.
#[derive(Clone, Copy, Debug)]
pub struct OnTheBus {
    /// The vendor's number.
    pub vendor: u16,
    /// Classes and subclasses of what the driver measures (PCI Code and ID Assignment
    /// Specification, section 1).
    pub classes: &'static [u16],
}

/// The addresses of a vendor's GPUs, in order; none where the bus cannot be read.
pub fn addresses(devices: &Path, on_the_bus: OnTheBus) -> Vec<String> {
    let number = |folder: &Path, field: &str| {
        let text = fs::read_to_string(folder.join(field)).ok()?;
        u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
    };
    let is_gpu = |folder: &Path| {
        // The class has a byte for the programming interface behind it.
        let class = number(folder, "class").map(|class| (class >> 8) as u16);
        number(folder, "vendor") == Some(u32::from(on_the_bus.vendor))
            && class.is_some_and(|class| on_the_bus.classes.contains(&class))
    };
    let entries = fs::read_dir(devices).into_iter().flatten().flatten();
    let gpus = entries.filter(|entry| is_gpu(&entry.path()));
    let mut found: Vec<String> =
        gpus.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    found.sort();
    found
}

/// Whether the bus can be read and has no display and no accelerator of a vendor, with an output or
/// without one.
pub fn is_without(devices: &Path, vendor: OnTheBus) -> bool {
    let can_be_read = fs::read_dir(devices).is_ok_and(|mut entries| entries.next().is_some());
    let any = OnTheBus { classes: &[0x0300, 0x0302, 0x0380, 0x1200], ..vendor };
    can_be_read && addresses(devices, any).is_empty()
}

/// What it means that a driver shows no GPU and the user hides none: it is broken where the bus has
/// some, and else there is nothing to measure.
pub fn none_shown(devices: &Path, on_the_bus: OnTheBus, maker: &str, remedy: &str) -> DeviceError {
    let found = addresses(devices, on_the_bus);
    let (Some(first), more) = (found.first(), found.len().saturating_sub(1)) else {
        return DeviceError::NoDevice { what: format!("{maker} GPU"), remedy: remedy.into() };
    };
    let others = if more == 0 { String::new() } else { format!(" and {more} more") };
    DeviceError::Broken {
        what: format!("the {maker} driver"),
        why: format!("it shows no GPU, and the PCI bus has {first}{others}"),
        remedy: remedy.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_on_the_bus_that_the_driver_does_not_show_is_a_fault() {
        let tree = tempfile::tempdir().expect("a folder");
        let told = || none_shown(tree.path(), NVIDIA, "NVIDIA", "check nvidia-smi");
        let add = |address: &str, vendor: &str, class: &str| {
            let folder = tree.path().join(address);
            fs::create_dir(&folder).expect("a folder");
            fs::write(folder.join("vendor"), format!("{vendor}\n")).expect("a file");
            fs::write(folder.join("class"), format!("{class}\n")).expect("a file");
        };
        // A bridge of the same maker, the sound of a GPU, and another vendor's GPU.
        add("0000:00:00.0", "0x10de", "0x060400");
        add("0000:17:00.1", "0x10de", "0x040300");
        add("0000:03:00.0", "0x1002", "0x030000");
        assert!(!is_without(&tree.path().join("none"), NVIDIA), "a bus that cannot be read");
        assert!(is_without(tree.path(), NVIDIA));
        assert!(!is_without(tree.path(), AMD), "a display may be what is meant");
        assert!(matches!(told(), DeviceError::NoDevice { .. }), "{:?}", told());
        add("0000:65:00.0", "0x10de", "0x030200");
        add("0000:17:00.0", "0x10de", "0x030000");
        let said = told().to_string();
        assert_eq!(
            said,
            "the NVIDIA driver does not work (it shows no GPU, and the PCI bus has 0000:17:00.0 \
             and 1 more): check nvidia-smi"
        );
        assert!(matches!(
            none_shown(Path::new("/nowhere"), NVIDIA, "NVIDIA", ""),
            DeviceError::NoDevice { .. }
        ));
    }
}
