//! NVIDIA's driver, `libcuda.so.1`.

use super::{cublaslt, kernels, nvrtc};
use crate::device::{
    DeviceError,
    gpu::{
        driver::Driver,
        table::Functions,
        vendor::{KernelSet, Peers, Vendor},
    },
    library::Wanted,
};
use std::sync::{Arc, OnceLock};

/// NVIDIA's.
pub const LIBRARY: Wanted = Wanted {
    files: &["libcuda.so.1"],
    before: "",
    folders: &["/usr/lib/wsl/lib", "/run/opengl-driver/lib"],
    mend: "install the NVIDIA driver; in a container run it with the NVIDIA runtime (--gpus all)",
};

/// The oldest driver whose functions this backend is written for, as CUDA counts: 12.0, the first
/// with tensor maps and clusters (driver 525).
pub const VERSION_MIN: i32 = 12_000;

/// NVIDIA's driver.
pub static CUDA: Vendor = Vendor {
    maker: "NVIDIA",
    interface: "CUDA",
    library: LIBRARY,
    functions: Functions::of,
    version_min: VERSION_MIN,
    too_old,
    version: spelled,
    newer: "install a newer NVIDIA driver",
    opening: |_| None,
    mend,
    extras_end: 0,
    // CU_MEMHOSTALLOC_DEVICEMAP.
    host_flags: 2,
    has_attributes: true,
    copy_kind: None,
    names_peers: Peers::ByContext,
    products: &cublaslt::CUBLASLT,
    kernels: KernelSet {
        manifest: kernels::MANIFEST,
        find: kernels::find,
        compiler: nvrtc::compiler,
        builder: "nvcc",
    },
};

/// The driver, opened once in a process.
///
/// # Errors
///
/// [`DeviceError::Missing`] where there is none, it is too old, or it has no device.
pub fn driver() -> Result<Arc<Driver>, DeviceError> {
    static DRIVER: OnceLock<Result<Arc<Driver>, DeviceError>> = OnceLock::new();
    DRIVER.get_or_init(|| Driver::open(&CUDA).map(Arc::new)).clone()
}

/// What to say of a driver for an older CUDA.
pub fn too_old(version: i32) -> DeviceError {
    DeviceError::Missing {
        what: format!(
            "an NVIDIA driver for CUDA {} or newer (this one is for {})",
            spelled(VERSION_MIN),
            spelled(version)
        ),
        mend: "install driver 525 or newer; 580 or newer runs the built-in kernels".into(),
    }
}

/// What to do about a machine with NVIDIA's devices that is not set up.
pub fn mend(code: i32) -> &'static str {
    match code {
        34 => "remove the toolkit's stubs folder from LD_LIBRARY_PATH",
        100 => {
            "check nvidia-smi, CUDA_VISIBLE_DEVICES, and that the container was given the GPU \
             (--gpus all)"
        }
        802 => "start nvidia-fabricmanager, of the driver's own version",
        803 => "reboot, or reload the nvidia kernel modules, after a driver update",
        804 => "remove the cuda-compat package, or use a data-centre GPU",
        805 => "start nvidia-cuda-mps-control, or unset CUDA_MPS_PIPE_DIRECTORY",
        _ => "check nvidia-smi and the kernel log (dmesg | grep -i nvrm)",
    }
}

/// Attributes of a device (`CUdevice_attribute` of cuda.h).
#[derive(Clone, Copy, Debug)]
#[repr(i32)]
pub enum Attribute {
    ClockRate = 13,
    MultiprocessorCount = 16,
    MemoryClockRate = 36,
    GlobalMemoryBusWidth = 37,
    L2CacheSize = 38,
    ComputeCapabilityMajor = 75,
    ComputeCapabilityMinor = 76,
    MaxSharedMemoryPerBlockOptin = 97,
}

/// A version as people write it: 12.8 for 12080.
pub fn spelled(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{
        gpu::status::{Meaning, error, meaning},
        library::Refusal,
    };

    fn of(code: i32) -> DeviceError {
        error(&CUDA, &Refusal::Code { call: "cuCall", code })
    }

    #[test]
    fn a_code_is_an_outcome() {
        assert!(matches!(of(214), DeviceError::Lost(words) if words.contains("ECC")));
        assert!(matches!(of(802), DeviceError::Missing { mend, .. } if mend.contains("fabric")));
        assert!(matches!(of(1), DeviceError::Driver(words) if words.contains("invalid value")));
        let unknown = of(123_456).to_string();
        assert!(unknown.contains("123456") && unknown.contains("does not know"), "{unknown}");
        assert_eq!(meaning(-7), Meaning::Unknown);
    }
}
