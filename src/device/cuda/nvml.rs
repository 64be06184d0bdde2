//! `libnvidia-ml.so.1`: what the driver says of a GPU's sensors and faults. Works without root;
//! what a device does not tell (a MIG slice tells little) is left out.

#![expect(unsafe_code, reason = "NVML is a C library")]

use crate::device::{
    DeviceError,
    gpu::sensors::{Counters, Faults, ReadSensors, Reading},
    library::{self, Refusal, Wanted, functions},
};
use std::{
    ffi::{CStr, CString, c_char, c_int, c_uint, c_void},
    sync::{Arc, OnceLock},
};

const LIBRARY: Wanted = Wanted {
    files: &["libnvidia-ml.so.1"],
    before: "",
    folders: &["/usr/lib/wsl/lib", "/run/opengl-driver/lib"],
    mend: "it comes with the NVIDIA driver; in a container allow the capability \"utility\" \
           (NVIDIA_DRIVER_CAPABILITIES=compute,utility)",
};

functions! {
    /// The functions of `libnvidia-ml.so.1` that are called (nvml.h of CUDA 13.0).
    Functions:
    init = "nvmlInit_v2"();
    driver_version = "nvmlSystemGetDriverVersion"(text: *mut c_char, length: c_uint);
    by_pci = "nvmlDeviceGetHandleByPciBusId_v2"(place: *const c_char, device: *mut Sensor);
    by_uuid = "nvmlDeviceGetHandleByUUID"(uuid: *const c_char, device: *mut Sensor);
    pci_info = "nvmlDeviceGetPciInfo_v3"(device: Sensor, info: *mut PciInfo);
    clock = "nvmlDeviceGetClockInfo"(device: Sensor, kind: c_int, megahertz: *mut c_uint);
    power = "nvmlDeviceGetPowerUsage"(device: Sensor, milliwatts: *mut c_uint);
    energy = "nvmlDeviceGetTotalEnergyConsumption"(device: Sensor, millijoules: *mut u64);
    temperature = "nvmlDeviceGetTemperature"(device: Sensor, kind: c_int, celsius: *mut c_uint);
    reasons = "nvmlDeviceGetCurrentClocksEventReasons"
        or "nvmlDeviceGetCurrentClocksThrottleReasons"(device: Sensor, reasons: *mut u64);
    ecc_errors = "nvmlDeviceGetTotalEccErrors"(
        device: Sensor, kind: c_int, counter: c_int, count: *mut u64,
    );
    remapped_rows = "nvmlDeviceGetRemappedRows"(
        device: Sensor, corrected: *mut c_uint, uncorrected: *mut c_uint, pending: *mut c_uint,
        failure: *mut c_uint,
    );
    pcie_replays = "nvmlDeviceGetPcieReplayCounter"(device: Sensor, count: *mut c_uint);
    pcie_generation = "nvmlDeviceGetCurrPcieLinkGeneration"(device: Sensor, value: *mut c_uint);
    pcie_width = "nvmlDeviceGetCurrPcieLinkWidth"(device: Sensor, value: *mut c_uint);
    pcie_generation_max = "nvmlDeviceGetMaxPcieLinkGeneration"(
        device: Sensor, value: *mut c_uint,
    );
    pcie_width_max = "nvmlDeviceGetMaxPcieLinkWidth"(device: Sensor, value: *mut c_uint);
    nvlink_state = "nvmlDeviceGetNvLinkState"(device: Sensor, link: c_uint, active: *mut c_uint);
    nvlink_errors = "nvmlDeviceGetNvLinkErrorCounter"(
        device: Sensor, link: c_uint, counter: c_int, count: *mut u64,
    );
    fields = "nvmlDeviceGetFieldValues"(device: Sensor, count: c_int, values: *mut FieldValue);
    events = "nvmlEventSetCreate"(set: *mut Sensor);
    events_register = "nvmlDeviceRegisterEvents"(device: Sensor, kinds: u64, set: Sensor);
    events_wait = "nvmlEventSetWait_v2"(set: Sensor, event: *mut Event, milliseconds: c_uint);
}

/// An opaque object of NVML: a device, or a set of events.
pub type Sensor = *mut c_void;

/// `nvmlPciInfo_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PciInfo {
    legacy: [u8; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    /// Device and vendor: `0x233510de`.
    id: c_uint,
    subsystem: c_uint,
    place: [u8; 32],
}

/// `nvmlFieldValue_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FieldValue {
    field: c_uint,
    scope: c_uint,
    timestamp: i64,
    latency: i64,
    kind: c_int,
    code: c_int,
    value: u64,
}

/// `nvmlEventData_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Event {
    device: Sensor,
    kind: u64,
    data: u64,
    instances: [c_uint; 2],
}

const _: () = assert!(size_of::<PciInfo>() == 68);
const _: () = assert!(size_of::<FieldValue>() == 40 && size_of::<Event>() == 32);

