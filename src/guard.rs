//! Whether a measurement can be believed: against the timer that took it, the least time that
//! physics allows, and the clock that it ran at.

use crate::{
    outcome::{Invalidity, Measurement, Outcome},
    record::Timer,
    spec::{self, Part, Properties, SpeedOfLight},
    units::{Megahertz, Seconds},
};

/// A median faster than the physical limit by more than this factor is not believed.
const FASTER_THAN_LIGHT: f64 = 1.02;

/// A sample shorter than this many steps of its timer is off by more than 5 %.
const TIMER_STEPS_MIN: f64 = 20.0;

/// A case is not believed if more than this share of its samples was throttled.
const THROTTLED_SHARE_MAX: f64 = 0.5;

/// What a measurement is judged by, beside itself.
pub struct Witness {
    /// The device's own timer.
    pub timer: Timer,
    /// The fastest clock seen. The limit is computed from it and not from the median clock, which
    /// would accuse an honest kernel of running faster than it can.
    pub clock_max: Option<Megahertz>,
}

/// Sets a measurement against the speed of light, and refuses what cannot be.
pub fn judge(
    mut measurement: Measurement,
    witness: Witness,
    properties: &Properties,
    part: Option<&Part>,
) -> Outcome {
    let (point, clock) = (measurement.case.point, measurement.clock);
    measurement.speed_of_light = spec::lights(&point, properties, part, clock);
    measurement.tier = spec::headline(&measurement.speed_of_light);
    let limit = spec::floor(&point, properties, part, witness.clock_max);
    match disbelief(&measurement, witness.timer, limit.as_ref()) {
        Some((invalidity, reason)) => {
            Outcome::Invalid { invalidity, reason, measurement: Box::new(measurement) }
        }
        None => Outcome::Measured(Box::new(measurement)),
    }
}

/// Why a measurement cannot be believed, if so.
fn disbelief(
    measurement: &Measurement,
    timer: Timer,
    limit: Option<&SpeedOfLight>,
) -> Option<(Invalidity, String)> {
    let median = measurement.summary.median;
    let region = median * f64::from(measurement.samples.batch);
    let step = timer.resolution.0.max(timer.overhead.0);
    if median.0 <= 0.0 || region.0 < TIMER_STEPS_MIN * step {
        let reason = format!(
            "samples of {region} are too short for a timer with steps and an overhead of {}",
            Seconds(step)
        );
        return Some((Invalidity::Unresolved, reason));
    }
    if let Some(limit) = limit
        && median.0 * FASTER_THAN_LIGHT < limit.time.0
    {
        let factor = limit.time / median;
        return Some((
            Invalidity::FasterThanLight,
            format!(
                "{median} is {factor:.2} times faster than {} can be: suspect work left out, a \
                 working set that fits a cache, a wrong byte count or a wrong clock",
                limit.bound
            ),
        ));
    }
    let throttled = measurement.samples.throttled.len();
    let count = measurement.samples.times.len();
    if throttled as f64 > THROTTLED_SHARE_MAX * count as f64 {
        let reason = format!("{throttled} of {count} samples were taken at a throttled clock");
        return Some((Invalidity::Throttled, reason));
    }
    None
}
