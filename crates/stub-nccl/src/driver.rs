//! The stub driver of this process: its streams are kept busy while operations are in flight.

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::{
    env,
    ffi::{c_int, c_void},
    path::PathBuf,
};

/// A stream of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Stream(pub *mut c_void);

// SAFETY: the stub driver takes a stream for a number.
unsafe impl Send for Stream {}

type Begin = unsafe extern "C" fn(*mut c_void, f64) -> c_int;
type End = unsafe extern "C" fn(*mut c_void) -> c_int;
type Hang = unsafe extern "C" fn(*mut c_void) -> c_int;
type Replay = unsafe extern "C" fn(*mut c_void, *mut c_void);
type Capture = unsafe extern "C" fn(*mut c_void, Replay, *mut c_void) -> c_int;
type Allocate = unsafe extern "C" fn(*mut u64, usize) -> c_int;
type Device = unsafe extern "C" fn() -> c_int;
type Link = unsafe extern "C" fn(*mut c_void, c_int) -> f64;
type Free = unsafe extern "C" fn(u64) -> c_int;

/// Its functions for this library.
#[derive(Clone, Copy)]
pub struct Driver {
    begin: Begin,
    end: End,
    hang: Hang,
    capture: Capture,
    allocate: Allocate,
    free: Free,
    device: Device,
    link: Link,
}

/// What a driver is found as: of either vendor, it is the same library.
const NAMES: [&str; 2] = ["libcuda.so.1", "libamdhip64.so.6"];

/// Nanoseconds that each operation takes, and that each byte adds.
const LATENCY: f64 = 5_000.0;
const PER_BYTE: f64 = 0.01;

impl Driver {
    /// Finds it where fizeau found it. None where the driver is none of ours.
    pub fn find() -> Option<Driver> {
        let folders = env::var_os("FIZEAU_LIBRARY_PATH")?;
        let in_folder = |folder: PathBuf| NAMES.map(|name| folder.join(name));
        let paths: Vec<PathBuf> = env::split_paths(&folders).flat_map(in_folder).collect();
        let path = paths.iter().find(|path| path.exists())?;
        // SAFETY: opened already; the stub driver gives its functions these types.
        unsafe {
            let library = Library::open(Some(path), RTLD_NOW | RTLD_LOCAL).ok()?;
            let begin = *library.get::<Begin>(b"fizeau_stub_begin").ok()?;
            let end = *library.get::<End>(b"fizeau_stub_end").ok()?;
            let hang = *library.get::<Hang>(b"fizeau_stub_hang").ok()?;
            let capture = *library.get::<Capture>(b"fizeau_stub_capture").ok()?;
            let allocate = *library.get::<Allocate>(b"cuMemAlloc_v2").ok()?;
            let free = *library.get::<Free>(b"cuMemFree_v2").ok()?;
            let device = *library.get::<Device>(b"fizeau_stub_device").ok()?;
            let link = *library.get::<Link>(b"fizeau_stub_link").ok()?;
            std::mem::forget(library);
            Some(Driver { begin, end, hang, capture, allocate, free, device, link })
        }
    }

    /// The ordinal of the device that is current on this thread.
    pub fn device(&self) -> i32 {
        // SAFETY: it takes nothing.
        unsafe { (self.device)() }
    }

    /// A stream is busy with `bytes` that it exchanges with devices: as long as the slowest link to
    /// them takes, times `slow`.
    pub fn begin(&self, stream: Stream, bytes: usize, with: impl Iterator<Item = i32>, slow: f64) {
        // SAFETY: the stub takes any number for a stream.
        let link = |device| unsafe { (self.link)(stream.0, device) };
        let speed = with.map(link).fold(1.0, f64::min);
        // SAFETY: as above.
        unsafe { (self.begin)(stream.0, slow * (LATENCY + PER_BYTE * bytes as f64 / speed)) };
    }

    /// The device of a stream does nothing any more.
    pub fn hang(&self, stream: Stream) {
        // SAFETY: the stub takes any number for a stream.
        unsafe { (self.hang)(stream.0) };
    }

    /// Whether the stream is captured: then the graph calls back with the pointer and its stream
    /// each time that it is launched.
    pub fn capture(&self, stream: Stream, replay: Replay, kept: *mut c_void) -> bool {
        // SAFETY: as above; whoever calls keeps what the pointer leads to.
        unsafe { (self.capture)(stream.0, replay, kept) == 0 }
    }

    /// Memory of the device.
    pub fn allocate(&self, bytes: usize) -> Option<u64> {
        let mut address = 0;
        // SAFETY: the pointer is valid.
        let code = unsafe { (self.allocate)(&raw mut address, bytes) };
        (code == 0).then_some(address)
    }

    /// Gives it back; whether it was there.
    pub fn free(&self, address: u64) -> bool {
        // SAFETY: the stub knows what it has given.
        unsafe { (self.free)(address) == 0 }
    }

    /// It is done with them.
    pub fn end(&self, stream: Stream) {
        // SAFETY: as above.
        unsafe { (self.end)(stream.0) };
    }
}
