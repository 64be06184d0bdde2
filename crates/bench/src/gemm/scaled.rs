//! Operands whose elements share scales along k: how values are brought into them, and how both are
//! laid out.
//!
//! A power of two is chosen as the OCP Microscaling Formats specification (1.0, section 6.3) says:
//! that of the largest value of a block less that of the largest number of the element type; what
//! is then beyond the largest number becomes it. An 8-bit float is the largest value over 6, the
//! largest number of 4 bits, to the nearest. An f32 is the largest value over 448, the largest
//! number of e4m3; it is kept to 8 places, so that element times scale is exact in an f32.
//!
//! A tensor of nvfp4 has an f32 as tensor scale, as quantised checkpoints have it: its largest
//! value over 448 x 6. Values are divided by it before blocks get their scales, the largest of
//! which is then 448. Kernels multiply sums by A's tensor scale times B's ([`GemmParams::factor`]).
//!
//! What the checks compare with are the values that the elements and scales stand for, and their
//! product times that factor.
//!
//! [`GemmParams::factor`]: fizeau_domain::kernel::GemmParams::factor

use super::super::{element::E4m3, filled};
use fizeau_device::DeviceError;
use fizeau_domain::dtype::{Dtype, Scaling};
use half::bf16;

/// Rows of a tile of scales, and scales along k; see `kernels/include/scaled.h`.
const TILE: [usize; 2] = [128, 4];

/// The largest numbers of e4m3 and e2m1.
const E4M3_MAX: f64 = 448.0;
const E2M1_MAX: f64 = 6.0;

/// The values of e2m1 without the sign, by their bits.
const E2M1: [f64; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, E2M1_MAX];

/// A type whose elements share scales.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Format {
    dtype: Dtype,
    scaling: Scaling,
    /// Elements along k that share a scale.
    pub(super) block: usize,
}

/// Which of the operands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum WhichOperand {
    /// Rows are lines.
    A,
    /// Columns are.
    B,
}

/// A, or B by columns: lines of k elements each.
pub(super) struct Operand {
    /// Of 4 bits, the first of two in a byte is the lower.
    pub(super) elements: Vec<u8>,
    pub(super) scales: Vec<u8>,
    /// The values that elements and scales stand for, in units of the tensor scale.
    pub(super) values: Vec<f32>,
    /// 1 where the type has none.
    pub(super) tensor_scale: f32,
}

/// How a block's scale is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Choice {
    /// By its largest value, and the tensor's by that of the tensor.
    Fitting,
    /// One, for values that the elements have themselves; the tensor's as well.
    One,
}

impl Format {
    /// That of an element type; none where elements have no scales.
    pub(super) fn of(dtype: Dtype) -> Option<Format> {
        let scaling = dtype.scaling()?;
        Some(Format { dtype, scaling, block: scaling.block as usize })
    }

    /// Values brought into the format; whole blocks in each line.
    pub(super) fn operand(
        self,
        mut values: Vec<f32>,
        k: usize,
        side: WhichOperand,
        choice: Choice,
    ) -> Result<Operand, DeviceError> {
        let (lines, steps) = (values.len() / k, k / self.block);
        let shared = self.scaling.lines[side as usize] as usize;
        let bits_of_element = self.dtype.bits() as usize;
        let mut elements = filled(0u8, values.len() * bits_of_element / 8)?;
        let mut scales = filled(0u8, self.scales_bytes(lines.div_ceil(shared), steps))?;
        let tensor_scale = self.tensor_scale(&values, choice);
        values.iter_mut().for_each(|value| *value /= tensor_scale);
        for (group, step) in
            (0..lines.div_ceil(shared)).flat_map(|group| (0..steps).map(move |step| (group, step)))
        {
            let of_group = group * shared..lines.min((group + 1) * shared);
            let blocks = of_group.map(|line| line * k + step * self.block);
            let of_block = |first: usize| first..first + self.block;
            let all = blocks.clone().flat_map(|first| &values[of_block(first)]);
            let largest = all.fold(0f64, |most, &value| most.max(f64::from(value).abs()));
            let fits = (choice == Choice::Fitting && largest > 0.0).then_some(largest);
            let (bits, scale) = self.scale(fits);
            let at = self.scale_place(group, step, [lines, steps], side);
            match self.scaling.bits {
                8 => scales[at] = bits[0],
                _ => scales[4 * at..][..4].copy_from_slice(&bits),
            }
            for at in blocks.flat_map(of_block) {
                let (bits, rounded) = self.element(f64::from(values[at]) / scale);
                match bits_of_element {
                    8 => elements[at] = bits,
                    _ => elements[at / 2] |= bits << (4 * (at % 2)),
                }
                // Exact: a few bits times a few, or a power of two.
                values[at] = (rounded * scale) as f32;
            }
        }
        Ok(Operand { elements, scales, values, tensor_scale })
    }

