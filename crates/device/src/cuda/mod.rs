//! NVIDIA GPUs, through `libcuda.so.1`.

#[cfg(test)]
mod bindings;
mod cublaslt;
mod driver;
mod fabric;
mod launching;
mod limits;
mod nvml;
mod nvrtc;
mod properties;
mod status;

use super::{
    Backend, Device, DeviceError, Finding, Identity, Result, State,
    gpu::{
        compiler,
        device::{DeviceDetails, GpuDevice},
        driver::{Driver, devices, of_each},
        sensors::spelled as held_by,
    },
    limits::Limits,
};
use driver::{CUDA, driver};
use fizeau_domain::{
    node_state::Gpu,
    spec::{Properties, STUB},
};
use fizeau_record::{Environment, identity};
use limits::NvmlLimits;
use std::path::Path;

/// The backend.
pub struct Cuda;

impl Backend for Cuda {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn devices(&self) -> Result<Vec<Properties>> {
        devices(driver(), properties::read)
    }

    fn open(&self, ordinal: u32) -> Result<Box<dyn Device>> {
        let driver = driver()?;
        let properties = properties::read(&driver, ordinal)?;
        let sensors = sensors(&driver, ordinal);
        let device = driver.device(ordinal)?;
        let capability = properties::capability(&driver, device).unwrap_or_default();
        let told = DeviceDetails {
            timer: 1.0,
            block_memory: properties::block_memory(&driver, device),
            products: cublaslt::kinds(capability),
            describe,
            identity,
        };
        Ok(Box::new(GpuDevice::open(driver, properties, sensors, told)?))
    }

    fn broken_sensors(&self) -> Option<DeviceError> {
        self.devices().ok()?;
        nvml::nvml().err().filter(|error| matches!(error, DeviceError::Broken { .. }))
    }

