//! The only seam to a driver: [`Backend`] finds devices, [`Device`] runs kernels on one.
//!
//! What is above this crate, or beside it, cannot be used here:
//!
//! ```compile_fail
//! use fizeau_judge::compare;
//! ```
//!
//! ```compile_fail
//! use fizeau_comm::Communicator;
//! ```

pub mod bundle;
pub mod clock;
pub mod cuda;
mod error;
pub mod fake;
mod finding;
mod gpu;
pub mod hip;
pub mod host;
pub mod library;
pub mod limits;
pub mod numa;
pub mod observe;
pub mod pci;
#[cfg(test)]
#[path = "../../../tests/skipped/mod.rs"]
mod skipped;
mod trust;
mod tunable;
pub mod user;

pub use error::{DeviceError, Result};
pub use finding::{Finding, State};
pub use tunable::Tunable;

use fizeau_domain::{
    case::{HostMemory, KernelName, MemoryNode},
    kernel::{Operation, Params},
    node_state::Gpu,
    outcome::{Code, Telemetry},
    spec::Properties,
    units::{Bytes, Megahertz, Seconds},
};
use fizeau_record::{Environment, identity};
use limits::Limits;
use serde::{Deserialize, Serialize};
use std::{any::Any, ffi::c_void, fmt, path::Path, sync::Arc};
use user::{Calls, UserFile};

/// A family of devices behind one driver.
pub trait Backend: Sync {
    /// `host`, `cuda`, `hip`, `fake`.
    fn name(&self) -> &'static str;

    /// The devices there are, at least one.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Missing`] where no driver is installed, [`DeviceError::NoDevice`] where one
    /// is and shows no device; whatever else means that the driver does not work.
    fn devices(&self) -> Result<Vec<Properties>>;

    /// Opens one.
    fn open(&self, ordinal: u32) -> Result<Box<dyn Device>>;

    /// What `doctor` says of its libraries and devices.
    fn findings(&self) -> Vec<Finding> {
        Vec::new()
    }

    /// Who each GPU is, as its driver tells; nothing where there is no driver.
    fn identities(&self) -> Vec<identity::Gpu> {
        Vec::new()
    }

    /// What its driver tells of each GPU at rest, without a context or any load; nothing where
    /// there is no driver.
    fn at_rest(&self) -> Vec<Gpu> {
        Vec::new()
    }

    /// The same of one GPU.
    fn at_rest_of(&self, ordinal: u32) -> Option<Gpu> {
        self.at_rest().into_iter().nth(ordinal as usize)
    }

    /// Why nothing can be read of its devices but by their driver: the library that reads their
    /// sensors is installed and does not work. `None` where it works, or is not there.
    fn broken_sensors(&self) -> Option<DeviceError> {
        None
    }

    /// The variables by which a user hides devices from its driver, as they are set:
    /// `CUDA_VISIBLE_DEVICES=3,5`.
    fn hiding(&self) -> Option<String> {
        None
    }

    /// The limits of one device; files of the kernel are looked for below `root`, which is `/` but
    /// for tests.
    ///
    /// # Errors
    ///
    /// Where the device is not there, or this program sets no limits of such devices.
    fn limits(&self, _ordinal: u32, _root: &Path) -> Result<Box<dyn Limits>> {
        let what = "limits of power and clock that can be set".into();
        Err(DeviceError::NotOffered { library: self.name().into(), what })
    }
}

impl dyn Backend {
    /// What is said of a driver that is installed, works and shows no device; `None` where it
    /// shows some, does not work, or is not there.
    pub fn without_devices(&self) -> Option<String> {
        match self.devices() {
            Err(DeviceError::NoDevice { what, remedy }) => {
                Some(format!("a driver is installed and shows no {what}: {remedy}"))
            }
            _ => None,
        }
    }

