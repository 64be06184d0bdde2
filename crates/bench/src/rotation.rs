//! Copies of a point's arrays that iterations take in turn, where one set of them would stay in a
//! cache from one iteration to the next.

#[cfg(test)]
use bytemuck::Pod;
use fizeau_device::{Buffer, Device, DeviceError, Function, Launch};
use fizeau_domain::{case::Point, kernel::Params, spec::Properties, units::Bytes};

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

    /// Changes the first copy, of which there are `count` elements.
    #[cfg(test)]
    pub fn change<T: Pod>(&self, device: &dyn Device, count: usize, with: impl Fn(&mut [T])) {
        let mut bytes = vec![0u8; count * size_of::<T>()];
        device.read(&self.buffer, Bytes(self.first), &mut bytes).expect("it is read");
        let mut values: Vec<T> =
            bytes.chunks(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect();
        with(&mut values);
        let bytes = bytemuck::cast_slice(&values);
        device.write(&self.buffer, Bytes(self.first), bytes).expect("it is written");
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

/// Launches of a kernel by the parameters of each copy of its arrays: iterations take the first
/// copy, or all copies in turn.
pub struct Turns<'d, P> {
    pub device: &'d dyn Device,
    function: Function,
    /// Of each copy.
    pub params: Vec<P>,
    /// Whether iterations take turns, and whose turn it is.
    is_on: bool,
    next: usize,
    last: usize,
}

impl<'d, P: Copy + Into<Params>> Turns<'d, P> {
    pub fn new(device: &'d dyn Device, function: Function, params: Vec<P>) -> Turns<'d, P> {
        Turns { device, function, params, is_on: false, next: 0, last: 0 }
    }

    /// As [`Workload::enqueue`](crate::Workload::enqueue).
    pub fn enqueue(&mut self, repeat: u32) -> Result<(), DeviceError> {
        if !self.is_on {
            return self.launch(0, repeat);
        }
        for _ in 0..repeat {
            self.launch(self.next, 1)?;
            self.next = (self.next + 1) % self.params.len();
        }
        Ok(())
    }

    fn launch(&mut self, copy: usize, repeat: u32) -> Result<(), DeviceError> {
        self.last = copy;
        let blocks = self.device.properties().units;
        let (function, params) = (&self.function, self.params[copy].into());
        self.device.launch(&Launch { function, blocks, repeat, params })
    }

    /// How many copies there are.
    pub fn copies(&self) -> u32 {
        self.params.len() as u32
    }

    /// As [`Workload::candidates`](crate::Workload::candidates).
    pub fn candidates(&self) -> Result<Vec<String>, DeviceError> {
        candidates(self.device, &self.function, self.params[0].into())
    }

    /// As [`Workload::choose`](crate::Workload::choose).
    pub fn choose(&self, candidate: usize) -> Result<(), DeviceError> {
        choose(self.device, &self.function, candidate)
    }

    /// From now on iterations take turns, or they take the first copy.
    pub fn take(&mut self, on: bool) {
        self.is_on = on;
    }

    /// The copy that the last iteration took.
    pub fn last(&self) -> u64 {
        self.last as u64
    }
}

/// Names of a function's candidates for such work; none on a device whose functions have none.
pub fn candidates(
    device: &dyn Device,
    function: &Function,
    params: Params,
) -> Result<Vec<String>, DeviceError> {
    let tunable = device.capabilities().tunable;
    tunable.map_or(Ok(Vec::new()), |tunable| tunable.candidates(function, &params))
}

/// Lets a candidate do a function's work.
pub fn choose(
    device: &dyn Device,
    function: &Function,
    candidate: usize,
) -> Result<(), DeviceError> {
    let tunable = device.capabilities().tunable;
    tunable.map_or(Ok(()), |tunable| tunable.choose(function, candidate))
}
