//! The search for the highest rate that keeps limits: rates that rise until one misses them, and
//! then rates between the last that kept them and the first that missed.

/// Rates closer than this are not told apart: arrivals scatter by more.
const CLOSEST: f64 = 1.03;

/// A search under way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    left: u32,
    kept: Option<f64>,
    missed: Option<f64>,
    is_ended: bool,
}

impl Search {
    /// A search that may add this many levels.
    pub fn new(levels: u32) -> Search {
        Search { left: levels, kept: None, missed: None, is_ended: false }
    }

    /// A level of this rate kept the limits, or did not.
    pub fn met(&mut self, rate: f64, is_kept: bool) {
        if !is_kept {
            self.missed = Some(self.missed.map_or(rate, |missed| missed.min(rate)));
        } else if self.missed.is_none_or(|missed| rate < missed) {
            self.kept = Some(self.kept.map_or(rate, |kept| kept.max(rate)));
        }
    }

    /// Ends the search with what it has found: nothing more can be learnt here.
    pub fn ends(&mut self) {
        self.left = 0;
        self.is_ended = true;
    }

    /// Whether it was ended.
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Whether a level has missed the limits: higher ones need not be tried.
    pub fn has_missed(&self) -> bool {
        self.missed.is_some()
    }

    /// The rate of the next level: the geometric mean of the highest that kept the limits and the
    /// lowest that did not, to three digits. None where there is no such pair, where the two are
    /// close, or no level is left.
    pub fn next_rate(&mut self) -> Option<f64> {
        let (kept, missed) = (self.kept?, self.missed?);
        self.left = self.left.checked_sub(1).filter(|_| missed / kept > CLOSEST)?;
        let middle = (kept * missed).sqrt();
        // Through text: 518 x 0.1 is 51.800000000000004.
        format!("{middle:.2e}").parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(highest: f64, rates: &[f64], more: u32) -> (Option<f64>, usize) {
        let (mut search, mut sent) = (Search::new(more), 0);
        for rate in rates {
            search.met(*rate, *rate <= highest);
            sent += 1;
            if search.has_missed() {
                break;
            }
        }
        while let Some(rate) = search.next_rate() {
            search.met(rate, rate <= highest);
            sent += 1;
        }
        (search.kept, sent)
    }

    #[test]
    fn the_highest_rate_is_enclosed() {
        let doubled = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];
        let (rate, sent) = found(11.0, &doubled, 4);
        assert!(rate.is_some_and(|rate| (10.4..=11.0).contains(&rate)), "{rate:?}");
        assert_eq!(sent, 5 + 4);
        assert_eq!(found(11.0, &doubled, 0), (Some(8.0), 5), "stops at the first that misses");
        assert_eq!(found(100.0, &doubled, 4), (Some(32.0), 6), "none missed");
        assert_eq!(found(0.5, &doubled, 4), (None, 1), "none kept");
        // No more levels than can be told apart.
        let (_, sent) = found(11.0, &doubled, 1_000);
        assert!(sent < 12, "{sent}");
    }
}
