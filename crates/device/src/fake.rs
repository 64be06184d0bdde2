//! A device with scripted times and faults, for tests. Never a source of a number.
//!
//! It has an address space of its own and really computes the `stream` kernels in it, so that
//! verification is verification; only its time is made up. A script names what goes wrong, such
//! as `launch-error` or `slow=1.1,throttling`: see [`Fake::parse`]. Everything it says of itself
//! says `fake`.

use super::{
    Backend, Buffer, Capabilities, Device, DeviceError, Function, Identity, Launch, Reports,
    Result, Timing,
};
use fizeau_domain::{
    case::{KernelName, StreamOperation},
    dtype::Dtype,
    kernel::{Operation, Params, StreamParams},
    outcome::{Code, Telemetry},
    spec::{CacheLevel, Properties},
    units::{Bytes, BytesPerSecond, Megahertz, Seconds},
};
use fizeau_record::Environment;
use oorandom::Rand64;
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fmt,
    rc::Rc,
    str::FromStr,
};

/// What goes wrong on a fake device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// One element of each result is off.
    WrongResult,
    /// The first results are right, those of the timed loop are not.
    LateWrongResult,
    /// The work is done once and left out from then on, at the usual time.
    SkippedWork,
    /// A thousandth of the time the work can take.
    ImpossibleTime,
    /// The timer does not move.
    FrozenTimer,
    /// A kernel cannot be launched.
    LaunchError,
    /// Memory cannot be had.
    AllocationFailure,
    /// Work does not end.
    Hang,
    /// The clock is held down during every sample.
    Throttling,
    /// Another process has half of the units.
    Disturbance,
    /// The device is gone after a few launches, for good.
    DeviceLost,
    /// The driver panics.
    Panic,
}

impl Fault {
    /// All of them, with the names scripts use.
    pub const ALL: [(Fault, &str); 12] = [
        (Fault::WrongResult, "wrong-result"),
        (Fault::LateWrongResult, "late-wrong-result"),
        (Fault::SkippedWork, "skipped-work"),
        (Fault::ImpossibleTime, "impossible-time"),
        (Fault::FrozenTimer, "frozen-timer"),
        (Fault::LaunchError, "launch-error"),
        (Fault::AllocationFailure, "allocation-failure"),
        (Fault::Hang, "hang"),
        (Fault::Throttling, "throttling"),
        (Fault::Disturbance, "disturbance"),
        (Fault::DeviceLost, "device-lost"),
        (Fault::Panic, "panic"),
    ];
}

/// Not a script of a fake device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{part:?} is no part of a fake device's script; parts are slow=FACTOR, seed=NUMBER, {known}"
)]
pub struct NotAScript {
    part: String,
    known: String,
}

/// A backend with one fake device.
#[derive(Clone, Debug, PartialEq)]
pub struct Fake {
    fault: Option<Fault>,
    slowdown: f64,
    seed: u64,
    times: Vec<Seconds>,
    steps: Vec<Step>,
}

/// A step of a regulator of power: from so much load on, everything takes so much longer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Seconds of work without a rest.
    pub after: Seconds,
    /// A factor on times.
    pub slowdown: f64,
}

/// A load is forgotten while the device rests, at this share of the speed at which it grew: a rest
/// of four times the work undoes it.
const FORGOTTEN: f64 = 0.25;

impl Default for Fake {
    fn default() -> Fake {
        Fake { fault: None, slowdown: 1.0, seed: 0, times: Vec::new(), steps: Vec::new() }
    }
}

impl FromStr for Fake {
    type Err = NotAScript;
    fn from_str(script: &str) -> Result<Fake, NotAScript> {
        Fake::parse(script)
    }
}

