//! One opened GPU: a context, a stream, memory, events.
//!
//! Work is enqueued on one stream of our own and timed by two events around it. Whoever waits,
//! waits by asking: a kernel that never ends is then an error after its deadline and no process
//! that cannot be ended. After a hang, an uncorrectable error or a fault that breaks the context
//! nothing of the device is touched again, not even to free it: calls into a broken context may
//! wait without end, and the driver cleans up when the process ends.

#![expect(unsafe_code, reason = "the driver is a C library")]

use super::{driver::Driver, progress::Progress, status::Meaning, table::Functions};
use crate::{
    DeviceError, Result, Stream, clock,
    library::{Handle, Refusal},
};
use fizeau_domain::{
    kernel::TransferParams,
    units::{Bytes, Seconds},
};
use std::{
    cell::{Cell, RefCell},
    ffi::c_int,
    rc::Rc,
    sync::Arc,
};

/// Events are asked for without a pause so long, then with one.
const SPIN: Seconds = Seconds(0.002);
const PAUSE: std::time::Duration = std::time::Duration::from_micros(50);

/// A context with its stream.
pub struct Context {
    pub(super) driver: Arc<Driver>,
    /// The driver's handle of the device.
    pub(super) device: c_int,
    pub(super) context: Handle,
    pub(super) stream: Handle,
    /// Start and end of what is timed, and the end of what runs beside it.
    pub(super) events: [Handle; 3],
    pub(super) progress: Progress,
    deadline: Cell<Seconds>,
    /// Why nothing more is asked of it.
    lost: RefCell<Option<String>>,
    /// What holds the stream, and how much was enqueued since then.
    held: RefCell<Option<Rc<dyn Barrier>>>,
    enqueued: Cell<u32>,
    pub(super) ordinal: u32,
    /// Other devices, and streams of this one and of those.
    pub(super) peers: RefCell<Vec<Peer>>,
    pub(super) lanes: RefCell<Vec<Lane>>,
    /// Addresses of the host's memory that is not held in place.
    pub(super) pageable: RefCell<Vec<u64>>,
}

/// Another device, with memory that this one reaches.
pub(super) struct Peer {
    pub ordinal: u32,
    pub device: c_int,
    pub context: Handle,
}

/// A stream of a device, and the event that tells its end.
pub(super) struct Lane {
    pub of: (u32, u32),
    pub context: Handle,
    pub stream: Handle,
    pub event: Handle,
    pub used: bool,
}

/// What holds a stream until the host opens it.
pub trait Barrier {
    /// Lets the stream continue.
    fn open(&self);
}

/// What a call was for: names the error that its refusal becomes.
#[derive(Clone, Copy)]
pub enum For<'k> {
    /// Memory of `size` bytes.
    Memory(u64),
    /// This kernel.
    Kernel(&'k str),
    /// Anything else.
    Other,
}

impl Context {
    /// Makes the device's primary context current, with a stream and two events.
    pub fn open(driver: Arc<Driver>, ordinal: u32) -> Result<Context> {
        let device = driver.device(ordinal)?;
        let null = std::ptr::null_mut();
        let f = Arc::clone(&driver);
        // Filled in step by step, so that `drop` frees what was made before a step was refused.
        let mut opened = Context {
            driver,
            device,
            context: null,
            stream: null,
            events: [null; 3],
            progress: Progress::default(),
            deadline: Cell::new(Seconds(30.0)),
            lost: RefCell::new(None),
            held: RefCell::new(None),
            enqueued: Cell::new(0),
            ordinal,
            peers: RefCell::default(),
            lanes: RefCell::default(),
            pageable: RefCell::default(),
        };
        let f = &f.functions;
        // SAFETY: the pointers are valid.
        unsafe {
            let said = f.context_retain(&raw mut opened.context, device);
            opened.told(said, For::Other)?;
            opened.told(f.context_set(opened.context), For::Other)?;
            let flags = opened.driver.vendor.flags;
            let said = f.stream_create(&raw mut opened.stream, flags.non_blocking);
            opened.told(said, For::Other)?;
            for at in 0..opened.events.len() {
                let said = f.event_create(&raw mut opened.events[at], 0);
                opened.told(said, For::Other)?;
            }
        }
        Ok(opened)
    }

    /// The driver.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// How much of the last-level cache is set aside; none where the driver does not say.
    pub fn cache_set_aside(&self) -> Option<Bytes> {
        let limit = self.driver.vendor.set_aside?;
        let mut bytes = 0;
        // SAFETY: the pointer is valid.
        unsafe { self.current().ok()?.limit(&raw mut bytes, limit) }.ok()?;
        Some(Bytes(bytes as u64))
    }