    /// Why none of its devices can be measured although its driver is installed; `None` where the
    /// driver works, or is not there.
    pub fn broken(&self) -> Option<DeviceError> {
        match self.devices() {
            Ok(_) | Err(DeviceError::Missing { .. } | DeviceError::NoDevice { .. }) => None,
            Err(error) => Some(error),
        }
    }
}

/// An error's words with those of its causes: the loader says in a cause why it refuses a library.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |words, cause| format!("{words}: {cause}"))
}

/// Every backend of this build, in the order `devices` prints them.
pub static BACKENDS: &[&dyn Backend] = &[&host::Host, &cuda::Cuda, &hip::Hip];

/// One opened device: what every device does. What only some can do is found through
/// [`Device::capabilities`]. No method has a default, so that a device which wraps another cannot
/// lose a part of it without a word.
pub trait Device {
    /// What it is.
    fn properties(&self) -> &Properties;

    /// The kernels it could load for an operation, best guess first; vendor libraries that are
    /// present among them.
    fn kernels(&self, operation: Operation) -> Vec<KernelName>;

    /// Makes a kernel of an operation ready to launch.
    fn load(&self, operation: Operation, kernel: &KernelName) -> Result<Function>;

    /// Whether a kernel takes such parameters, addresses aside: an error where it does not.
    fn takes(&self, function: &Function, params: &Params) -> Result<()>;

    /// Memory of the device, 64-byte aligned at least, zeroed.
    fn allocate(&self, size: Bytes) -> Result<Buffer>;

    /// Copies bytes into a buffer, at an offset.
    fn write(&self, buffer: &Buffer, offset: Bytes, bytes: &[u8]) -> Result<()>;

    /// Copies bytes out of a buffer, from an offset.
    fn read(&self, buffer: &Buffer, offset: Bytes, bytes: &mut [u8]) -> Result<()>;

    /// Enqueues a kernel `repeat` times, back to back.
    fn launch(&self, launch: &Launch<'_>) -> Result<()>;

    /// Runs `work` (which enqueues) and waits for its end; the time is the device's own where it
    /// has events, else the host's around it.
    fn timed(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Timing>;

    /// Displaces the contents of all caches.
    fn evict_cache(&self) -> Result<()>;

    /// The longest that whoever waits for it is to wait, from now on.
    fn set_deadline(&self, deadline: Seconds);

    /// Observes the clock now, by counting cycles against time on a unit that works.
    fn observe_clock(&self) -> Result<Option<Megahertz>>;

    /// Whether each [`Timing`] from now on has the clock of the units while it was taken. A device
    /// that cannot tell it so leaves it out.
    fn tell_clock(&self, _tells: bool) {}

    /// Does nothing for so long, so that the device is as it was before its last work.
    fn rest(&self, time: Seconds) {
        clock::rest(time);
    }

    /// The fastest clock that [`Device::observe_clock`] has shown so far while `units` units
    /// worked; `None` where it is not kept.
    fn fastest_clock(&self, _units: u32) -> Option<Megahertz> {
        None
    }

    /// What it can do beyond the above.
    fn capabilities(&self) -> Capabilities<'_>;
}

/// What a device can do that not every device can. All fields are written out wherever one is
/// made: a device that wraps another decides about each.
#[derive(Clone, Copy)]
pub struct Capabilities<'d> {
    /// Reaches memory that is not its own.
    pub remote_memory: Option<&'d dyn RemoteMemory>,
    /// Fills and compares its memory by itself.
    pub fills: Option<&'d dyn Fills>,
    /// Lets other libraries enqueue on its stream.
    pub foreign_stream: Option<&'d dyn ForeignStream>,
    /// Tells what state it is in.
    pub reports: Option<&'d dyn Reports>,
    /// Has times of each rank.
    pub rank_times: Option<&'d dyn RankTimes>,
    /// Has threads that can be ranks of one process.
    pub threads: Option<&'d dyn Threads>,
    /// Runs kernels that a user brings.
    pub user_kernels: Option<&'d dyn TakesKernels>,
    /// Has functions that can do their work in several ways.
    pub tunable: Option<&'d dyn Tunable>,
}

/// A device that runs kernels which a user brings, beside its own.
pub trait TakesKernels {
    /// Lists them behind its own. Nothing is loaded yet. Once for a device.
    ///
    /// # Errors
    /// In words for users, where a file is made for other devices, or a name is taken.
    fn take(&self, files: Vec<UserFile>) -> Result<(), String>;