impl Fake {
    /// Reads a script: parts between commas, each a fault's name, `slow=FACTOR` (times are so much
    /// longer) or `seed=NUMBER` (of the noise in its times). Empty: a healthy device.
    ///
    /// # Errors
    ///
    /// Where a part is none of these.
    pub fn parse(script: &str) -> Result<Fake, NotAScript> {
        let mut fake = Fake::default();
        for part in script.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let known = || Fault::ALL.map(|(_, name)| name).join(", ");
            let refuse = || NotAScript { part: part.into(), known: known() };
            match part.split_once('=') {
                Some(("slow", factor)) => {
                    fake.slowdown = factor.parse().map_err(|_| refuse())?;
                    if !fake.slowdown.is_finite() || fake.slowdown <= 0.0 {
                        return Err(refuse());
                    }
                }
                Some(("seed", seed)) => fake.seed = seed.parse().map_err(|_| refuse())?,
                _ => {
                    let (fault, _) = Fault::ALL
                        .into_iter()
                        .find(|(_, name)| *name == part)
                        .ok_or_else(refuse)?;
                    fake.fault = Some(fault);
                }
            }
        }
        Ok(fake)
    }

    /// With a fault.
    pub fn with(fault: Fault) -> Fake {
        Fake { fault: Some(fault), ..Fake::default() }
    }

    /// With the times of one iteration written down, one for each launch, over and over.
    pub fn scripted(times: Vec<Seconds>) -> Fake {
        Fake { times, ..Fake::default() }
    }

    /// With a regulator of power, whose steps stand in order.
    pub fn regulated(self, steps: Vec<Step>) -> Fake {
        Fake { steps, ..self }
    }

    /// The device itself.
    pub fn device(&self) -> FakeDevice {
        FakeDevice {
            script: self.clone(),
            properties: properties(),
            memory: Rc::default(),
            time: Cell::new(Seconds(0.0)),
            load: Cell::new(Seconds(0.0)),
            launches: Cell::new(0),
            evictions: Cell::new(0),
            lost: Cell::new(false),
            random: RefCell::new(Rand64::new(u128::from(self.seed))),
        }
    }
}

impl Backend for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn devices(&self) -> Result<Vec<Properties>> {
        Ok(vec![properties()])
    }

    fn open(&self, _ordinal: u32) -> Result<Box<dyn Device>> {
        Ok(Box::new(self.device()))
    }
}

/// Units of the device.
const UNITS: u32 = 2;

/// Its clock, and what is left of it when throttled.
const CLOCK: Megahertz = Megahertz(1_000.0);
const CLOCK_THROTTLED: Megahertz = Megahertz(600.0);

/// What its kernels reach: 0.8 of the 51.2 GB/s that its memory's pins are said to carry.
const BANDWIDTH: BytesPerSecond = BytesPerSecond(0.8 * 51.2e9);

/// Half the width of the noise in its times.
const NOISE: f64 = 0.005;

/// It is lost at this launch.
const LAUNCHES_UNTIL_LOST: u64 = 3;

fn properties() -> Properties {
    let cache = |level, size, shared_by| CacheLevel { level, size, shared_by, line: Bytes(64) };
    Properties {
        backend: "fake".into(),
        name: "fake device".into(),
        vendor: "fake".into(),
        units: UNITS,
        clock: Some(CLOCK),
        memory: Bytes::GIB,
        memory_mts: Some(3_200.0),
        memory_bus_bits: Some(128),
        caches: vec![cache(1, Bytes::KIB * 32, 1), cache(2, Bytes::MIB, UNITS)],
        flops_per_clock: BTreeMap::from([(Dtype::F64, 16.0), (Dtype::F32, 32.0)]),
        ..Properties::default()
    }
}

/// Buffers by address.
type Memory = BTreeMap<u64, Vec<u8>>;

/// An opened fake device.
pub struct FakeDevice {
    script: Fake,
    properties: Properties,
    memory: Rc<RefCell<Memory>>,
    time: Cell<Seconds>,
    /// What the regulator knows of.
    load: Cell<Seconds>,
    launches: Cell<u64>,
    evictions: Cell<u64>,
    lost: Cell<bool>,
    random: RefCell<Rand64>,
}

