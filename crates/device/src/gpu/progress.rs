//! How far the host is with what it times: shared with the threads that ask how far the device is.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// How far the host is with what is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing is timed.
    Idle,
    /// The host enqueues it.
    Enqueueing,
    /// All of it is enqueued, the event that marks its end included.
    Enqueued,
}

/// The [`Step`] that the host has reached, as another thread may read it: three steps for each
/// timed region, so that a number belongs to one region alone.
#[derive(Clone, Default)]
pub struct Progress(Arc<AtomicU64>);

/// Steps of a region.
const STEPS: u64 = 3;

impl Progress {
    /// The host begins to enqueue.
    pub fn enqueueing(&self) {
        self.go_on(1);
    }

    /// Everything is enqueued.
    pub fn enqueued(&self) {
        self.go_on(2);
    }

    /// The device has ended it.
    pub fn ended(&self) {
        self.go_on(0);
    }

    /// To the next step of this number. The host alone continues.
    fn go_on(&self, step: u64) {
        let mut next = self.0.load(Ordering::Acquire) + 1;
        while next % STEPS != step {
            next += 1;
        }
        self.0.store(next, Ordering::Release);
    }

    /// The step now.
    pub fn step(&self) -> Step {
        match self.0.load(Ordering::Acquire) % STEPS {
            0 => Step::Idle,
            1 => Step::Enqueueing,
            _ => Step::Enqueued,
        }
    }

    /// The timed region that the device works on, by a number that no other one has; none where it
    /// works on none, or the host still enqueues.
    pub fn in_flight(&self) -> Option<u64> {
        let step = self.0.load(Ordering::Acquire);
        (step % STEPS == 2).then_some(step)
    }
}
