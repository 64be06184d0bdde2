//! Copies: by copy engines, from and to the host's memory and that of other devices, several at
//! once.
//!
//! Copies that go at once are each on a lane: a stream of the device whose engine copies. A lane
//! starts when what is timed starts, and what is timed ends when all lanes have.

#![expect(unsafe_code, reason = "the driver is a C library")]

use super::{
    device::{Context, For},
    driver::Handle,
};
use crate::{
    case::HostMemory,
    device::{Buffer, DeviceError, library::Refusal},
    kernel::TransferParams,
    units::Bytes,
};
use std::{alloc, ffi::c_int, rc::Rc};

/// `CU_MEMHOSTALLOC_PORTABLE`: pinned for every device.
const PORTABLE: u32 = 1;
/// `CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED`.
const ALREADY_ENABLED: i32 = 704;
/// Pages of the host, which pageable memory is aligned to.
const PAGE: usize = 4096;

/// Another device, with memory that this one reaches.
pub struct Peer {
    ordinal: u32,
    device: c_int,
    context: Handle,
}

/// A stream of a device, and the event that tells its end.
pub struct Lane {
    of: (u32, u32),
    context: Handle,
    stream: Handle,
    event: Handle,
    used: bool,
}

/// Memory that is not the device's own.
pub enum Remote {
    /// The host's; where the host has it.
    Host(*mut u8),
    /// A peer's, with its context.
    Peer(Handle),
}

/// Frees what is behind a buffer.
pub struct Owned {
    owner: Rc<Context>,
    /// Where it is.
    pub remote: Remote,
    address: u64,
    layout: Option<alloc::Layout>,
}

impl Context {
    /// Memory of the host.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Allocation`] where there is none.
    pub fn of_host(self: &Rc<Self>, kind: HostMemory, size: Bytes) -> Result<Buffer, DeviceError> {
        let (on_host, layout) = match kind {
            HostMemory::Pinned => {
                let mut on_host = std::ptr::null_mut();
                let f = self.current()?;
                // SAFETY: the pointer is valid.
                let said = unsafe { f.host_allocate(&raw mut on_host, size.0 as usize, PORTABLE) };
                self.told(said, For::Memory(size.0))?;
                (on_host.cast::<u8>(), None)
            }
            HostMemory::Pageable => {
                let refused =
                    || DeviceError::Allocation { size, why: "the host has no more".into() };
                let layout = alloc::Layout::from_size_align(size.0.max(8) as usize, PAGE)
                    .map_err(|_| refused())?;
                // SAFETY: the layout is not empty.
                let on_host = unsafe { alloc::alloc_zeroed(layout) };
                if on_host.is_null() {
                    return Err(refused());
                }
                (on_host, Some(layout))
            }
        };
        // One address space for all: the device has it where the host does.
        let address = on_host as u64;
        let remote = Remote::Host(on_host);
        let owner = Owned { owner: Rc::clone(self), remote, address, layout };
        Ok(Buffer { address, size, owner: Box::new(owner) })
    }

    /// Memory of another device.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unsupported`] where this device does not reach it.
    pub fn of_peer(self: &Rc<Self>, ordinal: u32, size: Bytes) -> Result<Buffer, DeviceError> {
        let context = self.peer(ordinal)?;
        let f = &self.driver().functions;
        let mut address = 0;
        // SAFETY: the peer's context was retained and lives as long as this one; the pointer is
        // valid. The own context is made current again by whatever is called next.
        let said = unsafe {
            self.told(f.context_set(context), For::Other)?;
            f.allocate(&raw mut address, size.0 as usize)
        };
        self.told(said, For::Memory(size.0))?;
        let owner =
            Owned { owner: Rc::clone(self), remote: Remote::Peer(context), address, layout: None };
        Ok(Buffer { address, size, owner: Box::new(owner) })
    }

    /// The context of another device, made once, with its memory within reach.
    fn peer(&self, ordinal: u32) -> Result<Handle, DeviceError> {
        if let Some(peer) = self.peers.borrow().iter().find(|peer| peer.ordinal == ordinal) {
            return Ok(peer.context);
        }
        let device = self.driver().device(ordinal)?;
        let f = self.current()?;
        let mut reaches = 0;
        // SAFETY: the pointer is valid.
        let said = unsafe { f.peer_can(&raw mut reaches, self.device(), device) };
        self.told(said, For::Other)?;
        if reaches == 0 {
            let backend = self.driver().vendor.interface.to_ascii_lowercase();
            let needs = format!("access to the memory of {backend}:{ordinal}");
            let kernel = "copy".into();
            return Err(DeviceError::Unsupported { kernel, needs });
        }
        let mut context = std::ptr::null_mut();
        // SAFETY: as above; what is retained is released by `drop`.
        unsafe {
            self.told(f.context_retain(&raw mut context, device), For::Other)?;
            self.peers.borrow_mut().push(Peer { ordinal, device, context });
            match self.driver().enable_peer(context, device) {
                Err(Refusal::Code { code: ALREADY_ENABLED, .. }) => {}
                said => self.told(said, For::Other)?,
            }
        }
        Ok(context)
    }

    /// Copies bytes and waits: memories of any kind.
    ///
    /// # Errors
    ///
    /// What the driver refuses.
    pub fn copy_now(&self, to: u64, from: u64, bytes: usize) -> Result<(), DeviceError> {
        self.current()?;
        // SAFETY: both ranges lie within buffers, which the caller has checked.
        let said = unsafe { self.driver().copy(to, from, bytes, self.stream()) };
        self.told(said, For::Other)?;
        self.wait("a copy")
    }