/// Gives a buffer's memory back.
struct Owner {
    address: u64,
    memory: Rc<RefCell<Memory>>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.memory.borrow_mut().remove(&self.address);
    }
}

impl fmt::Debug for FakeDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeDevice").field("script", &self.script).finish_non_exhaustive()
    }
}

impl FakeDevice {
    /// How often its caches were evicted.
    pub fn evictions(&self) -> u64 {
        self.evictions.get()
    }

    fn has(&self, fault: Fault) -> bool {
        self.script.fault == Some(fault)
    }

    fn present(&self) -> Result<()> {
        if self.lost.get() {
            return Err(DeviceError::Lost("the fake device fell off its fake bus".into()));
        }
        Ok(())
    }

    /// Time of one iteration of the launch that is `launch`th.
    fn iteration(&self, launch: u64, bytes: Bytes) -> Seconds {
        let noise = 1.0 + NOISE * (2.0 * self.random.borrow_mut().rand_float() - 1.0);
        let times = &self.script.times;
        let time = match times.len() as u64 {
            0 => bytes / BANDWIDTH * noise,
            count => times[(launch % count) as usize],
        };
        let factor = match self.script.fault {
            Some(Fault::ImpossibleTime) => 1e-3,
            Some(Fault::FrozenTimer) => 0.0,
            Some(Fault::Throttling) => CLOCK / CLOCK_THROTTLED,
            Some(Fault::Disturbance) => 2.0,
            _ => 1.0,
        };
        time * (factor * self.script.slowdown)
    }

    /// Works for a time that the regulator stretches, iteration by iteration.
    fn work(&self, time: Seconds, repeat: u32) {
        for _ in 0..repeat {
            let load = self.load.get();
            let step = self.script.steps.iter().rfind(|step| load >= step.after);
            let time = time * step.map_or(1.0, |step| step.slowdown);
            self.load.set(load + time);
            self.time.set(self.time.get() + time);
        }
    }

    /// The faults that end a launch.
    fn refuse(&self, launch: u64) -> Result<()> {
        match self.script.fault {
            Some(Fault::LaunchError) => Err(DeviceError::Launch {
                kernel: "fake".into(),
                why: "the fake driver refuses".into(),
            }),
            Some(Fault::Hang) => Err(DeviceError::Hang {
                what: "a fake kernel that never ends".into(),
                limit: Seconds(1.0),
            }),
            Some(Fault::DeviceLost) if launch >= LAUNCHES_UNTIL_LOST => {
                self.lost.set(true);
                self.present()
            }
            Some(Fault::Panic) => panic!("a planted panic of the fake driver"),
            _ => Ok(()),
        }
    }
}

impl Device for FakeDevice {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn kernels(&self, operation: Operation) -> Vec<KernelName> {
        if matches!(operation, Operation::Stream(_)) {
            vec![KernelName("fake".into())]
        } else {
            Vec::new()
        }
    }

    fn allocate(&self, size: Bytes) -> Result<Buffer> {
        self.present()?;
        let mut memory = self.memory.borrow_mut();
        let used: u64 = memory.values().map(|buffer| buffer.len() as u64).sum();
        let over = used.saturating_add(size.0) > self.properties.memory.0;
        if over || self.has(Fault::AllocationFailure) {
            return Err(DeviceError::Allocation { size, why: "fake memory is full".into() });
        }
        let end = memory.last_key_value().map_or(4096, |(at, buffer)| at + buffer.len() as u64);
        // At least one byte and a gap: no two buffers share an address, none overlap unseen.
        let address = (end + 1).next_multiple_of(64);
        memory.insert(address, vec![0; size.0 as usize]);
        let owner = Box::new(Owner { address, memory: Rc::clone(&self.memory) });
        Ok(Buffer { address, size, owner })
    }

