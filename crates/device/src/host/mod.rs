//! The host CPU as a device: a unit is a core this process may use, a block is one pinned thread.

pub(super) mod affinity;
#[cfg(target_arch = "x86_64")]
mod amx;
mod attention;
pub mod cgroup;
mod compute;
pub mod cpuinfo;
pub mod cpus;
mod dmi;
mod environment;
mod fused;
mod gemm;
mod instruction;
mod kernel;
mod latency;
mod limits;
mod memory;
pub mod pool;
mod properties;
mod rapl;
mod recurrence;
mod run_delay;
mod sdc;
mod sparse;
mod steal;
mod stream;
#[cfg(target_arch = "x86_64")]
mod transpose;
mod user;

pub use cgroup::groups;
pub use environment::{environment, quota_words};
pub use gemm::library::{missing as libraries_missing, versions as library_versions};
pub use memory::{fenced, for_operands, memory_free};
pub use run_delay::{RunDelay, let_threads_rest};
pub use steal::Steal;

use super::{
    Backend, Buffer, Capabilities, Device, DeviceError, Function, Identity, Launch, Reports,
    Result, TakesKernels, Threads, Timing,
    limits::Limits,
    user::{Calls, UserFile},
    within,
};
use crate::{
    self as device,
    clock::{self, Moment},
};
pub use cpus::keep_to_core;
use fizeau_domain::{
    case::KernelName,
    dtype::Dtype,
    kernel::{ComputeParams, Operation, OtherOperation, Params, user::Form},
    outcome::{Code, Telemetry},
    spec::Properties,
    units::{Bytes, Joules, Megahertz, Seconds},
};
use fizeau_record::Environment;
pub use gemm::{library, plant_in_sum};
use kernel::{HostKernel, KernelThreads};
use limits::CpufreqLimits;
use pool::{Block, Pool};
use rapl::Rapl;
use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Flops of a unit in one look at what is available: some 70 us at 32 flops in a cycle.
const PROBE_FLOPS: u64 = 8 << 20;

/// Probes of one look.
const PROBES: u32 = 3;

/// The backend. There is always exactly one host.
pub struct Host;

impl Backend for Host {
    fn name(&self) -> &'static str {
        "host"
    }

    fn devices(&self) -> Result<Vec<Properties>> {
        Ok(vec![properties::read()])
    }

    fn open(&self, _ordinal: u32) -> Result<Box<dyn Device>> {
        Ok(Box::new(HostDevice::open(properties::read())))
    }

    fn limits(&self, _ordinal: u32, root: &Path) -> Result<Box<dyn Limits>> {
        Ok(Box::new(CpufreqLimits::of(&root.join("sys/devices/system/cpu"))))
    }
}

/// Memory that is written and read by all units to displace what the caches hold: twice the last
/// one.
pub fn displacing(properties: &Properties) -> Bytes {
    properties.last_level_cache() * 2
}

/// The opened host.
pub struct HostDevice {
    properties: Properties,
    kernels: Vec<Arc<HostKernel>>,
    /// Kernels that a user brings.
    user: OnceCell<Vec<UserFile>>,
    /// Calls into them.
    calls: Arc<Calls>,
    pool: RefCell<Pool>,
    /// The most flops that a unit was seen to make in a cycle.
    flops_per_cycle: Cell<f64>,
    /// Units of the last launch: those whose clock tells of it.
    worked: Cell<u32>,
    /// The fastest clock seen so far, by the units that worked.
    fastest: RefCell<BTreeMap<u32, Megahertz>>,
    /// The libraries of kernels that were loaded since the last call.
    loaded: RefCell<Vec<Code>>,
    /// None where the counters of energy cannot be read.
    rapl: Option<Rapl>,
    /// What they showed when telemetry was last asked for, and when that was.
    energy: RefCell<Option<(Vec<u64>, Moment)>>,
}

impl HostDevice {
    /// Starts the pool and looks for vendor libraries.
    pub fn open(properties: Properties) -> HostDevice {
        // Libraries start their threads while being opened, which inherit the affinity: before
        // the pool pins this thread.
        let kernels = [
            stream::kernels(),
            latency::kernels(),
            instruction::kernels(),
            compute::kernels(),
            gemm::kernels(),
            attention::kernels(),
            fused::kernels(),
            recurrence::kernels(),
            sparse::kernels(),
            attention::sparse_decode(),
            sdc::kernels(),
        ];
        let runs_here = |kernel: &HostKernel| {
            kernel.features.iter().all(|wanted| properties.features.iter().any(|has| has == wanted))
        };
        let kernels = kernels.into_iter().flatten().filter(runs_here).map(Arc::new).collect();
        let pool = RefCell::new(Pool::new());
        let (flops_per_cycle, worked) = (Cell::new(0.0), Cell::new(1));
        let loaded = RefCell::default();
        let rapl = Rapl::below(Path::new(rapl::POWERCAP));
        let energy = RefCell::default();
        let fastest = RefCell::default();
        HostDevice {
            properties,
            kernels,
            user: OnceCell::new(),
            calls: Arc::default(),
            pool,
            flops_per_cycle,
            worked,
            fastest,
            loaded,
            rapl,
            energy,
        }
    }

