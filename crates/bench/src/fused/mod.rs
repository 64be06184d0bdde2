//! The operation `fused`: what stands between the products of a model's layer, several steps in
//! one.
//!
//! Rows are random, every eighth so small that the epsilon of a norm shows, and repeat after a
//! prime number of them. Each element of every array is compared: see `reference`.
//!
//! Arrays that a cache could hold take turns with copies, where few copies are enough to leave it;
//! rows of decoding are too few for that and stay in the cache, as they do in a model, whose last
//! operation has just written them.

mod reference;
#[cfg(test)]
mod spoilt;

use self::reference::Reference;
use super::{Prepared, Rank, Unready, Workload};
use fizeau_device::{Buffer, Device, DeviceError, Function, Launch};
use fizeau_domain::{
    case::{Case, Fused, FusedPoint, KernelName, Point},
    kernel::{FusedParams, Operation},
    outcome::Check,
    spec::Properties,
    suite::Suite,
    units::Bytes,
};

/// The cases of a suite: every kernel that the device has for an operation and an output.
pub fn cases(suite: &Suite, rank: Rank<'_>) -> Vec<Case> {
    let points = suite.fused.iter().flat_map(|axes| axes.points());
    let cases = |point: FusedPoint| {
        let kernels = rank.device.kernels(Operation::Fused(point.fused, point.output));
        kernels.into_iter().map(move |kernel| Case { kernel, point: Point::Fused(point) })
    };
    points.flat_map(cases).collect()
}

/// Copies of all arrays together are this many times the last-level cache, as those of a product of
/// decoding.
const ROTATED: u64 = 5;

/// More copies than this are not made: so few rows are measured where the caches have them.
const COPIES_MAX: u64 = 64;

/// Copies of all arrays that iterations take in turn: two at least, or one where it would take too
/// many to leave the caches.
pub fn copies(point: &FusedPoint, properties: &Properties) -> u32 {
    let all = Point::Fused(*point).work().memory;
    let wanted = (properties.last_level_cache() * ROTATED).0.div_ceil(all.0.max(1));
    if wanted > COPIES_MAX { 1 } else { wanted.max(2) as u32 }
}

/// Memory of its arrays on the device, and beside them what is read back of a few rows.
pub fn memory(point: &FusedPoint, properties: &Properties) -> Bytes {
    let all = Point::Fused(*point).work().memory;
    all * u64::from(copies(point, properties)) + reference::memory(point)
}

/// Makes a case ready.
pub fn prepare<'r>(point: &FusedPoint, kernel: &KernelName, rank: Rank<'r>) -> Prepared<'r> {
    Ok(Box::new(Rows::new(point, kernel, rank)?))
}

/// Copies of an array begin at multiples of this many bytes.
const PAGE: u64 = 4096;

/// From the place in its page where one array begins to that of the next: a load that follows a
/// store to an address with the same low 12 bits waits for it ("4K aliasing", Intel's optimisation
/// manual).
const SKEW: u64 = 640;

/// An array, all copies of it.
struct Array {
    buffer: Buffer,
    /// Where the first copy begins in the buffer.
    first: u64,
    /// From one copy to the next; 0 where there is no such array.
    apart: u64,
}

impl Array {
    /// The `number`th array of a point.
    fn new(
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
    fn at(&self, copy: u64) -> u64 {
        if self.apart == 0 { 0 } else { self.buffer.address + self.first + copy * self.apart }
    }

    /// Bytes of all copies.
    fn bytes(&self) -> u64 {
        self.buffer.size.0 - self.first
    }
}

/// A point made ready.
struct Rows<'d> {
    device: &'d dyn Device,
    function: Function,
    reference: Reference,
    /// Of each copy of the arrays.
    params: Vec<FusedParams>,
    takes_turns: bool,
    next: usize,
    /// The copy that the last iteration took.
    last: usize,
    /// What is only read.
    #[cfg_attr(not(test), expect(dead_code, reason = "keeps the memory that kernels read"))]
    inputs: [Array; 3],
    updated: Array,
    output: Array,
    scales: Array,
}

