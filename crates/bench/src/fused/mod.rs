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
use super::{
    Prepared, Rank, Unready, Workload,
    rotation::{self, Array, Turns},
};
use fizeau_device::DeviceError;
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

/// Memory of its arrays on the device, and beside them what is read back of a few rows.
pub fn memory(point: &FusedPoint, properties: &Properties) -> Bytes {
    rotation::memory(&Point::Fused(*point), properties) + reference::memory(point)
}

/// Makes a case ready.
pub fn prepare<'r>(point: &FusedPoint, kernel: &KernelName, rank: Rank<'r>) -> Prepared<'r> {
    Ok(Box::new(Rows::new(point, kernel, rank)?))
}

/// A point made ready.
struct Rows<'d> {
    turns: Turns<'d, FusedParams>,
    reference: Reference,
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
        let copies = u64::from(rotation::copies(&Point::Fused(*point), device.properties()));
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
                let place = array.place(copy);
                array.write_rows(device, place, bytes, rows)?;
            }
        }
        let turns = Turns::new(device, function, params);
        Ok(Rows { turns, reference, inputs, updated, output, scales })
    }
}

impl Workload for Rows<'_> {
    fn enqueue(&mut self, repeat: u32) -> Result<(), DeviceError> {
        self.turns.enqueue(repeat)
    }

    fn copies(&self) -> u32 {
        self.turns.copies()
    }

    fn take_turns(&mut self, on: bool) {
        self.turns.take(on);
    }

    /// All bits set: no number in any of the output's types.
    fn poison(&mut self) -> Result<(), DeviceError> {
        [&self.updated, &self.output, &self.scales]
            .iter()
            .try_for_each(|a| a.poison(self.turns.device))
    }

    fn verify(&mut self) -> Result<Check, DeviceError> {
        let places = [&self.updated, &self.output, &self.scales]
            .map(|array| (&array.buffer, array.place(self.turns.last())));
        self.reference.compare(self.turns.device, places)
    }
}