    fn write(&self, buffer: &Buffer, offset: Bytes, bytes: &[u8]) -> Result<()> {
        self.present()?;
        let mut memory = self.memory.borrow_mut();
        region(&mut memory, buffer.address + offset.0, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    fn read(&self, buffer: &Buffer, offset: Bytes, bytes: &mut [u8]) -> Result<()> {
        self.present()?;
        let mut memory = self.memory.borrow_mut();
        bytes.copy_from_slice(region(&mut memory, buffer.address + offset.0, bytes.len())?);
        Ok(())
    }

    fn load(&self, operation: Operation, kernel: &KernelName) -> Result<Function> {
        self.present()?;
        match operation {
            Operation::Stream(stream) if kernel.0 == "fake" => {
                Ok(Function { kernel: kernel.clone(), cluster: 1, handle: Box::new(stream) })
            }
            _ => Err(DeviceError::Unsupported {
                kernel: format!("{operation}/{}", kernel.0),
                needs: "a device that is not fake".into(),
            }),
        }
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<()> {
        self.present()?;
        let params: &StreamParams = (&launch.params).try_into()?;
        let &operation: &StreamOperation = launch
            .function
            .handle
            .downcast_ref()
            .ok_or_else(|| DeviceError::Driver("a function of another device".into()))?;
        let number = self.launches.replace(self.launches.get() + 1);
        self.refuse(number)?;
        // Every iteration leaves the same: one stands for all.
        if number == 0 || !self.has(Fault::SkippedWork) {
            let late = self.has(Fault::LateWrongResult) && number > 0;
            let wrong = late || self.has(Fault::WrongResult);
            stream(&mut self.memory.borrow_mut(), operation, params, launch.blocks, wrong)?;
        }
        let bytes = Bytes(params.length * 8 * operation.arrays());
        let time = self.iteration(number, bytes);
        match self.script.steps.is_empty() {
            true => self.time.set(self.time.get() + time * f64::from(launch.repeat)),
            false => self.work(time, launch.repeat),
        }
        Ok(())
    }

    fn timed(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Timing> {
        self.present()?;
        self.time.set(Seconds(0.0));
        work()?;
        let throttled = self.has(Fault::Throttling);
        let clock = if throttled { CLOCK_THROTTLED } else { CLOCK };
        Ok(Timing { time: self.time.get(), clock: Some(clock), throttled, host_was_late: false })
    }

    fn rest(&self, time: Seconds) {
        let left = self.load.get().0 - time.0 * FORGOTTEN;
        self.load.set(Seconds(left.max(0.0)));
    }

    fn evict_cache(&self) -> Result<()> {
        self.evictions.set(self.evictions.get() + 1);
        self.present()
    }

    fn observe_clock(&self) -> Result<Option<Megahertz>> {
        self.present()?;
        Ok(Some(if self.has(Fault::Throttling) { CLOCK_THROTTLED } else { CLOCK }))
    }

    fn takes(&self, _: &Function, _: &Params) -> Result<()> {
        Ok(())
    }

    fn set_deadline(&self, _: Seconds) {}

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            remote_memory: None,
            fills: None,
            foreign_stream: None,
            reports: Some(self),
            rank_times: None,
            threads: None,
            user_kernels: None,
            tunable: None,
        }
    }
}

impl Reports for FakeDevice {
    fn identity(&self) -> Identity {
        Identity::default()
    }

    fn telemetry(&self) -> Option<Telemetry> {
        None
    }

    fn loaded(&self) -> Vec<Code> {
        Vec::new()
    }

    fn describe(&self, _: &mut Environment) {}

    fn available(&self, _units: u32) -> Result<Option<f64>> {
        self.present()?;
        Ok(Some(if self.has(Fault::Disturbance) { 0.5 } else { 1.0 }))
    }
}

/// The bytes at an address.
fn region(memory: &mut Memory, address: u64, length: usize) -> Result<&mut [u8]> {
    let wild = || DeviceError::Driver(format!("{length} bytes at {address:#x} are nobody's"));
    let (start, buffer) = memory.range_mut(..=address).next_back().ok_or_else(wild)?;
    let from = (address - start) as usize;
    let end = from.checked_add(length).ok_or_else(wild)?;
    buffer.get_mut(from..end).ok_or_else(wild)
}

fn load_f64(memory: &mut Memory, address: u64, count: u64) -> Result<Vec<f64>> {
    let bytes = region(memory, address, count as usize * 8)?;
    Ok(bytes.chunks_exact(8).map(bytemuck::pod_read_unaligned).collect())
}

fn store_f64(memory: &mut Memory, address: u64, values: &[f64]) -> Result<()> {
    region(memory, address, values.len() * 8)?.copy_from_slice(bytemuck::cast_slice(values));
    Ok(())
}

/// Performs a stream operation, one element off where `wrong`.
fn stream(
    memory: &mut Memory,
    operation: StreamOperation,
    params: &StreamParams,
    blocks: u32,
    wrong: bool,
) -> Result<()> {
    use StreamOperation::{Add, Copy, Dot, Read, Scale, Triad, Write};
    let length = params.length;
    let scale = params.scale;
    let mut load = |address| load_f64(memory, address, length);
    let mut result: Vec<f64> = match operation {
        Write => vec![scale; length as usize],
        Read => load(params.a)?,
        Copy => load(params.b)?,
        Scale => load(params.b)?.iter().map(|b| scale * b).collect(),
        Add => pairs(&load(params.b)?, &load(params.c)?, |b, c| b + c),
        Triad => pairs(&load(params.b)?, &load(params.c)?, |b, c| b + scale * c),
        Dot => pairs(&load(params.a)?, &load(params.b)?, |a, b| a * b),
    };
    if wrong && let Some(last) = result.last_mut() {
        *last = *last * 1.5 + 1.0;
    }
    if !matches!(operation, Read | Dot) {
        return store_f64(memory, params.a, &result);
    }
    let blocks = u64::from(blocks);
    for block in 0..blocks {
        let [from, end] = [block, block + 1].map(|edge| (length * edge / blocks) as usize);
        let terms = &result[from..end];
        let sum = match operation {
            Read => f64::from_bits(
                terms.iter().fold(0, |sum: u64, term| sum.wrapping_add(term.to_bits())),
            ),
            _ => terms.iter().sum(),
        };
        store_f64(memory, params.partial + 64 * block, &[sum])?;
    }
    Ok(())
}

fn pairs(first: &[f64], second: &[f64], combine: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    first.iter().zip(second).map(|(&one, &other)| combine(one, other)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_read() {
        assert_eq!(Fake::parse(""), Ok(Fake::default()));
        for (fault, name) in Fault::ALL {
            assert_eq!(Fake::parse(name), Ok(Fake::with(fault)));
        }
        let slow = Fake { slowdown: 1.1, seed: 3, ..Fake::with(Fault::Throttling) };
        assert_eq!(Fake::parse("slow=1.1, seed=3,throttling"), Ok(slow));
        for wrong in ["slow=0", "slow=x", "seed=-1", "hung"] {
            let message = Fake::parse(wrong).expect_err(wrong).to_string();
            assert!(message.contains(wrong) && message.contains("launch-error"), "{message}");
        }
    }

    #[test]
    fn memory_is_bounded_and_freed() {
        let device = Fake::default().device();
        let whole = device.allocate(Bytes::GIB).map(|buffer| buffer.size);
        assert_eq!(whole, Ok(Bytes::GIB), "and dropped at once");
        let kept = device.allocate(Bytes(100)).expect("there is room");
        assert!(device.allocate(Bytes::GIB).is_err());
        assert!(device.write(&kept, Bytes(96), &[0; 8]).is_err(), "beyond its end");
        assert_eq!(kept.address % 64, 0);
    }
}
