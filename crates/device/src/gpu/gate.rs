//! Holds the stream until everything that is timed has been enqueued.
//!
//! A launch takes the host a few microseconds. Kernels shorter than that would be timed as long as
//! their launches take, had the first of them not to wait for the last to be enqueued. A kernel
//! that looks at a word of the host's memory holds them; it gives up by itself after a while, so
//! that no mistake on the host's side holds it without end. How long it held is read afterwards: a
//! region whose gate gave up was perhaps timed as long as its launches took, and is timed again.

#![expect(unsafe_code, reason = "the device reads a word of the host's memory")]

use super::{
    context::{Barrier, Context},
    kernels::{Kernels, Loaded},
    memory::Pinned,
};
use crate::Result;
use fizeau_domain::kernel::{HoldParams, Operation};
use std::rc::Rc;

/// The gate gives up after so long. Enqueueing takes far less ([`Context::HELD_MAX`] launches).
const LIMIT_NANOSECONDS: u64 = 50_000_000;

/// The gate's memory: the word that opens it, and from this byte on the nanoseconds that it held.
const WAITED: usize = 8;

/// A gate that can be closed again and again.
pub struct Gate {
    kernel: Loaded,
    params: HoldParams,
    word: Rc<Word>,
}

impl Gate {
    /// Makes one.
    ///
    /// # Errors
    ///
    /// Where the kernel or the memory cannot be had.
    pub fn new(kernels: &Kernels, context: &Rc<Context>) -> Result<Gate> {
        let kernel = kernels.load(context, Operation::Hold, "portable")?;
        let word = Rc::new(Word(context.pinned(WAITED + size_of::<u64>())?));
        let params = HoldParams {
            released: word.0.on_device,
            limit: LIMIT_NANOSECONDS,
            waited: word.0.on_device + WAITED as u64,
        };
        Ok(Gate { kernel, params, word })
    }

    /// Holds what is enqueued from now on. The context opens the gate when it has enqueued as much
    /// as its queue is sure to take.
    pub fn close(&self, context: &Context) -> Result<()> {
        self.word.set(0);
        self.word.forget_wait();
        self.kernel.launch_plain(context, 1, &self.params)?;
        let word: Rc<Word> = Rc::clone(&self.word);
        context.hold(word);
        Ok(())
    }

    /// Whether the gate that was closed last gave up before the host opened it. To be asked when
    /// the stream is known to be past it.
    pub fn gave_up(&self) -> bool {
        self.word.waited() >= LIMIT_NANOSECONDS
    }
}

/// The word of the host's memory that the kernel waits for: 0 while the gate is closed. Behind it
/// stands how long the kernel waited.
struct Word(Pinned);

impl Word {
    fn set(&self, value: u32) {
        // SAFETY: the word is the host's memory, as large and aligned; the device reads it
        // meanwhile, so that it is written as one.
        unsafe { self.0.on_host.cast::<u32>().write_volatile(value) };
    }

    fn waited_at(&self) -> *mut u64 {
        self.0.on_host.cast::<u8>().wrapping_add(WAITED).cast()
    }

    fn forget_wait(&self) {
        // SAFETY: eight bytes of the gate's own memory, aligned; no gate is in flight.
        unsafe { self.waited_at().write_volatile(0) };
    }

    fn waited(&self) -> u64 {
        // SAFETY: as above; the kernel that writes them has ended.
        unsafe { self.waited_at().read_volatile() }
    }
}

impl Barrier for Word {
    fn open(&self) {
        self.set(1);
    }
}
