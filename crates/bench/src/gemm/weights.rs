//! Weights of 8 and 4 bits that bf16 activations are multiplied with, as a quantised language model
//! has them: how values are brought into them, and how B is laid out (`kernels/include/weights.h`).
//!
//! A scale is chosen so that the largest weight of its block becomes the largest number of the
//! element type: a bf16 that is the largest over 7 (int4) or 448 (fp8, kept as an f32), or the
//! power of two of [`super::scaled`] (mxfp4). Weight times scale is then exact in an f32, and the
//! reference is made of these products: what widening may round is the kernel's fault.

use super::{
    Made, Ready, by_columns,
    reference::{Reference, Roundoff},
    scaled::{Choice, Format},
    shape,
};
use crate::{
    Rank, Unready, collected,
    element::{E4m3, near_normal},
    filled,
};
use fizeau_device::DeviceError;
use fizeau_domain::{
    case::{Contents, GemmPoint, KernelName},
    dtype::Dtype,
};
use half::bf16;

/// Weights along k whose scales stand beside each other: one bf16 of int4, four bytes of mxfp4.
const GROUP: usize = 128;

/// B, column by column, in one of the formats.
struct Quantised {
    weights: Vec<u8>,
    scales: Vec<u8>,
    /// The values that the quantised weights and scales stand for.
    values: Vec<f32>,
}

/// Makes a case ready.
pub(super) fn prepare<'r>(point: &GemmPoint, kernel: &KernelName, rank: Rank<'r>) -> Ready<'r> {
    let block = point.dtype.weights().and_then(|weights| weights.block).unwrap_or(1);
    if u64::from(point.k).is_multiple_of(block) {
        return super::ready(point, kernel, rank, made);
    }
    let needs = format!("{} has scales for whole blocks of {block} along k", point.dtype);
    Err(Unready::Unsupported(needs))
}

fn made(point: &GemmPoint) -> Result<Made<bf16>, DeviceError> {
    let [m, n, k] = shape(point);
    let mut random = super::randomness(point);
    let mut draw = || match point.contents {
        Contents::Random => near_normal(&mut random) as f32,
        Contents::Integers => f32::from(super::small(&mut random)),
        Contents::Zeros => 0.0,
    };
    let a = collected(m * k, (0..m * k).map(|_| bf16::from_f32(draw())))?;
    let b = collected(k * n, (0..k * n).map(|_| draw()))?;
    let choice = if point.contents.are_random() { Choice::Fitting } else { Choice::One };
    let b = quantised(point.dtype, b, k, choice)?;
    let values = collected(m * k, a.iter().map(|value| value.to_f32()))?;
    let of_b = by_columns(&b.values, k)?;
    let roundoff = Roundoff::of::<bf16>();
    let reference = Reference::new(&values, &of_b, [m, n, k], roundoff, &mut random);
    let a: &[u8] = bytemuck::cast_slice(&a);
    let a = collected(a.len(), a.iter().copied())?;
    let scales = [Vec::new(), b.scales];
    Ok(Made { a, b: b.weights, scales, factor: 1.0, reference, sums: None })
}

/// Values of columns of k, brought into a format.
fn quantised(
    dtype: Dtype,
    mut values: Vec<f32>,
    k: usize,
    choice: Choice,
) -> Result<Quantised, DeviceError> {
    let Some(format) = dtype.weights() else { unreachable!("{dtype} has no weights of its own") };
    let block = format.block.map_or(k, |block| block as usize);
    let columns = values.len() / k;
    let mxfp4 = Format::of(Dtype::Mxfp4);
    let mut weights = filled(0u8, values.len() * format.bits as usize / 8)?;
    let of_column = match dtype {
        Dtype::Bf16Fp8 => 4,
        Dtype::Bf16Int4 => k / GROUP * 2,
        _ => k.div_ceil(GROUP) * 4,
    };
    let mut scales = filled(0u8, columns * of_column)?;
    for (at, of_block) in values.chunks_mut(block).enumerate() {
        let (column, first) = (at * block / k, at * block % k);
        let largest = of_block.iter().fold(0f32, |most, value| most.max(value.abs()));
        let fits = (choice == Choice::Fitting && largest > 0.0).then_some(f64::from(largest));
        let over = |most: f64| bf16::from_f64(fits.map_or(1.0, |largest| largest / most));
        let place = first / GROUP * columns + column;
        let scale = match (dtype, mxfp4) {
            (Dtype::Bf16Mxfp4, Some(format)) => {
                let (bits, scale) = format.scale(fits);
                scales[place * 4 + first % GROUP / block] = bits[0];
                scale
            }
            (Dtype::Bf16Int4, _) => {
                scales[place * 2..][..2].copy_from_slice(&over(7.0).to_le_bytes());
                over(7.0).to_f64()
            }
            _ => {
                let scale = over(448.0).to_f32();
                scales[column * 4..][..4].copy_from_slice(&scale.to_le_bytes());
                f64::from(scale)
            }
        };
        for (i, value) in of_block.iter_mut().enumerate() {
            let wanted = f64::from(*value) / scale;
            let at = column * k + first + i;
            let (bits, rounded) = match (dtype, mxfp4) {
                (Dtype::Bf16Mxfp4, Some(format)) => format.element(wanted),
                (Dtype::Bf16Int4, _) => {
                    let whole = wanted.round_ties_even().clamp(-8.0, 7.0);
                    ((whole + 8.0) as u8, whole)
                }
                _ => {
                    let element = E4m3::from_f64(wanted.clamp(-448.0, 448.0));
                    (element.bits(), element.to_f64())
                }
            };
            if format.bits == 8 {
                weights[at] = bits;
            } else {
                let (byte, shift) = nibble(at);
                weights[byte] |= bits << shift;
            }
            *value = (rounded * scale) as f32;
        }
    }
    Ok(Quantised { weights, scales, values })
}