    /// Those that it has taken.
    fn taken(&self) -> &[UserFile];

    /// Calls into users' code on threads of this process; `None` where a driver runs it, whose
    /// work has a deadline.
    fn calls(&self) -> Option<Arc<Calls>>;
}

/// A device that reaches memory which is not its own.
pub trait RemoteMemory {
    /// Memory of the host or of another device, for kernels or copies.
    fn allocate_at(&self, place: Elsewhere, size: Bytes) -> Result<Buffer>;

    /// The NUMA nodes of the host that memory can be bound to by this process, by number; none
    /// where the kernel lists none.
    fn memory_nodes(&self) -> Vec<MemoryNode>;

    /// The ordinals of the other devices behind the same driver.
    fn peers(&self) -> Vec<u32>;
}

/// A device that fills and compares its memory by kernels, which is far faster than by copies.
pub trait Fills {
    /// Fills `words` words of 8 bytes from an offset with a pattern that repeats.
    fn fill(&self, buffer: &Buffer, offset: Bytes, pattern: &[u64], words: u64) -> Result<()>;

    /// How many of those words differ from the pattern; `None` where it cannot tell of this buffer.
    fn differing(
        &self,
        buffer: &Buffer,
        offset: Bytes,
        pattern: &[u64],
        words: u64,
    ) -> Result<Option<u64>>;
}

/// A device on whose stream other libraries can enqueue, in its context.
pub trait ForeignStream {
    /// Enqueues what the closure gives to the stream.
    fn enqueue_foreign(&self, enqueue: &mut dyn FnMut(Stream) -> Result<()>) -> Result<()>;

    /// Captures what the closure gives to the stream, instead of doing it.
    fn capture(&self, enqueue: &mut dyn FnMut(Stream) -> Result<()>) -> Result<Replay>;

    /// What another thread may ask of it while work is in flight; `None` where that cannot be had.
    fn pulse(&self) -> Option<Pulse>;
}

/// A device that tells what state it is in.
pub trait Reports {
    /// What tells it from its neighbours, and how it is connected; less where it cannot tell.
    fn identity(&self) -> Identity;

    /// What its sensors saw since this was last called; `None` where it has no sensors.
    fn telemetry(&self) -> Option<Telemetry>;

    /// What code the functions are that were loaded since this was last called, each once; kernels
    /// that are part of the program itself are left out.
    fn loaded(&self) -> Vec<Code>;

    /// Adds to what a record says of the machine around it.
    fn describe(&self, environment: &mut Environment);

    /// The share of these units' arithmetic that is theirs to use now, of the most that was ever
    /// seen: 0.5 where two of them share a core, or where another process takes half of its time.
    /// `None` where the device cannot tell.
    fn available(&self, units: u32) -> Result<Option<f64>>;
}

/// A device whose timed regions are those of all ranks together.
pub trait RankTimes {
    /// The median time of each rank's own last `last` timed regions, by rank.
    fn rank_times(&self, last: usize) -> Result<Vec<Seconds>>;
}

/// A device whose threads can be ranks of one process.
pub trait Threads {
    /// Runs `work` on `count` pinned threads at once and waits for all. Each is told its number and
    /// a barrier of all of them.
    ///
    /// # Errors
    ///
    /// Where the system does not start as many.
    fn run_together(&self, count: u32, work: &(dyn Fn(u32, &dyn Fn()) + Sync)) -> Result<()>;
}

impl dyn Device + '_ {
    /// The stream that a library enqueues on.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unsupported`] where the device has none.
    pub fn foreign_stream(&self, library: &str) -> Result<&dyn ForeignStream> {
        self.capabilities().foreign_stream.ok_or_else(|| DeviceError::Unsupported {
            kernel: library.into(),
            needs: "a stream that other libraries enqueue on".into(),
        })
    }

