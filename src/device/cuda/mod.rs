//! NVIDIA GPUs, through `libcuda.so.1`.
//!
//! The driver is reached by a table of function pointers of our own over `libloading` and not by
//! the cudarc crate. Of the some 40 functions that are called, cudarc's safe layer has no tensor
//! maps, clusters or raw parameter buffers; its unsafe one panics where a library or a symbol is
//! missing, cannot be given a path, and turns codes into Rust enumerations, which is undefined
//! behaviour for a code newer than the crate. Each of these would need a fence; the table has none
//! of them, codes stay `i32`, and the same macro serves NVRTC and NVML.

mod attention;
pub mod code;
pub(super) mod cublaslt;
mod device;
pub(super) mod driver;
mod gate;
mod graph;
mod kernels;
mod lane;
pub(super) mod manifest;
mod module;
pub(super) mod nvml;
pub(super) mod nvrtc;
mod properties;
mod pulse;
pub(super) mod sense;
mod telemetry;
mod tensor_map;
pub(super) mod vendor;
mod way;
mod words;

use super::{
    Backend, Buffer, Device, DeviceError, Elsewhere, Finding, Function, Identity, Launch, Pulse,
    Replay, Stream, Timing,
};
use crate::{
    case::KernelName,
    kernel::Params,
    outcome::Telemetry,
    record::Environment,
    spec::{Properties, STUB},
    units::{Bytes, Megahertz, Seconds},
};
use cublaslt::Kind;
use device::Context;
use driver::{Driver, driver, spelled};
use gate::Gate;
use graph::Graph;
use kernels::Kernels;
#[cfg(test)]
pub(super) use kernels::headers;
use lane::{Owned, Remote};
use pulse::Heart;
use sense::Sense;
use std::{cell::OnceCell, env, rc::Rc, sync::Arc};
use telemetry::Watch;
use vendor::{Peers, Shelf, Vendor};
use way::Way;
use words::Words;

/// The backend.
pub struct Cuda;

/// NVIDIA's driver.
pub(super) static CUDA: Vendor = Vendor {
    maker: "NVIDIA",
    interface: "CUDA",
    library: driver::LIBRARY,
    spelled: super::library::as_it_is,
    version_min: driver::VERSION_MIN,
    too_old: driver::too_old,
    version: spelled,
    newer: "install a newer NVIDIA driver",
    mend: code::mend,
    extras_end: 0,
    // CU_MEMHOSTALLOC_DEVICEMAP.
    host_flags: 2,
    has_attributes: true,
    copy_kind: None,
    names_peers: Peers::ByContext,
    products: &cublaslt::CUBLASLT,
    kernels: Shelf {
        manifest: manifest::TEXT,
        find: kernels::find,
        compiler: nvrtc::compiler,
        builder: "nvcc",
    },
};

/// What CUDA lets this process see, in the user's words.
fn visible() -> Option<String> {
    env::var("CUDA_VISIBLE_DEVICES").ok()
}

impl Backend for Cuda {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn devices(&self) -> Result<Vec<Properties>, DeviceError> {
        let driver = driver()?;
        let count = driver.count()?;
        if count == 0 {
            let hidden = visible().map(|list| format!(" (CUDA_VISIBLE_DEVICES={list})"));
            return Err(DeviceError::Missing {
                what: format!("an NVIDIA GPU{}", hidden.unwrap_or_default()),
                mend: "check nvidia-smi, and what CUDA_VISIBLE_DEVICES leaves of it".into(),
            });
        }
        (0..count).map(|ordinal| properties::read(&driver, ordinal)).collect()
    }

    fn open(&self, ordinal: u32) -> Result<Box<dyn Device>, DeviceError> {
        let driver = driver()?;
        let properties = properties::read(&driver, ordinal)?;
        let sensors = sensors(&driver, ordinal);
        let device = driver.device(ordinal)?;
        let capability = properties::capability(&driver, device).unwrap_or_default();
        let told = Told {
            timer: 1.0,
            block_memory: properties::block_memory(&driver, device),
            products: cublaslt::kinds(capability),
            describe,
            identity,
        };
        Ok(Box::new(CudaDevice::open(driver, properties, sensors, told)?))
    }

