//! Whether a figure is one number: what a measurement says against itself.

use crate::{
    outcome::{Cache, Measurement},
    stats::{
        Summary,
        states::{State, TwoStates},
    },
    units::Seconds,
};
use std::fmt;

/// Hot caches may seem slower than cold ones by this share, by noise alone.
const HOT_SLOWER_MIN: f64 = 0.02;

/// Why the median of a measurement is no property of the machine. A report computes no share of a
/// limit from it, `compare` takes both of its states for possible where a side has a single run,
/// and `project` takes the slower one. Judges that measure several repeats take the median of each:
/// the scatter between repeats, which states cause too, is their error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Doubt {
    /// Its samples are of two states, and the median is that of the larger group.
    TwoStates(TwoStates),
    /// With hot caches it took longer than with cold ones by this share, which no cache explains:
    /// the two were timed in different states of the machine.
    HotSlower(f64),
}

impl Measurement {
    /// What the measurement says against itself; none of most of them.
    pub fn doubt(&self) -> Option<Doubt> {
        let states = TwoStates::of(&self.samples.times).map(Doubt::TwoStates);
        states.or_else(|| self.hot_slower().map(Doubt::HotSlower))
    }

    /// The least and the most of the times that the median may stand for: its two states, or what
    /// was measured with cold and with hot caches. Both are the median where nothing speaks against
    /// it.
    pub fn span(&self) -> [Seconds; 2] {
        let median = self.summary.median;
        let others = match self.doubt() {
            None => return [median; 2],
            Some(Doubt::TwoStates(states)) => vec![states.most.time, states.other.time],
            Some(Doubt::HotSlower(_)) => {
                self.contrast.iter().map(|beside| beside.summary.median).collect()
            }
        };
        [f64::min, f64::max]
            .map(|pick| Seconds(others.iter().fold(median.0, |time, other| pick(time, other.0))))
    }

    /// How much longer it takes with hot caches than with cold ones, where that is beyond noise.
    fn hot_slower(&self) -> Option<f64> {
        let beside = self.contrast.as_ref()?;
        let (hot, cold): (&Summary, &Summary) = match (self.cache, beside.cache) {
            (Cache::Hot, Cache::Cold) => (&self.summary, &beside.summary),
            (Cache::Cold, Cache::Hot) => (&beside.summary, &self.summary),
            _ => return None,
        };
        let slower = hot.median / cold.median - 1.0;
        let is_apart = hot.interval.low > cold.interval.high;
        (slower > HOT_SLOWER_MIN && is_apart).then_some(slower)
    }
}

impl fmt::Display for TwoStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = |State { time, share }: State| format!("{time} ({:.0} %)", share * 100.0);
        write!(f, "{}, {}", state(self.most), state(self.other))
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doubt::TwoStates(states) => write!(f, "two states: {states}"),
            Doubt::HotSlower(share) => {
                write!(f, "slower by {:.1} % with hot caches than with cold ones", share * 100.0)
            }
        }
    }
}
