//! Warm-up, sampling, and stopping.
//!
//! A sample is one batch of iterations divided by its length. The batch is found while warming up:
//! it is doubled until it lasts long enough for the timer not to matter. Cold samples are never
//! batched, since only the first iteration of a batch would be cold.

pub mod regime;
pub mod stop;
pub mod tuning;

use self::regime::Timed;
use fizeau_comm::{Alone, Communicator, Rank};
use fizeau_device::{Device, DeviceError, Timing, clock};
use fizeau_domain::{
    outcome::{Cache, Regime, Samples, Warmup},
    stats::quantile,
    suite::MeasureSettings,
    text::counted,
    units::{Megahertz, Seconds},
};
use fizeau_record::Timer;

/// What is timed: `enqueue(repeat)` puts that many iterations on the device, back to back.
pub type Enqueue<'e> = dyn FnMut(u32) -> Result<(), DeviceError> + 'e;

/// Samples, and what was seen of the clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    /// The samples.
    pub samples: Samples,
    /// The regime that they were taken in.
    pub regime: Option<Regime>,
    /// Clock in each sample where the device tells, else between them every now and then.
    pub clocks: Vec<Megahertz>,
    /// Whether each of them is that of a sample.
    pub clocks_of_samples: bool,
}

/// What the warm-up found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ready {
    /// Iterations of one sample.
    pub batch: u32,
    /// What was run to find it.
    pub warmup: Warmup,
    /// How long a sample takes: the last region of the warm-up.
    pub lasts: Seconds,
}

/// Warm-up times are judged in windows of this length: settled when the medians of two windows in a
/// row differ by less than this share.
const WINDOW: usize = 3;
const SETTLED: f64 = 0.02;

/// A batch is never longer: an empty iteration would ask for an endless one.
const BATCH_MAX: u32 = 1 << 30;

/// A batch grows at most eightfold at once: the first iterations are the slowest, and mislead.
const BATCH_GROWTH_MAX: f64 = 8.0;

/// Time between two looks at the clock of a device that does not tell it for each sample; a look
/// takes a hundredth of it.
const CLOCK_EVERY: Seconds = Seconds(0.02);

/// Empty regions timed to know a device's own timer.
const EMPTY_REGIONS: usize = 101;

/// The timer that a device's samples are taken with: smallest step seen and median of empty timed
/// regions.
///
/// # Errors
///
/// Whatever the device says.
pub fn calibrate_on(device: &dyn Device) -> Result<Timer, DeviceError> {
    let empty = || device.timed(&mut || Ok(())).map(|timing| timing.time.0);
    let readings = (0..EMPTY_REGIONS).map(|_| empty()).collect::<Result<Vec<f64>, _>>()?;
    Ok(clock::timer_of(&readings))
}

/// Finds the batch and runs until times have settled or the budget is spent.
///
/// # Errors
///
/// Whatever the device says, and [`DeviceError::Hang`] past the deadline.
pub fn warm_up(
    Rank { device, peers }: Rank<'_>,
    enqueue: &mut Enqueue<'_>,
    cache: Cache,
    settings: &MeasureSettings,
) -> Result<Ready, DeviceError> {
    let (mut batch, mut iterations, mut spent) = (1u32, 0u32, Seconds(0.0));
    let start = clock::now();
    let mut window = [0.0; WINDOW];
    let mut filled = 0;
    let mut before: Option<f64> = None;
    loop {
        let time = region(device, enqueue, cache, batch, settings)?.time;
        iterations = iterations.saturating_add(batch);
        spent = spent + time;
        let over = longer(spent, agreed(peers, start.elapsed())?) >= settings.warmup_max;
        // The budget does not end this: a batch cut short by a busy host would time its launches.
        // At most 30 regions are needed, each shorter than a sample.
        if cache == Cache::Hot && time < settings.sample_min && batch < BATCH_MAX {
            let wanted = settings.sample_min / Seconds(time.0.max(1e-9)) * 1.1;
            let factor = wanted.clamp(2.0, BATCH_GROWTH_MAX);
            batch = ((f64::from(batch) * factor) as u32).min(BATCH_MAX);
            (filled, before) = (0, None);
            continue;
        }
        let mut settled = false;
        window[filled] = time.0;
        filled = (filled + 1) % WINDOW;
        if filled == 0 {
            let median = quantile::median(&window);
            settled = before.is_some_and(|before| (median - before).abs() <= SETTLED * before);
            before = Some(median);
        }
        if settled || over {
            let warmup = Warmup { iterations, time: spent, settled };
            return Ok(Ready { batch, warmup, lasts: time });
        }
    }
}