    /// The mean clock of `units` units while all of them work. One core alone runs faster than it
    /// does beside others that work: on a socket of 56 cores by a half (Intel's tables of turbo
    /// frequencies by active cores).
    fn clock_of(&self, units: u32) -> Option<Megahertz> {
        if units <= 1 {
            return compute::observe_clock();
        }
        let seen: Vec<AtomicU64> = (0..units).map(|_| AtomicU64::new(0)).collect();
        let all = self.pool.borrow_mut().run(units, 1, &Params::None, &|block| {
            block.synchronise();
            let clock = compute::observe_clock().map_or(0.0, |clock| clock.0);
            seen[block.index as usize].store(clock.to_bits(), Ordering::Relaxed);
        });
        all.ok()?;
        let clocks = seen.iter().map(|bits| f64::from_bits(bits.load(Ordering::Relaxed)));
        let clock = clocks.sum::<f64>() / f64::from(units);
        (clock > 0.0).then_some(Megahertz(clock))
    }

    /// Runs `work` on `blocks` pinned threads at once and waits for all.
    ///
    /// # Errors
    ///
    /// As [`Pool::run`].
    pub fn run(
        &self,
        blocks: u32,
        repeat: u32,
        params: &Params,
        work: &(dyn Fn(&Block<'_>) + Sync),
    ) -> Result<()> {
        self.worked.set(blocks);
        self.pool.borrow_mut().run(blocks, repeat, params, work)
    }

    /// Whether threads are pinned to cores.
    pub fn pinned(&self) -> bool {
        self.pool.borrow().pinned()
    }
}

impl Device for HostDevice {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn kernels(&self, operation: Operation) -> Vec<KernelName> {
        let of_operation = self.kernels.iter().filter(|kernel| kernel.operation == operation);
        let own = of_operation.map(|kernel| KernelName(kernel.name.into()));
        let rows = self.taken().iter().flat_map(|file| &file.section.kernels);
        let of_user = rows.filter(|row| row.operation == operation);
        own.chain(of_user.map(|row| KernelName(row.name.clone()))).collect()
    }

    fn allocate(&self, size: Bytes) -> Result<Buffer> {
        if memory::is_tight(size) {
            self.pool.borrow_mut().give_back();
        }
        memory::allocate(size)
    }

    #[expect(unsafe_code, reason = "the buffer's memory is reached through its address")]
    fn write(&self, buffer: &Buffer, offset: Bytes, bytes: &[u8]) -> Result<()> {
        within(buffer, offset, bytes.len())?;
        // SAFETY: the buffer owns `size` bytes at `address`, and the range lies within them.
        unsafe {
            let target = (buffer.address as *mut u8).add(offset.0 as usize);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
        }
        Ok(())
    }

    #[expect(unsafe_code, reason = "the buffer's memory is reached through its address")]
    fn read(&self, buffer: &Buffer, offset: Bytes, bytes: &mut [u8]) -> Result<()> {
        within(buffer, offset, bytes.len())?;
        // SAFETY: as in `write`.
        unsafe {
            let source = (buffer.address as *const u8).add(offset.0 as usize);
            std::ptr::copy_nonoverlapping(source, bytes.as_mut_ptr(), bytes.len());
        }
        Ok(())
    }

    fn load(&self, operation: Operation, kernel: &KernelName) -> Result<Function> {
        if let Some((file, row)) = user::find(self.taken(), operation, kernel) {
            let (loaded, code) = self.calls.during(|| user::load(file, row))?;
            self.loaded.borrow_mut().push(code);
            return Ok(Function {
                kernel: kernel.clone(),
                cluster: 1,
                handle: Box::new(Arc::new(loaded)),
            });
        }
        let found = self
            .kernels
            .iter()
            .find(|host| host.operation == operation && host.name == kernel.0)
            .ok_or_else(|| DeviceError::Unsupported {
                kernel: format!("{operation}/{}", kernel.0),
                needs: "an instruction set or library".into(),
            })?;
        let code = library::version_of(&kernel.0)
            .map(|version| Code::Library { name: kernel.0.clone(), version });
        self.loaded.borrow_mut().extend(code);
        Ok(Function { kernel: kernel.clone(), cluster: 1, handle: Box::new(Arc::clone(found)) })
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<()> {
        self.takes(launch.function, &launch.params)?;
        let kernel = of_host(launch.function)?;
        self.worked.set(launch.blocks);
        let mut pool = self.pool.borrow_mut();
        match kernel.threads {
            KernelThreads::Pool => {
                pool.run(launch.blocks, launch.repeat, &launch.params, &*kernel.run)
            }
            KernelThreads::User => self
                .calls
                .during(|| pool.run(launch.blocks, launch.repeat, &launch.params, &*kernel.run)),
            KernelThreads::Library => {
                pool.run_unpinned(launch.blocks, launch.repeat, &launch.params, &*kernel.run)
            }
        }
    }

    fn timed(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Timing> {
        let start = clock::now();
        work()?;
        Ok(Timing { time: start.elapsed(), clock: None, throttled: false, host_was_late: false })
    }

    fn evict_cache(&self) -> Result<()> {
        let blocks = self.properties.units;
        self.pool.borrow_mut().evict(blocks, displacing(&self.properties))
    }

    fn observe_clock(&self) -> Result<Option<Megahertz>> {
        let units = self.worked.get();
        let clock = self.clock_of(units);
        if let Some(clock) = clock {
            let mut fastest = self.fastest.borrow_mut();
            let so_far = fastest.entry(units).or_insert(clock);
            so_far.0 = so_far.0.max(clock.0);
        }
        Ok(clock)
    }

    fn fastest_clock(&self, units: u32) -> Option<Megahertz> {
        self.fastest.borrow().get(&units).copied()
    }

    fn takes(&self, function: &Function, params: &Params) -> Result<()> {
        if of_host(function)?.operation.takes(params) {
            return Ok(());
        }
        Err(OtherOperation.into())
    }

    /// The thread that calls a kernel cannot be ended: whoever measures looks at the time after.
    fn set_deadline(&self, _: Seconds) {}

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            remote_memory: None,
            fills: None,
            foreign_stream: None,
            reports: Some(self),
            rank_times: None,
            threads: Some(self),
            user_kernels: Some(self),
            tunable: None,
        }
    }
}

/// The host's own kernel behind a function.
fn of_host(function: &Function) -> Result<&Arc<HostKernel>> {
    let kernel = function.handle.downcast_ref();
    kernel.ok_or_else(|| DeviceError::Driver("a function of another device".into()))
}

impl TakesKernels for HostDevice {
    fn take(&self, files: Vec<UserFile>) -> Result<(), String> {
        for (at, file) in files.iter().enumerate() {
            if file.form != Form::Library {
                return Err(format!(
                    "{}: it is for GPUs, and the host is measured; choose a GPU by --device",
                    file.path.display()
                ));
            }
            let is_own = |name: &str| self.kernels.iter().any(|kernel| kernel.name == name);
            file.collides(is_own, &files[..at])?;
        }
        self.user.set(files).map_err(|_| "kernels of a user were taken before".to_owned())
    }

    fn taken(&self) -> &[UserFile] {
        self.user.get().map(Vec::as_slice).unwrap_or_default()
    }

    fn calls(&self) -> Option<Arc<Calls>> {
        Some(Arc::clone(&self.calls))
    }
}

impl Threads for HostDevice {
    fn run_together(&self, count: u32, work: &(dyn Fn(u32, &dyn Fn()) + Sync)) -> Result<()> {
        self.run(count, 1, &Params::None, &|block| work(block.index, &|| block.synchronise()))
    }
}

impl Reports for HostDevice {
    fn identity(&self) -> Identity {
        Identity::default()
    }

    fn telemetry(&self) -> Option<Telemetry> {
        let rapl = self.rapl.as_ref()?;
        let now = (rapl.read()?, clock::now());
        let (before, since) = self.energy.replace(Some(now.clone()))?;
        let joules = Joules(rapl.joules(&before, &now.0));
        let elapsed = since.elapsed();
        Some(Telemetry {
            energy: Some(joules),
            // The counters advance about each millisecond (Intel 64 and IA-32 Architectures
            // Software Developer's Manual, volume 3B, "RAPL Interfaces").
            energy_steps: Some((elapsed.0 * 1e3) as u32),
            elapsed: Some(elapsed),
            ..Telemetry::default()
        })
    }

    fn loaded(&self) -> Vec<Code> {
        device::without_repeats(self.loaded.take())
    }

    /// This thread is pinned by now: the pool knows where it was let run.
    fn describe(&self, environment: &mut Environment) {
        environment.cpus = self.pool.borrow().cpus();
    }

    /// By multiply-adds on all the units at once, against the clock: a chain of additions, which
    /// shows the clock, leaves most of a core to others and is not slowed by them.
    fn available(&self, units: u32) -> Result<Option<f64>> {
        let Some(kernel) =
            self.kernels.iter().find(|kernel| kernel.operation == Operation::Compute(Dtype::F64))
        else {
            return Ok(None);
        };
        let partial = self.allocate(Bytes(64 * u64::from(units)))?;
        let params = ComputeParams { partial: partial.address, flops: PROBE_FLOPS }.into();
        let probe = |_| {
            let start = clock::now();
            self.pool.borrow_mut().run(units, 1, &params, &*kernel.run)?;
            Ok(start.elapsed().0)
        };
        // An interrupt can only lengthen one of them.
        let times: Vec<f64> = (0..PROBES).map(probe).collect::<Result<_>>()?;
        let time = times.into_iter().fold(f64::INFINITY, f64::min);
        // While all of them still have the clock of their work.
        let Some(clock) = self.clock_of(units) else { return Ok(None) };
        let flops_per_cycle = PROBE_FLOPS as f64 / (time * clock.0 * 1e6);
        let most = self.flops_per_cycle.get().max(flops_per_cycle);
        self.flops_per_cycle.set(most);
        Ok(Some(flops_per_cycle / most))
    }
}