impl<'d> Rows<'d> {
    fn new(
        point: &FusedPoint,
        kernel: &KernelName,
        Rank { device, .. }: Rank<'d>,
    ) -> Result<Rows<'d>, Unready> {
        let operation = Operation::Fused(point.fused, point.output);
        let function = device.load(operation, kernel)?;
        let copies = u64::from(copies(point, device.properties()));
        let reference = Reference::new(point)?;
        let FusedPoint { rows, width, .. } = *point;
        let sum = if point.fused == Fused::Norm { 2 * u64::from(width) } else { 0 };
        let (of_rows, of_input) = (u64::from(rows) * sum, reference.input_row() * u64::from(rows));
        let of_output = u64::from(rows) * reference.output_row();
        let of_scales = u64::from(rows) * 4 * point.scales();
        let array = |number, bytes| Array::new(device, number, bytes, copies);
        let inputs = [array(0, of_input)?, array(1, of_rows)?, array(2, sum)?];
        let (updated, output) = (array(3, of_rows)?, array(4, of_output)?);
        let scales = array(5, of_scales)?;
        let of_copy = |copy| FusedParams {
            input: inputs[0].at(copy),
            residual: inputs[1].at(copy),
            weight: inputs[2].at(copy),
            updated: updated.at(copy),
            output: output.at(copy),
            scales: scales.at(copy),
            rows,
            width,
            epsilon: if sum > 0 { FusedPoint::EPSILON } else { 0.0 },
            inverse: reference.inverse(),
        };
        let params: Vec<FusedParams> = (0..copies).map(of_copy).collect();
        device.takes(&function, &params[0].into())?;
        for (array, bytes) in inputs.iter().zip(reference.inputs()) {
            for copy in 0..copies {
                let place = array.first + copy * array.apart;
                write_rows(device, array, place, bytes, rows)?;
            }
        }
        let (takes_turns, next, last) = (false, 0, 0);
        Ok(Rows {
            device,
            function,
            reference,
            params,
            takes_turns,
            next,
            last,
            inputs,
            updated,
            output,
            scales,
        })
    }

    fn launch(&mut self, copy: usize, repeat: u32) -> Result<(), DeviceError> {
        self.last = copy;
        let blocks = self.device.properties().units;
        let (function, params) = (&self.function, self.params[copy].into());
        self.device.launch(&Launch { function, blocks, repeat, params })
    }
}

/// Writes rows of which `bytes` has those that repeat; what has one row alone is not repeated.
fn write_rows(
    device: &dyn Device,
    array: &Array,
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
        device.write(&array.buffer, Bytes(place + done), &bytes[..now as usize])?;
        done += now;
    }
    Ok(())
}

impl Workload for Rows<'_> {
    fn enqueue(&mut self, repeat: u32) -> Result<(), DeviceError> {
        if !self.takes_turns {
            return self.launch(0, repeat);
        }
        for _ in 0..repeat {
            self.launch(self.next, 1)?;
            self.next = (self.next + 1) % self.params.len();
        }
        Ok(())
    }

    fn copies(&self) -> u32 {
        self.params.len() as u32
    }

    fn take_turns(&mut self, on: bool) {
        self.takes_turns = on;
    }

    /// All bits set: no number in any of the output's types.
    fn poison(&mut self) -> Result<(), DeviceError> {
        for array in [&self.updated, &self.output, &self.scales] {
            let first = Bytes(array.first);
            self.device.fill(&array.buffer, first, &[u64::MAX], array.bytes() / 8)?;
        }
        Ok(())
    }

    fn verify(&mut self) -> Result<Check, DeviceError> {
        let places = [&self.updated, &self.output, &self.scales]
            .map(|array| (&array.buffer, array.first + self.last as u64 * array.apart));
        self.reference.compare(self.device, places)
    }
}
