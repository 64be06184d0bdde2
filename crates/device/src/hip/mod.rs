//! AMD GPUs, through `libamdhip64.so`.
//!
//! HIP's driver interface is CUDA's by other names, so that contexts, modules, launches, gates and
//! the compiler's cache are those of `device::gpu`: this module says which of HIP's functions they
//! call, where its library is, and what AMD's devices say of themselves. Nothing in it has run on
//! an AMD GPU: docs/architecture.md says what it was proved by instead.

mod driver;
mod functions;
mod hipblaslt;
mod hiprtc;
mod limits;
pub mod metrics;
mod properties;
mod sensors;
mod status;
mod topology;

use super::{
    Backend, Device, DeviceError, Finding, Identity, Result, State,
    gpu::{
        device::{DeviceDetails, GpuDevice},
        driver::{Driver, devices, of_each},
        sensors::{ReadSensors as _, spelled as held_by},
    },
    limits::Limits,
};
use driver::{HIP, driver};
use fizeau_domain::{
    node_state::Gpu,
    spec::{Properties, STUB},
};
use fizeau_record::{Environment, identity};
use limits::HwmonLimits;
use sensors::Sensors;
use std::path::Path;
use topology::Partition;

/// The backend.
pub struct Hip;

impl Backend for Hip {
    fn name(&self) -> &'static str {
        "hip"
    }

    fn devices(&self) -> Result<Vec<Properties>> {
        devices(driver(), properties::read)
    }

    fn open(&self, ordinal: u32) -> Result<Box<dyn Device>> {
        let driver = driver()?;
        let properties = properties::read(&driver, ordinal)?;
        let timer = properties::timer(&driver, ordinal);
        let sensors = sensors(&driver, ordinal);
        let target = properties.features.first().map(String::as_str).unwrap_or_default();
        let products = hipblaslt::kinds(target);
        let told = DeviceDetails { timer, block_memory: None, products, describe, identity };
        Ok(Box::new(GpuDevice::open(driver, properties, sensors, told)?))
    }

    fn findings(&self) -> Vec<Finding> {
        let opened = self.devices().and_then(|_| driver());
        let told = opened.map(|driver| driver.described());
        let compiler = hiprtc::HIPRTC.get().map(|compiler| compiler.spelled());
        let products = hipblaslt::HIPBLASLT.library().map(|_| "found".into());
        let mut findings = vec![
            Finding::of("AMD driver", told, State::Fail),
            Finding::of("hipRTC", compiler, State::Warn),
            Finding::of("hipBLASLt", products, State::Warn),
            HIP.kernels_finding(driver().is_ok()),
        ];
        findings.extend(of_each(driver(), of_device).into_iter().flatten());
        findings
    }

    fn identities(&self) -> Vec<identity::Gpu> {
        of_each(driver(), |driver, ordinal| {
            let board = sensors(driver, ordinal).map(|sensors| sensors.board());
            driver.who(ordinal, identity(driver, ordinal), board.unwrap_or_default())
        })
    }

    fn at_rest(&self) -> Vec<Gpu> {
        of_each(driver(), at_rest)
    }

    fn at_rest_of(&self, ordinal: u32) -> Option<Gpu> {
        let driver = driver().ok()?;
        driver.device(ordinal).is_ok().then(|| at_rest(&driver, ordinal))
    }

    fn hiding(&self) -> Option<String> {
        HIP.hidden()
    }

    fn limits(&self, ordinal: u32, root: &Path) -> Result<Box<dyn Limits>> {
        let driver = driver()?;
        let place = driver.pci(driver.device(ordinal)?).ok_or_else(|| {
            DeviceError::Driver(format!("no place of hip:{ordinal} on the PCI bus"))
        })?;
        Ok(Box::new(HwmonLimits::of(&root.join("sys/bus/pci/devices").join(place))))
    }
}

/// One GPU at rest.
fn at_rest(driver: &Driver, ordinal: u32) -> Gpu {
    let gpu = driver.shown(ordinal, identity(driver, ordinal));
    let place = driver.pci_of(ordinal);
    match place.and_then(|place| topology::pci_folder(&place)) {
        Some(folder) => of_folder(&folder, gpu),
        None => gpu,
    }
}

/// What the kernel tells of a GPU in its folder on the PCI bus, added to what is known of it.
pub(crate) fn of_folder(folder: &Path, gpu: Gpu) -> Gpu {
    let partition = Partition::of(folder).spelled();
    let gpu = Gpu {
        partition: (!partition.is_empty()).then_some(partition),
        hive: topology::hive(folder),
        ..gpu
    };
    let Some(sensors) = Sensors::of(folder) else { return gpu };
    let settings = sensors.settings();
    Gpu {
        peer_links: gpu.peer_links.or_else(|| sensors.links_up()),
        link_errors: sensors.link_errors(),
        firmware: settings.vbios,
        ecc: settings.ecc,
        ecc_uncorrected: sensors.errors().1,
        bad_pages: sensors.bad_pages(),
        power_limit: settings.power_limit.map(|limit| limit.0),
        power_default: sensors.power_default().map(|limit| limit.0),
        clock_locks: settings.clock_locks,
        held_by: sensors.reading().reasons.map(held_by),
        ..gpu
    }
}

/// What is worth a look about one device.
fn of_device(driver: &Driver, ordinal: u32) -> Vec<Finding> {
    let what = driver.place(ordinal);
    if driver.is_stub {
        return vec![Finding::ok(&what, STUB)];
    }
    let Some(sensors) = sensors(driver, ordinal) else { return Vec::new() };
    sensors.links().map(|found| Finding::ok(&what, found)).into_iter().collect()
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
        driver: Some(driver.spelled()),
        pcie_width: sensors.as_ref().and_then(Sensors::pcie_width),
        links: sensors.as_ref().and_then(Sensors::links_up),
    }
}

/// What stands in a record of AMD's driver.
fn describe(driver: &Driver, properties: &Properties, sensors: bool, to: &mut Environment) {
    to.libraries.push(format!("AMD driver {}", driver.described()));
    to.settings = self::sensors(driver, properties.ordinal).map(|sensors| sensors.settings());
    if !sensors {
        to.warnings.push("no telemetry: /sys shows no amdgpu device at its place".into());
    }
    driver.warn(properties, "part", to);
}
