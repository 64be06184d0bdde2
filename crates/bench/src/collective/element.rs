//! What ranks send, by element type, and what their sums may be off by.
//!
//! Wide floats are uniform over [0.5, 1.5): all positive, hence no sum cancels. Narrow types would
//! be rounded in an order and a width that libraries choose as they like, so that a bound on the
//! error would let much pass: they are small integers instead, so small that every sum of any of
//! the ranks' terms is exact, and what is not equal is wrong (as in `nccl-tests`, whose
//! `verifiable` data are exact too).

use super::super::element::E4m3;
use bytemuck::Pod;
use half::{bf16, f16};

/// An element type, with what data and checks need to know of it.
pub(crate) trait Element: Pod + PartialEq {
    /// What stands in a buffer before it is received: nothing that is ever sent.
    const POISON: Self;
    /// Unit roundoff of each addition; 0 where sums are exact.
    const ROUNDOFF: f64;
    /// All integers up to this are values of the type; 0 where data are fractions.
    const EXACT: u64 = 0;
    /// Whether what is summed again and again in place only grows: it may become infinite, and
    /// neither wraps nor ends as no number.
    const GROWS: bool = true;
    /// The nearest value.
    fn of(value: f64) -> Self;
    /// Its value.
    fn value(self) -> f64;
}

impl Element for f64 {
    const POISON: f64 = f64::NAN;
    const ROUNDOFF: f64 = f64::EPSILON / 2.0;
    fn of(value: f64) -> f64 {
        value
    }
    fn value(self) -> f64 {
        self
    }
}

impl Element for f32 {
    const POISON: f32 = f32::NAN;
    const ROUNDOFF: f64 = f32::EPSILON as f64 / 2.0;
    fn of(value: f64) -> f32 {
        value as f32
    }
    fn value(self) -> f64 {
        f64::from(self)
    }
}

impl Element for bf16 {
    const POISON: bf16 = bf16::NAN;
    const ROUNDOFF: f64 = 0.0;
    /// 8 binary places.
    const EXACT: u64 = 256;
    fn of(value: f64) -> bf16 {
        bf16::from_f64(value)
    }
    fn value(self) -> f64 {
        self.to_f64()
    }
}

impl Element for f16 {
    const POISON: f16 = f16::NAN;
    const ROUNDOFF: f64 = 0.0;
    /// 11 binary places.
    const EXACT: u64 = 2048;
    fn of(value: f64) -> f16 {
        f16::from_f64(value)
    }
    fn value(self) -> f64 {
        self.to_f64()
    }
}

impl Element for i8 {
    const POISON: i8 = i8::MIN;
    const ROUNDOFF: f64 = 0.0;
    const EXACT: u64 = i8::MAX as u64;
    const GROWS: bool = false;
    fn of(value: f64) -> i8 {
        value as i8
    }
    fn value(self) -> f64 {
        f64::from(self)
    }
}

impl Element for E4m3 {
    const POISON: E4m3 = <E4m3 as super::super::element::Element>::POISON;
    const ROUNDOFF: f64 = 0.0;
    /// 4 binary places.
    const EXACT: u64 = 16;
    /// Beyond 448 some libraries saturate, others end as no number.
    const GROWS: bool = false;
    fn of(value: f64) -> E4m3 {
        E4m3::from_f64(value)
    }
    fn value(self) -> f64 {
        self.to_f64()
    }
}

/// Whose elements meet: each alone where nothing is summed.
#[derive(Clone, Copy)]
pub(crate) struct Terms(pub u64);

/// What a rank sends at a place: bits by the finaliser of SplitMix64 (Steele, Lea and Flood, "Fast
/// splittable pseudorandom number generators", 2014), which any place starts anew.
pub(crate) fn sent<E: Element>(rank: usize, at: usize, Terms(terms): Terms) -> E {
    let mut bits = ((rank as u64) << 48 | at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    if E::EXACT == 0 {
        return E::of((bits >> 40) as f64 / (1u64 << 24) as f64 + 0.5);
    }
    E::of(integer(bits >> 32, rank as u64, at as u64, terms, E::EXACT) as f64)
}

/// An integer whose sum over all terms is `exact` at most. With more terms than that, as many
/// ranks as it allows send one, others at each place.
fn integer(random: u64, rank: u64, at: u64, terms: u64, exact: u64) -> u64 {
    match exact / terms.max(1) {
        0 => u64::from((rank + at) % terms < exact),
        // Few values: zero is one of them.
        most @ 1..4 => random % (most + 1),
        most => 1 + random % most,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums_are_exact<E: Element + std::fmt::Debug>() {
        for ranks in [1, 2, 3, 8, 16, 17, 72, 300] {
            for at in 0..600 {
                let terms = (0..ranks).map(|rank| sent::<E>(rank, at, Terms(ranks as u64)).value());
                let sum: f64 = terms.sum();
                assert!(sum <= E::EXACT as f64, "{ranks} ranks: {sum}");
                assert_eq!(E::of(sum).value(), sum, "{ranks} ranks");
                assert!(sent::<E>(0, at, Terms(1)) != E::POISON);
            }
        }
    }

    #[test]
    fn sums_of_narrow_types_are_values_of_theirs() {
        sums_are_exact::<bf16>();
        sums_are_exact::<f16>();
        sums_are_exact::<i8>();
        sums_are_exact::<E4m3>();
    }

    /// A hash of what three of the ranks send at 200 places.
    fn digest<E: Element>(terms: u64) -> f64 {
        let of = |rank: usize, at: usize| sent::<E>(rank, at, Terms(terms)).value();
        let places = (0..200).flat_map(|at| (0..3).map(move |rank| (rank, at)));
        places.fold(0.0, |sum, (rank, at)| sum + of(rank, at) * (at + 1) as f64)
    }

    #[test]
    fn what_is_sent_is_what_the_devices_check_makes_anew() {
        // The same numbers stand in tests/kernel_model/collective_check.h, for the kernel's text.
        let found = [1, 8, 72].map(|terms| {
            [
                digest::<f64>(terms),
                digest::<f32>(terms),
                digest::<bf16>(terms),
                digest::<f16>(terms),
                digest::<i8>(terms),
                digest::<E4m3>(terms),
            ]
        });
        assert_eq!(found, DIGESTS);
    }

    /// For one term of each sum, eight, and more than some types count.
    const DIGESTS: [[f64; 6]; 3] = [
        [
            60_659.993_932_843_21,
            60_659.993_917_286_396,
            7_625_900.0,
            60_528_300.0,
            3_858_799.0,
            501_324.0,
        ],
        [
            60_659.993_932_843_21,
            60_659.993_917_286_396,
            1_011_148.0,
            7_625_900.0,
            481_115.0,
            64_112.0,
        ],
        [60_659.993_932_843_21, 60_659.993_917_286_396, 89_500.0, 862_392.0, 28_080.0, 11_449.0],
    ];

    #[test]
    fn what_is_sent_differs_from_place_to_place_and_rank_to_rank() {
        let row = |rank: usize| -> Vec<f64> {
            (0..64).map(|at| sent::<E4m3>(rank, at, Terms(1)).value()).collect()
        };
        assert!(row(0) != row(1) && row(0)[..32] != row(0)[32..]);
        let wide: Vec<f64> = (0..64).map(|at| sent::<f32>(3, at, Terms(8)).value()).collect();
        assert!(wide.iter().all(|value| (0.5..1.5).contains(value)));
    }
}
