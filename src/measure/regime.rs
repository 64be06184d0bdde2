//! The two states of power and heat in which work is timed.
//!
//! Under load a GPU's regulator of power lowers the clock in steps, tens of milliseconds after the
//! load began; a CPU leaves its turbo clock likewise. A time that was taken before the first step
//! and one taken after it are of two different machines. So a time is taken in one of two regimes,
//! and only times of the same regime are set beside each other.

use super::{Enqueue, region};
use fizeau_device::{Device, DeviceError, Timing};
use fizeau_domain::{
    outcome::{Cache, Regime},
    suite::MeasureSettings,
    units::Seconds,
};

/// After a burst the device rests for this many times as long as it has worked: with a sixth of the
/// power that the work takes, on average, no regulator acts.
pub const REST: f64 = 5.0;

/// The longest rest. It undoes 20 ms of work, after which an H100 or H200 lowers its clock; what
/// takes longer has steps of the clock within each sample, the same in all of them.
pub const REST_MAX: Seconds = Seconds(0.1);

/// The load before settled samples. The steps of H100 and H200 under load are over after 120 ms.
pub const SETTLING: Seconds = Seconds(0.3);

/// The rest after settled samples, so that what comes next begins as if it were the first.
pub const RECOVERY: Seconds = Seconds(0.5);

/// The untimed part of a burst, as a share of the timed one: pipelines and caches are warm then.
const LEAD: f64 = 0.25;

/// Work that lasts so long needs no untimed part.
const LEAD_MAX: Seconds = Seconds(0.001);

/// The longest warm-up before bursts, after which the device rests.
pub const WARM_UP: Seconds = Seconds(0.01);

/// Regions of settling, at most: work that takes no time would never end.
const SETTLING_REGIONS: u32 = 100_000;

/// The same with cold caches, whose eviction before each region is a load of its own and can take a
/// thousand times longer.
const SETTLING_EVICTIONS: u32 = 200;

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
    /// How long they take, about.
    pub lasts: Seconds,
    /// For the deadline.
    pub settings: &'t MeasureSettings,
}

impl Timed<'_, '_> {
    fn region(&mut self, iterations: u32) -> Result<Timing, DeviceError> {
        region(self.device, self.enqueue, self.cache, iterations, self.settings)
    }

    /// Gets into the regime before its first sample, after so much work: a rest before bursts, the
    /// rest of [`SETTLING`] before settled samples.
    ///
    /// # Errors
    ///
    /// Whatever the device says, and [`DeviceError::Hang`] past the deadline.
    pub fn begin(&mut self, regime: Regime, worked: Seconds) -> Result<(), DeviceError> {
        if regime == Regime::Burst {
            self.rest(worked);
            return Ok(());
        }
        let mut spent = worked;
        let regions = match self.cache {
            Cache::Hot => SETTLING_REGIONS,
            Cache::Cold => SETTLING_EVICTIONS,
        };
        for _ in 0..regions {
            if spent >= SETTLING {
                break;
            }
            spent = spent + self.region(self.batch)?.time;
        }
        Ok(())
    }

    /// One sample in a regime: the time is that of the whole batch.
    ///
    /// # Errors
    ///
    /// As [`Timed::begin`].
    pub fn sample(&mut self, regime: Regime) -> Result<Timing, DeviceError> {
        if regime == Regime::Settled {
            return self.region(self.batch);
        }
        let mut worked = Seconds(0.0);
        if self.cache == Cache::Hot && self.lasts < LEAD_MAX {
            let lead = (f64::from(self.batch) * LEAD).ceil() as u32;
            worked = self.region(lead.max(1))?.time;
        }
        let timing = self.region(self.batch)?;
        self.rest(worked + timing.time);
        Ok(timing)
    }

    fn rest(&self, worked: Seconds) {
        self.device.rest(Seconds((worked.0 * REST).min(REST_MAX.0)));
    }
}

/// The regime that a case can be timed in, where one is asked for. Ranks that work together are
/// settled: between bursts each of them would wait for the slowest.
pub fn possible(asked: Option<Regime>, processes: u32) -> Option<Regime> {
    asked.map(|regime| if processes > 1 { Regime::Settled } else { regime })
}