    fn findings(&self) -> Vec<Finding> {
        let opened = self.devices().and_then(|_| driver());
        let told = opened.map(|driver| driver.described());
        let nvml = nvml::nvml().map(|nvml| nvml.driver_version().unwrap_or_default());
        let products = cublaslt::CUBLASLT.library().map(|_| "found".into());
        let mut findings = vec![
            Finding::of("NVIDIA driver", told, State::Fail),
            Finding::of("NVML", nvml, State::Warn),
            nvrtc_finding(),
            Finding::of("cuBLASLt", products, State::Warn),
            CUDA.kernels_finding(driver().is_ok()),
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
        CUDA.hidden()
    }

    fn limits(&self, ordinal: u32, _root: &Path) -> Result<Box<dyn Limits>> {
        let (driver, nvml) = (driver()?, nvml::nvml()?);
        let (pci, mig) = place(&driver, ordinal).ok_or_else(|| {
            DeviceError::Driver(format!("no GPU cuda:{ordinal}, or no place on the PCI bus"))
        })?;
        let limits = NvmlLimits::of(nvml, &pci, mig.as_deref());
        let unknown = || DeviceError::Driver(format!("NVML does not know cuda:{ordinal}"));
        Ok(Box::new(limits.ok_or_else(unknown)?))
    }
}

/// One GPU at rest.
fn at_rest(driver: &Driver, ordinal: u32) -> Gpu {
    let slice = driver.device(ordinal).ok().and_then(|device| driver.name(device));
    let slice = slice.and_then(|name| Some(format!("MIG {}", name.split_once(" MIG ")?.1)));
    let gpu = driver.shown(ordinal, identity(driver, ordinal));
    let gpu = Gpu { partition: slice.clone(), ..gpu };
    let Some(sensors) = sensors(driver, ordinal) else { return gpu };
    let (settings, remaps) = (sensors.settings(), sensors.row_remaps());
    let (now, most) = (sensors.pcie(), sensors.pcie_max());
    Gpu {
        pci_id: sensors.pci_id(),
        firmware: settings.vbios,
        lanes: now.zip(most).map(|(now, most)| [now.1, most[1]]),
        generation: now.zip(most).map(|(now, most)| [now.0, most[0]]),
        ecc: settings.ecc,
        ecc_uncorrected: sensors.counters().ecc_uncorrected,
        remap_pending: remaps.map(|remaps| remaps.is_pending),
        remap_failed: remaps.map(|remaps| remaps.has_failed),
        power_limit: settings.power_limit.map(|limit| limit.0),
        power_default: sensors.power_default().map(|limit| limit.0),
        clock_locks: settings.clock_locks,
        held_by: sensors.reading().reasons.map(held_by),
        processes: sensors.processes(),
        // A slice has no links of its own.
        fabric: if slice.is_none() { sensors.fabric() } else { None },
        partition: slice.or_else(|| sensors.partition()),
        modes: sensors.modes(),
        ..gpu
    }
}

/// The compilers that there are, in the order in which they suit the driver.
fn nvrtc_finding() -> Finding {
    let version = driver().map_or(13_000, |driver| driver.version);
    let found = compiler::found(&nvrtc::compilers(version))
        .map(|found| found.iter().map(|one| one.spelled()).collect::<Vec<_>>().join(", then "));
    Finding::of("NVRTC", found, State::Warn)
}

/// What is worth a look about one device.
fn of_device(driver: &Driver, ordinal: u32) -> Vec<Finding> {
    let what = driver.place(ordinal);
    if driver.is_stub {
        return vec![Finding::ok(&what, STUB)];
    }
    let Some(sensors) = sensors(driver, ordinal) else { return Vec::new() };
    let mut findings = Vec::new();
    if let Some((generation, width)) = sensors.pcie() {
        let found = format!("PCIe {generation} x{width} now, {} NVLinks up", sensors.nvlinks());
        findings.push(Finding::ok(&what, found));
    }
    findings
}

/// NVML's view of a device.
fn sensors(driver: &Driver, ordinal: u32) -> Option<nvml::Sensors> {
    let (pci, mig) = place(driver, ordinal)?;
    nvml::nvml().ok()?.sensors(&pci, mig.as_deref())
}

/// Where a device is on the PCI bus, and its MIG number where it is a slice.
fn place(driver: &Driver, ordinal: u32) -> Option<(String, Option<String>)> {
    let device = driver.device(ordinal).ok()?;
    let is_slice = driver.name(device)?.contains(" MIG ");
    let mig = driver.uuid(device).filter(|_| is_slice).map(|uuid| format!("MIG-{uuid}"));
    Some((driver.pci(device)?, mig))
}

/// What tells a device and how it is linked from others.
fn identity(driver: &Driver, ordinal: u32) -> Identity {
    let device = driver.device(ordinal).ok();
    let sensors = sensors(driver, ordinal);
    let version = nvml::nvml().ok().and_then(|nvml| nvml.driver_version());
    let of_board = sensors.as_ref().and_then(|sensors| sensors.board().uuid);
    Identity {
        uuid: of_board.or_else(|| device.and_then(|device| driver.uuid(device))),
        pci: device.and_then(|device| driver.pci(device)),
        driver: version.or_else(|| Some(driver.spelled())),
        pcie_width: sensors.as_ref().and_then(|sensors| sensors.pcie()).map(|(_, width)| width),
        links: sensors.as_ref().map(|sensors| sensors.nvlinks()),
    }
}

/// What stands in a record of NVIDIA's driver.
fn describe(driver: &Driver, properties: &Properties, sensors: bool, to: &mut Environment) {
    to.libraries.push(format!("NVIDIA driver {}", driver.described()));
    if let Ok(nvml) = nvml::nvml() {
        to.libraries.extend(nvml.driver_version().map(|v| format!("NVML {v}")));
    }
    to.settings = self::sensors(driver, properties.ordinal).map(|sensors| sensors.settings());
    if !sensors {
        let why = nvml::nvml()
            .err()
            .map_or("it does not know the device".into(), |error| error.to_string());
        to.warnings.push(format!("no telemetry from NVML: {why}"));
    }
    driver.warn(properties, "slice", to);
}
