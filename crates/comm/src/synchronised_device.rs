//! The device of a rank among ranks in other processes: all start together, and what one sees all
//! agree on.

use super::Communicator;
use fizeau_device::{
    Buffer, Capabilities, Device, Fills, Function, Launch, RankTimes, Result, Timing,
};
use fizeau_domain::{
    case::KernelName,
    kernel::{Operation, Params},
    spec::Properties,
    stats::quantile,
    units::{Bytes, Megahertz, Seconds},
};
use std::cell::RefCell;

/// A device whose timed regions begin at a barrier and last until the slowest rank's has ended.
/// Every rank then takes the same decisions from the same times.
pub struct SynchronisedDevice<'t> {
    /// This rank's own.
    pub device: &'t dyn Device,
    /// The others.
    pub peers: &'t dyn Communicator,
    /// This rank's own times, since they were last asked for.
    own: RefCell<Vec<f64>>,
}

impl<'t> SynchronisedDevice<'t> {
    /// A device among others.
    pub fn new(device: &'t dyn Device, peers: &'t dyn Communicator) -> SynchronisedDevice<'t> {
        SynchronisedDevice { device, peers, own: RefCell::default() }
    }
}

impl Device for SynchronisedDevice<'_> {
    fn properties(&self) -> &Properties {
        self.device.properties()
    }
    fn kernels(&self, operation: Operation) -> Vec<KernelName> {
        self.device.kernels(operation)
    }
    fn allocate(&self, size: Bytes) -> Result<Buffer> {
        self.peers.works();
        self.device.allocate(size)
    }
    fn write(&self, buffer: &Buffer, offset: Bytes, bytes: &[u8]) -> Result<()> {
        self.peers.works();
        self.device.write(buffer, offset, bytes)
    }
    fn read(&self, buffer: &Buffer, offset: Bytes, bytes: &mut [u8]) -> Result<()> {
        self.peers.works();
        self.device.read(buffer, offset, bytes)
    }
    fn load(&self, operation: Operation, kernel: &KernelName) -> Result<Function> {
        self.peers.works();
        self.device.load(operation, kernel)
    }
    fn launch(&self, launch: &Launch<'_>) -> Result<()> {
        self.peers.works();
        self.device.launch(launch)
    }
    fn timed(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Timing> {
        self.peers.barrier()?;
        let timed = self.device.timed(work);
        self.peers.completed();
        let timing = timed.inspect_err(|error| self.peers.failed(error))?;
        // Infinite where a host was late: all ranks learn it by the one exchange, and measure
        // again.
        let time = if timing.host_was_late { f64::INFINITY } else { timing.time.0 };
        let slowest = self.peers.largest(time)?;
        let host_was_late = slowest.is_infinite();
        if host_was_late {
            return Ok(Timing { host_was_late, ..timing });
        }
        self.own.borrow_mut().push(timing.time.0);
        Ok(Timing { time: Seconds(slowest), ..timing })
    }
    fn tell_clock(&self, tells: bool) {
        self.device.tell_clock(tells);
    }
    fn rest(&self, time: Seconds) {
        self.device.rest(time);
    }
    fn evict_cache(&self) -> Result<()> {
        self.device.evict_cache()
    }
    fn set_deadline(&self, deadline: Seconds) {
        self.device.set_deadline(deadline);
    }
    fn takes(&self, function: &Function, params: &Params) -> Result<()> {
        self.device.takes(function, params)
    }
    fn observe_clock(&self) -> Result<Option<Megahertz>> {
        self.device.observe_clock()
    }
    fn fastest_clock(&self, units: u32) -> Option<Megahertz> {
        self.device.fastest_clock(units)
    }
    fn capabilities(&self) -> Capabilities<'_> {
        let Capabilities {
            remote_memory,
            fills,
            foreign_stream,
            reports,
            rank_times: _,
            threads,
            user_kernels,
            tunable,
        } = self.device.capabilities();
        let fills = fills.is_some().then_some(self as &dyn Fills);
        Capabilities {
            remote_memory,
            fills,
            foreign_stream,
            reports,
            rank_times: Some(self),
            threads,
            user_kernels,
            tunable,
        }
    }
}

impl Fills for SynchronisedDevice<'_> {
    fn fill(&self, buffer: &Buffer, offset: Bytes, pattern: &[u64], words: u64) -> Result<()> {
        self.peers.works();
        self.device.fill(buffer, offset, pattern, words)
    }
    fn differing(
        &self,
        buffer: &Buffer,
        offset: Bytes,
        pattern: &[u64],
        words: u64,
    ) -> Result<Option<u64>> {
        self.peers.works();
        self.device.differing(buffer, offset, pattern, words)
    }
}

impl RankTimes for SynchronisedDevice<'_> {
    fn rank_times(&self, last: usize) -> Result<Vec<Seconds>> {
        let own = self.own.take();
        let own = &own[own.len().saturating_sub(last)..];
        let median = if own.is_empty() { 0.0 } else { quantile::median(own) };
        let all = self.peers.all_gather_bytes(&median.to_le_bytes())?;
        let time = |bytes: Vec<u8>| bytes.try_into().map_or(f64::NAN, f64::from_le_bytes);
        Ok(all.into_iter().map(time).map(Seconds).collect())
    }
}
