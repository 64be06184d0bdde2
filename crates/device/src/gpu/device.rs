//! One opened GPU, of either vendor: what the driver, the kernels and the sensors do together.

use super::{
    blas_lt::Kind,
    context::Context,
    driver::Driver,
    fill_compare::FillCompare,
    function::{self, Action},
    gate::Gate,
    graph::Graph,
    kernels::{Counters, Kernels},
    liveness::LivenessProbe,
    memory::{self, Owned, Remote},
    sensors::ReadSensors,
    telemetry::Sampler,
};
use crate::{
    self as device, Buffer, Capabilities, Device, DeviceError, Elsewhere, Fills, ForeignStream,
    Function, HostNode, Identity, Launch, Pulse, RemoteMemory, Replay, Reports, Result, Stream,
    TakesKernels, Timing, Tunable, numa,
    user::{Calls, UserFile},
};
use fizeau_domain::{
    case::{KernelName, MemoryNode},
    kernel::{Operation, Params},
    outcome::{Code, Telemetry},
    spec::Properties,
    units::{Bytes, Megahertz, Seconds},
};
use fizeau_record::Environment;
use std::{
    cell::{Cell, OnceCell, RefCell},
    rc::Rc,
    sync::Arc,
};

/// What a vendor knows of a device besides its properties.
pub struct DeviceDetails {
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
pub struct GpuDevice<S: ReadSensors> {
    properties: Properties,
    context: Rc<Context>,
    watch: Option<Sampler<S>>,
    told: DeviceDetails,
    kernels: Kernels,
    /// The code of functions that were loaded since the last call.
    loaded: RefCell<Vec<Code>>,
    /// Each as large as twice the last-level cache, made when they are first needed: what is
    /// written to evict all else, and what is then read.
    evictors: OnceCell<[Buffer; 2]>,
    /// None where the kernel cannot be had that it is made of.
    gate: OnceCell<Option<Gate>>,
    /// Whether the clock is told with each timing, and what tells it: none where its kernel cannot
    /// be had.
    tells_clock: Cell<bool>,
    counters: OnceCell<Option<Counters>>,
    /// None where its kernels cannot be had.
    words: OnceCell<Option<FillCompare>>,
    /// None where what it needs cannot be had.
    heart: OnceCell<Option<LivenessProbe>>,
}

impl<S: ReadSensors> GpuDevice<S> {
    /// Opens one.
    pub fn open(
        driver: Arc<Driver>,
        mut properties: Properties,
        sensors: Option<S>,
        told: DeviceDetails,
    ) -> Result<GpuDevice<S>> {
        let shelf = driver.vendor.kernels;
        let context = Rc::new(Context::open(driver, properties.ordinal)?);
        let watch = sensors.map(|sensors| Sampler::start(sensors, context.progress.clone()));
        properties.cache_set_aside = context.cache_set_aside();
        let kernels = Kernels::of(&properties, shelf, told.timer, told.block_memory)?;
        Ok(GpuDevice {
            properties,
            context,
            watch,
            told,
            kernels,
            loaded: RefCell::default(),
            evictors: OnceCell::new(),
            gate: OnceCell::new(),
            tells_clock: Cell::new(false),
            counters: OnceCell::new(),
            words: OnceCell::new(),
            heart: OnceCell::new(),
        })
    }

    /// What tells the clock with a timing, where it is asked for.
    fn counters(&self) -> Option<&Counters> {
        let load = || {
            let kernel = self.kernels.load(&self.context, Operation::Counters, "portable").ok()?;
            Counters::new(kernel, &self.context, self.properties.units).ok()
        };
        self.tells_clock.get().then(|| self.counters.get_or_init(load).as_ref()).flatten()
    }

    /// The kernels that fill and compare this device's own memory, in whole words.
    fn words(&self, buffer: &Buffer, offset: Bytes) -> Option<&FillCompare> {
        let own = !buffer.owner.is::<Owned>() && offset.0.is_multiple_of(8);
        let made = self.words.get_or_init(|| {
            FillCompare::new(&self.kernels, &self.context, self.properties.units).ok()
        });
        made.as_ref().filter(|_| own)
    }
}

impl<S: ReadSensors> Device for GpuDevice<S> {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn kernels(&self, operation: Operation) -> Vec<KernelName> {
        let library = self.context.driver().vendor.products.name;
        function::names(&self.kernels, operation, (library, &self.told.products))
    }

    fn allocate(&self, size: Bytes) -> Result<Buffer> {
        self.context.allocate(size)
    }

    fn write(&self, buffer: &Buffer, offset: Bytes, bytes: &[u8]) -> Result<()> {
        device::within(buffer, offset, bytes.len())?;
        let address = buffer.address + offset.0;
        match buffer.owner.downcast_ref::<Owned>().map(|owned| &owned.remote) {
            Some(Remote::Host(_)) => memory::write_host(buffer, offset, bytes),
            Some(Remote::Peer(_)) => {
                self.context.copy_now(address, bytes.as_ptr() as u64, bytes.len())
            }
            None => self.context.write(address, bytes),
        }
    }