    /// Memory of the host or of another device.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unsupported`] where the device reaches none.
    pub fn allocate_at(&self, place: Elsewhere, size: Bytes) -> Result<Buffer> {
        let Some(remote) = self.capabilities().remote_memory else {
            let needs = format!("memory of {place}");
            return Err(DeviceError::Unsupported { kernel: "copy".into(), needs });
        };
        remote.allocate_at(place, size)
    }

    /// The NUMA nodes of the host that memory can be bound to.
    pub fn memory_nodes(&self) -> Vec<MemoryNode> {
        self.capabilities().remote_memory.map(RemoteMemory::memory_nodes).unwrap_or_default()
    }

    /// The ordinals of the other devices behind the same driver.
    pub fn peers(&self) -> Vec<u32> {
        self.capabilities().remote_memory.map(RemoteMemory::peers).unwrap_or_default()
    }

    /// Fills `words` words of 8 bytes from an offset with a pattern that repeats.
    ///
    /// # Errors
    ///
    /// What the device refuses.
    pub fn fill(&self, buffer: &Buffer, offset: Bytes, pattern: &[u64], words: u64) -> Result<()> {
        match self.capabilities().fills {
            Some(fills) => fills.fill(buffer, offset, pattern, words),
            None => fill_by_writes(self, buffer, offset, pattern, words),
        }
    }

    /// How many of those words differ from the pattern; `None` where the device does not tell.
    ///
    /// # Errors
    ///
    /// What the device refuses.
    pub fn differing(
        &self,
        buffer: &Buffer,
        offset: Bytes,
        pattern: &[u64],
        words: u64,
    ) -> Result<Option<u64>> {
        match self.capabilities().fills {
            Some(fills) => fills.differing(buffer, offset, pattern, words),
            None => Ok(None),
        }
    }

    /// Adds to what a record says of the machine around it.
    pub fn describe(&self, environment: &mut Environment) {
        if let Some(reports) = self.capabilities().reports {
            reports.describe(environment);
        }
    }

    /// What its sensors saw since this was last called.
    pub fn telemetry(&self) -> Option<Telemetry> {
        self.capabilities().reports?.telemetry()
    }

    /// Files of kernels that a user brings.
    pub fn user_files(&self) -> &[UserFile] {
        self.capabilities().user_kernels.map(TakesKernels::taken).unwrap_or_default()
    }

    /// Whether a user brings the kernel of this name.
    pub fn is_of_user(&self, kernel: &KernelName) -> bool {
        self.user_files().iter().any(|file| file.has(kernel))
    }

    /// What code was loaded since this was last called.
    pub fn loaded(&self) -> Vec<Code> {
        self.capabilities().reports.map(Reports::loaded).unwrap_or_default()
    }

    /// What tells it from its neighbours.
    pub fn identity(&self) -> Identity {
        self.capabilities().reports.map(Reports::identity).unwrap_or_default()
    }
}

/// Each once, in the order in which they first come.
fn without_repeats(all: Vec<Code>) -> Vec<Code> {
    let mut once = Vec::new();
    all.into_iter().for_each(|code| {
        if !once.contains(&code) {
            once.push(code);
        }
    });
    once
}

/// How far a device is with what is timed on it, and whether it answers at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Nobody has asked, or nothing can be asked any more.
    Unknown,
    /// It was asked and has not answered.
    Silent,
    /// It answers, and waits in what came before.
    NotBegun,
    /// It has begun.
    Begun,
    /// It has ended, or nothing is timed.
    Ended,
}

