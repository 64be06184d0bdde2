//! How far the host is with what it times: shared with the threads that ask how far the device is.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
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

/// The [`Step`] that the host has reached, as another thread may read it.
#[derive(Clone, Default)]
pub struct Progress(Arc<AtomicU8>);

impl Progress {
    /// The host begins to enqueue.
    pub fn enqueueing(&self) {
        self.0.store(1, Ordering::Release);
    }

    /// Everything is enqueued.
    pub fn enqueued(&self) {
        self.0.store(2, Ordering::Release);
    }

    /// The device has ended it.
    pub fn ended(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// The step now.
    pub fn step(&self) -> Step {
        match self.0.load(Ordering::Acquire) {
            0 => Step::Idle,
            1 => Step::Enqueueing,
            _ => Step::Enqueued,
        }
    }
}