/// Samples in a regime, after so much of the same load before the warm-up, until the settings say
/// stop. The budget counts what passes between samples too:
/// evicting caches can take a thousand times longer than what is measured.
///
/// # Errors
///
/// Whatever the device says, and [`DeviceError::Hang`] past the deadline.
pub fn sample(
    Rank { device, peers }: Rank<'_>,
    enqueue: &mut Enqueue<'_>,
    cache: Cache,
    Ready { batch, warmup, lasts }: Ready,
    (regime, before): (Option<Regime>, Seconds),
    settings: &MeasureSettings,
) -> Result<Taken, DeviceError> {
    let mut times = Vec::with_capacity(settings.samples_max as usize);
    let mut clocks = Vec::with_capacity(settings.samples_max as usize);
    let (mut throttled, mut clocks_of_samples) = (Vec::new(), true);
    let mut spent = Seconds(0.0);
    let mut rule = stop::Rule::new(settings);
    let mut timed = Timed { device, enqueue, cache, batch, lasts, settings };
    if let Some(regime) = regime {
        timed.begin(regime, before + warmup.time)?;
    }
    let (start, mut looked) = (clock::now(), clock::now());
    let stop = loop {
        let timing = timed.sample(regime.unwrap_or(Regime::Settled))?;
        if timing.throttled {
            throttled.push(times.len() as u32);
        }
        times.push(timing.time * (1.0 / f64::from(batch)));
        clocks.extend(timing.clock);
        clocks_of_samples &= timing.clock.is_some();
        if timing.clock.is_none() && looked.elapsed() > CLOCK_EVERY {
            clocks.extend(device.observe_clock()?);
            looked = clock::now();
        }
        spent = spent + timing.time;
        if let Some(reason) = rule.stop(&times, longer(spent, agreed(peers, start.elapsed())?)) {
            break reason;
        }
    };
    Ok(Taken {
        samples: Samples { times, batch, throttled, warmup, stop },
        regime,
        clocks,
        clocks_of_samples,
    })
}

/// How often a region is timed whose host was late, before that is a failure of its own.
const ATTEMPTS: u32 = 5;

/// One timed region, with cold caches if so asked. A region that comes back after the deadline
/// counts as hung: what is measured next to it would be no better. One whose host was late is timed
/// again.
fn region(
    device: &dyn Device,
    enqueue: &mut Enqueue<'_>,
    cache: Cache,
    batch: u32,
    settings: &MeasureSettings,
) -> Result<Timing, DeviceError> {
    for _ in 0..ATTEMPTS {
        if cache == Cache::Cold {
            device.evict_cache()?;
        }
        let timing = device.timed(&mut || enqueue(batch))?;
        if timing.host_was_late {
            continue;
        }
        if timing.time.0 <= 0.0 {
            // Short work on a coarse timer, or a clock that stands still: nothing would ever end.
            clock::check()?;
        }
        if timing.time > settings.deadline {
            let what = format!("{} took {}", counted(batch as usize, "iteration"), timing.time);
            return Err(DeviceError::Hang { what, limit: settings.deadline });
        }
        return Ok(timing);
    }
    Err(DeviceError::Driver(format!(
        "the host was too slow to enqueue {} before the device had to begin, \
         {ATTEMPTS} times in a row: leave more of its cores to fizeau",
        counted(batch as usize, "iteration")
    )))
}

/// The longest time that a rank has seen, so that all ranks take the same decisions.
fn agreed(peers: &dyn Communicator, seen: Seconds) -> Result<Seconds, DeviceError> {
    peers.largest(seen.0).map(Seconds)
}

