//! The operation `recurrence`: a decode step of linear attention.
//!
//! Sequences are random and repeat after a prime number of them. A new state is left in an array
//! of its own, so that each iteration does the same and every element can be compared: see
//! `reference`. As many bytes move as where it replaces the old one.

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
    case::{Case, KernelName, Point, RecurrencePoint},
    kernel::{Operation, RecurrenceParams},
    outcome::Check,
    spec::Properties,
    suite::Suite,
    units::Bytes,
};

/// The cases of a suite: every kernel that the device has for a rule and an element type.
pub fn cases(suite: &Suite, rank: Rank<'_>) -> Vec<Case> {
    let points = suite.recurrence.iter().flat_map(|axes| axes.points());
    let cases = |point: RecurrencePoint| {
        let kernels = rank.device.kernels(Operation::Recurrence(point.recurrence, point.state));
        kernels.into_iter().map(move |kernel| Case { kernel, point: Point::Recurrence(point) })
    };
    points.flat_map(cases).collect()
}

/// Memory of its arrays on the device, and beside them what is read back of a state.
pub fn memory(point: &RecurrencePoint, properties: &Properties) -> Bytes {
    rotation::memory(&Point::Recurrence(*point), properties) + reference::memory(point)
}

/// Makes a case ready.
pub fn prepare<'r>(point: &RecurrencePoint, kernel: &KernelName, rank: Rank<'r>) -> Prepared<'r> {
    Ok(Box::new(States::new(point, kernel, rank)?))
}

/// A point made ready.
struct States<'d> {
    turns: Turns<'d, RecurrenceParams>,
    reference: Reference,
    /// States, queries, keys, values, decays, rates and skips.
    #[cfg_attr(not(test), expect(dead_code, reason = "keeps the memory that kernels read"))]
    inputs: Vec<Array>,
    updated: Array,
    output: Array,
}

impl<'d> States<'d> {
    fn new(
        point: &RecurrencePoint,
        kernel: &KernelName,
        Rank { device, .. }: Rank<'d>,
    ) -> Result<States<'d>, Unready> {
        let operation = Operation::Recurrence(point.recurrence, point.state);
        let function = device.load(operation, kernel)?;
        let rotated = rotation::copies(&Point::Recurrence(*point), device.properties());
        let copies = u64::from(rotated);
        let reference = Reference::new(point)?;
        let RecurrencePoint { batch, heads, key_heads, key, value, .. } = *point;
        let mut inputs = Vec::new();
        for (number, input) in (0..).zip(reference.inputs()) {
            let rows = if input.is_of_all { 1 } else { u64::from(batch) };
            let array = Array::new(device, number, input.row * rows, copies)?;
            for copy in 0..copies {
                let bytes = (input.bytes, input.row);
                array.write_rows(device, array.place(copy), bytes, rows as u32)?;
            }
            inputs.push(array);
        }
        let number = inputs.len() as u64;
        let updated = Array::new(device, number, point.state_bytes(), copies)?;
        let of_output = point.states() * 2 * u64::from(value);
        let output = Array::new(device, number + 1, of_output, copies)?;
        let of_copy = |copy| {
            let at = |input: usize| inputs[input].at(copy);
            RecurrenceParams {
                state: at(0),
                updated: updated.at(copy),
                queries: at(1),
                keys: at(2),
                values: at(3),
                decays: at(4),
                rates: at(5),
                skips: at(6),
                output: output.at(copy),
                batch,
                heads,
                key_heads,
                key,
                value,
                unused: 0,
            }
        };
        let params: Vec<RecurrenceParams> = (0..copies).map(of_copy).collect();
        device.takes(&function, &params[0].into())?;
        let turns = Turns::new(device, function, params);
        Ok(States { turns, reference, inputs, updated, output })
    }
}

impl Workload for States<'_> {
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
        [&self.updated, &self.output].iter().try_for_each(|array| array.poison(self.turns.device))
    }

    fn verify(&mut self) -> Result<Check, DeviceError> {
        let places = [&self.updated, &self.output]
            .map(|array| (&array.buffer, array.place(self.turns.last())));
        self.reference.compare(self.turns.device, places)
    }
}
