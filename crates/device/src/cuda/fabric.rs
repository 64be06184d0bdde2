//! A GPU's place in its NVLink domain, and the modes that make it slower by design, by NVML. Each
//! function is looked up at run time: what a driver does not have is not told.

#![expect(unsafe_code, reason = "functions of NVML that nvml-wrapper does not wrap")]

use super::nvml::Sensors;
use fizeau_domain::node_state::{Fabric, FabricFault, FabricHealth, FabricState, mode};
use nvml_wrapper::Device;
use nvml_wrapper_sys::bindings::{
    NVML_GPU_FABRIC_HEALTH_MASK_DEGRADED_BW_TRUE as TRUE,
    NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ACCESS_TIMEOUT_RECOVERY as ACCESS_TIMEOUT,
    NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_DEGRADED_BW as DEGRADED,
    NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_INCORRECT_CONFIGURATION as CONFIGURATION,
    NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_RECOVERY as ROUTE_RECOVERY,
    NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_UNHEALTHY as ROUTE_UNHEALTHY,
    NVML_GPU_FABRIC_HEALTH_SUMMARY_HEALTHY as HEALTHY,
    NVML_GPU_FABRIC_HEALTH_SUMMARY_LIMITED_CAPACITY as LIMITED,
    NVML_GPU_FABRIC_HEALTH_SUMMARY_UNHEALTHY as UNHEALTHY, nvmlConfComputeSystemState_t,
    nvmlGpuFabricInfo_t, nvmlGpuFabricInfo_v2_t, nvmlGpuFabricInfo_v3_t,
};
use std::mem;

/// A route that works again only after a reset of the GPU: NVIDIA's open kernel modules,
/// `NVLINK_INBAND_FABRIC_HEALTH_MASK_CONNECTION_UNHEALTHY_TRUE_RESET_REQUIRED`.
const RESET_REQUIRED: u32 = 3;

/// A configuration that nothing is wrong with, or of which the driver tells nothing.
const RIGHT: std::ops::RangeInclusive<u32> = 0..=1;

/// The version of a struct as NVML wants it: its size, and its number in the highest byte.
const fn version<T>(number: u32) -> u32 {
    mem::size_of::<T>() as u32 | number << 24
}

/// What NVML's newest form of the answer has; older ones have less.
fn told(device: &Device<'_>) -> Option<nvmlGpuFabricInfo_v3_t> {
    let library = device.nvml().lib();
    // SAFETY: a struct of numbers, all of which may be zero.
    let mut info: nvmlGpuFabricInfo_v3_t = unsafe { mem::zeroed() };
    if let Ok(read) = &library.nvmlDeviceGetGpuFabricInfoV {
        // Each struct begins as the one before it: a driver that does not know the newest is asked
        // by the one before.
        let versions = [version::<nvmlGpuFabricInfo_v3_t>(3), version::<nvmlGpuFabricInfo_v2_t>(2)];
        for version in versions {
            info.version = version;
            // SAFETY: the device is NVML's own, the struct as long as the version says at least.
            if unsafe { read(device.handle(), &raw mut info) } == 0 {
                return Some(info);
            }
        }
    }
    let read = library.nvmlDeviceGetGpuFabricInfo.as_ref().ok()?;
    // SAFETY: as above.
    let mut old: nvmlGpuFabricInfo_t = unsafe { mem::zeroed() };
    // SAFETY: the device is NVML's own, the pointer valid.
    if unsafe { read(device.handle(), &raw mut old) } != 0 {
        return None;
    }
    info.clusterUuid = old.clusterUuid;
    (info.status, info.cliqueId, info.state) = (old.status, old.cliqueId, old.state);
    Some(info)
}

/// What a health mask says is wrong.
fn faults(mask: u32) -> Vec<FabricFault> {
    let of = |shift: u32, width: u32| mask >> shift & width;
    let mut all = Vec::new();
    for (shift, fault) in [
        (DEGRADED, FabricFault::BandwidthDegraded),
        (ROUTE_RECOVERY, FabricFault::RouteRecovery),
        (ROUTE_UNHEALTHY, FabricFault::RouteUnhealthy),
        (ACCESS_TIMEOUT, FabricFault::AccessTimeout),
    ] {
        let value = of(shift, 0x3);
        let is_lost = shift == ROUTE_UNHEALTHY && value == RESET_REQUIRED;
        if value == TRUE || is_lost {
            all.push(fault);
        }
    }
    let configuration = of(CONFIGURATION, 0xf);
    if !RIGHT.contains(&configuration) {
        all.push(FabricFault::IncorrectConfiguration(configuration));
    }
    all
}

