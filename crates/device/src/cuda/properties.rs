//! What a GPU says of itself, as the record keeps it. What it does not say is left out.

use super::nvml;
use crate::{Result, gpu::driver::Driver};
use cudarc::driver::sys::CUdevice_attribute::{self, *};
use fizeau_domain::{
    spec::{CacheLevel, Properties, STUB, rates},
    units::{Bytes, Megahertz},
};
use std::{ffi::c_int, fs, iter, path::Path};

/// Reads them.
///
/// # Errors
///
/// Where there is no such device.
pub fn read(driver: &Driver, ordinal: u32) -> Result<Properties> {
    let device = driver.device(ordinal)?;
    let name = driver.name(device).unwrap_or_else(|| "NVIDIA GPU".into());
    // A slice's name says so: `NVIDIA H200 MIG 1g.18gb`.
    let slice = name.split_once(" MIG ").map(|(_, profile)| format!("MIG {profile}"));
    let attribute = |which| attribute(driver, device, which);
    let units = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT).unwrap_or(1);
    let capability = capability(driver, device);
    // Memory's clock is stated in kHz and moves data on both of its edges, in all architectures
    // that are known. Of a slice the driver tells the pins of the whole GPU, which no slice can
    // pass.
    let whole = slice.is_none();
    let memory_mts = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)
        .filter(|_| capability.is_some_and(|(major, _)| major <= MAJOR_KNOWN))
        .map(|kilohertz| f64::from(kilohertz) * 2.0 / 1e3);
    // Where the GPU goes by the host's page tables, or is a part of the host, NVLink-C2C or no link
    // at all lies between them. NVML still tells of some PCI Express, such as one lane of GB10's.
    let has_other_host_link = [
        CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
        CU_DEVICE_ATTRIBUTE_INTEGRATED,
    ]
    .into_iter()
    .any(|which| attribute(which).is_some());
    let l2 = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE).map(|size| CacheLevel {
        level: 2,
        size: Bytes(u64::from(size)),
        shared_by: units,
        line: Bytes(128),
    });
    Ok(Properties {
        backend: "cuda".into(),
        ordinal,
        vendor: if driver.is_stub { STUB.into() } else { "NVIDIA".into() },
        units,
        clock: attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE).map(|khz| Megahertz(f64::from(khz) / 1e3)),
        memory: Bytes(driver.memory(device).unwrap_or(0)),
        memory_mts,
        memory_bus_bits: attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH),
        caches: l2.into_iter().collect(),
        // A slice is not the part that it is cut from: it is matched to none.
        pci_id: whole.then(|| pci_id(driver, device)).flatten(),
        flops_per_clock: capability.map(rates::cuda).unwrap_or_default(),
        exps_per_clock: capability.and_then(exps_per_clock),
        features: capability.map(targets).unwrap_or_default(),
        virtualised: slice,
        pcie: pcie(driver, device).filter(|_| !has_other_host_link),
        name,
        ..Properties::default()
    })
}

/// An attribute; none where the driver does not know it or says zero.
fn attribute(driver: &Driver, device: c_int, attribute: CUdevice_attribute) -> Option<u32> {
    driver.number(device, attribute as c_int)
}

/// `10de:2335`, from the kernel's files or from NVML.
fn pci_id(driver: &Driver, device: c_int) -> Option<String> {
    let place = driver.pci(device)?;
    let folder = Path::new("/sys/bus/pci/devices").join(&place);
    let number = |name: &str| {
        let text = fs::read_to_string(folder.join(name)).ok()?;
        Some(text.trim().trim_start_matches("0x").to_owned())
    };
    let from_files = || Some(format!("{}:{}", number("vendor")?, number("device")?));
    let from_nvml = || nvml::nvml().ok()?.sensors(&place, None)?.pci_id();
    if driver.is_stub { from_nvml() } else { from_files().or_else(from_nvml) }
}

/// PCI Express, the fastest that this device and this machine can together.
fn pcie(driver: &Driver, device: c_int) -> Option<[u32; 2]> {
    nvml::nvml().ok()?.sensors(&driver.pci(device)?, None)?.pcie_max()
}

/// The most shared memory that a block can have, where it is asked for: 99 KiB of 8.6, 8.9 and 12,
/// 163 of 8.0, 227 of 9.0, 10.0 and 10.3, 327 of 10.7.
pub fn block_memory(driver: &Driver, device: c_int) -> Option<Bytes> {
    let most = attribute(driver, device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
    Some(Bytes(u64::from(most)))
}

/// Major and minor of the compute capability.
pub fn capability(driver: &Driver, device: c_int) -> Option<(u32, u32)> {
    let major = attribute(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    // Zero is a minor like any other, and `attribute` leaves it out.
    let minor =
        attribute(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR).unwrap_or(0);
    Some((major, minor))
}

/// What a multiprocessor's special function units complete each clock: CUDA programming guide,
/// "Throughput of native arithmetic instructions", the row of base-2 exponentials; 10.3 has twice
/// as many (NVIDIA, "Inside NVIDIA Blackwell Ultra", 2025), and so has 10.7 (measured:
/// NVIDIA/cudnn-frontend, pull request 1178, 32.00 a clock).
fn exps_per_clock((major, minor): (u32, u32)) -> Option<f64> {
    match (major, minor) {
        (10, 3 | 7) => Some(32.0),
        (7..=MAJOR_KNOWN, _) => Some(16.0),
        _ => None,
    }
}

/// The newest major compute capability of which anything is known.
const MAJOR_KNOWN: u32 = 12;

/// Targets that compilers know: major and minor, as the names of targets have them.
const TARGETS: [u32; 14] = [70, 72, 75, 80, 86, 87, 89, 90, 100, 103, 107, 110, 120, 121];

/// The targets whose binaries a device of a compute capability runs, its own first: its own with
/// the instructions that no other device has, that of its family, its own without them, also where
/// no compiler knows it yet, and those of its major version below.
fn targets((major, minor): (u32, u32)) -> Vec<String> {
    let special = (major >= 9).then(|| format!("sm_{major}{minor}a"));
    let family = (major == 12).then(|| "sm_120f".to_owned());
    let own = 10 * major + minor;
    let below = TARGETS.into_iter().rev().filter(|&of| of / 10 == major && of < own);
    let plain = iter::once(own).chain(below).map(|of| format!("sm_{of}"));
    special.into_iter().chain(family).chain(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_runs_its_own_targets_and_those_below_it() {
        assert_eq!(targets((8, 9)), ["sm_89", "sm_87", "sm_86", "sm_80"]);
        assert_eq!(targets((9, 0)), ["sm_90a", "sm_90"]);
        assert_eq!(targets((10, 7)), ["sm_107a", "sm_107", "sm_103", "sm_100"]);
        assert_eq!(targets((12, 1)), ["sm_121a", "sm_120f", "sm_121", "sm_120"]);
        assert_eq!(targets((13, 0)), ["sm_130a", "sm_130"]);
    }
}
