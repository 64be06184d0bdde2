//! The power of a test that knows everything but the draws: the law of the noise, the healthy
//! GPUs' own law, the size of the fault and when it begins. By the lemma of Neyman and Pearson no
//! rule that names as few parts finds more. It compares the likelihoods of a device's own figures,
//! and takes two errors as the judges promise them:
//!
//! - a healthy device is named as often as leaves one false name in a hundred;
//! - a device that lost just the least effect is named in one of twenty (`fleet drift`), or by the
//!   noise of its repeats alone as often as a healthy one (`fleet survey`).

use super::judges::{Fault, METRICS, NODES, OWN, REPEAT, REPEATS, STORE, Shared, World};
use super::zoo::{Between, Noise, Zoo};

/// Draws that a quantile or a power is taken from.
const DRAWS: usize = 200_000;

/// Draws that the law of a session's figure is counted from.
const LAW_DRAWS: usize = 100_000;

/// Width of a class of that law, and its ends, in least effects.
const CLASS: f64 = 0.02;
const ENDS: [f64; 2] = [-12.0, 4.0];

/// Least effect, as a share, that relative depths of dips are set over: the mean of the metrics'.
fn effect() -> f64 {
    METRICS.iter().map(|(_, effect)| effect).sum::<f64>() / METRICS.len() as f64
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Draws sessions of one device.
struct Source<'w> {
    world: &'w World,
    zoo: Zoo,
    sessions: usize,
}

impl Source<'_> {
    /// The medians of the sessions, in least effects, with the device's own part.
    fn figures(&mut self, with_own: bool) -> Vec<f64> {
        let effect = effect();
        let scaled = match self.world.between {
            Between::Bias(size) => Between::Bias(size * effect),
            Between::Walk(size) => Between::Walk(size * effect),
            other => other,
        };
        let own = if with_own { OWN * self.zoo.normal() } else { 0.0 };
        let factors = self.zoo.sessions(scaled, self.sessions);
        let one = |factor: f64| {
            let mut times = self.zoo.times(self.world.noise, REPEATS, REPEAT * effect);
            own - (median(&mut times) * factor).ln() / effect
        };
        factors.into_iter().map(one).collect()
    }
}

/// The law of a session's figure, in classes.
struct Law(Vec<f64>);

impl Law {
    fn of(world: &World, seed: u64) -> Law {
        let mut source = Source { world, zoo: Zoo::new(seed), sessions: 1 };
        let classes = ((ENDS[1] - ENDS[0]) / CLASS) as usize;
        let mut counts = vec![0.2; classes];
        for _ in 0..LAW_DRAWS {
            counts[class(source.figures(false)[0], classes)] += 1.0;
        }
        let all: f64 = counts.iter().sum();
        Law(counts.into_iter().map(|count| (count / all).ln()).collect())
    }

    /// Logarithm of the likelihood of figures with these losses, over what a device may have of
    /// its own.
    fn of_figures(&self, figures: &[f64], losses: &[f64]) -> f64 {
        const GRID: [f64; 9] = [-2.4, -1.8, -1.2, -0.6, 0.0, 0.6, 1.2, 1.8, 2.4];
        let with = |own: &f64| {
            let all = figures.iter().zip(losses);
            let sum: f64 = { all }
                .map(|(figure, loss)| self.0[class(figure - OWN * own + loss, self.0.len())])
                .sum();
            sum - own * own / 2.0
        };
        let all: Vec<f64> = GRID.iter().map(with).collect();
        let most = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        most + all.iter().map(|one| (one - most).exp()).sum::<f64>().ln()
    }
}

fn class(figure: f64, classes: usize) -> usize {
    (((figure - ENDS[0]) / CLASS).max(0.0) as usize).min(classes - 1)
}

/// The covariance of the sessions of one device, where all laws are normal. `[session, step]` are
/// variances of what a session is off and of a walk's step.
fn covariance(count: usize, [session, step]: [f64; 2]) -> Vec<Vec<f64>> {
    let at = |a: usize, b: usize| {
        let own = OWN * OWN + step * (a.min(b) + 1) as f64;
        if a == b { own + session } else { own }
    };
    (0..count).map(|a| (0..count).map(|b| at(a, b)).collect()).collect()
}

/// The distance of a fault from nothing in standard deviations: the root of d' S^-1 d, by Cholesky.
fn distance(mut matrix: Vec<Vec<f64>>, losses: &[f64]) -> f64 {
    let mut left = losses.to_vec();
    let mut square = 0.0;
    for at in 0..left.len() {
        let pivot = matrix[at][at].sqrt();
        left[at] /= pivot;
        square += left[at] * left[at];
        let column: Vec<f64> = matrix.iter().map(|row| row[at] / pivot).collect();
        for below in at + 1..left.len() {
            left[below] -= column[below] * left[at];
            for (cell, other) in matrix[below].iter_mut().zip(&column).take(below + 1).skip(at + 1)
            {
                *cell -= column[below] * other;
            }
        }
    }
    square.sqrt()
}

