//! How a rate stands to a bar, and the bar that other devices of its kind make.

use super::{Against, Bar, FALSE_CONFIRMATION, MEDIAN, scatter::NORMAL_MAD, sum};
use fizeau_domain::stats::{
    quantile::{median, median_absolute_deviation},
    student::{self, Variance},
};

/// How a series stands to one of its bars.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// The bar.
    pub bar: Bar,
    /// Distance above the bar over its standard error.
    pub t: f64,
    /// Degrees of freedom of `t`.
    pub freedom: f64,
}

impl Standing {
    /// Of a series whose median is `centre`, the logarithm of a rate, with this variance.
    pub fn of(centre: f64, error: Variance, bar: &Bar) -> Standing {
        let all = sum(&[error, bar.error]);
        Standing { bar: *bar, t: (centre - bar.log) / all.value.sqrt(), freedom: all.freedom }
    }

    /// Of a device to the bar that the others of its node make. `session` is the variance of what
    /// a session of a healthy device is off by beside them, where that is known. The device is
    /// then as slow as the milder of two tests says. One is that it lost at most the least effect,
    /// by the scatter of its repeats. The other is that it lost nothing, and that its session is
    /// off.
    pub fn beside(
        (centre, error): (f64, Variance),
        bar: &Bar,
        session: Option<Variance>,
        least_effect: f64,
    ) -> Standing {
        let below = Standing::of(centre, error, bar);
        let Some(session) = session else { return below };
        let log = bar.log - (1.0 - least_effect).ln();
        let healthy = Bar { log, error: sum(&[bar.error, session]), ..*bar };
        let healthy = Standing { bar: *bar, ..Standing::of(centre, error, &healthy) };
        if healthy.below() > below.below() { healthy } else { below }
    }

    /// The probability of so low a rate if it were just at the bar.
    pub fn below(&self) -> f64 {
        student::upper_tail(-self.t, self.freedom)
    }

    /// Whether it is above the bar, with a probability of at most `error` that it is not.
    pub fn passes(&self, error: f64) -> bool {
        student::upper_tail(self.t, self.freedom) <= error
    }
}

/// Variance of the median of `repeats` values whose noise is known.
pub fn error_of_median(noise: Variance, repeats: usize) -> Variance {
    Variance { value: MEDIAN * noise.value / repeats as f64, ..noise }
}

/// What other devices of a kind reach together.
#[derive(Clone, Copy, Debug)]
pub struct Others {
    /// Median of their medians, as logarithms.
    pub centre: f64,
    /// Median absolute deviation of their medians.
    pub deviation: f64,
    /// How many devices.
    pub devices: usize,
    /// The fewest repeats that one of them has.
    pub repeats: usize,
}

impl Others {
    /// Of the medians of devices.
    ///
    /// # Panics
    /// Where there are none.
    pub fn of(centres: &[f64], repeats: usize) -> Others {
        let deviation = median_absolute_deviation(centres);
        Others { centre: median(centres), deviation, devices: centres.len(), repeats }
    }

    /// The bar that they make for a device: the least effect below their median.
    pub fn bar(&self, noise: Variance, least_effect: f64) -> Bar {
        let count = self.devices as f64;
        let spread = NORMAL_MAD * self.deviation * (count / (count - 1.0)).sqrt();
        // Devices differ by their own spread and by noise, whichever shows more.
        let own = error_of_median(noise, self.repeats).value;
        let value = (spread * spread).max(own) * MEDIAN / count;
        Bar {
            against: Against::Peers,
            log: self.centre + (1.0 - least_effect).ln(),
            error: Variance { value, freedom: (count - 1.0).max(1.0) },
            may_pass: false,
            may_fail: true,
        }
    }
}

/// Fewer pairs say nothing.
const PAIRS_MIN: usize = 3;

/// Whether a device that failed is slower than its partner by the least effect at least, by the
/// logarithms of rates of both, measured in turn. `noise` is that of one difference. `None` where
/// there are too few pairs to tell.
pub fn pairs_differ(
    [fresh, beside]: [&[f64]; 2],
    noise: Variance,
    least_effect: f64,
) -> Option<bool> {
    let differences: Vec<f64> = fresh.iter().zip(beside).map(|(own, other)| own - other).collect();
    if differences.len() < PAIRS_MIN {
        return None;
    }
    let error = error_of_median(noise, differences.len()).value.sqrt();
    let t = (median(&differences) - (1.0 - least_effect).ln()) / error;
    Some(student::upper_tail(-t, noise.freedom) <= FALSE_CONFIRMATION)
}
