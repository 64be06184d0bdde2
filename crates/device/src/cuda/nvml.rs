//! `libnvidia-ml.so.1`: what the driver says of a GPU's sensors and faults. Works without root;
//! what a device does not tell (a MIG slice tells little) is left out.
//!
//! By the crate nvml-wrapper, every call of which may fail softly; by its pointers to functions
//! where it has no call: rows that were remapped, and reasons for a clock that are newer than it.

#![expect(unsafe_code, reason = "two functions of NVML are called by their pointers")]

use super::status;
use crate::{
    DeviceError, Result, chain,
    gpu::sensors::{Counters, Faults, ReadSensors, Reading, USER_CLOCKS},
    library::{self, Refusal, Wanted},
};
use fizeau_domain::units::Watts;
use fizeau_record::{DeviceSettings, identity};
use nvml_wrapper::{
    Device, EventSet,
    bitmasks::event::EventTypes,
    enum_wrappers::{
        device::{Clock, EccCounter, MemoryError, TemperatureSensor},
        nv_link::ErrorCounter,
    },
    enums::{device::SampleValue, event::XidError},
    error::NvmlError,
    structs::device::FieldId,
    sys_exports::field_id::{NVML_FI_DEV_MEMORY_TEMP, NVML_FI_DEV_POWER_INSTANT},
};
use std::{
    mem::ManuallyDrop,
    sync::{Arc, OnceLock},
};

const LIBRARY: Wanted = Wanted {
    files: &["libnvidia-ml.so.1"],
    before: "",
    folders: &["/usr/lib/wsl/lib", "/run/opengl-driver/lib"],
    remedy: "it comes with the NVIDIA driver; in a container allow the capability \"utility\" \
           (NVIDIA_DRIVER_CAPABILITIES=compute,utility)",
};

/// More NVLinks than any device has.
const LINKS: u32 = 36;

/// NVML, initialised once in a process and never shut down: no other thread is asked whether it
/// still reads sensors.
#[derive(Clone, Copy)]
pub struct Nvml(&'static nvml_wrapper::Nvml);

/// One device of it.
#[derive(Clone)]
pub struct Sensors(Arc<Device<'static>>);

/// Rows of memory that were replaced by spare ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowRemaps {
    /// How many.
    pub rows: u64,
    /// Whether some are to be replaced at the next reset.
    pub is_pending: bool,
    /// Whether one could not be replaced.
    pub has_failed: bool,
}

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
pub fn nvml() -> Result<Nvml> {
    static NVML: OnceLock<Result<nvml_wrapper::Nvml>> = OnceLock::new();
    NVML.get_or_init(open).as_ref().map(Nvml).map_err(Clone::clone)
}

fn open() -> Result<nvml_wrapper::Nvml> {
    let found = library::open(&LIBRARY)?;
    let opened = nvml_wrapper::Nvml::builder().lib_path(found.path().as_os_str()).init();
    opened.map_err(|error| {
        let remedy = match error {
            NvmlError::LibRmVersionMismatch => status::MISMATCH_REMEDY,
            _ => "check nvidia-smi, which uses the same library",
        };
        DeviceError::Broken { what: "NVML".into(), why: words(error), remedy: remedy.into() }
    })
}

/// An error with its code, where it is NVML's own.
pub(super) fn words(error: NvmlError) -> String {
    let said = chain(&error);
    match error {
        NvmlError::UnexpectedVariant(code) => format!("NVML error {code}"),
        NvmlError::FailedToLoadSymbol(_) | NvmlError::LibloadingError(_) => said,
        own => format!("{said} (NVML error {})", u32::from(own)),
    }
}

impl Nvml {
    /// The driver's version, such as `580.95.05`.
    pub fn driver_version(self) -> Option<String> {
        self.0.sys_driver_version().ok()
    }

    /// The device at a place of the PCI bus, or the slice with a MIG number.
    pub fn device(self, pci: &str, mig: Option<&str>) -> Option<Device<'static>> {
        let device = match mig {
            Some(mig) => self.0.device_by_uuid(mig),
            None => self.0.device_by_pci_bus_id(pci),
        };
        device.ok()
    }

    /// The sensors of such a device.
    pub fn sensors(self, pci: &str, mig: Option<&str>) -> Option<Sensors> {
        Some(Sensors(Arc::new(self.device(pci, mig)?)))
    }
}

