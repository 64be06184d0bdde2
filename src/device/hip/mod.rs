//! AMD GPUs, through `libamdhip64.so`.
//!
//! HIP's driver interface is CUDA's by other names, so that contexts, modules, launches, gates and
//! the compiler's cache are those of [`super::cuda`]: this module says what HIP calls the
//! functions, where its library is, and what AMD's devices say of themselves. Nothing in it has run
//! on an AMD GPU: docs/architecture.md says what it was proved by instead.

#[cfg(all(test, feature = "hip-abi"))]
mod abi;
mod hipblaslt;
mod kernels;
mod metrics;
mod properties;
mod sensors;
mod topology;

use super::{
    Backend, Device, DeviceError, Finding, Identity,
    cuda::{
        CudaDevice, Told, code,
        driver::Driver,
        nvrtc::{Compiler, Dialect},
        vendor::{Peers, Shelf, Vendor},
    },
    library::Wanted,
};
use crate::{
    record::Environment,
    spec::{Properties, STUB},
};
use sensors::Sensors;
use std::{
    env,
    sync::{Arc, OnceLock},
};

/// What HIP calls the functions of `libcuda.so.1` that this program calls. Those that are absent
/// have no counterpart, and nothing on AMD's devices needs them.
const NAMES: &[(&str, &str)] = &[
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

/// What hipRTC calls the functions of NVRTC.
const COMPILER_NAMES: &[(&str, &str)] = &[
    ("nvrtcVersion", "hiprtcVersion"),
    ("nvrtcCreateProgram", "hiprtcCreateProgram"),
    ("nvrtcCompileProgram", "hiprtcCompileProgram"),
    ("nvrtcGetProgramLogSize", "hiprtcGetProgramLogSize"),
    ("nvrtcGetProgramLog", "hiprtcGetProgramLog"),
    ("nvrtcGetCUBINSize", "hiprtcGetCodeSize"),
    ("nvrtcGetCUBIN", "hiprtcGetCode"),
    ("nvrtcDestroyProgram", "hiprtcDestroyProgram"),
    ("fizeau_stub_driver", "fizeau_stub_driver"),
];

fn spelled_in(names: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    names.iter().find(|(cuda, _)| *cuda == name).map(|(_, hip)| *hip)
}

const FOLDERS: &[&str] = &["/opt/rocm/lib", "/opt/rocm/lib64"];

const MEND: &str = "install the ROCm runtime (AMD's package hip-runtime-amd, or libamdhip64-5 of \
                    Debian and Ubuntu); in a container pass --device /dev/kfd --device /dev/dri";

pub(super) const LIBRARY: Wanted = Wanted {
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
static HIP: Vendor = Vendor {
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
        code::NO_DEVICE | code::INVALID_DEVICE => NO_DEVICE_MEND,
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
    kernels: Shelf {
        manifest: kernels::MANIFEST,
        find: kernels::find,
        compiler,
        builder: "clang for AMD's targets",
    },
};

const NO_DEVICE_MEND: &str = "check rocminfo, that this user may open /dev/kfd (groups render and \
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
fn driver() -> Result<Arc<Driver>, DeviceError> {
    static DRIVER: OnceLock<Result<Arc<Driver>, DeviceError>> = OnceLock::new();
    let opened = || Driver::open(&HIP).map(Arc::new).map_err(no_device);
    DRIVER.get_or_init(opened).clone()
}

/// A driver without a device says so in several ways, by what it was asked first.
fn no_device(error: DeviceError) -> DeviceError {
    let words = error.to_string();
    let none = [code::NO_DEVICE, code::INVALID_DEVICE];
    match none.iter().any(|code| words.contains(&format!("HIP error {code})"))) {
        true => DeviceError::Missing { what: "AMD GPU".into(), mend: NO_DEVICE_MEND.into() },
        false => error,
    }
}

/// hipRTC, opened once in a process.
///
/// # Errors
///
/// [`DeviceError::Missing`] where there is none.
fn compiler() -> Result<Arc<Compiler>, DeviceError> {
    static COMPILER: OnceLock<Result<Arc<Compiler>, DeviceError>> = OnceLock::new();
    COMPILER.get_or_init(|| Compiler::open(&HIPRTC).map(Arc::new)).clone()
}

static HIPRTC: Dialect = Dialect {
    name: "hipRTC",
    // Before ROCm 7 the runtime has the compiler in it as well.
    library: Wanted {
        files: &[
            "libhiprtc.so.10",
            "libhiprtc.so.9",
            "libhiprtc.so.8",
            "libhiprtc.so.7",
            "libhiprtc.so.6",
            "libhiprtc.so.5",
            "libhiprtc.so",
            "libamdhip64.so.6",
            "libamdhip64.so.5",
        ],
        before: "",
        folders: FOLDERS,
        mend: "install hipRTC (AMD's package hip-runtime-amd has it), or build fizeau where a \
               clang for AMD's targets is found, which embeds binaries",
    },
    spelled: |name| spelled_in(COMPILER_NAMES, name),
    target: "--offload-arch=",
};

/// What HIP lets this process see, in the user's words.
fn visible() -> Option<String> {
    let names = ["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"];
    names.iter().find_map(|name| Some(format!("{name}={}", env::var(name).ok()?)))
}

/// The backend.
pub struct Hip;

impl Backend for Hip {
    fn name(&self) -> &'static str {
        "hip"
    }

    fn devices(&self) -> Result<Vec<Properties>, DeviceError> {
        let driver = driver()?;
        let count = driver.count().map_err(no_device)?;
        if count == 0 {
            let hidden = visible().map(|list| format!(" ({list})")).unwrap_or_default();
            let what = format!("AMD GPU{hidden}");
            return Err(DeviceError::Missing { what, mend: NO_DEVICE_MEND.into() });
        }
        (0..count).map(|ordinal| properties::read(&driver, ordinal)).collect()
    }

    fn open(&self, ordinal: u32) -> Result<Box<dyn Device>, DeviceError> {
        let driver = driver()?;
        let properties = properties::read(&driver, ordinal)?;
        let timer = properties::timer(&driver, ordinal);
        let sensors = sensors(&driver, ordinal);
        let target = properties.features.first().map(String::as_str).unwrap_or_default();
        let products = hipblaslt::kinds(target);
        let told = Told { timer, block_memory: None, products, describe, identity };
        Ok(Box::new(CudaDevice::open(driver, properties, sensors, told)?))
    }

    fn findings(&self) -> Vec<Finding> {
        let mut findings = vec![
            match driver() {
                Ok(driver) => Finding::good("AMD driver", described(&driver)),
                Err(error) => Finding::absent("AMD driver", &error),
            },
            match compiler() {
                Ok(compiler) => Finding::good("hipRTC", compiler.spelled()),
                Err(error) => Finding::absent("hipRTC", &error),
            },
            match hipblaslt::HIPBLASLT.library() {
                Ok(_) => Finding::good("hipBLASLt", "found"),
                Err(error) => Finding::absent("hipBLASLt", &error),
            },
            Finding::good("HIP kernels", kernels::built_with()),
        ];
        if let Ok(driver) = driver() {
            let devices = (0..driver.count().unwrap_or(0)).flat_map(|at| of_device(&driver, at));
            findings.extend(devices);
        }
        findings
    }
}

/// The driver, and which devices it shows.
fn described(driver: &Driver) -> String {
    let text = match driver.is_stub {
        true => STUB.into(),
        false => format!("HIP {}", (driver.vendor.version)(driver.version)),
    };
    visible().iter().fold(text, |text, list| format!("{text}; {list}"))
}

/// What is worth a look about one device.
fn of_device(driver: &Driver, ordinal: u32) -> Vec<Finding> {
    let what = format!("hip:{ordinal}");
    if driver.is_stub {
        return vec![Finding::good(&what, STUB)];
    }
    let Some(sensors) = sensors(driver, ordinal) else { return Vec::new() };
    let mut findings = Vec::new();
    if let Some(errors) = sensors.errors().1 {
        findings.push(Finding {
            good: errors == 0,
            what: what.clone(),
            found: format!("{errors} uncorrectable memory errors since the driver was loaded"),
            mend: match errors {
                0 => String::new(),
                _ => "drain the node and reset the GPU: amd-smi reset --gpureset".into(),
            },
        });
    }
    findings.extend(sensors.links().map(|found| Finding::good(&what, found)));
    findings
}

/// The kernel's view of a device.
fn sensors(driver: &Driver, ordinal: u32) -> Option<Sensors> {
    let device = driver.device(ordinal).ok()?;
    Sensors::of(&topology::pci_folder(&driver.pci(device)?)?)
}

/// What tells a device and how it is linked from others.
fn identity(driver: &Driver, ordinal: u32) -> Identity {
    let device = driver.device(ordinal).ok();
    let sensors = sensors(driver, ordinal);
    Identity {
        uuid: device.and_then(|device| driver.uuid(device)),
        pci: device.and_then(|device| driver.pci(device)),
        driver: Some(format!("HIP {}", (driver.vendor.version)(driver.version))),
        pcie_width: sensors.as_ref().and_then(Sensors::pcie_width),
        links: sensors.as_ref().and_then(Sensors::links_up),
    }
}

/// What stands in a record of AMD's driver.
fn describe(driver: &Driver, properties: &Properties, sensors: bool, to: &mut Environment) {
    to.libraries.push(format!("AMD driver {}", described(driver)));
    if !sensors {
        to.warnings.push("no telemetry: /sys shows no amdgpu device at its place".into());
    }
    if let Some(list) = visible() {
        to.warnings.push(format!("not all GPUs of this machine are visible: {list}"));
    }
    if let Some(partition) = &properties.virtualised {
        to.warnings.push(format!(
            "this is a part of a GPU ({partition}): its share of memory and clock is not stated"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::library;

    /// Runs where HIP's library is; scripts/check_hip.sh brings Debian's, of HIP 5.2.
    #[test]
    fn every_function_that_is_called_is_exported_by_the_real_library() {
        for (wanted, names) in [(&LIBRARY, NAMES), (&HIPRTC.library, COMPILER_NAMES)] {
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
        let of = |code| code::error(&HIP, &library::Refusal::Code { call: "hipInit", code });
        for code in [100, 101] {
            let told = no_device(of(code)).to_string();
            assert!(told.starts_with("AMD GPU not found: check rocminfo"), "{told}");
        }
        assert_eq!(no_device(of(1)), of(1));
        assert_eq!((spelled(50_221_153), spelled(60_300_000)), ("5.2".into(), "6.3".into()));
    }
}
