//! What an AMD GPU says of itself, as the record keeps it. What it does not say is left out.

#![expect(unsafe_code, reason = "the driver is a C library")]

use super::{
    driver::LIBRARY,
    functions,
    topology::{self, Partition},
};
use crate::{Result, gpu::driver::Driver, library};
use fizeau_domain::{
    spec::{CacheLevel, Properties, STUB, rates},
    units::{Bytes, Megahertz},
};
use hip_sys::{
    Hip, hipDeviceAttributeClockRate, hipDeviceAttributeL2CacheSize,
    hipDeviceAttributeMemoryBusWidth, hipDeviceAttributeMemoryClockRate,
    hipDeviceAttributeMultiprocessorCount, hipDeviceAttributeWallClockRate,
    hipDeviceAttributeWarpSize, hipDeviceProp_tR0000, hipDeviceProp_tR0600,
};
use std::{ffi::c_int, path::Path, sync::OnceLock};

/// The timer's rate that kernels assume, in kHz.
const TIMER_ASSUMED: f64 = 100_000.0;

/// Reads them.
///
/// # Errors
///
/// Where there is no such device.
pub fn read(driver: &Driver, ordinal: u32) -> Result<Properties> {
    let device = driver.device(ordinal)?;
    let number = |attribute| driver.number(device, attribute);
    let architecture = architecture(device).unwrap_or_default();
    let target = architecture.split(':').next().unwrap_or_default().to_owned();
    let place = driver.pci(device).unwrap_or_default();
    let folder = topology::pci_folder(&place).filter(|_| !driver.is_stub);
    let node = topology::node(Path::new(topology::NODES), &place).filter(|_| folder.is_some());
    let node = node.unwrap_or_default();
    let partition = folder.as_deref().map(Partition::of).unwrap_or_default();
    let whole = partition.is_whole();
    let counted = number(hipDeviceAttributeMultiprocessorCount).unwrap_or(1) * units_each(&target);
    // A partition has a share of the package's units, which its own driver counts.
    let units = node.units.filter(|_| whole).unwrap_or(counted);
    let name = driver.name(device).unwrap_or_else(|| "AMD GPU".into());
    let spelled = partition.spelled();
    let memory_mts = number(hipDeviceAttributeMemoryClockRate)
        .and_then(|khz| Some(f64::from(khz) / 1e3 * transfers_per_clock(&target)?));
    let dies = node.dies.unwrap_or(if whole { dies_of(&target, units) } else { 1 });
    let features = [
        Some(target.clone()).filter(|target| !target.is_empty()),
        number(hipDeviceAttributeWarpSize).map(|lanes| format!("wave{lanes}")),
        Some(format!("{dies} XCD")).filter(|_| dies > 1),
        Some(spelled.clone()).filter(|modes| !modes.is_empty()),
    ];
    let modifiers = architecture.split(':').skip(1).map(str::to_owned);
    Ok(Properties {
        backend: "hip".into(),
        ordinal,
        vendor: if driver.is_stub { STUB.into() } else { "AMD".into() },
        units,
        clock: number(hipDeviceAttributeClockRate).map(|khz| Megahertz(f64::from(khz) / 1e3)),
        memory: Bytes(driver.memory(device).unwrap_or(0)),
        memory_mts,
        memory_bus_bits: number(hipDeviceAttributeMemoryBusWidth),
        caches: caches(
            number(hipDeviceAttributeL2CacheSize),
            units,
            dies,
            infinity_cache(node.infinity_cache, &target, units),
        ),
        flops_per_clock: rates::hip(&target),
        exps_per_clock: exps_per_clock(&target),
        // A partition is not the part that it is cut from: it is matched to none.
        pci_id: folder.filter(|_| whole).and_then(|folder| topology::pci_id(&folder)),
        features: features.into_iter().flatten().chain(modifiers).collect(),
        name: if whole { name } else { format!("{name} {spelled}") },
        virtualised: (!whole).then_some(spelled),
        ..Properties::default()
    })
}

/// Nanoseconds of the device's timer for each that kernels count as one.
pub fn timer(driver: &Driver, ordinal: u32) -> f64 {
    let device = driver.device(ordinal).ok();
    let rate = device.and_then(|device| driver.number(device, hipDeviceAttributeWallClockRate));
    rate.map_or(1.0, |khz| TIMER_ASSUMED / f64::from(khz))
}