    fn tensor_scale(self, values: &[f32], choice: Choice) -> f32 {
        let largest = values.iter().fold(0f32, |most, &value| most.max(value.abs()));
        let has_one = self.dtype == Dtype::Nvfp4 && choice == Choice::Fitting && largest > 0.0;
        if has_one { largest / (E4M3_MAX * E2M1_MAX) as f32 } else { 1.0 }
    }

    fn scales_bytes(self, lines: usize, steps: usize) -> usize {
        match self.scaling.bits {
            8 => lines.div_ceil(TILE[0]) * steps.div_ceil(TILE[1]) * TILE[0] * TILE[1],
            _ => lines * steps * 4,
        }
    }

    /// Where the scale of a group of lines and a block stands.
    fn scale_place(self, group: usize, step: usize, of: [usize; 2], side: WhichOperand) -> usize {
        let [lines, steps] = of;
        match (self.scaling.bits, side) {
            (8, _) => place(group, step, steps.div_ceil(TILE[1])),
            (_, WhichOperand::A) => step * lines + group,
            (_, WhichOperand::B) => group * steps + step,
        }
    }

    /// A scale that the largest value fits, one where nothing has to: its bits, of 8 the first, and
    /// its value.
    pub(super) fn scale(self, largest: Option<f64>) -> ([u8; 4], f64) {
        if self.dtype == Dtype::Fp8Block {
            let scale = bf16::from_f64(largest.map_or(1.0, |largest| largest / E4M3_MAX)).to_f64();
            return ((scale as f32).to_le_bytes(), scale);
        }
        if self.dtype == Dtype::Nvfp4 {
            let wanted = largest.map_or(1.0, |largest| largest / E2M1_MAX);
            // Not less than the least there is: 0 would lose the block.
            let scale = E4m3::from_f64(wanted.clamp(2f64.powi(-9), E4M3_MAX));
            return ([scale.bits(), 0, 0, 0], scale.to_f64());
        }
        let most = if self.dtype == Dtype::Mxfp8 { E4M3_MAX } else { E2M1_MAX };
        let fitting = |largest: f64| largest.log2().floor() - most.log2().floor();
        let exponent = largest.map_or(0.0, fitting).clamp(-127.0, 127.0) as i32;
        ([(exponent + 127) as u8, 0, 0, 0], 2f64.powi(exponent))
    }

    /// The nearest element, ties to even: its bits and its value.
    pub(super) fn element(self, value: f64) -> (u8, f64) {
        if self.dtype.bits() == 8 {
            let element = E4m3::from_f64(value.clamp(-E4M3_MAX, E4M3_MAX));
            return (element.bits(), element.to_f64());
        }
        let size = value.abs().min(E2M1_MAX);
        // Half way to the next, an odd number goes up.
        let above = |at: usize| {
            let middle = (E2M1[at] + E2M1[at + 1]) / 2.0;
            size > middle || size == middle && at % 2 == 1
        };
        let bits = (0..E2M1.len() - 1).take_while(|&at| above(at)).count();
        let negative = value < 0.0 && bits > 0;
        let rounded = if negative { -E2M1[bits] } else { E2M1[bits] };
        (if negative { 8 | bits as u8 } else { bits as u8 }, rounded)
    }
}

