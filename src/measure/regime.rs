//! The two states of power and heat in which work is timed.
//!
//! Under load a GPU's regulator of power lowers the clock in steps, tens of milliseconds after the
//! load began; a CPU leaves its turbo clock likewise. A time that was taken before the first step
//! and one taken after it are of two different machines. So a time is taken in one of two regimes,
//! and only times of the same regime are set beside each other.

use super::{Enqueue, region};
use fizeau_device::{Device, DeviceError, Timing, clock};
use fizeau_domain::{
    outcome::{Cache, Regime},
    suite::MeasureSettings,
    units::Seconds,
};

/// After a burst the device rests for this many times as long as it has worked: with a sixth of the
/// power that the work takes, on average, no regulator acts.
pub const REST: f64 = 5.0;

/// The untimed part of a burst, as a share of the timed one: pipelines and caches are warm then.
const LEAD: f64 = 0.25;

/// The load before settled samples. The steps of H100 and H200 under load are over after 120 ms
/// (docs/tuning.md).
pub const SETTLING: Seconds = Seconds(0.3);

/// Work that is timed: how it is put on the device, and the iterations of one sample.
pub struct Timed<'t, 'e> {
    /// Where it runs.
    pub device: &'t dyn Device,
    /// Puts iterations on it.
    pub enqueue: &'t mut Enqueue<'e>,
    /// The state of the caches before each sample. Cold samples have one iteration.
    pub cache: Cache,
    /// Iterations of a sample.
    pub batch: u32,
    /// For the deadline.
    pub settings: &'t MeasureSettings,
}

impl Timed<'_, '_> {
    fn region(&mut self, iterations: u32) -> Result<Timing, DeviceError> {
        region(self.device, self.enqueue, self.cache, iterations, self.settings)
    }

    /// Gets into the regime before its first sample: nothing for bursts, whose samples each bring
    /// their own state; for settled samples a load of [`SETTLING`]. Returns how long it worked.
    ///
    /// # Errors
    ///
    /// Whatever the device says, and [`DeviceError::Hang`] past the deadline.
    pub fn settle(&mut self, regime: Regime) -> Result<Seconds, DeviceError> {
        let mut spent = Seconds(0.0);
        let start = clock::now();
        // Both count: the load must be on the device, and work of no time would never end.
        while regime == Regime::Settled && spent < SETTLING && start.elapsed() < SETTLING * 4.0 {
            spent = spent + self.region(self.batch)?.time;
        }
        Ok(spent)
    }

    /// One sample in a regime: the time is that of the whole batch.
    ///
    /// # Errors
    ///
    /// As [`Timed::settle`].
    pub fn sample(&mut self, regime: Regime) -> Result<Timing, DeviceError> {
        if regime == Regime::Settled {
            return self.region(self.batch);
        }
        let lead = (f64::from(self.batch) * LEAD).ceil() as u32;
        let lead = self.region(lead.max(1))?.time;
        let timing = self.region(self.batch)?;
        clock::rest((lead + timing.time) * REST);
        Ok(timing)
    }
}