fn longer(one: Seconds, other: Seconds) -> Seconds {
    if one > other { one } else { other }
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
///
/// # Errors
///
/// Whatever the device says.
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
        regime: None,
        beside: None,
    };
    let rank = Rank { device, peers: &Alone };
    let measure = |known: Seconds| {
        let mut work = |_: u32| {
            if known.0 > 0.0 {
                clock::spin(known)?;
            }
            Ok(())
        };
        let ready = warm_up(rank, &mut work, Cache::Hot, &settings)?;
        let taken = sample(rank, &mut work, Cache::Hot, ready, (None, Seconds(0.0)), &settings)?;
        let times: Vec<f64> = taken.samples.times.iter().map(|time| time.0).collect();
        Ok(KnownDuration { known, found: Seconds(quantile::median(&times)) })
    };
    [0.0, 10e-6, 100e-6, 1e-3].map(Seconds).into_iter().map(measure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fizeau_device::{Backend, host::Host};

    const SETTINGS: MeasureSettings = MeasureSettings {
        samples_min: 10,
        samples_max: 20,
        noise_max: 0.01,
        time_min: Seconds(0.0),
        time_max: Seconds(0.1),
        warmup_max: Seconds(0.1),
        sample_min: Seconds(1e-4),
        deadline: Seconds(10.0),
        regime: None,
        beside: None,
    };

    /// How near, `fizeau doctor` says of the machine it runs on. Other work here can only lengthen
    /// a spin, so what always holds is that nothing is found too short, and that the best of
    /// several attempts is not off by what the harness must never add.
    #[test]
    fn known_durations_are_found() {
        let device = Host.open(0).expect("there is always a host");
        let mut best = [f64::INFINITY; 4];
        for _ in 0..10 {
            for (best, duration) in best.iter_mut().zip(&self_test(device.as_ref()).expect("spins"))
            {
                assert!(duration.found >= duration.known, "{duration:?}");
                *best = best.min(duration.found.0 - duration.known.0);
            }
        }
        assert!(best[0] < 1e-5, "an empty iteration took {} s", best[0]);
        assert!(best[3] < 1e-4, "1 ms is off by {} s", best[3]);
    }

    #[test]
    fn an_empty_iteration_is_batched_until_nothing_is_left_of_the_timer() {
        let device = Host.open(0).expect("there is always a host");
        let rank = Rank { device: device.as_ref(), peers: &Alone };
        let ready = warm_up(rank, &mut |_| Ok(()), Cache::Hot, &SETTINGS);
        let ready = ready.expect("nothing can fail");
        let taken =
            sample(rank, &mut |_| Ok(()), Cache::Hot, ready, (None, Seconds(0.0)), &SETTINGS);
        let times: Vec<f64> =
            taken.expect("nor here").samples.times.iter().map(|time| time.0).collect();
        assert_eq!(ready.batch, BATCH_MAX);
        assert!(quantile::median(&times) < 1e-12, "{times:?}");
    }

    /// A host that is busy while it warms up spends its budget before the batch is found. Samples
    /// of a shorter batch would be as long as launches take.
    #[test]
    fn a_batch_is_found_whatever_the_budget() {
        let device = Host.open(0).expect("there is always a host");
        let rank = Rank { device: device.as_ref(), peers: &Alone };
        let spent = MeasureSettings { warmup_max: Seconds(0.0), ..SETTINGS };
        let ready = warm_up(rank, &mut |_| Ok(()), Cache::Hot, &spent).expect("nothing can fail");
        assert_eq!(ready.batch, BATCH_MAX);
    }

    /// An eviction takes milliseconds: work of a microsecond would settle for minutes.
    #[test]
    fn settling_with_cold_caches_ends() {
        let device = fizeau_device::fake::Fake::default().device();
        let mut work = |_| Ok(());
        let rank = Rank { device: &device, peers: &Alone };
        let ready = warm_up(rank, &mut work, Cache::Cold, &SETTINGS).expect("no fault");
        let before = device.evictions();
        let settled = (Some(Regime::Settled), Seconds(0.0));
        let taken = sample(rank, &mut work, Cache::Cold, ready, settled, &SETTINGS);
        let samples = taken.expect("no fault").samples.times.len() as u64;
        assert_eq!(device.evictions() - before, 200 + samples);
    }

    #[test]
    fn cold_samples_are_evicted_each_and_never_batched() {
        let device = fizeau_device::fake::Fake::default().device();
        let mut repeats = Vec::new();
        let mut work = |repeat| {
            repeats.push(repeat);
            Ok(())
        };
        let rank = Rank { device: &device, peers: &Alone };
        let ready = warm_up(rank, &mut work, Cache::Cold, &SETTINGS).expect("no fault");
        let taken = sample(rank, &mut work, Cache::Cold, ready, (None, Seconds(0.0)), &SETTINGS)
            .expect("no fault");
        assert!(repeats.iter().all(|&repeat| repeat == 1));
        let warmups = ready.warmup.iterations as usize;
        assert_eq!(device.evictions() as usize, warmups + taken.samples.times.len());
    }
}
