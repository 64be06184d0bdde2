//! NVIDIA's driver, `libcuda.so.1`.

use super::{cublaslt, launching, nvrtc, status};
use crate::{
    DeviceError, Result, bundle,
    gpu::{
        driver::Driver,
        table::Functions,
        vendor::{Flags, KernelSet, Peers, Vendor},
    },
    library::Wanted,
    pci,
};
use cudarc::driver::sys::{
    CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT, CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT,
    CU_LAUNCH_PARAM_END_AS_INT, CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_PORTABLE, CUlimit,
    CUresult, CUstream_flags, CUstreamCaptureMode,
};
use std::{
    ffi::{c_int, c_uint},
    sync::{Arc, OnceLock},
};

/// NVIDIA's.
pub const LIBRARY: Wanted = Wanted {
    files: &["libcuda.so.1"],
    before: "",
    folders: &["/usr/lib/wsl/lib", "/run/opengl-driver/lib"],
    remedy: "install the NVIDIA driver; in a container run it with the NVIDIA runtime (--gpus all)",
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
    before_version: "for CUDA ",
    version: spelled,
    newer: "install a newer NVIDIA driver",
    no_device: &[CUresult::CUDA_ERROR_NO_DEVICE as i32],
    no_device_remedy: status::NO_DEVICE_REMEDY,
    on_the_bus: pci::NVIDIA,
    hiding: &["CUDA_VISIBLE_DEVICES"],
    check: status::CHECK,
    codes: status::CODES,
    flags: Flags {
        non_blocking: CUstream_flags::CU_STREAM_NON_BLOCKING as c_uint,
        thread_local: CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL as c_int,
        portable: CU_MEMHOSTALLOC_PORTABLE,
        mapped: CU_MEMHOSTALLOC_DEVICEMAP,
        extras: [
            CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT as usize,
            CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT as usize,
            CU_LAUNCH_PARAM_END_AS_INT as usize,
        ],
    },
    set_aside: Some(CUlimit::CU_LIMIT_PERSISTING_L2_CACHE_SIZE as c_int),
    allow: launching::allow,
    needs: Some(launching::needs),
    launch: launching::launch,
    encode: Some(launching::encode),
    copy_kind: None,
    names_peers: Peers::ByContext,
    products: &cublaslt::CUBLASLT,
    kernels: KernelSet {
        files: bundle::nvidia,
        compilers: nvrtc::compilers,
        remedy: "install NVRTC of the driver's own CUDA (`pip install nvidia-cuda-nvrtc-cu12` for \
               drivers before 580), or a newer driver",
        builder: "nvcc",
    },
};

/// The driver, opened once in a process.
///
/// # Errors
///
/// As for [`Driver::open`].
pub fn driver() -> Result<Arc<Driver>> {
    static DRIVER: OnceLock<Result<Arc<Driver>>> = OnceLock::new();
    DRIVER.get_or_init(|| Driver::open(&CUDA).map(Arc::new)).clone()
}

/// What to say of a driver for an older CUDA.
fn too_old(version: i32) -> DeviceError {
    DeviceError::Broken {
        what: "the NVIDIA driver".into(),
        why: format!(
            "it is for CUDA {}, and fizeau needs one for CUDA {} or newer",
            spelled(version),
            spelled(VERSION_MIN)
        ),
        remedy: "install driver 525 or newer".into(),
    }
}

/// A version as people write it: 12.8 for 12080.
fn spelled(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}
