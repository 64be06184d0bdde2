//! How repeats scatter.

use super::GATE;
use fizeau_domain::stats::{
    quantile::{median, median_absolute_deviation, sorted},
    student::{VARIANCE_MIN, Variance},
};

/// From this many devices on their noise is pooled robustly, by the median of all deviations.
const ROBUST_MIN: usize = 4;

/// Efficiency of the median absolute deviation beside the standard deviation, of normal values
/// (Huber and Ronchetti, Robust Statistics, 2009): degrees of freedom are fewer by as much.
const ROBUST_EFFICIENCY: f64 = 0.37;

/// A device whose own variance is above the pooled one by this factor is judged by its own: of
/// normal values with five repeats that happens by chance to one of 3,000.
const OWN_NOISE: f64 = 6.25;

/// The noise of one repeat. Of several devices it is pooled from the deviations of each device's
/// repeats from their own median; of few, from the distances between each device's own repeats.
/// Both are robust, as the median is whose error follows from it: one repeat beside a neighbour
/// makes no noisy device.
pub fn noise(devices: &[&[f64]]) -> Variance {
    let known: Vec<&[f64]> = devices.iter().copied().filter(|values| values.len() > 1).collect();
    if known.len() >= ROBUST_MIN {
        let deviations: Vec<f64> = known.iter().flat_map(|values| deviations(values)).collect();
        let freedom: f64 = known.iter().map(|values| (values.len() - 1) as f64).sum();
        let scale = NORMAL_MAD * median(&deviations);
        return Variance {
            value: (scale * scale).max(VARIANCE_MIN),
            freedom: freedom * ROBUST_EFFICIENCY,
        };
    }
    let (mut squares, mut freedom) = (0.0, 0.0);
    for own in known.iter().map(|values| from_distances(values)) {
        squares += own.value * own.freedom;
        freedom += own.freedom;
    }
    let value = if freedom > 0.0 { squares / freedom } else { 0.0 };
    Variance { value: value.max(VARIANCE_MIN), freedom }
}

/// The variance of two values or more by the estimator Q_n (Rousseeuw and Croux, Journal of the
/// American Statistical Association 88, 1993): the lower quarter of all distances between two of
/// them, which nearly half of the values cannot spoil. Of normal values it has no bias, and
/// scatters as a variance with these degrees of freedom does ([`SMALL`]).
fn from_distances(values: &[f64]) -> Variance {
    let count = values.len();
    let mut distances = Vec::with_capacity(count * (count - 1) / 2);
    for (at, value) in values.iter().enumerate() {
        distances.extend(values[at + 1..].iter().map(|other| (value - other).abs()));
    }
    let half = count / 2 + 1;
    let place = half * (half - 1) / 2 - 1;
    let (_, quarter, _) = distances.select_nth_unstable_by(place, f64::total_cmp);
    let scale = NORMAL_DISTANCE * *quarter;
    let of = count as f64;
    let (bias, freedom) = match SMALL.get(count - 2) {
        Some(known) => *known,
        None if count.is_multiple_of(2) => (of / (of + 9.3), 0.7 * (of - 1.0)),
        None => (of / (of + 4.1), 0.7 * (of - 1.0)),
    };
    Variance { value: bias * scale * scale, freedom }
}

/// Standard deviation of normal values over the lower quarter of their distances.
const NORMAL_DISTANCE: f64 = 2.219_14;

/// Of 2 to 15 normal values: the factor that takes the bias of the square of Q_n away, and the
/// degrees of freedom of a variance that scatters as it does. By 200,000 simulated samples each; a
/// test does it again.
const SMALL: [(f64, f64); 14] = [
    (0.102, 1.0),
    (0.587, 0.79),
    (0.204, 1.74),
    (0.553, 1.78),
    (0.319, 3.04),
    (0.630, 3.03),
    (0.403, 4.33),
    (0.683, 4.46),
    (0.476, 5.68),
    (0.726, 5.83),
    (0.535, 7.12),
    (0.762, 7.28),
    (0.583, 8.54),
    (0.786, 8.69),
];

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
pub fn noise_of(values: &[f64], pooled: Variance) -> Variance {
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

#[cfg(test)]
mod tests {
    use super::*;
    use oorandom::Rand64;
    use std::f64::consts::TAU;

    fn normal(random: &mut Rand64) -> f64 {
        let (one, other) = (random.rand_float(), random.rand_float());
        (-2.0 * (1.0 - one).ln()).sqrt() * (TAU * other).cos()
    }

    #[test]
    fn the_variance_from_distances_has_no_bias_and_scatters_as_it_says() {
        let mut random = Rand64::new(7);
        for count in (2..=15).chain([16, 21, 40]) {
            let samples = 20_000;
            let (mut sum, mut squares, mut freedom) = (0.0, 0.0, 0.0);
            for _ in 0..samples {
                let values: Vec<f64> = (0..count).map(|_| normal(&mut random)).collect();
                let found = from_distances(&values);
                sum += found.value;
                squares += found.value * found.value;
                freedom = found.freedom;
            }
            let mean = sum / f64::from(samples);
            let variance = squares / f64::from(samples) - mean * mean;
            let scatters = 2.0 * mean * mean / variance;
            assert!((mean - 1.0).abs() < 0.05, "{count} values: {mean}");
            assert!((scatters / freedom - 1.0).abs() < 0.15, "{count} values: {scatters}");
        }
    }

    #[test]
    fn two_repeats_of_five_beside_a_neighbour_change_little() {
        let beside = from_distances(&[0.0, 0.01, -0.01, -0.7, -1.1]);
        assert!(beside.value.sqrt() < 0.04, "{beside:?}");
    }
}
