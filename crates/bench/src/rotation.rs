//! Copies of a point's arrays that iterations take in turn, where one set of them would stay in a
//! cache from one iteration to the next.

use fizeau_device::{Buffer, Device, DeviceError};
use fizeau_domain::{case::Point, spec::Properties, units::Bytes};

/// Copies of all arrays together are this many times the last-level cache, as those of a product of
/// decoding.
const ROTATED: u64 = 5;

/// More copies than this are not made: so few rows are measured where the caches have them.
const COPIES_MAX: u64 = 64;

/// Copies of all arrays that iterations take in turn: two at least, or one where it would take too
/// many to leave the caches.
pub fn copies(point: &Point, properties: &Properties) -> u32 {
    let all = point.work().memory;
    let wanted = (properties.last_level_cache() * ROTATED).0.div_ceil(all.0.max(1));
    if wanted > COPIES_MAX { 1 } else { wanted.max(2) as u32 }
}

/// Memory of all copies together.
pub fn memory(point: &Point, properties: &Properties) -> Bytes {
    point.work().memory * u64::from(copies(point, properties))
}

/// Copies of an array begin at multiples of this many bytes.
const PAGE: u64 = 4096;

/// From the place in its page where one array begins to that of the next: a load that follows a
/// store to an address with the same low 12 bits waits for it ("4K aliasing", Intel's optimisation
/// manual).
const SKEW: u64 = 640;

/// An array, all copies of it.
pub struct Array {
    pub buffer: Buffer,
    /// Where the first copy begins in the buffer.
    pub first: u64,
    /// From one copy to the next; 0 where there is no such array.
    apart: u64,
}

impl Array {
    /// The `number`th array of a point.
    pub fn new(
        device: &dyn Device,
        number: u64,
        bytes: u64,
        copies: u64,
    ) -> Result<Array, DeviceError> {
        let (first, apart) = (number * SKEW, bytes.next_multiple_of(PAGE));
        let buffer = device.allocate(Bytes(first + (apart * copies).max(PAGE)))?;
        Ok(Array { buffer, first, apart })
    }

    /// The address of a copy; 0 where there is no such array.
    pub fn at(&self, copy: u64) -> u64 {
        if self.apart == 0 { 0 } else { self.buffer.address + self.first + copy * self.apart }
    }

    /// Where a copy begins in the buffer.
    pub fn place(&self, copy: u64) -> u64 {
        self.first + copy * self.apart
    }

    /// Sets all bits of all copies: no number in any element type.
    pub fn poison(&self, device: &dyn Device) -> Result<(), DeviceError> {
        let words = (self.buffer.size.0 - self.first) / 8;
        device.fill(&self.buffer, Bytes(self.first), &[u64::MAX], words)
    }

    /// Writes rows from a place on, of which `bytes` has those that repeat; what has one row alone
    /// is not repeated.
    pub fn write_rows(
        &self,
        device: &dyn Device,
        place: u64,
        (bytes, row): (&[u8], u64),
        rows: u32,
    ) -> Result<(), DeviceError> {
        if row == 0 {
            return Ok(());
        }
        let all = if bytes.len() as u64 == row { row } else { row * u64::from(rows) };
        let mut done = 0;
        while done < all {
            let now = (all - done).min(bytes.len() as u64);
            device.write(&self.buffer, Bytes(place + done), &bytes[..now as usize])?;
            done += now;
        }
        Ok(())
    }
}
