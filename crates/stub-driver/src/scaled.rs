//! Products of elements that share scales, by the definitions of their formats, written down here a
//! second time.

use crate::{
    memory::Memory,
    products::{Parameters, narrowed},
};

/// A format: bits of an element, elements of a scale.
#[derive(Clone, Copy)]
pub struct Format {
    bits: u64,
    block: u64,
}

/// Of an entry's element type.
pub fn format(dtype: &str) -> Option<Format> {
    match dtype {
        "mxfp8" => Some(Format { bits: 8, block: 32 }),
        "mxfp4" => Some(Format { bits: 4, block: 32 }),
        "nvfp4" => Some(Format { bits: 4, block: 16 }),
        "fp8block" => Some(Format { bits: 8, block: 128 }),
        _ => None,
    }
}

/// A float without a sign, of the given number of fraction bits.
fn float(bits: u8, fraction_bits: i32, bias: i32) -> f64 {
    let exponent = i32::from(bits) >> fraction_bits;
    let fraction = f64::from(bits & ((1 << fraction_bits) - 1));
    match exponent {
        0 => fraction * 2f64.powi(1 - bias - fraction_bits),
        _ => {
            (fraction + f64::from(1 << fraction_bits)) * 2f64.powi(exponent - bias - fraction_bits)
        }
    }
}

impl Format {
    fn element(self, elements: &[u8], at: u64) -> f64 {
        let (bits, sign, size) = if self.bits == 8 {
            let bits = elements[at as usize];
            (bits, 0x80, float(bits & 0x7f, 3, 7))
        } else {
            let bits = elements[at as usize / 2] >> (4 * (at % 2));
            (bits, 8, float(bits & 7, 1, 1))
        };
        if bits & sign == 0 { size } else { -size }
    }

    fn scale(self, bits: u8) -> f64 {
        if self.block == 16 { float(bits, 3, 7) } else { 2f64.powi(i32::from(bits) - 127) }
    }

    /// Rows of A, or columns of B: their values.
    fn lines(
        self,
        memory: &Memory,
        at: [u64; 2],
        [count, k]: [u64; 2],
        of_b: bool,
    ) -> Option<Vec<f64>> {
        if self.block == 128 {
            // Of A a row of scales for each block; of B for each 128 columns.
            let (lines, steps) = (if of_b { count.div_ceil(128) } else { count }, k / 128);
            let elements = memory.load::<u8>(at[0], count * k)?;
            let scales = memory.load::<f32>(at[1], lines * steps)?;
            let value = |of: u64| {
                let (line, step) = (of / k, of % k / 128);
                let place = if of_b { line / 128 * steps + step } else { step * count + line };
                self.element(&elements, of) * f64::from(scales[place as usize])
            };
            return Some((0..count * k).map(value).collect());
        }
        let tiles = (k / self.block).div_ceil(4);
        let elements = memory.load::<u8>(at[0], count * k * self.bits / 8)?;
        let scales = memory.load::<u8>(at[1], count.div_ceil(128) * tiles * 512)?;
        let value = |of: u64| {
            let (line, step) = (of / k, of % k / self.block);
            // 128 lines and 4 steps a tile: 16 bytes have those of lines 32 apart.
            let tile = line / 128 * tiles + step / 4;
            let within = line % 32 * 16 + line % 128 / 32 * 4 + step % 4;
            self.element(&elements, of) * self.scale(scales[(tile * 512 + within) as usize])
        };
        Some((0..count * k).map(value).collect())
    }
}

/// Two operands, the product, three sizes; scales behind them. C is the product times `factor`.
pub fn product(params: &[u8], format: Format, memory: &mut Memory, factor: f64) -> Option<()> {
    let params = Parameters(params);
    let [m, n, k] = [24, 28, 32].map(|at| params.u32(at));
    let (m, n, k) = (m?, n?, k?);
    if k % format.block != 0 {
        return None;
    }
    let a = format.lines(memory, [params.u64(0)?, params.u64(40)?], [m, k], false)?;
    let b = format.lines(memory, [params.u64(8)?, params.u64(48)?], [n, k], true)?;
    let element = |at: u64| -> f64 {
        let line = |of: u64| (of * k) as usize..((of + 1) * k) as usize;
        factor * a[line(at / n)].iter().zip(&b[line(at % n)]).map(|(a, b)| a * b).sum::<f64>()
    };
    let c: Vec<u16> = (0..m * n).map(element).map(narrowed).collect();
    memory.store(params.u64(16)?, &c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_read_by_their_definition() {
        assert_eq!([0, 1, 2, 3, 7].map(|bits| float(bits, 1, 1)), [0.0, 0.5, 1.0, 1.5, 6.0]);
        assert_eq!([0x38, 0x7e, 1].map(|bits| float(bits, 3, 7)), [1.0, 448.0, 2f64.powi(-9)]);
        let four = format("mxfp4").expect("a format");
        assert_eq!([0, 1].map(|at| four.element(&[0xe2], at)), [1.0, -4.0]);
        assert_eq!((four.scale(128), format("fp8").is_none()), (2.0, true));
    }
}