impl Sensors {
    /// NVML's own handle of it.
    pub(super) fn device(&self) -> &Device<'static> {
        &self.0
    }

    /// Vendor and device, as `10de:2335`.
    pub fn pci_id(&self) -> Option<String> {
        let id = self.0.pci_info().ok()?.pci_device_id;
        Some(format!("{:04x}:{:04x}", id & 0xffff, id >> 16))
    }

    /// How the device is set up. Clocks that were locked to a range show by the reason that NVML
    /// gives for the clock, and only while the device works: what shows is told, and no more.
    pub fn settings(&self) -> DeviceSettings {
        let watts = |milliwatts: u32| Watts(f64::from(milliwatts) / 1e3);
        let own = self.0.applications_clock(Clock::SM).ok();
        let default = self.0.default_applications_clock(Clock::SM).ok();
        let by_application = own
            .zip(default)
            .filter(|(own, default)| own != default)
            .map(|(own, default)| format!("application clock {own} MHz (default {default} MHz)"));
        let set = || self.reasons().is_some_and(|reasons| reasons & USER_CLOCKS != 0);
        DeviceSettings {
            power_limit: self.0.enforced_power_limit().ok().map(watts),
            ecc: self.0.is_ecc_enabled().ok().map(|ecc| ecc.currently_enabled),
            clock_locks: by_application.or_else(|| set().then(|| "clocks set by a user".into())),
            vbios: self.0.vbios_version().ok(),
        }
    }

    /// Which board it is.
    pub fn board(&self) -> identity::Gpu {
        identity::Gpu {
            uuid: self.0.uuid().ok(),
            serial: self.0.serial().ok(),
            part_number: self.0.board_part_number().ok(),
            vbios: self.0.vbios_version().ok(),
            inforom: self.0.info_rom_image_version().ok(),
            domain: self.fabric().and_then(|fabric| fabric.cluster),
            ..identity::Gpu::default()
        }
    }

    /// What the device is doing now.
    pub fn reading(&self) -> Reading {
        // Older drivers do not know this field.
        let power = self.field(NVML_FI_DEV_POWER_INSTANT);
        Reading {
            clock: self.0.clock_info(Clock::SM).ok(),
            memory_clock: self.0.clock_info(Clock::Memory).ok(),
            power: power.or_else(|| self.0.power_usage().ok()),
            power_window: match power {
                Some(_) => Some(0),
                None => self.power_window(),
            },
            energy: self.0.total_energy_consumption().ok(),
            temperature: self.0.temperature(TemperatureSensor::Gpu).ok(),
            memory_temperature: self.memory_temperature(),
            reasons: self.reasons(),
        }
    }

    /// None where there is no sensor: NVML then says 0.
    fn memory_temperature(&self) -> Option<u32> {
        self.field(NVML_FI_DEV_MEMORY_TEMP).filter(|&celsius| celsius > 0)
    }

    /// A field of 32 bits, where the device has it.
    fn field(&self, field: u32) -> Option<u32> {
        let read = self.0.field_values_for(&[FieldId(field)]).ok()?;
        match read.into_iter().next()?.ok()?.value.ok()? {
            SampleValue::U32(value) => Some(value),
            _ => None,
        }
    }

    /// Milliseconds that `nvmlDeviceGetPowerUsage` averages over: 1 s on Ampere (but for GA100) and
    /// later, an instant before (NVML API reference, "nvmlDeviceGetPowerUsage").
    fn power_window(&self) -> Option<u32> {
        let capability = self.0.cuda_compute_capability().ok()?;
        let is_instant = (capability.major, capability.minor) <= (8, 0);
        Some(if is_instant { 0 } else { 1_000 })
    }

    /// Every bit, those included that the crate does not know.
    fn reasons(&self) -> Option<u64> {
        let f = self.0.nvml().lib();
        let (new, old) = (
            &f.nvmlDeviceGetCurrentClocksEventReasons,
            &f.nvmlDeviceGetCurrentClocksThrottleReasons,
        );
        let read = new.as_ref().or(old.as_ref()).ok()?;
        let mut reasons = 0;
        // SAFETY: the device is NVML's own, the pointer valid.
        let code = unsafe { read(self.0.handle(), &raw mut reasons) };
        (code == 0).then_some(reasons)
    }

    /// What the device has counted.
    pub fn counters(&self) -> Counters {
        let errors = |kind| self.0.total_ecc_errors(kind, EccCounter::Volatile).ok();
        Counters {
            energy: self.0.total_energy_consumption().ok(),
            ecc_corrected: errors(MemoryError::Corrected),
            ecc_uncorrected: errors(MemoryError::Uncorrected),
            remapped_rows: self.remapped_rows(),
            pcie_replays: self.0.pcie_replay_counter().ok().map(u64::from),
            nvlink_errors: self.nvlink_errors(),
        }
    }

    fn remapped_rows(&self) -> Option<u64> {
        self.row_remaps().map(|remaps| remaps.rows)
    }

    /// Rows of memory that were replaced by spare ones, and what came of it.
    pub fn row_remaps(&self) -> Option<RowRemaps> {
        let read = self.0.nvml().lib().nvmlDeviceGetRemappedRows.as_ref().ok()?;
        let [mut corrected, mut uncorrected, mut pending, mut failure] = [0; 4];
        // SAFETY: the device is NVML's own, the pointers valid.
        let code = unsafe {
            read(
                self.0.handle(),
                &raw mut corrected,
                &raw mut uncorrected,
                &raw mut pending,
                &raw mut failure,
            )
        };
        (code == 0).then(|| RowRemaps {
            rows: u64::from(corrected) + u64::from(uncorrected),
            is_pending: pending != 0,
            has_failed: failure != 0,
        })
    }

    /// The part's own power limit.
    pub fn power_default(&self) -> Option<Watts> {
        let milliwatts = self.0.power_management_limit_default().ok()?;
        Some(Watts(f64::from(milliwatts) / 1e3))
    }

    /// How many processes compute on it.
    pub fn processes(&self) -> Option<u32> {
        self.0.running_compute_processes_count().ok()
    }

    /// NVLinks that are up; none where there are none.
    pub fn nvlinks(&self) -> u32 {
        let is_up = |&link: &u32| self.0.link_wrapper_for(link).is_active().unwrap_or(false);
        (0..LINKS).filter(is_up).count() as u32
    }

    fn nvlink_errors(&self) -> Option<u64> {
        use ErrorCounter::{DlCrcData, DlCrcFlit, DlRecovery, DlReplay};
        let counters = (0..LINKS)
            .flat_map(|link| [DlReplay, DlRecovery, DlCrcFlit, DlCrcData].map(|of| (link, of)));
        let read = |(link, of)| self.0.link_wrapper_for(link).error_counter(of).ok();
        counters.filter_map(read).reduce(u64::wrapping_add)
    }

    /// PCIe as it runs now: generation and lanes.
    pub fn pcie(&self) -> Option<(u32, u32)> {
        let generation = self.0.current_pcie_link_gen().ok()?;
        Some((generation, self.0.current_pcie_link_width().ok()?))
    }

    /// PCIe as it can run between this device and this machine: generation and lanes. At rest the
    /// link is slower than that, to save power.
    pub fn pcie_max(&self) -> Option<[u32; 2]> {
        Some([self.0.max_pcie_link_gen().ok()?, self.0.max_pcie_link_width().ok()?])
    }

    /// A queue of the faults (Xid) that the driver reports from now on.
    fn queue(&self) -> Option<Queue> {
        let nvml = self.0.nvml();
        // The crate frees a set on every way out, and panics where it cannot.
        nvml.lib().nvmlEventSetFree.as_ref().ok()?;
        let set = nvml.create_event_set().ok()?;
        let set = self.0.register_events(EventTypes::CRITICAL_XID_ERROR, set).ok()?;
        Some(Queue(ManuallyDrop::new(set)))
    }
}

/// Such a queue. It stays until the process ends, as NVML does.
struct Queue(ManuallyDrop<EventSet<'static>>);

impl Faults for Queue {
    fn next(&self, milliseconds: u32) -> Result<Option<u64>, Refusal> {
        match self.0.wait(milliseconds) {
            Ok(event) => Ok(event.event_data.map(|fault| match fault {
                XidError::Value(fault) => fault,
                XidError::Unknown => 999,
            })),
            Err(NvmlError::Timeout) => Ok(None),
            Err(error) => {
                let code = u32::from(error) as i32;
                Err(Refusal::Code { call: "nvmlEventSetWait_v2", code })
            }
        }
    }
}
