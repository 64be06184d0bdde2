//! Element types of matrix products: how their data are drawn and what their rounding may do.

use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};

/// An element type, with what data and checks need to know of it.
pub(super) trait Element: Pod {
    /// The element type of C.
    type Output: Element;
    /// Unit roundoff of the sums; 0 where they are exact.
    const SUM_ROUNDOFF: f64;
    /// Unit roundoff of the output where it is narrower than the sums, else 0.
    const OUTPUT_ROUNDOFF: f64;
    /// Whether B is kept column by column; see [`fizeau_domain::kernel::GemmParams`].
    const BY_COLUMNS: bool = false;
    /// What stands in C before a product is made.
    const POISON: Self;
    /// A random value: near normal (Irwin and Hall: the sum of four uniform values) with a
    /// variance of one; integers uniform over all there are.
    fn random(random: &mut oorandom::Rand64) -> Self;
    /// A whole number from -16 to 16, which all types have.
    fn whole(value: i8) -> Self;
    /// Its value.
    fn value(self) -> f64;
}

pub(super) fn near_normal(random: &mut oorandom::Rand64) -> f64 {
    let sum: u64 = [random.rand_u64(), random.rand_u64()]
        .map(|bits| (bits >> 32) + (bits & u64::from(u32::MAX)))
        .iter()
        .sum();
    // Four values of variance 1/12 each.
    (sum as f64 / (1u64 << 32) as f64 - 2.0) * 3f64.sqrt()
}

macro_rules! element {
    ($type:ty => $output:ty, sum $sum:expr, output $rounded:expr, poison $poison:expr,
     random $random:expr,
     whole $whole:expr, value $value:expr $(, by_columns $by_columns:expr)?) => {
        impl Element for $type {
            type Output = $output;
            const SUM_ROUNDOFF: f64 = $sum;
            const OUTPUT_ROUNDOFF: f64 = $rounded;
            $(const BY_COLUMNS: bool = $by_columns;)?
            const POISON: $type = $poison;
            fn random(random: &mut oorandom::Rand64) -> $type {
                $random(random)
            }
            fn whole(value: i8) -> $type {
                $whole(value)
            }
            fn value(self) -> f64 {
                $value(self)
            }
        }
    };
}

/// Half a unit in the last of 53, 24, 11 and 8 binary places.
pub(super) const F64_ROUNDOFF: f64 = f64::EPSILON / 2.0;
const F32_ROUNDOFF: f64 = f32::EPSILON as f64 / 2.0;
const F16_ROUNDOFF: f64 = 1.0 / 2048.0;
pub(super) const BF16_ROUNDOFF: f64 = 1.0 / 256.0;

/// Of sums of products of 8-bit floats: NVIDIA's units of compute capability 9.0 keep 14 binary
/// places of the largest and cut the rest (DeepSeek-V3's report, 2024, section 3.3.2), so that a
/// whole unit in the 14th may be lost each time.
pub(super) const E4M3_SUM_ROUNDOFF: f64 = 1.0 / 8192.0;

element!(f64 => f64, sum F64_ROUNDOFF, output 0.0, poison f64::NAN,
    random near_normal,
    whole f64::from, value |value| value);
element!(f32 => f32, sum F32_ROUNDOFF, output 0.0, poison f32::NAN,
    random |random| near_normal(random) as f32,
    whole f32::from, value f64::from);
element!(bf16 => bf16, sum F32_ROUNDOFF, output BF16_ROUNDOFF, poison bf16::NAN,
    random |random| bf16::from_f64(near_normal(random)),
    whole bf16::from, value bf16::to_f64);
element!(f16 => f16, sum F32_ROUNDOFF, output F16_ROUNDOFF, poison f16::NAN,
    random |random| f16::from_f64(near_normal(random)),
    whole f16::from, value f16::to_f64);
element!(Tf32 => f32, sum F32_ROUNDOFF, output 0.0, poison Tf32(f32::NAN),
    random |random| Tf32::from_f64(near_normal(random)),
    whole |value| Tf32(f32::from(value)), value |value: Tf32| f64::from(value.0));
element!(E4m3 => bf16, sum E4M3_SUM_ROUNDOFF, output BF16_ROUNDOFF, poison E4m3(0x7f),
    random |random| E4m3::from_f64(near_normal(random)),
    whole |value| E4m3::from_f64(f64::from(value)), value E4m3::to_f64, by_columns true);
element!(i8 => i32, sum 0.0, output 0.0, poison 0,
    random |random: &mut oorandom::Rand64| random.rand_u64() as i8,
    whole |value| value, value f64::from);
// No product of rows of int8 that fits memory reaches it: it is odd, and beyond 2^17 terms.
element!(i32 => i32, sum 0.0, output 0.0, poison i32::MIN + 1,
    random |random: &mut oorandom::Rand64| random.rand_u64() as i32,
    whole i32::from, value f64::from);

/// A float of 8 exponent and 10 fraction bits in the place of an [`f32`].
#[repr(transparent)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(super) struct Tf32(f32);

impl Tf32 {
    /// Bits of an [`f32`]'s fraction that it does not have.
    const CUT: u32 = 13;

    /// To nearest, ties away from zero, as NVIDIA's conversion does.
    fn from_f64(value: f64) -> Tf32 {
        let bits = (value as f32).to_bits() + (1 << (Self::CUT - 1));
        Tf32(f32::from_bits(bits >> Self::CUT << Self::CUT))
    }
}

/// A float of 4 exponent and 3 fraction bits, without infinities (OCP 8-bit floating point
/// specification, E4M3): 2^-9 at least, 448 at most.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub(super) struct E4m3(u8);

