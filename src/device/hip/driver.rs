//! AMD's driver, `libamdhip64.so`: what HIP calls the functions of the shared table.

use super::{hipblaslt, hiprtc, kernels};
use crate::device::{
    DeviceError,
    gpu::{
        driver::Driver,
        status,
        vendor::{KernelSet, Peers, Vendor},
    },
    library::Wanted,
};
use std::sync::{Arc, OnceLock};

/// What HIP calls the functions of `libcuda.so.1` that this program calls. Those that are absent
/// have no counterpart, and nothing on AMD's devices needs them.
pub const NAMES: &[(&str, &str)] = &[
    ("cuInit", "hipInit"),
    ("cuDriverGetVersion", "hipRuntimeGetVersion"),
    ("cuDeviceGetCount", "hipGetDeviceCount"),
    ("cuDeviceGet", "hipDeviceGet"),
    ("cuDeviceGetName", "hipDeviceGetName"),
    ("cuDeviceGetUuid", "hipDeviceGetUuid"),
    ("cuDeviceGetPCIBusId", "hipDeviceGetPCIBusId"),
    ("cuDeviceTotalMem_v2", "hipDeviceTotalMem"),
    ("cuDeviceGetAttribute", "hipDeviceGetAttribute"),
    ("cuDevicePrimaryCtxRetain", "hipDevicePrimaryCtxRetain"),
    ("cuDevicePrimaryCtxRelease", "hipDevicePrimaryCtxRelease"),
    ("cuCtxSetCurrent", "hipCtxSetCurrent"),
    ("cuMemGetInfo_v2", "hipMemGetInfo"),
    ("cuMemAlloc_v2", "hipMalloc"),
    ("cuMemFree_v2", "hipFree"),
    ("cuMemHostAlloc", "hipHostMalloc"),
    ("cuMemHostGetDevicePointer_v2", "hipHostGetDevicePointer"),
    ("cuMemFreeHost", "hipHostFree"),
    ("cuMemsetD8Async", "hipMemsetD8Async"),
    ("cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync"),
    ("cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync"),
    ("cuStreamCreate", "hipStreamCreateWithFlags"),
    ("cuStreamDestroy_v2", "hipStreamDestroy"),
    ("cuEventCreate", "hipEventCreateWithFlags"),
    ("cuEventDestroy_v2", "hipEventDestroy"),
    ("cuEventRecord", "hipEventRecord"),
    ("cuEventQuery", "hipEventQuery"),
    ("cuEventElapsedTime", "hipEventElapsedTime"),
    ("cuModuleLoadData", "hipModuleLoadData"),
    ("cuModuleUnload", "hipModuleUnload"),
    ("cuModuleGetFunction", "hipModuleGetFunction"),
    ("cuLaunchKernel", "hipModuleLaunchKernel"),
    ("hipMemcpyAsync", "hipMemcpyAsync"),
    ("cuStreamWaitEvent", "hipStreamWaitEvent"),
    ("cuDeviceCanAccessPeer", "hipDeviceCanAccessPeer"),
    ("hipDeviceEnablePeerAccess", "hipDeviceEnablePeerAccess"),
    ("cuStreamBeginCapture_v2", "hipStreamBeginCapture"),
    ("cuStreamEndCapture", "hipStreamEndCapture"),
    ("cuGraphInstantiateWithFlags", "hipGraphInstantiateWithFlags"),
    ("cuGraphLaunch", "hipGraphLaunch"),
    ("cuGraphExecDestroy", "hipGraphExecDestroy"),
    ("cuGraphDestroy", "hipGraphDestroy"),
    ("fizeau_stub_driver", "fizeau_stub_driver"),
];

pub fn spelled_in(names: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    names.iter().find(|(cuda, _)| *cuda == name).map(|(_, hip)| *hip)
}

pub const FOLDERS: &[&str] = &["/opt/rocm/lib", "/opt/rocm/lib64"];

const MEND: &str = "install the ROCm runtime (AMD's package hip-runtime-amd, or libamdhip64-5 of \
                    Debian and Ubuntu); in a container pass --device /dev/kfd --device /dev/dri";