/// The variances of a world whose laws are all normal; none of another.
fn normal(world: &World) -> Option<[f64; 2]> {
    // The mean of repeats has all that normal ones tell.
    let repeats = REPEAT * REPEAT / REPEATS as f64;
    if world.noise != Noise::Normal {
        return None;
    }
    match (world.between, world.shared) {
        (Between::Nothing, _) => Some([repeats, 0.0]),
        (Between::Bias(size), Shared::Device) => Some([repeats + size * size, 0.0]),
        // The other seven GPUs of the node tell what its session is off.
        (Between::Bias(_), Shared::Node) => Some([repeats * (1.0 + 1.0 / 7.0), 0.0]),
        (Between::Walk(size), _) => Some([repeats, size * size]),
        (Between::Dip { .. }, _) => None,
    }
}

/// The standard normal number that is exceeded with this probability, by bisection.
fn exceeded(probability: f64) -> f64 {
    let (mut low, mut high) = (-9.0, 9.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        match tail(middle) > probability {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

fn tail(z: f64) -> f64 {
    fizeau_domain::stats::student::upper_tail(z, f64::INFINITY)
}

/// Power where two laws are normal, `apart` standard deviations, and the first is taken for the
/// second with probability `error`.
fn apart(apart: f64, error: f64) -> f64 {
    tail(exceeded(error) - apart)
}

/// Power by draws, where the likelihoods of `other` and `fault` are compared.
fn drawn(source: &mut Source<'_>, law: &Law, [other, fault]: [&[f64]; 2], error: f64) -> f64 {
    let mut ratios = |losses: &[f64]| -> Vec<f64> {
        let one = |_| {
            let figures: Vec<f64> = source
                .figures(true)
                .iter()
                .zip(losses)
                .map(|(figure, loss)| figure - loss)
                .collect();
            law.of_figures(&figures, fault) - law.of_figures(&figures, other)
        };
        (0..DRAWS / losses.len().max(4)).map(one).collect()
    };
    let (mut of_other, of_fault) = (ratios(other), ratios(fault));
    of_other.sort_by(f64::total_cmp);
    let place = ((1.0 - error) * of_other.len() as f64) as usize;
    let limit = of_other[place.min(of_other.len() - 1)];
    of_fault.iter().filter(|ratio| **ratio > limit).count() as f64 / of_fault.len() as f64
}

/// What a test sees of one device.
struct Case<'w> {
    world: &'w World,
    sessions: usize,
    /// How often a healthy device may be named.
    error: f64,
    fault: Fault,
}

impl Case<'_> {
    fn losses(&self, fault: Fault) -> Vec<f64> {
        (0..self.sessions).map(|at| fault.lost(at, self.sessions)).collect()
    }

    /// The power beside another state, which is taken for the fault with probability `error`.
    fn beside(&self, other: Fault, error: f64, seed: u64) -> f64 {
        let (one, losses) = (self.losses(other), self.losses(self.fault));
        if let Some(variances) = normal(self.world) {
            let between: Vec<f64> = losses.iter().zip(&one).map(|(a, b)| a - b).collect();
            return apart(distance(covariance(self.sessions, variances), &between), error);
        }
        let mut source = Source { world: self.world, zoo: Zoo::new(seed), sessions: self.sessions };
        drawn(&mut source, &Law::of(self.world, seed + 1), [&one, &losses], error)
    }
}

/// How often a device that lost just the least effect may be named by `fleet drift`.
const JUST: f64 = 0.05;

/// The best power of a rule of `fleet drift`.
pub fn of_drift(world: &World, fault: Fault, seed: u64) -> f64 {
    let (nodes, sessions) = STORE;
    let figures = f64::from(nodes) * 8.0 * METRICS.len() as f64;
    // One false name in a hundred, where the six are named.
    let case = Case { world, sessions, error: 0.06 / figures, fault };
    let healthy = case.beside(Fault::Nothing, case.error, seed);
    match fault {
        Fault::Step(_) => healthy.min(case.beside(Fault::Step(1.0), JUST, seed)),
        _ => healthy,
    }
}

/// The best power of a rule of `fleet survey`, of noises that are normal; of others it is no
/// number, since draws do not reach a probability of one in 40,000.
pub fn of_survey(world: &World, fault: Fault, sessions: usize, seed: u64) -> f64 {
    let figures = f64::from(NODES) * 8.0 * METRICS.len() as f64;
    let case = Case { world, sessions, error: 0.08 / figures, fault: whole(fault) };
    let Fault::Step(by) = fault else { return f64::NAN };
    if normal(world).is_none() {
        return f64::NAN;
    }
    let healthy = case.beside(Fault::Nothing, case.error, seed);
    // What a session is off is a loss of that session: repeats alone are the error here.
    let repeats = REPEAT / ((REPEATS * sessions) as f64).sqrt();
    let limit = 1.0 + exceeded(case.error) * repeats;
    healthy.min(tail((limit - by) / repeats.hypot(OWN)))
}

/// A fault that is there in all sessions.
fn whole(fault: Fault) -> Fault {
    match fault {
        Fault::Step(by) => Fault::Whole(by),
        other => other,
    }
}
