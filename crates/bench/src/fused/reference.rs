//! What a fused operation has to leave, computed in f64.
//!
//! The sum with the residual is one addition in f32, rounded to bf16: it is the same bit by bit on
//! every device. An output is right where it is the rounding of some number within a stated bound
//! of the reference, so that a code may be the next one where the reference lies within the bound
//! of a tie, and nowhere else; a scale is right within the bound.

use super::super::{
    collected,
    element::{E4m3, f32_sum_bound, near_normal, nearest_of_bf16, nearest_of_e4m3},
    filled,
};
use fizeau_device::{Buffer, Device, DeviceError};
use fizeau_domain::{
    case::{Fused, FusedPoint},
    dtype::Dtype,
    outcome::Check,
    units::Bytes,
};
use half::bf16;

/// Rows after which they repeat: prime, so that no wrong stride or block finds its like.
const PERIOD: u32 = 61;

/// Every how manieth row is small, and how small: its mean of squares is then near
/// [`FusedPoint::EPSILON`].
const SMALL_EVERY: u32 = 8;
const SMALL: f64 = 1.0 / 1024.0;

/// What a few roundings, an approximate reciprocal, root and exponential may do to an output,
/// relative: units of GPUs are off by 2^-22 each (PTX ISA), polynomials on hosts by 2.5e-7, and the
/// exponent's own rounding counts by its size, which is below 16 here.
const STEPS: f64 = 1.0 / (1 << 18) as f64;

/// The largest number of e4m3.
const E4M3_MOST: f64 = 448.0;

/// The least number that is taken for the largest of those that share a scale, so that no scale is
/// zero: `eps` of vLLM's `per_token_group_quant_fp8`.
const LARGEST_MIN: f64 = 1e-10;

/// What 448 of the one scale of an fp8 output stands for: larger ones become 448.
const TENSOR_MOST: f64 = 6.0;

/// Rows of what goes in and what has to come out.
pub(super) struct Reference {
    point: FusedPoint,
    /// Input, residual and weights; empty where there are none.
    inputs: [Vec<bf16>; 3],
    /// Sums with the residual.
    updated: Vec<bf16>,
    /// Outputs before they are rounded, divided by their scale.
    values: Vec<f64>,
    /// The roundings of the values that are less and more by the bound, by their bits.
    codes: [Vec<u16>; 2],
    scales: Vec<f32>,
    /// Largest relative error of a value.
    bound: f64,
}

/// Memory of a reference.
pub(super) fn memory(point: &FusedPoint) -> Bytes {
    let rows = u64::from(point.rows.min(PERIOD));
    Bytes(rows * u64::from(point.width) * 24)
}

impl Reference {
    /// The rows that repeat, drawn and computed.
    pub fn new(point: &FusedPoint) -> Result<Reference, DeviceError> {
        let mut random =
            oorandom::Rand64::new(u128::from(point.rows) << 32 | u128::from(point.width));
        let (rows, width) = (point.rows.min(PERIOD) as usize, point.width as usize);
        let mut draw = |count: usize, row: usize| {
            let rows = (0..count).map(|at| {
                let is_small = (at / row) as u32 % SMALL_EVERY == SMALL_EVERY - 1;
                let size = if is_small { SMALL } else { 1.0 };
                bf16::from_f64(near_normal(&mut random) * size)
            });
            collected(count, rows)
        };
        let scales = Vec::new();
        let mut of = match point.fused {
            Fused::Norm => {
                let input = draw(rows * width, width)?;
                let residual = draw(rows * width, width)?;
                let weights = draw(width, width)?;
                let sums = input.iter().zip(&residual);
                let sum = |(&a, &b): (&bf16, &bf16)| bf16::from_f32(a.to_f32() + b.to_f32());
                let updated: Vec<bf16> = collected(rows * width, sums.map(sum))?;
                let mut values = Vec::new();
                for row in updated.chunks(width) {
                    values.extend(normalised(row, &weights, f64::from(FusedPoint::EPSILON)));
                }
                let (inputs, codes) = ([input, residual, weights], Default::default());
                let bound = STEPS + f32_sum_bound(width) / 2.0;
                Reference { point: *point, inputs, updated, values: vec![], codes, scales, bound }
                    .with(values)
            }
            Fused::Swiglu => {
                // Gates of either sign and both tails of the exponential.
                let input: Vec<bf16> = draw(rows * 2 * width, 2 * width)?
                    .into_iter()
                    .map(|value| bf16::from_f32(value.to_f32() * 3.0))
                    .collect();
                let mut values = Vec::new();
                for row in input.chunks(2 * width) {
                    let (gates, ups) = row.split_at(width);
                    values.extend(gates.iter().zip(ups).map(|(gate, up)| {
                        let gate = gate.to_f64();
                        gate / (1.0 + (-gate).exp()) * up.to_f64()
                    }));
                }
                let inputs = [input, Vec::new(), Vec::new()];
                let codes = Default::default();
                let (updated, bound) = (Vec::new(), STEPS);
                Reference { point: *point, inputs, updated, values: vec![], codes, scales, bound }
                    .with(values)
            }
        };
        of.round()?;
        Ok(of)
    }

