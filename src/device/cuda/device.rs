//! One opened GPU: a context, a stream, memory, events.
//!
//! Work is enqueued on one stream of our own and timed by two events around it. Whoever waits,
//! waits by asking: a kernel that never ends is then an error after its deadline and no process
//! that cannot be ended. After a hang, an uncorrectable error or a fault that breaks the context
//! nothing of the device is touched again, not even to free it: calls into a broken context may
//! wait for ever, and the driver cleans up when the process ends.

#![expect(unsafe_code, reason = "the driver is a C library")]

use super::{
    code::{self, Meaning, NOT_READY},
    driver::{CLUSTER_DIMENSION, Driver, Handle, LaunchAttribute, LaunchConfig, TensorMap},
    gate::{self, Gate},
    lane::{Lane, Peer},
    module::{Entry, Params, Shape},
    pulse::Flight,
    tensor_map::Encoding,
};
use crate::{
    clock,
    device::{Buffer, DeviceError, Stream, library::Refusal},
    units::{Bytes, Seconds},
};
use std::{
    cell::{Cell, RefCell},
    ffi::{c_int, c_uint, c_void},
    rc::Rc,
    sync::Arc,
};

/// Events are asked for without a pause so long, then with one.
const SPIN: Seconds = Seconds(0.002);
const PAUSE: std::time::Duration = std::time::Duration::from_micros(50);

/// A context with its stream.
pub struct Context {
    driver: Arc<Driver>,
    device: c_int,
    context: Handle,
    stream: Handle,
    events: [Handle; 2],
    flight: Flight,
    deadline: Cell<Seconds>,
    /// Why nothing more is asked of it.
    lost: RefCell<Option<String>>,
    /// The word that holds the stream, and how much was enqueued since it does.
    held: RefCell<Option<Rc<Pinned>>>,
    enqueued: Cell<u32>,
    ordinal: u32,
    /// Other devices, and streams of this one and of those.
    pub(super) peers: RefCell<Vec<Peer>>,
    pub(super) lanes: RefCell<Vec<Lane>>,
}

/// What a call was for: names the error that its refusal becomes.
#[derive(Clone, Copy)]
pub enum For<'k> {
    /// Memory of so many bytes.
    Memory(u64),
    /// This kernel.
    Kernel(&'k str),
    /// Anything else.
    Other,
}

