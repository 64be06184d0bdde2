//! What a recurrence has to leave, computed in f64.
//!
//! An element of a state or an output is right where it is the rounding of some number within a
//! bound of the reference. The bound is that of sums in f32 (`f32_sum_bound`) on the sizes of all
//! that goes into the element.

use super::super::{
    collected,
    element::{f32_sum_bound, near_normal, nearest_of_bf16},
    filled,
};
use fizeau_device::{Buffer, Device, DeviceError};
use fizeau_domain::{
    case::{Recurrence, RecurrencePoint},
    dtype::Dtype,
    outcome::Check,
    units::Bytes,
};
use half::bf16;

/// Sequences after which they repeat: prime, so that no wrong stride finds its like.
const PERIOD: u32 = 7;

/// Roundings beside those of the two sums: of decays, the difference, the update and the result.
const STEPS: usize = 6;

/// The inputs of the sequences that repeat, in the order of `RecurrenceParams`.
pub(super) struct Reference {
    point: RecurrencePoint,
    /// Of either element type: the other is empty.
    states: (Vec<f32>, Vec<bf16>),
    queries: Vec<bf16>,
    keys: Vec<bf16>,
    values: Vec<bf16>,
    decays: Vec<f32>,
    rates: Vec<f32>,
    /// One for each head, of all sequences.
    skips: Vec<f32>,
}

/// An input as it is written to a device.
pub(super) struct Input<'r> {
    pub bytes: &'r [u8],
    /// Bytes of one sequence.
    pub row: u64,
    /// Whether all sequences share it.
    pub is_of_all: bool,
}

/// What a head has to leave: the new state and the outputs, and the sizes that bounds are of.
struct Expected {
    state: Vec<[f64; 2]>,
    output: Vec<[f64; 2]>,
}

/// Memory of a reference.
pub(super) fn memory(point: &RecurrencePoint) -> Bytes {
    let sequences = u64::from(point.batch.min(PERIOD));
    let states = sequences * u64::from(point.heads) * point.elements();
    Bytes(states * point.state.bits() / 8 + 24 * point.elements())
}

impl Reference {
    /// The sequences that repeat, drawn.
    pub fn new(point: &RecurrencePoint) -> Result<Reference, DeviceError> {
        let RecurrencePoint { recurrence, heads, key_heads, key, value, .. } = *point;
        let seed = u128::from(point.batch) << 64 | u128::from(heads) << 32 | u128::from(key);
        let mut random = oorandom::Rand64::new(seed);
        let sequences = point.batch.min(PERIOD) as usize;
        let (heads, key_heads) = (sequences * heads as usize, sequences * key_heads as usize);
        let (key, value) = (key as usize, value as usize);
        let size = 1.0 / (key as f64).sqrt();
        let mut normal = |size: f64| near_normal(&mut random) * size;
        let count = heads * key * value;
        let states = match point.state {
            Dtype::F32 => (collected(count, (0..count).map(|_| normal(1.0) as f32))?, vec![]),
            _ => (vec![], collected(count, (0..count).map(|_| bf16::from_f64(normal(1.0))))?),
        };
        let mut halves = |count: usize, size: f64| {
            collected(count, (0..count).map(|_| bf16::from_f64(normal(size))))
        };
        let (queries, keys) = (halves(key_heads * key, size)?, halves(key_heads * key, size)?);
        let values = halves(heads * value, 1.0)?;
        let mut between = |count: usize, from: f64, to: f64| {
            let drawn = (0..count).map(|_| (from + (to - from) * random.rand_float()) as f32);
            collected(count, drawn)
        };
        let decays = between(heads * point.decays() as usize, 0.5, 1.0)?;
        let rates = between(heads, 0.125, 1.0)?;
        let has_skips = recurrence == Recurrence::Mamba2;
        let skips = if has_skips { between(point.heads as usize, 0.5, 1.5)? } else { vec![] };
        Ok(Reference { point: *point, states, queries, keys, values, decays, rates, skips })
    }

    /// As they are written to a device.
    pub fn inputs(&self) -> [Input<'_>; 7] {
        let sequences = u64::from(self.point.batch.min(PERIOD));
        let states: &[u8] = match self.point.state {
            Dtype::F32 => bytemuck::cast_slice(&self.states.0),
            _ => bytemuck::cast_slice(&self.states.1),
        };
        let of_each = |bytes: &'_ [u8]| bytes.len() as u64 / sequences;
        let each = |bytes| Input { bytes, row: of_each(bytes), is_of_all: false };
        let skips = bytemuck::cast_slice(&self.skips);
        [
            each(states),
            each(bytemuck::cast_slice(&self.queries)),
            each(bytemuck::cast_slice(&self.keys)),
            each(bytemuck::cast_slice(&self.values)),
            each(bytemuck::cast_slice(&self.decays)),
            each(bytemuck::cast_slice(&self.rates)),
            Input { bytes: skips, row: skips.len() as u64, is_of_all: true },
        ]
    }