    /// With outputs, which are divided by their scales.
    fn with(mut self, mut values: Vec<f64>) -> Reference {
        match self.point.output {
            Dtype::Fp8 => {
                let factor = f64::from(self.inverse());
                values.iter_mut().for_each(|value| *value *= factor);
            }
            Dtype::Fp8Block => {
                for row in values.chunks_mut(self.point.width as usize) {
                    for block in row.chunks_mut(FusedPoint::BLOCK as usize) {
                        let sizes = block.iter().map(|value| value.abs());
                        let scale = sizes.fold(LARGEST_MIN, f64::max) / E4M3_MOST;
                        block.iter_mut().for_each(|value| *value /= scale);
                        self.scales.push(scale as f32);
                    }
                }
                // The largest is off as any other is.
                self.bound *= 2.0;
            }
            _ => {}
        }
        self.values = values;
        self
    }

    /// Makes the codes between which a result may be.
    fn round(&mut self) -> Result<(), DeviceError> {
        let count = self.values.len();
        let code = |value: f64| match self.point.output {
            Dtype::Bf16 => bf16::from_f64(value).to_bits(),
            _ => u16::from(E4m3::from_f64(value.clamp(-E4M3_MOST, E4M3_MOST)).bits()),
        };
        for (side, factor) in [1.0 - self.bound, 1.0 + self.bound].into_iter().enumerate() {
            self.codes[side] = collected(count, self.values.iter().map(|v| code(v * factor)))?;
        }
        Ok(())
    }

    /// Bytes of a row of the input.
    pub fn input_row(&self) -> u64 {
        let gates = if self.point.fused == Fused::Swiglu { 2 } else { 1 };
        2 * gates * u64::from(self.point.width)
    }

    /// Bytes of a row of the output, scales not counted.
    pub fn output_row(&self) -> u64 {
        u64::from(self.point.width) * self.point.output.bits() / 8
    }

    /// See [`fizeau_domain::kernel::FusedParams::inverse`].
    pub fn inverse(&self) -> f32 {
        match self.point.output {
            Dtype::Fp8 => (E4M3_MOST / TENSOR_MOST) as f32,
            _ => 1.0,
        }
    }

    /// Input, residual and weights: the rows that repeat, and the bytes of one; 0 where there are
    /// none.
    pub fn inputs(&self) -> [(&[u8], u64); 3] {
        let row = 2 * u64::from(self.point.width);
        let rows = [self.input_row(), row, row];
        std::array::from_fn(|at| {
            let bytes: &[u8] = bytemuck::cast_slice(&self.inputs[at]);
            (bytes, if bytes.is_empty() { 0 } else { rows[at] })
        })
    }