pub const LIBRARY: Wanted = Wanted {
    files: &[
        "libamdhip64.so.10",
        "libamdhip64.so.9",
        "libamdhip64.so.8",
        "libamdhip64.so.7",
        "libamdhip64.so.6",
        "libamdhip64.so.5",
        "libamdhip64.so",
    ],
    before: "",
    folders: FOLDERS,
    mend: MEND,
};

/// AMD's driver.
pub static HIP: Vendor = Vendor {
    maker: "AMD",
    interface: "HIP",
    library: LIBRARY,
    spelled: |name| spelled_in(NAMES, name),
    // HIP counts 10^7 for a major version and 10^5 for a minor one.
    version_min: 50_000_000,
    too_old: |version| DeviceError::Missing {
        what: format!("HIP 5.0 or newer (this one is {})", spelled(version)),
        mend: "install ROCm 6 or newer".into(),
    },
    version: spelled,
    newer: "install a newer ROCm runtime",
    mend: |code| match code {
        status::NO_DEVICE | status::INVALID_DEVICE => NO_DEVICE_MEND,
        _ => "check rocminfo and the kernel log (dmesg | grep -i amdgpu)",
    },
    // HIP_LAUNCH_PARAM_END.
    extras_end: 3,
    // hipHostMallocMapped, hipHostMallocCoherent: what the host writes is seen by a kernel.
    host_flags: 0x4000_0002,
    has_attributes: false,
    // hipMemcpyDefault.
    copy_kind: Some(4),
    names_peers: Peers::ByDevice,
    products: &hipblaslt::HIPBLASLT,
    kernels: KernelSet {
        manifest: kernels::MANIFEST,
        find: kernels::find,
        compiler: hiprtc::compiler,
        builder: "clang for AMD's targets",
    },
};

pub const NO_DEVICE_MEND: &str = "check rocminfo, that this user may open /dev/kfd (groups render and \
                              video), and what HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES leave; \
                              in a container pass --device /dev/kfd --device /dev/dri";

/// A version as people write it: 5.2 for 50221153.
fn spelled(version: i32) -> String {
    format!("{}.{}", version / 10_000_000, version % 10_000_000 / 100_000)
}

/// The driver, opened once in a process.
///
/// # Errors
///
/// [`DeviceError::Missing`] where there is none, it is too old, or it has no device.
pub fn driver() -> Result<Arc<Driver>, DeviceError> {
    static DRIVER: OnceLock<Result<Arc<Driver>, DeviceError>> = OnceLock::new();
    let opened = || Driver::open(&HIP).map(Arc::new).map_err(no_device);
    DRIVER.get_or_init(opened).clone()
}

/// A driver without a device says so in several ways, by what it was asked first.
pub fn no_device(error: DeviceError) -> DeviceError {
    let words = error.to_string();
    let none = [status::NO_DEVICE, status::INVALID_DEVICE];
    match none.iter().any(|code| words.contains(&format!("HIP error {code})"))) {
        true => DeviceError::Missing { what: "AMD GPU".into(), mend: NO_DEVICE_MEND.into() },
        false => error,
    }
}

#[cfg(test)]
mod tests {
    use super::super::hiprtc;
    use super::*;
    use crate::device::library;

    /// Runs where HIP's library is; scripts/check_hip.sh brings Debian's, of HIP 5.2.
    #[test]
    fn every_function_that_is_called_is_exported_by_the_real_library() {
        for (wanted, names) in [(&LIBRARY, NAMES), (&hiprtc::HIPRTC.library, hiprtc::NAMES)] {
            let opened = match library::open(wanted) {
                Ok(opened) => opened,
                Err(error) => return eprintln!("skipped: {error}"),
            };
            for (_, hip) in names.iter().filter(|(_, hip)| *hip != "fizeau_stub_driver") {
                assert!(!opened.address(&[hip]).is_null(), "{hip}");
            }
        }
    }

    #[test]
    fn a_driver_without_a_device_is_told_as_one() {
        let of = |code| status::error(&HIP, &library::Refusal::Code { call: "hipInit", code });
        for code in [100, 101] {
            let told = no_device(of(code)).to_string();
            assert!(told.starts_with("AMD GPU not found: check rocminfo"), "{told}");
        }
        assert_eq!(no_device(of(1)), of(1));
        assert_eq!((spelled(50_221_153), spelled(60_300_000)), ("5.2".into(), "6.3".into()));
    }
}
