//! Where a curve over working sets steps up: the sizes of caches.
//!
//! The rule, for the time of one load or of one byte by working set:
//!
//! 1. Each time is replaced by the median of itself and its two neighbours, then by the least of
//!    itself and all larger working sets. A cache that holds more holds less as well, and others
//!    who use the machine only add time; one sample that was too fast counts for nothing.
//! 2. A plateau is a run of at least [`PLATEAU_POINTS`] neighbouring sizes, over three quarters of
//!    an octave or more, whose times differ by at most [`FLAT`]. Plateaus that follow each other
//!    are one where the next is less than [`STEP`] times the one before.
//! 3. Between two plateaus the knee is the largest size whose time is nearer, by ratio, to the
//!    plateau before than to the one after, and less than [`LEFT`] times the one before: where
//!    others leave nothing of the next cache, the curve climbs at once to what lies behind it. Of a
//!    curve that still rises at its end, and is above
//!    the last plateau at its three largest sizes, the last time stands for a plateau after.

/// Fewest sizes of a plateau.
pub const PLATEAU_POINTS: usize = 3;

/// Largest ratio of two times of one plateau.
pub const FLAT: f64 = 1.15;

/// Least ratio of one plateau to the one before.
pub const STEP: f64 = 1.4;

/// A size whose time is this many times that of a plateau is beyond it, whatever follows.
pub const LEFT: f64 = 2.0;

/// From the smallest to the largest size of a plateau at least: three quarters of an octave, less
/// what sizes are rounded by.
const PLATEAU_SPAN: f64 = 1.6;

/// Sizes of a sweep are rounded to a 64th of an octave: neighbouring steps differ by as much.
const ROUNDING: f64 = 1.03;

/// A step of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knee {
    /// The largest working set before the step, in bytes.
    pub holds: u64,
    /// The next one that was measured, in bytes.
    pub below: u64,
    /// Time of the plateau before it.
    pub before: f64,
    /// Time of the plateau after it; of a curve that still rises at its end the last one.
    pub after: f64,
}

impl Knee {
    /// Whether a size agrees with this one: it lies between its two working sets, or one more step
    /// to either side.
    pub fn is_near(&self, size: u64) -> bool {
        let step = self.below as f64 / self.holds.max(1) as f64;
        let size = size as f64;
        size >= self.holds as f64 / step / ROUNDING && size <= self.below as f64 * step * ROUNDING
    }
}

/// A run of points that are level: the first, the last, and the median time.
#[derive(Clone, Copy, Debug)]
struct Plateau {
    first: usize,
    last: usize,
    time: f64,
}

/// The knees of a curve: working sets in bytes, ascending, and the time of one load or byte at
/// each, in any unit. None of a curve that is flat, too short or without a plateau.
pub fn knees(points: &[(u64, f64)]) -> Vec<Knee> {
    let is_time = |&&(size, time): &&(u64, f64)| size > 0 && time.is_finite() && time > 0.0;
    let points: Vec<(u64, f64)> = points.iter().filter(is_time).copied().collect();
    let times = least_of_larger(&medians_of_three(&points));
    let plateaus = merged(plateaus(&points, &times), &times);
    let mut found = Vec::new();
    for (at, plateau) in plateaus.iter().enumerate() {
        let is_above = |time: &f64| *time >= plateau.time * STEP;
        let rises = times.iter().rev().take(PLATEAU_POINTS).all(is_above);
        let end = times.last().copied().filter(|_| rises);
        let after = plateaus.get(at + 1).map(|next| next.time).or(end);
        let Some(after) = after.filter(is_above) else { continue };
        let limit = (plateau.time * after).sqrt().min(plateau.time * LEFT);
        let beyond = (plateau.first..points.len()).find(|&point| times[point] > limit);
        let Some(beyond) = beyond.filter(|&beyond| beyond > 0) else { continue };
        let (holds, below) = (points[beyond - 1].0, points[beyond].0);
        found.push(Knee { holds, below, before: plateau.time, after });
    }
    found
}

/// The median of each time and its two neighbours; of the first and the last the lesser of two.
fn medians_of_three(points: &[(u64, f64)]) -> Vec<f64> {
    let mut times: Vec<f64> = points.iter().map(|&(_, time)| time).collect();
    for (at, window) in points.windows(3).enumerate() {
        times[at + 1] = median(window.iter().map(|&(_, time)| time).collect());
    }
    if let [first, second, .., before, last] = points {
        times[0] = first.1.min(second.1);
        times[points.len() - 1] = last.1.min(before.1);
    }
    times
}

/// Each time, or the least that a larger working set took.
fn least_of_larger(times: &[f64]) -> Vec<f64> {
    let mut least = f64::INFINITY;
    let mut all: Vec<f64> = times
        .iter()
        .rev()
        .map(|&time| {
            least = least.min(time);
            least
        })
        .collect();
    all.reverse();
    all
}

/// The upper median of times that are not none.
pub(super) fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Runs of level points, the longest from each start on.
fn plateaus(points: &[(u64, f64)], times: &[f64]) -> Vec<Plateau> {
    let mut all = Vec::new();
    let mut first = 0;
    while first < times.len() {
        let rest = times[first..].iter();
        let length = rest.take_while(|time| **time <= times[first] * FLAT).count();
        let last = first + length - 1;
        let span = points[last].0 as f64 / points[first].0 as f64;
        if length >= PLATEAU_POINTS && span >= PLATEAU_SPAN {
            all.push(Plateau { first, last, time: median(times[first..=last].to_vec()) });
            first = last + 1;
        } else {
            // A slope: its next point may begin a plateau.
            first += 1;
        }
    }
    all
}

