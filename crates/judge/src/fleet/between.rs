//! What one session of a device is off by beyond its repeats, beside its stratum and beside the
//! other devices of its own node, which have what the whole node's session is off by too.

use super::Group;
use crate::accept::decide::{Against, Bar, PEERS_MIN, Standing, error_of_median, sum};
use fizeau_domain::stats::{
    quantile::{median, median_absolute_deviation, quantile, sorted},
    student::Variance,
};
use std::collections::BTreeMap;

/// Standard deviation between sessions of a healthy device, in least effects, as it is assumed
/// until two sessions are there: temperature, placement and what shares the power differ from
/// session to session, by 0.5 to 1 % of memory's rates and of products.
pub const SESSION: f64 = 0.3;

/// From this many GPUs on their own spread shows whether sessions differ by more than that.
const SPREAD_MIN: usize = 20;

/// From this many GPUs on the farthest twentieths show whether they are nearer than the middle half
/// says.
const TWENTIETHS_MIN: usize = 200;

/// Whole nodes differ where devices scatter beside their nodes by less than this share of what they
/// scatter by beside the others, as variances.
pub(super) const NODES_DIFFER: f64 = 0.6;

/// Fewer nodes than these do not show whether they differ.
const NODES_MIN: usize = 5;

/// Standard deviation of normal values over the median of their absolute values; and the standard
/// normal number that one of twenty exceeds.
const NORMAL: [f64; 2] = [1.4826, 1.6449];

/// Degrees of freedom of a variance by each of both, over those of squares, of normal values
/// (Huber and Ronchetti, Robust Statistics, 2009; a quantile's variance is p (1 - p) / n f^2).
const INFORMATION: [f64; 2] = [0.37, 0.30];

/// How far devices are spread, as a variance of logarithms: as a normal law has it whose middle
/// half is theirs. Where the highest and the lowest twentieth are both nearer than that law has
/// them, as where each device is in one of two modes, by the farther of these.
fn spread(centres: &[f64]) -> Variance {
    let count = centres.len().saturating_sub(1) as f64;
    let of_half = NORMAL[0] * median_absolute_deviation(centres);
    let half = Variance { value: of_half * of_half, freedom: INFORMATION[0] * count };
    if centres.len() < TWENTIETHS_MIN {
        return half;
    }
    let (ordered, middle) = (sorted(centres), median(centres));
    let of_twentieth = |at: f64| (quantile(&ordered, at) - middle).abs() / NORMAL[1];
    let tail = of_twentieth(0.05).max(of_twentieth(0.95));
    let tail = Variance { value: tail * tail, freedom: INFORMATION[1] * count };
    if tail.value < half.value { tail } else { half }
}

/// Variance of one session of a device beyond that of its repeats: as earlier sessions show it.
/// Else [`SESSION`], or what the GPUs' own spread says where that is more, since what a session
/// has of its own, a GPU's or its node's, is a part of it.
pub(super) fn session(group: &Group, centres: &[f64], noise: Variance, repeats: usize) -> Variance {
    let of_repeats = error_of_median(noise, repeats.max(1)).value;
    if let Some(known) = group.sessions {
        return Variance { value: (known.value - of_repeats).max(0.0), ..known };
    }
    match centres.len() < SPREAD_MIN {
        true => assumed(group.least_effect),
        false => beyond(spread(centres), of_repeats, assumed(group.least_effect)),
    }
}

fn assumed(least_effect: f64) -> Variance {
    Variance { value: (SESSION * least_effect).powi(2), freedom: f64::INFINITY }
}

fn beyond(spread: Variance, of_repeats: f64, least: Variance) -> Variance {
    let value = spread.value - of_repeats;
    if value > least.value { Variance { value, ..spread } } else { least }
}

/// The variance of the median of the medians of some sessions, over that of one session: of normal
/// values in order (Harter, Biometrika 48, 1961) for up to five, pi / 2n of more.
pub(super) fn of_medians(sessions: u16) -> f64 {
    match sessions {
        0 | 1 => 1.0,
        2 => 0.5,
        3 => 0.449,
        4 => 0.298,
        5 => 0.287,
        more => std::f64::consts::FRAC_PI_2 / f64::from(more),
    }
}