/// 2^`exponent`, of an exponent that a normal [`f64`] has.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

impl E4m3 {
    const SIGN: u8 = 0x80;
    /// The exponent of the least number that is not subnormal.
    const EXPONENT_MIN: i32 = -6;

    /// To nearest, ties to even; within +-448.
    pub(super) fn from_f64(value: f64) -> E4m3 {
        let size = value.abs();
        // The exponent as it stands in the bits: large operands are some 10^8 of these.
        let exponent = ((size.to_bits() >> 52) as i32 - 1023).max(Self::EXPONENT_MIN);
        // In eighths of the power of two below: a carry moves into the exponent by itself.
        let eighths = (size * power_of_two(3 - exponent)).round_ties_even() as u8;
        let bits = ((exponent - Self::EXPONENT_MIN) as u8) * 8 + eighths;
        // Zero has no sign: AMD's FNUZ formats have no negative one, and its bits are no number.
        E4m3(if value.is_sign_negative() && bits > 0 { Self::SIGN | bits } else { bits })
    }

    /// As it is kept.
    pub(super) fn bits(self) -> u8 {
        self.0
    }

    /// Its value.
    pub(super) fn to_f64(self) -> f64 {
        let size = self.0 & !Self::SIGN;
        if size == 0x7f {
            return f64::NAN;
        }
        let (exponent, fraction) = (i32::from(size >> 3), f64::from(size & 7));
        let magnitude = if exponent == 0 {
            fraction * power_of_two(Self::EXPONENT_MIN - 3)
        } else {
            (8.0 + fraction) * power_of_two(exponent - 1 + Self::EXPONENT_MIN - 3)
        };
        if self.0 & Self::SIGN == 0 { magnitude } else { -magnitude }
    }
}

/// What rounding may do to a sum of products in f32, relative to the sum of their
/// sizes: as [`super::verify`] has it of
/// sums in f64.
pub(super) fn f32_sum_bound(count: usize) -> f64 {
    let count = count as f64 + 1.0;
    count.min(8.0 * count.sqrt()) * F32_ROUNDOFF
}

/// The numbers that round to a code, from the least to the largest: up to the middles of it and its
/// neighbours. `size` gives the value of a code without its sign, and `most` has no neighbour
/// above.
fn nearest(bits: u16, sign: u16, most: u16, size: impl Fn(u16) -> f64) -> [f64; 2] {
    let code = bits & (sign - 1);
    let here = size(code);
    let below = if code == 0 { -size(1) } else { size(code - 1) };
    let above = if code >= most { f64::INFINITY } else { size(code + 1) };
    let [from, to] = [(here + below) / 2.0, (here + above) / 2.0];
    if bits & sign == 0 { [from, to] } else { [-to, -from] }
}

/// Those that round to a bf16.
pub(super) fn nearest_of_bf16(bits: u16) -> [f64; 2] {
    nearest(bits, 0x8000, bf16::MAX.to_bits(), |code| bf16::from_bits(code).to_f64())
}

/// Those that round to an e4m3.
pub(super) fn nearest_of_e4m3(bits: u16) -> [f64; 2] {
    nearest(bits, 0x80, 0x7e, |code| E4m3(code as u8).to_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_the_numbers_around_it() {
        // 1 and its neighbours 0.9375 and 1.125.
        assert_eq!(nearest_of_e4m3(0x38), [0.96875, 1.0625]);
        assert_eq!(nearest_of_e4m3(0xb8), [-1.0625, -0.96875]);
        assert_eq!(nearest_of_e4m3(0x00), [-(2f64.powi(-10)), 2f64.powi(-10)]);
        assert_eq!(nearest_of_e4m3(0x7e), [432.0, f64::INFINITY]);
        assert!(nearest_of_e4m3(0x7f)[0].is_nan());
        assert!(nearest_of_bf16(0x7fff)[0].is_nan());
        assert_eq!(nearest_of_bf16(0x3f80), [1.0 - 2f64.powi(-9), 1.0 + 2f64.powi(-8)]);
    }

    #[test]
    fn eight_bits_are_read_and_rounded() {
        let known = [(0x38, 1.0), (0xb8, -1.0), (0x7e, 448.0), (0x01, 2f64.powi(-9)), (0x00, 0.0)];
        for (bits, value) in known {
            assert_eq!(E4m3(bits).to_f64(), value);
        }
        for bits in (0..=u8::MAX).filter(|bits| bits & 0x7f != 0x7f && *bits != E4m3::SIGN) {
            assert_eq!(E4m3::from_f64(E4m3(bits).to_f64()).0, bits);
        }
        assert_eq!(E4m3::from_f64(-0.0).0, 0);
        // Between 1 and 1.125: to even; above the middle, up; 15.5 eighths carry.
        assert_eq!(E4m3::from_f64(1.0625).0, 0x38);
        assert_eq!(E4m3::from_f64(1.0626).0, 0x39);
        assert_eq!(E4m3::from_f64(1.9375).to_f64(), 2.0);
        assert!(E4m3(0xff).to_f64().is_nan());
    }

    #[test]
    fn nineteen_bits_are_rounded() {
        assert_eq!(Tf32::from_f64(1.0).0, 1.0);
        let next = 1.0 + 2f32.powi(-10);
        assert_eq!(Tf32::from_f64(1.0 + 2f64.powi(-11)).0, next);
        assert_eq!(Tf32::from_f64(1.0 + 2f64.powi(-12)).0, 1.0);
        assert_eq!(Tf32::from_f64(f64::from(-next)).0, -next);
    }
}