    /// Compares all rows of the three arrays that begin at places of buffers: sums with the
    /// residual, output, scales.
    pub fn compare(
        &self,
        device: &dyn Device,
        places: [(&Buffer, u64); 3],
    ) -> Result<Check, DeviceError> {
        let mut check = Check { tolerance: self.bound, ..Check::NONE };
        let width = self.point.width as usize;
        let scales = self.point.scales() as usize;
        let rows_at_once = self.point.rows.min(PERIOD);
        let room = rows_at_once as usize * width;
        let mut updated = filled(bf16::ZERO, self.updated.len().min(room))?;
        let mut output = filled(0u8, room * self.point.output.bits() as usize / 8)?;
        let mut found = filled(0f32, rows_at_once as usize * scales)?;
        let mut row = 0;
        while row < self.point.rows {
            let now = rows_at_once.min(self.point.rows - row) as usize;
            let read = |place: usize, row_bytes: u64, into: &mut [u8]| {
                let (buffer, first) = places[place];
                if row_bytes == 0 {
                    return Ok(());
                }
                let into = &mut into[..now * row_bytes as usize];
                device.read(buffer, Bytes(first + u64::from(row) * row_bytes), into)
            };
            if !updated.is_empty() {
                read(0, 2 * width as u64, bytemuck::cast_slice_mut(&mut updated))?;
                compare_bits(&mut check, &updated[..now * width], &self.updated);
            }
            read(1, self.output_row(), &mut output)?;
            read(2, 4 * scales as u64, bytemuck::cast_slice_mut(&mut found))?;
            let output = &output[..now * self.output_row() as usize];
            match self.point.output {
                Dtype::Bf16 => {
                    let codes = output.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]));
                    self.compare_codes(&mut check, codes, nearest_of_bf16);
                }
                _ => {
                    let codes = output.iter().map(|&byte| u16::from(byte));
                    self.compare_codes(&mut check, codes, nearest_of_e4m3);
                }
            }
            for (&got, &wanted) in found[..now * scales].iter().zip(&self.scales) {
                check.count((f64::from(got) - f64::from(wanted)).abs(), f64::from(wanted));
            }
            row += now as u32;
        }
        Ok(check)
    }

    /// Compares codes of outputs: the error of one is how far its value is from the numbers that
    /// round to it, relative.
    fn compare_codes(
        &self,
        check: &mut Check,
        codes: impl Iterator<Item = u16>,
        rounded: fn(u16) -> [f64; 2],
    ) {
        let [less, more] = &self.codes;
        for (at, got) in codes.enumerate() {
            if got == less[at] && got == more[at] {
                check.compared += 1;
                continue;
            }
            let (value, [from, to]) = (self.values[at], rounded(got));
            // Not a number stays one.
            let outside = if from.is_nan() { f64::NAN } else { (from - value).max(value - to) };
            check.count(if outside < 0.0 { 0.0 } else { outside }, value.abs());
        }
    }
}

/// A row as the norm leaves it.
fn normalised<'r>(
    row: &'r [bf16],
    weights: &'r [bf16],
    epsilon: f64,
) -> impl Iterator<Item = f64> + 'r {
    let squares: f64 = row.iter().map(|value| value.to_f64() * value.to_f64()).sum();
    let factor = 1.0 / (squares / row.len() as f64 + epsilon).sqrt();
    row.iter().zip(weights).map(move |(value, weight)| value.to_f64() * factor * weight.to_f64())
}

/// Counts what is not equal bit by bit.
fn compare_bits(check: &mut Check, got: &[bf16], wanted: &[bf16]) {
    let wanted = &wanted[..got.len()];
    if bytemuck::cast_slice::<bf16, u16>(got) == bytemuck::cast_slice::<bf16, u16>(wanted) {
        check.compared += got.len() as u64;
        return;
    }
    for (got, wanted) in got.iter().zip(wanted) {
        let is_same = got.to_bits() == wanted.to_bits();
        check.count(if is_same { 0.0 } else { f64::INFINITY }, 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_rows_are_so_small_that_epsilon_shows() {
        let (output, rows, width) = (Dtype::Bf16, 16, 512);
        let point = FusedPoint { fused: Fused::Norm, output, rows, width };
        let of = Reference::new(&point).expect("memory");
        let row = &of.updated[7 * 512..8 * 512];
        let weights = &of.inputs[2];
        let with = normalised(row, weights, f64::from(FusedPoint::EPSILON));
        let mut both = with.zip(normalised(row, weights, 0.0));
        assert!(both.all(|(with, without)| with.abs() <= without.abs() * 0.9));
    }
}
