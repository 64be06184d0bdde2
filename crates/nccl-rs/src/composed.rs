//! What a library may have of its own, and what is made of sends and receives where it has not.

use crate::{
    communicator::Communicator,
    types::{DataType, Error, Stream},
};
use std::ffi::c_void;

/// A range of a buffer, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Where it begins.
    pub at: usize,
    /// How long it is.
    pub count: usize,
}

/// Whom a ring's rank sends to and receives from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peers {
    /// The next.
    pub to: u32,
    /// The one before.
    pub from: u32,
}

/// Part `index` of a buffer of equal parts.
fn part(index: u32, count: usize, data: DataType) -> usize {
    index as usize * count * data.bytes()
}

/// # Errors
///
/// Of each: whatever the library says.
///
/// # Safety
///
/// Of each: as of the collectives that every version has.
#[expect(clippy::missing_safety_doc, reason = "stated for all of them at the head")]
impl Communicator {
    /// Every rank ends with one part, `count` elements, from each rank. Not in place.
    pub unsafe fn all_to_all(
        &self,
        send: *const c_void,
        receive: *mut c_void,
        count: usize,
        data: DataType,
        stream: Stream,
    ) -> Result<(), Error> {
        if self.library().table.all_to_all.is_some() {
            // SAFETY: the caller's promise.
            return unsafe { self.native_all_to_all(send, receive, count, data, stream) };
        }
        let slices: Vec<Slice> =
            (0..self.size() as usize).map(|rank| Slice { at: rank * count, count }).collect();
        // SAFETY: the caller's promise: both buffers hold a part for every rank.
        unsafe { self.all_to_all_v(send, &slices, receive, &slices, data, stream) }
    }

    /// Every rank sends each rank a slice of its own length, and receives one from each.
    pub unsafe fn all_to_all_v(
        &self,
        send: *const c_void,
        sent: &[Slice],
        receive: *mut c_void,
        received: &[Slice],
        data: DataType,
        stream: Stream,
    ) -> Result<(), Error> {
        self.group(|| {
            for (peer, (to, from)) in sent.iter().zip(received).enumerate() {
                let (peer, width) = (peer as u32, data.bytes());
                // SAFETY: the caller's promise: slices lie within their buffers.
                unsafe {
                    if to.count > 0 {
                        self.send(send.byte_add(to.at * width), to.count, data, peer, stream)?;
                    }
                    if from.count > 0 {
                        let into = receive.byte_add(from.at * width);
                        self.receive(into, from.count, data, peer, stream)?;
                    }
                }
            }
            Ok(())
        })
    }

    /// The root ends with all ranks' parts, `count` elements each.
    pub unsafe fn gather(
        &self,
        send: *const c_void,
        receive: *mut c_void,
        count: usize,
        data: DataType,
        root: u32,
        stream: Stream,
    ) -> Result<(), Error> {
        if self.library().table.gather.is_some() {
            // SAFETY: the caller's promise.
            return unsafe { self.native_gather(send, receive, count, data, root, stream) };
        }
        let is_root = self.rank() == root;
        // SAFETY: the caller's promise: the root's buffer holds every rank's part. What already
        // lies in its place is not sent.
        self.group(|| unsafe {
            let own = receive.byte_add(part(root, count, data));
            let in_place = is_root && own.cast_const() == send;
            if !in_place {
                self.send(send, count, data, root, stream)?;
            }
            for peer in (0..self.size()).filter(|&peer| is_root && !(in_place && peer == root)) {
                let into = receive.byte_add(part(peer, count, data));
                self.receive(into, count, data, peer, stream)?;
            }
            Ok(())
        })
    }

    /// Every rank ends with its part, `count` elements, of the root's buffer.
    pub unsafe fn scatter(
        &self,
        send: *const c_void,
        receive: *mut c_void,
        count: usize,
        data: DataType,
        root: u32,
        stream: Stream,
    ) -> Result<(), Error> {
        if self.library().table.scatter.is_some() {
            // SAFETY: the caller's promise.
            return unsafe { self.native_scatter(send, receive, count, data, root, stream) };
        }
        let is_root = self.rank() == root;
        // SAFETY: as in `gather`.
        self.group(|| unsafe {
            let own = send.byte_add(part(root, count, data));
            let in_place = is_root && own == receive.cast_const();
            for peer in (0..self.size()).filter(|&peer| is_root && !(in_place && peer == root)) {
                let from = send.byte_add(part(peer, count, data));
                self.send(from, count, data, peer, stream)?;
            }
            if !in_place {
                self.receive(receive, count, data, root, stream)?;
            }
            Ok(())
        })
    }

    /// Sends to one rank and receives from another at once.
    pub unsafe fn send_receive(
        &self,
        send: *const c_void,
        receive: *mut c_void,
        count: usize,
        data: DataType,
        peers: Peers,
        stream: Stream,
    ) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        self.group(|| unsafe {
            self.send(send, count, data, peers.to, stream)?;
            self.receive(receive, count, data, peers.from, stream)
        })
    }
}
