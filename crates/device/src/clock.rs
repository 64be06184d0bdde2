//! The only place that reads the host's clock.

use fizeau_domain::{stats::quantile, units::Seconds};
use fizeau_record::Timer;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A moment.
#[derive(Clone, Copy, Debug)]
pub struct Moment(Instant);

/// Now.
#[inline]
pub fn now() -> Moment {
    Moment(Instant::now())
}

impl Moment {
    /// Time since.
    #[inline]
    pub fn elapsed(self) -> Seconds {
        Seconds(self.0.elapsed().as_secs_f64())
    }
}

/// The clock shows the same moment however often it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the monotonic clock (CLOCK_MONOTONIC) stands still, so that nothing can be timed: run without \
     libraries that fake the time (LD_PRELOAD), or look at \
     /sys/devices/system/clocksource/clocksource0/current_clocksource"
)]
pub struct Stopped;

/// A clock that shows the same moment in as many readings as this has stopped. They take 50 to
/// 200 ms, and the coarsest clocks of Linux step every 10 ms.
const READINGS_MAX: u32 = 4_000_000;

/// Whether time passes at all.
///
/// # Errors
///
/// [`Stopped`] where it does not.
pub fn check() -> Result<(), Stopped> {
    let start = now();
    spin_by(|| start.elapsed(), Seconds(f64::MIN_POSITIVE))
}

/// Keeps this thread busy for a time.
///
/// # Errors
///
/// [`Stopped`] where no time passes.
pub fn spin(time: Seconds) -> Result<(), Stopped> {
    let start = now();
    spin_by(|| start.elapsed(), time)
}

/// Spins until a clock that begins at zero shows a time.
fn spin_by(elapsed: impl Fn() -> Seconds, time: Seconds) -> Result<(), Stopped> {
    let (mut last, mut same) = (Seconds(0.0), 0);
    loop {
        let now = elapsed();
        if now >= time {
            return Ok(());
        }
        same = if now > last { 0 } else { same + 1 };
        if same > READINGS_MAX {
            return Err(Stopped);
        }
        last = now;
        std::hint::spin_loop();
    }
}

/// Leaves the CPU to others for so long.
pub fn rest(time: Seconds) {
    std::thread::sleep(std::time::Duration::from_secs_f64(time.0));
}

/// The CPU time that this process has used, by all of its threads.
pub fn cpu_time() -> Seconds {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Seconds(time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9)
}

/// The time of day in UTC, as RFC 3339 writes it: `2026-11-21T07:32:22Z`.
pub fn utc_now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    rfc3339(since.as_secs())
}

/// The same with milliseconds: `2026-11-21T07:32:22.125Z`.
pub fn utc_now_with_milliseconds() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let whole = rfc3339(since.as_secs());
    format!("{}.{:03}Z", whole.trim_end_matches('Z'), since.subsec_millis())
}

/// The date of the day after today in UTC: `2026-11-22`.
pub fn utc_tomorrow() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    rfc3339(since.as_secs() + 86_400)[..10].to_owned()
}

/// Seconds since 1970 as RFC 3339 in UTC. Days to civil date by Howard Hinnant's algorithm
/// (`chrono`-compatible low-level date algorithms, 2013).
fn rfc3339(seconds: u64) -> String {
    let (days, rest) = ((seconds / 86_400) as i64, seconds % 86_400);
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Calibrates the timer: the smallest step it shows, and the median of an empty timed region.
pub fn calibrate() -> Timer {
    const READINGS: usize = 2_001;
    let empty: Vec<f64> = (0..READINGS).map(|_| now().elapsed().0).collect();
    timer_of(&empty)
}

/// The timer that read these times of empty regions, at least one. Its step is the smallest
/// distance between two readings or between one and zero: a fast timer steps between readings.
pub fn timer_of(empty: &[f64]) -> Timer {
    let sorted = quantile::sorted(empty);
    let between = sorted.windows(2).map(|pair| pair[1] - pair[0]);
    let steps = sorted.iter().copied().chain(between).filter(|&step| step > STEP_MIN);
    let step = steps.fold(f64::INFINITY, f64::min);
    let resolution = if step.is_finite() { step } else { 0.0 };
    Timer { resolution: Seconds(resolution), overhead: Seconds(quantile::median(empty)) }
}

/// Steps below a picosecond are rounding of the subtraction.
const STEP_MIN: f64 = 1e-12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timer_is_known_by_its_empty_regions() {
        let timer = timer_of(&[30e-9, 20e-9, 20e-9, 40e-9, 20e-9]);
        assert!((timer.resolution.0 - 10e-9).abs() < 1e-15, "{timer:?}");
        assert_eq!(timer.overhead, Seconds(20e-9));
        assert_eq!(timer_of(&[0.0; 5]), Timer::default(), "a timer that does not move");
    }

    #[test]
    fn a_clock_that_stands_still_ends_a_spin() {
        let readings = std::cell::Cell::new(0);
        // Steps of a tenth of a second, each after many readings, up to a last one.
        let clock = |last: u32| {
            let readings = &readings;
            readings.set(0);
            move || {
                readings.set(readings.get() + 1);
                Seconds(f64::from((readings.get() / 1_000).min(last)) / 10.0)
            }
        };
        assert_eq!(spin_by(clock(10), Seconds(1.0)), Ok(()));
        assert_eq!(spin_by(clock(9), Seconds(1.0)), Err(Stopped));
        assert_eq!(spin_by(clock(0), Seconds(1e-9)), Err(Stopped));
        assert!(readings.get() <= READINGS_MAX + 2, "{}", readings.get());
        assert_eq!(spin_by(clock(0), Seconds(0.0)), Ok(()));
        assert_eq!((check(), spin(Seconds(1e-5))), (Ok(()), Ok(())));
    }

    #[test]
    fn dates_are_civil() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(4_107_542_400), "2100-03-01T00:00:00Z");
    }
}
