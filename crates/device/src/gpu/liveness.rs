//! What another thread may ask of a device while work is in flight on it: whether it still answers,
//! and how far it is.
//!
//! How far it is, the two events around what is timed know, so that asking costs the measurement
//! nothing. Whether it answers, a few bytes set on a stream of their own tell: a device that only
//! waits for other ranks sets them at once.

#![expect(unsafe_code, reason = "the driver is a C library")]

use super::{
    context::{Context, For},
    driver::Driver,
    progress::{Progress, Step},
    status::Meaning,
};
use crate::{Buffer, Pulse, Result, Stage, library::Handle};
use fizeau_domain::units::Bytes;
use std::{
    rc::Rc,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

/// Between two looks whether the device has answered.
const PAUSE: Duration = Duration::from_millis(2);

/// The driver's objects that are asked.
struct Asked {
    context: Handle,
    /// Around what is timed.
    events: [Handle; 2],
    stream: Handle,
    answered: Handle,
    /// Four bytes of the device.
    word: u64,
}

// SAFETY: the driver takes its handles from any thread.
unsafe impl Send for Asked {}

/// Answers as long as it lives, and those that it has given away know when it does not.
pub struct LivenessProbe {
    driver: Arc<Driver>,
    asked: Arc<Mutex<Option<Asked>>>,
    progress: Progress,
    /// Its memory goes with it.
    _word: Buffer,
}

impl LivenessProbe {
    /// Makes what will be asked now, while the device does answer.
    pub fn new(context: &Rc<Context>) -> Result<LivenessProbe> {
        let word = context.allocate(Bytes(4))?;
        let (mut stream, mut answered) = (std::ptr::null_mut(), std::ptr::null_mut());
        let f = context.current()?;
        let flags = context.driver().vendor.flags;
        // SAFETY: the pointers are valid.
        unsafe {
            context.told(f.stream_create(&raw mut stream, flags.non_blocking), For::Other)?;
            context.told(f.event_create(&raw mut answered, 0), For::Other)?;
        }
        let asked = Asked {
            context: context.context,
            events: [context.events[0], context.events[1]],
            stream,
            answered,
            word: word.address,
        };
        Ok(LivenessProbe {
            driver: Arc::clone(&context.driver),
            asked: Arc::new(Mutex::new(Some(asked))),
            progress: context.progress.clone(),
            _word: word,
        })
    }

    /// What another thread may ask.
    pub fn pulse(&self) -> Pulse {
        let (driver, asked) = (Arc::clone(&self.driver), Arc::clone(&self.asked));
        let progress = self.progress.clone();
        Arc::new(move || {
            let asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.as_ref().map_or(Stage::Unknown, |asked| asked.stage(&driver, progress.step()))
        })
    }
}

impl Asked {
    /// Comes back once the device has answered, or refused to.
    fn stage(&self, driver: &Driver, step: Step) -> Stage {
        let f = &driver.functions;
        // SAFETY: all of these live until `LivenessProbe` is dropped, which waits for the lock.
        let sent = unsafe {
            f.context_set(self.context)
                .and_then(|()| f.set(self.word, 1, 4, self.stream))
                .and_then(|()| f.event_record(self.answered, self.stream))
        };
        if sent.is_err() {
            return Stage::Silent;
        }
        loop {
            match is_done(driver, self.answered) {
                Some(true) => break,
                Some(false) => thread::sleep(PAUSE),
                None => return Stage::Silent,
            }
        }
        let [start, end] = self.events;
        let reached = match step {
            // Copies and what ranks agree by have the event of their end alone.
            Step::Idle => match is_done(driver, end) {
                Some(true) => return Stage::Ended,
                other => other.map(|_| true),
            },
            Step::Enqueueing => is_done(driver, start),
            Step::Enqueued => match is_done(driver, end) {
                Some(true) => return Stage::Ended,
                _ => is_done(driver, start),
            },
        };
        match reached {
            Some(true) => Stage::Begun,
            Some(false) => Stage::NotBegun,
            None => Stage::Silent,
        }
    }
}

/// Whether the device is past an event; none where the driver refuses to say.
fn is_done(driver: &Driver, event: Handle) -> Option<bool> {
    // SAFETY: the event lives, as above.
    match unsafe { driver.functions.event_query(event) } {
        Ok(()) => Some(true),
        Err(refusal) if driver.vendor.means(&refusal, Meaning::NotReady) => Some(false),
        Err(_) => None,
    }
}

impl Drop for LivenessProbe {
    fn drop(&mut self) {
        // Held by whoever asks a device that does not answer: then the process is about to end.
        let Ok(mut asked) = self.asked.try_lock() else { return };
        let Some(Asked { stream, answered, .. }) = asked.take() else { return };
        let f = &self.driver.functions;
        // SAFETY: each was made once and is destroyed once. A refusal at the end helps nobody.
        unsafe {
            let _ = f.event_destroy(answered);
            let _ = f.stream_destroy(stream);
        }
    }
}