    /// How long whoever waits will wait.
    pub fn set_deadline(&self, deadline: Seconds) {
        self.deadline.set(deadline);
    }

    /// A refusal as the error it means, remembered where nothing can come after it.
    pub(super) fn told(&self, said: Result<(), Refusal>, what: For<'_>) -> Result<()> {
        let Err(refusal) = said else { return Ok(()) };
        let vendor = self.driver.vendor;
        let Refusal::Code { call, code } = refusal else {
            return Err(vendor.error(&refusal));
        };
        let why = format!("{call}: {}", vendor.words(code));
        let meaning = vendor.meaning(code);
        if matches!(meaning, Meaning::Broken | Meaning::Gone) {
            self.lost.replace(Some(why.clone()));
        }
        Err(match (meaning, what) {
            (Meaning::Gone, _) => DeviceError::Lost(why),
            (_, For::Memory(size)) => DeviceError::Allocation { size: Bytes(size), why },
            (Meaning::OutOfMemory, _) => DeviceError::Allocation { size: Bytes(0), why },
            (Meaning::TooLarge, For::Kernel(kernel)) => DeviceError::Launch {
                kernel: kernel.into(),
                why: format!(
                    "{why}: give its blocks fewer threads or less shared memory, or have the \
                     compiler spend fewer registers, as __launch_bounds__ makes it"
                ),
            },
            (_, For::Kernel(kernel)) => DeviceError::Launch { kernel: kernel.into(), why },
            (Meaning::Broken, For::Other) => {
                DeviceError::Launch { kernel: "in flight".into(), why }
            }
            (_, For::Other) => vendor.error(&refusal),
        })
    }

    /// The functions, with this context current; an error where the device is lost.
    pub(super) fn current(&self) -> Result<&Functions> {
        if let Some(why) = &*self.lost.borrow() {
            return Err(DeviceError::Lost(format!(
                "nothing more can run in this process after: {why}"
            )));
        }
        let functions = &self.driver.functions;
        // SAFETY: the context was retained and is released by `drop` alone.
        self.told(unsafe { functions.context_set(self.context) }, For::Other)?;
        Ok(functions)
    }

