//! Warm-up, sampling, stopping, and the clock.

pub mod clock;