fn health(summary: u32) -> Option<FabricHealth> {
    Some(match summary {
        HEALTHY => FabricHealth::Healthy,
        UNHEALTHY => FabricHealth::Unhealthy,
        LIMITED => FabricHealth::LimitedCapacity,
        _ => return None,
    })
}

/// A UUID in its usual form; `None` where it is all zeros.
fn uuid(bytes: [u8; 16]) -> Option<String> {
    let hex = |range: std::ops::Range<usize>| -> String {
        bytes[range].iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let all = [hex(0..4), hex(4..6), hex(6..8), hex(8..10), hex(10..16)];
    bytes.iter().any(|byte| *byte != 0).then(|| all.join("-"))
}

impl Sensors {
    /// Its place in its NVLink domain; `None` where the driver has no such function, or the part no
    /// such domain (before Hopper).
    pub fn fabric(&self) -> Option<Fabric> {
        let info = told(self.device())?;
        let state = match info.state {
            0 => FabricState::NotSupported,
            1 => FabricState::NotStarted,
            2 => FabricState::InProgress,
            3 => FabricState::Completed,
            _ => return None,
        };
        Some(Fabric {
            state,
            status: info.status,
            clique: info.cliqueId,
            cluster: uuid(info.clusterUuid),
            faults: faults(info.healthMask),
            health: health(info.healthSummary.into()),
        })
    }

    /// Modes that make it slower by design.
    pub fn modes(&self) -> Vec<String> {
        let library = self.device().nvml().lib();
        let mut all = Vec::new();
        if let Ok(read) = &library.nvmlSystemGetConfComputeState {
            // SAFETY: a struct of numbers, all of which may be zero.
            let mut state: nvmlConfComputeSystemState_t = unsafe { mem::zeroed() };
            // SAFETY: the pointer is valid.
            let code = unsafe { read(&raw mut state) };
            // NVML_CC_SYSTEM_FEATURE_ENABLED is 1.
            if code == 0 && state.ccFeature == 1 {
                all.push(mode::CONFIDENTIAL.to_owned());
            }
        }
        if let Ok(read) = &library.nvmlDeviceGetVirtualizationMode {
            let mut kind = 0;
            // SAFETY: the device is NVML's own, the pointer valid.
            let code = unsafe { read(self.device().handle(), &raw mut kind) };
            // NVML_GPU_VIRTUALIZATION_MODE_VGPU is 2.
            if code == 0 && kind == 2 {
                all.push(mode::VGPU.to_owned());
            }
        }
        all
    }

    /// How a whole GPU is divided: `MIG` where it is and its slices are not shown, else `whole`;
    /// `None` where it cannot be divided, or the driver does not tell.
    pub fn partition(&self) -> Option<String> {
        let read = self.device().nvml().lib().nvmlDeviceGetMigMode.as_ref().ok()?;
        let [mut now, mut pending] = [0; 2];
        // SAFETY: the device is NVML's own, the pointers valid.
        let code = unsafe { read(self.device().handle(), &raw mut now, &raw mut pending) };
        (code == 0).then(|| if now == 1 { "MIG" } else { "whole" }.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_health_mask_is_read_as_the_header_lays_it_out() {
        // All told to be false, the configuration told to be right.
        assert_eq!(faults(0b01_10_10_10_10), []);
        assert_eq!(faults(0), [], "a driver that does not tell");
        for (mask, fault) in [
            (0b10_10_10_01, FabricFault::BandwidthDegraded),
            (0b10_10_01_10, FabricFault::RouteRecovery),
            (0b10_01_10_10, FabricFault::RouteUnhealthy),
            (0b10_11_10_10, FabricFault::RouteUnhealthy),
            (0b01_10_10_10, FabricFault::AccessTimeout),
            (0x4aa, FabricFault::IncorrectConfiguration(4)),
        ] {
            assert_eq!(faults(mask), [fault], "{mask:#b}");
        }
        assert!(FabricFault::IncorrectConfiguration(4).words().contains("no partition"));
    }

    #[test]
    fn a_uuid_of_zeros_is_none() {
        assert_eq!(uuid([0; 16]), None);
        let some = uuid([0x9c; 16]).expect("a number");
        assert_eq!(some, "9c9c9c9c-9c9c-9c9c-9c9c-9c9c9c9c9c9c");
    }

    #[test]
    fn versions_of_structs_are_those_of_the_header() {
        // nvml.h: NVML_STRUCT_VERSION is the size with the number in the highest byte. 16 bytes of
        // UUID and five numbers, of which two take a byte each and three that follow it.
        assert_eq!(version::<nvmlGpuFabricInfo_v2_t>(2), 0x0200_0024);
        assert_eq!(version::<nvmlGpuFabricInfo_v3_t>(3), 0x0300_0028);
    }
}