/// Plateaus with those that follow at nearly the same time.
fn merged(plateaus: Vec<Plateau>, times: &[f64]) -> Vec<Plateau> {
    let mut all: Vec<Plateau> = Vec::new();
    for next in plateaus {
        match all.last_mut() {
            Some(last) if next.time < last.time * STEP => {
                last.last = next.last;
                last.time = median(times[last.first..=last.last].to_vec());
            }
            _ => all.push(next),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four sizes an octave from 4 KiB to 128 MiB.
    fn sizes() -> Vec<u64> {
        (0..=60).map(|step| (4096.0 * (f64::from(step) / 4.0).exp2()).round() as u64).collect()
    }

    /// Times of caches of these sizes and latencies, and of memory behind them; a cache that is too
    /// small is left at once (0) or in the course of some octaves.
    fn curve(caches: &[(u64, f64)], memory: f64, slope: f64) -> Vec<(u64, f64)> {
        let time = |size: u64| {
            let mut time = caches.first().map_or(memory, |cache| cache.1);
            for (at, &(holds, before)) in caches.iter().enumerate() {
                let after = caches.get(at + 1).map_or(memory, |next| next.1);
                let octaves = (size as f64 / holds as f64).log2();
                if octaves > 0.01 {
                    let share = if slope > 0.0 { (octaves / slope).min(1.0) } else { 1.0 };
                    time = before * (after / before).powf(share);
                }
            }
            time
        };
        sizes().into_iter().map(|size| (size, time(size))).collect()
    }

    /// Times that are up to `most` too long, and one in `rare` three times as long.
    fn disturbed(points: &[(u64, f64)], most: f64, rare: u64, seed: u64) -> Vec<(u64, f64)> {
        let mut random = oorandom::Rand64::new(u128::from(seed));
        let mut spoil = |time: f64| {
            let spike = if random.rand_range(0..rare) == 0 { 3.0 } else { 1.0 };
            time * (1.0 + most * random.rand_float()) * spike
        };
        points.iter().map(|&(size, time)| (size, spoil(time))).collect()
    }

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    #[test]
    fn sharp_steps_are_found_where_they_are() {
        let found =
            knees(&curve(&[(32 * KIB, 1.2), (512 * KIB, 4.0), (32 * MIB, 14.0)], 110.0, 0.0));
        let holds: Vec<u64> = found.iter().map(|knee| knee.holds).collect();
        assert_eq!(holds, [32 * KIB, 512 * KIB, 32 * MIB]);
        assert_eq!((found[0].before, found[0].after), (1.2, 4.0));
        assert!(found[2].is_near(32 * MIB) && !found[2].is_near(16 * MIB));
    }

    #[test]
    fn a_flat_curve_has_no_knee() {
        assert_eq!(knees(&curve(&[], 3.0, 0.0)), []);
        assert_eq!(knees(&[]), []);
        assert_eq!(knees(&[(4096, 1.0), (8192, 9.0)]), []);
        // A slope without a plateau is none either.
        let slope: Vec<(u64, f64)> = sizes().into_iter().map(|size| (size, size as f64)).collect();
        assert_eq!(knees(&slope), []);
        for seed in 0..200 {
            let noisy = disturbed(&curve(&[], 3.0, 0.0), 0.1, u64::MAX, seed);
            assert_eq!(knees(&noisy), [], "seed {seed}");
        }
        let spoilt = (0..500)
            .filter(|&seed| !knees(&disturbed(&curve(&[], 3.0, 0.0), 0.1, 20, seed)).is_empty());
        assert!(spoilt.count() <= 5);
    }

    #[test]
    fn a_curve_that_still_rises_at_its_end_has_its_last_knee() {
        let mut points = curve(&[(32 * KIB, 1.2), (32 * MIB, 14.0)], 110.0, 6.0);
        points.retain(|&(size, _)| size <= 100 * MIB);
        let found = knees(&points);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[1].holds >= 32 * MIB, "{found:?}");
    }

    /// Of random machines with noise and spikes each knee is found within one step of its size, and
    /// no other.
    #[test]
    fn knees_of_random_machines_are_right_within_one_step() {
        let mut random = oorandom::Rand64::new(7);
        let (mut right, mut machines) = (0, 0);
        for seed in 0..500 {
            let first = (16 * KIB) << random.rand_range(0..3);
            let second = first << random.rand_range(3..6);
            let third = second << random.rand_range(3..6);
            let mut latency = 1.0;
            let caches: Vec<(u64, f64)> = [first, second, third]
                .into_iter()
                .take_while(|&size| size <= 32 * MIB)
                .map(|size| {
                    let now = latency;
                    latency *= 2.0 + 3.0 * random.rand_float();
                    (size, now)
                })
                .collect();
            let slope = if seed % 2 == 0 { 0.0 } else { 0.5 };
            let points = disturbed(&curve(&caches, latency, slope), 0.06, 20, seed);
            let found = knees(&points);
            machines += 1;
            let is_right = found.len() == caches.len()
                && found.iter().zip(&caches).all(|(knee, &(size, _))| knee.is_near(size));
            right += i32::from(is_right);
        }
        // What remains are neighbours that are spoilt together, at an end or at a step.
        assert!(right * 100 >= machines * 98, "{right} of {machines} machines");
    }
}