    fn read(&self, buffer: &Buffer, offset: Bytes, bytes: &mut [u8]) -> Result<()> {
        device::within(buffer, offset, bytes.len())?;
        let address = buffer.address + offset.0;
        match buffer.owner.downcast_ref::<Owned>().map(|owned| &owned.remote) {
            Some(Remote::Host(_)) => memory::read_host(buffer, offset, bytes),
            Some(Remote::Peer(_)) => {
                self.context.copy_now(bytes.as_mut_ptr() as u64, address, bytes.len())
            }
            None => self.context.read(address, bytes),
        }
    }

    fn load(&self, operation: Operation, kernel: &KernelName) -> Result<Function> {
        let way = function::load(
            &self.kernels,
            &self.context,
            operation,
            &kernel.0,
            &self.told.products,
        )?;
        self.loaded.borrow_mut().extend(way.code());
        let cluster = way.cluster();
        Ok(Function { kernel: kernel.clone(), cluster, handle: Box::new(way) })
    }

    fn takes(&self, function: &Function, params: &Params) -> Result<()> {
        match function.handle.downcast_ref() {
            Some(Action::Kernel(kernel)) => kernel.takes(params, self.properties.units),
            Some(Action::Tuned(tuned)) => tuned.takes(params, self.properties.units),
            _ => Ok(()),
        }
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<()> {
        let way: &Action = launch
            .function
            .handle
            .downcast_ref()
            .ok_or_else(|| DeviceError::Driver("a function of another device".into()))?;
        way.launch(&self.context, launch)
    }

    fn timed(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Timing> {
        let gate = self.gate.get_or_init(|| Gate::new(&self.kernels, &self.context).ok());
        if let Some(gate) = gate {
            gate.close(&self.context)?;
        }
        let counters = self.counters();
        if let Some(counters) = counters {
            counters.leave(&self.context, 0)?;
        }
        let time = self.context.timed(work)?;
        let throttled = self.watch.as_ref().is_some_and(Sampler::is_throttled);
        let clock = counters.map(|counters| {
            counters.leave(&self.context, 1)?;
            counters.clock(&self.context)
        });
        let clock = clock.transpose()?.flatten();
        let host_was_late = gate.as_ref().is_some_and(Gate::gave_up);
        Ok(Timing { time, clock, throttled, host_was_late })
    }

    fn tell_clock(&self, tells: bool) {
        self.tells_clock.set(tells);
    }

    fn evict_cache(&self) -> Result<()> {
        let size = self.properties.last_level_cache() * 2;
        if self.evictors.get().is_none() {
            // Set a moment ago by nobody: there is one thread.
            let made = [self.context.allocate(size)?, self.context.allocate(size)?];
            let _ = self.evictors.set(made);
        }
        self.context.reset_persisting()?;
        let Some([written, read]) = self.evictors.get() else { return Ok(()) };
        self.context.set(written, 0xa5)?;
        // What was written is still in the cache, and would be written back while the next sample
        // runs: up to a quarter of its time where it moves as much itself. Reading what nobody has
        // written since leaves clean lines.
        match self.words(read, Bytes(0)) {
            Some(words) => words.read(&self.context, read),
            None => Ok(()),
        }
    }

    fn set_deadline(&self, deadline: Seconds) {
        self.context.set_deadline(deadline);
    }

    fn observe_clock(&self) -> Result<Option<Megahertz>> {
        let seen = self.kernels.observe_clock(&self.context, &self.properties)?;
        Ok(seen.or_else(|| self.watch.as_ref().and_then(Sampler::clock)))
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            remote_memory: Some(self),
            fills: Some(self),
            foreign_stream: Some(self),
            reports: Some(self),
            rank_times: None,
            threads: None,
            user_kernels: Some(self),
            tunable: Some(self),
        }
    }
}

impl<S: ReadSensors> Tunable for GpuDevice<S> {
    fn candidates(&self, function: &Function, params: &Params) -> Result<Vec<String>> {
        match function.handle.downcast_ref() {
            Some(Action::Tuned(tuned)) => tuned.candidates(params, self.properties.units),
            Some(Action::Library(products)) => products.candidates(params.try_into()?),
            _ => Ok(Vec::new()),
        }
    }

    fn choose(&self, function: &Function, candidate: usize) -> Result<()> {
        match function.handle.downcast_ref() {
            Some(Action::Tuned(tuned)) => {
                let chosen = tuned.choose(candidate)?;
                self.loaded.borrow_mut().push(chosen.code.clone());
                Ok(())
            }
            Some(Action::Library(products)) => {
                self.loaded.borrow_mut().extend(products.code());
                products.choose(candidate)
            }
            _ => Err(DeviceError::Driver("a candidate of a kernel that has none".into())),
        }
    }
}

impl<S: ReadSensors> TakesKernels for GpuDevice<S> {
    fn take(&self, files: Vec<UserFile>) -> Result<(), String> {
        self.kernels.take(files)
    }

