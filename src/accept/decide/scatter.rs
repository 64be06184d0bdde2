//! How repeats scatter.

use super::GATE;
use crate::stats::{
    quantile::{median, median_absolute_deviation, sorted},
    student::{self, VARIANCE_MIN, Variance},
};

/// From this many devices on their noise is pooled robustly, by the median of all deviations.
const ROBUST_MIN: usize = 4;

/// Efficiency of the median absolute deviation beside the standard deviation, of normal values
/// (Huber and Ronchetti, Robust Statistics, 2009): degrees of freedom are fewer by as much.
const ROBUST_EFFICIENCY: f64 = 0.37;

/// A device whose own variance is above the pooled one by this factor is judged by its own: of
/// normal values with five repeats that happens by chance to one of 3,000.
const OWN_NOISE: f64 = 6.25;

/// The noise of one repeat, from the deviations of each device's repeats from their own median.
pub fn noise(devices: &[&[f64]]) -> Variance {
    let known: Vec<&[f64]> = devices.iter().copied().filter(|values| values.len() > 1).collect();
    let freedom: f64 = known.iter().map(|values| (values.len() - 1) as f64).sum();
    let value = if known.len() >= ROBUST_MIN {
        let deviations: Vec<f64> = known.iter().flat_map(|values| deviations(values)).collect();
        let scale = NORMAL_MAD * median(&deviations);
        return Variance {
            value: (scale * scale).max(VARIANCE_MIN),
            freedom: freedom * ROBUST_EFFICIENCY,
        };
    } else if freedom > 0.0 {
        let squares = known.iter().map(|values| {
            let (_, variance) = student::mean_and_variance(values);
            variance.value * variance.freedom
        });
        squares.sum::<f64>() / freedom
    } else {
        0.0
    };
    Variance { value: value.max(VARIANCE_MIN), freedom }
}

/// Standard deviation of normal values over their median absolute deviation.
pub(super) const NORMAL_MAD: f64 = 1.4826;

/// Deviations from the own median. Of an odd count one is 0 because it is the median: it says
/// nothing of the noise, and is left out, which makes their median right within 5 % from five
/// values on.
fn deviations(values: &[f64]) -> Vec<f64> {
    let centre = median(values);
    let deviations = values.iter().map(|value| (value - centre).abs());
    let sorted = sorted(&deviations.collect::<Vec<_>>());
    sorted[values.len() % 2..].to_vec()
}

/// The noise of one repeat of a device: the pooled one, or its own where it is far noisier.
pub(super) fn noise_of(values: &[f64], pooled: Variance) -> Variance {
    if values.len() < 3 {
        return pooled;
    }
    // Robust too: one repeat beside a neighbour makes no noisy device.
    let scale = NORMAL_MAD * median_absolute_deviation(values);
    let freedom = (values.len() - 1) as f64;
    match scale * scale > OWN_NOISE * pooled.value {
        true => Variance { value: scale * scale, freedom },
        false => pooled,
    }
}

/// The sum of variances of things that are independent; its degrees of freedom by Satterthwaite
/// (Biometrics Bulletin 2, 1946).
pub fn sum(parts: &[Variance]) -> Variance {
    let value: f64 = parts.iter().map(|part| part.value).sum();
    let squares: f64 = parts
        .iter()
        .filter(|part| part.value > 0.0)
        .map(|part| part.value * part.value / part.freedom.max(1.0))
        .sum();
    let freedom = if squares > 0.0 { value * value / squares } else { f64::INFINITY };
    Variance { value, freedom }
}

/// Whether the noise of one repeat is above the gate, and surely so: the estimate scatters too.
pub fn is_too_noisy(noise: Variance, least_effect: f64) -> bool {
    let limit = (least_effect / GATE).powi(2);
    noise.value > limit * upper_chi_square(noise.freedom)
}

/// What the estimate of a variance exceeds with probability 0.01, as a multiple of the variance
/// (Wilson and Hilferty, Proceedings of the National Academy of Sciences 17, 1931).
fn upper_chi_square(freedom: f64) -> f64 {
    const NORMAL: f64 = 2.326_347_874_040_841;
    if freedom <= 0.0 {
        return f64::INFINITY;
    }
    let small = 2.0 / (9.0 * freedom);
    (1.0 - small + NORMAL * small.sqrt()).powi(3)
}
