//! AMD's driver, `libamdhip64.so`.

use super::{
    functions, hipblaslt, hiprtc,
    status::{self, NO_DEVICE_REMEDY},
};
use crate::{
    DeviceError, Result, bundle,
    gpu::{
        driver::Driver,
        launching,
        vendor::{Flags, KernelSet, Peers, Vendor},
    },
    library::Wanted,
    pci,
};
use std::sync::{Arc, OnceLock};

const REMEDY: &str = "install the ROCm runtime (AMD's package hip-runtime-amd, or libamdhip64-5 of \
                    Debian and Ubuntu); in a container pass --device /dev/kfd --device /dev/dri";

pub const LIBRARY: Wanted =
    Wanted { files: hip_sys::HIP_FILES, before: "", folders: functions::FOLDERS, remedy: REMEDY };

/// AMD's driver.
pub static HIP: Vendor = Vendor {
    maker: "AMD",
    interface: "HIP",
    library: LIBRARY,
    functions: functions::driver,
    // HIP counts 10^7 for a major version and 10^5 for a minor one.
    version_min: 50_000_000,
    too_old: |version| DeviceError::Broken {
        what: "the AMD driver".into(),
        why: format!("its HIP is {}, and fizeau needs 5.0 or newer", spelled(version)),
        remedy: "install ROCm 6 or newer".into(),
    },
    before_version: "HIP ",
    version: spelled,
    newer: "install a newer ROCm runtime",
    // A driver without a device says so by one code or another, by what it was asked first.
    no_device: &[hip_sys::hipErrorNoDevice, hip_sys::hipErrorInvalidDevice],
    no_device_remedy: NO_DEVICE_REMEDY,
    on_the_bus: pci::AMD,
    // HIP takes CUDA's variable for its own where its own is not set (AMD, "GPU isolation
    // techniques").
    hiding: &["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"],
    check: status::CHECK,
    codes: status::CODES,
    flags: Flags {
        non_blocking: hip_sys::hipStreamNonBlocking,
        thread_local: hip_sys::hipStreamCaptureModeThreadLocal,
        portable: hip_sys::hipHostMallocPortable,
        // Coherent: a running kernel sees what the host writes.
        mapped: hip_sys::hipHostMallocMapped | hip_sys::hipHostMallocCoherent,
        extras: [
            hip_sys::HIP_LAUNCH_PARAM_BUFFER_POINTER,
            hip_sys::HIP_LAUNCH_PARAM_BUFFER_SIZE,
            hip_sys::HIP_LAUNCH_PARAM_END,
        ],
    },
    set_aside: None,
    // No kernel asks for more shared memory than every launch may have, or for clusters.
    allow: |_, _, _| Ok(()),
    needs: None,
    launch: launching::plain,
    encode: None,
    copy_kind: Some(hip_sys::hipMemcpyDefault),
    names_peers: Peers::ByDevice,
    products: &hipblaslt::HIPBLASLT,
    kernels: KernelSet {
        files: bundle::amd,
        compilers: |_| vec![&hiprtc::HIPRTC],
        remedy: "install the hipRTC that belongs to the driver",
        builder: "clang for AMD's targets",
    },
};

/// A version as people write it: 5.2 for 50221153.
fn spelled(version: i32) -> String {
    format!("{}.{}", version / 10_000_000, version % 10_000_000 / 100_000)
}

/// The driver, opened once in a process.
///
/// # Errors
///
/// As for [`Driver::open`].
pub fn driver() -> Result<Arc<Driver>> {
    static DRIVER: OnceLock<Result<Arc<Driver>>> = OnceLock::new();
    DRIVER.get_or_init(|| Driver::open(&HIP).map(Arc::new)).clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{gpu::driver::opening_error, library::Refusal};

    #[test]
    fn a_driver_without_a_device_is_told_as_one() {
        let refusal = |code| Refusal::Code { call: "hipInit", code };
        for code in [hip_sys::hipErrorNoDevice, hip_sys::hipErrorInvalidDevice] {
            let told = opening_error(&HIP, &refusal(code)).to_string();
            // A machine with a GPU has it on the bus, which makes it a fault.
            let on_the_bus = told.contains("it shows no GPU");
            assert!(told.starts_with("AMD GPU") || on_the_bus, "{told}");
            assert!(told.contains(": check rocminfo"), "{told}");
        }
        // Words that hold such a code do not make another refusal one.
        let other = Refusal::Code { call: "hipInit (HIP error 100)", code: 1 };
        for refusal in [refusal(1), refusal(999), other, Refusal::NoSymbol("hipInit")] {
            let told = opening_error(&HIP, &refusal);
            let DeviceError::Broken { what, why, remedy } = &told else { panic!("{told:?}") };
            assert!(what == "the AMD driver" && why.contains("hipInit"), "{told:?}");
            assert!(!remedy.is_empty(), "{told:?}");
        }
        assert_eq!((spelled(50_221_153), spelled(60_300_000)), ("5.2".into(), "6.3".into()));
    }
}