/// The byte and the bit in it from which a 4-bit weight stands: eight share a word of 32 bits, even
/// ones in the lower half.
fn nibble(at: usize) -> (usize, usize) {
    let bit = at % 2 * 16 + at % 8 / 2 * 4;
    (at / 8 * 4 + bit / 8, bit % 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: usize = 256;
    const SHAPE: [usize; 3] = [3, 24, K];

    /// A column's weight by the definition of its format, written down a second time.
    fn value(dtype: Dtype, b: &Quantised, column: usize, k: usize) -> f64 {
        let [_, n, _] = SHAPE;
        let word = |at: usize| u32::from_le_bytes(b.weights[at..at + 4].try_into().expect("4"));
        let at = column * K + k;
        // 0 2 4 6 1 3 5 7, from the lowest bits.
        let place = [0, 4, 1, 5, 2, 6, 3, 7][at % 8];
        let bits = if dtype == Dtype::Bf16Fp8 { 0 } else { word(at / 8 * 4) >> (4 * place) & 15 };
        match dtype {
            Dtype::Bf16Int4 => {
                let at = (k / 128 * n + column) * 2;
                let scale = bf16::from_le_bytes([b.scales[at], b.scales[at + 1]]);
                (f64::from(bits) - 8.0) * scale.to_f64()
            }
            Dtype::Bf16Mxfp4 => {
                let size = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0][bits as usize % 8];
                let scale = b.scales[(k / 128 * n + column) * 4 + k % 128 / 32];
                let size = size * 2f64.powi(i32::from(scale) - 127);
                if bits < 8 { size } else { -size }
            }
            _ => {
                let bits = b.weights[at];
                let (exponent, fraction) = (i32::from(bits >> 3 & 15), f64::from(bits & 7) / 8.0);
                let size = match exponent {
                    0 => fraction * 2f64.powi(-6),
                    _ => (1.0 + fraction) * 2f64.powi(exponent - 7),
                };
                let scale = b.scales[column * 4..][..4].try_into().expect("4 bytes");
                let size = size * f64::from(f32::from_le_bytes(scale));
                if bits < 128 { size } else { -size }
            }
        }
    }

    /// Whether a product with these weights passes the check against the reference.
    fn passes(dtype: Dtype, change: impl Fn(&mut Quantised)) -> bool {
        let [m, n, k] = SHAPE;
        let mut random = oorandom::Rand64::new(3);
        let mut draw = |_| near_normal(&mut random) as f32;
        let a: Vec<f32> = (0..m * k).map(&mut draw).map(|v| bf16::from_f32(v).to_f32()).collect();
        let drawn = (0..n * k).map(&mut draw).collect();
        let mut b = quantised(dtype, drawn, k, Choice::Fitting).expect("there is room");
        let of_b = by_columns(&b.values, k).expect("there is room");
        let reference: Reference<bf16> =
            Reference::new(&a, &of_b, SHAPE, Roundoff::of::<bf16>(), &mut random);
        change(&mut b);
        let element = |at: usize| {
            let (row, column) = (at / n, at % n);
            let products = (0..k).map(|i| f64::from(a[row * k + i]) * value(dtype, &b, column, i));
            bf16::from_f64(products.sum())
        };
        reference.check(&(0..m * n).map(element).collect::<Vec<_>>()).passed()
    }

    #[test]
    fn weights_and_scales_stand_for_the_values() {
        for dtype in [Dtype::Bf16Fp8, Dtype::Bf16Int4, Dtype::Bf16Mxfp4] {
            assert!(passes(dtype, |_| ()), "{dtype}");
            // Two neighbours in a byte, or in a word, exchanged; a scale of the next group.
            let swapped = |b: &mut Quantised| match dtype {
                Dtype::Bf16Fp8 => b.weights.swap(5, 6),
                _ => b.weights[5] = b.weights[5].rotate_left(4),
            };
            assert!(!passes(dtype, swapped), "{dtype}");
            let shifted = |b: &mut Quantised| {
                let scale = dtype.weights().map_or(0, |weights| weights.scale_bits as usize / 8);
                b.scales.rotate_left(scale);
            };
            assert!(!passes(dtype, shifted), "{dtype}");
        }
    }

    #[test]
    fn whole_numbers_are_kept() {
        for dtype in [Dtype::Bf16Fp8, Dtype::Bf16Int4, Dtype::Bf16Mxfp4] {
            let values: Vec<f32> = (0..K).map(|at| (at % 9) as f32 - 4.0).collect();
            let b = quantised(dtype, values.clone(), K, Choice::One).expect("there is room");
            assert_eq!(b.values, values, "{dtype}");
        }
    }
}
