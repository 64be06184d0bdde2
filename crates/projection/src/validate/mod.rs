//! Measurements of served models beside the three tiers: how near they come, and which contradict a
//! bound.

mod entry;
mod tiers;

pub use entry::{Entry, TEXT_MAX, Unit, read};
pub use tiers::{Beside, beside};

use fizeau_domain::stats::quantile;

/// The most requests at once that count as few.
pub const FEW: u32 = 8;

/// A measurement may be above L0 by this share: its digits are rounded.
pub const ROUNDED: f64 = 0.005;

/// What kind of load a measurement is of. The kinds come to different shares of the tiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// [`FEW`] requests at once at most: latencies decide.
    Few,
    /// More, or as many as fit.
    Many,
}

impl Class {
    /// All of them.
    pub const ALL: [Class; 2] = [Class::Few, Class::Many];

    /// In words.
    pub fn name(self) -> String {
        match self {
            Class::Few => format!("{FEW} requests at once or fewer"),
            Class::Many => format!("more than {FEW} requests at once"),
        }
    }
}

/// The distribution of value / tier over some measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Measurements of which the tier is known.
    pub count: usize,
    /// Least, quartiles, most; none without a measurement.
    pub quantiles: Option<[f64; 5]>,
}

impl Spread {
    /// Of shares, in any order.
    pub fn of(shares: impl IntoIterator<Item = f64>) -> Spread {
        let mut shares: Vec<_> = shares.into_iter().collect();
        shares.sort_by(f64::total_cmp);
        let at = |share: f64| quantile::quantile(&shares, share);
        let quantiles = (!shares.is_empty()).then(|| [0.0, 0.25, 0.5, 0.75, 1.0].map(at));
        Spread { count: shares.len(), quantiles }
    }

    /// The median; none without a measurement.
    pub fn median(&self) -> Option<f64> {
        self.quantiles.map(|quantiles| quantiles[2])
    }
}

/// Measurements beside the tiers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Validation {
    /// In the order of the file.
    pub points: Vec<Beside>,
}

impl Validation {
    /// The distribution of value / tier (0: L0, 1: L1, 2: L2) in a class, or of all.
    pub fn spread(&self, class: Option<Class>, tier: usize) -> Spread {
        let of_class = self.points.iter().filter(|one| class.is_none_or(|its| one.class == its));
        Spread::of(of_class.filter_map(|one| one.shares.get(tier).copied().flatten()))
    }

    /// Those that contradict L0.
    pub fn above_bound(&self) -> impl Iterator<Item = &Beside> {
        self.points.iter().filter(|one| one.is_above(0))
    }

    /// Those that are faster than L2.
    pub fn above_measured(&self) -> impl Iterator<Item = &Beside> {
        self.points.iter().filter(|one| one.is_above(2))
    }

    /// Those farthest below L2, the farthest first.
    pub fn farthest(&self, most: usize) -> Vec<&Beside> {
        let known = self.points.iter().filter_map(|one| Some((one.shares[2]?, one)));
        let mut known: Vec<_> = known.collect();
        known.sort_by(|one, other| one.0.total_cmp(&other.0));
        known.into_iter().take(most).map(|(_, one)| one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_its_quartiles() {
        let spread = Spread::of([0.4, 0.2, 0.3, 0.1, 0.5]);
        assert_eq!((spread.count, spread.median()), (5, Some(0.3)));
        assert_eq!(spread.quantiles.map(|all| [all[0], all[4]]), Some([0.1, 0.5]));
        assert_eq!(Spread::of([]).median(), None);
    }
}