/// The compiler's name of a device with its modes: `gfx942:sramecc+:xnack-`.
fn architecture(device: c_int) -> Option<String> {
    static HIP: OnceLock<Option<Hip>> = OnceLock::new();
    let opened = || Some(functions::hip(&library::open(&LIBRARY).ok()?));
    let hip = HIP.get_or_init(opened).as_ref()?;
    let mut properties = hipDeviceProp_tR0600::zeroed();
    let mut properties_old = hipDeviceProp_tR0000::zeroed();
    // SAFETY: the pointers are to the structs that the functions write.
    let text = unsafe {
        match hip.hipGetDevicePropertiesR0600(&raw mut properties, device) {
            Ok(()) => properties.architecture(),
            Err(_) => {
                hip.hipGetDeviceProperties(&raw mut properties_old, device).ok()?;
                properties_old.architecture()
            }
        }
    };
    text.filter(|text| text.starts_with("gfx"))
}

/// Exponentials that a compute unit makes each clock: a quarter of its 64 lanes (LLVM's scheduling
/// model of these targets, `SISchedule.td`: transcendental instructions are of quarter rate); on
/// CDNA 4 a half of them (llvm/llvm-project#156411). Unknown for RDNA, whose units are others.
fn exps_per_clock(target: &str) -> Option<f64> {
    match target {
        "gfx908" | "gfx90a" | "gfx942" => Some(16.0),
        "gfx950" => Some(32.0),
        _ => None,
    }
}

/// Compute units for each that the driver counts: of RDNA it counts pairs. Of CDNA 5 a unit is such
/// a pair (a work-group processor), and of a target that is not known what the driver counts.
fn units_each(target: &str) -> u32 {
    let is_rdna = ["gfx10", "gfx11", "gfx120"].iter().any(|family| target.starts_with(family));
    if is_rdna { 2 } else { 1 }
}

/// Transfers on each pin for each clock of the memory that the driver states: HBM2 moves data on
/// both edges, HBM3 is stated at half that clock, GDDR6 at an eighth of it. None for a target whose
/// memory is not known: a wrong guess would make a wrong limit.
fn transfers_per_clock(target: &str) -> Option<f64> {
    match target {
        "gfx942" | "gfx950" => Some(4.0),
        target if target.starts_with("gfx90") => Some(2.0),
        target if target.starts_with("gfx11") || target.starts_with("gfx120") => Some(16.0),
        _ => None,
    }
}

/// Compute dies of a device that no topology tells of (CDNA 3 white paper: 38 active units each;
/// CDNA 4 white paper: 32).
fn dies_of(target: &str, units: u32) -> u32 {
    match target {
        "gfx942" => units.div_ceil(38),
        "gfx950" => units.div_ceil(32),
        _ => 1,
    }
}

/// The cache behind L2: what the kernel says, else what these targets have (CDNA 3 and 4, RDNA 3
/// and 4 product pages).
fn infinity_cache(stated: Option<u64>, target: &str, units: u32) -> Option<u64> {
    let known = match target {
        "gfx942" | "gfx950" => Some(256 << 20),
        // Its parts are told by their units: 96 of RX 7900 XTX and PRO W7900, 84 of RX 7900 XT.
        "gfx1100" if units > 84 => Some(96 << 20),
        "gfx1100" => Some(80 << 20),
        "gfx1101" => Some(64 << 20),
        "gfx1102" | "gfx1200" => Some(32 << 20),
        "gfx1201" => Some(64 << 20),
        _ => None,
    };
    stated.or(known)
}

/// L2, one on each die, and what stands behind it.
fn caches(l2: Option<u32>, units: u32, dies: u32, behind: Option<u64>) -> Vec<CacheLevel> {
    let line = Bytes(128);
    let level = |level, size, shared_by| CacheLevel { level, size: Bytes(size), shared_by, line };
    let l2 = l2.map(|size| level(2, u64::from(size), units.div_ceil(dies)));
    let behind = behind.map(|size| level(3, size, units));
    l2.into_iter().chain(behind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_die_has_a_cache_of_its_own_and_all_share_the_last() {
        let found = caches(Some(4 << 20), 304, 8, infinity_cache(None, "gfx942", 304));
        let seen: Vec<_> = found.iter().map(|c| (c.level, c.size.0 >> 20, c.shared_by)).collect();
        assert_eq!(seen, [(2, 4, 38), (3, 256, 304)]);
        assert_eq!(dies_of("gfx942", 228), 6);
        assert_eq!(dies_of("gfx950", 256), 8);
        assert_eq!(caches(Some(8 << 20), 110, 1, infinity_cache(None, "gfx90a", 110)).len(), 1);
        // RX 7900 XTX, RX 7900 XT, RX 9060 XT, RX 9070 XT.
        let told = [("gfx1100", 96), ("gfx1100", 84), ("gfx1200", 32), ("gfx1201", 64)];
        let found = told.map(|(target, units)| infinity_cache(None, target, units));
        assert_eq!(found.map(|size| size.map_or(0, |size| size >> 20)), [96, 80, 32, 64]);
    }
}
