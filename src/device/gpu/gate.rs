//! Holds the stream until everything that is timed has been enqueued.
//!
//! A launch takes the host a few microseconds. Kernels shorter than that would be timed as long as
//! their launches take, had the first of them not to wait for the last to be enqueued. A kernel
//! that looks at a word of the host's memory holds them; it gives up by itself after a while, so
//! that no mistake on the host's side holds it for ever.

#![expect(unsafe_code, reason = "the device reads a word of the host's memory")]

use super::{
    context::{Barrier, Context},
    kernels::{Kernels, Loaded},
    memory::Pinned,
};
use crate::{
    device::{Buffer, DeviceError},
    kernel::{HoldParams, Operation},
    units::Bytes,
};
use std::rc::Rc;

/// The gate gives up after so long. Enqueueing takes far less ([`Context::HELD_MAX`] launches).
const LIMIT_NANOSECONDS: u64 = 50_000_000;

/// A gate that can be closed again and again.
pub struct Gate {
    kernel: Loaded,
    params: HoldParams,
    word: Rc<Word>,
    _waited: Buffer,
}

impl Gate {
    /// Makes one.
    ///
    /// # Errors
    ///
    /// Where the kernel or the memory cannot be had.
    pub fn new(kernels: &Kernels, context: &Rc<Context>) -> Result<Gate, DeviceError> {
        let kernel = kernels.load(context, Operation::Hold, "portable")?;
        let word = Rc::new(Word(context.pinned(size_of::<u32>())?));
        let waited = context.allocate(Bytes(8))?;
        let params = HoldParams {
            released: word.0.on_device,
            limit: LIMIT_NANOSECONDS,
            waited: waited.address,
        };
        Ok(Gate { kernel, params, word, _waited: waited })
    }

    /// Holds what is enqueued from now on. The context opens the gate when it has enqueued as much
    /// as its queue is sure to take.
    ///
    /// # Errors
    ///
    /// What the driver refuses.
    pub fn close(&self, context: &Context) -> Result<(), DeviceError> {
        self.word.set(0);
        self.kernel.launch_plain(context, 1, &self.params)?;
        let word: Rc<Word> = Rc::clone(&self.word);
        context.hold(word);
        Ok(())
    }
}

/// The word of the host's memory that the kernel waits for: 0 while the gate is closed.
struct Word(Pinned);

impl Word {
    fn set(&self, value: u32) {
        // SAFETY: the word is the host's memory, as large and aligned; the device reads it
        // meanwhile, so that it is written as one.
        unsafe { self.0.on_host.cast::<u32>().write_volatile(value) };
    }
}

impl Barrier for Word {
    fn open(&self) {
        self.set(1);
    }
}
