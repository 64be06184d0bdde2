//! Points of grouped products: which rows of A go to which matrix, and what must be moved and
//! computed for them.

use super::Work;
use crate::{
    dtype::Dtype,
    units::{Bytes, Flops},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One product for each of some groups, as a mixture of experts needs them: the rows of A are dealt
/// to groups, those of a group follow each other, and each group has a B of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupedPoint {
    /// Element type of A and B.
    pub dtype: Dtype,
    /// Rows of all groups together: tokens times the experts that each goes to.
    pub m: u32,
    /// Columns of the output.
    pub n: u32,
    /// The dimension summed over.
    pub k: u32,
    /// Groups: the experts that a device holds.
    pub groups: u32,
    /// How many rows each has.
    pub routing: Routing,
}

/// How rows are dealt to groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Routing {
    /// As equally as they can be: where there are fewer rows than groups, the last have none.
    Balanced,
    /// The group of rank i in favour has a share of 1 / sqrt(i): the first of 8 has 1.8 times the
    /// mean, of 128 six times. A definition between what training strives for and what is met on a
    /// bad day, and no model's measured load.
    Skewed,
}

named!(Routing { Balanced => "balanced", Skewed => "skewed" });

impl Routing {
    /// Rows of each group, by the group's number.
    fn deal(self, rows: u32, groups: u32) -> Vec<u32> {
        match self {
            Routing::Balanced => {
                let (each, left) = (rows / groups.max(1), rows % groups.max(1));
                (0..groups).map(|group| each + u32::from(group < left)).collect()
            }
            Routing::Skewed => {
                let share = |rank: u32| 1.0 / f64::from(rank + 1).sqrt();
                let mut shares: f64 = (0..groups).map(share).sum();
                let mut left = rows;
                // What is left by its share of the shares that are left: rounding loses no row.
                let dealt = (0..groups).map(|rank| {
                    let wanted = (f64::from(left) * (share(rank) / shares)).round() as u32;
                    let dealt = if rank + 1 == groups { left } else { wanted.min(left) };
                    (shares, left) = (shares - share(rank), left - dealt);
                    dealt
                });
                let mut dealt: Vec<u32> = dealt.collect();
                // Favourites stand anywhere, the same ones always (Fisher and Yates).
                let mut random = oorandom::Rand32::new(u64::from(groups));
                for last in (1..dealt.len()).rev() {
                    dealt.swap(last, random.rand_range(0..last as u32 + 1) as usize);
                }
                dealt
            }
        }
    }
}

impl GroupedPoint {
    /// Rows of each group, by its number; some may have none.
    pub fn rows(&self) -> Vec<u32> {
        self.routing.deal(self.m, self.groups)
    }

    /// 2 m n k operations; A read once, B of those groups that have rows, C written once.
    pub(super) fn work(&self) -> Work {
        let read = self.rows().iter().filter(|&&rows| rows > 0).count() as u64;
        let (m, n, k) = (f64::from(self.m), f64::from(self.n), f64::from(self.k));
        Work { memory: self.bytes(read), flops: Flops(2.0 * m * n * k), ..Work::default() }
    }

    /// Bytes of all operands, groups without rows included.
    pub fn memory(&self) -> Bytes {
        self.bytes(u64::from(self.groups))
    }

    /// Memory of A, C and one B for each group.
    fn bytes(&self, groups: u64) -> Bytes {
        let [m, n, k] = [self.m, self.n, self.k].map(u128::from);
        let (read, written) = (self.dtype.bits(), self.dtype.output().bits());
        let bits =
            (m * k + u128::from(groups) * k * n) * u128::from(read) + m * n * u128::from(written);
        Bytes(u64::try_from(bits.div_ceil(8)).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for GroupedPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GroupedPoint { dtype, m, n, k, groups, routing } = self;
        write!(f, "{dtype}/{m}x{n}x{k}/{groups}-{routing}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_row_is_dealt_once(rows in 0u32..100_000, groups in 1u32..600) {
            for routing in [Routing::Balanced, Routing::Skewed] {
                let dealt = routing.deal(rows, groups);
                prop_assert_eq!(dealt.len(), groups as usize);
                prop_assert_eq!(dealt.iter().sum::<u32>(), rows);
            }
        }
    }

    #[test]
    fn favourites_have_their_share() {
        assert_eq!(Routing::Balanced.deal(11, 4), [3, 3, 3, 2]);
        let mut dealt = Routing::Skewed.deal(1280, 128);
        assert_ne!(dealt.first(), dealt.iter().max());
        dealt.sort_unstable();
        // 1 / (1 + 1 / sqrt(2) + .. + 1 / sqrt(128)) of 1280, and half of that for rank 4.
        assert_eq!((dealt[127], dealt[124]), (60, 30));
        let few = Routing::Skewed.deal(8, 128);
        assert!(few.iter().filter(|&&rows| rows > 0).count() <= 8);
    }

    #[test]
    fn only_groups_with_rows_are_read() {
        let dtype = Dtype::Bf16;
        let routing = Routing::Balanced;
        let point = GroupedPoint { dtype, m: 3, n: 32, k: 64, groups: 8, routing };
        assert_eq!(point.work().memory, Bytes(2 * (3 * 64 + 3 * 64 * 32 + 3 * 32)));
        assert_eq!(point.work().flops, Flops(2.0 * 3.0 * 32.0 * 64.0));
        assert_eq!(point.memory(), Bytes(2 * (3 * 64 + 8 * 64 * 32 + 3 * 32)));
        assert_eq!(point.to_string(), "bf16/3x32x64/8-balanced");
    }
}