    fn findings(&self) -> Vec<Finding> {
        let mut findings = vec![
            match driver() {
                Ok(driver) => Finding::good("NVIDIA driver", described(&driver)),
                Err(error) => Finding::absent("NVIDIA driver", &error),
            },
            match nvml::nvml() {
                Ok(nvml) => Finding::good("NVML", nvml.driver_version().unwrap_or_default()),
                Err(error) => Finding::absent("NVML", &error),
            },
            match nvrtc::compiler() {
                Ok(compiler) => Finding::good("NVRTC", compiler.spelled()),
                Err(error) => Finding::absent("NVRTC", &error),
            },
            match cublaslt::CUBLASLT.library() {
                Ok(_) => Finding::good("cuBLASLt", "found"),
                Err(error) => Finding::absent("cuBLASLt", &error),
            },
            Finding::good("CUDA kernels", kernels::built_with()),
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
    let mut text = match driver.is_stub {
        true => STUB.into(),
        false => format!("for CUDA {}", spelled(driver.version)),
    };
    if let Some(list) = visible() {
        text += &format!("; CUDA_VISIBLE_DEVICES={list}");
    }
    text
}

/// What is worth a look about one device.
fn of_device(driver: &Driver, ordinal: u32) -> Vec<Finding> {
    let what = format!("cuda:{ordinal}");
    if driver.is_stub {
        return vec![Finding::good(&what, STUB)];
    }
    let Some(sensors) = sensors(driver, ordinal) else { return Vec::new() };
    let counters = sensors.counters();
    let mut findings = Vec::new();
    if let Some(errors) = counters.ecc_uncorrected {
        let mend = "drain the node and reset the GPU: nvidia-smi --gpu-reset";
        findings.push(Finding {
            good: errors == 0,
            what: what.clone(),
            found: format!("{errors} uncorrectable ECC errors since the driver was loaded"),
            mend: if errors == 0 { String::new() } else { mend.into() },
        });
    }
    if let Some((generation, width)) = sensors.pcie() {
        let found = format!("PCIe {generation} x{width} now, {} NVLinks up", sensors.nvlinks());
        findings.push(Finding::good(&what, found));
    }
    findings
}

/// NVML's view of a device.
fn sensors(driver: &Driver, ordinal: u32) -> Option<nvml::Sensors> {
    let device = driver.device(ordinal).ok()?;
    let is_slice = driver.name(device)?.contains(" MIG ");
    let mig = driver.uuid(device).filter(|_| is_slice).map(|uuid| format!("MIG-{uuid}"));
    nvml::nvml().ok()?.sensors(&driver.pci(device)?, mig.as_deref())
}

/// What a vendor knows of a device besides its properties.
pub(super) struct Told {
    /// Nanoseconds of its timer for each that kernels count as one.
    pub timer: f64,
    /// Shared memory that a block may ask for.
    pub block_memory: Option<Bytes>,
    /// What the vendor's library multiplies on it.
    pub products: Vec<Kind>,
    /// What the vendor adds to what a record says of the machine, given whether there are sensors.
    pub describe: fn(&Driver, &Properties, bool, &mut Environment),
    /// What tells the device and how it is linked from others.
    pub identity: fn(&Driver, u32) -> Identity,
}

/// An opened GPU, of whichever vendor.
pub(super) struct CudaDevice<S: Sense> {
    properties: Properties,
    context: Rc<Context>,
    watch: Option<Watch<S>>,
    told: Told,
    kernels: Kernels,
    /// As large as twice the last-level cache, made when it is first needed.
    evictor: OnceCell<Buffer>,
    /// None where the kernel cannot be had that it is made of.
    gate: OnceCell<Option<Gate>>,
    /// None where its kernels cannot be had.
    words: OnceCell<Option<Words>>,
    /// None where what it needs cannot be had.
    heart: OnceCell<Option<Heart>>,
}

impl<S: Sense> CudaDevice<S> {
    /// Opens one.
    ///
    /// # Errors
    ///
    /// What the driver refuses.
    pub fn open(
        driver: Arc<Driver>,
        mut properties: Properties,
        sensors: Option<S>,
        told: Told,
    ) -> Result<CudaDevice<S>, DeviceError> {
        let watch = sensors.map(Watch::start);
        let shelf = driver.vendor.kernels;
        let context = Rc::new(Context::open(driver, properties.ordinal)?);
        properties.cache_set_aside = context.cache_set_aside();
        let kernels = Kernels::of(&properties, shelf, told.timer, told.block_memory)?;
        Ok(CudaDevice {
            properties,
            context,
            watch,
            told,
            kernels,
            evictor: OnceCell::new(),
            gate: OnceCell::new(),
            words: OnceCell::new(),
            heart: OnceCell::new(),
        })
    }

    /// The kernels that fill and compare this device's own memory, in whole words.
    fn words(&self, buffer: &Buffer, offset: Bytes) -> Option<&Words> {
        let own = !buffer.owner.is::<Owned>() && offset.0.is_multiple_of(8);
        let made = self
            .words
            .get_or_init(|| Words::new(&self.kernels, &self.context, self.properties.units).ok());
        made.as_ref().filter(|_| own)
    }
}

impl<S: Sense> Device for CudaDevice<S> {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn kernels(&self, operation: &str) -> Vec<KernelName> {
        let library = self.context.driver().vendor.products.name;
        way::names(&self.kernels, operation, (library, &self.told.products))
    }

    fn allocate(&self, size: Bytes) -> Result<Buffer, DeviceError> {
        self.context.allocate(size)
    }

    fn allocate_at(&self, place: Elsewhere, size: Bytes) -> Result<Buffer, DeviceError> {
        match place {
            Elsewhere::Host(kind) => self.context.of_host(kind, size),
            Elsewhere::Peer(ordinal) => self.context.of_peer(ordinal, size),
        }
    }

    fn peers(&self) -> Vec<u32> {
        let own = self.properties.ordinal;
        (0..self.context.driver().count().unwrap_or(0)).filter(|&one| one != own).collect()
    }

    fn write(&self, buffer: &Buffer, offset: Bytes, bytes: &[u8]) -> Result<(), DeviceError> {
        super::within(buffer, offset, bytes.len())?;
        let address = buffer.address + offset.0;
        match buffer.owner.downcast_ref::<Owned>().map(|owned| &owned.remote) {
            Some(Remote::Host(_)) => lane::write_host(buffer, offset, bytes),
            Some(Remote::Peer(_)) => {
                self.context.copy_now(address, bytes.as_ptr() as u64, bytes.len())
            }
            None => self.context.write(address, bytes),
        }
    }

    fn read(&self, buffer: &Buffer, offset: Bytes, bytes: &mut [u8]) -> Result<(), DeviceError> {
        super::within(buffer, offset, bytes.len())?;
        let address = buffer.address + offset.0;
        match buffer.owner.downcast_ref::<Owned>().map(|owned| &owned.remote) {
            Some(Remote::Host(_)) => lane::read_host(buffer, offset, bytes),
            Some(Remote::Peer(_)) => {
                self.context.copy_now(bytes.as_mut_ptr() as u64, address, bytes.len())
            }
            None => self.context.read(address, bytes),
        }
    }

    fn load(&self, operation: &str, kernel: &KernelName) -> Result<Function, DeviceError> {
        let way =
            way::load(&self.kernels, &self.context, operation, &kernel.0, &self.told.products)?;
        Ok(Function { kernel: kernel.clone(), handle: Box::new(way) })
    }

    fn takes(&self, function: &Function, params: &dyn Params) -> Result<(), DeviceError> {
        match function.handle.downcast_ref() {
            Some(Way::Kernel(kernel)) => kernel.takes(params),
            _ => Ok(()),
        }
    }

    fn fill(
        &self,
        buffer: &Buffer,
        offset: Bytes,
        pattern: &[u64],
        words: u64,
    ) -> Result<(), DeviceError> {
        super::within(buffer, offset, words as usize * 8)?;
        match self.words(buffer, offset) {
            Some(own) => own.fill(&self.context, buffer.address + offset.0, pattern, words),
            None => super::fill_by_writes(self, buffer, offset, pattern, words),
        }
    }

    fn differing(
        &self,
        buffer: &Buffer,
        offset: Bytes,
        pattern: &[u64],
        words: u64,
    ) -> Result<Option<u64>, DeviceError> {
        super::within(buffer, offset, words as usize * 8)?;
        let own = self.words(buffer, offset);
        let address = buffer.address + offset.0;
        own.map(|own| own.differing(&self.context, address, pattern, words)).transpose()
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<(), DeviceError> {
        let way: &Way = launch
            .function
            .handle
            .downcast_ref()
            .ok_or_else(|| DeviceError::Driver("a function of another device".into()))?;
        way.launch(&self.context, launch)
    }

    fn timed(
        &self,
        work: &mut dyn FnMut() -> Result<(), DeviceError>,
    ) -> Result<Timing, DeviceError> {
        let gate = self.gate.get_or_init(|| Gate::new(&self.kernels, &self.context).ok());
        let time = self.context.timed(gate.as_ref(), work)?;
        let throttled = self.watch.as_ref().is_some_and(Watch::is_throttled);
        Ok(Timing { time, clock: None, throttled })
    }

    fn enqueue_foreign(
        &self,
        _: &str,
        enqueue: &mut dyn FnMut(Stream) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        self.context.foreign(enqueue)
    }

    fn capture(
        &self,
        _: &str,
        enqueue: &mut dyn FnMut(Stream) -> Result<(), DeviceError>,
    ) -> Result<Replay, DeviceError> {
        let graph = Graph::captured(&self.context, &mut |stream| enqueue(Stream(stream)))?;
        Ok(Box::new(move || graph.launch()))
    }

    fn pulse(&self) -> Option<Pulse> {
        let heart = self.heart.get_or_init(|| Heart::new(&self.context).ok());
        heart.as_ref().map(Heart::pulse)
    }

    fn identity(&self) -> Identity {
        (self.told.identity)(self.context.driver(), self.properties.ordinal)
    }

    fn evict_cache(&self) -> Result<(), DeviceError> {
        let size = self.properties.last_level_cache() * 2;
        if self.evictor.get().is_none() {
            // Set a moment ago by nobody: there is one thread.
            let _ = self.evictor.set(self.context.allocate(size)?);
        }
        self.context.reset_persisting()?;
        match self.evictor.get() {
            Some(buffer) => self.context.set(buffer, 0xa5),
            None => Ok(()),
        }
    }

    fn set_deadline(&self, deadline: Seconds) {
        self.context.set_deadline(deadline);
    }

    fn telemetry(&self) -> Option<Telemetry> {
        self.watch.as_ref().map(Watch::take)
    }

    fn describe(&self, environment: &mut Environment) {
        let has_sensors = self.watch.is_some();
        (self.told.describe)(self.context.driver(), &self.properties, has_sensors, environment);
        if let Ok([free, _]) = self.context.memory() {
            let host = environment.memory_free.unwrap_or(free);
            environment.memory_free = Some(free.min(host));
        }
    }

    fn observe_clock(&self) -> Result<Option<Megahertz>, DeviceError> {
        let seen = self.kernels.observe_clock(&self.context, &self.properties)?;
        Ok(seen.or_else(|| self.watch.as_ref().and_then(Watch::clock)))
    }
}

/// What tells a device and how it is linked from others.
fn identity(driver: &Driver, ordinal: u32) -> Identity {
    let device = driver.device(ordinal).ok();
    let sensors = sensors(driver, ordinal);
    let version = nvml::nvml().ok().and_then(|nvml| nvml.driver_version());
    Identity {
        uuid: device.and_then(|device| driver.uuid(device)),
        pci: device.and_then(|device| driver.pci(device)),
        driver: version.or_else(|| Some(format!("for CUDA {}", spelled(driver.version)))),
        pcie_width: sensors.as_ref().and_then(|sensors| sensors.pcie()).map(|(_, width)| width),
        links: sensors.as_ref().map(|sensors| sensors.nvlinks()),
    }
}

/// What stands in a record of NVIDIA's driver.
fn describe(driver: &Driver, properties: &Properties, sensors: bool, to: &mut Environment) {
    to.libraries.push(format!("NVIDIA driver {}", described(driver)));
    if let Ok(nvml) = nvml::nvml() {
        to.libraries.extend(nvml.driver_version().map(|v| format!("NVML {v}")));
    }
    if !sensors {
        let why = nvml::nvml()
            .err()
            .map_or("it does not know the device".into(), |error| error.to_string());
        to.warnings.push(format!("no telemetry from NVML: {why}"));
    }
    if let Some(list) = visible() {
        to.warnings.push(format!("only GPUs {list} of this machine are visible"));
    }
    if let Some(slice) = &properties.virtualised {
        to.warnings.push(format!(
            "this is a slice of a GPU ({slice}): its share of memory and clock is not stated"
        ));
    }
}