/// Variance of the estimator of Hodges and Lehmann over that of a mean, of normal values: pi / 3.
const RANKS: f64 = std::f64::consts::FRAC_PI_3;

/// The place of some values: the median of the means of any two of them, and of each (Hodges and
/// Lehmann, Annals of Mathematical Statistics 34, 1963). A quarter of them may be anything, and of
/// seven it is off by less than their median.
fn place(values: &[f64]) -> f64 {
    let pairs = { values.iter().enumerate() }
        .flat_map(|(at, one)| values[at..].iter().map(move |other| (one + other) / 2.0));
    median(&pairs.collect::<Vec<f64>>())
}

/// What a device is set beside in its own node.
#[derive(Clone, Copy, Debug)]
struct Beside {
    /// Place of the others' medians, as a logarithm.
    centre: f64,
    /// How many others.
    others: f64,
}

/// The other devices of each device's node, where whole nodes differ.
pub(super) struct Neighbours {
    beside: Vec<Option<Beside>>,
    /// Of a healthy device beside what its node's devices have in common.
    own: Variance,
    /// Of a session of it, beyond its repeats.
    pub(super) session: Variance,
    /// Of the median of its repeats.
    of_repeats: f64,
}

impl Neighbours {
    /// By the medians of all devices. None where whole nodes do not differ by more than their
    /// devices do, or too few tell.
    pub(super) fn of(
        group: &Group,
        centres: &[f64],
        nodes: &[u32],
        of_repeats: f64,
    ) -> Option<Neighbours> {
        let mut by_node: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        let node = |row: usize| nodes[group.gpu(row) as usize];
        (0..group.len()).for_each(|row| by_node.entry(node(row)).or_default().push(row));
        let beside = |row: usize| {
            let all = by_node.get(&node(row))?.iter().filter(|other| **other != row);
            let others: Vec<f64> = all.map(|other| centres[*other]).collect();
            let centre = (others.len() >= PEERS_MIN).then(|| place(&others))?;
            Some(Beside { centre, others: others.len() as f64 })
        };
        let beside: Vec<Option<Beside>> = (0..group.len()).map(beside).collect();
        let known = centres.iter().zip(&beside).filter_map(|(log, one)| Some((log, (*one)?)));
        // The place of the others is off by itself.
        let apart: Vec<f64> = known
            .map(|(log, one)| (log - one.centre) / (1.0 + RANKS / one.others).sqrt())
            .collect();
        if apart.len() < SPREAD_MIN || by_node.len() < NODES_MIN {
            return None;
        }
        let own = spread(&apart);
        let session = match group.sessions {
            // Earlier sessions say how much a session is off, its node's part with it.
            Some(known) => {
                let value = known.value.min(own.value) - of_repeats;
                Variance { value: value.max(0.0), ..own }
            }
            None => beyond(own, of_repeats, assumed(group.least_effect)),
        };
        let differ = own.value < NODES_DIFFER * spread(centres).value;
        differ.then_some(Neighbours { beside, own, session, of_repeats })
    }

    /// The variance of the bar that a device's neighbours make, of the first that has any.
    pub(super) fn error_of_bar(&self) -> f64 {
        let first = self.beside.iter().flatten().next();
        first.map_or(0.0, |one| self.of_repeats * RANKS / one.others)
    }

    /// How a device stands below its neighbours by the least effect, and below what one of them
    /// that loses nothing may be off by in a session. None where its node has too few.
    pub(super) fn standings(
        &self,
        group: &Group,
        row: usize,
        (log, error): (f64, Variance),
    ) -> Option<[Standing; 2]> {
        let one = self.beside[row]?;
        let at = |log: f64, each: f64| Bar {
            against: Against::Peers,
            log,
            error: Variance { value: each * RANKS / one.others, ..self.own },
            may_pass: false,
            may_fail: true,
        };
        let value = self.session.value * of_medians(group.of(row).sessions);
        let of_session = Variance { value, ..self.session };
        let limit = one.centre + (1.0 - group.least_effect).ln();
        // A loss is one beside these neighbours: how they differ is in the second.
        let below = Standing::of(log, error, &at(limit, self.of_repeats));
        let error = sum(&[error, of_session]);
        let healthy = Standing::of(log, error, &at(one.centre, self.own.value));
        Some([below, healthy])
    }
}
