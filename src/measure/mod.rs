//! Warm-up, sampling, stopping, and the clock.
//!
//! A sample is one batch of iterations divided by its length. The batch is found while warming up:
//! it is doubled until it lasts long enough for the timer not to matter. Cold samples are never
//! batched, since only the first iteration of a batch would be cold.

pub mod clock;
pub mod stop;

pub use clock::calibrate;

use crate::{
    device::{Device, DeviceError},
    outcome::{Cache, Samples, Warmup},
    suite::MeasureSettings,
    units::{Megahertz, Seconds},
};

/// What is timed: `enqueue(repeat)` puts that many iterations on the device, back to back.
pub type Enqueue<'e> = dyn FnMut(u32) -> Result<(), DeviceError> + 'e;

/// Samples, and what the device said of its clock in each.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    /// The samples.
    pub samples: Samples,
    /// Clock in each sample, where the device tells.
    pub clocks: Vec<Megahertz>,
}

/// Two warm-up times that differ by less have settled.
const SETTLED: f64 = 0.05;

/// A batch is never longer, so that a sample cannot exceed its time budget by a misjudged start.
const BATCH_MAX: u32 = 1 << 30;

/// Warms up and samples until the settings say stop.
pub fn sample(
    device: &dyn Device,
    enqueue: &mut Enqueue<'_>,
    cache: Cache,
    settings: &MeasureSettings,
) -> Result<Taken, DeviceError> {
    let (batch, warmup) = warm_up(device, enqueue, cache, settings)?;
    let mut times = Vec::with_capacity(settings.samples_max as usize);
    let mut clocks = Vec::with_capacity(settings.samples_max as usize);
    let mut throttled = Vec::new();
    let mut spent = Seconds(0.0);
    let mut rule = stop::Rule::new(settings);
    let stop = loop {
        if cache == Cache::Cold {
            device.evict_cache()?;
        }
        let timing = device.timed(&mut || enqueue(batch))?;
        if timing.throttled {
            throttled.push(times.len() as u32);
        }
        times.push(timing.time * (1.0 / f64::from(batch)));
        clocks.extend(timing.clock);
        spent = spent + timing.time;
        if let Some(reason) = rule.stop(&times, spent) {
            break reason;
        }
    };
    Ok(Taken { samples: Samples { times, batch, throttled, warmup, stop }, clocks })
}

/// Finds the batch and runs until two times agree or the budget is spent.
fn warm_up(
    device: &dyn Device,
    enqueue: &mut Enqueue<'_>,
    cache: Cache,
    settings: &MeasureSettings,
) -> Result<(u32, Warmup), DeviceError> {
    let (mut batch, mut iterations, mut spent) = (1u32, 0u32, Seconds(0.0));
    let mut before: Option<Seconds> = None;
    loop {
        if cache == Cache::Cold {
            device.evict_cache()?;
        }
        let time = device.timed(&mut || enqueue(batch))?.time;
        iterations = iterations.saturating_add(batch);
        spent = spent + time;
        let over = spent >= settings.warmup_max;
        if cache == Cache::Hot && time < settings.sample_min && batch < BATCH_MAX && !over {
            // Towards the goal by the time just seen, but never more than eightfold: the first
            // iterations are the slowest.
            let wanted = settings.sample_min / Seconds(time.0.max(1e-9)) * 1.1;
            let factor = wanted.clamp(2.0, 8.0);
            batch = ((f64::from(batch) * factor) as u32).min(BATCH_MAX);
            before = None;
            continue;
        }
        let settled = before.is_some_and(|before| (time.0 - before.0).abs() < SETTLED * before.0);
        if settled || over {
            return Ok((batch, Warmup { iterations, time: spent, settled }));
        }
        before = Some(time);
    }
}

/// How well the harness measures what is known beforehand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KnownDuration {
    /// What was to be measured; zero: nothing at all.
    pub known: Seconds,
    /// The median found.
    pub found: Seconds,
}

/// Measures durations that are known: nothing, and spins of 10 us, 100 us and 1 ms, through the
/// same path as every case, unbatched.
pub fn self_test(device: &dyn Device) -> Result<Vec<KnownDuration>, DeviceError> {
    let settings = MeasureSettings {
        samples_min: 101,
        samples_max: 101,
        noise_max: 0.0,
        time_min: Seconds(0.0),
        time_max: Seconds(1.0),
        warmup_max: Seconds(0.01),
        sample_min: Seconds(0.0),
        deadline: Seconds(10.0),
    };
    let durations = [0.0, 10e-6, 100e-6, 1e-3].map(Seconds);
    let measure = |known: Seconds| {
        let mut work = |_: u32| {
            if known.0 > 0.0 {
                clock::spin(known);
            }
            Ok(())
        };
        let taken = sample(device, &mut work, Cache::Hot, &settings)?;
        let times: Vec<f64> = taken.samples.times.iter().map(|time| time.0).collect();
        Ok(KnownDuration { known, found: Seconds(crate::stats::quantile::median(&times)) })
    };
    durations.into_iter().map(measure).collect()
}