/// Where the scale of a line's block stands, of lines of a number of tiles.
fn place(line: usize, step: usize, tiles: usize) -> usize {
    let tile = line / TILE[0] * tiles + step / TILE[1];
    let within = line % TILE[0];
    tile * TILE[0] * TILE[1] + within % 32 * 16 + within / 32 * 4 + step % TILE[1]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(dtype: Dtype) -> Format {
        Format::of(dtype).expect("it has scales")
    }

    /// By the specifications of the formats, not by this module's own tables.
    fn decoded(format: Format, operand: &Operand, k: usize) -> Vec<f64> {
        let value = |at: usize| {
            let (line, step) = (at / k, at % k / format.block);
            let scale = operand.scales[place(line, step, (k / format.block).div_ceil(4))];
            let float = |bits: u8, fraction_bits: u32, bias: i32| {
                let (exponent, ones) = (bits >> fraction_bits, (1 << fraction_bits) - 1);
                let fraction = f64::from(bits & ones) / f64::from(1u32 << fraction_bits);
                match exponent {
                    0 => fraction * 2f64.powi(1 - bias),
                    _ => (1.0 + fraction) * 2f64.powi(i32::from(exponent) - bias),
                }
            };
            let scale = match format.dtype {
                Dtype::Nvfp4 => float(scale, 3, 7),
                _ => 2f64.powi(i32::from(scale) - 127),
            };
            let (bits, sign, element) = match format.dtype {
                Dtype::Mxfp8 => {
                    (operand.elements[at], 0x80, float(operand.elements[at] & 0x7f, 3, 7))
                }
                _ => {
                    let bits = operand.elements[at / 2] >> (4 * (at % 2)) & 15;
                    (bits, 8, float(bits & 7, 1, 1))
                }
            };
            if bits & sign == 0 { element * scale } else { -element * scale }
        };
        (0..operand.values.len()).map(value).collect()
    }

    fn operand(
        format: Format,
        values: Vec<f32>,
        k: usize,
        side: WhichOperand,
        choice: Choice,
    ) -> Operand {
        format.operand(values, k, side, choice).expect("there is room")
    }

    #[test]
    fn elements_and_scales_stand_for_the_values() {
        let mut random = oorandom::Rand64::new(1);
        for dtype in [Dtype::Mxfp8, Dtype::Mxfp4, Dtype::Nvfp4] {
            let format = format(dtype);
            let (lines, k) = (131, 5 * format.block);
            let drawn: Vec<f32> =
                (0..lines * k).map(|_| (random.rand_float() * 8.0 - 4.0) as f32).collect();
            let made = operand(format, drawn.clone(), k, WhichOperand::A, Choice::Fitting);
            let values: Vec<f64> = made.values.iter().map(|&value| f64::from(value)).collect();
            assert_eq!(decoded(format, &made, k), values, "{dtype}");
            // That of nvfp4 is no power of two, and the largest scale of a block is that of e4m3.
            let has_one = made.tensor_scale.to_bits() << 9 != 0;
            assert_eq!(has_one, dtype == Dtype::Nvfp4);
            assert!(!has_one || made.scales.iter().max() == Some(&0x7e));
            let scale = f64::from(made.tensor_scale);
            let values: Vec<f64> = values.iter().map(|value| value * scale).collect();
            // Near what was drawn: half of the widest step, 2 of 6 or 32 of 448, of a scale that
            // may leave out a half of the range; beyond the end, 2 of 8 or 64 of 512.
            let share = if dtype == Dtype::Mxfp8 { 64.0 / 512.0 } else { 2.0 / 8.0 };
            for (blocks, drawn) in values.chunks(format.block).zip(drawn.chunks(format.block)) {
                let most = drawn.iter().fold(0f32, |most, value| most.max(value.abs()));
                let near =
                    |(a, b): (&f64, &f32)| (a - f64::from(*b)).abs() <= share * f64::from(most);
                assert!(blocks.iter().zip(drawn).all(near), "{dtype}");
            }
        }
    }

    #[test]
    fn known_blocks_have_known_bits() {
        // The largest is 5 = 1.25 x 2^2: scale 2^(2 - 2) for e2m1, 2^(2 - 8) for e4m3.
        let mut block = vec![0f32; 32];
        (block[0], block[1], block[2], block[3]) = (5.0, -1.0, 0.25, 2.5);
        let four =
            operand(format(Dtype::Mxfp4), block.clone(), 32, WhichOperand::A, Choice::Fitting);
        // 5 is half way between 4 and 6: to even, 4; 0.25 to 0; 2.5 between 2 and 3: 2.
        assert_eq!((four.scales[0], &four.elements[..2]), (127, &[0xa6, 0x40][..]));
        assert_eq!(four.values[..4], [4.0, -1.0, 0.0, 2.0]);
        let eight =
            operand(format(Dtype::Mxfp8), block.clone(), 32, WhichOperand::A, Choice::Fitting);
        // 320 = 1.25 x 2^8: exponent 8 + 7, fraction 2.
        assert_eq!((eight.scales[0], eight.elements[0]), (127 - 6, 15 << 3 | 2));
        block.truncate(16);
        block[0] = 6.0;
        let other = operand(format(Dtype::Nvfp4), block, 16, WhichOperand::A, Choice::Fitting);
        // The largest number of e4m3, in units of a tensor scale of 6 / (448 x 6).
        assert_eq!((other.scales[0], other.elements[0]), (0x7e, 0xa7));
        assert_eq!(other.tensor_scale, 1.0 / 448.0);
        // Nothing, and whole numbers that 4 bits have: scales of one.
        let whole = operand(format(Dtype::Nvfp4), vec![3.0; 16], 16, WhichOperand::A, Choice::One);
        assert_eq!((whole.scales[0], whole.elements[0], whole.values[0]), (0x38, 0x55, 3.0));
        assert_eq!(whole.tensor_scale, 1.0);
        let nothing =
            operand(format(Dtype::Mxfp8), vec![0.0; 32], 32, WhichOperand::A, Choice::Fitting);
        assert_eq!((nothing.scales[0], nothing.values[0]), (127, 0.0));
    }

    #[test]
    fn large_blocks_have_their_scales_in_rows() {
        let format = format(Dtype::Fp8Block);
        let (lines, k) = (130, 256);
        // The largest of each block is 448 times a power of two: that of line and block in A, that
        // of 128 lines and block in B.
        let power = |line: usize, step: usize| 2f32.powi((line % 3 + step) as i32);
        let values: Vec<f32> =
            (0..lines * k).map(|at| 448.0 * power(at / k, at % k / 128)).collect();
        let scales = |operand: &Operand| -> Vec<f32> {
            let word = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("4 bytes"));
            operand.scales.chunks(4).map(word).collect()
        };
        let a = operand(format, values.clone(), k, WhichOperand::A, Choice::Fitting);
        let wanted = (0..2).flat_map(|step| (0..lines).map(move |line| (line, step)));
        let wanted: Vec<f32> = wanted.map(|(line, step)| power(line, step)).collect();
        assert_eq!(scales(&a), wanted);
        assert!(a.elements.iter().all(|&element| element == 0x7e) && a.values == values);
        let b = operand(format, values.clone(), k, WhichOperand::B, Choice::Fitting);
        // Lines 128 and 129 are 2 and 0 more than a multiple of 3.
        assert_eq!(scales(&b), [4.0, 8.0, 4.0, 8.0]);
        assert_eq!(b.values, values);
    }

    #[test]
    fn scales_stand_in_tiles() {
        // In the order of memory: 4 along k of a line, of the lines 32, 64 and 96 further, then
        // of the next line; tile after tile along k, then down.
        let mut wanted = 0;
        for (down, along) in (0..2).flat_map(|down| (0..3).map(move |along| (down, along))) {
            for (line, quarter) in (0..32).flat_map(|line| (0..4).map(move |q| (line, q))) {
                for step in 0..4 {
                    let line = down * 128 + quarter * 32 + line;
                    assert_eq!(place(line, along * 4 + step, 3), wanted);
                    wanted += 1;
                }
            }
        }
        let lines =
            operand(format(Dtype::Nvfp4), vec![1.0; 129 * 80], 80, WhichOperand::A, Choice::One);
        assert_eq!(lines.scales.len(), 2 * 2 * 512);
        // What no line or block has is zero.
        assert_eq!(lines.scales.iter().filter(|&&scale| scale != 0).count(), 129 * 5);
    }
}