/// `NVML_CLOCK_SM`, `NVML_CLOCK_MEM`.
const CLOCK_SM: c_int = 1;
const CLOCK_MEMORY: c_int = 2;
/// `NVML_FI_DEV_MEMORY_TEMP`.
const FIELD_MEMORY_TEMPERATURE: c_uint = 82;
/// `nvmlEventTypeXidCriticalError`.
const EVENT_XID: u64 = 8;
/// `NVML_NVLINK_MAX_LINKS`, and its error counters: replay, recovery, CRC of flits, CRC of data.
const LINKS: c_uint = 36;
const LINK_COUNTERS: c_int = 4;

/// NVML, initialised once in a process and never shut down.
pub struct Nvml {
    functions: Functions,
}

/// One device of it.
#[derive(Clone)]
pub struct Sensors {
    nvml: Arc<Nvml>,
    device: Sensor,
}

// SAFETY: NVML may be called from any thread ("thread-safe ... it is safe to make simultaneous
// NVML calls from multiple threads", NVML's reference), and its handles are not bound to one.
unsafe impl Send for Sensors {}

impl ReadSensors for Sensors {
    fn reading(&self) -> Reading {
        Sensors::reading(self)
    }
    fn counters(&self) -> Counters {
        Sensors::counters(self)
    }
    fn faults(&self) -> Option<Box<dyn Faults>> {
        Some(Box::new(self.queue()?))
    }
}

/// NVML, opened once in a process.
///
/// # Errors
///
/// [`DeviceError::Missing`] where there is none, or it cannot start.
pub fn nvml() -> Result<Arc<Nvml>, DeviceError> {
    static NVML: OnceLock<Result<Arc<Nvml>, DeviceError>> = OnceLock::new();
    NVML.get_or_init(|| Nvml::open().map(Arc::new)).clone()
}

/// A code in words; the codes of nvml.h that a reader can do something about.
fn words(refusal: &Refusal) -> String {
    let Refusal::Code { call, code } = refusal else { return refusal.to_string() };
    let said = match code {
        4 => "no permission",
        9 => "the NVIDIA driver is not loaded",
        15 => "the GPU fell off the bus",
        18 => "libnvidia-ml and the kernel's driver are of different versions",
        _ => return format!("{call}: NVML error {code}"),
    };
    format!("{call}: {said} (NVML error {code})")
}

impl Nvml {
    fn open() -> Result<Nvml, DeviceError> {
        let functions = Functions::of(&library::open(&LIBRARY)?);
        // SAFETY: the call takes nothing.
        unsafe { functions.init() }.map_err(|refusal| DeviceError::Missing {
            what: format!("a working NVML ({})", words(&refusal)),
            mend: "check nvidia-smi, which uses the same library".into(),
        })?;
        Ok(Nvml { functions })
    }

    /// The driver's version, such as `580.95.05`.
    pub fn driver_version(&self) -> Option<String> {
        let mut buffer = [0u8; 96];
        // SAFETY: the buffer is longer than is said.
        unsafe { self.functions.driver_version(buffer.as_mut_ptr().cast(), 95) }.ok()?;
        let text = CStr::from_bytes_until_nul(&buffer).ok()?;
        Some(text.to_string_lossy().into_owned())
    }

    /// The device at a place of the PCI bus, or the slice with a MIG number.
    pub fn sensors(self: Arc<Nvml>, pci: &str, mig: Option<&str>) -> Option<Sensors> {
        let mut device: Sensor = std::ptr::null_mut();
        let text = CString::new(mig.unwrap_or(pci)).ok()?;
        // SAFETY: a text that ends with a zero, and a valid pointer.
        unsafe {
            match mig {
                Some(_) => self.functions.by_uuid(text.as_ptr(), &raw mut device),
                None => self.functions.by_pci(text.as_ptr(), &raw mut device),
            }
        }
        .ok()?;
        Some(Sensors { nvml: self, device })
    }
}

impl Sensors {
    fn functions(&self) -> &Functions {
        &self.nvml.functions
    }

    /// One unsigned number.
    fn number(
        &self,
        call: impl FnOnce(&Functions, Sensor, *mut c_uint) -> Result<(), Refusal>,
    ) -> Option<u32> {
        let mut value = 0;
        call(self.functions(), self.device, &raw mut value).ok()?;
        Some(value)
    }

    /// One long unsigned number.
    fn long(
        &self,
        call: impl FnOnce(&Functions, Sensor, *mut u64) -> Result<(), Refusal>,
    ) -> Option<u64> {
        let mut value = 0;
        call(self.functions(), self.device, &raw mut value).ok()?;
        Some(value)
    }

    /// Vendor and device, as `10de:2335`.
    pub fn pci_id(&self) -> Option<String> {
        let zeros = [0u8; size_of::<PciInfo>()];
        // SAFETY: plain integers; the pointer is to one of them.
        let id = unsafe {
            let mut info: PciInfo = std::mem::transmute(zeros);
            self.functions().pci_info(self.device, &raw mut info).ok()?;
            info.id
        };
        Some(format!("{:04x}:{:04x}", id & 0xffff, id >> 16))
    }

