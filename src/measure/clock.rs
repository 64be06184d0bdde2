//! The only place that reads the host's clock.

use crate::units::Seconds;
use std::time::Instant;

/// A moment.
#[derive(Clone, Copy, Debug)]
pub struct Moment(Instant);

/// Now.
pub fn now() -> Moment {
    Moment(Instant::now())
}

impl Moment {
    /// Time since.
    pub fn elapsed(self) -> Seconds {
        Seconds(self.0.elapsed().as_secs_f64())
    }
}