    fn taken(&self) -> &[UserFile] {
        self.kernels.taken()
    }

    fn calls(&self) -> Option<Arc<Calls>> {
        None
    }
}

impl<S: ReadSensors> RemoteMemory for GpuDevice<S> {
    fn allocate_at(&self, place: Elsewhere, size: Bytes) -> Result<Buffer> {
        match place {
            Elsewhere::Host { kind, on: HostNode::Near(device) } => {
                let pci = self.context.driver().pci_of(device);
                let node = pci.and_then(|pci| numa::node_of(&pci));
                numa::allocated_near(node, || self.context.of_host(kind, size))
            }
            Elsewhere::Host { kind, on: HostNode::Exactly(node) } => {
                let buffer = numa::allocated_on(node, || self.context.of_host(kind, size))??;
                numa::prove(node, &buffer)?;
                Ok(buffer)
            }
            Elsewhere::Peer(ordinal) => self.context.of_peer(ordinal, size),
        }
    }

    fn memory_nodes(&self) -> Vec<MemoryNode> {
        let pci = self.context.driver().pci_of(self.properties.ordinal);
        numa::nodes_from(pci.and_then(|pci| numa::node_of(&pci)))
    }

    fn peers(&self) -> Vec<u32> {
        let own = self.properties.ordinal;
        (0..self.context.driver().count().unwrap_or(0)).filter(|&one| one != own).collect()
    }
}

impl<S: ReadSensors> Fills for GpuDevice<S> {
    fn fill(&self, buffer: &Buffer, offset: Bytes, pattern: &[u64], words: u64) -> Result<()> {
        device::within(buffer, offset, words as usize * 8)?;
        match self.words(buffer, offset) {
            Some(own) => own.fill(&self.context, buffer.address + offset.0, pattern, words),
            None => device::fill_by_writes(self, buffer, offset, pattern, words),
        }
    }

    fn differing(
        &self,
        buffer: &Buffer,
        offset: Bytes,
        pattern: &[u64],
        words: u64,
    ) -> Result<Option<u64>> {
        device::within(buffer, offset, words as usize * 8)?;
        let own = self.words(buffer, offset);
        let address = buffer.address + offset.0;
        own.map(|own| own.differing(&self.context, address, pattern, words)).transpose()
    }
}

impl<S: ReadSensors> ForeignStream for GpuDevice<S> {
    fn enqueue_foreign(&self, enqueue: &mut dyn FnMut(Stream) -> Result<()>) -> Result<()> {
        self.context.foreign(enqueue)
    }

    fn capture(&self, enqueue: &mut dyn FnMut(Stream) -> Result<()>) -> Result<Replay> {
        let graph = Graph::captured(&self.context, &mut |stream| enqueue(Stream(stream)))?;
        Ok(Box::new(move || graph.launch()))
    }

    fn pulse(&self) -> Option<Pulse> {
        let heart = self.heart.get_or_init(|| LivenessProbe::new(&self.context).ok());
        heart.as_ref().map(LivenessProbe::pulse)
    }
}

impl<S: ReadSensors> Reports for GpuDevice<S> {
    fn identity(&self) -> Identity {
        (self.told.identity)(self.context.driver(), self.properties.ordinal)
    }

    fn telemetry(&self) -> Option<Telemetry> {
        self.watch.as_ref().map(Sampler::take)
    }

    fn loaded(&self) -> Vec<Code> {
        device::without_repeats(self.loaded.take())
    }

    fn describe(&self, environment: &mut Environment) {
        let own = self.properties.ordinal;
        if let Some(node) = self.context.driver().pci_of(own).and_then(|pci| numa::node_of(&pci)) {
            match numa::is_within_reach(node) {
                true => environment.host_memory_node = Some(node),
                false => environment.warnings.push(format!(
                    "the host's memory for transfers is anywhere: this process may not run on NUMA \
                     node {node}, which the GPU is attached to"
                )),
            }
        }
        let has_sensors = self.watch.is_some();
        (self.told.describe)(self.context.driver(), &self.properties, has_sensors, environment);
        environment.unknown_architecture = self.kernels.unknown_architecture().map(str::to_owned);
        environment.kernels_left_out = self.kernels.left_out();
        if let Ok([free, _]) = self.context.memory() {
            let host = environment.memory_free.unwrap_or(free);
            environment.memory_free = Some(free.min(host));
        }
    }

    fn available(&self, _: u32) -> Result<Option<f64>> {
        Ok(None)
    }
}
