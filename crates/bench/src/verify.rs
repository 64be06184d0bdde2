//! Random operands, and comparing results with what they should be.
//!
//! A large array repeats a [`Pattern`] whose length is prime: a gigabyte is filled and compared at
//! the speed of memory, and still no element is where a wrong stride, block or page would look for
//! it. Memory moves random bits and equal bits at the same speed on CPUs; the kernels cannot know
//! the pattern.

use fizeau_device::{Buffer, Device, DeviceError};
use fizeau_domain::{outcome::Check, units::Bytes};

/// Elements after which a pattern repeats: the largest prime below 2^16.
const PERIOD: usize = 65_521;

/// Values that arrays repeat.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pattern(Vec<f64>);

/// What an array should hold.
pub(super) struct Expected {
    /// The values of the reference.
    pub values: Pattern,
    /// What one element's error is relative to: its terms, added without their signs.
    pub magnitudes: Pattern,
    /// The largest error allowed.
    pub tolerance: f64,
}

impl Pattern {
    /// Uniform in -1 .. 1, always the same for the same seed.
    pub fn random(seed: u64) -> Pattern {
        let mut random = oorandom::Rand64::new(u128::from(seed));
        Pattern((0..PERIOD).map(|_| random.rand_float() * 2.0 - 1.0).collect())
    }

    /// One value everywhere.
    pub fn of(value: f64) -> Pattern {
        Pattern(vec![value; PERIOD])
    }

    /// Element by element.
    pub fn map(&self, each: impl Fn(f64) -> f64) -> Pattern {
        Pattern(self.0.iter().map(|&value| each(value)).collect())
    }

    /// Element by element with another.
    pub fn with(&self, other: &Pattern, each: impl Fn(f64, f64) -> f64) -> Pattern {
        Pattern(self.0.iter().zip(&other.0).map(|(&one, &two)| each(one, two)).collect())
    }

    /// The sum of the first `length` elements of the array, to within a rounding or two.
    pub fn sum(&self, length: u64) -> f64 {
        let period = PERIOD as u64;
        let rest = &self.0[..(length % period) as usize];
        sum(&self.0) * (length / period) as f64 + sum(rest)
    }

    /// The sum of the bits of the first `length` elements of the array, modulo 2^64.
    pub fn sum_of_bits(&self, length: u64) -> u64 {
        let period = PERIOD as u64;
        let sum = |values: &[f64]| {
            values.iter().fold(0, |sum: u64, value| sum.wrapping_add(value.to_bits()))
        };
        let rest = &self.0[..(length % period) as usize];
        sum(&self.0).wrapping_mul(length / period).wrapping_add(sum(rest))
    }

    /// Writes `length` elements into a buffer.
    pub fn fill(
        &self,
        device: &dyn Device,
        buffer: &Buffer,
        offset: Bytes,
        length: u64,
    ) -> Result<(), DeviceError> {
        device.fill(buffer, offset, bytemuck::cast_slice(&self.0), length)
    }
}

impl Expected {
    /// Compares `length` elements of a buffer, every one of them.
    pub fn compare(
        &self,
        device: &dyn Device,
        buffer: &Buffer,
        offset: Bytes,
        length: u64,
    ) -> Result<Check, DeviceError> {
        let mut check = Check { tolerance: self.tolerance, ..Check::NONE };
        // Where all bits are as they should be, the device itself can say so.
        let wanted = bytemuck::cast_slice(&self.values.0);
        if device.differing(buffer, offset, wanted, length)? == Some(0) {
            return Ok(Check { compared: length, ..check });
        }
        let mut got = vec![0.0; PERIOD];
        for (at, count) in chunks(length) {
            device.read(buffer, offset + at, bytemuck::cast_slice_mut(&mut got[..count]))?;
            if got[..count] == self.values.0[..count] {
                check.compared += count as u64;
                continue;
            }
            let wanted = self.values.0.iter().zip(&self.magnitudes.0);
            for (&got, (&wanted, &magnitude)) in got[..count].iter().zip(wanted) {
                check.count((got - wanted).abs(), magnitude);
            }
        }
        Ok(check)
    }
}

/// A check of one number.
pub(super) fn compare_one(got: f64, wanted: f64, magnitude: f64, tolerance: f64) -> Check {
    let mut check = Check { tolerance, ..Check::NONE };
    check.count((got - wanted).abs(), magnitude);
    check
}

/// What rounding may do to a sum of `count` products, added in any order, relative to the sum
/// without signs: `count` unit roundoffs at most, and no more than `8 sqrt(count)` of them but with
/// a probability below 1e-13 where roundings are independent (Higham and Mary, "A new approach to
/// probabilistic rounding error analysis", 2019). One more for a product's own.
pub(super) fn sum_tolerance(count: u64) -> f64 {
    let count = count as f64 + 1.0;
    count.min(8.0 * count.sqrt()) * (f64::EPSILON / 2.0)
}

/// Where each repetition of a pattern starts, and how many of its elements there are.
fn chunks(length: u64) -> impl Iterator<Item = (Bytes, usize)> {
    let period = PERIOD as u64;
    (0..length.div_ceil(period)).map(move |chunk| {
        let start = chunk * period;
        (Bytes(start * 8), period.min(length - start) as usize)
    })
}

/// A sum whose rounding errors are summed beside it (Neumaier, 1974).
pub(super) fn sum(values: &[f64]) -> f64 {
    let (mut total, mut lost) = (0.0f64, 0.0);
    for &value in values {
        let next = total + value;
        let (large, small) =
            if total.abs() >= value.abs() { (total, value) } else { (value, total) };
        lost += (large - next) + small;
        total = next;
    }
    total + lost
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_keep_what_is_small() {
        assert_eq!(sum(&[1.0, 1e100, 1.0, -1e100]), 2.0);
        let pattern = Pattern::random(1);
        let repeated: Vec<f64> = pattern.0.iter().cycle().take(150_000).copied().collect();
        assert!((pattern.sum(150_000) - sum(&repeated)).abs() < 1e-9);
        let bits = repeated.iter().fold(0, |sum: u64, value| sum.wrapping_add(value.to_bits()));
        assert_eq!(pattern.sum_of_bits(150_000), bits);
    }

    #[test]
    fn seeds_differ_and_repeat() {
        assert_eq!(Pattern::random(1), Pattern::random(1));
        assert_ne!(Pattern::random(1), Pattern::random(2));
        assert!(Pattern::random(3).0.iter().all(|value| (-1.0..1.0).contains(value)));
    }

    #[test]
    fn nothing_wrong_passes() {
        let wrong = |got, wanted| compare_one(got, wanted, 1.0, 1e-9);
        assert!(wrong(1.0, 1.0 + 1e-10).passed());
        for got in [1.1, f64::NAN, f64::INFINITY, -1.0, 0.0] {
            let check = wrong(got, 1.0);
            assert!(!check.passed() && check.wrong == 1, "{check:?}");
        }
        assert!(compare_one(0.0, 0.0, 0.0, 0.0).passed());
    }
}
