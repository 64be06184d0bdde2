//! Memory of a device, of the host and of other devices: allocated, written, read, set and freed.

#![expect(unsafe_code, reason = "the driver is a C library")]

use super::{
    context::{Context, For, Peer},
    status::Meaning,
};
use crate::{Buffer, DeviceError, Result, library::Handle};
use fizeau_domain::{case::HostMemory, units::Bytes};
use std::{alloc, ffi::c_void, rc::Rc};

/// Pages of the host, which pageable memory is aligned to.
const PAGE: usize = 4096;

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
    /// Memory, zeroed.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Allocation`] where there is not so much.
    pub fn allocate(self: &Rc<Context>, size: Bytes) -> Result<Buffer> {
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
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<()> {
        // SAFETY: the caller's range lies within a buffer; the bytes live until the wait is over.
        let said = unsafe {
            self.current()?.to_device(address, bytes.as_ptr().cast(), bytes.len(), self.stream)
        };
        self.told(said, For::Other)?;
        self.wait("a copy to the device")
    }

    /// Copies bytes from an address and waits.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        // SAFETY: as in `write`.
        let said = unsafe {
            let bytes_at = bytes.as_mut_ptr().cast();
            self.current()?.to_host(bytes_at, address, bytes.len(), self.stream)
        };
        self.told(said, For::Other)?;
        self.wait("a copy from the device")
    }

    /// Sets bytes, without waiting.
    pub fn set(&self, buffer: &Buffer, value: u8) -> Result<()> {
        let size = buffer.size.0 as usize;
        // SAFETY: the buffer is of this size.
        let said = unsafe { self.current()?.set(buffer.address, value, size, self.stream) };
        self.told(said, For::Other)
    }

    /// Memory of the host that the device reaches.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Allocation`] where there is none.
    pub fn pinned(self: &Rc<Context>, bytes: usize) -> Result<Pinned> {
        let f = self.current()?;
        let mut on_host = std::ptr::null_mut();
        let mapped = self.driver().vendor.flags.mapped;
        // SAFETY: the pointers are valid.
        let said = unsafe { f.host_allocate(&raw mut on_host, bytes, mapped) };
        self.told(said, For::Memory(bytes as u64))?;
        let mut pinned = Pinned { context: Rc::clone(self), on_host, on_device: 0 };
        // SAFETY: the memory was just allocated as mapped; zero is the only flag.
        let said = unsafe { f.host_address(&raw mut pinned.on_device, on_host, 0) };
        self.told(said, For::Other)?;
        Ok(pinned)
    }

    /// Memory of the host.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Allocation`] where there is none.
    pub fn of_host(self: &Rc<Self>, kind: HostMemory, size: Bytes) -> Result<Buffer> {
        let (on_host, layout) = match kind {
            HostMemory::Pinned => {
                let mut on_host = std::ptr::null_mut();
                let f = self.current()?;
                let (bytes, portable) = (size.0 as usize, self.driver().vendor.flags.portable);
                // SAFETY: the pointer is valid.
                let said = unsafe { f.host_allocate(&raw mut on_host, bytes, portable) };
                self.told(said, For::Memory(size.0))?;
                (on_host.cast::<u8>(), None)
            }
            HostMemory::Pageable => {
                let refused =
                    || DeviceError::Allocation { size, why: "the host has no more".into() };
                let layout = alloc::Layout::from_size_align(size.0.max(8) as usize, PAGE)
                    .map_err(|_| refused())?;
                // SAFETY: the layout is not empty.
                let on_host = unsafe { alloc::alloc(layout) };
                if on_host.is_null() {
                    return Err(refused());
                }
                // SAFETY: just allocated, as large. Written here, where this thread runs, since
                // pages are on the node of whoever writes them first.
                unsafe { on_host.write_bytes(0, layout.size()) };
                self.pageable.borrow_mut().push(on_host as u64);
                (on_host, Some(layout))
            }
        };
        // One address space for all: the device has it where the host does.
        let address = on_host as u64;
        let remote = Remote::Host(on_host);
        let owner = Owned { owner: Rc::clone(self), remote, address, layout };
        Ok(Buffer { address, size, owner: Box::new(owner) })
    }

    /// Whether an address is the start of pageable memory of the host.
    pub(super) fn is_pageable(&self, address: u64) -> bool {
        self.pageable.borrow().contains(&address)
    }

    /// Memory of another device.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unsupported`] where this device does not reach it.
    pub fn of_peer(self: &Rc<Self>, ordinal: u32, size: Bytes) -> Result<Buffer> {
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
    pub(super) fn peer(&self, ordinal: u32) -> Result<Handle> {
        if let Some(peer) = self.peers.borrow().iter().find(|peer| peer.ordinal == ordinal) {
            return Ok(peer.context);
        }
        let device = self.driver().device(ordinal)?;
        let f = self.current()?;
        let mut reaches = 0;
        // SAFETY: the pointer is valid.
        let said = unsafe { f.peer_can(&raw mut reaches, self.device, device) };
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
                Err(refusal) if self.driver().vendor.means(&refusal, Meaning::PeerWithinReach) => {}
                said => self.told(said, For::Other)?,
            }
        }
        Ok(context)
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

/// Copies bytes into the host's memory behind a buffer; the caller has checked the range.
///
/// # Errors
///
/// Where the buffer is not of the host.
pub fn write_host(buffer: &Buffer, offset: Bytes, bytes: &[u8]) -> Result<()> {
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
pub fn read_host(buffer: &Buffer, offset: Bytes, bytes: &mut [u8]) -> Result<()> {
    let at = on_host(buffer)?;
    // SAFETY: as in `write_host`.
    unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(at.add(offset.0 as usize), bytes.len()) };
    Ok(())
}

fn on_host(buffer: &Buffer) -> Result<*mut u8> {
    match buffer.owner.downcast_ref::<Owned>().map(|owned| &owned.remote) {
        Some(Remote::Host(at)) => Ok(*at),
        _ => Err(DeviceError::Driver("a buffer that is not of the host".into())),
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        match (&self.remote, self.layout) {
            (Remote::Host(at), Some(layout)) => {
                self.owner.pageable.borrow_mut().retain(|&one| one != self.address);
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
