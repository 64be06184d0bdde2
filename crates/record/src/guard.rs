//! Whether a measurement can be believed: against the timer that took it, the least time that
//! physics allows, and the clock that it ran at.

use crate::Timer;
use fizeau_domain::{
    outcome::{Cache, Invalidity, Measurement, Outcome},
    spec::{self, Properties, SpeedOfLight, Yardstick},
    units::{Megahertz, Seconds},
};

/// A median faster than the physical limit by more than this factor is not believed.
pub const FASTER_THAN_LIGHT: f64 = 1.02;

/// A sample shorter than this many steps of its timer is off by more than 5 %.
const TIMER_STEPS_MIN: f64 = 20.0;

/// A case is not believed if more than this share of its samples was throttled.
const THROTTLED_SHARE_MAX: f64 = 0.5;

/// What a measurement is judged by, beside itself.
pub struct Witness {
    /// The device's own timer.
    pub timer: Timer,
    /// The fastest clock seen, of a host in the whole run so far. The limit is computed from it and
    /// not from the median clock, which would accuse an honest kernel of running faster than it
    /// can.
    pub clock_max: Option<Megahertz>,
    /// Copies of the operands that iterations took in turn.
    pub copies: u32,
}

/// Sets a measurement against the speed of light, and refuses what cannot be. The samples in the
/// other state of the caches, which a report shows beside the headline, must be possible too.
pub fn judge(
    mut measurement: Measurement,
    witness: Witness,
    properties: &Properties,
    yardstick: &Yardstick,
) -> Outcome {
    let (point, clock) = (measurement.case.point, measurement.clock);
    let is_hot = |cache: Cache| cache == Cache::Hot;
    let conditions = yardstick.conditions(clock, is_hot(measurement.cache));
    measurement.speed_of_light =
        spec::lights(&point, properties, yardstick.part.as_ref(), &conditions);
    measurement.tier =
        spec::tier_of_share(&measurement.speed_of_light, &point, properties, conditions.hot);
    let limit = |cache| {
        let mut conditions = yardstick.conditions(witness.clock_max, is_hot(cache));
        if witness.copies > 1 && cache == Cache::Cold {
            // Nothing evicts a cache while copies take turns: it may keep a part of each.
            (conditions.hot, conditions.copies) = (true, witness.copies);
        }
        spec::floor(&point, properties, yardstick.most.as_ref(), &conditions)
    };
    let beside = measurement.contrast.as_ref().and_then(|contrast| {
        let why = too_fast(contrast.summary.median, limit(contrast.cache).as_ref()?)?;
        Some((Invalidity::FasterThanLight, format!("with {} caches, {why}", contrast.cache)))
    });
    let other_regime = measurement.beside.as_ref().and_then(|one| {
        let why = too_fast(one.summary.median, limit(measurement.cache).as_ref()?)?;
        Some((Invalidity::FasterThanLight, format!("{} by regime, {why}", one.regime)))
    });
    let disbelief = disbelief(&measurement, witness.timer, limit(measurement.cache).as_ref())
        .or(beside)
        .or(other_regime);
    match disbelief {
        Some((invalidity, reason)) => {
            Outcome::Invalid { invalidity, reason, measurement: Box::new(measurement) }
        }
        None => Outcome::Measured(Box::new(measurement)),
    }
}

/// Why a time is faster than a limit, if it is.
fn too_fast(median: Seconds, limit: &SpeedOfLight) -> Option<String> {
    let factor = limit.time / median;
    (factor > FASTER_THAN_LIGHT).then(|| {
        format!(
            "{median} is {factor:.2} times faster than {} can be: suspect work left out, a \
             working set that fits a cache, a wrong byte count or a wrong clock",
            limit.bound
        )
    })
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
        let reason = match median.0 <= 0.0 {
            true => "no time passed between the readings of the timer".to_owned(),
            false => format!(
                "samples of {region} are too short for a timer that is only sure to {}",
                Seconds(step)
            ),
        };
        return Some((Invalidity::Unresolved, reason));
    }
    if let Some(why) = limit.and_then(|limit| too_fast(median, limit)) {
        return Some((Invalidity::FasterThanLight, why));
    }
    let throttled = measurement.samples.throttled.len();
    let count = measurement.samples.times.len();
    if throttled as f64 > THROTTLED_SHARE_MAX * count as f64 {
        let reason = format!("{throttled} of {count} samples were taken at a throttled clock");
        return Some((Invalidity::Throttled, reason));
    }
    None
}