    /// Memory that is not in use, and all of it.
    pub fn memory(&self) -> Result<[Bytes; 2]> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the pointers are valid.
        let said = unsafe { self.current()?.memory_info(&raw mut free, &raw mut total) };
        self.told(said, For::Other)?;
        Ok([free, total].map(|bytes| Bytes(bytes as u64)))
    }

    /// Waits until all that was enqueued is done.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Hang`] past the deadline; what a kernel did wrong.
    pub fn wait(&self, what: &str) -> Result<()> {
        // Nothing else would let the stream continue.
        self.release();
        self.record(1)?;
        self.wait_for_event(1, what)
    }

    fn record(&self, event: usize) -> Result<()> {
        // SAFETY: event and stream are of this context.
        let said = unsafe { self.current()?.event_record(self.events[event], self.stream) };
        self.told(said, For::Other)
    }

    fn wait_for_event(&self, event: usize, what: &str) -> Result<()> {
        let functions = self.current()?;
        let start = clock::now();
        loop {
            // SAFETY: the event is of this context.
            match unsafe { functions.event_query(self.events[event]) } {
                Err(refusal) if self.driver.vendor.means(&refusal, Meaning::NotReady) => {}
                said => return self.told(said, For::Other),
            }
            let waited = start.elapsed();
            let limit = self.deadline.get();
            if waited > limit {
                self.lost.replace(Some(format!("no answer within {limit}")));
                return Err(DeviceError::Hang { what: what.into(), limit });
            }
            if waited > SPIN {
                std::thread::sleep(PAUSE);
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Launches after which a held stream continues, whether or not more are to come: with
    /// its queue full the driver would make the host wait for the device.
    pub const HELD_MAX: u32 = 512;

    /// The stream is held from now on, until `barrier` is opened.
    pub fn hold(&self, barrier: Rc<dyn Barrier>) {
        self.enqueued.set(0);
        self.held.replace(Some(barrier));
    }

    /// Lets the stream continue, where it is held.
    pub(super) fn release(&self) {
        if let Some(barrier) = self.held.take() {
            barrier.open();
        }
    }

    /// Runs work between two events, waits for its end, and gives the time between the events.
    ///
    /// # Errors
    ///
    /// What the work or the driver refuses; [`DeviceError::Hang`] past the deadline.
    pub fn timed(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Seconds> {
        self.progress.enqueueing();
        let enqueued = self
            .record(0)
            .and_then(|()| work())
            .and_then(|()| self.join_lanes(false))
            .and_then(|_| self.record(1));
        self.release();
        enqueued?;
        self.progress.enqueued();
        self.wait_for_event(1, "kernels in flight")?;
        self.progress.ended();
        // What went on beside it ends before anything else is timed.
        if self.join_lanes(true)? {
            self.record(2)?;
            self.wait_for_event(2, "copies beside what was timed")?;
        }
        let mut milliseconds = 0.0;
        let [start, end, _] = self.events;
        // SAFETY: both events were recorded and are done.
        let said = unsafe { self.current()?.event_elapsed(&raw mut milliseconds, start, end) };
        self.told(said, For::Other)?;
        Ok(Seconds(f64::from(milliseconds) / 1e3))
    }

    /// What is timed ends when all lanes have ended that are timed; what comes after it, when those
    /// have that are not. Whether there was one.
    pub fn join_lanes(&self, not_timed: bool) -> Result<bool> {
        let used: Vec<[Handle; 3]> = self
            .lanes
            .borrow_mut()
            .iter_mut()
            .filter(|lane| lane.used && (lane.of.1 & TransferParams::NOT_TIMED != 0) == not_timed)
            .map(|lane| {
                lane.used = false;
                [lane.context, lane.stream, lane.event]
            })
            .collect();
        let some = !used.is_empty();
        for [context, stream, event] in used {
            let f = self.current()?;
            // SAFETY: all are alive.
            unsafe {
                self.told(f.context_set(context), For::Other)?;
                self.told(f.event_record(event, stream), For::Other)?;
                self.told(f.context_set(self.context), For::Other)?;
                self.told(f.stream_wait(self.stream, event, 0), For::Other)?;
            }
        }
        Ok(some)
    }

    /// Frees lanes and peers, at the end.
    pub(super) fn free_lanes(&self) {
        let f = &self.driver().functions;
        for lane in self.lanes.borrow_mut().drain(..) {
            // SAFETY: each is destroyed once. A refusal at the end helps nobody.
            unsafe {
                let _ = f.context_set(lane.context);
                if !lane.event.is_null() {
                    let _ = f.event_destroy(lane.event);
                }
                if !lane.stream.is_null() {
                    let _ = f.stream_destroy(lane.stream);
                }
            }
        }
        for peer in self.peers.borrow_mut().drain(..) {
            // SAFETY: retained once, released once.
            let _ = unsafe { f.context_release(peer.device) };
        }
    }

    /// Lets another library enqueue on the stream, in this context.
    ///
    /// # Errors
    ///
    /// What the other library refuses; that the device is lost.
    pub fn foreign(&self, enqueue: &mut dyn FnMut(Stream) -> Result<()>) -> Result<()> {
        self.current()?;
        enqueue(Stream(self.stream))?;
        self.enqueued_one();
        Ok(())
    }

    /// Counts what was enqueued, and lets a held stream continue before its queue is full.
    pub(super) fn enqueued_one(&self) {
        self.enqueued.set(self.enqueued.get() + 1);
        if self.enqueued.get() >= Context::HELD_MAX {
            self.release();
        }
    }

    /// Forgets which lines of the last-level cache were set aside to stay.
    ///
    /// # Errors
    ///
    /// What the driver refuses; a device without the feature is no error.
    pub fn reset_persisting(&self) -> Result<()> {
        // SAFETY: the call takes nothing.
        match unsafe { self.current()?.persisting_reset() } {
            Err(Refusal::NoSymbol(_)) => Ok(()),
            Err(refusal) if self.driver.vendor.means(&refusal, Meaning::NotSupported) => Ok(()),
            said => self.told(said, For::Other),
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.lost.borrow().is_some() {
            return;
        }
        self.free_lanes();
        let f = &self.driver.functions;
        // SAFETY: each is destroyed once, null ones not at all. A refusal at the end of everything
        // helps nobody.
        unsafe {
            for event in self.events.iter().filter(|event| !event.is_null()) {
                let _ = f.event_destroy(*event);
            }
            if !self.stream.is_null() {
                let _ = f.stream_destroy(self.stream);
            }
            if !self.context.is_null() {
                let _ = f.context_release(self.device);
            }
        }
    }
}
