//! The rates of `fizeau accept`, counted over simulated nodes.

use super::{
    model::{Fault, Model, Planted},
    random::Random,
};
use fizeau_domain::verdict::Verdict;

/// A profile is learnt anew after so many nodes: its own luck is a part of the rates.
const NODES_OF_A_PROFILE: usize = 20;

/// What became of healthy nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Healthy {
    /// How many.
    pub nodes: usize,
    /// Whose true loss was nowhere above half of the least effect. All of them: it is counted.
    pub healthy: usize,
    /// That failed before the retest.
    pub failed_at_first: usize,
    /// That failed after it.
    pub failed: usize,
    /// That passed.
    pub passed: usize,
    /// That had a series which was inconclusive.
    pub inconclusive: usize,
    /// Repeats of a metric of a device, in all.
    pub repeats: usize,
}

/// What became of nodes with one fault.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Found {
    /// How many nodes.
    pub nodes: usize,
    /// Of which a metric of the faulty device that the fault slows down failed.
    pub found: usize,
    /// Whose cause was named rightly, of those found.
    pub named: usize,
    /// Of which another device or metric failed.
    pub wrong: usize,
    /// That passed.
    pub passed: usize,
    /// That were inconclusive.
    pub inconclusive: usize,
}

/// Healthy nodes.
pub fn healthy(model: &Model, nodes: usize, is_noisy: bool, seed: u64) -> Healthy {
    let mut random = Random::new(seed, u64::from(is_noisy));
    let mut rates = Healthy { nodes, ..Healthy::default() };
    let mut references = Vec::new();
    for number in 0..nodes {
        if number % NODES_OF_A_PROFILE == 0 {
            references = model.references(&mut random);
        }
        let node = model.node(Planted::Nothing, is_noisy, &mut random);
        let accepted = model.accept(&node, &references, &mut random);
        let metrics = model.metrics.len();
        let is_healthy = (0..accepted.decisions.len()).all(|place| {
            node.loss(place) <= model.healthy.loss_max * model.metrics[place % metrics].delta + 1e-9
        });
        rates.healthy += usize::from(is_healthy);
        rates.failed_at_first += usize::from(!accepted.failed_at_first.is_empty());
        rates.repeats += accepted.repeats;
        match accepted.verdict() {
            Verdict::Fail => rates.failed += 1,
            Verdict::Pass | Verdict::Waived => rates.passed += 1,
            Verdict::Inconclusive => rates.inconclusive += 1,
        }
    }
    rates
}

/// Nodes with a fault, at twice the least effect or as the fault is by nature.
pub fn faulty(
    model: &Model,
    fault: &Fault,
    at_quantum: bool,
    is_noisy: bool,
    nodes: usize,
    seed: u64,
) -> Found {
    let stream = 2 + 4 * model.faults.iter().position(|one| one.name == fault.name).unwrap_or(0);
    let stream = stream + usize::from(at_quantum) + 2 * usize::from(is_noisy);
    let mut random = Random::new(seed, stream as u64);
    let mut rates = Found { nodes, ..Found::default() };
    let mut references = Vec::new();
    for number in 0..nodes {
        if number % NODES_OF_A_PROFILE == 0 {
            references = model.references(&mut random);
        }
        let planted = if at_quantum { Planted::Quantum(fault) } else { Planted::AtTwice(fault) };
        let node = model.node(planted, is_noisy, &mut random);
        let accepted = model.accept(&node, &references, &mut random);
        let metrics = model.metrics.len();
        let failed = |place: &usize| accepted.decisions[*place].verdict == Verdict::Fail;
        let is_its = |place: &usize| {
            place / metrics == node.faulty && fault.has(&model.metrics[place % metrics])
        };
        let all = 0..accepted.decisions.len();
        let found = all.clone().filter(is_its).any(|place| failed(&place));
        rates.found += usize::from(found);
        let cause = model.named(&node, &accepted, &fault.facts());
        rates.named += usize::from(found && cause == Some(fault.cause));
        rates.wrong += usize::from(all.filter(|place| !is_its(place)).any(|place| failed(&place)));
        match accepted.verdict() {
            Verdict::Pass | Verdict::Waived => rates.passed += 1,
            Verdict::Inconclusive => rates.inconclusive += 1,
            Verdict::Fail => {}
        }
    }
    rates
}
