//! In what the noise of a metric is not as the test assumes: independent, normal, alike for all.

use super::Group;
use fizeau_domain::stats::{quantile::median, student::Variance};
use serde::Serialize;
use std::{collections::BTreeMap, fmt};

/// What the test assumes and the rates do not show.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// Far more repeats are far away than of normal noise: twice the share that is faster than its
    /// GPU's median by [`FAR`] deviations. Other users of a machine make no repeat faster.
    HeavyTails(f64),
    /// The GPUs are two kinds: the distance of both, as a share of a rate.
    TwoHumps(f64),
    /// Rates fall or rise from the first repeat to the last: by this share.
    Drift(f64),
    /// GPUs of one node have this share of their variance in common.
    WithinNode(f64),
}

/// Standard deviations from its GPU's median beyond which a repeat is far away. Of normal noise
/// fewer than one of 10,000 are.
pub const FAR: f64 = 4.0;

/// More far repeats than this share are heavy tails.
const FAR_MAX: f64 = 0.005;

/// More GPUs than these are needed to tell two humps, a drift, or what nodes share.
const GPUS_MIN: usize = 40;

/// Two halves explain 64 % of the variance of normal values (2 / pi), and 75 % of uniform ones.
const HUMPS: f64 = 0.80;

/// The least share of the GPUs that is a kind of its own.
const KIND_MIN: f64 = 0.1;

/// A drift that is surely there is worth a word above this share of the least effect.
const DRIFT: f64 = 0.1;

/// A drift is surely there from this many standard errors on.
const SURE: f64 = 5.0;

/// GPUs of a node with a larger share in common depend on each other.
const WITHIN_NODE: f64 = 0.5;

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        match self {
            Doubt::HeavyTails(share) => write!(
                f,
                "heavy tails: {} of the repeats are beyond {FAR} standard deviations, so that more \
                 healthy GPUs fail than stated; retest each",
                percent(*share)
            ),
            Doubt::TwoHumps(distance) => write!(
                f,
                "two kinds of GPUs, {} apart: find in what they differ and give it as a label of \
                 strata",
                percent(*distance)
            ),
            Doubt::Drift(share) => write!(
                f,
                "rates change by {} from the first repeat to the last: repeats are not independent",
                percent(*share)
            ),
            Doubt::WithinNode(share) => write!(
                f,
                "GPUs of one node have {} of their variance in common: use --dependence any",
                percent(*share)
            ),
        }
    }
}

/// The doubts about a group. `centres` are the medians of its rows, `nodes` the node of each GPU of
/// the fleet.
pub fn doubts(group: &Group, centres: &[f64], noise: Variance, nodes: &[u32]) -> Vec<Doubt> {
    let mut found = Vec::new();
    let deviation = noise.value.sqrt();
    found.extend(heavy_tails(group, centres, deviation));
    if centres.len() >= GPUS_MIN {
        found.extend(two_humps(group, centres, deviation));
        found.extend(drift(group, deviation));
        found.extend(within_node(group, centres, nodes));
    }
    found
}

fn heavy_tails(group: &Group, centres: &[f64], deviation: f64) -> Option<Doubt> {
    let (mut far, mut all) = (0usize, 0usize);
    for (values, centre) in group.rows().zip(centres).filter(|(values, _)| values.len() > 2) {
        all += values.len();
        far += values.iter().filter(|value| **value - centre > FAR * deviation).count();
    }
    let share = 2.0 * far as f64 / all.max(1) as f64;
    (far >= 5 && share > FAR_MAX).then_some(Doubt::HeavyTails(share))
}

/// The split of the inner 96 % of the GPUs that explains most of their variance (Otsu 1979).
fn two_humps(group: &Group, centres: &[f64], deviation: f64) -> Option<Doubt> {
    let sorted = fizeau_domain::stats::quantile::sorted(centres);
    let edge = sorted.len() / 50;
    let inner = &sorted[edge..sorted.len() - edge];
    let count = inner.len() as f64;
    let mean = inner.iter().sum::<f64>() / count;
    let total: f64 = inner.iter().map(|value| (value - mean).powi(2)).sum();
    let (mut below, mut best, mut distance) = (0.0, 0.0, 0.0);
    for (at, value) in inner.iter().enumerate().take(inner.len() - 1) {
        below += value - mean;
        let left = (at + 1) as f64;
        let right = count - left;
        let between = below * below * (1.0 / left + 1.0 / right);
        // A few faulty GPUs are no kind.
        if between > best && left.min(right) >= KIND_MIN * count {
            best = between;
            distance = -below / left - below / right;
        }
    }
    // Steps of a timer look like humps; they are far smaller than what counts.
    let counts = distance > group.least_effect / 4.0 && distance > deviation / 2.0;
    (total > 0.0 && best / total > HUMPS && counts).then_some(Doubt::TwoHumps(distance))
}

fn drift(group: &Group, deviation: f64) -> Option<Doubt> {
    let rows = group.rows().filter(|values| values.len() > 2);
    let changes: Vec<f64> = rows.map(|values| values[values.len() - 1] - values[0]).collect();
    if changes.len() < GPUS_MIN {
        return None;
    }
    let change = median(&changes);
    // The median of differences of two repeats.
    let error = deviation * (std::f64::consts::PI / changes.len() as f64).sqrt();
    let counts = change.abs() > DRIFT * group.least_effect && change.abs() > SURE * error;
    counts.then_some(Doubt::Drift(change.exp_m1()))
}

/// The share of variance that GPUs of one node have in common, by differences of two GPUs of a node
/// and of two of different nodes: medians of these, so that a few slow GPUs do not decide.
fn within_node(group: &Group, centres: &[f64], nodes: &[u32]) -> Option<Doubt> {
    let mut by_node: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (gpu, centre) in group.gpus().iter().zip(centres) {
        by_node.entry(nodes.get(*gpu as usize).copied()?).or_default().push(*centre);
    }
    let of_nodes: Vec<&Vec<f64>> = by_node.values().collect();
    let (mut inside, mut across) = (Vec::new(), Vec::new());
    for (at, own) in of_nodes.iter().enumerate() {
        let next = of_nodes[(at + 1) % of_nodes.len()];
        inside.extend(own.windows(2).map(|pair| (pair[0] - pair[1]).abs()));
        across.extend(own.iter().zip(next).map(|(one, other)| (one - other).abs()));
    }
    if inside.len() < GPUS_MIN || of_nodes.len() < 5 {
        return None;
    }
    let (inside, across) = (median(&inside), median(&across));
    if across <= 0.0 {
        return None;
    }
    let share = 1.0 - (inside / across).powi(2);
    (share > WITHIN_NODE).then_some(Doubt::WithinNode(share))
}
