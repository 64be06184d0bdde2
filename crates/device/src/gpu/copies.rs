//! Copies: by copy engines, from and to the host's memory and that of other devices, several at
//! once.
//!
//! Copies that go at once are each on a lane: a stream of the device whose engine copies. A lane
//! starts when what is timed starts, and what is timed ends when all lanes have.

#![expect(unsafe_code, reason = "the driver is a C library")]

use super::context::{Context, For, Lane};
use crate::{Result, library::Handle};
use fizeau_domain::kernel::TransferParams;

impl Context {
    /// Copies bytes and waits: memories of any kind.
    pub fn copy_now(&self, to: u64, from: u64, bytes: usize) -> Result<()> {
        self.current()?;
        // SAFETY: both ranges lie within buffers, which the caller has checked.
        let said = unsafe { self.driver().copy(to, from, bytes, self.stream) };
        self.told(said, For::Other)?;
        self.wait("a copy")
    }

    /// Enqueues a copy `repeat` times.
    pub fn copy(&self, params: &TransferParams, repeat: u32) -> Result<()> {
        // The driver copies pageable memory by itself and waits for its end: a stream that is held
        // would hold the host.
        if self.is_pageable(params.to) || self.is_pageable(params.from) {
            self.release();
        }
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
    pub fn lane(&self, ordinal: u32, lane: u32) -> Result<Handle> {
        if (ordinal, lane) == (self.ordinal, 0) {
            return Ok(self.stream);
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
                f.stream_wait(stream, self.events[0], 0)
            };
            self.told(said, For::Other)?;
            self.lanes.borrow_mut()[at].used = true;
        }
        Ok(stream)
    }

    fn make_lane(&self, of: (u32, u32)) -> Result<usize> {
        let context = match of.0 == self.ordinal {
            true => self.context,
            false => self.peer(of.0)?,
        };
        let null = std::ptr::null_mut();
        let f = self.current()?;
        let mut lane = Lane { of, context, stream: null, event: null, used: false };
        // SAFETY: the pointers are valid; what is made is destroyed by `drop`.
        unsafe {
            self.told(f.context_set(context), For::Other)?;
            let flags = self.driver().vendor.flags;
            self.told(f.stream_create(&raw mut lane.stream, flags.non_blocking), For::Other)?;
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
}