    /// What one head of one of the sequences that repeat has to leave.
    fn expected(&self, sequence: usize, head: usize) -> Expected {
        let RecurrencePoint { recurrence, heads, key_heads, key, value, .. } = self.point;
        let [heads, key_heads, key, value] =
            [heads, key_heads, key, value].map(|length| length as usize);
        let at = sequence * heads + head;
        let first = at * value * key;
        let state = |place: usize| match self.point.state {
            Dtype::F32 => f64::from(self.states.0[first + place]),
            _ => self.states.1[first + place].to_f64(),
        };
        let of_keys = (sequence * key_heads + head / (heads / key_heads)) * key;
        let row = |all: &[bf16]| -> Vec<f64> {
            all[of_keys..of_keys + key].iter().map(|element| element.to_f64()).collect()
        };
        let (queries, keys) = (row(&self.queries), row(&self.keys));
        let (decays, rate) = (self.point.decays() as usize, f64::from(self.rates[at]));
        let decay = |column: usize| f64::from(self.decays[at * decays + column % decays]);
        let both = || keys.iter().zip(&queries).map(|(k, q)| k * q);
        let (product, product_size) = (both().sum::<f64>(), both().map(f64::abs).sum::<f64>());
        let (mut new, mut output) = (Vec::with_capacity(key * value), Vec::with_capacity(value));
        for element in 0..value {
            let wanted = self.values[at * value + element].to_f64();
            let decayed = |column: usize| decay(column) * state(element * key + column);
            let sum = |with: &[f64]| {
                let terms = (0..key).map(|column| decayed(column) * with[column]);
                terms.fold([0.0, 0.0], |[sum, size], term| [sum + term, size + term.abs()])
            };
            let ([kept, kept_size], [read, read_size]) = match recurrence {
                Recurrence::Mamba2 => ([0.0, 0.0], sum(&queries)),
                _ => (sum(&keys), sum(&queries)),
            };
            let update = rate * (wanted - kept);
            let update_size = rate * (wanted.abs() + kept_size);
            new.extend(keys.iter().enumerate().map(|(column, k)| {
                let old = decayed(column);
                [old + update * k, old.abs() + update_size * k.abs()]
            }));
            let skipped = self.skips.get(head).map_or(0.0, |skip| f64::from(*skip) * wanted);
            let size = read_size + update_size * product_size + skipped.abs();
            output.push([read + update * product + skipped, size]);
        }
        Expected { state: new, output }
    }

    /// Compares every element of the new states and the outputs, which begin at places of buffers.
    pub fn compare(
        &self,
        device: &dyn Device,
        places: [(&Buffer, u64); 2],
    ) -> Result<Check, DeviceError> {
        let RecurrencePoint { batch, heads, key, value, .. } = self.point;
        let tolerance = f32_sum_bound(key as usize + STEPS);
        let mut check = Check { tolerance, ..Check::NONE };
        let of_state = self.point.elements() * self.point.state.bits() / 8;
        let of_output = 2 * u64::from(value);
        let mut state = filled(0u8, of_state as usize)?;
        let mut output = filled(0u8, of_output as usize)?;
        for sequence in 0..batch.min(PERIOD) {
            for head in 0..heads {
                let expected = self.expected(sequence as usize, head as usize);
                for same in (sequence..batch).step_by(PERIOD as usize) {
                    let at = u64::from(same) * u64::from(heads) + u64::from(head);
                    let [(states, first), (outputs, first_output)] = places;
                    device.read(states, Bytes(first + at * of_state), &mut state)?;
                    device.read(outputs, Bytes(first_output + at * of_output), &mut output)?;
                    match self.point.state {
                        Dtype::F32 => compare_f32(&mut check, &state, &expected.state),
                        _ => compare_bf16(&mut check, &state, &expected.state),
                    }
                    compare_bf16(&mut check, &output, &expected.output);
                }
            }
        }
        Ok(check)
    }
}

fn compare_f32(check: &mut Check, got: &[u8], expected: &[[f64; 2]]) {
    for (bytes, &[wanted, size]) in got.as_chunks::<4>().0.iter().zip(expected) {
        check.count((f64::from(f32::from_le_bytes(*bytes)) - wanted).abs(), size);
    }
}

/// The error of one is how far its reference is from the numbers that round to it.
fn compare_bf16(check: &mut Check, got: &[u8], expected: &[[f64; 2]]) {
    for (bytes, &[wanted, size]) in got.as_chunks::<2>().0.iter().zip(expected) {
        let [from, to] = nearest_of_bf16(u16::from_le_bytes(*bytes));
        // Not a number stays one.
        let outside = if from.is_nan() { f64::NAN } else { (from - wanted).max(wanted - to) };
        check.count(if outside < 0.0 { 0.0 } else { outside }, size);
    }
}
