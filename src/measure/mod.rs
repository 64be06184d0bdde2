//! Warm-up, sampling, stopping, and the clock.

pub mod clock;

use crate::record::Timer;

/// Calibrates the host's timer.
pub fn calibrate() -> Timer {
    Timer::default()
}
