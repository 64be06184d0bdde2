//! The device of a rank among ranks in other processes: all start together, and what one sees all
//! agree on.

use super::Communicator;
use crate::{
    case::KernelName,
    device::{Buffer, Device, DeviceError, Function, Launch, Timing},
    outcome::Telemetry,
    record::Environment,
    spec::Properties,
    units::{Bytes, Megahertz, Seconds},
};

/// A device whose timed regions begin at a barrier and last until the slowest rank's has ended.
/// Every rank then takes the same decisions from the same times.
pub struct Together<'t> {
    /// This rank's own.
    pub device: &'t dyn Device,
    /// The others.
    pub peers: &'t dyn Communicator,
}

impl Device for Together<'_> {
    fn properties(&self) -> &Properties {
        self.device.properties()
    }
    fn kernels(&self, operation: &str) -> Vec<KernelName> {
        self.device.kernels(operation)
    }
    fn allocate(&self, size: Bytes) -> Result<Buffer, DeviceError> {
        self.device.allocate(size)
    }
    fn write(&self, buffer: &Buffer, offset: Bytes, bytes: &[u8]) -> Result<(), DeviceError> {
        self.device.write(buffer, offset, bytes)
    }
    fn read(&self, buffer: &Buffer, offset: Bytes, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.device.read(buffer, offset, bytes)
    }
    fn load(&self, operation: &str, kernel: &KernelName) -> Result<Function, DeviceError> {
        self.device.load(operation, kernel)
    }
    fn launch(&self, launch: &Launch<'_>) -> Result<(), DeviceError> {
        self.device.launch(launch)
    }
    fn timed(
        &self,
        work: &mut dyn FnMut() -> Result<(), DeviceError>,
    ) -> Result<Timing, DeviceError> {
        self.peers.barrier()?;
        let timing = self.device.timed(work)?;
        Ok(Timing { time: self.agree(timing.time)?, ..timing })
    }
    fn evict_cache(&self) -> Result<(), DeviceError> {
        self.device.evict_cache()
    }
    fn set_deadline(&self, deadline: Seconds) {
        self.device.set_deadline(deadline);
    }
    fn telemetry(&self) -> Option<Telemetry> {
        self.device.telemetry()
    }
    fn describe(&self, environment: &mut Environment) {
        self.device.describe(environment);
    }
    fn observe_clock(&self) -> Result<Option<Megahertz>, DeviceError> {
        self.device.observe_clock()
    }
    fn agree(&self, seen: Seconds) -> Result<Seconds, DeviceError> {
        self.peers.largest(seen.0).map(Seconds)
    }
}