    /// Enqueues a copy `repeat` times.
    ///
    /// # Errors
    ///
    /// What the driver refuses.
    pub fn copy(&self, params: &TransferParams, repeat: u32) -> Result<(), DeviceError> {
        let stream = self.lane(params.device, params.lane)?;
        self.current()?;
        let (driver, length) = (self.driver(), params.length as usize);
        for _ in 0..repeat {
            // SAFETY: both ranges lie within buffers that outlive the copy.
            let said = unsafe { driver.copy(params.to, params.from, length, stream) };
            self.told(said, For::Kernel("copy engine"))?;
            self.enqueued_one();
        }
        Ok(())
    }

    /// The stream of a lane, which starts with what is timed; lane 0 of this device is its own.
    ///
    /// # Errors
    ///
    /// What the driver refuses.
    pub fn lane(&self, ordinal: u32, lane: u32) -> Result<Handle, DeviceError> {
        if (ordinal, lane) == (self.ordinal(), 0) {
            return Ok(self.stream());
        }
        let of = (ordinal, lane);
        let at = self.lanes.borrow().iter().position(|lane| lane.of == of);
        let at = match at {
            Some(at) => at,
            None => self.make_lane(of)?,
        };
        let (stream, used, context) = {
            let lanes = self.lanes.borrow();
            (lanes[at].stream, lanes[at].used, lanes[at].context)
        };
        if !used {
            let f = self.current()?;
            // SAFETY: stream and event are alive; one of another context may be waited for.
            let said = unsafe {
                self.told(f.context_set(context), For::Other)?;
                f.stream_wait(stream, self.started(), 0)
            };
            self.told(said, For::Other)?;
            self.lanes.borrow_mut()[at].used = true;
        }
        Ok(stream)
    }

    fn make_lane(&self, of: (u32, u32)) -> Result<usize, DeviceError> {
        let context = match of.0 == self.ordinal() {
            true => self.own(),
            false => self.peer(of.0)?,
        };
        let null = std::ptr::null_mut();
        let f = self.current()?;
        let mut lane = Lane { of, context, stream: null, event: null, used: false };
        // SAFETY: the pointers are valid; what is made is destroyed by `drop`.
        unsafe {
            self.told(f.context_set(context), For::Other)?;
            self.told(f.stream_create(&raw mut lane.stream, 1), For::Other)?;
            let said = f.event_create(&raw mut lane.event, 0);
            self.lanes.borrow_mut().push(lane);
            let mut lanes = self.lanes.borrow_mut();
            let at = lanes.len() - 1;
            // A lane without an event is made again, and its stream freed at the end.
            if said.is_err() {
                lanes[at].of = (u32::MAX, u32::MAX);
            }
            drop(lanes);
            self.told(said, For::Other)?;
            Ok(at)
        }
    }

    /// What is timed ends when all lanes have ended.
    ///
    /// # Errors
    ///
    /// What the driver refuses.
    pub fn join_lanes(&self) -> Result<(), DeviceError> {
        let used: Vec<[Handle; 3]> = self
            .lanes
            .borrow_mut()
            .iter_mut()
            .filter(|lane| lane.used)
            .map(|lane| {
                lane.used = false;
                [lane.context, lane.stream, lane.event]
            })
            .collect();
        for [context, stream, event] in used {
            let f = self.current()?;
            // SAFETY: all are alive.
            unsafe {
                self.told(f.context_set(context), For::Other)?;
                self.told(f.event_record(event, stream), For::Other)?;
                self.told(f.context_set(self.own()), For::Other)?;
                self.told(f.stream_wait(self.stream(), event, 0), For::Other)?;
            }
        }
        Ok(())
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
}

/// Copies bytes into the host's memory behind a buffer; the caller has checked the range.
///
/// # Errors
///
/// Where the buffer is not of the host.
pub fn write_host(buffer: &Buffer, offset: Bytes, bytes: &[u8]) -> Result<(), DeviceError> {
    let at = on_host(buffer)?;
    // SAFETY: the range lies within the buffer, which nothing else writes: copies were waited for.
    unsafe { at.add(offset.0 as usize).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(())
}

/// The same the other way.
///
/// # Errors
///
/// Where the buffer is not of the host.
pub fn read_host(buffer: &Buffer, offset: Bytes, bytes: &mut [u8]) -> Result<(), DeviceError> {
    let at = on_host(buffer)?;
    // SAFETY: as in `write_host`.
    unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(at.add(offset.0 as usize), bytes.len()) };
    Ok(())
}

fn on_host(buffer: &Buffer) -> Result<*mut u8, DeviceError> {
    match buffer.owner.downcast_ref::<Owned>().map(|owned| &owned.remote) {
        Some(Remote::Host(at)) => Ok(*at),
        _ => Err(DeviceError::Driver("a buffer that is not of the host".into())),
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        match (&self.remote, self.layout) {
            (Remote::Host(at), Some(layout)) => {
                // SAFETY: allocated with this layout, freed once; copies of it were waited for.
                unsafe { alloc::dealloc(*at, layout) };
            }
            (Remote::Host(at), None) => {
                if let Ok(f) = self.owner.current() {
                    // SAFETY: allocated once, freed once.
                    let _ = unsafe { f.host_free(at.cast()) };
                }
            }
            (Remote::Peer(context), _) => {
                if let Ok(f) = self.owner.current() {
                    // SAFETY: as above, in the context that it was allocated in. The own context is
                    // made current again by whatever is called next.
                    let _ = unsafe { f.context_set(*context).and_then(|()| f.free(self.address)) };
                }
            }
        }
    }
}