/// Asks a device how far it is, from any thread. Comes back when it has answered: never, where it
/// does not.
pub type Pulse = Arc<dyn Fn() -> Stage + Send + Sync>;

/// Enqueues what was captured, as one.
pub type Replay = Box<dyn Fn() -> Result<()>>;

/// Memory that is not a device's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elsewhere {
    /// The host's.
    Host {
        /// How it is allocated.
        kind: HostMemory,
        /// On which NUMA node, where there are several.
        on: HostNode,
    },
    /// That of another device, by its ordinal.
    Peer(u32),
}

/// Which NUMA node of the host memory is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostNode {
    /// The node that the device of this ordinal is attached to; any, where that is not known or
    /// this process may not run there.
    Near(u32),
    /// The node of this number and no other.
    Exactly(u32),
}

impl fmt::Display for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Elsewhere::Host { kind, on: HostNode::Near(_) } => write!(f, "the host ({kind})"),
            Elsewhere::Host { kind, on: HostNode::Exactly(node) } => {
                write!(f, "the host ({kind}, NUMA node {node})")
            }
            Elsewhere::Peer(ordinal) => write!(f, "device {ordinal}, which it reaches"),
        }
    }
}

/// A stream, as the vendor's libraries take it.
#[derive(Clone, Copy, Debug)]
pub struct Stream(pub *mut c_void);

/// What tells a device from its neighbours, and how it is connected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its own number.
    pub uuid: Option<String>,
    /// Its place on the PCI bus.
    pub pci: Option<String>,
    /// The driver's version.
    pub driver: Option<String>,
    /// Lanes to the host that are in use.
    pub pcie_width: Option<u32>,
    /// Links to other devices that are up.
    pub links: Option<u32>,
}

/// Memory of a device. Freed when dropped.
pub struct Buffer {
    /// As kernels see it.
    pub address: u64,
    /// As asked for.
    pub size: Bytes,
    /// Frees it.
    pub owner: Box<dyn Any>,
}

/// A kernel that was loaded on a device.
pub struct Function {
    /// Its name.
    pub kernel: KernelName,
    /// Blocks of a cluster of its launches; 1 where there are none.
    pub cluster: u32,
    /// The backend's own.
    pub handle: Box<dyn Any>,
}

/// One enqueueing of a kernel.
pub struct Launch<'l> {
    /// What.
    pub function: &'l Function,
    /// On how many blocks; on the host one pinned thread each.
    pub blocks: u32,
    /// How many times, back to back.
    pub repeat: u32,
    /// With which parameters.
    pub params: Params,
}

/// What a device measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// From the first enqueued operation's start to the last one's end.
    pub time: Seconds,
    /// Clock observed in it, where the device can tell.
    pub clock: Option<Megahertz>,
    /// Whether the device held its clock down.
    pub throttled: bool,
    /// Whether the host had not enqueued all of it when the device had to begin: short kernels may
    /// then have waited for their launches, and the time says nothing.
    pub host_was_late: bool,
}

/// Fills memory from the host's side.
fn fill_by_writes(
    device: &(impl Device + ?Sized),
    buffer: &Buffer,
    offset: Bytes,
    pattern: &[u64],
    words: u64,
) -> Result<()> {
    let period = pattern.len().max(1) as u64;
    (0..words.div_ceil(period)).try_for_each(|turn| {
        let count = period.min(words - turn * period) as usize;
        let at = offset + Bytes(turn * period * 8);
        device.write(buffer, at, bytemuck::cast_slice(&pattern[..count]))
    })
}

/// An error where bytes from an offset reach beyond a buffer's end.
fn within(buffer: &Buffer, offset: Bytes, length: usize) -> Result<()> {
    let end = offset.0.checked_add(length as u64);
    if end.is_none_or(|end| end > buffer.size.0) {
        return Err(DeviceError::Driver(format!(
            "{length} bytes from {} reach beyond a buffer of {}",
            offset.0, buffer.size.0
        )));
    }
    Ok(())
}