    /// What the device is doing now.
    pub fn reading(&self) -> Reading {
        // SAFETY: the device is NVML's own, the pointers are valid.
        unsafe {
            Reading {
                clock: self.number(|f, device, value| f.clock(device, CLOCK_SM, value)),
                memory_clock: self.number(|f, device, value| f.clock(device, CLOCK_MEMORY, value)),
                power: self.number(|f, device, value| f.power(device, value)),
                temperature: self.number(|f, device, value| f.temperature(device, 0, value)),
                memory_temperature: self.memory_temperature(),
                reasons: self.long(|f, device, value| f.reasons(device, value)),
            }
        }
    }

    fn memory_temperature(&self) -> Option<u32> {
        let field = FIELD_MEMORY_TEMPERATURE;
        let mut value =
            FieldValue { field, scope: 0, timestamp: 0, latency: 0, kind: 0, code: 0, value: 0 };
        // SAFETY: one value is passed and said.
        unsafe { self.functions().fields(self.device, 1, &raw mut value) }.ok()?;
        // An unsigned integer in the union's first half; 0 where there is no sensor.
        (value.code == 0).then_some(value.value as u32).filter(|&celsius| celsius > 0)
    }

    /// What the device has counted.
    pub fn counters(&self) -> Counters {
        const VOLATILE: c_int = 0;
        // SAFETY: as in `reading`.
        unsafe {
            Counters {
                energy: self.long(|f, device, value| f.energy(device, value)),
                ecc_corrected: self.long(|f, device, v| f.ecc_errors(device, 0, VOLATILE, v)),
                ecc_uncorrected: self.long(|f, device, v| f.ecc_errors(device, 1, VOLATILE, v)),
                remapped_rows: self.remapped_rows(),
                pcie_replays: self.number(|f, device, v| f.pcie_replays(device, v)).map(u64::from),
                nvlink_errors: self.nvlink_errors(),
            }
        }
    }

    fn remapped_rows(&self) -> Option<u64> {
        let [mut corrected, mut uncorrected, mut pending, mut failure] = [0; 4];
        // SAFETY: as in `reading`.
        unsafe {
            let (f, device) = (self.functions(), self.device);
            f.remapped_rows(
                device,
                &raw mut corrected,
                &raw mut uncorrected,
                &raw mut pending,
                &raw mut failure,
            )
            .ok()?;
        }
        Some(u64::from(corrected) + u64::from(uncorrected))
    }

    /// NVLinks that are up; none where there are none.
    pub fn nvlinks(&self) -> u32 {
        // SAFETY: as in `reading`.
        let up =
            |link| unsafe { self.number(|f, device, value| f.nvlink_state(device, link, value)) };
        (0..LINKS).filter(|&link| up(link) == Some(1)).count() as u32
    }

    fn nvlink_errors(&self) -> Option<u64> {
        let counters = (0..LINKS).flat_map(|link| (0..LINK_COUNTERS).map(move |at| (link, at)));
        let counts = counters.filter_map(|(link, at)| {
            // SAFETY: as in `reading`.
            unsafe { self.long(|f, device, value| f.nvlink_errors(device, link, at, value)) }
        });
        counts.reduce(u64::wrapping_add)
    }

    /// PCIe as it runs now: generation and lanes.
    pub fn pcie(&self) -> Option<(u32, u32)> {
        // SAFETY: as in `reading`.
        unsafe {
            let generation = self.number(|f, device, value| f.pcie_generation(device, value))?;
            Some((generation, self.number(|f, device, value| f.pcie_width(device, value))?))
        }
    }

    /// PCIe as it can run between this device and this machine: generation and lanes. At rest the
    /// link is slower than that, to save power.
    pub fn pcie_max(&self) -> Option<[u32; 2]> {
        // SAFETY: as in `reading`.
        unsafe {
            Some([
                self.number(|f, device, value| f.pcie_generation_max(device, value))?,
                self.number(|f, device, value| f.pcie_width_max(device, value))?,
            ])
        }
    }

    /// A queue of the faults (Xid) that the driver reports from now on.
    fn queue(&self) -> Option<Queue> {
        let mut set: Sensor = std::ptr::null_mut();
        // SAFETY: a valid pointer; the set is registered before it is waited for.
        unsafe {
            self.functions().events(&raw mut set).ok()?;
            self.functions().events_register(self.device, EVENT_XID, set).ok()?;
        }
        Some(Queue { sensors: self.clone(), set })
    }
}

/// Such a queue.
struct Queue {
    sensors: Sensors,
    set: Sensor,
}

// SAFETY: as for `Sensors`.
unsafe impl Send for Queue {}

impl Faults for Queue {
    fn next(&self, milliseconds: u32) -> Result<Option<u64>, Refusal> {
        const TIMEOUT: i32 = 10;
        let instances = [0; 2];
        let mut event = Event { device: std::ptr::null_mut(), kind: 0, data: 0, instances };
        // SAFETY: the set is registered, the pointer valid.
        let waited =
            unsafe { self.sensors.functions().events_wait(self.set, &raw mut event, milliseconds) };
        match waited {
            Ok(()) => Ok(Some(event.data)),
            Err(Refusal::Code { code: TIMEOUT, .. }) => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }
}