impl Context {
    /// Makes the device's primary context current, with a stream and two events.
    ///
    /// # Errors
    ///
    /// What the driver refuses.
    pub fn open(driver: Arc<Driver>, ordinal: u32) -> Result<Context, DeviceError> {
        let device = driver.device(ordinal)?;
        let null = std::ptr::null_mut();
        let f = Arc::clone(&driver);
        // Filled in step by step, so that `drop` frees what was made before a step was refused.
        let mut opened = Context {
            driver,
            device,
            context: null,
            stream: null,
            events: [null; 2],
            flight: Flight::default(),
            deadline: Cell::new(Seconds(30.0)),
            lost: RefCell::new(None),
            held: RefCell::new(None),
            enqueued: Cell::new(0),
            ordinal,
            peers: RefCell::default(),
            lanes: RefCell::default(),
        };
        let f = &f.functions;
        // SAFETY: the pointers are valid.
        unsafe {
            let said = f.context_retain(&raw mut opened.context, device);
            opened.told(said, For::Other)?;
            opened.told(f.context_set(opened.context), For::Other)?;
            let said = f.stream_create(&raw mut opened.stream, STREAM_NON_BLOCKING);
            opened.told(said, For::Other)?;
            for at in 0..2 {
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

    /// The driver's handle of the device, its number, context and stream, and the event that tells
    /// the start of what is timed.
    pub(super) fn device(&self) -> c_int {
        self.device
    }
    pub(super) fn ordinal(&self) -> u32 {
        self.ordinal
    }
    pub(super) fn own(&self) -> Handle {
        self.context
    }
    pub(super) fn stream(&self) -> Handle {
        self.stream
    }
    pub(super) fn started(&self) -> Handle {
        self.events[0]
    }
    pub(super) fn events(&self) -> [Handle; 2] {
        self.events
    }
    pub(super) fn shared_driver(&self) -> Arc<Driver> {
        Arc::clone(&self.driver)
    }
    pub(super) fn flight(&self) -> Flight {
        self.flight.clone()
    }

    /// How much of the last-level cache is set aside; none where the driver does not say.
    pub fn cache_set_aside(&self) -> Option<Bytes> {
        let mut bytes = 0;
        // SAFETY: the pointer is valid.
        unsafe { self.current().ok()?.limit(&raw mut bytes, PERSISTING_SIZE) }.ok()?;
        Some(Bytes(bytes as u64))
    }

    /// How long whoever waits will wait.
    pub fn set_deadline(&self, deadline: Seconds) {
        self.deadline.set(deadline);
    }

    /// A refusal as the error it means, remembered where nothing can come after it.
    pub(super) fn told(&self, said: Result<(), Refusal>, what: For<'_>) -> Result<(), DeviceError> {
        let Err(refusal) = said else { return Ok(()) };
        let vendor = self.driver.vendor;
        let Refusal::Code { call, code } = refusal else {
            return Err(code::error(vendor, &refusal));
        };
        let why = format!("{call}: {}", code::words(vendor, code));
        let meaning = code::meaning(code);
        if matches!(meaning, Meaning::Broken | Meaning::Gone) {
            self.lost.replace(Some(why.clone()));
        }
        Err(match (meaning, what) {
            (Meaning::Gone, _) => DeviceError::Lost(why),
            (_, For::Memory(size)) => DeviceError::Allocation { size: Bytes(size), why },
            (Meaning::OutOfMemory, _) => DeviceError::Allocation { size: Bytes(0), why },
            (_, For::Kernel(kernel)) => DeviceError::Launch { kernel: kernel.into(), why },
            (Meaning::Broken, For::Other) => {
                DeviceError::Launch { kernel: "in flight".into(), why }
            }
            (_, For::Other) => code::error(vendor, &refusal),
        })
    }

    /// The functions, with this context current; an error where the device is lost.
    pub(super) fn current(&self) -> Result<&super::driver::Functions, DeviceError> {
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
    ///
    /// # Errors
    ///
    /// What the driver refuses.
    pub fn memory(&self) -> Result<[Bytes; 2], DeviceError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the pointers are valid.
        let said = unsafe { self.current()?.memory_info(&raw mut free, &raw mut total) };
        self.told(said, For::Other)?;
        Ok([free, total].map(|bytes| Bytes(bytes as u64)))
    }

    /// Memory, zeroed.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Allocation`] where there is not so much.
    pub fn allocate(self: &Rc<Context>, size: Bytes) -> Result<Buffer, DeviceError> {
        let mut address = 0;
        // The driver refuses to allocate nothing.
        let bytes = size.0.max(1) as usize;
        let f = self.current()?;
        // SAFETY: the pointer is valid.
        let said = unsafe { f.allocate(&raw mut address, bytes) };
        self.told(said, For::Memory(size.0))?;
        let owner = Memory { context: Rc::clone(self), address };
        // SAFETY: the memory was just allocated with this size.
        self.told(unsafe { f.set(address, 0, bytes, self.stream) }, For::Other)?;
        Ok(Buffer { address, size, owner: Box::new(owner) })
    }

    /// Copies bytes to an address and waits.
    ///
    /// # Errors
    ///
    /// What the driver refuses.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        // SAFETY: the caller's range lies within a buffer; the bytes live until the wait is over.
        let said = unsafe {
            self.current()?.to_device(address, bytes.as_ptr().cast(), bytes.len(), self.stream)
        };
        self.told(said, For::Other)?;
        self.wait("a copy to the device")
    }

    /// Copies bytes from an address and waits.
    ///
    /// # Errors
    ///
    /// What the driver refuses.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        // SAFETY: as in `write`.
        let said = unsafe {
            let bytes_at = bytes.as_mut_ptr().cast();
            self.current()?.to_host(bytes_at, address, bytes.len(), self.stream)
        };
        self.told(said, For::Other)?;
        self.wait("a copy from the device")
    }

    /// Sets bytes, without waiting.
    ///
    /// # Errors
    ///
    /// What the driver refuses.
    pub fn set(&self, buffer: &Buffer, value: u8) -> Result<(), DeviceError> {
        let size = buffer.size.0 as usize;
        // SAFETY: the buffer is of this size.
        let said = unsafe { self.current()?.set(buffer.address, value, size, self.stream) };
        self.told(said, For::Other)
    }

    /// Waits until all that was enqueued is done.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Hang`] past the deadline; what a kernel did wrong.
    pub fn wait(&self, what: &str) -> Result<(), DeviceError> {
        // Nobody else would let the stream go on.
        self.release();
        self.record(1)?;
        self.wait_for_event(what)
    }

    fn record(&self, event: usize) -> Result<(), DeviceError> {
        // SAFETY: event and stream are of this context.
        let said = unsafe { self.current()?.event_record(self.events[event], self.stream) };
        self.told(said, For::Other)
    }

    fn wait_for_event(&self, what: &str) -> Result<(), DeviceError> {
        let functions = self.current()?;
        let start = clock::now();
        loop {
            // SAFETY: the event is of this context.
            match unsafe { functions.event_query(self.events[1]) } {
                Err(Refusal::Code { code: NOT_READY, .. }) => {}
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

    /// Launches after which a stream that is held goes on, whether or not more are to come: with
    /// its queue full the driver would make the host wait for the device.
    pub const HELD_MAX: u32 = 512;

    /// A word holds the stream from now on.
    pub fn hold(&self, word: Rc<Pinned>) {
        self.enqueued.set(0);
        self.held.replace(Some(word));
    }

    /// Lets the stream go on, where it is held.
    fn release(&self) {
        if let Some(word) = self.held.take() {
            gate::open(&word);
        }
    }

    /// Runs work between two events behind a gate, if there is one, waits for its end, and gives
    /// the time between the events.
    ///
    /// # Errors
    ///
    /// What the work or the driver refuses; [`DeviceError::Hang`] past the deadline.
    pub fn timed(
        &self,
        gate: Option<&Gate>,
        work: &mut dyn FnMut() -> Result<(), DeviceError>,
    ) -> Result<Seconds, DeviceError> {
        if let Some(gate) = gate {
            gate.close(self)?;
        }
        self.flight.boards();
        let enqueued = self
            .record(0)
            .and_then(|()| work())
            .and_then(|()| self.join_lanes())
            .and_then(|()| self.record(1));
        self.release();
        enqueued?;
        self.flight.departs();
        self.wait_for_event("kernels in flight")?;
        self.flight.lands();
        let mut milliseconds = 0.0;
        let [start, end] = self.events;
        // SAFETY: both events were recorded and are done.
        let said = unsafe { self.current()?.event_elapsed(&raw mut milliseconds, start, end) };
        self.told(said, For::Other)?;
        Ok(Seconds(f64::from(milliseconds) / 1e3))
    }

    /// Enqueues a kernel `repeat` times.
    ///
    /// # Errors
    ///
    /// What the driver refuses.
    pub fn launch(
        &self,
        entry: &Entry,
        shape: &Shape,
        params: &mut Params,
        repeat: u32,
    ) -> Result<(), DeviceError> {
        self.launch_on(self.stream, entry, shape, params, repeat)
    }

    /// The same on another stream of this device.
    ///
    /// # Errors
    ///
    /// What the driver refuses.
    pub fn launch_on(
        &self,
        stream: Handle,
        entry: &Entry,
        shape: &Shape,
        params: &mut Params,
        repeat: u32,
    ) -> Result<(), DeviceError> {
        let functions = self.current()?;
        let [x, y, z] = shape.cluster;
        let mut value = [0; 16];
        value[..3].copy_from_slice(&[x, y, z]);
        let cluster = LaunchAttribute { id: CLUSTER_DIMENSION, padding: [0; 4], value };
        let config = LaunchConfig {
            grid: shape.grid,
            block: [shape.threads, 1, 1],
            shared: shape.shared,
            stream,
            attributes: &raw const cluster,
            attribute_count: c_uint::from(shape.cluster != [1, 1, 1]),
        };
        let mut size = params.length;
        let mut extra = [
            PARAM_BUFFER_POINTER as Handle,
            params.words.as_mut_ptr().cast(),
            PARAM_BUFFER_SIZE as Handle,
            (&raw mut size).cast(),
            self.driver.vendor.extras_end as Handle,
        ];
        let [x, y, z] = shape.grid;
        for _ in 0..repeat {
            // SAFETY: the parameters are as long as is said, the list of extras ends with a zero,
            // and the driver copies both before it returns.
            let said = unsafe {
                let (null, extra) = (std::ptr::null_mut(), extra.as_mut_ptr());
                let (entry, threads, shared) = (entry.function, shape.threads, shape.shared);
                if self.driver.vendor.has_attributes {
                    functions.launch(&raw const config, entry, null, extra)
                } else {
                    functions
                        .launch_plain(entry, x, y, z, threads, 1, 1, shared, stream, null, extra)
                }
            };
            self.told(said, For::Kernel(&entry.name))?;
            self.enqueued_one();
        }
        Ok(())
    }

    /// Lets another library enqueue on the stream, in this context.
    ///
    /// # Errors
    ///
    /// What the other library refuses; that the device is lost.
    pub fn foreign(
        &self,
        enqueue: &mut dyn FnMut(Stream) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        self.current()?;
        enqueue(Stream(self.stream))?;
        self.enqueued_one();
        Ok(())
    }

    /// Counts what was enqueued, and lets a stream that is held go on before its queue is full.
    pub(super) fn enqueued_one(&self) {
        self.enqueued.set(self.enqueued.get() + 1);
        if self.enqueued.get() >= Context::HELD_MAX {
            self.release();
        }
    }

    /// Memory of the host that the device reaches.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Allocation`] where there is none.
    pub fn pinned(self: &Rc<Context>, bytes: usize) -> Result<Pinned, DeviceError> {
        let f = self.current()?;
        let mut on_host = std::ptr::null_mut();
        // SAFETY: the pointers are valid.
        let said =
            unsafe { f.host_allocate(&raw mut on_host, bytes, self.driver.vendor.host_flags) };
        self.told(said, For::Memory(bytes as u64))?;
        let mut pinned = Pinned { context: Rc::clone(self), on_host, on_device: 0 };
        // SAFETY: the memory was just allocated as mapped; zero is the only flag.
        let said = unsafe { f.host_address(&raw mut pinned.on_device, on_host, 0) };
        self.told(said, For::Other)?;
        Ok(pinned)
    }

    /// Encodes a tensor map.
    ///
    /// # Errors
    ///
    /// What the driver refuses.
    pub fn encode(&self, encoding: &Encoding, entry: &Entry) -> Result<TensorMap, DeviceError> {
        let mut map = TensorMap([0; 128]);
        let Encoding { data_type, address, sizes, stride, tile, swizzle } = *encoding;
        const PLAIN: c_int = 0;
        // SAFETY: the map is aligned as it has to be, and the arrays are as long as the rank says
        // (strides: one less).
        let said = unsafe {
            self.current()?.tensor_map(
                &raw mut map,
                data_type,
                2,
                address,
                sizes.as_ptr(),
                &raw const stride,
                tile.as_ptr(),
                [1, 1].as_ptr(),
                PLAIN,
                swizzle,
                PROMOTE_256_BYTES,
                PLAIN,
            )
        };
        self.told(said, For::Kernel(&entry.name))?;
        Ok(map)
    }

    /// Forgets which lines of the last-level cache were set aside to stay.
    ///
    /// # Errors
    ///
    /// What the driver refuses; a device without the feature is no error.
    pub fn reset_persisting(&self) -> Result<(), DeviceError> {
        // SAFETY: the call takes nothing.
        match unsafe { self.current()?.persisting_reset() } {
            Err(Refusal::Code { code: NOT_SUPPORTED, .. } | Refusal::NoSymbol(_)) => Ok(()),
            said => self.told(said, For::Other),
        }
    }
}

/// `CU_STREAM_NON_BLOCKING`: nothing waits for the default stream, which is not used.
const STREAM_NON_BLOCKING: u32 = 1;
/// `CU_LIMIT_PERSISTING_L2_CACHE_SIZE`.
const PERSISTING_SIZE: c_int = 6;
/// `CUDA_ERROR_NOT_SUPPORTED`.
pub(super) const NOT_SUPPORTED: i32 = 801;
/// `CU_TENSOR_MAP_L2_PROMOTION_L2_256B`: what is fetched for one copy serves the next.
const PROMOTE_256_BYTES: c_int = 3;
/// `CU_LAUNCH_PARAM_BUFFER_POINTER`, `CU_LAUNCH_PARAM_BUFFER_SIZE`.
const PARAM_BUFFER_POINTER: usize = 1;
const PARAM_BUFFER_SIZE: usize = 2;

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

/// Frees memory when dropped.
struct Memory {
    context: Rc<Context>,
    address: u64,
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Ok(functions) = self.context.current() {
            // SAFETY: allocated once, freed once. The next call will tell of an error.
            let _ = unsafe { functions.free(self.address) };
        }
    }
}

/// Memory of the host that the device reaches, freed when dropped.
pub struct Pinned {
    context: Rc<Context>,
    /// Where the host has it.
    pub on_host: *mut c_void,
    /// Where the device has it.
    pub on_device: u64,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Ok(functions) = self.context.current() {
            // SAFETY: allocated once, freed once.
            let _ = unsafe { functions.host_free(self.on_host) };
        }
    }
}
